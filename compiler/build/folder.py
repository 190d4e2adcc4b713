"""The build folder: files written beside, then renamed; and read back.

Must not know what the files mean, except that `manifest.json` lists them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ..source import Diagnostic, DiagnosticError

MANIFEST = "manifest.json"
SCHEMA = "tdslc-build/1"
# Where the levels lie.
IR = {"graph": "ir/00-graph.txt", "rewritten": "ir/10-rewritten.txt", "plan": "ir/20-plan.txt"}
PROGRAM = "program/"
CHIP = "machine.toml"
ORIGIN = "rules/origin.json"
TRACE = "rules/trace.jsonl"


def to_json(value: object) -> str:
    """`value` as the JSON text of build folders: indented, keys as given, NaN refused, a newline at the end."""
    return json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def digest(text: str | bytes) -> str:
    """sha256 (hex) of a text as UTF-8, or of bytes."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def with_manifest(files: Mapping[str, str], facts: Mapping[str, object]) -> dict[str, str]:
    """`files` and their manifest: `facts`, and the digest of every file."""
    listed = {name: digest(files[name]) for name in sorted(files)}
    return {MANIFEST: to_json({"schema": SCHEMA, **facts, "files": listed}), **files}


def write_folder(path: str, files: Mapping[str, str]) -> None:
    """Make `path` a folder that holds `files` (its manifest among them), all of them or, when that fails, as before.

    A folder that is there is replaced only when it is a build of ours; what others put into it is kept.
    DiagnosticError (E0701, E0702).
    """
    folder = Path(os.path.realpath(path))
    refuse_foreign(path)
    beside = folder.parent / f".{folder.name}.{os.getpid()}.new"
    before = folder.parent / f".{folder.name}.{os.getpid()}.old"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _write_all(beside, files)
        _swap(folder, beside, before)
    except OSError as error:
        said = f"{path} cannot be written: {(error.strerror or str(error)).lower()}"
        raise DiagnosticError(Diagnostic("E0702", said, help="name another folder with `-o`")) from None
    finally:
        # Interrupted, a disk that is full: nothing half done stays.
        for left in (beside, before):
            shutil.rmtree(left, ignore_errors=True)


def refuse_foreign(path: str) -> None:
    """DiagnosticError (E0701) when `path` is there and is no build of ours, (E0702) when it could not be made.

    Better known before a build than after it.
    """
    folder = Path(path)
    if not os.path.lexists(folder):
        _refuse_unwritable(folder)
        return
    if _is_ours(folder) or _is_empty(folder):
        return
    what = "a folder without our manifest.json" if folder.is_dir() else "not a folder"
    said = f"{path} is there and is {what}; it is not replaced"
    raise DiagnosticError(Diagnostic("E0701", said, help="name another folder with `-o`, or remove this one"))


def _refuse_unwritable(folder: Path) -> None:
    above = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "may not be written to" if above.is_dir() else "is a file"
        said = f"{folder} cannot be written: {os.path.relpath(above)} {why}"
        raise DiagnosticError(Diagnostic("E0702", said, help="name another folder with `-o`"))


def read_manifest(path: str) -> dict[str, Any]:
    """The manifest of the build folder `path`. DiagnosticError (E0703)."""
    try:
        value = json.loads((Path(path) / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        said = f"{path} is no build folder: it has no {MANIFEST}"
        raise DiagnosticError(Diagnostic("E0703", said, help="`tdslc build` makes one")) from None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, MANIFEST, error) from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:  # pyright: ignore[reportUnknownMemberType]
        raise DiagnosticError(Diagnostic("E0703", f"{path} is no build of this tdslc: its manifest is not {SCHEMA}"))
    return cast("dict[str, Any]", value)


def read_file(path: str, name: str, help: str | None = None) -> str:
    """The text of file `name` in the build folder `path`. DiagnosticError (E0703)."""
    try:
        return (Path(path) / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DiagnosticError(Diagnostic("E0703", f"{path} has no {name}", help=help)) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, name, error) from None


def read_json(path: str, name: str) -> dict[str, Any]:
    """The JSON object in file `name` of the build folder `path`. DiagnosticError (E0703)."""
    stopped = "the build stopped before this file was made; build again without `--stop-after`"
    try:
        value = json.loads(read_file(path, name, stopped))
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, name, error) from None
    if not isinstance(value, dict):
        raise DiagnosticError(Diagnostic("E0703", f"{path}/{name} is not a JSON object", help="build again"))
    return cast("dict[str, Any]", value)


def _unreadable(path: str, name: str, error: Exception) -> DiagnosticError:
    return DiagnosticError(Diagnostic("E0703", f"{path}/{name} cannot be read: {error}", help="build again"))


def _is_ours(folder: Path) -> bool:
    with contextlib.suppress(DiagnosticError):
        return bool(read_manifest(str(folder)))
    return False


def _is_empty(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return next(folder.iterdir(), None) is None
    return False


def _write_all(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")


def _swap(folder: Path, beside: Path, before: Path) -> None:
    if not folder.exists():
        beside.rename(folder)
        return
    _keep_others_files(folder, beside)
    folder.rename(before)
    try:
        beside.rename(folder)
    except BaseException:
        before.rename(folder)
        raise


def _keep_others_files(folder: Path, beside: Path) -> None:
    """Copy what a user put into the old folder; what the old build wrote is not copied."""
    ours = {MANIFEST, *_listed(folder)}
    for file in _files(folder):
        name = file.relative_to(folder)
        if name.as_posix() not in ours and not (beside / name).exists():
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, beside / name, follow_symlinks=False)


def _listed(folder: Path) -> list[str]:
    with contextlib.suppress(DiagnosticError):
        return list(read_manifest(str(folder)).get("files", {}))
    return []


def _files(folder: Path) -> Iterator[Path]:
    return (Path(root) / name for root, _, names in os.walk(folder) for name in sorted(names))
