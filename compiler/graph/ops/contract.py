"""Contractions and reductions: matmul, conv, reduce_*, reduce_window.

A matmul's or convolution's accumulation is the target's (`Context.contraction`). A sum of floats
accumulates in f64 over its axes laid last and contiguous and is rounded at the end, so that a result
does not depend on what stands beside it. Sums start at +0: a sum of -0s is +0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..dtypes import BOOL, DType, extremes
from ..types import TensorType
from .movement import ints
from .row import (
    AttrMap,
    AttrSpec,
    Axes,
    AxisKind,
    Context,
    Entry,
    NDArray,
    Op,
    Types,
    added,
    entries,
    parallel,
    whole,
)


def _infer_matmul(args: Types, attrs: AttrMap) -> Types | str:
    a, b = args
    if not _multiply(a.dtype, b.dtype):
        return f"operands must have one dtype, or be i8 and u8, got {a} and {b}"
    if a.rank < 2 or b.rank < 2:
        return f"operands need at least two axes, got {a} and {b}"
    if a.shape[-1] != b.shape[-2]:
        return f"inner dimensions differ: {a.shape[-1]} and {b.shape[-2]} in {a} @ {b}"
    if b.rank > 2 and a.shape[:-2] != b.shape[:-2]:
        return f"batch dimensions differ in {a} @ {b}"
    if attrs["precision"] not in ("highest", "high", "default"):
        return f"precision must be highest, high or default, got {attrs['precision']}"
    out = _product_dtype(a.dtype, b.dtype, attrs)
    return out if isinstance(out, str) else (TensorType(out, (*a.shape[:-1], b.shape[-1])),)


def _multiply(a: DType, b: DType) -> bool:
    """Whether the two multiply: they are one, or 8-bit integers of either sign."""
    return a == b or (a.is_int and b.is_int and a.bits == b.bits == 8)


def _product_dtype(a: DType, b: DType, attrs: AttrMap) -> DType | str:
    """The result's dtype: as wide as the operands at least, and signed where an operand is, or the reason as text."""
    if attrs["dtype"] is None and a != b:
        return f"a product of {a} and {b} needs a dtype"
    out = attrs["dtype"] or a
    signed = "int" in (a.kind, b.kind)
    fits = (
        isinstance(out, DType)
        and out.bits >= a.bits
        and ((out.is_int and (out.kind == "int" or not signed)) if a.is_int else out.kind == a.kind)
    )
    if isinstance(out, DType) and fits:
        return out
    return f"a product of {a if a == b else f'{a} and {b}'} cannot be stored as {out}"


