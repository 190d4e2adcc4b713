"""The texts of a program through the front end and down to the task IR, as hand-written code goes, and remembered.

Must not know plans.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

from .chip import Wafer
from .csl.program import Program, compile_program
from .program import LAYOUT, PE


@lru_cache(maxsize=8)
def compiled(layout: str, pe: str, wafer: Wafer) -> Program:
    """The checked program of the two texts. Raises DiagnosticError."""
    # The front end resolves imports by path; what it read is in its spans, so that the files may go again.
    with tempfile.TemporaryDirectory() as folder:
        for name, text in ((LAYOUT, layout), (PE, pe)):
            (Path(folder) / name).write_text(text, encoding="utf-8")
        return compile_program(str(Path(folder) / LAYOUT), wafer.front_end)
