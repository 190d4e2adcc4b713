"""Normalisations. Statistics are taken in f32 where the operator says so (`stash_type`), in two passes."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph import DType, forms
from ....graph.dtypes import F32
from ....graph.forms import Windows
from ..call import Call
from ..table import handles


def _per_channel(n: Call, x: int, shape: Sequence[int]) -> int:
    """A vector of one element a channel, over [N, C, …]."""
    return n.b.one("broadcast", x, shape=tuple(shape), dims=(1,))


@handles("BatchNormalization")
def batch_normalization(n: Call) -> int:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias with statistics given, a channel each.

    As x * a + b, where a and b come from the parameters alone and are made when weights bind.
    """
    if n.attr("training_mode", 0) or (n.version < 7 and not n.attr("is_test", 0) and n.outputs > 1):
        n.refuse("it is in training mode, which takes statistics of the batch", "export the model for inference")
    d = n.dtype()
    wide = F32 if d.bits < 32 else d
    scale, bias, mean, variance = (forms.convert(n.b, n.x(i), wide) for i in range(1, 5))
    root = n.b.one("rsqrt", n.b.one("add", variance, n.like(n.attr("epsilon", 1e-5), variance)))
    factor = n.b.one("mul", scale, root)
    offset = n.b.one("sub", bias, n.b.one("mul", mean, factor))
    x, shape = forms.convert(n.b, n.x(0), wide), n.shape()
    out = n.b.one("add", n.b.one("mul", x, _per_channel(n, factor, shape)), _per_channel(n, offset, shape))
    return forms.convert(n.b, out, d)


def _stash(n: Call) -> DType:
    """The dtype that statistics are taken in."""
    d = n.dtype()
    return n.to_dtype(n.attr("stash_type", 1)) if d.bits < 32 else d


def _keep(n: Call, x: int, axes: Sequence[int]) -> int:
    return forms.reduce(n.b, x, "mean", axes, keep=True)


def _over(n: Call, small: int, like: int) -> int:
    return forms.broadcast_to(n.b, small, n.b.types[like].shape)


def _standard(n: Call, x: int, axes: Sequence[int], epsilon: float) -> tuple[int, int, int]:
    """(x less its mean over its deviation, mean, 1 / deviation), the last two with axes of 1."""
    mean = _keep(n, x, axes)
    centred = n.b.one("sub", x, _over(n, mean, x))
    variance = _keep(n, n.b.one("mul", centred, centred), axes)
    inverse = n.b.one("rsqrt", n.b.one("add", variance, n.like(epsilon, variance)))
    return n.b.one("mul", centred, _over(n, inverse, x)), mean, inverse


@handles("LayerNormalization")
def layer_normalization(n: Call) -> list[int]:
    """Over the axes from `axis` on (Ba et al. 2016)."""
    axes = range(n.axis(-1), n.type().rank)
    d = n.dtype()
    x = forms.convert(n.b, n.x(0), _stash(n))
    y, mean, inverse = _standard(n, x, axes, n.attr("epsilon", 1e-5))
    y = n.b.one("mul", forms.convert(n.b, y, d), n.spread_to(1, n.shape()))
    y = n.b.one("add", y, n.spread_to(2, n.shape())) if n.has(2) else y
    return [y, mean, inverse]


@handles("RMSNormalization")
def rms_normalization(n: Call) -> int:
    """x / sqrt(mean(x * x) + epsilon) * scale over the axes from `axis` on (Zhang and Sennrich 2019)."""
    axes = range(n.axis(-1), n.type().rank)
    d = n.dtype()
    x = forms.convert(n.b, n.x(0), _stash(n))
    square = _keep(n, n.b.one("mul", x, x), axes)
    inverse = n.b.one("rsqrt", n.b.one("add", square, n.like(n.attr("epsilon", 1e-5), square)))
    y = forms.convert(n.b, n.b.one("mul", x, _over(n, inverse, x)), d)
    return n.b.one("mul", y, n.spread_to(1, n.shape()))


@handles("InstanceNormalization")
def instance_normalization(n: Call) -> int:
    """Over the spatial axes of each channel (Ulyanov et al. 2016)."""
    shape = n.shape()
    y, _, _ = _standard(n, n.x(0), range(2, len(shape)), n.attr("epsilon", 1e-5))
    return n.b.one("add", n.b.one("mul", y, _per_channel(n, n.x(1), shape)), _per_channel(n, n.x(2), shape))


@handles("GroupNormalization")
def group_normalization(n: Call) -> int:
    """Over groups of channels (Wu and He 2018); scale and bias are one a group before opset 21, one a channel since."""
    shape, groups, d = n.shape(), int(n.need("num_groups")), n.dtype()
    channels = shape[1]
    if groups < 1 or channels % groups:
        n.refuse(f"{groups} groups do not share {channels} channels")
    apart = (shape[0], groups, channels // groups, *shape[2:])
    wide = n.to_dtype(n.attr("stash_type", 1)) if d.bits < 32 and n.version >= 21 else d
    x = forms.reshape(n.b, forms.convert(n.b, n.x(0), wide), apart)
    y, _, _ = _standard(n, x, range(2, len(apart)), n.attr("epsilon", 1e-5))
    y = forms.convert(n.b, y, d)
    if n.type(1).size == channels:
        y = forms.reshape(n.b, y, shape)
    own = n.b.types[y].shape
    y = n.b.one("add", n.b.one("mul", y, _per_channel(n, n.x(1), own)), _per_channel(n, n.x(2), own))
    return forms.reshape(n.b, y, shape)


@handles("LpNormalization")
def lp_normalization(n: Call) -> int:
    """x over its p-norm along an axis; 0 where the norm is 0."""
    axis, p, x = n.axis(-1), int(n.attr("p", 2)), n.x()
    norm = _over(n, forms.reduce(n.b, x, "l1" if p == 1 else "l2", (axis,), keep=True), x)
    return n.b.one("select", n.b.one("eq", norm, n.like(0, norm)), n.like(0, x), n.b.one("div", x, norm))


@handles("LRN")
def lrn(n: Call) -> int:
    """x / (bias + alpha / size * the sum of squares over neighbouring channels)^beta (Krizhevsky et al. 2012)."""
    x, size, rank = n.x(), int(n.need("size")), n.type().rank
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    ones = (1,) * rank
    window = tuple(size if i == 1 else 1 for i in range(rank))
    pads = tuple((before, after) if i == 1 else (0, 0) for i in range(rank))
    total = forms.reduce_window(n.b, n.b.one("mul", x, x), "sum", Windows(window, ones, ones, ones, pads))
    scaled = n.b.one("mul", total, n.like(n.attr("alpha", 1e-4) / size, x))
    base = n.b.one("add", scaled, n.like(n.attr("bias", 1.0), x))
    return n.b.one("div", x, n.b.one("pow", base, n.like(n.attr("beta", 0.75), x)))
