"""What went wrong in what the user gave us, as a value.

Knows spans. Must not know who renders it, nor what any code means to a room (`codes` is the index).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .span import Span

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Note:
    """A further remark on a diagnostic, with the place it speaks of when there is one."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake: a code with a row in `codes.CODES`, a sentence, its place, remarks and what to do about it."""

    code: str
    message: str
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    help: str | None = None
    severity: Severity = "error"


class DiagnosticError(Exception):
    """The one exception by which users' mistakes travel; the driver gathers `diagnostics` (at least one)."""

    diagnostics: tuple[Diagnostic, ...]

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic]) -> None:
        gathered = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        if not gathered:
            raise ValueError("a DiagnosticError needs at least one diagnostic")
        super().__init__(gathered)
        self.diagnostics = gathered

    def __str__(self) -> str:
        return "\n".join(f"{d.severity}[{d.code}]: {d.message}" for d in self.diagnostics)


def has_errors(diagnostics: Sequence[Diagnostic]) -> bool:
    """Whether any of them is an error rather than a warning or a note."""
    return any(d.severity == "error" for d in diagnostics)
