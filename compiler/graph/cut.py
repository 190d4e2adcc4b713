"""Cutting a program into segments that alternate between two places, with as few changes of place as there can be.

A node is a number and knows its place already: what a target compiles, and what the host runs instead. Knows TensorType
for the types of what crosses. Must not know what nodes are (of a Graph, of a model in another format), nor what is done
with a segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .types import TensorType


@dataclass(frozen=True, slots=True)
class Segment:
    """Nodes that run one after the other in one place, in an order in which they can."""

    compiled: bool
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that one segment makes and others read, by their numbers; `type` is None where tdslc has no such type."""

    value: str
    type: TensorType | None
    maker: int
    readers: tuple[int, ...]


def cut(reads: Sequence[Sequence[int]], compiled: Sequence[bool]) -> tuple[Segment, ...]:
    """The nodes as segments in the order in which they run; places alternate.

    `reads[i]` are the nodes whose results node `i` reads, `compiled[i]` is its place. The graph has no cycle. Of all
    such sequences this is one with the fewest segments: each takes every node of its place that is ready, so no
    other sequence is ahead of it after as many segments; the two places to start from are both tried.
    """
    users: list[list[int]] = [[] for _ in reads]
    for i, sources in enumerate(reads):
        for source in dict.fromkeys(sources):
            users[source].append(i)
    started = [_phases(reads, users, compiled, first) for first in (True, False)]
    return min(started, key=len)


def edges(
    segments: Sequence[Segment],
    makes: Sequence[Sequence[str]],
    reads: Sequence[Sequence[str]],
    types: Mapping[str, TensorType],
) -> tuple[Edge, ...]:
    """The values that leave the segment that makes them, in the order in which they are made.

    `makes` and `reads` are the names of the values of each segment.
    """  # fmt: skip
    makers = {name: k for k, names in enumerate(makes) for name in names}
    readers: dict[str, list[int]] = {name: [] for name in makers}
    for k in range(len(segments)):
        for name in dict.fromkeys(reads[k]):
            if name in makers and makers[name] != k:
                readers[name].append(k)
    return tuple(Edge(name, types.get(name), makers[name], tuple(found)) for name, found in readers.items() if found)


def _phases(
    reads: Sequence[Sequence[int]], users: Sequence[Sequence[int]], compiled: Sequence[bool], first: bool
) -> tuple[Segment, ...]:
    waits = [len(dict.fromkeys(sources)) for sources in reads]
    ready: dict[bool, list[int]] = {True: [], False: []}
    for i, n in enumerate(waits):
        if not n:
            heapq.heappush(ready[bool(compiled[i])], i)
    found: list[Segment] = []
    place = first
    while ready[True] or ready[False]:
        nodes: list[int] = []
        while ready[place]:
            i = heapq.heappop(ready[place])
            nodes.append(i)
            for user in users[i]:
                waits[user] -= 1
                if not waits[user]:
                    heapq.heappush(ready[bool(compiled[user])], user)
        if nodes:
            found.append(Segment(place, tuple(nodes)))
        place = not place
    assert sum(len(s.nodes) for s in found) == len(reads), "the graph has a cycle"
    return tuple(found)
