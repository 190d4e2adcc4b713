"""Saturated e-graphs by hand: a graph, and graphs that are equal to values of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tdslc.compiler.graph import Graph
from tdslc.compiler.rewrite.egraph import EClass, ENode, Saturated, Search

_DONE = Search("saturated", 0, 0, 0)


def trivial_saturated(graph: Graph) -> Saturated:
    """`graph` with each value a class of its own."""
    return saturated(graph)


def saturated(graph: Graph, equal: Sequence[tuple[int, Graph, str]] = ()) -> Saturated:
    """`graph` and, for each (value, other, rule), the one output of `other` in the value's class.

    `other`'s inputs and params are those of `graph` by name, or values of it by names such as "%7".
    """
    e = _EGraph()
    values = e.add(graph, {}, "")
    for value, other, rule in equal:
        named = {str(n.attr("name")): values[n.out] for n in (*graph.inputs, *graph.params)}
        named |= {f"%{v}": c for v, c in values.items()}
        made = e.add(other, named, rule)
        e.union(values[value], made[other.outputs[0]])
    roots = tuple(e.find(values[v]) for v in graph.outputs)
    return Saturated(
        graph.name, e.classes(), roots, {v: e.find(c) for v, c in values.items()}, graph.output_names, _DONE
    )


class _EGraph:
    def __init__(self) -> None:
        self.parent: list[int] = []
        self.types: list = []
        self.nodes: list[list[ENode]] = []
        self.table: dict = {}

    def find(self, c: int) -> int:
        while self.parent[c] != c:
            c = self.parent[c]
        return c

    def union(self, a: int, b: int) -> None:
        a, b = sorted((self.find(a), self.find(b)))
        if a != b:
            assert self.types[a] == self.types[b]
            self.parent[b] = a
            self.nodes[a] += self.nodes[b]

    def make(self, node: ENode, types) -> int:
        key = (node.op, node.args, node.attrs, node.regions)
        if key not in self.table:
            self.table[key] = len(self.parent)
            self.parent.append(len(self.parent))
            self.types.append(types)
            self.nodes.append([node])
        return self.find(self.table[key])

    def add(self, graph: Graph, named: Mapping[str, int], rule: str) -> dict[int, int]:
        values: dict[int, int] = {}
        for n in graph.nodes:
            if n.op in ("input", "param") and n.attr("name") in named:
                values[n.out] = named[str(n.attr("name"))]
                continue
            made = self.make(ENode(n.op, tuple(values[a] for a in n.args), n.attrs, n.regions, n.loc, rule), n.types)
            if len(n.outs) == 1:
                values[n.out] = made
                continue
            for k, (v, t) in enumerate(zip(n.outs, n.types, strict=True)):
                values[v] = self.make(ENode("get", (made,), (("index", k),), (), n.loc, rule), (t,))
        return values

    def classes(self) -> dict[int, EClass]:
        found: dict[int, EClass] = {}
        for c in range(len(self.parent)):
            if self.find(c) != c:
                continue
            nodes = dict.fromkeys(replace(n, args=tuple(map(self.find, n.args))) for n in self.nodes[c])
            found[c] = EClass(c, self.types[c], tuple(nodes))
        return found
