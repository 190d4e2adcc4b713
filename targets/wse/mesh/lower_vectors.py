"""Operations over DSDs as rows of `vectors`, and DSDs of which a run computes some fields. Must not know how long
operations take, only the widths that the machine file gives."""

from __future__ import annotations

from typing import Any, Literal, cast

from ..chip import Simd
from ..csl import code as c
from ..csl import types as t
from ..csl.dsds import VECTOR_OPS
from ..csl.values import Address, Known, fail
from .ir import OPERANDS, Kind, Op, V, VectorOp
from .lower_code import BLOCK_KINDS, Lowering
from .registers import ON_CONTROL_REGISTER
from .tables import kind_of, scalar_kind

Width = Literal["f16", "f32", "mixed", "int16", "mov32", "max16", "max32", "convert", "shift", "mul32"]

_FLOAT_OPS = {
    "fadd": VectorOp.ADD, "fsub": VectorOp.SUB, "fmul": VectorOp.MUL, "fmax": VectorOp.MAX, "fmac": VectorOp.MAC,
    "fscale": VectorOp.SCALE, "fmov": VectorOp.MOV, "fneg": VectorOp.NEG, "fabs": VectorOp.ABS,
    "fnorm": VectorOp.NORM,
}  # fmt: skip
_WORD_OPS = {
    "mov16": VectorOp.MOV, "mov32": VectorOp.MOV, "add16": VectorOp.ADD, "addc16": VectorOp.ADDC,
    "sub16": VectorOp.SUB, "and16": VectorOp.AND, "or16": VectorOp.OR, "xor16": VectorOp.XOR, "sar16": VectorOp.SAR,
    "sll16": VectorOp.SLL, "slr16": VectorOp.SLR, "clz": VectorOp.CLZ, "ctz": VectorOp.CTZ, "popcnt": VectorOp.POPCNT,
}  # fmt: skip
# The operations whose width is not that of their element; those of 16-bit integers else, and of floats by their type.
_WIDTHS: dict[str, Width] = {
    "faddhs": "mixed", "fmachs": "mixed", "mov32": "mov32", "fmaxh": "max16", "fmaxs": "max32", "fmuls": "mul32",
    **dict.fromkeys(("sar16", "sll16", "slr16"), "shift"),
    **dict.fromkeys(("fh2s", "fs2h", "fh2xp16", "fs2xp16", "xp162fh", "xp162fs"), "convert"),
}  # fmt: skip
_PRIORITY = ("low", "medium", "high")


def operation_of(name: str) -> tuple[VectorOp, Kind, Kind, Width]:
    """What `@name` does: the operation, the Kinds of its destination and of its (narrow) sources, and its width."""
    spec = VECTOR_OPS[name]
    if name in _WORD_OPS:
        signed = name == "sar16"
        kind = (Kind.I16 if signed else Kind.U16) if spec.bits == 16 else Kind.U32
        return _WORD_OPS[name], kind, kind, _WIDTHS.get(name, "int16")
    dest = scalar_kind(cast(t.Type, spec.dest))
    source = scalar_kind(cast(t.Type, spec.sources[0 if len(spec.sources) == 1 or name.startswith("fscale") else -1]))
    op = next((op for stem, op in _FLOAT_OPS.items() if name.removesuffix("s").removesuffix("h") == stem), None)
    return (
        op if op is not None else VectorOp.CONVERT,
        dest,
        source,
        _WIDTHS.get(name, "f16" if dest == Kind.F16 else "f32"),
    )


def lower_vector(f: Lowering, e: c.Vector, simd: Simd) -> int:
    """Lower a DSD operation, `@map` or `@load_to_dsr`; the register tells whether it ran to its end."""
    row = [-1] * V.SIZE
    f.b.span = e.span
    if len(e.operands) > len(OPERANDS):
        fail("E1045", f"@map over {len(e.operands)} operands cannot be run: at most {len(OPERANDS)}", e.span)
    row[V.ASYNC] = row[V.ON_CONTROL] = row[V.SAVE_ADDRESS] = row[V.HAS_OUTPUT] = 0
    _operands(f, e, row)
    if e.op == "map":
        _map(f, e, row)
    elif e.op == "load_to_dsr":
        row[V.OP], row[V.WIDTH] = VectorOp.LOAD_DSR, 1
        row[V.DEST_KIND] = row[V.SOURCE_KIND] = Kind.DSD
    else:
        op, row[V.DEST_KIND], row[V.SOURCE_KIND], width = operation_of(e.op)
        row[V.OP], row[V.WIDTH] = op, getattr(simd, width)
    _settings(f, e, row)
    f.b.span = e.span
    return f.b.vector([int(x) for x in row])


def _operands(f: Lowering, e: c.Vector, row: list[int]) -> None:
    row[V.COUNT] = len(e.operands)
    row[V.DSDS] = row[V.POINTERS] = 0
    for k, operand in enumerate(e.operands):
        if k and e.op != "map" and _reads_destination(e.operands[0], operand):
            # `@fmaxs(&most, most, dsd)` reduces: the scalar is the one that each element changes.
            row[OPERANDS[k]] = row[OPERANDS[0]]
            row[V.POINTERS] |= 1 << k
            continue
        row[OPERANDS[k]] = f.scalar(operand)
        if operand.type in t.DSDS or operand.type in t.DSRS:
            row[V.DSDS] |= 1 << k
        elif isinstance(operand.type, t.Pointer) and (e.op != "map" or k >= len(_callback(e).params)):
            row[V.POINTERS] |= 1 << k


