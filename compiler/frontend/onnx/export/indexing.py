"""Rows whose operands say where, in ONNX: indices held to the range first, since ONNX leaves others undefined.

Gathers and scatters that are Gather, GatherElements or GatherND are written so; the rest by places in the flat tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ....graph import NDArray
from ....graph.dtypes import BOOL, F32, I32, I64
from .emit import Emit, Write, admits, computed
from .movement import padded, sliced

_FARTHEST = 2**62


def _whole(e: Emit, operand: int) -> str:
    """Indices as i64; u64 ones beyond it are held to what is out of range too."""
    index, own = e.args[operand], e.types[operand].dtype
    if own.kind == "uint" and own.bits == I64.bits:
        index = e.op("Min", index, e.number(_FARTHEST, own))
    return e.cast(index, own, I64)


def held(e: Emit, operand: int, most: Sequence[int] | int) -> str:
    """The indices that are an operand as i64, held to 0 … most; a literal at once."""
    known = e.known(operand)
    top = e.ints(list(most)) if isinstance(most, Sequence) else e.number(most, I64)
    if known is not None and known.shape == e.types[operand].shape:
        # Through the limit in the indices' own dtype: u64 has more than i64.
        wide = np.minimum(known, _FARTHEST).astype(np.int64) if known.dtype == np.uint64 else known.astype(np.int64)
        return e.ints(np.clip(wide, 0, np.asarray(most)))
    return e.op("Min", e.op("Max", _whole(e, operand), e.number(0, I64)), top)


def _take(e: Emit) -> str:
    axis = int(e.attr("axis"))
    d = computed("Gather", e.type.dtype)
    return e.back(e.op("Gather", e.arg(0, d), held(e, 1, int(e.types[0].shape[axis]) - 1), axis=axis), d)


def _dynamic_slice(e: Emit) -> str:
    """A Gather of neighbours along each axis that is cut."""
    sizes, shape = e.dims("sizes"), [int(n) for n in e.types[0].shape]
    cut = [i for i, (n, size) in enumerate(zip(shape, sizes, strict=True)) if n != size]
    d = computed("Gather", e.type.dtype)
    x = e.arg(0, d)
    starts = held(e, 1, [n - size for n, size in zip(shape, sizes, strict=True)]) if cut else ""
    for axis in cut:
        start = e.op("Gather", starts, e.ints([axis]))
        x = e.op("Gather", x, e.op("Add", start, e.ints(np.arange(sizes[axis]))), axis=axis)
    return e.back(x, d)


def _dynamic_update_slice(e: Emit) -> str:
    """Places of the update as indices of the flat tensor."""
    shape, sizes = [int(n) for n in e.types[0].shape], [int(n) for n in e.types[1].shape]
    if sizes == shape or 0 in sizes:
        return e.args[1] if sizes == shape else e.args[0]
    starts = held(e, 2, [n - size for n, size in zip(shape, sizes, strict=True)])
    steps = _steps(shape)
    offset = e.op("ReduceSum", e.op("Mul", starts, e.ints(steps)), e.ints([0]), keepdims=1)
    inner = np.zeros(sizes, np.int64)
    for line, step in zip(np.indices(sizes), steps, strict=True):
        inner += line * step
    d = computed("ScatterElements", e.type.dtype)
    flat = e.op("Add", e.ints(inner.reshape(-1)), offset)
    made = e.op("ScatterElements", e.reshaped(e.arg(0, d), [-1]), flat, e.reshaped(e.arg(1, d), [-1]), axis=0)
    return e.back(e.reshaped(made, shape), d)


def _steps(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours along each axis, row-major."""
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


