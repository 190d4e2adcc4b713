"""What a name can stand for while a model is elaborated, and where mistakes are told.

Static values are Python's own (int, float, bool, str, None, tuples) and DType; a tensor is a `Tensor`. Must not know
how expressions are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from ..graph import Attr, Composite, DType, Graph, InferError, TensorType
from ..source import Diagnostic, Note, SourceFile, Span
from .frame import MAX_NODES, Budget, Frame, LimitError, Tensor
from .syntax import Arg, At, FnDecl, Import, Scope

MAX_ERRORS = 30
STDLIB = "<stdlib>/"


class Fail(Exception):
    """A mistake was found; whoever executes the statement gathers the diagnostic and goes on."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Poisoned(Exception):
    """A value was needed whose making has failed already, which has been told."""


class TooMany(Exception):
    """Enough mistakes were told, or the model is too large to go on with."""


class Poison:
    """What a name stands for when its statement failed."""


POISON = Poison()


@dataclass(frozen=True, slots=True)
class Local:
    """A name that a `repeat` makes in every trip: not to be read after it, nor before it is made.

    `start` describes a static value it had before the loop, which a loop cannot carry.
    """

    at: At
    start: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A `fn` or `op fn`, in its module."""

    module: Module
    decl: FnDecl


@dataclass(frozen=True, slots=True, eq=False)
class Builtin:
    """A function of the language. `signature` is what a message shows.

    With `variadic` positional arguments after the first `leading` names are handed to `run` in order.
    """

    name: str
    signature: str
    names: tuple[str, ...]
    required: tuple[str, ...]
    variadic: bool
    run: Callable[..., Value]
    leading: int = 0


@dataclass(slots=True, eq=False)
class Module:
    """A file once loaded: its declarations by name. `shown` is its path in `Node.loc`."""

    name: str
    file: SourceFile
    shown: str
    doc: str = ""
    names: dict[str, Value] = field(default_factory=dict["str", "Value"])
    places: dict[str, At] = field(default_factory=dict["str", "At"])
    models: list[FnDecl] = field(default_factory=list["FnDecl"])
    ops: list[FnDecl] = field(default_factory=list["FnDecl"])
    imports: list[Import] = field(default_factory=list["Import"])

    @property
    def is_stdlib(self) -> bool:
        return self.shown.startswith(STDLIB)


Static: TypeAlias = "int | float | bool | str | DType | range | tuple[Value, ...] | None"
Value: TypeAlias = "Static | Tensor | Function | Builtin | Module | Poison | Local"


@dataclass(slots=True)
class Session:
    """What one load has gathered so far.

    `call` executes a fn: expressions need it and must not know how. `regions` holds the definition of each composite
    with the nodes it has, None while it is being made or when it has mistakes.
    """

    call: Callable[[Site, Function, Sequence[tuple[Arg, Value]], Scope | None], Value]
    diagnostics: list[Diagnostic] = field(default_factory=list["Diagnostic"])
    told: set[tuple[str, str, Span | None]] = field(default_factory=set["tuple[str, str, Span | None]"])
    composites: dict[str, Composite] = field(default_factory=dict["str", "Composite"])
    regions: dict[str, tuple[Graph, int] | None] = field(default_factory=dict["str", "tuple[Graph, int] | None"])
    params: dict[str, Param] = field(default_factory=dict["str", "Param"])
    stdlib_ops: frozenset[str] = frozenset()
    budget: Budget = field(default_factory=Budget)
    depth: int = 0
    default_dtype: DType | None = None
    steps: int = 0
    loops: int = 0

    def tell(self, diagnostic: Diagnostic) -> None:
        """Gathers a diagnostic, the same one once."""
        key = (diagnostic.code, diagnostic.message, diagnostic.span)
        if key in self.told:
            return
        self.told.add(key)
        self.diagnostics.append(diagnostic)
        if len(self.diagnostics) >= MAX_ERRORS:
            raise TooMany


@dataclass(frozen=True, slots=True, eq=False)
class Param:
    """A declared parameter: its tensor in the root frame, where it was declared, and whether it may be again."""

    tensor: Tensor
    span: Span
    shared: bool


@dataclass(slots=True, eq=False)
class Activation:
    """A body being executed: its names, the frame it builds in, the scope of its parameters, and who called it."""

    session: Session
    module: Module
    frame: Frame
    names: dict[str, Value]
    decl: FnDecl | None = None
    prefix: str = ""
    shared: bool = False
    caller: Site | None = None
    loops: int = 0

    def site(self, at: At) -> Site:
        return Site(self, at)


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A place in a body being executed: where an operation comes from and where its mistakes are told."""

    act: Activation
    at: At
    op_at: At | None = None

    @property
    def span(self) -> Span:
        return self.act.module.file.span(*self.at)

    @property
    def loc(self) -> str:
        line, column = self.act.module.file.position((self.op_at or self.at)[0])
        return f"{self.act.module.shown}:{line}:{column}"

    @property
    def told_at(self) -> Site:
        """Where its mistakes are told: the call in a user's file when this is in the standard library."""
        site = self
        while site.act.module.is_stdlib and site.act.caller is not None:
            site = site.act.caller
        return site

    def fail(
        self, code: str, message: str, *, help: str | None = None, notes: Sequence[Note] = (), at: At | None = None
    ) -> NoReturn:
        """Raises Fail for a mistake here. One inside the standard library is told at the call that led there."""
        here = self if at is None else Site(self.act, at)
        site = here.told_at
        inner = [Note("inside the standard library, here", here.span)] if site is not here else []
        outer = _called_from(site)
        raise Fail(Diagnostic(code, message, site.span, (*notes, *inner, *outer), help))

    def add(self, op: str, /, *args: Tensor, **attrs: Attr) -> Tensor:
        """A node with one result; its type rule's refusal is told here."""
        (only,) = self.add_all(op, args, attrs)
        return only

    def add_all(
        self, op: str, args: Sequence[Tensor], attrs: Mapping[str, Attr], regions: tuple[Graph, ...] = ()
    ) -> tuple[Tensor, ...]:
        """A node and its results."""
        self._needs_graph()
        try:
            return self.act.frame.add(op, args, attrs, regions=regions, loc=self.loc)
        except InferError as error:
            self.fail("E0120", str(error))
        except LimitError as error:
            self.too_large(error)

    def full(self, value: int | float | bool, dtype: DType, shape: Sequence[int]) -> Tensor:
        """A tensor of `value` everywhere."""
        self._needs_graph()
        try:
            return self.act.frame.full(value, dtype, shape, self.loc)
        except LimitError as error:
            self.too_large(error)

    def _needs_graph(self) -> None:
        if self.act.frame.kind == "static":
            help = "constants of a file and defaults are numbers, strings, dtypes and lists"
            self.fail("E0111", "a tensor is made where only static values can be", help=help)

    def too_large(self, error: LimitError) -> NoReturn:
        """Tells of a limit; there is no going on after the one on the whole model."""
        if self.act.session.budget.nodes <= MAX_NODES:
            self.fail("E0115", str(error))
        self.give_up("E0115", str(error), "`repeat` keeps one copy of a loop's body, `for` makes one for each trip")

    def give_up(self, code: str, message: str, help: str) -> NoReturn:
        """Tells of a mistake after which nothing is looked at."""
        try:
            self.fail(code, message, help=help)
        except Fail as fail:
            self.act.session.tell(fail.diagnostic)
        raise TooMany


