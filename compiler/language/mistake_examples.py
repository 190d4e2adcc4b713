"""Wrong texts and what to say to each: the table behind `mistakes`.

Each example is refused by the parser at the place meant. A test checks that each is told as what it stands under.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """A sentence and what to do; both shown as they are."""

    message: str
    help: str | None


_F = "fn f(a: f32[2]):\n    "

# Each example fails at the place meant, in a state that only this mistake reaches.
EXAMPLES: dict[Mistake, tuple[str, ...]] = {
    Mistake("a `:` is missing at the end of this line", None): (
        f"{_F}if a\n        pass\n",
        f"{_F}if a:\n        pass\n    elif b\n        pass\n",
        f"{_F}if a:\n        pass\n    else\n        pass\n",
        f"{_F}for i in a\n        pass\n",
        f"{_F}repeat i in a\n        pass\n",
        f"{_F}x = repeat i in a\n        pass\n",
        "fn f(a: f32[2]) -> f32[2]\n    pass\n",
        "fn f(a: f32[2])\n    pass\n",
        "fn f() -> (f32[2])\n    pass\n",
        "fn f()\n    pass\n",
        "model f() -> f32[2]\n    pass\n",
    ),
    Mistake("`=` stands where a condition is due", "write `==` to compare"): (
        f"{_F}if a = b:\n        pass\n",
        f"{_F}if a:\n        pass\n    elif a = b:\n        pass\n",
        f"{_F}assert a = b, 'x'\n",
    ),
    Mistake("an operator or a comma is missing before this", None): (
        f"{_F}x = f(a b)\n",
        f"{_F}x = f(a) b\n",
        f"{_F}x = f(a=1 b=2)\n",
        f"{_F}x = [a b]\n",
        f"{_F}x = a[1 2]\n",
        f"{_F}x = (a b)\n",
        "fn f(a: f32[2] b: f32[2]):\n    pass\n",
        "fn f(a: f32[2 3]):\n    pass\n",
        "fn f() -> (f32[2] f32[3]):\n    pass\n",
        f"{_F}param w: f32[2 3]\n",
    ),
    Mistake("an operand is missing", None): (
        f"{_F}x = a +\n",
        f"{_F}x = a *\n",
        f"{_F}x = a **\n",
        f"{_F}x = a ==\n",
        f"{_F}x = a and\n",
        f"{_F}x = a or\n",
        f"{_F}x = not\n",
        f"{_F}x = -\n",
        f"{_F}x = (a + )\n",
        f"{_F}x = * a\n",
        f"{_F}x = a + * b\n",
    ),
    Mistake("a value is missing after `=`", None): (
        f"{_F}x =\n",
        f"{_F}x = f(a=)\n",
        "dim S =\n",
        "x =\n",
        "fn f(a: int = ):\n    pass\n",
    ),
    Mistake("the lines of this block are not indented", "indent them further than the line above"): (
        "fn f():\npass\n",
        f"{_F}if a:\n    pass\n",
        "model f() -> f32[2]:\nreturn x\n",
    ),
    Mistake("this line is indented, but no line before it opens a block", None): (
        f"{_F}x = a\n        y = a\n",
        "x = 1\n    y = 2\n",
        "import a\n    import b\n",
    ),
    Mistake("a conditional expression needs its `else`", "write `a if condition else b`"): (
        f"{_F}x = a if b\n",
        f"{_F}x = f(a if b)\n",
    ),
    Mistake("an argument needs its type", "write `x: T[B, S]` for a tensor, `n: int` for a static value"): (
        "fn f(a):\n    pass\n",
        "fn f(a, b: int):\n    pass\n",
        "fn f(a = 1):\n    pass\n",
        "model f(a) -> f32[2]:\n    pass\n",
    ),
    Mistake("a parameter needs its type", "write `param weight: T[N, K]`"): (
        f"{_F}param w\n",
        f"{_F}param w = a\n",
        f"{_F}shared param w\n",
    ),
    Mistake("a parameter takes its value from the weights file, not from the text", "leave out `= …`"): (
        f"{_F}param w: f32[2] = a\n",
    ),
    Mistake("`as` takes a string, what the parameters' names start with", 'write `as "encoder.layer.{i}"`'): (
        f"{_F}x = f(a) as b\n",
        f"{_F}x = f(a) as\n",
        f"{_F}x = f(a) as shared b\n",
    ),
    Mistake("`as` follows the call whose parameters it names", 'write `f(x) as "name"`'): (
        f"{_F}x = a as 'b'\n",
        f"{_F}x = (a + f(b)) as 'b'\n",
        f"{_F}param w: f32[2] as 'b'\n",
        f"{_F}x = a[0] as 'b'\n",
    ),
    Mistake("a model states what it returns", "write `-> T[B, S]`, or `-> (name: T[B, S], …)`"): (
        "model f():\n    pass\n",
        "model f(a: f32[2]):\n    pass\n",
    ),
    Mistake("a result's type is missing after `->`", None): (
        "fn f() -> :\n    pass\n",
        "fn f() ->\n    pass\n",
        "model f() ->:\n    pass\n",
    ),
    Mistake("several results stand in parentheses", "write `-> (T[B], T[S])`"): (
        "fn f() -> f32[2], f32[3]:\n    pass\n",
    ),
    Mistake(
        "a type is missing here",
        "write `T[B, S]`, or for a static value `int`, `float`, `bool`, `str`, `dims` or `dtype`",
    ): (
        "fn f(a: ):\n    pass\n",
        "fn f(a: 3):\n    pass\n",
        f"{_F}param w: \n",
        f"{_F}param w: 3\n",
        "fn f(a: [2]):\n    pass\n",
    ),
    Mistake("a module is imported by its name", "write `import nn`, without quotes or `.tdsl`"): (
        "import 'nn'\n",
        "from 'nn' import a\n",
        "import\n",
    ),
    Mistake("the names to import are missing", "write `from nn import linear`"): (
        "from nn import\n",
        "from nn\n",
        "from nn import *\n",
    ),
    Mistake("`as` can rename a module only", "write `import nn as n`, or use the name as it is"): (
        "from nn import a as b\n",
    ),
    Mistake("a dim needs its default", "write `dim S = 128 in 1..512`"): ("dim S\n", "dim S in 1..2\n", "dim S: 3\n"),
    Mistake("bounds are written with two dots, both included", "write `dim S = 128 in 1..512`"): (
        "dim S = 1 in 1, 2\n",
        "dim S = 1 in 1\n",
        "dim S = 1 in 1:2\n",
        "dim S = 1 in 1...2\n",
        "dim S = 1 in\n",
    ),
    Mistake("the dtypes to choose from stand in braces", "write `dtype T = bf16 in {bf16, f32}`"): (
        "dtype T = bf16 in bf16, f32\n",
        "dtype T = bf16 in [f32]\n",
        "dtype T = bf16 in (f32)\n",
    ),
    Mistake("a dtype needs its default", "write `dtype T = bf16 in {bf16, f32}`"): (
        "dtype T\n",
        "dtype T in {f32}\n",
        "dtype T = {f32}\n",
        "dtype T = 'f32'\n",
    ),
    Mistake(
        "a statement stands outside any fn or model",
        "put it into one; only imports, dims, dtypes and constants stand outside",
    ): (
        "return a\n",
        "if a:\n    pass\n",
        "for i in a:\n    pass\n",
        "repeat i in a:\n    pass\n",
        "param w: f32[2]\n",
        "f(a)\n",
        "a + b\n",
        "x, y = a\n",
        "x += 1\n",
        "assert a, 'b'\n",
        "pass\n",
        "yield a\n",
        "shared param w: f32[2]\n",
        "3\n",
    ),
    Mistake(
        "a name has no type of its own: types follow from values", "leave out the `:` and what follows, up to the `=`"
    ): (
        f"{_F}x: f32[2] = a\n",
        f"{_F}x: int\n",
    ),
    Mistake("an assertion needs its message", 'write `assert condition, "what is wrong"`'): (
        f"{_F}assert a\n",
        f"{_F}assert a, b\n",
    ),
    Mistake("`in` is missing from this loop", "write `for i in range(n):`"): (
        f"{_F}for i range(3):\n        pass\n",
        f"{_F}repeat i range(3):\n        pass\n",
        f"{_F}for i = 0:\n        pass\n",
    ),
    Mistake("the loop variable is missing", "write `for i in range(n):`"): (
        f"{_F}repeat range(3):\n        pass\n",
        f"{_F}repeat 3:\n        pass\n",
        f"{_F}for (i, j) in a:\n        pass\n",
    ),
    Mistake("the name of the fn is missing", None): (
        "fn (a: f32[2]):\n    pass\n",
        "model (a: f32[2]) -> f32[2]:\n    pass\n",
    ),
    Mistake("the arguments of the fn are missing", "write `fn f():` when there are none"): (
        "fn f:\n    pass\n",
        "fn f -> f32[2]:\n    pass\n",
        "model f -> f32[2]:\n    pass\n",
        "fn f\n",
        "model f:\n    pass\n",
    ),
    Mistake("`op` comes before `fn`", "write `op fn name(...)`"): (
        "op f():\n    pass\n",
        "op model f() -> f32[2]:\n    pass\n",
    ),
    Mistake("an index is missing", "write `x[:]` for all of an axis"): (f"{_F}x = a[]\n", f"{_F}x = a[1, , 2]\n"),
    Mistake("this word has a meaning of its own and cannot be a name here", None): (
        f"{_F}param = a\n",
        f"{_F}if = a\n",
        f"{_F}for = a\n",
        f"{_F}shared = a\n",
        "dim = 1\n",
        "op = 1\n",
        "fn = 1\n",
        "model = 1\n",
        "dtype = f32\n",
        "from = 1\n",
        "import = 1\n",
    ),
    Mistake("`in` tests nothing here: it belongs to loops, dims and dtypes", None): (
        f"{_F}x = a in b\n",
        f"{_F}if a in b:\n        pass\n",
    ),
}
