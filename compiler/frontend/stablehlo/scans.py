"""Counting loops as scans: what a loop reads or writes row by row becomes its xs and ys.

StableHLO has one loop, `while`, so a scan arrives as a counter, slices at the counter and updates at the counter, with
every constant carried along. A target then sees a loop whose every iteration depends on the whole of each tensor. Keeps
types and results. Must not know where graphs come from.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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


@dataclass(slots=True)
class _Loop:
    """A loop taken apart. `counters` are carried values that count: (first, step); `same` those that never change."""

    n: int
    body: Graph
    index: int
    carried: list[int]
    elements: list[int]
    captures: list[int]
    counters: dict[int, tuple[int, int]] = field(default_factory=dict[int, "tuple[int, int]"])
    same: list[int] = field(default_factory=list[int])
    written: dict[int, Node] = field(default_factory=dict[int, Node])
    rows: list[int] = field(default_factory=list[int])

    @property
    def fixed(self) -> list[int]:
        """Values of the body that are the same in each iteration."""
        return [*self.captures, *self.same]

    def is_index(self, value: int) -> bool:
        """Whether `value` is the number of the iteration, at any dtype, reshaped or not."""
        while True:
            if value == self.index or self.counters.get(value) == (0, 1):
                return True
            node = self.body.producers[value]
            if node.op not in ("reshape", "convert"):
                return False
            value = node.args[0]

    def at_row(self, starts: int) -> bool:
        """Whether index vector `starts` is (number of the iteration, 0, 0, …)."""
        node = self.body.producers[starts]
        first, rest = (node.args[0], node.args[1:]) if node.op == "concat" else (starts, ())
        return self.is_index(first) and all(_literal(self.body, v) == 0 for v in rest)


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
    rows = [_first_rows(b, operands[v], loop.n) for v in loop.rows]
    given = [*(operands[v] for v in (*kept, *loop.elements)), *rows, *(operands[v] for v in plain)]
    attrs = {"n": loop.n, "carry": len(kept), "xs": len(loop.elements) + len(rows)}
    outs = b.add("loop", given, attrs, regions=(body,), loc=node.loc)
    after |= dict(zip(kept, outs[: len(kept)], strict=True))
    ys = outs[len(kept) :]
    after |= dict(zip(loop.written, ys[len(old_ys) :], strict=True))
    return (*(after[v] for v in loop.carried), *ys[: len(old_ys)])


def _first_rows(b: Builder, x: int, n: int) -> int:
    t = b.types[x]
    return x if t.shape[0] == n else forms.slice_any(b, x, (0,), (n,), axes=(0,))


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
    for k, v in enumerate(loop.carried):
        made = body.producers[body.outputs[k]]
        if v not in loop.counters and _writes(loop, made, v):
            loop.written[v] = made
    loop.rows = [v for v in loop.fixed if _read_by_rows(loop, v)]
    return loop


def _counts(b: Builder, body: Graph, v: int, after: int, start: int, n: int) -> tuple[int, int] | None:
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


def _writes(loop: _Loop, node: Node, buffer: int) -> bool:
    """Whether `node` puts one row of `buffer` in the iteration's place, and nothing else looks at the buffer."""
    body, t = loop.body, loop.body.types[buffer]
    if node.op != "dynamic_update_slice" or node.args[0] != buffer or not t.rank or t.shape[0] != loop.n:
        return False
    alone = body.users[buffer] == (node,) and not body.users[node.out] and list(body.outputs).count(node.out) == 1
    whole = body.types[node.args[1]].shape == (1, *t.shape[1:])
    return alone and whole and buffer not in body.outputs and loop.at_row(node.args[2])


def _read_by_rows(loop: _Loop, x: int) -> bool:
    """Whether all that reads `x` takes the iteration's row of it."""
    body, t = loop.body, loop.body.types[x]
    if not t.rank or t.shape[0] < loop.n or not body.users[x]:
        return False
    outputs = [v for k, v in enumerate(body.outputs) if k >= len(loop.carried) or loop.carried[k] != v]
    return x not in outputs and all(
        n.op == "dynamic_slice" and n.args[0] == x and n.type.shape == (1, *t.shape[1:]) and loop.at_row(n.args[1])
        for n in body.users[x]
    )


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
    written = {n.out for n in loop.written.values()}
    for n in loop.body.nodes:
        if n.op == "input" or not written.isdisjoint(n.outs):
            continue
        if n.op == "dynamic_slice" and n.args[0] in rows:
            names[n.out] = forms.reshape(b, rows[n.args[0]], n.type.shape)
        else:
            names.update(zip(n.outs, b.copy(n, [names[a] for a in n.args]), strict=True))
    carried = [names[loop.body.outputs[loop.carried.index(v)]] for v in kept]
    old_ys = [names[v] for v in loop.body.outputs[len(loop.carried) :]]
    new_ys = [forms.reshape(b, names[n.args[1]], types[v].shape[1:]) for v, n in loop.written.items()]
    return live(b.finish([*carried, *old_ys, *new_ys]))


def _count(b: Builder, index: int, first: int, step: int, t: TensorType) -> int:
    """first + step * index, at the counter's dtype."""
    value = forms.convert(b, index, t.dtype)
    if step != 1:
        value = b.one("mul", value, b.full(step, t.dtype))
    return value if first == 0 else b.one("add", value, b.full(first, t.dtype))
