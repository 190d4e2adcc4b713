"""More functions of floats: trigonometric, hyperbolic, roots, the gamma and error families.

All compute in f64 on contiguous data and round once, as the transcendental rows of elementwise.py do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .elementwise import make_row, needs, smooth, through_f64
from .row import NDArray, Op


def _each(fn: Callable[[float], float]) -> Callable[[NDArray], NDArray]:
    """`fn` of every element, for functions that NumPy does not have."""
    of_each = np.frompyfunc(fn, 1, 1)

    def run(x: NDArray) -> NDArray:
        return np.asarray(of_each(x), dtype=np.float64)

    return run


def _lgamma(x: float) -> float:
    if x != x:
        return x
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _logistic(x: NDArray) -> NDArray:
    """1 / (1 + e^-x), by e^x where x < 0, so that neither exponential overflows."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


def _exp2(x: NDArray) -> NDArray:
    return np.exp2(x)


def _erf_inv(y: float) -> float:
    """The x of erf(x) = y: Giles' polynomial (GPU Computing Gems, 2011, single precision), then Halley's steps on erf.

    A step cubes the error, so three do but in the far tail, where the polynomial is only near. Near ±1 they go by erfc,
    which keeps the digits that erf loses.
    """
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    x = _giles(y)
    for _ in range(_ERF_INV_STEPS):
        off = math.erf(x) - y if abs(y) < 0.5 else math.copysign(1, y) * ((1 - abs(y)) - math.erfc(abs(x)))
        step = off / (2 / math.sqrt(math.pi) * math.exp(-x * x))
        x -= step / (1 + x * step)  # erf'' = -2 x erf'
    return x if y else y


_ERF_INV_STEPS = 8
_GILES_CENTRE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                 -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_GILES_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
               0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _giles(y: float) -> float:
    w = -math.log((1 - y) * (1 + y))
    centre = w < 5
    t = w - 2.5 if centre else math.sqrt(w) - 3
    p = 0.0
    for c in _GILES_CENTRE if centre else _GILES_TAIL:
        p = c + p * t
    return p * y


# Bernoulli numbers over 2n: the asymptotic series of digamma (Abramowitz and Stegun, 6.3.18).
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _digamma(x: float) -> float:
    """d/dx log(gamma(x)): reflected to x > 0, raised to x >= 10 by its recurrence, then the asymptotic series."""
    if x != x or x == -math.inf:
        return math.nan
    if x == 0:
        return -math.copysign(math.inf, x)
    if x < 0:
        if x == math.floor(x):
            return math.nan
        return _digamma(1 - x) - math.pi / math.tan(math.pi * (x - math.floor(x)))
    if math.isinf(x):
        return x
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    series = 0.0
    for c in reversed(_DIGAMMA_SERIES):
        series = (series + c) * inverse
    return total + math.log(x) - 0.5 / x - series


_ODD = "The sign of zero is kept."

ROWS: tuple[Op, ...] = (
    smooth("tan", "Tangent.", np.tan, "NaN at infinities. " + _ODD),
    smooth("asin", "Arc sine.", np.arcsin, "NaN outside -1 … 1. " + _ODD),
    smooth("acos", "Arc cosine.", np.arccos, "NaN outside -1 … 1. acos(1) = +0."),
    smooth("atan", "Arc tangent.", np.arctan, "atan(+-inf) = +-pi/2. " + _ODD),
    smooth("sinh", "Hyperbolic sine.", np.sinh, "Infinities stay. " + _ODD),
    smooth("cosh", "Hyperbolic cosine.", np.cosh, "cosh(+-inf) = inf."),
    smooth("asinh", "Inverse hyperbolic sine.", np.arcsinh, "Infinities stay. " + _ODD),
    smooth("acosh", "Inverse hyperbolic cosine.", np.arccosh, "NaN below 1. acosh(1) = +0."),
    smooth("atanh", "Inverse hyperbolic tangent.", np.arctanh, "atanh(+-1) = +-inf; NaN beyond. " + _ODD),
    smooth("cbrt", "Cube root.", np.cbrt, "Of negative numbers too; infinities stay. " + _ODD),
    smooth("exp2", "2 to the x.", _exp2, "exp2(-inf) = 0; exp2(+-0) = 1."),
    smooth("log2", "Logarithm to base 2.", np.log2, "log2(+-0) = -inf; NaN below 0."),
    smooth("logistic", "1 / (1 + exp(-x)).", _logistic, "logistic(-inf) = 0, logistic(inf) = 1."),
    smooth("erfc", "1 - erf(x), without its cancellation.", _each(math.erfc), "erfc(-inf) = 2, erfc(inf) = 0."),
    smooth("erf_inv", "The y of erf(y) = x.", _each(_erf_inv), "erf_inv(+-1) = +-inf; NaN beyond. " + _ODD),
    smooth("lgamma", "Logarithm of |gamma(x)|.", _each(_lgamma), "inf at 0, -1, -2, … and at infinities."),
    smooth(
        "digamma",
        "Derivative of lgamma.",
        _each(_digamma),
        "digamma(+-0) = -+inf, digamma(inf) = inf; NaN at -1, -2, … and -inf.",
    ),
    make_row(
        "atan2",
        "The angle of the point (y, x), from -pi to pi; the first operand is the ordinate.",
        needs("f"),
        through_f64(np.arctan2),
        2,
        "transcendental",
        edges="atan2(+-0, +0) = +-0; atan2(+-0, -0) = +-pi; both infinite: +-pi/4 or +-3pi/4.",
    ),
)
