"""Affine quantisation as composites: integers stand for (q - zero) * scale, per tensor or along one axis."""

from __future__ import annotations

from collections.abc import Sequence

from ..build import Builder
from ..dtypes import DTYPES, F32, I32, DType, int_range
from .basic import broadcast_to, clamp, composite, convert, reshape
from .reductions import reduce


def _spread(b: Builder, v: int, axis: int, shape: Sequence[int]) -> int:
    """A scale or zero point over `shape`: a scalar, a vector along `axis`, or of the shape's rank in equal blocks."""
    own = b.types[v].shape
    if (len(own) == 1 and own != (1,)) or (len(own) == 1 and len(shape) == 1):
        return broadcast_to(b, reshape(b, v, [own[0] if i == axis else 1 for i in range(len(shape))]), shape)
    if len(own) == len(shape) and own != tuple(shape):
        # Blocks along an axis: each entry counts for as many elements as its share.
        wide = reshape(b, v, [x for d in own for x in (d, 1)])
        times = [-(-n // d) if d else 1 for n, d in zip(shape, own, strict=True)]
        spread = broadcast_to(b, wide, [x for d, t in zip(own, times, strict=True) for x in (d, t)])
        whole = reshape(b, spread, [d * t for d, t in zip(own, times, strict=True)])
        if b.types[whole].shape == tuple(shape):
            return whole
        return b.one("slice", whole, starts=(0,) * len(shape), stops=tuple(shape), steps=(1,) * len(shape))
    return broadcast_to(b, v if len(own) == len(shape) else reshape(b, v, ()), shape)


def quantize_linear(b: Builder, x: int, scale: int, zero: int | None, axis: int, dtype: DType) -> int:
    """round(x / scale) + zero at `dtype`, ties to even, held to its range; to floats of 8 bits x / scale saturates."""
    rank = b.types[x].rank
    axis = axis % rank if rank else 0

    def define(inner: Builder, v: int, s: int, *z: int) -> int:
        shape = inner.types[v].shape
        wide = F32 if inner.types[v].dtype.bits <= 32 else inner.types[v].dtype
        each = _spread(inner, convert(inner, s, wide), axis, shape)
        q = inner.one("div", convert(inner, v, wide), each)
        if dtype.is_float:
            if z:
                q = inner.one("add", q, _spread(inner, convert(inner, z[0], wide), axis, shape))
            return convert(inner, q, dtype, saturate=True)
        q = inner.one("round", q)
        if z:
            q = inner.one("add", q, _spread(inner, convert(inner, z[0], wide), axis, shape))
        low, high = int_range(dtype)
        return convert(inner, clamp(inner, inner.full(low, wide), q, inner.full(high, wide)), dtype)

    args = (x, scale) if zero is None else (x, scale, zero)
    return composite(b, "quantize_linear", args, {"axis": axis, "dtype": dtype}, define)[0]


def dequantize_linear(b: Builder, q: int, scale: int, zero: int | None, axis: int, dtype: DType | None = None) -> int:
    """(q - zero) * scale at `dtype`, the scale's by default."""
    to = dtype or b.types[scale].dtype
    rank = b.types[q].rank
    axis = axis % rank if rank else 0

    def define(inner: Builder, v: int, s: int, *z: int) -> int:
        shape = inner.types[v].shape
        if z and inner.types[v].dtype.is_int:
            whole = inner.one("sub", convert(inner, v, I32), _spread(inner, convert(inner, z[0], I32), axis, shape))
            w = convert(inner, whole, F32)
        else:
            w = convert(inner, v, F32)
            w = inner.one("sub", w, _spread(inner, convert(inner, z[0], F32), axis, shape)) if z else w
        return convert(inner, inner.one("mul", w, _spread(inner, convert(inner, s, F32), axis, shape)), to)

    args = (q, scale) if zero is None else (q, scale, zero)
    return composite(b, "dequantize_linear", args, {"axis": axis, "dtype": to}, define)[0]


def dynamic_quantize_linear(b: Builder, x: int) -> tuple[int, int, int]:
    """ONNX's DynamicQuantizeLinear of f32: (u8 values, f32 scale, u8 zero point) for the range of x, 0 included."""
    u8 = DTYPES["u8"]

    def define(inner: Builder, v: int) -> tuple[int, int, int]:
        low = inner.one("min", reduce(inner, v, "min"), inner.full(0.0, F32))
        high = inner.one("max", reduce(inner, v, "max"), inner.full(0.0, F32))
        scale = inner.one("div", inner.one("sub", high, low), inner.full(255.0, F32))
        top = inner.full(255.0, F32)
        off = inner.one("div", inner.one("neg", low), scale)
        zero = inner.one("round", clamp(inner, inner.full(0.0, F32), off, top))
        zero_u8 = convert(inner, zero, u8)
        shape = inner.types[v].shape
        q = inner.one("round", inner.one("div", v, broadcast_to(inner, scale, shape)))
        q = inner.one("add", q, broadcast_to(inner, zero, shape))
        return convert(inner, clamp(inner, inner.full(0.0, F32), q, top), u8), scale, zero_u8

    y, scale, zero = composite(b, "dynamic_quantize_linear", (x,), {}, define)
    return y, scale, zero
