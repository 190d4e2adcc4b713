"""Builtins of colors, queues, tasks and layouts: ids in their ranges, and what a program declares with them.

Declarations are gathered in `world.effects`; `layout` and `program` check them against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ....compiler.source import Note, Span
from . import code as c
from . import types as t
from .builtins import Arg, Use, operation, register, string_arg, struct_arg, type_arg
from .calls import entry_instance
from .convert import coerce, known
from .numbers import bounds, shown
from .routes import check_fields, choice, read_config
from .values import NOTHING, Address, Known, Symbol, Unknown, Value, fail, uniform
from .world import Arch, Effect, FnValue

# ---- making ids ----------------------------------------------------------------------------------


def _id(name: str, type: t.Basic, what: str, bounds: Callable[[Arch], tuple[int, int]]) -> None:
    """`@get_<name>`: an integer in the machine's range as an id."""

    def handler(use: Use, args: list[Arg]) -> Value:
        value, span = args[0].value, args[0].span
        if not t.is_integer(value.type):
            fail("E1010", f"`@{use.name}` takes an integer, not {t.show(value.type)}", span)
        low, high = bounds(use.frame.world.arch)
        if isinstance(value, Unknown):
            code = coerce(value, t.U16, span, "an id known only to a run")
            return Unknown(type, c.Operation(type, "bitcast", (cast(Unknown, code).code,), use.span))
        check_range(value.data, low, high, what, use.frame.world.arch, span)
        return Known(type, value.data)

    register(f"get_{name}", 1)(handler)


def check_range(data: Any, low: int, high: int, what: str, arch: Arch, span: Span) -> None:
    """An id (of every lane) within low..high, or E1030."""
    lowest, highest = bounds(data)
    if lowest < low or highest > high:
        fail("E1030", f"{what} {shown(data)} does not exist on {arch.name}", span, help=f"{what}s are {low} to {high}")


_id("color", t.COLOR, "color", lambda a: (0, a.colors - 1))
_id("input_queue", t.INPUT_QUEUE, "input queue", lambda a: (0, a.input_queues - 1))
_id("output_queue", t.OUTPUT_QUEUE, "output queue", lambda a: (0, a.output_queues - 1))
_id("ut_id", t.UT_ID, "microthread", lambda a: (0, a.microthreads - 1))
_id("local_task_id", t.LOCAL_ID, "local task id", lambda a: a.local_ids)
_id("control_task_id", t.CONTROL_ID, "control task id", lambda a: a.control_ids)


@register("get_data_task_id", 1)
def _get_data_task_id(use: Use, args: list[Arg]) -> Value:
    arch, value = use.frame.world.arch, args[0].value
    wanted = t.INPUT_QUEUE if arch.queue_tasks else t.COLOR
    if value.type != wanted:
        help = f"on {arch.name} a data task belongs to {'an input queue' if arch.queue_tasks else 'a color'}"
        fail(
            "E1010",
            f"`@get_data_task_id` takes {t.show(wanted)} on {arch.name}, not {t.show(value.type)}",
            args[0].span,
            help=help,
        )
    if isinstance(value, Known):
        return Known(t.DATA_ID, value.data)
    return Unknown(t.DATA_ID, c.Operation(t.DATA_ID, "bitcast", (value.code,), use.span))


# ---- what a running task does to others ----------------------------------------------------------


def task_id(value: Value, use: Use, span: Span) -> Value:
    """The id that `value` is, or that the task it names is bound to."""
    if not isinstance(value, Known) or not isinstance(value.data, FnValue):
        return value
    fn = value.data
    if not fn.decl.is_task:
        fail("E1010", f"`{fn.decl.name}` is a function, where a task or its id is needed", span)
    for effect in use.frame.world.effects:
        if effect.kind.startswith("bind_") and _is_same(effect.values[0], fn):
            return cast(Value, effect.values[1])
    return fail(
        "E1031",
        f"the task `{fn.decl.name}` is bound to no id",
        span,
        help="bind it: @bind_local_task in a comptime block",
    )


def _is_same(a: FnValue, b: FnValue) -> bool:
    return a.module is b.module and a.decl is b.decl


