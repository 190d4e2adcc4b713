"""`SdkLayout`: programs that a script places region by region, with ports between them and to the host.

Must not know how a mesh is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import DiagnosticError, render_all
from ..chip import Wafer, load
from ..csl.layout import Layout, Tile
from ..csl.program import compile_placed, one_file
from ..csl.routes import Routes
from ..csl.world import Rectangle
from ..mesh.simulation import Stream
from .ports import (
    EAST,
    NORTH,
    OPPOSITE,
    RAMP,
    SOUTH,
    WEST,
    Artifacts,
    Painter,
    Place,
    Port,
    Union,
    Way,
    completed,
    config,
    directions_along,
    edge_places,
    path_between,
    refuse,
)  # fmt: skip

# PEs left free around the regions, for paths.
_MARGIN = 1


@dataclass(frozen=True, slots=True)
class IntVector:
    """A place in a region, or in the fabric."""

    x: int
    y: int


@dataclass(frozen=True, slots=True)
class IntRectangle:
    """The places from `upper_left` to before `lower_right`."""

    upper_left: IntVector
    lower_right: IntVector


class Route(Enum):
    """A direction of a router."""

    WEST, EAST, SOUTH, NORTH, RAMP = WEST, EAST, SOUTH, NORTH, RAMP


class Edge(Enum):
    """A side of a region, by the direction outwards."""

    LEFT, RIGHT, BOTTOM, TOP = WEST, EAST, SOUTH, NORTH


class SdkTarget(Enum):
    """A machine."""

    WSE2, WSE3 = "wse2", "wse3"


@dataclass(frozen=True, slots=True)
class RoutingPosition:
    """Where a router takes wavelets of a color from and sends them to."""

    rx: int = 0
    tx: int = 0

    def set_input(self, routes: Sequence[Route]) -> RoutingPosition:
        """The position with its inputs set."""
        return RoutingPosition(_mask(routes), self.tx)

    def set_output(self, routes: Sequence[Route]) -> RoutingPosition:
        """The position with its outputs set."""
        return RoutingPosition(self.rx, _mask(routes))


@dataclass(frozen=True, slots=True)
class EdgeRouting:
    """Positions of the PEs along a side, where they differ from the others'."""

    edge: Edge
    positions: tuple[RoutingPosition, ...]


def get_edge_routing(edge: Edge, positions: Sequence[RoutingPosition]) -> EdgeRouting:
    """What the PEs along `edge` do instead."""
    return EdgeRouting(edge, tuple(positions))


@dataclass(frozen=True, slots=True)
class Color:
    """A color by name; `key` tells colors of one name in different regions apart."""

    name: str
    key: str = ""

    @property
    def full(self) -> str:
        return self.key or self.name


@dataclass(frozen=True, slots=True)
class SimfabConfig:
    """How the vendor's simulator works: read, and without a meaning here."""

    dump_core: bool = False
    num_threads: int = 1


@dataclass(frozen=True, slots=True)
class Platform:
    """The machine that a layout is compiled for."""

    target: SdkTarget


def get_platform(
    cmaddr: str | None, config: SimfabConfig | None = None, target: SdkTarget = SdkTarget.WSE3
) -> Platform:
    """The simulated machine. E1054 (as an exception of the script) when a real one is named."""
    if cmaddr:
        _told(lambda: refuse(f"there is no machine at {cmaddr}: programs run on a simulator", "leave `cmaddr` empty"))
    return Platform(target)


def _mask(routes: Sequence[Route]) -> int:
    made = 0
    for route in routes:
        made |= route.value
    return made


def _ways(positions: Sequence[RoutingPosition]) -> tuple[Way, ...]:
    return tuple(Way(p.rx, p.tx) for p in positions)


def _told(act: Any) -> Any:
    from .runtime import SdkError

    try:
        return act()
    except DiagnosticError as error:
        raise SdkError("\n" + render_all(error.diagnostics)) from None


