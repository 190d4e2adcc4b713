"""What statements do: executed while compiling, or turned into steps of the function being built.

`run` gives None where control goes on after the statement, else "return", "break" or "continue". Control flow over
known conditions is decided here in both cases, and what is not taken is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from ....compiler.source import Note, Span
from . import code as c
from . import syntax as s
from . import types as t
from .convert import coerce, element, held, known, to_code
from .expressions import evaluate, operate, truth, type_of
from .numbers import compare
from .places import Ref, assign, indexed, load, placed
from .values import NOTHING, Cell, Known, Range, Symbol, Unknown, Value, fail, uniform
from .world import Bound, Effect, Entry, FnValue, Frame, Module, Scope

FUNCTION = t.Basic("function")


def run(stmt: s.Stmt, f: Frame) -> str | None:
    """Execute or build `stmt`."""
    f.world.tick(f, stmt.at)
    match stmt:
        case s.Block(_, body):
            return _block(body, f)
        case s.ComptimeBlock(_, block):
            return _comptime(block, f)
        case s.Variable():
            _variable(stmt, f)
            return None
        case s.Assign(at, target, op, value):
            assign(target, op, evaluate(value, f), f, f.span(at), f.span(value.at))
            return None
        case s.Bare(at, value):
            _bare(evaluate(value, f), f, f.span(at))
            return None
        case s.Return():
            return _return(stmt, f)
        case s.If():
            return _if(stmt, f)
        case s.While() | s.For():
            if f.world.mode == "layout" and f.out is None and f.world.hooks.loop(stmt, f):
                return None
            return _while(stmt, f) if isinstance(stmt, s.While) else _for(stmt, f)
        case s.Switch():
            return _switch(stmt, f)
        case s.Break() | s.Continue():
            return _jump(stmt, f)


def _block(body: tuple[s.Stmt, ...], f: Frame) -> str | None:
    outside = f.scope
    f.scope = Scope(outside)
    try:
        for stmt in body:
            signal = run(stmt, f)
            if signal is not None:
                return signal
        return None
    finally:
        f.scope = outside


def _comptime(block: s.Block, f: Frame) -> str | None:
    running, f.out = f.out, None
    try:
        return run(block, f)
    finally:
        f.out = running


def _bare(value: Value, f: Frame, span: Span) -> None:
    if isinstance(value, Unknown):
        f.emit(c.Do(value.code), span)


def _return(stmt: s.Return, f: Frame) -> str:
    span = f.span(stmt.at if stmt.value is None else stmt.value.at)
    value: Value = NOTHING if stmt.value is None else evaluate(stmt.value, f)
    value = coerce(value, f.result, span, "what is returned")
    if f.out is None:
        f.returned = value
    else:
        f.emit(c.Leave(None if f.result == t.VOID else to_code(value, span)), span)
    return "return"


def _jump(stmt: s.Break | s.Continue, f: Frame) -> str:
    span = f.span(stmt.at)
    word = "break" if isinstance(stmt, s.Break) else "continue"
    if not f.loops:
        fail("E1009", f"`{word}` stands in no loop", span)
    opened = f.loops[-1]
    if f.out is not None and opened is None:
        f.emit(c.Stop() if word == "break" else c.Next(), span)
    elif f.out is not None and opened != f.branches:
        fail("E1016", f"`{word}` of an unrolled loop depends on what only a run knows", span)
    return word


# ---- variables -----------------------------------------------------------------------------------


def declare(module: Module, decl: s.Param | s.Variable | s.Function) -> Entry:
    """The entry of a declaration at the top of a module."""
    span = module.span(decl.name_at)
    if isinstance(decl, s.Function):
        return Bound(decl.name, Known(FUNCTION, FnValue(module, decl)), span)
    f = Frame(module.world, module, module.scope, "comptime")
    if isinstance(decl, s.Param):
        return Bound(decl.name, _param(decl, f), span)
    value = _initial(decl, f)
    if not decl.mutable:
        return Bound(decl.name, value, span)
    if module.world.mode == "layout" or t.comptime_only(value.type):
        return Cell(decl.name, known(value, span), span, True)
    return _symbol(decl, value, f, span)


def _symbol(decl: s.Variable, value: Value, f: Frame, span: Span) -> Symbol:
    initial = known(value, f.span(decl.value.at) if decl.value else span, f"the initial value of `{decl.name}`")
    align = 0
    if decl.align is not None:
        align = cast(int, uniform(known(evaluate(decl.align, f), f.span(decl.align.at)).data))
    type = initial.type
    if type == FUNCTION:
        fail("E1013", f"`{decl.name}` needs the type of the functions it can hold", span)
    if type in (t.COMPTIME_INT, t.COMPTIME_FLOAT):
        fail(
            "E1013",
            f"`{decl.name}` needs a type that a PE can hold, not {t.show(type)}",
            span,
            help="declare one: `: i16`, or @as(i16, ...)",
        )
    if initial.data is not None:
        held(initial, span)
    made = Symbol(decl.name, type, True, initial if initial.data is not None else None, span, align)
    f.world.symbols.append(made)
    if decl.exported:
        f.world.effects.append(Effect("export_var", (decl.name, made), span))
    return made


def _param(decl: s.Param, f: Frame) -> Value:
    module, span = f.module, f.span(decl.name_at)
    if decl.name in module.given:
        value = module.given[decl.name]
    elif decl.default is not None:
        value = evaluate(decl.default, f)
    else:
        fail("E1007", f"param `{decl.name}` of `{module.text.file.path}` is not given", span)
    if decl.type is None:
        return value
    return coerce(value, type_of(decl.type, f), span, f"param `{decl.name}`")


def _initial(decl: s.Variable, f: Frame) -> Value:
    """The value a variable starts with, of its declared type; a type of undefined content where none is given."""
    type = type_of(decl.type, f) if decl.type is not None else None
    if decl.value is None:
        if type is None:
            fail("E1013", f"`{decl.name}` needs a type or a value", f.span(decl.name_at))
        return Known(type, None)
    value = evaluate(decl.value, f)
    if value.type == t.UNDEFINED:
        if not decl.mutable or type is None:
            fail(
                "E1015",
                f"`{decl.name}` gets no value",
                f.span(decl.name_at),
                help="`undefined` is for variables with a type",
            )
        return Known(type, None)
    if isinstance(decl.value, s.StructType | s.EnumType) and isinstance(value, Known):
        return Known(t.TYPE, replace(value.data, name=value.data.name.rpartition("#")[0] + "#" + decl.name))
    return value if type is None else coerce(value, type, f.span(decl.value.at), f"`{decl.name}`")


def _variable(decl: s.Variable, f: Frame) -> None:
    span = f.span(decl.name_at)
    _check_new(decl, f, span)
    value = _initial(decl, f)
    if not decl.mutable:
        f.scope.names[decl.name] = Bound(decl.name, hold(decl.name, value, f, span), span)
    elif f.out is None:
        data = (
            value.data.copy()
            if isinstance(value, Known) and hasattr(value.data, "copy") and not isinstance(value.data, dict)
            else None
        )
        start = known(value, span, f"the value of `{decl.name}`")
        f.scope.names[decl.name] = Cell(decl.name, start if data is None else Known(start.type, data), span)
    else:
        if value.type in (t.COMPTIME_INT, t.COMPTIME_FLOAT):
            fail(
                "E1013",
                f"`{decl.name}` needs a type that a PE can hold, not {t.show(value.type)}",
                span,
                help="declare one: `: i16`, or @as(i16, ...)",
            )
        local = f.local(decl.name, value.type)
        f.scope.names[decl.name] = local
        if isinstance(value, Unknown) or value.data is not None:
            f.emit(c.SetLocal(local.slot, to_code(value, span)), span)


def _check_new(decl: s.Variable, f: Frame, span: Span) -> None:
    """A name may hide one of the module, but not one of the same block."""
    if decl.name in f.scope.names:
        entry = f.scope.names[decl.name]
        notes = (Note("declared here first", entry.span),) if isinstance(entry, Bound | Cell) else ()
        fail("E1004", f"`{decl.name}` is already defined", span, *notes)


def hold(name: str, value: Value, f: Frame, span: Span) -> Value:
    """`value` as it is now: what a run computes goes into a local."""
    if isinstance(value, Known):
        if value.type != t.ANON or all(isinstance(v, Known) for v in value.data.values()):
            return value
        return Known(t.ANON, {k: hold(f"{name}.{k}", v, f, span) for k, v in value.data.items()})
    if f.out is None:
        return value
    local = f.local(name, value.type)
    f.emit(c.SetLocal(local.slot, value.code), span)
    return Unknown(local.type, c.Local(local.type, local.slot))


# ---- branches ------------------------------------------------------------------------------------


def _branch(stmt: s.Stmt | None, f: Frame) -> tuple[tuple[c.Step, ...], str | None]:
    """The steps of `stmt`, and how it ends."""
    outside, f.out = f.out, []
    f.branches += 1
    try:
        signal = run(stmt, f) if stmt is not None else None
        return tuple(f.out), signal
    finally:
        f.out = outside
        f.branches -= 1


def _needs_run(f: Frame, span: Span) -> None:
    if f.out is None:
        fail("E1016", "this condition is known only when the program runs", span)


def _if(stmt: s.If, f: Frame) -> str | None:
    span = f.span(stmt.test.at)
    test = evaluate(stmt.test, f)
    holds = truth(test, span)
    if holds is not None:
        taken = stmt.yes if holds else stmt.no
        return run(taken, f) if taken is not None else None
    _needs_run(f, span)
    yes, first = _branch(stmt.yes, f)
    no, second = _branch(stmt.no, f)
    f.emit(c.Branch(to_code(test, span), yes, no, span), span)
    return first if first is not None and second is not None else None


def _switch(stmt: s.Switch, f: Frame) -> str | None:
    span = f.span(stmt.value.at)
    value = hold("switch", evaluate(stmt.value, f), f, span)
    prongs = stmt.prongs
    if isinstance(value.type, t.Enum) and _covered(prongs, value.type, f):
        # Of an enum that has every member listed the last prong needs no test, and nothing comes after it.
        prongs = (*prongs[:-1], replace(prongs[-1], cases=None))
    return _prongs(value, prongs, f, span)


def _covered(prongs: tuple[s.Prong, ...], type: t.Enum, f: Frame) -> bool:
    """Whether the cases of `prongs`, none of them `else`, are all members of `type`."""
    if any(prong.cases is None for prong in prongs):
        return False
    cases = [coerce(evaluate(x, f), type, f.span(x.at), "this case") for prong in prongs for x in prong.cases or ()]
    numbers = {case.data for case in cases if isinstance(case, Known) and isinstance(case.data, int)}
    return numbers >= {number for _, number in type.members}


def _prongs(value: Value, prongs: tuple[s.Prong, ...], f: Frame, span: Span) -> str | None:
    """The first prong that matches; for a value of a run, a chain of branches."""
    if not prongs:
        return None
    prong, rest = prongs[0], prongs[1:]
    if prong.cases is None:
        return run(prong.body, f)
    tests = [
        operate("==", value, coerce(evaluate(x, f), value.type, f.span(x.at), "this case"), span, span, f.span(x.at))
        for x in prong.cases
    ]
    if all(isinstance(test, Known) for test in tests):
        matches = any(truth(test, span) for test in tests)
        return run(prong.body, f) if matches else _prongs(value, rest, f, span)
    _needs_run(f, span)
    test = to_code(tests[0], span)
    for other in tests[1:]:
        test = c.Operation(t.BOOL, "or", (test, to_code(other, span)), span)
    yes, first = _branch(prong.body, f)
    outside, f.out = f.out, []
    f.branches += 1
    second = _prongs(value, rest, f, span)
    no, f.out = tuple(f.out or ()), outside
    f.branches -= 1
    f.emit(c.Branch(test, yes, no, span), span)
    return first if first is not None and second is not None and rest else None


# ---- loops ---------------------------------------------------------------------------------------


def _while(stmt: s.While, f: Frame) -> str | None:
    if f.out is not None and not stmt.inline:
        return _built_while(stmt, f)
    f.loops.append(f.branches)
    try:
        while True:
            f.world.tick(f, stmt.at)
            holds = truth(evaluate(stmt.test, f), f.span(stmt.test.at))
            if holds is None:
                fail("E1016", "this condition is known only when the program runs", f.span(stmt.test.at))
            signal = run(stmt.body, f) if holds else "break"
            if signal == "break":
                return None
            if signal == "return":
                return signal
            if stmt.step is not None:
                run(stmt.step, f)
    finally:
        f.loops.pop()


def _built_while(stmt: s.While, f: Frame) -> str | None:
    span = f.span(stmt.test.at)
    outside, f.out = f.out, []
    test = evaluate(stmt.test, f)
    before, f.out = tuple(f.out or ()), outside
    if truth(test, span) is False:
        return None
    f.loops.append(None)
    body, _ = _branch(stmt.body, f)
    step, _ = _branch(stmt.step, f)
    f.loops.pop()
    code = to_code(test, span)
    if before:
        # What the condition computes first belongs into the loop.
        body = (*before, c.Branch(code, (), (c.Stop(),), span), *body)
        code = c.Constant(t.BOOL, True)
    f.emit(c.Loop(code, body, step, span), span)
    return None


def _for(stmt: s.For, f: Frame) -> str | None:
    items = evaluate(stmt.items, f)
    if f.out is not None and not stmt.inline:
        return _built_for(stmt, items, f)
    f.loops.append(f.branches)
    try:
        for index, item in enumerate(known_items(items, f.span(stmt.items.at))):
            f.world.tick(f, stmt.at)
            signal = _with(stmt, item, Known(t.U16, index), f)
            if signal == "break":
                return None
            if signal == "return":
                return signal
        return None
    finally:
        f.loops.pop()


def _with(stmt: s.For, item: Value, index: Value, f: Frame) -> str | None:
    """One round of a `for`."""
    outside = f.scope
    f.scope = Scope(outside)
    bind_items(stmt, item, index, f)
    try:
        return run(stmt.body, f)
    finally:
        f.scope = outside


def bind_items(stmt: s.For, item: Value, index: Value, f: Frame) -> None:
    """Give the names of a `for` their values in the scope of `f`."""
    span = f.span(stmt.at)
    if stmt.item != "_":
        f.scope.names[stmt.item] = Bound(stmt.item, item, span)
    if stmt.index is not None and stmt.index != "_":
        f.scope.names[stmt.index] = Bound(stmt.index, index, span)


def range_numbers(items: Range, span: Span) -> range:
    """The numbers of a range that is known and the same in all lanes."""
    start, stop, step = (
        uniform(known(v, span, "the bounds of this loop").data) for v in (items.start, items.stop, items.step)
    )
    return range(start, stop, step)


def known_items(items: Value, span: Span) -> Iterator[Known]:
    """The elements of a known range, array or tuple."""
    got = known(items, span, "what is looped over")
    if isinstance(got.data, Range):
        for i in range_numbers(got.data, span):
            yield Known(got.data.element, i)
    elif isinstance(got.type, t.Array):
        for i in range(got.type.count):
            yield element(got, i)
    elif got.type == t.ANON:
        yield from (known(v, span) for v in got.data.values())
    else:
        fail("E1010", f"{t.show(got.type)} cannot be looped over", span)


def _built_for(stmt: s.For, items: Value, f: Frame) -> str | None:
    span = f.span(stmt.items.at)
    if isinstance(items, Known) and isinstance(items.data, Range):
        r = items.data
        downward = cast(int, uniform(known(r.step, span, "the step of a range").data)) < 0
        _count(stmt, r.element, (r.start, r.stop, r.step), downward, None, f, span)
        return None
    if not isinstance(items.type, t.Array):
        fail("E1010", f"{t.show(items.type)} cannot be looped over", span)
    limits = tuple(Known(t.U16, n) for n in (0, items.type.count, 1))
    _count(stmt, t.U16, cast("tuple[Value, Value, Value]", limits), False, placed(items, f, span), f, span)
    return None


def _count(
    stmt: s.For,
    type: t.Type,
    limits: tuple[Value, Value, Value],
    downward: bool,
    over: Ref | None,
    f: Frame,
    span: Span,
) -> None:
    """A loop that counts in a local; `over` is the array whose elements are the items."""
    outside = f.scope
    f.scope = Scope(outside)
    start, stop, step = limits
    counter = f.local(stmt.item if over is None else "index", type)
    here = c.Local(counter.type, counter.slot)
    f.emit(c.SetLocal(counter.slot, to_code(start, span)), span)
    stop = hold("stop", stop, f, span)
    position = Unknown(type, here)
    rounds: Value = position
    index_step: tuple[c.Step, ...] = ()
    if over is None and stmt.index is not None:
        place = f.local(stmt.index, t.U16)
        f.emit(c.SetLocal(place.slot, c.Constant(t.U16, 0)), span)
        rounds = Unknown(t.U16, c.Local(t.U16, place.slot))
        index_step = (c.SetLocal(place.slot, c.Operation(t.U16, "+", (rounds.code, c.Constant(t.U16, 1)), span)),)
    f.loops.append(None)
    outer, f.out = f.out, []
    f.branches += 1
    item = position if over is None else load(indexed(over, [position], [span], f, span), f, span)
    bind_items(stmt, item, rounds, f)
    run(stmt.body, f)
    body, f.out = tuple(f.out), outer
    f.branches -= 1
    f.loops.pop()
    test = c.Operation(t.BOOL, ">" if downward else "<", (here, to_code(stop, span)), span)
    advance = c.SetLocal(counter.slot, c.Operation(type, "+", (here, to_code(step, span)), span))
    if not (
        isinstance(start, Known)
        and isinstance(stop, Known)
        and not uniform(compare(">" if downward else "<", start, stop).data)
    ):
        f.emit(c.Loop(test, body, (advance, *index_step), span), span)
    f.scope = outside
