"""Reductions and windows beyond the rows: means and norms, kept axes, windows over any axes, pools, resampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..build import Builder, InferError
from ..dtypes import BOOL, DTYPES, F32, F64, I64, extremes
from ..graph import Attr
from ..ops import NDArray
from ..ops.contract import window_length
from .basic import broadcast_to, constant, convert, elementwise, known, reshape, scalar, transpose
from .movement import moveaxis, pad, slice_any

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or"}


def neutral(kind: str, b: Builder, x: int) -> int | float | bool:
    """What `kind` (sum, prod, max, min, and, or) of nothing is, at x's dtype."""
    least, greatest = extremes(b.types[x].dtype)
    return {"sum": 0, "prod": 1, "max": least, "min": greatest, "and": True, "or": False}[kind]


# ---- over axes -------------------------------------------------------------------------------------


def reduce(b: Builder, x: int, kind: str, axes: Sequence[int] | None = None, keep: bool = False) -> int:
    """`kind` over `axes`, all by default: sum, prod, max, min, and, or; mean, l1, l2, sum_square, log_sum, log_sum_exp.

    `keep` leaves axes of size 1. max and min of bools are or and and.
    """
    t = b.types[x]
    gone = tuple(range(t.rank)) if axes is None else tuple(sorted({a % t.rank for a in axes}))
    if t.dtype == BOOL:
        kind = {"max": "or", "min": "and"}.get(kind, kind)
    made = _REDUCES[kind](b, x, gone) if kind in _REDUCES else _plain(b, x, kind, gone)
    return reshape(b, made, [1 if i in gone else d for i, d in enumerate(t.shape)]) if keep else made


def _plain(b: Builder, x: int, kind: str, axes: tuple[int, ...]) -> int:
    return b.one(f"reduce_{kind}", x, axes=axes) if axes else x


def _mean(b: Builder, x: int, axes: tuple[int, ...]) -> int:
    total = _plain(b, x, "sum", axes)
    return b.one("div", total, scalar(b, prod(int(b.types[x].shape[a]) for a in axes), total))


def _l2(b: Builder, x: int, axes: tuple[int, ...]) -> int:
    own = b.types[x].dtype
    squares = _sum_square(b, x, axes)
    return b.one("sqrt", squares) if own.is_float else convert(b, b.one("sqrt", convert(b, squares, F64)), own)


def _sum_square(b: Builder, x: int, axes: tuple[int, ...]) -> int:
    return _plain(b, b.one("mul", x, x), "sum", axes)


def _log_sum_exp(b: Builder, x: int, axes: tuple[int, ...]) -> int:
    """By the greatest element, so that no exponential overflows; -inf less itself would be NaN."""
    own, shape = b.types[x].dtype, b.types[x].shape
    x = x if own.is_float else convert(b, x, F64)
    top = _plain(b, x, "max", axes)
    safe = b.one("select", b.one("is_finite", top), top, scalar(b, 0, top))
    back = broadcast_to(b, reshape(b, safe, [1 if i in axes else d for i, d in enumerate(shape)]), shape)
    total = _plain(b, b.one("exp", b.one("sub", x, back)), "sum", axes)
    return convert(b, b.one("add", b.one("log", total), safe), own)


def _log_sum(b: Builder, x: int, axes: tuple[int, ...]) -> int:
    own, total = b.types[x].dtype, _plain(b, x, "sum", axes)
    return b.one("log", total) if own.is_float else convert(b, b.one("log", convert(b, total, F64)), own)


_REDUCES: dict[str, Callable[[Builder, int, tuple[int, ...]], int]] = {
    "mean": _mean,
    "l1": lambda b, x, axes: _plain(b, x if b.types[x].dtype.kind == "uint" else b.one("abs", x), "sum", axes),
    "l2": _l2,
    "sum_square": _sum_square,
    "log_sum": _log_sum,
    "log_sum_exp": _log_sum_exp,
}


def combined(b: Builder, x: int, kind: str, init: int | None) -> int:
    """`x` combined by `kind` with the scalar `init`; as it is where that is the neutral literal."""
    if init is None:
        return x
    literal = known(b, init)
    if literal is not None and literal.size == 1 and _same(literal.reshape(()), neutral(kind, b, x)):
        return x
    return b.one(_COMBINE[kind], x, broadcast_to(b, reshape(b, init, ()), b.types[x].shape))


