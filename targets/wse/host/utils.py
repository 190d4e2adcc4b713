"""`sdk_utils`: arrays of 16-bit elements in words of 32 bits, and time stamps.

Must not know programs or engines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def memcpy_view(arr: NDArray[Any], datatype: np.dtype[Any]) -> NDArray[Any]:
    """The elements of `datatype` (2 or 4 bytes) in an array of words, sharing its memory: the lower half of each word
    where they have 2 bytes. Raises ValueError for other widths."""
    kind = np.dtype(datatype)
    if arr.dtype.itemsize != 4 or kind.itemsize not in (2, 4):
        raise ValueError("memcpy_view shows words of 4 bytes as elements of 2 or 4 bytes")
    view = arr.view(kind)
    return view if kind.itemsize == 4 else view[..., ::2]


def input_array_to_u32(np_arr: NDArray[Any], sentinel: int | None, fast_dim_sz: int) -> NDArray[np.uint32]:
    """Elements of 2 or 4 bytes, one a word. The upper half of the word of a 2-byte element holds its index in the
    fastest dimension (of `fast_dim_sz` elements), or 0 where there is no sentinel."""
    flat = np.ascontiguousarray(np_arr).ravel()
    if flat.dtype.itemsize == 4:
        return flat.view(np.uint32)
    if flat.dtype.itemsize != 2:
        raise ValueError("input_array_to_u32 takes elements of 2 or 4 bytes")
    words = flat.view(np.uint16).astype(np.uint32)
    if not sentinel:
        return words
    index = np.arange(flat.size, dtype=np.uint32) % np.uint32(max(fast_dim_sz, 1))
    return words | (index << np.uint32(16))


def make_u48(words: NDArray[Any]) -> int:
    """The number of 48 bits in three words of 16 bits, lowest first."""
    return int(words[0]) + (int(words[1]) << 16) + (int(words[2]) << 32)


def calculate_cycles(timestamp_buf: NDArray[Any]) -> int:
    """Cycles between two time stamps of three 16-bit words each, as `<time>` writes them into words of 32 bits."""
    halves = np.ascontiguousarray(timestamp_buf).view(np.uint32)
    first = np.array([halves[0] & 0xFFFF, halves[0] >> 16, halves[1] & 0xFFFF])
    last = np.array([halves[1] >> 16, halves[2] & 0xFFFF, halves[2] >> 16])
    return make_u48(last) - make_u48(first)
