"""Convolutions of x[N, C, …] by w[O, C / group, …], and transposed ones."""

from __future__ import annotations

from ....graph import forms
from ..call import Call
from ..table import handles
from .quantised import need_bytes
from .windows import geometry


def _with_bias(n: Call, out: int, i: int) -> int:
    if not n.has(i):
        return out
    shape = n.b.types[out].shape
    return n.b.one("add", out, n.b.one("broadcast", n.x(i), shape=shape, dims=(1,)))


@handles("Conv")
def conv(n: Call) -> int:
    """Cross-correlation with zero padding."""
    taps = n.shape(1)[2:]
    if "kernel_shape" in n.attrs and tuple(n.need("kernel_shape")) != tuple(taps):
        n.refuse(f"its kernel_shape is {list(n.need('kernel_shape'))}, its weights are {n.type(1)}")
    g = geometry(n, tuple(int(d) for d in taps))
    out = n.b.one(
        "conv", n.x(0), n.x(1), strides=g.strides, low=g.low, high=g.high, dilations=g.dilations,
        groups=int(n.attr("group", 1)),
    )  # fmt: skip
    return _with_bias(n, out, 2)


@handles("ConvTranspose")
def conv_transpose(n: Call) -> int:
    """The gradient of a convolution to its operand."""
    taps = [int(d) for d in n.shape(1)[2:]]
    rank = len(taps)
    spatial = [int(d) for d in n.shape()[2:]]
    strides, dilations = (tuple(n.attr(name, (1,) * rank)) for name in ("strides", "dilations"))
    more = list(n.attr("output_padding", (0,) * rank))
    pads = list(n.attr("pads", (0,) * (2 * rank)))
    if any(len(v) != rank for v in (strides, dilations, more)) or len(pads) != 2 * rank or len(spatial) != rank:
        n.refuse(f"its attributes do not have an entry for each of {rank} spatial axes")
    low, high = pads[:rank], pads[rank:]
    way, wanted = n.attr("auto_pad", "NOTSET"), n.attr("output_shape")
    if way == "VALID":
        low, high = [0] * rank, [0] * rank
    if wanted is None and way.startswith("SAME"):
        wanted = [d * s for d, s in zip(spatial, strides, strict=True)]
    if wanted is not None and len(wanted) < rank:
        n.refuse(f"its output_shape {list(wanted)} does not have {rank} entries")
    for i, size in enumerate(() if wanted is None else wanted[-rank:]):
        total = int(strides[i] * (spatial[i] - 1) + more[i] + (taps[i] - 1) * dilations[i] + 1 - size)
        # More than there is: zeros behind.
        more[i], total = more[i] + max(-total, 0), max(total, 0)
        half = total // 2
        low[i], high[i] = (half, total - half) if way == "SAME_UPPER" else (total - half, half)
    groups = int(n.attr("group", 1))
    out = forms.conv_transpose(n.b, n.x(0), n.x(1), strides, low, high, dilations, more, groups)
    return _with_bias(n, out, 2)


@handles("ConvInteger")
def conv_integer(n: Call) -> int:
    """A convolution of 8-bit integers less their zero points, in i32."""
    need_bytes(n, 0, 1)
    g = geometry(n, tuple(int(d) for d in n.shape(1)[2:]))
    return forms.conv_integer(
        n.b, n.x(0), n.x(1), n.maybe(2), n.maybe(3), g.strides, g.low, g.high, g.dilations, int(n.attr("group", 1))
    )
