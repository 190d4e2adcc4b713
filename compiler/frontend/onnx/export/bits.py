"""Rows that work on bits, in ONNX: BitShift on u64, and BitCast, which ONNX has from opset 26 on."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ....graph import DTYPES, DType
from ....graph.dtypes import BOOL, F64, I64
from ..tensors import dtype_number
from .emit import Emit, Unexported, Write

_U64 = DTYPES["u64"]


def shifted(e: Emit, x: str, by: str, direction: str) -> str:
    """u64 with its bits moved; `by` is u64 below 64."""
    return e.op("BitShift", x, by, direction=direction)


def pattern(e: Emit, x: str, d: DType) -> str:
    """The bits of integers of `d` as u64, zeros above."""
    wide = e.cast(x, d, _U64)
    return wide if d.kind == "uint" or d == I64 else e.op("BitwiseAnd", wide, e.number((1 << d.bits) - 1, _U64))


def _amount(e: Emit) -> tuple[str, str]:
    """(shift amounts as u64 held to 63, 1 in u64 where they are less than the width)."""
    d = e.type.dtype
    wide = pattern(e, e.args[1], d)
    inside = e.cast(e.op("Less", wide, e.number(d.bits, _U64)), BOOL, _U64)
    return e.op("Min", wide, e.number(63, _U64)), inside


def _shift(direction: str) -> Write:
    def write(e: Emit) -> str:
        d = e.type.dtype
        by, inside = _amount(e)
        made = shifted(e, pattern(e, e.args[0], d), by, direction)
        return e.back(e.op("Mul", made, inside), _U64)

    return write


def _shift_right_arithmetic(e: Emit) -> str:
    """Of x below 0, the bits of -x - 1 moved and turned back, which fills with ones."""
    d = e.type.dtype
    by, _ = _amount(e)
    signed = e.cast(e.args[0], d, DTYPES[f"i{d.bits}"])
    wide = e.cast(signed, DTYPES[f"i{d.bits}"], I64)
    fill = e.op("Sub", e.number(0, I64), e.cast(e.op("Less", wide, e.number(0, I64)), BOOL, I64))
    plain = e.cast(e.op("BitwiseXor", wide, fill), I64, _U64)
    made = e.cast(shifted(e, plain, by, "RIGHT"), _U64, I64)
    return e.back(e.op("BitwiseXor", made, fill), I64)


def _each_bit(e: Emit) -> str:
    """The bits of x along a new last axis, each with those above it: x >> 0, x >> 1, …"""
    d = e.type.dtype
    wide = e.reshaped(pattern(e, e.args[0], d), [*e.type.shape, 1])
    return shifted(e, wide, e.array(np.arange(d.bits), _U64), "RIGHT")


def _popcnt(e: Emit) -> str:
    ones = e.cast(e.op("BitwiseAnd", _each_bit(e), e.number(1, _U64)), _U64, I64)
    return e.back(e.op("ReduceSum", ones, e.ints([e.type.rank]), keepdims=0), I64)


def _count_leading_zeros(e: Emit) -> str:
    """A bit above the highest set one leaves nothing when it and all below it are shifted out."""
    none = e.cast(e.op("Equal", _each_bit(e), e.number(0, _U64)), BOOL, I64)
    return e.back(e.op("ReduceSum", none, e.ints([e.type.rank]), keepdims=0), I64)


# ---- reinterpretation ----------------------------------------------------------------------------


def _unsigned(d: DType) -> DType:
    return DTYPES[f"u{d.bits}"]


def _bits_of(e: Emit, x: str, d: DType) -> str:
    """The bits of a float or an integer as an unsigned integer of its width."""
    if not d.is_float:
        return e.cast(x, d, _unsigned(d))
    return e.op("BitCast", x, to=dtype_number(_unsigned(d)))


def _from_bits(e: Emit, x: str, d: DType) -> str:
    """The inverse of `_bits_of`."""
    return e.op("BitCast", x, to=dtype_number(d)) if d.is_float else e.cast(x, _unsigned(d), d)


def _bitcast_convert(e: Emit) -> str:
    """Parts of a wider element lie along the last axis, the lowest first."""
    own, d = e.types[0].dtype, e.type.dtype
    if own == d:
        return e.args[0]
    x = _bits_of(e, e.args[0], own)
    if own.bits == d.bits:
        return _from_bits(e, x, d)
    wide = e.cast(x, _unsigned(own), _U64)
    parts = max(own.bits, d.bits) // min(own.bits, d.bits)
    moves = e.array(np.arange(parts) * min(own.bits, d.bits), _U64)
    if own.bits > d.bits:
        apart = shifted(e, e.reshaped(wide, [*e.types[0].shape, 1]), moves, "RIGHT")
        made = e.op("BitwiseAnd", apart, e.number((1 << d.bits) - 1, _U64))
    else:
        last = e.types[0].rank - 1
        moved = shifted(e, wide, moves, "LEFT")
        made = e.chain("BitwiseOr", *(e.op("Gather", moved, e.number(i, I64), axis=last) for i in range(parts)))
    return _from_bits(e, e.cast(made, _U64, _unsigned(d)), d)


def _reduce_precision(e: Emit) -> str:
    """On the bits: half of the last kept place is added, less what makes a tie even, and the places below cut off."""
    own, exponent, mantissa = e.type.dtype, int(e.attr("exponent_bits")), int(e.attr("mantissa_bits"))
    finfo: Any = ml_dtypes.finfo
    about: Any = finfo(own.numpy)
    x = e.args[0]
    cut = x
    if mantissa < about.nmant:
        if not np.isinf(np.array(np.inf, own.numpy).astype(np.float64)):
            raise Unexported(f"reduce_precision of {own}")  # a carry would not end in an infinity
        cut = _rounded(e, x, own, int(about.nmant) - mantissa, whole=mantissa > 0)
    wide, made = e.cast(x, own, F64), e.cast(cut, own, F64)
    if exponent < about.nexp:
        bias = (1 << (exponent - 1)) - 1
        greatest = math.ldexp(2.0 - math.ldexp(1.0, -min(mantissa, 52)), bias)
        signed = e.where(e.op("Less", wide, e.number(0, F64)), e.number(-math.inf, F64), e.number(math.inf, F64))
        size = e.op("Abs", made)
        made = e.where(e.op("Greater", size, e.number(greatest, F64)), signed, made)
        least = e.op("Less", size, e.number(math.ldexp(1.0, 1 - bias), F64))
        made = e.where(least, e.op("Mul", wide, e.number(0, F64)), made)
    odd = e.op("Or", e.op("IsNaN", wide), e.op("IsInf", wide))
    return e.back(e.where(odd, wide, made), F64)


def _rounded(e: Emit, x: str, d: DType, places: int, whole: bool) -> str:
    """`x` of `d` with its last `places` bits rounded away, ties to even.

    Not `whole` when no bit of the mantissa is left: then the last place is that of the leading 1 of normal numbers,
    which is odd, so that ties go up.
    """
    word = DTYPES[f"i{d.bits}"]
    bits = e.cast(_bits_of(e, x, d), _unsigned(d), I64)
    sign, rest = (e.op("BitwiseAnd", bits, e.number(m, I64)) for m in (-(1 << (d.bits - 1)), (1 << (d.bits - 1)) - 1))
    last = shifted(e, e.cast(rest, I64, _U64), e.number(places, _U64), "RIGHT")
    odd = e.op("BitwiseAnd" if whole else "Min", last, e.number(1, _U64))
    near = e.chain("Add", rest, e.cast(odd, _U64, I64), e.number((1 << (places - 1)) - 1, I64))
    kept = e.op("BitwiseAnd", near, e.number(-(1 << places), I64))
    made = e.op("BitwiseOr", kept, sign)
    return _from_bits(e, e.cast(e.cast(made, I64, word), word, _unsigned(d)), d)


OPS: dict[str, Write] = {
    "shift_left": _shift("LEFT"), "shift_right_logical": _shift("RIGHT"),
    "shift_right_arithmetic": _shift_right_arithmetic, "popcnt": _popcnt, "count_leading_zeros": _count_leading_zeros,
    "bitcast_convert": _bitcast_convert, "reduce_precision": _reduce_precision,
}  # fmt: skip
