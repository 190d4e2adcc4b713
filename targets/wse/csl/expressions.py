"""What expressions mean: known values, or typed code for values that only a run will know.

One rule for both: an operation on known values is done now, on others it becomes code. Must not know what builtins do.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NoReturn, cast

from ....compiler.source import DiagnosticError, Note, Span, did_you_mean
from . import code as c
from . import numbers
from . import syntax as s
from . import types as t
from .convert import array_of, coerce, coerces, known, number, to_code
from .places import CellSpot, Spot, address_of, load, pointer_to, reference
from .values import NOTHING, Access, Affine, Cell, Known, Symbol, Unknown, Value, fail, plain, uniform
from .world import Bound, FnValue, Frame, LocalVar, Module, Scope, unknown_name

# Elements of an array, also of one that lives only when compiling.
MAX_ELEMENTS = 1 << 20
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_DIRECTIONS = ("WEST", "EAST", "SOUTH", "NORTH", "RAMP")


def evaluate(e: s.Expr, f: Frame) -> Value:
    """The value of `e`. Raises DiagnosticError, and Diverged where lanes part."""
    match e:
        case s.Literal(_, value):
            return literal(value)
        case s.Name():
            return _name(e, f)
        case s.Undefined():
            return Known(t.UNDEFINED, None)
        case s.Empty():
            return NOTHING
        case s.Binary():
            return _binary(e, f)
        case s.Unary():
            return _unary(e, f)
        case s.Comptime(at, operand):
            return known(evaluate(operand, _comptime(f)), f.span(at))
        case s.Conditional():
            return _conditional(e, f)
        case s.Call():
            f.world.tick(f, e.at)
            return f.world.hooks.call(e, f)
        case s.Builtin():
            f.world.tick(f, e.at)
            return f.world.hooks.builtin(e, f)
        case s.Index() | s.Deref() | s.Member():
            return load(reference(e, f), f, f.span(e.at))
        case s.Init():
            return _init(e, f)
        case s.Tensor():
            return _tensor(e, f)
        case _:
            return Known(t.TYPE, type_of(e, f))


def _comptime(f: Frame) -> Frame:
    """The same place in the program, evaluated now."""
    if f.out is None:
        return f
    inner = f.inner()
    inner.out = None
    return inner


def literal(value: int | float | str | bool) -> Known:
    match value:
        case bool():
            return Known(t.BOOL, value)
        case int():
            return Known(t.COMPTIME_INT, value)
        case float():
            return Known(t.COMPTIME_FLOAT, value)
        case str():
            return Known(t.STRING, value)


# ---- names ---------------------------------------------------------------------------------------


def _name(e: s.Name, f: Frame) -> Value:
    entry = f.find(e.id)
    if entry is None:
        if e.id in t.NAMED:
            return Known(t.TYPE, t.NAMED[e.id])
        if e.id in _DIRECTIONS:
            return Known(t.DIRECTION, _DIRECTIONS.index(e.id))
        raise DiagnosticError(unknown_name(e.id, f, f.span(e.at), _DIRECTIONS))
    match entry:
        case Bound(value=value):
            return value
        case Cell():
            return load(CellSpot(entry, (), entry.value.type), f, f.span(e.at))
        case LocalVar(type, slot):
            return Unknown(type, c.Local(type, slot))
        case Symbol():
            return load(Spot(entry.type, entry, 0, (), entry.mutable, f.span(e.at)), f, f.span(e.at))


# ---- types ---------------------------------------------------------------------------------------


def type_of(e: s.Expr, f: Frame) -> t.Type:
    """The type that `e` names."""
    match e:
        case s.ArrayType(at, dims, inner):
            sizes = tuple(number(evaluate(d, _comptime(f)), f.span(d.at), "the size of an array") for d in dims)
            for d, size in zip(dims, sizes, strict=True):
                if size < 0:
                    fail("E1014", f"an array of {size} elements", f.span(d.at))
            if prod(sizes) > MAX_ELEMENTS:
                message = f"an array of {prod(sizes)} elements: at most {MAX_ELEMENTS}, more than any PE holds"
                fail("E1014", message, f.span(at))
            return t.Array(sizes, type_of(inner, f))
        case s.PointerType(_, to, many, const):
            return t.Pointer(type_of(to, f), many, const)
        case s.FunctionType(_, params, result, is_task):
            return t.Function(tuple(type_of(p, f) for p in params), type_of(result, f), is_task)
        case s.StructType(at, fields):
            return t.Struct(_anonymous(f, at), tuple((x.name, type_of(x.type, f)) for x in fields))
        case s.EnumType():
            return _enum(e, f)
        case _:
            value = evaluate(e, _comptime(f))
            if value.type != t.TYPE or not isinstance(value, Known):
                fail("E1010", f"a type is needed here, not {t.show(value.type)}", f.span(e.at))
            return cast(t.Type, value.data)


def _anonymous(f: Frame, at: s.At) -> str:
    """The name of a struct or enum type: its place, and as it is written."""
    line, _ = f.module.text.file.position(at[0])
    text = f.span(at).text.split("{")[0].strip()
    return f"{f.module.text.file.path}:{line}:{at[0]}#{text}"


def _enum(e: s.EnumType, f: Frame) -> t.Enum:
    base = type_of(e.base, f)
    if not isinstance(base, t.Int):
        fail("E1010", f"the values of an enum are integers, not {t.show(base)}", f.span(e.base.at))
    members: list[tuple[str, int]] = []
    following = 0
    for name, given in e.members:
        if given is not None:
            following = number(
                coerce(evaluate(given, _comptime(f)), base, f.span(given.at)), f.span(given.at), f"`{name}`"
            )
        members.append((name, following))
        following += 1
    return t.Enum(_anonymous(f, e.at), base, tuple(members))


def written_type(fn: FnValue) -> t.Function:
    """The type of `fn` as written; what depends on comptime arguments is None (a parameter) or anytype (a result)."""
    frame = Frame(fn.module.world, fn.module, Scope(), "comptime")
    names = {formal.name for formal in fn.decl.formals}
    params: list[t.Type | None] = []
    for formal in fn.decl.formals:
        params.append(None if _mentions(formal.type, names) else _none_if_any(type_of(formal.type, frame)))
    result = t.ANYTYPE if _mentions(fn.decl.result, names) else type_of(fn.decl.result, frame)
    return t.Function(tuple(params), result, fn.decl.is_task)


def _none_if_any(type: t.Type) -> t.Type | None:
    return None if type == t.ANYTYPE else type


def _mentions(e: s.Expr, names: set[str]) -> bool:
    """Whether the type expression `e` speaks of one of `names`."""
    match e:
        case s.Name(_, id):
            return id in names
        case s.Builtin(args=args) | s.Call(args=args):
            return any(_mentions(a, names) for a in args)
        case s.ArrayType(_, dims, inner):
            return any(_mentions(d, names) for d in dims) or _mentions(inner, names)
        case s.PointerType(to=inner):
            return _mentions(inner, names)
        case s.Binary(left=left, right=right):
            return _mentions(left, names) or _mentions(right, names)
        case _:
            return False


# ---- operators -----------------------------------------------------------------------------------


def truth(value: Value, span: Span) -> bool | None:
    """Whether a condition holds; None when only a run knows. Raises Diverged where lanes differ."""
    if value.type != t.BOOL:
        fail("E1010", f"a condition must be bool, not {t.show(value.type)}", span)
    return bool(uniform(value.data)) if isinstance(value, Known) else None


def _binary(e: s.Binary, f: Frame) -> Value:
    if e.op in ("and", "or"):
        return _logical(e, f)
    return operate(e.op, evaluate(e.left, f), evaluate(e.right, f), f.span(e.at), f.span(e.left.at), f.span(e.right.at))


def _logical(e: s.Binary, f: Frame) -> Value:
    left = evaluate(e.left, f)
    if left.type != t.BOOL:
        fail("E1010", f"`{e.op}` needs bool, not {t.show(left.type)}", f.span(e.left.at))
    if isinstance(left, Known):
        if bool(uniform(left.data)) == (e.op == "or"):
            return left
        right = evaluate(e.right, f)
        return coerce(right, t.BOOL, f.span(e.right.at), f"the right of `{e.op}`")
    right = coerce(evaluate(e.right, f), t.BOOL, f.span(e.right.at), f"the right of `{e.op}`")
    return Unknown(t.BOOL, c.Operation(t.BOOL, e.op, (left.code, to_code(right, f.span(e.at))), f.span(e.at)))


def operate(op: str, left: Value, right: Value, span: Span, left_span: Span, right_span: Span) -> Value:
    """`left op right`."""
    if t.is_number(left.type) and t.is_number(right.type):
        return _numeric(op, left, right, span, (left_span, right_span))
    if op in ("==", "!=") and isinstance(left, Known) and isinstance(right, Known) and left.type == right.type:
        return _same(op, left, right, span)
    if op in ("==", "!=") and left.type == right.type and (plain(left.type) or isinstance(left.type, t.Pointer)):
        code = c.Operation(t.BOOL, op, (to_code(left, left_span), to_code(right, right_span)), span)
        return Unknown(t.BOOL, code)
    return _no_operator(op, left, right, span, (left_span, right_span))


def _no_operator(op: str, left: Value, right: Value, span: Span, sides: tuple[Span, Span]) -> NoReturn:
    types = f"{t.show(left.type)} and {t.show(right.type)}"
    notes = (Note(f"this is {t.show(left.type)}", sides[0]), Note(f"this is {t.show(right.type)}", sides[1]))
    fail("E1012", f"`{op}` is not defined for {types}", span, *notes)


def _same(op: str, left: Known, right: Known, span: Span) -> Known:
    if left.type == t.TYPE or left.type == t.STRING:
        return Known(t.BOOL, (left.data == right.data) == (op == "=="))
    if plain(left.type):
        return numbers.compare(op, left, right)
    return fail("E1012", f"`{op}` is not defined for {t.show(left.type)}", span)


def _numeric(op: str, left: Value, right: Value, span: Span, sides: tuple[Span, Span]) -> Value:
    if op in ("<<", ">>"):
        return _shift(op, left, right, span, sides)
    if isinstance(left, Known) and isinstance(right, Known):
        type = numbers.known_peer(left, right)
        if type is None:
            return _no_operator(op, left, right, span, sides)
        if op in _COMPARISONS and t.is_integer(left.type) and t.is_integer(right.type):
            return numbers.compare(op, left, right)
        a, b = numbers.coerced(left, type), numbers.coerced(right, type)
        if a is None or b is None:
            # One does not fit the type of the other: the range is what is told.
            coerce(left, type, sides[0], "the left side")
            coerce(right, type, sides[1], "the right side")
            raise AssertionError("a number fits and does not")
        return numbers.compare(op, a, b) if op in _COMPARISONS else numbers.arithmetic(op, a, b, type, span)
    type = _runtime_peer(left, right, sides)
    if type is None:
        return _no_operator(op, left, right, span, sides)
    if op in ("&", "|", "^", "%") and t.is_float(type):
        return _no_operator(op, left, right, span, sides)
    a, b = to_code(coerce(left, type, sides[0]), sides[0]), to_code(coerce(right, type, sides[1]), sides[1])
    result = t.BOOL if op in _COMPARISONS else type
    return Unknown(result, c.Operation(result, op, (a, b), span))


def _runtime_peer(left: Value, right: Value, sides: tuple[Span, Span]) -> t.Type | None:
    """The type in which two numbers meet when one of them is computed later: a known one takes the other's."""
    for one, other, side in ((left, right, sides[0]), (right, left, sides[1])):
        if (
            isinstance(one, Unknown)
            and one.type in (t.COMPTIME_INT, t.COMPTIME_FLOAT)
            and coerces(one, other.type, side)
        ):
            return other.type
        if isinstance(one, Known):
            if numbers.coerced(one, other.type) is not None:
                return other.type
            wider = numbers.peer(one.type, other.type)
            if wider is None and t.is_integer(one.type) and isinstance(other.type, t.Int):
                coerce(one, other.type, side, "this number")
            return wider
    return numbers.peer(left.type, right.type)


