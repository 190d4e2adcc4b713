"""What can be assigned to or pointed at: variables, elements, fields, and what pointers point at.

`reference` follows an expression to a place in memory (`Spot`), to a part of a compile time variable (`CellSpot`), or
to a plain value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np

from ....compiler.source import Note, Span
from . import code as c
from . import syntax as s
from . import types as t
from .convert import coerce, element, held, known, number, set_element, to_code
from .numbers import arithmetic, bounds
from .values import Address, Affine, ArrayData, Cell, Dependent, Known, Symbol, Unknown, Value, by_lane, fail, uniform
from .world import Bound, Frame, LocalVar


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A place in a PE's memory, as code.Place, and whether it may be written."""

    type: t.Type
    base: Any
    offset: Any
    terms: tuple[tuple[c.Code, int, int | None], ...]
    mutable: bool
    span: Span

    @property
    def place(self) -> c.Place:
        return c.Place(self.type, self.base, self.offset, self.terms, self.span)


@dataclass(frozen=True, slots=True, eq=False)
class CellSpot:
    """The part of a compile time variable that `path` leads to: element offsets and field names."""

    cell: Cell
    path: tuple[Any, ...]
    type: t.Type


Ref: TypeAlias = Spot | CellSpot | Known | Unknown


def reference(e: s.Expr, f: Frame, materialise: bool = False) -> Ref:
    """Where `e` lies; `materialise` gives constants a place."""
    match e:
        case s.Name():
            return _named(e, f, materialise)
        case s.Deref(at, base):
            return deref(load(reference(base, f), f, f.span(at)), f.span(at))
        case s.Index(at, base, indices):
            values = [_evaluate(i, f) for i in indices]
            spans = [f.span(i.at) for i in indices]
            later = any(isinstance(v, Unknown) or isinstance(v.data, Affine) for v in values)
            inner = reference(base, f, materialise or later)
            return indexed(_through(inner, f, f.span(base.at)), values, spans, f, f.span(at))
        case s.Member():
            return _member(e, f, materialise)
        case s.Builtin(_, "field", _, (base, name)):
            text = known(_evaluate(name, f), f.span(name.at), "the name of a field")
            return _field(reference(base, f), str(text.data), f, f.span(e.at), f.span(name.at))
        case _:
            value = _evaluate(e, f)
            return placed(value, f, f.span(e.at)) if materialise else value


def _evaluate(e: s.Expr, f: Frame) -> Value:
    from .expressions import (
        evaluate,
    )  # the two modules need each other: indices are expressions, expressions have places

    return evaluate(e, f)


def _named(e: s.Name, f: Frame, materialise: bool) -> Ref:
    span = f.span(e.at)
    match f.find(e.id):
        case Symbol() as symbol:
            return Spot(symbol.type, symbol, 0, (), symbol.mutable, span)
        case Cell() as cell:
            return CellSpot(cell, (), cell.value.type)
        case LocalVar(type, slot):
            return Spot(type, c.Local(type, slot), 0, (), True, span)
        case Bound(value=Unknown(type, c.Local() as local)) if isinstance(type, t.Array | t.Struct) or materialise:
            return Spot(type, local, 0, (), False, span)
        case Bound(value=Known()) as bound if materialise:
            return materialised(bound, f) or bound.value
        case _:
            return _evaluate(e, f)


def materialised(bound: Bound, f: Frame) -> Spot | None:
    """The constant `bound` as memory; None when a PE cannot hold it or it is no aggregate or number."""
    value = bound.value
    if not isinstance(value, Known) or t.comptime_only(value.type) or value.type == t.Basic("function"):
        return None
    if isinstance(value.type, t.Pointer | t.Function) or (isinstance(value.type, t.Basic) and value.type != t.BOOL):
        return None
    if bound.symbol is None:
        held(value, bound.span)
        bound.symbol = Symbol(bound.name, value.type, False, value, bound.span)
        f.world.symbols.append(bound.symbol)
    return Spot(value.type, bound.symbol, 0, (), False, bound.span)


def placed(value: Value, f: Frame, span: Span) -> Ref:
    """Where an array lies; one that is not yet in memory is put there."""
    if not isinstance(value.type, t.Array):
        return value
    if isinstance(value, Unknown) and isinstance(value.code, c.Load):
        place = value.code.place
        return Spot(value.type, place.base, place.offset, place.terms, False, span)
    if isinstance(value, Known):
        return materialised(Bound("constant", value, span), f) or value
    local = f.local("array", value.type)
    f.emit(c.SetLocal(local.slot, value.code), span)
    return Spot(value.type, c.Local(local.type, local.slot), 0, (), False, span)


