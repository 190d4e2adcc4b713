"""What a `.csl` text says, as frozen values: declarations, statements, expressions.

Every piece carries `at`, the (start, end) offsets of its text. Types are expressions. Must not know what
anything means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, cast

from ....compiler.source import SourceFile, Span

At: TypeAlias = tuple[int, int]

# ---- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    at: At
    id: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, `true` or `false`."""

    at: At
    value: int | float | str | bool


@dataclass(frozen=True, slots=True)
class Undefined:
    at: At


@dataclass(frozen=True, slots=True)
class Empty:
    """`{}`: no value given."""

    at: At


@dataclass(frozen=True, slots=True)
class Unary:
    at: At
    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Comptime:
    """`comptime e`: must be known when compiling."""

    at: At
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
    """`if (test) yes else no`; without `else`, `test` must hold."""

    at: At
    test: Expr
    yes: Expr
    no: Expr | None


@dataclass(frozen=True, slots=True)
class Call:
    at: At
    callee: Expr
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Builtin:
    """`@name(args)`; `name` without the `@`."""

    at: At
    name: str
    name_at: At
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Index:
    at: At
    base: Expr
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Member:
    at: At
    base: Expr
    name: str
    name_at: At


@dataclass(frozen=True, slots=True)
class Deref:
    at: At
    base: Expr


@dataclass(frozen=True, slots=True)
class Field:
    """`.name = value` of an initialiser."""

    at: At
    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Init:
    """`T{ ... }`, or `.{ ... }` where `type` is None: all items fields, or all values."""

    at: At
    type: Expr | None
    items: tuple[Field | Expr, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """`|i, j|{N, M} -> A[i, j]`."""

    at: At
    indices: tuple[str, ...]
    extents: tuple[Expr, ...]
    access: Expr


# ---- types ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ArrayType:
    at: At
    dims: tuple[Expr, ...]
    element: Expr


@dataclass(frozen=True, slots=True)
class PointerType:
    """`*T`, `[*]T` (`many`), with `const` before T."""

    at: At
    to: Expr
    many: bool
    const: bool


@dataclass(frozen=True, slots=True)
class FunctionType:
    at: At
    params: tuple[Expr, ...]
    result: Expr
    is_task: bool


@dataclass(frozen=True, slots=True)
class TypedName:
    at: At
    name: str
    type: Expr


@dataclass(frozen=True, slots=True)
class StructType:
    at: At
    fields: tuple[TypedName, ...]


@dataclass(frozen=True, slots=True)
class EnumType:
    """`enum(base) { A, B = 3 }`."""

    at: At
    base: Expr
    members: tuple[tuple[str, Expr | None], ...]


Expr: TypeAlias = (
    Name | Literal | Undefined | Empty | Unary | Comptime | Binary | Conditional | Call | Builtin | Index | Member
    | Deref | Init | Tensor | ArrayType | PointerType | FunctionType | StructType | EnumType
)  # fmt: skip

# ---- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    at: At
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class ComptimeBlock:
    at: At
    block: Block


@dataclass(frozen=True, slots=True)
class Variable:
    """`const` or `var`, at the top or in a body. `name_at` is where the name stands."""

    at: At
    name: str
    name_at: At
    mutable: bool
    type: Expr | None
    align: Expr | None
    value: Expr | None
    exported: bool


@dataclass(frozen=True, slots=True)
class Assign:
    """`target op value`, `op` the arithmetic of `+=` and its like, or None."""

    at: At
    target: Expr
    op: str | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Bare:
    """An expression for its effect."""

    at: At
    value: Expr


@dataclass(frozen=True, slots=True)
class Return:
    at: At
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Break:
    at: At


@dataclass(frozen=True, slots=True)
class Continue:
    at: At


@dataclass(frozen=True, slots=True)
class If:
    at: At
    test: Expr
    yes: Stmt
    no: Stmt | None


@dataclass(frozen=True, slots=True)
class While:
    """`while (test) : (step) body`; `inline` unrolls it when compiling."""

    at: At
    test: Expr
    step: Stmt | None
    body: Stmt
    inline: bool


@dataclass(frozen=True, slots=True)
class For:
    """`for (items) |item, index| body`."""

    at: At
    items: Expr
    item: str
    index: str | None
    body: Stmt
    inline: bool


@dataclass(frozen=True, slots=True)
class Prong:
    """`a, b => body`; `cases` is None for `else`."""

    at: At
    cases: tuple[Expr, ...] | None
    body: Stmt


@dataclass(frozen=True, slots=True)
class Switch:
    at: At
    value: Expr
    prongs: tuple[Prong, ...]


Stmt: TypeAlias = (
    Block | ComptimeBlock | Variable | Assign | Bare | Return | Break | Continue | If | While | For | Switch
)  # fmt: skip

# ---- declarations --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Param:
    at: At
    name: str
    name_at: At
    type: Expr | None
    default: Expr | None


@dataclass(frozen=True, slots=True)
class Formal:
    at: At
    name: str
    type: Expr
    comptime: bool


@dataclass(frozen=True, slots=True)
class Function:
    """`fn` or `task`; `at` covers its head."""

    at: At
    name: str
    name_at: At
    is_task: bool
    formals: tuple[Formal, ...]
    result: Expr
    body: Block


@dataclass(frozen=True, slots=True)
class Layout:
    at: At
    block: Block


Decl: TypeAlias = Param | Variable | Function | ComptimeBlock | Layout


@dataclass(frozen=True, slots=True)
class ModuleText:
    """A parsed file: its declarations in order."""

    file: SourceFile
    decls: tuple[Decl, ...]
    # Spans once made: one text is evaluated for many classes of PEs.
    _spans: dict[At, Span] = field(default_factory=dict[At, Span], repr=False, compare=False)

    def span(self, at: At) -> Span:
        """The place of a piece of syntax."""
        made = self._spans.get(at)
        if made is None:
            made = self._spans[at] = self.file.span(*at)
        return made


def walk(node: Any) -> Iterator[Any]:
    """`node` and every piece of syntax in it."""
    yield node
    for part in fields(node):
        value: Any = getattr(node, part.name)
        parts = cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)
        for inner in parts:
            if hasattr(inner, "at"):
                yield from walk(inner)
