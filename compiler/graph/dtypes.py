"""Element types, one row each, and the one way to round to them.

Knows NumPy and ml_dtypes. Must not know ops, shapes or targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """An element type: its name in every text form, its kind and its width in main memory.

    There is one DType of each name, the row of `DTYPES`; copies and pickles of it are it.
    """

    name: str
    kind: Kind
    bits: int
    numpy: np.dtype[np.generic]

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (dtype, (self.name,))

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    def nbytes(self, elements: int) -> int:
        """Bytes of `elements` packed elements; sub-byte types pack, rounded up to a byte."""
        return (elements * self.bits + 7) // 8


def _row(name: str, kind: Kind, bits: int, numpy_type: Any) -> DType:
    return DType(name, kind, bits, np.dtype(numpy_type))


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        _row("f64", "float", 64, np.float64),
        _row("f32", "float", 32, np.float32),
        _row("bf16", "float", 16, ml_dtypes.bfloat16),
        _row("f16", "float", 16, np.float16),
        _row("f8e4m3", "float", 8, ml_dtypes.float8_e4m3fn),
        _row("f8e5m2", "float", 8, ml_dtypes.float8_e5m2),
        _row("i64", "int", 64, np.int64),
        _row("i32", "int", 32, np.int32),
        _row("i16", "int", 16, np.int16),
        _row("i8", "int", 8, np.int8),
        _row("i4", "int", 4, ml_dtypes.int4),
        _row("u64", "uint", 64, np.uint64),
        _row("u32", "uint", 32, np.uint32),
        _row("u16", "uint", 16, np.uint16),
        _row("u8", "uint", 8, np.uint8),
        _row("u4", "uint", 4, ml_dtypes.uint4),
        _row("bool", "bool", 8, np.bool_),
    )
}

F64, F32, BF16, F16 = (DTYPES[n] for n in ("f64", "f32", "bf16", "f16"))
I64, I32, I8, U8, BOOL = (DTYPES[n] for n in ("i64", "i32", "i8", "u8", "bool"))

_LARGEST_DOUBLE = int(np.finfo(np.float64).max)
NARROW_FLOATS = frozenset(d.numpy for d in DTYPES.values() if d.is_float and d.bits < 32)
_FOUR_BITS = frozenset(d.numpy for d in DTYPES.values() if d.bits == 4)
_Values: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"

_BY_NUMPY = {d.numpy: d for d in DTYPES.values()}


def dtype(name: str) -> DType:
    """The row called `name`; KeyError when there is none."""
    return DTYPES[name]


def from_numpy(numpy_type: np.dtype[np.generic]) -> DType | None:
    """The row stored as `numpy_type`, or None."""
    return _BY_NUMPY.get(np.dtype(numpy_type))


def rounded(x: _Values, to: DType) -> _Values:
    """`x` at `to`: floats to nearest even, integers modulo 2^bits. Not for float to integer.

    Floats narrower than 32 bits are reached through f32, as ml_dtypes does for most of them. What is
    beyond the greatest finite value becomes infinite; in f8e4m3, which has no infinity, NaN.
    """
    if x.dtype == to.numpy:
        return x
    with np.errstate(all="ignore"):
        if to.numpy in NARROW_FLOATS and x.dtype not in NARROW_FLOATS:
            x = x.astype(np.float32)
        elif x.dtype in _FOUR_BITS:  # ml_dtypes has no cast between its two 4-bit types
            x = x.astype(np.int64)
        return x.astype(to.numpy)


def int_range(d: DType) -> tuple[int, int]:
    """Least and greatest value of an integer dtype."""
    return (0, (1 << d.bits) - 1) if d.kind == "uint" else (-(1 << (d.bits - 1)), (1 << (d.bits - 1)) - 1)


def extremes(d: DType) -> tuple[Any, Any]:
    """Least and greatest value of a dtype; infinities where it has them."""
    if not d.is_float:
        return (False, True) if d.kind == "bool" else int_range(d)
    infinite = np.isinf(np.array(np.inf, d.numpy).astype(np.float64))
    finfo: Any = ml_dtypes.finfo
    greatest = math.inf if infinite else float(finfo(d.numpy).max)
    return -greatest, greatest


def holds(d: DType, value: float) -> bool:
    """Whether the number `value` can be written at `d`: in range and whole for integers, 0 or 1 for bool.

    Any number that is a double can be written at a float dtype; it is rounded.
    """
    if d.is_float:
        return isinstance(value, float) or abs(value) <= _LARGEST_DOUBLE
    low, high = extremes(d)
    return low <= value <= high and value == int(value)