def _same(literal: NDArray, value: Any) -> bool:
    number = literal.astype(np.float64) if literal.dtype.kind not in "iub" else literal
    return bool(number == value)


# ---- windows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over all axes of an operand, StableHLO's attributes: one entry an axis; pads (low, high) of any sign."""

    window: tuple[int, ...]
    strides: tuple[int, ...]
    base_dilations: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]

    def trivial(self, axis: int) -> bool:
        """Whether the windows along `axis` are its single elements."""
        ones = (self.window[axis], self.strides[axis], self.base_dilations[axis], self.dilations[axis])
        return ones == (1, 1, 1, 1) and self.pads[axis] == (0, 0)

    def spread(self, b: Builder, x: int, value: int | float | bool) -> int:
        """`x` dilated, and cut where pads are negative."""
        low, high = ([min(0, p[i]) for p in self.pads] for i in (0, 1))
        return pad(b, x, low, high, [d - 1 for d in self.base_dilations], value)

    @property
    def low(self) -> tuple[int, ...]:
        return tuple(max(0, p[0]) for p in self.pads)

    @property
    def high(self) -> tuple[int, ...]:
        return tuple(max(0, p[1]) for p in self.pads)

    def counts(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Windows along each axis of an operand that is spread already."""
        rows = zip(shape, self.window, self.strides, self.low, self.high, self.dilations, strict=True)
        return tuple(window_length(n, k, s, lo, hi, d) for n, k, s, lo, hi, d in rows)


def _ordered(w: Windows, shape: Sequence[int]) -> tuple[list[int], list[int]]:
    """(axes without windows, axes with): of the first at least two stand before; one with a window may have to."""
    active = [i for i in range(len(shape)) if not w.trivial(i)]
    return [i for i in range(len(shape)) if i not in active], active


def reduce_window(b: Builder, x: int, kind: str, w: Windows, init: int | None = None) -> int:
    """`kind` (sum, prod, max, min, and, or) over windows of any axes; padding is neutral, `init` a scalar value."""
    if b.types[x].dtype == BOOL:
        wide = convert(b, x, DTYPES["u8"])
        made = reduce_window(b, wide, {"and": "min", "or": "max"}.get(kind, kind), w)
        return combined(b, b.one("ne", made, scalar(b, 0, made)), {"max": "or", "min": "and"}.get(kind, kind), init)
    run = _running(b, x, kind, w)
    if run is not None:
        return combined(b, run, kind, init)
    x = w.spread(b, x, neutral(kind, b, x))
    shape = b.types[x].shape
    still, active = _ordered(w, shape)
    if not active:
        return combined(b, x, kind, init)
    rows = [shape[i] for i in still]
    front = (1, prod(rows)) if len(still) != 2 else tuple(rows)
    lifted = reshape(b, transpose(b, x, (*still, *active)), (*front, *(shape[i] for i in active)))
    made = b.one(
        "reduce_window", lifted, op=kind, window=tuple(w.window[i] for i in active),
        strides=tuple(w.strides[i] for i in active), low=tuple(w.low[i] for i in active),
        high=tuple(w.high[i] for i in active), dilations=tuple(w.dilations[i] for i in active),
    )  # fmt: skip
    back = reshape(b, made, (*rows, *b.types[made].shape[2:]))
    order = [*still, *active]
    return combined(b, transpose(b, back, [order.index(i) for i in range(len(shape))]), kind, init)


def _running(b: Builder, x: int, kind: str, w: Windows) -> int | None:
    """Windows of everything up to (or from) each element of one axis are a running sum."""
    shape = b.types[x].shape
    _, active = _ordered(w, shape)
    if len(active) != 1 or kind not in ("sum", "prod", "max", "min"):
        return None
    (axis,) = active
    n = shape[axis]
    plain = (w.strides[axis], w.base_dilations[axis], w.dilations[axis]) == (1, 1, 1)
    if not plain or w.window[axis] != n or w.pads[axis] not in ((n - 1, 0), (0, n - 1)) or n < 2:
        return None
    return b.one(f"cum{kind}", x, axis=axis, reverse=w.pads[axis] == (0, n - 1))


def select_and_scatter(b: Builder, x: int, source: int, init: int | None, w: Windows, select: str = "ge") -> int:
    """StableHLO's select_and_scatter with `select` ge, gt, le or lt and addition, over windows of any axes."""
    shape = b.types[x].shape
    if any(d != 1 for d in (*w.base_dilations, *w.dilations)) or any(min(p) < 0 for p in w.pads):
        raise InferError("select_and_scatter: windows are not dilated, and pads not negative")
    still, active = _ordered(w, shape)
    front = (1, prod(shape[i] for i in still)) if len(still) != 2 else tuple(shape[i] for i in still)
    order = (*still, *active)

    def lifted(v: int) -> int:
        return reshape(b, transpose(b, v, order), (*front, *(b.types[v].shape[i] for i in active)))

    made = b.one(
        "select_and_scatter", lifted(x), lifted(source), select=select, window=tuple(w.window[i] for i in active),
        strides=tuple(w.strides[i] for i in active), low=tuple(w.low[i] for i in active),
        high=tuple(w.high[i] for i in active),
    )  # fmt: skip
    back = reshape(b, made, [shape[i] for i in order])
    return combined(b, transpose(b, back, [order.index(i) for i in range(len(shape))]), "sum", init)


# ---- pools of x[N, C, …] ---------------------------------------------------------------------------


def avg_pool(
    b: Builder, x: int, window: Sequence[int], strides: Sequence[int], low: Sequence[int], high: Sequence[int],
    dilations: Sequence[int], count_include_pad: bool = False, extra_high: Sequence[int] | None = None,
) -> int:  # fmt: skip
    """The mean of each window. Padding counts with `count_include_pad`, but not `extra_high`, which lies beyond it.

    Narrow floats are summed and divided in f32.
    """
    own, rank = b.types[x].dtype, len(window)
    more = tuple(extra_high or (0,) * rank)
    wide = convert(b, x, F32) if own.bits < 32 else x
    reach = tuple(h + e for h, e in zip(high, more, strict=True))
    attrs: dict[str, Attr] = {"op": "sum", "window": tuple(window), "strides": tuple(strides), "low": tuple(low)}
    attrs |= {"high": reach, "dilations": tuple(dilations)}
    (total,) = b.add("reduce_window", (wide,), attrs)
    out, counts = b.types[total].shape, list[NDArray]()
    for i in range(rank):
        starts = np.arange(out[2 + i]) * strides[i] - low[i]
        taps = starts[:, None] + np.arange(window[i]) * dilations[i]
        size = int(b.types[x].shape[2 + i])
        first, last = (-low[i], size + high[i]) if count_include_pad else (0, size)
        counts.append(np.sum((taps >= first) & (taps < last), axis=1))
    if all(np.all(c == c[:1]) for c in counts):
        each = prod(int(c[0]) for c in counts if c.size)
        return convert(b, b.one("div", total, scalar(b, each, total)), own)
    divisor: int | None = None
    for i, c in enumerate(counts):
        line = reshape(b, constant(b, c, b.types[total].dtype), [c.size if j == i else 1 for j in range(rank)])
        divisor = line if divisor is None else elementwise(b, "mul", divisor, line)
    assert divisor is not None
    return convert(b, b.one("div", total, broadcast_to(b, divisor, out)), own)


def max_pool_indices(
    b: Builder, x: int, window: Sequence[int], strides: Sequence[int], low: Sequence[int], high: Sequence[int],
    dilations: Sequence[int], column_major: bool = False,
) -> tuple[int, int]:  # fmt: skip
    """(the greatest of each window, its i64 place in x flattened); ties take the first tap.

    With `column_major` the spatial axes are counted with the first running fastest. A window of padding alone has place
    0 of its channel.
    """
    n, c, *spatial = b.types[x].shape
    attrs: dict[str, Attr] = {
        "window": tuple(window),
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "low": tuple(low),
        "high": tuple(high),
    }
    (values,) = b.add("reduce_window", (x,), {"op": "max", **attrs})
    out = b.types[values].shape[2:]
    size, taps = prod(spatial), prod(window)
    places = _window_places([int(d) for d in spatial], [int(d) for d in out], window, strides, low, dilations)
    flat = reshape(b, x, (n, c, size))
    outside = pad(b, flat, (0, 0, 0), (0, 0, 1), value=neutral("max", b, x))
    picked = b.one("take", outside, constant(b, places, I64), axis=2)  # [N, C, windows, taps]
    best = convert(b, b.one("argmax", picked, axis=3), I64)
    number = b.one("iota", axis=2, dtype=I64, shape=b.types[best].shape)
    at = b.one("add", b.one("mul", number, scalar(b, taps, number)), best)
    named = np.where(places.reshape(-1) == size, 0, places.reshape(-1))
    if column_major:
        named = np.ravel_multi_index(np.unravel_index(named, spatial), spatial, order="F")
    index = b.one("take", constant(b, named, I64), at, axis=0)
    channel = b.one("add", b.one("mul", b.one("iota", axis=0, dtype=I64, shape=(n, c)), b.full(int(c), I64, (n, c))),
                    b.one("iota", axis=1, dtype=I64, shape=(n, c)))  # fmt: skip
    base = b.one("mul", channel, b.full(size, I64, (n, c)))
    index = b.one("add", index, b.one("broadcast", base, shape=b.types[index].shape, dims=(0, 1)))
    return values, reshape(b, index, b.types[values].shape)


def _window_places(
    spatial: Sequence[int], out: Sequence[int], window: Sequence[int], strides: Sequence[int], low: Sequence[int],
    dilations: Sequence[int],
) -> NDArray:  # fmt: skip
    """[windows, taps]: the flat place of each tap, the number of elements for padding."""
    size = prod(spatial)
    columns: list[NDArray] = []
    for tap in product(*map(range, window)):
        place, inside = np.zeros(tuple(out), np.int64), np.ones(tuple(out), bool)
        for i, n in enumerate(spatial):
            at = (np.arange(out[i]) * strides[i] + tap[i] * dilations[i] - low[i]).reshape(
                [-1 if j == i else 1 for j in range(len(out))]
            )
            inside = inside & (at >= 0) & (at < n)
            place = place * n + np.clip(at, 0, n - 1)
        columns.append(np.where(inside, place, size).reshape(-1))
    return np.stack(columns, axis=1)


# ---- resampling ------------------------------------------------------------------------------------


def resample(b: Builder, x: int, axis: int, weights: NDArray) -> int:
    """`axis` mixed by a constant matrix weights[out, in]: any separable interpolation, exact where a row is one-hot.

    Rows that each take one element with weight 1 move it: by views where they are evenly apart, else by a `take`.
    """
    axis %= b.types[x].rank
    if weights.shape[1] != b.types[x].shape[axis]:
        raise InferError(f"resample: weights for {weights.shape[1]} elements, axis {axis} of {b.types[x]}")
    picks = (np.count_nonzero(weights, axis=1) == 1) & (np.max(weights, axis=1, initial=0) == 1)
    if picks.all():
        return _picked(b, x, axis, np.argmax(weights, axis=1))
    own = b.types[x].dtype
    wide = x if own in (F32, F64) else convert(b, x, F32)
    moved = moveaxis(b, wide, axis, b.types[x].rank - 1)
    matrix = constant(b, np.ascontiguousarray(weights.T), b.types[wide].dtype)
    mixed = b.one("matmul", moved if b.types[moved].rank > 1 else reshape(b, moved, (1, *b.types[moved].shape)), matrix)
    flat = mixed if b.types[x].rank > 1 else reshape(b, mixed, (weights.shape[0],))
    return convert(b, moveaxis(b, flat, b.types[x].rank - 1, axis), own)


def _picked(b: Builder, x: int, axis: int, places: NDArray) -> int:
    """The elements of `axis` at `places`: a slice spread out where these are an even row, each as often as the next."""
    each = int(np.argmax(places != places[0])) if places.size and np.any(places != places[0]) else places.size
    row = places[:: max(each, 1)]
    step = int(row[1] - row[0]) if row.size > 1 else 1
    even = step > 0 and np.array_equal(np.repeat(row[:1] + step * np.arange(row.size), each), places)
    if not places.size or not even:
        return b.one("take", x, constant(b, places, DTYPES["i32"]), axis=axis)
    kept = slice_any(b, x, (int(row[0]),), (int(row[-1]) + 1,), (step,), axes=(axis,))
    if each == 1:
        return kept
    shape = b.types[kept].shape
    spread = (*shape[: axis + 1], each, *shape[axis + 1 :])
    apart = b.one("broadcast", kept, shape=spread, dims=tuple(i for i in range(len(spread)) if i != axis + 1))
    return reshape(b, apart, (*shape[:axis], shape[axis] * each, *shape[axis + 1 :]))
