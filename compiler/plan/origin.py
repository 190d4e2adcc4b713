"""Where the values of a rewritten graph come from: what a check follows from the model as written.

A JSON form lies beside the graph, so that it can be followed long after. Must not know how rewriting
or extraction work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..graph import Graph


@dataclass(frozen=True, slots=True)
class Origin:
    """How a rewritten graph relates to the graph as written.

    `values` gives for a value as written the rewritten value that equals it (absent when none was kept); `rules` for a
    rewritten value the rule that made it, when one did; `loops` for the first result of a rewritten loop the same of
    its body.
    """

    values: Mapping[int, int]
    rules: Mapping[int, str] = field(default_factory=dict[int, str])
    loops: Mapping[int, Origin] = field(default_factory=dict[int, "Origin"])

    def to_json(self) -> dict[str, Any]:
        """JSON values; `from_json` reads them back."""
        return {
            "values": [[a, b] for a, b in sorted(self.values.items())],
            "rules": [[value, rule] for value, rule in sorted(self.rules.items())],
            "loops": [[value, inner.to_json()] for value, inner in sorted(self.loops.items())],
        }


def from_json(value: Mapping[str, Any]) -> Origin:
    """The Origin that `to_json` gave; KeyError, TypeError or ValueError when it is none."""
    return Origin(
        {int(a): int(b) for a, b in value["values"]},
        {int(v): str(rule) for v, rule in value["rules"]},
        {int(v): from_json(inner) for v, inner in value["loops"]},
    )


def identity(graph: Graph) -> Origin:
    """The origin of a graph that was not rewritten."""
    loops = {n.outs[0]: identity(n.regions[0]) for n in graph.nodes if n.op == "loop" and n.outs}
    return Origin({v: v for v in graph.types}, {}, loops)
