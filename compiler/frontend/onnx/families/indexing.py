"""Gather, scatter, one-hot, top-k and the arguments of extremes. Negative indices count from the end."""

from __future__ import annotations

from ....graph import forms
from ....graph.dtypes import I32, I64
from ..call import Call
from ..table import handles

_REDUCTIONS = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@handles("Gather")
def gather(n: Call) -> int:
    """Rows along an axis. An index out of range, which ONNX leaves undefined, takes the nearest row."""
    index = n.known(1)
    axis = n.axis(0)
    wrap = index is None or (index.size > 0 and int(index.min()) < 0)
    return forms.take(n.b, n.x(0), n.x(1), axis, wrap=wrap)


@handles("GatherElements")
def gather_elements(n: Call) -> int:
    """An element for each index, along an axis."""
    return forms.gather_elements(n.b, n.x(0), n.x(1), n.axis(0))


@handles("GatherND")
def gather_nd(n: Call) -> int:
    """Slices at index vectors."""
    return forms.gather_nd(n.b, n.x(0), n.x(1), int(n.attr("batch_dims", 0)))


def _reduction(n: Call) -> str:
    kind = n.attr("reduction", "none")
    if kind not in _REDUCTIONS:
        n.refuse(f"its reduction is `{kind}`")
    return _REDUCTIONS[kind]


def _same_ranks(n: Call, index: int = 1) -> None:
    if n.type(0).rank != n.type(index).rank or n.shape(1) != n.shape(2):
        n.refuse(f"its data is {n.type(0)}, its indices {n.type(1)}, its updates {n.type(2)}")


@handles("Scatter", "ScatterElements")
def scatter_elements(n: Call) -> int:
    """The data with updates put at, or combined with, an element for each index."""
    _same_ranks(n)
    return forms.scatter_elements(n.b, n.x(0), n.x(1), n.x(2), n.axis(0), _reduction(n))


@handles("ScatterND")
def scatter_nd(n: Call) -> int:
    """The data with updates put at, or combined with, slices at index vectors."""
    return forms.scatter_nd(n.b, n.x(0), n.x(1), n.x(2), _reduction(n))


@handles("OneHot")
def one_hot(n: Call) -> int:
    """A new axis, on at the index; off everywhere for one out of range."""
    depth = int(n.static(1, "depth").reshape(-1)[0])
    off, on = (forms.slice_any(n.b, n.x(2), (i,), (i + 1,)) for i in range(2))
    index = n.x(0)
    index = index if n.dtype(0).is_int else forms.convert(n.b, index, I64)
    # An index counts from the end once: what is still negative then is out of range.
    return forms.one_hot(n.b, forms.convert(n.b, index, I64), depth, on, off, int(n.attr("axis", -1)))


@handles("TopK", since=1)
def top_k_by_attribute(n: Call) -> list[int]:
    """The k greatest, with k an attribute."""
    return _top(n, int(n.need("k")), True)


@handles("TopK", since=10)
def top_k(n: Call) -> list[int]:
    """The k greatest or least; ties by lower index."""
    return _top(n, n.ints(1, "k")[0], bool(n.attr("largest", 1)))


def _top(n: Call, k: int, largest: bool) -> list[int]:
    axis, rank = n.axis(-1), n.type().rank
    moved = forms.moveaxis(n.b, n.x(), axis, rank - 1)
    values, index = n.b.add("top_k", (moved,), {"k": k, "largest": largest})
    back = [forms.moveaxis(n.b, v, rank - 1, axis) for v in (values, index)]
    return [back[0], forms.convert(n.b, back[1], I64)]


@handles("ArgMax", "ArgMin")
def arg_extreme(n: Call) -> int:
    """The index of the first or last extreme along an axis."""
    axis = n.axis(0)
    op = "argmax" if n.op == "ArgMax" else "argmin"
    best = n.b.one(op, n.x(), axis=axis, last=bool(n.attr("select_last_index", 0)))
    wide = forms.convert(n.b, best, I64)
    return forms.unsqueeze(n.b, wide, (axis,)) if n.attr("keepdims", 1) else wide


@handles("TensorScatter")
def tensor_scatter(n: Call) -> int:
    """A cache [B, …, S, …] with updates written along an axis, from an index for each batch on.

    `circular` wraps round its end.
    """
    axis, shape, own = n.axis(-2), n.shape(0), n.shape(1)
    if len(shape) != len(own) or not own:
        n.refuse(f"its cache is {n.type(0)}, its update {n.type(1)}")
    length = int(shape[axis])
    place = n.b.one("iota", axis=axis, dtype=I32, shape=own)
    if n.has(2):
        start = forms.convert(n.b, n.x(2), I32)
        place = n.b.one("add", place, n.b.one("broadcast", start, shape=own, dims=(0,)))
    if n.attr("mode", "linear") == "circular":
        place = forms.floor_mod(n.b, place, n.like(length, place))
    return forms.scatter_elements(n.b, n.x(0), place, n.x(1), axis, wrap=False)
