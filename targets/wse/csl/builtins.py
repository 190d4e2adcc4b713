"""The builtins of the language itself: types, arrays, strings, modules, asserts. Others are in `ids` and `dsds`.

`call` finds a builtin by name, checks the number of its arguments and evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np

from ....compiler.source import Diagnostic, Note, Span, did_you_mean
from . import code as c
from . import numbers
from . import syntax as s
from . import types as t
from .calls import call_function
from .convert import array_of, coerce, function_type, known, number, to_code
from .expressions import evaluate, member_of, truth
from .values import NOTHING, ArrayData, Dsd, Known, Range, Unknown, Value, dtype_of, fail, map_lanes, plain, uniform
from .world import FUNCTION, MAX_IMPORTS, FnValue, Frame, Module, Scope


@dataclass(frozen=True, slots=True, eq=False)
class Arg:
    """An evaluated argument."""

    value: Value
    span: Span

    @property
    def type(self) -> t.Type:
        return self.value.type


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One use of a builtin: where it stands and in which evaluation."""

    name: str
    frame: Frame
    span: Span
    call: s.Builtin


Handler: TypeAlias = Callable[[Use, list[Arg]], Value]
# By name: the handler, least and most arguments.
TABLE: dict[str, tuple[Handler, int, int]] = {}
MANY = 64
# Characters of a string made by @strcat.
MAX_STRING = 1 << 16


def register(name: str, least: int, most: int | None = None) -> Callable[[Handler], Handler]:
    """Add a builtin to the table."""

    def add(handler: Handler) -> Handler:
        TABLE[name] = (handler, least, least if most is None else most)
        return handler

    return add


def call(e: s.Builtin, f: Frame) -> Value:
    """The value of `@name(args)`."""
    span = f.span(e.at)
    found = TABLE.get(e.name)
    if found is None or (e.name.startswith("tdslc_") and not f.module.is_library):
        names = [f"@{n}" for n in TABLE if not n.startswith("tdslc_")]
        fail("E1003", f"there is no builtin `@{e.name}`", f.span(e.name_at), help=did_you_mean(f"@{e.name}", names))
    handler, least, most = found
    if not least <= len(e.args) <= most:
        wanted = str(least) if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"
        fail("E1008", f"`@{e.name}` takes {wanted} argument{'s' * (wanted != '1')}, not {len(e.args)}", span)
    args = [Arg(evaluate(a, f), f.span(a.at)) for a in e.args]
    return handler(Use(e.name, f, span, e), args)


# ---- arguments -----------------------------------------------------------------------------------


def type_arg(arg: Arg) -> t.Type:
    got = known(arg.value, arg.span, "a type")
    if got.type != t.TYPE:
        fail("E1010", f"a type is needed here, not {t.show(got.type)}", arg.span)
    return cast(t.Type, got.data)


def string_arg(arg: Arg) -> str:
    got = known(arg.value, arg.span, "a string")
    if got.type != t.STRING:
        fail("E1010", f"a string is needed here, not {t.show(got.type)}", arg.span)
    return cast(str, got.data)


def array_arg(arg: Arg) -> t.Array:
    type = type_arg(arg)
    if not isinstance(type, t.Array):
        fail("E1010", f"an array type is needed here, not {t.show(type)}", arg.span)
    return type


def struct_arg(arg: Arg) -> dict[str, Value]:
    if not isinstance(arg.value, Known) or not (arg.type == t.ANON or isinstance(arg.type, t.Struct)):
        fail("E1010", f"a struct is needed here, not {t.show(arg.type)}", arg.span)
    return cast("dict[str, Value]", arg.value.data)


def operation(use: Use, type: t.Type, args: list[Value]) -> Value:
    """The builtin as an operation of a run; one without a value becomes a step."""
    code = c.Operation(type, use.name, tuple(to_code(a, use.span) for a in args), use.span)
    if type != t.VOID:
        if use.frame.out is None:
            fail("E1016", f"`@{use.name}` is done by a running PE, and cannot be evaluated when compiling", use.span)
        return Unknown(type, code)
    use.frame.emit(c.Do(code), use.span)
    return NOTHING


# ---- numbers and types ---------------------------------------------------------------------------