def _reads_destination(dest: c.Code, source: c.Code) -> bool:
    """Whether a source is the very variable that the destination points at."""
    pointed = _pointed_at(dest)
    if pointed is None:
        return False
    base, offset = pointed
    if isinstance(source, c.Local):
        return isinstance(base, c.Local) and base.slot == source.slot and offset == 0
    return isinstance(source, c.Load) and not source.place.terms and (source.place.base, source.place.offset) == pointed


def _pointed_at(dest: c.Code) -> tuple[Any, int] | None:
    """The variable and offset that a pointer of known place has; a variable of the program is a constant."""
    if isinstance(dest, c.AddressOf) and not dest.place.terms and isinstance(dest.place.offset, int):
        return dest.place.base, dest.place.offset
    if isinstance(dest, c.Constant) and isinstance(dest.data, Address) and isinstance(dest.data.offset, int):
        return dest.data.base, dest.data.offset
    return None


def _callback(e: c.Vector) -> c.Instance:
    return cast(c.Instance, e.settings["callback"])


def _map(f: Lowering, e: c.Vector, row: list[int]) -> None:
    callback = _callback(e)
    kinds = [kind_of(p) for p in callback.params]
    if None in kinds:
        fail("E1045", f"@map of `{callback.name}`, whose parameters are no scalars, cannot be run", e.span)
    result = kind_of(callback.result)
    if result is None and callback.result != t.VOID:
        fail("E1045", f"@map of `{callback.name}`, whose result is no scalar, cannot be run", e.span)
    f.calls[callback] = None
    row[V.OP], row[V.WIDTH] = VectorOp.MAP, 1
    row[V.CALLBACK] = f.made.numbers[callback]
    row[V.HAS_OUTPUT] = int(result is not None)
    row[V.DEST_KIND] = Kind.BOOL if result is None else result
    row[V.SOURCE_KIND] = kinds[0] if kinds and kinds[0] is not None else Kind.BOOL


def _settings(f: Lowering, e: c.Vector, row: list[int]) -> None:
    for name, value in e.settings.items():
        match name:
            case "async":
                row[V.ASYNC] = int(value)
            case "save_address":
                row[V.SAVE_ADDRESS] = int(value)
            case "priority":
                row[V.PRIORITY] = _PRIORITY.index(value)
            case "activate":
                row[V.ACTIVATE] = f.scalar(value)
            case "unblock":
                row[V.UNBLOCK] = f.scalar(value)
                row[V.UNBLOCK_KIND] = BLOCK_KINDS[value.type]
            case "ut_id":
                row[V.MICROTHREAD] = f.scalar(value)
            case "index":
                row[V.INDEX] = f.scalar(value)
            case "on_control":
                row[V.ON_CONTROL] = _on_control(f, value)
            case _:
                pass
    if row[V.PRIORITY] < 0:
        row[V.PRIORITY] = _own_priority(e)


def _on_control(f: Lowering, value: Any) -> int:
    """Nothing, the end, or the end and a task whose id a register holds."""
    if value is None or value == "terminate":
        return int(value is not None)
    return ON_CONTROL_REGISTER + f.scalar(value)


def _own_priority(e: c.Vector) -> int:
    """The priority that a known fabric operand brings with it, or -1."""
    for operand in e.operands:
        fields = getattr(getattr(operand, "data", None), "fields", None)
        if isinstance(fields, dict) and "priority" in fields:
            return _PRIORITY.index(cast("dict[str, Any]", fields)["priority"])
    return -1


# ---- descriptors ---------------------------------------------------------------------------------


def make_dsd(f: Lowering, e: c.Make) -> int:
    """A descriptor of which some fields are computed: what is known is packed, the rest put in."""
    b, kind = f.b, cast(t.Basic, e.type)
    made = b.constant(f.made.dsd(kind, e.fields))
    extents = cast("tuple[Any, ...]", e.fields.get("extents", (e.fields.get("extent"),)))
    if kind == t.MEM4D and any(_later(x) for x in extents):
        fail(
            "E1045", "a mem4d_dsd whose extents only a run knows cannot be run", e.span, help="use mem1d_dsd in a loop"
        )
    base = e.fields.get("base")
    if base is not None and _later(base):
        moved = made
        made = b.emit(Op.DSD_BASE, _element(e), b.value(), moved, f.scalar(base))
        _offset(f, e, made)
    elif _later(e.fields.get("offset")):
        made = b.emit(Op.DSD_MOVE, 0, b.value(), made, f.scalar(e.fields["offset"]), t.size_bytes(e.fields["element"]))
    if _later(extents[0]):
        made = b.emit(Op.DSD_LENGTH, 0, b.value(), made, f.scalar(extents[0]))
    for name, shift in (("input_queue", 16), ("output_queue", 16), ("fabric_color", 24)):
        if _later(e.fields.get(name)):
            made = _put_field(f, made, f.scalar(e.fields[name]), shift)
    return made


def _element(e: c.Make) -> Kind:
    element = cast(t.Type, e.fields["element"])
    return scalar_kind(element.element if isinstance(element, t.Array) else element)


def _offset(f: Lowering, e: c.Make, made: int) -> None:
    """The offset of a base that is computed, in elements."""
    offset = e.fields.get("offset")
    if offset is not None:
        f.b.emit(Op.DSD_MOVE, 0, made, made, f.scalar(offset), t.size_bytes(e.fields["element"]))


def _later(x: Any) -> bool:
    return x is not None and not isinstance(x, c.Constant | Known | t.Basic | int | tuple)


def _put_field(f: Lowering, dsd: int, value: int, shift: int) -> int:
    """An unsigned field of 8 bits that is 0 so far, or NO_COLOR."""
    b = f.b
    mask = ~(0xFF << shift)
    cleared = b.operate(Op.AND, Kind.U64, dsd, b.constant(mask))
    return b.operate(Op.OR, Kind.U64, cleared, b.operate(Op.SHL, Kind.U64, value, b.constant(shift)))
