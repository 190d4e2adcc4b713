"""What a row's writer works with: its node's operands by name, and ways to add ONNX nodes, constants and bodies.

Must not know rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np

from ....graph import DTYPES, Array, DType, Graph, NDArray, Node, TensorType
from ....graph.dtypes import BOOL, F32, F64, I32, I64, U8, rounded
from ....graph.ops.movement import array_of
from ..protos import free_names, onnx, subgraphs
from ..tensors import dtype_number

# The opset that is written: the first with bf16, 8-bit floats and 4-bit integers throughout. What came later raises it.
OPSET, BITCAST_OPSET = 21, 26
_LATER = {"BitCast": BITCAST_OPSET}
_WORDS = {"f64": "double", "f32": "float", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8e4m3fn",
          "f8e5m2": "float8e5m2", "bool": "bool"}  # fmt: skip
_BYTE = 8

Write: TypeAlias = "Callable[[Emit], str | Sequence[str]]"


class Unexported(Exception):
    """An op that has no counterpart as it is used; the text is its name, and why if that is not all of it."""


@cache
def _allowed(op: str, operand: int) -> frozenset[str]:
    """The types that ONNX's schema lets an operand of `op` have, as in `tensor(float)`."""
    schema: Any = onnx().defs.get_schema(op, _LATER.get(op, OPSET), "")
    variable = str(schema.inputs[min(operand, len(schema.inputs) - 1)].type_str)
    for constraint in schema.type_constraints:
        if constraint.type_param_str == variable:
            return frozenset(map(str, constraint.allowed_type_strs))
    return frozenset((variable,))


def admits(op: str, d: DType, operand: int = 0) -> bool:
    """Whether ONNX defines `op` for operands of `d`."""
    word = _WORDS.get(d.name) or d.name.replace("u", "uint").replace("i", "int", 1 if d.name[0] == "i" else 0)
    return f"tensor({word})" in _allowed(op, operand)


def wider(d: DType) -> tuple[DType, ...]:
    """`d`, then dtypes that hold every value of it, narrow ones first."""
    if d == BOOL:
        return (BOOL, U8, I32)
    if d.is_float:
        return (d, *(w for w in (F32, F64) if w.bits > d.bits))
    own = [DTYPES[f"{d.name[0]}{bits}"] for bits in (4, 8, 16, 32, 64) if bits >= d.bits]
    return (own[0], *(w for w in (U8, I32) if d.kind == "uint" and w.bits > d.bits), *own[1:], *_signed_above(d))


def _signed_above(d: DType) -> tuple[DType, ...]:
    return (I64,) if d.kind == "uint" and d.bits < I64.bits else ()


def computed(op: str, d: DType, operand: int = 0) -> DType:
    """The narrowest dtype that ONNX has `op` for and that holds every value of `d`. Unexported when there is none."""
    for w in wider(d):
        if admits(op, w, operand):
            return w
    raise Unexported(f"{op} of {d}")


def tensor(name: str, array: NDArray, d: DType) -> Any:
    """A TensorProto of raw data; two elements of 4 bits share a byte."""
    made = onnx().TensorProto(name=name, data_type=dtype_number(d), dims=[int(n) for n in array.shape])
    data = np.ascontiguousarray(array)
    if d.bits == 4:
        halves = data.reshape(-1).astype(np.int8).view(np.uint8) & 15
        padded = np.concatenate([halves, np.zeros(halves.size % 2, np.uint8)])
        data = padded[::2] | (padded[1::2] << 4)
    made.raw_data = data.tobytes()
    return made


def dims_of(broadcast: Node) -> tuple[int, ...]:
    """The axes of a broadcast's result that its operand's axes become."""
    dims: Any = broadcast.attr("dims")
    return tuple(map(int, dims))


def info(name: str, t: TensorType) -> Any:
    """A ValueInfoProto."""
    return onnx().helper.make_tensor_value_info(name, dtype_number(t.dtype), [int(d) for d in t.shape])


def live(nodes: Sequence[Any], outputs: Iterable[str]) -> tuple[list[Any], set[str]]:
    """The nodes that outputs need, in order, and every name that these read or that is an output."""
    needed, kept = set(outputs), list[Any]()
    for node in reversed(nodes):
        if needed.isdisjoint(node.output):
            continue
        kept.append(node)
        needed.update(node.input)
        for _, graph in subgraphs(node):
            needed.update(free_names(graph))
    return kept[::-1], needed


