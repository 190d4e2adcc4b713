"""What of a graph is work, what is addressing, and what must lie in main memory; and the bodies of kernels.

Views and literals are never kernels: whoever reads through one has it in its own body. What must lie
in main memory are the graph's outputs and the operands of loops; where such a value is a view, its
copy is a kernel, unless it is a reshape, which is an alias. Must not know costs or targets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..graph import LEAVES, OPS, Graph, Node, is_composite

Role = Literal["given", "literal", "view", "loop", "op"]

BODY_NAME = "kernel"  # one name for all bodies: equal bodies then are equal values, and are priced once


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A graph read once. Positions are indices of `graph.nodes`.

    `points` are the positions that kernels must cover; `position` maps a value to its node's
    position and `bases` to the values in main memory that it is an addressing of; `resident` are
    the values that something other than a kernel reads; `aliases` are (output, source) pairs.
    """

    graph: Graph
    roles: tuple[Role, ...]
    points: tuple[int, ...]
    position: Mapping[int, int]
    bases: Mapping[int, tuple[int, ...]]
    resident: frozenset[int]
    aliases: tuple[tuple[int, int], ...]


def role(node: Node) -> Role:
    """What `node` is to a plan."""
    if node.op in ("input", "param"):
        return "given"
    if node.op in LEAVES:
        return "literal"
    if node.op == "loop":
        return "loop"
    if not is_composite(node) and OPS[node.op].cost == "view":
        return "view"
    return "op"


def anatomy(graph: Graph) -> Anatomy:
    """The anatomy of a well-formed graph."""
    roles: tuple[Role, ...] = tuple(role(n) for n in graph.nodes)
    position = {v: i for i, n in enumerate(graph.nodes) for v in n.outs}
    bases: dict[int, tuple[int, ...]] = {}
    for node, what in zip(graph.nodes, roles, strict=True):
        for v in node.outs:
            bases[v] = (v,) if what in ("given", "loop", "op") else () if what == "literal" else bases[node.args[0]]
    outside = [*graph.outputs, *(a for n, r in zip(graph.nodes, roles, strict=True) if r == "loop" for a in n.args)]
    resident: set[int] = set()
    aliases: dict[int, int] = {}
    forced: set[int] = set()
    for v in dict.fromkeys(outside):
        source = _under_reshapes(graph, position, v)
        resident.add(source)
        if source != v:
            aliases[v] = source
        if roles[position[source]] in ("view", "literal"):
            forced.add(position[source])
    points = tuple(i for i, r in enumerate(roles) if r == "op" or i in forced)
    return Anatomy(graph, roles, points, position, bases, frozenset(resident), tuple(aliases.items()))


def _under_reshapes(graph: Graph, position: Mapping[int, int], value: int) -> int:
    while graph.nodes[position[value]].op == "reshape":
        value = graph.nodes[position[value]].args[0]
    return value


def kernel_body(a: Anatomy, ops: Collection[int], outputs: Sequence[int]) -> tuple[Graph, tuple[int, ...]]:
    """The Graph of one kernel and the values it reads, in the order of the body's inputs.

    `ops` are positions; the views and literals they read through are copied in. `outputs` are values
    that `ops` make, in the order of the body's outputs.
    """
    order = _with_views(a, ops)
    inside = set(order)
    nodes = a.graph.nodes
    reads = dict.fromkeys(v for i in order for v in nodes[i].args if a.position[v] not in inside)
    new = {v: k for k, v in enumerate(reads)}
    body: list[Node] = [_input(k, a.graph, v) for v, k in new.items()]
    for i in order:
        node = nodes[i]
        args = tuple(new[v] for v in node.args)
        outs = tuple(range(len(new), len(new) + len(node.outs)))
        new.update(zip(node.outs, outs, strict=True))
        body.append(Node(node.op, args, node.attrs, node.types, outs, node.regions, node.loc))
    return Graph(BODY_NAME, tuple(body), tuple(new[v] for v in outputs)), tuple(reads)


def _with_views(a: Anatomy, ops: Collection[int]) -> list[int]:
    """`ops` and the views and literals between them and main memory, in order."""
    inside = set(ops)
    stack = list(ops)
    while stack:
        for v in a.graph.nodes[stack.pop()].args:
            i = a.position[v]
            if i not in inside and a.roles[i] in ("view", "literal"):
                inside.add(i)
                stack.append(i)
    return sorted(inside)


def _input(number: int, graph: Graph, value: int) -> Node:
    t = graph.types[value]
    return Node("input", (), (("dtype", t.dtype), ("name", f"i{number}"), ("shape", t.shape)), (t,), (number,))


def contracts(node: Node) -> bool:
    """Whether computing `node` again is out of the question: a contraction, or a composite that holds one."""
    if is_composite(node):
        return any(map(contracts, node.regions[0].nodes))
    return OPS[node.op].cost in ("contract", "control")
