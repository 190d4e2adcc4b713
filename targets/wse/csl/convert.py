"""Between types: what converts to what without being asked, and values as code.

Must not know syntax.
"""

from __future__ import annotations

from typing import Any, NoReturn, cast

import numpy as np

from ....compiler.source import Note, Span
from . import code as c
from . import types as t
from .numbers import coerced, shown
from .values import ArrayData, Known, Number, Unknown, Value, by_lane, dtype_of, fail, plain, uniform
from .world import FUNCTION, FnValue


def known(value: Value, span: Span, what: str = "this") -> Known:
    """`value`, which must be known when compiling."""
    if isinstance(value, Unknown):
        fail("E1016", f"{what} must be known when compiling, and is known only when the program runs", span)
    return value


def number(value: Value, span: Span, what: str) -> Any:
    """The known integer that `value` is; the same in all lanes."""
    got = known(value, span, what)
    if not t.is_integer(got.type):
        fail("E1010", f"{what} must be an integer, not {t.show(got.type)}", span)
    return uniform(got.data)


def coerce(value: Value, type: t.Type, span: Span, what: str = "this") -> Value:
    """`value` as one of `type` by implicit conversion. Raises E1010 with both types."""
    made = _coerced(value, type, span)
    return made if made is not None else _refuse(value, type, span, what)


def coerces(value: Value, type: t.Type, span: Span) -> bool:
    """Whether `coerce` would do."""
    return _coerced(value, type, span) is not None


def _refuse(value: Value, type: t.Type, span: Span, what: str) -> NoReturn:
    have = t.show(value.type)
    if isinstance(value, Known) and t.is_integer(value.type) and isinstance(type, t.Int):
        fail(
            "E1014",
            f"{what} is {shown(value.data)}, out of range for {t.show(type)}",
            span,
            help=f"{t.show(type)} holds {type.low} to {type.high}",
        )
    help = f"convert it: @as({t.show(type)}, ...)" if t.is_number(value.type) and t.is_number(type) else None
    fail("E1010", f"{what} is {have}, where {t.show(type)} is needed", span, help=help)


def _coerced(value: Value, type: t.Type, span: Span) -> Value | None:
    if value.type == type or type == t.ANYTYPE:
        return value
    if t.is_number(value.type) and t.is_number(type):
        if isinstance(value, Known):
            return coerced(value, type)
        return widened(value, type, span)
    match type:
        case t.Struct():
            return _struct(value, type, span)
        case t.Array():
            return _array(value, type, span)
        case t.Pointer():
            return _pointer(value, type)
        case t.Function():
            return _function(value, type)
        case _:
            return None


def _retyped(code: c.Code, type: t.Type) -> c.Code | None:
    """A choice between comptime numbers as a choice between numbers of `type`."""
    if isinstance(code, c.Constant):
        made = coerced(Known(code.type, code.data), type)
        return None if made is None else c.Constant(type, made.data)
    if not isinstance(code, c.Operation) or code.op != "choose":
        return None
    yes, no = (_retyped(arg, type) for arg in code.args[1:])
    return None if yes is None or no is None else c.Operation(type, "choose", (code.args[0], yes, no), code.span)


def widened(value: Unknown, type: t.Type, span: Span) -> Unknown | None:
    """A number that is computed later, in a type that holds all values of its own."""
    if value.type in (t.COMPTIME_INT, t.COMPTIME_FLOAT):
        made = _retyped(value.code, type)
        return None if made is None else Unknown(type, made)
    if not t.widens(value.type, type):
        return None
    return Unknown(type, c.Operation(type, "convert", (value.code,), span))


def _struct(value: Value, type: t.Struct, span: Span) -> Value | None:
    if not isinstance(value, Known) or value.type != t.ANON:
        return None
    given = cast("dict[str, Value]", value.data)
    names = [name for name, _ in type.fields]
    for name in given:
        if name not in names:
            fail("E1011", f"{t.show(type)} has no field `{name}`", span, help=f"its fields are {', '.join(names)}")
    missing = [name for name in names if name not in given]
    if missing:
        fail("E1011", f"field `{missing[0]}` of {t.show(type)} has no value", span)
    fields = {name: coerce(given[name], field, span, f"field `{name}`") for name, field in type.fields}
    return made_of("struct", type, fields, span)


def made_of(what: str, type: t.Type, fields: dict[str, Value], span: Span) -> Value:
    """A struct or DSD of `fields`: known when all of them are."""
    if all(isinstance(v, Known) for v in fields.values()):
        return Known(type, fields)
    return Unknown(type, c.Make(type, what, {k: to_code(v, span) for k, v in fields.items()}, span))


def _array(value: Value, type: t.Array, span: Span) -> Value | None:
    if not isinstance(value, Known):
        return None
    if value.type == t.ANON and all(name.isdigit() for name in value.data):
        return array_of([value.data[str(i)] for i in range(len(value.data))], type, span)
    if (
        isinstance(value.type, t.Array)
        and value.type.dims == type.dims
        and value.type.element in (t.COMPTIME_INT, t.COMPTIME_FLOAT)
    ):
        data = cast(ArrayData, value.data)
        return array_of([Known(value.type.element, x.item()) for x in data.items.ravel()], type, span)
    return None


