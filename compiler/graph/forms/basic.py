"""Elementwise forms: broadcasting, literals, tests on floats, rounding and saturating conversions, composites."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..build import Builder, InferError
from ..dtypes import BOOL, DTYPES, DType, int_range
from ..graph import Array, Attr
from ..ops import NDArray
from ..types import TensorType

# ---- literals and shapes ---------------------------------------------------------------------------


def constant(b: Builder, x: NDArray, dtype: DType) -> int:
    """A literal of the values of `x`, which `dtype` must hold; one value everywhere is a `full`."""
    array = np.ascontiguousarray(x).astype(dtype.numpy).reshape(np.shape(x))
    if array.size == 1 and dtype.numpy.kind in "fiub":
        return b.full(array.reshape(()).item(), dtype, array.shape)
    return b.one("constant", value=Array(TensorType(dtype, array.shape), array.tobytes()))


def scalar(b: Builder, value: int | float | bool, like: int) -> int:
    """`value` everywhere, of the type of `like`."""
    t = b.types[like]
    return b.full(bool(value) if t.dtype == BOOL else value, t.dtype, t.shape)


def reshape(b: Builder, x: int, shape: Iterable[int]) -> int:
    """`x` at another shape; itself when it has it."""
    to = tuple(shape)
    return x if b.types[x].shape == to else b.one("reshape", x, shape=to)


def transpose(b: Builder, x: int, perm: Iterable[int]) -> int:
    """`x` with axis i being its axis perm[i]; itself when that moves nothing."""
    order = tuple(perm)
    return x if order == tuple(range(len(order))) else b.one("transpose", x, perm=order)


def broadcast_shape(*shapes: Sequence[int]) -> tuple[int, ...]:
    """NumPy's common shape; InferError when there is none."""
    rank = max(map(len, shapes), default=0)
    out: list[int] = []
    for i in range(rank):
        sizes = [s[i - rank + len(s)] for s in shapes if i - rank + len(s) >= 0]
        wide = [n for n in sizes if n != 1]
        if any(n != wide[0] for n in wide):
            raise InferError(f"shapes {' and '.join(str(tuple(map(int, s))) for s in shapes)} do not broadcast")
        out.append(wide[0] if wide else 1)
    return tuple(out)


def broadcast_to(b: Builder, x: int, shape: Iterable[int]) -> int:
    """`x` repeated to `shape` as NumPy does: axes are matched from the last."""
    to, own = tuple(shape), b.types[x].shape
    if own == to:
        return x
    return b.one("broadcast", x, shape=to, dims=tuple(range(len(to) - len(own), len(to))))


def broadcast_all(b: Builder, xs: Sequence[int]) -> list[int]:
    """Values of one shape."""
    shape = broadcast_shape(*(b.types[x].shape for x in xs))
    return [broadcast_to(b, x, shape) for x in xs]


def elementwise(b: Builder, op: str, *xs: int) -> int:
    """An elementwise op after NumPy broadcasting."""
    return b.one(op, *broadcast_all(b, xs))


def known(b: Builder, x: int) -> NDArray | None:
    """The value of `x` where it is a literal that the builder holds, else None."""
    # Values are numbered as their nodes stand.
    at = bisect_left(b.nodes, x, key=lambda n: n.outs[-1])
    node = b.nodes[at] if at < len(b.nodes) else None
    if node is None or x not in node.outs or node.op not in ("full", "constant", "iota"):
        return None
    from ..evaluate import REFERENCE, apply

    return apply(node, (), REFERENCE, b.types)[0]


# ---- tests and rounding ----------------------------------------------------------------------------


def clamp(b: Builder, low: int, x: int, high: int) -> int:
    """min(max(x, low), high); the bounds are scalars or of x's shape. NaN in x or a bound gives NaN."""
    shape = b.types[x].shape
    return b.one("min", b.one("max", x, broadcast_to(b, low, shape)), broadcast_to(b, high, shape))


def is_nan(b: Builder, x: int) -> int:
    """Whether each float is NaN."""
    return b.one("ne", x, x)


def is_inf(b: Builder, x: int, positive: bool = True, negative: bool = True) -> int:
    """Whether each float is infinite, of the signs asked for."""
    if not b.types[x].dtype.is_float:
        return b.full(False, BOOL, b.types[x].shape)
    if positive and negative:
        return b.one("eq", b.one("abs", x), scalar(b, np.inf, x))
    return (
        b.one("eq", x, scalar(b, np.inf if positive else -np.inf, x))
        if positive or negative
        else b.full(False, BOOL, b.types[x].shape)
    )


def trunc(b: Builder, x: int) -> int:
    """The integer part of each float, signs of zeros kept; integers as they are."""
    if not b.types[x].dtype.is_float:
        return x
    return b.one("select", b.one("lt", x, scalar(b, 0, x)), b.one("ceil", x), b.one("floor", x))