@dataclass(slots=True, eq=False)
class CodeRegion:
    """PEs that run one file. Places in it count from its upper left PE."""

    path: str
    name: str
    width: int
    height: int
    at: Place = (0, 0)
    params: dict[str, dict[Place, Any]] = field(default_factory=dict[str, "dict[Place, Any]"])
    colors: dict[str, dict[Place, Color]] = field(default_factory=dict[str, "dict[Place, Color]"])
    paint_of: dict[str, dict[Place, tuple[Way, ...]]] = field(default_factory=dict[str, "dict[Place, tuple[Way, ...]]"])
    ports: list[Port] = field(default_factory=list[Port])
    symbols: list[tuple[str, Place, bytes]] = field(default_factory=list[tuple[str, Place, bytes]])

    def color(self, name: str) -> Color:
        """A color of this region only."""
        return Color(name, f"{self.name}.{name}")

    def place(self, x: int, y: int) -> None:
        """Put the upper left PE at (x, y) of the fabric."""
        self.at = (x, y)

    # ---- params --------------------------------------------------------------------------------

    def set_param(self, at: IntVector, name: str | Color, value: Any = None) -> None:
        """Set a param of one PE; a color is the value of the param of its name."""
        self._set([(at.x, at.y)], name, value)

    def set_param_all(self, name: str | Color, value: Any = None) -> None:
        """Set a param of all PEs."""
        self._set(self.all_places(), name, value)

    def set_param_range(self, range: IntRectangle, name: str | Color, value: Any = None) -> None:
        """Set a param of the PEs of a rectangle."""
        self._set(self._within(range), name, value)

    def _set(self, places: list[Place], name: str | Color, value: Any) -> None:
        color = name if isinstance(name, Color) else value if isinstance(value, Color) else None
        key = name.name if isinstance(name, Color) else name
        if color is not None:
            self.colors.setdefault(key, {}).update(dict.fromkeys(places, color))
        else:
            self.params.setdefault(key, {}).update(dict.fromkeys(places, value))

    # ---- routes --------------------------------------------------------------------------------

    def paint(self, at: IntVector, color: Color, positions: Sequence[RoutingPosition],
              edges: Sequence[EdgeRouting] = ()) -> None:  # fmt: skip
        """Route `color` at one PE."""
        self._paint([(at.x, at.y)], color, positions, edges)

    def paint_all(self, color: Color, positions: Sequence[RoutingPosition], edges: Sequence[EdgeRouting] = ()) -> None:
        """Route `color` at all PEs, as `edges` tell along them."""
        self._paint(self.all_places(), color, positions, edges)

    def paint_range(self, range: IntRectangle, color: Color, positions: Sequence[RoutingPosition],
                    edges: Sequence[EdgeRouting] = ()) -> None:  # fmt: skip
        """Route `color` at the PEs of a rectangle."""
        self._paint(self._within(range), color, positions, edges)

    def _paint(
        self, places: list[Place], color: Color, positions: Sequence[RoutingPosition], edges: Sequence[EdgeRouting]
    ) -> None:
        painted = self.paint_of.setdefault(color.full, {})
        painted.update(dict.fromkeys(places, _ways(positions)))
        for routing in edges:
            along = set(edge_places(0, 0, self.width, self.height, routing.edge.value))
            painted.update({p: _ways(routing.positions) for p in places if p in along})

    # ---- ports and data ------------------------------------------------------------------------

    def create_input_port(self, color: Color, edge: Edge, positions: Sequence[RoutingPosition], size: int,
                          prefix: str = "") -> Port:  # fmt: skip
        """A side by which `size` wavelets of `color` come in."""
        return self._port(color, edge, positions, size, True)

    def create_output_port(self, color: Color, edge: Edge, positions: Sequence[RoutingPosition], size: int,
                           prefix: str = "") -> Port:  # fmt: skip
        """A side by which `size` wavelets of `color` go out."""
        return self._port(color, edge, positions, size, False)

    def _port(self, color: Color, edge: Edge, positions: Sequence[RoutingPosition], size: int, is_input: bool) -> Port:
        port = Port(self.name, color.full, edge.value, is_input, _ways(positions), size)
        self.ports.append(port)
        return port

    def set_symbol_all(self, name: str, data: NDArray[Any], width: int, height: int) -> None:
        """Give each PE its block of the matrix `data` [height, width] as what the symbol `name` starts with."""

        def check() -> None:
            if data.size != width * height or width % self.width or height % self.height:
                refuse(
                    f"{data.size} elements are no matrix of {height} x {width} over {self.width} x {self.height} PEs"
                )

        _told(check)
        w, h, matrix = width // self.width, height // self.height, data.reshape(height, width)
        for x, y in self.all_places():
            block = np.ascontiguousarray(matrix[y * h : (y + 1) * h, x * w : (x + 1) * w])
            self.symbols.append((name, (x, y), block.tobytes()))

    def all_places(self) -> list[Place]:
        """Every place, row by row."""
        return [(x, y) for y in range(self.height) for x in range(self.width)]

    def _within(self, r: IntRectangle) -> list[Place]:
        return [(x, y) for y in range(r.upper_left.y, r.lower_right.y) for x in range(r.upper_left.x, r.lower_right.x)]