@register("as", 2)
def _as(use: Use, args: list[Arg]) -> Value:
    type, value = type_arg(args[0]), args[1].value
    enum_to_int = isinstance(value.type, t.Enum) and isinstance(type, t.Int)
    if not (t.is_number(value.type) or value.type == t.BOOL or enum_to_int):
        fail("E1010", f"@as converts numbers and bool, not {t.show(value.type)}", args[1].span)
    if not (t.is_number(type) or type == t.BOOL or isinstance(type, t.Enum)):
        fail("E1010", f"@as converts to numbers and bool, not {t.show(type)}", args[0].span)
    if value.type == type:
        return value
    if isinstance(value, Known):
        return numbers.converted(value, type, args[1].span)
    return Unknown(type, c.Operation(type, "convert", (value.code,), use.span))


@register("bitcast", 2)
def _bitcast(use: Use, args: list[Arg]) -> Value:
    type, value = type_arg(args[0]), args[1].value
    if (
        isinstance(value, Known)
        and isinstance(type, t.Int | t.Float)
        and (t.is_number(value.type) or plain(value.type))
    ):
        if value.type == t.COMPTIME_INT:
            # A literal takes the width asked for.
            value = cast(Known, coerce(value, t.Int(t.size_bytes(type) * 8, value.data < 0), args[1].span))
        return numbers.bitcast(value, type, args[1].span)
    if t.comptime_only(type) or t.comptime_only(value.type) or t.size_bytes(type) != t.size_bytes(value.type):
        fail("E1013", f"{t.show(value.type)} and {t.show(type)} differ in width", use.span)
    return Unknown(type, c.Operation(type, "bitcast", (to_code(value, args[1].span),), use.span))


@register("type_of", 1)
def _type_of(use: Use, args: list[Arg]) -> Value:
    value = args[0].value
    if isinstance(value, Known) and value.type == FUNCTION:
        return Known(t.TYPE, function_type(value.data))
    return Known(t.TYPE, value.type)


@register("is_same_type", 2)
def _is_same_type(use: Use, args: list[Arg]) -> Value:
    return Known(t.BOOL, type_arg(args[0]) == type_arg(args[1]))


@register("fp16", 0)
def _fp16(use: Use, args: list[Arg]) -> Value:
    return Known(t.TYPE, t.F16)


@register("get_int", 1)
def _get_int(use: Use, args: list[Arg]) -> Value:
    value = args[0].value
    if isinstance(value.type, t.Int):
        return value
    type = value.type.base if isinstance(value.type, t.Enum) else t.U16
    if not isinstance(value.type, t.Enum) and value.type not in t.IDS and value.type != t.COMPTIME_INT:
        fail("E1010", f"{t.show(value.type)} has no integer", args[0].span)
    if isinstance(value, Known):
        return Known(t.COMPTIME_INT if value.type == t.COMPTIME_INT else type, value.data)
    return Unknown(type, c.Operation(type, "bitcast", (value.code,), use.span))


@register("ptrcast", 2)
def _ptrcast(use: Use, args: list[Arg]) -> Value:
    type, value = type_arg(args[0]), args[1].value
    if not isinstance(type, t.Pointer) or not isinstance(value.type, t.Pointer):
        fail("E1010", f"@ptrcast is from pointer to pointer, not {t.show(value.type)} to {t.show(type)}", use.span)
    return (
        Known(type, value.data)
        if isinstance(value, Known)
        else Unknown(type, c.Operation(type, "bitcast", (value.code,), use.span))
    )


@register("random16", 0)
def _random16(use: Use, args: list[Arg]) -> Value:
    return operation(use, t.U16, [])


# ---- arrays --------------------------------------------------------------------------------------


@register("zeros", 1)
def _zeros(use: Use, args: list[Arg]) -> Value:
    type = array_arg(args[0])
    if not (isinstance(type.element, t.Int | t.Float) or type.element == t.BOOL):
        fail("E1010", f"@zeros makes numbers, not {t.show(type.element)}", args[0].span)
    return Known(type, ArrayData(np.zeros(type.dims, dtype_of(type.element))))


