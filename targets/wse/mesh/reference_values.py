"""Numbers as registers hold them: floats as the bits of their format, integers extended to 64 bits, DSDs packed.

f16 is computed in f32 and rounded once: exact for +, -, *, / and square roots, as f32 has more than twice the bits
and two. What both engines compute of scalars and of elements of vectors is here. Must not know PEs.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

import math

import numpy as np

from .ir import Kind, MathOp, Op, VectorOp
from .jit import lean_kernel

BOOL, I8, U8, I16, U16, I32, U32 = (
    int(k) for k in (Kind.BOOL, Kind.I8, Kind.U8, Kind.I16, Kind.U16, Kind.I32, Kind.U32)
)
I64, U64, F16, F32, DSD = (int(k) for k in (Kind.I64, Kind.U64, Kind.F16, Kind.F32, Kind.DSD))
ADD, SUB, MUL, DIV, REM, AND, OR, XOR = (
    int(o) for o in (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.REM, Op.AND, Op.OR, Op.XOR)
)
SHL, SHR, NEG, NOT, EQ, NE, LT, LE = (int(o) for o in (Op.SHL, Op.SHR, Op.NEG, Op.NOT, Op.EQ, Op.NE, Op.LT, Op.LE))
DSD_MOVE, DSD_BASE, DSD_LENGTH, DSD_STRIDE = (int(o) for o in (Op.DSD_MOVE, Op.DSD_BASE, Op.DSD_LENGTH, Op.DSD_STRIDE))
V_MOV, V_NEG, V_ABS, V_ADD, V_SUB, V_MUL, V_MAX, V_MAC = (
    int(o) for o in (
        VectorOp.MOV, VectorOp.NEG, VectorOp.ABS, VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAX, VectorOp.MAC
    )
)  # fmt: skip
V_SCALE, V_NORM, V_CONVERT, V_ADDC, V_AND, V_OR, V_XOR, V_SAR = (
    int(o) for o in (
        VectorOp.SCALE, VectorOp.NORM, VectorOp.CONVERT, VectorOp.ADDC, VectorOp.AND, VectorOp.OR, VectorOp.XOR,
        VectorOp.SAR,
    )
)  # fmt: skip
V_SLL, V_SLR, V_CLZ, V_CTZ, V_POPCNT = (
    int(o) for o in (VectorOp.SLL, VectorOp.SLR, VectorOp.CLZ, VectorOp.CTZ, VectorOp.POPCNT)
)
CEIL, FLOOR, TANH, COS, EXP, LOG, SIN, SQRT, INV, INVSQRT, POW, FSCALE = (int(o) for o in MathOp)


@lean_kernel
def size_of(kind: int) -> int:
    """Bytes of a Kind in memory."""
    if kind <= U8:
        return 1
    if kind <= U16 or kind == F16:
        return 2
    if kind == I64 or kind == U64 or kind == DSD:
        return 8
    return 4


@lean_kernel
def wrap(value: int, kind: int) -> int:
    """The low bits of `value`, extended as `kind` is."""
    if kind == I32:
        return np.int64(np.int32(value))
    if kind == U32 or kind == F32:
        return value & 0xFFFFFFFF
    if kind == I16:
        return np.int64(np.int16(value))
    if kind == U16 or kind == F16:
        return value & 0xFFFF
    if kind == I8:
        return np.int64(np.int8(value))
    if kind == U8:
        return value & 0xFF
    if kind == BOOL:
        return np.int64(value & 1)
    return value


@lean_kernel
def f32_of(bits: int) -> float:
    return np.int32(bits).view(np.float32)


@lean_kernel
def bits_of(value: float) -> int:
    return np.int64(np.float32(value).view(np.int32)) & 0xFFFFFFFF


@lean_kernel
def half_value(bits: int) -> float:
    """The number of an f16, as an f32."""
    sign = (bits & 0x8000) << 16
    exponent = (bits >> 10) & 31
    fraction = bits & 0x3FF
    if exponent == 31:
        return f32_of(sign | 0x7F800000 | fraction << 13)
    if exponent:
        return f32_of(sign | (exponent + 112) << 23 | fraction << 13)
    small = np.float32(fraction) * np.float32(5.9604644775390625e-08)  # 2^-24
    return -small if sign else small


@lean_kernel
def half_bits(value: float) -> int:
    """An f32 rounded to f16, ties to even."""
    bits = bits_of(value)
    sign = (bits >> 16) & 0x8000
    rest = bits & 0x7FFFFFFF
    if rest > 0x7F800000:
        return sign | 0x7E00
    if rest >= 0x477FF000:
        return sign | 0x7C00
    if rest >= 0x38800000:
        rest += 0xFFF + ((rest >> 13) & 1)
        return sign | (rest - 0x38000000) >> 13
    # Below the smallest normal: adding 0.5 lets the f32 adder round to a multiple of 2^-24.
    return sign | (bits_of(f32_of(rest) + np.float32(0.5)) - 0x3F000000)


@lean_kernel
def float_of(bits: int, kind: int) -> float:
    return half_value(bits) if kind == F16 else f32_of(bits)


@lean_kernel
def float_bits(value: float, kind: int) -> int:
    return half_bits(value) if kind == F16 else bits_of(value)


@lean_kernel
def convert(bits: int, source: int, kind: int) -> int:
    """A value of the Kind `source` as `kind`. Floats to integers cut towards zero; NaN gives 0, and what lies outside
    the integer's range gives its nearest value."""
    if source == F16 or source == F32:
        value = float_of(bits, source)
        if kind == F16 or kind == F32:
            return float_bits(value, kind)
        if kind == BOOL:
            return np.int64(value != 0)
        if value != value:
            return np.int64(0)
        wide = np.float64(value)
        low, high = integer_range(kind)
        if wide <= np.float64(low):
            return low
        if kind == U64:
            # Registers keep u64 as the signed number of the same bits.
            return np.int64(np.uint64(min(wide, 18446744073709549568.0)))
        if wide >= np.float64(high):
            return high
        return np.int64(wide)
    if kind == F32:
        if source == U64 and bits < 0:
            return bits_of(np.float32(np.uint64(bits)))
        return bits_of(np.float32(bits))
    if kind == F16:
        # Any integer beyond 2^24 is infinite as f16, so that f32 loses nothing before.
        return half_bits(np.float32(bits))
    if kind == BOOL:
        return np.int64(bits != 0)
    return wrap(bits, kind)


