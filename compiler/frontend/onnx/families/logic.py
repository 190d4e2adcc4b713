"""Comparisons, booleans, choices, tests on floats and conversions."""

from __future__ import annotations

from ....graph import DType, forms
from ....graph.dtypes import BOOL, I32
from ..call import Call, Value
from ..table import handles
from ..tensors import DTYPE_NAMES
from .arithmetic import operands

_NIBBLE = 4

_TWO = {
    "And": "and", "Or": "or", "Xor": "xor", "Equal": "eq", "Less": "lt", "Greater": "gt", "LessOrEqual": "le",
    "GreaterOrEqual": "ge",
}  # fmt: skip


@handles(*_TWO)
def compare(n: Call) -> int:
    """A row of two operands with a bool result."""
    return n.b.one(_TWO[n.op], *operands(n))


@handles("Where")
def where(n: Call) -> int:
    """x where the condition holds, else y."""
    return n.b.one("select", *n.spread(0, 1, 2))


@handles("IsNaN")
def is_nan(n: Call) -> int:
    """Whether each element is NaN."""
    return forms.is_nan(n.b, n.x())


@handles("IsInf")
def is_inf(n: Call) -> int:
    """Whether each element is an infinity of the signs asked for."""
    return forms.is_inf(n.b, n.x(), bool(n.attr("detect_positive", 1)), bool(n.attr("detect_negative", 1)))


@handles("Cast")
def cast(n: Call) -> int | Value:
    """The operand at another dtype; conversions to floats of 8 bits saturate unless told not to."""
    to = n.attr("to")
    if isinstance(to, str):  # the name of the data type, before opset 6
        to = next((number for number, name in DTYPE_NAMES.items() if name == to), 0)
    return _cast(n, n.to_dtype(n.need("to") if to is None else to))


@handles("CastLike")
def cast_like(n: Call) -> int | Value:
    """The first operand at the dtype of the second."""
    return _cast(n, n.dtype(1))


def _cast(n: Call, to: DType) -> int | Value:
    if to == n.dtype():
        return n.value(0)
    x = n.x()
    if to.bits == _NIBBLE and n.dtype().is_float:  # what is out of range wraps, as by way of a wider integer
        x = n.b.one("convert", x, dtype=I32)
    return forms.convert(n.b, x, to, saturate=to.is_float and to.bits == 8 and bool(n.attr("saturate", 1)))


@handles("BitCast")
def bit_cast(n: Call) -> int:
    """The bits as another dtype of the same width."""
    to = n.to_dtype(n.need("to"))
    if n.dtype() == BOOL and to != BOOL and to.bits == BOOL.bits and to.is_int:
        return n.b.one("convert", n.x(), dtype=to)
    if BOOL in (to, n.dtype()) and to != n.dtype():
        n.refuse(f"the bits of {n.dtype()} are none of {to}")
    return n.b.one("bitcast_convert", n.x(), dtype=to)
