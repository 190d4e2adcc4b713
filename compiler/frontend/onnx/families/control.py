"""If, Loop and Scan. A branch whose condition is known is taken at import; a loop whose count is known is a `loop`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph import Builder, Graph, TensorType, forms
from ....graph.dtypes import BOOL, I32, I64
from ..call import Call, Value
from ..table import handles

# Trips up to which a loop whose carried shapes change is unrolled.
_MOST_UNROLLED = 64


def _regions(
    n: Call, made: Sequence[tuple[Graph, list[Value]]], takes: Sequence[TensorType]
) -> tuple[list[Graph], list[int]]:
    """Regions that take the same captured values after `takes`, and these values."""
    every = list(dict.fromkeys(v for _, captured in made for v in captured))
    rebuilt: list[Graph] = []
    for graph, captured in made:
        b = Builder(graph.name)
        own = [b.input(f"x{i}", t) for i, t in enumerate(takes)]
        outer = {v: b.input(f"outer{i}", v.type) for i, v in enumerate(every)}
        rebuilt.append(b.finish(b.inline(graph, (*own, *(outer[v] for v in captured)))))
    return rebuilt, [n.emitter.id(v) for v in every]


@handles("If")
def if_(n: Call) -> Sequence[int | Value]:
    """One of two graphs; a `cond` when which one is known at run time only."""
    known = n.known(0)
    if known is not None:
        return n.scope.bodies.inline(n, n.need("then_branch" if bool(known.reshape(-1)[0]) else "else_branch"), {})
    made = [n.scope.bodies.region(n, n.need(name), ()) for name in ("then_branch", "else_branch")]
    (then, other), outer = _regions(n, made, ())
    if then.output_types != other.output_types:
        shown = [", ".join(map(str, g.output_types)) for g in (then, other)]
        n.refuse(f"its branches give different types, ({shown[0]}) and ({shown[1]})", "fix the condition with `--bind`")
    test = forms.reshape(n.b, n.x(0), ())
    return n.b.add("cond", (test, *outer), regions=(then, other))


# ---- Loop ----------------------------------------------------------------------------------------


def _always(graph: Graph) -> bool:
    """Whether a body says go on whatever happens: its first result is true, or the condition it was given."""
    node = graph.producers[graph.outputs[0]]
    if node.op == "input":
        return node.out == graph.inputs[1].out
    return node.op == "full" and bool(node.attr("value"))


@handles("Loop")
def loop(n: Call) -> Sequence[int | Value]:
    """A body repeated up to M times while its condition holds; scan outputs are stacked."""
    trips, start = n.known(0), n.known(1)
    carried = [n.tensor_value(i) for i in range(2, n.count)]
    body = n.need("body")
    names = [str(i.name) for i in body.input]
    if len(names) != 2 + len(carried):
        n.refuse(f"its body takes {len(names)} values, and is given {2 + len(carried)}", code="E1104")
    if start is not None and n.has(1) and not bool(start.reshape(-1)[0]):
        trips, start = np.zeros((), np.int64), None
    takes = [(names[0], TensorType(I64, ())), (names[1], TensorType(BOOL, ())),
             *((name, v.type) for name, v in zip(names[2:], carried, strict=True))]  # fmt: skip
    made = n.scope.bodies.region(n, body, takes)
    endless = (not n.has(1) or start is not None) and _always(made[0])
    types = tuple(v.type for v in carried)
    if n.has(0) and trips is not None and (endless or not int(trips.reshape(-1)[0])):
        count = max(int(trips.reshape(-1)[0]), 0)
        if made[0].output_types[1 : 1 + len(carried)] != types:
            return _unrolled(n, body, names, carried, count)
        return _counted(n, made, types, carried, count)
    if len(made[0].outputs) > 1 + len(carried):
        said = "it stacks results, and how many is known at run time only"
        n.refuse(said, "fix its count and condition with `--bind`", "E1107")
    return _while(n, made, types, carried)


def _counted(
    n: Call, made: tuple[Graph, list[Value]], types: tuple[TensorType, ...], carried: Sequence[Value], count: int
) -> Sequence[int]:
    """A `loop`: its index is i32, the body's i64; the condition holds always."""
    graph, captured = made
    b = Builder(graph.name, n.b.loc)
    index = b.input("i", TensorType(I32, ()))
    own = [b.input(f"x{i}", t) for i, t in enumerate(types)]
    outer = [b.input(f"outer{i}", v.type) for i, v in enumerate(captured)]
    outs = b.inline(graph, (b.one("convert", index, dtype=I64), b.full(True, BOOL), *own, *outer))
    values = (*(n.emitter.id(v) for v in carried), *(n.emitter.id(v) for v in captured))
    return n.b.add("loop", values, {"n": count, "carry": len(types), "xs": 0}, regions=(b.finish(outs[1:]),))


