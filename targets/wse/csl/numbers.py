"""Arithmetic of known numbers: checked integers, floats rounded to their type, whole lanes at once.

Must not know syntax, nor code that runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ....compiler.source import Span
from . import types as t
from .values import Affine, Known, Lanes, by_lane, fail, uniform

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_WHOLE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip
_FLOATS: dict[t.Type, np.dtype[Any]] = {t.F32: np.dtype(np.float32), t.F16: np.dtype(np.float16)}
# Shifts of comptime_int beyond this are a slip, and would fill memory.
_MAX_SHIFT = 256
# And comptime integers have no more bits than this.
_MAX_BITS = 512


def peer(a: t.Type, b: t.Type) -> t.Type | None:
    """The type in which two runtime numbers of types `a` and `b` meet: the one that holds all values of the other."""
    if t.widens(a, b):
        return b
    return a if t.widens(b, a) else None


def known_peer(a: Known, b: Known) -> t.Type | None:
    """The type in which two known numbers meet: a comptime type gives way, of two integers the wider one stays."""
    if a.type == b.type:
        return a.type
    if {a.type, b.type} == {t.COMPTIME_INT, t.COMPTIME_FLOAT}:
        return t.COMPTIME_FLOAT
    for one, other in ((a, b), (b, a)):
        if one.type == t.COMPTIME_INT and t.is_number(other.type):
            return other.type
        if one.type == t.COMPTIME_FLOAT and t.is_float(other.type):
            return other.type
    if isinstance(a.type, t.Int) and isinstance(b.type, t.Int):
        # Both are known, so what counts is that the values fit.
        wide, narrow = (a, b) if a.type.bits >= b.type.bits else (b, a)
        return wide.type if fits(narrow.data, cast(t.Int, wide.type)) else narrow.type
    return peer(a.type, b.type)


def bounds(data: Any) -> tuple[int, int]:
    """The least and the greatest of a known integer's lanes."""
    return (int(data.min()), int(data.max())) if by_lane(data) else (data, data)


def fits(data: Any, type: t.Int) -> bool:
    """Whether the integer (or all lanes of it) is a value of `type`."""
    if isinstance(data, Affine):
        return True
    low, high = bounds(data)
    return type.low <= low and high <= type.high


def shown(data: Any) -> str:
    """A known number for a message."""
    return f"{np.min(data)} to {np.max(data)}" if by_lane(data) else str(data)


def rounded_float(data: Any, type: t.Type) -> Any:
    """`data` (a Number) as a float of `type`, kept in double precision."""
    dtype = _FLOATS.get(type, np.dtype(np.float64))
    with np.errstate(over="ignore"):
        kept = np.asarray(data, np.float64).astype(dtype).astype(np.float64)
    return kept if by_lane(data) else kept.item()


def coerced(value: Known, type: t.Type) -> Known | None:
    """`value` implicitly converted to the number type `type`, or None: integers that fit, comptime numbers to floats,
    floats to wider ones."""
    source = value.type
    if source == type:
        return value
    if isinstance(value.data, Affine):
        return Known(type, value.data) if t.is_integer(type) else None
    if isinstance(type, t.Int) and t.is_integer(source):
        return Known(type, value.data) if fits(value.data, type) else None
    if type == t.COMPTIME_INT and t.is_integer(source):
        return Known(type, value.data)
    if t.is_float(type) and (source in (t.COMPTIME_INT, t.COMPTIME_FLOAT) or t.widens(source, type)):
        return Known(type, rounded_float(value.data, type))
    return Known(type, value.data) if type == t.COMPTIME_FLOAT and t.is_float(source) else None


def converted(value: Known, type: t.Type, span: Span) -> Known:
    """`@as`: to another number type or bool. Floats go to integers towards zero; integers must fit."""
    data, source = value.data, value.type
    if type == t.BOOL:
        return Known(type, data != 0)
    if t.is_float(type):
        return Known(type, rounded_float(data, type))
    if t.is_float(source):
        data = _truncated(data, type, span)
    elif source == t.BOOL:
        data = data.astype(np.int64) if by_lane(data) else int(data)
    target = type.base if isinstance(type, t.Enum) else type
    if isinstance(target, t.Int) and not fits(data, target):
        fail("E1014", f"{shown(data)} is out of range for {t.show(type)}", span, help=_range_of(target))
    return Known(type, data)


