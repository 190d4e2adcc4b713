"""From saturated e-graphs to an Origin: which value as written each rewritten value equals, and by which rule.

A rewritten graph's nodes are nodes of the e-graph, so each is found there by its op, attributes and operands' classes
(the e-graph is closed under congruence). Must not know egglog, nor how one node of a class was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..graph import Attrs, Graph, Node
from ..rewrite import ENode, Saturated
from .origin import Origin

_Key = tuple[str, tuple[int, ...], Attrs]


class Recorder:
    """Wraps a saturating function and remembers what it answered, for each graph it was asked about."""

    def __init__(self, saturate: Callable[[Graph], Saturated]) -> None:
        self._saturate = saturate
        self._asked: list[tuple[Graph, Saturated]] = []

    def __call__(self, graph: Graph) -> Saturated:
        found = self._saturate(graph)
        self._asked.append((graph, found))
        return found

    def answer(self, written: Graph) -> Saturated | None:
        """What was answered for `written`, whose loops' bodies and leaves may have been changed before it was asked."""
        return next((sat for graph, sat in self._asked if _shape(graph) == _shape(written)), None)


def origin(written: Graph, rewritten: Graph, recorder: Recorder) -> Origin:
    """How `rewritten` relates to `written`; values whose class is not known are left out."""
    sat = recorder.answer(written)
    if sat is None:
        return Origin({})
    known = _Index(sat)
    classes, rules = known.classes_of(rewritten)
    first: dict[int, int] = {}
    for value, cid in classes.items():
        first.setdefault(cid, value)
    values = {v: first[c] for v, c in sorted(sat.values.items()) if c in first}
    return Origin(values, rules, _loops(written, rewritten, values, recorder))


def _loops(written: Graph, rewritten: Graph, values: Mapping[int, int], recorder: Recorder) -> dict[int, Origin]:
    found: dict[int, Origin] = {}
    for node in written.nodes:
        partner = rewritten.producers[values[node.outs[0]]] if node.outs and node.outs[0] in values else None
        if node.op == "loop" and partner is not None and partner.op == "loop":
            found[partner.outs[0]] = origin(node.regions[0], partner.regions[0], recorder)
    return found


def _shape(graph: Graph) -> tuple[object, ...]:
    """What stays of a graph when its leaves turn into params and its loops' bodies are optimised."""
    nodes = tuple((n.op, n.args, n.attrs, n.outs) for n in graph.nodes if n.op not in ("input", "param"))
    leaves = tuple((str(n.attr("name")), n.outs) for n in graph.nodes if n.op in ("input", "param"))
    return leaves, nodes, graph.outputs


class _Index:
    """An e-graph's nodes by what they are."""

    def __init__(self, sat: Saturated) -> None:
        self.sat = sat
        self.nodes: dict[_Key, tuple[int, ENode]] = {}
        self.leaves: dict[str, int] = {}
        for cid, c in sat.classes.items():
            for node in c.nodes:
                self.nodes.setdefault((node.op, node.args, node.attrs), (cid, node))
                if node.op in ("input", "param"):
                    self.leaves.setdefault(str(dict(node.attrs)["name"]), cid)

    def classes_of(self, graph: Graph) -> tuple[dict[int, int], dict[int, str]]:
        """The class of each value of `graph` that is known, and the rule that made its node."""
        classes: dict[int, int] = {}
        rules: dict[int, str] = {}
        for node in graph.nodes:
            cid, rule = self._find(node, classes)
            if cid is None:
                continue
            for value, of_value in zip(node.outs, self._results(cid, node), strict=True):
                if of_value is not None:
                    classes[value] = of_value
                    rules[value] = rule
        return classes, {v: rule for v, rule in rules.items() if rule}

    def _find(self, node: Node, classes: Mapping[int, int]) -> tuple[int | None, str]:
        if node.op in ("input", "param"):
            return self.leaves.get(str(node.attr("name"))), ""
        if any(a not in classes for a in node.args):
            return None, ""
        cid, found = self.nodes.get((node.op, tuple(classes[a] for a in node.args), node.attrs), (None, None))
        return cid, found.rule or self._joined(cid) if cid is not None and found is not None else ""

    def _joined(self, cid: int) -> str:
        """The rules that put nodes into the class: one of them made a node as written equal to another."""
        return " or ".join(_ordered(n.rule for n in self.sat.classes[cid].nodes if n.rule))

    def _results(self, cid: int, node: Node) -> Sequence[int | None]:
        if len(node.outs) == 1:
            return (cid,)
        gets = [self.nodes.get(("get", (cid,), (("index", i),))) for i in range(len(node.outs))]
        return [found[0] if found else None for found in gets]


def _ordered(names: Iterable[str]) -> list[str]:
    return sorted(set(names))