def _unrolled(
    n: Call, body: object, names: Sequence[str], carried: Sequence[Value], count: int
) -> Sequence[int | Value]:
    """The body so many times: for carried values whose shapes change from trip to trip."""
    if count > _MOST_UNROLLED:
        n.refuse(f"its carried values change their shape in {count} trips, more than {_MOST_UNROLLED}")
    now, stacks = list(carried), list[list[int]]()
    for i in range(count):
        index = Value(names[0], TensorType(I64, ()), np.asarray(i, np.int64))
        going = Value(names[1], TensorType(BOOL, ()), np.asarray(True))
        outs = n.scope.bodies.inline(n, body, dict(zip(names, (index, going, *now), strict=True)))
        now = outs[1 : 1 + len(now)]
        stacks.append([n.emitter.id(v) for v in outs[1 + len(now) :]])
    return [*now, *(forms.stack(n.b, list(row)) for row in zip(*stacks, strict=True))]


def _while(
    n: Call, made: tuple[Graph, list[Value]], types: tuple[TensorType, ...], carried: Sequence[Value]
) -> Sequence[int]:
    """A `while` that carries the index and the condition too."""
    graph, captured = made
    trips = n.known(0)
    limited = n.has(0)
    takes = (TensorType(I64, ()), TensorType(BOOL, ()), *types)
    more = [TensorType(I64, ())] if limited else []

    def inputs(b: Builder) -> tuple[list[int], list[int], list[int]]:
        own = [b.input(f"x{i}", t) for i, t in enumerate(takes)]
        return own, [b.input("limit", t) for t in more], [b.input(f"outer{i}", v.type) for i, v in enumerate(captured)]

    c = Builder("condition", n.b.loc)
    own, limit, _ = inputs(c)
    test = c.finish([c.one("and", own[1], c.one("lt", own[0], limit[0])) if limited else own[1]])
    b = Builder(graph.name, n.b.loc)
    own, _, outer = inputs(b)
    outs = b.inline(graph, (*own, *outer))
    step = b.finish([b.one("add", own[0], b.full(1, I64)), *outs])
    going = forms.reshape(n.b, n.x(1), ()) if n.has(1) else n.full(True, BOOL)
    start = (n.full(0, I64), going, *(n.emitter.id(v) for v in carried))
    limits = [forms.reshape(n.b, n.x(0), ())] if limited else []
    captures = (*limits, *(n.emitter.id(v) for v in captured))
    most = max(int(trips.reshape(-1)[0]), 0) if trips is not None else 0
    attrs = {"carry": len(start), "trips": most if most < 2**31 else 0}
    return n.b.add("while", (*start, *captures), attrs, regions=(test, step))[2:]


# ---- Scan ----------------------------------------------------------------------------------------


@handles("Scan", since=9)
def scan(n: Call) -> Sequence[int]:
    """A body over the elements of scanned operands, with carried state; scan outputs are stacked."""
    body = n.need("body")
    scanned = int(n.need("num_scan_inputs"))
    states = n.count - scanned
    names = [str(i.name) for i in body.input]
    if len(names) != n.count or states < 0:
        n.refuse(f"its body takes {len(names)} values, and is given {n.count}", code="E1104")
    axes = [n.at(a, n.type(states + i).rank) for i, a in enumerate(n.attr("scan_input_axes", (0,) * scanned))]
    backwards = n.attr("scan_input_directions", (0,) * scanned)
    xs: list[int] = []
    for i, (axis, back) in enumerate(zip(axes, backwards, strict=True)):
        x = forms.moveaxis(n.b, n.x(states + i), axis, 0)
        xs.append(n.b.one("reverse", x, axes=(0,)) if back else x)
    types = [n.type(i) for i in range(states)]
    elements = [n.b.types[x].with_shape(n.b.types[x].shape[1:]) for x in xs]
    graph, captured = n.scope.bodies.region(n, body, list(zip(names, (*types, *elements), strict=True)))
    b = Builder(graph.name, n.b.loc)
    b.input("i", TensorType(I32, ()))
    own = [b.input(f"x{i}", t) for i, t in enumerate((*types, *elements))]
    outer = [b.input(f"outer{i}", v.type) for i, v in enumerate(captured)]
    region = b.finish(b.inline(graph, (*own, *outer)))
    trips = int(n.b.types[xs[0]].shape[0]) if xs else 0
    values = (*(n.x(i) for i in range(states)), *xs, *(n.emitter.id(v) for v in captured))
    outs = n.b.add("loop", values, {"n": trips, "carry": states, "xs": scanned}, regions=(region,))
    return [*outs[:states], *_placed(n, outs[states:])]


def _placed(n: Call, stacked: Sequence[int]) -> list[int]:
    """Scan outputs in the direction and along the axis they are asked for."""
    count = len(stacked)
    axes, back = n.attr("scan_output_axes", (0,) * count), n.attr("scan_output_directions", (0,) * count)
    out: list[int] = []
    for y, axis, turned in zip(stacked, axes, back, strict=True):
        y = n.b.one("reverse", y, axes=(0,)) if turned else y
        out.append(forms.moveaxis(n.b, y, 0, n.at(axis, n.b.types[y].rank)))
    return out
