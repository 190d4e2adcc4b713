"""The load program: what depends on weights only is computed once, on the host, when they bind.

An expression of params moves when reading its result costs the chip no more bytes than reading the
params did; a reshape alone never moves, nor does a broadcast. In a loop's body the same goes for
slices of stacked params: the expression is computed for all iterations and stacked. Must not know targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..graph import LEAVES, Attr, Graph, Node, TensorType, live, make_attrs
from ..graph.ops.control import loop_counts

_LONGEST_NAME = 96
_DEEPEST_NAME = 8  # ops that a name spells out, one within the other
_STAYS = frozenset(("reshape", "broadcast"))  # addressing that every reader does for nothing


def split_load(graph: Graph) -> tuple[Graph, Graph | None]:
    """(`graph` reading results of the load program as params, the load program or None).

    The load program's inputs are the params it reads, under their names; its outputs are named as the
    new params. Params that the chip no longer reads leave `graph`; inputs and outputs stay as they are.
    """
    loops_split = _split_bodies(live(graph))
    moved = _movable(loops_split, _known(loops_split))
    if not moved:
        return _used_params(live(loops_split)), None
    names = _Namer(loops_split)
    load = live(Graph("load", loops_split.nodes, tuple(moved), tuple(names.of(v) for v in moved)))
    load = Graph(load.name, tuple(n for n in load.nodes if n.op != "input"), load.outputs, load.output_names)
    new = {v: _as_param(name, loops_split, v) for v, name in zip(moved, load.output_names, strict=True)}
    return _used_params(live(_with_params(loops_split, new))), _used_params(load)


# ---- what depends on params only -----------------------------------------------------------------

Leaves = Mapping[int, frozenset[int]]  # values known when weights bind, each with the params (values) it is made from


def _known(graph: Graph, given: Iterable[int] = ()) -> Leaves:
    """`given` are further values that count as params. Literals are known, and made from no param."""
    leaves: dict[int, frozenset[int]] = {v: frozenset((v,)) for v in given}
    for n in graph.nodes:
        if n.op == "param":
            leaves[n.out] = frozenset((n.out,))
        elif n.op != "input" and all(a in leaves for a in n.args):
            leaves.update(dict.fromkeys(n.outs, frozenset[int]().union(*(leaves[a] for a in n.args))))
    return leaves


def param_only(graph: Graph) -> frozenset[int]:
    """Values of `graph` that are known once its params are; literals alone are not among them."""
    return frozenset(v for v, made_from in _known(graph).items() if made_from)


def _movable(graph: Graph, known: Leaves, index: int | None = None) -> list[int]:
    """The values to compute at load, in order: the largest expressions that pay.

    `index` is a loop's: what is made from it alone stays.
    """
    unknown = [n for n in graph.nodes if n.op not in LEAVES and any(v not in known for v in n.outs)]
    stack = [v for v in (*graph.outputs, *(a for n in unknown for a in n.args)) if v in known]
    moved: set[int] = set()
    seen: set[int] = set()
    while stack:
        v = stack.pop()
        if v in seen or not known[v] - {index}:
            continue
        seen.add(v)
        if _pays(graph, known[v], v):
            moved.update(w for w in graph.producers[v].outs if graph.users[w] or w in graph.outputs)
        else:
            stack += graph.producers[v].args
    return [v for n in graph.nodes for v in n.outs if v in moved]


def _pays(graph: Graph, made_from: frozenset[int], value: int) -> bool:
    """Whether reading `value` is no more than reading its params; a loop always pays, being many steps."""
    node = graph.producers[value]
    if node.op in LEAVES or node.op in _STAYS:
        return False
    return node.op == "loop" or graph.types[value].nbytes <= sum(graph.types[p].nbytes for p in made_from)


# ---- loop bodies ---------------------------------------------------------------------------------


def _split_bodies(graph: Graph) -> Graph:
    """`graph` with what a loop's body computes from params alone taken out, to stand before the loop."""
    if not any(n.op == "loop" for n in graph.nodes):
        return graph
    fresh = _Fresh(max(v for n in graph.nodes for v in n.outs) + 1)
    known = _known(graph)
    nodes: list[Node] = []
    for n in graph.nodes:
        if n.op == "loop" and any(v not in known for v in n.outs):
            nodes += _split_loop(n, tuple(bool(known.get(a)) for a in n.args), fresh)
        else:
            nodes.append(n)
    return Graph(graph.name, tuple(nodes), graph.outputs, graph.output_names)