@register("constants", 2)
def _constants(use: Use, args: list[Arg]) -> Value:
    type = array_arg(args[0])
    value = known(coerce(args[1].value, type.element, args[1].span, "the value"), args[1].span, "the value")
    if not plain(type.element) or isinstance(value.data, np.ndarray):
        return array_of([value] * type.count, type, use.span)
    return Known(type, ArrayData(np.full(type.dims, value.data, dtype_of(type.element))))


@register("dimensions", 1)
def _dimensions(use: Use, args: list[Arg]) -> Value:
    dims = array_arg(args[0]).dims
    return Known(t.Array((len(dims),), t.U32), ArrayData(np.array(dims, np.uint32)))


@register("rank", 1)
def _rank(use: Use, args: list[Arg]) -> Value:
    return Known(t.U16, len(array_arg(args[0]).dims))


@register("element_count", 1)
def _element_count(use: Use, args: list[Arg]) -> Value:
    return Known(t.U32, array_arg(args[0]).count)


@register("element_type", 1)
def _element_type(use: Use, args: list[Arg]) -> Value:
    return Known(t.TYPE, array_arg(args[0]).element)


@register("range", 2, 4)
def _range(use: Use, args: list[Arg]) -> Value:
    type = type_arg(args[0])
    if not t.is_integer(type):
        fail("E1010", f"@range counts in integers, not {t.show(type)}", args[0].span)
    if len(args) == 3:
        fail("E1008", "`@range` takes a type and a stop, or a type, start, stop and step", use.span)
    given = [coerce(a.value, type, a.span, what) for a, what in zip(args[1:], _RANGE[len(args)], strict=True)]
    if len(given) == 1:
        return Known(t.RANGE, Range(type, Known(type, 0), given[0], Known(type, 1)))
    step = known(given[2], args[3].span, "the step of a range")
    if uniform(step.data) == 0:
        fail("E1014", "the step of a range is 0", args[3].span)
    return Known(t.RANGE, Range(type, given[0], given[1], step))


_RANGE = {2: ("the stop",), 4: ("the start", "the stop", "the step")}


def _range_part(use: Use, args: list[Arg]) -> Value:
    got = known(args[0].value, args[0].span)
    if not isinstance(got.data, Range):
        fail("E1010", f"a range is needed here, not {t.show(got.type)}", args[0].span)
    return cast(Value, getattr(got.data, use.name.removeprefix("range_")))


for _part in ("range_start", "range_stop", "range_step"):
    register(_part, 1)(_range_part)


# ---- structs and strings -------------------------------------------------------------------------


@register("concat_structs", 2)
def _concat_structs(use: Use, args: list[Arg]) -> Value:
    left, right = struct_arg(args[0]), struct_arg(args[1])
    nameless = [all(k.isdigit() for k in fields) for fields in (left, right) if fields]
    if len(set(nameless)) > 1:
        fail("E1011", "one struct has named fields, the other has none", use.span)
    if nameless and nameless[0]:
        values = [*left.values(), *right.values()]
        return Known(t.ANON, {str(i): v for i, v in enumerate(values)})
    both = [name for name in left if name in right]
    if both:
        fail("E1011", f"both structs have a field `{both[0]}`", use.span)
    return Known(t.ANON, {**left, **right})


@register("field", 2)
def _field(use: Use, args: list[Arg]) -> Value:
    return member_of(args[0].value, string_arg(args[1]), args[1].span, use.span)


@register("has_field", 2)
def _has_field(use: Use, args: list[Arg]) -> Value:
    name, type = string_arg(args[1]), args[0].type
    if isinstance(type, t.Struct):
        return Known(t.BOOL, name in dict(type.fields))
    return Known(t.BOOL, name in struct_arg(args[0]))


@register("strcat", 0, MANY)
def _strcat(use: Use, args: list[Arg]) -> Value:
    made = "".join(map(string_arg, args))
    if len(made) > MAX_STRING:
        fail("E1014", f"a string of {len(made)} characters: at most {MAX_STRING}", use.span)
    return Known(t.STRING, made)


@register("strlen", 1)
def _strlen(use: Use, args: list[Arg]) -> Value:
    return Known(t.COMPTIME_INT, len(string_arg(args[0]).encode()))


