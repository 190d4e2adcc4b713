"""Rows that order elements, in ONNX: TopK, ArgMax, ArgMin, CumSum, and Scan for the running rows that it lacks.

TopK of all elements sorts, and sorts stably: of equals the one of lower index comes first. Where NaN goes ONNX does not
say; its reference puts it where NumPy does, which is where these rows do.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....graph import DType
from ....graph.dtypes import F32, F64, I32, I64
from .contractions import neutral
from .emit import Emit, Write, computed
from .movement import padded, sliced


def _top_k(e: Emit) -> Sequence[str]:
    own = e.types[0].dtype
    d = computed("TopK", own)
    attrs = {"axis": -1, "largest": int(e.attr("largest"))}
    values, index = e.several("TopK", (e.arg(0, d), e.ints([int(e.attr("k"))])), 2, **attrs)
    return [e.back(values, d), e.cast(index, I64, I32)]


def _sort(e: Emit) -> Sequence[str]:
    """By the last key first: each sort keeps the order of what is equal to it."""
    axis, largest, keys = int(e.attr("axis")), int(e.attr("descending")), int(e.attr("keys"))
    size = e.ints([int(e.types[0].shape[axis])])
    order = ""
    for k in reversed(range(keys)):
        d = computed("TopK", e.types[k].dtype)
        key = e.arg(k, d)
        key = e.op("GatherElements", key, order, axis=axis) if order else key
        index = e.several("TopK", (key, size), 2, axis=axis, largest=largest)[1]
        order = e.op("GatherElements", order, index, axis=axis) if order else index
    return [_ordered(e, k, order, axis) for k in range(len(e.args))]


def _ordered(e: Emit, operand: int, order: str, axis: int) -> str:
    own = e.types[operand].dtype
    d = computed("GatherElements", own)
    return e.cast(e.op("GatherElements", e.arg(operand, d), order, axis=axis), d, own)


def _arg(op: str) -> Write:
    def write(e: Emit) -> str:
        d = computed(op, e.types[0].dtype)
        flags = {"axis": int(e.attr("axis")), "keepdims": 0, "select_last_index": int(e.attr("last"))}
        return e.cast(e.op(op, e.arg(0, d), **flags), I64, I32)

    return write


# ---- running reductions --------------------------------------------------------------------------


def _cumsum(e: Emit) -> str:
    own = e.type.dtype
    d = computed("CumSum", F32 if own.is_float and own.bits < F32.bits else own)
    axis, reverse = int(e.attr("axis")), int(e.attr("reverse"))
    x = e.arg(0, d)
    if e.attr("exclusive"):
        x = _moved_on(e, x, d, axis, reverse)
    return e.back(e.op("CumSum", x, e.number(axis, I64), reverse=reverse), d)


def _moved_on(e: Emit, x: str, d: DType, axis: int, reverse: int) -> str:
    """`x` one place on, a 0 coming in: CumSum's `exclusive` takes the last element off again, and inf - inf is NaN."""
    size = int(e.type.shape[axis])
    start, stop = (1, size) if reverse else (0, size - 1)
    kept = sliced(e, x, [start], [stop], axes=[axis])
    low, high = ([int(i == axis and way == reverse) for i in range(e.type.rank)] for way in (0, 1))
    return padded(e, kept, d, low, high, 0)


def _running(kind: str, op: str) -> Write:
    """A Scan along the axis, whose state is what came before. Products of floats are taken in f64, as the row does."""

    def write(e: Emit) -> str:
        own, axis = e.type.dtype, int(e.attr("axis"))
        d: DType = F64 if kind == "prod" and own.is_float else computed(op, own)
        line = e.type.with_dtype(d).with_shape(n for i, n in enumerate(e.type.shape) if i != axis)
        start = e.full(neutral(kind, own), line)

        def step(before: str, element: str) -> str:
            return e.op(op, before, element)

        x = e.arg(0, d)
        return e.back(e.scan(start, line, x, axis, bool(e.attr("reverse")), step, bool(e.attr("exclusive"))), d)

    return write


OPS: dict[str, Write] = {
    "top_k": _top_k, "sort": _sort, "argmax": _arg("ArgMax"), "argmin": _arg("ArgMin"), "cumsum": _cumsum,
    "cumprod": _running("prod", "Mul"), "cummax": _running("max", "Max"), "cummin": _running("min", "Min"),
}  # fmt: skip