def deref(value: Value, span: Span) -> Ref:
    """What a pointer points at."""
    if not isinstance(value.type, t.Pointer):
        fail("E1010", f"`.*` needs a pointer, not {t.show(value.type)}", span)
    if value.type.many:
        fail("E1010", f"`.*` of {t.show(value.type)}, which points at many", span, help="write `p[0]`")
    return _pointee(value, value.type, value.type.to, span)


def _pointee(value: Value, pointer: t.Pointer, type: t.Type, span: Span) -> Ref:
    if isinstance(value, Unknown):
        return Spot(type, value.code, 0, (), not pointer.const, span)
    if value.data is None:
        fail("E1015", "this pointer has no value", span)
    address = cast(Address, value.data)
    if isinstance(address.base, Cell):
        return CellSpot(address.base, (), address.base.value.type)
    return Spot(type, address.base, address.offset, (), not pointer.const, span)


def _through(ref: Ref, f: Frame, span: Span) -> Ref:
    """`ref`, or what it points at when it is a pointer to an array or to many."""
    if not isinstance(ref.type, t.Pointer):
        return ref
    pointer = ref.type
    value = load(ref, f, span)
    if pointer.many:
        # As an array of unknown length: no index is out of its bounds.
        return _pointee(value, pointer, t.Array((-1,), pointer.to), span)
    return _pointee(value, pointer, pointer.to, span)


def indexed(ref: Ref, values: list[Value], spans: list[Span], f: Frame, span: Span) -> Ref:
    """Element `values` of the array at `ref`."""
    for value, at in zip(values, spans, strict=True):
        if not t.is_integer(value.type):
            fail("E1010", f"an index must be an integer, not {t.show(value.type)}", at)
    if isinstance(ref, Known) and ref.type == t.ANON:
        return _tuple_item(ref, values, spans, span)
    if not isinstance(ref.type, t.Array):
        fail("E1010", f"{t.show(ref.type)} has no elements", span)
    array = ref.type
    if isinstance(ref, Unknown):
        ref = placed(ref, f, span)
    if len(values) != len(array.dims):
        fail("E1019", f"{len(values)} indices into {t.show(array)}, which has {len(array.dims)} dimensions", span)
    strides = [prod(array.dims[k + 1 :]) for k in range(len(array.dims))]
    offset: Any = 0
    terms: list[tuple[c.Code, int, int | None]] = []
    size = 0 if isinstance(ref, CellSpot | Known) else t.size_bytes(array.element)
    for value, at, dim, stride in zip(values, spans, array.dims, strides, strict=True):
        if isinstance(value, Known):
            _check_bounds(value, dim, array, at)
            offset = plus(offset, times(value.data, stride))
        else:
            terms.append((value.code, stride * size, dim if dim >= 0 else None))
    if isinstance(ref, Spot):
        return replace(
            ref,
            type=array.element,
            offset=plus(ref.offset, times(offset, size)),
            terms=ref.terms + tuple(terms),
            span=span,
        )
    if terms:
        fail("E1016", "this index must be known when compiling", span)
    if isinstance(ref, CellSpot):
        return CellSpot(ref.cell, (*ref.path, offset), array.element)
    if isinstance(ref, Unknown):
        raise AssertionError("an array without a place")
    return element(ref, offset)


def _tuple_item(ref: Known, values: list[Value], spans: list[Span], span: Span) -> Value:
    index = number(values[0], spans[0], "the index of a tuple")
    items = cast("dict[str, Value]", ref.data)
    if len(values) != 1 or str(index) not in items:
        fail("E1019", f"index {index} of a tuple of {len(items)}", span)
    return items[str(index)]


def _check_bounds(value: Known, dim: int, array: t.Array, span: Span) -> None:
    if isinstance(value.data, Affine) or dim < 0:
        return
    low, high = bounds(value.data)
    if low < 0 or high >= dim:
        fail(
            "E1019",
            f"index {low if low < 0 else high} is outside {t.show(array)}",
            span,
            help=f"the last index of this dimension is {dim - 1}",
        )