def _called_from(site: Site) -> list[Note]:
    """Where the body of `site` was called from, the nearest two."""
    notes: list[Note] = []
    caller = site.act.caller
    while caller is not None and len(notes) < 2:
        name = site.act.decl.name if site.act.decl else ""
        notes.append(Note(f"in `{name}`, called here", caller.span))
        site, caller = caller, caller.act.caller
    return notes


def describe(value: Value) -> str:
    """What `value` is, for messages: its type, and itself when it is short."""
    match value:
        case Tensor():
            return str(value.type)
        case bool():
            return "true" if value else "false"
        case None:
            return "none"
        case int() | float():
            return f"the {'integer' if isinstance(value, int) else 'number'} {value}"
        case str():
            return f'the string "{value[:40]}"'
        case DType():
            return f"the dtype {value}"
        case tuple():
            return f"a list of {len(value)}"
        case range():
            return "a range"
        case Function():
            return f"the fn {value.decl.name}"
        case Builtin():
            return f"the function {value.name}"
        case Module():
            return f"the module {value.name}"
        case _:
            return "a value"


def is_static_number(value: Value) -> bool:
    """Whether `value` is an int or a float, not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shapes(types: Sequence[TensorType], word: str = "and") -> str:
    return f" {word} ".join(map(str, types))
