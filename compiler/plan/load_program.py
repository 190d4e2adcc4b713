"""The load program: what depends on weights only is computed once, on the host, when they bind.

An expression of params moves when reading its result costs the chip no more bytes than reading the
params did; a reshape alone never moves, nor does a broadcast. In a loop's body the same goes for
slices of stacked params: the expression is computed for all iterations and stacked. Must not know targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..graph import LEAVES, Attr, Graph, Node, TensorType, live, make_attrs
from ..graph.ops.control import INDEX, loop_counts

_LONGEST_NAME = 96
_STAYS = frozenset(("reshape", "broadcast"))  # addressing that every reader does for nothing


def split_load(graph: Graph) -> tuple[Graph, Graph | None]:
    """(`graph` reading results of the load program as params, the load program or None).

    The load program's inputs are the params it reads, under their names; its outputs are named as the
    new params. Params that the chip no longer reads leave `graph`; inputs and outputs stay as they are.
    """
    loops_split = _split_bodies(graph)
    moved = _movable(loops_split, _from_params(loops_split))
    if not moved:
        return _used_params(live(loops_split)), None
    names = _Namer(loops_split)
    load = live(Graph("load", loops_split.nodes, tuple(moved), tuple(names.of(v) for v in moved)))
    load = Graph(load.name, tuple(n for n in load.nodes if n.op != "input"), load.outputs, load.output_names)
    new = {v: _as_param(name, loops_split, v) for v, name in zip(moved, load.output_names, strict=True)}
    return _used_params(live(_with_params(loops_split, new))), _used_params(load)


# ---- what depends on params only -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Known:
    """Values known when weights bind, each with the params (values) it is made from; literals have none."""

    leaves: Mapping[int, frozenset[int]]

    def __contains__(self, value: int) -> bool:
        return value in self.leaves


def _from_params(graph: Graph, given: Iterable[int] = (), free: Iterable[int] = ()) -> _Known:
    """`given` are further values that count as params, `free` such as count as literals."""
    leaves: dict[int, frozenset[int]] = {v: frozenset((v,)) for v in given} | {v: frozenset() for v in free}
    for n in graph.nodes:
        if n.op == "param":
            leaves[n.out] = frozenset((n.out,))
        elif n.op in LEAVES:
            leaves.update((v, frozenset()) for v in n.outs if n.op != "input" and v not in leaves)
        elif all(a in leaves for a in n.args):
            leaves.update(dict.fromkeys(n.outs, frozenset[int]().union(*(leaves[a] for a in n.args))))
    return _Known(leaves)


def param_only(graph: Graph) -> frozenset[int]:
    """Values of `graph` that are known once its params are; literals alone are not among them."""
    return frozenset(v for v, leaves in _from_params(graph).leaves.items() if leaves)


def _movable(graph: Graph, known: _Known) -> list[int]:
    """The values to compute at load, in order: the largest expressions that pay."""
    unknown = [n for n in graph.nodes if n.op not in LEAVES and not all(v in known for v in n.outs)]
    stack = [v for v in (*graph.outputs, *(a for n in unknown for a in n.args)) if v in known]
    moved: set[int] = set()
    seen: set[int] = set()
    while stack:
        v = stack.pop()
        if v in seen or not known.leaves[v]:
            continue
        seen.add(v)
        if _pays(graph, known, v):
            moved.add(v)
        else:
            stack += graph.producers[v].args
    return [v for n in graph.nodes for v in n.outs if v in moved]


def _pays(graph: Graph, known: _Known, value: int) -> bool:
    node = graph.producers[value]
    if node.op in LEAVES or node.op in _STAYS or value in known.leaves[value]:
        return False
    return graph.types[value].nbytes <= sum(graph.types[p].nbytes for p in known.leaves[value])


# ---- loop bodies ---------------------------------------------------------------------------------


def _split_bodies(graph: Graph) -> Graph:
    """`graph` with what a body computes from params alone taken out into a loop of its own before it."""
    if not any(n.op == "loop" for n in graph.nodes):
        return graph
    fresh = _Fresh(graph)
    known = _from_params(graph)
    nodes: list[Node] = []
    for n in graph.nodes:
        if n.op == "loop" and any(v not in known for v in n.outs):
            nodes += _split_loop(n, tuple(a in known and bool(known.leaves[a]) for a in n.args), fresh)
        else:
            nodes.append(n)
    return Graph(graph.name, tuple(nodes), graph.outputs, graph.output_names)


@dataclass(slots=True)
class _Fresh:
    """Numbers for new values of a graph."""

    graph: Graph
    used: int = field(init=False)

    def __post_init__(self) -> None:
        self.used = max((v for n in self.graph.nodes for v in n.outs), default=-1) + 1

    def take(self, count: int) -> tuple[int, ...]:
        first, self.used = self.used, self.used + count
        return tuple(range(first, first + count))


def _split_loop(node: Node, loaded: Sequence[bool], fresh: _Fresh) -> list[Node]:
    """The loop, and before it a loop over the loaded operands whose ys the first now reads."""
    n, carry, xs = loop_counts(dict(node.attrs))
    body = node.regions[0]
    index, *values = (i.out for i in body.inputs)
    # A carried value is another one in each iteration, whatever it starts as.
    given = [v for k, v in enumerate(values) if loaded[k] and k >= carry]
    body = _split_bodies_given(body, given)
    moved = _movable(body, _from_params(body, given, (index,))) if n else []
    moved = [v for v in moved if not _is_input(body, v)]
    before: list[Node] = []
    args, kept = list(node.args), body
    if moved:
        before = [_load_loop(node, body, moved, [v in given for v in values], fresh)]
        new_inputs = {v: _as_input(f"load.{k}", body, v) for k, v in enumerate(moved)}
        kept = _replaced(body, new_inputs, after=[index, *values][carry + xs])
        args[carry + xs : carry + xs] = before[0].outs
    return [*before, _without_unused(node, live(kept), args, xs + len(moved))]


def _split_bodies_given(body: Graph, given: Sequence[int]) -> Graph:
    """`_split_bodies` of a body whose inputs `given` count as params."""
    as_params = _swap_leaves(body, given, "param")
    return _swap_leaves(_split_bodies(as_params), given, "input")


def _swap_leaves(graph: Graph, values: Iterable[int], op: str) -> Graph:
    """`graph` with the leaves `values` turned into inputs or params of the same name."""
    wanted = set(values)
    nodes = tuple(as_leaf(n, op) if n.outs and n.outs[0] in wanted and n.op in ("input", "param") else n for n in graph.nodes)
    return Graph(graph.name, nodes, graph.outputs, graph.output_names)


def as_leaf(node: Node, op: str) -> Node:
    """An input as a param of the same name and type, or the reverse."""
    attrs: dict[str, Attr] = {k: v for k, v in node.attrs if k != "stack"}
    if op == "param":
        attrs["stack"] = 0
    return Node(op, (), make_attrs(attrs), node.types, node.outs, (), node.loc)


def _is_input(graph: Graph, value: int) -> bool:
    return graph.producers[value].op == "input"


def _load_loop(node: Node, body: Graph, moved: Sequence[int], given: Sequence[bool], fresh: _Fresh) -> Node:
    """A loop that carries nothing and stacks `moved`, over those of `node`'s operands that are loaded."""
    n, carry, xs = loop_counts(dict(node.attrs))
    inputs = body.inputs
    keep = [k for k, is_given in enumerate(given) if is_given]
    wanted = {inputs[0].out, *(inputs[k + 1].out for k in keep)}
    region = live(Graph(f"{body.name}.load", body.nodes, tuple(moved)))
    region = Graph(region.name, tuple(m for m in region.nodes if m.op != "input" or m.out in wanted), region.outputs)
    types = tuple(body.types[v].with_shape((node.attr("n"), *body.types[v].shape)) for v in moved)  # pyright: ignore[reportArgumentType]
    attrs = make_attrs({"n": node.attr("n"), "carry": 0, "xs": sum(carry <= k < carry + xs for k in keep)})
    loop = Node("loop", tuple(node.args[k] for k in keep), attrs, types, fresh.take(len(moved)), (region,), node.loc)
    return loop if n else node


