"""Elementwise rows in ONNX. Must not know shapes.

What takes several nodes is computed in f32 where the row's floats are narrower, and rounded once at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ....graph import DTYPES, DType
from ....graph.dtypes import BOOL, F32, F64, I64, int_range
from .emit import Emit, Unexported, Write, computed, same

_U64 = DTYPES["u64"]
Formula = Callable[[Emit, str, DType], str]


def _several(write: Formula, wide: bool = False) -> Write:
    """A row of one float; with `wide` in f64, for what f32 would lose digits of."""

    def run(e: Emit) -> str:
        d = F64 if wide else max(e.type.dtype, F32, key=lambda d: d.bits)
        return e.back(write(e, e.arg(0, d), d), d)

    return run


def _rsqrt(e: Emit, x: str, d: DType) -> str:
    return e.op("Reciprocal", e.op("Sqrt", x))


def _expm1(e: Emit, x: str, d: DType) -> str:
    """tanh(x / 2) (e^x + 1), which keeps the digits near 0 that e^x - 1 loses."""
    half = e.op("Tanh", e.op("Mul", x, e.number(0.5, d)))
    return e.op("Mul", half, e.op("Add", e.op("Exp", x), e.number(1, d)))


def _log1p(e: Emit, x: str, d: DType) -> str:
    """log(u) x / (u - 1) of u = 1 + x rounded; x where u is 1 or infinite. Higham 2002, section 1.14.1."""
    one = e.number(1, d)
    u = e.op("Add", x, one)
    plain = e.op("Or", e.op("Equal", u, one), e.op("Equal", u, e.number(math.inf, d)))
    safe = e.where(plain, e.number(2, d), u)
    quotient = e.op("Div", x, e.op("Sub", safe, one))
    return e.where(plain, x, e.op("Mul", e.op("Log", safe), quotient))


def _cbrt(e: Emit, x: str, d: DType) -> str:
    return e.op("Mul", e.op("Sign", x), e.op("Pow", e.op("Abs", x), e.number(1 / 3, d)))


def _exp2(e: Emit, x: str, d: DType) -> str:
    return e.op("Pow", e.number(2, d), x)


def _log2(e: Emit, x: str, d: DType) -> str:
    return e.op("Div", e.op("Log", x), e.number(math.log(2), d))


# log(erfc(z) / t) + z^2 as a polynomial of t = 1 / (1 + z / 2), for z >= 0: Press et al., Numerical Recipes in C,
# second edition, section 6.2. The fractional error is below 1.2e-7.
_ERFC = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587,
         -0.82215223, 0.17087277)  # fmt: skip


def _erfc(e: Emit) -> str:
    """In f64, so that the square of a large x does not cost digits; for f64 itself the formula is not near enough."""
    if e.type.dtype == F64:
        raise Unexported("erfc of f64")
    x = e.arg(0, F64)
    z = e.op("Abs", x)
    t = e.op("Reciprocal", e.op("Add", e.number(1, F64), e.op("Mul", z, e.number(0.5, F64))))
    series = e.number(_ERFC[-1], F64)
    for c in reversed(_ERFC[:-1]):
        series = e.op("Add", e.number(c, F64), e.op("Mul", t, series))
    # Beyond 30 it is 0 at any dtype; an infinite z would make the sum of the exponent NaN.
    near = e.op("Min", z, e.number(30, F64))
    tail = e.op("Mul", t, e.op("Exp", e.op("Sub", series, e.op("Mul", near, near))))
    below = e.op("Less", x, e.number(0, F64))
    return e.back(e.where(below, e.op("Sub", e.number(2, F64), tail), tail), F64)


def _round_away(e: Emit, x: str, d: DType) -> str:
    size = e.op("Abs", x)
    whole = e.op("Floor", size)
    half = e.op("GreaterOrEqual", e.op("Sub", size, whole), e.number(0.5, d))
    up = e.op("Add", whole, e.where(half, e.number(1, d), e.number(0, d)))
    return e.op("Mul", e.op("Sign", x), up)


def _is_finite(e: Emit) -> str:
    return e.op("Not", e.op("Or", e.op("IsInf", *e.args), e.op("IsNaN", *e.args)))


def _neg(e: Emit) -> str:
    """Of unsigned integers, for which ONNX has no Neg: 0 - x."""
    if e.type.dtype.kind != "uint":
        return same("Neg")(e)
    d = computed("Sub", e.type.dtype)
    return e.back(e.op("Sub", e.number(0, d), e.arg(0, d)), d)


def _atan2(e: Emit) -> str:
    """The angle in the first quadrant, then the quadrant by the signs, zeros' too (those of 1 / x)."""
    d = max(e.type.dtype, F32, key=lambda d: d.bits)
    y, x = e.arg(0, d), e.arg(1, d)
    zero, infinite = e.number(0, d), e.number(math.inf, d)

    def negative(v: str) -> str:
        return e.op("Or", e.op("Less", v, zero), e.op("Less", e.op("Reciprocal", v), zero))

    up, right = e.op("Abs", y), e.op("Abs", x)
    both_zero = e.op("Equal", e.op("Add", up, right), zero)
    both_infinite = e.op("Equal", e.op("Min", up, right), infinite)
    angle = e.op("Atan", e.op("Div", up, right))
    angle = e.where(both_zero, zero, e.where(both_infinite, e.number(math.pi / 4, d), angle))
    angle = e.where(negative(x), e.op("Sub", e.number(math.pi, d), angle), angle)
    return e.back(e.where(negative(y), e.op("Neg", angle), angle), d)


