"""Lines and brackets: what is seen of a `.tdsl` text before its grammar.

`Layout` turns indentation into `_INDENT` and `_DEDENT` tokens as Python does: a block is indented further than its
header by any run of blanks, line ends inside brackets do not count. `brackets` finds brackets without a partner. Must
not know the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lark import Token
from lark.lark import PostLex

from ..source import Diagnostic, Note, SourceFile

MAX_NESTING = 200
_MAX_BLOCKS = 50
# Some ten seconds of parsing; a model of 5,000 statements has less than half.
MAX_TOKENS = 100_000
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_CLOSERS_TEXT = frozenset(_CLOSES.values())
_OPENERS, _CLOSERS = frozenset(("LPAR", "LSQB", "LBRACE")), frozenset(("RPAR", "RSQB", "RBRACE"))
_PIECES = re.compile(r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*|[()\[\]{}]', re.DOTALL)
_STARTS_TOP = re.compile(r"^(?:fn|op|model|dim|dtype|import|from)\b", re.MULTILINE)


class LayoutFault(Exception):
    """A mistake of indentation, or a text too long; carries its diagnostic."""

    def __init__(self, offset: int, message: str, help: str | None = None, code: str = "E0007") -> None:
        super().__init__(message)
        self.offset, self.message, self.help, self.code = offset, message, help, code

    def diagnostic(self, file: SourceFile) -> Diagnostic:
        at = min(self.offset, len(file.text))
        return Diagnostic(self.code, self.message, file.line_span(file.position(at)[0]), help=self.help)


class Layout(PostLex):
    """Lark's hook between lexer and parser."""

    always_accept = ("_NL",)

    def process(self, stream: Iterable[Token]) -> Iterator[Token]:
        indents, depth, first = [""], 0, True
        for count, token in enumerate(stream):
            if count >= MAX_TOKENS:
                help = "split it into files; what is alike is a fn, a `for` or a `repeat`"
                raise LayoutFault(
                    token.start_pos or 0, f"the file has more than {MAX_TOKENS} words and signs", help, "E0115"
                )
            if token.type == "_NL":
                if depth == 0:
                    yield token
                    yield from _indentation(token, indents)
            else:
                if first and token.column != 1 and indents == [""]:
                    raise LayoutFault(
                        token.start_pos or 0, "the first line is indented", "start it in the first column"
                    )
                depth += (token.type in _OPENERS) - (token.type in _CLOSERS)
                yield token
            first = False
        for _ in indents[1:]:
            yield Token("_DEDENT", "")


def _indentation(token: Token, indents: list[str]) -> Iterator[Token]:
    """Tokens for the step from the blocks in `indents`, which is kept up to date, to the line after `token`."""
    end = token.end_pos or 0
    indent = token.rsplit("\n", 1)[1]
    if not (indent.startswith(indents[-1]) or indents[-1].startswith(indent)):
        raise LayoutFault(
            end, "indentation mixes tabs and spaces", "indent every line of a block with the same characters"
        )
    if len(indent) > len(indents[-1]):
        if len(indents) > _MAX_BLOCKS:
            raise LayoutFault(
                end, f"blocks are nested more than {_MAX_BLOCKS} deep", "move the inner ones into a fn", "E0010"
            )
        indents.append(indent)
        yield Token.new_borrow_pos("_INDENT", indent, token)
        return
    while len(indent) < len(indents[-1]):
        indents.pop()
        yield Token.new_borrow_pos("_DEDENT", indent, token)
    if indent != indents[-1]:
        raise LayoutFault(end, "this line is indented less than the block above it, but more than the one around", None)


def brackets(file: SourceFile) -> list[Diagnostic]:
    """The first bracket that is never closed, closes nothing, closes another kind, or is nested too deeply."""
    stack: list[int] = []
    for piece in _PIECES.finditer(file.text):
        at, char = piece.start(), piece[0]
        if char in _CLOSES:
            stack.append(at)
            if len(stack) > MAX_NESTING:
                return [too_deep(file, at, at + 1)]
        elif char in _CLOSERS_TEXT:
            fault = _close(file, stack, at)
            if fault:
                return [fault]
    return [_unclosed(file, stack)] if stack else []


def too_deep(file: SourceFile, start: int, end: int) -> Diagnostic:
    """The diagnostic for nesting beyond `MAX_NESTING`."""
    return Diagnostic(
        "E0010",
        f"an expression is nested more than {MAX_NESTING} deep",
        file.span(start, end),
        help="give its parts names, one statement each",
    )


def _close(file: SourceFile, stack: list[int], at: int) -> Diagnostic | None:
    char = file.text[at]
    if not stack:
        return Diagnostic("E0006", f"this `{char}` closes nothing", file.span(at, at + 1))
    opener = stack.pop()
    wanted = _CLOSES[file.text[opener]]
    if wanted == char:
        return None
    note = Note(f"`{file.text[opener]}` is opened here", file.span(opener, opener + 1))
    return Diagnostic("E0006", f"`{char}` stands where `{wanted}` is due", file.span(at, at + 1), (note,))


def _unclosed(file: SourceFile, stack: list[int]) -> Diagnostic:
    """Blames the innermost bracket that was open when the next declaration began."""
    tops = (m.start() for m in _STARTS_TOP.finditer(file.text, stack[0]))
    end = next(tops, len(file.text))
    at = [opener for opener in stack if opener < end][-1]
    return Diagnostic("E0006", f"this `{file.text[at]}` is never closed", file.span(at, at + 1))
