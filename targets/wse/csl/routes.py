"""Color configurations: what a router does with a color, read from the structs of `@set_color_config`.

Directions are bits of a mask, in the order of `DIRECTIONS`. Must not know layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from ....compiler.source import Note, Span
from . import types as t
from .convert import element, known
from .values import Value, fail, repeated, uniform
from .world import Arch

DIRECTIONS = ("WEST", "EAST", "SOUTH", "NORTH", "RAMP")
# The integers of the `<directions>` library: sending in the low bits, receiving above. The public documents do not
# give the bits that programs must use, so these are ours.
TX_BITS, RX_SHIFT = (1 << len(DIRECTIONS)) - 1, len(DIRECTIONS)
PopMode = Literal["no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop"]
POP_MODES: tuple[PopMode, ...] = ("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop")
_FILTER_FIELDS = {
    "counter": ("count_data", "count_control", "init_counter", "limit1", "max_counter", "filter_control"),
    "sparse_counter": ("count_data", "count_control", "init_counter", "limit1", "limit2", "max_counter"),
    "range": ("min_idx", "max_idx"),
}
# Also accepted in every filter: `fast_mode` stands in a public program and in no document; it changes nothing here.
_FILTER_ALWAYS = ("kind", "fast_mode")


@dataclass(frozen=True, slots=True)
class Position:
    """What a switch position takes from and sends to; 0 leaves what the position before says. Not `valid`: skipped."""

    rx: int = 0
    tx: int = 0
    valid: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter between router and PE. Fields that are not given are 0 or False."""

    kind: Literal["counter", "sparse_counter", "range"]
    fields: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ColorConfig:
    """The configuration of one color in one router."""

    rx: int
    tx: int
    positions: tuple[Position, Position, Position] = (Position(), Position(), Position())
    current: int = 0
    ring: bool = False
    pop: PopMode = "no_pop"
    swap_x: bool = False
    swap_y: bool = False
    filter: Filter | None = None
    teardown: bool = False


def check_fields(fields: dict[str, Value], allowed: tuple[str, ...], span: Span) -> None:
    """No field but the `allowed` ones."""
    for name in fields:
        if name not in allowed:
            fail("E1011", f"there is no setting `{name}` here", span, help=f"the settings are {', '.join(allowed)}")


def choice(value: Value, names: tuple[str, ...], span: Span) -> str:
    """The one of `names` that a struct like `.{ .high = true }` sets."""
    got = known(value, span)
    fields = struct_fields(got, span)
    chosen = [name for name in fields if name in names]
    if len(fields) != 1 or not chosen:
        fail("E1011", f"one of {', '.join(names)} must be set to true here", span)
    return chosen[0]


def struct_fields(value: Value, span: Span) -> dict[str, Value]:
    got = known(value, span, "a configuration")
    if got.type != t.ANON and not isinstance(got.type, t.Struct):
        fail("E1010", f"a struct is needed here, not {t.show(got.type)}", span)
    return cast("dict[str, Value]", got.data)


def read_config(value: Value, color: int, arch: Arch, span: Span) -> ColorConfig:
    """The configuration that a struct gives for `color`."""
    fields = struct_fields(value, span)
    check_fields(fields, ("routes", "switches", "filter", "teardown"), span)
    if "routes" not in fields:
        fail(
            "E1034",
            "a color configuration needs `.routes`",
            span,
            help="write .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } }",
        )
    rx, tx, swaps, pop = _routes(fields["routes"], span)
    switches = _switches(fields.get("switches"), color, arch, span)
    teardown = _flag(fields["teardown"], span) if "teardown" in fields else False
    made = _filter(fields["filter"], span) if "filter" in fields else None
    return ColorConfig(rx, tx, *switches[:3], switches[3] or pop, *swaps, made, teardown)


def _flag(value: Value, span: Span) -> bool:
    got = known(value, span)
    if got.type != t.BOOL:
        fail("E1010", f"true or false is needed here, not {t.show(got.type)}", span)
    return bool(uniform(got.data))


def _whole(value: Value, span: Span) -> int:
    got = known(value, span)
    if not t.is_integer(got.type):
        fail("E1010", f"an integer is needed here, not {t.show(got.type)}", span)
    return int(uniform(got.data))


def _routes(value: Value, span: Span) -> tuple[int, int, tuple[bool, bool], PopMode]:
    if t.is_integer(value.type):
        bits = _whole(value, span)
        return bits >> RX_SHIFT, bits & TX_BITS, (False, False), "no_pop"
    fields = struct_fields(value, span)
    check_fields(fields, ("rx", "tx", "color_swap_x", "color_swap_y", "pop_mode"), span)
    rx, tx = (directions(fields[n], span) if n in fields else 0 for n in ("rx", "tx"))
    swap_x, swap_y = (_flag(fields[n], span) if n in fields else False for n in ("color_swap_x", "color_swap_y"))
    return rx, tx, (swap_x, swap_y), _pop(fields, span) or "no_pop"


def _pop(fields: dict[str, Value], span: Span) -> PopMode | None:
    return cast(PopMode, choice(fields["pop_mode"], POP_MODES, span)) if "pop_mode" in fields else None


