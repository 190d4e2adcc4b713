"""From the model's Graph to the rewritten one: saturate, extract, and so on for loops' bodies, inside out.

A body is optimised once, in an e-graph of its own, as a graph whose params are what the loop passes it
of params. Must not know egglog (saturation is a function it is given), nor any one target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..graph import Graph, Node
from ..graph.ops.control import loop_counts
from ..rewrite.egraph import Saturated, Search
from .extract import ExtractionReport
from .fuse import Worth, planned
from .load_program import as_leaf, param_only
from .origin import Origin, identity
from .pricing import Pricer
from .refine import Extracted, best
from .target import Machine, PlanOptions

_CLEARLY_BETTER = 0.9  # share of the seconds as written below which the model itself cannot be the better one
_INFINITE: Worth = (float("inf"), 0, 0.0)

Saturate = Callable[[Graph], Saturated]


@dataclass(frozen=True, slots=True)
class Optimised:
    """The rewritten graph, where its values come from, and how it was found.

    `searches` are those of loops' bodies (inner first), then the graph's own.
    """

    graph: Graph
    origin: Origin
    searches: tuple[Search, ...]
    extraction: ExtractionReport


def extract(sat: Saturated, machine: Machine, options: PlanOptions, pricer: Pricer | None = None) -> Extracted:
    """The best graph found in `sat` for `machine`; never one that plans slower than the model as written."""
    pricer = pricer or Pricer(machine)
    return best(sat, pricer, lambda g, start: planned(g, pricer, options, start), options)


def optimise(
    graph: Graph, saturate: Saturate, machine: Machine, options: PlanOptions, pricer: Pricer | None = None
) -> Optimised:
    """`graph` rewritten for `machine`: the same inputs, params and outputs, in the same order.

    Never returns a graph that plans slower than `graph` does.
    """
    pricer = pricer or Pricer(machine)
    bodies = {
        n.outs: _optimise_body(n, graph, saturate, machine, options, pricer) for n in graph.nodes if n.op == "loop"
    }
    nodes = tuple(_with_body(n, bodies[n.outs].graph) if n.outs in bodies else n for n in graph.nodes)
    with_bodies = Graph(graph.name, nodes, graph.outputs, graph.output_names)
    sat = saturate(with_bodies)
    found = extract(sat, machine, options, pricer)
    candidates = (graph, with_bodies, _with_signature(found.graph, graph))
    costs = [*_written_worths(graph, with_bodies, found, pricer, options), found.worth]
    chosen = min(range(len(candidates)), key=lambda k: costs[k])
    searches = (*(s for b in bodies.values() for s in b.searches), sat.search)
    inner = [b.extraction for b in bodies.values()] if chosen else []
    report = _joined(found.report, costs[chosen][0], [*inner, *([found.report] if chosen == 2 else [])])
    if not chosen:
        return Optimised(graph, identity(graph), searches, report)
    whence = found.origin if chosen == 2 else Origin({v: v for v in graph.types})
    return Optimised(candidates[chosen], _with_loops(whence, candidates[chosen], bodies.values()), searches, report)


def _written_worths(
    graph: Graph, with_bodies: Graph, found: Extracted, pricer: Pricer, options: PlanOptions
) -> tuple[Worth, Worth]:
    """What the model takes as written, and with its loops' bodies rewritten; infinite where that is clearly worse.

    Extraction has planned the model as written but for values that it computes twice: these do not make it so much
    better, and planning it once more takes as long as anything here.
    """
    if found.worth[0] < _CLEARLY_BETTER * found.written[0]:
        return _INFINITE, _INFINITE
    worth = planned(graph, pricer, options).worth
    return worth, worth if with_bodies == graph else planned(with_bodies, pricer, options).worth


def _with_loops(whence: Origin, graph: Graph, bodies: Iterable[Optimised]) -> Origin:
    """`whence` with the origins of loops' bodies, told by the body: equal ones have equal origins."""
    origins = {body.graph: body.origin for body in bodies}
    loops = {n.outs[0]: origins[n.regions[0]] for n in graph.nodes if n.op == "loop" and n.outs}
    return Origin(whence.values, whence.rules, loops)


def _joined(report: ExtractionReport, cost: float, used: Iterable[ExtractionReport]) -> ExtractionReport:
    """The outer graph's report at `cost`, with the rules that `used` of all levels tell."""
    used = list(used)
    counts: dict[str, int] = {}
    for r in used:
        for rule, count in r.rules_used.items():
            counts[rule] = counts.get(rule, 0) + count
    tried = report.tried + sum(r.tried for r in used if r is not report)
    proven = report.proven and all(r.proven for r in used)
    return ExtractionReport(report.method, cost, min(report.bound, cost), proven, dict(sorted(counts.items())), tried)


# ---- loops' bodies -------------------------------------------------------------------------------


def _optimise_body(
    node: Node, graph: Graph, saturate: Saturate, machine: Machine, options: PlanOptions, pricer: Pricer
) -> Optimised:
    """The body as a graph of its own, what it is passed of params being its params."""
    body = node.regions[0]
    loaded = param_only(graph)
    _, carry, _ = loop_counts(dict(node.attrs))
    passed = {
        i.out for k, (i, a) in enumerate(zip(body.inputs[1:], node.args, strict=True)) if k >= carry and a in loaded
    }
    as_params = tuple(as_leaf(m, "param") if m.op == "input" and m.out in passed else m for m in body.nodes)
    standing = Graph(body.name, as_params, body.outputs, body.output_names)
    done = optimise(standing, saturate, machine, options, pricer)
    return Optimised(_with_signature(done.graph, body), done.origin, done.searches, done.extraction)


def _with_body(node: Node, body: Graph) -> Node:
    return Node(node.op, node.args, node.attrs, node.types, node.outs, (body,), node.loc)


def _with_signature(graph: Graph, model: Graph) -> Graph:
    """`graph` with its leaves as `model` has them: all of them, first, in that order; matched by name."""
    here = {str(n.attr("name")): n for n in (*graph.inputs, *graph.params)}
    fresh = max((v for n in graph.nodes for v in n.outs), default=-1) + 1
    leaves: list[Node] = []
    for n in _leaves(model):
        mine = here.pop(str(n.attr("name")), None)
        value = mine.out if mine else fresh + len(leaves)
        leaves.append(Node(n.op, (), n.attrs, n.types, (value,), (), n.loc))
    assert not here, f"extraction made up the leaves {', '.join(here)}"
    others = (n for n in graph.nodes if n.op not in ("input", "param"))
    return Graph(model.name, (*leaves, *others), graph.outputs, model.output_names)


def _leaves(graph: Graph) -> Sequence[Node]:
    return [n for n in graph.nodes if n.op in ("input", "param")]
