"""From a Graph without composites to a GraphProto, node by node, by the rows of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....graph import Graph, NDArray, Node
from ....graph.dtypes import BOOL
from ..protos import onnx
from . import bits, contractions, elementwise, indexing, movement, ordering, random
from .control import REGIONS
from .emit import Emit, Nodes, Unexported, Write, info, live, tensor

ROWS: dict[str, Write] = {
    **elementwise.OPS, **movement.OPS, **indexing.OPS, **bits.OPS, **contractions.OPS, **ordering.OPS, **random.OPS,
}  # fmt: skip


@dataclass(slots=True)
class Writer(Nodes):
    """Writes graphs and regions; `missing` are (op, place) of the nodes that ONNX has no counterpart of."""

    missing: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def model(self, graph: Graph, params: Mapping[str, NDArray]) -> Any:
        """The GraphProto of a model: its inputs, then params without a value; params with one are initialisers."""
        values: dict[int, str] = {}
        inputs: list[Any] = []
        for leaf in (*graph.inputs, *graph.params):
            label = str(leaf.attr("name"))
            values[leaf.out] = name = self.claimed(label)
            if leaf.op == "param" and label in params:
                self.initialisers.append(tensor(name, params[label], leaf.type.dtype))
            else:
                inputs.append(info(name, leaf.type))
        names = [self.claimed(name) for name in _output_names(graph)]
        made = self.region(graph, values)
        helper = onnx().helper
        self.nodes += [helper.make_node("Identity", [v], [name]) for v, name in zip(made, names, strict=True)]
        outputs = [info(name, t) for name, t in zip(names, graph.output_types, strict=True)]
        nodes, read = live(self.nodes, names)
        values_given = [t for t in self.initialisers if t.name in read or t.name in params]
        return helper.make_graph(nodes, graph.name or "graph", inputs, outputs, initializer=values_given)

    def region(self, graph: Graph, leaves: Mapping[int, str]) -> list[str]:
        """Adds the nodes of `graph`, whose leaves have these names; the names of its outputs.

        A node without a counterpart is noted, and its results are names that nothing makes.
        """
        values = dict(leaves)
        for node in graph.nodes:
            if node.op not in ("input", "param"):
                args, types = [values[a] for a in node.args], [graph.types[a] for a in node.args]
                made = self._written(Emit(self, graph, node, args, types, values))
                values.update(zip(node.outs, made, strict=True))
        return [values[v] for v in graph.outputs]

    def _written(self, e: Emit) -> Sequence[str]:
        node = e.node
        if not any(t.size for t in node.types):
            return [e.full(False if t.dtype == BOOL else 0, t) for t in node.types]
        try:
            return self._by_row(e, node)
        except Unexported as error:
            self.missing.append((str(error), node.loc))
            return [self.fresh("missing") for _ in node.outs]

    def _by_row(self, e: Emit, node: Node) -> Sequence[str]:
        if node.op in REGIONS:
            return REGIONS[node.op](self, e)
        if node.op not in ROWS:
            raise Unexported(node.op)
        made = ROWS[node.op](e)
        return [made] if isinstance(made, str) else made


def _output_names(graph: Graph) -> Sequence[str]:
    count = len(graph.outputs)
    return graph.output_names or (["y"] if count == 1 else [f"y{i}" for i in range(count)])
