"""Blocks that repeat, one after another, as one `loop` whose parameters are stacked: a network of 12 layers says one.

Looked for in the order of the nodes: the longest run in which what a node is, and where its operands come from, repeats
with some period. The loop computes what the nodes did, operation by operation. Must not know formats or languages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..graph import OPS, Array, Builder, Graph, NDArray, Node, TensorType, attr_key, is_composite
from ..graph.dtypes import I32
from ..graph.ops.movement import array_of, scalar

_LEAVES = ("input", "param", "full", "constant", "iota")
_LITERALS = ("full", "constant", "iota")
# A loop pays when its body is more than a few operations and it spares more than one copy of them.
_LEAST_TRIPS, _LEAST_NODES = 3, 6
# Elements of a literal that each trip may have its own of.
_MOST_LITERAL = 1024
# Stretches that are looked at closely, the longest first; a shorter one spares little.
_MOST_TRIED = 12
# Comparing all periods grows with the square of the nodes.
_MOST_NODES = 20_000


def roll(graph: Graph, params: Mapping[str, NDArray]) -> tuple[Graph, dict[str, NDArray]]:
    """`graph` with runs of equal blocks as loops, and its params with those of the blocks stacked.

    Only blocks that hold a contraction are taken. A stacked param is called as the blocks' params with their number
    replaced by `{i}`, when they are numbered from 0; else it gets a new name.
    """
    arrays = dict(params)
    graph = _weights_late(graph)
    while (found := _best(graph)) is not None:
        graph, arrays = _rolled(graph, arrays, found)
    return graph, arrays


def _weights_late(graph: Graph) -> Graph:
    """`graph` with what is made from weights alone just before it is first read, as each block then has its own."""
    fixed: set[int] = set()
    for n in graph.nodes:
        if n.op != "input" and all(a in fixed for a in n.args):
            fixed.update(n.outs)
    makers = graph.producers
    order: list[Node] = []
    done: set[int] = set()
    waiting = [n for n in graph.nodes if n.outs[0] not in fixed]
    for n in (*waiting, *(makers[v] for v in graph.outputs)):
        stack = [n]
        while stack:
            m = stack[-1]
            before = [makers[a] for a in m.args if a in fixed and a not in done]
            if before:
                stack.append(before[0])
                continue
            stack.pop()
            if m.outs[0] not in done:
                done.update(m.outs)
                order.append(m)
    return Graph(graph.name, tuple(order), graph.outputs, graph.output_names)


# ---- finding -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """Trips of equal blocks: `steps` are positions among the nodes that are no leaves; how their operands are bound."""

    start: int
    period: int
    trips: int
    # (relative position, output index) of a carried value to the value that the first trip reads in its place.
    carried: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    # The first trip's param, or literal, to those of all trips, where they differ.
    stacked: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    literals: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])


class _View:
    """A graph's nodes without leaves, numbered; what makes each value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = [n for n in graph.nodes if n.op not in _LEAVES]
        self.place = {v: (i, k) for i, n in enumerate(self.steps) for k, v in enumerate(n.outs)}
        self.leaf = {n.outs[0]: n for n in graph.nodes if n.op in _LEAVES}
        self.last_use = self._uses()

    def _uses(self) -> dict[int, int]:
        """The last step that reads each value; beyond all steps for an output."""
        last: dict[int, int] = {}
        for i, n in enumerate(self.steps):
            last.update(dict.fromkeys(n.args, i))
        last.update(dict.fromkeys(self.graph.outputs, len(self.steps)))
        return last

    def code(self, n: Node) -> object:
        """What `n` is, whatever its operands are called."""
        attrs = tuple((k, attr_key(v)) for k, v in n.attrs)
        return n.op, n.types, attrs, n.regions, tuple(self._kind(a) for a in n.args)

    def _kind(self, v: int) -> object:
        n = self.leaf.get(v)
        return (n.op if n is not None and n.op != "input" else ""), self.graph.types[v]

    def literal(self, v: int) -> object:
        """What the literal `v` says, for comparing."""
        return tuple((k, attr_key(x)) for k, x in self.leaf[v].attrs)


