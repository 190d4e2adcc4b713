"""`run --check`: is what the program computed what the model means, and if not, which op went wrong first?

The model as written, evaluated with the target's contraction, is right. Outputs are compared first; then the rewritten
graph value by value as far as it has the values of the model as written, loop bodies iteration by iteration; then, when
rewriting is not to blame, each kernel on its own. Must not know how any level is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..graph import Context, Graph, NDArray, Node
from ..graph.evaluate import apply, evaluate_all
from ..graph.ops.control import loop_counts
from ..plan.target import Alias, Kernel, LoopStep, Machine, Plan
from .compare import Agreement, Fault, close, same_bits
from .options import Numerics
from .origin import Origin


@dataclass(frozen=True, slots=True)
class Wrong:
    """The first wrong value: the level that made it, its op and "file:line:col", and the rule that put it there."""

    level: str
    op: str
    source: str
    type: str
    fault: Fault
    rule: str = ""
    iterations: tuple[int, ...] = ()

    def __str__(self) -> str:
        at = f" ({self.source})" if self.source else ""
        turn = f" in iteration {', '.join(map(str, self.iterations))}" if self.iterations else ""
        blame = f", by the rule `{self.rule}`" if self.rule else ""
        return f"the first wrong value is `{self.op}` : {self.type}{at}{turn}, made wrong by {self.level}{blame}: {self.fault}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a checked run went: each output's agreement by name, values compared inside, and what was wrong first."""

    outputs: Mapping[str, Agreement]
    compared: int
    wrong: Wrong | None = None

    @property
    def ok(self) -> bool:
        return self.wrong is None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked: a model at every level."""

    written: Graph
    rewritten: Graph
    origin: Origin
    plan: Plan
    machine: Machine
    numerics: Numerics


def check(
    subject: Subject, inputs: Mapping[str, NDArray], params: Mapping[str, NDArray], outputs: Mapping[str, NDArray]
) -> Verdict:
    """Compare what the program gave (`outputs` by name) and every level before it with the model as written."""
    walk = _Walk(subject, {**params, **inputs})
    wrong = walk.rewriting()
    agreements = {
        name: walk.judge(outputs[name], walk.written[value], walk.wide.get(value), subject.written.types[value].dtype)
        for name, value in zip(_output_names(subject.written), subject.written.outputs, strict=True)
    }
    if wrong is None:
        wrong = _wrong_output(subject, agreements) and (_wrong_kernel(subject, inputs, params) or _wrong_output(subject, agreements))
    return Verdict(agreements, walk.compared, wrong)


def _output_names(graph: Graph) -> Sequence[str]:
    return graph.output_names or tuple(f"out{i}" for i in range(len(graph.outputs)))


def _wrong_output(subject: Subject, agreements: Mapping[str, Agreement]) -> Wrong | None:
    """The first output that is wrong, the blame on the program: the levels before it were found right."""
    for value, agreement in zip(subject.written.outputs, agreements.values(), strict=True):
        if agreement.fault:
            return _wrong("the program", subject.written.producers[value], value, agreement.fault)
    return None


def _wrong(level: str, node: Node, value: int, fault: Fault, rule: str = "") -> Wrong:
    return Wrong(level, node.op, node.loc, str(node.types[node.outs.index(value)]), fault, rule)


class _Walk:
    """Evaluates the model as written (twice, once in f64) and rewritten side by side, and compares as it goes."""

    def __init__(self, subject: Subject, bound: Mapping[str, NDArray]) -> None:
        self.subject, self.bound = subject, bound
        self.exact = subject.numerics == "exact"
        contraction = subject.machine.contraction
        self.ctx, self.wide_ctx = Context(contraction), Context(contraction, wide=True)
        self.written: dict[int, NDArray] = {}
        self.wide: dict[int, NDArray] = {}
        self.compared = 0

    def judge(self, got: NDArray, written: NDArray, wide: NDArray | None, dtype: object) -> Agreement:
        self.compared += 1
        if self.exact or wide is None:
            return same_bits(got, written, dtype)  # pyright: ignore[reportArgumentType]
        return close(got, written, wide, dtype)  # pyright: ignore[reportArgumentType]

    def rewriting(self) -> Wrong | None:
        """The first value of the rewritten graph that differs from its value as written; fills `written`, `wide`."""
        s = self.subject
        return self.graphs(s.written, s.rewritten, s.origin, self.leaf, self.leaf, self.written, self.wide)

    def leaf(self, node: Node, ctx: Context) -> NDArray:
        return ctx.cast(self.bound[str(node.attr("name"))], node.type.dtype)

    def graphs(
        self, written: Graph, rewritten: Graph, origin: Origin, leaf: Leaf, new_leaf: Leaf,
        values: dict[int, NDArray], wide: dict[int, NDArray],
    ) -> Wrong | None:  # fmt: skip
        """Walk `written`, keeping `rewritten` evaluated as far as each comparison needs."""
        new = _Lazy(rewritten, self.ctx, new_leaf)
        first: Wrong | None = None
        for node in written.nodes:
            if first is None and node.op == "loop" and node.outs[0] in origin.values:
                first = self.loop(node, origin, new, values, wide)
            if not all(v in values for v in node.outs):
                self.step(node, leaf, values, wide)
            first = first or self.outs(node, origin, new, values, wide)
        return first

    def step(self, node: Node, leaf: Leaf, values: dict[int, NDArray], wide: dict[int, NDArray]) -> None:
        values.update(zip(node.outs, _results(node, values, self.ctx, leaf), strict=True))
        if not self.exact:
            wide.update(zip(node.outs, _results(node, wide, self.wide_ctx, leaf), strict=True))

    def outs(
        self, node: Node, origin: Origin, new: _Lazy, values: Mapping[int, NDArray], wide: Mapping[int, NDArray]
    ) -> Wrong | None:
        for value, t in zip(node.outs, node.types, strict=True):
            if value not in origin.values or node.op in ("input", "param"):
                continue
            partner = origin.values[value]
            fault = self.judge(new.value(partner), values[value], wide.get(value), t.dtype).fault
            if fault:
                return _wrong("rewriting", node, value, fault, origin.rules.get(partner, ""))
        return None

    def loop(
        self, node: Node, origin: Origin, new: _Lazy, values: dict[int, NDArray], wide: dict[int, NDArray]
    ) -> Wrong | None:
        """Both loops an iteration at a time; the results of the written one are put into `values` and `wide`."""
        partner = new.graph.producers[origin.values[node.outs[0]]]
        inner = origin.loops.get(partner.outs[0])
        if partner.op != "loop" or inner is None or partner.attr("n") != node.attr("n"):
            return None
        old_turns = _Turns(node, [values[a] for a in node.args], self.ctx)
        wide_turns = _Turns(node, [wide[a] for a in node.args], self.wide_ctx) if not self.exact else None
        new_turns = _Turns(partner, [new.value(a) for a in partner.args], self.ctx)
        first: Wrong | None = None
        for i in range(old_turns.n):
            old, old_wide = old_turns.leaves(i), wide_turns.leaves(i) if wide_turns else {}
            body: dict[int, NDArray] = {}
            body_wide: dict[int, NDArray] = {}
            if first is None:
                new_given = new_turns.leaves(i)
                first = self.graphs(
                    node.regions[0], partner.regions[0], inner, _given(old, old_wide), _given(new_given, {}), body, body_wide
                )
                first = first and replace(first, iterations=(i, *first.iterations))
                new_turns.take(_Lazy(partner.regions[0], self.ctx, _given(new_given, {})).outputs())
            else:
                for inside in node.regions[0].nodes:
                    self.step(inside, _given(old, old_wide), body, body_wide)
            old_turns.take([body[v] for v in node.regions[0].outputs])
            if wide_turns:
                wide_turns.take([body_wide[v] for v in node.regions[0].outputs])
        values.update(zip(node.outs, old_turns.results(), strict=True))
        if wide_turns:
            wide.update(zip(node.outs, wide_turns.results(), strict=True))
        return first


Leaf = Callable[[Node, Context], "NDArray"]


def _results(node: Node, values: Mapping[int, NDArray], ctx: Context, leaf: Leaf) -> tuple[NDArray, ...]:
    if node.op in ("input", "param"):
        return (leaf(node, ctx),)
    return apply(node, [values[a] for a in node.args], ctx)


def _given(values: Mapping[int, NDArray], wide: Mapping[int, NDArray]) -> Leaf:
    return lambda node, ctx: wide[node.out] if ctx.wide else values[node.out]