def floor_mod(b: Builder, x: int, y: int) -> int:
    """The remainder with the sign of y, as Python's and NumPy's %; x rem 0 = x for integers."""
    x, y = broadcast_all(b, (x, y))
    rest = b.one("rem", x, y)
    zero = scalar(b, 0, rest)
    turned = b.one("xor", b.one("lt", rest, zero), b.one("lt", y, zero))
    return b.one("select", b.one("and", b.one("ne", rest, zero), turned), b.one("add", rest, y), rest)


def floor_div(b: Builder, x: int, y: int) -> int:
    """The quotient rounded down, as Python's //; of integers by 0 as `div`."""
    x, y = broadcast_all(b, (x, y))
    if b.types[x].dtype.is_float:
        return b.one("floor", b.one("div", x, y))
    rest, quotient = b.one("rem", x, y), b.one("div", x, y)
    zero = scalar(b, 0, x)
    turned = b.one("xor", b.one("lt", rest, zero), b.one("lt", y, zero))
    inexact = b.one("and", b.one("and", b.one("ne", rest, zero), b.one("ne", y, zero)), turned)
    return b.one("select", inexact, b.one("sub", quotient, scalar(b, 1, x)), quotient)


# ---- conversions -----------------------------------------------------------------------------------


def convert(b: Builder, x: int, dtype: DType, saturate: bool = False) -> int:
    """`x` at another dtype. With `saturate` what is out of range, infinities too, becomes the nearest finite value."""
    source = b.types[x].dtype
    if source == dtype:
        return x
    if saturate and source != BOOL and dtype != BOOL:
        x = _held(b, x, source, dtype)
    return b.one("convert", x, dtype=dtype)


def _held(b: Builder, x: int, source: DType, to: DType) -> int:
    """`x` clamped to what `to` holds. Float to integer saturates by itself, and narrow to wide fits."""
    if source.is_float and to.is_float:
        # Infinities are held too, so that a wider format is no reason to leave them. Each format holds the bounds of
        # the narrower ones exactly.
        finfo: Any = ml_dtypes.finfo
        high = min(float(finfo(to.numpy).max), float(finfo(source.numpy).max))
        return clamp(b, b.full(-high, source), x, b.full(high, source))
    if source.is_int and to.is_int:
        (a, z), (low, high) = int_range(source), int_range(to)
        if low <= a and z <= high:
            return x
        return clamp(b, b.full(max(a, low), source), x, b.full(min(z, high), source))
    return x


_BITS = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}


def total_order(b: Builder, x: int) -> int:
    """Signed integers that order as IEEE 754's totalOrder: -NaN, -inf, …, -0, +0, …, inf, NaN. Integers stay."""
    if not b.types[x].dtype.is_float:
        return x
    raw = b.one("bitcast_convert", x, dtype=DTYPES[_BITS[b.types[x].dtype.bits]])
    greatest = scalar(b, int_range(b.types[raw].dtype)[1], raw)
    return b.one("select", b.one("lt", raw, scalar(b, 0, raw)), b.one("xor", raw, greatest), raw)


def next_after(b: Builder, x: int, y: int) -> int:
    """The next float from x towards y; y where they are equal, NaN where one is."""
    d = b.types[x].dtype
    whole = DTYPES[_BITS[d.bits]]
    raw = b.one("bitcast_convert", x, dtype=whole)
    one, zero = scalar(b, 1, raw), scalar(b, 0, x)
    away = b.one("eq", b.one("lt", x, y), b.one("gt", x, zero))
    stepped = b.one("bitcast_convert", b.one("select", away, b.one("add", raw, one), b.one("sub", raw, one)), dtype=d)
    least = b.one("bitcast_convert", one, dtype=d)
    from_zero = b.one("select", b.one("lt", y, zero), b.one("neg", least), least)
    moved = b.one("select", b.one("eq", x, zero), from_zero, stepped)
    found = b.one("select", b.one("eq", x, y), y, moved)
    nan = b.one("or", is_nan(b, x), is_nan(b, y))
    return b.one("select", nan, scalar(b, np.nan, x), found)


# ---- composites ------------------------------------------------------------------------------------


def composite(
    b: Builder, name: str, args: Sequence[int], attrs: Mapping[str, Attr], define: Callable[..., int | Sequence[int]]
) -> tuple[int, ...]:
    """A node called `name` that means what `define(inner builder, *its inputs)` builds; its results."""
    inner = Builder(name, b.loc)
    made = define(inner, *(inner.input(f"x{i}", b.types[a]) for i, a in enumerate(args)))
    region = inner.finish((made,) if isinstance(made, int) else tuple(made))
    return b.add(name, args, attrs, regions=(region,))