def _shift(op: str, left: Value, right: Value, span: Span, sides: tuple[Span, Span]) -> Value:
    if not t.is_integer(left.type) or not t.is_integer(right.type):
        return _no_operator(op, left, right, span, sides)
    if isinstance(left, Known) and isinstance(right, Known):
        return numbers.arithmetic(op, left, right, left.type, span)
    amount = (
        coerce(right, left.type if isinstance(left.type, t.Int) else t.U16, sides[1])
        if isinstance(right, Known)
        else right
    )
    code = c.Operation(left.type, op, (to_code(left, sides[0]), to_code(amount, sides[1])), span)
    return Unknown(left.type, code)


def _unary(e: s.Unary, f: Frame) -> Value:
    span = f.span(e.at)
    if e.op == "&":
        return address_of(e.operand, f, span)
    value = evaluate(e.operand, f)
    if e.op == "!":
        value = coerce(value, t.BOOL, f.span(e.operand.at), "the operand of `!`")
        if isinstance(value, Known):
            return numbers.compare("==", value, Known(t.BOOL, False))
        return Unknown(t.BOOL, c.Operation(t.BOOL, "!", (value.code,), span))
    if not t.is_number(value.type) or (e.op == "~" and not t.is_integer(value.type)):
        fail("E1012", f"`{e.op}` is not defined for {t.show(value.type)}", span)
    if isinstance(value, Known):
        return numbers.negated(value, span) if e.op == "-" else numbers.inverted(value, span)
    return Unknown(value.type, c.Operation(value.type, "neg" if e.op == "-" else "~", (value.code,), span))


