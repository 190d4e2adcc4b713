"""Reading a text the user named, with everything that can be wrong with it as a diagnostic.

Must not know what the text means.
"""

import os
import stat
from pathlib import Path

from .diagnostic import Diagnostic, DiagnosticError
from .names import nearest
from .span import SourceFile

MAX_SOURCE_BYTES = 16 * 1024 * 1024


def read_source(path: str | os.PathLike[str], most: int = MAX_SOURCE_BYTES) -> SourceFile:
    """The text at `path`: UTF-8, a byte order mark dropped, line ends made `\\n`. Raises DiagnosticError.

    Only regular files of at most `most` bytes are read, so a pipe or a device can neither hang nor flood us.
    """
    name = os.fspath(path)
    return decode_source(name, _read_bytes(name, most), most)


def decode_source(name: str, data: bytes, most: int = MAX_SOURCE_BYTES) -> SourceFile:
    """`data` as the text shown under `name`; the same checks as `read_source` after reading."""
    if len(data) > most:
        raise _refused("E0005", f"{name}: larger than {most // 2**20} MiB, too large for a source text")
    if b"\0" in data:
        raise _refused("E0003", f"{name}: a binary file, not text (byte {data.index(0)} is NUL)")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte {error.start} is 0x{data[error.start]:02x}"
        raise _refused("E0004", f"{name}:{line}: not UTF-8 text ({found})") from None
    return SourceFile(name, text.replace("\r\n", "\n").replace("\r", "\n"))


def _read_bytes(name: str, most: int) -> bytes:
    if "\0" in name:
        raise _refused("E0001", "the file name holds a NUL character")
    try:
        mode = os.stat(name).st_mode
        if stat.S_ISDIR(mode):
            raise _refused("E0002", f"{name}: is a directory, not a file")
        if not stat.S_ISREG(mode):
            raise _refused("E0002", f"{name}: is not a regular file")
        with open(name, "rb") as file:
            return file.read(most + 1)
    except FileNotFoundError:
        raise _refused("E0001", f"{name}: no such file", _siblings_hint(name)) from None
    except OSError as error:
        raise _refused("E0001", f"{name}: cannot be read: {(error.strerror or str(error)).lower()}") from None


def _siblings_hint(name: str) -> str | None:
    """The file beside it whose name is nearest, when there is one."""
    folder = Path(name).parent
    try:
        found = nearest(Path(name).name, sorted(entry.name for entry in os.scandir(folder)))
    except OSError:
        return None
    return f"did you mean `{folder / found}`?" if found else None


def _refused(code: str, message: str, help: str | None = None) -> DiagnosticError:
    return DiagnosticError(Diagnostic(code, message, help=help))
