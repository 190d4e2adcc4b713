"""Rows that make or move elements, in ONNX. Where it moves no 8-bit floats or 4-bit integers, by a wider dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....graph import Array, DType
from ....graph.dtypes import rounded
from ....graph.ops.movement import array_of
from .emit import Emit, Write, computed

Move = Callable[[Emit, str], str]


def moved(op: str, write: Callable[[Emit, str, DType], str]) -> Write:
    """A row of one tensor whose elements keep their values, written with `op`."""

    def run(e: Emit) -> str:
        d = computed(op, e.type.dtype)
        return e.back(write(e, e.arg(0, d), d), d)

    return run


def _constant(e: Emit) -> str:
    value = e.attr("value")
    assert isinstance(value, Array)
    return e.array(array_of(value), value.type.dtype)


def _iota(e: Emit) -> str:
    axis, shape = int(e.attr("axis")), e.type.shape
    d = computed("Expand", e.type.dtype)
    line = np.arange(int(shape[axis])).astype(e.type.dtype.numpy)
    along = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return e.back(e.op("Expand", e.array(along, d), e.ints(shape)), d)


def _broadcast(e: Emit, x: str, d: DType) -> str:
    shape, dims = e.dims("shape"), e.dims("dims")
    apart = [1] * len(shape)
    for size, axis in zip(e.types[0].shape, dims, strict=True):
        apart[axis] = int(size)
    trailing = dims == tuple(range(len(shape) - len(dims), len(shape)))
    return e.op("Expand", x if trailing else e.reshaped(x, apart), e.ints(shape))


def _reshape(e: Emit) -> str:
    return e.reshaped(e.args[0], e.type.shape)


def _transpose(e: Emit) -> str:
    return e.op("Transpose", *e.args, perm=e.dims("perm")) if e.type.rank > 1 else e.args[0]


def sliced(
    e: Emit, x: str, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> str:  # fmt: skip
    """Elements start, start + step, … before stop along `axes`, by default all."""
    along = list(range(len(starts))) if axes is None else list(axes)
    more = () if steps is None or all(s == 1 for s in steps) else (e.ints(list(steps)),)
    return e.op("Slice", x, e.ints(list(starts)), e.ints(list(stops)), e.ints(along), *more)


def _slice(e: Emit, x: str, d: DType) -> str:
    """Along the axes that are cut."""
    rows = zip(e.types[0].shape, e.dims("starts"), e.dims("stops"), e.dims("steps"), strict=True)
    cuts = [(i, a, z, s) for i, (n, a, z, s) in enumerate(rows) if (a, z, s) != (0, int(n), 1)]
    if not cuts:
        return x
    axes, starts, stops, steps = (list(part) for part in zip(*cuts, strict=True))
    return sliced(e, x, starts, stops, steps, axes)


def _reverse(e: Emit, x: str, d: DType) -> str:
    axes = e.dims("axes")
    if not axes:
        return x
    ends = [-int(e.types[0].shape[a]) - 1 for a in axes]
    return sliced(e, x, [-1] * len(axes), ends, [-1] * len(axes), axes)


def _concat(e: Emit) -> str:
    d = computed("Concat", e.type.dtype)
    return e.back(e.op("Concat", *(e.arg(i, d) for i in range(len(e.args))), axis=int(e.attr("axis"))), d)


def padded(e: Emit, x: str, d: DType, low: Sequence[int], high: Sequence[int], value: float | bool) -> str:
    """`x` of `d` with elements of `value` around it."""
    return e.op("Pad", x, e.ints([*low, *high]), e.number(value, d)) if any((*low, *high)) else x


def _value(e: Emit) -> float | bool:
    """The number to pad with, rounded to the row's own dtype."""
    value = e.attr("value")
    return float(rounded(np.asarray(float(value)), e.type.dtype)) if e.type.dtype.is_float else value


def _pad(e: Emit, x: str, d: DType) -> str:
    return padded(e, x, d, e.dims("low"), e.dims("high"), _value(e))


def _interior_pad(e: Emit, x: str, d: DType) -> str:
    """Each element with the padding behind it, as a new axis; what is behind the last is cut off."""
    shape, interior = e.types[0].shape, e.dims("interior")
    if not any(interior):
        return x
    apart = e.reshaped(x, [v for n in shape for v in (int(n), 1)])
    wide = padded(e, apart, d, [0] * (2 * len(shape)), [v for p in interior for v in (0, p)], _value(e))
    joined = e.reshaped(wide, [int(n) * (p + 1) for n, p in zip(shape, interior, strict=True)])
    return sliced(e, joined, [0] * len(shape), [int(n) for n in e.type.shape])


OPS: dict[str, Write] = {
    "constant": _constant, "full": lambda e: e.full(e.attr("value"), e.type), "iota": _iota,
    "broadcast": moved("Expand", _broadcast), "reshape": _reshape, "transpose": _transpose,
    "slice": moved("Slice", _slice), "reverse": moved("Slice", _reverse), "concat": _concat,
    "pad": moved("Pad", _pad), "interior_pad": moved("Slice", _interior_pad),
}  # fmt: skip
