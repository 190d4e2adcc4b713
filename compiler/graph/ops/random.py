"""Random bits by counter: Threefry-2x32 with 20 rounds and Philox-4x32 with 10 (Salmon et al., SC 2011).

The state is u64: a key, then the counter's 64-bit words from the lowest. Bits are laid out as XLA does, so that a seed
gives the same numbers here and there.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from ..dtypes import DTYPES, DType, rounded
from ..types import TensorType
from .movement import ints
from .row import AttrMap, AttrSpec, Context, NDArray, Op, Types, whole_axes

U64 = DTYPES["u64"]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
Words: TypeAlias = "tuple[NDArray, ...]"


def _infer(args: Types, attrs: AttrMap) -> Types | str:
    (state,), to, shape = args, attrs["dtype"], ints(attrs["shape"])
    lengths = {"threefry": (2,), "philox": (2, 3)}.get(str(attrs["algorithm"]))
    if lengths is None:
        return f"algorithm must be threefry or philox, got {attrs['algorithm']}"
    if state.dtype != U64 or state.rank != 1 or state.shape[0] not in lengths:
        return f"the state of {attrs['algorithm']} is u64[{' or '.join(map(str, lengths))}], got {state}"
    if not isinstance(to, DType) or not to.is_int or to.bits < 8:
        return f"bits are integers of 8 or more, not {to}"
    return (state, TensorType(to, shape)) if min(shape, default=0) >= 0 else f"dims must not be negative, got {shape}"


def _eval(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    state, t = np.array(args[0], np.uint64), types[1]
    run = _threefry_bits if attrs["algorithm"] == "threefry" else _philox_bits
    with np.errstate(over="ignore"):
        after, bits = run(state, tuple(map(int, t.shape)), t.dtype.bits == 64)
    return after, rounded(bits, t.dtype)


def _words(x: NDArray) -> Words:
    """The low and high 32 bits of u64, as u64."""
    return x & _LOW, x >> _HALF


def _joined(low: NDArray, high: NDArray) -> NDArray:
    return low | (high << _HALF)


# ---- Threefry --------------------------------------------------------------------------------------

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint64(0x1BD11BDA)


def threefry(x: Words, key: Words) -> Words:
    """One block: two 32-bit words in u64 arrays, a key injected before and after each four rounds."""
    keys = (*key, PARITY ^ key[0] ^ key[1])
    a, b = (x[0] + keys[0]) & _LOW, (x[1] + keys[1]) & _LOW
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            a = (a + b) & _LOW
            b = (((b << np.uint64(by)) | (b >> np.uint64(32 - by))) & _LOW) ^ a
        a = (a + keys[(group + 1) % 3]) & _LOW
        b = (b + keys[(group + 2) % 3] + np.uint64(group + 1)) & _LOW
    return a, b


def _threefry_bits(state: NDArray, shape: tuple[int, ...], wide: bool) -> tuple[NDArray, NDArray]:
    """64-bit elements take a block each; two neighbours along the split axis share one otherwise."""
    split = split_axis(shape)
    axis = split if split is not None else 0
    halves = shape if wide else tuple(-(-n // 2) if i == axis else n for i, n in enumerate(shape or (1,)))
    count = np.arange(prod(halves), dtype=np.uint64).reshape(halves)
    words = threefry(_words(count + state[1]), _words(state[0]))
    after = np.array([state[0], state[1] + np.uint64(prod(halves))], np.uint64)
    if wide:
        return after, _joined(*words)
    if split is None:
        return after, words[0].reshape(())
    pairs = np.stack(words, axis + 1).reshape([2 * n if i == axis else n for i, n in enumerate(halves)])
    return after, np.take(pairs, np.arange(shape[axis]), axis)


def split_axis(shape: tuple[int, ...]) -> int | None:
    """The first even axis, else the first of the longest; None without axes."""
    even = [i for i, n in enumerate(shape) if n % 2 == 0]
    return even[0] if even else shape.index(max(shape)) if shape else None


# ---- Philox ----------------------------------------------------------------------------------------

MULTIPLY = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
RAISE = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))


def philox(x: Words, key: Words) -> Words:
    """One block of four 32-bit words in u64 arrays."""
    k0, k1 = key
    a, b, c, d = x
    for _ in range(10):
        (low0, high0), (low1, high1) = _words(a * MULTIPLY[0]), _words(c * MULTIPLY[1])
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
        k0, k1 = (k0 + RAISE[0]) & _LOW, (k1 + RAISE[1]) & _LOW
    return a, b, c, d


def _philox_bits(state: NDArray, shape: tuple[int, ...], wide: bool) -> tuple[NDArray, NDArray]:
    """Blocks in a row, four words of 32 bits or two of 64 from each; what is left of the last is dropped."""
    size = prod(shape)
    blocks = -(-size // (2 if wide else 4))
    low, high = state[1], state[2] if state.size == 3 else np.uint64(0)
    places = low + np.arange(blocks, dtype=np.uint64)
    carried = high + (places < low).astype(np.uint64)
    a, b, c, d = philox((*_words(places), *_words(carried)), _words(state[0]))
    words = (_joined(a, b), _joined(c, d)) if wide else (a, b, c, d)
    bits = np.stack(words, axis=-1).reshape(-1)[:size].reshape(shape)
    last = low + np.uint64(blocks)
    after = [state[0], last, high + np.uint64(last < low)][: state.size]
    return np.array(after, np.uint64), bits


ROWS: tuple[Op, ...] = (
    Op(
        "rng_bits",
        "The next state and random bits of `dtype` and `shape` by `algorithm`: threefry or philox.",
        ("state",),
        _infer,
        _eval,
        whole_axes,
        "simple",
        (AttrSpec("algorithm", "str"), AttrSpec("dtype", "dtype"), AttrSpec("shape", "ints")),
        edges="The counter wraps. Elements of less than 32 bits are the low bits of 32.",
    ),
)
