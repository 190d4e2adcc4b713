"""`debug_util`: the records that `<debug>` made while a program ran, from the folder it ran in.

Must not know how a mesh is simulated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .artifact import read_artifact
from .runtime import TRACES, SdkError


class debug_util:  # the name that scripts import
    """Reads the records beside the program in `folder`."""

    def __init__(self, folder: str, cmaddr: str | None = None) -> None:
        path = Path(folder)
        self._offsets = read_artifact(path).options.offsets
        try:
            found: dict[str, Any] = json.loads((path / TRACES).read_text(encoding="utf-8"))
        except OSError:
            raise SdkError(f"`{folder}` holds no records: run a program that makes some, then call stop()") from None
        self._records = {(t["x"], t["y"], t["key"]): t["records"] for t in found["traces"]}

    def read_trace(self, x: int, y: int, key: str) -> list[Any]:
        """The values that the PE at (x, y) of the fabric recorded under `key`, in order."""
        column, row = x - self._offsets[0], y - self._offsets[1]
        return list(self._records.get((column, row, key), []))
