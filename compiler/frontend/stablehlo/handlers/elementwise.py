"""Elementwise operations: arithmetic, comparisons, selection, conversions."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph import DTYPES, DType, forms
from ....graph.dtypes import BOOL
from ..call import Call, Handler

UNARY = {
    "abs": "abs", "cbrt": "cbrt", "ceil": "ceil", "cosine": "cos", "count_leading_zeros": "count_leading_zeros",
    "exponential": "exp", "exponential_minus_one": "expm1", "floor": "floor", "is_finite": "is_finite", "log": "log",
    "log_plus_one": "log1p", "logistic": "logistic", "negate": "neg", "not": "not", "popcnt": "popcnt",
    "round_nearest_afz": "round_away", "round_nearest_even": "round", "rsqrt": "rsqrt", "sign": "sign", "sine": "sin",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
BINARY = {
    "add": "add", "and": "and", "atan2": "atan2", "divide": "div", "maximum": "max", "minimum": "min",
    "multiply": "mul", "or": "or", "power": "pow", "remainder": "rem", "shift_left": "shift_left",
    "shift_right_arithmetic": "shift_right_arithmetic", "shift_right_logical": "shift_right_logical", "subtract": "sub",
    "xor": "xor",
}  # fmt: skip
# Of i1, sums are disjunctions and products conjunctions (StableHLO, "add" and "multiply").
_OF_BOOLS = {"add": "or", "mul": "and"}
DIRECTIONS = {"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"}


def _unary(op: str) -> Handler:
    def run(call: Call) -> int:
        return call.b.one(op, *call.arity(1))

    return run


def _binary(op: str) -> Handler:
    def run(call: Call) -> int:
        return binary(call, op, *call.arity(2))

    return run


def binary(call: Call, op: str, x: int, y: int) -> int:
    """`op` of two values of one shape, as StableHLO has it for their dtype."""
    return call.b.one(_OF_BOOLS.get(op, op) if call.b.types[x].dtype == BOOL else op, x, y)


def _compare(call: Call) -> int:
    return compare(call, *call.arity(2))


def compare(call: Call, x: int, y: int) -> int:
    """A comparison by the call's attributes; TOTALORDER compares the bits as IEEE 754's totalOrder."""
    direction = call.word("comparison_direction")
    if direction not in DIRECTIONS:
        call.refuse(f"compares by {direction or 'nothing'}; {', '.join(DIRECTIONS)} are known")
    if call.word("compare_type") == "TOTALORDER":
        x, y = forms.total_order(call.b, x), forms.total_order(call.b, y)
    return call.b.one(DIRECTIONS[direction], x, y)


def _select(call: Call) -> int:
    test, x, y = call.arity(3)
    return call.b.one("select", forms.broadcast_to(call.b, test, call.type(1).shape), x, y)


def _clamp(call: Call) -> int:
    low, x, high = call.arity(3)
    return forms.clamp(call.b, low, x, high)


def _convert(call: Call) -> int:
    (x,) = call.arity(1)
    return forms.convert(call.b, x, call.gives_one.dtype)


def _bitcast(call: Call) -> int:
    (x,), to, source = call.arity(1), call.gives_one.dtype, call.type().dtype
    if source == to:
        return x
    if source == BOOL:
        whole = _from_bits(call, x, DTYPES[f"u{to.bits}"])
        return whole if call.b.types[whole].dtype == to else call.b.one("bitcast_convert", whole, dtype=to)
    if to == BOOL:
        own = DTYPES[f"u{source.bits}"]
        return _to_bits(call, x if source == own else call.b.one("bitcast_convert", x, dtype=own))
    return call.b.one("bitcast_convert", x, dtype=to)


def _from_bits(call: Call, x: int, to: DType) -> int:
    """The last axis, of as many bools as `to` has bits, as one integer; the first is the lowest bit."""
    b, t = call.b, call.type()
    if not t.rank or t.shape[-1] != to.bits:
        call.refuse(f"makes one {to} of {to.bits} bits along the last axis, got {t}")
    places = b.one("iota", axis=t.rank - 1, dtype=to, shape=t.shape)
    return b.one("reduce_sum", b.one("shift_left", b.one("convert", x, dtype=to), places), axes=(t.rank - 1,))


def _to_bits(call: Call, x: int) -> int:
    """A last axis of the bits of each unsigned integer, the lowest first."""
    b, t = call.b, call.b.types[x]
    shape = (*t.shape, t.dtype.bits)
    wide = b.one("broadcast", x, shape=shape, dims=tuple(range(t.rank)))
    down = b.one("shift_right_logical", wide, b.one("iota", axis=t.rank, dtype=t.dtype, shape=shape))
    return b.one("ne", b.one("and", down, forms.scalar(b, 1, down)), forms.scalar(b, 0, down))


def _reduce_precision(call: Call) -> int:
    (x,) = call.arity(1)
    exponent, mantissa = _format(call)
    return call.b.one("reduce_precision", x, exponent_bits=exponent, mantissa_bits=mantissa)


def _format(call: Call) -> tuple[int, int]:
    """`format = e5m10`, or the two attributes of the generic form."""
    text = call.word("format")
    if not text:
        return call.int("exponent_bits"), call.int("mantissa_bits")
    exponent, _, mantissa = text.removeprefix("e").partition("m")
    if not exponent.isdigit() or not mantissa.isdigit() or len(text) > 12:
        call.refuse(f"has the format {text}; e5m10 is one")
    return int(exponent), int(mantissa)


def _map(call: Call) -> Sequence[int]:
    """The region on scalars, on all elements at once."""
    args = call.arity(1, 1 << 16)
    region = call.region([t.with_shape(()) for t in call.types], [t.with_shape(()) for t in call.gives])
    return call.b.inline(forms.lift(region, call.type().shape), args)


def _barrier(call: Call) -> Sequence[int]:
    """A barrier keeps a compiler from moving things; values pass as they are."""
    return call.args


TABLE: dict[str, Handler] = {
    **{f"stablehlo.{name}": _unary(op) for name, op in UNARY.items()},
    **{f"stablehlo.{name}": _binary(op) for name, op in BINARY.items()},
    "stablehlo.compare": _compare,
    "stablehlo.select": _select,
    "stablehlo.clamp": _clamp,
    "stablehlo.convert": _convert,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.map": _map,
    "stablehlo.optimization_barrier": _barrier,
}
