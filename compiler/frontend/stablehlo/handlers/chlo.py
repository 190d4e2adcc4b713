"""CHLO, the client dialect whose operations JAX leaves in its exports."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph import DTYPES, forms
from ..call import Call, Handler
from . import elementwise

# CHLO's names are ours.
_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "digamma", "erf", "erf_inv", "erfc", "lgamma", "sinh",
    "tan",
)  # fmt: skip


def _unary(op: str) -> Handler:
    return lambda call: call.b.one(op, *call.arity(1))


def _square(call: Call) -> int:
    (x,) = call.arity(1)
    return call.b.one("mul", x, x)


def _infinite(positive: bool, negative: bool) -> Handler:
    def run(call: Call) -> int:
        (x,) = call.arity(1)
        return forms.is_inf(call.b, x, positive, negative)

    return run


def _next_after(call: Call) -> int:
    return forms.next_after(call.b, *call.arity(2))


def _top_k(call: Call) -> Sequence[int]:
    (x,) = call.arity(1)
    return call.b.add("top_k", (x,), {"k": call.int("k"), "largest": call.flag("largest", default=True)})


def _constant_like(call: Call) -> int:
    found, to = call.value("value"), call.type()
    if not isinstance(found, int | float):
        call.refuse("needs a number")
    return call.b.full(found, to.dtype, to.shape)


def _broadcasting(op: str) -> Handler:
    def run(call: Call) -> int:
        x, y = _spread(call, call.arity(2))
        return elementwise.binary(call, op, x, y)

    return run


def _spread(call: Call, args: Sequence[int]) -> list[int]:
    """Operands of one shape: the one of lower rank along the stated axes of the other, or NumPy's broadcasting."""
    dims, b = call.ints("broadcast_dimensions", default=()), call.b
    if dims and len(args) == 2:
        low = min((0, 1), key=lambda i: b.types[args[i]].rank)
        shape = list(b.types[args[1 - low]].shape)
        if len(dims) == b.types[args[low]].rank and all(0 <= d < len(shape) for d in dims):
            own = [1] * len(shape)
            for d, n in zip(dims, b.types[args[low]].shape, strict=True):
                own[d] = n
            args = [forms.reshape(b, v, own) if i == low else v for i, v in enumerate(args)]
    return forms.broadcast_all(b, args)


def _broadcast_compare(call: Call) -> int:
    x, y = _spread(call, call.arity(2))
    return elementwise.compare(call, x, y)


def _broadcast_select(call: Call) -> int:
    return call.b.one("select", *_spread(call, call.arity(3)))


_WIDER = {"i8": "i16", "i16": "i32", "i32": "i64", "u8": "u16", "u16": "u32", "u32": "u64"}


def _mulhi(call: Call) -> int:
    """The upper half of the product, in the dtype of twice the width; of 64 bits from four products of halves."""
    x, y = call.arity(2)
    b, d = call.b, call.type().dtype
    if d.bits == 64:
        return _mulhi_64(call, x, y)
    if d.name not in _WIDER:
        call.refuse(f"multiplies integers of 8 to 64 bits, got {call.type()}")
    wide = DTYPES[_WIDER[d.name]]
    product = b.one("mul", b.one("convert", x, dtype=wide), b.one("convert", y, dtype=wide))
    shift = "shift_right_arithmetic" if d.kind == "int" else "shift_right_logical"
    return b.one("convert", b.one(shift, product, forms.scalar(b, d.bits, product)), dtype=d)


def _mulhi_64(call: Call, x: int, y: int) -> int:
    """Hacker's Delight (Warren, 2nd ed., 8-2), signed numbers by halves of which the upper has the sign."""
    b, d = call.b, call.type().dtype
    half, low = forms.scalar(b, 32, x), forms.scalar(b, 0xFFFFFFFF, x)
    down = "shift_right_arithmetic" if d.kind == "int" else "shift_right_logical"
    (x0, x1), (y0, y1) = ((b.one("and", v, low), b.one(down, v, half)) for v in (x, y))
    w0 = b.one("mul", x0, y0)
    t = b.one("add", b.one("mul", x1, y0), b.one("shift_right_logical", w0, half))
    w1 = b.one("add", b.one("mul", x0, y1), b.one("and", t, low))
    upper = b.one("add", b.one("mul", x1, y1), b.one(down, t, half))
    return b.one("add", upper, b.one(down, w1, half))


TABLE: dict[str, Handler] = {
    **{f"chlo.{name}": _unary(name) for name in _UNARY},
    **{f"chlo.broadcast_{name}": _broadcasting(op) for name, op in elementwise.BINARY.items()},
    "chlo.broadcast_compare": _broadcast_compare,
    "chlo.broadcast_select": _broadcast_select,
    "chlo.square": _square,
    "chlo.is_inf": _infinite(True, True),
    "chlo.is_pos_inf": _infinite(True, False),
    "chlo.is_neg_inf": _infinite(False, True),
    "chlo.next_after": _next_after,
    "chlo.top_k": _top_k,
    "chlo.constant_like": _constant_like,
    "chlo.mulhi": _mulhi,
}
