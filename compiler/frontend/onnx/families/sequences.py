"""Sequences of tensors as lists that the importer holds: which element is where is known, what it is need not be.

A sequence never reaches the graph. What reads one at a place known at run time only is refused, as are sequences that
are inputs or outputs of a model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph import NDArray, TensorType, forms
from ....graph.dtypes import F32
from ..call import Call, Value
from ..table import Result, handles


class Items(Value):
    """A sequence as a Value: it has no type of its own, and `items` are its elements."""

    __slots__ = ("items",)

    def __init__(self, name: str, items: Sequence[Value]) -> None:
        super().__init__(name, TensorType(F32, ()))
        self.items = tuple(items)

    @property
    def is_sequence(self) -> bool:
        """True."""
        return True


def _items(n: Call, i: int = 0) -> tuple[Value, ...]:
    v = n.value(i)
    if not isinstance(v, Items):
        n.refuse(f"its input {i} (`{v.name}`) is a tensor where a sequence is needed")
    return v.items


def _place(n: Call, i: int, length: int, last: int) -> int:
    """The place that input `i` names, counted from the front; `last` is the greatest."""
    at = n.ints(i, "position")[0]
    if not -length <= at <= last:
        n.refuse(f"position {at} is not in a sequence of {length}")
    return at + length if at < 0 else at


def _sequence(n: Call, items: Sequence[Value]) -> Value:
    return Items(str(n.node.output[0]), items)


@handles("SequenceEmpty")
def empty(n: Call) -> Value:
    """A sequence of nothing."""
    return _sequence(n, ())


@handles("SequenceConstruct")
def construct(n: Call) -> Value:
    """The operands as a sequence."""
    return _sequence(n, [n.value(i) for i in range(n.count)])


@handles("SequenceInsert")
def insert(n: Call) -> Value:
    """A sequence with one element more, at the end by default."""
    items = _items(n)
    at = _place(n, 2, len(items), len(items)) if n.has(2) else len(items)
    return _sequence(n, (*items[:at], n.value(1), *items[at:]))


@handles("SequenceErase")
def erase(n: Call) -> Value:
    """A sequence without one element, the last by default."""
    items = _items(n)
    if not items:
        n.refuse("it takes an element out of an empty sequence")
    at = _place(n, 1, len(items), len(items) - 1) if n.has(1) else len(items) - 1
    return _sequence(n, (*items[:at], *items[at + 1 :]))


@handles("SequenceAt")
def element(n: Call) -> Value:
    """One element."""
    items = _items(n)
    return items[_place(n, 1, len(items), len(items) - 1)]


@handles("SequenceLength")
def length(n: Call) -> NDArray:
    """How many elements there are."""
    return np.asarray(len(_items(n)), np.int64)


@handles("SplitToSequence")
def split_to_sequence(n: Call) -> Value:
    """Parts of a tensor along an axis: of a size, of sizes, or single elements without or with their axis."""
    axis, x = n.axis(0), n.x()
    size = int(n.shape()[axis])
    if not n.has(1):
        sizes = [1] * size
    elif n.type(1).rank:
        sizes = list(n.ints(1, "sizes"))
    else:
        each = n.ints(1, "size")[0]
        if each < 1:
            n.refuse(f"its parts have the size {each}")
        sizes = [min(each, size - at) for at in range(0, size, each)]
    parts = forms.split(n.b, x, sizes, axis)
    if not n.has(1) and not n.attr("keepdims", 1):
        parts = [forms.squeeze(n.b, p, (axis,)) for p in parts]
    made: list[Value] = []
    for i, p in enumerate(parts):
        v = Value(f"{n.node.output[0]}.{i}", n.b.types[p])
        n.emitter.ids[v] = p
        made.append(v)
    return _sequence(n, made)


@handles("ConcatFromSequence")
def concat_from_sequence(n: Call) -> Result:
    """The elements one after another, or side by side along a new axis."""
    items = _items(n)
    if not items:
        n.refuse("it joins an empty sequence")
    xs = [n.emitter.id(v) for v in items]
    axis, new = int(n.need("axis")), bool(n.attr("new_axis", 0))
    axis = n.at(axis, items[0].type.rank + new)
    return forms.stack(n.b, xs, axis) if new else forms.concat(n.b, xs, axis)
