"""Compulsory traffic: the bytes a graph cannot avoid moving, whatever the machine.

Distinct bytes of the inputs and params that are used, once each, and the outputs, at their declared
dtypes. A leaf read only through slices or row gathers counts what those can touch. What depends on
params alone is made when weights bind: it counts as itself where that is less. Must not know targets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ..graph import LEAVES, Graph, Node
from ..graph.ops.contract import logical_weights
from ..graph.ops.control import loop_counts
from ..graph.ops.movement import ints
from .least_cut import Network, least_cut

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
    inputs = sum(_used_bytes(graph, n) for n in graph.inputs)
    outputs = sum(graph.types[v].nbytes for v in dict.fromkeys(graph.outputs))
    return inputs + param_bytes(graph), outputs


def param_bytes(graph: Graph) -> int:
    """The least bytes of params, or of what is made of them when weights bind, that a run of `graph` must read."""
    net = Network()
    _add_known(net, graph, "", {}, frozenset(), 1)
    return least_cut(net)


_Made = Mapping[int, tuple[tuple[str, int], int]]  # values of a body made of params: the vertex outside, and how many


def _add_known(net: Network, graph: Graph, where: str, given: _Made, constants: frozenset[int], trips: int) -> None:
    """Add what `graph` knows of its params to `net`, under vertices `(where, value)`; the graph runs `trips` times.

    A value in a loop's body that differs from trip to trip counts as often as it does; what is made of values that
    differ in different loops counts as the most often changing one, which is no more than it is.
    """
    loaded = known_at_load(graph, {*given, *constants})
    often: dict[int, int] = {}
    for n in graph.nodes:
        args = tuple(a for a in n.args if a in often)
        for v in n.outs:
            if v in given:
                net.made_from[where, v], often[v] = (given[v][0],), given[v][1]
            elif n.op == "param" or (args and v in loaded):
                net.made_from[where, v] = tuple((where, a) for a in args)
                often[v] = max((often[a] for a in args), default=1)
            if v in often:
                net.sizes[where, v] = graph.types[v].nbytes * often[v]
    for v, changes in often.items():
        whole = graph.types[v].nbytes
        touched = sum(_direct_bytes(graph, n, v) for n in graph.users[v] if not loaded.issuperset(n.outs))
        once = whole if v in graph.outputs else min(whole, touched * (trips // changes))
        net.read[where, v] = once * changes
    for n in graph.nodes:
        if n.op == "loop" and not loaded.issuperset(n.outs):
            _add_body(net, n, where, often, loaded, trips)


def _direct_bytes(graph: Graph, user: Node, v: int) -> int:
    """Bytes of `v` that one node touches itself: of what a loop captures, its body tells."""
    if user.op == "loop":
        return graph.types[v].nbytes if v in user.args[: loop_counts(dict(user.attrs))[1]] else 0
    return _touched_bytes(graph, user, v)


def _add_body(
    net: Network, loop: Node, where: str, often: Mapping[int, int], loaded: frozenset[int], trips: int
) -> None:
    count, carried, xs = loop_counts(dict(loop.attrs))
    if not count:
        return
    inputs = [n.out for n in loop.regions[0].inputs][1 + carried :]
    turns = [count] * xs + [1] * (len(inputs) - xs)
    given = {
        v: ((where, a), often[a] * k) for v, a, k in zip(inputs, loop.args[carried:], turns, strict=True) if a in often
    }
    constants = loop_params(loop, loaded) - given.keys()
    _add_known(net, loop.regions[0], f"{where}{loop.outs[0]}/", given, frozenset(constants), trips * count)


def _used_bytes(graph: Graph, leaf: Node) -> int:
    return _limited(graph, leaf.out, graph.users[leaf.out], leaf.out in graph.outputs)


def _limited(graph: Graph, v: int, users: Iterable[Node], returned: bool) -> int:
    """Bytes of `v` that `users` can touch."""
    whole, touched = graph.types[v].nbytes, sum(_touched_bytes(graph, n, v) for n in users)
    return whole if returned else min(whole, touched)


def _touched_bytes(graph: Graph, user: Node, v: int) -> int:
    """Bytes of `v` that one node can touch: its result's for a slice or a row gather, what lies in windows of it."""
    whole, lone = graph.types[v].nbytes, user.args[0] == v and user.args.count(v) == 1
    if user.op == "slice" or (user.op == "take" and lone):
        return min(whole, user.type.nbytes)
    return _windowed_bytes(graph, user, whole) if user.op in ("conv", "reduce_window") and lone else whole


def _windowed_bytes(graph: Graph, user: Node, whole: int) -> int:
    """Bytes of the operand of a convolution or pooling that lie in some window: strides may pass over the rest."""
    sizes = [int(d) for d in graph.types[user.args[0]].shape[2:]]
    attrs = dict(user.attrs)
    if user.op == "conv":
        window = logical_weights(graph.types[user.args[1]].shape, attrs)[2:]
    else:
        window = ints(attrs["window"])
    out = user.type.shape[2:]
    rest = (ints(attrs["strides"]), ints(attrs["dilations"]), ints(attrs["low"]))
    for size, made, taps, stride, dilation, low in zip(sizes, out, window, *rest, strict=True):
        inside = np.zeros(size, np.bool_)
        for tap in range(int(taps)):
            at = np.arange(int(made)) * stride + tap * dilation - low
            inside[at[(at >= 0) & (at < size)]] = True
        whole = whole * int(inside.sum()) // size if size else 0
    return whole if user.type.size else 0


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
