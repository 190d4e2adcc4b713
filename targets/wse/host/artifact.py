"""What `cslc` leaves in its output folder, so that a runtime finds the program again.

`out.json` has the params, as scripts read them; `program.json` the command line and the folder it was given in. The
program is compiled again when it is loaded, which takes less time than to trust and check a stored copy.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from ....compiler.source import Diagnostic, DiagnosticError
from ..csl.program import Program
from .cslc import Options, check, read_options

_PROGRAM = "program.json"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled program in `folder`; `argv` was given in `directory`."""

    folder: Path
    argv: tuple[str, ...]
    directory: str

    @property
    def options(self) -> Options:
        return read_options(self.argv)

    def program(self) -> Program:
        """The program, compiled anew. Raises DiagnosticError."""
        before = os.getcwd()
        try:
            os.chdir(self.directory)
            return check(self.options)
        except FileNotFoundError as error:
            raise _missing(self.folder, f"the folder {self.directory} it was compiled in is gone") from error
        finally:
            os.chdir(before)


def write_artifact(folder: Path, argv: tuple[str, ...], options: Options) -> None:
    """Write both files; the folder is made. Scripts convert by themselves, so every param and color is text."""
    folder.mkdir(parents=True, exist_ok=True)
    colors = {name: str(value) for name, value in options.colors.items()}
    params = {name: str(value) for name, value in options.params.items()} | colors
    _write(folder / "out.json", {"params": params, "colors": colors})
    _write(folder / _PROGRAM, {"argv": list(argv), "directory": os.getcwd()})


def read_artifact(folder: Path) -> Artifact:
    """What `write_artifact` left in `folder`. Raises DiagnosticError (E1051)."""
    try:
        found = json.loads((folder / _PROGRAM).read_text(encoding="utf-8"))
        return Artifact(folder, tuple(map(str, found["argv"])), str(found["directory"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _missing(folder, "it holds no compiled program") from error


def _missing(folder: Path, why: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic("E1051", f"cannot load `{folder}`: {why}", help=f"compile the program: cslc LAYOUT.csl -o {folder}")
    )


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
