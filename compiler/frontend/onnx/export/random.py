"""Random bits in ONNX: Threefry-2x32 and Philox-4x32 as arithmetic of i64, laid out as the row `rng_bits` has it.

32-bit words are i64 below 2^32; what overflows i64 wraps, which is arithmetic modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....graph import DTYPES
from ....graph.dtypes import I64
from ....graph.ops.random import MULTIPLY, PARITY, RAISE, ROTATIONS, split_axis
from .emit import Emit, Write

_U64 = DTYPES["u64"]
_LOW, _WORD = 0xFFFFFFFF, 1 << 32
_SIGN = -(1 << 63)


def _low(e: Emit, x: str) -> str:
    return e.op("BitwiseAnd", x, e.number(_LOW, I64))


def _high(e: Emit, x: str) -> str:
    moved = e.op("BitShift", e.cast(x, I64, _U64), e.number(32, _U64), direction="RIGHT")
    return e.cast(moved, _U64, I64)


def _plus(e: Emit, x: str, y: str) -> str:
    """A sum of words."""
    return _low(e, e.op("Add", x, y))


def _times(e: Emit, x: str, value: int) -> str:
    return e.op("Mul", x, e.number(value, I64))


def _turned(e: Emit, x: str, by: int) -> str:
    """A word with its bits rotated up."""
    up = _low(e, _times(e, x, 1 << by))
    return e.op("BitwiseOr", up, e.op("Div", x, e.number(1 << (32 - by), I64)))


def _joined(e: Emit, low: str, high: str) -> str:
    return e.op("BitwiseOr", low, _times(e, high, _WORD))


def _state(e: Emit, i: int) -> str:
    """Element `i` of the state as i64."""
    return e.op("Gather", e.cast(e.args[0], _U64, I64), e.number(i, I64), axis=0)


def _after(e: Emit, parts: Sequence[str]) -> str:
    rows = [e.reshaped(p, [1]) for p in parts]
    return e.cast(e.op("Concat", *rows, axis=0), I64, _U64)


# ---- Threefry ------------------------------------------------------------------------------------


def _threefry(e: Emit) -> tuple[str, str]:
    """(next state, bits): 64-bit elements take a block each; otherwise neighbours along the split axis share one."""
    shape, wide = tuple(int(n) for n in e.node.types[1].shape), e.node.types[1].dtype.bits == I64.bits
    split = split_axis(shape)
    axis = split if split is not None else 0
    halves = shape if wide else tuple(-(-n // 2) if i == axis else n for i, n in enumerate(shape or (1,)))
    counter = _state(e, 1)
    count = e.op("Add", e.ints(np.arange(prod(halves)).reshape(halves)), counter)
    a, b = _threefry_block(e, (_low(e, count), _high(e, count)), _state(e, 0))
    after = _after(e, [_state(e, 0), e.op("Add", counter, e.number(prod(halves), I64))])
    if wide:
        return after, _joined(e, a, b)
    if split is None:
        return after, e.reshaped(a, [])
    apart = [*halves[: axis + 1], 1, *halves[axis + 1 :]]
    pairs = e.op("Concat", e.reshaped(a, apart), e.reshaped(b, apart), axis=axis + 1)
    whole = e.reshaped(pairs, [2 * n if i == axis else n for i, n in enumerate(halves)])
    return after, e.op("Slice", whole, e.ints([0]), e.ints([shape[axis]]), e.ints([axis]))


def _threefry_block(e: Emit, x: tuple[str, str], key: str) -> tuple[str, str]:
    first, second = _low(e, key), _high(e, key)
    keys = (first, second, e.op("BitwiseXor", e.op("BitwiseXor", first, second), e.number(int(PARITY), I64)))
    a, b = _plus(e, x[0], keys[0]), _plus(e, x[1], keys[1])
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            a = _plus(e, a, b)
            b = e.op("BitwiseXor", _turned(e, b, by), a)
        a = _plus(e, a, keys[(group + 1) % 3])
        b = _plus(e, b, e.op("Add", keys[(group + 2) % 3], e.number(group + 1, I64)))
    return a, b


# ---- Philox --------------------------------------------------------------------------------------


def _philox(e: Emit) -> tuple[str, str]:
    """(next state, bits): blocks in a row, four words of 32 bits or two of 64 from each."""
    t = e.node.types[1]
    size, wide, length = t.size, t.dtype.bits == I64.bits, int(e.types[0].shape[0])
    blocks = -(-size // (2 if wide else 4))
    low, high = _state(e, 1), _state(e, 2) if length == 3 else e.number(0, I64)
    places = e.op("Add", low, e.ints(np.arange(blocks)))
    carried = e.op("Add", high, _below(e, places, low))
    a, b, c, d = _philox_block(
        e, (_low(e, places), _high(e, places), _low(e, carried), _high(e, carried)), _state(e, 0)
    )
    words = (_joined(e, a, b), _joined(e, c, d)) if wide else (a, b, c, d)
    rows = [e.reshaped(w, [blocks, 1]) for w in words]
    line = e.reshaped(e.op("Concat", *rows, axis=1), [-1])
    bits = e.reshaped(e.op("Slice", line, e.ints([0]), e.ints([size]), e.ints([0])), t.shape)
    last = e.op("Add", low, e.number(blocks, I64))
    after = [_state(e, 0), last, e.op("Add", high, _below(e, last, low))]
    return _after(e, after[:length]), bits


def _below(e: Emit, x: str, y: str) -> str:
    """1 where x < y as numbers without sign."""
    less = e.op("Less", *(e.op("BitwiseXor", v, e.number(_SIGN, I64)) for v in (x, y)))
    return e.op("Cast", less, to=7)


def _philox_block(e: Emit, x: tuple[str, str, str, str], key: str) -> tuple[str, str, str, str]:
    k0, k1 = _low(e, key), _high(e, key)
    a, b, c, d = x
    for _ in range(10):
        first, second = _times(e, a, int(MULTIPLY[0])), _times(e, c, int(MULTIPLY[1]))
        a, b, c, d = (
            e.chain("BitwiseXor", _high(e, second), b, k0), _low(e, second),
            e.chain("BitwiseXor", _high(e, first), d, k1), _low(e, first),
        )  # fmt: skip
        k0, k1 = _plus(e, k0, e.number(int(RAISE[0]), I64)), _plus(e, k1, e.number(int(RAISE[1]), I64))
    return a, b, c, d


def _rng_bits(e: Emit) -> Sequence[str]:
    after, bits = _threefry(e) if e.attr("algorithm") == "threefry" else _philox(e)
    return [after, e.cast(bits, I64, e.node.types[1].dtype)]


OPS: dict[str, Write] = {"rng_bits": _rng_bits}
