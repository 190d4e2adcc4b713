"""One ONNX node as a handler sees it: its operands as values of the builder, as types or as known arrays.

Must not know how names are resolved, nor any operator.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...graph import Builder, DType, NDArray, TensorType, forms
from ...graph.dtypes import BOOL, from_numpy
from ..names import dotted
from .protos import attribute
from .tensors import array_of, dtype_name, dtype_of

if TYPE_CHECKING:
    from .scope import Scope


# A float tensor of more elements is a weight, on whose values a build does not depend; an integer one, if it has more
# than the second number. Fewer are what exporters write shapes, scales and epsilons with.
_FEW_FLOATS, _FEW_INTS = 8, 4096


class Refused(Exception):
    """A node that cannot be imported; the importer adds which one."""

    def __init__(self, why: str, help: str | None = None, code: str = "E1106") -> None:
        super().__init__(why)
        self.why, self.help, self.code = why, help, code


@dataclass(eq=False, slots=True)
class Value:
    """What an ONNX name stands for. `array` is its value when that is known at import.

    `weight` says that the value is one a build must not depend on: it becomes a param.
    """

    name: str
    type: TensorType
    array: NDArray | None = field(default=None, repr=False)
    weight: bool = False

    @property
    def is_sequence(self) -> bool:
        """Whether this is a sequence of tensors, which has no type of its own."""
        return False


def known_value(name: str, array: NDArray, folded: bool = False) -> Value:
    """An array as a Value; a weight when it is large. What was `folded` here is one beyond `_FEW_INTS` elements."""
    d = from_numpy(array.dtype)
    assert d is not None, f"{name} is of {array.dtype}"
    most = _FEW_FLOATS if d.is_float and not folded else _FEW_INTS
    weight = array.size > most and not (folded and splat(array) is not None)
    return Value(name, TensorType(d, tuple(map(int, array.shape))), array, weight)


class Emitter:
    """A builder, and which of its values hold which `Value`s.

    `params` collects weights as they are first used. An emitter of a region has an `outer` one instead: what is made
    outside, and weights, become inputs of the region and are listed in `captured`. One without either writes weights
    as literals.
    """

    def __init__(self, builder: Builder, params: Params | None = None, outer: Emitter | None = None) -> None:
        self.b = builder
        self.params = params
        self.outer = outer
        self.ids: dict[Value, int] = {}
        self.captured: list[Value] = []

    def id(self, v: Value) -> int:
        """`v` as a value of the builder."""
        if v not in self.ids:
            self.ids[v] = self._emit(v)
        return self.ids[v]

    def _emit(self, v: Value) -> int:
        if v.array is not None and not (v.weight and (self.params or self.outer)):
            return self.literal(v.array, v.type.dtype)
        if self.params is not None and v.array is not None:
            return self.b.param(self.params.name(v), v.type)
        assert self.outer is not None, f"{v.name} was made in another graph"
        self.captured.append(v)
        return self.b.input(f"outer{len(self.captured)}", v.type)

    def literal(self, array: NDArray, d: DType) -> int:
        """A known array as a literal: one value everywhere is a `full`."""
        value = splat(array)
        if value is None:
            return forms.constant(self.b, array, d)
        return self.b.full(value, d, array.shape)


class Params:
    """The weights that a graph reads, by the names they have there."""

    def __init__(self, used: Collection[str] = ()) -> None:
        self.arrays: dict[str, NDArray] = {}
        self._used = set(used)

    def __bool__(self) -> bool:
        return True

    def name(self, v: Value) -> str:
        """The name of the param that holds `v`."""
        assert v.array is not None
        name = dotted(v.name, self._used)
        self._used.add(name)
        self.arrays[name] = v.array
        return name


def splat(array: NDArray) -> int | float | bool | None:
    """The one value of an array that has the same bits everywhere, as a number; None otherwise. Empty: 0."""
    kind = from_numpy(array.dtype)
    assert kind is not None
    if not array.size:
        return False if kind == BOOL else 0
    if any(array.strides):
        flat = np.ascontiguousarray(array).reshape(-1)
        raw = flat.view(np.uint8).reshape(flat.size, -1)
        if not (raw[:1] == raw).all():
            return None
    first = array.reshape(-1)[0] if array.ndim else array[()]
    if kind == BOOL:
        return bool(first)
    return int(first) if kind.is_int else float(first)


@dataclass(slots=True)
class Call:
    """A node under import. `version` is the opset of its domain, `given` its inputs (None where one is left out)."""

    node: Any
    op: str
    version: int
    given: Sequence[Value | None]
    emitter: Emitter
    scope: Scope
    attrs: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.attrs = {str(a.name): a for a in self.node.attribute}

    # ---- operands ----

    @property
    def b(self) -> Builder:
        """The builder that the node is emitted to."""
        return self.emitter.b

    @property
    def count(self) -> int:
        """How many inputs are written, those left out among them."""
        return len(self.given)

    @property
    def outputs(self) -> int:
        """How many outputs are written."""
        return len(self.node.output)

    def wants(self, i: int) -> bool:
        """Whether output `i` has a name, so that somebody may read it."""
        return i < len(self.node.output) and bool(self.node.output[i])

    def has(self, i: int) -> bool:
        """Whether input `i` is given."""
        return i < len(self.given) and self.given[i] is not None

    def value(self, i: int) -> Value:
        """Input `i`, which must be given."""
        found = self.given[i] if i < len(self.given) else None
        if found is None:
            self.refuse(f"its input {i} is missing")
        return found

    def tensor_value(self, i: int) -> Value:
        """Input `i`, which must be a tensor."""
        found = self.value(i)
        if found.is_sequence:
            self.refuse(f"its input {i} (`{found.name}`) is a sequence where a tensor is needed", code="E1105")
        return found

    def x(self, i: int = 0) -> int:
        """Input `i` as a value of the builder."""
        return self.emitter.id(self.tensor_value(i))

    def maybe(self, i: int) -> int | None:
        """Input `i` as a value of the builder, None when it is left out."""
        return self.x(i) if self.has(i) else None

    def xs(self, start: int = 0) -> list[int]:
        """All inputs from `start` on."""
        return [self.x(i) for i in range(start, self.count)]

    def type(self, i: int = 0) -> TensorType:
        """The type of input `i`."""
        return self.tensor_value(i).type

    def shape(self, i: int = 0) -> tuple[int, ...]:
        """The dims of input `i`."""
        return self.tensor_value(i).type.shape

    def dtype(self, i: int = 0) -> DType:
        """The dtype of input `i`."""
        return self.tensor_value(i).type.dtype

    def known(self, i: int) -> NDArray | None:
        """The array that input `i` is, when it is known at import."""
        return self.value(i).array if self.has(i) else None

    def static(self, i: int, what: str) -> NDArray:
        """The array of input `i`, which must be known at import; `what` is its role."""
        array = self.known(i)
        if array is None:
            name = self.value(i).name
            said = f"its {what} (`{name}`) must be known when the model is built, and is computed from the inputs"
            help = "fix the input that it depends on with `--bind NAME=FILE.npy`"
            if name in self.scope.runtime_inputs:
                help = f"`--bind {name}=FILE.npy` fixes that input"
            self.refuse(said, help, "E1107")
        return array

    def ints(self, i: int, what: str) -> tuple[int, ...]:
        """The integers of input `i`, flattened, which must be known at import."""
        return tuple(int(n) for n in self.static(i, what).reshape(-1).tolist())

    # ---- attributes ----

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute `name`, or `default`."""
        found = self.attrs.get(name)
        return default if found is None else attribute(found)

    def need(self, name: str) -> Any:
        """The attribute `name`, which must be there."""
        if name not in self.attrs:
            self.refuse(f"its attribute `{name}` is missing")
        return attribute(self.attrs[name])

    def tensor(self, name: str) -> NDArray | None:
        """The tensor attribute `name` as an array."""
        found = self.attr(name)
        return None if found is None else array_of(found, self.scope.folder)

    def axis(self, default: int | None = None, rank: int | None = None, name: str = "axis") -> int:
        """The attribute `axis`, counted from the front."""
        given = self.attr(name, default)
        if given is None:
            self.refuse(f"its attribute `{name}` is missing")
        return self.at(int(given), len(self.shape(0)) if rank is None else rank)

    def at(self, axis: int, rank: int) -> int:
        """`axis` counted from the front."""
        if not -rank <= axis < rank:
            self.refuse(f"axis {axis} is not one of {rank} axes")
        return axis % rank if rank else 0

    def to_dtype(self, number: int) -> DType:
        """The dtype of a TensorProto.DataType."""
        d = dtype_of(number)
        if d is None:
            self.refuse(f"{dtype_name(number)} is a data type that tdslc does not have", code="E1105")
        return d

    def to_dtype_of(self, array: NDArray) -> DType:
        """The dtype of an array."""
        d = from_numpy(array.dtype)
        assert d is not None
        return d

    # ---- emitting ----

    def full(self, value: float | bool, d: DType, shape: Sequence[int] = ()) -> int:
        """`value` everywhere."""
        number = bool(value) if d == BOOL else int(value) if d.is_int else value
        return self.b.full(number, d, tuple(shape))

    def like(self, value: float | bool, x: int) -> int:
        """`value` everywhere, of the type of `x`."""
        t = self.b.types[x]
        return self.full(value, t.dtype, t.shape)

    def spread(self, *operands: int) -> list[int]:
        """Inputs broadcast to one shape. One that is the same number everywhere is made at that shape."""
        shape = forms.broadcast_shape(*(self.shape(i) for i in operands))
        return [self.spread_to(i, shape) for i in operands]

    def spread_to(self, i: int, shape: Sequence[int]) -> int:
        """Input `i` broadcast to `shape`."""
        v = self.value(i)
        if v.array is not None and not v.weight and v.type.shape != tuple(shape):
            number = splat(v.array)
            if number is not None and v.array.size:
                return self.b.full(number, v.type.dtype, shape)
        return forms.broadcast_to(self.b, self.x(i), shape)

    def refuse(self, why: str, help: str | None = None, code: str = "E1106") -> NoReturn:
        """This node cannot be imported, because `why`."""
        raise Refused(why, help, code)
