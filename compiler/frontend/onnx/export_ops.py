"""Rows of the op table as ONNX nodes, opset 21. An op without a writer here, or used in a way that has none, is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Array
from ...graph.dtypes import BOOL, I32, I64
from ...graph.ops.movement import array_of

if TYPE_CHECKING:
    from .export import Emit


class Unexported(Exception):
    """An op that has no counterpart as it is used."""


Write = Callable[["Emit"], "str | Sequence[str]"]

# Literals of one value with more elements are an Expand of the value.
_MOST_FULL = 1024


def _same(op: str) -> Write:
    return lambda e: e.op(op, *e.args)


def _both(bools: str, ints: str) -> Write:
    return lambda e: e.op(bools if e.types[0].dtype == BOOL else ints, *e.args)


def _constant(e: Emit) -> str:
    value = e.attr("value")
    assert isinstance(value, Array)
    return e.array(array_of(value), value.type.dtype)


def _full(e: Emit) -> str:
    if e.type.size <= _MOST_FULL:
        return e.array(np.full(e.type.shape, e.attr("value")), e.type.dtype)
    return e.op("Expand", e.number(e.attr("value"), e.type.dtype), e.ints(e.type.shape))


def _iota(e: Emit) -> str:
    axis, shape = e.attr("axis"), e.type.shape
    line = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return e.op("Expand", e.array(line, e.type.dtype), e.ints(shape))


# ---- elementwise ---------------------------------------------------------------------------------


def _rsqrt(e: Emit) -> str:
    return e.op("Reciprocal", e.op("Sqrt", *e.args))


def _expm1(e: Emit) -> str:
    return e.op("Sub", e.op("Exp", *e.args), e.number(1, e.type.dtype))


def _log1p(e: Emit) -> str:
    return e.op("Log", e.op("Add", *e.args, e.number(1, e.type.dtype)))


def _cbrt(e: Emit) -> str:
    root = e.op("Pow", e.op("Abs", *e.args), e.number(1 / 3, e.type.dtype))
    return e.op("Mul", e.op("Sign", *e.args), root)


def _exp2(e: Emit) -> str:
    return e.op("Exp", e.op("Mul", *e.args, e.number(math.log(2), e.type.dtype)))


def _log2(e: Emit) -> str:
    return e.op("Div", e.op("Log", *e.args), e.number(math.log(2), e.type.dtype))


def _erfc(e: Emit) -> str:
    return e.op("Sub", e.number(1, e.type.dtype), e.op("Erf", *e.args))


def _round_away(e: Emit) -> str:
    up = e.op("Floor", e.op("Add", e.op("Abs", *e.args), e.number(0.5, e.type.dtype)))
    return e.op("Mul", e.op("Sign", *e.args), up)


def _is_finite(e: Emit) -> str:
    return e.op("Not", e.op("Or", e.op("IsInf", *e.args), e.op("IsNaN", *e.args)))


def _rem(e: Emit) -> str:
    return e.op("Mod", *e.args, fmod=1)


def _extreme(op: str, bools: str) -> Write:
    return lambda e: e.op(bools if e.type.dtype == BOOL else op, *e.args)


def _convert(e: Emit) -> str:
    d = e.type.dtype
    return e.op("Cast", *e.args, to=_number(e), **({"saturate": 0} if d.is_float and d.bits == 8 else {}))


def _number(e: Emit) -> int:
    from .tensors import dtype_number

    return dtype_number(e.type.dtype)


# ---- movement ------------------------------------------------------------------------------------


def _broadcast(e: Emit) -> str:
    shape, dims = e.attr("shape"), e.attr("dims")
    apart = [1] * len(shape)
    for size, d in zip(e.types[0].shape, dims, strict=True):
        apart[d] = size
    x = e.args[0] if dims == tuple(range(len(shape) - len(dims), len(shape))) else _reshaped(e, e.args[0], apart)
    return e.op("Expand", x, e.ints(shape))


def _reshaped(e: Emit, x: str, shape: Sequence[int]) -> str:
    return e.op("Reshape", x, e.ints(shape), allowzero=1)


def _slice(e: Emit) -> str:
    axes = e.ints(range(e.types[0].rank))
    return e.op("Slice", e.args[0], e.ints(e.attr("starts")), e.ints(e.attr("stops")), axes, e.ints(e.attr("steps")))


def _reverse(e: Emit) -> str:
    axes = e.attr("axes")
    if not axes:
        return e.args[0]
    ends = [-int(d) - 1 for d in (e.types[0].shape[a] for a in axes)]
    return e.op("Slice", e.args[0], e.ints([-1] * len(axes)), e.ints(ends), e.ints(axes), e.ints([-1] * len(axes)))


def _pad(e: Emit) -> str:
    return e.op("Pad", e.args[0], e.ints((*e.attr("low"), *e.attr("high"))), e.number(e.attr("value"), e.type.dtype))


def _interior_pad(e: Emit) -> str:
    """Each element with the padding behind it, as a new axis; what is behind the last is cut off."""
    shape, interior = e.types[0].shape, e.attr("interior")
    if 0 in shape:
        return e.args[0]
    apart = _reshaped(e, e.args[0], [v for d in shape for v in (d, 1)])
    ends = [v for p in interior for v in (0, p)]
    padded = e.op("Pad", apart, e.ints((*[0] * len(ends), *ends)), e.number(e.attr("value"), e.type.dtype))
    wide = _reshaped(e, padded, [d * (p + 1) for d, p in zip(shape, interior, strict=True)])
    return e.op("Slice", wide, e.ints([0] * len(shape)), e.ints(e.type.shape), e.ints(range(len(shape))))


# ---- indices -------------------------------------------------------------------------------------


def _held(e: Emit, index: str, most: Sequence[int] | int) -> str:
    """Indices as i64, held to 0 … most."""
    wide = e.cast(index, I64)
    low = e.op("Max", wide, e.number(0, I64))
    return e.op("Min", low, e.ints(most) if isinstance(most, Sequence) else e.number(most, I64))


def _take(e: Emit) -> str:
    axis = e.attr("axis")
    return e.op("Gather", e.args[0], _held(e, e.args[1], int(e.types[0].shape[axis]) - 1), axis=axis)


def _dynamic_slice(e: Emit) -> str:
    sizes = e.attr("sizes")
    starts = _held(e, e.args[1], [d - n for d, n in zip(e.types[0].shape, sizes, strict=True)])
    cut = e.op("Slice", e.args[0], starts, e.op("Add", starts, e.ints(sizes)), e.ints(range(len(sizes))))
    return _reshaped(e, cut, e.type.shape)


def _dynamic_update_slice(e: Emit) -> str:
    """Places of the update as indices of the flat tensor."""
    shape, sizes = e.types[0].shape, e.types[1].shape
    if not sizes or 0 in sizes:
        return e.op("Identity", e.args[1] if not sizes else e.args[0])
    starts = _held(e, e.args[2], [d - n for d, n in zip(shape, sizes, strict=True)])
    steps = [prod(shape[i + 1 :]) for i in range(len(shape))]
    offset = e.op("ReduceSum", e.op("Mul", starts, e.ints(steps)), e.ints([0]), keepdims=1)
    inner = sum(np.indices(sizes)[i] * s for i, s in enumerate(steps))
    flat = e.op("Add", e.ints(np.asarray(inner).reshape(-1).tolist()), offset)
    made = e.op("ScatterElements", _reshaped(e, e.args[0], [-1]), flat, _reshaped(e, e.args[1], [-1]), axis=0)
    return _reshaped(e, made, shape)


def _elements_axis(e: Emit, batching: str, named: str, window: Sequence[int]) -> int:
    """The axis of a gather or scatter that reads or writes single elements along one axis, all others being batches."""
    (*axes,) = e.attr(named)
    others = tuple(i for i in range(e.types[0].rank) if i not in axes)
    if len(axes) != 1 or window or e.attr(batching) != others or e.attr("index_vector_dim") != e.types[1].rank:
        raise e.refuse()
    return axes[0]


def _gather(e: Emit) -> str:
    """Single elements along one axis, or slices at index vectors that lie along the last axis of the indices."""
    x, starts = e.types
    sizes = e.attr("slice_sizes")
    if e.attr("index_vector_dim") == starts.rank and e.attr("start_indices_batching_dims") == e.attr(
        "operand_batching_dims"
    ):
        axis = _elements_axis(e, "operand_batching_dims", "start_index_map", e.attr("offset_dims"))
        return e.op("GatherElements", e.args[0], _held(e, e.args[1], int(x.shape[axis]) - 1), axis=axis)
    batch = len(e.attr("operand_batching_dims"))
    named = e.attr("start_index_map")
    whole = all(n == d for i, (n, d) in enumerate(zip(sizes, x.shape, strict=True)) if i >= batch + len(named))
    first = tuple(range(batch, batch + len(named)))
    plain = named == first == e.attr("collapsed_slice_dims") and e.attr("operand_batching_dims") == tuple(range(batch))
    rest = tuple(range(starts.rank - 1, starts.rank - 1 + x.rank - batch - len(named)))
    ordered = e.attr("start_indices_batching_dims") == tuple(range(batch)) and e.attr("offset_dims") == rest
    if not (whole and plain and ordered and e.attr("index_vector_dim") == starts.rank - 1):
        raise e.refuse()
    index = _held(e, e.args[1], [int(x.shape[a]) - 1 for a in named])
    return e.op("GatherND", e.args[0], index, batch_dims=batch)


# ---- products and reductions ---------------------------------------------------------------------


def _matmul(e: Emit) -> str:
    if e.types[0].dtype.bits == 8 and e.types[0].dtype.is_int and e.type.dtype == I32:
        return e.op("MatMulInteger", *e.args)
    a, b = (e.cast(x, e.type.dtype) if t.dtype != e.type.dtype else x for x, t in zip(e.args, e.types, strict=True))
    return e.op("MatMul", a, b)


def _conv(e: Emit) -> str:
    attrs = {"strides": e.attr("strides"), "pads": (*e.attr("low"), *e.attr("high")), "dilations": e.attr("dilations"),
             "group": e.attr("groups")}  # fmt: skip
    if e.types[0].dtype.is_int:
        if e.types[0].dtype.bits != 8 or e.type.dtype != I32:
            raise e.refuse()
        return e.op("ConvInteger", *e.args, **attrs)
    a, b = (e.cast(x, e.type.dtype) if t.dtype != e.type.dtype else x for x, t in zip(e.args, e.types, strict=True))
    return e.op("Conv", a, b, **attrs)


def _reduce(op: str) -> Write:
    def write(e: Emit) -> str:
        if not e.attr("axes"):
            return e.op("Identity", *e.args)
        return e.op(op, e.args[0], e.ints(e.attr("axes")), keepdims=0)

    return write


def _reduce_bools(op: str) -> Write:
    def write(e: Emit) -> str:
        if not e.attr("axes"):
            return e.op("Identity", *e.args)
        return e.cast(e.op(op, e.cast(e.args[0], I32), e.ints(e.attr("axes")), keepdims=0), BOOL)

    return write


def _reduce_window(e: Emit) -> str:
    kind, window = e.attr("op"), e.attr("window")
    attrs = {"kernel_shape": window, "strides": e.attr("strides"), "pads": (*e.attr("low"), *e.attr("high")),
             "dilations": e.attr("dilations")}  # fmt: skip
    x, d = e.args[0], e.type.dtype
    # ONNX's pools refuse padding as wide as the window, and are for floats but for the greatest of bytes.
    if (
        kind == "prod"
        or not d.is_float
        or any(p >= k for p, k in zip((*e.attr("low"), *e.attr("high")), (*window, *window), strict=True))
    ):
        raise e.refuse()
    if kind == "max":
        return e.op("MaxPool", x, **attrs)
    if kind == "min":
        return e.op("Neg", e.op("MaxPool", e.op("Neg", x), **attrs))
    mean = e.op("AveragePool", x, count_include_pad=1, **attrs)
    return e.op("Mul", mean, e.number(prod(window), d))


# ---- order ---------------------------------------------------------------------------------------


def _top_k(e: Emit) -> Sequence[str]:
    values, index = e.op("TopK", e.args[0], e.ints([e.attr("k")]), axis=-1, largest=int(e.attr("largest")), outputs=2)
    return [values, e.cast(index, I32)]


def _sort(e: Emit) -> Sequence[str]:
    """By one key: TopK of all elements, whose ties go to the lower index; the rest follows by index."""
    if e.attr("keys") != 1 or not e.types[0].dtype.is_float:
        raise e.refuse()
    axis = e.attr("axis")
    size = int(e.types[0].shape[axis])
    key, index = e.op("TopK", e.args[0], e.ints([size]), axis=axis, largest=int(e.attr("descending")), outputs=2)
    return [key, *(e.op("GatherElements", x, index, axis=axis) for x in e.args[1:])]


def _arg(op: str) -> Write:
    def write(e: Emit) -> str:
        found = e.op(op, e.args[0], axis=e.attr("axis"), keepdims=0, select_last_index=int(e.attr("last")))
        return e.cast(found, I32)

    return write


def _cumsum(e: Emit) -> str:
    flags = {"exclusive": int(e.attr("exclusive")), "reverse": int(e.attr("reverse"))}
    return e.op("CumSum", e.args[0], e.number(e.attr("axis"), I64), **flags)


OPS: dict[str, Write] = {
    "constant": _constant, "full": _full, "iota": _iota,
    "neg": _same("Neg"), "abs": _same("Abs"), "sign": _same("Sign"), "floor": _same("Floor"), "ceil": _same("Ceil"),
    "round": _same("Round"), "exp": _same("Exp"), "expm1": _expm1, "log": _same("Log"), "log1p": _log1p,
    "sqrt": _same("Sqrt"), "rsqrt": _rsqrt, "tanh": _same("Tanh"), "erf": _same("Erf"), "erfc": _erfc,
    "sin": _same("Sin"), "cos": _same("Cos"), "tan": _same("Tan"), "asin": _same("Asin"), "acos": _same("Acos"),
    "atan": _same("Atan"), "sinh": _same("Sinh"), "cosh": _same("Cosh"), "asinh": _same("Asinh"),
    "acosh": _same("Acosh"), "atanh": _same("Atanh"), "cbrt": _cbrt, "exp2": _exp2, "log2": _log2,
    "logistic": _same("Sigmoid"), "round_away": _round_away, "is_finite": _is_finite,
    "add": _same("Add"), "sub": _same("Sub"), "mul": _same("Mul"), "div": _same("Div"), "rem": _rem,
    "pow": _same("Pow"), "max": _extreme("Max", "Or"), "min": _extreme("Min", "And"),
    "and": _both("And", "BitwiseAnd"), "or": _both("Or", "BitwiseOr"), "xor": _both("Xor", "BitwiseXor"),
    "not": _both("Not", "BitwiseNot"), "eq": _same("Equal"), "ne": lambda e: e.op("Not", e.op("Equal", *e.args)),
    "lt": _same("Less"), "le": _same("LessOrEqual"), "gt": _same("Greater"), "ge": _same("GreaterOrEqual"),
    "select": _same("Where"), "convert": _convert,
    "broadcast": _broadcast, "reshape": lambda e: _reshaped(e, e.args[0], e.type.shape),
    "transpose": lambda e: e.op("Transpose", *e.args, perm=e.attr("perm")), "slice": _slice, "reverse": _reverse,
    "concat": lambda e: e.op("Concat", *e.args, axis=e.attr("axis")), "pad": _pad, "interior_pad": _interior_pad,
    "take": _take, "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "gather": _gather,
    "matmul": _matmul, "conv": _conv, "reduce_sum": _reduce("ReduceSum"),
    "reduce_prod": _reduce("ReduceProd"), "reduce_max": _reduce("ReduceMax"), "reduce_min": _reduce("ReduceMin"),
    "reduce_and": _reduce_bools("ReduceMin"), "reduce_or": _reduce_bools("ReduceMax"), "reduce_window": _reduce_window,
    "top_k": _top_k, "sort": _sort, "argmax": _arg("ArgMax"), "argmin": _arg("ArgMin"), "cumsum": _cumsum,
}  # fmt: skip
