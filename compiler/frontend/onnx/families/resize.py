"""Resize and Upsample: separable interpolation, one axis after another, by matrices made when the model is imported.

The rules are those of ONNX's reference implementation: coordinates, nearest, linear and cubic kernels (Keys 1981 with
`cubic_coeff_a`), antialiasing by stretched kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....graph import NDArray, forms
from ....graph.dtypes import BOOL
from ..call import Call
from ..table import handles


@dataclass(frozen=True, slots=True)
class Way:
    """How places between elements are filled: attributes of Resize."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool


@handles("Upsample")
def upsample(n: Call) -> int:
    """Resize with asymmetric coordinates; scales in an attribute before opset 9."""
    scales = n.attr("scales") if n.version < 9 else n.static(1, "scales").reshape(-1).tolist()
    return _legacy(n, [float(s) for s in scales])


@handles("Resize", since=10)
def resize_10(n: Call) -> int:
    """As Upsample 9."""
    return _legacy(n, [float(s) for s in n.static(1, "scales").reshape(-1).tolist()])


def _legacy(n: Call, scales: Sequence[float]) -> int:
    if len(scales) != n.type().rank:
        n.refuse(f"{len(scales)} scales for {n.type()}")
    way = Way(n.attr("mode", "nearest"), "asymmetric", "floor", -0.75, False, False)
    way = way if way.mode == "nearest" else Way("linear", *_fields(way))
    sizes = [int(np.floor(d * s)) for d, s in zip(n.shape(), scales, strict=True)]
    return _resized(n, range(len(sizes)), sizes, scales, way, None, 0.0)


def _fields(way: Way) -> tuple[str, str, float, bool, bool]:
    return way.coordinates, way.nearest, way.cubic, way.exclude_outside, way.antialias


@handles("Resize", since=11)
def resize(n: Call) -> int:
    """To sizes or by scales, of all axes or those named."""
    rank = n.type().rank
    axes = [n.at(a, rank) for a in n.attr("axes", tuple(range(rank)))]
    have = [int(n.shape()[a]) for a in axes]
    scales, sizes = _wanted(n, have)
    roi = n.static(1, "region").astype(float).reshape(-1).tolist() if n.has(1) and n.type(1).size else None
    way = Way(
        n.attr("mode", "nearest"), n.attr("coordinate_transformation_mode", "half_pixel"),
        n.attr("nearest_mode", "round_prefer_floor"), float(n.attr("cubic_coeff_a", -0.75)),
        bool(n.attr("exclude_outside", 0)), bool(n.attr("antialias", 0)),
    )  # fmt: skip
    if way.coordinates == "tf_half_pixel_for_nn":
        n.refuse("tf_half_pixel_for_nn was withdrawn with opset 13")
    if way.coordinates == "tf_crop_and_resize" and (roi is None or len(roi) != 2 * len(axes)):
        n.refuse("tf_crop_and_resize needs a region with a start and an end for each axis")
    return _resized(n, axes, sizes, scales, way, roi, float(n.attr("extrapolation_value", 0.0)))


def _wanted(n: Call, have: Sequence[int]) -> tuple[list[float], list[int]]:
    """(scales, sizes) of the axes."""
    if n.has(3) and n.type(3).size:
        sizes = list(n.ints(3, "sizes"))
        if len(sizes) != len(have):
            n.refuse(f"{len(sizes)} sizes for {len(have)} axes")
        policy = n.attr("keep_aspect_ratio_policy", "stretch")
        scales = [s / d if d else 1.0 for s, d in zip(sizes, have, strict=True)]
        if policy != "stretch":
            scale = (min if policy == "not_larger" else max)(scales)
            return [scale] * len(sizes), [int(np.floor(d * scale + 0.5)) for d in have]
        return scales, sizes
    if not n.has(2) or not n.type(2).size:
        n.refuse("neither scales nor sizes are given")
    scales = [float(s) for s in n.static(2, "scales").reshape(-1).tolist()]
    if len(scales) != len(have):
        n.refuse(f"{len(scales)} scales for {len(have)} axes")
    return scales, [int(np.floor(d * s)) for d, s in zip(have, scales, strict=True)]