def _replaced(body: Graph, new: Mapping[int, Node], after: int) -> Graph:
    """`body` with the values of `new` given as inputs, which stand behind the input `after`."""
    nodes: list[Node] = []
    for m in body.nodes:
        if m.outs and m.outs[0] in new and m.op != "input":
            continue
        nodes.append(m)
        if m.outs == (after,):
            nodes += new.values()
    return Graph(body.name, tuple(nodes), body.outputs, body.output_names)


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
        base = expression(self.graph, value, {})
        name, count = base, 1
        while name in self.used:
            count += 1
            name = f"{base}#{count}"
        self.used.add(name)
        return name


def expression(graph: Graph, value: int, names: Mapping[int, str]) -> str:
    """`value` as a short text over the names of leaves; `names` are those of a body's inputs."""
    node = graph.producers[value]
    if value in names:
        return names[value]
    if node.op in ("input", "param"):
        return str(node.attr("name"))
    if node.op == "full":
        return str(node.attr("value"))
    if node.op in LEAVES:
        return node.op
    if node.op == "loop":
        return _loop_expression(graph, node, value, names)
    inside = ",".join(_clip(expression(graph, a, names)) for a in node.args)
    text = inside if node.op in _STAYS else f"{node.op}({inside})"
    return _clip(text)


def _loop_expression(graph: Graph, node: Node, value: int, names: Mapping[int, str]) -> str:
    """A stacked value reads as what the body computes of one element."""
    _, carry, _ = loop_counts(dict(node.attrs))
    if carry:
        return f"loop.{node.outs.index(value)}({','.join(_clip(expression(graph, a, names)) for a in node.args)})"
    body = node.regions[0]
    outer = [expression(graph, a, names) for a in node.args]
    inner = dict(zip((i.out for i in body.inputs), ("i", *outer), strict=True))
    return expression(body, body.outputs[node.outs.index(value)], inner)


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


def _as_param(name: str, graph: Graph, value: int) -> Node:
    t = graph.types[value]
    node = graph.producers[value]
    stack: Attr = node.attr("n") if node.op == "loop" and "{i}" in name else 0
    return _leaf("param", name, t, value, {"stack": stack}, node.loc)


def _as_input(name: str, graph: Graph, value: int) -> Node:
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


Names: type = Callable[[int], str]  # pyright: ignore[reportGeneralTypeIssues]