@register("get_array", 1)
def _get_array(use: Use, args: list[Arg]) -> Value:
    data = string_arg(args[0]).encode()
    return Known(t.Array((len(data),), t.U8), ArrayData(np.frombuffer(data, np.uint8).copy()))


@register("get_string_from_byte", 1)
def _get_string_from_byte(use: Use, args: list[Arg]) -> Value:
    byte = number(args[0].value, args[0].span, "a byte")
    if not 0 <= byte <= 255:
        fail("E1014", f"{byte} is not a byte", args[0].span)
    return Known(t.STRING, chr(byte))


# ---- asserts, architecture -----------------------------------------------------------------------


@register("comptime_assert", 1, 2)
def _comptime_assert(use: Use, args: list[Arg]) -> Value:
    test = known(args[0].value, args[0].span, "the condition")
    if not truth(test, args[0].span):
        _assertion_fails(use, args)
    return NOTHING


def _assertion_fails(use: Use, args: list[Arg]) -> NoReturn:
    said = f": {string_arg(args[1])}" if len(args) > 1 else ""
    fail("E1021", f"this assertion does not hold{said}", use.span, *_sides(use))


def _sides(use: Use) -> tuple[Note, ...]:
    """The values on both sides of a comparison that does not hold."""
    test = use.call.args[0]
    if not isinstance(test, s.Binary) or test.op in ("and", "or"):
        return ()
    notes: list[Note] = []
    for side in (test.left, test.right):
        value = evaluate(side, use.frame)
        if isinstance(value, Known) and plain(value.type) and not isinstance(side, s.Literal):
            notes.append(Note(f"this is {numbers.shown(value.data)}", use.frame.span(side.at)))
    return tuple(notes)


@register("assert", 1)
def _assert(use: Use, args: list[Arg]) -> Value:
    if use.frame.out is None:
        return _comptime_assert(use, args)
    test = coerce(args[0].value, t.BOOL, args[0].span, "the condition")
    return operation(use, t.VOID, [test])


@register("comptime_print", 0, MANY)
def _comptime_print(use: Use, args: list[Arg]) -> Value:
    shown = ", ".join(show_value(known(a.value, a.span)) for a in args)
    use.frame.world.notes.append(Diagnostic("E1022", shown, use.span, severity="note"))
    return NOTHING


def show_value(value: Value) -> str:
    """A value as CSL would write it."""
    if isinstance(value, Unknown):
        return f"<{t.show(value.type)}>"
    match value.data:
        case ArrayData(items):
            return f"{t.show(value.type)}{{{', '.join(str(x) for x in items.ravel()[:16])}}}"
        case dict():
            fields = cast("dict[str, Value]", value.data)  # pyright: ignore[reportUnknownMemberType]
            return ".{" + ", ".join(f".{k} = {show_value(v)}" for k, v in fields.items()) + "}"
        case bool():
            return "true" if value.data else "false"
        case t.Basic() | t.Int() | t.Float() | t.Array() | t.Pointer() | t.Function() | t.Struct() | t.Enum():
            return t.show(value.data)
        case FnValue(_, decl):
            return decl.name
        case _:
            return numbers.shown(value.data)


@register("is_arch", 1)
def _is_arch(use: Use, args: list[Arg]) -> Value:
    name = string_arg(args[0])
    if name not in ("wse2", "wse3"):
        fail("E1010", f'there is no architecture "{name}"', args[0].span, help='write "wse2" or "wse3"')
    return Known(t.BOOL, name == use.frame.world.arch.name)


@register("is_comptime", 0)
def _is_comptime(use: Use, args: list[Arg]) -> Value:
    return Known(t.BOOL, use.frame.out is None)


@register("get_rectangle", 0)
def _get_rectangle(use: Use, args: list[Arg]) -> Value:
    r = use.frame.world.rectangle
    if r is None:
        fail("E1024", "the rectangle is not yet known", use.span, help="call @set_rectangle before")
    size = [_size(*pair) for pair in (r.fabric, r.offsets)]
    return Known(t.ANON, {**_size(r.width, r.height).data, "fabric": size[0], "offsets": size[1]})


