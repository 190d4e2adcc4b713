"""Operators that make or read shapes, and literals: what folds away once shapes are known."""

from __future__ import annotations

import numpy as np

from ....graph import NDArray, forms
from ....graph.dtypes import F64, I32, I64
from ..call import Call, Refused, Value, known_value, splat
from ..table import handles
from ..tensors import array_of


@handles("Identity")
def identity(n: Call) -> Value:
    """The operand."""
    return n.value(0)


@handles("Constant")
def constant(n: Call) -> Value | NDArray:
    """The literal of an attribute."""
    if "value" in n.attrs:
        return known_value(str(n.node.output[0]), array_of(n.need("value"), n.scope.folder))
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64)):  # fmt: skip
        if name in n.attrs:
            return known_value(str(n.node.output[0]), np.asarray(n.need(name), dtype))
    raise Refused("it holds no tensor that tdslc has: a sparse one, or strings", code="E1105")


@handles("ConstantOfShape")
def constant_of_shape(n: Call) -> int:
    """One value at a shape that is an operand."""
    shape = n.ints(0, "shape")
    value = n.tensor("value")
    array = np.zeros(1, np.float32) if value is None else value
    if array.size != 1 or min(shape, default=0) < 0:
        n.refuse(f"its value has {array.size} elements, its shape is {list(shape)}")
    number = splat(array)
    assert number is not None
    return n.b.full(number, n.to_dtype_of(array), shape)


@handles("Shape")
def shape(n: Call) -> NDArray:
    """The dims from `start` to `end`."""
    dims = [int(d) for d in n.shape()]
    return np.asarray(dims[slice(n.attr("start", 0), n.attr("end"))], np.int64)


@handles("Size")
def size(n: Call) -> NDArray:
    """The number of elements."""
    return np.asarray(n.type().size, np.int64)


@handles("Range")
def range_(n: Call) -> int:
    """start, start + delta, … before limit; all three are known at import."""
    start, limit, delta = (n.static(i, what).reshape(()) for i, what in enumerate(("start", "limit", "delta")))
    if not delta:
        n.refuse("its delta is 0")
    d = n.dtype()
    wide = np.float64 if d.is_float else np.int64
    first, last, step = (a.astype(wide) for a in (start, limit, delta))
    count = max(int(np.ceil((last - first) / step)), 0)
    at = n.b.one("iota", axis=0, dtype=F64 if d.is_float else I64, shape=(count,))
    steps = n.b.one("mul", at, n.like(step.item(), at))
    return forms.convert(n.b, n.b.one("add", steps, n.like(first.item(), at)), d)


@handles("EyeLike")
def eye_like(n: Call) -> int:
    """1 on a diagonal, 0 elsewhere."""
    d = n.to_dtype(n.attr("dtype")) if n.attr("dtype") is not None else n.dtype()
    if n.type().rank != 2:
        n.refuse(f"its operand is a matrix, not {n.type()}")
    row, column = (n.b.one("iota", axis=i, dtype=I32, shape=n.shape()) for i in range(2))
    on = n.b.one("eq", column, n.b.one("add", row, n.like(n.attr("k", 0), row)))
    return forms.convert(n.b, on, d)


@handles("NonZero")
def non_zero(n: Call) -> NDArray:
    """Indices of elements that are not 0, of an operand known at import: how many there are is a shape."""
    return np.asarray(np.nonzero(n.static(0, "operand")), np.int64)


@handles("Unique")
def unique(n: Call) -> list[NDArray]:
    """Distinct elements of an operand known at import, where each first stood, where each element went, and counts."""
    x, axis = n.static(0, "operand"), n.attr("axis")
    axis = None if axis is None else n.at(int(axis), x.ndim)
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = np.asarray(inverse).reshape(-1)
    if not n.attr("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        first, counts, inverse = first[order], counts[order], place[inverse]
    return [values, *(a.astype(np.int64) for a in (first, inverse, counts))]


@handles("Compress")
def compress(n: Call) -> int:
    """Elements along an axis where the condition, known at import, holds."""
    keep = np.nonzero(n.static(1, "condition").reshape(-1))[0]
    x, axis = n.x(), n.attr("axis")
    if axis is None:
        x, axis = forms.reshape(n.b, x, (n.type().size,)), 0
    axis = n.at(int(axis), n.b.types[x].rank)
    if keep.size and keep[-1] >= n.b.types[x].shape[axis]:
        n.refuse(f"its condition is longer than axis {axis} of {n.type()}")
    return n.b.one("take", x, forms.constant(n.b, keep, I64), axis=axis)


@handles("Dropout")
def dropout(n: Call) -> list[Value | int]:
    """The operand: nothing is dropped when a network is only used. The mask is all true."""
    if n.has(2) and bool(n.static(2, "training mode").reshape(())):
        ratio = float(n.static(1, "ratio").reshape(())) if n.has(1) else 0.5
        if ratio:
            n.refuse("it is in training mode, which draws random numbers", "export the model for inference")
    if n.version < 7 and not n.attr("is_test", 0):
        n.refuse("it is in training mode, which draws random numbers", "export the model for inference")
    if not n.wants(1):
        return [n.value(0)]
    d = n.dtype() if n.version < 10 else n.to_dtype(9)
    return [n.value(0), n.full(True if d.kind == "bool" else 1, d, n.shape())]


@handles("MelWeightMatrix")
def mel_weight_matrix(n: Call) -> NDArray:
    """Triangular filters, evenly spaced in mel, over the bins of a spectrum. All operands are known at import.

    Mel of f hertz is 2595 log10(1 + f / 700); the documentation of the operator has the rest.
    """
    bins, length, rate = (int(n.static(i, "operand").reshape(())) for i in range(3))
    low, high = (float(n.static(i, "operand").reshape(())) for i in (3, 4))
    spectrum = length // 2 + 1
    first, last = (2595 * np.log10(1 + f / 700) for f in (low, high))
    mels = first + np.arange(bins + 2) * (last - first) / (bins + 2)
    edges = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate).astype(np.int64)
    out = np.zeros((spectrum, bins))
    for i in range(bins):
        left, centre, right = (int(v) for v in edges[i : i + 3])
        if centre == left:
            out[centre, i] = 1
        for j in range(left, centre + 1):
            out[j, i] = (j - left) / (centre - left) if centre != left else 1
        for j in range(centre, right):
            out[j, i] = (right - j) / (right - centre)
    return out.astype(n.to_dtype(n.attr("output_datatype", 1)).numpy)
