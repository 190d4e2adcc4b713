"""What an evaluation happens in: files, modules, scopes, frames, and the world that gathers what programs declare.

Knows where names are found, not what expressions mean (`expressions`, `statements` and `builtins` are handed in).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic, DiagnosticError, SourceFile, Span, did_you_mean, read_source
from . import syntax as s
from . import types as t
from .code import Instance, Step
from .parse import parse
from .values import Cell, Known, Symbol, Value, fail, take

# Statements and calls that one evaluation may make, and how deep calls and imports may nest: no program can hang the
# compiler.
MAX_STEPS = 2_000_000
MAX_CALLS = 100
MAX_IMPORTS = 32
FUNCTION = t.Basic("function")


@dataclass(frozen=True, slots=True)
class Arch:
    """What the front end must know of a machine: its id ranges. Queues are given by number, (low, high) inclusive."""

    name: str
    colors: int
    input_queues: int
    output_queues: int
    microthreads: int
    local_ids: tuple[int, int]
    control_ids: tuple[int, int]
    switch_colors: frozenset[int]
    filters: int
    dsrs: int
    memory_bytes: int
    # Whether data tasks are bound to input queues (else to colors), and queues are initialised with their color.
    queue_tasks: bool


@dataclass(frozen=True, slots=True)
class Rectangle:
    """The PEs of a program, inside a fabric. Sizes in PEs."""

    width: int
    height: int
    fabric: tuple[int, int]
    offsets: tuple[int, int]


@dataclass(slots=True)
class Loader:
    """Reads and parses files once. `<name>` is a library of ours; others are relative to the importing file, then to
    each of `paths`."""

    paths: tuple[str, ...] = ()
    _texts: dict[str, s.ModuleText] = field(default_factory=dict[str, s.ModuleText])

    def load(self, path: str) -> s.ModuleText:
        """The module at `path`. Raises DiagnosticError."""
        key = os.path.abspath(path)
        if key not in self._texts:
            self._texts[key] = parsed(read_source(path))
        return self._texts[key]

    def library(self, name: str, span: Span) -> s.ModuleText:
        """The library `<name>`."""
        key = f"<{name}>"
        if key not in self._texts:
            root = files(__name__.rpartition(".")[0]) / "lib"
            source = root / f"{name}.csl"
            if not all(part.isidentifier() for part in name.split("/")) or not source.is_file():
                fail("E1005", f"there is no library `<{name}>`", span, help=did_you_mean(name, library_names()))
            self._texts[key] = parsed(SourceFile(key, source.read_text(encoding="utf-8")))
        return self._texts[key]

    def resolve(self, name: str, importer: str) -> str:
        """The path that `name`, written in the file `importer`, means."""
        tried = [os.path.join(os.path.dirname(importer), name), *(os.path.join(p, name) for p in self.paths)]
        return next((os.path.normpath(p) for p in tried if os.path.isfile(p)), os.path.normpath(tried[0]))


def parsed(file: SourceFile) -> s.ModuleText:
    """The module that `file` holds. Raises DiagnosticError."""
    module, problems = parse(file)
    if module is None:
        raise DiagnosticError(problems)
    return module


def library_names() -> list[str]:
    """The libraries that come with tdslc, as they are named between `<` and `>`."""
    root = Path(str(files(__name__.rpartition(".")[0]) / "lib"))
    return sorted(p.relative_to(root).with_suffix("").as_posix() for p in root.rglob("*.csl"))


# ---- names ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Bound:
    """A constant; `symbol` is its storage once something needs its address."""

    name: str
    value: Value
    span: Span
    symbol: Symbol | None = None


@dataclass(frozen=True, slots=True)
class LocalVar:
    """A variable of a function that runs."""

    type: t.Type
    slot: int


Entry: TypeAlias = Bound | Cell | LocalVar | Symbol


@dataclass(frozen=True, slots=True, eq=False)
class FnValue:
    """A function or task as a value."""

    module: Module
    decl: s.Function


@dataclass(slots=True, eq=False)
class Scope:
    """Names in a block. Where `index` is set the lanes inside are those `index` of the lanes outside."""

    parent: Scope | None = None
    names: dict[str, Entry] = field(default_factory=dict[str, Entry])
    index: NDArray[np.int64] | None = None

    def find(self, name: str) -> Entry | None:
        if name in self.names:
            return self.names[name]
        found = self.parent.find(name) if self.parent else None
        if found is None or self.index is None:
            return found
        moved = _moved(found, self.index)
        if isinstance(found, Bound):
            self.names[name] = moved
        return moved

    def every(self) -> Iterator[str]:
        yield from self.names
        if self.parent:
            yield from self.parent.every()


def _moved(entry: Entry, index: NDArray[np.int64]) -> Entry:
    if isinstance(entry, Bound):
        value = take(entry.value, index)
        return entry if value is entry.value else Bound(entry.name, value, entry.span, entry.symbol)
    if isinstance(entry, Cell):
        # A copy: the variables outside are not assigned to in here (`layout` sees to it).
        return Cell(entry.name, cast(Known, take(entry.value, index)), entry.span)
    return entry


@dataclass(slots=True, eq=False)
class Module:
    """One import of a file: its declarations, evaluated when first asked for."""

    world: World
    text: s.ModuleText
    given: dict[str, Value]
    is_library: bool
    decls: dict[str, s.Param | s.Variable | s.Function]
    scope: Scope = field(default_factory=Scope)
    busy: list[str] = field(default_factory=list[str])

    def span(self, at: s.At) -> Span:
        return self.text.span(at)

    def find(self, name: str) -> Entry | None:
        """The entry of `name`, evaluating its declaration on first use."""
        if name in self.scope.names:
            return self.scope.names[name]
        decl = self.decls.get(name)
        if decl is None:
            return None
        if name in self.busy:
            fail("E1006", f"`{name}` is defined by itself", self.span(decl.name_at))
        self.busy.append(name)
        try:
            entry = self.world.hooks.declare(self, decl)
        finally:
            self.busy.pop()
        self.scope.names[name] = entry
        return entry


# ---- frames --------------------------------------------------------------------------------------

Where = Literal["layout", "comptime", "function"]


@dataclass(slots=True, eq=False)
class Frame:
    """One evaluation under way. `out` takes the steps of a function that will run; None while compiling."""

    world: World
    module: Module
    scope: Scope
    where: Where
    out: list[Step] | None = None
    instance: Instance | None = None
    result: t.Type = t.VOID
    returned: Value | None = None
    # Lanes of the surrounding loops of a layout; None: the class's own.
    lanes: int | None = None
    # The loops around, innermost last: how many branches were open at its start for one that is unrolled, else None.
    loops: list[int | None] = field(default_factory=list[int | None])
    branches: int = 0
    # Where the function being built was called from, innermost last: as far as calls of libraries go.
    callers: tuple[Span, ...] = ()

    def span(self, at: s.At) -> Span:
        return self.module.text.span(at)

    def emit(self, step: Step, span: Span) -> None:
        """Add a step of what runs; E1016 where nothing does."""
        if self.out is None:
            fail("E1016", "this is done by a running PE, and cannot be evaluated when compiling", span)
        self.out.append(step)

    def local(self, name: str, type: t.Type) -> LocalVar:
        """A new local of the function being built."""
        if self.instance is None:
            raise AssertionError("a local outside a function")
        self.instance.locals.append((name, type))
        return LocalVar(type, len(self.instance.locals) - 1)

    def inner(self, scope: Scope | None = None) -> Frame:
        """The same evaluation with a scope of its own, or with `scope`."""
        return Frame(
            self.world,
            self.module,
            scope or Scope(self.scope),
            self.where,
            self.out,
            self.instance,
            self.result,
            None,
            self.lanes,
        )

    def find(self, name: str) -> Entry | None:
        return self.scope.find(name) or self.module.find(name)


class Hooks(Protocol):
    """What the world must be able to ask for without knowing who does it."""

    def declare(self, module: Module, decl: s.Param | s.Variable | s.Function) -> Entry: ...
    def run(self, stmt: s.Stmt, f: Frame) -> str | None: ...
    def builtin(self, e: s.Builtin, f: Frame) -> Value: ...
    def call(self, e: s.Call, f: Frame) -> Value: ...
    def loop(self, stmt: s.For | s.While, f: Frame) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """Something a layout or a comptime block declares: the builtin's name, its values, its place."""

    kind: str
    values: tuple[Any, ...]
    span: Span