class SdkLayout:
    """Regions, what joins them, and the compiled whole."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._regions: dict[str, CodeRegion] = {}
        self._joined: list[tuple[Port, Port]] = []
        self._streams: list[tuple[Port, list[Stream]]] = []

    def create_code_region(self, path: str, name: str, width: int, height: int) -> CodeRegion:
        """A region of `width` x `height` PEs that run the file at `path`."""
        if name in self._regions:
            _told(lambda: refuse(f"there are two regions `{name}`", "give each region a name of its own"))
        self._regions[name] = CodeRegion(path, name, width, height)
        return self._regions[name]

    def connect(self, source: Port, target: Port) -> None:
        """Wavelets that leave by `source` arrive by `target`."""
        self._joined.append((source, target))

    def create_input_stream(self, port: Port) -> list[Stream]:
        """The host sends into `port`. The list has its stream once the layout is compiled."""
        return self._stream(port)

    def create_output_stream(self, port: Port) -> list[Stream]:
        """The host receives what leaves by `port`."""
        return self._stream(port)

    def _stream(self, port: Port) -> list[Stream]:
        made: list[Stream] = []
        self._streams.append((port, made))
        return made

    def compile(self, out_prefix: str = "out", cslc_prefix: str = "", **_: object) -> Artifacts:
        """The program. Raises SdkError with what is wrong."""
        return _told(self._compiled)

    def _compiled(self) -> Artifacts:
        wafer = load(self._platform.target.value).value
        size = self._size()
        union = self._union()
        painter = self._painted(union, size)
        number = {name: k for k, name in enumerate(sorted(painter.routes))}
        if len(number) > wafer.ids.colors:
            refuse(f"the layout needs {len(number)} colors; there are {wafer.ids.colors}")
        for port, stream in self._streams:
            x, y = self._ends(port)[0]
            stream.append(Stream(x, y, number[union.find(port.color)], port.side.bit_length() - 1))
        return self._program(wafer, size, union, painter, number)

    def _program(self, wafer: Wafer, size: Place, union: Union, painter: Painter, number: dict[str, int]) -> Artifacts:
        tiles = [self._tile(r, p, union, number) for r in self._regions.values() for p in r.all_places()]
        tiles.append(self._idle(size))
        routes = Routes(*size, [], [], {})
        for color, places in sorted(painter.routes.items()):
            for (x, y), ways in sorted(places.items()):
                routes.set(x, y, number[color], config(ways), tiles[0].span)
        layout = Layout(Rectangle(*size, size, (0, 0)), tuple(t for t in tiles if len(t.x)), routes, None)
        symbols = tuple(
            (name, r.at[0] + x, r.at[1] + y, data)
            for r in self._regions.values() for name, (x, y), data in r.symbols
        )  # fmt: skip
        return Artifacts(compile_placed(layout, wafer.front_end, "the regions"), wafer, symbols)

    def _tile(self, r: CodeRegion, place: Place, union: Union, number: dict[str, int]) -> Tile:
        given = {name: values[place] for name, values in r.params.items() if place in values}
        for name, colors in r.colors.items():
            if place in colors:
                key = union.find(colors[place].full)
                given[name] = number.setdefault(key, len(number))
        x, y = (np.array([r.at[k] + place[k]]) for k in (0, 1))
        return one_file(r.path, given, x, y)

    def _idle(self, size: Place) -> Tile:
        """The PEs of no region: their routers only pass wavelets on."""
        taken = np.zeros(size[::-1], bool)
        for r in self._regions.values():
            taken[r.at[1] : r.at[1] + r.height, r.at[0] : r.at[0] + r.width] = True
        y, x = np.nonzero(~taken)
        first = next(iter(self._regions.values()))
        span = one_file(first.path, {}, x, y).span
        return Tile("<empty>", {}, x, y, span)

    def _size(self) -> Place:
        taken: dict[Place, str] = {}
        for r in self._regions.values():
            for x, y in r.all_places():
                other = taken.setdefault((r.at[0] + x, r.at[1] + y), r.name)
                if other != r.name:
                    refuse(f"the regions `{other}` and `{r.name}` overlap at {r.at[0] + x}, {r.at[1] + y}",
                           "call place(x, y) of each")  # fmt: skip
        if not taken:
            refuse("the layout has no region")
        return max(x for x, _ in taken) + 1 + _MARGIN, max(y for _, y in taken) + 1 + _MARGIN

    def _union(self) -> Union:
        union = Union()
        for source, target in self._joined:
            union.join(source.color, target.color)
        return union

    def _painted(self, union: Union, size: Place) -> Painter:
        painter = Painter()
        for r in self._regions.values():
            for color, places in r.paint_of.items():
                painter.of(union.find(color)).update({(r.at[0] + x, r.at[1] + y): w for (x, y), w in places.items()})
        for port, _ in self._streams:
            self._end(painter, union, port, dict.fromkeys(self._ends(port), port.side))
        for source, target in self._joined:
            self._join(painter, union, source, target, size)
        return painter

    def _join(self, painter: Painter, union: Union, source: Port, target: Port, size: Place) -> None:
        starts, ends = self._ends(source), self._ends(target)
        if len(starts) != len(ends) or source.is_input or not target.is_input:
            refuse(f"ports of `{source.region}` ({len(starts)} PEs) and `{target.region}` ({len(ends)} PEs) do not fit")
        routes, out, into = painter.of(union.find(source.color)), dict[Place, int](), dict[Place, int]()
        for start, end in zip(starts, ends, strict=True):
            path = path_between(start, source.side, end, target.side, routes, size)
            steps = directions_along(path)
            for place, back, on in zip(path[1:-1], steps, steps[1:], strict=False):
                routes[place] = (Way(OPPOSITE[back], on),)
            out[start], into[end] = steps[0], OPPOSITE[steps[-1]]
        self._end(painter, union, source, out)
        self._end(painter, union, target, into)

    def _end(self, painter: Painter, union: Union, port: Port, directions: dict[Place, int]) -> None:
        """The routes of a port's own PEs, with the directions that the paths take."""
        routes = painter.of(union.find(port.color))
        for place, direction in directions.items():
            given = {"rx": direction} if port.is_input else {"tx": direction}
            routes[place] = completed(port.ways, **given)

    def _ends(self, port: Port) -> list[Place]:
        r = self._regions[port.region]
        return edge_places(*r.at, r.width, r.height, port.side)
