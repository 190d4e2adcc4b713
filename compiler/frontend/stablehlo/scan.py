"""Tokens of an MLIR text. Tensor types and dense literals are one token each, however long.

Must not know the grammar. A scanner by hand: Lark's lexer took five times as long on the same text, and a `dense<...>`
of megabytes is one search for its end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from ...source import Diagnostic, DiagnosticError, SourceFile

# Possessive (`++`), so that no malformed text makes the scanner go back over it.
_TOKENS = re.compile(
    r"""
    (?:\s++|//[^\n]*+)*+
    (?:
      (?P<tensor>tensor<(?:[^<>]++|<(?:[^<>]++|<[^<>]*+>)*+>)*+>)
    | (?P<dense>dense<[^>]*+>)
    | (?P<value>%[\w$.-]++(?:\#\d++)?+)
    | (?P<word>[A-Za-z_][\w$.]*+)
    | (?P<number>-?(?:0x[0-9A-Fa-f]++|\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?))
    | (?P<string>"(?:[^"\\\n]++|\\.)*+")
    | (?P<symbol>@(?:[\w$.-]++|"(?:[^"\\\n]++|\\.)*+"))
    | (?P<caret>\^[\w$.-]++)
    | (?P<hash>\#[\w$.]++)
    | (?P<bang>![\w$.]++)
    | (?P<arrow>->)
    | (?P<resources>\{-\#(?:[^#]++|\#(?!-\}))*+\#-\})
    | (?P<mark>[()\[\]{}<>,:=?*+/|;-])
    | (?P<end>\Z)
    )
    """,
    re.VERBOSE,
)


@dataclass(slots=True)
class Cursor:
    """The tokens of a file and how far they are read. After the last one there is always one of kind `end`."""

    file: SourceFile
    kinds: list[str] = field(repr=False)
    texts: list[str] = field(repr=False)
    starts: list[int] = field(repr=False)
    at: int = 0

    @property
    def kind(self) -> str:
        return self.kinds[self.at]

    @property
    def text(self) -> str:
        return self.texts[self.at]

    @property
    def start(self) -> int:
        """Offset of the next token."""
        return self.starts[self.at]

    @property
    def done(self) -> int:
        """Offset just after the token read last."""
        return self.starts[self.at - 1] + len(self.texts[self.at - 1]) if self.at else 0

    def peek(self, ahead: int = 1) -> str:
        """The text of a later token; "" beyond the end."""
        return self.texts[self.at + ahead] if self.at + ahead < len(self.texts) else ""

    def take(self) -> str:
        """The text of the next token, which is then read. The end is never passed."""
        text = self.texts[self.at]
        if self.kinds[self.at] != "end":
            self.at += 1
        return text

    def skip(self, text: str) -> bool:
        """Whether the next token is `text`, which is then read."""
        if self.texts[self.at] != text or self.kinds[self.at] == "end":
            return False
        self.at += 1
        return True

    def expect(self, text: str, where: str) -> None:
        if not self.skip(text):
            self.fail(f"expected `{text}` {where}")

    def expect_kind(self, kind: str, what: str) -> str:
        """The text of the next token, which must be of `kind`."""
        if self.kind != kind:
            self.fail(f"expected {what}")
        return self.take()

    def fail(self, message: str) -> NoReturn:
        """Raises the syntax error `message` at the next token."""
        found = "the end of the text" if self.kind == "end" else f"`{_short(self.text)}`"
        raise malformed(self.file, f"{message}, got {found}", self.start, self.start + len(self.text))


def malformed(file: SourceFile, message: str, start: int, end: int) -> DiagnosticError:
    """The error that a text is not written as MLIR is."""
    help = "give the text that `lowered.as_text()` or `stablehlo-opt` prints"
    return DiagnosticError(Diagnostic("E1113", message, file.span(start, min(end, start + 60)), help=help))


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 24 else f"{plain[:24]}…"


def scan(file: SourceFile) -> Cursor:
    """The tokens of `file`. DiagnosticError at the first character that begins none."""
    kinds, texts, starts = list[str](), list[str](), list[int]()
    text, at = file.text, 0
    match = _TOKENS.match
    while True:
        found = match(text, at)
        if found is None:
            at = _blank(text, at)
            raise malformed(file, f"{_wrong(text, at)}", at, at + 1)
        kind = found.lastgroup or "end"
        kinds.append(kind)
        texts.append(found[kind])
        starts.append(found.start(kind))
        at = found.end()
        if kind == "end":
            return Cursor(file, kinds, texts, starts)


_BLANK = re.compile(r"(?:\s++|//[^\n]*+)*+")


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _wrong(text: str, at: int) -> str:
    return "a string that is never closed" if text[at] == '"' else f"`{text[at]}` has no meaning in MLIR"
