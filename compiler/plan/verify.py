"""What a well-formed Plan is. `verify_plan` returns every breach as a sentence.

- The graph, the load program and every body are well-formed graphs.
- The load program reads params only; its outputs are params of the graph, by name, type for type.
- Steps read only inputs, params and what an earlier step made; every value is made once.
- A kernel's body takes the types of what the kernel reads and gives those of what it writes; it holds
  no param and no loop.
- A loop step is a `loop` node of the graph: the same operands, results and counts; its body's graph is
  the node's region; its body has no load program.
- An alias has the dtype and the size of its source.
- Every loop node has a step; the graph's outputs are made or given.
- Kernels' and loops' names are different over the whole plan; edges name them, producer before consumer.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..graph import Graph, verify
from ..graph.ops.control import loop_counts
from .target import Alias, Edge, Kernel, LoopStep, Plan, Step


def verify_plan(plan: Plan) -> list[str]:
    """Every broken invariant of `plan`; empty when it is well formed."""
    faults = [f"graph: {f}" for f in verify(plan.graph)]
    if faults:
        return faults
    faults += _load(plan)
    made = {n.out for n in (*plan.graph.inputs, *plan.graph.params)}
    for step in plan.steps:
        faults += _step(plan.graph, step, made)
    stepped = {s.outputs for s in plan.steps if isinstance(s, LoopStep)}
    faults += [f"loop %{n.outs} has no step" for n in plan.graph.nodes if n.op == "loop" and n.outs not in stepped]
    faults += [f"output %{v} is never made" for v in plan.graph.outputs if v not in made]
    names = list(step_names(plan))
    faults += [f"two steps are called {name}" for name in sorted({n for n in names if names.count(n) > 1})]
    return [*faults, *_edges(plan)]


def step_names(plan: Plan) -> Iterator[str]:
    """Names of all kernels and loops, those of loops' bodies too, in order."""
    for step in plan.steps:
        if not isinstance(step, Alias):
            yield step.name
        if isinstance(step, LoopStep):
            yield from step_names(step.body)


def _load(plan: Plan) -> Iterator[str]:
    load = plan.load
    if load is None:
        return
    yield from (f"load program: {f}" for f in verify(load))
    if load.inputs:
        yield "the load program reads inputs"
    if not load.output_names:
        yield "the load program's outputs have no names"
    params = {str(n.attr("name")): n.type for n in plan.graph.params}
    for name, t in zip(load.output_names, load.output_types, strict=False):
        if params.get(name) != t:
            yield f"the load program gives {name} as {t}, but the graph reads {params.get(name, 'no such param')}"


def _step(graph: Graph, step: Step, made: set[int]) -> Iterator[str]:
    reads, writes = ((step.source,), (step.output,)) if isinstance(step, Alias) else (step.inputs, step.outputs)
    title = f"alias %{step.output}" if isinstance(step, Alias) else step.name
    unknown = [v for v in (*reads, *writes) if v not in graph.types]
    if unknown:
        yield f"{title}: {_list(unknown)} are no values of the graph"
        return
    yield from (f"{title} reads %{v}, which is not made before it" for v in reads if v not in made)
    yield from (f"{title} makes %{v} a second time" for v in writes if v in made)
    made.update(writes)
    match step:
        case Kernel():
            yield from _kernel(graph, step)
        case LoopStep():
            yield from _loop(graph, step)
        case Alias():
            a, b = graph.types[step.output], graph.types[step.source]
            if a.dtype != b.dtype or a.size != b.size:
                yield f"{title}: {b} cannot be read as {a}"


def _kernel(graph: Graph, kernel: Kernel) -> Iterator[str]:
    body = kernel.body
    yield from (f"{kernel.name}: body: {f}" for f in verify(body))
    yield from (f"{kernel.name}: a body holds no {n.op}" for n in body.nodes if n.op in ("param", "loop"))
    if not kernel.outputs:
        yield f"{kernel.name} writes nothing"
    sides = (
        ("reads", kernel.inputs, tuple(n.type for n in body.inputs)),
        ("writes", kernel.outputs, body.output_types),
    )
    for verb, values, types in sides:
        stated = tuple(graph.types[v] for v in values)
        if stated != types:
            yield f"{kernel.name} {verb} ({_types(stated)}), but its body has ({_types(types)})"


def _loop(graph: Graph, step: LoopStep) -> Iterator[str]:
    node = graph.producers[step.outputs[0]] if step.outputs else None
    if node is None or node.op != "loop":
        yield f"{step.name} is no loop of the graph"
        return
    if (node.args, node.outs) != (step.inputs, step.outputs):
        yield f"{step.name} has other operands or results than its node"
    if loop_counts(dict(node.attrs)) != (step.n, step.carry, step.xs):
        yield f"{step.name} has other counts than its node"
    if step.body.graph != node.regions[0]:
        yield f"{step.name}: the body planned is not the node's region"
    if step.body.load:
        yield f"{step.name}: a body has no load program of its own"
    yield from (f"{step.name}: {f}" for f in verify_plan(step.body) if not f.startswith("two steps are called"))


def _edges(plan: Plan) -> Iterator[str]:
    order = {s.name: i for i, s in enumerate(plan.steps) if not isinstance(s, Alias)}
    for edge in plan.edges:
        yield from _edge(edge, order, plan.graph)


def _edge(edge: Edge, order: dict[str, int], graph: Graph) -> Iterator[str]:
    missing = [name for name in (edge.producer, edge.consumer) if name not in order]
    if missing:
        yield f"the edge of %{edge.value} names {' and '.join(missing)}, which are no steps"
    elif order[edge.producer] >= order[edge.consumer]:
        yield f"the edge of %{edge.value} leads from {edge.producer} back to {edge.consumer}"
    if edge.value not in graph.types:
        yield f"the edge of %{edge.value}: no such value"


def _types(types: tuple[object, ...]) -> str:
    return ", ".join(map(str, types))


def _list(values: list[int]) -> str:
    return ", ".join(f"%{v}" for v in values)
