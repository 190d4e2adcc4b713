"""What the functions of an image share while they are lowered: constants, texts, places, and the memory of a class.

Everything is numbered in the order of first use, so that the same program always gives the same image.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Span
from ..csl import code as c
from ..csl import types as t
from ..csl.calls import pointed_instance
from ..csl.program import CodeClass
from ..csl.values import Address, ArrayData, Cell, Dsd, Dsr, Known, Symbol, by_lane, fail
from ..csl.world import FnValue
from . import ir
from .costs import kind_bytes
from .ir import FifoRow, Function, Kind, SymbolRow, pack

# An integer, or one for each lane of the class.
Bits = Any

_KINDS: dict[t.Type, Kind] = {
    t.BOOL: Kind.BOOL, t.I8: Kind.I8, t.U8: Kind.U8, t.I16: Kind.I16, t.U16: Kind.U16, t.I32: Kind.I32,
    t.U32: Kind.U32, t.I64: Kind.I64, t.U64: Kind.U64, t.F16: Kind.F16, t.F32: Kind.F32, t.DIRECTION: Kind.U16,
    **dict.fromkeys(t.IDS, Kind.U16), **dict.fromkeys(t.DSDS, Kind.DSD), **dict.fromkeys(t.DSRS, Kind.DSD),
}  # fmt: skip
_SIGNED_64 = 1 << 63


def kind_of(type: t.Type) -> Kind | None:
    """The Kind of a scalar; None of what takes several registers or none."""
    match type:
        case t.Pointer() | t.Function():
            return Kind.U16
        case t.Enum(_, base):
            return _KINDS[base]
        case _:
            return _KINDS.get(type)


def scalar_kind(type: t.Type) -> Kind:
    """The Kind of a scalar type. Raises KeyError for another."""
    kind = kind_of(type)
    if kind is None:
        raise KeyError(f"{t.show(type)} is no scalar")
    return kind


def leaves(type: t.Type, offset: int = 0) -> tuple[tuple[int, Kind], ...] | None:
    """(offset in bytes, Kind) of each scalar of a value that is kept in registers; None of one with arrays in it."""
    if isinstance(type, t.Array):
        return None
    if isinstance(type, t.Struct):
        offsets = t.struct_offsets(type)
        made: list[tuple[int, Kind]] = []
        for name, inner in type.fields:
            part = leaves(inner, offset + offsets[name])
            if part is None:
                return None
            made += part
        return tuple(made)
    return () if type == t.VOID else ((offset, scalar_kind(type)),)


def number_bits(data: Any, kind: Kind) -> Bits:
    """A number (or one per lane) as a register of `kind` holds it."""
    if kind in (Kind.F16, Kind.F32):
        half = kind == Kind.F16
        with np.errstate(over="ignore"):
            kept = np.asarray(data, np.float64).astype(np.float16 if half else np.float32)
        made = kept.view(np.uint16 if half else np.uint32).astype(np.int64)
        return made if by_lane(data) else int(made)
    if by_lane(data):
        return cast("NDArray[Any]", data).astype(np.int64)
    value = int(data)
    return value - 2 * _SIGNED_64 if value >= _SIGNED_64 else value


@dataclass(slots=True)
class Tables:
    """The tables of an image under way."""

    code: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    cost: list[int] = field(default_factory=list[int])
    span_of: list[int] = field(default_factory=list[int])
    spans: dict[Span, int] = field(default_factory=dict[Span, int])
    constants: dict[int, int] = field(default_factory=dict[int, int])
    vectors: list[list[int]] = field(default_factory=list[list[int]])
    shapes: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    texts: dict[str, int] = field(default_factory=dict[str, int])
    functions: list[Function] = field(default_factory=list[Function])

    def span(self, span: Span) -> int:
        return self.spans.setdefault(span, len(self.spans))

    def constant(self, value: int) -> int:
        return self.constants.setdefault(value, len(self.constants))

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def shape(self, extents: tuple[int, ...], strides: tuple[int, ...]) -> int:
        """The row of a shape, innermost last; axes that are missing lie outside."""
        more = 4 - len(extents)
        row = (*[1] * more, *extents, *[0] * more, *strides)
        return self.shapes.setdefault(row, len(self.shapes))


@dataclass(slots=True, eq=False)
class ClassTables:
    """A class under way: places of its symbols, numbers of its functions, its lanes, and what is added to memory."""

    made: CodeClass
    tables: Tables
    addresses: dict[Symbol, int]
    numbers: dict[c.Instance, int]
    end: int
    symbols: list[SymbolRow] = field(default_factory=list[SymbolRow])
    lanes: dict[bytes, int] = field(default_factory=dict[bytes, int])
    rows: list[NDArray[np.int64]] = field(default_factory=list["NDArray[np.int64]"])
    fifos: dict[int, int] = field(default_factory=dict[int, int])
    fifo_rows: list[FifoRow] = field(default_factory=list[FifoRow])
    # Queues that DSDs name: (input?, id, color or -1).
    named_queues: dict[tuple[bool, int, int], None] = field(default_factory=dict["tuple[bool, int, int]", None])
    # Functions that can be called by pointer.
    pointed: dict[c.Instance, None] = field(default_factory=dict["c.Instance", None])

    @property
    def count(self) -> int:
        return len(self.made.x)

    def allocate(self, name: str, bytes: int, align: int, span: Span, initial: NDArray[np.uint8] | None = None) -> int:
        """Memory of the class after all symbols; its address."""
        at = t.rounded(self.end, align)
        self.end = at + bytes
        self.symbols.append(SymbolRow(name, at, bytes, initial, span))
        return at

    def lane_row(self, values: NDArray[np.int64]) -> int:
        key = values.tobytes()
        if key not in self.lanes:
            self.lanes[key] = len(self.rows)
            self.rows.append(values)
        return self.lanes[key]

    # ---- constants as bits ---------------------------------------------------------------------

    def bits(self, type: t.Type, data: Any) -> Bits:
        """A scalar constant as a register holds it: an integer, or one for each lane."""
        match data:
            case Address(base, offset):
                if isinstance(base, Cell):
                    fail("E1016", f"`{base.name}` lives only when compiling: a PE cannot point at it", base.span)
                return self.addresses[base] + offset
            case FnValue() | c.Instance():
                return self.function_number(data)
            case Dsd():
                return self.dsd(data.kind, data.fields)
            case Dsr(kind, id):
                return pack(ir.Dsd.DSR, id | (t.DSR_DEST, t.DSR_SRC0, t.DSR_SRC1).index(kind) << 8)
            case None:
                return 0
            case _:
                return number_bits(data, scalar_kind(type))

    def function_number(self, data: FnValue | c.Instance) -> int:
        """The number of a function that is pointed at."""
        instance = data if isinstance(data, c.Instance) else pointed_instance(data, data.module.span(data.decl.name_at))
        self.pointed[instance] = None
        return self.numbers[instance]

    def dsd(self, kind: t.Basic, fields: dict[str, Any]) -> Bits:
        """A descriptor packed; fields that only a run knows are left 0."""
        if kind == t.FIFO:
            return pack(ir.Dsd.FIFO, self.fifo(fields))
        if kind in t.MEMORY_DSDS:
            return self._memory(kind, fields)
        color = _known(fields, "fabric_color", ir.NO_COLOR)
        queue = _known(fields, "input_queue" if kind == t.FABIN else "output_queue", 0)
        self._name(kind == t.FABIN, queue, color)
        flags = _flag(fields, "control", ir.FLAG_CONTROL) | _flag(fields, "advance_switch", ir.FLAG_ADVANCE)
        flags |= _flag(fields, "wavelet_index_offset", ir.FLAG_INDEX) | _SIMD.get(fields.get("simd_mode", ""), 0)
        flags |= ir.FLAG_ON_CONTROL_TERMINATE if fields.get("on_control") == "terminate" else 0
        low = ir.Dsd.FABIN if kind == t.FABIN else ir.Dsd.FABOUT
        return packed(low, _known(fields, "extent", 0), queue | color << 8, 0, Kind.BOOL, flags)

    def _name(self, is_input: bool, queue: Bits, color: Bits) -> None:
        both = np.broadcast_arrays(np.asarray(queue, np.int64), np.asarray(color, np.int64))
        pairs = np.unique(np.stack([np.atleast_1d(x) for x in both], axis=1), axis=0)
        for id, number in pairs.tolist():
            self.named_queues[is_input, id, -1 if number == ir.NO_COLOR else number] = None

    def _memory(self, kind: t.Basic, fields: dict[str, Any]) -> Bits:
        element, base = fields["element"], fields["base"]
        element = element.element if isinstance(element, t.Array) else element
        at = self.bits(base.type, base.data) if isinstance(base, Known | c.Constant) else 0
        at = at + _known(fields, "offset", 0) * t.size_bytes(element)
        flags = _flag(fields, "wavelet_index_offset", ir.FLAG_INDEX)
        element_kind = kind_of(element)
        if element_kind is None:
            fail("E1045", f"a DSD over elements of type {t.show(element)} cannot be run", _span_of(base))
        extents = tuple(_value(x) for x in fields["extents"])
        strides = tuple(_value(x) for x in fields["strides"])
        if kind == t.MEM1D:
            return packed(ir.Dsd.MEM1D, at, extents[0], strides[0], element_kind, flags)
        return packed(ir.Dsd.MEM4D, at, self._shape(extents, strides), 0, element_kind, flags)

    def _shape(self, extents: tuple[Any, ...], strides: tuple[Any, ...]) -> Bits:
        """The row of `shapes`; one for each lane where they differ."""
        both = (*extents, *strides)
        if not any(by_lane(x) for x in both):
            return self.tables.shape(extents, strides)
        table = np.stack([np.broadcast_to(np.asarray(x, np.int64), self.count) for x in both], axis=1)
        unique, which = np.unique(table, axis=0, return_inverse=True)
        rank = len(extents)
        rows = [self.tables.shape(tuple(row[:rank]), tuple(row[rank:])) for row in unique.tolist()]
        return np.array(rows, np.int64)[which.ravel()]

    def fifo(self, fields: dict[str, Any]) -> int:
        """The row of the FIFO whose buffer is that of `fields`."""
        buffer = fields["buffer"]
        at = self.bits(buffer.type, buffer.data)
        if at not in self.fifos:
            self.fifos[at] = len(self.fifo_rows)
            element = kind_of(fields["element"])
            if element is None:
                fail("E1045", f"a FIFO of {t.show(fields['element'])} cannot be run", _span_of(buffer))
            count = int(fields["count"])
            self.fifo_rows.append(
                FifoRow(
                    at, element, count, int(_known(fields, "activate_push", -1)),
                    int(_known(fields, "activate_pop", -1)), int(_known(fields, "length", count)),
                    int(_known(fields, "read_length", 0)), int(_known(fields, "write_length", 0)),
                )
            )  # fmt: skip
        return self.fifos[at]

    # ---- constants as bytes --------------------------------------------------------------------

    def image(self, type: t.Type, data: Any) -> NDArray[np.uint8]:
        """The bytes of a value in memory: (bytes), or (lanes, bytes) where lanes differ."""
        parts: list[_Part] = []
        self._parts(type, data, 0, parts)
        rows = (self.count,) if any(part.lanes for part in parts) else ()
        made = np.zeros((*rows, t.size_bytes(type)), np.uint8)
        for part in parts:
            made[..., part.offset : part.offset + part.bytes.shape[-1]] = part.bytes
        return made

    def _parts(self, type: t.Type, data: Any, offset: int, parts: list[_Part]) -> None:
        if data is None:
            return
        if isinstance(type, t.Struct):
            offsets = t.struct_offsets(type)
            for name, inner in type.fields:
                self._parts(inner, data[name].data, offset + offsets[name], parts)
        elif isinstance(type, t.Array):
            self._array(type, data, offset, parts)
        elif type != t.VOID:
            bits = np.asarray(self.bits(type, data), np.int64)
            parts.append(
                _Part(offset, bits[..., None].view(np.uint8)[..., : kind_bytes(scalar_kind(type))], bits.ndim > 0)
            )

    def _array(self, type: t.Array, data: ArrayData, offset: int, parts: list[_Part]) -> None:
        size, kind = t.size_bytes(type.element), kind_of(type.element)
        if data.items.dtype == np.dtype(object) or kind is None:
            for k, item in enumerate(data.items.ravel()):
                self._parts(type.element, item.data, offset + k * size, parts)
            return
        # [lanes, element], or [element]
        bits = _stored(data.items.reshape(-1, type.count) if data.lanes else data.items.reshape(type.count), kind)
        raw = bits[..., None].view(np.uint8)[..., :size]
        parts.append(_Part(offset, raw.reshape(*bits.shape[:-1], type.count * size), data.lanes))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Bytes of a value from `offset` on: (bytes), or (lanes, bytes)."""

    offset: int
    bytes: NDArray[np.uint8]
    lanes: bool


