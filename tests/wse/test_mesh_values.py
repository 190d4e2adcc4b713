"""Numbers in registers: f16, conversions, integer division and the elements of vector operations against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tdslc.targets.wse.mesh.ir import Kind, MathOp, Op, VectorOp
from tdslc.targets.wse.mesh.reference_values import (
    arithmetic,
    bits_of,
    convert,
    element,
    f32_of,
    function,
    half_bits,
    half_value,
    wrap,
)  # fmt: skip

INTEGERS = {
    Kind.I8: np.int8, Kind.U8: np.uint8, Kind.I16: np.int16, Kind.U16: np.uint16, Kind.I32: np.int32,
    Kind.U32: np.uint32, Kind.I64: np.int64, Kind.U64: np.uint64,
}  # fmt: skip


def test_every_f16_keeps_its_bits() -> None:
    for bits in range(0, 1 << 16, 7):
        value = np.array(bits, np.uint16).view(np.float16)
        if not np.isnan(value):
            assert half_bits(half_value(bits)) == bits
            assert half_value(bits) == np.float32(value)


@given(st.integers(0, (1 << 32) - 1))
def test_f32_rounds_to_f16_as_numpy_does(bits: int) -> None:
    value = np.array(bits, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        wanted = value.astype(np.float16)
    if np.isnan(value):
        assert np.isnan(half_value(half_bits(f32_of(bits))))
    else:
        assert half_bits(f32_of(bits)) == int(wanted.view(np.uint16))


@given(
    st.sampled_from(sorted(INTEGERS)), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
)
def test_integers_wrap_and_divide_towards_zero(kind: Kind, a: int, b: int) -> None:
    x, y = wrap(a, kind), wrap(b, kind)
    type = INTEGERS[kind]
    p, q = int(np.array(x, np.int64).astype(type)), int(np.array(y, np.int64).astype(type))
    modulus = 1 << (8 * type().itemsize)
    for op, result in ((Op.ADD, p + q), (Op.SUB, p - q), (Op.MUL, p * q)):
        got = arithmetic(int(op), int(kind), x, y)
        assert (int(got) - result) % modulus == 0
        assert int(got) == wrap(int(got), kind)
    if q:
        quotient = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
        assert (int(arithmetic(int(Op.DIV), int(kind), x, y)) - quotient) % modulus == 0
        assert (int(arithmetic(int(Op.REM), int(kind), x, y)) - (p - quotient * q)) % modulus == 0
    assert bool(arithmetic(int(Op.LT), int(kind), x, y)) == (p < q)


@given(st.floats(width=32, allow_nan=False))
def test_floats_become_the_nearest_integer_of_the_type(value: float) -> None:
    """Cut towards zero, and held within the type's range."""
    for kind in (Kind.I8, Kind.U8, Kind.I16, Kind.U16, Kind.I32, Kind.U32):
        low, high = np.iinfo(INTEGERS[kind]).min, np.iinfo(INTEGERS[kind]).max
        wanted = int(max(low, min(high, np.trunc(value)))) if np.isfinite(value) else (high if value > 0 else low)
        assert int(convert(bits_of(np.float32(value)), int(Kind.F32), int(kind))) == wanted


FLOAT_OPS = {VectorOp.ADD: np.add, VectorOp.SUB: np.subtract, VectorOp.MUL: np.multiply, VectorOp.MAX: np.fmax}


@pytest.mark.parametrize("kind", [Kind.F16, Kind.F32])
@given(a=st.floats(width=16), b=st.floats(width=16), c=st.floats(width=16))
def test_elements_of_float_operations(kind: Kind, a: float, b: float, c: float) -> None:
    type = np.float16 if kind == Kind.F16 else np.float32
    unsigned = np.uint16 if kind == Kind.F16 else np.uint32
    x, y, z = (type(v) for v in (a, b, c))
    bits = [int(np.array(v).view(unsigned)) for v in (x, y, z)]
    with np.errstate(all="ignore"):
        expected = {op: fn(x, y) for op, fn in FLOAT_OPS.items()}
        expected[VectorOp.MAC] = x + type(y * z)
        expected[VectorOp.NEG], expected[VectorOp.ABS] = -x, abs(x)
    for op, wanted in expected.items():
        got = np.array(int(element(int(op), int(kind), int(kind), *bits)), unsigned).view(type)
        assert np.isnan(got) if np.isnan(wanted) else got == wanted, op


def test_mixed_operations_are_exact_in_f32() -> None:
    half = int(np.float16(1.0009765625).view(np.uint16))
    one = bits_of(np.float32(1.0))
    got = f32_of(int(element(int(VectorOp.MAC), int(Kind.F32), int(Kind.F16), one, half, half)))
    assert got == np.float32(1.0) + np.float32(np.float16(1.0009765625)) ** 2


@given(st.integers(0, 0xFFFF), st.integers(0, 20))
def test_elements_of_16_bit_operations(a: int, b: int) -> None:
    kind = int(Kind.U16)
    signed = a - 0x10000 if a & 0x8000 else a
    expected = {
        VectorOp.SLL: a << b & 0xFFFF, VectorOp.SLR: a >> b, VectorOp.SAR: signed >> min(b, 15) & 0xFFFF,
        VectorOp.POPCNT: a.bit_count(), VectorOp.CLZ: 16 - a.bit_length(),
        VectorOp.CTZ: (a & -a).bit_length() - 1 if a else 16,
    }  # fmt: skip
    for op, wanted in expected.items():
        assert int(element(int(op), kind, kind, a, b, 0)) == wanted, op


def test_functions_are_rounded_from_f64() -> None:
    for op, fn in ((MathOp.SQRT, np.sqrt), (MathOp.EXP, np.exp), (MathOp.INV, lambda v: 1 / v)):
        for value in (0.25, 1.0, 3.0, 10.5):
            got = f32_of(int(function(int(op), int(Kind.F32), bits_of(np.float32(value)), 0)))
            assert got == np.float32(fn(np.float64(value)))
