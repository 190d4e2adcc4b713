"""Operations that make or move elements; those whose shape is an operand too, when the text states the result's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph import NDArray, TensorType, forms
from ....graph.dtypes import DTYPES, I32
from ..call import Call, Handler
from ..literals import decode
from ..syntax import Dense
from ..types import NoTensor, tensor_type


def dense_array(call: Call, found: Dense, to: TensorType) -> NDArray:
    """The elements of a literal, whose own type may be left to the operation."""
    t = tensor_type(found.type) if found.type else to
    return decode(found.body, to if isinstance(t, NoTensor) else t)


def literal(call: Call, array: NDArray, to: TensorType) -> int:
    """`array` of `to`'s shape, or one element for all of it, as a value."""
    if not array.ndim and to.rank and array.dtype.kind in "fiub":
        return call.b.full(array.item(), to.dtype, to.shape)
    return forms.broadcast_to(call.b, forms.constant(call.b, array, to.dtype), to.shape)


def _constant(call: Call) -> int:
    found, to = call.value("value"), call.gives_one
    if not isinstance(found, Dense):
        call.refuse(
            "has no dense literal; resources and sparse literals are out of scope",
            "print large literals in full",
            "E1105",
        )
    array = dense_array(call, found, to)
    weight = call.scope.weight(call.op, array, to)
    return literal(call, array, to) if weight is None else weight


def _iota(call: Call) -> int:
    t = call.gives_one
    return call.b.one("iota", axis=call.int("iota_dimension", "dim"), dtype=t.dtype, shape=t.shape)


def _broadcast_in_dim(call: Call) -> int:
    x, to = call.arity(1, 2)[0], call.gives_one
    dims = call.ints("broadcast_dimensions", "dims")
    value = call.scope.node(x)
    if value is not None and value.op == "full" and not value.type.rank:
        return call.b.add("full", (), {**dict(value.attrs), "shape": to.shape})[0]
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    if len(dims) != call.type().rank:
        call.refuse(f"has dims {list(dims)} for {call.type()}")
    x = forms.transpose(call.b, x, order)
    if to.shape == call.b.types[x].shape and tuple(sorted(dims)) == tuple(range(to.rank)):
        return x
    return call.b.one("broadcast", x, shape=to.shape, dims=tuple(sorted(dims)))


def _broadcast(call: Call) -> int:
    """New axes before the operand's."""
    (x,), sizes = call.arity(1), call.ints("broadcast_sizes", "sizes")
    return forms.broadcast_to(call.b, x, (*sizes, *call.type().shape))


def _reshape(call: Call) -> int:
    return forms.reshape(call.b, call.arity(1, 2)[0], call.gives_one.shape)


def _transpose(call: Call) -> int:
    (x,) = call.arity(1)
    return call.b.one("transpose", x, perm=call.ints("permutation", "dims"))


def _reverse(call: Call) -> int:
    (x,), axes = call.arity(1), call.ints("dimensions", "dims")
    return call.b.one("reverse", x, axes=tuple(sorted(axes))) if axes else x


def _concatenate(call: Call) -> int:
    axis, first = call.int("dimension", "dim"), call.type()
    if not 0 <= axis < first.rank:
        call.refuse(f"has no axis {axis} in {first}")
    return forms.concat(call.b, call.args, axis)


def _slice(call: Call) -> int:
    (x,) = call.arity(1)
    starts, stops, steps = _ranges(call)
    return call.b.one("slice", x, starts=starts, stops=stops, steps=steps)


def _ranges(call: Call) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """`[0:4, 1:8:2]`, or the attributes of the generic form."""
    rows = call.value("ranges")
    if rows is None:
        starts, stops = call.ints("start_indices"), call.ints("limit_indices")
        return starts, stops, call.ints("strides", default=(1,) * len(starts))
    found = [call.as_ints(row, "ranges") for row in rows] if isinstance(rows, tuple) else []
    if any(len(row) not in (2, 3) for row in found):
        call.refuse("has a range that is not start:limit or start:limit:stride")
    whole = [(*row, 1)[:3] for row in found]
    return tuple(r[0] for r in whole), tuple(r[1] for r in whole), tuple(r[2] for r in whole)


def _pad(call: Call) -> int:
    x, fill = call.arity(2)
    low, high = call.ints("edge_padding_low", "low"), call.ints("edge_padding_high", "high")
    interior = call.ints("interior_padding", "interior")
    return _padded(call, x, fill, low, high, interior)


def _padded(call: Call, x: int, fill: int, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> int:
    rank = call.b.types[x].rank
    if not len(low) == len(high) == len(interior) == rank:
        call.refuse(f"needs low, high and interior for each of the {rank} axes of {call.b.types[x]}")
    if min(interior, default=0) < 0:
        call.refuse(f"has negative interior padding {list(interior)}")
    return forms.pad(call.b, x, low, high, interior, fill=fill)


# ---- shapes as operands ------------------------------------------------------------------------------
# The stated type of the result is static here, or the text is refused before. What an operand says of the shape is then
# known, and where it decides more than the shape it must be a literal.


def known_ints(call: Call, i: int, what: str) -> tuple[int, ...]:
    """Operand `i`, which must be a literal of integers."""
    found = forms.known(call.b, call.args[i])
    if found is None or call.type(i).rank > 1 or call.type(i).dtype.is_float:
        call.refuse(f"has {what} that are not a literal", "export the model with static shapes", "E1109")
    return tuple(int(v) for v in np.reshape(found, -1))


def _dynamic_pad(call: Call) -> int:
    x, fill = call.arity(5)[:2]
    low, high, interior = (known_ints(call, i, "paddings") for i in (2, 3, 4))
    return _padded(call, x, fill, low, high, interior)


def _real_dynamic_slice(call: Call) -> int:
    x = call.arity(4)[0]
    starts, stops, steps = (known_ints(call, i, "bounds") for i in (1, 2, 3))
    return call.b.one("slice", x, starts=starts, stops=stops, steps=steps)


def _dimension_size(call: Call) -> int:
    axis, t = call.int("dimension", "dim"), call.type()
    if not 0 <= axis < t.rank:
        call.refuse(f"has no axis {axis} in {t}")
    return call.b.full(int(t.shape[axis]), I32)


def _only_place(call: Call) -> int:
    """A program for one device runs as replica and partition 0."""
    return call.b.full(0, DTYPES["u32"])


TABLE: dict[str, Handler] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "stablehlo.iota": _iota,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.transpose": _transpose,
    "stablehlo.reverse": _reverse,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.slice": _slice,
    "stablehlo.pad": _pad,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.get_dimension_size": _dimension_size,
    "stablehlo.replica_id": _only_place,
    "stablehlo.partition_id": _only_place,
}
