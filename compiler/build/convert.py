"""Converting a tensor a file holds to the dtype a model declares, rounded once.

Must not know files, weights or inputs.
"""

from __future__ import annotations

import numpy as np

from ..graph import DType, NDArray

# Floats narrower than f32 are reached through f32 by ml_dtypes, so that f64 would be rounded twice.
_NARROW_BITS = 32


def convert(array: NDArray, dtype: DType) -> NDArray | str:
    """`array` as `dtype`, or why that would lose more than a rounding.

    Floats round to nearest even. Integers and bools convert when every element keeps its value.
    """
    if array.dtype == dtype.numpy:
        return array
    if _is_float(array.dtype) and dtype.is_float:
        return round_floats(array, dtype)
    if array.dtype.kind not in "iub" or dtype.is_float:
        return f"{array.dtype} does not convert to {dtype}"
    return _whole(array, dtype)


def round_floats(array: NDArray, dtype: DType) -> NDArray:
    """Floats `array` rounded to nearest even once, whatever their width."""
    if array.dtype == np.float64 and dtype.bits < _NARROW_BITS:
        array = _round_to_odd(array)
    # An overflow is an infinity, as rounding to nearest says; it is no fault of the program.
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype.numpy)


def _round_to_odd(array: NDArray) -> NDArray:
    """f64 to f32, inexact results made odd: rounding these again gives what rounding once would.

    Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd".
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.ascontiguousarray(array.astype(np.float32))
    back = near.astype(np.float64)
    inexact = (back != array) & np.isfinite(array)
    toward_zero = np.where(inexact & (np.abs(back) > np.abs(array)), np.nextafter(near, np.float32(0)), near)
    bits = np.ascontiguousarray(toward_zero.astype(np.float32)).view(np.uint32)
    return (bits | inexact.astype(np.uint32)).view(np.float32)


def _is_float(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def _whole(array: NDArray, dtype: DType) -> NDArray | str:
    wide = array.astype(np.int64) if array.dtype.kind != "u" else array
    low, high = _range(dtype)
    if array.size and (int(wide.min()) < low or int(wide.max()) > high):
        return f"it holds values from {int(wide.min())} to {int(wide.max())}, {dtype} holds {low} to {high}"
    return wide.astype(dtype.numpy)


def _range(dtype: DType) -> tuple[int, int]:
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
