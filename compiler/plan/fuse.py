"""From a rewritten Graph to a Plan: the load program split off, kernels chosen, named and put in order.

Every value that still goes through main memory between two kernels gets an Edge with the reason.
Must not know any one target, nor rewriting.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from ..graph import Graph, Node, is_composite, live, renumber
from ..graph.ops.control import loop_counts
from ..source import Diagnostic, DiagnosticError
from .anatomy import Anatomy, anatomy, contracts, kernel_body, role
from .load_program import split_load
from .merge import SECONDS_DIGITS, Blocked, Fusion, Group, Known, Recipe, Unplannable, traffic
from .pricing import Pricer, one_op
from .target import Alias, Edge, Kernel, LoopStep, Machine, Plan, PlanOptions, Reason, Refusal, Step

_NAMED_OPS = 3  # ops that a kernel's name spells out


Worth = tuple[float, int, float]


@dataclass(frozen=True, slots=True)
class Fused:
    """Kernels chosen for a graph, not yet named: the search's final state, and its loops' bodies by position.

    `worth` is what all of it takes, less being better: seconds, bytes of main memory, and busy seconds over all units,
    rounded to where sums can be compared.
    """

    fusion: Fusion
    bodies: Mapping[int, Fused]
    worth: Worth


def plan(graph: Graph, machine: Machine, options: PlanOptions, pricer: Pricer | None = None) -> Plan:
    """The Plan of `graph` on `machine`: never slower, by its estimates, than one kernel an op.

    `options.fuse` off leaves one kernel an op. DiagnosticError (E0410) when the machine cannot run an
    op even alone.
    """
    pricer = pricer or Pricer(machine)
    run_time, load = split_load(graph)
    run_time = renumber(runnable(run_time, pricer))
    made = _assemble(fused(run_time, pricer, options), _Names(), options)
    return Plan(made.graph, made.steps, renumber(load) if load else None, made.edges)


def unfused_plan(graph: Graph, machine: Machine, pricer: Pricer | None = None) -> Plan:
    """The baseline: `graph` as written, one kernel an op, composites whole, views free, the load program split off."""
    return plan(graph, machine, PlanOptions(fuse=False), pricer)


# A value of a graph, or of a composite's definition in it: the composite's first value, then its number inside.
Name = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """A kernel of a plan, by names of what it makes, alone writes, and reads; `key` is what its price hangs on."""

    makes: frozenset[Name]
    owns: frozenset[Name]
    reads: frozenset[Name]
    key: Hashable

    def renamed(self, new: Mapping[int, int]) -> Outline:
        """The kernel in a graph where value v is `new[v]`; names that are not there are left out."""

        def there(names: frozenset[Name]) -> frozenset[Name]:
            return frozenset((new[n], *rest) for n, *rest in names if n in new)

        return Outline(there(self.makes), there(self.owns), there(self.reads), self.key)


@dataclass(frozen=True, slots=True)
class Planned:
    """What a graph's plan takes, and its kernels; loops' bodies are not told."""

    worth: Worth
    kernels: tuple[Outline, ...] = ()


def planned(graph: Graph, pricer: Pricer, options: PlanOptions, start: Sequence[Outline] = ()) -> Planned:
    """`plan(graph, …)` by the machine's estimates, without making it; infinitely dear when it cannot be planned.

    With `start`, kernels of a graph like this one, the search has less to do, and may find something else.
    """
    try:
        run_time, inner = _runnable(split_load(graph)[0], pricer)
        values = {name: v for v, name in inner.items()}

        def there(names: Iterable[Name]) -> frozenset[int]:
            return frozenset(n[0] if len(n) == 1 else values.get(n, -1) for n in names)

        known = [Known(there(k.makes), there(k.owns), there(k.reads), k.key) for k in start]
        found = fused(run_time, pricer, options, known)
    except DiagnosticError:
        return Planned((float("inf"), 0, 0.0))

    def names(made: Iterable[int]) -> frozenset[Name]:
        return frozenset(inner.get(v, (v,)) for v in made)

    kernels = (Outline(names(k.values), names(k.owned), names(k.reads), k.key) for k in found.fusion.known())
    return Planned(found.worth, tuple(kernels))


def plan_seconds(made: Plan) -> float:
    """Estimated seconds of a plan: its kernels', loops' bodies times their iterations."""
    total = 0.0
    for step in made.steps:
        if isinstance(step, Kernel):
            total += step.cost.seconds
        elif isinstance(step, LoopStep):
            total += step.n * plan_seconds(step.body)
    return total


# ---- choosing ------------------------------------------------------------------------------------


def runnable(graph: Graph, pricer: Pricer) -> Graph:
    """`graph` without dead nodes, and with composites that the machine refuses replaced by their definitions.

    What is not replaced keeps its values.
    """
    return _runnable(graph, pricer)[0]


def _runnable(graph: Graph, pricer: Pricer) -> tuple[Graph, dict[int, Name]]:
    """`runnable`, and the names of the values that were within composites."""
    graph = live(graph)
    names: dict[int, Name] = {}
    fresh = count(max((v for n in graph.nodes for v in n.outs), default=-1) + 1)
    new: dict[int, int] = {}
    nodes: list[Node] = []
    for n in graph.nodes:
        args = tuple(new.get(a, a) for a in n.args)
        if is_composite(n) and _refused(n, graph, pricer):
            inner = runnable(n.regions[0], pricer)
            before = len(nodes)
            new.update(zip(n.outs, _inlined(inner, args, n.loc, fresh, nodes), strict=True))
            within = (v for m in nodes[before:] for v in m.outs)
            names.update((v, (n.outs[0], k)) for k, v in enumerate(within))
        elif n.op == "loop":
            nodes.append(Node(n.op, args, n.attrs, n.types, n.outs, (runnable(n.regions[0], pricer),), n.loc))
        else:
            nodes.append(Node(n.op, args, n.attrs, n.types, n.outs, n.regions, n.loc) if args != n.args else n)
    outputs = tuple(new.get(v, v) for v in graph.outputs)
    return Graph(graph.name, tuple(nodes), outputs, graph.output_names), names


def _inlined(region: Graph, args: Sequence[int], loc: str, fresh: Iterator[int], nodes: list[Node]) -> list[int]:
    """Puts `region`'s nodes, its inputs being `args`, at the end of `nodes`; returns its outputs there."""
    new = dict(zip((i.out for i in region.inputs), args, strict=True))
    for m in region.nodes:
        if m.op == "input":
            continue
        outs = tuple(next(fresh) for _ in m.outs)
        nodes.append(Node(m.op, tuple(new[a] for a in m.args), m.attrs, m.types, outs, m.regions, m.loc or loc))
        new.update(zip(m.outs, outs, strict=True))
    return [new[v] for v in region.outputs]


