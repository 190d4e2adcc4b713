"""`run --check`: is what the program computed what the model means, and if not, which op went wrong first?

The model as written, evaluated with the target's contraction, is right. The rewritten graph is compared with it value
by value as far as it has the values of the model as written, loop bodies iteration by iteration; then the program's
outputs; and when these are wrong although rewriting is not to blame, each kernel on its own. Must not know how any
level is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import Context, DType, Graph, NDArray, Node, TensorType
from ..graph.evaluate import apply
from ..graph.ops.control import loop_counts
from ..plan import Origin, evaluate_plan
from ..plan.target import Alias, Kernel, LoopStep, Machine, Plan
from .compare import Agreement, Fault, close, same_bits
from .options import Numerics

# How the e-graph names the "rule" that a composite is its definition, which is never at fault.
DEFINITION = "def "


@dataclass(frozen=True, slots=True)
class Wrong:
    """The first wrong value: what made it wrong, its op and "file:line:col", the rule that put it there, if one did.

    `iterations` are the numbers of the loops around it, outermost first; `fired` the rules that made something equal to
    what the model computes at that place.
    """

    maker: str
    op: str
    source: str
    type: str
    fault: Fault
    rule: str = ""
    iterations: tuple[int, ...] = ()
    fired: tuple[str, ...] = ()

    def __str__(self) -> str:
        at = f" ({self.source})" if self.source else ""
        turn = f" in iteration {', '.join(map(str, self.iterations))}" if self.iterations else ""
        maker = f"the rule `{self.rule}`" if self.rule else self.maker
        what = f"the first wrong value is `{self.op}` : {self.type}{at}{turn}"
        return f"{what}, made wrong by {maker}: {self.fault}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a checked run went: each output's agreement by name, how many values were compared, what was wrong first."""

    outputs: Mapping[str, Agreement]
    compared: int
    wrong: Wrong | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked: a model at every level; `fired` are the rules that fired at each "file:line:col"."""

    written: Graph
    rewritten: Graph
    origin: Origin
    plan: Plan
    machine: Machine
    numerics: Numerics
    fired: Mapping[str, Sequence[str]]


def check(
    subject: Subject,
    inputs: Mapping[str, NDArray],
    params: Mapping[str, NDArray],
    plan_params: Mapping[str, NDArray],
    outputs: Mapping[str, NDArray],
) -> Verdict:
    """Compare what the program gave (`outputs` by name), and every level before it, with the model as written.

    `params` are those of the model, `plan_params` what the load program made of them.
    """  # fmt: skip
    judge = _Judge(subject.numerics == "exact")
    contexts = [Context(subject.machine.contraction)]
    if not judge.exact:
        contexts.append(Context(subject.machine.contraction, wide=True))
    bound = {**params, **inputs}
    written = [_Frame(subject.written, c, bound) for c in contexts]
    rewritten = _Frame(subject.rewritten, contexts[0], bound, memo=written[0].memo)
    wrong = _blamed(_compare(judge, written, rewritten, subject.origin), subject.fired)
    agreements = {
        name: judge(outputs[name], [f.value(value) for f in written], subject.written.types[value].dtype)
        for name, value in zip(output_names(subject.written), subject.written.outputs, strict=True)
    }
    if wrong is None and any(a.fault for a in agreements.values()):
        wrong = (
            _wrong_plan(judge, subject, written, bound)
            or _wrong_kernel(judge, subject, contexts, {**plan_params, **inputs})
            or _wrong_output(subject, agreements, "the program (every kernel is right on its own)")
        )
    return Verdict(agreements, judge.count, wrong)


def _blamed(wrong: Wrong | None, fired: Mapping[str, Sequence[str]]) -> Wrong | None:
    """`wrong` with the rules that fired where it is; a lone one is blamed before the definition of a composite."""
    if wrong is None:
        return None
    there = tuple(dict.fromkeys(fired.get(wrong.source, ())))
    made = "" if wrong.rule.startswith(DEFINITION) else wrong.rule
    return replace(wrong, rule=made or (there[0] if len(there) == 1 else ""), fired=there)


def output_names(graph: Graph) -> Sequence[str]:
    """The names of `graph`'s outputs, `out0`, `out1`, ... where it gives none."""
    return graph.output_names or tuple(f"out{i}" for i in range(len(graph.outputs)))


