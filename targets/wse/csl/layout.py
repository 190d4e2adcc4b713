"""Evaluating a layout: which PE runs which file with which params, and what its router does.

Loops are not walked round by round: the body is evaluated once with the loop variable an array over all rounds, and
again for each part of them that takes another way (`values.Diverged`). A loop whose rounds depend on each other is
walked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Note, Span
from . import syntax as s
from . import types as t
from .expressions import evaluate
from .numbers import checked
from .routes import Routes
from .statements import bind_items, range_numbers, run
from .values import (
    ArrayData,
    Cell,
    Dependent,
    Diverged,
    Known,
    Range,
    Value,
    by_lane,
    fail,
    known_scalar,
    plain,
    repeated,
    uniform,
)
from .world import Effect, Frame, Module, Rectangle, Scope, World

# More PEs than any wafer has, and what the arrays of a layout still hold easily.
MAX_PES = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """PEs that run one file with params of one form: `params` may differ by lane, lane k being PE x[k], y[k]."""

    path: str
    params: dict[str, Known]
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """A name that the host may ask for."""

    name: str
    type: t.Type
    mutable: bool
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What a layout says."""

    rectangle: Rectangle
    tiles: tuple[Tile, ...]
    routes: Routes
    # None: no layout says what the host may ask for, so everything exported is.
    exports: dict[str, Export] | None


def evaluate_layout(module: Module) -> Layout:
    """Run the layout block of `module`. Raises DiagnosticError."""
    world = module.world
    blocks = [d for d in module.text.decls if isinstance(d, s.Layout)]
    if not blocks:
        size = len(module.text.file.text)
        fail(
            "E1025",
            "this file has no layout",
            module.text.file.span(size, size),
            help="the layout file is the one with `layout { ... }`",
        )
    if len(blocks) > 1:
        fail("E1004", "a second layout", module.span(blocks[1].at), Note("the first one", module.span(blocks[0].at)))
    for decl in module.text.decls:
        if isinstance(decl, s.Param) and (decl.name in module.given or decl.default is not None):
            module.find(decl.name)
    run(blocks[0].block, Frame(world, module, Scope(), "layout"))
    if world.rectangle is None:
        fail(
            "E1025",
            "the layout sets no rectangle",
            module.span(blocks[0].at),
            help="call @set_rectangle(width, height)",
        )
    return _gathered(world, world.rectangle)


def _gathered(world: World, r: Rectangle) -> Layout:
    routes = Routes(r.width, r.height, [], [], {})
    exports: dict[str, Export] = {}
    tiles: list[Tile] = []
    for effect in world.effects:
        match effect:
            case Effect("set_color_config", (x, y, color, config), span):
                routes.set(x, y, color, config, span)
            case Effect("export_name", (name, type, mutable), span):
                exports[name] = Export(name, type, mutable, span)
            case Effect("set_tile_code", (x, y, path, params), span):
                tiles.append(_tile(x, y, path, params, span))
            case _:
                pass
    _check_cover(tiles, r, world)
    return Layout(r, tuple(merged(tiles)), routes, exports)


def _tile(x: Any, y: Any, path: str, params: Known, span: Span) -> Tile:
    fields = cast("dict[str, Known]", params.data)
    lanes = max((_lane_count(v) for v in (x, y, *(f.data for f in fields.values()))), default=1)
    xs, ys = (np.broadcast_to(np.asarray(v, np.int64), (lanes,)) for v in (x, y))
    return Tile(path, fields, xs, ys, span)


def _lane_count(data: Any) -> int:
    """Entries of the first array of lanes in `data`; 1 where there is none."""
    match data:
        case np.ndarray():
            return len(cast("NDArray[Any]", data))
        case ArrayData(items, True):
            return len(items)
        case dict():
            return max((_lane_count(cast(Known, v).data) for v in cast("dict[str, Any]", data).values()), default=1)
        case _:
            return 1


def _check_cover(tiles: list[Tile], r: Rectangle, world: World) -> None:
    """Every PE of the rectangle has exactly one file."""
    owner = np.full((r.height, r.width), -1, np.int32)
    for i, tile in enumerate(tiles):
        taken = owner[tile.y, tile.x] >= 0
        k = int(np.argmax(taken)) if taken.any() else repeated(tile.y * r.width + tile.x, r.width * r.height)
        if k is not None:
            px, py = int(tile.x[k]), int(tile.y[k])
            first = tiles[int(owner[py, px])].span if taken.any() else tile.span
            fail("E1036", f"PE {px}, {py} is given code twice", tile.span, Note("given here first", first))
        owner[tile.y, tile.x] = i
    missing = np.argwhere(owner < 0)
    if len(missing):
        py, px = (int(v) for v in missing[0])
        span = next(e.span for e in world.effects if e.kind == "set_rectangle")
        more = f", nor have {len(missing) - 1} others" if len(missing) > 1 else ""
        fail(
            "E1037",
            f"PE {px}, {py} has no code{more}",
            span,
            help="call @set_tile_code once for each PE of the rectangle",
        )