def _conditional(e: s.Conditional, f: Frame) -> Value:
    span = f.span(e.at)
    test = evaluate(e.test, f)
    holds = truth(test, f.span(e.test.at))
    if holds is not None:
        taken = e.yes if holds else e.no
        if taken is None:
            fail("E1009", "the condition does not hold, and there is no `else` to give a value", span)
        return evaluate(taken, f)
    if e.no is None:
        fail("E1009", "a value is needed in both cases: this `if` has no `else`", span)
    yes, no = evaluate(e.yes, f), evaluate(e.no, f)
    type = _common(yes, no)
    if type is None:
        notes = (
            Note(f"this is {t.show(yes.type)}", f.span(e.yes.at)),
            Note(f"this is {t.show(no.type)}", f.span(e.no.at)),
        )
        fail("E1012", f"the two sides are {t.show(yes.type)} and {t.show(no.type)}", span, *notes)
    a = _side(coerce(yes, type, f.span(e.yes.at)), f.span(e.yes.at))
    b = _side(coerce(no, type, f.span(e.no.at)), f.span(e.no.at))
    return Unknown(type, c.Operation(type, "choose", (to_code(test, span), a, b), span))


def _side(value: Value, span: Span) -> c.Code:
    """One side of a choice; comptime numbers get their type where the choice does."""
    if value.type in (t.COMPTIME_INT, t.COMPTIME_FLOAT):
        return value.code if isinstance(value, Unknown) else c.Constant(value.type, value.data)
    return to_code(value, span)


