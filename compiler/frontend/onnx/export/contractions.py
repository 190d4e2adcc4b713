"""Products, reductions and windows in ONNX.

Sums and products of floats narrower than f32 are taken in f32 and rounded once. A window that no operator of ONNX has
is a Gather of its taps, which are then reduced or multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....graph import DTYPES, DType, NDArray, TensorType
from ....graph.dtypes import BOOL, F32, F64, I32, I64, extremes
from .emit import Emit, Write, computed
from .movement import padded

_QUANTISED = 8


def _accumulated(op: str, d: DType) -> DType:
    """The dtype that sums and products of `d` are taken in."""
    return computed(op, F32 if d.is_float and d.bits < F32.bits else d)


def _zeros(e: Emit) -> str:
    return e.full(0, e.type)


# ---- products ------------------------------------------------------------------------------------


def _matmul(e: Emit) -> str:
    a, b = e.types
    if not a.size or not b.size:
        return _zeros(e)
    if _is_quantised(e):
        return e.back(e.op("MatMulInteger", *e.args), I32)
    d = _accumulated("MatMul", e.type.dtype)
    return e.back(e.op("MatMul", e.arg(0, d), e.arg(1, d)), d)


def _is_quantised(e: Emit) -> bool:
    """Whether it is a product of 8-bit integers, which ONNX accumulates in i32."""
    return e.types[0].dtype.is_int and e.types[0].dtype.bits == _QUANTISED and e.type.dtype.bits <= I32.bits


def _windows(e: Emit) -> dict[str, Any]:
    return {"strides": e.dims("strides"), "pads": (*e.dims("low"), *e.dims("high")), "dilations": e.dims("dilations")}


def _weights(e: Emit, d: DType) -> str:
    """The weights of a convolution as [O, I, *window]."""
    w, rank = e.arg(1, d), e.types[1].rank
    return e.op("Transpose", w, perm=(0, rank - 1, *range(1, rank - 1))) if e.attr("channels_last") else w


def _conv(e: Emit) -> str:
    x, w = e.types
    if not x.size or not w.size:
        return _zeros(e)
    attrs = {**_windows(e), "group": int(e.attr("groups"))}
    if x.dtype.is_float:
        d = _accumulated("Conv", e.type.dtype)
        return e.back(e.op("Conv", e.arg(0, d), _weights(e, d), **attrs), d)
    if x.dtype.kind == "uint" and x.dtype.bits == _QUANTISED and _is_quantised(e):
        return e.back(e.op("ConvInteger", e.args[0], _weights(e, w.dtype), **attrs), I32)
    return _conv_of_taps(e)


def _conv_of_taps(e: Emit) -> str:
    """A product of weights by taps, [N, G, O / G, taps C / G] by [N, G, taps C / G, *out]: for integers."""
    x, w, groups = e.types[0], e.types[1], int(e.attr("groups"))
    d = _accumulated("MatMul", e.type.dtype)
    taps, places = prod(_window(e)), prod(map(int, e.type.shape[2:]))
    batch, channels, made = int(x.shape[0]), int(x.shape[1]), int(w.shape[0])
    per = channels // groups
    columns = e.reshaped(_taps(e, d, 0), [batch, groups, per, places, taps])
    columns = e.op("Transpose", columns, perm=(0, 1, 2, 4, 3))
    columns = e.reshaped(columns, [batch, groups, per * taps, places])
    rows = e.reshaped(_weights(e, d), [groups, made // groups, per * taps])
    return e.back(e.reshaped(e.op("MatMul", rows, columns), e.type.shape), d)


# ---- windows -------------------------------------------------------------------------------------


def _places(e: Emit, out: Sequence[int], dilations: Sequence[int]) -> NDArray:
    """[windows, taps]: the place of each tap in the flat spatial axes of the operand; beyond the last lies padding."""
    spatial = [int(n) for n in e.types[0].shape[2:]]
    strides, low, window = e.dims("strides"), e.dims("low"), _window(e)
    place, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for i, n in enumerate(spatial):
        at = np.arange(out[i])[:, None] * strides[i] + np.arange(window[i])[None, :] * dilations[i] - low[i]
        shape = (place.shape[0] * out[i], place.shape[1] * window[i])
        fits = inside[:, None, :, None] & ((at >= 0) & (at < n))[None, :, None, :]
        held = place[:, None, :, None] * n + np.clip(at, 0, max(n - 1, 0))[None, :, None, :]
        place, inside = held.reshape(shape), fits.reshape(shape)
    return np.where(inside, place, prod(spatial))


def _window(e: Emit) -> tuple[int, ...]:
    """The taps along each spatial axis."""
    if e.node.op != "conv":
        return e.dims("window")
    w = e.types[1].shape
    return tuple(int(n) for n in (w[1:-1] if e.attr("channels_last") else w[2:]))


def _taps_of(e: Emit) -> NDArray:
    return _places(e, [int(n) for n in e.type.shape[2:]], e.dims("dilations"))


def _taps(e: Emit, d: DType, fill: float) -> str:
    """[N, C, windows x taps] of the operand at `d`, padding being `fill`."""
    x = e.types[0]
    flat = e.reshaped(e.arg(0, d), [*x.shape[:2], prod(map(int, x.shape[2:]))])
    places = _taps_of(e)
    if np.any(places == prod(map(int, x.shape[2:]))):
        flat = padded(e, flat, d, [0, 0, 0], [0, 0, 1], fill)
    return e.op("Gather", flat, e.ints(places.reshape(-1)), axis=2)


_REDUCED = {"max": "ReduceMax", "min": "ReduceMin", "sum": "ReduceSum", "prod": "ReduceProd"}


def neutral(kind: str, d: DType) -> float | int:
    """What leaves a reduction as it is."""
    least, greatest = extremes(d)
    return {"max": least, "min": greatest, "sum": 0, "prod": 1}[kind]


def _reduce_window(e: Emit) -> str:
    kind, window, own = str(e.attr("op")), e.dims("window"), e.type.dtype
    if not e.types[0].size or not prod(window):
        return e.full(neutral(kind, own), e.type)
    if kind in ("max", "min", "sum") and own.is_float and not _padding_only(e, window):
        return _pooled(e, kind, window)
    d = _reduced_in(kind, own)
    taps = e.reshaped(_taps(e, d, neutral(kind, own)), [*e.type.shape, prod(window)])
    return e.back(_reduced(e, kind, taps, d, [*map(int, e.type.shape), prod(window)], [e.type.rank]), d)


def _padding_only(e: Emit, window: Sequence[int]) -> bool:
    """Whether ONNX's pools refuse the padding, or some window lies in it whole, which implementations differ on."""
    wide = any(p >= k for side in ("low", "high") for p, k in zip(e.dims(side), window, strict=True))
    places = _taps_of(e)
    return wide or bool(np.any(np.all(places == prod(map(int, e.types[0].shape[2:])), axis=1)))