def _of_types(value: Value, types: tuple[t.Type, ...], use: Use, span: Span) -> Value:
    if value.type not in types:
        wanted = " or ".join(map(t.show, types))
        fail("E1010", f"`@{use.name}` takes {wanted}, not {t.show(value.type)}", span)
    return value


def _act(use: Use, value: Value, span: Span) -> Value:
    """Now, in a run; or at the start, in a comptime block."""
    if use.frame.out is not None:
        return operation(use, t.VOID, [value])
    in_program(use)
    got = known(value, span, "the id")
    use.frame.world.effects.append(Effect(use.name, (got.type, uniform(got.data)), use.span))
    return NOTHING


@register("activate", 1)
def _activate(use: Use, args: list[Arg]) -> Value:
    value = _of_types(task_id(args[0].value, use, args[0].span), (t.LOCAL_ID,), use, args[0].span)
    return _act(use, value, args[0].span)


def _blocking(use: Use, args: list[Arg]) -> Value:
    arch = use.frame.world.arch
    types = (t.DATA_ID, t.LOCAL_ID, t.INPUT_QUEUE, t.UT_ID) if arch.queue_tasks else (t.DATA_ID, t.LOCAL_ID, t.COLOR)
    value = _of_types(task_id(args[0].value, use, args[0].span), types, use, args[0].span)
    return _act(use, value, args[0].span)


register("block", 1)(_blocking)
register("unblock", 1)(_blocking)


@register("queue_flush", 1)
def _queue_flush(use: Use, args: list[Arg]) -> Value:
    if not use.frame.world.arch.queue_tasks:
        fail("E1032", "`@queue_flush` does not exist on wse2", use.span)
    return operation(use, t.VOID, [_of_types(args[0].value, (t.OUTPUT_QUEUE,), use, args[0].span)])


# ---- what comptime blocks of a program declare ---------------------------------------------------


def in_program(use: Use) -> None:
    f = use.frame
    if f.world.mode != "program" or f.out is not None:
        place = "a layout" if f.world.mode == "layout" else "a function that runs"
        fail(
            "E1024",
            f"`@{use.name}` cannot stand in {place}",
            use.span,
            help="put it into a comptime block of the PE's program",
        )


def _in_layout(use: Use) -> None:
    if use.frame.world.mode != "layout":
        fail("E1024", f"`@{use.name}` can only stand in a layout", use.span)


def _function(arg: Arg, use: Use, is_task: bool) -> Known:
    got = known(arg.value, arg.span)
    if not isinstance(got.data, FnValue) or got.data.decl.is_task != is_task:
        fail("E1010", f"`@{use.name}` takes a {'task' if is_task else 'function'}, not {t.show(got.type)}", arg.span)
    return got


def _bind(kind: str, type: t.Basic) -> None:
    def handler(use: Use, args: list[Arg]) -> Value:
        in_program(use)
        task = _function(args[0], use, True)
        got = known(_of_types(args[1].value, (type,), use, args[1].span), args[1].span, "the id")
        id = Known(type, uniform(got.data))
        fn = cast(FnValue, task.data)
        _check_parameters(kind, fn, args[0].span, use)
        world = use.frame.world
        for effect in world.effects:
            if effect.kind == use.name and effect.values[1].data == id.data:
                other = effect.values[0].decl.name
                message = f"{t.show(type)} {id.data} is bound to `{other}` and to `{fn.decl.name}`"
                fail("E1033", message, use.span, Note("bound here first", effect.span))
        # The effect first: the body may activate the task by its name.
        effect = Effect(use.name, (fn, id, _Later()), use.span)
        world.effects.append(effect)
        effect.values[2].instance = entry_instance(task, use.frame, args[0].span)
        return NOTHING

    register(f"bind_{kind}_task", 2)(handler)


class _Later:
    """The instance of a bound task, filled in after the binding is known."""

    instance: c.Instance


def _check_parameters(kind: str, fn: FnValue, span: Span, use: Use) -> None:
    count, declared = len(fn.decl.formals), Note("declared here", fn.module.span(fn.decl.name_at))
    if kind == "local" and count:
        fail("E1008", f"a local task takes no arguments; `{fn.decl.name}` takes {count}", span, declared)
    if kind == "data" and not count:
        fail("E1008", f"a data task takes the wavelet as its arguments; `{fn.decl.name}` takes none", span, declared)