def _matmul(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    a, b = args
    return (_product(a, b, types[0].dtype, attrs, ctx),)


def _product(a: NDArray, b: NDArray, out: DType, attrs: AttrMap, ctx: Context) -> NDArray:
    with np.errstate(all="ignore"):
        if ctx.wide and out.is_float:
            return np.matmul(a, b)
        return ctx.contraction.matmul(a, b, out, str(attrs["precision"]))


def _matmul_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    (a, b), (out,) = args, results
    row, k = entries(out.rank), Entry(out.rank)
    batch = row[:-2] if b.rank > 2 else ()
    operands = ((*row[:-1], k), (*batch, k, row[-1]))
    return Axes((*out.shape, a.shape[-1]), (*parallel(out.rank), "reduce"), operands, (row,))


# ---- convolution and windows ---------------------------------------------------------------------


def window_length(size: int, window: int, stride: int, low: int, high: int, dilation: int) -> int:
    """Windows of `window` taps, `dilation` apart, that fit in a padded axis at `stride`; 0 when none."""
    reach = (window - 1) * dilation + 1
    return max(0, (int(size) + low + high - reach) // stride + 1) if window else 0


def _window_attrs(attrs: AttrMap) -> list[tuple[int, ...]]:
    return [ints(attrs[k]) for k in ("strides", "low", "high", "dilations")]


def bad_window(attrs: AttrMap, rank: int) -> str | None:
    """What is wrong with the strides, low, high and dilations of `rank` spatial axes, or None."""
    rows = _window_attrs(attrs)
    if any(len(r) != rank for r in rows):
        return f"strides, low, high and dilations need one entry for each of the {rank} spatial axes"
    strides, low, high, dilations = rows
    if min((*strides, *dilations), default=1) < 1 or min((*low, *high), default=0) < 0:
        return "strides and dilations must be 1 or more, low and high 0 or more"
    return None


def logical_weights(w: tuple[int, ...], attrs: AttrMap) -> tuple[int, ...]:
    """The shape of a convolution's weights as (O, I, *window), however they lie."""
    return (w[0], w[-1], *w[1:-1]) if attrs["channels_last"] else w


def _infer_conv(args: Types, attrs: AttrMap) -> Types | str:
    x, w = args
    groups = attrs["groups"]
    if not _multiply(x.dtype, w.dtype) or x.rank != w.rank or x.rank < 3:
        return f"needs x[N, C, …] and w[O, I, …] of one dtype and rank 3 or more, got {x} and {w}"
    assert isinstance(groups, int)
    made, per, *taps = logical_weights(w.shape, attrs)
    shared = made % groups == 0 if groups > 0 else groups == x.shape[1] == made == 0
    if not shared or x.shape[1] != per * groups:
        return f"{groups} groups do not fit: x has {x.shape[1]} channels, w is {w}"
    bad = bad_window(attrs, x.rank - 2)
    if bad:
        return bad
    rows = zip(x.shape[2:], taps, *_window_attrs(attrs), strict=True)
    spatial = tuple(window_length(n, k, s, lo, hi, d) for n, k, s, lo, hi, d in rows)
    out = _product_dtype(x.dtype, w.dtype, attrs)
    return out if isinstance(out, str) else (TensorType(out, (x.shape[0], made, *spatial)),)


def windows(x: NDArray, window: Sequence[int], attrs: AttrMap, fill: Any) -> NDArray:
    """View of the padded spatial axes of x[N, C, *spatial] as [N, C, *out, *window]."""
    strides, low, high, dilations = _window_attrs(attrs)
    widths = [(0, 0), (0, 0), *zip(low, high, strict=True)]
    padded = np.full([n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)], fill, x.dtype)
    padded[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True))] = x
    out = [
        window_length(n, k, s, a, b, d)
        for n, k, s, a, b, d in zip(x.shape[2:], window, strides, low, high, dilations, strict=True)
    ]
    nc, bytes_apart = padded.strides[:2], padded.strides[2:]
    moves = [p * n for rates in (strides, dilations) for p, n in zip(bytes_apart, rates, strict=True)]
    shape = (*x.shape[:2], *out, *window)
    return np.lib.stride_tricks.as_strided(padded, shape, (*nc, *moves), writeable=False)


