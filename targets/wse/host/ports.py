"""Regions of code placed on the fabric, the ports between them, and the paths that join ports.

Colors that meet at a port are one color of the machine; a path is the shortest way through routers that do not route
its color yet. Must not know how scripts spell their calls, nor how a mesh is simulated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NoReturn, TypeAlias

from ....compiler.source import Diagnostic, DiagnosticError
from ..chip import Wafer
from ..csl.program import Program
from ..csl.routes import DIRECTIONS, ColorConfig, Position

WEST, EAST, SOUTH, NORTH, RAMP = (1 << k for k in range(len(DIRECTIONS)))
OPPOSITE = {WEST: EAST, EAST: WEST, SOUTH: NORTH, NORTH: SOUTH}
STEP = {WEST: (-1, 0), EAST: (1, 0), SOUTH: (0, 1), NORTH: (0, -1)}
Place: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Way:
    """A routing position: masks of directions, 0 where the path decides."""

    rx: int = 0
    tx: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Port:
    """An edge of a region by which wavelets of `color` come in or go out; `side` is the direction outwards."""

    region: str
    color: str
    side: int
    is_input: bool
    ways: tuple[Way, ...]
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Artifacts:
    """A program placed piece by piece, ready to be loaded; `symbols` are (name, x, y, bytes) it starts with."""

    program: Program
    wafer: Wafer
    symbols: tuple[tuple[str, int, int, bytes], ...]


@dataclass(slots=True, eq=False)
class Painter:
    """Routes by color and place while they are found."""

    routes: dict[str, dict[Place, tuple[Way, ...]]] = field(default_factory=dict[str, dict[Place, "tuple[Way, ...]"]])

    def of(self, color: str) -> dict[Place, tuple[Way, ...]]:
        return self.routes.setdefault(color, {})


def refuse(message: str, help: str | None = None) -> NoReturn:
    """Raise E1054."""
    raise DiagnosticError(Diagnostic("E1054", message, help=help))


class Union:
    """Colors that are one color of the machine."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, name: str) -> str:
        """The first of the colors that `name` is one with."""
        self._parent.setdefault(name, name)
        while self._parent[name] != name:
            name = self._parent[name]
        return name

    def join(self, a: str, b: str) -> None:
        """`a` and `b` are one color."""
        first, second = sorted((self.find(a), self.find(b)))
        self._parent[second] = first


def edge_places(x: int, y: int, width: int, height: int, side: int) -> list[Place]:
    """The PEs along a side of a region, from left to right or from top to bottom."""
    if side in (WEST, EAST):
        column = x if side == WEST else x + width - 1
        return [(column, y + k) for k in range(height)]
    row = y if side == NORTH else y + height - 1
    return [(x + k, row) for k in range(width)]


def completed(ways: Iterable[Way], rx: int = 0, tx: int = 0) -> tuple[Way, ...]:
    """`ways` with the directions that were left to the path."""
    return tuple(Way(w.rx or rx, w.tx or tx) for w in ways)


def path_between(
    start: Place, side: int, end: Place, end_side: int, taken: Mapping[Place, object], size: Place
) -> list[Place]:
    """The PEs from `start`, left by `side`, to `end`, entered by `end_side`; both included. Routers in `taken` route
    the color already. E1054 when there is no way."""
    first, last = _next(start, side), _next(end, end_side)
    if first == end and last == start:
        return [start, end]

    def free(p: Place) -> bool:
        return 0 <= p[0] < size[0] and 0 <= p[1] < size[1] and p not in taken and p not in (start, end)

    came: dict[Place, Place] = {}
    work = deque([first] if free(first) else [])
    came.update(dict.fromkeys(work, start))
    while work:
        here = work.popleft()
        if here == last:
            return _walked(came, start, here, end)
        for direction in (EAST, SOUTH, WEST, NORTH):
            there = _next(here, direction)
            if free(there) and there not in came:
                came[there] = here
                work.append(there)
    return refuse(f"there is no way from the port at {start} to the one at {end}", "place the regions further apart")


def _walked(came: Mapping[Place, Place], start: Place, here: Place, end: Place) -> list[Place]:
    way = [end, here]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _next(place: Place, direction: int) -> Place:
    dx, dy = STEP[direction]
    return place[0] + dx, place[1] + dy


def directions_along(path: list[Place]) -> list[int]:
    """The direction of each step of a path."""
    by_step = {step: direction for direction, step in STEP.items()}
    return [by_step[b[0] - a[0], b[1] - a[1]] for a, b in pairwise(path)]


def config(ways: tuple[Way, ...]) -> ColorConfig:
    """The configuration of a router: the first way, then switch positions."""
    if not 1 <= len(ways) <= 4:
        refuse(f"{len(ways)} routing positions: a router has 4")
    positions = [Position(w.rx, w.tx, True) for w in ways[1:]] + [Position()] * (4 - len(ways))
    first = next(iter(ways))
    return ColorConfig(first.rx, first.tx, (positions[0], positions[1], positions[2]))