_bind("local", t.LOCAL_ID)
_bind("data", t.DATA_ID)
_bind("control", t.CONTROL_ID)


@register("initialize_queue", 1, 2)
def _initialize_queue(use: Use, args: list[Arg]) -> Value:
    in_program(use)
    queue = known(
        _of_types(args[0].value, (t.INPUT_QUEUE, t.OUTPUT_QUEUE), use, args[0].span), args[0].span, "the queue"
    )
    settings = struct_arg(args[1]) if len(args) > 1 else {}
    check_fields(settings, ("color", "priority", "ctrl_table_id"), args[-1].span)
    arch, number = use.frame.world.arch, uniform(queue.data)
    wanted = queue.type == t.INPUT_QUEUE or arch.queue_tasks
    if wanted and "color" not in settings:
        fail(
            "E1034",
            f"{t.show(queue.type)} {number} needs its color on {arch.name}",
            use.span,
            help="write .{ .color = c }",
        )
    if "priority" in settings and arch.queue_tasks:
        fail("E1034", "queues have no priority on wse3", args[-1].span, help="give it to the operation")
    color = settings.get("color")
    got = (
        None
        if color is None
        else uniform(known(_of_types(color, (t.COLOR,), use, args[-1].span), args[-1].span, "the color").data)
    )
    for effect in use.frame.world.effects:
        if effect.kind == "initialize_queue" and effect.values[:2] == (queue.type, number):
            fail(
                "E1033",
                f"{t.show(queue.type)} {number} is initialized twice",
                use.span,
                Note("initialized here first", effect.span),
            )
    priority = (
        choice(settings["priority"], ("high", "medium", "low"), args[-1].span) if "priority" in settings else "high"
    )
    table = uniform(known(settings["ctrl_table_id"], args[-1].span).data) if "ctrl_table_id" in settings else 0
    use.frame.world.effects.append(Effect(use.name, (queue.type, number, got, priority, table), use.span))
    return NOTHING


@register("set_local_color_config", 2)
def _set_local_color_config(use: Use, args: list[Arg]) -> Value:
    in_program(use)
    color = known(_of_types(args[0].value, (t.COLOR,), use, args[0].span), args[0].span, "the color")
    id = uniform(color.data)
    config = read_config(args[1].value, id, use.frame.world.arch, args[1].span)
    use.frame.world.effects.append(Effect(use.name, (id, config), use.span))
    return NOTHING


@register("set_teardown_handler", 2)
def _set_teardown_handler(use: Use, args: list[Arg]) -> Value:
    return _handler(use, args, t.COLOR)


@register("set_empty_queue_handler", 2)
def _set_empty_queue_handler(use: Use, args: list[Arg]) -> Value:
    return _handler(use, args, t.OUTPUT_QUEUE)


def _handler(use: Use, args: list[Arg], type: t.Basic) -> Value:
    in_program(use)
    function = _function(args[0], use, False)
    got = known(_of_types(args[1].value, (type,), use, args[1].span), args[1].span)
    id = uniform(got.data)
    for effect in use.frame.world.effects:
        if effect.kind == use.name and effect.values[0] == id:
            fail("E1033", f"{t.show(type)} {id} has two handlers", use.span, Note("given here first", effect.span))
    later = _Later()
    use.frame.world.effects.append(Effect(use.name, (id, later), use.span))
    later.instance = entry_instance(function, use.frame, args[0].span)
    return NOTHING


@register("export_symbol", 1, 2)
def _export_symbol(use: Use, args: list[Arg]) -> Value:
    in_program(use)
    named = use.call.args[0]
    name = string_arg(args[1]) if len(args) > 1 else use.frame.span(named.at).text.rpartition(".")[2]
    value = args[0].value
    target: Any = None
    if isinstance(value, Known) and isinstance(value.data, FnValue):
        target = entry_instance(value, use.frame, args[0].span)
    elif isinstance(value, Unknown) and isinstance(value.code, c.Load) and isinstance(value.code.place.base, Symbol):
        target = value.code.place.base
    elif isinstance(value, Known) and isinstance(value.data, Address):
        # A constant pointer: what it points at is what the host sees.
        target = value
    else:
        fail(
            "E1010",
            f"a global variable, constant pointer or function is exported, not {t.show(value.type)}",
            args[0].span,
        )
    for effect in use.frame.world.effects:
        if effect.kind == "export_symbol" and effect.values[0] == name:
            fail("E1033", f'"{name}" is exported twice', use.span, Note("exported here first", effect.span))
    use.frame.world.effects.append(Effect(use.name, (name, target), use.span))
    return NOTHING