def _common(yes: Value, no: Value) -> t.Type | None:
    if yes.type == no.type:
        return yes.type
    if not t.is_number(yes.type) or not t.is_number(no.type):
        return None
    if isinstance(yes, Known) and isinstance(no, Known):
        return numbers.known_peer(yes, no)
    for one, other in ((yes, no), (no, yes)):
        if isinstance(one, Known) and numbers.coerced(one, other.type) is not None:
            return other.type
    return numbers.peer(yes.type, no.type)


# ---- members, elements, initialisers -------------------------------------------------------------


def member_of(base: Value, name: str, name_span: Span, span: Span) -> Value:
    """`base.name`."""
    if isinstance(base, Known):
        if base.type == t.MODULE:
            return module_member(cast(Module, base.data), name, name_span)
        if base.type == t.ANON or isinstance(base.type, t.Struct):
            return _field(base.data, name, name_span)
        if base.type == t.TYPE and isinstance(base.data, t.Enum):
            return _enum_member(base.data, name, name_span)
    elif isinstance(base.type, t.Struct):
        type = dict(base.type.fields).get(name)
        if type is not None:
            return Unknown(type, c.Member(type, base.code, name))
    return fail("E1011", f"{t.show(base.type)} has no member `{name}`", name_span)


def _field(fields: dict[str, Value], name: str, span: Span) -> Value:
    if name not in fields:
        fail("E1011", f"this struct has no field `{name}`", span, help=did_you_mean(name, fields))
    return fields[name]