# ---- integers ------------------------------------------------------------------------------------


def _plain_divisor(e: Emit) -> bool:
    """Whether the divisor is a literal without 0 and -1, which division of integers traps at in many places."""
    y = e.known(1)
    return y is not None and not np.any((y == 0) | (y.astype(np.float64) == -1))


def _safe_divisor(e: Emit, d: DType) -> tuple[str, str, str, str | None]:
    """(x, the divisor with 1 for 0 and -1, 1 where it is 0, 1 where it is -1 if it has a sign), all of `d`."""
    x, y = e.arg(0, d), e.arg(1, d)
    zero = e.cast(e.op("Equal", y, e.number(0, d)), BOOL, d)
    safe, minus = e.op("Add", y, zero), None
    if e.type.dtype.kind == "int":
        minus = e.cast(e.op("Equal", y, e.number(-1, d)), BOOL, d)
        safe = e.op("Add", safe, e.op("Mul", minus, e.number(2, d)))
    return x, safe, zero, minus


def _div(e: Emit) -> str:
    if e.type.dtype.is_float or _plain_divisor(e):
        return same("Div")(e)
    d = computed("BitwiseOr", e.type.dtype)
    x, safe, zero, minus = _safe_divisor(e, d)
    quotient = e.op("Div", x, safe)
    if minus is not None:
        quotient = e.op("Mul", quotient, e.op("Sub", e.number(1, d), e.op("Mul", minus, e.number(2, d))))
    return e.back(e.op("BitwiseOr", quotient, e.op("Sub", e.number(0, d), zero)), d)


def _rem(e: Emit) -> str:
    d = computed("Mod", e.type.dtype)
    if d.is_float or _plain_divisor(e):
        return e.back(e.op("Mod", e.arg(0, d), e.arg(1, d), fmod=1), d)
    x, safe, zero, _ = _safe_divisor(e, d)
    return e.back(e.op("Add", e.op("Mod", x, safe, fmod=1), e.op("Mul", x, zero)), d)


def _pow(e: Emit) -> str:
    """Of integers by squaring, as ONNX does not say what an overflow gives: they wrap at 64 bits, then at their own."""
    if e.type.dtype.is_float:
        return same("Pow")(e)
    signed = e.type.dtype.kind == "int"
    one = e.number(1, _U64)
    base, power = e.arg(0, _U64), e.arg(1, _U64)
    negative = None
    if signed:
        y = e.arg(1, I64)
        negative = e.cast(e.op("Less", y, e.number(0, I64)), BOOL, _U64)
        power = e.op("Mul", power, e.op("Sub", one, negative))
    known = e.known(1)
    most = e.type.dtype.bits if known is None else max(1, int(np.max(known)).bit_length()) if known.size else 1
    result, first = one, base
    for i in range(most):
        bit = e.op("BitwiseAnd", e.op("BitShift", power, e.number(i, _U64), direction="RIGHT"), one)
        factor = e.op("Add", one, e.op("Mul", bit, e.op("Sub", base, one)))
        result, base = e.op("Mul", result, factor), e.op("Mul", base, base)
    if negative is not None:
        result = e.op("Add", e.op("Mul", result, e.op("Sub", one, negative)), _inverse(e, first, negative))
    return e.cast(result, _U64, e.type.dtype)