def array_of(items: list[Value], type: t.Array, span: Span) -> Value:
    """An array of `items` in row-major order."""
    if len(items) != type.count:
        fail("E1011", f"{len(items)} values for {t.show(type)}, which has {type.count}", span)
    made = [coerce(item, type.element, span, f"element {i}") for i, item in enumerate(items)]
    if not all(isinstance(m, Known) for m in made):
        return Unknown(type, c.Make(type, "array", {str(i): to_code(m, span) for i, m in enumerate(made)}, span))
    return Known(type, pack(cast("list[Known]", made), type))


def pack(items: list[Known], type: t.Array) -> ArrayData:
    """Known elements of `type`, in row-major order, as one array."""
    dtype = dtype_of(type.element)
    if dtype == np.dtype(object):
        kept = np.empty(len(items), object)
        kept[:] = items
        return ArrayData(kept.reshape(type.dims))
    lanes = max((len(i.data) for i in items if by_lane(i.data)), default=0)
    if not lanes:
        return ArrayData(np.array([i.data for i in items], dtype).reshape(type.dims))
    columns = [np.broadcast_to(np.asarray(i.data, dtype), lanes) for i in items]
    return ArrayData(np.stack(columns, axis=1).reshape(lanes, *type.dims), True)


def _pointer(value: Value, type: t.Pointer) -> Value | None:
    source = value.type
    if source == FUNCTION and isinstance(type.to, t.Function):
        return _function(value, type)
    if not isinstance(source, t.Pointer) or (source.const and not type.const):
        return None
    whole = source.to == type.to and source.many == type.many
    decays = type.many and not source.many and isinstance(source.to, t.Array) and source.to.element == type.to
    if not whole and not decays:
        return None
    return Known(type, value.data) if isinstance(value, Known) else Unknown(type, value.code)


def _function(value: Value, type: t.Function | t.Pointer) -> Value | None:
    """A function where a function or a pointer to one is needed."""
    if not isinstance(value, Known) or value.type != FUNCTION:
        return None
    have = function_type(value.data)
    return Known(type, value.data) if have == (type.to if isinstance(type, t.Pointer) else type) else None


def function_type(fn: FnValue) -> t.Function:
    """The type of `fn`, as far as it is written without comptime arguments."""
    from .expressions import written_type  # the one cycle: types are expressions

    return written_type(fn)


def to_code(value: Value, span: Span) -> c.Code:
    """`value` as code. Values of comptime types have no form in a running program."""
    if isinstance(value, Unknown) and value.type not in (t.COMPTIME_INT, t.COMPTIME_FLOAT):
        return value.code
    if isinstance(value, Unknown) or value.type in (t.COMPTIME_INT, t.COMPTIME_FLOAT):
        fail(
            "E1013",
            f"{t.show(value.type)} needs a type that a PE can hold",
            span,
            help="give it one: `: i16`, or @as(i16, ...)",
        )
    if t.comptime_only(value.type):
        fail("E1013", f"a PE cannot hold a value of type {t.show(value.type)}", span)
    held(value, span)
    return c.Constant(value.type, value.data)


def held(value: Known, span: Span) -> None:
    """A run will hold `value`: the functions that it points at are built."""
    if t.holds_functions(value.type):
        _build(value.data, span)


def _build(data: Any, span: Span) -> None:
    from .calls import pointed_instance  # the two modules need each other: calls convert their arguments

    match data:
        case FnValue():
            pointed_instance(data, span)
        case ArrayData(items):
            for item in items.ravel():
                _build(cast(Known, item).data, span)
        case dict():
            for item in cast("dict[str, Known]", data).values():
                _build(item.data, span)
        case _:
            pass


def element(value: Known, offset: Any) -> Known:
    """Element `offset` (row-major; may differ by lane) of a known array."""
    array, data = cast(t.Array, value.type), cast(ArrayData, value.data)
    flat = data.items.reshape(-1, array.count) if data.lanes else data.items.ravel()
    if not plain(array.element):
        return cast(Known, flat[uniform(offset)])
    if data.lanes:
        picked: Any = flat[np.arange(len(flat)), offset] if by_lane(offset) else flat[:, offset]
    else:
        picked = flat[offset]
    return Known(array.element, _number(picked))


def _number(data: Any) -> Number:
    """An element as a Number: integers and floats wide, one lane as Python's own."""
    if not by_lane(data):
        return data.item()
    if data.dtype == np.dtype(bool):
        return data
    return data.astype(np.float64 if data.dtype.kind == "f" else np.int64)


def set_element(value: Known, offset: Any, item: Known) -> Known:
    """`value` with element `offset` replaced, in place where lanes allow."""
    array, data = cast(t.Array, value.type), cast(ArrayData, value.data)
    lanes = len(item.data) if by_lane(item.data) else len(offset) if by_lane(offset) else 0
    if lanes and not data.lanes:
        data = ArrayData(np.broadcast_to(data.items, (lanes, *array.dims)).copy(), True)
    flat = data.items.reshape(-1, array.count) if data.lanes else data.items.reshape(-1)
    stored = item if not plain(array.element) else item.data
    if data.lanes:
        flat[np.arange(len(flat)), offset] = stored
    else:
        flat[uniform(offset)] = stored
    return Known(value.type, data)


def declared_here(span: Span) -> Note:
    return Note("declared here", span)
