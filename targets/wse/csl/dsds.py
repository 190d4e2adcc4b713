"""Builtins of data structure descriptors: making and changing them, DSRs, FIFOs, and the operations over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ....compiler.source import Span
from . import code as c
from . import types as t
from .builtins import MANY, Arg, Use, dsd_data, operation, register, struct_arg, type_arg
from .calls import instance_of
from .convert import coerce, function_type, known, number, to_code
from .ids import check_range, in_program, task_id
from .places import pointer_to, reference
from .routes import check_fields, choice, struct_fields
from .values import NOTHING, Access, Address, Dsd, Dsr, Known, Symbol, Unknown, Value, fail, plain, uniform
from .world import Effect, FnValue

_TENSOR = t.Basic("tensor_access")
_FABRIC_FIELDS = (
    "extent",
    "fabric_color",
    "simd_mode",
    "advance_switch",
    "wavelet_index_offset",
    "control_transform",
    "priority",
)
_FIELDS: dict[t.Basic, tuple[str, ...]] = {
    t.MEM1D: ("tensor_access", "base_address", "extent", "stride", "offset", "wavelet_index_offset"),
    t.MEM4D: ("tensor_access", "base_address", "extent", "stride", "offset", "wavelet_index_offset"),
    t.FABIN: (*_FABRIC_FIELDS, "input_queue", "on_control", "control"),
    t.FABOUT: (*_FABRIC_FIELDS, "output_queue", "control"),
}
_FIELD_TYPES: dict[str, t.Type] = {
    "extent": t.U16, "fabric_color": t.COLOR, "input_queue": t.INPUT_QUEUE, "output_queue": t.OUTPUT_QUEUE,
    "control": t.BOOL, "advance_switch": t.BOOL, "wavelet_index_offset": t.BOOL, "control_transform": t.BOOL,
    "stride": t.I16, "offset": t.I16,
}  # fmt: skip


# Fields of which one member is set, as in `.{ .high = true }`.
_CHOICES = {"simd_mode": ("simd_32", "simd_64", "simd_32_or_64"), "priority": ("high", "medium", "low")}


@register("get_dsd", 2)
def _get_dsd(use: Use, args: list[Arg]) -> Value:
    kind = type_arg(args[0])
    if not isinstance(kind, t.Basic) or kind not in _FIELDS:
        fail(
            "E1010",
            f"a kind of DSD is needed here, not {t.show(kind)}",
            args[0].span,
            help="mem1d_dsd, mem4d_dsd, fabin_dsd or fabout_dsd",
        )
    given, span = struct_arg(args[1]), args[1].span
    check_fields(given, _FIELDS[kind], span)
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name in _FIELD_TYPES:
            fields[name] = coerce(value, _FIELD_TYPES[name], span, f"`.{name}`")
    for name, choices in _CHOICES.items():
        if name in given:
            fields[name] = choice(given[name], choices, span)
    if "on_control" in given:
        ends = _on_control(given["on_control"], use, span)
        if ends not in (None, "terminate"):
            fail("E1034", "`.on_control` of a DSD can only end an operation", span, help="give it to the operation")
        if ends:
            fields["on_control"] = ends
    if kind in t.MEMORY_DSDS:
        return _memory(kind, given, fields, use, span)
    return _fabric(kind, fields, use, span)


def _memory(kind: t.Basic, given: dict[str, Value], fields: dict[str, Any], use: Use, span: Span) -> Value:
    if "tensor_access" in given:
        got = known(given["tensor_access"], span)
        if not isinstance(got.data, Access):
            fail("E1010", f"`.tensor_access` is `|i|{{n}} -> a[i]`, not {t.show(got.type)}", span)
        access = got.data
        extents, strides = access.extents, access.strides
        base, element = access.base, access.element
    else:
        base, element = _base(given, use, span)
        if "extent" not in fields:
            fail("E1034", "a memory DSD needs `.tensor_access`, or `.base_address` and `.extent`", span)
        extents, strides = (cast(Value, fields.pop("extent")),), (1,)
        if "stride" in fields:
            strides = (number(fields.pop("stride"), span, "`.stride`"),)
    if kind == t.MEM1D and len(extents) != 1:
        fail("E1018", f"a mem1d_dsd over {len(extents)} indices", span, help="use mem4d_dsd")
    lengths = tuple(coerce(x, t.U16, span, "an extent") for x in extents)
    fields.update(base=base, extents=lengths, strides=strides, element=element)
    return _made(kind, fields, use, span)


def _base(given: dict[str, Value], use: Use, span: Span) -> tuple[Value, t.Type]:
    if "base_address" not in given:
        fail("E1034", "a memory DSD needs `.tensor_access`, or `.base_address` and `.extent`", span)
    pointer = given["base_address"]
    if not isinstance(pointer.type, t.Pointer):
        fail("E1010", f"`.base_address` is a pointer, not {t.show(pointer.type)}", span, help="write `&array`")
    return pointer, _scalar(pointer.type.to)


def _scalar(type: t.Type) -> t.Type:
    return type.element if isinstance(type, t.Array) else type


def _fabric(kind: t.Basic, fields: dict[str, Any], use: Use, span: Span) -> Value:
    queue = "input_queue" if kind == t.FABIN else "output_queue"
    for name in ("extent", queue):
        if name not in fields:
            fail("E1034", f"{t.show(kind)} needs `.{name}`", span)
    if kind == t.FABOUT and not use.frame.world.arch.queue_tasks and "fabric_color" not in fields:
        fail("E1034", "fabout_dsd needs `.fabric_color` on wse2", span)
    return _made(kind, fields, use, span)


def _made(kind: t.Basic, fields: dict[str, Any], use: Use, span: Span) -> Value:
    """A DSD: known when everything in it is."""
    if all(_is_known(x) for x in fields.values()):
        return Known(kind, Dsd(kind, fields))
    return Unknown(kind, c.Make(kind, "get_dsd", {k: _field_code(v, span) for k, v in fields.items()}, span))


def _is_known(x: Any) -> bool:
    if isinstance(x, tuple):
        return all(_is_known(y) for y in cast("tuple[Any, ...]", x))
    return not isinstance(x, Unknown)


def _field_code(x: Any, span: Span) -> Any:
    if isinstance(x, tuple):
        return tuple(_field_code(y, span) for y in cast("tuple[Any, ...]", x))
    if isinstance(x, Unknown):
        return x.code
    return c.Constant(x.type, x.data) if isinstance(x, Known) else x


# ---- changing ------------------------------------------------------------------------------------


def _changed(use: Use, dsd: Arg, name: str, value: Value) -> Value:
    """`dsd` with one thing changed, now when both are known."""
    data = dsd_data(dsd.value)
    if data is not None and isinstance(value, Known):
        return Known(dsd.type, Dsd(data.kind, {**data.fields, name: _change(data, name, value)}))
    return Unknown(
        dsd.type, c.Operation(dsd.type, use.name, (to_code(dsd.value, dsd.span), to_code(value, use.span)), use.span)
    )


def _change(data: Dsd, name: str, value: Known) -> Any:
    if name == "extents":
        return (value,)
    return (value.data,) if name == "strides" else value


def _memory_dsd(arg: Arg, use: Use) -> None:
    if arg.type not in t.MEMORY_DSDS:
        fail("E1010", f"`@{use.name}` takes a memory DSD, not {t.show(arg.type)}", arg.span)


@register("set_dsd_base_addr", 2)
def _set_dsd_base_addr(use: Use, args: list[Arg]) -> Value:
    _memory_dsd(args[0], use)
    value = args[1].value
    if isinstance(value.type, t.Array):
        place = reference(use.call.args[1], use.frame, materialise=True)
        if isinstance(place, Known | Unknown) or not hasattr(place, "place"):
            fail("E1010", "an array in memory is needed here", args[1].span)
        value = pointer_to(cast(Any, place))
    if not isinstance(value.type, t.Pointer):
        fail("E1010", f"an array or a pointer is needed here, not {t.show(value.type)}", args[1].span)
    made = _changed(use, args[0], "base", value)
    data = dsd_data(made)
    if data is not None:
        # What it points at from now on is of the pointer's type.
        data.fields["element"] = _scalar(value.type.to)
    return made


@register("set_dsd_length", 2)
def _set_dsd_length(use: Use, args: list[Arg]) -> Value:
    value = coerce(args[1].value, t.U16, args[1].span, "the length")
    if args[0].type in (t.FABIN, t.FABOUT):
        data = dsd_data(args[0].value)
        if data is not None and isinstance(value, Known):
            return Known(args[0].type, Dsd(data.kind, {**data.fields, "extent": value}))
        codes = (to_code(args[0].value, args[0].span), to_code(value, args[1].span))
        return Unknown(args[0].type, c.Operation(args[0].type, use.name, codes, use.span))
    if args[0].type != t.MEM1D:
        fail("E1010", f"`@set_dsd_length` takes a mem1d_dsd or a fabric DSD, not {t.show(args[0].type)}", args[0].span)
    return _changed(use, args[0], "extents", value)


@register("set_dsd_stride", 2)
def _set_dsd_stride(use: Use, args: list[Arg]) -> Value:
    if args[0].type != t.MEM1D:
        fail("E1010", f"`@set_dsd_stride` takes a mem1d_dsd, not {t.show(args[0].type)}", args[0].span)
    return _changed(use, args[0], "strides", coerce(args[1].value, t.I16, args[1].span, "the stride"))


@register("increment_dsd_offset", 3)
def _increment_dsd_offset(use: Use, args: list[Arg]) -> Value:
    _memory_dsd(args[0], use)
    by = coerce(args[1].value, t.I16, args[1].span, "the offset")
    size = t.size_bytes(type_arg(args[2]))
    data = dsd_data(args[0].value)
    if data is not None and isinstance(by, Known):
        base = cast(Value, data.fields["base"])
        if isinstance(base, Known) and isinstance(base.data, Address):
            moved = Known(base.type, Address(base.data.base, base.data.offset + by.data * size))
            return Known(args[0].type, Dsd(data.kind, {**data.fields, "base": moved}))
    codes = (to_code(args[0].value, args[0].span), to_code(by, args[1].span), c.Constant(t.U16, size))
    return Unknown(args[0].type, c.Operation(args[0].type, use.name, codes, use.span))


# ---- FIFOs and DSRs ------------------------------------------------------------------------------


@register("allocate_fifo", 1, 2)
def _allocate_fifo(use: Use, args: list[Arg]) -> Value:
    place = reference(use.call.args[0], use.frame, materialise=True)
    if not isinstance(place.type, t.Array) or not isinstance(getattr(place, "base", None), Symbol):
        fail("E1010", f"a FIFO lies in a global array, not in {t.show(place.type)}", args[0].span)
    settings = struct_arg(args[1]) if len(args) > 1 else {}
    span = args[-1].span
    check_fields(settings, ("activate_push", "activate_pop", "length", "read_length", "write_length"), span)
    fields: dict[str, Any] = {
        "buffer": pointer_to(cast(Any, place)),
        "element": place.type.element,
        "count": place.type.count,
    }
    for name, value in settings.items():
        fields[name] = (
            task_id(value, use, span) if name.startswith("activate") else coerce(value, t.U16, span, f"`.{name}`")
        )
    return Known(t.FIFO, Dsd(t.FIFO, fields))


def _fifo_length(use: Use, args: list[Arg]) -> Value:
    if args[0].type != t.FIFO:
        fail("E1010", f"`@{use.name}` takes a FIFO, not {t.show(args[0].type)}", args[0].span)
    return operation(use, t.VOID, [args[0].value, coerce(args[1].value, t.U16, args[1].span, "the length")])


register("set_fifo_read_length", 2)(_fifo_length)
register("set_fifo_write_length", 2)(_fifo_length)


@register("get_dsr", 2)
def _get_dsr(use: Use, args: list[Arg]) -> Value:
    kind = type_arg(args[0])
    if not isinstance(kind, t.Basic) or kind not in t.DSRS:
        fail(
            "E1010",
            f"a kind of DSR is needed here, not {t.show(kind)}",
            args[0].span,
            help="dsr_dest, dsr_src0 or dsr_src1",
        )
    id = number(args[1].value, args[1].span, "the number of a DSR")
    arch = use.frame.world.arch
    check_range(id, 0, arch.dsrs - 1, t.show(kind), arch, args[1].span)
    return Known(kind, Dsr(kind, id))


_ASYNC = ("async", "activate", "unblock", "priority", "ut_id", "index", "on_control")


@register("load_to_dsr", 2, 3)
def _load_to_dsr(use: Use, args: list[Arg]) -> Value:
    if args[0].type not in t.DSRS:
        fail("E1010", f"`@load_to_dsr` loads a DSR, not {t.show(args[0].type)}", args[0].span)
    if args[1].type not in t.DSDS:
        fail("E1010", f"a DSD is loaded into a DSR, not {t.show(args[1].type)}", args[1].span)
    settings = _settings(use, args[2], (*_ASYNC, "save_address", "single_step")) if len(args) > 2 else {}
    if use.frame.out is None:
        in_program(use)
        dsr, dsd = (known(a.value, a.span) for a in args[:2])
        use.frame.world.effects.append(Effect(use.name, (dsr, dsd, settings), use.span))
        return NOTHING
    operands = (to_code(args[0].value, args[0].span), to_code(args[1].value, args[1].span))
    use.frame.emit(c.Do(c.Vector(t.VOID, use.name, operands, settings, use.span)), use.span)
    return NOTHING


# ---- operations ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorOp:
    """Element types of destination and sources; None: any type of `bits` bits."""

    dest: t.Type | None
    sources: tuple[t.Type | None, ...]
    bits: int = 0


def _ops() -> dict[str, VectorOp]:
    h, s, w = t.F16, t.F32, None
    table = {
        "faddh": VectorOp(h, (h, h)), "faddhs": VectorOp(s, (s, h)), "fadds": VectorOp(s, (s, s)),
        "fsubh": VectorOp(h, (h, h)), "fsubs": VectorOp(s, (s, s)),
        "fmulh": VectorOp(h, (h, h)), "fmuls": VectorOp(s, (s, s)),
        "fmaxh": VectorOp(h, (h, h)), "fmaxs": VectorOp(s, (s, s)),
        "fmach": VectorOp(h, (h, h, h)), "fmachs": VectorOp(s, (s, h, h)), "fmacs": VectorOp(s, (s, s, s)),
        "fscaleh": VectorOp(h, (h, t.I16)), "fscales": VectorOp(s, (s, t.I16)),
        "fh2s": VectorOp(s, (h,)), "fs2h": VectorOp(h, (s,)),
        "fh2xp16": VectorOp(t.I16, (h,)), "fs2xp16": VectorOp(t.I16, (s,)),
        "xp162fh": VectorOp(h, (t.I16,)), "xp162fs": VectorOp(s, (t.I16,)),
        "mov16": VectorOp(w, (w,), 16), "mov32": VectorOp(w, (w,), 32),
    }  # fmt: skip
    for name in ("fmov", "fneg", "fabs", "fnorm"):
        table[f"{name}h"], table[f"{name}s"] = VectorOp(h, (h,)), VectorOp(s, (s,))
    for name in ("add16", "addc16", "sub16", "and16", "or16", "xor16", "sar16", "sll16", "slr16"):
        table[name] = VectorOp(w, (w, w), 16)
    for name in ("clz", "ctz", "popcnt"):
        table[name] = VectorOp(w, (w,), 16)
    return table


VECTOR_OPS = _ops()


def _vector(use: Use, args: list[Arg]) -> Value:
    op = VECTOR_OPS[use.name]
    count = 1 + len(op.sources)
    settings = _settings(use, args[count], _ASYNC) if len(args) > count else {}
    dest = _destination(args[0], op, use)
    sources = [_source(a, type, op, use) for a, type in zip(args[1:count], op.sources, strict=True)]
    if not any(a.type in t.DSDS or a.type in t.DSRS for a in args[:count]):
        fail("E1010", f"no operand of `@{use.name}` is a DSD", use.span)
    _check_fabric(args[:count], settings, use)
    return Unknown(t.BOOL, c.Vector(t.BOOL, use.name, (dest, *sources), settings, use.span))


for _name, _op in VECTOR_OPS.items():
    register(_name, 1 + len(_op.sources), 2 + len(_op.sources))(_vector)


def _bits(op: VectorOp, type: t.Type | None) -> int:
    return op.bits if type is None else t.size_bytes(type) * 8


def _destination(arg: Arg, op: VectorOp, use: Use) -> c.Code:
    type = arg.type
    if type in t.DSDS or type in t.DSRS:
        if type == t.FABIN or type in (t.DSR_SRC0, t.DSR_SRC1):
            fail("E1010", f"{t.show(type)} cannot be the destination of `@{use.name}`", arg.span)
        return to_code(arg.value, arg.span)
    if (
        isinstance(type, t.Pointer)
        and plain(type.to)
        and not type.const
        and t.size_bytes(type.to) * 8 == _bits(op, op.dest)
    ):
        return to_code(arg.value, arg.span)
    wanted = t.show(op.dest) if op.dest is not None else f"{op.bits}-bit number"
    return fail(
        "E1010",
        f"the destination of `@{use.name}` is a DSD, a DSR or a pointer to {wanted}, not {t.show(type)}",
        arg.span,
    )


def _source(arg: Arg, type: t.Type | None, op: VectorOp, use: Use) -> c.Code:
    if arg.type in t.DSDS or arg.type in t.DSRS:
        if arg.type == t.FABOUT or arg.type == t.DSR_DEST:
            fail("E1010", f"{t.show(arg.type)} cannot be a source of `@{use.name}`", arg.span)
        return to_code(arg.value, arg.span)
    if isinstance(arg.type, t.Pointer):
        if t.size_bytes(_scalar(arg.type.to)) * 8 == _bits(op, type):
            return to_code(arg.value, arg.span)
        fail(
            "E1023",
            f"`@{use.name}` works on {_bits(op, type)}-bit elements, and this points at {t.show(arg.type.to)}",
            arg.span,
        )
    if type is not None:
        return to_code(coerce(arg.value, type, arg.span, f"this operand of `@{use.name}`"), arg.span)
    return to_code(_any_of_width(arg, op.bits, use), arg.span)


def _any_of_width(arg: Arg, bits: int, use: Use) -> Value:
    """A scalar of `bits` bits, whatever its type."""
    value = arg.value
    if value.type == t.COMPTIME_INT and isinstance(value, Known):
        return coerce(value, t.Int(bits, bool(value.data < 0)), arg.span, f"this operand of `@{use.name}`")
    if value.type == t.COMPTIME_FLOAT:
        return coerce(value, t.Float(bits), arg.span)
    if isinstance(value.type, t.Int | t.Float | t.Enum) and t.size_bytes(value.type) * 8 == bits:
        return value
    if isinstance(value, Known) and isinstance(value.type, t.Int):
        return coerce(value, t.Int(bits, value.type.signed), arg.span)
    return fail("E1023", f"`@{use.name}` works on {bits}-bit elements, and this is {t.show(value.type)}", arg.span)


def _check_fabric(operands: list[Arg], settings: dict[str, Any], use: Use) -> None:
    reads = [a for a in operands if a.type == t.FABIN]
    if len(reads) > 1 and use.frame.world.arch.queue_tasks:
        fail("E1034", "two operands read the fabric; wse3 allows one", reads[1].span)
    if "ut_id" in settings and not use.frame.world.arch.queue_tasks:
        fail("E1032", "`.ut_id` does not exist on wse2", use.span)


def _settings(use: Use, arg: Arg, allowed: tuple[str, ...]) -> dict[str, Any]:
    """The last argument of an operation: how it runs and what follows it."""
    given = struct_arg(arg)
    check_fields(given, allowed, arg.span)
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name in ("activate", "unblock"):
            id = task_id(value, use, arg.span)
            types = (t.LOCAL_ID,) if name == "activate" else (t.LOCAL_ID, t.DATA_ID, t.COLOR, t.INPUT_QUEUE, t.UT_ID)
            if id.type not in types:
                fail("E1010", f"`.{name}` takes {' or '.join(map(t.show, types))}, not {t.show(id.type)}", arg.span)
            made[name] = to_code(id, arg.span)
        elif name == "priority":
            made[name] = choice(value, ("high", "medium", "low"), arg.span)
        elif name == "on_control":
            made[name] = _on_control(value, use, arg.span)
        elif name in ("index", "ut_id"):
            made[name] = to_code(coerce(value, t.U16, arg.span) if name == "index" else value, arg.span)
        else:
            made[name] = bool(known(coerce(value, t.BOOL, arg.span, f"`.{name}`"), arg.span).data)
    if ("activate" in made or "unblock" in made) and not made.get("async"):
        fail(
            "E1034",
            "`.activate` and `.unblock` belong to an asynchronous operation",
            arg.span,
            help="add `.async = true`",
        )
    return made


def _on_control(value: Value, use: Use, span: Span) -> Any:
    """What a control wavelet does to an operation: "terminate" it, or end it and activate a task (its id); or None."""
    given = struct_fields(value, span)
    name = choice(value, ("terminate", "activate", "unblock"), span)
    if name == "terminate":
        on = known(coerce(given[name], t.BOOL, span, "`.terminate`"), span, "`.terminate`")
        return name if uniform(on.data) else None
    if name == "unblock":
        fail("E1045", "`.on_control = .{ .unblock = ... }` cannot be run", span, help="activate a task that unblocks")
    id = task_id(given[name], use, span)
    if id.type != t.LOCAL_ID:
        fail("E1010", f"`.activate` takes {t.show(t.LOCAL_ID)}, not {t.show(id.type)}", span)
    return to_code(id, span)


# ---- @map ----------------------------------------------------------------------------------------


@register("map", 2, MANY)
def _map(use: Use, args: list[Arg]) -> Value:
    callee = known(args[0].value, args[0].span, "the callback")
    if not isinstance(callee.data, FnValue) or callee.data.decl.is_task:
        fail("E1010", f"the callback of @map is a function, not {t.show(callee.type)}", args[0].span)
    fn = callee.data
    formals = fn.decl.formals
    inputs, rest = args[1 : 1 + len(formals)], args[1 + len(formals) :]
    written = function_type(fn)
    bound: list[Any] = []
    for formal, param, arg in zip(formals, written.params, inputs, strict=False):
        bound.append((formal, _input(param, arg, use), False))
    if len(inputs) < len(formals):
        fail("E1008", f"`{fn.decl.name}` takes {len(formals)} arguments; @map is given {len(inputs)} inputs", use.span)
    result = written.result if written.result != t.ANYTYPE else bound[0][1].type
    wanted = 0 if result == t.VOID else 1
    if len(rest) != wanted:
        fail(
            "E1008",
            f"@map of a callback that returns {t.show(result)} takes {wanted} outputs, not {len(rest)}",
            use.span,
        )
    if not any(a.type in t.DSDS or a.type in t.DSRS for a in (*inputs, *rest)):
        fail("E1010", "no argument of @map is a DSD or DSR", use.span)
    target = instance_of(fn, bound, result, use.frame, use.span)
    codes = [
        to_code(v if a.type not in t.DSDS | t.DSRS else a.value, a.span)
        for (_, v, _), a in zip(bound, inputs, strict=True)
    ]
    codes += [_output(a, result) for a in rest]
    use.frame.emit(c.Do(c.Vector(t.VOID, "map", tuple(codes), {"callback": target}, use.span)), use.span)
    return NOTHING


def _input(param: t.Type | None, arg: Arg, use: Use) -> Value:
    if arg.type not in t.DSDS and arg.type not in t.DSRS:
        return coerce(arg.value, param or arg.type, arg.span, "this input")
    if arg.type == t.FABOUT:
        fail("E1010", "a fabout_dsd cannot be an input of @map", arg.span)
    data = dsd_data(arg.value)
    element = param or (data.fields.get("element") if data is not None else None)
    if element is None:
        fail("E1010", "the element type of this DSD is not known here; give the callback a typed parameter", arg.span)
    return Unknown(element, c.Local(element, 0))


def _output(arg: Arg, result: t.Type) -> c.Code:
    pointer = isinstance(arg.type, t.Pointer) and arg.type.to == result and not arg.type.const
    if not pointer and arg.type not in (*t.MEMORY_DSDS, t.FABOUT, t.FIFO, t.DSR_DEST):
        fail(
            "E1010", f"the output of @map is a DSD, or a pointer to {t.show(result)}, not {t.show(arg.type)}", arg.span
        )
    return to_code(arg.value, arg.span)
