"""What the PEs do, stage by stage: a plan's kernels as launches, each a list of stages over values in SRAM.

A `Map` works on what lies in the PE. A `Scan` sends the columns of a matrix along the rows of PEs, so that every PE
sees all of them in order, and updates its result by each: a matmul, a reduction or an argmax. Must not know CSL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...compiler.graph import LEAVES, Array, Graph, Node, TensorType, expand
from ...compiler.graph.dtypes import F32
from ...compiler.plan.target import Alias, Kernel, LoopStep, Plan
from .elementwise import STORED, Recipe, clamp, copy, recipe
from .placement import ARG_OPS, REDUCTIONS, VIEWS, NotPlaced, Placement, place

SCANS = ("matmul", *REDUCTIONS, *ARG_OPS)


@dataclass(frozen=True, slots=True)
class Number:
    """An operand known when compiling."""

    value: float | int | bool


Operand = int | Number  # a value, or a number


@dataclass(frozen=True, slots=True)
class Map:
    """`out` = `recipe` of `args`, element by element."""

    node: Node
    recipe: Recipe
    out: int
    args: tuple[Operand, ...]

    @property
    def reads(self) -> tuple[int, ...]:
        """The values that it reads."""
        return tuple(a for a in self.args if isinstance(a, int))


@dataclass(frozen=True, slots=True)
class Scan:
    """`out` from the columns of `source`, all of them in order; `weights` are those of a matmul."""

    node: Node
    source: int
    out: int
    weights: int | None = None

    @property
    def reads(self) -> tuple[int, ...]:
        """The values that it reads."""
        return (self.source,) if self.weights is None else (self.source, self.weights)


Stage = Map | Scan


@dataclass(frozen=True, slots=True)
class Launch:
    """What the host starts at once: the stages of one kernel."""

    name: str
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """A plan as launches over the values of `graph`, which has every node of every kernel.

    `outputs` are the values in memory that the plan's outputs are, in order.
    """

    graph: Graph
    placements: Mapping[int, Placement]
    launches: tuple[Launch, ...]
    outputs: tuple[int, ...]

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All stages in the order in which they run."""
        return tuple(s for launch in self.launches for s in launch.stages)


def flow_of(plan: Plan) -> Flow:
    """The launches of `plan`. Raises NotPlaced when one of its ops is not yet on wse."""
    flat = _Flat()
    for leaf in (*plan.graph.inputs, *plan.graph.params):
        flat.add(leaf, leaf.outs)
    for step in plan.steps:
        match step:
            case Alias():
                made = plan.graph.producers[step.output]
                shape = (("shape", made.type.shape),)
                flat.add(Node("reshape", (step.source,), shape, made.types, made.outs, (), made.loc), made.outs)
            case Kernel():
                flat.add_kernel(step)
            case LoopStep():
                raise NotPlaced(plan.graph.producers[step.outputs[0]], "a loop is not yet on wse")
    outputs = tuple(flat.new[v] for v in plan.graph.outputs)
    return _staged(Graph(plan.graph.name, tuple(flat.nodes), outputs, plan.graph.output_names), flat.parts)


def flow_of_body(body: Graph) -> Flow:
    """The one launch of a kernel's body, as if all it reads lay in the PEs. Raises NotPlaced."""
    graph = expand(body)
    inside = frozenset(i for i, n in enumerate(graph.nodes) if n.op != "input")
    return _staged(graph, [_Part("kernel", inside, frozenset(graph.outputs))])


# ---- one graph of all kernels --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """A kernel in the flat graph: positions of its nodes, and the values that it writes."""

    name: str
    nodes: frozenset[int]
    writes: frozenset[int]


@dataclass(slots=True)
class _Flat:
    """The nodes of all kernels, one after the other; `new` has the values of the plan's graph."""

    nodes: list[Node] = field(default_factory=list[Node])
    new: dict[int, int] = field(default_factory=dict[int, int])
    parts: list[_Part] = field(default_factory=list[_Part])
    count: int = 0

    def add(self, node: Node, outs: Sequence[int], names: dict[int, int] | None = None) -> None:
        """Append `node`, whose operands `names` knows; its results become known as `outs`."""
        known = self.new if names is None else names
        fresh = tuple(range(self.count, self.count + len(outs)))
        self.nodes.append(replace(node, args=tuple(known[a] for a in node.args), outs=fresh))
        self.count += len(outs)
        known.update(zip(outs, fresh, strict=True))

    def add_kernel(self, step: Kernel) -> None:
        """Append the nodes of a kernel, composites expanded."""
        body, start = expand(step.body), len(self.nodes)
        inner = dict(zip((n.out for n in body.inputs), (self.new[v] for v in step.inputs), strict=True))
        for node in body.nodes:
            if node.op != "input":
                self.add(node, node.outs, inner)
        writes = [inner[v] for v in body.outputs]
        self.new.update(zip(step.outputs, writes, strict=True))
        self.parts.append(_Part(step.name, frozenset(range(start, len(self.nodes))), frozenset(writes)))