@dataclass(slots=True)
class _Fresh:
    """Numbers for new values."""

    next: int

    def take(self, count: int) -> tuple[int, ...]:
        first, self.next = self.next, self.next + count
        return tuple(range(first, first + count))


def _split_loop(node: Node, loaded: Sequence[bool], fresh: _Fresh) -> list[Node]:
    """What can be computed before the loop, and the loop, which reads it.

    What is made from captures alone is computed once; the rest for all iterations, stacked.
    """
    n, carry, xs = loop_counts(dict(node.attrs))
    if not n:
        return [node]
    index, *values = (i.out for i in node.regions[0].inputs)
    # A carried value is another one in each iteration, whatever it starts as.
    given = [v for k, v in enumerate(values) if loaded[k] and k >= carry]
    body = _inputs_first(_split_nested(live(node.regions[0]), given))
    known = _known(body, (*given, index))
    moved = _movable(body, known, index)
    captures = frozenset(values[carry + xs :])
    once = [v for v in moved if known[v] <= captures]
    each = [v for v in moved if v not in once]
    outer = dict(zip(values, node.args, strict=True))
    before, once_args = _copied_out(body, once, outer, fresh)
    if each:
        before.append(_load_loop(node, body, each, given, fresh))
    each_args = before[-1].outs if each else ()
    args = (*node.args[: carry + xs], *each_args, *node.args[carry + xs :], *once_args)
    return [*before, _without_unused(node, _reading(body, each, once, carry + xs), args, xs + len(each))]


def _split_nested(body: Graph, given: Sequence[int]) -> Graph:
    """`_split_bodies` of a body whose inputs `given` count as params."""
    as_params = _swap_leaves(body, given, "param")
    return _swap_leaves(_split_bodies(as_params), given, "input")


def _swap_leaves(graph: Graph, values: Iterable[int], op: str) -> Graph:
    wanted = set(values)
    is_wanted = (n.op in ("input", "param") and n.out in wanted for n in graph.nodes)
    nodes = tuple(as_leaf(n, op) if yes else n for n, yes in zip(graph.nodes, is_wanted, strict=True))
    return Graph(graph.name, nodes, graph.outputs, graph.output_names)


def as_leaf(node: Node, op: str) -> Node:
    """An input as a param of the same name and type, or the reverse."""
    more: dict[str, Attr] = {"stack": 0} if op == "param" else {}
    return _leaf(op, str(node.attr("name")), node.type, node.out, more, node.loc)


def _inputs_first(graph: Graph) -> Graph:
    others = (n for n in graph.nodes if n.op != "input")
    return Graph(graph.name, (*graph.inputs, *others), graph.outputs, graph.output_names)


def _copied_out(
    body: Graph, values: Sequence[int], outer: Mapping[int, int], fresh: _Fresh
) -> tuple[list[Node], tuple[int, ...]]:
    """Nodes that compute `values` of `body` outside of it, where its inputs are `outer`; and the results."""
    if not values:
        return [], ()
    new = dict(outer)
    nodes: list[Node] = []
    for m in live(Graph(body.name, body.nodes, tuple(values))).nodes:
        if m.op == "input":
            continue
        outs = fresh.take(len(m.outs))
        nodes.append(Node(m.op, tuple(new[a] for a in m.args), m.attrs, m.types, outs, m.regions, m.loc))
        new.update(zip(m.outs, outs, strict=True))
    return nodes, tuple(new[v] for v in values)


def _load_loop(node: Node, body: Graph, moved: Sequence[int], given: Sequence[int], fresh: _Fresh) -> Node:
    """A loop that carries nothing and stacks `moved`, over those of `node`'s operands that are loaded."""
    _, carry, xs = loop_counts(dict(node.attrs))
    keep = [k for k, i in enumerate(body.inputs[1:]) if i.out in given]
    wanted = {body.inputs[0].out, *given}
    needed = live(Graph(f"{body.name}.load", body.nodes, tuple(moved)))
    region = Graph(needed.name, tuple(m for m in needed.nodes if m.op != "input" or m.out in wanted), needed.outputs)
    n = node.attr("n")
    assert isinstance(n, int)
    types = tuple(body.types[v].with_shape((n, *body.types[v].shape)) for v in moved)
    attrs = make_attrs({"n": n, "carry": 0, "xs": sum(carry <= k < carry + xs for k in keep)})
    args = tuple(node.args[k] for k in keep)
    loop = Node("loop", args, attrs, types, fresh.take(len(moved)), (region,), node.loc)
    return _without_unused(loop, region, args, loop_counts(dict(attrs))[2])


