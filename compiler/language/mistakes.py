"""What a syntax error was meant to be: a table of wrong examples, and what to say to each.

The parser stops in some state at some token; an example that stops it in the same way is the same mistake (Lark's
`match_examples`, with the table made once). One that no example covers is told by what could have stood there. Must
not know syntax values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import cast

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ..source import Diagnostic, SourceFile, Span
from .mistake_examples import EXAMPLES, Mistake

TOP_LEVEL = re.compile(r"^(?:fn|op|model|dim|dtype|import|from)\b", re.MULTILINE)


_FOREIGN_WORDS = {
    "while": Mistake(
        "there is no `while`", "a trip count known at build is `repeat i in range(n):`, or `for` to unroll it"
    ),
    "def": Mistake("there is no `def`", "write `fn name(x: T[B, S]) -> T[B, S]:`"),
    "func": Mistake("there is no `func`", "write `fn name(x: T[B, S]) -> T[B, S]:`"),
    "function": Mistake("there is no `function`", "write `fn name(x: T[B, S]) -> T[B, S]:`"),
    "class": Mistake("there is no `class`", "a layer is a `fn` that declares its parameters with `param`"),
    "let": Mistake("there is no `let`", "write `name = value`"),
    "var": Mistake("there is no `var`", "write `name = value`"),
    "const": Mistake("there is no `const`", "write `NAME = value`"),
    "lambda": Mistake("there is no `lambda`", "write a `fn`"),
    "print": Mistake("there is no `print`", "a model returns what is to be seen"),
    "try": Mistake("there is no `try`", None),
    "with": Mistake("there is no `with`", 'parameters are scoped by `f(x) as "name"`'),
    "break": Mistake("there is no `break`", "loops run as often as their header says"),
    "continue": Mistake("there is no `continue`", "use `if` around the rest of the body"),
    "global": Mistake("there is no `global`", "constants at the top of a file can be read anywhere"),
}

_MISPLACED = Mistake(
    "a declaration stands inside a block", "fns, models, dims, dtypes and imports stand at the top level"
)
_ALONE = Mistake("this follows no `if`", "`elif` and `else` come right after the block of an `if`, indented as it is")
# Words of the language that begin a line where they cannot.
_STRAY_WORDS = {
    **dict.fromkeys(("fn", "op", "model", "dim", "dtype", "import", "from"), _MISPLACED),
    "else": _ALONE,
    "elif": _ALONE,
}

_FOREIGN_CHARS = {
    "!": "write `not x`, or `!=` to compare",
    "&": "write `and`, for integers `bit_and(x, y)`",
    "|": "write `or`, for integers `bit_or(x, y)`",
    "~": "write `not x`, for integers `bit_not(x)`",
    "^": "write `x ** y` for powers, `xor(x, y)` for exclusive or",
    ";": "put each statement on a line of its own",
    "\\": "a line goes on while a bracket is open",
    "?": "write `a if condition else b`",
    "$": None,
    "{": "lists are written `[a, b]`, blocks are indented",
    "}": "lists are written `[a, b]`, blocks are indented",
}

_WORDS = {
    "_NL": "the end of the line",
    "$END": "the end of the file",
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "STRING": "a string",
    "LONG_STRING": "a string",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "COLON": "`:`",
    "COMMA": "`,`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "EQUAL": "`=`",
    "DOT": "`.`",
    "__ANON_0": "`..`",
    "__ANON_1": "`->`",
}


# Tokens that begin a value: one example stands for all of them.
_VALUES = frozenset(("NAME", "INT", "FLOAT", "STRING", "LONG_STRING", "TRUE", "FALSE", "NONE"))
_MAX_EXPECTED = 4


def explain(fault: UnexpectedInput, file: SourceFile, parse: Callable[[str], object]) -> tuple[int, Diagnostic]:
    """Offset of the mistake, and what it is. `parse` is the parser that raised `fault`."""
    if isinstance(fault, UnexpectedCharacters):
        at: int = getattr(fault, "pos_in_stream", 0)
        return at, _character(file, at)
    if not isinstance(fault, UnexpectedToken):
        return len(file.text), Diagnostic(
            "E0009", "the file ends in the middle of a statement", _span(file, len(file.text))
        )
    token = _token(fault)
    start, end = _place(token, len(file.text))
    foreign = _foreign(file, start, token)
    if foreign is not None:
        return start, Diagnostic("E0009", foreign[0].message, foreign[1], help=foreign[0].help)
    mistake = _known(fault, parse) or _unforeseen(fault)
    return start, Diagnostic("E0009", mistake.message, _span(file, start, end), help=mistake.help)


def _known(fault: UnexpectedToken, parse: Callable[[str], object]) -> Mistake | None:
    """The mistake of the examples that stop in the state and at the kind of token of `fault`."""
    table = _table(parse)
    exact = table.get((_state(fault), _kind(_token(fault))))
    if exact is not None:
        return exact
    here = {mistake for (state, _), mistake in table.items() if state == _state(fault)}
    return here.pop() if len(here) == 1 else None


@cache
def _table(parse: Callable[[str], object]) -> dict[tuple[object, str], Mistake]:
    found: dict[tuple[object, str], Mistake] = {}
    for mistake, examples in EXAMPLES.items():
        for example in examples:
            state, kind = stopped(example, parse)
            found.setdefault((state, kind), mistake)
    return found


def stopped(example: str, parse: Callable[[str], object]) -> tuple[object, str]:
    """Parser state and kind of token at which `example` is refused. ValueError when it is not."""
    try:
        parse(example)
    except UnexpectedToken as fault:
        return _state(fault), _kind(_token(fault))
    raise ValueError(f"an example of a mistake is none: {example!r}")


def _token(fault: UnexpectedToken) -> Token:
    return cast(Token, fault.token)


def _state(fault: UnexpectedToken) -> object:
    """The parser's state: what it had read of the statement, whatever stands around it."""
    return getattr(fault.state, "position", None)


