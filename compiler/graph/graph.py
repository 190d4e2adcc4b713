"""Graph: the level every model lives on, as frozen values in SSA form.

A Graph is a list of nodes in execution order. Values are ints; each node lists the values it reads
and the values it makes. `input` and `param` nodes are the leaves. A node with regions is either a
`loop` (its region is the body) or a composite (its one region is its definition; its meaning is
that region's meaning). Must not know languages, egglog or targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from .dtypes import DType
from .types import TensorType

# How deep regions may lie in regions: far beyond any model, and within Python's stack.
MAX_REGION_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Array:
    """A literal tensor: dense little-endian row-major bytes of `type`. Hashable, unlike ndarray.

    4-bit elements take a byte each, as in ml_dtypes arrays.
    """

    type: TensorType
    data: bytes


Attr: TypeAlias = "int | float | str | bool | DType | Array | tuple[Attr, ...] | None"
Attrs: TypeAlias = "tuple[tuple[str, Attr], ...]"


def attr_key(value: Attr) -> object:
    """`value` for tables and comparisons: equal keys mean the same attribute, and only they do.

    Python's own == takes 1, 1.0 and True for one, and 0.0 and -0.0, but tells a NaN from itself. A Dim is its value.
    """
    match value:
        case bool():
            return ("bool", value)
        case float():
            return ("float", float.hex(value))
        case tuple():
            return tuple(map(attr_key, value))
        case _:
            return value


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. `attrs` are sorted by name; `loc` is "file:line:col" of the source, or "".

    Nodes are equal when all but `loc` is, attributes as `attr_key` has them.
    """

    op: str
    args: tuple[int, ...]
    attrs: Attrs
    types: tuple[TensorType, ...]
    outs: tuple[int, ...]
    regions: tuple[Graph, ...] = ()
    loc: str = field(default="", compare=False)

    def _key(self) -> tuple[object, ...]:
        attrs = tuple((name, attr_key(value)) for name, value in self.attrs)
        return (self.op, self.args, self.outs, self.types, attrs, self.regions)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Node) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def attr(self, name: str) -> Attr:
        """The attribute called `name`; KeyError when absent."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(f"{self.op} has no attribute {name}")

    @property
    def out(self) -> int:
        """The only result; ValueError when there are several."""
        (only,) = self.outs
        return only

    @property
    def type(self) -> TensorType:
        """The type of the only result; ValueError when there are several."""
        (only,) = self.types
        return only


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order and the values returned, with the names they are returned under."""

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    output_names: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Graphs key caches; hashing all nodes each time would cost more than what is cached.
        return hash((self.name, self.nodes, self.outputs, self.output_names))

    @cached_property
    def types(self) -> dict[int, TensorType]:
        """Type of each value."""
        return {v: t for n in self.nodes for v, t in zip(n.outs, n.types, strict=True)}

    @cached_property
    def producers(self) -> dict[int, Node]:
        """The node that makes each value."""
        return {v: n for n in self.nodes for v in n.outs}

    @cached_property
    def users(self) -> dict[int, tuple[Node, ...]]:
        """The nodes that read each value, each once, in order; outputs are not users."""
        found: dict[int, list[Node]] = {v: [] for v in self.producers}
        for n in self.nodes:
            for v in dict.fromkeys(n.args):
                found[v].append(n)
        return {v: tuple(ns) for v, ns in found.items()}

    @cached_property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if n.op == "input")

    @cached_property
    def params(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if n.op == "param")

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(self.types[v] for v in self.outputs)

    def __getstate__(self) -> dict[str, object]:
        return {k: self.__dict__[k] for k in ("name", "nodes", "outputs", "output_names")}


def make_attrs(attrs: Mapping[str, Attr]) -> Attrs:
    """`attrs` in the canonical order of Node.attrs."""
    return tuple(sorted(attrs.items()))


def live(graph: Graph) -> Graph:
    """`graph` without nodes that no output needs; inputs and params stay (they are the signature)."""
    needed = set(graph.outputs)
    kept: list[Node] = []
    for n in reversed(graph.nodes):
        if n.op not in ("input", "param") and needed.isdisjoint(n.outs):
            continue
        kept.append(n)
        needed.update(n.args)
    return Graph(graph.name, tuple(reversed(kept)), graph.outputs, graph.output_names)


def renumber(graph: Graph) -> Graph:
    """`graph` with values numbered 0, 1, 2, … in order, in its regions too."""
    new: dict[int, int] = {}
    nodes: list[Node] = []
    for n in graph.nodes:
        args = tuple(new[a] for a in n.args)
        for v in n.outs:
            new[v] = len(new)
        outs = tuple(new[v] for v in n.outs)
        nodes.append(Node(n.op, args, n.attrs, n.types, outs, tuple(map(renumber, n.regions)), n.loc))
    return Graph(graph.name, tuple(nodes), tuple(new[v] for v in graph.outputs), graph.output_names)


def region_inputs(args: Sequence[TensorType], names: Iterable[str] = ()) -> list[tuple[str, TensorType]]:
    """Names and types for a region that takes `args` in order; missing names are made up."""
    given = list(names)
    return [(given[i] if i < len(given) else f"a{i}", t) for i, t in enumerate(args)]