def _truncated(data: Any, type: t.Type, span: Span) -> Any:
    """Floats towards zero; what is infinite or no number has no integer."""
    if not np.all(np.isfinite(data)):
        fail("E1014", f"{shown(data)} is out of range for {t.show(type)}", span)
    return np.trunc(data).astype(np.int64) if by_lane(data) else int(data)


def _range_of(type: t.Int) -> str:
    return f"{t.show(type)} holds {type.low} to {type.high}"


def bitcast(value: Known, type: t.Type, span: Span) -> Known:
    """The bits of `value` read as `type`; both have one width."""
    source = value.type
    if source in (t.COMPTIME_INT, t.COMPTIME_FLOAT):
        fail("E1013", f"{t.show(source)} has no bits of its own", span, help="give it a type with @as first")
    if t.size_bytes(source) != t.size_bytes(type):
        fail("E1013", f"{t.show(source)} and {t.show(type)} differ in width", span)
    kept = _storage(value.data, source).view(_dtype(type))
    return Known(type, _unstored(kept, type, by_lane(value.data)))


def _dtype(type: t.Type) -> np.dtype[Any]:
    match type:
        case t.Float(bits):
            return np.dtype(f"f{bits // 8}")
        case t.Int(bits, signed):
            return np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
        case _:
            return np.dtype(f"u{t.size_bytes(type)}")


def _storage(data: Any, type: t.Type) -> np.ndarray[Any, Any]:
    return np.atleast_1d(np.asarray(data)).astype(_dtype(type))


def _unstored(data: np.ndarray[Any, Any], type: t.Type, lanes: bool) -> Any:
    wide = data.astype(np.float64 if isinstance(type, t.Float) else np.int64)
    return wide if lanes else wide[0].item()


def arithmetic(op: str, a: Known, b: Known, type: t.Type, span: Span) -> Known:
    """`a op b` in `type`, to which both are converted. Typed integers must not overflow; division truncates."""
    if isinstance(a.data, Affine) or isinstance(b.data, Affine):
        return Known(type, _affine(op, a.data, b.data, span))
    if op in ("/", "%"):
        quotient = _divided(op, a.data, b.data, type, span)
        return checked(quotient, type, span, f"{shown(a.data)} {op} {shown(b.data)}")
    if op in ("<<", ">>"):
        return _shifted(op, a, b, type, span)
    if t.is_float(type):
        if op not in "+-*":
            fail("E1012", f"`{op}` is not defined for {t.show(type)}", span)
        with np.errstate(all="ignore"):
            return Known(type, rounded_float(_WHOLE[op](a.data, b.data), type))
    _check_growth(op, a.data, b.data, span)
    result = _WHOLE[op](_wide(a.data), _wide(b.data))
    if isinstance(type, t.Int) and not fits(result, type):
        checked(result, type, span, f"{shown(a.data)} {op} {shown(b.data)}")
    return Known(type, result)


def _check_growth(op: str, a: Any, b: Any, span: Span) -> None:
    """Refuse what would outgrow 64-bit lanes, or any use of a comptime_int."""
    if op not in "+-*":
        return
    (a0, a1), (b0, b1) = bounds(a), bounds(b)
    corners = [_WHOLE[op](x, y) for x in (a0, a1) for y in (b0, b1)]
    limit = 63 if by_lane(a) or by_lane(b) else _MAX_BITS
    if max(c.bit_length() for c in corners) > limit:
        fail("E1014", f"`{op}` gives a number of more than {limit} bits", span)


def _wide(data: Any) -> Any:
    return data.astype(np.int64) if by_lane(data) else data


def checked(data: Any, type: t.Type, span: Span, what: str) -> Known:
    """`data` as an integer of `type`, or the overflow told."""
    if isinstance(type, t.Int) and not fits(data, type):
        fail("E1014", f"{what} is {shown(data)}, which {t.show(type)} cannot hold", span, help=_range_of(type))
    return Known(type, data)


def _divided(op: str, a: Any, b: Any, type: t.Type, span: Span) -> Any:
    if t.is_float(type):
        if op == "%":
            fail("E1012", f"`%` is not defined for {t.show(type)}", span)
        with np.errstate(all="ignore"):
            return rounded_float(_float_quotient(a, b), type)
    if 0 in b if by_lane(b) else b == 0:
        fail("E1014", "division by zero", span)
    if not by_lane(a) and not by_lane(b):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    else:
        a, b = np.asarray(a, np.int64), np.asarray(b, np.int64)
        quotient = np.abs(a) // np.abs(b) * np.where((a < 0) == (b < 0), 1, -1)
    return quotient if op == "/" else a - quotient * b


