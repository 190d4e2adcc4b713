"""What a `.tdsl` text says, as frozen values: modules, statements, expressions.

Every piece carries `at`, the (start, end) offsets of its text. Must not know what anything means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..source import SourceFile

At: TypeAlias = tuple[int, int]

# ---- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    at: At
    id: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, `true`, `false` or `none`."""

    at: At
    value: int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Unary:
    at: At
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """`left op right`; `op_at` is where the operator stands."""

    at: At
    op: str
    op_at: At
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Conditional:
    at: At
    test: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True)
class Scope:
    """`as "text"`: what parameters' names start with. `shared` lets them be declared again."""

    at: At
    text: str
    shared: bool


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument; `name` is "" when it is positional."""

    at: At
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Call:
    at: At
    function: Expr
    args: tuple[Arg, ...]
    scope: Scope | None


@dataclass(frozen=True, slots=True)
class Slice:
    """`start:stop:step` in an index; None where nothing is written."""

    at: At
    start: Expr | None
    stop: Expr | None
    step: Expr | None


@dataclass(frozen=True, slots=True)
class Ellipsis:
    """`...` in an index."""

    at: At


@dataclass(frozen=True, slots=True)
class Index:
    at: At
    base: Expr
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    at: At
    base: Expr
    name: str
    name_at: At


@dataclass(frozen=True, slots=True)
class Spread:
    """`..B` among dims or in a list; `name` is "" for a bare `..`."""

    at: At
    name: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[a, b]` or `a, b`."""

    at: At
    items: tuple[Expr, ...]


Expr: TypeAlias = (
    "Name | Literal | Unary | Binary | Conditional | Call | Slice | Ellipsis | Index | Attribute | Spread | ListOf"
)

# ---- types ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypeOf:
    """`T[B, 2*H, ..S]`, or a bare word such as `int` (then `dims` is None)."""

    at: At
    name: str
    dims: tuple[Expr, ...] | None


@dataclass(frozen=True, slots=True)
class Formal:
    """A declared argument."""

    at: At
    name: str
    type: TypeOf
    default: Expr | None


@dataclass(frozen=True, slots=True)
class Result:
    """A declared result; `name` is "" when it has none."""

    at: At
    name: str
    type: TypeOf


# ---- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """`a, b = value`; `names` with the place of each."""

    at: At
    names: tuple[Name, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Bare:
    """An expression as a statement: a doc string, or a mistake."""

    at: At
    value: Expr


@dataclass(frozen=True, slots=True)
class Return:
    at: At
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Yield:
    at: At
    value: Expr


@dataclass(frozen=True, slots=True)
class ParamDecl:
    at: At
    name: str
    name_at: At
    type: TypeOf
    shared: bool


@dataclass(frozen=True, slots=True)
class Assert:
    at: At
    test: Expr
    message: str


@dataclass(frozen=True, slots=True)
class Pass:
    at: At


@dataclass(frozen=True, slots=True)
class If:
    """`arms` are (condition, body); the last condition is None for `else`."""

    at: At
    arms: tuple[tuple[Expr | None, Body], ...]


@dataclass(frozen=True, slots=True)
class For:
    at: At
    names: tuple[str, ...]
    over: Expr
    scope: Scope | None
    body: Body


@dataclass(frozen=True, slots=True)
class Repeat:
    """`targets = repeat index in over as scope: body`; `at` is the header."""

    at: At
    targets: tuple[Name, ...]
    index: str
    over: Expr
    scope: Scope | None
    body: Body


Stmt: TypeAlias = "Assign | Bare | Return | Yield | ParamDecl | Assert | Pass | If | For | Repeat"
Body: TypeAlias = tuple[Stmt, ...]

# ---- top level -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Import:
    """`import path as name`, or with `names` `from path import names`."""

    at: At
    path: tuple[str, ...]
    name: str
    names: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class DimDecl:
    at: At
    name: str
    value: Expr
    low: Expr | None
    high: Expr | None


@dataclass(frozen=True, slots=True)
class DtypeDecl:
    at: At
    name: str
    value: Name
    choices: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Const:
    at: At
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class FnDecl:
    """A `fn`, an `op fn` (kind "op") or a `model`. `at` is its first line up to the colon."""

    at: At
    kind: str
    name: str
    name_at: At
    formals: tuple[Formal, ...]
    results: tuple[Result, ...] | None
    several: bool
    doc: str
    body: Body


Top: TypeAlias = "Import | DimDecl | DtypeDecl | Const | FnDecl"


@dataclass(frozen=True, slots=True)
class ModuleText:
    """A parsed file: its text, doc string and declarations in order."""

    file: SourceFile
    doc: str
    tops: tuple[Top, ...]


def assigned(body: Body) -> dict[str, At]:
    """Names that `body` assigns anywhere in it, in order of first assignment, with where."""
    found: dict[str, At] = {}
    for stmt in body:
        for name, at in _assigns(stmt):
            found.setdefault(name, at)
    return found


def _assigns(stmt: Stmt) -> list[tuple[str, At]]:
    match stmt:
        case Assign():
            return [(name.id, name.at) for name in stmt.names]
        case ParamDecl():
            return [(stmt.name, stmt.name_at)]
        case If():
            return [pair for _, inner in stmt.arms for pair in assigned(inner).items()]
        case For():
            return [*((name, stmt.at) for name in stmt.names), *assigned(stmt.body).items()]
        case Repeat():
            return [*((name.id, name.at) for name in stmt.targets), (stmt.index, stmt.at), *assigned(stmt.body).items()]
        case _:
            return []