def _refused(node: Node, graph: Graph, pricer: Pricer) -> bool:
    args = [graph.types[a] for a in node.args]
    return isinstance(pricer.body(one_op(node.op, node.attrs, args, node.types, node.regions)), Refusal)


def fused(graph: Graph, pricer: Pricer, options: PlanOptions, start: Sequence[Known] = ()) -> Fused:
    """Kernels for a `runnable` graph, beginning with `start`, and for the bodies of its loops."""
    a = anatomy(graph)
    bodies = {i: _fused_body(n.regions[0], pricer, options) for i, n in enumerate(graph.nodes) if role(n) == "loop"}
    try:
        fusion = Fusion(a, pricer, start)
    except Unplannable as e:
        raise DiagnosticError(_cannot_run(graph.nodes[e.position], e.refusal, pricer.machine)) from None
    if options.fuse:
        fusion.run()
    totals = [(g.cost.seconds, traffic(g.cost), sum(g.cost.units.values())) for g in fusion.groups.values()]
    for i, body in bodies.items():
        n = loop_counts(dict(graph.nodes[i].attrs))[0]
        seconds, moved, busy = body.worth
        totals.append((n * seconds, n * moved, n * busy))
    seconds, moved, busy = (sum(column) for column in zip((0.0, 0, 0.0), *totals, strict=True))
    return Fused(fusion, bodies, (round(seconds, SECONDS_DIGITS), int(moved), round(busy, SECONDS_DIGITS)))


def _fused_body(body: Graph, pricer: Pricer, options: PlanOptions) -> Fused:
    """`fused(body, …)`, searched once for equal bodies: a loop stands in most of the graphs that are tried."""
    return pricer.once(("fused", body, _places(body), options), lambda: fused(body, pricer, options))


def _places(graph: Graph) -> tuple[object, ...]:
    """Where the nodes of a graph and of the loops in it come from, in which equal graphs may differ."""
    return tuple((n.loc, *map(_places, n.regions)) if n.op == "loop" else n.loc for n in graph.nodes)


def _cannot_run(node: Node, refusal: Refusal, machine: Machine) -> Diagnostic:
    at = f" ({node.loc})" if node.loc else ""
    return Diagnostic("E0410", f"{machine.spec} cannot run {node.op}{at}: {refusal.detail}")


# ---- putting together ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Names:
    """Gives kernels and loops names that are different over the whole plan."""

    counts: dict[str, int] = field(default_factory=dict[str, int])

    def fresh(self, base: str) -> str:
        number = self.counts.get(base, 0)
        self.counts[base] = number + 1
        return f"{base}.{number}"


