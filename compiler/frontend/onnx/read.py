"""The bytes of a model file. Must not know what they mean."""

from __future__ import annotations

import os
import stat

from ...source import Diagnostic, DiagnosticError

# Protobuf's own limit: no message is larger.
MAX_BYTES = 2**31


def read_bytes(path: str) -> bytes:
    """The content of the regular file at `path`. DiagnosticError (E0001, E0002, E1102)."""
    try:
        info = os.stat(path)
        if not stat.S_ISREG(info.st_mode):
            raise DiagnosticError(Diagnostic("E0002", f"{path}: is not a regular file"))
        if info.st_size >= MAX_BYTES:
            said = f"{path}: {info.st_size} bytes, and no ONNX file has 2 GiB or more"
            raise DiagnosticError(Diagnostic("E1102", said, help="save it with `save_as_external_data=True`"))
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise DiagnosticError(Diagnostic("E0001", f"{path}: no such file")) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DiagnosticError(Diagnostic("E0001", f"{path}: cannot be read: {why.lower()}")) from None
