"""The typed code of functions and tasks, after everything known when compiling is known.

A tree: structured control flow over typed expressions. It is what engines lower, what reports point into (every piece
that can fault has a span) and what tests read. Every type in it has a size, except in the fields of `Make`. Constants
may hold one entry per PE of the class. Must not know syntax.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ....compiler.source import Span
from . import types as t


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """`data` as in values.Known: a number (or one per lane), an ArrayData, an Address, a Dsd, an Instance, ..."""

    type: t.Type
    data: Any


@dataclass(frozen=True, slots=True)
class Local:
    """A parameter or variable of the function: entry `slot` of its `locals`."""

    type: t.Type
    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Memory of one value: `base` (a Symbol, a Local, or code that computes a pointer) + `offset` bytes + the sum of
    index * stride in bytes. Each index comes with the extent that bounds it (None where none is known)."""

    type: t.Type
    base: Any
    offset: Any
    terms: tuple[tuple[Code, int, int | None], ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    type: t.Type
    place: Place


@dataclass(frozen=True, slots=True, eq=False)
class AddressOf:
    type: t.Type
    place: Place


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """A scalar operation: arithmetic, comparison, `convert`, `bitcast`, `choose` (lazy), `and` / `or` (lazy), or a
    builtin of the machine (`activate`, `timestamp`, ...) by its name."""

    type: t.Type
    op: str
    args: tuple[Code, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Make:
    """A struct, array, or DSD of which some fields are computed. `what` is "struct", "array", or the builtin."""

    type: t.Type
    what: str
    fields: dict[str, Any]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A field of a struct that is not in memory."""

    type: t.Type
    base: Code
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A DSD operation or `@map`: destination and sources, and its settings (`async`, `activate`, ...)."""

    type: t.Type
    op: str
    operands: tuple[Code, ...]
    settings: dict[str, Any]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """`target` is an Instance, or code that computes a function pointer."""

    type: t.Type
    target: Any
    args: tuple[Code, ...]
    span: Span


Code: TypeAlias = Constant | Local | Load | AddressOf | Operation | Make | Member | Vector | Call


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    place: Place
    value: Code


@dataclass(frozen=True, slots=True, eq=False)
class SetLocal:
    slot: int
    value: Code


@dataclass(frozen=True, slots=True, eq=False)
class Do:
    value: Code


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    test: Code
    yes: tuple[Step, ...]
    no: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """While `test`: `body`, then `step` (also after Next)."""

    test: Code
    body: tuple[Step, ...]
    step: tuple[Step, ...]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Leave:
    """Return, with a value when the function has one."""

    value: Code | None


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave the innermost loop."""


@dataclass(frozen=True, slots=True)
class Next:
    """Go on with the innermost loop."""


Step: TypeAlias = Store | SetLocal | Do | Branch | Loop | Leave | Stop | Next


@dataclass(slots=True, eq=False)
class Instance:
    """A function with its comptime arguments fixed. `locals` starts with the parameters; `body` is None until built."""

    name: str
    is_task: bool
    params: tuple[t.Type, ...]
    result: t.Type
    span: Span
    locals: list[tuple[str, t.Type]] = field(default_factory=list[tuple[str, t.Type]])
    body: tuple[Step, ...] | None = None
