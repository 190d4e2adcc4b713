"""Typed code as text, for people and for tests. One line a step; locals are `name.slot`.

Must not know how code came about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from . import code as c
from . import types as t
from .values import Address, ArrayData, Dsd, Dsr, Known, Symbol
from .world import FnValue

_INDENT = "    "
_SHOWN_ITEMS = 8


def show(instance: c.Instance) -> str:
    """The text of a function or task."""
    params = ", ".join(f"{_local(instance, k)}: {t.show(type)}" for k, type in enumerate(instance.params))
    head = f"{'task' if instance.is_task else 'fn'} {instance.name}({params}) {t.show(instance.result)}"
    return "\n".join([head, *_steps(instance.body or (), instance, 1)])


def _local(instance: c.Instance, slot: int) -> str:
    return f"{instance.locals[slot][0]}.{slot}"


def _steps(steps: tuple[c.Step, ...], f: c.Instance, depth: int) -> Iterator[str]:
    pad = _INDENT * depth
    for step in steps:
        match step:
            case c.SetLocal(slot, value):
                yield f"{pad}{_local(f, slot)} = {_code(value, f)}"
            case c.Store(place, value):
                yield f"{pad}{_place(place, f)} = {_code(value, f)}"
            case c.Do(value):
                yield pad + _code(value, f)
            case c.Leave(value):
                yield f"{pad}return" + ("" if value is None else f" {_code(value, f)}")
            case c.Stop():
                yield f"{pad}break"
            case c.Next():
                yield f"{pad}continue"
            case c.Branch(test, yes, no):
                yield f"{pad}if {_code(test, f)}"
                yield from _steps(yes, f, depth + 1)
                if no:
                    yield f"{pad}else"
                    yield from _steps(no, f, depth + 1)
            case c.Loop(test, body, after):
                yield f"{pad}while {_code(test, f)}"
                yield from _steps(body, f, depth + 1)
                if after:
                    yield f"{pad}step"
                    yield from _steps(after, f, depth + 1)


def _code(e: c.Code, f: c.Instance) -> str:
    match e:
        case c.Constant(type, data):
            return _data(type, data)
        case c.Local(_, slot):
            return _local(f, slot)
        case c.Load(_, place):
            return _place(place, f)
        case c.AddressOf(_, place):
            return f"&{_place(place, f)}"
        case c.Operation(type, op, args):
            return _operation(type, op, [_code(a, f) for a in args])
        case c.Make(type, what, fields):
            return f"{what} {t.show(type)}{{{', '.join(f'{k} = {_field(v, f)}' for k, v in fields.items())}}}"
        case c.Member(_, base, name):
            return f"{_code(base, f)}.{name}"
        case c.Vector(_, op, operands, settings):
            said = [_code(o, f) for o in operands] + [f"{k} = {_field(v, f)}" for k, v in settings.items()]
            return f"@{op}({', '.join(said)})"
        case c.Call(_, target, args):
            name = target.name if isinstance(target, c.Instance) else f"({_code(target, f)})"
            return f"{name}({', '.join(_code(a, f) for a in args)})"


def _operation(type: t.Type, op: str, args: list[str]) -> str:
    if op in ("convert", "bitcast"):
        return f"{op}({t.show(type)}, {args[0]})"
    if (len(args) == 2 and not op.isidentifier()) or op in ("and", "or"):
        return f"({args[0]} {op} {args[1]})"
    return f"{op}({', '.join(args)})"


def _field(value: Any, f: c.Instance) -> str:
    match value:
        case c.Instance(name):
            return name
        case tuple():
            return f"({', '.join(_field(v, f) for v in cast('tuple[Any, ...]', value))})"
        case bool() | int() | str():
            return str(value).lower() if isinstance(value, bool) else str(value)
        case Known(type, data):
            return _data(type, data)
        case t.Basic() | t.Int() | t.Float() | t.Array() | t.Pointer() | t.Function() | t.Struct() | t.Enum():
            return t.show(value)
        case _:
            return _code(cast(c.Code, value), f)


def _place(place: c.Place, f: c.Instance) -> str:
    base = place.base
    name = (
        base.name
        if isinstance(base, Symbol)
        else _code(base, f)
        if isinstance(base, c.Local) and (not isinstance(base.type, t.Pointer) or base.type == place.type)
        else f"({_code(base, f)}).*"
    )
    parts = [f"{_code(index, f)} * {stride}" for index, stride, _ in place.terms]
    offset = _number(place.offset)
    if offset != "0":
        parts.insert(0, offset)
    return f"{name}[{' + '.join(parts)}]" if parts else name


def _number(data: Any) -> str:
    if not isinstance(data, np.ndarray):
        return str(data).lower() if isinstance(data, bool) else str(data)
    items = cast("np.ndarray[Any, Any]", data)
    more = ", ..." if len(items) > _SHOWN_ITEMS else ""
    return f"<{', '.join(str(x.item()) for x in items[:_SHOWN_ITEMS])}{more}>"


def _data(type: t.Type, data: Any) -> str:
    match data:
        case Address(base, offset):
            at = _number(offset)
            return f"&{base.name}" + (f"[{at}]" if at != "0" else "")
        case Dsd(kind, fields):
            said = ", ".join(f"{k} = {_constant(v)}" for k, v in fields.items())
            return f"{t.show(kind)}{{{said}}}"
        case Dsr(kind, id):
            return f"{t.show(kind)} {id}"
        case ArrayData(items):
            shown = [str(x) for x in items.ravel()[:_SHOWN_ITEMS]]
            more = ", ..." if items.size > _SHOWN_ITEMS else ""
            return f"{t.show(type)}{{{', '.join(shown)}{more}}}"
        case FnValue(_, decl):
            return decl.name
        case dict():
            fields = cast("dict[str, Any]", data)
            return f"{t.show(type)}{{{', '.join(f'{k} = {_constant(v)}' for k, v in fields.items())}}}"
        case str():
            return repr(data)
        case _:
            typed = isinstance(type, t.Int | t.Float) or type == t.BOOL
            return _number(data) if typed else f"{t.show(type)} {_number(data)}"


def _constant(value: Any) -> str:
    """A part of a constant: a known value, a tuple of them, a type or a number."""
    match value:
        case Known(type, data):
            return _data(type, data)
        case tuple():
            return f"({', '.join(_constant(v) for v in cast('tuple[Any, ...]', value))})"
        case t.Basic() | t.Int() | t.Float() | t.Array() | t.Pointer() | t.Function() | t.Struct() | t.Enum():
            return t.show(value)
        case _:
            return _number(value)
