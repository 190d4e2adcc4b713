"""Rows that work on bits: shifts, counts, reinterpretation, dropped mantissa bits, rounding by halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..dtypes import BOOL, DType, rounded
from ..types import TensorType
from .elementwise import make_row, needs, unary
from .row import (
    AttrMap,
    AttrSpec,
    Axes,
    Context,
    Entry,
    NDArray,
    Op,
    Types,
    entries,
    parallel,
    same_axes,
    whole,
)

# ---- shifts and counts ---------------------------------------------------------------------------


def _pattern(x: NDArray, d: DType) -> NDArray:
    """The bits of integers of `d` as u64."""
    return x.astype(np.int64).astype(np.uint64) & np.uint64((1 << d.bits) - 1) if d.bits < 64 else x.astype(np.uint64)


def _amount(y: NDArray, d: DType) -> tuple[NDArray, NDArray]:
    """(shift amounts as u64, 0 where out of range; whether each lies in 0 … bits - 1)."""
    wide = _pattern(y, d)
    # A negative amount has its sign bit set, which is more than any width.
    inside = wide < d.bits
    return np.where(inside, wide, 0).astype(np.uint64), inside


def _shift_left(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    d = types[0].dtype
    by, inside = _amount(args[1], d)
    return (rounded(np.where(inside, _pattern(args[0], d) << by, 0).astype(np.uint64), d),)


def _shift_right_logical(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    d = types[0].dtype
    by, inside = _amount(args[1], d)
    return (rounded(np.where(inside, _pattern(args[0], d) >> by, 0).astype(np.uint64), d),)


def _shift_right_arithmetic(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    d = types[0].dtype
    by, inside = _amount(args[1], d)
    # An unsigned number's top bit is a sign here, as in StableHLO.
    up = np.uint64(64 - d.bits)
    signed = (_pattern(args[0], d) << up).astype(np.int64) >> np.int64(64 - d.bits)
    shifted = signed >> np.where(inside, by, np.uint64(d.bits - 1)).astype(np.int64)
    return (rounded(shifted, d),)


def _popcnt(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    d = types[0].dtype
    return (rounded(np.bitwise_count(_pattern(args[0], d)).astype(np.int64), d),)


def _count_leading_zeros(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    """The bits less those of the number with every bit below its highest set."""
    d = types[0].dtype
    x = _pattern(args[0], d)
    for by in (1, 2, 4, 8, 16, 32):
        x = x | (x >> np.uint64(by))
    return (rounded(np.int64(d.bits) - np.bitwise_count(x).astype(np.int64), d),)


# ---- floats ----------------------------------------------------------------------------------------


def _round_away(x: NDArray) -> NDArray:
    """Nearest integer, ties away from zero; |x| + 0.5 would round up just below a half."""
    whole_part = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole_part) >= 0.5, np.abs(whole_part) + 1, np.abs(whole_part)), x)


def _infer_reduce_precision(args: Types, attrs: AttrMap) -> Types | str:
    exponent, mantissa = attrs["exponent_bits"], attrs["mantissa_bits"]
    if not isinstance(exponent, int) or not isinstance(mantissa, int) or exponent < 1 or mantissa < 0:
        return f"needs 1 or more exponent bits and 0 or more mantissa bits, got {exponent} and {mantissa}"
    return needs("f")(args, attrs)


def _reduce_precision(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    """In f64, where both the operand and the step of the narrower format are exact."""
    (x,), exponent, mantissa, d = args, attrs["exponent_bits"], attrs["mantissa_bits"], types[0].dtype
    assert isinstance(exponent, int) and isinstance(mantissa, int)
    finfo: Any = ml_dtypes.finfo
    own = finfo(d.numpy)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        cut = wide
        if mantissa < own.nmant:
            # Subnormals keep the step of the least normal number.
            power = np.maximum(np.frexp(wide)[1] - 1, int(own.minexp))
            step = np.ldexp(1.0, power - mantissa)
            cut = np.rint(wide / step) * step
        if exponent < own.nexp:
            bias = (1 << (exponent - 1)) - 1
            greatest = np.ldexp(2.0 - np.ldexp(1.0, -min(mantissa, 52)), bias)
            cut = np.where(np.abs(cut) > greatest, np.copysign(np.inf, wide), cut)
            cut = np.where(np.abs(cut) < np.ldexp(1.0, 1 - bias), np.copysign(0.0, wide), cut)
        return (ctx.cast(np.where(np.isfinite(wide) & (wide != 0), cut, wide), d),)


# ---- reinterpretation ------------------------------------------------------------------------------


def _infer_bitcast(args: Types, attrs: AttrMap) -> Types | str:
    (x,), to = args, attrs["dtype"]
    assert isinstance(to, DType)
    if (x.dtype == BOOL) != (to == BOOL):
        return f"a bool is no number's bits: cannot turn {x} into {to}"
    if x.dtype.bits == to.bits:
        return (x.with_dtype(to),)
    if x.dtype.bits > to.bits:
        return (TensorType(to, (*x.shape, x.dtype.bits // to.bits)),)
    ratio = to.bits // x.dtype.bits
    if not x.rank or x.shape[-1] != ratio:
        return f"{ratio} elements of {x.dtype} make one of {to}; the last axis of {x} must be {ratio}"
    return (TensorType(to, x.shape[:-1]),)


def _bitcast(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    (x,), t = args, types[0]
    if x.dtype == t.dtype.numpy:
        return (ctx.cast(x, t.dtype),)
    nibbles = x.dtype.itemsize == 1 and x.dtype.name in ("int4", "uint4")
    raw = _bytes_of_nibbles(x, t) if nibbles else np.ascontiguousarray(x).reshape(x.shape)
    if t.dtype.bits == 4:
        made = _nibbles(raw, t) if not nibbles else rounded(x, t.dtype)
    else:
        # A view needs one axis at least, and a contiguous last one.
        size = 1 if not raw.ndim or raw.dtype.itemsize == t.dtype.numpy.itemsize else raw.shape[-1]
        line = np.ascontiguousarray(raw).reshape(-1, size) if raw.size else np.zeros((0, size), raw.dtype)
        made = line.view(t.dtype.numpy).reshape(tuple(map(int, t.shape)))
    return (ctx.cast(made, t.dtype),)


def _bytes_of_nibbles(x: NDArray, t: TensorType) -> NDArray:
    """Pairs of 4-bit integers of the last axis as bytes, the first in the low half; untouched for a 4-bit result."""
    if t.dtype.bits == 4:
        return x
    halves = x.astype(np.int64).astype(np.uint8) & np.uint8(15)
    return halves[..., ::2] | (halves[..., 1::2] << np.uint8(4))


def _nibbles(x: NDArray, t: TensorType) -> NDArray:
    """Each element's 4-bit parts along a new last axis, the lowest first."""
    line = np.ascontiguousarray(x).reshape(-1, 1)
    octets = line.view(np.uint8) if line.size else np.zeros((0, x.dtype.itemsize), np.uint8)
    halves = np.stack([octets & np.uint8(15), octets >> np.uint8(4)], axis=-1)
    return rounded(halves.reshape(tuple(map(int, t.shape))), t.dtype)