def _assemble(chosen: Fused, names: _Names, options: PlanOptions) -> Plan:
    fusion = chosen.fusion
    a = fusion.a
    titles: dict[int, str] = {}
    steps: list[Step] = []
    pending = dict(a.aliases)
    made = {v for n in (*a.graph.inputs, *a.graph.params) for v in n.outs}
    steps += _due_aliases(pending, made)
    for gid in _in_order(fusion):
        group = fusion.groups[gid]
        if group.fixed:
            step: Step = _loop_step(chosen, group, names, options)
        else:
            step = _kernel(a, group, names)
        titles[gid] = step.name
        steps.append(step)
        made.update(step.outputs)
        steps += _due_aliases(pending, made)
    return Plan(a.graph, tuple(steps), None, tuple(_edges(fusion, titles, options)))


def _due_aliases(pending: dict[int, int], made: set[int]) -> list[Alias]:
    due = [Alias(output, source) for output, source in pending.items() if source in made]
    for alias in due:
        del pending[alias.output]
    return due


def _in_order(fusion: Fusion) -> Iterator[int]:
    """Groups after what they read; among those that are ready, the one whose last op stands first in the graph."""
    makers = {g: {fusion.owner[p] for p in fusion.producers(group)} for g, group in fusion.groups.items()}
    after: dict[int, list[int]] = {g: [] for g in fusion.groups}
    for g, before in makers.items():
        for b in before:
            after[b].append(g)
    waits = {g: len(before) for g, before in makers.items()}
    ready = [(max(fusion.groups[g].ops), g) for g, n in waits.items() if not n]
    heapify(ready)
    while ready:
        _, gid = heappop(ready)
        yield gid
        for g in after[gid]:
            waits[g] -= 1
            if not waits[g]:
                heappush(ready, (max(fusion.groups[g].ops), g))


def _kernel(a: Anatomy, group: Group, names: _Names) -> Kernel:
    body, inputs = kernel_body(a, group.ops, group.writes)
    nodes = [a.graph.nodes[i] for i in sorted(group.ops)]
    ops = tuple(n.op for n in nodes)
    return Kernel(names.fresh(title(nodes)), body, inputs, group.writes, group.cost, ops, _source(nodes))


def _loop_step(chosen: Fused, group: Group, names: _Names, options: PlanOptions) -> LoopStep:
    (position,) = group.ops
    node = chosen.fusion.a.graph.nodes[position]
    _, carry, xs = loop_counts(dict(node.attrs))
    n = node.attr("n")
    assert isinstance(n, int)
    name = names.fresh("loop")
    return LoopStep(name, n, carry, xs, node.args, node.outs, _assemble(chosen.bodies[position], names, options))


def title(nodes: Iterable[Node]) -> str:
    """A short readable name for a kernel: its first few ops, contractions before others, and how many more kinds."""
    heavy_first = sorted(nodes, key=lambda n: not contracts(n))
    different = list(dict.fromkeys(re.sub(r"\W", "_", n.op) for n in heavy_first))
    more = f"_and_{len(different) - _NAMED_OPS}_more" if len(different) > _NAMED_OPS else ""
    return "_".join(different[:_NAMED_OPS]) + more


def _source(nodes: list[Node]) -> str:
    """ "file:line" of the last node that has a place."""
    located = [n.loc for n in nodes if n.loc]
    return located[-1].rpartition(":")[0] if located else ""


# ---- reasons -------------------------------------------------------------------------------------


def _edges(fusion: Fusion, titles: Mapping[int, str], options: PlanOptions) -> Iterator[Edge]:
    reasons: dict[tuple[int, int], tuple[Reason, str]] = {}
    for gid in titles:
        for v in fusion.groups[gid].writes:
            for reader in sorted(fusion.readers[v], key=list(titles).index):
                if (gid, reader) not in reasons:
                    reasons[gid, reader] = _reason(fusion, gid, reader, options)
                yield Edge(v, titles[gid], titles[reader], *reasons[gid, reader])


def _reason(fusion: Fusion, producer: int, reader: int, options: PlanOptions) -> tuple[Reason, str]:
    """Why the two are not one kernel."""
    if not options.fuse:
        return "illegal", "fusion is switched off"
    move = fusion.evaluate(Recipe("join", (producer, reader)))
    if isinstance(move, Blocked):
        return move.reason, move.detail
    before = sum(fusion.groups[g].cost.seconds for g in move.removed)
    figures = f"one kernel would take {_us(before - move.gain)}, {_count(len(move.removed))} take {_us(before)}"
    readers = len(fusion.successors(producer))
    if readers > 1:
        return "multi_use", f"{readers} kernels read what this one writes, and {figures}"
    return "costlier", figures


def _count(n: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(n, str(n))


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"
