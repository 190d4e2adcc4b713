"""Quantised models: QDQ nodes, operators on quantised operands, dynamic quantisation. Products accumulate in i32."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph import DType, forms
from ....graph.dtypes import F32, U8
from ..call import Call
from ..table import handles
from .windows import geometry


def _axis(n: Call) -> int:
    """The axis of scales; it means nothing where there is one scale for all."""
    return n.axis(1) if n.type(1).size > 1 else 0


@handles("QuantizeLinear")
def quantize_linear(n: Call) -> int:
    """round(x / scale) + zero, held to the range; per tensor, along an axis, or in blocks of it."""
    stated = n.attr("output_dtype", 0)
    to = n.dtype(2) if n.has(2) else n.to_dtype(stated) if stated else U8
    return forms.quantize_linear(n.b, n.x(0), n.x(1), n.maybe(2), _axis(n), to)


@handles("DequantizeLinear")
def dequantize_linear(n: Call) -> int:
    """(q - zero) * scale."""
    stated = n.attr("output_dtype", 0)
    to = n.to_dtype(stated) if stated else n.dtype(1)
    return forms.dequantize_linear(n.b, n.x(0), n.x(1), n.maybe(2), _axis(n), to)


@handles("DynamicQuantizeLinear")
def dynamic_quantize_linear(n: Call) -> Sequence[int]:
    """u8 values, and the scale and zero point that the operand's range asks for."""
    return forms.dynamic_quantize_linear(n.b, n.x())


def need_bytes(n: Call, *operands: int) -> None:
    """Refuses operands that are no integers of 8 bits."""
    for i in operands:
        if not n.dtype(i).is_int or n.dtype(i).bits != U8.bits:
            n.refuse(f"its input {i} is of integers of 8 bits, not {n.type(i)}")


@handles("MatMulInteger")
def matmul_integer(n: Call) -> int:
    """A product of 8-bit integers less their zero points, in i32."""
    need_bytes(n, 0, 1)
    return forms.matmul_integer(n.b, n.x(0), n.x(1), n.maybe(2), n.maybe(3))


def _requantized(n: Call, total: int, axis: int, to: DType) -> int:
    """An i32 total, worth the product of the operands' two scales a unit, at the result's scale.

    Scales and zero points are inputs 1 and 4, 6 and 7. A weight's scale of many entries is along `axis`.
    """
    shape = n.b.types[total].shape
    wide = forms.convert(n.b, total, F32)
    for i, along in ((1, len(shape) - 2), (4, axis)):
        scale = forms.convert(n.b, n.x(i), F32)
        wide = n.b.one("mul", wide, _placed(n, scale, along, shape))
    return forms.quantize_linear(n.b, wide, forms.convert(n.b, n.x(6), F32), n.x(7), axis, to)


def _placed(n: Call, scale: int, axis: int, shape: Sequence[int]) -> int:
    own = n.b.types[scale].shape
    if len(own) == 1 and own[0] != 1:
        return n.b.one("broadcast", scale, shape=tuple(shape), dims=(axis,))
    return forms.broadcast_to(n.b, scale if len(own) > 1 else forms.reshape(n.b, scale, ()), shape)


@handles("QLinearMatMul")
def q_linear_matmul(n: Call) -> int:
    """A product of quantised operands, quantised again. Operands: a, scale, zero, b, scale, zero, scale, zero."""
    need_bytes(n, 0, 3)
    total = forms.matmul_integer(n.b, n.x(0), n.x(3), n.x(2), n.x(5))
    rank = n.b.types[total].rank
    return _requantized(n, total, max(rank - 1, 0), n.dtype(7))


@handles("QLinearConv")
def q_linear_conv(n: Call) -> int:
    """A convolution of quantised operands, quantised again; the bias is of i32 at the product's scale."""
    need_bytes(n, 0, 3)
    g = geometry(n, tuple(int(d) for d in n.shape(3)[2:]))
    total = forms.conv_integer(
        n.b, n.x(0), n.x(3), n.x(2), n.x(5), g.strides, g.low, g.high, g.dilations, int(n.attr("group", 1))
    )
    if n.has(8):
        shape = n.b.types[total].shape
        total = n.b.one("add", total, n.b.one("broadcast", n.x(8), shape=shape, dims=(1,)))
    return _requantized(n, total, 1, n.dtype(7))