def _pooled(e: Emit, kind: str, window: tuple[int, ...]) -> str:
    attrs = {**_windows(e), "kernel_shape": window}
    if kind == "sum":
        d = _accumulated("AveragePool", e.type.dtype)
        mean = e.op("AveragePool", e.arg(0, d), count_include_pad=1, **attrs)
        return e.back(e.op("Mul", mean, e.number(prod(window), d)), d)
    d = computed("MaxPool", e.type.dtype)
    x = e.arg(0, d)
    if kind == "max":
        return e.back(e.op("MaxPool", x, **attrs), d)
    return e.back(e.op("Neg", e.op("MaxPool", e.op("Neg", x), **attrs)), d)


_KEEPS = {"ge": "GreaterOrEqual", "gt": "Greater", "le": "LessOrEqual", "lt": "Less"}


def _select_and_scatter(e: Emit) -> str:
    """Tap by tap in row-major order, as the row has it; then ScatterElements with one place for windows of padding."""
    x, source = e.types
    if not source.size:
        return _zeros(e)
    size, lines = prod(map(int, x.shape[2:])), prod(map(int, x.shape[:2]))
    d = computed("Less", x.dtype)
    flat = padded(e, e.reshaped(e.arg(0, d), [lines, size]), d, [0, 0], [0, 1], 0)
    taps = _places(e, [int(n) for n in source.shape[2:]], (1,) * (x.rank - 2))
    best, place = (
        e.op("Gather", flat, e.ints(taps[:, 0]), axis=1),
        e.ints(np.broadcast_to(taps[:, 0], (lines, len(taps)))),
    )
    for k in range(1, taps.shape[1]):
        at = taps[:, k]
        value, here = e.op("Gather", flat, e.ints(at), axis=1), e.ints(at)
        worse = e.op("Not", e.op(_KEEPS[str(e.attr("select"))], best, value))
        first = e.op("Equal", place, e.ints([size]))
        better = e.op("And", e.op("Or", first, worse), e.array(at < size, BOOL))
        best, place = e.where(better, value, best), e.where(better, here, place)
    exact = F64 if x.dtype.is_float else computed("ScatterElements", x.dtype)
    zeros = e.full(0, TensorType(exact, (lines, size + 1)))
    updates = e.reshaped(e.arg(1, exact), [lines, len(taps)])
    made = e.op("ScatterElements", zeros, place, updates, axis=1, reduction="add")
    kept = e.op("Slice", made, e.ints([0]), e.ints([size]), e.ints([1]))
    return e.back(e.reshaped(kept, e.type.shape), exact)