@dataclass(slots=True)
class Nodes:
    """Names handed out, nodes of the graph being written, and the outermost graph's initialisers."""

    nodes: list[Any] = field(default_factory=list[Any])
    initialisers: list[Any] = field(default_factory=list[Any])
    constants: dict[object, str] = field(default_factory=dict[object, str])
    used: set[str] = field(default_factory=set[str])
    opset: int = OPSET
    count: int = 0

    def claimed(self, name: str) -> str:
        """`name`, with `_` behind it as long as another value has it."""
        while not name or name in self.used:
            name += "_"
        self.used.add(name)
        return name

    def fresh(self, base: str) -> str:
        """A name that no other value has."""
        self.count += 1
        return self.claimed(f"{base}.{self.count}")

    def add(self, op: str, inputs: Sequence[str], outputs: int, attrs: Mapping[str, Any]) -> list[str]:
        """Adds a node; the names of its results."""
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        self.opset = max(self.opset, _LATER.get(op, 0))
        self.nodes.append(onnx().helper.make_node(op, list(inputs), names, **attrs))
        return names

    def constant(self, array: NDArray, d: DType) -> str:
        """An initialiser of the outermost graph, made once."""
        key = (d.name, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = name = self.fresh("const")
            self.initialisers.append(tensor(name, array, d))
        return self.constants[key]

    def body(
        self, takes: Sequence[Any], gives: Sequence[TensorType], write: Callable[[], Sequence[str]], name: str = "body"
    ) -> Any:
        """A GraphProto with inputs `takes` (ValueInfoProtos), whose nodes `write` adds; it gives the outputs' names."""
        outer, self.nodes = self.nodes, []
        results = write()
        outs = [self.fresh("out") for _ in results]
        helper = onnx().helper
        self.nodes += [helper.make_node("Identity", [r], [o]) for r, o in zip(results, outs, strict=True)]
        nodes, self.nodes = live(self.nodes, outs)[0], outer
        return helper.make_graph(nodes, self.fresh(name), takes, [info(o, t) for o, t in zip(outs, gives, strict=True)])


@dataclass(slots=True)
class Emit:
    """A node of `graph` being written, its operands by name."""

    writer: Nodes
    graph: Graph
    node: Node
    args: Sequence[str]
    types: Sequence[TensorType]
    values: Mapping[int, str]

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.node.types[0]

    def attr(self, name: str) -> Any:
        """An attribute of the node."""
        return self.node.attr(name)

    def dims(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        return tuple(int(v) for v in self.attr(name))

    def known(self, operand: int) -> NDArray | None:
        """The value of an operand that is a literal, its broadcast left out."""
        node = self.graph.producers[self.node.args[operand]]
        while node.op in ("broadcast", "reshape"):
            node = self.graph.producers[node.args[0]]
        if node.op == "full":
            return np.full((), node.attr("value"), node.type.dtype.numpy)
        value = node.attr("value") if node.op == "constant" else None
        return array_of(value) if isinstance(value, Array) else None

    # ---- nodes ----

    def op(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Adds a node; the name of its result."""
        return self.several(op, inputs, 1, **attrs)[0]

    def several(self, op: str, inputs: Sequence[str], outputs: int, **attrs: Any) -> list[str]:
        """Adds a node; the names of its results."""
        return self.writer.add(op, inputs, outputs, attrs)

    def chain(self, op: str, *inputs: str) -> str:
        """A node of two operands over several, from the left."""
        first, *rest = inputs
        for x in rest:
            first = self.op(op, first, x)
        return first

    def ints(self, values: Sequence[int] | NDArray) -> str:
        """A constant of i64: a vector, or an array of whole numbers."""
        return self.writer.constant(np.asarray(values, np.int64), I64)

    def array(self, values: Any, d: DType) -> str:
        """A constant of dtype `d`."""
        return self.writer.constant(rounded(np.asarray(values), d), d)

    def number(self, value: float | bool, d: DType) -> str:
        """A constant without axes."""
        return self.array(value, d)

    def full(self, value: float | bool, t: TensorType) -> str:
        """A tensor of one value: a constant when it is small, else an Expand of the value."""
        if t.size <= _MOST_FULL:
            return self.array(np.full(t.shape, value), t.dtype)
        d = computed("Expand", t.dtype)
        return self.cast(self.op("Expand", self.number(value, d), self.ints(t.shape)), d, t.dtype)

    def reshaped(self, x: str, shape: Sequence[int]) -> str:
        """`x` with other axes; a 0 is an axis of no elements."""
        return self.op("Reshape", x, self.ints([int(n) for n in shape]), allowzero=1)

    def where(self, test: str, x: str, y: str) -> str:
        """x where `test` holds, else y."""
        return self.op("Where", test, x, y)

    # ---- dtypes ----

    def cast(self, x: str, source: DType, to: DType) -> str:
        """`x` of `source` at `to`, which is no narrowing of a float to an integer.

        f64 and integers reach floats narrower than f32 through f32, as the op table has it. A float of 8 bits does not
        saturate, as it does in ONNX by default.
        """
        if source == to:
            return x
        if to.is_float and to.bits < F32.bits and (source.is_int or source == F64):
            x = self.op("Cast", x, to=dtype_number(F32))
        attrs = {"saturate": 0} if to.is_float and to.bits == _BYTE else {}
        return self.op("Cast", x, to=dtype_number(to), **attrs)

    def arg(self, operand: int, to: DType) -> str:
        """An operand at another dtype."""
        return self.cast(self.args[operand], self.types[operand].dtype, to)

    def back(self, x: str, source: DType) -> str:
        """`x` at the dtype of the first result."""
        return self.cast(x, source, self.type.dtype)

    def spread(self, to: Mapping[int, DType]) -> list[str]:
        """Operands of an elementwise node at these dtypes, broadcasts left to ONNX where it makes the same of them."""
        thin = {i: self._thin(self.node.args[i]) for i in to}
        whole = tuple(map(int, self.type.shape))
        if np.broadcast_shapes(*(shape for _, shape in thin.values())) != whole:
            widest = max(to, key=lambda i: prod(thin[i][1]))
            thin[widest] = (self.args[widest], whole)
        return [self.cast(thin[i][0], self.types[i].dtype, d) for i, d in to.items()]

    def _thin(self, value: int) -> tuple[str, tuple[int, ...]]:
        """(name, shape) of a value before it was broadcast, with the axes that ONNX's broadcasting aligns."""
        node = self.graph.producers[value]
        if node.op == "full":
            return self.number(node.attr("value"), node.type.dtype), ()  # pyright: ignore[reportArgumentType]
        if node.op != "broadcast":
            return self.values[value], tuple(map(int, self.graph.types[value].shape))
        name, shape = self._thin(node.args[0])
        shape = (1,) * (len(self.graph.types[node.args[0]].shape) - len(shape)) + shape
        apart = [1] * len(node.type.shape)
        for size, axis in zip(shape, dims_of(node), strict=True):
            apart[axis] = size
        wanted = tuple(apart[next((i for i, n in enumerate(apart) if n != 1), len(apart)) :])
        bare = shape[next((i for i, n in enumerate(shape) if n != 1), len(shape)) :]
        return (name if bare == wanted else self.reshaped(name, wanted)), wanted

    # ---- bodies ----

    def scan(
        self, state: str, start: TensorType, x: str, axis: int, reverse: bool, step: Callable[[str, str], str],
        exclusive: bool,
    ) -> str:  # fmt: skip
        """Every state of a Scan along `axis` of x, each after its step, or with `exclusive` before it.

        `start` is the type of the state and of an element of x; `step` takes the names of both.
        """
        w = self.writer
        before, element = w.fresh("state"), w.fresh("element")

        def write() -> Sequence[str]:
            after = step(before, element)
            return [after, before if exclusive else after]

        body = w.body([info(before, start), info(element, start)], [start, start], write)
        way = [int(reverse)]
        attrs = {"body": body, "num_scan_inputs": 1, "scan_input_axes": [axis], "scan_output_axes": [axis]}
        attrs |= {"scan_input_directions": way, "scan_output_directions": way}
        return self.several("Scan", (state, x), 2, **attrs)[1]


# Literals of one value with more elements are an Expand of the value.
_MOST_FULL = 1024


def same(op: str, result: DType | None = None) -> Callable[[Emit], str]:
    """A row that is the operator `op`, in its own dtype or the next wider one that ONNX has it for.

    `result` is the operator's dtype where it is not that of its operands.
    """

    def write(e: Emit) -> str:
        d = computed(op, e.types[0].dtype)
        return e.back(e.op(op, *e.spread(dict.fromkeys(range(len(e.args)), d))), result or d)

    return write
