"""Compulsory traffic: the bytes a graph cannot avoid moving, whatever the machine.

Distinct bytes of the inputs and params that are used, once each, and the outputs, at their declared
dtypes. A leaf read only through slices or row gathers counts what those can touch. What depends on
params alone is made when weights bind: it counts as itself where that is less. Must not know targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..graph import LEAVES, Graph, Node
from .least_cut import least_cut

CONSTANTS = LEAVES - {"input", "param"}


def known_at_load(graph: Graph, given: Iterable[int] = ()) -> frozenset[int]:
    """Values that depend on params and literals alone (`given` are inputs to be taken as params)."""
    known = set(given)
    for n in graph.nodes:
        if n.op in LEAVES:
            if n.op != "input":
                known.update(n.outs)
        elif n.op != "loop" and known.issuperset(n.args):
            known.update(n.outs)
    return frozenset(known)


def loop_params(loop: Node, loaded: frozenset[int]) -> frozenset[int]:
    """The inputs of a loop's body that depend on params alone: xs and captures that do."""
    carry = loop.attr("carry")
    assert isinstance(carry, int)
    inputs = [n.out for n in loop.regions[0].inputs][1 + carry :]
    return frozenset(v for v, a in zip(inputs, loop.args[carry:], strict=True) if a in loaded)


def compulsory_bytes(graph: Graph) -> int:
    """Bytes of main memory that any run of `graph` moves."""
    reads, writes = compulsory_traffic(graph)
    return reads + writes


def compulsory_traffic(graph: Graph) -> tuple[int, int]:
    """(bytes read, bytes written) that any run of `graph` moves."""
    loaded = known_at_load(graph)
    inputs = sum(_used_bytes(graph, n) for n in graph.inputs)
    outputs = sum(graph.types[v].nbytes for v in dict.fromkeys(graph.outputs))
    return inputs + _loaded_bytes(graph, loaded), outputs


def _loaded_bytes(graph: Graph, loaded: frozenset[int]) -> int:
    """The least bytes of params, or of what is made of them when weights bind, that a run must read.

    Parts that share no param are counted one by one: the network of one part is small.
    """
    made_from = _made_of_params(graph, loaded)
    read = {v: _read_bytes(graph, v, loaded) for v in _frontier(graph, loaded) if v in made_from}
    total = 0
    for part in _parts(made_from):
        sizes = {v: graph.types[v].nbytes for v in part}
        total += least_cut(sizes, {v: made_from[v] for v in part}, {v: read[v] for v in part if v in read})
    return total


def _made_of_params(graph: Graph, loaded: frozenset[int]) -> dict[int, tuple[int, ...]]:
    """The values of `loaded` that depend on a param, each with its operands that do: none for a param."""
    found: dict[int, tuple[int, ...]] = {}
    for n in graph.nodes:
        args = tuple(a for a in n.args if a in found)
        if n.op == "param" or (args and loaded.issuperset(n.outs)):
            found.update(dict.fromkeys(n.outs, args))
    return found


def _parts(made_from: Mapping[int, Iterable[int]]) -> list[list[int]]:
    """The values that are joined by operands, together; in order. Operands come before what is made of them."""
    part: dict[int, list[int]] = {}
    for v, args in made_from.items():
        joined = [v]
        for other in {id(part[a]): part[a] for a in args if a in part}.values():
            joined += other
        part.update(dict.fromkeys(joined, joined))
    return [sorted(values) for values in {id(values): values for values in part.values()}.values()]


def _frontier(graph: Graph, loaded: frozenset[int]) -> list[int]:
    """Values known when weights bind that run-time nodes, or the outputs, read."""
    found: dict[int, None] = {}
    for n in graph.nodes:
        if not loaded.issuperset(n.outs):
            found.update(dict.fromkeys(a for a in n.args if a in loaded))
    found.update(dict.fromkeys(v for v in graph.outputs if v in loaded))
    return list(found)


def _read_bytes(graph: Graph, v: int, loaded: frozenset[int]) -> int:
    users = [n for n in graph.users[v] if not loaded.issuperset(n.outs)]
    return _limited(graph, v, users, v in graph.outputs)


def _used_bytes(graph: Graph, leaf: Node) -> int:
    return _limited(graph, leaf.out, graph.users[leaf.out], leaf.out in graph.outputs)


def _limited(graph: Graph, v: int, users: Iterable[Node], returned: bool) -> int:
    """Bytes of `v` that `users` can touch."""
    whole, touched = graph.types[v].nbytes, 0
    for n in users:
        touched += touched_bytes(n, v, graph.types[v].nbytes)
    return whole if returned else min(whole, touched)


def touched_bytes(user: Node, v: int, whole: int) -> int:
    """Bytes of `v`, `whole` in all, that one node can touch: its result's for a slice or a row gather."""
    if user.op == "slice" or (user.op == "take" and user.args[0] == v and user.args[1] != v):
        return min(whole, user.type.nbytes)
    return whole


def executions(graph: Graph, times: int = 1, given: Iterable[int] = ()) -> list[tuple[Graph, Node, int]]:
    """Every run-time node of `graph` and its loops' bodies, with how often it runs. Composites whole."""
    loaded = known_at_load(graph, given)
    found: list[tuple[Graph, Node, int]] = []
    for n in graph.nodes:
        if n.op == "loop":
            count = n.attr("n")
            assert isinstance(count, int)
            found += executions(n.regions[0], times * count, loop_params(n, loaded))
        elif n.op not in LEAVES and not loaded.issuperset(n.outs):
            found.append((graph, n, times))
    return found
