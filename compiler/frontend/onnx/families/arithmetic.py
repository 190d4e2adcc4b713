"""Arithmetic on elements: ONNX's operators that are a row of the op table, or a few, after broadcasting."""

from __future__ import annotations

from ....graph import forms
from ....graph.dtypes import F64
from ..call import Call
from ..table import handles

# ONNX's name to the row's.
_UNARY = {
    "Abs": "abs", "Neg": "neg", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan",
    "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Erf": "erf", "Sign": "sign",
    "Tanh": "tanh", "Sigmoid": "logistic", "BitwiseNot": "not", "Not": "not",
}  # fmt: skip
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "xor",
}  # fmt: skip
_VARIADIC = {"Max": "max", "Min": "min", "Sum": "add"}


def operands(n: Call) -> list[int]:
    """The two operands at one shape. Before opset 7 the second one is broadcast on request, from axis `axis` on."""
    if n.version >= 7 or not n.attr("broadcast", 0):
        return n.spread(0, 1)
    x, y = n.x(0), n.x(1)
    have, own = n.shape(0), n.shape(1)
    first = n.at(int(n.attr("axis", len(have) - len(own))), len(have) + 1) if own else 0
    placed = forms.reshape(n.b, y, (*(1,) * first, *own, *(1,) * (len(have) - first - len(own))))
    return [x, forms.broadcast_to(n.b, placed, have)]


@handles(*_UNARY)
def unary(n: Call) -> int:
    """A row of one operand."""
    return n.b.one(_UNARY[n.op], n.x())


@handles(*_BINARY)
def binary(n: Call) -> int:
    """A row of two operands."""
    return n.b.one(_BINARY[n.op], *operands(n))


@handles("Reciprocal")
def reciprocal(n: Call) -> int:
    """1 / x."""
    x = n.x()
    return n.b.one("div", n.like(1.0, x), x)


@handles(*_VARIADIC)
def variadic(n: Call) -> int:
    """Any number of operands, from the left; all broadcast since opset 8."""
    total, *rest = n.spread(*range(n.count))
    for x in rest:
        total = n.b.one(_VARIADIC[n.op], total, x)
    return total


@handles("Mean")
def mean(n: Call) -> int:
    """The sum of the operands divided by their number."""
    total = variadic_sum(n)
    return n.b.one("div", total, n.like(n.count, total)) if n.count > 1 else total


def variadic_sum(n: Call) -> int:
    """The sum of all operands."""
    total, *rest = n.spread(*range(n.count))
    for x in rest:
        total = n.b.one("add", total, x)
    return total


@handles("Pow")
def power(n: Call) -> int:
    """x to the y at x's dtype; since opset 12 y may be of another, and an integer x of a float y goes by way of f64."""
    x, y = operands(n)
    d, e = n.dtype(0), n.dtype(1)
    if d == e or d.is_float:
        return n.b.one("pow", x, forms.convert(n.b, y, d))
    if e.is_int:
        return n.b.one("pow", x, forms.convert(n.b, y, d))
    wide = n.b.one("pow", forms.convert(n.b, x, F64), forms.convert(n.b, y, F64))
    return forms.convert(n.b, wide, d)


@handles("Mod")
def modulo(n: Call) -> int:
    """The remainder with the sign of the divisor; with `fmod` that of the dividend."""
    x, y = n.spread(0, 1)
    return n.b.one("rem", x, y) if n.attr("fmod", 0) else forms.floor_mod(n.b, x, y)


@handles("BitShift")
def bit_shift(n: Call) -> int:
    """Shifts of integers, signed ones to the right with their sign."""
    x, y = n.spread(0, 1)
    right = "shift_right_arithmetic" if n.dtype().kind == "int" else "shift_right_logical"
    return n.b.one("shift_left" if n.need("direction") == "LEFT" else right, x, y)


@handles("Clip", since=1)
def clip_by_attributes(n: Call) -> int:
    """min(max(x, min), max) with bounds as attributes, which default to the dtype's own."""
    x = n.x()
    low, high = n.attr("min"), n.attr("max")
    if low is not None:
        x = n.b.one("max", x, n.like(low, x))
    return x if high is None else n.b.one("min", x, n.like(high, x))


@handles("Clip", since=11)
def clip(n: Call) -> int:
    """min(max(x, min), max) with optional scalar bounds."""
    x, shape = n.x(), n.shape()
    if n.has(1):
        x = n.b.one("max", x, n.spread_to(1, shape))
    return n.b.one("min", x, n.spread_to(2, shape)) if n.has(2) else x
