"""How the mxu target multiplies matrices: the definition that checks, simulator and code generator share.

A product is cut along K into tiles of the array's size. The product of one tile is exact and rounded
once to f32 (computed in f64; a zero is +0). Tiles are added in f32 in order of rising k, and the sum
is rounded to the result's dtype. An f32 operand is split into bf16 parts, and each tile contributes
its partial products one after another, the smallest first. Must not know programs or time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...compiler.graph import Builder, Context, Contraction, DType, Graph, NDArray, TensorType
from ...compiler.graph.dtypes import BF16, F32, F64, I8, I32, U8, from_numpy, rounded
from ...compiler.graph.evaluate import run_region
from ...compiler.graph.ops.row import added
from .chip import Chip

# Partial products of an f32 tile by precision: (part of a, part of b), in the order in which they are added.
PASSES: dict[str, tuple[tuple[int, int], ...]] = {
    "highest": ((2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0)),
    "high": ((1, 0), (0, 1), (0, 0)),
    "default": ((0, 0),),
}
BF16_MAX = float(np.uint16(0x7F7F).view(BF16.numpy))  # pyright: ignore[reportArgumentType]


def passes(dtype: DType, precision: str) -> tuple[tuple[int, int], ...] | None:
    """Partial products of a tile, (part of a, part of b) in order; None when the unit has no path for `dtype`."""
    if dtype in (BF16, I8, U8):
        return ((0, 0),)
    return PASSES[precision] if dtype == F32 else None


def sum_dtype(dtype: DType) -> DType:
    """What products with a result of `dtype` are summed in: i32 for integers, f32 for floats."""
    return I32 if dtype.is_int else F32


def feeds(chip: Chip) -> frozenset[DType]:
    """The dtypes that the units of `chip` take in, f32 by its bf16 parts."""
    return frozenset(d for d in (BF16, I8, U8) if chip.mxu.multiplies(d)) | {F32}


def parts_of(precision: str) -> int:
    """Parts that an f32 operand is split into at `precision`."""
    return 1 + max(max(pair) for pair in PASSES[precision])


@lru_cache(maxsize=256)
def split_body(t: TensorType, parts: int = 3) -> Graph:
    """A graph from an f32 tensor `x` to its bf16 parts, largest first: x = part0 + part1 + part2, but for rounding.

    Part 0 is x rounded (kept finite where x is), each further part the rest rounded. A NaN or an
    infinity is the *last* part and the others are 0: the last part meets only the other operand's first,
    so that inf * y is what IEEE says for every finite y that rounds to no zero; inf * inf is NaN.
    """
    b = Builder("split")
    x = b.input("x", t)

    def every(value: float, d: DType = F32) -> int:
        return b.full(value, d, t.shape)

    finite = b.one("is_finite", x)
    rest = b.one("select", finite, x, every(0.0))
    found: list[int] = []
    for part in range(parts):
        clamped = b.one("min", b.one("max", rest, every(-BF16_MAX)), every(BF16_MAX)) if part == 0 else rest
        narrow = b.one("convert", clamped, dtype=BF16)
        if part < parts - 1:
            rest = b.one("sub", rest, b.one("convert", narrow, dtype=F32))
            found.append(narrow)
            continue
        found.append(b.one("select", finite, narrow, b.one("convert", x, dtype=BF16)))
    return b.finish(found, [f"part{i}" for i in range(parts)])


def tile_product(a: NDArray, b: NDArray) -> NDArray:
    """[..M, K] @ [..K, N] of one K tile: exact sums rounded once to f32 (i32 for integers)."""
    if a.dtype.kind in "iub":
        return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(np.int32)
    with np.errstate(all="ignore"):
        sums = np.matmul(wide(a), wide(b))
        sums += 0.0
        return sums.astype(np.float32)


def wide(x: NDArray) -> NDArray:
    """A float array in f64, which holds every product of two narrow floats exactly."""
    return x.astype(np.float64, copy=False)


@dataclass(frozen=True)
class MxuContraction(Contraction):
    """The contraction of one chip; only the array's size matters."""

    chip: Chip
    name = "mxu"

    def matmul(self, a: NDArray, b: NDArray, out: DType, precision: str) -> NDArray:
        """[..B, M, K] @ [..B, K, N] or [K, N]. f16 and f8 are widened to f32 and split, f64 is summed in rising k."""
        dtype = from_numpy(a.dtype)
        if a.dtype.kind in "iub":
            return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(out.numpy)
        with np.errstate(all="ignore"):
            if dtype == F64:
                return _sequential(a, b).astype(out.numpy)
            if dtype == BF16:
                return self._tiled([(a, b)]).astype(out.numpy)
            left, right = _split(a, precision), _split(b, precision)
            return self._tiled([(left[i], right[j]) for i, j in PASSES[precision]]).astype(out.numpy)

    def tap_sums(self, products: Iterable[tuple[NDArray, NDArray]], out: DType) -> NDArray:
        """On the vector units: products and sums in f32 (f64 in f64), each rounded; integers modulo 2^32 or 2^64."""
        wide = np.float64 if out == F64 else np.float32 if out.is_float else np.int64
        return rounded(added((x.astype(wide), y.astype(wide)) for x, y in products), out)

    def _tiled(self, pairs: list[tuple[NDArray, NDArray]]) -> NDArray:
        """Tile by tile in rising k, and within a tile pair by pair, added in f32."""
        a, b = pairs[0]
        size, k = self.chip.mxu.size, a.shape[-1]
        wides = [(wide(x), wide(y)) for x, y in pairs]
        total: NDArray | None = None
        for at in range(0, k, size):
            for x, y in wides:
                part = tile_product(x[..., at : at + size], y[..., at : at + size, :])
                total = part if total is None else total + part
        return np.zeros((*a.shape[:-1], b.shape[-1]), np.float32) if total is None else total


def _split(x: NDArray, precision: str) -> tuple[NDArray, ...]:
    t = TensorType(F32, x.shape)
    return run_region(split_body(t, parts_of(precision)), [x.astype(np.float32)], Context(Contraction()))


def _sequential(a: NDArray, b: NDArray) -> NDArray:
    """f64 has no path through the matrix units: products added one by one in rising k."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for k in range(a.shape[-1]):
        total = total + a[..., :, k, None] * b[..., None, k, :]
    return total