@dataclass(slots=True, eq=False)
class World:
    """One evaluation of a layout, or of the program of a class of PEs. Thrown away when its lanes diverge."""

    arch: Arch
    loader: Loader
    hooks: Hooks
    mode: Literal["layout", "program"]
    rectangle: Rectangle | None = None
    # Coordinates of the PEs of the class, for the layout library.
    coordinates: tuple[Value, Value] | None = None
    effects: list[Effect] = field(default_factory=list[Effect])
    symbols: list[Symbol] = field(default_factory=list[Symbol])
    instances: dict[Any, Instance] = field(default_factory=dict[Any, Instance])
    pending: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    modules: list[Module] = field(default_factory=list[Module])
    notes: list[Diagnostic] = field(default_factory=list[Diagnostic])
    # The fabric around the rectangle, and where in it the rectangle lies; None: a fabric that just holds it.
    fabric: tuple[int, int] | None = None
    offsets: tuple[int, int] = (0, 0)
    steps: int = 0
    depth: int = 0
    importing: int = 0
    # Loops of a layout that are evaluated for all rounds at once, and what was found out about a loop's text.
    lane_loops: int = 0
    facts: dict[int, tuple[s.Stmt, bool]] = field(default_factory=dict[int, "tuple[s.Stmt, bool]"])

    def module(self, text: s.ModuleText, given: dict[str, Value], is_library: bool, span: Span | None) -> Module:
        """An import of `text` with the params `given`, which it must declare. Comptime blocks are not yet run."""
        decls: dict[str, s.Param | s.Variable | s.Function] = {}
        for decl in text.decls:
            if isinstance(decl, s.ComptimeBlock | s.Layout):
                continue
            if decl.name in decls or decl.name in t.NAMED:
                fail("E1004", f"`{decl.name}` is already defined", text.file.span(*decl.name_at))
            decls[decl.name] = decl
        params = [d.name for d in text.decls if isinstance(d, s.Param)]
        for name in given:
            if name not in params:
                message = f"`{text.file.path}` has no param `{name}`"
                fail("E1007", message, span, help=did_you_mean(name, params))
        made = Module(self, text, given, is_library, decls)
        self.modules.append(made)
        return made

    def rectangle_in(self, width: int, height: int, span: Span) -> Rectangle:
        """The rectangle of `width` x `height` PEs at its place in the fabric, which must hold it."""
        x, y = self.offsets
        fabric = self.fabric or (x + width, y + height)
        if x + width > fabric[0] or y + height > fabric[1]:
            message = f"{width} x {height} PEs at {x}, {y} do not fit into a fabric of {fabric[0]} x {fabric[1]}"
            fail("E1040", message, span, help="make the fabric larger, or the rectangle smaller")
        return Rectangle(width, height, fabric, self.offsets)

    def tick(self, f: Frame, at: s.At) -> None:
        """Count a step of the evaluation, at the syntax `at` of `f`."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            fail("E1017", f"evaluation when compiling takes more than {MAX_STEPS} steps", f.span(at))


def unknown_name(name: str, frame: Frame, span: Span, more: Iterable[str] = ()) -> Diagnostic:
    """The diagnostic for a name that is not found."""
    known = {*frame.scope.every(), *frame.module.decls, *t.NAMED, *more}
    return Diagnostic("E1003", f"`{name}` is not defined", span, help=did_you_mean(name, known))