# ---- reductions ----------------------------------------------------------------------------------


def _reduced_in(kind: str, own: DType) -> DType:
    """The dtype of a reduction: products of floats in f64, as the rows accumulate; integers in 64 bits.

    ONNX does not say what the overflow of a sum gives. In 64 bits there is none of narrower ones, and Cast wraps.
    """
    if kind in ("max", "min"):
        return computed(_REDUCED[kind], own)
    if own.is_float:
        return F64 if kind == "prod" else _accumulated("ReduceSum", own)
    return DTYPES["u64"] if own.kind == "uint" and own.bits == I64.bits else I64


def _reduced(e: Emit, kind: str, x: str, d: DType, shape: Sequence[int], axes: Sequence[int]) -> str:
    """`x` of `d` and `shape`, reduced over `axes`; what may overflow 64 bits by halves, with Mul or Add, which wrap."""
    whole = not d.is_float and (kind == "prod" or (kind == "sum" and e.type.dtype.bits == I64.bits))
    if not whole:
        return e.op(_REDUCED[kind], x, e.ints(list(axes)), keepdims=0)
    kept = [i for i in range(len(shape)) if i not in axes]
    length, last = prod(shape[a] for a in axes), len(kept)
    x = e.op("Transpose", x, perm=(*kept, *axes)) if shape else x
    x = e.reshaped(x, [*(shape[i] for i in kept), length])
    while length > 1:
        half = length // 2
        rest = e.op("Slice", x, e.ints([2 * half]), e.ints([length]), e.ints([last])) if length % 2 else None
        low = e.op("Slice", x, e.ints([0]), e.ints([half]), e.ints([last]))
        high = e.op("Slice", x, e.ints([half]), e.ints([2 * half]), e.ints([last]))
        x = e.op("Mul" if kind == "prod" else "Add", low, high)
        x = x if rest is None else e.op("Concat", x, rest, axis=last)
        length -= half
    return e.reshaped(x, [shape[i] for i in kept])


def _reduce(kind: str) -> Write:
    def write(e: Emit) -> str:
        own, axes = e.type.dtype, e.dims("axes")
        if not axes:
            return e.args[0]
        if not e.types[0].size:
            return e.full(neutral(kind, own), e.type)
        d = _reduced_in(kind, own)
        return e.back(_reduced(e, kind, e.arg(0, d), d, [int(n) for n in e.types[0].shape], axes), d)

    return write


def _reduce_bools(op: str, empty: bool) -> Write:
    """The least of bools is whether all hold, the greatest whether any does."""

    def write(e: Emit) -> str:
        if not e.attr("axes"):
            return e.args[0]
        if not e.types[0].size:
            return e.full(empty, e.type)
        return e.op(op, e.args[0], e.ints(e.dims("axes")), keepdims=0)

    return write


OPS: dict[str, Write] = {
    "matmul": _matmul, "conv": _conv, "reduce_window": _reduce_window, "select_and_scatter": _select_and_scatter,
    **{f"reduce_{kind}": _reduce(kind) for kind in _REDUCED},
    "reduce_and": _reduce_bools("ReduceMin", True), "reduce_or": _reduce_bools("ReduceMax", False),
}  # fmt: skip
