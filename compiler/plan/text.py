"""The text form of a Plan: `parse_plan(show_plan(p)) == p`, places and dim symbols included.

    plan {
      graph "mlp" { … }
      load graph "load" { … }
      kernel "matmul_add.0" %0, %3, %4 -> %7 12.3 us { … }
      edge %7 "matmul_add.0" -> "softmax.0" two_heavy_ops "two contractions, and one matrix unit"
    }

A step's head line is for people; its exact figures stand on the `cost` line below it. Must not know
any one target.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import cast, get_args

from ..graph import Dim, Graph, parse, show, show_dim
from .target import Alias, Edge, Kernel, KernelCost, LoopStep, Plan, Reason, Step


class PlanTextError(ValueError):
    """Text that is not a Plan; the message says what was expected, and on which line."""


# ---- printing ------------------------------------------------------------------------------------


def show_plan(plan: Plan) -> str:
    """Text of `plan`, ending in a newline."""
    return "\n".join(_plan_lines(plan)) + "\n"


def _plan_lines(plan: Plan) -> Iterator[str]:
    yield "plan {"
    yield from _indented(_graph_lines(plan.graph))
    if plan.load:
        first, *rest = _graph_lines(plan.load)
        yield from _indented([f"load {first}", *rest])
    for step in plan.steps:
        yield from _indented(_step_lines(step))
    yield from (f"  {_edge_line(edge)}" for edge in plan.edges)
    yield "}"


def _graph_lines(graph: Graph) -> list[str]:
    return show(graph).splitlines()


def _indented(lines: Sequence[str] | Iterator[str]) -> Iterator[str]:
    return ("  " + line for line in lines)


def _step_lines(step: Step) -> Iterator[str]:
    match step:
        case Kernel():
            yield f"kernel {_quoted(step.name)} {_flow(step.inputs, step.outputs)} {step.cost.seconds * 1e6:.4g} us {{"
            yield f"  cost {_cost(step.cost)}"
            yield f"  ops {_quoted(list(step.ops))} at {_quoted(step.source)}"
            yield from _indented(_graph_lines(step.body))
            yield "}"
        case LoopStep():
            head = f"loop {_quoted(step.name)} {_flow(step.inputs, step.outputs)}"
            yield f"{head} n={show_dim(step.n)} carry={step.carry} xs={step.xs} {{"
            yield from _indented(_plan_lines(step.body))
            yield "}"
        case Alias():
            yield f"alias {_flow((step.source,), (step.output,))}"


def _flow(inputs: Sequence[int], outputs: Sequence[int]) -> str:
    reads, writes = (", ".join(f"%{v}" for v in vs) or "()" for vs in (inputs, outputs))
    return f"{reads} -> {writes}"


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cost(cost: KernelCost) -> str:
    units = dict(cost.units)
    return _quoted(
        {
            "seconds": cost.seconds,
            "units": units,
            "bytes_read": cost.bytes_read,
            "bytes_written": cost.bytes_written,
            "fast_bytes": cost.fast_bytes,
        }
    )


def _edge_line(edge: Edge) -> str:
    between = f"{_quoted(edge.producer)} -> {_quoted(edge.consumer)}"
    return f"edge %{edge.value} {between} {edge.reason} {_quoted(edge.detail)}"


# ---- parsing -------------------------------------------------------------------------------------

_STRING = r'("(?:[^"\\]|\\.)*")'
_FLOW = r"(\(\)|%\d+(?:, %\d+)*) -> (\(\)|%\d+(?:, %\d+)*)"
_KERNEL = re.compile(rf"kernel {_STRING} {_FLOW} .*\{{$")
_LOOP = re.compile(rf"loop {_STRING} {_FLOW} n=(\S.*) carry=(\d+) xs=(\d+) \{{$")
_ALIAS = re.compile(rf"alias {_FLOW}$")
_REASON = "|".join(get_args(Reason))
_EDGE = re.compile(rf"edge %(\d+) {_STRING} -> {_STRING} ({_REASON}) {_STRING}$")
_OPS = re.compile(rf"ops (\[.*\]) at {_STRING}$")


class _Lines:
    """Lines of one nesting level: `take` gives the next, `block` the lines inside the braces it opened."""

    def __init__(self, lines: Sequence[str], first: int) -> None:
        self.lines, self.at, self.first = lines, 0, first

    def __bool__(self) -> bool:
        return self.at < len(self.lines)

    def fail(self, wanted: str) -> PlanTextError:
        found = self.lines[self.at][:40] if self else "the end"
        return PlanTextError(f"line {self.first + self.at}: expected {wanted}, found {found!r}")

    def starts(self, word: str) -> bool:
        return bool(self) and self.lines[self.at].startswith(word)

    def take(self, wanted: str) -> str:
        if not self:
            raise self.fail(wanted)
        self.at += 1
        return self.lines[self.at - 1]

    def match(self, pattern: re.Pattern[str], wanted: str) -> re.Match[str]:
        found = pattern.match(self.lines[self.at]) if self else None
        if not found:
            raise self.fail(wanted)
        self.at += 1
        return found

    def block(self) -> _Lines:
        """What stands, two blanks further in, before the closing brace."""
        first = self.at
        while self.starts("  "):
            self.at += 1
        inside = [line[2:] for line in self.lines[first : self.at]]
        if self.take("'}'") != "}":
            self.at -= 1
            raise self.fail("'}'")
        return _Lines(inside, self.first + first)

    def graph(self, prefix: str = "") -> Graph:
        head = self.take("a graph").removeprefix(prefix)
        line = self.first + self.at - 1
        inside = self.block()
        try:
            return parse("\n".join([head, *inside.lines, "}"]))
        except ValueError as e:
            raise PlanTextError(f"the graph from line {line} on: {e}") from None


def parse_plan(text: str) -> Plan:
    """The Plan that `text` shows; PlanTextError when it shows none. Does not verify."""
    lines = _Lines(text.removesuffix("\n").split("\n"), 1)
    plan = _plan(lines)
    if lines:
        raise lines.fail("the end")
    return plan


def _plan(lines: _Lines) -> Plan:
    if lines.take("'plan {'") != "plan {":
        lines.at -= 1
        raise lines.fail("'plan {'")
    inside = lines.block()
    graph = inside.graph()
    load = inside.graph("load ") if inside.starts("load ") else None
    steps: list[Step] = []
    while inside and not inside.starts("edge "):
        steps.append(_step(inside))
    edges: list[Edge] = []
    while inside:
        edges.append(_edge(inside))
    return Plan(graph, tuple(steps), load, tuple(edges))


def _step(lines: _Lines) -> Step:
    if lines.starts("kernel "):
        return _kernel(lines)
    if lines.starts("loop "):
        return _loop(lines)
    (source,), (output,) = map(_values, lines.match(_ALIAS, "kernel, loop, alias or edge").groups())
    return Alias(output, source)


def _kernel(lines: _Lines) -> Kernel:
    name, inputs, outputs = lines.match(_KERNEL, 'kernel "name" %a -> %b … {').groups()
    inside = lines.block()
    figures = _json(inside, inside.take("cost {…}").removeprefix("cost "))
    ops, source = inside.match(_OPS, 'ops [...] at "file:line"').groups()
    body = inside.graph()
    cost = KernelCost(**cast("dict[str, object]", figures))  # pyright: ignore[reportArgumentType]
    reads, writes = _values(inputs), _values(outputs)
    return Kernel(json.loads(name), body, reads, writes, cost, tuple(json.loads(ops)), json.loads(source))


def _json(lines: _Lines, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        lines.at -= 1
        raise lines.fail("figures as JSON") from None


def _loop(lines: _Lines) -> LoopStep:
    name, inputs, outputs, n, carry, xs = lines.match(_LOOP, 'loop "name" %a -> %b n=… carry=… xs=… {').groups()
    inside = lines.block()
    expr, _, count = n.rpartition("=")
    times = Dim(int(count), expr) if expr else int(count)
    return LoopStep(json.loads(name), times, int(carry), int(xs), _values(inputs), _values(outputs), _plan(inside))


def _edge(lines: _Lines) -> Edge:
    value, producer, consumer, reason, detail = lines.match(_EDGE, "an edge with its reason").groups()
    names = json.loads(producer), json.loads(consumer)
    return Edge(int(value), *names, cast("Reason", reason), json.loads(detail))


def _values(text: str) -> tuple[int, ...]:
    return tuple(int(v[1:]) for v in text.split(", ")) if text != "()" else ()
