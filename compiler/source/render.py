"""Diagnostics as text for a terminal and as JSON.

Plain text only: colour is the command line's. Whatever the source holds (tabs, wide or control characters, lines of
megabytes) the carets stand under the characters meant and nothing in it can steer the terminal.
"""

import unicodedata
from collections.abc import Iterable

from .diagnostic import Diagnostic
from .span import SourceFile, Span

# Longest piece of a source line that is shown, and how much of it stands before the place meant.
_SHOWN_CHARS = 120
_LEAD_CHARS = 40
_TAB_COLUMNS = 4
_ELISION = "..."
# Categories that print nothing, move the cursor or reorder text: controls, formats (bidi), surrogates, separators.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def render(diagnostic: Diagnostic) -> str:
    """`diagnostic` as rustc would print it, without a line end after the last line."""
    width = _gutter_width(diagnostic)
    parts = [f"{diagnostic.severity}[{diagnostic.code}]: {_clean_lines(diagnostic.message, 0)}"]
    if diagnostic.span is not None:
        parts += _excerpt(diagnostic.span, width)
    parts += [_tail_line("note", note.message, width) for note in diagnostic.notes if note.span is None]
    if diagnostic.help is not None:
        parts.append(_tail_line("help", diagnostic.help, width))
    for note in diagnostic.notes:
        if note.span is not None:
            parts += [f"note: {_clean_lines(note.message, len('note: '))}", *_excerpt(note.span, width)]
    return "\n".join(line.rstrip() for line in parts)


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """All of them in order, a blank line between two."""
    return "\n\n".join(map(render, diagnostics))


def to_json(diagnostic: Diagnostic) -> dict[str, object]:
    """`diagnostic` as JSON values: lines and columns from 1, offsets in characters from 0, `rendered` the text form."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "span": _span_json(diagnostic.span),
        "notes": [{"message": note.message, "span": _span_json(note.span)} for note in diagnostic.notes],
        "help": diagnostic.help,
        "rendered": render(diagnostic),
    }


def _span_json(span: Span | None) -> dict[str, object] | None:
    if span is None:
        return None
    return {
        "file": span.file.path,
        "start": span.start,
        "end": span.end,
        "line": span.line,
        "col": span.col,
        "end_line": span.end_line,
        "end_col": span.end_col,
    }


def _gutter_width(diagnostic: Diagnostic) -> int:
    spans = [diagnostic.span, *(note.span for note in diagnostic.notes)]
    return max((len(str(_last_line(span))) for span in spans if span is not None), default=1)


def _tail_line(label: str, message: str, width: int) -> str:
    head = f"{' ' * width} = {label}: "
    return head + _clean_lines(message, len(head))


def _clean_lines(message: str, indent: int) -> str:
    return ("\n" + " " * indent).join(_clean(line) for line in message.split("\n"))


def _clean(text: str) -> str:
    return "".join(_cell(char) for char in text)


def _last_line(span: Span) -> int:
    """Line of the last character of `span`: a span that ends in a line end does not reach into the next line."""
    if span.end > span.start and span.file.text[span.end - 1] == "\n":
        return span.file.position(span.end - 1)[0]
    return span.end_line


def _excerpt(span: Span, width: int) -> list[str]:
    """Arrow line, then the first and (when another) the last line of `span`, each over its carets."""
    blank = f"{' ' * width} |"
    first, last = span.line, _last_line(span)
    lines = [f"{' ' * width}--> {_clean(span.file.path)}:{first}:{span.col}", blank]
    for number in dict.fromkeys((first, last)):
        if number == last and last - first > 1:
            lines.append(_ELISION)
        shown, carets = _marked_line(span.file, number, span)
        lines += [f"{number:>{width}} | {shown}", f"{blank} {carets}"]
    return lines


def _marked_line(file: SourceFile, number: int, span: Span) -> tuple[str, str]:
    """Line `number` as shown, and the carets under what `span` holds of it."""
    text = file.line(number)
    at = file.line_starts[number - 1]
    indent = len(text) - len(text.lstrip())
    start = span.start - at if span.start >= at else indent
    end = max(min(span.end - at, len(text)), start)
    low = max(0, min(start - _LEAD_CHARS, len(text) - _SHOWN_CHARS)) if len(text) > _SHOWN_CHARS else 0
    high = min(low + _SHOWN_CHARS, len(text))
    head = _ELISION if low else ""
    before, marked, after = text[low:start], text[start : min(end, high)], text[min(end, high) : high]
    column = len(head)
    pieces: list[str] = []
    columns = [column]
    for piece in (before, marked, after):
        shown, column = _expand(piece, column, len(head))
        pieces.append(shown)
        columns.append(column)
    tail = _ELISION if high < len(text) else ""
    return head + "".join(pieces) + tail, " " * columns[1] + "^" * max(columns[2] - columns[1], 1)


def _expand(piece: str, column: int, origin: int) -> tuple[str, int]:
    """`piece` made printable, shown from `column` on, and the column after it; tab stops count from `origin`."""
    shown: list[str] = []
    for char in piece:
        cell = " " * (_TAB_COLUMNS - (column - origin) % _TAB_COLUMNS) if char == "\t" else _cell(char)
        shown.append(cell)
        column += sum(map(_columns, cell))
    return "".join(shown), column


def _cell(char: str) -> str:
    """`char`, or an escape for it when it would not print as itself."""
    if char.isprintable() or unicodedata.category(char) not in _INVISIBLE:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _columns(char: str) -> int:
    """Terminal columns `char` takes (Unicode Standard Annex 11): 2 when wide, 0 when it combines."""
    if char.isascii():
        return 1
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