def _bitcast_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """All axes but the one that the widths differ by."""
    (x,), (out,) = args, results
    shared = min(x.rank, out.rank)
    extra = (*x.shape[shared:], *out.shape[shared:])
    own = tuple(Entry(shared + i) for i in range(len(extra)))
    rows = [(*entries(shared), *(own if t.rank > shared else ())) for t in (x, out)]
    return Axes((*out.shape[:shared], *extra), (*parallel(shared), *whole(len(extra))), (rows[0],), (rows[1],))


_OUT = "A shift by less than 0, or by the width or more, gives "

ROWS: tuple[Op, ...] = (
    make_row("shift_left", "x with its bits y places up.", needs("i"), _shift_left, 2, edges=_OUT + "0."),
    make_row(
        "shift_right_logical",
        "x with its bits y places down, zeros above.",
        needs("i"),
        _shift_right_logical,
        2,
        edges=_OUT + "0.",
    ),
    make_row(
        "shift_right_arithmetic",
        "x with its bits y places down, copies of the top bit above.",
        needs("i"),
        _shift_right_arithmetic,
        2,
        edges=_OUT + "the top bit everywhere, of unsigned integers too.",
    ),
    make_row("popcnt", "How many bits are set.", needs("i"), _popcnt, 1, edges="Wraps in i4: 4 for -1."),
    make_row(
        "count_leading_zeros",
        "Zero bits above the highest set one; the width for 0.",
        needs("i"),
        _count_leading_zeros,
        1,
        edges="",
    ),
    unary(
        "round_away",
        "Nearest integer, ties away from zero.",
        _round_away,
        "f",
        "Infinities and -0 stay; -0.4 gives -0.",
    ),
    Op(
        "reduce_precision",
        "x rounded to nearest even in a format of so many exponent and mantissa bits.",
        ("x",),
        _infer_reduce_precision,
        _reduce_precision,
        same_axes,
        "simple",
        (AttrSpec("exponent_bits", "int"), AttrSpec("mantissa_bits", "int")),
        frozenset(("elementwise",)),
        "With fewer exponent bits than x has, what is beyond the format's greatest value becomes infinite, what is "
        "below its least normal one a zero of the same sign. NaN stays.",
    ),
    Op(
        "bitcast_convert",
        "The bits of x as another dtype. A narrower one adds a last axis (the lowest bits first), a wider "
        "one takes it.",
        ("x",),
        _infer_bitcast,
        _bitcast,
        _bitcast_axes,
        "simple",
        (AttrSpec("dtype", "dtype"),),
        frozenset(("bits",)),
        "NaN keeps its bits. Bools only to bools.",
    ),
)