# ---- tiles of one form ---------------------------------------------------------------------------


def merged(tiles: list[Tile]) -> list[Tile]:
    """Tiles of one file whose params differ in numbers only, as one."""
    groups: dict[Any, list[Tile]] = {}
    for tile in tiles:
        groups.setdefault((tile.path, _form(Known(t.ANON, tile.params))), []).append(tile)
    return [group[0] if len(group) == 1 else _joined(group) for group in groups.values()]


def _form(value: Value) -> Any:
    """What must agree for two values to be lanes of one."""
    if not isinstance(value, Known):
        return id(value)
    data = value.data
    if isinstance(data, dict):
        return value.type, tuple((k, _form(v)) for k, v in cast("dict[str, Value]", data).items())
    if plain(value.type):
        return value.type
    if isinstance(data, ArrayData):
        uniform_bytes = data.items.tobytes() if plain(cast(t.Array, value.type).element) else id(data)
        return value.type, data.lanes, None if data.lanes else uniform_bytes
    by_value = isinstance(data, str | t.Basic | t.Int | t.Float | t.Array | type(None))
    return value.type, data if by_value else id(data)


def _joined(group: list[Tile]) -> Tile:
    counts = [len(tile.x) for tile in group]
    params = cast("dict[str, Known]", _join([Known(t.ANON, tile.params) for tile in group], counts).data)
    x, y = (np.concatenate([getattr(tile, axis) for tile in group]) for axis in "xy")
    return Tile(group[0].path, params, x, y, group[0].span)


def _join(values: list[Known], counts: list[int]) -> Known:
    first = values[0]
    fields: Any = first.data
    if isinstance(fields, dict):
        names = cast("dict[str, Known]", fields)
        return Known(first.type, {k: _join([v.data[k] for v in values], counts) for k in names})
    if isinstance(first.data, ArrayData) and first.data.lanes:
        return Known(first.type, ArrayData(np.concatenate([v.data.items for v in values]), True))
    if not plain(first.type):
        return first
    if not any(by_lane(v.data) for v in values) and all(v.data == first.data for v in values):
        return first
    parts = [np.broadcast_to(np.asarray(v.data), (n,)) for v, n in zip(values, counts, strict=True)]
    return Known(first.type, np.concatenate(parts))


# ---- loops ---------------------------------------------------------------------------------------


def loop(stmt: s.For | s.While, f: Frame) -> bool:
    """Evaluate all rounds of a loop at once; False when it must be walked instead."""
    world = f.world
    if not _independent(stmt, world):
        return False
    effects, notes = len(world.effects), len(world.notes)
    world.lane_loops += 1
    try:
        return _loop_for(stmt, f) if isinstance(stmt, s.For) else _loop_while(stmt, f)
    except Dependent:
        if world.lane_loops > 1:
            raise
        del world.effects[effects:], world.notes[notes:]
        world.facts[id(stmt)] = (stmt, False)
        return False
    finally:
        world.lane_loops -= 1


def _independent(stmt: s.For | s.While, world: World) -> bool:
    """Whether no round writes what another may read, and none ends the loop."""
    known_fact = world.facts.get(id(stmt))
    if known_fact is None:
        own = (
            {stmt.step.target.id}
            if isinstance(stmt, s.While) and isinstance(stmt.step, s.Assign) and isinstance(stmt.step.target, s.Name)
            else set[str]()
        )
        known_fact = world.facts[id(stmt)] = (
            stmt,
            not _written(stmt.body) and not _leaves(stmt.body) and not (own & _assigned(stmt.body)),
        )
    return known_fact[1]


def _declared(body: s.Stmt) -> set[str]:
    names: set[str] = set()
    for node in s.walk(body):
        if isinstance(node, s.Variable):
            names.add(node.name)
        elif isinstance(node, s.For):
            names.update(n for n in (node.item, node.index) if n)
    return names


def _assigned(body: s.Stmt) -> set[str]:
    """Names that the body assigns to, or takes the address of."""
    names: set[str] = set()
    for node in s.walk(body):
        target = (
            node.target
            if isinstance(node, s.Assign)
            else node.operand
            if isinstance(node, s.Unary) and node.op == "&"
            else None
        )
        while isinstance(target, s.Index | s.Member | s.Deref):
            target = target.base
        if isinstance(target, s.Name):
            names.add(target.id)
    return names


