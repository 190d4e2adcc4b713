"""Operations that read and write by index; sorting; random bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....graph import Builder, Graph, TensorType, forms
from ....graph.dtypes import BOOL, I32
from ..call import Call, Handler
from ..syntax import Value
from .movement import known_ints

_GATHER = (
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
)
_SCATTER = ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims")  # fmt: skip
_OPS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "and": "and", "or": "or"}


def _dynamic_slice(call: Call) -> int:
    x, *starts = call.arity(1, 64)
    sizes = call.ints("slice_sizes", "sizes")
    return forms.dynamic_slice(call.b, x, _scalars(call, starts, 0), sizes)


def _dynamic_update_slice(call: Call) -> int:
    x, update, *starts = call.arity(2, 66)
    return forms.dynamic_update_slice(call.b, x, update, _scalars(call, starts, 0))


def _scalars(call: Call, starts: Sequence[int], x: int) -> Sequence[int]:
    bad = [call.b.types[s] for s in starts if call.b.types[s].rank or not call.b.types[s].dtype.is_int]
    if bad or len(starts) != call.type(x).rank:
        call.refuse(f"needs one integer scalar an axis of {call.type(x)}, got {len(starts)}")
    return starts


def _dims(call: Call, found: Mapping[str, Value], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    return {name: call.as_ints(found.get(name, ()), name) for name in names}


def _vector_dim(call: Call, found: Mapping[str, Value]) -> int:
    value = found.get("index_vector_dim", 0)
    if not isinstance(value, int):
        call.refuse("has an index_vector_dim that is no integer")
    return int(value)


def _gather(call: Call) -> int:
    x, starts = call.arity(2)
    return _gathered(call, x, starts, call.ints("slice_sizes"))


def _dynamic_gather(call: Call) -> int:
    x, starts, _ = call.arity(3)
    return _gathered(call, x, starts, known_ints(call, 2, "slice sizes"))


def _gathered(call: Call, x: int, starts: int, sizes: tuple[int, ...]) -> int:
    found = call.fields("dimension_numbers")
    dims, vector_dim = _dims(call, found, _GATHER), _vector_dim(call, found)
    (made,) = call.b.add("gather", (x, starts), {**dims, "index_vector_dim": vector_dim, "slice_sizes": sizes})
    taken = _taken(call, x, starts, dims, vector_dim, sizes)
    return made if taken is None else taken


def _taken(
    call: Call, x: int, starts: int, dims: dict[str, tuple[int, ...]], vector_dim: int, sizes: tuple[int, ...]
) -> int | None:
    """Whole rows along one axis, whose place in the shape the index axes take: a `take`; None for any other gather."""
    axes, t, index = dims["start_index_map"], call.b.types[x], call.b.types[starts]
    if len(axes) != 1 or dims["collapsed_slice_dims"] != axes or dims["operand_batching_dims"]:
        return None
    (axis,) = axes
    if any(n != d for i, (n, d) in enumerate(zip(sizes, t.shape, strict=True)) if i != axis):
        return None
    shape = index.shape[:vector_dim] + index.shape[vector_dim + 1 :]
    rank = len(shape)
    if dims["offset_dims"] != (*range(axis), *range(axis + rank, rank + t.rank - 1)):
        return None
    return call.b.one("take", x, forms.reshape(call.b, starts, shape), axis=axis)


# ---- scatter -----------------------------------------------------------------------------------------


def _scatter(call: Call) -> Sequence[int]:
    n, rest = divmod(len(call.args) - 1, 2)
    if rest or n < 1:
        call.refuse(f"takes operands, indices and as many updates, got {len(call.args)}")
    xs, index, updates = call.args[:n], call.args[n], call.args[n + 1 :]
    found = call.fields("scatter_dimension_numbers")
    dims, vector_dim = _dims(call, found, _SCATTER), _vector_dim(call, found)
    elements = [call.b.types[v].with_shape(()) for v in (*xs, *updates)]
    region = call.region(elements, elements[:n])
    kinds = [_kind(region, i, n) for i in range(n)]
    if None in kinds:
        return _scatter_region(call, xs, index, updates, region, dims, vector_dim)
    made: list[int] = []
    for x, u, kind in zip(xs, updates, kinds, strict=True):
        attrs = {**dims, "index_vector_dim": vector_dim, "op": kind}
        made.append(x if kind == "keep" else call.b.add("scatter", (x, index, u), attrs)[0])
    return made


def _kind(region: Graph, i: int, n: int) -> str | None:
    """What the region does to operand `i` of `n` with its update: set, add, …, keep; None for anything else."""
    inputs = [node.out for node in region.inputs]
    made = region.outputs[i] if len(region.outputs) == n else -1
    if made == inputs[n + i]:
        return "set"
    if made == inputs[i]:
        return "keep"
    b = Builder("pair")
    pair = {inputs[i]: b.input("x", region.types[inputs[i]]), inputs[n + i]: b.input("y", region.types[inputs[n + i]])}
    node = region.producers.get(made)
    if node is None or set(node.args) != set(pair) or node.regions:
        return None
    out = b.copy(node, [pair[a] for a in node.args])
    return _OPS.get(forms.region_kind(b.finish(out)) or "")


def _scatter_region(
    call: Call, xs: Sequence[int], index: int, updates: Sequence[int], region: Graph, dims: dict[str, tuple[int, ...]],
    vector_dim: int,
) -> Sequence[int]:  # fmt: skip
    """Any region: one index vector after another, its window read, combined and put back."""
    b, window = call.b, dims["update_window_dims"]
    rows, axes = _vectors(call, index, dims, vector_dim)
    count = int(b.types[rows].shape[0])
    parts = [_windows(b, u, window, count) for u in updates]
    inner = Builder("step", b.loc)
    inner.input("i", TensorType(I32, ()))
    given = [inner.input(f"x{i}", b.types[x]) for i, x in enumerate(xs)]
    at = inner.input("at", b.types[rows].with_shape(b.types[rows].shape[1:]))
    news = [inner.input(f"u{i}", b.types[p].with_shape(b.types[p].shape[1:])) for i, p in enumerate(parts)]
    gone = tuple(sorted((*dims["inserted_window_dims"], *dims["input_batching_dims"])))
    kept = inner.types[news[0]].rank
    sizes = iter(inner.types[news[0]].shape)
    shape = tuple(1 if a in gone else next(sizes) for a in range(b.types[xs[0]].rank))
    none: tuple[int, ...] = ()
    read = {
        "offset_dims": tuple(range(kept)), "collapsed_slice_dims": gone, "operand_batching_dims": none,
        "start_indices_batching_dims": none, "start_index_map": axes, "index_vector_dim": 0, "slice_sizes": shape,
    }  # fmt: skip
    write = {
        "update_window_dims": tuple(range(kept)), "inserted_window_dims": gone, "input_batching_dims": none,
        "scatter_indices_batching_dims": none, "scatter_dims_to_operand_dims": axes, "index_vector_dim": 0, "op": "set",
    }  # fmt: skip
    old = [inner.add("gather", (x, at), read)[0] for x in given]
    made = inner.inline(forms.lift(region, inner.types[news[0]].shape), (*old, *news))
    put = [inner.add("scatter", (x, at, m), write)[0] for x, m in zip(given, made, strict=True)]
    body = inner.finish(put)
    attrs = {"n": count, "carry": len(xs), "xs": 1 + len(parts)}
    return b.add("loop", (*xs, rows, *parts), attrs, regions=(body,))


def _vectors(call: Call, index: int, dims: dict[str, tuple[int, ...]], vector_dim: int) -> tuple[int, tuple[int, ...]]:
    """([N, k] index vectors in row-major order of the updates' batch axes, the axes of x they name).

    Along a batching axis the batch's own number is the index.
    """
    b, t = call.b, call.b.types[index]
    axes, batching = dims["scatter_dims_to_operand_dims"], dims["input_batching_dims"]
    if not 0 <= vector_dim <= t.rank:
        call.refuse(f"has index_vector_dim {vector_dim} for {t}")
    wide = (
        forms.unsqueeze(b, index, (t.rank,))
        if vector_dim == t.rank
        else forms.moveaxis(b, index, vector_dim, t.rank - 1)
    )
    batch = b.types[wide].shape[:-1]
    columns = [wide]
    for axis in dims["scatter_indices_batching_dims"]:
        own = b.one("iota", axis=axis - (axis > vector_dim), dtype=t.dtype, shape=(*batch, 1))
        columns.append(own)
    whole = forms.concat(b, columns, len(batch))
    return forms.reshape(b, whole, (int(np.prod(batch, dtype=np.int64)), b.types[whole].shape[-1])), (*axes, *batching)


def _windows(b: Builder, updates: int, window: tuple[int, ...], count: int) -> int:
    """[N, *window axes] of an update tensor."""
    rank = b.types[updates].rank
    order = (*(i for i in range(rank) if i not in window), *window)
    turned = forms.transpose(b, updates, order)
    return forms.reshape(b, turned, (count, *(b.types[updates].shape[i] for i in window)))


# ---- order -------------------------------------------------------------------------------------------


def _sort(call: Call) -> Sequence[int]:
    args = call.arity(1, 1 << 10)
    first = call.type()
    if any(t.shape != first.shape for t in call.types):
        call.refuse(f"sorts tensors of one shape together, got {', '.join(map(str, call.types))}")
    axis = call.int("dimension", default=-1)
    if not -first.rank <= axis < first.rank:
        call.refuse(f"has no axis {axis} in {first}")
    takes = [t.with_shape(()) for t in call.types for _ in (0, 1)]
    return forms.sort_region(call.b, args, axis, call.region(takes, (TensorType(BOOL, ()),)))


# ---- random bits -------------------------------------------------------------------------------------

_ALGORITHMS = {"THREE_FRY": "threefry", "PHILOX": "philox"}


def _rng_bits(call: Call) -> Sequence[int]:
    (state,), to = call.arity(1), call.gives
    algorithm = call.word("rng_algorithm", "algorithm", default="DEFAULT")
    if algorithm not in (*_ALGORITHMS, "DEFAULT") or len(to) != 2:
        call.refuse(f"has the algorithm {algorithm}; DEFAULT, {', '.join(_ALGORITHMS)} are known")
    # DEFAULT is the implementation's choice: by the length of the state, as a state of 3 words is only Philox's.
    chosen = _ALGORITHMS.get(algorithm) or ("philox" if call.type().shape == (3,) else "threefry")
    return call.b.add("rng_bits", (state,), {"algorithm": chosen, "dtype": to[1].dtype, "shape": to[1].shape})


TABLE: dict[str, Handler] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.dynamic_gather": _dynamic_gather,
    "stablehlo.scatter": _scatter,
    "stablehlo.sort": _sort,
    "stablehlo.rng_bit_generator": _rng_bits,
}