# ---- what is not there yet -----------------------------------------------------------------------


def _refuse_unknown(graph: Graph) -> None:
    """Raises NotPlaced at the first op of `graph` that no stage computes."""
    for node in graph.nodes:
        reason = _unknown(node, tuple(graph.types[a] for a in node.args))
        if reason:
            raise NotPlaced(node, reason)


def _unknown(node: Node, args: tuple[TensorType, ...]) -> str | None:
    odd = next((t for t in (*args, *node.types) if t.dtype not in STORED), None)
    if odd is not None and node.op in ("input", "param"):
        return f"{odd.dtype} is not yet on wse: build with another dtype, f32 say"
    if node.op in ("input", "param", "full", *VIEWS):
        return None
    if node.op == "constant":
        return None if node.type.size == 1 else "a constant of several elements is not yet on wse: make it a param"
    if odd is None and (args[0].dtype == F32 if node.op in SCANS else recipe(node, args)):
        return None
    of = f" of {args[0].dtype}" if args else ""
    to = f" to {node.type.dtype}" if node.op == "convert" else ""
    return f"{node.op}{of}{to} is not yet on wse"


# ---- stages --------------------------------------------------------------------------------------


def _staged(graph: Graph, parts: Sequence[_Part]) -> Flow:
    _refuse_unknown(graph)
    staging = _Staging(graph, place(graph))
    owner = {i: part for part in parts for i in part.nodes}
    stages: dict[str, list[Stage]] = {part.name: [] for part in parts}
    for i, node in enumerate(graph.nodes):
        part = owner.get(i)
        made = staging.stages(node, part.writes if part else frozenset())
        if part:
            stages[part.name] += made
    launches = tuple(Launch(name, tuple(made)) for name, made in stages.items())
    outputs = tuple(staging.value(v) for v in graph.outputs)
    return Flow(graph, staging.placements, launches, outputs)


@dataclass(slots=True)
class _Staging:
    """Stages of one node after the other. `roots` maps a value to the one in memory that it reads, or to a number."""

    graph: Graph
    placements: Mapping[int, Placement]
    roots: dict[int, Operand] = field(default_factory=dict[int, Operand])

    def value(self, v: int) -> int:
        """The value in memory that `v` is."""
        root = self.roots[v]
        assert isinstance(root, int), "a number stands where a value is written"
        return root

    def stages(self, node: Node, writes: frozenset[int]) -> list[Stage]:
        """What computes `node`; a view in `writes` must lie in memory as it is."""
        if node.op in LEAVES:
            self.roots[node.out] = node.out if node.op in ("input", "param") else Number(_number(node))
            return []
        if node.op in VIEWS:
            self.roots[node.out] = self.roots[node.args[0]]
            return self._as_it_is(node.out) if node.out in writes else []
        before = self._as_it_is(node.args[0]) if node.op in SCANS else []
        self.roots[node.out] = node.out
        if node.op in SCANS:
            weights = node.args[1] if node.op == "matmul" else None
            return [*before, Scan(node, self.value(node.args[0]), node.out, weights)]
        args = tuple(self.roots[a] for a in node.args)
        made = self._clamp(node, args) or recipe(node, tuple(self.graph.types[a] for a in node.args))
        assert made is not None
        return [Map(node, made, node.out, args)]

    def _clamp(self, node: Node, args: tuple[Operand, ...]) -> Recipe | None:
        number = args[-1] if args else None
        return clamp(node.op, number.value) if isinstance(number, Number) and node.type.dtype == F32 else None

    def _as_it_is(self, v: int) -> list[Stage]:
        """What makes `v` lie in memory by its own placement: nothing, or a copy."""
        root = self.roots[v]
        if isinstance(root, int) and self.placements[root] == self.placements[v]:
            return []
        self.roots[v] = v
        node = self.graph.producers[v]
        return [Map(node, copy(node.type.dtype), v, (root,))]


def _number(node: Node) -> float | int | bool:
    value = node.attr("value")
    if isinstance(value, Array):
        return np.frombuffer(value.data, value.type.dtype.numpy)[0].item()
    assert isinstance(value, int | float)
    return value