class _Judge:
    """Agreement under the numerics at hand; counts what it compares."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.count = 0

    def __call__(self, got: NDArray, right: Sequence[NDArray], dtype: DType) -> Agreement:
        """`right` is the value as written and, unless exact, the same in f64."""
        self.count += 1
        return same_bits(got, right[0], dtype) if self.exact else close(got, right[0], right[1], dtype)


_Place = tuple[int, tuple[int, ...], tuple[int, ...], str]


def _place(x: NDArray) -> _Place:
    """Where an array lies: two that are alive and lie alike hold the same."""
    return x.ctypes.data, x.shape, x.strides, x.dtype.str


class _Memo:
    """Results by op and operands: most of a rewritten graph is as written and need not be computed twice."""

    def __init__(self) -> None:
        self.rows: dict[object, tuple[Node, Sequence[NDArray], Sequence[NDArray]]] = {}

    def apply(
        self, node: Node, args: Sequence[NDArray], ctx: Context, types: Mapping[int, TensorType]
    ) -> Sequence[NDArray]:
        """`apply(node, args, ctx, types)`, remembered. A memo is for one context; it keeps operands alive."""
        key = (node.op, node.attrs, node.types, tuple(types[a] for a in node.args), tuple(map(_place, args)))
        known = self.rows.get(key)
        if known is not None and known[0].regions == node.regions:
            return known[2]
        results = apply(node, args, ctx, types)
        self.rows[key] = (node, args, results)
        return results


class _Frame:
    """A graph under evaluation, no further than asked for; frames of one context may share a memo."""

    def __init__(
        self,
        graph: Graph,
        ctx: Context,
        bound: Mapping[str, NDArray],
        given: Mapping[int, NDArray] | None = None,
        memo: _Memo | None = None,
    ):
        self.graph, self.ctx, self.bound, self.memo = graph, ctx, bound, memo or _Memo()
        self.values: dict[int, NDArray] = dict(given or {})
        self.next = 0

    def value(self, v: int) -> NDArray:
        """The value `v`; nodes before it are evaluated in order."""
        while v not in self.values:
            node = self.graph.nodes[self.next]
            self.next += 1
            if not all(out in self.values for out in node.outs):
                self.put(node, self._results(node))
        return self.values[v]

    def put(self, node: Node, results: Sequence[NDArray]) -> None:
        self.values.update(zip(node.outs, results, strict=True))

    def _results(self, node: Node) -> Sequence[NDArray]:
        if node.op in ("input", "param"):
            return (self.ctx.cast(self.bound[str(node.attr("name"))], node.type.dtype),)
        return self.memo.apply(node, [self.value(a) for a in node.args], self.ctx, self.graph.types)


# ---- rewriting -----------------------------------------------------------------------------------


def _compare(judge: _Judge, written: Sequence[_Frame], rewritten: _Frame, origin: Origin) -> Wrong | None:
    """The first value of `written` whose value in `rewritten` differs."""
    for node in written[0].graph.nodes:
        if node.op in ("input", "param"):
            continue
        wrong = _compare_loops(judge, node, written, rewritten, origin) or _compare_node(
            judge, node, written, rewritten, origin
        )
        if wrong:
            return wrong
    return None


def _compare_node(
    judge: _Judge, node: Node, written: Sequence[_Frame], rewritten: _Frame, origin: Origin
) -> Wrong | None:
    for value, t in zip(node.outs, node.types, strict=True):
        if value not in origin.values:
            continue
        partner = origin.values[value]
        if _place(rewritten.value(partner)) == _place(written[0].value(value)):
            judge.count += 1
            continue
        fault = judge(rewritten.value(partner), [f.value(value) for f in written], t.dtype).fault
        if fault:
            rule = origin.rules.get(partner, "")
            return Wrong("rewriting", node.op, node.loc, str(t), fault, rule)
    return None


def _compare_loops(
    judge: _Judge, node: Node, written: Sequence[_Frame], rewritten: _Frame, origin: Origin
) -> Wrong | None:
    """Two loops an iteration at a time; their results are kept, so that no loop runs twice."""
    partner = rewritten.graph.producers[origin.values[node.outs[0]]] if node.outs[0] in origin.values else None
    inner = origin.loops.get(partner.outs[0]) if partner is not None and node.op == "loop" else None
    if partner is None or inner is None or partner.op != "loop" or partner.attr("n") != node.attr("n"):
        return None
    turns = [_Turns(node, frame) for frame in written]
    new_turns = _Turns(partner, rewritten)
    for i in range(new_turns.n):
        frames = [t.frame(i, _Memo()) for t in turns]
        new = new_turns.frame(i, frames[0].memo)
        wrong = _compare(judge, frames, new, inner)
        if wrong:
            return replace(wrong, iterations=(i, *wrong.iterations))
        for turn, frame in zip((*turns, new_turns), (*frames, new), strict=True):
            turn.take(frame)
    for turn in (*turns, new_turns):
        turn.finish()
    return None


class _Turns:
    """A loop node of a frame, run an iteration at a time."""

    def __init__(self, node: Node, frame: _Frame) -> None:
        self.node, self.outer = node, frame
        self.n, self.carried, self.xs = loop_counts(dict(node.attrs))
        args = [frame.value(a) for a in node.args]
        self.carry = args[: self.carried]
        self.stacked = args[self.carried : self.carried + self.xs]
        self.captures = args[self.carried + self.xs :]
        self.ys: list[list[NDArray]] = [[] for _ in node.types[self.carried :]]

    def frame(self, i: int, memo: _Memo | None = None) -> _Frame:
        """The body at iteration `i`."""
        body = self.node.regions[0]
        args = [np.asarray(i, np.int32), *self.carry, *(x[i] for x in self.stacked), *self.captures]
        return _Frame(body, self.outer.ctx, {}, dict(zip((n.out for n in body.inputs), args, strict=True)), memo)

    def take(self, frame: _Frame) -> None:
        """The results of an iteration that ran."""
        outs = [frame.value(v) for v in frame.graph.outputs]
        self.carry = outs[: self.carried]
        for kept, y in zip(self.ys, outs[self.carried :], strict=True):
            kept.append(y)

    def finish(self) -> None:
        """Puts the loop's results into the frame around it."""
        types = self.node.types[self.carried :]
        ys = [np.stack(y) if y else np.empty(t.shape, t.dtype.numpy) for y, t in zip(self.ys, types, strict=True)]
        self.outer.put(self.node, [*self.carry, *ys])


