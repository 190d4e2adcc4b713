"""Evaluating expressions: static values are computed, tensor operations become nodes.

A chain `a + b + c` is walked, not descended, and nesting is bounded, so no text exhausts the stack. Must not know
statements, nor how the body of a fn is executed (`Session.call` does).
"""

# ruff: noqa: RET503 - Site.fail never returns, which ruff cannot see in another file
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from ..graph import DType
from ..source import did_you_mean
from . import arrays, static
from . import syntax as s
from .builtins import CONSTANTS, FUNCTIONS, cast
from .frame import Tensor
from .mistakes import foreign_word
from .signature import assign_arguments
from .table import table_functions
from .values import (
    POISON,
    Activation,
    Builtin,
    Function,
    Local,
    Module,
    Poisoned,
    Site,
    Value,
    describe,
    is_static_number,
)

# Evaluations of one load; a model needs some thousands.
MAX_STEPS = 1_000_000
# Expressions and calls inside one another.
MAX_DEPTH = 500
_MAX_SCOPE_CHARS = 500

# What other languages call things of this one.
_ELSEWHERE = {
    "True": "true", "False": "false", "None": "none", "float64": "f64", "double": "f64", "float32": "f32",
    "float16": "f16", "half": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8", "i1": "bool", "matrix_multiply": "a @ b",
    "concatenate": "concat", "permute": "transpose", "convert": "f32(x)", "cast": "f32(x)", "select": "where(c, a, b)",
    "add": "a + b", "sub": "a - b", "mul": "a * b", "neg": "-x", "reduce_sum": "sum", "reduce_max": "max",
}  # fmt: skip

TABLE_FUNCTIONS = table_functions(FUNCTIONS)
BUILTINS: dict[str, Value] = {**TABLE_FUNCTIONS, **FUNCTIONS, **CONSTANTS}


def evaluate(act: Activation, expr: s.Expr) -> Value:
    """The value of `expr`. Raises Fail for a mistake, Poisoned for a value that was told to be wrong before."""
    session = act.session
    session.steps += 1
    if session.steps > MAX_STEPS:
        act.site(expr.at).give_up(
            "E0115", f"elaborating the model takes more than {MAX_STEPS} steps", "loops of many trips are `repeat`"
        )
    if session.depth >= MAX_DEPTH:
        act.site(expr.at).fail("E0010", f"expressions and calls are nested more than {MAX_DEPTH} deep")
    session.depth += 1
    try:
        return _EVALUATE[type(expr)](act, expr)
    finally:
        session.depth -= 1


# ---- names ---------------------------------------------------------------------------------------


def lookup(act: Activation, name: str, at: s.At) -> Value:
    """What `name` stands for in `act`: its own names, then the file's, then the language's."""
    for names in (act.names, act.module.names, BUILTINS):
        if name in names:
            return _usable(act, name, names[name], at)
    undefined(act, name, at)


def undefined(act: Activation, name: str, at: s.At) -> NoReturn:
    """Tells that `name` stands for nothing, and what may have been meant."""
    word = foreign_word(name)
    if word is not None:
        act.site(at).fail("E0101", word.message, help=word.help)
    ours = _ELSEWHERE.get(name)
    help = f"write `{ours}`" if ours else did_you_mean(name, [*act.names, *act.module.names, *BUILTINS])
    act.site(at).fail("E0101", f"`{name}` is not defined", help=help or _module_hint(name))


def _usable(act: Activation, name: str, value: Value, at: s.At) -> Value:
    if value is POISON:
        raise Poisoned
    if isinstance(value, Local) and value.start:
        message = f"`{name}` is carried by the loop from trip to trip and starts as {value.start}, not as a tensor"
        act.site(at).fail(
            "E0114", message, help="start from a tensor, as in `zeros([B, D], f32)`, or unroll the loop with `for`"
        )
    if isinstance(value, Local):
        message = f"`{name}` is made anew in each trip of a `repeat` and is gone after it"
        act.site(at).fail(
            "E0114", message, help="give it a value before the loop to carry it, or `yield` it to stack it"
        )
    return value


def _module_hint(name: str) -> str | None:
    return "layers are in the standard library: `import nn`" if name == "nn" else None


def _name(act: Activation, expr: s.Name) -> Value:
    return lookup(act, expr.id, expr.at)


def _literal(act: Activation, expr: s.Literal) -> Value:
    return expr.value


def _attribute(act: Activation, expr: s.Attribute) -> Value:
    base = evaluate(act, expr.base)
    site = act.site(expr.at)
    if isinstance(base, Module):
        return _member(act, base, expr)
    if isinstance(base, Tensor):
        return _tensor_attribute(site, base, expr)
    site.fail("E0122", f"{describe(base)} has no attributes", at=expr.name_at)


def _member(act: Activation, module: Module, expr: s.Attribute) -> Value:
    if expr.name in module.names:
        return _usable(act, expr.name, module.names[expr.name], expr.at)
    help = did_you_mean(expr.name, module.names)
    act.site(expr.name_at).fail("E0101", f"`{module.name}` has no `{expr.name}`", help=help)


