"""Elementwise rows: operands of one shape, each result rounded to its dtype.

Narrow floats compute in f32; transcendental functions compute in f64 on contiguous data, so that a
value never depends on where in an array it stands. NaN passes through max, min and clamp from
either operand; max(+0, -0) = +0 and min(+0, -0) = -0. Integers wrap; integer division truncates,
x / 0 = -1 and x rem 0 = x (as StableHLO's reference); MIN / -1 = MIN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..dtypes import BOOL, DTYPES, DType
from .row import AttrMap, AttrSpec, Context, Eval, NDArray, Op, Types, same_axes


_NARROW_FLOATS = frozenset(d.numpy for d in DTYPES.values() if d.is_float and d.bits < 32)


def _working(x: NDArray) -> NDArray:
    """`x` in the type its arithmetic is done in: f32 for narrow floats, itself otherwise."""
    return x.astype(np.float32) if x.dtype in _NARROW_FLOATS else x


def _is_float(x: NDArray) -> bool:
    return x.dtype.kind == "f" or x.dtype in _NARROW_FLOATS


def _needs(kinds: str, count: int) -> Callable[[Types, AttrMap], Types | str]:
    """Type rule: `count` operands of one type whose kind is in `kinds` ("f", "i", "b")."""

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


def _to_bool(kinds: str) -> Callable[[Types, AttrMap], Types | str]:
    same = _needs(kinds, 2)

    def infer(args: Types, attrs: AttrMap) -> Types | str:
        got = same(args, attrs)
        return got if isinstance(got, str) else (got[0].with_dtype(BOOL),)

    return infer


def _apply(fn: Callable[..., Any]) -> Eval:
    def run(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
        with np.errstate(all="ignore"):
            return (ctx.cast(np.asarray(fn(*map(_working, args))), types[0].dtype),)

    return run


def _apply_f64(fn: Callable[..., Any]) -> Eval:
    def run(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
        wide = [np.ascontiguousarray(a, dtype=np.float64).reshape(a.shape) for a in args]
        with np.errstate(all="ignore"):
            return (ctx.cast(np.asarray(fn(*wide)), types[0].dtype),)

    return run


def _erf(x: NDArray) -> NDArray:
    from scipy.special import erf  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    return np.asarray(erf(x))


def _pow(x: NDArray, y: NDArray) -> NDArray:
    # NumPy's scalar path gives -0 for (-0)**0.5; C and IEEE give +0, and so do we.
    return np.where((x == 0) & (y > 0) & (np.abs(np.mod(y, 2)) != 1), 0.0, np.power(x, y))


def _maximum(x: NDArray, y: NDArray) -> NDArray:
    top = np.maximum(x, y)
    return np.where((x == 0) & (y == 0), x + y, top).astype(top.dtype) if _is_float(top) else top


def _minimum(x: NDArray, y: NDArray) -> NDArray:
    low = np.minimum(x, y)
    return np.where((x == 0) & (y == 0), -((-x) + (-y)), low).astype(low.dtype) if _is_float(low) else low


def _div(x: NDArray, y: NDArray) -> NDArray:
    if _is_float(x):
        return np.divide(x, y)
    return np.where(y == 0, np.array(-1).astype(x.dtype), _int_div(x, y)).astype(x.dtype)


def _int_div(x: NDArray, y: NDArray) -> NDArray:
    safe = np.where(y == 0, np.array(1, x.dtype), y)
    quotient = np.floor_divide(x, safe)
    inexact = (quotient * safe != x) & ((x < 0) != (safe < 0))
    return quotient + inexact.astype(x.dtype)


def _rem(x: NDArray, y: NDArray) -> NDArray:
    if _is_float(x):
        return np.fmod(x, y)
    safe = np.where(y == 0, np.array(1, x.dtype), y)
    return np.where(y == 0, x, x - _int_div(x, safe) * safe).astype(x.dtype)


def _rsqrt(x: NDArray) -> NDArray:
    return 1.0 / np.sqrt(x)


def _convert(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    (x,), to = args, types[0].dtype
    if to.is_int and _is_float(x):
        return (_float_to_int(x, to),)
    if to == BOOL:
        return ((_working(x) != 0),)
    if _is_float(x) and to.bits < 32 and x.dtype != np.float64:
        x = _working(x)
    with np.errstate(all="ignore"):
        return (ctx.cast(x, to),)


def _float_to_int(x: NDArray, to: DType) -> NDArray:
    """Truncates toward zero; out-of-range values saturate; NaN gives 0."""
    low, high = int_range(to)
    wide = np.trunc(x.astype(np.float64))
    inside = np.where(np.isnan(wide) | (wide <= low) | (wide >= high), 0.0, wide).astype(np.int64 if low < 0 else np.uint64)
    big = np.where(wide >= high, np.array(high, dtype=inside.dtype), inside)
    return np.where(wide <= low, np.array(low, dtype=inside.dtype), big).astype(to.numpy)


def int_range(d: DType) -> tuple[int, int]:
    """Least and greatest value of an integer dtype."""
    return (0, (1 << d.bits) - 1) if d.kind == "uint" else (-(1 << (d.bits - 1)), (1 << (d.bits - 1)) - 1)


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


def _row(
    name: str, doc: str, infer: Any, run: Eval, arity: int, cost: Any = "simple", traits: tuple[str, ...] = ()
) -> Op:
    names = {1: ("x",), 2: ("x", "y")}[arity]
    return Op(name, doc, names, infer, run, same_axes, cost, traits=frozenset(("elementwise", *traits)))


def _unary(name: str, doc: str, fn: Callable[..., Any], kinds: str = "fi", wide: bool = False) -> Op:
    cost = "transcendental" if wide else "simple"
    return _row(name, doc, _needs(kinds, 1), _apply_f64(fn) if wide else _apply(fn), 1, cost)


def _binary(name: str, doc: str, fn: Callable[..., Any], kinds: str = "fi", *traits: str) -> Op:
    return _row(name, doc, _needs(kinds, 2), _apply(fn), 2, traits=traits)


def _compare(name: str, doc: str, fn: Callable[..., Any], kinds: str, *traits: str) -> Op:
    return _row(name, doc, _to_bool(kinds), _apply(fn), 2, traits=("compare", *traits))


ROWS: tuple[Op, ...] = (
    _unary("neg", "-x.", np.negative),
    _unary("abs", "|x|; the least integer stays itself.", np.abs),
    _unary("sign", "-1, 0 or 1 with the sign of x; NaN stays, -0 stays.", lambda x: np.where(x == 0, x, np.sign(x))),
    _unary("floor", "Greatest integer not above x.", np.floor, "f"),
    _unary("ceil", "Least integer not below x.", np.ceil, "f"),
    _unary("round", "Nearest integer, ties to even.", np.rint, "f"),
    _unary("exp", "e to the x.", np.exp, "f", wide=True),
    _unary("expm1", "e to the x, less 1.", np.expm1, "f", wide=True),
    _unary("log", "Natural logarithm; NaN below 0.", np.log, "f", wide=True),
    _unary("log1p", "log(1 + x).", np.log1p, "f", wide=True),
    _unary("sqrt", "Square root; NaN below 0.", np.sqrt, "f", wide=True),
    _unary("rsqrt", "1 / sqrt(x); infinity at 0.", _rsqrt, "f", wide=True),
    _unary("tanh", "Hyperbolic tangent.", np.tanh, "f", wide=True),
    _unary("erf", "Error function.", _erf, "f", wide=True),
    _unary("sin", "Sine.", np.sin, "f", wide=True),
    _unary("cos", "Cosine.", np.cos, "f", wide=True),
    _unary("not", "Logical not of bools, bitwise not of integers.", np.invert, "ib"),
    _row("is_finite", "Whether x is neither infinite nor NaN.", lambda a, m: (a[0].with_dtype(BOOL),), _apply(np.isfinite), 1),
    _binary("add", "x + y.", np.add, "fi", "commutative", "associative_reassoc"),
    _binary("sub", "x - y.", np.subtract),
    _binary("mul", "x * y.", np.multiply, "fi", "commutative", "associative_reassoc"),
    _binary("div", "x / y.", _div),
    _binary("rem", "Remainder with the sign of x.", _rem),
    _row("pow", "x to the y.", _needs("f", 2), _apply_f64(_pow), 2, "transcendental"),
    _binary("max", "The greater; NaN if either is.", _maximum, "fi", "commutative", "idempotent"),
    _binary("min", "The lesser; NaN if either is.", _minimum, "fi", "commutative", "idempotent"),
    _binary("and", "Logical or bitwise and.", np.bitwise_and, "ib", "commutative", "idempotent"),
    _binary("or", "Logical or bitwise or.", np.bitwise_or, "ib", "commutative", "idempotent"),
    _binary("xor", "Logical or bitwise exclusive or.", np.bitwise_xor, "ib", "commutative"),
    _compare("eq", "x = y; false where either is NaN.", np.equal, "fib", "commutative"),
    _compare("ne", "x != y; true where either is NaN.", np.not_equal, "fib", "commutative"),
    _compare("lt", "x < y.", np.less, "fi"),
    _compare("le", "x <= y.", np.less_equal, "fi"),
    _compare("gt", "x > y.", np.greater, "fi"),
    _compare("ge", "x >= y.", np.greater_equal, "fi"),
    Op(
        "select", "x where cond holds, else y.", ("cond", "x", "y"), _infer_select, _select, same_axes, "simple",
        traits=frozenset(("elementwise",)),
    ),
    Op(
        "convert", "x at another dtype: floats round to nearest even; float to integer truncates, saturates, NaN is 0.",
        ("x",), _infer_convert, _convert, same_axes, "simple", (AttrSpec("dtype", "dtype"),),
        frozenset(("elementwise",)),
    ),
)