def _conv(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    """Weights by patches: one matmul a group, its K running over (window, channel) in row-major order."""
    (x, w), groups, t = args, attrs["groups"], types[0]
    assert isinstance(groups, int)
    if not t.size:
        return (ctx.cast(np.zeros(t.shape, t.dtype.numpy), t.dtype),)
    w = w if attrs["channels_last"] else np.moveaxis(w, 1, -1)  # O *window I
    taps, rank = w.shape[1:-1], w.ndim - 2
    if is_depthwise((w.shape[0], w.shape[-1], *taps), groups):
        return (_depthwise(x, w, attrs, t, ctx),)
    order = (0, *range(2 + rank, 2 + 2 * rank), 1, *range(2, 2 + rank))
    patches = np.transpose(windows(x, taps, attrs, 0), order)  # N *window C *out
    per, made = x.shape[1] // groups, w.shape[0] // groups
    y = np.empty(t.shape, ctx.cast(np.zeros(0, t.dtype.numpy), t.dtype).dtype)
    for g in range(groups):
        lhs = np.ascontiguousarray(w[g * made : (g + 1) * made]).reshape(made, prod(taps) * per)
        channels = patches[(slice(None),) * (1 + rank) + (slice(g * per, (g + 1) * per),)]
        for n, at in _column_blocks(y, lhs.shape[1]):
            block = channels[n][(slice(None),) * (rank + 1) + (at,)]
            rhs = np.ascontiguousarray(block).reshape(lhs.shape[1], prod(block.shape[rank + 1 :]))
            made_block = _product(lhs, rhs, t.dtype, attrs, ctx)
            y[n, g * made : (g + 1) * made, at] = made_block.reshape(made, *block.shape[rank + 1 :])
    return (y,)


def _column_blocks(y: NDArray, k: int) -> Iterator[tuple[int, slice]]:
    """(image, rows of the first spatial axis) of a result.

    Columns of a product are independent: a block of them at a time, so that the patches of an image need no memory.
    """
    rows = max(1, _PATCH_ELEMENTS // max(1, k * prod(y.shape[3:])))
    yield from ((n, slice(at, at + rows)) for n in range(y.shape[0]) for at in range(0, y.shape[2], rows))


# Elements of the patches that a convolution is evaluated on at a time.
_PATCH_ELEMENTS = 1 << 22
# Output channels a group from which a convolution of one input channel a group is worth a matrix product.
_DEPTHWISE_CHANNELS = 8


def is_depthwise(w: Sequence[int], groups: int) -> bool:
    """Whether weights of shape `w` are no matrices: one input channel a group, and few output channels."""
    return groups > 0 and w[1] == 1 and 1 <= w[0] // groups < _DEPTHWISE_CHANNELS and prod(w[2:]) > 0


def _depthwise(x: NDArray, w: NDArray, attrs: AttrMap, t: TensorType, ctx: Context) -> NDArray:
    """Elementwise products of shifted images by a weight a channel (w is [O, *window, 1]), summed tap by tap."""
    taps, rank, out = w.shape[1:-1], w.ndim - 2, t.shape[2:]
    made = w.shape[0] // max(1, x.shape[1])
    patches = windows(x, taps, attrs, 0)

    def products() -> Iterator[tuple[NDArray, NDArray]]:
        for tap in product(*map(range, taps)):
            image = patches[(slice(None), slice(None), None, *(slice(None),) * rank, *tap)]
            weight = w[(slice(None), *tap, 0)].reshape(1, x.shape[1], made, *(1,) * rank)
            yield image, weight

    sums = added(products()) if ctx.wide and t.dtype.is_float else ctx.contraction.tap_sums(products(), t.dtype)
    return sums.reshape(x.shape[0], w.shape[0], *out)


def _new_groups(attrs: AttrMap, args: Types, results: Types, new: Types) -> AttrMap:
    """A depthwise convolution may be cut along its channels."""
    groups, w = attrs["groups"], logical_weights(args[1].shape, attrs)
    assert isinstance(groups, int)
    return {**attrs, "groups": new[0].shape[1] // (w[0] // groups)} if is_depthwise(w, groups) else attrs


def _conv_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """The batch is parallel; so are the output channels without groups, and the channels of a depthwise one."""
    x, w = args
    out, groups = results[0], attrs["groups"]
    assert isinstance(groups, int)
    logical = logical_weights(w.shape, attrs)
    if is_depthwise(logical, groups):
        n, made, taps = x.rank, logical[0] // groups, x.rank - 2
        extents = (x.shape[0], x.shape[1], *x.shape[2:], *out.shape[2:], *logical[2:])
        window: tuple[Entry | None, ...] = entries(taps, 2 * n - 2)
        rest = (*window, None) if attrs["channels_last"] else (None, *window)
        operands = ((*entries(2), *entries(taps, 2)), (Entry(1, made), *rest))
        result = (Entry(0), Entry(1, made), *entries(taps, n))
        return Axes(extents, (*parallel(2), *whole(3 * taps)), operands, (result,))
    channel: AxisKind = "parallel" if groups == 1 else "whole"
    n = out.rank
    extents = (*out.shape, *x.shape[1:], *w.shape[1:])
    kinds = ("parallel", channel, *whole(len(extents) - 2))
    operands = ((Entry(0), *entries(n - 1, n)), (Entry(1), *entries(n - 1, 2 * n - 1)))
    return Axes(extents, kinds, operands, (entries(n),))


def _infer_window(args: Types, attrs: AttrMap) -> Types | str:
    (x,), window = args, ints(attrs["window"])
    if x.dtype == BOOL:
        return f"cannot reduce {x}; needs numbers"
    if x.rank != len(window) + 2:
        return f"window {window} needs an operand [N, C, …] of rank {len(window) + 2}, got {x}"
    if attrs["op"] not in ("max", "min", "sum", "prod"):
        return f"op must be max, min, sum or prod, got {attrs['op']}"
    bad = bad_window(attrs, len(window))
    if bad:
        return bad
    rows = zip(x.shape[2:], window, *_window_attrs(attrs), strict=True)
    return (x.with_shape((*x.shape[:2], *(window_length(n, k, s, lo, hi, d) for n, k, s, lo, hi, d in rows))),)


def _window(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    (x,), window, t = args, ints(attrs["window"]), types[0]
    kind, (least, greatest) = str(attrs["op"]), extremes(t.dtype)
    view = windows(x, window, attrs, {"max": least, "min": greatest, "sum": 0, "prod": 1}[kind])
    return (_fold(kind, view, len(window), t.dtype, ctx),)


def _window_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    (x,), out = args, results[0]
    extents = (*out.shape, *x.shape[2:])
    operand = (*entries(2), *entries(x.rank - 2, out.rank))
    return Axes(extents, (*parallel(2), *whole(len(extents) - 2)), (operand,), (entries(out.rank),))


# ---- reductions ----------------------------------------------------------------------------------


def _fold(kind: str, x: NDArray, last: int, d: DType, ctx: Context) -> NDArray:
    """Reduces the `last` innermost axes of `x`."""
    kept = x.shape[: x.ndim - last]
    flat = np.ascontiguousarray(x).reshape(*kept, prod(x.shape[x.ndim - last :]))
    with np.errstate(all="ignore"):
        return ctx.cast(_FOLDS[kind](flat, d), d)


def _fold_sum(x: NDArray, d: DType) -> NDArray:
    # numpy's own start is -0 or +0 by version; adding +0 makes it +0.
    return np.sum(x.astype(np.float64 if d.is_float else np.int64), axis=-1) + 0


def _fold_prod(x: NDArray, d: DType) -> NDArray:
    return np.prod(x.astype(np.float64 if d.is_float else np.int64), axis=-1)


def _fold_max(x: NDArray, d: DType) -> NDArray:
    top = np.max(x, axis=-1, initial=extremes(d)[0])
    return _signed_zero(x, top) if d.is_float else top


def _fold_min(x: NDArray, d: DType) -> NDArray:
    low = np.min(x, axis=-1, initial=extremes(d)[1])
    return -_signed_zero(-x, -low) if d.is_float else low


def _signed_zero(x: NDArray, top: NDArray) -> NDArray:
    """`top`, the maxima of `x`, with a zero being +0 when any zero of its operands is."""
    if not np.any(top == 0):
        return top
    plus = np.any((x == 0) & ~np.signbit(x.astype(np.float64)), axis=-1)
    return np.where(top == 0, np.where(plus, 0.0, -0.0), top).astype(top.dtype)


_FOLDS: dict[str, Callable[[NDArray, DType], NDArray]] = {
    "sum": _fold_sum,
    "prod": _fold_prod,
    "max": _fold_max,
    "min": _fold_min,
    "and": lambda x, d: np.all(x, axis=-1),
    "or": lambda x, d: np.any(x, axis=-1),
}


def _bad_axes(t: TensorType, axes: tuple[int, ...]) -> str | None:
    if list(axes) != sorted(set(axes)) or any(not 0 <= a < t.rank for a in axes):
        return f"axes {axes} must be different axes of {t}, in rising order"
    return None


def _reduce(kind: str) -> Op:
    def infer(args: Types, attrs: AttrMap) -> Types | str:
        (x,), axes = args, ints(attrs["axes"])
        if (kind in ("and", "or")) != (x.dtype == BOOL):
            return f"cannot reduce {x}; needs {'bools' if kind in ('and', 'or') else 'numbers'}"
        bad = _bad_axes(x, axes)
        return bad or (x.with_shape(d for i, d in enumerate(x.shape) if i not in axes),)

    def run(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
        (x,), axes = args, ints(attrs["axes"])
        kept = [i for i in range(x.ndim) if i not in axes]
        return (_fold(kind, np.transpose(x, (*kept, *axes)), len(axes), types[0].dtype, ctx),)

    doc, edges = _REDUCE_DOCS[kind]
    return Op(
        f"reduce_{kind}",
        f"{doc} over `axes`, which vanish.",
        ("x",),
        infer,
        run,
        _reduce_axes,
        "reduce",
        (AttrSpec("axes", "ints"),),
        frozenset(("reduce",)),
        edges,
    )


_REDUCE_DOCS = {
    "sum": ("The sum", "Accumulated in f64 from +0, so an empty sum and a sum of -0s are +0. Integers wrap."),
    "prod": (
        "The product",
        "Accumulated in f64, so that no partial product over- or underflows f32. An empty product is 1. Integers wrap.",
    ),
    "max": (
        "The greatest",
        "NaN if any is NaN; +0 is above -0. An empty max is -inf (f8e4m3: -448), or the least integer.",
    ),
    "min": (
        "The least",
        "NaN if any is NaN; -0 is below +0. An empty min is inf (f8e4m3: 448), or the greatest integer.",
    ),
    "and": ("Whether all hold", "True when empty."),
    "or": ("Whether any holds", "False when empty."),
}


def _reduce_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    (x,), axes = args, ints(attrs["axes"])
    return _without(x, axes, "reduce")


def _without(x: TensorType, axes: tuple[int, ...], kind: AxisKind) -> Axes:
    """The result has all axes of `x` but `axes`, which are of `kind`."""
    row = entries(x.rank)
    kinds: tuple[AxisKind, ...] = tuple(kind if i in axes else "parallel" for i in range(x.rank))
    return Axes(x.shape, kinds, (row,), (tuple(e for e in row if e.axis not in axes),))


_PRODUCT = (AttrSpec("precision", "str", "highest"), AttrSpec("dtype", "dtype", None))
_WINDOW = tuple(AttrSpec(n, "ints") for n in ("strides", "low", "high", "dilations"))

ROWS: tuple[Op, ...] = (
    Op(
        "matmul",
        "a[..B, M, K] @ b[..B, K, N], or @ b[K, N]; `dtype` is the result's, the operands' by default. i8 "
        "and u8 multiply too.",
        ("a", "b"),
        _infer_matmul,
        _matmul,
        _matmul_axes,
        "contract",
        _PRODUCT,
        edges="Products and sums in an order and width that is the target's (the reference: f64), rounded to the "
        "result's dtype. K = 0 gives +0. Integers wrap at the result's dtype.",
    ),
    Op(
        "conv",
        "x[N, C, …] convolved with w[O, C/groups, …] (cross-correlation, zero padding). With `channels_last` w "
        "is [O, …, C/groups], as a matrix product wants it.",
        ("x", "w"),
        _infer_conv,
        _conv,
        _conv_axes,
        "contract",
        (*_WINDOW, AttrSpec("groups", "int", 1), *_PRODUCT, AttrSpec("channels_last", "bool", False)),
        edges="As matmul of weights by patches, K running over taps in row-major order, then channels; padding "
        "takes part as zeros, so a NaN or infinite weight meets them as NaN. With one input channel and fewer than 8 "
        "output channels a group it is no matrix product: products and sums one after another in order of the taps "
        "(the reference: f64).",
        recut=_new_groups,
    ),
    Op(
        "reduce_window",
        "`op`, one of max, min, sum and prod, over windows of the spatial axes of x[N, C, …]; padding is neutral.",
        ("x",),
        _infer_window,
        _window,
        _window_axes,
        "reduce",
        (AttrSpec("op", "str"), AttrSpec("window", "ints"), *_WINDOW),
        edges="As reduce_max and its kin; a window of padding only is what those give when empty.",
    ),
    *map(_reduce, ("sum", "prod", "max", "min", "and", "or")),
)
