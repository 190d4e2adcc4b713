"""Source texts and places in them.

Knows only text and offsets. Must not know any language, nor how a place is printed (`render` does).
"""

from bisect import bisect_right
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text people wrote and the path it is shown under; lines end in `\\n`. Equal when both are equal."""

    path: str
    text: str = field(repr=False)
    # Filled on first use: most files never have an error in them.
    _starts: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[type["SourceFile"], tuple[str, str]]:
        return SourceFile, (self.path, self.text)

    @property
    def line_starts(self) -> tuple[int, ...]:
        """Offset of the first character of every line; an empty text has one line."""
        if not self._starts:
            object.__setattr__(self, "_starts", _line_starts(self.text))
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column) of `offset`, both from 1, columns in characters."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Text of line `number` (from 1), without its line end."""
        start = self.line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def span(self, start: int = 0, end: int | None = None) -> "Span":
        """The place `start:end`; the whole text by default."""
        return Span(self, start, len(self.text) if end is None else end)

    def line_span(self, number: int) -> "Span":
        """The place of line `number` (from 1), without its indentation and line end."""
        text = self.line(number)
        start = self.line_starts[number - 1]
        indent = len(text) - len(text.lstrip())
        return Span(self, start + indent, start + max(len(text.rstrip()), indent))


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start:end` (offsets) of `file`. Raises ValueError when they are not inside its text."""

    file: SourceFile
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end <= len(self.file.text):
            size = len(self.file.text)
            raise ValueError(f"span {self.start}:{self.end} is outside {self.file.path}, {size} characters long")

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.file.position(self.start)[0]

    @property
    def col(self) -> int:
        """Column of the first character, from 1, in characters."""
        return self.file.position(self.start)[1]

    @property
    def end_line(self) -> int:
        """Line of the offset just after the last character, from 1."""
        return self.file.position(self.end)[0]

    @property
    def end_col(self) -> int:
        """Column of the offset just after the last character, from 1."""
        return self.file.position(self.end)[1]

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.file.text[self.start : self.end]

    @property
    def where(self) -> str:
        """`path:line`, the form reports use."""
        return f"{self.file.path}:{self.line}"

    def to(self, other: "Span") -> "Span":
        """The smallest span that covers this one and `other`, both in one file."""
        if self.file != other.file:
            raise ValueError(f"spans of two files: {self.file.path} and {other.file.path}")
        return Span(self.file, min(self.start, other.start), max(self.end, other.end))


def _line_starts(text: str) -> tuple[int, ...]:
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return tuple(starts)
