"""How a PE computes elementwise ops: by an operation over DSDs where there is one, else by `@map` of a small function.

One row an op and kind of operand. Must not know where values lie.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...compiler.graph import DType, Node, TensorType
from ...compiler.graph.dtypes import BOOL, DTYPES, F32, I8, I32, U8

I16, U32 = DTYPES["i16"], DTYPES["u32"]
# The CSL type in whose arrays a dtype lies. Bytes and bools take a word of 16 bits, below which no DSD goes.
STORED: Mapping[DType, str] = {F32: "f32", I32: "i32", U32: "u32", I16: "i16", I8: "i16", U8: "i16", BOOL: "i16"}
_SMALL = (I8, U8, BOOL, I16)


def stored_bytes(dtype: DType) -> int:
    """Bytes of an element in a PE."""
    return int(STORED[dtype][1:]) // 8


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an op is computed: `vector`, the builtin over DSDs; else `formula`, CSL of the elements a, b, c.

    `library` is what the formula calls: "math", or a function of PRELUDE; of its operations `functions` are calls of
    <math>, `divides` divisions, `tests` comparisons with a branch each, `scalars` the others. `steps`, if any, are
    operations over DSDs that give the same with a column `odd` of their own; {out}, {a}, {b} and {low}, -inf, stand in
    them.
    """

    vector: str = ""
    steps: tuple[str, ...] = ()
    formula: str = ""
    library: str = ""
    functions: int = 0
    divides: int = 0
    tests: int = 0
    scalars: int = 0


# Functions that <math> lacks, by name. erf: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 7.1.26,
# whose error is at most 1.5e-7, about an ulp of 1.
PRELUDE: Mapping[str, str] = {
    "erf": """\
// The error function: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; off by 1.5e-7 at most.
fn erf(x: f32) f32 {
  const size = if (x < 0.0) -x else x;
  const t = 1.0 / (1.0 + 0.3275911 * size);
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const y = 1.0 - sum * math.exp(-size * size);
  return if (x < 0.0) -y else y;
}
"""
}


def _call(name: str) -> Recipe:
    return Recipe(formula=f"math.{name}(a)", library="math", functions=1)


def _test(condition: str, scalars: int = 0) -> Recipe:
    return Recipe(formula=f"if ({condition}) @as(i16, 1) else @as(i16, 0)", tests=1, scalars=scalars)


_COMPARE = {name: _test(f"a {sign} b") for name, sign in
            (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))}  # fmt: skip

_FLOAT: Mapping[str, Recipe] = {
    "add": Recipe("fadds"), "sub": Recipe("fsubs"), "mul": Recipe("fmuls"), "neg": Recipe("fnegs"),
    "abs": Recipe("fabss"), "div": Recipe(formula="a / b", divides=1),
    # NaN passes through, which @fmaxs drops, and -0 is below +0.
    "max": Recipe(formula="if (a > b or a != a) a else if (a == 0.0 and b == 0.0) a + b else b", tests=4),
    "min": Recipe(formula="if (a < b or a != a) a else if (a == 0.0 and b == 0.0) -(-a - b) else b", tests=4),
    "exp": _call("exp"), "log": _call("log"), "sqrt": _call("sqrt"), "tanh": _call("tanh"),
    "sin": _call("sin"), "cos": _call("cos"), "floor": _call("floor"), "ceil": _call("ceil"),
    "rsqrt": Recipe(formula="1.0 / math.sqrt(a)", library="math", functions=1, divides=1),
    "erf": Recipe(formula="erf(a)", library="erf", functions=1, divides=1, tests=2, scalars=14),
    "is_finite": _test("a - a == 0.0", scalars=1),
    **_COMPARE,
}  # fmt: skip
_INTEGER: Mapping[str, Recipe] = {
    "add": Recipe(formula="a + b", scalars=1), "sub": Recipe(formula="a - b", scalars=1),
    "mul": Recipe(formula="a * b", scalars=1), "max": Recipe(formula="if (a > b) a else b", tests=1),
    "min": Recipe(formula="if (a < b) a else b", tests=1),
    **_COMPARE,
}  # fmt: skip
_BOOL: Mapping[str, Recipe] = {
    "and": Recipe("and16"), "or": Recipe("or16"), "xor": Recipe("xor16"), "not": Recipe(formula="a ^ 1", scalars=1),
    **_COMPARE,
}  # fmt: skip
_ROWS: Mapping[DType, Mapping[str, Recipe]] = {
    F32: _FLOAT, I32: _INTEGER, U32: _INTEGER, BOOL: _BOOL, U8: _COMPARE, I8: _COMPARE, I16: _COMPARE,
}  # fmt: skip


# Of a known number above no zero but -0 the comparison is shorter.
# Over a column, @fmaxs drops NaN and is told of it: from NaN comes -inf where others are at least 0, then inf where
# others are 0, and inf - inf is NaN.
_ODD = (
    "@fabss(odd_dsd, {a});",
    "@fmaxs(odd_dsd, odd_dsd, {low});",
    "@fnegs(odd_dsd, odd_dsd);",
    "@fmaxs(odd_dsd, odd_dsd, 0.0);",
    "@fsubs(odd_dsd, odd_dsd, odd_dsd);",
)
_MAX = ("@fmaxs({out}, {b}, {a});",)
_MIN = ("@fnegs({out}, {a});", "@fmaxs({out}, -({b}), {out});", "@fnegs({out}, {out});")
_KEEP_ODD = ("@fsubs({out}, {out}, odd_dsd);",)
_CLAMP: Mapping[str, Recipe] = {
    "max": Recipe(formula="if (a > b or a != a) a else b", tests=2, steps=(*_ODD, *_MAX, *_KEEP_ODD)),
    "min": Recipe(formula="if (a < b or a != a) a else b", tests=2, steps=(*_ODD, *_MIN, *_KEEP_ODD)),
}


def clamp(op: str, value: float) -> Recipe | None:
    """`max` or `min` of a float by a known `value` on the right, where that is simpler than by any."""
    same_zero = value != 0 or (math.copysign(1.0, value) > 0) == (op == "max")
    return _CLAMP[op] if op in _CLAMP and same_zero and not math.isnan(value) else None


def extreme(op: str) -> Recipe:
    """`max` or `min` of any two floats."""
    return _FLOAT[op]


def copy(dtype: DType) -> Recipe:
    """How elements of `dtype` are copied."""
    return Recipe("mov16" if stored_bytes(dtype) == 2 else "mov32")


def recipe(node: Node, args: tuple[TensorType, ...]) -> Recipe | None:
    """How `node` is computed from operands of the types `args`; None when it is not yet."""
    if any(t.dtype not in STORED for t in (*args, *node.types)):
        return None
    if node.op == "convert":
        return _convert(args[0].dtype, node.type.dtype)
    if node.op == "select":
        return Recipe(formula="if (a != 0) b else c", tests=1)
    return _ROWS[args[0].dtype].get(node.op) if args else None


def _convert(source: DType, to: DType) -> Recipe | None:
    if source == to:
        return copy(to)
    if to == BOOL:
        return _test("a != 0.0" if source == F32 else "a != 0")
    if source in _SMALL:
        if to == F32:
            return Recipe("xp162fs")
        if to == I32:
            return Recipe(formula="@as(i32, a)", scalars=1)
        return copy(to) if to == I16 or (source == BOOL and to in _SMALL) else None
    return Recipe(formula="@as(f32, a)", scalars=1) if source == I32 and to == F32 else None
