"""Rows whose operands say where: dynamic_slice, dynamic_update_slice, gather, scatter, as StableHLO has them.

A start index is held to where its slice lies inside, and an update that does not lie inside is dropped, so that no
index is undefined. Indices are of any integer dtype and count no end from behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..dtypes import BOOL, DType
from ..types import TensorType
from .movement import ints, kept_axes
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
    whole,
)

# ---- dynamic slices --------------------------------------------------------------------------------


def _bad_starts(x: TensorType, starts: TensorType) -> str | None:
    if not starts.dtype.is_int or starts.shape != (x.rank,):
        return f"starts must be integers, one for each axis of {x}, got {starts}"
    return None


def _infer_dynamic_slice(args: Types, attrs: AttrMap) -> Types | str:
    (x, starts), sizes = args, ints(attrs["sizes"])
    if len(sizes) != x.rank or any(not 0 <= n <= d for n, d in zip(sizes, x.shape, strict=True)):
        return f"sizes {sizes} must lie in the axes of {x}"
    return _bad_starts(x, starts) or (x.with_shape(sizes),)


def signed(index: NDArray) -> NDArray:
    """Integers as i64; what is beyond its greatest value becomes that."""
    if index.dtype == np.uint64:
        return np.minimum(index, np.uint64(np.iinfo(np.int64).max)).astype(np.int64)
    return index.astype(np.int64)


def _place(starts: NDArray, shape: Sequence[int], sizes: Sequence[int]) -> tuple[slice, ...]:
    room = np.array([d - n for d, n in zip(shape, sizes, strict=True)], np.int64)
    at = np.clip(signed(starts), 0, room)
    return tuple(slice(int(a), int(a) + n) for a, n in zip(at, sizes, strict=True))


def _dynamic_slice(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    x, starts = args
    return (x[_place(starts, x.shape, types[0].shape)],)


def _infer_dynamic_update_slice(args: Types, attrs: AttrMap) -> Types | str:
    x, update, starts = args
    if (
        update.dtype != x.dtype
        or update.rank != x.rank
        or any(n > d for n, d in zip(update.shape, x.shape, strict=True))
    ):
        return f"the update must be of the dtype and rank of {x} and fit in it, got {update}"
    return _bad_starts(x, starts) or (x,)


def _dynamic_update_slice(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    x, update, starts = args
    out = np.array(x)
    out[_place(starts, x.shape, update.shape)] = update
    return (out,)


def _dynamic_slice_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """An axis taken whole starts at 0 whatever its start says, so it runs along; the others are whole."""
    x, starts = args
    axes = kept_axes((x,), results, lambda i: x.shape[i] == results[0].shape[i])
    return _with_whole(axes, starts, 1)


def _dynamic_update_slice_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    x, update, starts = args
    axes = kept_axes((x, update), results, lambda i: x.shape[i] == update.shape[i])
    return _with_whole(axes, starts, 2)


def _with_whole(axes: Axes, more: TensorType, at: int) -> Axes:
    """`axes` with an operand in place `at` whose axes are whole."""
    first = len(axes.extents)
    row = tuple(Entry(first + i) for i in range(more.rank))
    operands = (*axes.operands[:at], row, *axes.operands[at:])
    kinds = (*axes.kinds, *whole(more.rank))
    return Axes((*axes.extents, *more.shape), kinds, operands, axes.results)


def _new_sizes(attrs: AttrMap, args: Types, results: Types, new: Types) -> AttrMap:
    return {**attrs, "sizes": new[0].shape}


# ---- gather ----------------------------------------------------------------------------------------


def _rising(axes: tuple[int, ...], rank: int) -> bool:
    return list(axes) == sorted(set(axes)) and all(0 <= a < rank for a in axes)


def _distinct(axes: tuple[int, ...], rank: int) -> bool:
    return len(set(axes)) == len(axes) and all(0 <= a < rank for a in axes)


def index_shape(index: TensorType, vector_dim: int) -> tuple[int, ...]:
    """The shape of an index tensor without the axis its vectors lie along."""
    return index.shape[:vector_dim] + index.shape[vector_dim + 1 :]


def _bad_index(
    what: str,
    index: TensorType,
    vector_dim: object,
    start_map: tuple[int, ...],
    batching: tuple[int, ...],
    index_batching: tuple[int, ...],
    x: TensorType,
) -> str | None:
    """What is wrong with how an index tensor is read, for gather and scatter alike."""
    if not index.dtype.is_int:
        return f"indices must be integers, got {index}"
    if not isinstance(vector_dim, int) or not 0 <= vector_dim <= index.rank:
        return f"index_vector_dim {vector_dim} is no axis of {index}, nor one past its last"
    length = index.shape[vector_dim] if vector_dim < index.rank else 1
    if not _distinct(start_map, x.rank) or len(start_map) != length:
        return f"{what} {start_map} must name {length} different axes of {x}, one for each index in a vector of {index}"
    if not _rising(batching, x.rank) or not _distinct(index_batching, index.rank) or vector_dim in index_batching:
        return f"batching dims {batching} and {index_batching} must be axes of {x} and {index}"
    if [x.shape[a] for a in batching] != [index.shape[a] for a in index_batching] or set(batching) & set(start_map):
        return f"batching dims {batching} of {x} and {index_batching} of {index} must agree, and take no index"
    return None


def _infer_gather(args: Types, attrs: AttrMap) -> Types | str:
    x, index = args
    offset, collapsed, batching, index_batching, start_map, sizes = (ints(attrs[k]) for k in _GATHER)
    bad = _bad_index("start_index_map", index, attrs["index_vector_dim"], start_map, batching, index_batching, x)
    if bad:
        return bad
    if len(sizes) != x.rank or any(not 0 <= n <= d for n, d in zip(sizes, x.shape, strict=True)):
        return f"slice_sizes {sizes} must lie in the axes of {x}"
    gone = (*collapsed, *batching)
    if (
        not _rising(collapsed, x.rank)
        or not _distinct(gone, x.rank)
        or any(sizes[a] != min(1, x.shape[a]) for a in gone)
    ):
        return f"collapsed dims {collapsed} and batching dims {batching} must be different axes of {x} with slices of 1"
    if any(sizes[a] != 1 for a in collapsed):
        return f"a collapsed axis of {x} has no element to take"
    kept = [sizes[a] for a in range(x.rank) if a not in gone]
    batch = index_shape(index, _vector_dim(attrs))
    if not _rising(offset, len(batch) + len(kept)) or len(offset) != len(kept):
        rank = len(batch) + len(kept)
        return f"offset_dims {offset} must name {len(kept)} axes of a result of rank {rank}, in rising order"
    return (x.with_shape(_interleaved(offset, kept, batch)),)


def _vector_dim(attrs: AttrMap) -> int:
    found = attrs["index_vector_dim"]
    assert isinstance(found, int)
    return found


def _interleaved(places: tuple[int, ...], inside: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """`inside` at `places`, `others` in order at the rest."""
    first, second = iter(inside), iter(others)
    return [next(first) if i in places else next(second) for i in range(len(inside) + len(others))]


def _starts(index: NDArray, vector_dim: int, start_map: tuple[int, ...], rank: int) -> NDArray:
    """[rank of x, *index axes but the vector's]: the start along each axis of x; 0 for those not in `start_map`."""
    vectors = index[..., None] if vector_dim == index.ndim else index
    vectors = signed(np.moveaxis(vectors, vector_dim, 0))
    out = np.zeros((rank, *vectors.shape[1:]), np.int64)
    out[list(start_map)] = vectors
    return out


def _set_batches(starts: NDArray, batching: tuple[int, ...], index_batching: tuple[int, ...], vector_dim: int) -> None:
    """Along a batching axis of x the start is the batch's own number."""
    for a, b in zip(batching, index_batching, strict=True):
        axis = b - (b > vector_dim)
        line = np.arange(starts.shape[1 + axis])
        starts[a] = line.reshape([-1 if i == axis else 1 for i in range(starts.ndim - 1)])


def _gather(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    x, index = args
    offset, collapsed, batching, index_batching, start_map, sizes = (ints(attrs[k]) for k in _GATHER)
    if not types[0].size:
        return (np.zeros(types[0].shape, x.dtype),)
    starts = _starts(index, _vector_dim(attrs), start_map, x.ndim)
    _set_batches(starts, batching, index_batching, _vector_dim(attrs))
    batch = starts.shape[1:]
    kept = [a for a in range(x.ndim) if a not in (*collapsed, *batching)]
    where: list[NDArray] = []
    for a in range(x.ndim):
        at = np.clip(starts[a], 0, x.shape[a] - sizes[a]).reshape((*batch, *(1 for _ in kept)))
        if a in kept:
            place = [1] * len(kept)
            place[kept.index(a)] = sizes[a]
            at = at + np.arange(sizes[a]).reshape((1,) * len(batch) + tuple(place))
        where.append(at)
    taken = x[tuple(where)] if where else np.broadcast_to(x, batch)  # batch axes, then offset axes
    order = _interleaved(offset, range(len(batch), taken.ndim), range(len(batch)))
    return (np.transpose(taken, order),)


def _gather_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """Axes of the indices and batching axes run along, and axes of x that each slice takes whole."""
    (x, index), (out,) = args, results
    offset, collapsed, batching, index_batching, _, sizes = (ints(attrs[k]) for k in _GATHER)
    vector_dim = _vector_dim(attrs)
    kept = [a for a in range(x.rank) if a not in (*collapsed, *batching)]
    along = [i for i in range(index.rank) if i != vector_dim]
    batch = [i for i in range(out.rank) if i not in offset]
    extents: list[int] = [*out.shape]
    kinds: list[AxisKind] = ["parallel"] * out.rank
    x_row: list[Entry | None] = [None] * x.rank
    for a, place in zip(kept, offset, strict=True):
        if sizes[a] == x.shape[a]:
            x_row[a] = Entry(place)
        else:
            kinds[place] = "whole"
    for a, b in zip(batching, index_batching, strict=True):
        x_row[a] = Entry(batch[along.index(b)])

    def own(size: int) -> Entry:
        extents.append(size)
        kinds.append("whole")
        return Entry(len(extents) - 1)

    x_full = tuple(e if e is not None else own(d) for e, d in zip(x_row, x.shape, strict=True))
    index_row = tuple(Entry(batch[along.index(i)]) if i != vector_dim else own(d) for i, d in enumerate(index.shape))
    result = tuple(Entry(i) for i in range(out.rank))
    return Axes(tuple(extents), tuple(kinds), (x_full, index_row), (result,))


def _new_slice_sizes(attrs: AttrMap, args: Types, results: Types, new: Types) -> AttrMap:
    """An axis taken whole shrinks with its tile; of a batching axis without elements, none is taken."""
    x, index = args
    offset, collapsed, batching, index_batching, _, sizes = (ints(attrs[k]) for k in _GATHER)
    kept = [a for a in range(x.rank) if a not in (*collapsed, *batching)]
    batch = [d for i, d in enumerate(new[0].shape) if i not in offset]
    along = [i for i in range(index.rank) if i != _vector_dim(attrs)]
    lengths = {a: new[0].shape[i] for a, i in zip(kept, offset, strict=True)}
    lengths |= {a: min(1, batch[along.index(b)]) for a, b in zip(batching, index_batching, strict=True)}
    return {**attrs, "slice_sizes": tuple(lengths.get(a, n) for a, n in enumerate(sizes))}


# ---- scatter ---------------------------------------------------------------------------------------


def _infer_scatter(args: Types, attrs: AttrMap) -> Types | str:
    x, index, updates = args
    window, inserted, batching, index_batching, start_map = (ints(attrs[k]) for k in _SCATTER)
    what = "scatter_dims_to_operand_dims"
    bad = _bad_index(what, index, attrs["index_vector_dim"], start_map, batching, index_batching, x)
    if bad:
        return bad
    legal = ("set", "and", "or") if x.dtype == BOOL else ("set", "add", "mul", "min", "max")
    if attrs["op"] not in legal:
        return f"op must be one of {', '.join(legal)} for {x}, got {attrs['op']}"
    gone = (*inserted, *batching)
    if not _rising(inserted, x.rank) or not _distinct(gone, x.rank):
        return f"inserted dims {inserted} and batching dims {batching} must be different axes of {x}"
    kept = [a for a in range(x.rank) if a not in gone]
    batch = index_shape(index, _vector_dim(attrs))
    if updates.dtype != x.dtype or updates.rank != len(batch) + len(kept) or len(window) != len(kept):
        return f"updates must be {x.dtype} of {len(batch)} axes of indices and {len(kept)} of windows, got {updates}"
    if not _rising(window, updates.rank):
        return f"update_window_dims {window} must be axes of {updates}, in rising order"
    if tuple(updates.shape[i] for i in range(updates.rank) if i not in window) != batch:
        return f"the axes of {updates} but {window} must be those of the indices, {batch}"
    if any(updates.shape[i] > x.shape[a] for i, a in zip(window, kept, strict=True)):
        return f"windows of {updates} do not fit in {x}"
    return (x,)


def _scatter(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    x, index, updates = args
    flat, values = _flat_updates(x, index, updates, attrs)
    d, op = types[0].dtype, str(attrs["op"])
    if op in ("set", "and", "or"):
        out = np.array(x).reshape(-1)
        _write(out, flat, values, op)
        return (out.reshape(x.shape),)
    with np.errstate(all="ignore"):
        return (_accumulated(x, flat, values, op, d, ctx),)


def _flat_updates(x: NDArray, index: NDArray, updates: NDArray, attrs: AttrMap) -> tuple[NDArray, NDArray]:
    """(flat place in x, value) of each update element that lies inside, in row-major order of `updates`."""
    window, inserted, batching, index_batching, start_map = (ints(attrs[k]) for k in _SCATTER)
    starts = _starts(index, _vector_dim(attrs), start_map, x.ndim)
    _set_batches(starts, batching, index_batching, _vector_dim(attrs))
    kept = [a for a in range(x.ndim) if a not in (*inserted, *batching)]
    sizes = {a: updates.shape[i] for a, i in zip(kept, window, strict=True)}
    others = [i for i in range(updates.ndim) if i not in window]
    shape = [updates.shape[i] if i in others else 1 for i in range(updates.ndim)]
    inside, place = np.ones(shape, bool), np.zeros(updates.shape, np.int64)
    for a in range(x.ndim):
        at = starts[a].reshape(shape)
        inside &= (at >= 0) & (at <= x.shape[a] - sizes.get(a, 1))
        step = prod(x.shape[a + 1 :])
        at = np.clip(at, 0, max(x.shape[a] - 1, 0))
        if a in sizes:
            i = window[kept.index(a)]
            at = at + np.arange(sizes[a]).reshape([-1 if j == i else 1 for j in range(updates.ndim)])
        place = place + at * step
    keep = np.broadcast_to(inside, updates.shape).reshape(-1)
    return place.reshape(-1)[keep], np.ascontiguousarray(updates).reshape(-1)[keep]


def _write(out: NDArray, flat: NDArray, values: NDArray, op: str) -> None:
    if op == "set":
        # NumPy promises no order for repeated places: keep the last update of each.
        last = flat.size - 1 - np.unique(flat[::-1], return_index=True)[1]
        out[flat[last]] = values[last]
    elif op == "and":
        np.logical_and.at(out, flat, values)
    else:
        np.logical_or.at(out, flat, values)


def _accumulated(x: NDArray, flat: NDArray, values: NDArray, op: str, d: DType, ctx: Context) -> NDArray:
    """Updates applied one after another: f64 in f64, other floats in f32, integers modulo 2^64; rounded at the end."""
    exact: Any = np.int64 if not d.is_float else np.float64 if x.dtype == np.float64 else np.float32
    if d.kind == "uint":
        exact = np.uint64
    out = x.astype(exact).reshape(-1)
    more = values.astype(exact)
    if op in ("min", "max") and d.is_float:
        _extreme_at(out, flat, more, op)
    else:
        ufunc = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op]
        ufunc.at(out, flat, more)
    return ctx.cast(out.reshape(x.shape), d)


def _extreme_at(out: NDArray, flat: NDArray, more: NDArray, op: str) -> None:
    """max and min of the op table, where +0 is above -0 and NaN wins: by a final look at places that hold a zero."""
    ufunc = np.maximum if op == "max" else np.minimum
    winner = np.zeros(out.shape, bool)
    wanted = np.signbit(out) == (op == "min")
    zeros = (out == 0) & wanted
    winner |= zeros
    chosen = (more == 0) & (np.signbit(more) == (op == "min"))
    winner[flat[chosen]] = True
    ufunc.at(out, flat, more)
    best = -0.0 if op == "min" else 0.0
    out[(out == 0) & winner] = best
    out[(out == 0) & ~winner] = -best


def _scatter_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """Axes of x that each window covers whole run along, and batching axes; all others are whole."""
    x, index, updates = args
    window, inserted, batching, index_batching, _ = (ints(attrs[k]) for k in _SCATTER)
    vector_dim = _vector_dim(attrs)
    kept = [a for a in range(x.rank) if a not in (*inserted, *batching)]
    along = [i for i in range(index.rank) if i != vector_dim]
    others = [i for i in range(updates.rank) if i not in window]
    kinds: list[AxisKind] = []
    extents: list[int] = []

    def fresh(size: int, kind: AxisKind) -> Entry:
        extents.append(size)
        kinds.append(kind)
        return Entry(len(extents) - 1)

    rows: list[list[Entry | None]] = [[None] * t.rank for t in args]
    for a, i in zip(kept, window, strict=True):
        if updates.shape[i] == x.shape[a]:
            rows[0][a] = rows[2][i] = fresh(x.shape[a], "parallel")
    for a, b in zip(batching, index_batching, strict=True):
        rows[0][a] = rows[1][b] = rows[2][others[along.index(b)]] = fresh(x.shape[a], "parallel")
    full = [
        tuple(e if e is not None else fresh(d, "whole") for e, d in zip(row, t.shape, strict=True))
        for row, t in zip(rows, args, strict=True)
    ]
    return Axes(tuple(extents), tuple(kinds), tuple(full), (full[0],))


_GATHER = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
           "start_index_map", "slice_sizes")  # fmt: skip
_SCATTER = ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims")  # fmt: skip

ROWS: tuple[Op, ...] = (
    Op(
        "dynamic_slice",
        "The slice of `sizes` of x that begins at `starts`, an index for each axis.",
        ("x", "starts"),
        _infer_dynamic_slice,
        _dynamic_slice,
        _dynamic_slice_axes,
        "gather",
        (AttrSpec("sizes", "ints"),),
        edges="A start is held to 0 … size - length.",
        recut=_new_sizes,
    ),
    Op(
        "dynamic_update_slice",
        "x with `update` in the place that begins at `starts`.",
        ("x", "update", "starts"),
        _infer_dynamic_update_slice,
        _dynamic_update_slice,
        _dynamic_update_slice_axes,
        "gather",
        edges="A start is held to 0 … size - length.",
    ),
    Op(
        "gather",
        "Slices of x that begin at the index vectors of `starts`, laid out by dimension numbers as StableHLO's gather.",
        ("x", "starts"),
        _infer_gather,
        _gather,
        _gather_axes,
        "gather",
        (*(AttrSpec(k, "ints") for k in _GATHER), AttrSpec("index_vector_dim", "int")),
        edges="A start is held to 0 … size - length, so every slice lies in x.",
        recut=_new_slice_sizes,
    ),
    Op(
        "scatter",
        "x with `updates` put at, or combined by `op` with, the places that the index vectors of `indices` name, "
        "by dimension numbers as StableHLO's scatter.",
        ("x", "indices", "updates"),
        _infer_scatter,
        _scatter,
        _scatter_axes,
        "gather",
        (*(AttrSpec(k, "ints") for k in _SCATTER), AttrSpec("index_vector_dim", "int"), AttrSpec("op", "str", "set")),
        edges="A window that does not lie wholly inside x is dropped. Updates of one element apply in row-major order "
        "of `updates`: of `set` the last one stays; floats narrower than f64 accumulate in f32 and round once. `max` "
        "and `min` as the ops of these names. Integers wrap.",
    ),
)
