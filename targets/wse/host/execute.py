"""`tdslc csl exec`: a script runs with the host interface and `cslc` on its paths, for that process only.

The commands `cslc` and `cs_python` are two small files in a folder that is gone when the script ends. Must not know
programs or engines.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....compiler.source import Diagnostic, DiagnosticError

# As runtime.py reads it, which is too heavy to be imported here.
STRICT = "TDSLC_CSL_STRICT"
SHIM = Path(__file__).parent / "shim"


def execute(script: str, args: Sequence[str], strict: bool = False) -> int:
    """Run the Python script or shell script (`.sh`) at `script`; its exit code. Programs that it runs
    may do what the machine lets pass (`Simulation`), unless `strict`. E1053 when there is no script."""
    path = Path(script)
    if not path.is_file():
        raise DiagnosticError(Diagnostic("E1053", f"there is no script `{script}`", help="name a run.py or a .sh file"))
    shell = path.suffix == ".sh"
    with tempfile.TemporaryDirectory(prefix="tdslc-csl-") as folder:
        commands(Path(folder))
        command = ["bash" if shell else sys.executable, script, *args]
        return subprocess.run(
            command, env={**environment(os.environ, folder), STRICT: str(int(strict))}, check=False
        ).returncode


def commands(folder: Path) -> None:
    """The commands that scripts call, as files in `folder`."""
    python = shlex.quote(sys.executable)
    _command(folder / "cslc", f'exec {python} -m tdslc.targets.wse.host.cslc "$@"')
    _command(folder / "cs_python", f'exec {python} "$@"')


def environment(base: Mapping[str, str], folder: str) -> dict[str, str]:
    """`base` with the commands in `folder` and the host interface found first."""
    paths = {"PATH": folder, "PYTHONPATH": str(SHIM)}
    return {**base, **{k: os.pathsep.join(filter(None, (v, base.get(k)))) for k, v in paths.items()}}


def _command(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)