def _float_quotient(a: Any, b: Any) -> Any:
    quotient = np.asarray(a, np.float64) / np.asarray(b, np.float64)
    return quotient if by_lane(a) or by_lane(b) else quotient.item()


def _shifted(op: str, a: Known, b: Known, type: t.Type, span: Span) -> Known:
    limit = type.bits if isinstance(type, t.Int) else _MAX_SHIFT
    low, high = bounds(b.data)
    if low < 0 or high >= limit:
        fail("E1014", f"a shift by {shown(b.data)} of {t.show(type)}", span, help=f"shift by 0 to {limit - 1}")
    if op == ">>":
        return Known(type, _wide(a.data) >> b.data)
    grown = max(abs(v) for v in bounds(a.data)).bit_length() + high
    if not isinstance(type, t.Int) and grown > (63 if by_lane(a.data) or by_lane(b.data) else _MAX_BITS):
        fail("E1014", f"`<<` gives a number of {grown} bits", span)
    moved = _wide(a.data) << b.data
    # A shift drops what leaves on the left.
    return Known(type, _kept_bits(moved, type) if isinstance(type, t.Int) else moved)


def _kept_bits(data: Any, type: t.Int) -> Any:
    low = data & ((1 << type.bits) - 1)
    if not type.signed:
        return low
    sign = 1 << (type.bits - 1)
    return (low ^ sign) - sign


def _affine(op: str, a: Any, b: Any, span: Span) -> Affine:
    """Index arithmetic: sums, differences, and products with a known factor."""
    rank = len(a.coefficients if isinstance(a, Affine) else b.coefficients)
    x = a if isinstance(a, Affine) else Affine(a, (0,) * rank)
    y = b if isinstance(b, Affine) else Affine(b, (0,) * rank)
    if op in ("+", "-"):
        sign = 1 if op == "+" else -1
        parts = tuple(p + sign * q for p, q in zip(x.coefficients, y.coefficients, strict=True))
        return Affine(x.constant + sign * y.constant, parts)
    if op == "*" and (not any(x.coefficients) or not any(y.coefficients)):
        index, factor = (x, int(uniform(y.constant))) if any(x.coefficients) else (y, int(uniform(x.constant)))
        return Affine(index.constant * factor, tuple(c * factor for c in index.coefficients))
    return fail("E1018", f"`{op}` of index variables: a tensor access must be linear in them", span)


def _inverse(x: Lanes) -> Lanes:
    return 1.0 / x


def _inverse_root(x: Lanes) -> Lanes:
    return 1.0 / np.sqrt(x)


_FUNCTIONS: dict[str, Callable[..., Lanes]] = {
    "ceil": np.ceil, "floor": np.floor, "tanh": np.tanh, "cos": np.cos, "exp": np.exp, "log": np.log, "sin": np.sin,
    "sqrt": np.sqrt, "inv": _inverse, "invsqrt": _inverse_root, "pow": np.power, "fscale": np.ldexp,
}  # fmt: skip


def function(name: str, values: list[Known]) -> Known:
    """A function of floats by its name in `@tdslc_math`: computed in double precision, then rounded to its type."""
    type, given = values[0].type, [v.data for v in values]
    with np.errstate(all="ignore"):
        made = _FUNCTIONS[name](np.asarray(given[0], np.float64), *given[1:])
        # As a PE does: to f32 first.
        single = np.asarray(made).astype(np.float32).astype(np.float64)
    return Known(type, rounded_float(single if single.ndim else single.item(), type))


def compare(op: str, a: Known, b: Known) -> Known:
    """`a op b` as a bool."""
    result = _COMPARE[op](a.data, b.data)
    return Known(t.BOOL, result if by_lane(result) else bool(result))


def negated(value: Known, span: Span) -> Known:
    if isinstance(value.data, Affine):
        return Known(value.type, _affine("*", value.data, -1, span))
    if t.is_float(value.type):
        return Known(value.type, -value.data)
    return checked(-_wide(value.data), value.type, span, f"-{shown(value.data)}")


def inverted(value: Known, span: Span) -> Known:
    """`~value`."""
    if not isinstance(value.type, t.Int):
        fail("E1012", f"`~` is not defined for {t.show(value.type)}", span, help="give the number a type with @as")
    return Known(value.type, _kept_bits(~_wide(value.data), value.type))