def directions(value: Value, span: Span) -> int:
    """The mask of a direction, or of a tuple or array of them."""
    got = known(value, span, "a route")
    if got.type == t.DIRECTION:
        return 1 << int(uniform(got.data))
    if got.type == t.ANON:
        items = [known(v, span) for v in cast("dict[str, Value]", got.data).values()]
    elif isinstance(got.type, t.Array):
        items = [element(got, i) for i in range(got.type.count)]
    else:
        fail(
            "E1010", f"a direction is needed here, not {t.show(got.type)}", span, help=f"one of {', '.join(DIRECTIONS)}"
        )
    mask = 0
    for item in items:
        if item.type != t.DIRECTION:
            fail(
                "E1010",
                f"a direction is needed here, not {t.show(item.type)}",
                span,
                help=f"one of {', '.join(DIRECTIONS)}",
            )
        bit = 1 << int(uniform(item.data))
        if mask & bit:
            fail("E1039", f"{DIRECTIONS[bit.bit_length() - 1]} is given twice", span)
        mask |= bit
    return mask


def _switches(
    value: Value | None, color: int, arch: Arch, span: Span
) -> tuple[tuple[Position, Position, Position], int, bool, PopMode | None]:
    if value is None:
        return (Position(), Position(), Position()), 0, False, None
    fields = struct_fields(value, span)
    check_fields(fields, ("pos1", "pos2", "pos3", "current_switch_pos", "ring_mode", "pop_mode"), span)
    if color not in arch.switch_colors:
        able = ", ".join(map(str, sorted(arch.switch_colors)))
        fail("E1039", f"color {color} has no switch on {arch.name}", span, help=f"colors with switches: {able}")
    positions = [_position(fields[n], arch, span) if n in fields else Position() for n in ("pos1", "pos2", "pos3")]
    current = _whole(fields["current_switch_pos"], span) if "current_switch_pos" in fields else 0
    if not 0 <= current <= 3:
        fail("E1014", f"switch position {current}: there are positions 0 to 3", span)
    ring = _flag(fields["ring_mode"], span) if "ring_mode" in fields else False
    return (positions[0], positions[1], positions[2]), current, ring, _pop(fields, span)


def _position(value: Value, arch: Arch, span: Span) -> Position:
    if t.is_integer(value.type):
        bits = _whole(value, span)
        return Position(bits >> RX_SHIFT, bits & TX_BITS, bits != 0)
    fields = struct_fields(value, span)
    check_fields(fields, ("rx", "tx", "invalid"), span)
    if "invalid" in fields:
        if len(fields) > 1 or not _flag(fields["invalid"], span):
            fail("E1039", "`.invalid` stands alone and is true", span)
        return Position()
    rx, tx = (directions(fields[n], span) if n in fields else 0 for n in ("rx", "tx"))
    if rx & (rx - 1):
        fail("E1039", "a switch position receives from one direction", span)
    if rx and tx and not arch.queue_tasks:
        fail("E1039", "on wse2 a switch position changes either `.rx` or `.tx`", span)
    return Position(rx, tx, True)


def _filter(value: Value, span: Span) -> Filter:
    fields = struct_fields(value, span)
    if "kind" not in fields:
        fail("E1034", "a filter needs its `.kind`", span, help="write .kind = .{ .counter = true }")
    kind = choice(fields["kind"], tuple(_FILTER_FIELDS), span)
    check_fields(fields, (*_FILTER_ALWAYS, *_FILTER_FIELDS[kind]), span)
    given: list[tuple[str, int]] = []
    for name in _FILTER_FIELDS[kind]:
        if name in fields:
            flag = name in ("count_data", "count_control", "filter_control")
            given.append((name, int(_flag(fields[name], span)) if flag else _whole(fields[name], span)))
    return Filter(cast(Any, kind), tuple(given))


# ---- all routers ---------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Routes:
    """The configurations of all routers: `grid[color][y, x]` is an index into `configs`, or -1."""

    width: int
    height: int
    configs: list[ColorConfig]
    spans: list[Span]
    grid: dict[int, np.ndarray[Any, np.dtype[np.int16]]]

    def set(self, x: Any, y: Any, color: int, config: ColorConfig, span: Span) -> None:
        """Give the PEs at `x`, `y` (numbers or arrays) their configuration; a second one is E1033."""
        if color not in self.grid:
            self.grid[color] = np.full((self.height, self.width), -1, np.int16)
        grid = self.grid[color]
        xs, ys = np.broadcast_arrays(np.atleast_1d(x), np.atleast_1d(y))
        taken = grid[ys, xs] >= 0
        if taken.any():
            k = int(np.argmax(taken))
            px, py = int(xs[k]), int(ys[k])
            _clash(px, py, color, self.spans[int(grid[py, px])], span)
        index = self._index(config, span)
        grid[ys, xs] = index
        if repeated(ys.astype(np.int64) * self.width + xs, self.width * self.height) is not None:
            fail("E1033", f"color {color} of a PE is configured twice", span)

    def _index(self, config: ColorConfig, span: Span) -> int:
        for i, (other, place) in enumerate(zip(self.configs, self.spans, strict=True)):
            if other == config and place == span:
                return i
        self.configs.append(config)
        self.spans.append(span)
        return len(self.configs) - 1

    def masks(self, color: int) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, np.dtype[np.uint8]]]:
        """Masks (4, height, width) of what each switch position of `color` receives from and sends to; a position that
        is not valid is all 0."""
        table = np.zeros((2, 4, len(self.configs) + 1), np.uint8)
        for i, config in enumerate(self.configs):
            rx, tx = config.rx, config.tx
            table[:, 0, i] = rx, tx
            for k, position in enumerate(config.positions, 1):
                if position.valid:
                    rx, tx = position.rx or rx, position.tx or tx
                    table[:, k, i] = rx, tx
        grid = self.grid.get(color, np.full((self.height, self.width), -1, np.int16))
        return table[0][:, grid], table[1][:, grid]


def _clash(x: int, y: int, color: int, first: Span, second: Span) -> None:
    fail("E1033", f"color {color} of PE {x}, {y} is configured twice", second, Note("configured here first", first))
