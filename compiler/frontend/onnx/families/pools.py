"""Pools over windows of the spatial axes of x[N, C, …], and over all of them."""

from __future__ import annotations

import math
from math import prod

import numpy as np

from ....graph import NDArray, forms
from ....graph.dtypes import F32
from ..call import Call
from ..table import handles
from .windows import Geometry, geometry


def _windows(n: Call) -> Geometry:
    return geometry(n, tuple(int(k) for k in n.need("kernel_shape")), bool(n.attr("ceil_mode", 0)))


@handles("MaxPool")
def max_pool(n: Call) -> list[int | None]:
    """The greatest of each window, and where it stood; padding is never chosen."""
    g = _windows(n)
    if n.wants(1):
        order = bool(n.attr("storage_order", 0))
        return list(forms.max_pool_indices(n.b, n.x(), g.window, g.strides, g.low, g.reach, g.dilations, order))
    return [n.b.one("reduce_window", n.x(), op="max", window=g.window, strides=g.strides, low=g.low, high=g.reach,
                    dilations=g.dilations)]  # fmt: skip


@handles("AveragePool")
def average_pool(n: Call) -> int:
    """The mean of each window; padding counts if told so, what `ceil_mode` adds never does."""
    g = _windows(n)
    count = bool(n.attr("count_include_pad", 0))
    return forms.avg_pool(n.b, n.x(), g.window, g.strides, g.low, g.high, g.dilations, count, g.extra)


@handles("LpPool")
def lp_pool(n: Call) -> int:
    """The p-norm of each window."""
    g, p, x = _windows(n), int(n.attr("p", 2)), n.x()
    if p < 1:
        n.refuse(f"its p is {p}")
    powered = _powered(n, x, p)
    total = n.b.one("reduce_window", powered, op="sum", window=g.window, strides=g.strides, low=g.low, high=g.reach,
                    dilations=g.dilations)  # fmt: skip
    return _root(n, total, p)


def _powered(n: Call, x: int, p: int) -> int:
    size = n.b.one("abs", x)
    return size if p == 1 else n.b.one("mul", x, x) if p == 2 else n.b.one("pow", size, n.like(p, size))


def _root(n: Call, total: int, p: int) -> int:
    return total if p == 1 else n.b.one("sqrt", total) if p == 2 else n.b.one("pow", total, n.like(1 / p, total))


@handles("GlobalAveragePool", "GlobalMaxPool")
def global_pool(n: Call) -> int:
    """The mean or greatest over all spatial axes."""
    kind = "mean" if n.op == "GlobalAveragePool" else "max"
    return forms.reduce(n.b, n.x(), kind, tuple(range(2, n.type().rank)), keep=True)


@handles("GlobalLpPool")
def global_lp_pool(n: Call) -> int:
    """The p-norm over all spatial axes."""
    p = int(n.attr("p", 2))
    if p < 1:
        n.refuse(f"its p is {p}")
    return _root(n, forms.reduce(n.b, _powered(n, n.x(), p), "sum", tuple(range(2, n.type().rank)), keep=True), p)


@handles("MaxUnpool")
def max_unpool(n: Call) -> int:
    """Zeros with each element at the flat place that MaxPool told; with a larger shape given, in its first corner."""
    window = tuple(int(k) for k in n.need("kernel_shape"))
    rank = len(window)
    strides, pads = n.attr("strides", (1,) * rank), n.attr("pads", (0,) * (2 * rank))
    if not len(strides) == rank == n.type().rank - 2 or len(pads) != 2 * rank:
        n.refuse(f"its attributes do not have an entry for each spatial axis of {n.type()}")
    rows = zip(n.shape()[2:], strides, window, pads[:rank], pads[rank:], strict=True)
    own = (*n.shape()[:2], *((d - 1) * s + k - a - z for d, s, k, a, z in rows))
    flat = n.full(0, n.dtype(), (prod(own),))
    size = n.type().size
    index, values = (forms.reshape(n.b, n.x(i), (size,)) for i in (1, 0))
    out = forms.reshape(n.b, forms.scatter_elements(n.b, flat, index, values, 0, wrap=False), own)
    if not n.has(2):
        return out
    wanted = n.ints(2, "output shape")
    return forms.pad(n.b, out, (0,) * len(own), [w - d for w, d in zip(wanted, own, strict=True)])


@handles("RoiAlign")
def roi_align(n: Call) -> int:
    """Mean or greatest of bilinear samples in the bins of each region of interest (He et al. 2017, section 3).

    The number of samples in a bin must be given: with 0 it would depend on the regions. Coordinates beyond the image by
    more than one pixel give 0, others are held to it.
    """
    regions = n.static(1, "regions of interest").astype(float)
    batch = n.ints(2, "batch indices")
    if n.type().rank != 4 or regions.shape != (len(batch), 4):
        n.refuse(f"it takes x[N, C, H, W] and regions [R, 4], not {n.type()} and {n.type(1)}")
    high, wide = int(n.attr("output_height", 1)), int(n.attr("output_width", 1))
    scale, ratio = float(n.attr("spatial_scale", 1.0)), int(n.attr("sampling_ratio", 0))
    half = n.version >= 16 and n.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    kind = n.attr("mode", "avg")
    if n.dtype().bits < F32.bits:
        n.refuse(f"it takes f32, not {n.dtype()}")
    pairs = zip(regions, batch, strict=True)
    parts = [_region(n, list(r), at, (high, wide), scale, ratio, half, kind) for r, at in pairs]
    return forms.concat(n.b, parts, 0)


def _region(
    n: Call, region: list[float], at: int, bins: tuple[int, int], scale: float, ratio: int, half: bool, kind: str
) -> int:
    """[1, C, bins]: one region, as two resamplings of the image, rows then columns."""
    image = forms.slice_any(n.b, n.x(0), (at,), (at + 1,))
    offset = 0.5 if half else 0.0
    x1, y1, x2, y2 = (v * scale - offset for v in region)
    images = [image]
    for axis, count, first, last in ((2, bins[0], y1, y2), (3, bins[1], x1, x2)):
        extent = last - first if half else max(last - first, 1.0)
        samples = ratio if ratio > 0 else max(math.ceil(extent / count), 1)
        size = int(n.b.types[image].shape[axis])
        low, high = _samples(count, samples, first, extent / count, size)
        # The greatest is of the four weighted corners of every sample, not of their sums.
        ways = (low + high,) if kind == "avg" else (low, high)
        images = [forms.resample(n.b, v, axis, w) for v in images for w in ways]
    made = images[0]
    for other in images[1:]:
        made = n.b.one("max", made, other)
    shape = n.b.types[made].shape
    apart = forms.reshape(n.b, made, (1, shape[1], bins[0], shape[2] // bins[0], bins[1], shape[3] // bins[1]))
    return forms.reduce(n.b, apart, "mean" if kind == "avg" else "max", (3, 5))


def _samples(count: int, samples: int, first: float, step: float, size: int) -> tuple[NDArray, NDArray]:
    """Weights [samples, elements] of the elements below and above each sample of an axis."""
    low_weights, high_weights = (np.zeros((count * samples, size)) for _ in range(2))
    for i in range(count * samples):
        place = first + (i // samples) * step + (i % samples + 0.5) * step / samples
        if not -1.0 <= place <= size:
            continue
        place = max(place, 0.0)
        low = min(int(place), size - 1)
        upper = min(low + 1, size - 1)
        part = place - low if low < size - 1 else 0.0
        low_weights[i, low] = 1 - part
        high_weights[i, upper] = part
    return low_weights, high_weights
