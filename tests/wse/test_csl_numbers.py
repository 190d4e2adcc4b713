"""Known numbers: lanes compute what each of them would alone, and what NumPy's types would."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tdslc.compiler.source import DiagnosticError, SourceFile
from tdslc.targets.wse.csl import types as t
from tdslc.targets.wse.csl.numbers import arithmetic, bitcast, compare, converted
from tdslc.targets.wse.csl.values import Known

SPAN = SourceFile("a.csl", "x").span()
INTS = (t.I8, t.I16, t.U16, t.I32, t.U32)
OPS = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")


def outcome(op: str, a: Any, b: Any, type: t.Type) -> Any:
    """The result as plain numbers, or the code of what is wrong."""
    try:
        data = arithmetic(op, Known(type, a), Known(type, b), type, SPAN).data
    except DiagnosticError as error:
        return error.diagnostics[0].code
    return data.tolist() if isinstance(data, np.ndarray) else data


@given(st.data())
def test_lanes_are_as_each_alone(data: st.DataObject) -> None:
    type, op = data.draw(st.sampled_from(INTS)), data.draw(st.sampled_from(OPS))
    number = st.integers(type.low, type.high) | st.integers(max(-9, type.low), 9)
    pairs = data.draw(st.lists(st.tuples(number, number), min_size=1, max_size=4))
    a, b = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    alone = [outcome(op, x, y, type) for x, y in pairs]
    together = outcome(op, a, b, type)
    if any(isinstance(x, str) for x in alone):
        assert together in alone
    else:
        assert together == alone


@given(st.sampled_from(INTS), st.integers(-(2**31), 2**32 - 1), st.integers(-(2**31), 2**32 - 1))
def test_bits_are_kept_as_in_c(type: t.Int, x: int, y: int) -> None:
    dtype = np.dtype(f"{'i' if type.signed else 'u'}{type.bits // 8}")
    a, b = (int(np.int64(v).astype(dtype)) for v in (x, y))
    shift = abs(y) % type.bits
    with np.errstate(over="ignore"):
        assert outcome("<<", a, shift, type) == int(np.left_shift(dtype.type(a), dtype.type(shift)))
    assert outcome(">>", a, shift, type) == a >> shift
    if b:
        quotient = outcome("/", a, b, type)
        if not isinstance(quotient, str):
            assert quotient == int(a / b) or abs(a) > 2**52
            assert quotient * b + outcome("%", a, b, type) == a


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False), st.sampled_from("+-*/"))
def test_f32_rounds_once(x: float, y: float, op: str) -> None:
    with np.errstate(all="ignore"):
        ufunc = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op]
        expected = float(ufunc(np.float32(x), np.float32(y)))
    got = outcome(op, x, y, t.F32)
    assert got == expected or (np.isnan(got) and np.isnan(expected))


@given(st.integers(0, 2**16 - 1))
def test_bitcast_there_and_back(bits: int) -> None:
    there = bitcast(Known(t.U16, bits), t.F16, SPAN)
    back = bitcast(there, t.U16, SPAN).data
    assert back == bits or np.isnan(there.data)
    assert bitcast(bitcast(Known(t.U16, bits), t.I16, SPAN), t.U16, SPAN).data == bits


@pytest.mark.parametrize(("value", "expected"), [(10.8, 10), (-10.8, -10), (0.0, 0)])
def test_floats_go_to_integers_towards_zero(value: float, expected: int) -> None:
    assert converted(Known(t.F32, value), t.I16, SPAN).data == expected
    lanes = converted(Known(t.F32, np.array([value, value])), t.I16, SPAN).data
    assert lanes.tolist() == [expected, expected]


def test_what_does_not_fit_is_told() -> None:
    for value in (40000.0, float("nan"), float("inf")):
        with pytest.raises(DiagnosticError):
            converted(Known(t.F32, value), t.I16, SPAN)
    with pytest.raises(DiagnosticError):
        converted(Known(t.F32, np.array([1.0, float("nan")])), t.I16, SPAN)


def test_comparisons_by_lane() -> None:
    lanes = Known(t.U16, np.array([1, 2, 3]))
    assert compare("<", lanes, Known(t.U16, 2)).data.tolist() == [True, False, False]
