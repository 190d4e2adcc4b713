"""How the host lays out tensors for copies: one element a word, in one of two orders.

A host tensor has an element for each (row, column, k) of a region of `height` x `width` PEs with `count` elements each.
Must not know programs or engines.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray


class MemcpyOrder(Enum):
    """ROW_MAJOR: k fastest, then column, then row. COL_MAJOR: row fastest, then column, then k."""

    ROW_MAJOR = 0
    COL_MAJOR = 1


class MemcpyDataType(Enum):
    """Width of an element on the PE; on the host an element always takes a word of 32 bits."""

    MEMCPY_16BIT = 0
    MEMCPY_32BIT = 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """What an element is in the memory of a PE."""
        return np.dtype(np.uint16 if self is MemcpyDataType.MEMCPY_16BIT else np.uint32)


def words_of(tensor: NDArray[Any], what: str) -> NDArray[np.uint32]:
    """`tensor` as words of 32 bits, flat, sharing its memory. Raises ValueError for other widths and gaps."""
    if tensor.dtype.itemsize != 4:
        raise ValueError(f"{what}: elements of the host tensor have 4 bytes, not {tensor.dtype.itemsize}")
    if not tensor.flags.c_contiguous and not tensor.flags.f_contiguous:
        raise ValueError(f"{what}: the host tensor must lie in memory without gaps")
    return tensor.ravel(order="K").view(np.uint32)


def to_region(
    words: NDArray[np.uint32], height: int, width: int, count: int, order: MemcpyOrder, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Host words as [height, width, count] elements of `dtype`; the upper half of a word is dropped for 16 bits.
    Raises ValueError when there are too few or too many."""
    if words.size != height * width * count:
        raise ValueError(
            f"{height} x {width} PEs with {count} elements each are {height * width * count} words; the host tensor "
            f"has {words.size}"
        )
    shaped = words.reshape((height, width, count), order="C" if order is MemcpyOrder.ROW_MAJOR else "F")
    return shaped.astype(dtype)


def from_region(region: NDArray[Any], order: MemcpyOrder) -> NDArray[np.uint32]:
    """Elements of [height, width, count] as host words; what has 16 bits fills the lower half."""
    return region.astype(np.uint32).ravel(order="C" if order is MemcpyOrder.ROW_MAJOR else "F")


def fill(target: NDArray[Any], words: NDArray[np.uint32], what: str) -> None:
    """Put `words` into the host tensor `target`. Raises ValueError when it holds another number of them."""
    flat = words_of(target, what)
    if flat.size != words.size:
        raise ValueError(f"{what}: {words.size} words come back; the host tensor has room for {flat.size}")
    if flat.base is None or not np.shares_memory(flat, target):
        raise ValueError(f"{what}: the host tensor must lie in memory without gaps")
    flat[:] = words
