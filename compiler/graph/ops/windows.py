"""Rows that spread, or choose within windows: interior_pad, select_and_scatter. Windows that reduce: contract.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

import numpy as np

from ..dtypes import BOOL
from .contract import bad_window, window_length
from .movement import bad_value, ints, kept_axes, scalar
from .row import AttrMap, AttrSpec, Axes, Context, NDArray, Op, Types, entries, parallel, whole


def _infer_interior_pad(args: Types, attrs: AttrMap) -> Types | str:
    (x,), interior = args, ints(attrs["interior"])
    if len(interior) != x.rank or min(interior, default=0) < 0:
        return f"interior needs one entry, 0 or more, for each axis of {x}"
    spread = (n + max(int(n) - 1, 0) * p if p else n for n, p in zip(x.shape, interior, strict=True))
    return bad_value(attrs["value"], x.dtype) or (x.with_shape(spread),)


def _interior_pad(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    value = ctx.cast(scalar(attrs["value"], types[0].dtype), types[0].dtype)
    out = np.full(types[0].shape, value, value.dtype)
    out[tuple(slice(None, None, 1 + p) for p in ints(attrs["interior"]))] = args[0]
    return (out,)


def _interior_pad_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    return kept_axes(args, results, lambda i: not ints(attrs["interior"])[i])


# ---- select_and_scatter ----------------------------------------------------------------------------


_KEEPS: dict[str, Callable[[NDArray, NDArray], NDArray]] = {
    "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal, "lt": np.less,
}  # fmt: skip


def _infer_select_and_scatter(args: Types, attrs: AttrMap) -> Types | str:
    (x, source), window = args, ints(attrs["window"])
    if x.dtype == BOOL or source.dtype != x.dtype:
        return f"needs numbers of one dtype, got {x} and {source}"
    if x.rank != len(window) + 2 or min(window, default=1) < 1:
        return (
            f"window {window} needs an operand [N, C, …] of rank {len(window) + 2} and 1 or more taps an axis, got {x}"
        )
    if attrs["select"] not in _KEEPS:
        return f"select must be one of {', '.join(_KEEPS)}, got {attrs['select']}"
    bad = bad_window({**attrs, "dilations": (1,) * len(window)}, len(window))
    if bad:
        return bad
    strides, low, high = (ints(attrs[k]) for k in ("strides", "low", "high"))
    rows = zip(x.shape[2:], window, strides, low, high, strict=True)
    wanted = (*x.shape[:2], *(window_length(n, k, s, a, b, 1) for n, k, s, a, b in rows))
    return (x,) if source.shape == wanted else f"source must have the shape of the windows, {wanted}, got {source}"


def _select_and_scatter(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    """Tap by tap in row-major order: the chosen element stays where `select(chosen, tap)` holds; never padding."""
    (x, source), window = args, ints(attrs["window"])
    keeps, out = _KEEPS[str(attrs["select"])], source.shape[2:]
    size = prod(x.shape[2:])
    best, place = np.zeros(source.shape, x.dtype), np.full(source.shape, size, np.int64)
    flat = np.ascontiguousarray(x).reshape(*x.shape[:2], size)
    with np.errstate(all="ignore"):
        for tap in product(*map(range, window)):
            at, inside = _tap(tap, out, x.shape[2:], attrs)
            value = flat[..., at] if size else np.zeros(source.shape, x.dtype)
            better = inside & ((place == size) | ~keeps(best, value))
            best, place = np.where(better, value, best), np.where(better, at, place)
        return (_sums(source, place, x, ctx, types),)


def _tap(tap: Sequence[int], out: Sequence[int], shape: Sequence[int], attrs: AttrMap) -> tuple[NDArray, NDArray]:
    """For each window, the flat place of its element `tap` in the spatial axes, and whether it is no padding."""
    strides, low = ints(attrs["strides"]), ints(attrs["low"])
    place, inside = np.zeros(tuple(out), np.int64), np.ones(tuple(out), bool)
    for i, n in enumerate(shape):
        at = np.arange(out[i]) * strides[i] + tap[i] - low[i]
        at = at.reshape([-1 if j == i else 1 for j in range(len(out))])
        inside = inside & (at >= 0) & (at < n)
        place = place * n + np.clip(at, 0, max(n - 1, 0))
    return place, inside


def _sums(source: NDArray, place: NDArray, x: NDArray, ctx: Context, types: Types) -> NDArray:
    d, size = types[0].dtype, prod(x.shape[2:])
    exact = np.float64 if d.is_float else np.int64
    lines = prod(x.shape[:2])
    out = np.zeros((lines, size + 1), exact)  # the last place takes what windows of padding alone choose
    rows = np.arange(lines).reshape(-1, 1)
    flat = place.reshape(lines, prod(place.shape[2:]))
    np.add.at(out, (rows, flat), source.reshape(flat.shape).astype(exact))
    return ctx.cast(out[:, :size].reshape(x.shape), d)


def _select_and_scatter_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    (x, source), spatial = args, args[0].rank - 2
    extents = (*x.shape, *source.shape[2:])
    rows = ((*entries(2), *entries(spatial, 2)), (*entries(2), *entries(spatial, 2 + spatial)))
    return Axes(extents, (*parallel(2), *whole(2 * spatial)), rows, (rows[0],))


ROWS: tuple[Op, ...] = (
    Op(
        "interior_pad",
        "x with `interior` elements of `value` between neighbours along each axis.",
        ("x",),
        _infer_interior_pad,
        _interior_pad,
        _interior_pad_axes,
        "move",
        (AttrSpec("interior", "ints"), AttrSpec("value", "number", 0)),
        edges="`value` as in full. Nothing lies between fewer than two elements.",
    ),
    Op(
        "select_and_scatter",
        "For each window over the spatial axes of x[N, C, …], its element of `source` added where the "
        "window's chosen element stands; 0 elsewhere.",
        ("x", "source"),
        _infer_select_and_scatter,
        _select_and_scatter,
        _select_and_scatter_axes,
        "reduce",
        (AttrSpec("select", "str"), *(AttrSpec(n, "ints") for n in ("window", "strides", "low", "high"))),
        edges="Taps are looked at in row-major order, and the chosen one stays while `select`(it, next) holds: with ge "
        "the first greatest, and a NaN gives way to what follows it. Padding is never chosen. Sums as reduce_sum's.",
    ),
)
