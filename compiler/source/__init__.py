"""Source texts, places in them, and diagnostics: what a user's mistake is and how it is shown.

Must not know anything else of tdslc: every other room builds on this one.
"""

from .codes import CODES, Code
from .diagnostic import Diagnostic, DiagnosticError, Note, Severity, has_errors
from .files import MAX_SOURCE_BYTES, decode_source, read_source
from .names import did_you_mean, nearest
from .render import render, render_all, to_json
from .span import SourceFile, Span

__all__ = [
    "CODES",
    "MAX_SOURCE_BYTES",
    "Code",
    "Diagnostic",
    "DiagnosticError",
    "Note",
    "Severity",
    "SourceFile",
    "Span",
    "decode_source",
    "did_you_mean",
    "has_errors",
    "nearest",
    "read_source",
    "render",
    "render_all",
    "to_json",
]
