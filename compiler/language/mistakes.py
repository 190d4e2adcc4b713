"""What a syntax error was meant to be: a table of wrong examples, and what to say to each.

The parser stops in some state at some token; an example that stops it in the same way is the same mistake (as Lark's
`match_examples`, with the table made once). A mistake that no example covers is told by what could have stood there. Must not know syntax
values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ..source import Diagnostic, SourceFile, Span

TOP_LEVEL = re.compile(r"^(?:fn|op|model|dim|dtype|import|from)\b", re.MULTILINE)


class Mistake(NamedTuple):
    """A sentence and what to do; both shown as they are."""

    message: str
    help: str | None


_F = "fn f(a: f32[2]):\n    "

# Each example fails at the place meant, in a state that only this mistake reaches.
EXAMPLES: dict[Mistake, tuple[str, ...]] = {
    Mistake("a `:` is missing at the end of this line", None): (
        f"{_F}if a\n        pass\n", f"{_F}if a:\n        pass\n    elif b\n        pass\n",
        f"{_F}if a:\n        pass\n    else\n        pass\n", f"{_F}for i in a\n        pass\n",
        f"{_F}repeat i in a\n        pass\n", f"{_F}x = repeat i in a\n        pass\n",
        "fn f(a: f32[2]) -> f32[2]\n    pass\n", "fn f(a: f32[2])\n    pass\n", "fn f() -> (f32[2])\n    pass\n",
        "fn f()\n    pass\n", "model f() -> f32[2]\n    pass\n",
    ),
    Mistake("`=` stands where a condition is due", "write `==` to compare"): (
        f"{_F}if a = b:\n        pass\n", f"{_F}if a:\n        pass\n    elif a = b:\n        pass\n", f"{_F}assert a = b, 'x'\n",
    ),
    Mistake("an operator or a comma is missing before this", None): (
        f"{_F}x = f(a b)\n", f"{_F}x = f(a) b\n", f"{_F}x = f(a=1 b=2)\n", f"{_F}x = [a b]\n", f"{_F}x = a[1 2]\n", f"{_F}x = (a b)\n",
        "fn f(a: f32[2] b: f32[2]):\n    pass\n", "fn f(a: f32[2 3]):\n    pass\n", "fn f() -> (f32[2] f32[3]):\n    pass\n",
        f"{_F}param w: f32[2 3]\n",
    ),
    Mistake("an operand is missing", None): (
        f"{_F}x = a +\n", f"{_F}x = a *\n", f"{_F}x = a **\n", f"{_F}x = a ==\n", f"{_F}x = a and\n", f"{_F}x = a or\n",
        f"{_F}x = not\n", f"{_F}x = -\n", f"{_F}x = (a + )\n", f"{_F}x = * a\n", f"{_F}x = a + * b\n",
    ),
    Mistake("a value is missing after `=`", None): (f"{_F}x =\n", f"{_F}x = f(a=)\n", "dim S =\n", "x =\n", "fn f(a: int = ):\n    pass\n"),
    Mistake("the lines of this block are not indented", "indent them further than the line above"): (
        "fn f():\npass\n", f"{_F}if a:\n    pass\n", "model f() -> f32[2]:\nreturn x\n",
    ),
    Mistake("this line is indented, but no line before it opens a block", None): (
        f"{_F}x = a\n        y = a\n", "x = 1\n    y = 2\n", "import a\n    import b\n",
    ),
    Mistake("a conditional expression needs its `else`", "write `a if condition else b`"): (f"{_F}x = a if b\n", f"{_F}x = f(a if b)\n"),
    Mistake("an argument needs its type", "write `x: T[B, S]` for a tensor, `n: int` for a static value"): (
        "fn f(a):\n    pass\n", "fn f(a, b: int):\n    pass\n", "fn f(a = 1):\n    pass\n", "model f(a) -> f32[2]:\n    pass\n",
    ),
    Mistake("a parameter needs its type", "write `param weight: T[N, K]`"): (f"{_F}param w\n", f"{_F}param w = a\n", f"{_F}shared param w\n"),
    Mistake("a parameter takes its value from the weights file, not from the text", "leave out `= …`"): (f"{_F}param w: f32[2] = a\n",),
    Mistake("`as` takes a string, what the parameters' names start with", 'write `as "encoder.layer.{i}"`'): (
        f"{_F}x = f(a) as b\n", f"{_F}x = f(a) as\n", f"{_F}x = f(a) as shared b\n",
    ),
    Mistake("`as` follows the call whose parameters it names", 'write `f(x) as "name"`'): (
        f"{_F}x = a as 'b'\n", f"{_F}x = (a + f(b)) as 'b'\n", f"{_F}param w: f32[2] as 'b'\n", f"{_F}x = a[0] as 'b'\n",
    ),
    Mistake("a model states what it returns", "write `-> T[B, S]`, or `-> (name: T[B, S], …)`"): ("model f():\n    pass\n", "model f(a: f32[2]):\n    pass\n"),
    Mistake("a result's type is missing after `->`", None): ("fn f() -> :\n    pass\n", "fn f() ->\n    pass\n", "model f() ->:\n    pass\n"),
    Mistake("several results stand in parentheses", "write `-> (T[B], T[S])`"): ("fn f() -> f32[2], f32[3]:\n    pass\n",),
    Mistake("a type is missing here", "write `T[B, S]`, or for a static value `int`, `float`, `bool`, `str`, `dims` or `dtype`"): (
        "fn f(a: ):\n    pass\n", "fn f(a: 3):\n    pass\n", f"{_F}param w: \n", f"{_F}param w: 3\n", "fn f(a: [2]):\n    pass\n",
    ),
    Mistake("a module is imported by its name", "write `import nn`, without quotes or `.tdsl`"): ("import 'nn'\n", "from 'nn' import a\n", "import\n"),
    Mistake("the names to import are missing", "write `from nn import linear`"): ("from nn import\n", "from nn\n", "from nn import *\n"),
    Mistake("`as` can rename a module only", "write `import nn as n`, or use the name as it is"): ("from nn import a as b\n",),
    Mistake("a dim needs its default", "write `dim S = 128 in 1..512`"): ("dim S\n", "dim S in 1..2\n", "dim S: 3\n"),
    Mistake("bounds are written with two dots, both included", "write `dim S = 128 in 1..512`"): (
        "dim S = 1 in 1, 2\n", "dim S = 1 in 1\n", "dim S = 1 in 1:2\n", "dim S = 1 in 1...2\n", "dim S = 1 in\n",
    ),
    Mistake("the dtypes to choose from stand in braces", "write `dtype T = bf16 in {bf16, f32}`"): (
        "dtype T = bf16 in bf16, f32\n", "dtype T = bf16 in [f32]\n", "dtype T = bf16 in (f32)\n",
    ),
    Mistake("a dtype needs its default", "write `dtype T = bf16 in {bf16, f32}`"): ("dtype T\n", "dtype T in {f32}\n", "dtype T = {f32}\n", "dtype T = 'f32'\n"),
    Mistake("a statement stands outside any fn or model", "put it into one; only imports, dims, dtypes and constants stand outside"): (
        "return a\n", "if a:\n    pass\n", "for i in a:\n    pass\n", "repeat i in a:\n    pass\n", "param w: f32[2]\n", "f(a)\n", "a + b\n",
        "x, y = a\n", "x += 1\n", "assert a, 'b'\n", "pass\n", "yield a\n", "shared param w: f32[2]\n", "3\n",
    ),
    Mistake("a name has no type of its own: types follow from values", "leave out the `:` and what follows, up to the `=`"): (
        f"{_F}x: f32[2] = a\n", f"{_F}x: int\n",
    ),
    Mistake("an assertion needs its message", 'write `assert condition, "what is wrong"`'): (f"{_F}assert a\n", f"{_F}assert a, b\n"),
    Mistake("`in` is missing from this loop", "write `for i in range(n):`"): (f"{_F}for i range(3):\n        pass\n", f"{_F}repeat i range(3):\n        pass\n", f"{_F}for i = 0:\n        pass\n"),
    Mistake("the loop variable is missing", "write `for i in range(n):`"): (f"{_F}repeat range(3):\n        pass\n", f"{_F}repeat 3:\n        pass\n", f"{_F}for (i, j) in a:\n        pass\n"),
    Mistake("the name of the fn is missing", None): ("fn (a: f32[2]):\n    pass\n", "model (a: f32[2]) -> f32[2]:\n    pass\n"),
    Mistake("the arguments of the fn are missing", "write `fn f():` when there are none"): ("fn f:\n    pass\n", "fn f -> f32[2]:\n    pass\n", "model f -> f32[2]:\n    pass\n", "fn f\n", "model f:\n    pass\n"),
    Mistake("`op` comes before `fn`", "write `op fn name(...)`"): ("op f():\n    pass\n", "op model f() -> f32[2]:\n    pass\n"),
    Mistake("an index is missing", "write `x[:]` for all of an axis"): (f"{_F}x = a[]\n", f"{_F}x = a[1, , 2]\n"),
    Mistake("this word has a meaning of its own and cannot be a name here", None): (
        f"{_F}param = a\n", f"{_F}if = a\n", f"{_F}for = a\n", f"{_F}shared = a\n", "dim = 1\n", "op = 1\n", "fn = 1\n", "model = 1\n", "dtype = f32\n",
        "from = 1\n", "import = 1\n",
    ),
    Mistake("`in` tests nothing here: it belongs to loops, dims and dtypes", None): (f"{_F}x = a in b\n", f"{_F}if a in b:\n        pass\n"),
}  # fmt: skip

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
    "_NL": "the end of the line", "$END": "the end of the file", "NAME": "a name", "INT": "a number", "FLOAT": "a number",
    "STRING": "a string", "LONG_STRING": "a string", "_INDENT": "an indented block", "_DEDENT": "the end of the block",
    "COLON": "`:`", "COMMA": "`,`", "LPAR": "`(`", "RPAR": "`)`", "LSQB": "`[`", "RSQB": "`]`", "LBRACE": "`{`",
    "RBRACE": "`}`", "EQUAL": "`=`", "DOT": "`.`", "__ANON_0": "`..`", "__ANON_1": "`->`",
}  # fmt: skip


# Tokens that begin a value: one example stands for all of them.
_VALUES = frozenset(("NAME", "INT", "FLOAT", "STRING", "LONG_STRING", "TRUE", "FALSE", "NONE"))
_MAX_EXPECTED = 4


def explain(fault: UnexpectedInput, file: SourceFile, parse: Callable[[str], object]) -> tuple[int, Diagnostic]:
    """Offset of the mistake, and what it is. `parse` is the parser that raised `fault`."""
    if isinstance(fault, UnexpectedCharacters):
        return fault.pos_in_stream or 0, _character(file, fault.pos_in_stream or 0)
    if not isinstance(fault, UnexpectedToken):
        return len(file.text), Diagnostic(
            "E0009", "the file ends in the middle of a statement", _span(file, len(file.text))
        )
    start, end = _place(fault.token, len(file.text))
    foreign = _foreign(file, start, fault.token)
    if foreign is not None:
        return start, Diagnostic("E0009", foreign[0].message, foreign[1], help=foreign[0].help)
    mistake = _known(fault, parse) or _unforeseen(fault)
    return start, Diagnostic("E0009", mistake.message, _span(file, start, end), help=mistake.help)


def _known(fault: UnexpectedToken, parse: Callable[[str], object]) -> Mistake | None:
    """The mistake of the examples that stop in the state and at the kind of token of `fault`."""
    table = _table(parse)
    exact = table.get((_state(fault), _kind(fault.token)))
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
        return _state(fault), _kind(fault.token)
    raise ValueError(f"an example of a mistake is none: {example!r}")


def _state(fault: UnexpectedToken) -> object:
    """The parser's state: what it had read of the statement, whatever stands around it."""
    return getattr(fault.state, "position", None)


def _kind(token: Token) -> str:
    return "value" if token.type in _VALUES else token.type


def _unforeseen(fault: UnexpectedToken) -> Mistake:
    shown = _WORDS.get(fault.token.type, f"`{fault.token}`")
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