# ---- index vectors -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """How index vectors name places of x in gather and scatter alike.

    `window` are the axes of the result or the updates that lie along slices, `gone` axes of x without such an axis.
    """

    shape: tuple[int, ...]
    index: tuple[int, ...]
    whole: tuple[int, ...]
    window: tuple[int, ...]
    gone: tuple[int, ...]
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    start_map: tuple[int, ...]
    vector_dim: int
    sizes: tuple[int, ...]

    @property
    def kept(self) -> list[int]:
        """Axes of x along which slices have more than one place to be."""
        return [a for a in range(len(self.shape)) if a not in (*self.gone, *self.batching)]

    @property
    def others(self) -> list[int]:
        """Axes of the result or the updates that are axes of the indices."""
        return [i for i in range(len(self.whole)) if i not in self.window]

    def fixed(self, axis: int) -> NDArray:
        """What is known of the place along an axis of x: the offset in its slice, or the number of its batch."""
        if axis in self.batching:
            at = self.index_batching[self.batching.index(axis)]
            line = self.others[at - (at > self.vector_dim)]
        elif axis in self.kept:
            line = self.window[self.kept.index(axis)]
        else:
            return np.zeros([1] * len(self.whole), np.int64)
        return np.arange(self.whole[line]).reshape([-1 if i == line else 1 for i in range(len(self.whole))])

    def starts(self, e: Emit, operand: int) -> dict[int, str]:
        """The start along each axis of x that has one, with the axes of the result, 1 along windows."""
        index = _whole(e, operand)
        shape = [self.whole[i] if i in self.others else 1 for i in range(len(self.whole))]
        found: dict[int, str] = {}
        for k, axis in enumerate(self.start_map):
            line = index
            if self.vector_dim < len(self.index):
                line = e.op("Gather", index, e.number(k, I64), axis=self.vector_dim)
            found[axis] = e.reshaped(line, shape)
        return found

    def flat(self, e: Emit, starts: dict[int, str]) -> str:
        """Places in the flat x, with all axes of the result or the updates; each start must be in range."""
        steps = _steps(self.shape)
        known = np.zeros([1] * len(self.whole), np.int64)
        for axis, step in enumerate(steps):
            known = known + self.fixed(axis) * step
        place = e.ints(np.array(np.broadcast_to(known, self.whole)))
        for axis, start in starts.items():
            place = e.op("Add", place, e.op("Mul", start, e.number(steps[axis], I64)))
        return place


def _shape(t: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(n) for n in t)


def _gather(e: Emit) -> str:
    if not e.types[0].size:
        return e.full(False if e.type.dtype == BOOL else 0, e.type)
    d = computed("Gather", e.type.dtype)
    written = _elements(e, d.name) or _vectors(e)
    if written is not None:
        return written
    layout = _Layout(
        _shape(e.types[0].shape), _shape(e.types[1].shape), _shape(e.type.shape), e.dims("offset_dims"),
        e.dims("collapsed_slice_dims"), e.dims("operand_batching_dims"), e.dims("start_indices_batching_dims"),
        e.dims("start_index_map"), int(e.attr("index_vector_dim")), e.dims("slice_sizes"),
    )  # fmt: skip
    low = e.number(0, I64)
    starts = {
        axis: e.op("Min", e.op("Max", start, low), e.number(layout.shape[axis] - layout.sizes[axis], I64))
        for axis, start in layout.starts(e, 1).items()
    }
    return e.back(e.op("Gather", e.reshaped(e.arg(0, d), [-1]), layout.flat(e, starts), axis=0), d)


def _elements(e: Emit, carried: str) -> str | None:
    """Single elements along one axis, all other axes being batches: GatherElements."""
    x, starts = e.types
    axes, batching = e.dims("start_index_map"), e.dims("operand_batching_dims")
    others = tuple(i for i in range(x.rank) if i not in axes)
    plain = len(axes) == 1 and not e.dims("offset_dims") and batching == others
    in_place = e.dims("start_indices_batching_dims") == others and int(e.attr("index_vector_dim")) == starts.rank
    if not plain or not in_place or carried != e.type.dtype.name or not admits("GatherElements", e.type.dtype):
        return None
    return e.op("GatherElements", e.args[0], held(e, 1, int(x.shape[axes[0]]) - 1), axis=axes[0])


def _vectors(e: Emit) -> str | None:
    """Slices at index vectors along the last axis of the indices, that name x's first axes: GatherND."""
    x, starts = e.types
    sizes, named, batch = e.dims("slice_sizes"), e.dims("start_index_map"), len(e.dims("operand_batching_dims"))
    first = tuple(range(batch, batch + len(named)))
    leading = tuple(range(batch))
    rest = tuple(range(starts.rank - 1, starts.rank - 1 + x.rank - batch - len(named)))
    fits = (
        len(named) > 0
        and named == first == e.dims("collapsed_slice_dims")
        and e.dims("operand_batching_dims") == leading == e.dims("start_indices_batching_dims")
        and e.dims("offset_dims") == rest
        and int(e.attr("index_vector_dim")) == starts.rank - 1
        and all(
            n == int(size) for n, size in zip(sizes[batch + len(named) :], x.shape[batch + len(named) :], strict=True)
        )
        and admits("GatherND", e.type.dtype)
    )
    if not fits:
        return None
    return e.op("GatherND", e.args[0], held(e, 1, [int(x.shape[a]) - 1 for a in named]), batch_dims=batch)


