"""The elements of `dense<...>` literals as arrays. Must not know operations."""

from __future__ import annotations

import re
from math import prod

import numpy as np

from ...graph import DType, NDArray, TensorType
from ...graph.dtypes import BOOL, rounded

_HEX = re.compile(r'"0x([0-9A-Fa-f]*)"')
_BITS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


class Unreadable(ValueError):
    """A literal that is none of its type; the text says why."""


def decode(body: str, t: TensorType) -> NDArray:
    """The array that `dense<body>` of type `t` is: of t's shape, or of no axes where one element stands for all."""
    text = body.strip()
    if not text:
        return _of_count(np.zeros(0, t.dtype.numpy), t)
    found = _HEX.fullmatch(text)
    if found:
        return _raw(bytes.fromhex(found[1]) if len(found[1]) % 2 == 0 else b"", t)
    if text.startswith("["):
        return _listed(text, t)
    return _elements([text], t.dtype).reshape(())


def _of_count(x: NDArray, t: TensorType) -> NDArray:
    if x.size != t.size:
        raise Unreadable(f"a literal of {x.size} elements for {t}")
    return x.reshape(tuple(map(int, t.shape)))


def _raw(data: bytes, t: TensorType) -> NDArray:
    """Little-endian elements, a byte at least each; one of them stands for all."""
    width = t.dtype.numpy.itemsize
    if len(data) not in (width, width * t.size):
        raise Unreadable(f"a literal of {len(data)} bytes for {t}, which has {width * t.size}")
    if t.dtype == BOOL:
        return _shaped(np.frombuffer(data, np.uint8) != 0, t)
    if t.dtype.bits == 4:
        return _shaped(rounded(np.frombuffer(data, np.int8).astype(np.int64), t.dtype), t)
    return _shaped(np.frombuffer(data, t.dtype.numpy.newbyteorder("<")).astype(t.dtype.numpy), t)


def _shaped(x: NDArray, t: TensorType) -> NDArray:
    return x.reshape(()) if x.size == 1 else _of_count(x, t)


_NO_LIST = str.maketrans("", "", "[]")


def _listed(text: str, t: TensorType) -> NDArray:
    """A nested list. As many brackets as the shape has sub-lists, and as many elements as it has, are that shape."""
    lists = sum(prod(map(int, t.shape[:i])) for i in range(t.rank))
    if text.count("[") != lists or text.count("]") != lists:
        raise Unreadable(f"the lists of the literal are not those of {t}")
    plain = text.translate(_NO_LIST)
    parts = plain.split(",") if plain.strip(", \n\t") else []
    return _of_count(_elements(parts, t.dtype), t)


def _elements(parts: list[str], d: DType) -> NDArray:
    try:
        if d == BOOL:
            return np.array([_truth(p.strip()) for p in parts], bool)
        return _floats(parts, d) if d.is_float else _integers(parts, d)
    except (ValueError, OverflowError) as error:
        raise Unreadable(str(error)) from None


def _truth(text: str) -> bool:
    if text not in ("true", "false", "0", "1", "-1"):
        raise ValueError(f"`{text[:20]}` is no i1")
    return text not in ("false", "0")


def _floats(parts: list[str], d: DType) -> NDArray:
    """Decimals rounded to nearest even; `0x…` are the bits of an element."""
    hexes = [i for i, p in enumerate(parts) if "x" in p]
    wide = np.array([0.0 if "x" in p else float(p) for p in parts], np.float64)
    out = np.array(rounded(wide, d))
    if hexes:
        bits = [int(parts[i], 16) for i in hexes]
        if max(bits) >> d.bits or min(bits) < 0:
            raise ValueError(f"more bits than {d} has")
        out[hexes] = np.array(bits, _BITS[d.bits]).view(d.numpy)
    return out


def _integers(parts: list[str], d: DType) -> NDArray:
    numbers = [int(p, 0) if "x" in p else int(p) for p in parts]
    low, high = min(numbers, default=0), max(numbers, default=0)
    if low < -(1 << (d.bits - 1)) or high >= 1 << d.bits:
        raise ValueError(f"{low if low < 0 else high} is no {d}")
    mask = (1 << d.bits) - 1
    return rounded(np.array([n & mask for n in numbers], np.uint64), d)