# ---- what layouts declare ------------------------------------------------------------------------


@register("set_rectangle", 2)
def _set_rectangle(use: Use, args: list[Arg]) -> Value:
    _in_layout(use)
    world = use.frame.world
    for effect in world.effects:
        if effect.kind == "set_rectangle":
            fail("E1024", "a layout has one rectangle", use.span, Note("set here first", effect.span))
    width, height = (cast(int, uniform(known(coerce(a.value, t.U16, a.span, "the size"), a.span).data)) for a in args)
    if not width or not height:
        fail("E1014", f"a rectangle of {width} x {height} PEs", use.span)
    world.rectangle = world.rectangle_in(width, height, use.span)
    world.effects.append(Effect(use.name, (width, height), use.span))
    return NOTHING


def _coordinates(use: Use, args: list[Arg]) -> tuple[Any, Any]:
    """x and y of the PEs meant, each a number or one per lane, inside the rectangle."""
    r = use.frame.world.rectangle
    if r is None:
        fail("E1024", "the rectangle is not yet set", use.span, help="call @set_rectangle first")
    out: list[Any] = []
    for arg, size, axis in zip(args, (r.width, r.height), "xy", strict=False):
        data = known(
            coerce(arg.value, t.I32, arg.span, f"the {axis} coordinate"), arg.span, f"the {axis} coordinate"
        ).data
        lowest, highest = bounds(data)
        if lowest < 0 or highest >= size:
            fail(
                "E1035",
                f"{axis} = {lowest if lowest < 0 else highest} is outside the rectangle of {r.width} x {r.height} PEs",
                arg.span,
            )
        out.append(data)
    return out[0], out[1]


@register("set_tile_code", 2, 4)
def _set_tile_code(use: Use, args: list[Arg]) -> Value:
    _in_layout(use)
    x, y = _coordinates(use, args[:2])
    module = use.frame.module
    path = module.text.file.path
    if len(args) > 2:
        path = use.frame.world.loader.resolve(string_arg(args[2]), path)
        if module.is_library:
            path = string_arg(args[2])
    params = struct_arg(args[3]) if len(args) > 3 else {}
    for name, value in params.items():
        known(value, args[-1].span, f"param `{name}`")
    use.frame.world.effects.append(Effect(use.name, (x, y, path, Known(t.ANON, params)), use.span))
    return NOTHING


@register("set_color_config", 4)
def _set_color_config(use: Use, args: list[Arg]) -> Value:
    _in_layout(use)
    x, y = _coordinates(use, args[:2])
    color = known(_of_types(args[2].value, (t.COLOR,), use, args[2].span), args[2].span, "the color")
    id = uniform(color.data)
    config = read_config(args[3].value, id, use.frame.world.arch, args[3].span)
    use.frame.world.effects.append(Effect(use.name, (x, y, id, config), use.span))
    return NOTHING


@register("export_name", 2, 3)
def _export_name(use: Use, args: list[Arg]) -> Value:
    _in_layout(use)
    name, type = string_arg(args[0]), type_arg(args[1])
    if len(args) < 3 and not isinstance(type, t.Function):
        fail(
            "E1008",
            "an exported variable must say whether the host may change it",
            use.span,
            help="add `true` or `false`",
        )
    mutable = bool(uniform(known(args[2].value, args[2].span).data)) if len(args) > 2 else False
    for effect in use.frame.world.effects:
        if effect.kind == "export_name" and effect.values[0] == name:
            fail("E1033", f'"{name}" is exported twice', use.span, Note("exported here first", effect.span))
    use.frame.world.effects.append(Effect(use.name, (name, type, mutable), use.span))
    return NOTHING


@register("rpc", 1)
def _rpc(use: Use, args: list[Arg]) -> Value:
    in_program(use)
    got = known(_of_types(args[0].value, (t.DATA_ID,), use, args[0].span), args[0].span)
    use.frame.world.effects.append(Effect(use.name, (uniform(got.data),), use.span))
    return NOTHING
