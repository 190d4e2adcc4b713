"""Calls: evaluated at once where nothing runs, else code that calls an instance of the function.

An instance is a function with its comptime arguments fixed; its body is built once, later, so functions may call each
other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ....compiler.source import Diagnostic, DiagnosticError, Note, Span
from . import code as c
from . import syntax as s
from . import types as t
from .convert import coerce, function_type, known, to_code
from .expressions import evaluate, type_of
from .values import NOTHING, ArrayData, Known, Unknown, Value, fail
from .world import FUNCTION, MAX_CALLS, Bound, FnValue, Frame, Scope


def call(e: s.Call, f: Frame) -> Value:
    """The value of `callee(args)`."""
    span = f.span(e.at)
    callee = evaluate(e.callee, f)
    args = [(evaluate(a, f), f.span(a.at)) for a in e.args]
    if isinstance(callee, Known) and isinstance(callee.data, FnValue):
        return call_function(callee.data, args, f, span)
    type = callee.type.to if isinstance(callee.type, t.Pointer) else callee.type
    if not isinstance(type, t.Function):
        fail("E1010", f"{t.show(callee.type)} cannot be called", f.span(e.callee.at))
    _check_count(t.show(type), len(type.params), args, span, None)
    codes = tuple(to_code(coerce(v, p or v.type, at), at) for (v, at), p in zip(args, type.params, strict=True))
    return _result(Unknown(type.result, c.Call(type.result, to_code(callee, span), codes, span)), f, span)


def _result(value: Unknown, f: Frame, span: Span) -> Value:
    """The value of a call; one without a value becomes a step at once."""
    if value.type != t.VOID:
        return value
    f.emit(c.Do(value.code), span)
    return NOTHING


def _check_count(what: str, wanted: int, args: list[tuple[Value, Span]], span: Span, declared: Span | None) -> None:
    if wanted != len(args):
        notes = (Note("declared here", declared),) if declared else ()
        fail("E1008", f"{what} takes {wanted} argument{'s' * (wanted != 1)}, not {len(args)}", span, *notes)


def call_function(fn: FnValue, args: list[tuple[Value, Span]], f: Frame, span: Span) -> Value:
    """A call of `fn`: evaluated now where nothing runs or its result is of a comptime type, else code."""
    decl, module = fn.decl, fn.module
    declared = module.span(decl.name_at)
    _check_count(f"`{decl.name}`", len(decl.formals), args, span, declared)
    if decl.is_task:
        fail("E1010", f"`{decl.name}` is a task: it is activated, not called", span, Note("declared here", declared))
    inner = Frame(f.world, module, Scope(), "comptime" if f.out is None else "function", lanes=f.lanes)
    bound: list[tuple[s.Formal, Value, bool]] = []
    for formal, (value, at) in zip(decl.formals, args, strict=True):
        type = type_of(formal.type, inner)
        got = coerce(value, type, at, f"argument `{formal.name}`")
        # A known function as an argument makes an instance of its own, whose calls need no pointer.
        function = got.type == FUNCTION or (isinstance(got, Known) and isinstance(got.data, FnValue))
        fixed = formal.comptime or t.comptime_only(got.type) or function
        if formal.comptime:
            known(got, at, f"argument `{formal.name}`")
        bound.append((formal, got, fixed))
        inner.scope.names[formal.name] = Bound(formal.name, got, at)
    result = type_of(decl.result, inner)
    if f.out is None or t.comptime_only(result):
        return _now(fn, inner, result, span, args)
    return _later(fn, bound, result, f, span)


def _run(fn: FnValue, inner: Frame) -> None:
    inner.world.hooks.run(fn.decl.body, inner)


def _now(fn: FnValue, inner: Frame, result: t.Type, span: Span, args: list[tuple[Value, Span]]) -> Value:
    world = inner.world
    inner.result, inner.out = result, None
    if world.depth >= MAX_CALLS:
        fail("E1017", f"calls nest more than {MAX_CALLS} deep when compiling", span)
    world.depth += 1
    try:
        _traced(lambda: _run(fn, inner), fn, (span,))
    finally:
        world.depth -= 1
    if inner.returned is None and result != t.VOID:
        fail(
            "E1009",
            f"`{fn.decl.name}` ends without a value of type {t.show(result)}",
            span,
            Note("declared here", fn.module.span(fn.decl.name_at)),
        )
    return inner.returned if inner.returned is not None else NOTHING


def _later(fn: FnValue, bound: list[tuple[s.Formal, Value, bool]], result: t.Type, f: Frame, span: Span) -> Value:
    target = instance_of(fn, bound, result, f, span)
    codes = tuple(to_code(value, span) for _, value, fixed in bound if not fixed)
    return _result(Unknown(result, c.Call(result, target, codes, span)), f, span)


def instance_of(
    fn: FnValue, bound: list[tuple[s.Formal, Value, bool]], result: t.Type, f: Frame, span: Span
) -> c.Instance:
    """The instance of `fn` for these comptime arguments and types; its body is built later, once."""
    world = f.world
    key = (id(fn.module), fn.decl.name, tuple(_frozen(v) if fixed else v.type for _, v, fixed in bound))
    if key in world.instances:
        return world.instances[key]
    params = tuple(v.type for _, v, fixed in bound if not fixed)
    made = c.Instance(fn.decl.name, fn.decl.is_task, params, result, fn.module.span(fn.decl.name_at))
    world.instances[key] = made
    frame = Frame(world, fn.module, Scope(), "function", [], made, result)
    for formal, value, fixed in bound:
        if fixed:
            frame.scope.names[formal.name] = Bound(formal.name, value, fn.module.span(formal.at))
        else:
            local = frame.local(formal.name, value.type)
            frame.scope.names[formal.name] = Bound(
                formal.name, Unknown(local.type, c.Local(local.type, local.slot)), fn.module.span(formal.at)
            )
    frame.callers = (*f.callers, span) if f.module.is_library else (span,)
    world.pending.append(lambda: _traced(lambda: build(fn, frame, made), fn, frame.callers))
    return made


def _traced(act: Callable[[], None], fn: FnValue, callers: tuple[Span, ...]) -> None:
    """What goes wrong inside a library is also told where the library is called."""
    try:
        act()
    except DiagnosticError as error:
        if not fn.module.is_library:
            raise
        raise DiagnosticError([_from(d, callers) for d in error.diagnostics]) from None


def _from(d: Diagnostic, callers: tuple[Span, ...]) -> Diagnostic:
    notes = [Note("called from here", span) for span in reversed(callers)]
    return replace(d, notes=(*d.notes, *(n for n in notes if n not in d.notes)))


def build(fn: FnValue, frame: Frame, made: c.Instance) -> None:
    """Fill in the body of an instance."""
    ended = frame.world.hooks.run(fn.decl.body, frame)
    if ended is None and made.result != t.VOID:
        fail("E1009", f"`{made.name}` can end without a value of type {t.show(made.result)}", made.span)
    made.body = tuple(frame.out or ())


def entry_instance(value: Known, f: Frame, span: Span) -> c.Instance:
    """The instance of a function or task that is started from outside: by the host or by the task picker."""
    fn = cast(FnValue, value.data)
    type = function_type(fn)
    bound: list[tuple[s.Formal, Value, bool]] = []
    for formal, param in zip(fn.decl.formals, type.params, strict=True):
        if param is None or t.comptime_only(param) or formal.comptime:
            fail("E1010", f"parameter `{formal.name}` of `{fn.decl.name}` must be of a type that a PE can hold", span)
        bound.append((formal, Unknown(param, c.Local(param, 0)), False))
    return instance_of(fn, bound, type.result, f, span)


def pointed_instance(fn: FnValue, span: Span) -> c.Instance:
    """The instance of a function that a run points at."""
    frame = Frame(fn.module.world, fn.module, Scope(), "comptime")
    return entry_instance(Known(FUNCTION, fn), frame, span)


def _frozen(value: Value) -> Any:
    """A comptime argument as something to compare: equal arguments share an instance."""
    if isinstance(value, Unknown):
        return id(value)
    return _frozen_data(value.type, value.data)


def _frozen_data(type: t.Type, data: Any) -> Any:
    match data:
        case np.ndarray():
            return type, data.tobytes()  # pyright: ignore[reportUnknownMemberType]
        case ArrayData(items, lanes):
            inner = tuple(_frozen(x) for x in items.ravel()) if items.dtype == object else items.tobytes()
            return type, lanes, inner
        case dict():
            return type, tuple((k, _frozen(v)) for k, v in cast("dict[str, Value]", data).items())
        case FnValue(module, decl):
            return id(module), decl.name
        case int() | float() | str() | bool() | None:
            return type, data
        case _:
            return type, id(data) if not isinstance(data, t.Basic | t.Int | t.Float | t.Array | t.Struct) else data