def plus(a: Any, b: Any) -> Any:
    """Sum of two offsets, either of which may be linear in index variables."""
    return arithmetic("+", Known(t.COMPTIME_INT, a), Known(t.COMPTIME_INT, b), t.COMPTIME_INT, _NOWHERE).data


def times(a: Any, factor: int) -> Any:
    return arithmetic("*", Known(t.COMPTIME_INT, a), Known(t.COMPTIME_INT, factor), t.COMPTIME_INT, _NOWHERE).data


# Sums and multiples of offsets are always linear, so nothing is ever told here.
_NOWHERE: Any = None


def _member(e: s.Member, f: Frame, materialise: bool) -> Ref:
    inner = reference(e.base, f)
    if isinstance(inner.type, t.Pointer):
        inner = deref(load(inner, f, f.span(e.base.at)), f.span(e.base.at))
    got = _field(inner, e.name, f, f.span(e.at), f.span(e.name_at))
    if materialise and isinstance(got, Known) and isinstance(got.type, t.Array):
        return materialised(_owner(inner, e, f) or Bound(e.name, got, f.span(e.at)), f) or got
    return got


def _owner(base: Ref, e: s.Member, f: Frame) -> Bound | None:
    """The constant of another module that `e` names, so that its storage is shared."""
    if isinstance(base, Known) and base.type == t.MODULE:
        entry = base.data.find(e.name)
        return entry if isinstance(entry, Bound) else None
    return None


def _field(ref: Ref, name: str, f: Frame, span: Span, name_span: Span) -> Ref:
    if isinstance(ref, Spot) and isinstance(ref.type, t.Struct):
        fields = dict(ref.type.fields)
        if name not in fields:
            fail(
                "E1011",
                f"{t.show(ref.type)} has no field `{name}`",
                name_span,
                help=f"its fields are {', '.join(fields)}",
            )
        return replace(ref, type=fields[name], offset=plus(ref.offset, t.struct_offsets(ref.type)[name]), span=span)
    if isinstance(ref, CellSpot) and (ref.type == t.ANON or isinstance(ref.type, t.Struct)):
        inner = load(ref, f, span)
        from .expressions import member_of

        return CellSpot(ref.cell, (*ref.path, name), member_of(inner, name, name_span, span).type)
    from .expressions import member_of

    value = load(ref, f, span)
    if isinstance(value, Known) and value.type == t.MODULE and isinstance(symbol := value.data.find(name), Symbol):
        return Spot(symbol.type, symbol, 0, (), symbol.mutable, span)
    return member_of(value, name, name_span, span)


# ---- reading and writing -------------------------------------------------------------------------


def load(ref: Ref, f: Frame, span: Span) -> Value:
    """The value at `ref`."""
    if isinstance(ref, Known | Unknown):
        return ref
    if isinstance(ref, CellSpot):
        return _cell_value(ref, span)
    folded = _constant_element(ref)
    if folded is not None:
        return folded
    if isinstance(ref.base, c.Local) and not ref.terms and ref.type == ref.base.type:
        return Unknown(ref.type, ref.base)
    return Unknown(ref.type, c.Load(ref.type, ref.place))


def _constant_element(ref: Spot) -> Known | None:
    """The element of a constant array that `ref` is, where everything is known."""
    base = ref.base
    if (
        not isinstance(base, Symbol)
        or base.mutable
        or base.initial is None
        or ref.terms
        or isinstance(ref.offset, Affine)
    ):
        return None
    if isinstance(base.type, t.Array) and ref.type == base.type.element:
        index = ref.offset // t.size_bytes(ref.type)
        low, high = bounds(index)
        return element(base.initial, index) if low >= 0 and high < base.type.count else None
    return base.initial if ref.type == base.type and not by_lane(ref.offset) and ref.offset == 0 else None


def _cell_value(ref: CellSpot, span: Span) -> Value:
    value = ref.cell.value
    for step in ref.path:
        if isinstance(step, str) or value.type == t.ANON:
            value = cast("dict[str, Known]", _set(value, ref, span).data)[str(uniform(step))]
        else:
            value = element(_set(value, ref, span), step)
    made = _set(value, ref, span)
    # Aggregates are values: what is read must not change when the variable does.
    return Known(made.type, made.data.copy()) if isinstance(made.data, ArrayData) else made


def _set(value: Known, ref: CellSpot, span: Span) -> Known:
    if value.data is None and value.type != t.VOID:
        fail("E1015", f"`{ref.cell.name}` is read before it has a value", span, Note("declared here", ref.cell.span))
    return value