def _stored(items: NDArray[Any], kind: Kind) -> NDArray[np.int64]:
    """Elements as ArrayData keeps them, as bits."""
    if kind in (Kind.F16, Kind.F32):
        return cast("NDArray[np.int64]", number_bits(np.atleast_1d(items).astype(np.float64), kind))
    return np.ascontiguousarray(items.astype(np.int64))


def _span_of(base: Any) -> Span | None:
    data = getattr(base, "data", None)
    return data.base.span if isinstance(data, Address) else getattr(base, "span", None)


def _value(x: Any) -> Any:
    """The number that a field of a DSD is; 0 where only a run knows."""
    if isinstance(x, Known | c.Constant):
        return x.data
    return x if isinstance(x, int) or by_lane(x) else 0


def _known(fields: dict[str, Any], name: str, missing: int) -> Any:
    return _value(fields[name]) if name in fields else missing


def _flag(fields: dict[str, Any], name: str, flag: int) -> Any:
    value = _known(fields, name, 0)
    return np.where(value, flag, 0).astype(np.int64) if by_lane(value) else flag * bool(value)


_SIMD = {"simd_32": ir.FLAG_SIMD32, "simd_64": ir.FLAG_SIMD64, "simd_32_or_64": ir.FLAG_SIMD32}


def packed(kind: ir.Dsd, low: Bits, middle: Bits, high: Bits, element: Kind, flags: Bits) -> Bits:
    """`ir.pack`, for one or for each lane."""
    if not any(by_lane(x) for x in (low, middle, high, flags)):
        return pack(kind, int(low), int(middle), int(high), element, int(flags))
    parts = [np.asarray(x, np.int64) for x in (low, middle, high, flags)]
    made = (parts[0] & 0xFFFF) | (parts[1] & 0xFFFF) << 16 | (parts[2] & 0xFFFF) << 32
    return made | (int(kind) << 48 | int(element) << 52) | parts[3] << 56