def _size(width: int, height: int) -> Known:
    return Known(t.ANON, {"width": Known(t.U16, width), "height": Known(t.U16, height)})


# ---- modules -------------------------------------------------------------------------------------


@register("import_module", 1, 2)
def _import_module(use: Use, args: list[Arg]) -> Value:
    name, world, f = string_arg(args[0]), use.frame.world, use.frame
    given = dict(struct_arg(args[1])) if len(args) > 1 else {}
    if name.startswith("<") and name.endswith(">"):
        text, library = world.loader.library(name[1:-1], args[0].span), True
    else:
        path = world.loader.resolve(name, f.module.text.file.path)
        text, library = world.loader.load(path), False
    module = world.module(text, given, library, args[1].span if len(args) > 1 else use.span)
    if world.importing >= MAX_IMPORTS:
        fail("E1006", f"imports nest more than {MAX_IMPORTS} deep: `{text.file.path}` imports itself", use.span)
    world.importing += 1
    start(module)
    world.importing -= 1
    return Known(t.MODULE, module)


def start(module: Module) -> None:
    """Evaluate the params of a module and its own imports, then run its comptime blocks in order."""
    for decl in module.text.decls:
        # A param without a value is a mistake only where it is used.
        if isinstance(decl, s.Param):
            if decl.name in module.given or decl.default is not None:
                module.find(decl.name)
        elif isinstance(decl, s.Variable) and (decl.exported or (decl.value is not None and _imports(decl.value))):
            module.find(decl.name)
    for decl in module.text.decls:
        if isinstance(decl, s.ComptimeBlock):
            frame = Frame(module.world, module, Scope(), "comptime")
            module.world.hooks.run(decl.block, frame)


def _imports(e: s.Expr) -> bool:
    match e:
        case s.Builtin(name="import_module"):
            return True
        case s.Conditional(yes=yes, no=no):
            return _imports(yes) or (no is not None and _imports(no))
        case s.Member(base=base):
            return _imports(base)
        case _:
            return False


# ---- what only our libraries may ask for ----------------------------------------------------------


def _library_operation(name: str, result: t.Type, params: tuple[t.Type, ...]) -> None:
    """`@tdslc_<name>`: an operation of the machine that has no public spelling."""

    def handler(use: Use, args: list[Arg]) -> Value:
        given = [coerce(a.value, p, a.span) for a, p in zip(args, params, strict=True)]
        return operation(Use(name, use.frame, use.span, use.call), result, given)

    register(f"tdslc_{name}", len(params))(handler)


_library_operation("unblock_cmd_stream", t.VOID, ())
_library_operation("timestamp_word", t.U16, (t.U16,))
_library_operation("timestamp_enable", t.VOID, (t.BOOL,))
_library_operation("timestamp_reset", t.VOID, ())
_library_operation("seed", t.VOID, (t.U32,))
_library_operation("routes_reset", t.VOID, (t.COLOR, t.U16, t.U16))
_library_operation("switch_set", t.VOID, (t.COLOR, t.U16, t.U16, t.U16))
_library_operation("switch_position", t.VOID, (t.COLOR, t.U16))
_library_operation("switch_ring", t.VOID, (t.COLOR, t.BOOL))
_library_operation("switch_pop", t.VOID, (t.COLOR, t.U16))
_library_operation("teardown_exit", t.VOID, (t.COLOR,))
_library_operation("teardown_pending", t.U32, ())
_library_operation("queue_bind", t.VOID, (t.BOOL, t.U16, t.U16))
_library_operation("queue_flush_exit", t.VOID, (t.OUTPUT_QUEUE,))
_library_operation("task_priority", t.VOID, (t.U16, t.BOOL))
_library_operation("print_u32", t.VOID, (t.U16, t.U16, t.U32))


@register("tdslc_trace_u32", 3)
def _trace_u32(use: Use, args: list[Arg]) -> Value:
    """`@tdslc_trace_u32(key, tag, value)`: a record of a number. Strings travel as the data of constants."""
    key = c.Constant(t.STRING, string_arg(args[0]))
    tag, value = (to_code(coerce(a.value, p, a.span), use.span) for a, p in zip(args[1:], (t.U16, t.U32), strict=True))
    use.frame.emit(c.Do(c.Operation(t.VOID, "trace_u32", (key, tag, value), use.span)), use.span)
    return NOTHING