def _inverse(e: Emit, x: str, negative: str) -> str:
    """Where the power is negative: 1 for x = 1, 1 or -1 for x = -1, else 0."""
    one, minus = e.number(1, _U64), e.number(2**64 - 1, _U64)
    odd = e.op("BitwiseAnd", e.arg(1, _U64), one)
    ones = e.cast(e.op("Equal", x, one), BOOL, _U64)
    minuses = e.cast(e.op("Equal", x, minus), BOOL, _U64)
    sign = e.op("Sub", one, e.op("Mul", odd, e.number(2, _U64)))
    return e.op("Mul", negative, e.op("Add", ones, e.op("Mul", minuses, sign)))


# ---- bools, comparisons, conversion --------------------------------------------------------------


def _both(bools: str, ints: str) -> Write:
    return lambda e: same(bools if e.types[0].dtype == BOOL else ints)(e)


def _ne(e: Emit) -> str:
    return e.op("Not", same("Equal", BOOL)(e))


def _select(e: Emit) -> str:
    d = computed("Where", e.type.dtype, 1)
    return e.back(e.where(*e.spread({0: BOOL, 1: d, 2: d})), d)


def _convert(e: Emit) -> str:
    """What a float beyond an integer's range becomes ONNX leaves open: it is held to the range before, NaN to 0."""
    d, own = e.type.dtype, e.types[0].dtype
    if not own.is_float:
        return e.arg(0, d)
    if d == BOOL:
        return e.cast(e.arg(0, max(own, F32, key=lambda d: d.bits)), F32, BOOL)
    if d.is_float:
        return e.arg(0, d)
    # The working float holds every integer of up to 32 bits, so Clip leaves nothing out of range.
    wide = F64 if own == F64 or d.bits >= F32.bits else F32
    x = e.arg(0, wide)
    x = e.where(e.op("IsNaN", x), e.number(0, wide), x)
    low, high = int_range(d)
    if d.bits < I64.bits:
        return e.op("Cast", e.op("Clip", x, e.number(low, wide), e.number(high, wide)), to=_number(d))
    above = e.op("GreaterOrEqual", x, e.number(high, wide))
    below = e.op("LessOrEqual", x, e.number(low, wide))
    inside = e.op("Cast", e.where(e.op("Or", above, below), e.number(0, wide), x), to=_number(d))
    return e.where(above, e.number(high, d), e.where(below, e.number(low, d), inside))


def _number(d: DType) -> int:
    from ..tensors import dtype_number

    return dtype_number(d)


OPS: dict[str, Write] = {
    "neg": _neg, "abs": same("Abs"), "sign": same("Sign"), "floor": same("Floor"), "ceil": same("Ceil"),
    "round": same("Round"), "exp": same("Exp"), "expm1": _several(_expm1), "log": same("Log"),
    "log1p": _several(_log1p), "sqrt": same("Sqrt"), "rsqrt": _several(_rsqrt), "tanh": same("Tanh"),
    "erf": same("Erf"), "erfc": _erfc, "sin": same("Sin"), "cos": same("Cos"), "tan": same("Tan"),
    "asin": same("Asin"), "acos": same("Acos"), "atan": same("Atan"), "sinh": same("Sinh"), "cosh": same("Cosh"),
    "asinh": same("Asinh"), "acosh": same("Acosh"), "atanh": same("Atanh"), "atan2": _atan2,
    "cbrt": _several(_cbrt, wide=True), "exp2": _several(_exp2), "log2": _several(_log2, wide=True),
    "logistic": same("Sigmoid"), "round_away": _several(_round_away), "is_finite": _is_finite,
    "add": same("Add"), "sub": same("Sub"), "mul": same("Mul"), "div": _div, "rem": _rem, "pow": _pow,
    "max": _both("Or", "Max"), "min": _both("And", "Min"), "and": _both("And", "BitwiseAnd"),
    "or": _both("Or", "BitwiseOr"), "xor": _both("Xor", "BitwiseXor"), "not": _both("Not", "BitwiseNot"),
    "eq": same("Equal", BOOL), "ne": _ne, "lt": same("Less", BOOL), "le": same("LessOrEqual", BOOL),
    "gt": same("Greater", BOOL), "ge": same("GreaterOrEqual", BOOL), "select": _select, "convert": _convert,
}  # fmt: skip
