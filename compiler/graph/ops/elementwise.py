"""Elementwise rows: operands of one shape, each result rounded to its dtype.

Floats narrower than f32 compute in f32; transcendental functions compute in f64 on contiguous data,
so that a value never depends on where in an array it stands. NaN passes through every float op but
pow(x, 0) and pow(1, y), which are 1. Integers wrap; integer division truncates, x / 0 has all bits
set and x rem 0 = x (as StableHLO's reference interpreter has them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import BOOL, NARROW_FLOATS, DType, int_range
from .row import AttrMap, AttrSpec, Context, CostClass, Eval, Infer, NDArray, Op, Types, same_axes


def working(x: NDArray) -> NDArray:
    """`x` in the type its arithmetic is done in: f32 for narrow floats, itself otherwise."""
    return x.astype(np.float32) if x.dtype in NARROW_FLOATS else x


def is_float(x: NDArray) -> bool:
    return x.dtype.kind == "f" or x.dtype in NARROW_FLOATS


def needs(kinds: str) -> Infer:
    """Type rule: operands of one type whose kind is in `kinds` ("f", "i", "b")."""

    def infer(args: Types, attrs: AttrMap) -> Types | str:
        first = args[0]
        if any(t.shape != first.shape for t in args):
            return f"operands must have one shape, got {' and '.join(map(str, args))}"
        if any(t.dtype != first.dtype for t in args):
            return f"operands must have one dtype, got {' and '.join(map(str, args))}"
        kind = "f" if first.dtype.is_float else "b" if first.dtype == BOOL else "i"
        if kind not in kinds:
            words = {"f": "float", "i": "integer", "b": "bool"}
            return f"needs {' or '.join(words[k] for k in kinds)} operands, got {first}"
        return (first,)

    return infer


def _to_bool(kinds: str) -> Infer:
    same = needs(kinds)

    def infer(args: Types, attrs: AttrMap) -> Types | str:
        got = same(args, attrs)
        return got if isinstance(got, str) else (got[0].with_dtype(BOOL),)

    return infer


def _apply(fn: Callable[..., Any]) -> Eval:
    def run(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
        with np.errstate(all="ignore"):
            return (ctx.cast(np.asarray(fn(*map(working, args))), types[0].dtype),)

    return run


def through_f64(fn: Callable[..., Any]) -> Eval:
    def run(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
        wide = [np.ascontiguousarray(a, dtype=np.float64).reshape(a.shape) for a in args]
        with np.errstate(all="ignore"):
            return (ctx.cast(np.asarray(fn(*wide)), types[0].dtype),)

    return run


def _erf(x: NDArray) -> NDArray:
    # Loaded at the first use: most commands never evaluate anything.
    from scipy.special import erf  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    return np.asarray(erf(x), dtype=np.float64)


def _sign(x: NDArray) -> NDArray:
    return np.where(x == 0, x, np.sign(x))


def _power(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    run = through_f64(_pow) if types[0].dtype.is_float else _apply(_int_pow)
    return run(args, attrs, types, ctx)


def _int_pow(x: NDArray, y: NDArray) -> NDArray:
    """x to the y modulo 2^bits, by squaring; for y < 0 what is whole of 1 / x^-y: 0 unless x is 1 or -1."""
    unsigned = x.dtype.kind == "u" or x.dtype.name == "uint4"
    base, power = ((v.astype(np.uint64 if unsigned else np.int64)) for v in (x, y))
    first, left = base, np.where(power < 0, 0, power).astype(np.uint64)
    result = np.ones_like(base)
    while np.any(left):
        result = np.where(left & np.uint64(1), result * base, result)
        base, left = base * base, left >> np.uint64(1)
    if unsigned:
        return result
    inverse = np.where(first == 1, 1, np.where(first == -1, np.where(power % 2 == 1, -1, 1), 0))
    return np.where(power < 0, inverse, result)


def _pow(x: NDArray, y: NDArray) -> NDArray:
    """C's pow, and exactly x, x * x, 1 / x and sqrt(x) where y is 1, 2, -1 and 0.5.

    The vector forms of np.power are off by an ulp even there, which would make x ** 2 = x * x a rule
    of approximation; and they differ on (-0) ** 0.5, which C has as +0, and (-inf) ** 0.5, +inf.
    """
    z = np.where((x == 0) & (y > 0) & (np.abs(np.mod(y, 2)) != 1), 0.0, np.power(x, y))
    z = np.where(y == 1, x, z)
    z = np.where(y == 2, x * x, z)
    z = np.where(y == -1, 1 / x, z)
    return np.where((y == 0.5) & (x > 0), np.sqrt(np.abs(x)), z)


def _maximum(x: NDArray, y: NDArray) -> NDArray:
    top = np.maximum(x, y)
    return np.where((x == 0) & (y == 0), x + y, top).astype(top.dtype) if is_float(top) else top


def _minimum(x: NDArray, y: NDArray) -> NDArray:
    low = np.minimum(x, y)
    return np.where((x == 0) & (y == 0), -((-x) + (-y)), low).astype(low.dtype) if is_float(low) else low


def _div(x: NDArray, y: NDArray) -> NDArray:
    if is_float(x):
        return np.divide(x, y)
    return np.where(y == 0, np.array(-1).astype(x.dtype), _int_div(x, y)).astype(x.dtype)


def _int_div(x: NDArray, y: NDArray) -> NDArray:
    safe = np.where(y == 0, np.array(1, x.dtype), y)
    quotient = np.floor_divide(x, safe)
    inexact = (quotient * safe != x) & ((x < 0) != (safe < 0))
    return quotient + inexact.astype(x.dtype)


def _rem(x: NDArray, y: NDArray) -> NDArray:
    if is_float(x):
        return np.fmod(x, y)
    safe = np.where(y == 0, np.array(1, x.dtype), y)
    return np.where(y == 0, x, x - _int_div(x, safe) * safe).astype(x.dtype)


def _rsqrt(x: NDArray) -> NDArray:
    return 1.0 / np.sqrt(x)


def _convert(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    (x,), to = args, types[0].dtype
    if to.is_int and is_float(x):
        return (_float_to_int(x, to),)
    return (working(x) != 0,) if to == BOOL else (ctx.cast(x, to),)


def _float_to_int(x: NDArray, to: DType) -> NDArray:
    """Truncates toward zero; out-of-range values saturate; NaN gives 0."""
    low, high = int_range(to)
    wide = np.trunc(x.astype(np.float64))
    exact = np.dtype(np.int64 if low < 0 else np.uint64)
    inside = np.where(np.isnan(wide) | (wide <= low) | (wide >= high), 0.0, wide).astype(exact)
    big = np.where(wide >= high, np.array(high, dtype=exact), inside)
    return np.where(wide <= low, np.array(low, dtype=exact), big).astype(to.numpy)


def _infer_convert(args: Types, attrs: AttrMap) -> Types | str:
    to = attrs["dtype"]
    return (args[0].with_dtype(to),) if isinstance(to, DType) else "dtype must be a dtype"


def _infer_select(args: Types, attrs: AttrMap) -> Types | str:
    cond, x, y = args
    if cond.dtype != BOOL:
        return f"the condition must be bool, got {cond}"
    if not cond.shape == x.shape == y.shape or x.dtype != y.dtype:
        return f"condition and branches must have one shape and the branches one dtype, got {cond}, {x} and {y}"
    return (x,)


def _select(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    return (np.where(args[0], args[1], args[2]),)


def make_row(
    name: str,
    doc: str,
    infer: Infer,
    run: Eval,
    arity: int,
    cost: CostClass = "simple",
    traits: tuple[str, ...] = (),
    edges: str = "",
) -> Op:
    names = {1: ("x",), 2: ("x", "y")}[arity]
    return Op(name, doc, names, infer, run, same_axes, cost, traits=frozenset(("elementwise", *traits)), edges=edges)


def unary(name: str, doc: str, fn: Callable[..., Any], kinds: str, edges: str) -> Op:
    return make_row(name, doc, needs(kinds), _apply(fn), 1, edges=edges)


def smooth(name: str, doc: str, fn: Callable[..., Any], edges: str) -> Op:
    """A transcendental function of floats, computed in f64 and rounded."""
    return make_row(name, doc, needs("f"), through_f64(fn), 1, "transcendental", edges=edges)


def _binary(name: str, doc: str, fn: Callable[..., Any], kinds: str, edges: str, *traits: str) -> Op:
    return make_row(name, doc, needs(kinds), _apply(fn), 2, traits=traits, edges=edges)


def _compare(name: str, doc: str, fn: Callable[..., Any], kinds: str, edges: str, *traits: str) -> Op:
    return make_row(name, doc, _to_bool(kinds), _apply(fn), 2, traits=("compare", *traits), edges=edges)


def _is_finite(args: Types, attrs: AttrMap) -> Types | str:
    got = needs("f")(args, attrs)
    return got if isinstance(got, str) else (got[0].with_dtype(BOOL),)


_WHOLE = "Infinities and -0 stay; -0.5 gives -0."
_WRAPS = "Integers wrap."
_NAN_IS_FALSE = "False where either is NaN; -0 = +0."
_BOOLS = " Of bools, false is below true."
_ZEROS = "The sign of zero is kept."
_COMMUTES = ("commutative", "idempotent")
_ADDS = ("commutative", "associative_reassoc")

ROWS: tuple[Op, ...] = (
    unary("neg", "-x.", np.negative, "fi", "Zeros change sign. Integers wrap, the least one and unsigned ones too."),
    unary("abs", "|x|.", np.abs, "fi", "|-0| = +0. The least integer stays itself."),
    unary("sign", "-1, 0 or 1: the sign of x.", _sign, "fi", "A zero stays itself, -0 too; NaN stays."),
    unary("floor", "Greatest integer not above x.", np.floor, "f", "Infinities and -0 stay."),
    unary("ceil", "Least integer not below x.", np.ceil, "f", _WHOLE),
    unary("round", "Nearest integer, ties to even.", np.rint, "f", _WHOLE),
    smooth("exp", "e to the x.", np.exp, "exp(-inf) = 0; exp(+-0) = 1."),
    smooth("expm1", "e to the x, less 1.", np.expm1, "expm1(-inf) = -1. " + _ZEROS),
    smooth("log", "Natural logarithm.", np.log, "log(+-0) = -inf; NaN below 0."),
    smooth("log1p", "log(1 + x).", np.log1p, "log1p(-1) = -inf; NaN below -1. " + _ZEROS),
    smooth("sqrt", "Square root.", np.sqrt, "NaN below 0. " + _ZEROS),
    smooth("rsqrt", "1 / sqrt(x).", _rsqrt, "rsqrt(+-0) = +-inf; rsqrt(inf) = 0; NaN below 0."),
    smooth("tanh", "Hyperbolic tangent.", np.tanh, "tanh(+-inf) = +-1. " + _ZEROS),
    smooth("erf", "Error function.", _erf, "erf(+-inf) = +-1. " + _ZEROS),
    smooth("sin", "Sine.", np.sin, "NaN at infinities. " + _ZEROS),
    smooth("cos", "Cosine.", np.cos, "NaN at infinities."),
    unary("not", "Logical not of bools, bitwise not of integers.", np.invert, "ib", ""),
    make_row("is_finite", "Whether x is neither infinite nor NaN.", _is_finite, _apply(np.isfinite), 1),
    _binary("add", "x + y.", np.add, "fi", _WRAPS, *_ADDS),
    _binary("sub", "x - y.", np.subtract, "fi", _WRAPS),
    _binary("mul", "x * y.", np.multiply, "fi", _WRAPS, *_ADDS),
    _binary(
        "div",
        "x / y; of integers, truncated toward zero.",
        _div,
        "fi",
        "Floats as IEEE 754: x / 0 is infinite, 0 / 0 NaN. Integers: x / 0 has all bits set (-1 if signed); "
        "the least one / -1 is itself.",
    ),
    _binary(
        "rem",
        "Remainder of that division, with the sign of x.",
        _rem,
        "fi",
        "Floats: exact, as C's fmod; NaN where x is infinite or y is 0; x where y is infinite. "
        "Integers: x rem 0 = x; the least one rem -1 = 0.",
    ),
    make_row(
        "pow",
        "x to the y.",
        needs("fi"),
        _power,
        2,
        "transcendental",
        edges="Integers wrap; with y < 0, 1 or -1 for x = 1 or -1 and else 0. Floats as C's pow: 1 where y is 0 "
        "or x is 1, NaN or not; (+-0)^y is +-0 or +-inf for odd y, else +0 or +inf; NaN for x below 0 and y not "
        "whole. Exactly x, x * x, 1 / x, sqrt(x) where y is 1, 2, -1, and 0.5 with x > 0.",
    ),
    _binary(
        "max", "The greater.", _maximum, "fib", "NaN if either is; max(+0, -0) = +0; true is above false.", *_COMMUTES
    ),
    _binary(
        "min", "The lesser.", _minimum, "fib", "NaN if either is; min(+0, -0) = -0; false is below true.", *_COMMUTES
    ),
    _binary("and", "Logical or bitwise and.", np.bitwise_and, "ib", "", *_COMMUTES),
    _binary("or", "Logical or bitwise or.", np.bitwise_or, "ib", "", *_COMMUTES),
    _binary("xor", "Logical or bitwise exclusive or.", np.bitwise_xor, "ib", "", "commutative"),
    _compare("eq", "x = y.", np.equal, "fib", _NAN_IS_FALSE, "commutative"),
    _compare("ne", "x differs from y.", np.not_equal, "fib", "True where either is NaN; -0 = +0.", "commutative"),
    _compare("lt", "x < y.", np.less, "fib", _NAN_IS_FALSE + _BOOLS),
    _compare("le", "x <= y.", np.less_equal, "fib", _NAN_IS_FALSE + _BOOLS),
    _compare("gt", "x > y.", np.greater, "fib", _NAN_IS_FALSE + _BOOLS),
    _compare("ge", "x >= y.", np.greater_equal, "fib", _NAN_IS_FALSE + _BOOLS),
    Op(
        "select",
        "x where cond holds, else y.",
        ("cond", "x", "y"),
        _infer_select,
        _select,
        same_axes,
        "simple",
        traits=frozenset(("elementwise",)),
        edges="The operand not taken has no influence, NaN or not.",
    ),
    Op(
        "convert",
        "x at another dtype: to a float, rounded to nearest even; to an integer, truncated toward zero.",
        ("x",),
        _infer_convert,
        _convert,
        same_axes,
        "simple",
        (AttrSpec("dtype", "dtype"),),
        frozenset(("elementwise",)),
        edges="f64 and integers reach floats narrower than f32 through f32. Beyond the greatest finite value: "
        "infinity; in f8e4m3, which has none, NaN. Float to integer saturates, and NaN gives 0. Integer to integer "
        "wraps. To bool: x is not 0, so true for NaN.",
    ),
)
