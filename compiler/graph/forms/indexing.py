"""Forms that read or write by index: dynamic slices by scalars, ONNX's Gather and Scatter families, one_hot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..build import Builder, InferError
from ..dtypes import BOOL, I32, I64, DType
from .basic import broadcast_to, constant, convert, reshape, scalar
from .movement import concat, slice_any


def wrapped(b: Builder, index: int, size: int) -> int:
    """Indices of which negative ones count from the end of an axis of `size`."""
    if b.types[index].dtype.kind == "uint":
        return index
    if size > 127 and b.types[index].dtype.bits <= 32:
        index = convert(b, index, I32 if size < 2**31 else I64)
    behind = b.one("add", index, scalar(b, int(size), index))
    return b.one("select", b.one("lt", index, scalar(b, 0, index)), behind, index)


def _vector(b: Builder, starts: Sequence[int]) -> int:
    """Scalars side by side, at the first one's dtype or i32."""
    if not starts:
        return b.full(0, I32, (0,))
    dtypes = {b.types[s].dtype for s in starts}
    to = dtypes.pop() if len(dtypes) == 1 else I64
    return concat(b, [reshape(b, convert(b, s, to), (1,)) for s in starts], 0)


def dynamic_slice(b: Builder, x: int, starts: Sequence[int], sizes: Sequence[int]) -> int:
    """The slice of `sizes` at `starts`, one scalar an axis."""
    return b.one("dynamic_slice", x, _vector(b, starts), sizes=tuple(sizes))


def dynamic_update_slice(b: Builder, x: int, update: int, starts: Sequence[int]) -> int:
    """`x` with `update` at `starts`, one scalar an axis."""
    return b.one("dynamic_update_slice", x, update, _vector(b, starts))


# ---- reading ---------------------------------------------------------------------------------------


def take(b: Builder, x: int, index: int, axis: int, wrap: bool = False) -> int:
    """Rows of `x` along `axis`; with `wrap` negative indices count from the end."""
    axis %= b.types[x].rank
    return b.one("take", x, wrapped(b, index, b.types[x].shape[axis]) if wrap else index, axis=axis)


def gather_elements(b: Builder, x: int, index: int, axis: int, wrap: bool = True) -> int:
    """out[i, j, k] = x[i, index[i, j, k], k] for axis 1; the other axes of `index` may be shorter than x's."""
    t, it = b.types[x], b.types[index]
    axis %= t.rank
    if it.rank != t.rank or any(n > d for i, (n, d) in enumerate(zip(it.shape, t.shape, strict=True)) if i != axis):
        raise InferError(f"gather_elements: {it} does not fit {t} but for axis {axis}")
    index = wrapped(b, index, t.shape[axis]) if wrap else index
    x = slice_any(b, x, (0,) * t.rank, [t.shape[i] if i == axis else n for i, n in enumerate(it.shape)])
    others = tuple(i for i in range(t.rank) if i != axis)
    return b.one(
        "gather", x, index, offset_dims=(), collapsed_slice_dims=(axis,), operand_batching_dims=others,
        start_indices_batching_dims=others, start_index_map=(axis,), index_vector_dim=t.rank,
        slice_sizes=tuple(1 if i == axis else min(1, n) for i, n in enumerate(b.types[x].shape)),
    )  # fmt: skip


def gather_nd(b: Builder, x: int, index: int, batch_dims: int = 0, wrap: bool = True) -> int:
    """ONNX's GatherND: the last axis of `index` holds places in the axes of x after the first `batch_dims`."""
    t, it = b.types[x], b.types[index]
    if not it.rank or it.shape[-1] > t.rank - batch_dims:
        raise InferError(f"gather_nd: indices {it} name more axes than {t} has after {batch_dims}")
    k = int(it.shape[-1])
    batch, named = tuple(range(batch_dims)), tuple(range(batch_dims, batch_dims + k))
    rest = tuple(range(batch_dims + k, t.rank))
    return b.one(
        "gather", x, _wrapped_vectors(b, index, [t.shape[a] for a in named]) if wrap else index,
        offset_dims=tuple(it.rank - 1 + i for i in range(len(rest))), collapsed_slice_dims=named,
        operand_batching_dims=batch, start_indices_batching_dims=batch, start_index_map=named,
        index_vector_dim=it.rank - 1, slice_sizes=tuple(d if i in rest else min(1, d) for i, d in enumerate(t.shape)),
    )  # fmt: skip


