"""The least cut of a small network: the fewest bytes that separate where values come from and where they are read.

Augmenting paths (Ford and Fulkerson 1956): capacities are bytes and the networks are the expressions of a model's
params, a handful of values each. Must not know graphs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Vertex = tuple[str, int]
SOURCE, SINK = ("source", 0), ("sink", 0)
_Net = dict[Vertex, dict[Vertex, int]]


def least_cut(sizes: Mapping[int, int], made_from: Mapping[int, Iterable[int]], read: Mapping[int, int]) -> int:
    """The least bytes of values to be kept so that all that is read can be made from them, or be read as it is.

    `sizes` are the bytes of each value when it is kept whole; `made_from` are its operands, none for one that comes
    from outside; `read` are the bytes that readers touch of a value that is read. Values absent from `sizes` are free.
    """
    endless = sum(sizes.values()) + sum(read.values()) + 1
    net: _Net = {SOURCE: {}, SINK: {}}
    for v, size in sizes.items():
        _join(net, ("in", v), ("out", v), size)
        operands = [a for a in dict.fromkeys(made_from[v]) if a in sizes]
        for a in operands:
            _join(net, ("out", a), ("in", v), endless)
        if not made_from[v]:
            _join(net, SOURCE, ("in", v), endless)
    for v, touched in read.items():
        if v in sizes:
            _join(net, ("out", v), SINK, touched)
    total = 0
    while path := _path(net):
        room = min(net[a][b] for a, b in path)
        for a, b in path:
            net[a][b] -= room
            net[b][a] += room
        total += room
    return total


def _join(net: _Net, a: Vertex, b: Vertex, room: int) -> None:
    net.setdefault(a, {})[b] = room
    net.setdefault(b, {}).setdefault(a, 0)


def _path(net: _Net) -> list[tuple[Vertex, Vertex]]:
    """A shortest way from the source to the sink on which there is room; empty when there is none."""
    came: dict[Vertex, Vertex] = {SOURCE: SOURCE}
    queue = [SOURCE]
    for a in queue:
        for b, room in net[a].items():
            if room and b not in came:
                came[b] = a
                queue.append(b)
        if SINK in came:
            break
    if SINK not in came:
        return []
    path, b = [(came[SINK], SINK)], came[SINK]
    while b != SOURCE:
        path.append((came[b], b))
        b = came[b]
    return path
