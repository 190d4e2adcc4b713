"""Whether two tensors agree: bit for bit, or within what rounding in another order may cost.

The rule (`Numbers` of the house plan): within 4 times the error of the model as written against f64, plus 4 ulp of the
dtype at the largest magnitude. Must not know graphs, plans or where the tensors come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np

from ..graph import DType, NDArray

_ERROR_FACTOR = 4
_ULPS = 4
# How far another implementation's sums may differ, in other orders and of other lengths.
NEAR_SHARE = 1e-3
_NEAR_STEPS = 16


@dataclass(frozen=True, slots=True)
class Fault:
    """The first element that disagrees: its index, what was computed and what is right, `ulps` between the two."""

    index: tuple[int, ...]
    got: str
    want: str
    ulps: float
    elements: int

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.index))}]"
        apart = "" if not np.isfinite(self.ulps) else f", {self.ulps:.4g} ulp apart"
        return f"at {at} it is {self.got} where {self.want} is right{apart} ({self.elements} elements differ)"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far `got` is from what it should be: the greatest error, what was allowed, and the first fault if any."""

    error: float
    allowed: float
    fault: Fault | None = None


def same_bits(got: NDArray, want: NDArray, dtype: DType) -> Agreement:
    """Equal bit for bit, NaNs of any payload taken as one."""
    return _judge(got, want, dtype, ~(_bits(got) == _bits(want)) & ~(_nan(got) & _nan(want)), 0.0)


def near(got: NDArray, want: NDArray, dtype: DType) -> Agreement:
    """Close to `want`, which another implementation computed: within a share of its greatest magnitude, `NEAR_SHARE`
    or 16 times what `dtype` can tell apart, whichever is more. Integers and bools are equal.
    """
    finite = np.isfinite(_f64(want))
    share = max(NEAR_SHARE, _NEAR_STEPS * _ulp(dtype, 1.0)) if dtype.is_float else 0.0
    allowed = share * _greatest(np.abs(_f64(want)[finite]))
    with np.errstate(invalid="ignore"):
        far = ~(np.abs(_f64(got) - _f64(want)) <= allowed)
    special = ~((_f64(got) == _f64(want)) | (_nan(got) & _nan(want)))
    return _judge(got, want, dtype, np.where(finite, far, special), allowed, _f64(want))


# Infinities subtract to NaN, which compares as it should.
@np.errstate(invalid="ignore", over="ignore")
def close(got: NDArray, written: NDArray, wide: NDArray, dtype: DType) -> Agreement:
    """Close to `wide` (f64): `written`, the model as written, says by its own error how close is close enough.

    NaNs and infinities stand where `written` has them.
    """
    exact, finite = _f64(wide), np.isfinite(_f64(written))
    own = _greatest(np.abs(_f64(written) - exact)[finite & np.isfinite(exact)])
    allowed = _ERROR_FACTOR * own + _ULPS * _ulp(dtype, _greatest(np.abs(_f64(written)[finite])))
    far = ~(np.abs(_f64(got) - np.where(np.isfinite(exact), exact, _f64(written))) <= allowed)
    special = ~((_f64(got) == _f64(written)) | (_nan(got) & _nan(written)))
    return _judge(got, written, dtype, np.where(finite, far, special), allowed, exact)


@np.errstate(invalid="ignore")
def ulps_apart(got: NDArray, want: NDArray, dtype: DType) -> NDArray:
    """Distance of each pair in units in the last place of the larger of the two; inf where either is not finite."""
    a, b = _f64(got), _f64(want)
    gap = np.where(np.isfinite(a) & np.isfinite(b), np.abs(a - b), np.inf)
    units = np.array([_ulp(dtype, float(m)) or 1.0 for m in np.maximum(np.abs(a), np.abs(b)).ravel()])
    return np.where(a == b, 0.0, gap / units.reshape(a.shape))


def _judge(
    got: NDArray, want: NDArray, dtype: DType, wrong: NDArray, allowed: float, exact: NDArray | None = None
) -> Agreement:
    right = _f64(want) if exact is None else exact
    with np.errstate(invalid="ignore"):
        gaps = np.abs(_f64(got) - right)
    error = _greatest(gaps[np.isfinite(gaps)])
    if not wrong.any():
        return Agreement(error, allowed)
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    apart = ulps_apart(np.asarray(got[first]), np.asarray(want[first]), dtype)
    fault = Fault(first, str(got[first]), str(want[first]), float(apart), int(np.count_nonzero(wrong)))
    return Agreement(error, allowed, fault)


def _ulp(dtype: DType, magnitude: float) -> float:
    """The gap between `dtype`'s neighbours at `magnitude`; 0 for integers and bools."""
    if not dtype.is_float or not np.isfinite(magnitude):
        return 0.0
    digits, lowest = _format(dtype)
    exponent = int(np.frexp(magnitude)[1]) - 1 if magnitude else lowest
    return float(2.0 ** (max(exponent, lowest) - digits))


def _format(dtype: DType) -> tuple[int, int]:
    """(explicit digits of the significand, least normal exponent)."""
    info = cast(Any, ml_dtypes.finfo(dtype.numpy))
    return int(info.nmant), int(info.minexp)


def _greatest(values: NDArray) -> float:
    return float(values.max()) if values.size else 0.0


def _f64(x: NDArray) -> NDArray:
    return x.astype(np.float64)


def _nan(x: NDArray) -> NDArray:
    return np.isnan(_f64(x))


def _bits(x: NDArray) -> NDArray:
    packed = np.ascontiguousarray(x).reshape(x.shape)
    return packed.view(np.dtype(f"u{x.dtype.itemsize}"))