def _best(graph: Graph) -> _Run | None:
    """The run that spares the most nodes, or None."""
    view = _View(graph)
    if not 2 * _LEAST_NODES <= len(view.steps) <= _MOST_NODES:
        return None
    heavy = np.cumsum([0, *map(_contracts, view.steps)])
    if not heavy[-1]:
        return None
    numbers: dict[object, int] = {}
    codes = np.array([numbers.setdefault(view.code(n), len(numbers)) for n in view.steps])
    # A block that holds a contraction holds one wherever it begins: blocks are equal.
    tried = [c for c in _candidates(codes) if heavy[c[2] + c[1]] > heavy[c[2]]]
    for _, period, start, length in tried[:_MOST_TRIED]:
        run = _fitting(view, period, start, length)
        if run is not None:
            return run
    return None


def _candidates(codes: NDArray) -> list[tuple[int, int, int, int]]:
    """(nodes spared, period, start, length) of maximal stretches that equal themselves a period later, best first."""
    found: list[tuple[int, int, int, int]] = []
    n = codes.size
    for period in range(_LEAST_NODES, n // _LEAST_TRIPS + 1):
        same = np.concatenate(([False], codes[period:] == codes[:-period], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            trips = (stop - start) // period + 1
            if trips >= _LEAST_TRIPS:
                found.append(((trips - 1) * period, period, start, stop - start + period))
    # Of equal savings the shortest period: twice a period is a period too.
    return sorted(found, key=lambda c: (-c[0], c[1], c[2]))


def _fitting(view: _View, period: int, start: int, length: int) -> _Run | None:
    """The run of this stretch whose blocks begin where they hand on the fewest values.

    The first or last block may stand outside: others may read what it makes.
    """
    best: _Run | None = None
    for shift in range(2 * period):
        most = (length - shift) // period
        for trips in (most, most - 1):
            if trips < _LEAST_TRIPS or (best is not None and trips < best.trips):
                break
            run = _bound(view, _Run(start + shift, period, trips))
            if run is not None and (best is None or (-run.trips, len(run.carried)) < (-best.trips, len(best.carried))):
                best = run
    return best


def _bound(view: _View, run: _Run) -> _Run | None:
    """`run` with its operands bound, or None when the blocks do not stand to each other as trips of a loop do."""
    first, period = run.start, run.period
    for q in range(period):
        trips = [view.steps[first + r * period + q] for r in range(run.trips)]
        for operands in zip(*(n.args for n in trips), strict=True):
            if not _operand(view, run, operands):
                return None
    return run if _hands_on(view, run) else None


def _contracts(n: Node) -> bool:
    if is_composite(n):
        return any(_contracts(m) for m in n.regions[0].nodes)
    return n.op in OPS and OPS[n.op].cost == "contract"


def _operand(view: _View, run: _Run, operands: Sequence[int]) -> bool:
    """Binds one operand of one node, given as each trip reads it."""
    leaf = view.leaf.get(operands[0])
    if leaf is not None and leaf.op in _LITERALS:
        return _literals(view, run, operands)
    if all(v == operands[0] for v in operands) and not _inside(view, run, operands[0]):
        return True
    if leaf is not None and leaf.op == "param":
        own = len(set(operands)) == len(operands) and all(view.leaf[v].attr("stack") == 0 for v in operands)
        return own and run.stacked.setdefault(operands[0], tuple(operands)) == tuple(operands)
    places = [view.place.get(v) for v in operands]
    relative = [_relative(run, r, p) for r, p in enumerate(places)]
    if relative[0] is not None and all(x == relative[0] for x in relative):
        return True  # made in the same trip
    return _carries(view, run, operands, places)


def _literals(view: _View, run: _Run, operands: Sequence[int]) -> bool:
    """Binds a literal operand: equal in all trips, or numbers or small arrays of which each trip has its own."""
    if all(view.literal(v) == view.literal(operands[0]) for v in operands):
        return operands[0] not in run.literals or run.literals[operands[0]] == tuple(operands)
    leaf = view.leaf[operands[0]]
    small = leaf.op == "full" or (leaf.op == "constant" and leaf.type.size <= _MOST_LITERAL)
    return small and run.literals.setdefault(operands[0], tuple(operands)) == tuple(operands)


def _relative(run: _Run, trip: int, place: tuple[int, int] | None) -> tuple[int, int] | None:
    """`place` within the block of `trip`, None when it is elsewhere."""
    if place is None or not 0 <= place[0] - run.start - trip * run.period < run.period:
        return None
    return place[0] - run.start - trip * run.period, place[1]


def _inside(view: _View, run: _Run, v: int) -> bool:
    place = view.place.get(v)
    return place is not None and run.start <= place[0] < run.start + run.period * run.trips


def _carries(view: _View, run: _Run, operands: Sequence[int], places: Sequence[tuple[int, int] | None]) -> bool:
    """Whether each trip reads what the one before made at one place, and the first something from before the run."""
    before = [_relative(run, r - 1, p) for r, p in enumerate(places)]
    slot = before[1]
    if slot is None or any(b != slot for b in before[1:]) or _inside(view, run, operands[0]):
        return False
    same_type = view.graph.types[operands[0]] == view.graph.types[operands[1]]
    return same_type and run.carried.setdefault(slot, operands[0]) == operands[0]


def _hands_on(view: _View, run: _Run) -> bool:
    """Whether what the trips make is read by the next trip only, and after the last only what is carried.

    Nothing the loop reads may be made after it begins.
    """
    first, period = run.start, run.period
    end = first + period * run.trips
    for r in range(run.trips):
        reach = first + (r + 2) * period
        for q in range(period):
            for k, v in enumerate(view.steps[first + r * period + q].outs):
                last = view.last_use.get(v, -1)
                if r < run.trips - 1 and last >= reach:
                    return False
                if r == run.trips - 1 and last >= end and (q, k) not in run.carried:
                    return False
    return bool(run.carried)


# ---- making the loop -----------------------------------------------------------------------------


def _rolled(graph: Graph, params: dict[str, NDArray], run: _Run) -> tuple[Graph, dict[str, NDArray]]:
    view = _View(graph)
    b = Builder(graph.name)
    new: dict[int, int] = {}
    arrays = dict(params)
    gone = {v for group in run.stacked.values() for v in group}
    read_elsewhere = _read_outside(view, run)
    stacks = _stacks(view, run, arrays)
    for first, (name, t) in stacks.items():
        source = view.leaf[first]
        made = b.param(name, t, stack=run.trips, loc=source.loc)
        new[first] = made
        for v in run.stacked[first]:
            arrays.pop(str(view.leaf[v].attr("name")), None)
    inside = {id(n) for n in view.steps[run.start : run.start + run.period * run.trips]}
    for n in graph.nodes:
        if id(n) in inside:
            if n is view.steps[run.start]:
                _emit(view, run, b, new)
            continue
        if n.op in _LITERALS and n.out not in read_elsewhere:
            continue
        if n.op == "param" and n.out in gone and n.out not in read_elsewhere:
            continue
        new.update(zip(n.outs, b.copy(n, [new[a] for a in n.args]), strict=True))
    made = b.finish([new[v] for v in graph.outputs], graph.output_names)
    return _inputs_first(made), arrays


def _read_outside(view: _View, run: _Run) -> set[int]:
    outside = [n for i, n in enumerate(view.steps) if not run.start <= i < run.start + run.period * run.trips]
    return {a for n in outside for a in n.args} | set(view.graph.outputs)


def _stacks(view: _View, run: _Run, arrays: dict[str, NDArray]) -> dict[int, tuple[str, TensorType]]:
    """(name, type) of each stacked param by the first trip's, and its values in `arrays`."""
    made: dict[int, tuple[str, TensorType]] = {}
    taken = set(arrays)
    for first, group in run.stacked.items():
        names = [str(view.leaf[v].attr("name")) for v in group]
        own = view.leaf[first].type
        name = _pattern(names) or _invented(names[0], taken)
        taken |= {name.replace("{i}", str(i)) for i in range(run.trips)} | {name}
        arrays[name] = np.stack([arrays[n] for n in names])
        made[first] = (name, own.with_shape((run.trips, *own.shape)))
    return made


def _pattern(names: Sequence[str]) -> str | None:
    """`a.{i}.w` for a.0.w, a.1.w, …; None for names that are numbered otherwise, or in their last part."""
    for match in re.finditer(r"(?<!\d)0(?!\d)", names[0]):
        pattern = f"{names[0][: match.start()]}{{i}}{names[0][match.end() :]}"
        in_scope = "{i}" not in pattern.rpartition(".")[2]
        if in_scope and [pattern.replace("{i}", str(i)) for i in range(len(names))] == list(names):
            return pattern
    return None


def _invented(name: str, taken: set[str]) -> str:
    """A new name with `{i}` in its scope, from the first trip's."""
    last = name.rpartition(".")[2]
    number = 0
    while True:
        made = f"block{number or ''}.{{i}}.{last}"
        if made not in taken and made.replace("{i}", "0") not in taken:
            return made
        number += 1


def _emit(view: _View, run: _Run, b: Builder, new: dict[int, int]) -> None:
    """The loop where the first block stood."""
    block = view.steps[run.start : run.start + run.period]
    inner = Builder("body")
    inner.input("i", TensorType(I32, ()))
    names: dict[int, int] = {}
    slots = list(run.carried)
    for k, slot in enumerate(slots):
        names[run.carried[slot]] = inner.input(f"carry{k}", view.graph.types[run.carried[slot]])
    for k, first in enumerate(run.stacked):
        names[first] = inner.input(f"row{k}", view.leaf[first].type)
    tables = [_table(view, group) for group in run.literals.values()]
    for k, (first, table) in enumerate(zip(run.literals, tables, strict=True)):
        row = inner.input(f"number{k}", table.type.with_shape(table.type.shape[1:]))
        wide = view.leaf[first].type.shape
        names[first] = row if inner.types[row].shape == wide else inner.one("broadcast", row, shape=wide, dims=())
    outer = [a for n in block for a in n.args if a not in names and not _made(view, run, a) and not _literal(view, a)]
    captures = list(dict.fromkeys(outer))
    for k, v in enumerate(captures):
        names[v] = inner.input(f"read{k}", view.graph.types[v])
    for n in block:
        for a in n.args:
            if a not in names and _literal(view, a):
                names[a] = inner.copy(view.leaf[a], ())[0]
        names.update(zip(n.outs, inner.copy(n, [names[a] for a in n.args]), strict=True))
    region = inner.finish([names[block[q].outs[k]] for q, k in slots])
    numbers = [b.one("constant", value=table) for table in tables]
    rows = [*(new[v] for v in run.stacked), *numbers]
    operands = [*(new[v] for v in run.carried.values()), *rows, *(new[v] for v in captures)]
    attrs = {"n": run.trips, "carry": len(slots), "xs": len(rows)}
    outs = b.add("loop", operands, attrs, regions=(region,), loc=block[-1].loc)
    last = run.start + run.period * (run.trips - 1)
    new.update({view.steps[last + q].outs[k]: v for (q, k), v in zip(slots, outs, strict=True)})


def _table(view: _View, group: Sequence[int]) -> Array:
    """The literals of all trips, one a row: of a `full` its number alone."""
    leaves = [view.leaf[v] for v in group]
    if leaves[0].op == "full":
        d = leaves[0].type.dtype
        rows = [scalar(n.attr("value"), d) for n in leaves]
    else:
        rows = [array_of(value) for n in leaves if isinstance(value := n.attr("value"), Array)]
    data = np.stack(rows)
    t = leaves[0].type.with_shape(data.shape)
    return Array(t, data.astype(t.dtype.numpy).tobytes())


def _made(view: _View, run: _Run, v: int) -> bool:
    """Whether the first block makes `v`."""
    place = view.place.get(v)
    return place is not None and run.start <= place[0] < run.start + run.period


def _literal(view: _View, v: int) -> bool:
    return v in view.leaf and view.leaf[v].op in _LITERALS


def _inputs_first(graph: Graph) -> Graph:
    """Inputs before params before the rest: stacked params were made where they are read first."""
    order = {"input": 0, "param": 1}
    nodes = sorted(graph.nodes, key=lambda n: order.get(n.op, 2))
    return Graph(graph.name, tuple(nodes), graph.outputs, graph.output_names)