def store(ref: Ref, value: Value, f: Frame, span: Span) -> None:
    """Write `value`, already of the type of `ref`."""
    if isinstance(ref, CellSpot):
        if ref.cell.shared and f.world.lane_loops:
            raise Dependent
        ref.cell.value = _put(ref.cell.value, ref.path, known(value, span, "what is assigned"))
    elif isinstance(ref, Spot):
        if not ref.mutable:
            notes = (Note("declared here", ref.base.span),) if isinstance(ref.base, Symbol) else ()
            fail("E1020", "this is a constant and cannot be assigned to", span, *notes)
        code = to_code(value, span)
        whole = isinstance(ref.base, c.Local) and not ref.terms and ref.type == ref.base.type
        f.emit(c.SetLocal(ref.base.slot, code) if whole else c.Store(ref.place, code), span)
    else:
        fail("E1020", "this is a value, not a variable: it cannot be assigned to", span)


def _put(value: Known, path: tuple[Any, ...], item: Known) -> Known:
    if not path:
        return Known(value.type, item.data.copy()) if isinstance(item.data, ArrayData) else Known(value.type, item.data)
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        fields = dict(cast("dict[str, Known]", value.data))
        fields[step] = _put(fields[step], rest, item)
        return Known(value.type, fields)
    inner = _put(element(value, step), rest, item) if rest else item
    if value.data is None and isinstance(value.type, t.Array):
        value = Known(value.type, _blank(value.type))
    return set_element(value, step, inner)


def _blank(type: t.Array) -> ArrayData:
    from .values import dtype_of

    return ArrayData(np.zeros(type.dims, dtype_of(type.element)))


def assign(target: s.Expr, op: str | None, value: Value, f: Frame, span: Span, value_span: Span) -> None:
    """`target op= value`."""
    if isinstance(target, s.Name) and target.id == "_" and op is None:
        _discard(value, f, span)
        return
    ref = reference(target, f)
    if isinstance(ref, Known | Unknown) and isinstance(target, s.Name):
        fail(
            "E1020",
            f"`{target.id}` is a constant and cannot be assigned to",
            f.span(target.at),
            help="declare it with `var`",
        )
    if op is not None:
        from .expressions import operate

        ref = _steady(ref, f)
        value = operate(op, load(ref, f, f.span(target.at)), value, span, f.span(target.at), value_span)
    store(ref, coerce(value, ref.type, value_span, "what is assigned"), f, span)


def _steady(ref: Ref, f: Frame) -> Ref:
    """`ref` with its address computed, so that what is read and then written is computed once."""
    if not isinstance(ref, Spot) or not (ref.terms or not isinstance(ref.base, Symbol | c.Local)):
        return ref
    pointer = f.local("place", t.Pointer(ref.type, False, False))
    f.emit(c.SetLocal(pointer.slot, c.AddressOf(pointer.type, ref.place)), ref.span)
    return Spot(ref.type, c.Local(pointer.type, pointer.slot), 0, (), ref.mutable, ref.span)


def _discard(value: Value, f: Frame, span: Span) -> None:
    if isinstance(value, Unknown):
        f.emit(c.Do(value.code), span)


def address_of(e: s.Expr, f: Frame, span: Span) -> Value:
    """`&e`."""
    ref = reference(e, f, materialise=True)
    if isinstance(ref, CellSpot):
        if ref.path:
            fail("E1020", "a part of a compile time variable has no address", span)
        return Known(t.Pointer(ref.type, False, False), Address(ref.cell, 0))
    if isinstance(ref, Spot):
        return pointer_to(ref)
    if isinstance(ref, Known) and ref.type in (t.Basic("function"),):
        return ref
    return fail("E1020", f"a value of type {t.show(ref.type)} has no address", span)


def pointer_to(spot: Spot) -> Value:
    """A pointer to `spot`."""
    type = t.Pointer(spot.type, False, not spot.mutable)
    if isinstance(spot.base, Symbol) and not spot.terms:
        return Known(type, Address(spot.base, spot.offset))
    if not isinstance(spot.base, Symbol | c.Local) and not spot.terms and not by_lane(spot.offset) and spot.offset == 0:
        return Unknown(type, spot.base)
    return Unknown(type, c.AddressOf(type, spot.place))
