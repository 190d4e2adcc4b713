"""From a layout file to a checked program: the layout, then the code of each class of PEs.

A *code class* is a set of PEs that run the same file and take the same way through everything that is decided when
compiling; its constants may differ by PE. Must not know how a program is run.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic, DiagnosticError, Note, Span
from . import builtins, calls, dsds, ids, statements
from . import code as c
from . import types as t
from .expressions import literal
from .layout import Export, Layout, Tile, evaluate_layout, loop, merged
from .memory import MemoryMap, memory_map
from .reach import check_routes
from .routes import ColorConfig, Routes
from .values import Diverged, Known, Symbol, Value, fail, take
from .world import Arch, Effect, Loader, Rectangle, World

# Classes of one program: beyond this its PEs hardly share code, and no report would be read.
MAX_CLASSES = 4096
ParamValue = int | float | bool | str


class _Hooks:
    """The parts of the language, as the world asks for them."""

    declare = staticmethod(statements.declare)
    run = staticmethod(statements.run)
    builtin = staticmethod(builtins.call)
    call = staticmethod(calls.call)
    loop = staticmethod(loop)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A task bound to an id. `kind` is "local", "data" or "control"."""

    kind: str
    id: int
    instance: c.Instance
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """An initialised queue. `color` is None where the machine takes it from the DSD."""

    is_input: bool
    id: int
    color: int | None
    priority: str
    control_table: int
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class DsrLoad:
    """A `@load_to_dsr` of a comptime block; settings as in code.Vector."""

    dsr: Known
    dsd: Known
    settings: dict[str, Any]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class CodeClass:
    """The program of the PEs x[k], y[k]; lane k of every constant that has lanes is theirs."""

    path: str
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    params: dict[str, Known]
    tasks: tuple[Task, ...]
    queues: tuple[Queue, ...]
    # What the host can call or copy: an Instance, a Symbol, or a known pointer.
    exports: dict[str, Any]
    # Handlers by color (teardown) and by output queue (empty).
    teardown: dict[int, c.Instance]
    empty_queue: dict[int, c.Instance]
    # Ids that are active or blocked when the program starts.
    active: tuple[int, ...]
    blocked: tuple[tuple[str, int], ...]
    # Data task id that serves remote calls, if any.
    rpc: int | None
    instances: tuple[c.Instance, ...]
    memory: MemoryMap
    # DSRs that are loaded before the program starts, in order.
    dsrs: tuple[DsrLoad, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A checked program. `class_of[y, x]` is an index into `classes`."""

    path: str
    arch: Arch
    rectangle: Rectangle
    classes: tuple[CodeClass, ...]
    class_of: NDArray[np.int32]
    routes: Routes
    exports: dict[str, Export]
    # What @comptime_print said, and other remarks.
    notes: tuple[Diagnostic, ...]


def compile_program(
    path: str,
    arch: Arch,
    params: Mapping[str, ParamValue] | None = None,
    fabric: tuple[int, int] | None = None,
    offsets: tuple[int, int] = (0, 0),
    import_paths: Sequence[str] = (),
    colors: Mapping[str, int] | None = None,
) -> Program:
    """The program of the layout file at `path`, for PEs of `arch`.

    `params` and `colors` are the params of the layout file (the latter by color number), `fabric` the PEs around the
    rectangle (width, height) and `offsets` its place in it. Raises DiagnosticError with what is wrong.
    """
    with _deep_recursion(path):
        return _compiled(path, arch, params or {}, fabric, offsets, import_paths, colors or {})


def compile_placed(layout: Layout, arch: Arch, path: str) -> Program:
    """The program of a `layout` that no file describes: what the host makes who places code regions by itself. `path`
    names it in messages. Raises DiagnosticError."""
    loader = Loader()
    layout = replace(layout, tiles=tuple(merged(list(layout.tiles))))
    with _deep_recursion(path):
        classes, notes = _classes(layout, arch, loader)
    return _program(path, arch, layout, classes, (*notes, *check_routes(layout.routes)))


def one_file(path: str, params: Mapping[str, ParamValue], x: NDArray[np.int64], y: NDArray[np.int64]) -> Tile:
    """The tile of PEs that all run the file at `path` with `params`. Raises DiagnosticError."""
    given = {name: literal(value) for name, value in params.items()}
    return Tile(path, given, x, y, Loader().load(path).file.span(0, 0))


# Syntax is walked by recursion: MAX_CALLS calls of statements and expressions nested up to parse.MAX_NESTING deep.
_RECURSION_LIMIT = 20_000


@contextmanager
def _deep_recursion(path: str) -> Generator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    except RecursionError:
        fail("E1002", f"`{path}` is nested too deeply to be compiled", None)
    finally:
        sys.setrecursionlimit(before)


def _compiled(
    path: str,
    arch: Arch,
    params: Mapping[str, ParamValue],
    fabric: tuple[int, int] | None,
    offsets: tuple[int, int],
    import_paths: Sequence[str],
    colors: Mapping[str, int],
) -> Program:
    loader = Loader(tuple(import_paths))
    world = World(arch, loader, _Hooks(), "layout", fabric=fabric, offsets=offsets)
    given: dict[str, Value] = {name: literal(value) for name, value in params.items()}
    given |= {name: Known(t.COLOR, _color(name, number, arch)) for name, number in colors.items()}
    module = world.module(loader.load(path), given, False, None)
    layout = evaluate_layout(module)
    classes, notes = _classes(layout, arch, loader)
    return _program(path, arch, layout, classes, (*world.notes, *notes, *check_routes(layout.routes)))


def _program(path: str, arch: Arch, layout: Layout, classes: list[CodeClass], notes: tuple[Diagnostic, ...]) -> Program:
    class_of = np.full((layout.rectangle.height, layout.rectangle.width), -1, np.int32)
    for i, made in enumerate(classes):
        class_of[made.y, made.x] = i
    return Program(path, arch, layout.rectangle, tuple(classes), class_of, layout.routes, layout.exports or {}, notes)


def _color(name: str, number: int, arch: Arch) -> int:
    if not 0 <= number < arch.colors:
        fail(
            "E1030",
            f"param `{name}`: color {number} does not exist on {arch.name}",
            None,
            help=f"colors are 0 to {arch.colors - 1}",
        )
    return number


# ---- classes -------------------------------------------------------------------------------------


def _classes(layout: Layout, arch: Arch, loader: Loader) -> tuple[list[CodeClass], list[Diagnostic]]:
    made: list[CodeClass] = []
    notes: list[Diagnostic] = []
    for tile in layout.tiles:
        work = [np.arange(len(tile.x))]
        while work:
            lanes = work.pop()
            world = _world(layout, tile, lanes, arch, loader)
            try:
                made.append(_class(world, layout, tile, lanes))
                notes += world.notes
            except Diverged as parts:
                if len(parts.labels) != len(lanes):
                    raise AssertionError("lanes of another class diverged") from None
                work += [lanes[parts.labels == k] for k in range(int(parts.labels.max()), -1, -1)]
            if len(made) + len(work) > MAX_CLASSES:
                fail(
                    "E1040",
                    f"the PEs of `{tile.path}` need more than {MAX_CLASSES} different programs",
                    tile.span,
                    help="params that differ from PE to PE decide types, sizes, branches or ids",
                )
    # In the order of their first PEs, row by row, whatever way they were parted.
    made.sort(key=lambda c: int((c.y * layout.rectangle.width + c.x).min()))
    return made, notes


def _world(layout: Layout, tile: Tile, lanes: NDArray[np.int64], arch: Arch, loader: Loader) -> World:
    x, y = (axis[lanes] for axis in (tile.x, tile.y))
    coordinates = tuple(Known(t.U16, v[0].item() if (v == v[0]).all() else v) for v in (x, y))
    return World(
        arch,
        loader,
        _Hooks(),
        "program",
        layout.rectangle,
        cast("tuple[Value, Value]", coordinates),
        offsets=layout.rectangle.offsets,
    )


def _class(world: World, layout: Layout, tile: Tile, lanes: NDArray[np.int64]) -> CodeClass:
    """The program of `lanes` of a tile."""
    params = {name: _simplest(cast(Known, take(value, lanes))) for name, value in tile.params.items()}
    text = (
        world.loader.library(tile.path[1:-1], tile.span) if tile.path.startswith("<") else world.loader.load(tile.path)
    )
    module = world.module(text, dict(params), tile.path.startswith("<"), tile.span)
    builtins.start(module)
    _build_all(world)
    tasks = _tasks(world)
    exports = _exports(world, layout)
    x, y = tile.x[lanes], tile.y[lanes]
    for effect in world.effects:
        if effect.kind == "set_local_color_config":
            color, config = cast("tuple[int, ColorConfig]", effect.values)
            layout.routes.set(x, y, color, config, effect.span)
    memory = memory_map(world.symbols, world.arch)
    _check_handlers(world, tasks)
    return CodeClass(
        tile.path, x, y, params, tasks, _queues(world), exports, _handlers(world, "set_teardown_handler"),
        _handlers(world, "set_empty_queue_handler"), _started(world), _blocked(world),
        next((e.values[0] for e in world.effects if e.kind == "rpc"), None), tuple(world.instances.values()), memory,
        tuple(DsrLoad(e.values[0], e.values[1], e.values[2], e.span) for e in world.effects if e.kind == "load_to_dsr"),
    )  # fmt: skip


def _build_all(world: World) -> None:
    """Build every function that is reached; what is wrong in each of them is told together."""
    problems: list[Diagnostic] = []
    while world.pending:
        try:
            world.pending.pop(0)()
        except DiagnosticError as error:
            problems += [d for d in error.diagnostics if d not in problems]
    if problems:
        raise DiagnosticError(problems)


def _simplest(value: Known) -> Known:
    """Lanes that are all alike as one value, so that what is decided by them needs no lanes."""
    from .values import ArrayData

    data: Any = value.data
    if isinstance(data, np.ndarray):
        lanes = cast("NDArray[Any]", data)
        return Known(value.type, lanes[0].item()) if len(lanes) and (lanes == lanes[0]).all() else value
    if isinstance(data, dict):
        return Known(
            value.type,
            {k: _simplest(v) if isinstance(v, Known) else v for k, v in cast("dict[str, Value]", data).items()},
        )
    if isinstance(data, ArrayData) and data.lanes and (data.items == data.items[:1]).all():
        return Known(value.type, ArrayData(data.items[0].copy()))
    return value


def _tasks(world: World) -> tuple[Task, ...]:
    made: list[Task] = []
    for e in world.effects:
        if e.kind.startswith("bind_"):
            _, id, later = e.values
            made.append(Task(e.kind.removeprefix("bind_").removesuffix("_task"), id.data, later.instance, e.span))
    _check_clashes(made, world.arch)
    return tuple(made)


def _check_clashes(tasks: list[Task], arch: Arch) -> None:
    """Local and data tasks share one table of ids."""
    taken: dict[int, Task] = {}
    for task in tasks:
        if task.kind == "control":
            continue
        other = taken.setdefault(task.id, task)
        if other is not task:
            owners = [f"the {x.kind} task `{x.instance.name}`" for x in (other, task)]
            message = f"task id {task.id} is that of {owners[0]} and of {owners[1]}"
            fail(
                "E1033",
                message,
                task.span,
                Note("bound here first", other.span),
                help=f"on {arch.name} local and data tasks share their ids",
            )


# The id under which teardown handlers run.
_TEARDOWN_ID = 29


def _check_handlers(world: World, tasks: tuple[Task, ...]) -> None:
    handlers = [e for e in world.effects if e.kind == "set_teardown_handler"]
    for task in tasks:
        if handlers and task.kind == "local" and task.id == _TEARDOWN_ID:
            fail(
                "E1033",
                f"local task id {_TEARDOWN_ID} is that of teardown handlers",
                task.span,
                Note("a handler is set here", handlers[0].span),
            )


def _queues(world: World) -> tuple[Queue, ...]:
    made: list[Queue] = []
    for e in world.effects:
        if e.kind == "initialize_queue":
            type, id, color, priority, table = e.values
            made.append(Queue(type == t.INPUT_QUEUE, id, color, priority, table, e.span))
    return tuple(sorted(made, key=lambda q: (not q.is_input, q.id)))


def _handlers(world: World, kind: str) -> dict[int, c.Instance]:
    return {e.values[0]: e.values[1].instance for e in world.effects if e.kind == kind}


def _started(world: World) -> tuple[int, ...]:
    return tuple(e.values[1] for e in world.effects if e.kind == "activate")


def _blocked(world: World) -> tuple[tuple[str, int], ...]:
    """(type of id, id) of everything blocked when the program starts, in order."""
    blocked: dict[tuple[str, int], None] = {}
    for e in world.effects:
        if e.kind == "block":
            blocked[t.show(e.values[0]), e.values[1]] = None
        elif e.kind == "unblock":
            blocked.pop((t.show(e.values[0]), e.values[1]), None)
    return tuple(blocked)


def _exports(world: World, layout: Layout) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for e in world.effects:
        if e.kind in ("export_symbol", "export_var"):
            name, target = e.values
            if e.kind == "export_symbol" and layout.exports is not None:
                _check_export(name, target, layout.exports, e)
            made.setdefault(name, target)
    return made


def _check_export(name: str, target: Any, exports: dict[str, Export], effect: Effect) -> None:
    from ....compiler.source import did_you_mean

    export = exports.get(name)
    if export is None:
        fail(
            "E1038",
            f'the layout exports no name "{name}"',
            effect.span,
            help=did_you_mean(name, exports) or "call @export_name in the layout",
        )
    have: t.Type = t.Function(target.params, target.result, False) if isinstance(target, c.Instance) else target.type
    if not _agree(have, export.type):
        raise DiagnosticError(
            Diagnostic(
                "E1038",
                f'"{name}" is {t.show(have)} here and {t.show(export.type)} in the layout',
                effect.span,
                (Note("exported here", export.span),),
            )
        )


def _agree(have: t.Type, want: t.Type) -> bool:
    """Whether a symbol of type `have` can be known to the host as `want`; what a pointer may change does not count."""
    if isinstance(have, t.Pointer) and isinstance(want, t.Pointer):
        to = have.to.element if isinstance(have.to, t.Array) and want.many and not have.many else have.to
        return to == want.to
    return have == want


def symbols_of(made: CodeClass) -> tuple[Symbol, ...]:
    """The variables and constants of a class that have memory, in the order of their addresses."""
    return tuple(entry.symbol for entry in made.memory.entries)


assert dsds.VECTOR_OPS and ids  # both modules fill the table of builtins when they are imported
