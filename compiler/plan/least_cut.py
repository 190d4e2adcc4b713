"""The least cut of a small network: the fewest bytes that separate where values come from and where they are read.

Augmenting paths (Ford and Fulkerson 1956): capacities are bytes and the networks are the expressions of a model's
params, a handful of values each. Must not know graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Key = tuple[str, int]
_Vertex = tuple[str, Key]
_SOURCE, _SINK = ("source", ("", 0)), ("sink", ("", 0))
_Net = dict[_Vertex, dict[_Vertex, int]]


@dataclass(slots=True)
class Network:
    """Values by key: bytes of each when kept whole, what it is made from (nothing: it comes from outside), and the
    bytes that readers touch of it as it is."""  # fmt: skip

    sizes: dict[Key, int] = field(default_factory=dict[Key, int])
    made_from: dict[Key, tuple[Key, ...]] = field(default_factory=dict[Key, tuple[Key, ...]])
    read: dict[Key, int] = field(default_factory=dict[Key, int])


def least_cut(net: Network) -> int:
    """The least bytes to be read so that everything that is read can be made from them.

    Parts that share no value are cut one by one. `net` names operands before what is made of them.
    """
    return sum(_cut(net, part) for part in _parts(net.made_from))


def _parts(made_from: Mapping[Key, tuple[Key, ...]]) -> list[list[Key]]:
    part: dict[Key, list[Key]] = {}
    for key, args in made_from.items():
        joined = [key]
        for other in {id(part[a]): part[a] for a in args}.values():
            joined += other
        part.update(dict.fromkeys(joined, joined))
    return list({id(keys): keys for keys in part.values()}.values())


def _cut(values: Network, part: list[Key]) -> int:
    endless = sum(values.sizes[key] + values.read.get(key, 0) for key in part) + 1
    net: _Net = {_SOURCE: {}, _SINK: {}}
    for key in part:
        _join(net, ("in", key), ("out", key), values.sizes[key])
        _join(net, ("out", key), _SINK, values.read.get(key, 0))
        for a in dict.fromkeys(values.made_from[key]):
            _join(net, ("out", a), ("in", key), endless)
        if not values.made_from[key]:
            _join(net, _SOURCE, ("in", key), endless)
    total = 0
    while path := _path(net):
        room = min(net[a][b] for a, b in path)
        for a, b in path:
            net[a][b] -= room
            net[b][a] += room
        total += room
    return total


def _join(net: _Net, a: _Vertex, b: _Vertex, room: int) -> None:
    net.setdefault(a, {})[b] = room
    net.setdefault(b, {}).setdefault(a, 0)


def _path(net: _Net) -> list[tuple[_Vertex, _Vertex]]:
    """A shortest way from the source to the sink on which there is room; empty when there is none."""
    came: dict[_Vertex, _Vertex] = {_SOURCE: _SOURCE}
    queue = [_SOURCE]
    for a in queue:
        for b, room in net[a].items():
            if room and b not in came:
                came[b] = a
                queue.append(b)
        if _SINK in came:
            break
    if _SINK not in came:
        return []
    path, b = [(came[_SINK], _SINK)], came[_SINK]
    while b != _SOURCE:
        path.append((came[b], b))
        b = came[b]
    return path
