"""One form for Graphs that say the same thing in another order: how a Graph and its `.tdsl` text are compared.

Composites are opened, literals stand once, copies are left out, nodes in the order in which the outputs need them, a
loop's operands in the order in which its body reads them. Nothing that changes a value is touched. Must not know
languages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ..graph import Array, Attr, Builder, DType, Graph, Node, TensorType, attr_key, expand, make_attrs
from ..graph.dtypes import BOOL
from ..graph.ops.control import loop_counts
from ..graph.ops.movement import array_of

_LITERALS = ("full", "constant", "iota")
_NUMBERED = ("full", "pad", "interior_pad")
_OVER_AXES = ("reverse", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or")


def canonical(graph: Graph) -> Graph:
    """The canonical form of `graph`; equal for graphs that are equal up to numbering, order and literals."""
    made = _ordered(expand(graph))
    # A loop's operands may have changed their order, and with it the order in which the outputs need what makes them.
    while (again := _ordered(made)) != made:
        made = again
    return made


def _ordered(graph: Graph) -> Graph:
    b = Builder(graph.name)
    new: dict[int, int] = {}
    literals: dict[object, int] = {}
    for n in graph.inputs:
        new[n.out] = b.copy(n, (), "")[0]
    for n in sorted(graph.params, key=lambda n: str(n.attr("name"))):
        new[n.out] = b.copy(n, (), "")[0]
    for n in _needed(graph):
        if n.op in ("input", "param"):
            continue
        if _is_copy(n, graph.types):
            new[n.out] = new[n.args[0]]
        elif n.op in _LITERALS:
            literal = _literal(n)
            key = (literal.op, literal.types, tuple((k, attr_key(v)) for k, v in literal.attrs))
            if key not in literals:
                literals[key] = b.copy(literal, ())[0]
            new[n.out] = literals[key]
        elif n.op == "loop":
            new.update(zip(n.outs, _loop(b, n, [new[a] for a in n.args]), strict=True))
        else:
            new.update(zip(n.outs, b.copy(_plain(n), [new[a] for a in n.args]), strict=True))
    return Graph(graph.name, _without_loc(b.nodes), tuple(new[v] for v in graph.outputs), graph.output_names)


def _is_copy(n: Node, types: Mapping[int, TensorType]) -> bool:
    """Whether a node gives its only operand as it is, whatever that is: axes in their own order, one tensor joined."""
    if len(n.args) != 1 or len(n.outs) != 1 or types[n.args[0]] != n.type:
        return False
    if n.op == "transpose":
        return n.attr("perm") == tuple(range(n.type.rank))
    if n.op in _OVER_AXES:  # not reduce_sum, which starts at +0, nor running reductions
        return n.attr("axes") == ()
    # Of one shape, these have nothing to do: only a slice of step 1 keeps every element.
    return n.op in ("reshape", "broadcast", "convert", "slice", "concat", "pad", "interior_pad")


def _without_loc(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(Node(n.op, n.args, n.attrs, n.types, n.outs, n.regions) for n in nodes)


def _needed(graph: Graph) -> list[Node]:
    """Nodes that the outputs need, operands first, in the order of a walk from the first output."""
    order: list[Node] = []
    done: set[int] = set()
    for output in graph.outputs:
        stack: list[tuple[Node, int]] = [(graph.producers[output], 0)]
        while stack:
            node, i = stack.pop()
            if node.outs[0] in done:
                continue
            if i < len(node.args):
                stack.append((node, i + 1))
                stack.append((graph.producers[node.args[i]], 0))
                continue
            done.add(node.outs[0])
            order.append(node)
    return order


def _literal(n: Node) -> Node:
    """A constant of one value everywhere is a `full`."""
    if n.op != "constant":
        return _plain(n)
    value = n.attr("value")
    assert isinstance(value, Array)
    array = array_of(value)
    first = array.reshape(-1)[:1]
    same = array.size == 0 or bool(np.all(np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
                                          == first.view(np.uint8)))  # fmt: skip
    if not same:
        return n
    number: Attr = _nought(n.type.dtype)
    if array.size:
        number = bool(first[0]) if n.type.dtype == BOOL else int(first[0]) if n.type.dtype.is_int else float(first[0])
    attrs: dict[str, Attr] = {"value": number, "dtype": n.type.dtype, "shape": n.type.shape}
    return _plain(Node("full", (), make_attrs(attrs), n.types, n.outs))


def _nought(d: DType) -> float | bool:
    return False if d == BOOL else 0.0 if d.is_float else 0


def _plain(n: Node) -> Node:
    """`n` with numbers of the kind of its dtype, and regions in canonical form."""
    attrs = dict(n.attrs)
    if n.op in _NUMBERED:
        value, d = attrs["value"], n.types[0].dtype
        assert isinstance(value, int | float)
        attrs["value"] = bool(value) if d == BOOL else int(value) if d.is_int else float(value)
    regions = tuple(_renamed(_ordered(r)) for r in n.regions)
    return Node(n.op, n.args, make_attrs(attrs), n.types, n.outs, regions)


def _renamed(region: Graph) -> Graph:
    """A region called `body` with inputs called a0, a1, …"""
    return _signed(region, [n.out for n in region.inputs], region.outputs)


def _signed(region: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    """`region` with these inputs, in this order, and these outputs."""
    b = Builder("body")
    new = {v: b.input(f"a{i}", region.types[v]) for i, v in enumerate(inputs)}
    for n in region.nodes:
        if n.op != "input":
            new.update(zip(n.outs, b.copy(n, [new[a] for a in n.args]), strict=True))
    return Graph("body", _without_loc(b.nodes), tuple(new[v] for v in outputs), ())


def _loop(b: Builder, n: Node, args: list[int]) -> list[int]:
    """A loop with what it only reads as captures, each once, in the order in which the body first reads them."""
    trips, carry, xs = loop_counts(dict(n.attrs))
    if not trips:
        return [*args[:carry], *(b.full(_nought(t.dtype), t.dtype, t.shape) for t in n.types[carry:])]
    region, args = _with_literals(b, n.regions[0], args, carry + xs)
    body = _ordered(region)
    inside = [i.out for i in body.inputs]
    index, carried = inside[0], inside[1 : 1 + carry]
    kept = [k for k in range(carry) if body.outputs[k] != carried[k]]
    rows = dict(zip(inside[1 + carry : 1 + carry + xs], args[carry : carry + xs], strict=True))
    read = {v: a for k, (v, a) in enumerate(zip(carried, args, strict=False)) if k not in kept}
    read.update(zip(inside[1 + carry + xs :], args[carry + xs :], strict=True))
    body, rows, read = _merged(body, rows, read)
    order = list(dict.fromkeys(a for node in body.nodes for a in node.args))
    order += [v for v in body.outputs if v not in order]
    row_order, read_order = ([v for v in order if v in table] for table in (rows, read))
    results = [body.outputs[k] for k in kept] + list(body.outputs[carry:])
    region = _signed(body, [index, *(carried[k] for k in kept), *row_order, *read_order], results)
    operands = [*(args[k] for k in kept), *(rows[v] for v in row_order), *(read[v] for v in read_order)]
    if not results:
        return [args[k] for k in range(carry)]
    attrs = {"n": trips, "carry": len(kept), "xs": len(row_order)}
    made = list(b.add("loop", operands, attrs, regions=(region,)))
    last = dict(zip(kept, made, strict=False))
    return [*(last.get(k, args[k]) for k in range(carry)), *made[len(kept) :]]


def _with_literals(b: Builder, region: Graph, args: list[int], first: int) -> tuple[Graph, list[int]]:
    """Literals among the captures, which are the operands from `first` on, as literals of the body."""
    outside = {n.outs[0]: n for n in b.nodes if n.op in _LITERALS}
    inputs = [n.out for n in region.inputs]
    sunk = {inputs[1 + k]: outside[a] for k, a in enumerate(args) if k >= first and a in outside}
    if not sunk:
        return region, args
    nodes: list[Node] = []
    for n in region.nodes:
        literal = sunk.get(n.outs[0]) if n.op == "input" else None
        nodes.append(n if literal is None else Node(literal.op, (), literal.attrs, literal.types, n.outs))
    kept = [a for k, a in enumerate(args) if k < first or a not in outside]
    return Graph(region.name, tuple(nodes), region.outputs, region.output_names), kept


def _merged(
    body: Graph, rows: Mapping[int, int], read: Mapping[int, int]
) -> tuple[Graph, dict[int, int], dict[int, int]]:
    """Inputs that are bound to the same outer value in the same way as one."""
    first: dict[tuple[bool, int], int] = {}
    same: dict[int, int] = {}
    for is_row, table in ((True, rows), (False, read)):
        for v, outer in table.items():
            same[v] = first.setdefault((is_row, outer), v)
    nodes = tuple(
        Node(n.op, tuple(same.get(a, a) for a in n.args), n.attrs, n.types, n.outs, n.regions)
        for n in body.nodes
        if n.op != "input" or same.get(n.out, n.out) == n.out
    )
    graph = Graph(body.name, nodes, tuple(same.get(v, v) for v in body.outputs), body.output_names)
    return graph, {v: o for v, o in rows.items() if same[v] == v}, {v: o for v, o in read.items() if same[v] == v}