def _resized(
    n: Call, axes: Sequence[int], sizes: Sequence[int], scales: Sequence[float], way: Way, roi: Sequence[float] | None,
    outside: float,
) -> int:  # fmt: skip
    x = n.x()
    inside: NDArray | None = None
    for i, (axis, size, scale) in enumerate(zip(axes, sizes, scales, strict=True)):
        have = int(n.b.types[x].shape[axis])
        ends = None if roi is None else (roi[i], roi[len(axes) + i])
        if not have:
            n.refuse(f"axis {axis} of {n.type()} has no elements to resize")
        if size == have and scale == 1 and way.coordinates != "tf_crop_and_resize":
            continue
        places, known = _coordinates(n, have, size, scale, way.coordinates, ends)
        if known is not None:
            line = known.reshape([-1 if a == axis else 1 for a in range(n.type().rank)])
            inside = line if inside is None else inside & line
        x = forms.resample(n.b, x, axis, _weights(n, places, have, scale, way))
    if inside is None or inside.all():
        return x
    shape = n.b.types[x].shape
    mask = forms.constant(n.b, np.ascontiguousarray(inside), BOOL)
    return n.b.one("select", forms.broadcast_to(n.b, mask, shape), x, n.like(outside, x))


def _coordinates(
    n: Call, have: int, size: int, scale: float, mode: str, ends: tuple[float, float] | None
) -> tuple[NDArray, NDArray | None]:
    """Where each new element stands among the old, and for a cropped region whether that is inside."""
    y = np.arange(size, dtype=np.float64)
    length = scale * have
    if mode == "align_corners":
        return (y * 0 if length == 1 else y * (have - 1) / (length - 1)), None
    if mode == "asymmetric":
        return y / scale, None
    if mode == "pytorch_half_pixel":
        return (y * 0 - 0.5 if length == 1 else (y + 0.5) / scale - 0.5), None
    if mode == "half_pixel":
        return (y + 0.5) / scale - 0.5, None
    if mode == "half_pixel_symmetric":
        return have / 2 * (1 - size / length) + (y + 0.5) / scale - 0.5, None
    if mode != "tf_crop_and_resize" or ends is None:
        n.refuse(f"its coordinates are `{mode}`")
    start, end = ends
    span = (end - start) * (have - 1)
    places = (y * 0 + span / 2 if length == 1 else y * span / (length - 1)) + start * (have - 1)
    return places, (places >= 0) & (places <= have - 1)


def _weights(n: Call, places: NDArray, have: int, scale: float, way: Way) -> NDArray:
    """[new, old]: how much of each old element a new one takes."""
    out = np.zeros((places.size, have))
    kernel = _kernel(n, way)
    for i, place in enumerate(places.tolist()):
        whole = int(np.floor(place))
        ratio = 1.0 if place == whole else place - whole
        coefficients = np.asarray(kernel(ratio, scale), np.float64)
        # The elements around the place, the left one first: ratio is in (0, 1].
        first = (whole if ratio < 1 else whole - 1) - (coefficients.size // 2 - 1)
        at = first + np.arange(coefficients.size)
        if way.exclude_outside:
            coefficients = np.where((at < 0) | (at >= have), 0, coefficients)
            coefficients = coefficients / coefficients.sum()
        np.add.at(out[i], np.clip(at, 0, have - 1), coefficients)
    return out


def _kernel(n: Call, way: Way) -> Callable[[float, float], object]:
    a = way.cubic
    if way.mode == "nearest":
        return lambda ratio, scale: _nearest(n, ratio, way.nearest)
    if way.mode == "linear":
        return _linear_stretched if way.antialias else lambda ratio, scale: [1 - ratio, ratio]
    if way.mode != "cubic":
        n.refuse(f"its mode is `{way.mode}`")
    if way.antialias:
        return lambda ratio, scale: _cubic_stretched(ratio, scale, a)
    return lambda ratio, scale: [_keys(v, a) for v in (ratio + 1, ratio, 1 - ratio, 2 - ratio)]


def _nearest(n: Call, ratio: float, mode: str) -> list[float]:
    right = {
        "round_prefer_floor": ratio > 0.5, "round_prefer_ceil": ratio >= 0.5, "floor": ratio == 1, "ceil": True,
    }  # fmt: skip
    if mode not in right:
        n.refuse(f"its nearest_mode is `{mode}`")
    return [0.0, 1.0] if right[mode] or ratio == 1 else [1.0, 0.0]


def _keys(x: float, a: float) -> float:
    """The cubic convolution kernel (Keys 1981)."""
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def _linear_stretched(ratio: float, scale: float) -> NDArray:
    scale = min(scale, 1.0)
    start = int(np.floor(-1 / scale) + 1)
    weights = np.clip(1 - np.abs((np.arange(start, 2 - start) - ratio) * scale), 0, 1)
    return weights / weights.sum()


def _cubic_stretched(ratio: float, scale: float, a: float) -> NDArray:
    scale = min(scale, 1.0)
    start = int(np.floor(-2 / scale) + 1)
    weights = np.array([_keys(scale * (i - ratio), a) for i in range(start, 2 - start)])
    return weights / weights.sum()