@lean_kernel
def integer_range(kind: int) -> tuple[int, int]:
    if kind == I8:
        return np.int64(-128), np.int64(127)
    if kind == U8:
        return np.int64(0), np.int64(255)
    if kind == I16:
        return np.int64(-32768), np.int64(32767)
    if kind == U16:
        return np.int64(0), np.int64(65535)
    if kind == I32:
        return np.int64(-2147483648), np.int64(2147483647)
    if kind == U32:
        return np.int64(0), np.int64(4294967295)
    if kind == U64:
        return np.int64(0), np.int64(9223372036854775807)
    return np.int64(-9223372036854775808), np.int64(9223372036854775807)


@lean_kernel
def unsigned(kind: int) -> bool:
    return kind == U8 or kind == U16 or kind == U32 or kind == U64 or kind == BOOL


@lean_kernel
def width_of(kind: int) -> int:
    """Bits of an integer of `kind`."""
    return 8 * size_of(kind)


@lean_kernel
def arithmetic(op: int, kind: int, a: int, b: int) -> int:
    """A scalar instruction on two values of `kind`; the divisor is not zero, shifts are not too wide."""
    if kind == F32 or kind == F16:
        return _float_arithmetic(op, kind, float_of(a, kind), float_of(b, kind), a)
    if op == ADD:
        return wrap(a + b, kind)
    if op == SUB:
        return wrap(a - b, kind)
    if op == MUL:
        return wrap(a * b, kind)
    if op == AND:
        return a & b
    if op == OR:
        return a | b
    if op == XOR:
        return a ^ b
    if op == SHL:
        return wrap(a << b, kind)
    if op == SHR:
        return np.int64(np.uint64(a) >> np.uint64(b)) if kind == U64 else a >> b
    if op == NEG:
        return wrap(-a, kind)
    if op == NOT:
        return a ^ 1 if kind == BOOL else wrap(~a, kind)
    if op == EQ:
        return np.int64(a == b)
    if op == NE:
        return np.int64(a != b)
    if op == LT:
        return np.int64(np.uint64(a) < np.uint64(b)) if kind == U64 else np.int64(a < b)
    if op == LE:
        return np.int64(np.uint64(a) <= np.uint64(b)) if kind == U64 else np.int64(a <= b)
    return _divide(op, kind, a, b)


