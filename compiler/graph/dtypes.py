"""Element types, one row each.

Knows NumPy and ml_dtypes. Must not know ops, shapes or targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import ml_dtypes
import numpy as np

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: its name in every text form, its kind and its width in main memory."""

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


def _row(name: str, kind: Kind, bits: int, numpy_type: object) -> DType:
    return DType(name, kind, bits, np.dtype(numpy_type))  # pyright: ignore[reportArgumentType]


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

_BY_NUMPY = {d.numpy: d for d in DTYPES.values()}


def dtype(name: str) -> DType:
    """The row called `name`; KeyError when there is none."""
    return DTYPES[name]


def from_numpy(numpy_type: np.dtype[np.generic]) -> DType | None:
    """The row stored as `numpy_type`, or None."""
    return _BY_NUMPY.get(np.dtype(numpy_type))