@register("tdslc_trace_text", 3)
def _trace_text(use: Use, args: list[Arg]) -> Value:
    """`@tdslc_trace_text(key, tag, text)`: a record of text."""
    key, text = (c.Constant(t.STRING, string_arg(a)) for a in (args[0], args[2]))
    tag = to_code(coerce(args[1].value, t.U16, args[1].span), use.span)
    use.frame.emit(c.Do(c.Operation(t.VOID, "trace_text", (key, tag, text), use.span)), use.span)
    return NOTHING


@register("tdslc_print_text", 1)
def _print_text(use: Use, args: list[Arg]) -> Value:
    """Text for the log: the string travels as a constant's data."""
    text = c.Constant(t.STRING, string_arg(args[0]))
    use.frame.emit(c.Do(c.Operation(t.VOID, "print_text", (text,), use.span)), use.span)
    return NOTHING


_SPECIFIER = re.compile(r"\{\{|\{(.)\}")


@register("tdslc_print_format", 4)
def _print_format(use: Use, args: list[Arg]) -> Value:
    """Calls of `print_value(specifier, argument)` and `print_string(text)` for a format string; `{{` is a brace."""
    show, say = (known(a.value, a.span).data for a in args[:2])
    text, given = string_arg(args[2]), list(struct_arg(args[3]).values())
    start, used, plain_text = 0, 0, ""
    for found in _SPECIFIER.finditer(text):
        plain_text += text[start : found.start()]
        start = found.end()
        if found[1] is None:
            plain_text += "{"
            continue
        _say(say, plain_text, use)
        plain_text = ""
        if used >= len(given):
            fail("E1008", f"a format with more specifiers than its {len(given)} arguments", use.span)
        call_function(show, [(Known(t.U8, ord(found[1])), use.span), (given[used], use.span)], use.frame, use.span)
        used += 1
    _say(say, plain_text + text[start:], use)
    if used < len(given):
        fail("E1008", f"{len(given)} arguments for a format with {used} specifiers", use.span)
    return NOTHING


def _say(say: Any, text: str, use: Use) -> None:
    if text:
        call_function(say, [(Known(t.STRING, text), use.span)], use.frame, use.span)


@register("tdslc_math", 2, 3)
def _math(use: Use, args: list[Arg]) -> Value:
    """`@tdslc_math("sqrt", x)`: a function of floats, computed in the type of its arguments."""
    name, values = string_arg(args[0]), [a.value for a in args[1:]]
    if not isinstance(values[0].type, t.Float):
        fail("E1010", f"this function takes f16 or f32, not {t.show(values[0].type)}", args[1].span)
    if all(isinstance(v, Known) for v in values):
        return numbers.function(name, cast("list[Known]", values))
    if use.frame.out is None:
        fail("E1016", "this function can only be computed when the program runs", use.span)
    code = c.Operation(values[0].type, name, tuple(to_code(v, use.span) for v in values), use.span)
    return Unknown(values[0].type, code)


@register("tdslc_coordinate", 1)
def _coordinate(use: Use, args: list[Arg]) -> Value:
    """The x (0) or y (1) of the PE in the rectangle. A run asks for it, so that code can be shared."""
    coordinates = use.frame.world.coordinates
    if coordinates is None:
        fail("E1024", "a layout has no coordinates of its own", use.span)
    value = coordinates[int(number(args[0].value, args[0].span, "the axis"))]
    if use.frame.out is None:
        return value
    return Unknown(t.U16, c.Operation(t.U16, "coordinate", (to_code(value, use.span),), use.span))


def dsd_data(value: Value) -> Dsd | None:
    """The descriptor that `value` is, where it is known."""
    return value.data if isinstance(value, Known) and isinstance(value.data, Dsd) else None


def per_lane(data: Any) -> bool:
    """Whether any part of `data` differs by lane."""
    found: list[bool] = []

    def note(lanes: Any) -> Any:
        found.append(True)
        return lanes

    map_lanes(data, note)
    return bool(found)