def _wrapped_vectors(b: Builder, index: int, sizes: Sequence[int]) -> int:
    """Vectors of indices along the last axis, negative ones counted from the end of their own axis."""
    t = b.types[index]
    if t.dtype.kind == "uint" or not sizes:
        return index
    if t.dtype.bits <= 32:
        index = convert(b, index, I32 if max(map(int, sizes)) < 2**31 else I64)
    ends = constant(b, np.array([int(n) for n in sizes]), b.types[index].dtype)
    behind = b.one("add", index, broadcast_to(b, ends, t.shape))
    return b.one("select", b.one("lt", index, scalar(b, 0, index)), behind, index)


# ---- writing ---------------------------------------------------------------------------------------


def scatter_elements(
    b: Builder, x: int, index: int, updates: int, axis: int, op: str = "set", wrap: bool = True
) -> int:
    """x with x[i, index[i, j, k], k] combined with updates[i, j, k], for axis 1."""
    t, it = b.types[x], b.types[index]
    axis %= t.rank
    index = wrapped(b, index, t.shape[axis]) if wrap else index
    others = tuple(i for i in range(t.rank) if i != axis)
    if all(it.shape[i] == t.shape[i] for i in others):
        return b.one(
            "scatter", x, index, updates, update_window_dims=(), inserted_window_dims=(axis,),
            input_batching_dims=others, scatter_indices_batching_dims=others, scatter_dims_to_operand_dims=(axis,),
            index_vector_dim=t.rank, op=op,
        )  # fmt: skip
    # Shorter than x along other axes: every place is written out in full.
    index = convert(b, index, I64 if b.types[index].dtype.bits == 64 else I32)
    own = b.types[index]
    parts = [index if i == axis else b.one("iota", axis=i, dtype=own.dtype, shape=own.shape) for i in range(t.rank)]
    places = concat(b, [reshape(b, p, (*own.shape, 1)) for p in parts], own.rank)
    return b.one(
        "scatter", x, places, updates, update_window_dims=(), inserted_window_dims=tuple(range(t.rank)),
        input_batching_dims=(), scatter_indices_batching_dims=(), scatter_dims_to_operand_dims=tuple(range(t.rank)),
        index_vector_dim=t.rank, op=op,
    )  # fmt: skip


def scatter_nd(b: Builder, x: int, index: int, updates: int, op: str = "set", wrap: bool = True) -> int:
    """ONNX's ScatterND: the last axis of `index` holds places in the first axes of x, `updates` what goes there."""
    t, it = b.types[x], b.types[index]
    k = int(it.shape[-1])
    return b.one(
        "scatter", x, _wrapped_vectors(b, index, t.shape[:k]) if wrap else index, updates,
        update_window_dims=tuple(range(it.rank - 1, it.rank - 1 + t.rank - k)), inserted_window_dims=tuple(range(k)),
        input_batching_dims=(), scatter_indices_batching_dims=(), scatter_dims_to_operand_dims=tuple(range(k)),
        index_vector_dim=it.rank - 1, op=op,
    )  # fmt: skip


def one_hot(
    b: Builder, index: int, depth: int, on: int | None = None, off: int | None = None, axis: int = -1,
    dtype: DType = BOOL, wrap: bool = True,
) -> int:  # fmt: skip
    """A new axis of `depth` that is `on` at the index and `off` elsewhere; off everywhere for an index out of range.

    `on` and `off` are scalars of one dtype; without them the result is 1 and 0 (true and false) of `dtype`.
    """
    t = b.types[index]
    axis %= t.rank + 1
    index = convert(b, index, I64 if t.dtype.bits == 64 else I32)
    index = wrapped(b, index, depth) if wrap else index
    shape = (*t.shape[:axis], depth, *t.shape[axis:])
    wide = reshape(b, index, (*t.shape[:axis], 1, *t.shape[axis:]))
    place = b.one("iota", axis=axis, dtype=b.types[index].dtype, shape=shape)
    hit = b.one("eq", place, broadcast_to(b, wide, shape))
    if on is None or off is None:
        return convert(b, hit, dtype)
    return b.one("select", hit, *(broadcast_to(b, reshape(b, v, ()), shape) for v in (on, off)))
