"""Counting loops as scans: what a loop reads or writes row by row becomes its xs and ys.

StableHLO has one loop, `while`, so a scan arrives as a counter, slices at the counter and updates at the counter, with
every constant carried along. A target then sees a loop whose every iteration depends on the whole of each tensor. Keeps
types and results. Must not know where graphs come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ...graph import Builder, Graph, Node, TensorType, forms, live
from ...graph.dtypes import I32, int_range
from ...graph.ops.control import loop_counts


def as_scans(graph: Graph) -> Graph:
    """`graph` with its counting loops, those in regions too, in the form above."""
    b = Builder(graph.name)
    names: dict[int, int] = {}
    for n in graph.nodes:
        args = [names[a] for a in n.args]
        node = replace(n, regions=tuple(map(as_scans, n.regions))) if n.regions else n
        outs = _scan(b, node, args) if n.op == "loop" else b.copy(node, args)
        names.update(zip(n.outs, outs, strict=True))
    return live(b.finish([names[v] for v in graph.outputs], graph.output_names))


Line: TypeAlias = tuple[int, int]  # first + step * number of the iteration


@dataclass(slots=True)
class _Loop:
    """A loop taken apart.

    `counters` are carried values that count, `same` those that never change, `written` buffers with the node that puts
    a row in, `rows` tensors of which the body reads one row; both with the row's number. `lines` are the integers of
    the body that are known to lie on a line.
    """

    n: int
    body: Graph
    index: int
    carried: list[int]
    elements: list[int]
    captures: list[int]
    counters: dict[int, Line] = field(default_factory=dict[int, Line])
    same: list[int] = field(default_factory=list[int])
    written: dict[int, tuple[Node, Line]] = field(default_factory=dict[int, "tuple[Node, Line]"])
    rows: dict[int, Line] = field(default_factory=dict[int, Line])
    lines: dict[int, Line] = field(default_factory=dict[int, Line])

    @property
    def fixed(self) -> list[int]:
        """Values of the body that are the same in each iteration."""
        return [*self.captures, *self.same]

    def row_at(self, starts: int) -> Line | None:
        """The row that index vector `starts`, (row, 0, 0, …), names; None for any other vector."""
        node = self.body.producers[starts]
        first, rest = (node.args[0], node.args[1:]) if node.op == "concat" else (starts, ())
        return self.lines.get(first) if all(self.lines.get(v) == (0, 0) for v in rest) else None


def _lines(loop: _Loop) -> dict[int, Line]:
    """Single integers of the body that are first + step * iteration. Sums that could wrap are left out."""
    found: dict[int, Line] = {loop.index: (0, 1), **loop.counters}
    tests: dict[int, bool] = {}
    for n in loop.body.nodes:
        if len(n.types) != 1 or n.type.size != 1:
            continue
        if n.op in ("lt", "ge") and all(a in found for a in n.args):
            x, y = n.args
            below = _below(found[x], found[y], loop.n)
            if below is not None:
                tests[n.out] = below == (n.op == "lt")
        elif n.type.dtype.is_int:
            made = _line(loop.body, n, found, tests)
            if made is not None and _fits(made, loop.n, int_range(n.type.dtype)):
                found[n.out] = made
    return found


def _line(body: Graph, n: Node, found: dict[int, Line], tests: dict[int, bool]) -> Line | None:
    if n.op == "full":
        value = n.attr("value")
        return (value, 0) if isinstance(value, int) and not isinstance(value, bool) else None
    if n.op == "select" and n.args[0] in tests:
        return found.get(n.args[1] if tests[n.args[0]] else n.args[2])
    known = [found[a] for a in n.args if a in found]
    if len(known) != len(n.args):
        return None
    match n.op, known:
        case (("reshape" | "convert" | "broadcast"), [x]):
            return x
        case "add", [(a, b), (c, d)]:
            return a + c, b + d
        case "sub", [(a, b), (c, d)]:
            return a - c, b - d
        case "mul", [(a, b), (c, 0)] | [(c, 0), (a, b)]:
            return a * c, b * c
        case _:
            return None


def _ends(line: Line, n: int) -> tuple[int, int]:
    """Least and greatest value over the iterations."""
    first, last = line[0], line[0] + (n - 1) * line[1]
    return min(first, last), max(first, last)


def _fits(line: Line, n: int, limits: tuple[int, int]) -> bool:
    low, high = _ends(line, n)
    return limits[0] <= low and high <= limits[1]


def _below(x: Line, y: Line, n: int) -> bool | None:
    """Whether x < y in every iteration, or in none; None when that changes."""
    (low, high), (bottom, top) = _ends(x, n), _ends(y, n)
    return True if high < bottom else False if low >= top else None


def _scan(b: Builder, node: Node, args: list[int]) -> tuple[int, ...]:
    loop = _taken_apart(b, node, args)
    if loop.n == 0 or not (loop.counters or loop.same or loop.written or loop.rows):
        return b.copy(node, args)
    operands = dict(zip([*loop.carried, *loop.elements, *loop.captures], args, strict=True))
    kept = [v for v in loop.carried if v not in loop.counters and v not in loop.same and v not in loop.written]
    plain = [v for v in loop.fixed if v not in loop.rows]
    body = _body(loop, node, kept, plain)
    after = {v: b.full(first + loop.n * step, loop.body.types[v].dtype) for v, (first, step) in loop.counters.items()}
    after |= {v: operands[v] for v in loop.same}
    old_ys = node.outs[len(loop.carried) :]
    if not body.outputs:
        return tuple(after[v] for v in loop.carried)
    rows = [_rows(b, operands[v], line, loop.n) for v, line in loop.rows.items()]
    given = [*(operands[v] for v in (*kept, *loop.elements)), *rows, *(operands[v] for v in plain)]
    attrs = {"n": loop.n, "carry": len(kept), "xs": len(loop.elements) + len(rows)}
    outs = b.add("loop", given, attrs, regions=(body,), loc=node.loc)
    after |= dict(zip(kept, outs[: len(kept)], strict=True))
    ys = outs[len(kept) :]
    for (v, (_, (_, step))), y in zip(loop.written.items(), ys[len(old_ys) :], strict=True):
        after[v] = y if step > 0 else b.one("reverse", y, axes=(0,))
    return (*(after[v] for v in loop.carried), *ys[: len(old_ys)])


def _rows(b: Builder, x: int, line: Line, n: int) -> int:
    """The rows of `x` in the order in which the iterations read them."""
    low, high = _ends(line, n)
    part = x if (low, high + 1) == (0, b.types[x].shape[0]) else forms.slice_any(b, x, (low,), (high + 1,), axes=(0,))
    return part if line[1] > 0 else b.one("reverse", part, axes=(0,))


def _taken_apart(b: Builder, node: Node, args: list[int]) -> _Loop:
    n, carry, xs = loop_counts(dict(node.attrs))
    body = node.regions[0]
    index, *rest = [i.out for i in body.inputs]
    loop = _Loop(n, body, index, rest[:carry], rest[carry : carry + xs], rest[carry + xs :])
    for v, after, start in zip(loop.carried, body.outputs, args, strict=False):
        count = _counts(b, body, v, after, start, n)
        if after == v:
            loop.same.append(v)
        elif count is not None:
            loop.counters[v] = count
    if not n:
        return loop
    loop.lines = _lines(loop)
    for k, v in enumerate(loop.carried):
        made = body.producers[body.outputs[k]]
        line = _writes(loop, made, v) if v not in loop.counters else None
        if line is not None:
            loop.written[v] = made, line
    reads = {v: _read_by_rows(loop, v) for v in loop.fixed}
    loop.rows = {v: line for v, line in reads.items() if line is not None}
    return loop


def _counts(b: Builder, body: Graph, v: int, after: int, start: int, n: int) -> Line | None:
    """(first, step) of a carried integer scalar that a literal is added to in each iteration."""
    node, t = body.producers[after], body.types[v]
    if node.op != "add" or v not in node.args or t.rank or not t.dtype.is_int:
        return None
    step = _literal(body, node.args[1] if node.args[0] == v else node.args[0])
    first = forms.known(b, start)
    if step is None or first is None:
        return None
    low, high = int_range(t.dtype)
    begin = int(first.reshape(()))
    # The iterations are counted in i32, so every value on the way has to fit both dtypes.
    narrow = (-(1 << 31), (1 << 31) - 1)
    last = begin + n * step
    fits = max(low, narrow[0]) <= min(begin, last) and max(begin, last) <= min(high, narrow[1])
    return (begin, step) if fits else None


def _literal(graph: Graph, value: int) -> int | None:
    node = graph.producers[value]
    while node.op in ("reshape", "broadcast", "convert"):
        node = graph.producers[node.args[0]]
    number = node.attr("value") if node.op == "full" else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _writes(loop: _Loop, node: Node, buffer: int) -> Line | None:
    """The row that `node` puts into `buffer`, of which each is put once, when nothing else looks at the buffer."""
    body, t = loop.body, loop.body.types[buffer]
    if node.op != "dynamic_update_slice" or node.args[0] != buffer or not t.rank or t.shape[0] != loop.n:
        return None
    alone = body.users[buffer] == (node,) and not body.users[node.out] and list(body.outputs).count(node.out) == 1
    whole = body.types[node.args[1]].shape == (1, *t.shape[1:])
    line = loop.row_at(node.args[2])
    return line if alone and whole and buffer not in body.outputs and line in ((0, 1), (loop.n - 1, -1)) else None


def _read_by_rows(loop: _Loop, x: int) -> Line | None:
    """The row that all that reads `x` takes of it: the next one, up or down, in each iteration."""
    body, t = loop.body, loop.body.types[x]
    outputs = [v for k, v in enumerate(body.outputs) if k >= len(loop.carried) or loop.carried[k] != v]
    if not t.rank or x in outputs or not body.users[x]:
        return None
    lines: set[Line | None] = set()
    for n in body.users[x]:
        plain = n.op == "dynamic_slice" and n.args[0] == x and n.type.shape == (1, *t.shape[1:])
        lines.add(loop.row_at(n.args[1]) if plain else None)
    line = lines.pop() if len(lines) == 1 else None
    # Within the tensor: a start beyond it would be held back.
    inside = line is not None and line[1] in (1, -1) and _fits(line, loop.n, (0, int(t.shape[0]) - 1))
    return line if inside else None


def _body(loop: _Loop, node: Node, kept: list[int], plain: list[int]) -> Graph:
    """The body on (index, kept carried values, elements, rows, what stays the same)."""
    b = Builder(loop.body.name, node.loc)
    types = loop.body.types
    names = {loop.index: b.input("i", TensorType(I32, ()))}
    for v in (*kept, *loop.elements):
        names[v] = b.input(f"a{len(names)}", types[v])
    rows = {v: b.input(f"a{len(names) + k}", types[v].with_shape(types[v].shape[1:])) for k, v in enumerate(loop.rows)}
    taken = len(names) + len(rows)
    for k, v in enumerate(plain):
        names[v] = b.input(f"a{taken + k}", types[v])
    for v, (first, step) in loop.counters.items():
        names[v] = _count(b, names[loop.index], first, step, types[v])
    written = {n.out for n, _ in loop.written.values()}
    for n in loop.body.nodes:
        if n.op == "input" or not written.isdisjoint(n.outs):
            continue
        if n.op == "dynamic_slice" and n.args[0] in rows:
            names[n.out] = forms.reshape(b, rows[n.args[0]], n.type.shape)
        else:
            names.update(zip(n.outs, b.copy(n, [names[a] for a in n.args]), strict=True))
    carried = [names[loop.body.outputs[loop.carried.index(v)]] for v in kept]
    old_ys = [names[v] for v in loop.body.outputs[len(loop.carried) :]]
    new_ys = [forms.reshape(b, names[n.args[1]], types[v].shape[1:]) for v, (n, _) in loop.written.items()]
    return live(b.finish([*carried, *old_ys, *new_ys]))


def _count(b: Builder, index: int, first: int, step: int, t: TensorType) -> int:
    """first + step * index, at the counter's dtype."""
    value = forms.convert(b, index, t.dtype)
    if step != 1:
        value = b.one("mul", value, b.full(step, t.dtype))
    return value if first == 0 else b.one("add", value, b.full(first, t.dtype))
