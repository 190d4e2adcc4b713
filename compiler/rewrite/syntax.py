"""What a rule is once it is read: expressions, type patterns, rules, and their text form.

`show_rule` prints a rule that reads back equal (places and comments aside). Must not know egglog, nor what an
expression's value is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TypeAlias

from ..source import SourceFile, Span

NOWHERE = Span(SourceFile("", ""), 0, 0)

CLASSES = ("exact", "reassoc", "nosz", "nonan", "approx")

Expr: TypeAlias = "Lit | Name | Call | Star | Typed | Tup | Index | Cut | Unary | Binary"


@dataclass(frozen=True, slots=True)
class Lit:
    """A number, text, or one of the words true, false, none, inf, nan."""

    value: int | float | str | bool | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, a dim, a dtype or a trait; `target.vmem` is one name."""

    id: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """An op, an op variable or a function, on positional and keyword arguments."""

    fn: str
    args: tuple[Expr, ...]
    kwargs: tuple[tuple[str, Expr], ...] = ()
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Star:
    """`*xs`: as many operands, or entries of a tuple, as `of` has."""

    of: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Prefix:
    """`..B` in a type: any number of leading or middle dims."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TypePattern:
    """Allowed dtypes (or one dtype variable) and, when given, dims."""

    dtypes: tuple[str, ...]
    dims: tuple[Prefix | Expr, ...] | None = None


@dataclass(frozen=True, slots=True)
class Typed:
    """`x: float[..B, M]`, an operand of the left side."""

    name: str
    type: TypePattern
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tup:
    items: tuple[Expr, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Index:
    of: Expr
    at: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cut:
    """`of[start:stop]`."""

    of: Expr
    start: Expr | None
    stop: Expr | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x` or `not x`."""

    op: str
    of: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    op: str
    left: Expr
    right: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Root:
    """One result of a side; `name` is "" when there is only one and it was not named."""

    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class Rule:
    """An equation between computations, with conditions.

    `classes` say what the rule may change (`CLASSES`); `both` is `<=>`; `target` is the machine of an `impl`, "" for a
    rule; `doc` is the comment above it.
    """

    name: str
    classes: tuple[str, ...]
    left: tuple[Root, ...]
    right: tuple[Root, ...]
    both: bool = False
    op_vars: tuple[tuple[str, str], ...] = ()
    lets: tuple[tuple[str, Expr], ...] = ()
    wheres: tuple[Expr, ...] = ()
    tests: tuple[tuple[str, Expr], ...] = ()
    target: str = ""
    costs: tuple[tuple[str, Expr], ...] = ()
    doc: str = field(default="", compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


# ---- text ----------------------------------------------------------------------------------------


def show_rule(rule: Rule) -> str:
    """Text of `rule`, the comment above it included."""
    head = f"rule {rule.name}" if not rule.target else f"impl {rule.name} for {rule.target}"
    lines = [f"# {line}".rstrip() for line in rule.doc.splitlines()]
    lines.append(" ".join((head, *(f"@{c}" for c in rule.classes))) + ":")
    lines += [f"    for {name} in {trait}" for name, trait in rule.op_vars]
    lines += ["    " + line for line in _equation(rule)]
    lines += [f"    let {name} = {show_expr(e)}" for name, e in rule.lets]
    if rule.wheres:
        lines.append("    where " + ", ".join(map(show_expr, rule.wheres)))
    lines += [f"    test {name} = {show_expr(e)}" for name, e in rule.tests]
    if rule.costs:
        lines.append("    cost " + ", ".join(f"{name} = {show_expr(e)}" for name, e in rule.costs))
    return "\n".join(lines) + "\n"


def _equation(rule: Rule) -> list[str]:
    arrow = "<=>" if rule.both else "=>"
    left, right = (("; ".join(map(_root, side))) for side in (rule.left, rule.right))
    one = f"{left} {arrow} {right}"
    return [one] if len(one) <= 112 else [left, f"{arrow} {right}"]


def _root(root: Root) -> str:
    return f"{root.name} = {show_expr(root.expr)}" if root.name else show_expr(root.expr)


_LEVELS = {
    "or": 1,
    "and": 2,
    "not": 3,
    "==": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "//": 6,
    "%": 6,
}


def show_expr(e: Expr, level: int = 0) -> str:
    """Text of an expression, in parentheses where a place of binding strength `level` needs them."""
    match e:
        case Lit(value):
            return _literal(value)
        case Name(id):
            return id
        case Call(fn, args, kwargs):
            return f"{fn}({', '.join([*map(show_expr, args), *(f'{k}={show_expr(v)}' for k, v in kwargs)])})"
        case Star(of):
            return f"*{show_expr(of, 7)}"
        case Typed(name, type):
            return f"{name}: {show_type(type)}"
        case Tup(items):
            return f"({', '.join(map(show_expr, items))}{',' if len(items) == 1 else ''})"
        case Index(of, at):
            return f"{show_expr(of, 8)}[{show_expr(at)}]"
        case Cut(of, start, stop):
            return f"{show_expr(of, 8)}[{show_expr(start) if start else ''}:{show_expr(stop) if stop else ''}]"
        case Unary("not", of):
            return _wrap(f"not {show_expr(of, 3)}", level > 3)
        case Unary(op, of):
            return _wrap(f"{op}{show_expr(of, 7)}", level > 7)
        case Binary(op, left, right):
            mine = _LEVELS[op]
            # Comparisons do not chain; the others associate to the left.
            return _wrap(f"{show_expr(left, mine + (mine == 4))} {op} {show_expr(right, mine + 1)}", level > mine)


def _wrap(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _literal(value: int | float | str | bool | None) -> str:
    match value:
        case bool() | None:
            return {True: "true", False: "false", None: "none"}[value]
        case str():
            return json.dumps(value)
        case _:
            return repr(value)


def show_type(t: TypePattern) -> str:
    """Text of a type pattern: `int|bool[..S]`."""
    names = "|".join(t.dtypes)
    if t.dims is None:
        return names
    return f"{names}[{', '.join(f'..{d.name}' if isinstance(d, Prefix) else show_expr(d) for d in t.dims)}]"


def walk(e: Expr) -> list[Expr]:
    """`e` and every expression inside it, outermost first; dims of types included."""
    found: list[Expr] = [e]
    for child in children(e):
        found += walk(child)
    return found


def children(e: Expr) -> list[Expr]:
    """The expressions directly inside `e`."""
    match e:
        case Call(_, args, kwargs):
            return [*args, *(v for _, v in kwargs)]
        case Star(of) | Unary(_, of):
            return [of]
        case Typed(_, type):
            return [d for d in type.dims or () if not isinstance(d, Prefix)]
        case Tup(items):
            return list(items)
        case Index(of, at):
            return [of, at]
        case Cut(of, start, stop):
            return [x for x in (of, start, stop) if x is not None]
        case Binary(_, left, right):
            return [left, right]
        case _:
            return []