@lean_kernel
def _divide(op: int, kind: int, a: int, b: int) -> int:
    """Quotient towards zero, or the remainder that belongs to it."""
    if kind == U64:
        x, y = np.uint64(a), np.uint64(b)
        return np.int64(x // y) if op == DIV else np.int64(x % y)
    if b == -1:
        return wrap(-a, kind) if op == DIV else np.int64(0)
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return wrap(quotient, kind) if op == DIV else wrap(a - quotient * b, kind)


@lean_kernel
def _float_arithmetic(op: int, kind: int, x: float, y: float, a: int) -> int:
    if op == ADD:
        return float_bits(x + y, kind)
    if op == SUB:
        return float_bits(x - y, kind)
    if op == MUL:
        return float_bits(x * y, kind)
    if op == DIV:
        return float_bits(x / y, kind)
    if op == NEG:
        return a ^ 0x8000 if kind == F16 else a ^ 0x80000000
    if op == EQ:
        return np.int64(x == y)
    if op == NE:
        return np.int64(x != y)
    if op == LT:
        return np.int64(x < y)
    if op == LE:
        return np.int64(x <= y)
    return float_bits(np.float32(np.fmod(np.float64(x), np.float64(y))), kind)


@lean_kernel
def function(op: int, kind: int, a: int, b: int) -> int:
    """A MathOp of values of `kind` (of FSCALE, `b` is an integer): computed in f64 and rounded to f32, then f16."""
    x = np.float64(float_of(a, kind))
    if op == CEIL:
        y = np.ceil(x)
    elif op == FLOOR:
        y = np.floor(x)
    elif op == TANH:
        y = np.tanh(x)
    elif op == COS:
        y = np.cos(x)
    elif op == EXP:
        y = np.exp(x)
    elif op == LOG:
        y = np.log(x)
    elif op == SIN:
        y = np.sin(x)
    elif op == SQRT:
        y = np.sqrt(x)
    elif op == INV:
        y = 1.0 / x
    elif op == INVSQRT:
        y = 1.0 / np.sqrt(x)
    elif op == POW:
        y = np.power(x, np.float64(float_of(b, kind)))
    else:
        y = scaled(x, b)
    return float_bits(np.float32(y), kind)


@lean_kernel
def scaled(x: float, exponent: int) -> float:
    """x * 2^exponent."""
    return math.ldexp(x, min(max(exponent, -2000), 2000))


@lean_kernel
def element(op: int, kind: int, source: int, a: int, b: int, c: int) -> int:
    """One element of a VectorOp in `kind`. `source` is the Kind of the narrow sources: the second of ADD, both factors
    of MAC, the operand of CONVERT. MAC rounds the product and then the sum, each to `kind`."""
    if op == V_MOV:
        return wrap(a, kind)
    if op == V_CONVERT:
        return _converted(kind, source, a)
    if kind == F32:
        return _element_f32(op, source, a, b, c)
    if kind == F16:
        return _element_f16(op, source, a, b, c)
    return _element_integer(op, kind, a, b)


@lean_kernel
def _converted(kind: int, source: int, a: int) -> int:
    """Floats to i16 round to the nearest, as fixed-point numbers with no fraction bits."""
    if (source == F16 or source == F32) and kind != F16 and kind != F32:
        value = np.float64(float_of(a, source))
        return convert(bits_of(np.float32(np.rint(value))), F32, kind)
    return convert(a, source, kind)


@lean_kernel
def _narrow(bits: int, source: int) -> float:
    return half_value(bits) if source == F16 else f32_of(bits)


@lean_kernel
def _element_f32(op: int, source: int, a: int, b: int, c: int) -> int:
    if op == V_MAC:
        return bits_of(f32_of(a) + np.float32(_narrow(b, source) * _narrow(c, source)))
    if op == V_ADD:
        return bits_of(f32_of(a) + _narrow(b, source))
    if op == V_SUB:
        return bits_of(f32_of(a) - f32_of(b))
    if op == V_MUL:
        return bits_of(f32_of(a) * f32_of(b))
    if op == V_MAX:
        return bits_of(_maximum(f32_of(a), f32_of(b)))
    if op == V_NEG:
        return (a ^ 0x80000000) & 0xFFFFFFFF
    if op == V_ABS:
        return a & 0x7FFFFFFF
    if op == V_SCALE:
        return bits_of(np.float32(scaled(np.float64(f32_of(a)), b)))
    return bits_of(np.float32(_normalised(np.float64(f32_of(a)))))


@lean_kernel
def _element_f16(op: int, source: int, a: int, b: int, c: int) -> int:
    if op == V_MAC:
        product = half_value(half_bits(half_value(b) * half_value(c)))
        return half_bits(half_value(a) + product)
    if op == V_ADD:
        return half_bits(half_value(a) + half_value(b))
    if op == V_SUB:
        return half_bits(half_value(a) - half_value(b))
    if op == V_MUL:
        return half_bits(half_value(a) * half_value(b))
    if op == V_MAX:
        return half_bits(_maximum(half_value(a), half_value(b)))
    if op == V_NEG:
        return (a ^ 0x8000) & 0xFFFF
    if op == V_ABS:
        return a & 0x7FFF
    if op == V_SCALE:
        return half_bits(np.float32(scaled(np.float64(half_value(a)), b)))
    return half_bits(np.float32(_normalised(np.float64(half_value(a)))))


@lean_kernel
def _maximum(x: float, y: float) -> float:
    """The larger one; of a NaN and a number, the number."""
    if x != x:
        return y
    if y != y:
        return x
    return x if x >= y else y


@lean_kernel
def _normalised(x: float) -> float:
    """The significand of x, in [1, 2) with the sign of x."""
    if x == 0.0 or not np.isfinite(x):
        return x
    return math.frexp(x)[0] * 2.0


@lean_kernel
def _element_integer(op: int, kind: int, a: int, b: int) -> int:
    bits = width_of(kind)
    if op == V_ADD or op == V_ADDC:
        return wrap(a + b, kind)
    if op == V_SUB:
        return wrap(a - b, kind)
    if op == V_MUL:
        return wrap(a * b, kind)
    if op == V_MAX:
        return max(a, b)
    if op == V_NEG:
        return wrap(-a, kind)
    if op == V_ABS:
        return wrap(abs(a), kind)
    if op == V_AND:
        return wrap(a & b, kind)
    if op == V_OR:
        return wrap(a | b, kind)
    if op == V_XOR:
        return wrap(a ^ b, kind)
    plain = a & ((1 << bits) - 1) if bits < 64 else a
    if op == V_SAR:
        return wrap((plain ^ (1 << (bits - 1))) - (1 << (bits - 1)) >> min(b & 0xFFFF, bits - 1), kind)
    if op == V_SLL:
        return wrap(plain << b, kind) if 0 <= b < bits else np.int64(0)
    if op == V_SLR:
        return wrap(plain >> b, kind) if 0 <= b < bits else np.int64(0)
    return _counted(op, plain, bits)


@lean_kernel
def _counted(op: int, plain: int, bits: int) -> int:
    """Leading or trailing zeros, or ones, of `bits` bits."""
    count = np.int64(0)
    if op == V_POPCNT:
        for k in range(bits):
            count += (plain >> k) & 1
        return count
    for k in range(bits):
        place = bits - 1 - k if op == V_CLZ else k
        if (plain >> place) & 1:
            return count
        count += 1
    return count


@lean_kernel
def changed_dsd(op: int, dsd: int, value: int, size: int, kind: int) -> int:
    """A packed DSD with one field changed; a new base brings the Kind of its elements."""
    if op == DSD_MOVE:
        return (dsd & ~np.int64(0xFFFF)) | ((dsd + value * size) & 0xFFFF)
    if op == DSD_BASE:
        return (dsd & ~(np.int64(15) << 52) & ~np.int64(0xFFFF)) | np.int64(kind) << 52 | (value & 0xFFFF)
    if op == DSD_STRIDE:
        return (dsd & ~(np.int64(0xFFFF) << 32)) | (value & 0xFFFF) << 32
    what = (dsd >> 48) & 15
    if what == 3 or what == 4:
        return (dsd & ~np.int64(0xFFFF)) | (value & 0xFFFF)
    return (dsd & ~(np.int64(0xFFFF) << 16)) | (value & 0xFFFF) << 16


@lean_kernel
def stride_width(width: int, stride_bytes: int, size: int) -> int:
    """Elements a cycle that banks of 16-bit words give to a stride."""
    words = stride_bytes >> 1
    rest = words & 7
    if rest == 4:
        return max(1, width >> 1)
    if rest == 0 and stride_bytes != 0:
        return 1
    if (rest == 1 or rest == 7) and abs(stride_bytes) != size:
        return min(width, 2)
    return width
