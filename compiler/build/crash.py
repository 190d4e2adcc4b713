"""The crash bundle: what is needed to find a fault of ours, in a folder that a user can look through and send."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from .folder import digest, to_json

# Texts that people write; weights and inputs are left out, since they are large and may be private.
_COPIED = (".tdsl", ".rules", ".toml")
_PACKAGES = ("tdslc", "numpy", "ml_dtypes", "egglog", "lark", "click", "safetensors")


def write_bundle(error: BaseException, args: Sequence[str]) -> str:
    """Write the traceback of `error`, the command `args` and the texts it names; the folder, or why there is none."""
    text = "".join(traceback.format_exception(error))
    name = f"tdslc-crash-{digest(text)[:12]}"
    for parent in (Path(), Path(tempfile.gettempdir())):
        folder = parent / name
        try:
            folder.mkdir(exist_ok=True)
            (folder / "traceback.txt").write_text(text, encoding="utf-8")
            (folder / "command.json").write_text(to_json(_command(args)), encoding="utf-8")
            _copy_texts(args, folder)
            return str(folder)
        except OSError:
            continue
    return "no folder: none could be written"


def _command(args: Sequence[str]) -> dict[str, object]:
    return {"args": list(args), "python": platform.python_version(), "platform": platform.platform(), **_versions()}


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _copy_texts(args: Sequence[str], folder: Path) -> None:
    """Copies the texts named by `args`, alone (`m.tdsl`) or within (`mxu:chip.toml`)."""
    for arg in args:
        path = Path(arg.rpartition(":")[2] if arg.endswith(".toml") else arg)
        if path.suffix in _COPIED and path.is_file() and not path.is_symlink():
            shutil.copyfile(path, folder / os.path.basename(path))
