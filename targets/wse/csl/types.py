"""CSL's types: how they are written, how much memory a value takes, which converts to which.

Sizes are those of a processing element with 16-bit words. Must not know values or syntax.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Basic:
    """A type known by its name alone: `bool`, `color`, `mem1d_dsd`, `comptime_int`."""

    name: str


@dataclass(frozen=True, slots=True)
class Int:
    bits: int
    signed: bool

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - int(self.signed))) - 1


@dataclass(frozen=True, slots=True)
class Float:
    bits: int


@dataclass(frozen=True, slots=True)
class Array:
    dims: tuple[int, ...]
    element: Type

    @property
    def count(self) -> int:
        return prod(self.dims)


@dataclass(frozen=True, slots=True)
class Pointer:
    """`*T`, or `[*]T` (`many`)."""

    to: Type
    many: bool
    const: bool


@dataclass(frozen=True, slots=True)
class Function:
    """Of a `fn` or a `task`; a parameter of None is `anytype`."""

    params: tuple[Type | None, ...]
    result: Type
    is_task: bool


@dataclass(frozen=True, slots=True)
class Struct:
    """Two structs are one type when name (with the file) and fields agree."""

    name: str
    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Enum:
    name: str
    base: Int
    members: tuple[tuple[str, int], ...]


Type: TypeAlias = Basic | Int | Float | Array | Pointer | Function | Struct | Enum

VOID, BOOL, TYPE = Basic("void"), Basic("bool"), Basic("type")
COMPTIME_INT, COMPTIME_FLOAT = Basic("comptime_int"), Basic("comptime_float")
STRING, ANON, ANYTYPE, MODULE = (
    Basic("comptime_string"),
    Basic("comptime_struct"),
    Basic("anytype"),
    Basic("imported_module"),
)
RANGE, UNDEFINED = Basic("range"), Basic("undefined")
DIRECTION, COLOR = Basic("direction"), Basic("color")
LOCAL_ID, DATA_ID, CONTROL_ID = Basic("local_task_id"), Basic("data_task_id"), Basic("control_task_id")
INPUT_QUEUE, OUTPUT_QUEUE, UT_ID = Basic("input_queue"), Basic("output_queue"), Basic("ut_id")
MEM1D, MEM4D, FABIN, FABOUT, FIFO = (
    Basic("mem1d_dsd"),
    Basic("mem4d_dsd"),
    Basic("fabin_dsd"),
    Basic("fabout_dsd"),
    Basic("fifo_dsd"),
)
DSR_DEST, DSR_SRC0, DSR_SRC1 = Basic("dsr_dest"), Basic("dsr_src0"), Basic("dsr_src1")
I8, I16, I32, I64 = (Int(bits, True) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Int(bits, False) for bits in (8, 16, 32, 64))
F16, F32 = Float(16), Float(32)

IDS = frozenset({COLOR, LOCAL_ID, DATA_ID, CONTROL_ID, INPUT_QUEUE, OUTPUT_QUEUE, UT_ID})
MEMORY_DSDS = frozenset({MEM1D, MEM4D})
DSDS = frozenset({MEM1D, MEM4D, FABIN, FABOUT, FIFO})
DSRS = frozenset({DSR_DEST, DSR_SRC0, DSR_SRC1})
COMPTIME_ONLY = frozenset({TYPE, COMPTIME_INT, COMPTIME_FLOAT, STRING, ANON, MODULE, RANGE, UNDEFINED})

# Names that stand for types in every module.
NAMED: dict[str, Type] = {
    **{b.name: b for b in (VOID, BOOL, TYPE, COMPTIME_INT, COMPTIME_FLOAT, STRING, ANON, ANYTYPE, DIRECTION)},
    **{b.name: b for b in sorted(IDS | DSDS | DSRS, key=lambda b: b.name)},
    "i8": I8, "i16": I16, "i32": I32, "i64": I64, "u8": U8, "u16": U16, "u32": U32, "u64": U64, "f16": F16, "f32": F32,
    "imported_module": MODULE,
}  # fmt: skip

# Bytes of values that hardware names; DSD and DSR sizes are a guess (the public documents do not tell).
_BYTES = {
    **dict.fromkeys([DIRECTION, *IDS], 2), **dict.fromkeys(DSRS, 8), VOID: 0, BOOL: 1, MEM1D: 8, FABIN: 8, FABOUT: 8,
    FIFO: 8, MEM4D: 20,
}  # fmt: skip


def show(type: Type | None) -> str:
    """`type` as it is written in CSL."""
    match type:
        case None:
            return "anytype"
        case Basic(name):
            return name
        case Int(bits, signed):
            return f"{'i' if signed else 'u'}{bits}"
        case Float(bits):
            return f"f{bits}"
        case Array(dims, element):
            return f"[{', '.join(map(str, dims))}]{show(element)}"
        case Pointer(to, many, const):
            return f"{'[*]' if many else '*'}{'const ' if const else ''}{show(to)}"
        case Function(params, result, is_task):
            return f"{'task' if is_task else 'fn'}({', '.join(map(show, params))}) {show(result)}"
        case Struct(name) | Enum(name):
            return name.rpartition("#")[2]


def is_number(type: Type) -> bool:
    return isinstance(type, Int | Float) or type in (COMPTIME_INT, COMPTIME_FLOAT)


def is_integer(type: Type) -> bool:
    return isinstance(type, Int) or type == COMPTIME_INT


def is_float(type: Type) -> bool:
    return isinstance(type, Float) or type == COMPTIME_FLOAT


def comptime_only(type: Type) -> bool:
    """Whether no processing element can hold a value of `type`."""
    match type:
        case Array(_, element):
            return comptime_only(element)
        case Struct(_, fields):
            return any(comptime_only(t) for _, t in fields)
        case Pointer(to):
            return comptime_only(to)
        case _:
            return type in COMPTIME_ONLY


def holds_functions(type: Type) -> bool:
    """Whether a value of `type` is, points at or has in it a function."""
    match type:
        case Array(_, element):
            return holds_functions(element)
        case Struct(_, fields):
            return any(holds_functions(t) for _, t in fields)
        case Pointer(to):
            return isinstance(to, Function)
        case _:
            return isinstance(type, Function)


def align_bytes(type: Type) -> int:
    """What the address of a value is a multiple of: its size up to 4 (a guess for 32-bit values)."""
    match type:
        case Array(_, element):
            return align_bytes(element)
        case Struct(_, fields):
            return max((align_bytes(t) for _, t in fields), default=1)
        case _:
            return min(max(size_bytes(type), 1), 4) if size_bytes(type) in (1, 2, 4) else 2


def size_bytes(type: Type) -> int:
    """Bytes of memory a value takes; fields and elements are aligned. Raises ValueError for a comptime type."""
    match type:
        case Int(bits) | Float(bits):
            return bits // 8
        case Array(_, element):
            return size_bytes(element) * type.count
        case Pointer() | Function():
            return 2
        case Enum(_, base):
            return size_bytes(base)
        case Struct(_, fields):
            end = struct_offsets(type)[fields[-1][0]] + size_bytes(fields[-1][1]) if fields else 0
            return rounded(end, align_bytes(type))
        case Basic():
            if type not in _BYTES:
                raise ValueError(f"{show(type)} takes no memory")
            return _BYTES[type]


def struct_offsets(struct: Struct) -> dict[str, int]:
    """Byte offset of each field."""
    offsets: dict[str, int] = {}
    at = 0
    for name, type in struct.fields:
        at = rounded(at, align_bytes(type))
        offsets[name] = at
        at += size_bytes(type)
    return offsets


def rounded(value: int, step: int) -> int:
    """`value` rounded up to a multiple of `step`."""
    return -(-value // step) * step


def widens(source: Type, target: Type) -> bool:
    """Whether every value of `source` is one of `target`."""
    match source, target:
        case Int(), Int():
            return target.low <= source.low and source.high <= target.high
        case Float(a), Float(b):
            return a <= b
        case _:
            return source == target