# ---- scatter -------------------------------------------------------------------------------------

_REDUCTIONS = {"set": "none", "add": "add", "mul": "mul", "min": "min", "max": "max", "and": "min", "or": "max"}


def _scatter(e: Emit) -> str:
    """ScatterElements on the flat tensor, with one element more that takes what would lie outside.

    ONNX does not say which of several updates of one place stays where it sets them; onnxruntime and ONNX's reference
    keep the last, as the row does.
    """
    kind, own = str(e.attr("op")), e.type.dtype
    size = prod(_shape(e.types[0].shape))
    if not e.types[2].size:
        return e.args[0]
    layout = _Layout(
        _shape(e.types[0].shape), _shape(e.types[1].shape), _shape(e.types[2].shape), e.dims("update_window_dims"),
        e.dims("inserted_window_dims"), e.dims("input_batching_dims"), e.dims("scatter_indices_batching_dims"),
        e.dims("scatter_dims_to_operand_dims"), int(e.attr("index_vector_dim")), (),
    )  # fmt: skip
    place = _outside_last(e, layout, size)
    d = I32 if own == BOOL and kind != "set" else computed("ScatterElements", own)
    if d.is_float and d.bits < F32.bits and kind not in ("set", "min", "max"):
        d = F32
    x = padded(e, e.reshaped(e.arg(0, d), [-1]), d, [0], [1], False if d == BOOL else 0)
    updates = e.reshaped(e.arg(2, d), [-1])
    made = e.op("ScatterElements", x, e.reshaped(place, [-1]), updates, axis=0, reduction=_REDUCTIONS[kind])
    return e.back(e.reshaped(sliced(e, made, [0], [size]), layout.shape), d)


def _outside_last(e: Emit, layout: _Layout, size: int) -> str:
    """Places of updates in the flat tensor; those of windows that do not lie wholly inside are `size`."""
    starts = layout.starts(e, 1)
    lengths = {a: layout.whole[i] for a, i in zip(layout.kept, layout.window, strict=True)}
    inside: list[str] = []
    safe: dict[int, str] = {}
    for axis, start in starts.items():
        room = layout.shape[axis] - lengths.get(axis, 1)
        fits = e.op(
            "And", e.op("GreaterOrEqual", start, e.number(0, I64)), e.op("LessOrEqual", start, e.number(room, I64))
        )
        inside.append(fits)
        safe[axis] = e.where(fits, start, e.number(0, I64))
    place = layout.flat(e, safe)
    return e.where(e.chain("And", *inside), place, e.number(size, I64)) if inside else place


OPS: dict[str, Write] = {
    "take": _take, "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "gather": _gather,
    "scatter": _scatter,
}  # fmt: skip