# ---- the program ---------------------------------------------------------------------------------


def _wrong_plan(
    judge: _Judge, subject: Subject, written: Sequence[_Frame], bound: Mapping[str, NDArray]
) -> Wrong | None:
    """The first output that the plan's kernels, evaluated one by one, get wrong."""
    got = evaluate_plan(subject.plan, bound, bound, contraction=subject.machine.contraction)
    agreements = {
        str(value): judge(result, [f.value(value) for f in written], subject.written.types[value].dtype)
        for value, result in zip(subject.written.outputs, got, strict=True)
    }
    return _wrong_output(subject, agreements, "planning")


def _wrong_output(subject: Subject, agreements: Mapping[str, Agreement], maker: str) -> Wrong | None:
    for value, agreement in zip(subject.written.outputs, agreements.values(), strict=False):
        if agreement.fault:
            node = subject.written.producers[value]
            return Wrong(maker, node.op, node.loc, str(subject.written.types[value]), agreement.fault)
    return None


def _wrong_kernel(
    judge: _Judge, subject: Subject, contexts: Sequence[Context], bound: Mapping[str, NDArray]
) -> Wrong | None:
    """The first kernel that gives something wrong from right operands, each run alone on the machine."""
    frame = _Frame(subject.plan.graph, contexts[0], bound)
    return next(_wrong_steps(judge, subject.machine, contexts, subject.plan, frame), None)


def _wrong_steps(
    judge: _Judge, machine: Machine, contexts: Sequence[Context], plan: Plan, frame: _Frame
) -> Iterator[Wrong]:
    for step in plan.steps:
        match step:
            case Kernel():
                yield from _run_alone(judge, machine, contexts, step, [frame.value(v) for v in step.inputs])
            case LoopStep():
                turns = _Turns(plan.graph.producers[step.outputs[0]], frame)
                for i in range(turns.n):
                    inside = turns.frame(i)
                    for wrong in _wrong_steps(judge, machine, contexts, step.body, inside):
                        yield replace(wrong, iterations=(i, *wrong.iterations))
                    turns.take(inside)
            case Alias():
                pass


def _run_alone(
    judge: _Judge, machine: Machine, contexts: Sequence[Context], kernel: Kernel, operands: Sequence[NDArray]
) -> Iterator[Wrong]:
    names = output_names(kernel.body)
    body = Graph(kernel.body.name, kernel.body.nodes, kernel.body.outputs, tuple(names))
    inputs = {str(n.attr("name")): x for n, x in zip(body.inputs, operands, strict=True)}
    alone = replace(kernel, body=body, inputs=tuple(n.out for n in body.inputs), outputs=body.outputs)
    got = machine.run(machine.lower(Plan(body, (alone,))), inputs)
    right = [_Frame(body, c, inputs) for c in contexts]
    for name, value in zip(names, body.outputs, strict=True):
        fault = judge(got[name], [f.value(value) for f in right], body.types[value].dtype).fault
        if fault:
            maker = f"the program of kernel {kernel.name} ({' '.join(kernel.ops)})"
            node = body.producers[value]
            yield Wrong(maker, node.op, node.loc or kernel.source, str(body.types[value]), fault)