def _reading(body: Graph, each: Sequence[int], once: Sequence[int], position: int) -> Graph:
    """`body` given `each` as its last xs (behind its value input `position`) and `once` as its last captures."""
    new = {v: _as_input(body, v, f"load.{k}") for k, v in enumerate((*each, *once))}
    inputs = [i for i in body.inputs if i.out not in new]
    nodes = [*inputs[: position + 1], *(new[v] for v in each), *inputs[position + 1 :], *(new[v] for v in once)]
    nodes += (m for m in body.nodes if m.op != "input" and new.keys().isdisjoint(m.outs))
    return live(Graph(body.name, tuple(nodes), body.outputs, body.output_names))


def _without_unused(node: Node, body: Graph, args: Sequence[int], xs: int) -> Node:
    """The loop without xs and captures that its body does not read."""
    _, carry, _ = loop_counts(dict(node.attrs))
    read = {a for m in body.nodes for a in m.args} | set(body.outputs)
    keep = [k for k, i in enumerate(body.inputs[1:]) if k < carry or i.out in read]
    kept = {body.inputs[0].out, *(body.inputs[k + 1].out for k in keep)}
    nodes = tuple(m for m in body.nodes if m.op != "input" or m.out in kept)
    attrs = make_attrs({**dict(node.attrs), "xs": sum(carry <= k < carry + xs for k in keep)})
    region = Graph(body.name, nodes, body.outputs, body.output_names)
    return Node("loop", tuple(args[k] for k in keep), attrs, node.types, node.outs, (region,), node.loc)


# ---- rebuilding ----------------------------------------------------------------------------------


class _Namer:
    """Readable names of loaded values: the expression over the params' names. No two are equal."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.used = {str(n.attr("name")) for n in (*graph.inputs, *graph.params)}

    def of(self, value: int) -> str:
        base = expression(self.graph, value)
        name, count = base, 1
        while name in self.used:
            count += 1
            name = f"{base}#{count}"
        self.used.add(name)
        return name


def expression(graph: Graph, value: int, names: Mapping[int, str] | None = None, depth: int = 0) -> str:
    """`value` as a short text over the names of leaves; `names` are those of a body's inputs."""
    node = graph.producers[value]
    if names and value in names:
        return names[value]
    if node.op in ("input", "param"):
        return str(node.attr("name"))
    if node.op in LEAVES:
        return str(node.attr("value")) if node.op == "full" else node.op
    if depth == _DEEPEST_NAME:
        return "…"
    inside = [_clip(expression(graph, a, names, depth + 1)) for a in node.args]
    if node.op == "loop" and not node.attr("carry"):
        body, which = node.regions[0], node.outs.index(value)
        inner = dict(zip((i.out for i in body.inputs), ("i", *inside), strict=True))
        return expression(body, body.outputs[which], inner, depth + 1)
    return _clip(",".join(inside) if node.op in _STAYS else f"{node.op}({','.join(inside)})")


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def _as_param(name: str, graph: Graph, value: int) -> Node:
    t = graph.types[value]
    node = graph.producers[value]
    stack: Attr = node.attr("n") if node.op == "loop" and "{i}" in name else 0
    return _leaf("param", name, t, value, {"stack": stack}, node.loc)


def _as_input(graph: Graph, value: int, name: str) -> Node:
    taken = {str(i.attr("name")) for i in graph.inputs}
    while name in taken:
        name += "'"
    return _leaf("input", name, graph.types[value], value, {}, graph.producers[value].loc)


def _leaf(op: str, name: str, t: TensorType, value: int, more: Mapping[str, Attr], loc: str) -> Node:
    return Node(op, (), make_attrs({"name": name, "dtype": t.dtype, "shape": t.shape, **more}), (t,), (value,), (), loc)


def _with_params(graph: Graph, new: Mapping[int, Node]) -> Graph:
    """`graph` with the values of `new` given as params; a node all of whose results are new goes."""
    nodes: list[Node] = []
    for n in graph.nodes:
        mine = [new[v] for v in n.outs if v in new]
        nodes += mine if mine else [n]
    return Graph(graph.name, tuple(nodes), graph.outputs, graph.output_names)


def _used_params(graph: Graph) -> Graph:
    """`graph` without params that nothing reads."""
    read = {a for n in graph.nodes for a in n.args} | set(graph.outputs)
    nodes = tuple(n for n in graph.nodes if n.op != "param" or n.out in read)
    return Graph(graph.name, nodes, graph.outputs, graph.output_names)
