"""Whether two sides of a rule agree on a sample, by the class of the rule.

Two tiers. *Exact*: small whole numbers, floats computed in f64, so ring identities hold to the bit and any difference
is the rule's. *IEEE*: the dtypes' own arithmetic, with NaN, infinities, zeros of both signs, denormals and extremes
mixed in. @exact asks for equal bits (any NaN is any NaN), @nosz lets zeros change sign, @nonan leaves out NaN and
infinities, as data and on the way. @reassoc lets finite results differ by rounding and overflow, but a NaN must still
come through; @approx the same with a wider tolerance. Must not know rules' syntax.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..graph import Context, Contraction, DType, NDArray, TensorType
from ..graph.dtypes import extremes, rounded
from ..graph.evaluate import evaluate_all
from .samples import Sample

# Roundings allowed on one path, in units of the largest intermediate value: more than any rule has ops.
REASSOC_ULPS = 32
APPROX_RELATIVE = 1e-3
EXACT_RELATIVE = 1e-9  # f64 rounding of transcendental functions in the exact tier


class OrderedContraction(Contraction):
    """Products summed in rising k in f64 and rounded once: an element does not depend on what stands beside it.

    BLAS picks a kernel by the shape, so a column may differ in its last bit when others are merged with it.
    """

    name = "ordered"

    def matmul(self, a: NDArray, b: NDArray, out: DType, precision: str) -> NDArray:
        wide = np.int64 if a.dtype.kind in "iub" else np.float64
        x, y = a.astype(wide), b.astype(wide)
        total = np.zeros((*x.shape[:-1], y.shape[-1]), wide)
        for k in range(x.shape[-1]):
            total = total + x[..., :, k, None] * y[..., None, k, :]
        return rounded(total, out) if wide is np.float64 else total.astype(out.numpy)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two sides that disagree: the data by leaf, and both results."""

    tier: str
    data: Mapping[str, NDArray]
    left: NDArray
    right: NDArray


def difference(sample: Sample, classes: frozenset[str], seed: str, draws: int = 2) -> Difference | None:
    """The first disagreement of the two sides in a few draws of data, or None. Same seed, same draws."""
    for tier, data in _draws(sample, classes, seed, draws):
        found = disagree(sample, classes, tier, data)
        if found:
            return found
    return None


def _draws(sample: Sample, classes: frozenset[str], seed: str, draws: int) -> Iterator[tuple[str, dict[str, NDArray]]]:
    rng = np.random.default_rng(list(random.Random(seed).randbytes(16)))
    loose = classes & {"reassoc", "approx"}
    tiers = ["exact", *(["finite", "nan"] if loose else ["ieee"])]
    for _ in range(draws):
        for tier in tiers:
            if tier == "nan" and "nonan" in classes:
                continue
            yield tier, {name: _data(rng, t, tier, "nonan" in classes) for name, t in _leaves(sample)}


def _leaves(sample: Sample) -> Iterator[tuple[str, TensorType]]:
    for n in (*sample.graph.inputs, *sample.graph.params):
        yield str(n.attr("name")), n.type


def _data(rng: np.random.Generator, t: TensorType, tier: str, finite: bool) -> NDArray:
    shape = tuple(map(int, t.shape))
    if t.dtype.kind == "bool":
        return rng.random(shape) < 0.5
    if t.dtype.is_int:
        return _ints(rng, t.dtype, shape, tier)
    if tier == "exact":
        return rng.integers(-3, 4, shape).astype(t.dtype.numpy)
    values = rng.normal(size=shape) * 2
    if tier == "ieee":
        pool = np.array(_specials(t.dtype, finite))
        values = np.where(rng.random(shape) < 0.4, rng.choice(pool, shape), values)
    if tier == "nan":
        values = np.where(rng.random(shape) < 0.2, np.nan, values)
    return rounded(np.asarray(values), t.dtype)