def _enum_member(type: t.Enum, name: str, span: Span) -> Known:
    members = dict(type.members)
    if name not in members:
        fail("E1011", f"{t.show(type)} has no member `{name}`", span, help=did_you_mean(name, members))
    return Known(type, members[name])


def module_member(module: Module, name: str, span: Span) -> Value:
    """What `module` defines under `name`."""
    entry = module.find(name)
    if entry is None:
        path = module.text.file.path
        fail("E1011", f"`{path}` defines no `{name}`", span, help=did_you_mean(name, module.decls))
    match entry:
        case Bound(value=value):
            return value
        case Symbol():
            return Unknown(entry.type, c.Load(entry.type, c.Place(entry.type, entry, 0, (), span)))
        case Cell():
            return entry.value
        case LocalVar():
            raise AssertionError("a local at the top of a module")


def _init(e: s.Init, f: Frame) -> Value:
    span = f.span(e.at)
    items = [x.value if isinstance(x, s.Field) else x for x in e.items]
    names = [x.name if isinstance(x, s.Field) else str(i) for i, x in enumerate(e.items)]
    type = type_of(e.type, f) if e.type is not None else t.ANON
    if isinstance(type, t.Array):
        return array_of([_told(evaluate(x, f), type.element, f.span(x.at)) for x in items], type, span)
    value = Known(t.ANON, {name: evaluate(x, f) for name, x in zip(names, items, strict=True)})
    if type == t.ANON:
        return value
    if not isinstance(type, t.Struct):
        fail("E1010", f"{t.show(type)} is not a struct or an array", span)
    return coerce(value, type, span)


def _told(value: Value, type: t.Type, span: Span) -> Value:
    return coerce(value, type, span, "this element")


def _tensor(e: s.Tensor, f: Frame) -> Value:
    rank = len(e.indices)
    if rank > 4:
        fail("E1018", f"a tensor access with {rank} indices: at most 4", f.span(e.at))
    extents = tuple(evaluate(x, f) for x in e.extents)
    for x, extent in zip(e.extents, extents, strict=True):
        if not t.is_integer(extent.type):
            fail("E1010", f"an extent must be an integer, not {t.show(extent.type)}", f.span(x.at))
    scope = Scope(f.scope)
    for axis, name in enumerate(e.indices):
        unit = tuple(int(axis == k) for k in range(rank))
        scope.names[name] = Bound(name, Known(t.COMPTIME_INT, Affine(0, unit)), f.span(e.at))
    place = reference(e.access, f.inner(scope), materialise=True)
    if not isinstance(place, Spot):
        fail("E1018", "a tensor access names an element of an array in memory", f.span(e.access.at))
    offset = place.offset if isinstance(place.offset, Affine) else Affine(place.offset, (0,) * rank)
    size = t.size_bytes(place.type)
    for stride in offset.coefficients:
        if stride % size:
            fail("E1018", f"a stride of {stride} bytes over elements of {size}", f.span(e.access.at))
    base = pointer_to(replace(place, offset=offset.constant))
    return Known(
        t.Basic("tensor_access"), Access(base, place.type, extents, tuple(x // size for x in offset.coefficients))
    )