def _written(body: s.Stmt) -> set[str]:
    """Names from outside that the body may change."""
    return _assigned(body) - _declared(body) - {"_"}


def _leaves(body: s.Stmt) -> bool:
    return any(isinstance(node, s.Return | s.Break) for node in s.walk(body))


def _loop_for(stmt: s.For, f: Frame) -> bool:
    items = evaluate(stmt.items, f)
    span = f.span(stmt.items.at)
    if isinstance(items, Known) and isinstance(items.data, Range):
        numbers = range_numbers(items.data, span)
        _check_size(len(numbers), f, span)
        values = Known(items.data.element, np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64))
    elif isinstance(items, Known) and isinstance(items.type, t.Array) and plain(items.type.element):
        data = cast(ArrayData, items.data)
        if data.lanes:
            return False
        kept = data.items.ravel()
        values = Known(
            items.type.element,
            kept if kept.dtype.kind == "b" else kept.astype(np.float64 if kept.dtype.kind == "f" else np.int64),
        )
    else:
        return False
    count = len(values.data)
    if count:
        _rounds(stmt, values, Known(t.U16, np.arange(count)), f, bind_items)
    return True


def _check_size(count: int, f: Frame, span: Span) -> None:
    total = count * (f.lanes or 1)
    if total > MAX_PES:
        fail("E1040", f"{total} rounds of a loop of a layout", span, help=f"at most {MAX_PES}: no wafer has more PEs")


def _loop_while(stmt: s.While, f: Frame) -> bool:
    """`while (i < n) : (i += step)` as a `for` over the values that i takes."""
    test, step = stmt.test, stmt.step
    if not (
        isinstance(test, s.Binary)
        and isinstance(test.left, s.Name)
        and test.op in ("<", "<=")
        and isinstance(step, s.Assign)
    ):
        return False
    if step.op != "+" or not isinstance(step.target, s.Name) or step.target.id != test.left.id:
        return False
    if _assigned(stmt.body) & {
        n.id for part in (test.right, step.value) for n in s.walk(part) if isinstance(n, s.Name)
    }:
        return False
    cell = f.scope.find(test.left.id)
    if not isinstance(cell, Cell) or cell.shared or not t.is_integer(cell.value.type):
        return False
    stop, by = (evaluate(x, f) for x in (test.right, step.value))
    if not (isinstance(stop, Known) and isinstance(by, Known)):
        return False
    start, last, amount = (int(uniform(v.data)) for v in (cell.value, stop, by))
    if amount <= 0:
        return False
    numbers = range(start, last + (test.op == "<="), amount)
    _check_size(len(numbers), f, f.span(stmt.at))
    if len(numbers):
        values = Known(cell.value.type, np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64))
        name = test.left.id

        def bind(_: s.For | s.While, item: Value, index: Value, frame: Frame) -> None:
            frame.scope.names[name] = Cell(name, cast(Known, item), cell.span)

        _rounds(stmt, values, values, f, bind)
        after = numbers[-1] + amount
        cell.value = checked(after, cell.value.type, f.span(step.at), f"`{name}` after the loop")
    return True


def _rounds(stmt: s.For | s.While, items: Known, indices: Known, f: Frame, bind: Any) -> None:
    """Evaluate the body for every item under every lane of `f`, in as few parts as its branches allow."""
    world, outer_lanes, outside = f.world, f.lanes or 1, f.scope
    count = len(items.data)
    parents = np.repeat(np.arange(outer_lanes), count)
    picks = np.tile(np.arange(count), outer_lanes)
    work = [(parents, picks)]
    lanes = f.lanes
    f.loops.append(f.branches)
    try:
        while work:
            parent, pick = work.pop()
            f.scope, f.lanes = Scope(outside, {}, parent), len(parent)
            effects, notes = len(world.effects), len(world.notes)
            bind(
                stmt,
                Known(items.type, known_scalar(items.data[pick])),
                Known(indices.type, known_scalar(indices.data[pick])),
                f,
            )
            try:
                run(stmt.body, f)
            except Diverged as parts:
                del world.effects[effects:], world.notes[notes:]
                labels = parts.labels
                if len(labels) != len(parent):
                    raise AssertionError("lanes of another loop diverged") from None
                work += [(parent[labels == k], pick[labels == k]) for k in range(int(labels.max()), -1, -1)]
    finally:
        f.loops.pop()
        f.scope, f.lanes = outside, lanes