def _ints(rng: np.random.Generator, d: DType, shape: tuple[int, ...], tier: str) -> NDArray:
    low, high = extremes(d)
    small = rng.integers(max(low, -4), 5, shape).astype(d.numpy)
    if tier == "exact":
        return small
    # Halves, so that `high` itself fits the generator's bounds for 64 bits.
    big = rng.integers(low // 2, high // 2, shape, endpoint=True).astype(d.numpy)
    edges = np.array([low, high, 0, 1], dtype=object)[rng.integers(0, 4, shape)]
    mixed = np.where(rng.random(shape) < 0.5, big, small)
    return np.where(rng.random(shape) < 0.2, np.asarray(edges).astype(d.numpy), mixed).astype(d.numpy)


def _specials(d: DType, finite: bool) -> list[float]:
    info = _finfo(d)
    numbers = [0.0, -0.0, 1.0, -1.0, float(info.smallest_subnormal), float(info.tiny)]
    # Near overflow a class that excludes infinities would exclude nearly every draw.
    return numbers if finite else [*numbers, np.nan, np.inf, -np.inf, float(info.max), float(info.min)]


def _finfo(d: DType) -> Any:
    return ml_dtypes.finfo(d.numpy)  # pyright: ignore[reportUnknownVariableType]  # its stub leaves NumPy's half open


# ---- comparing -----------------------------------------------------------------------------------


def disagree(sample: Sample, classes: frozenset[str], tier: str, data: Mapping[str, NDArray]) -> Difference | None:
    """How the sides of `sample` differ on `data`, judged by `tier`; None when they agree or the class excludes it."""
    wide = tier == "exact"
    with np.errstate(all="ignore"):
        values = evaluate_all(sample.graph, data, Context(OrderedContraction(), wide))
        if _excluded(classes, tier, [_f64(v) for v in values.values()]):
            return None
        for a, b in zip(sample.left, sample.right, strict=True):
            if not _agree(sample, classes, tier, values, a, b):
                return Difference(tier, data, values[a], values[b])
    return None


def _excluded(classes: frozenset[str], tier: str, values: list[NDArray]) -> bool:
    """Whether the classes promise nothing here: @nonan for NaN and infinities, the loose ones for infinities."""
    if "nonan" in classes or (tier in ("exact", "finite") and classes & {"reassoc", "approx"}):
        return not all(np.isfinite(v).all() for v in values)
    return tier == "nan" and any(np.isinf(v).any() for v in values)


def _agree(sample: Sample, classes: frozenset[str], tier: str, values: Mapping[int, NDArray], a: int, b: int) -> bool:
    left, right = _f64(values[a]), _f64(values[b])
    d = sample.graph.types[a].dtype
    if left.shape != right.shape:
        return False
    if not d.is_float:
        # A comparison of floats may turn over when they are rounded otherwise.
        return tier in ("finite", "nan") or np.array_equal(values[a], values[b])
    if tier == "ieee":
        same = (left == right) & (("nosz" in classes) | (np.signbit(left) == np.signbit(right)))
        return bool(np.all(same | (np.isnan(left) & np.isnan(right))))
    if tier == "nan":
        return bool(np.array_equal(np.isnan(left), np.isnan(right)))
    return _close(left, right, _tolerance(sample, classes, tier, values))


def _f64(x: NDArray) -> NDArray:
    return x if x.dtype == np.float64 else x.astype(np.float64)


def _close(left: NDArray, right: NDArray, tolerance: float) -> bool:
    both = np.isfinite(left) & np.isfinite(right)
    near = np.abs(np.where(both, left - right, 0.0)) <= tolerance
    return bool(np.all(np.where(both, near, (left == right) | (np.isnan(left) & np.isnan(right)))))


def _tolerance(sample: Sample, classes: frozenset[str], tier: str, values: Mapping[int, NDArray]) -> float:
    """Absolute error allowed: relative to the largest finite float on the way, at the coarsest dtype on the way."""
    types = sample.graph.types
    floats = [v for v, t in types.items() if t.dtype.is_float]
    magnitudes = [np.abs(_f64(values[v])) for v in floats]
    scale = max((float(np.max(m[np.isfinite(m)], initial=0.0)) for m in magnitudes), default=0.0)
    eps = max((float(_finfo(types[v].dtype).eps) for v in floats), default=0.0)
    relative = REASSOC_ULPS * eps / 2
    if "approx" in classes:  # in the exact tier too: the constants of such a rule may be rounded
        return scale * max(relative, APPROX_RELATIVE)
    return scale * (EXACT_RELATIVE if tier == "exact" else relative)