def _tensor_attribute(site: Site, x: Tensor, expr: s.Attribute) -> Value:
    match expr.name:
        case "shape":
            return x.shape
        case "dtype":
            return x.dtype
        case "rank":
            return x.type.rank
        case "T" if x.type.rank == 2:
            return arrays.transpose(site, x, (1, 0))
        case "T":
            site.fail(
                "E0120",
                f"`.T` transposes matrices, not {x.type}",
                help="write `transpose(x, perm)` or `swapaxes(x, a, b)`",
            )
        case name:
            help = f"write `{name}(x, …)`" if name in FUNCTIONS else did_you_mean(name, ("shape", "dtype", "rank", "T"))
            site.fail("E0122", f"a tensor has no `{name}`", help=help, at=expr.name_at)


# ---- operators -----------------------------------------------------------------------------------


def _binary(act: Activation, expr: s.Binary) -> Value:
    chain: list[s.Binary] = []
    first: s.Expr = expr
    while isinstance(first, s.Binary):
        chain.append(first)
        first = first.left
    value = evaluate(act, first)
    for link in reversed(chain):
        value = _join(act, link, value)
    return value


def _join(act: Activation, link: s.Binary, left: Value) -> Value:
    if link.op in ("and", "or") and isinstance(left, bool) and left == (link.op == "or"):
        return left
    right = evaluate(act, link.right)
    site = Site(act, link.at, link.op_at)
    if not isinstance(left, Tensor) and not isinstance(right, Tensor):
        return static.binary(site, link.op, left, right)
    if link.op in ("==", "!=") and (left is None or right is None):
        return link.op == "!="
    a, b = (_operand(site, link.op, v) for v in (left, right))
    return arrays.binary(site, link.op, a, b)


def _operand(site: Site, op: str, value: Value) -> arrays.Operand:
    if isinstance(value, Tensor | bool) or is_static_number(value):
        return value  # pyright: ignore[reportReturnType]
    site.fail("E0107", f"`{op}` does not join a tensor and {describe(value)}")


def _unary(act: Activation, expr: s.Unary) -> Value:
    value = evaluate(act, expr.operand)
    site = act.site(expr.at)
    return arrays.unary(site, expr.op, value) if isinstance(value, Tensor) else static.unary(site, expr.op, value)


def condition(act: Activation, expr: s.Expr, what: str) -> bool:
    """The value of a condition, which must be static."""
    value = evaluate(act, expr)
    if isinstance(value, bool):
        return value
    help = (
        "where values decide, `where(condition, a, b)` picks elementwise"
        if isinstance(value, Tensor)
        else "compare, as in `x != 0`"
    )
    act.site(expr.at).fail(
        "E0111", f"{what} is decided at build and needs true or false, not {describe(value)}", help=help
    )


def _conditional(act: Activation, expr: s.Conditional) -> Value:
    return evaluate(act, expr.yes if condition(act, expr.test, "a conditional expression") else expr.no)


def _list(act: Activation, expr: s.ListOf) -> Value:
    items: list[Value] = []
    for item in expr.items:
        if isinstance(item, s.Spread):
            items += _spread(act, item)
        else:
            items.append(evaluate(act, item))
    if len(items) > static.MAX_LIST:
        act.site(expr.at).fail("E0115", f"a list has {len(items)} elements, more than {static.MAX_LIST}")
    return tuple(items)


def _spread(act: Activation, expr: s.Spread) -> tuple[Value, ...]:
    value = lookup(act, expr.name, expr.at) if expr.name else None
    if isinstance(value, tuple):
        return value
    act.site(expr.at).fail(
        "E0107", "`..` is followed by the name of a list", help="dims of `x: T[..B, N]` are spread by `[..B, M]`"
    )


# ---- indexing ------------------------------------------------------------------------------------


def _index(act: Activation, expr: s.Index) -> Value:
    base = evaluate(act, expr.base)
    site = act.site(expr.at)
    if isinstance(base, tuple | range):
        return _element(act, expr, base)
    if not isinstance(base, Tensor):
        site.fail("E0107", f"{describe(base)} cannot be indexed")
    items = [_item(act, item) for item in expr.items]
    base, items = _stacked_read(base, items, expr)
    return arrays.index(site, base, items) if items else base


def _element(act: Activation, expr: s.Index, base: tuple[Value, ...] | range) -> Value:
    site = act.site(expr.at)
    item = _item(act, expr.items[0]) if len(expr.items) == 1 else ...
    if isinstance(item, arrays.Range):
        if item.step == 0:
            site.fail("E0120", "the step of a slice is not 0")
        return tuple(base[slice(item.start, item.stop, item.step)])
    if not isinstance(item, int):
        help = "unroll the loop with `for`" if isinstance(item, Tensor) else None
        site.fail("E0120", "a list is indexed by one static integer or slice", help=help)
    if not -len(base) <= item < len(base):
        site.fail("E0120", f"index {int(item)} is outside a list of {len(base)}")
    return base[item]