def _kind(token: Token) -> str:
    return "value" if token.type in _VALUES else token.type


def _unforeseen(fault: UnexpectedToken) -> Mistake:
    token = _token(fault)
    shown = _WORDS.get(token.type, f"`{token}`")
    expected = sorted({_WORDS.get(name, f"`{name.lower()}`") for name in fault.accepts or fault.expected})
    due = f"; {' or '.join(expected)} is due" if 0 < len(expected) <= _MAX_EXPECTED else ""
    return Mistake(f"{shown} does not fit here{due}", None)


def _foreign(file: SourceFile, at: int, token: Token) -> tuple[Mistake, Span] | None:
    """A statement of another language, or one that cannot stand here, whose first word ends just before `token`."""
    line_start = file.line_starts[file.position(at)[0] - 1]
    word = re.fullmatch(r"(\s*)([a-z]+)\s*", file.text[line_start:at])
    if word is None:
        return None
    stray = _STRAY_WORDS.get(word[2]) if word[1] and token.type != "_NL" else None
    mistake = foreign_word(word[2]) or stray
    return mistake and (mistake, file.span(line_start + word.start(2), line_start + word.end(2)))


def foreign_word(word: str) -> Mistake | None:
    """What to say to a word that means a statement in other languages."""
    return _FOREIGN_WORDS.get(word)


def _character(file: SourceFile, at: int) -> Diagnostic:
    char = file.text[at]
    if char in "\"'":
        long = file.text.startswith('"""', at) or file.text.startswith('"""', max(at - 2, 0))
        message = "this doc string is never closed" if long else "this string is not closed on its line"
        return Diagnostic("E0008", message, file.span(at, at + 1))
    shown = f"`{char}`" if char.isprintable() else f"the character U+{ord(char):04X}"
    return Diagnostic("E0008", f"{shown} has no meaning here", file.span(at, at + 1), help=_FOREIGN_CHARS.get(char))


def _place(token: Token, size: int) -> tuple[int, int]:
    """Offsets of `token`, clipped to the text; one that begins or ends a line has no width."""
    start, end = token.start_pos, token.end_pos
    if token.type == "$END" or start is None or end is None:
        return size, size
    if token.type in ("_INDENT", "_DEDENT"):
        return min(end, size), min(end, size)
    return min(start, size), min(start if token.type == "_NL" else end, size)


def _span(file: SourceFile, start: int, end: int = 0) -> Span:
    return file.span(start, max(start, end))