def _item(act: Activation, item: s.Expr) -> arrays.IndexItem:
    match item:
        case s.Slice():
            return arrays.Range(*(None if e is None else _bound(act, e) for e in (item.start, item.stop, item.step)))
        case s.Ellipsis():
            return ...
        case _:
            value = evaluate(act, item)
    if value is None or isinstance(value, Tensor) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    act.site(item.at).fail("E0120", f"an index is an integer, a slice, `...` or none, not {describe(value)}")


def _bound(act: Activation, expr: s.Expr) -> int | None:
    value = evaluate(act, expr)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    help = (
        "a slice's length must be known at build"
        if isinstance(value, Tensor)
        else "write `//` to divide integers"
        if isinstance(value, float)
        else None
    )
    act.site(expr.at).fail("E0111", f"the end of a slice is a static integer, not {describe(value)}", help=help)


def _stacked_read(base: Tensor, items: list[arrays.IndexItem], expr: s.Index) -> tuple[Tensor, list[arrays.IndexItem]]:
    """`xs[i, …]` in a loop over i of as many trips as xs has elements: the loop hands out the element itself."""
    name = expr.base.id if isinstance(expr.base, s.Name) else "element"
    while items and isinstance(items[0], Tensor) and items[0].frame.index is items[0]:
        loop = items[0].frame
        if base.frame.inside(loop) or not base.type.rank or base.shape[0] != loop.trips:
            break
        base, items = loop.element(base, name), items[1:]
    return base, items


# ---- calls ---------------------------------------------------------------------------------------


def _call(act: Activation, expr: s.Call) -> Value:
    function = evaluate(act, expr.function)
    args = [(arg, evaluate(act, arg.value)) for arg in expr.args]
    site = act.site(expr.at)
    if isinstance(function, Function):
        return act.session.call(site, function, args, expr.scope)
    if expr.scope is not None:
        site.fail("E0123", f"{describe(function)} has no parameters to name", help="leave out `as`", at=expr.scope.at)
    if isinstance(function, Builtin):
        return _call_builtin(site, function, args)
    if isinstance(function, DType):
        return _call_dtype(site, function, args)
    help = "write `*` to multiply" if is_static_number(function) or isinstance(function, Tensor) else None
    site.fail("E0106", f"{describe(function)} cannot be called", help=help)


def _call_builtin(site: Site, function: Builtin, args: list[tuple[s.Arg, Value]]) -> Value:
    rest: list[Value] = []
    if function.variadic:
        positional = [(a, v) for a, v in args if not a.name]
        rest = [v for _, v in positional[function.leading :]]
        args = [*positional[: function.leading], *((a, v) for a, v in args if a.name)]
    given = assign_arguments(site, function.name, function.signature, function.names, function.required, args)
    values = {name: value for name, (_, value) in given.items()}
    return function.run(site, *rest, **values)


def _call_dtype(site: Site, dtype: DType, args: list[tuple[s.Arg, Value]]) -> Value:
    given = assign_arguments(site, str(dtype), f"{dtype}(x)", ("x",), ("x",), args)
    return cast(site, dtype, given["x"][1])


def _misplaced(act: Activation, expr: s.Expr) -> Value:
    act.site(expr.at).fail("E0009", "this stands only inside an index, a list or a type")


_EVALUATE: dict[type, Callable[[Activation, Any], Value]] = {
    s.Name: _name, s.Literal: _literal, s.Unary: _unary, s.Binary: _binary, s.Conditional: _conditional, s.Call: _call,
    s.Index: _index, s.Attribute: _attribute, s.ListOf: _list, s.Slice: _misplaced, s.Ellipsis: _misplaced,
    s.Spread: _misplaced,
}  # fmt: skip


# ---- texts with placeholders ---------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}|[{}]")


def interpolate(act: Activation, text: str, at: s.At, *, markers: bool) -> str:
    """`text` with `{name}` replaced by its static value; with `markers` also by the index of a `repeat`."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name is None or not name.isidentifier():
            act.site(at).fail("E0123", f"`{match[0]}` in a string is not the name of a static value in braces")
        value = lookup(act, name, at)
        if markers and isinstance(value, Tensor) and value.frame.index is value:
            return value.frame.marker
        if isinstance(value, int | float | str | DType) or value is None:
            return str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, tuple) and not markers:
            return f"[{', '.join(map(str, value))}]"
        act.site(at).fail("E0123", f"`{{{name}}}` is {describe(value)}, which has no text at build")

    made = _PLACEHOLDER.sub(value_of, text)
    if len(made) > _MAX_SCOPE_CHARS:
        act.site(at).fail("E0123", f"a string with its values filled in has more than {_MAX_SCOPE_CHARS} characters")
    return made
