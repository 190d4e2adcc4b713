"""Vector operations of a group: over memory at once, or over streams with the times of every element.

Must not know who runs when; what a finished operation brings about is told to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batched_group import Claim, ClassState, Group, Value, guard_range, row, simplest, spread
from .batched_kernels import (
    lanes_all_written,
    lanes_elements,
    lanes_f32,
    lanes_gather,
    lanes_gather_words,
    lanes_move_words,
    lanes_scatter,
    lanes_scatter_words,
    lanes_vector,
)  # fmt: skip
from .batched_streams import Ints, NotAlone, Taken
from .batched_threads import over_lanes
from .costs import kind_bytes
from .ir import FLAG_INDEX, NO_COLOR, Dsd, Kind, V, VectorOp
from .reference_values import stride_width

_OPERAND0 = int(V.OPERAND0)
_FAST = {int(o) for o in (VectorOp.MAC, VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MOV)}
_F32 = int(Kind.F32)
_UNSET = "an operation over memory that is not set"
Words = NDArray[np.uint32]
# An extent without end.
_INFINITE = 0x7FFF


@dataclass(slots=True, eq=False)
class Operand:
    """An operand: a scalar (`base` is its bits), memory (base and stride in bytes), or a queue."""

    what: str
    base: Value
    stride: Value
    extent: int | None
    kind: int
    queue: int = -1
    color: int = -1
    dsr: int = -1


@dataclass(slots=True, eq=False)
class Operation:
    """An operation issued by PEs (`lanes`) of a class: what it does, since when it may, and what follows it."""

    home: ClassState
    lanes: Ints
    op: int
    kind: int
    source: int
    width: int
    count: int
    operands: list[Operand]
    ready: Ints
    is_async: bool
    activate: Value
    unblock: Value
    group: Group | None = None
    result: int = -1
    waiting: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    position: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    claims: list[Claim] = field(default_factory=list[Claim])

    @property
    def inputs(self) -> list[Operand]:
        return [o for o in self.operands if o.what == "in"]

    @property
    def output(self) -> Operand | None:
        return self.operands[0] if self.operands[0].what == "out" else None

    @property
    def moves_words(self) -> bool:
        """Whether it puts words of 4 bytes into memory as they come."""
        plain = self.op == VectorOp.MOV and self.kind == self.source and kind_bytes(Kind(self.kind)) == 4
        target = self.operands[0]
        if not plain or target.what != "memory" or self.operands[1].what != "in":
            return False
        return not ((row(target.base) & 3).any() or (row(target.stride) & 3).any())

    @property
    def streams(self) -> bool:
        return any(o.what in ("in", "out") for o in self.operands)


def fields_of(bits: Value) -> tuple[Value, Value, Value, Value, Value, Value]:
    """(low, middle, high, kind, element, flags) of a packed DSD."""
    return bits & 0xFFFF, bits >> 16 & 0xFFFF, bits >> 32 & 0xFFFF, bits >> 48 & 15, bits >> 52 & 15, bits >> 56 & 255


def issue(g: Group, vectors: NDArray[np.int32], number: int, setup: int) -> Operation:
    """The operation of row `number`, issued by `g` now. NotAlone for what only the reference does."""
    v = [int(x) for x in vectors[number]]
    op = v[V.OP]
    if op in (VectorOp.MAP, VectorOp.LOAD_DSR, VectorOp.ADDC) or v[V.ON_CONTROL] > 0:
        raise NotAlone(f"{VectorOp(op).name.lower()} operations")
    kind = v[V.DEST_KIND]
    if op == VectorOp.ADD and kind not in (Kind.F16, Kind.F32):
        raise NotAlone("additions with a carry")
    source = v[V.SOURCE_KIND] if v[V.SOURCE_KIND] >= 0 else kind
    operands = [_operand(g, v, k, op, kind, source) for k in range(v[V.COUNT])]
    is_async = v[V.ASYNC] > 0
    unblock: Value = g.get(v[V.UNBLOCK]) if v[V.UNBLOCK] >= 0 else -1
    if v[V.UNBLOCK] >= 0 and v[V.UNBLOCK_KIND] != 0:
        raise NotAlone("operations that unblock a queue or color")
    if v[V.INDEX] >= 0:
        raise NotAlone("offsets by a wavelet's index")
    activate: Value = g.get(v[V.ACTIVATE]) if v[V.ACTIVATE] >= 0 else -1
    ready = spread(g.clock, g.size) + setup
    return Operation(
        g.home, g.lanes, op, kind, source, v[V.WIDTH], _length(operands), operands, ready, is_async, activate, unblock
    )  # fmt: skip


def _operand(g: Group, v: list[int], k: int, op: int, kind: int, source: int) -> Operand:
    each = _kind_of(op, k, kind, source)
    bits = g.get(v[_OPERAND0 + k])
    if not v[V.DSDS] >> k & 1:
        pointer = bool(v[V.POINTERS] >> k & 1)
        return Operand("memory" if pointer else "scalar", bits, 0, None, each)
    dsr = -1
    if not isinstance(bits, np.ndarray) and bits >> 48 & 15 == Dsd.DSR:
        dsr = bits & 0xFFFF
        if dsr not in g.home.dsrs:
            raise NotAlone("a DSR that nothing was loaded into")
        bits = simplest(g.home.dsrs[dsr][g.lanes])
    return _unpacked(g, bits, each, dsr)


def _kind_of(op: int, k: int, kind: int, source: int) -> int:
    if op == VectorOp.SCALE and k == 2:
        return int(Kind.I16)
    narrow = (op == VectorOp.ADD and k == 2) or (op == VectorOp.MAC and k >= 2) or (op == VectorOp.CONVERT and k == 1)
    return source if narrow else kind


def _unpacked(g: Group, bits: Value, kind: int, dsr: int) -> Operand:
    low, middle, high, what, element_kind, flags = (_one(x) for x in fields_of(bits))
    if isinstance(what, np.ndarray) or isinstance(flags, np.ndarray) or isinstance(element_kind, np.ndarray):
        raise NotAlone("DSDs of different kinds")
    if isinstance(middle, np.ndarray):
        raise NotAlone("DSDs of different extents")
    if what == Dsd.MEM1D:
        if flags:
            raise NotAlone("DSDs with a wavelet's index")
        size = kind_bytes(Kind(kind))
        stride = (high ^ 0x8000) - 0x8000
        return Operand("memory", low, stride * size, middle, kind, dsr=dsr)
    if what not in (Dsd.FABIN, Dsd.FABOUT) or flags & ~FLAG_INDEX or flags & FLAG_INDEX:
        raise NotAlone("DSDs of other kinds than mem1d, fabin and fabout")
    if isinstance(low, np.ndarray) or low == _INFINITE:
        raise NotAlone("fabric operations of different or endless extents")
    queue, color = middle & 255, middle >> 8 & 255
    bound = next((q[2] for q in g.home.row.queues if q[0] == (what == Dsd.FABIN) and q[1] == queue), -1)
    if what == Dsd.FABIN or color == NO_COLOR:
        color = bound
    if color < 0:
        raise NotAlone("a queue without a color")
    return Operand("in" if what == Dsd.FABIN else "out", 0, 0, low, kind, queue, color)


def _one(value: Value) -> Value:
    return simplest(value) if isinstance(value, np.ndarray) else value


def _length(operands: list[Operand]) -> int:
    """Elements: the extent of the first source that has one, else that of the destination, else one."""
    n = -1
    for k in range(len(operands)):
        extent = operands[(k + 1) % len(operands)].extent
        if extent is not None and n <= 0:
            n = extent
    return 1 if n < 0 else n


# ---- over memory --------------------------------------------------------------------------------------


def cycles_of(o: Operation) -> Value:
    """Cycles over memory, by the width that strides allow."""
    width: Value = o.width
    for operand in o.operands:
        if operand.what == "memory":
            width = _least(width, _width(o.width, operand.stride, kind_bytes(Kind(operand.kind))))
    return -(-o.count // width)


def _least(a: Value, b: Value) -> Value:
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def _width(width: int, stride: Value, size: int) -> Value:
    if isinstance(stride, np.ndarray):
        return np.array([_width(width, int(s), size) for s in stride], np.int64)
    return int(stride_width(width, stride, size))


def span_of(operand: Operand, count: int) -> tuple[int, int]:
    """The bytes that an operand in memory uses: low .. high - 1."""
    last = operand.base + (count - 1) * operand.stride
    ends = np.concatenate((row(operand.base), row(last)))
    return int(ends.min()), int(ends.max()) + kind_bytes(Kind(operand.kind))


def check_symbol(g: Group, operand: Operand, count: int) -> None:
    """NotAlone when an operand leaves the variable it begins in, which the reference would refuse."""
    if count <= 0:
        return
    low, high = span_of(operand, count)
    for symbol in g.home.row.symbols:
        if symbol.address <= int(row(operand.base)[0]) < symbol.address + symbol.bytes:
            if low < symbol.address or high > symbol.address + symbol.bytes:
                raise NotAlone("a DSD leaves its variable")
            return
    if low < 0 or high > g.home.row.memory_bytes:
        raise NotAlone("a DSD leaves the memory of its PE")


def over_memory(g: Group, o: Operation, memory: Any, written: Any, words: Any) -> None:
    """Do all elements of an operation whose operands lie in memory."""
    for k, operand in enumerate(o.operands):
        if operand.what == "memory":
            check_symbol(g, operand, o.count)
            guard_range(g, *span_of(operand, max(o.count, 1)), k == 0)
    if o.count <= 0:
        return
    n, operands = g.size, o.operands
    base = np.zeros((4, n), np.int64)
    stride = np.zeros((4, n), np.int64)
    is_memory = np.zeros(4, np.int64)
    kinds = np.zeros(4, np.int64)
    for k, operand in enumerate(operands):
        base[k], stride[k], kinds[k] = operand.base, operand.stride, operand.kind
        is_memory[k] = operand.what == "memory"
    at, bytes = g.at, g.home.row.memory_bytes
    if _is_fast(o) and _fast(o, at, bytes, base, stride, is_memory, written, words):
        return
    good = lanes_vector(
        memory, written, at, bytes, o.op, o.kind, o.source, o.count, base, stride, is_memory, kinds, len(operands)
    )
    if not good:
        raise NotAlone(_UNSET)


def _is_fast(o: Operation) -> bool:
    return o.op in _FAST and o.kind == _F32 and o.source == _F32


def _fast(o: Operation, at: Ints, bytes: int, base: Any, stride: Any, is_memory: Any, written: Any, words: Any) -> bool:
    """The common operations in f32 on whole words; False for others, with nothing done."""
    used = [k for k, x in enumerate(o.operands) if x.what == "memory"]
    if (base[used] & 3).any() or (stride[used] & 3).any():
        return False
    for k in used[1:] if used[0] == 0 else used:
        if not lanes_all_written(written, at, base[k], stride[k], o.count, 4, bytes):
            return False
    scalars = base.astype(np.uint32).view(np.float32)
    lanes_f32(words, at >> 2, o.op, o.count, base >> 2, stride >> 2, is_memory, scalars)
    _mark(written, at, base[0], stride[0], o.count, bytes)
    return True


def _mark(written: Any, at: Ints, base: Ints, stride: Ints, count: int, bytes: int) -> None:
    """The destination is set from now on."""
    if lanes_all_written(written, at, base, stride, count, 4, bytes):
        return
    places = (at + base)[:, None] + np.arange(count) * stride[:, None]
    for byte in range(4):
        written[places + byte] = 1


# ---- over streams -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Memories:
    """The memory of all PEs: as bytes, which of them are set, and as words."""

    bytes: NDArray[np.uint8]
    written: NDArray[np.uint8]
    words: NDArray[np.uint32]


def values_of(o: Operation, chosen: Ints, words: list[Taken], memory: Memories) -> Words:
    """What the PEs at places `chosen` of an operation compute, [pe, element] as wavelets; inputs brought `words`."""
    if o.kind == _F32 and o.source == _F32 and o.op in _FAST:
        return _values_f32(o, chosen, words, memory)
    lanes = o.lanes[chosen]
    at, bytes = o.home.at[lanes], o.home.row.memory_bytes
    sources: list[Any] = []
    taken = iter(words)
    for operand in o.operands[1:]:
        if operand.what == "in":
            sources.append(_cut(next(taken).matrix(), operand.kind))
        elif operand.what == "scalar":
            sources.append(spread(operand.base, len(o.lanes))[chosen][:, None])
        else:
            out = np.empty((len(lanes), o.count), np.int64)
            base, stride = (row(_of(x, chosen)) for x in (operand.base, operand.stride))
            if not lanes_gather(memory.bytes, memory.written, at, bytes, base, stride, operand.kind, out):
                raise NotAlone(_UNSET)
            sources.append(out)
    zero = np.zeros((1, 1), np.int64)
    out = np.empty((len(lanes), o.count), np.int64)
    a, b, c = (np.ascontiguousarray(x) for x in (sources + [zero] * 3)[:3])
    lanes_elements(o.op, o.kind, o.source, a, b, c, out)
    return (out & (0xFFFF if kind_bytes(Kind(o.kind)) <= 2 else 0xFFFFFFFF)).astype(np.uint32)


def _values_f32(o: Operation, chosen: Ints, words: list[Taken], memory: Memories) -> Words:
    """The common operations in f32: NumPy rounds each step as the reference does."""
    taken = iter(words)
    sources = [next(taken).matrix() if x.what == "in" else _words_f32(o, x, chosen, memory) for x in o.operands[1:]]
    if o.op == VectorOp.MOV:
        return np.broadcast_to(sources[0], (len(chosen), o.count))
    a, b, *more = (np.ascontiguousarray(x).view(np.float32) for x in sources)
    with np.errstate(all="ignore"):
        match o.op:
            case VectorOp.ADD:
                made = a + b
            case VectorOp.SUB:
                made = a - b
            case VectorOp.MUL:
                made = a * b
            case _:
                made = a + b * more[0]
    return np.ascontiguousarray(np.broadcast_to(made, (len(chosen), o.count))).view(np.uint32)


def _words_f32(o: Operation, operand: Operand, chosen: Ints, memory: Memories) -> Words:
    if operand.what == "scalar":
        return (spread(operand.base, len(o.lanes))[chosen] & 0xFFFFFFFF).astype(np.uint32)[:, None]
    at, bytes = o.home.at[o.lanes[chosen]], o.home.row.memory_bytes
    base, stride = (row(_of(x, chosen)) for x in (operand.base, operand.stride))
    if (base & 3).any() or (stride & 3).any():
        out = np.empty((len(chosen), o.count), np.int64)
        good = lanes_gather(memory.bytes, memory.written, at, bytes, base, stride, operand.kind, out)
        made = out.astype(np.uint32)
    else:
        made = np.empty((len(chosen), o.count), np.uint32)
        good = lanes_gather_words(memory.words, memory.written, at, bytes, base, stride, made)
    if not good:
        raise NotAlone(_UNSET)
    return made


def _cut(words: Words, kind: int) -> NDArray[np.int64]:
    """Words as registers of `kind` hold them."""
    wide = words.astype(np.int64)
    if kind in (Kind.U32, Kind.F32):
        return wide
    out = wide & (0xFFFF if kind_bytes(Kind(kind)) == 2 else 0xFFFFFFFF)
    if kind == Kind.I16:
        return (out ^ 0x8000) - 0x8000
    return (out ^ 0x80000000) - 0x80000000 if kind == Kind.I32 else out


def _of(value: Value, chosen: Ints) -> Value:
    return value[chosen] if isinstance(value, np.ndarray) else value


def move_words(o: Operation, chosen: Ints, words: Taken, memory: Memories) -> None:
    """`into_memory` of words as they came, straight from where they are kept."""
    target, home = o.operands[0], o.home
    base, stride = (row(_of(x, chosen)) for x in (target.base, target.stride))
    at = home.at[o.lanes[chosen]]
    marks = not home.all_written(*span_of(target, o.count), memory.written)
    good: list[bool] = []

    def some(first: int, last: int) -> None:
        came = lanes_move_words(
            memory.words, memory.written, at, home.row.memory_bytes, base, stride, words.values, words.rows,
            words.starts, o.count, marks, first, last,
        )  # fmt: skip
        good.append(came)

    over_lanes(some, len(at), o.count)
    if not all(good):
        raise NotAlone("an operation outside memory")


def into_memory(o: Operation, chosen: Ints, values: Words, memory: Memories) -> None:
    """Put the results of the PEs at places `chosen` where the destination lies."""
    target = o.operands[0]
    base, stride = (row(_of(x, chosen)) for x in (target.base, target.stride))
    at, bytes = o.home.at[o.lanes[chosen]], o.home.row.memory_bytes
    kept = np.ascontiguousarray(values)
    if kind_bytes(Kind(target.kind)) == 4 and not ((base & 3).any() or (stride & 3).any()):
        good = lanes_scatter_words(memory.words, memory.written, at, bytes, base, stride, kept)
    else:
        wide = kept.astype(np.int64)
        good = lanes_scatter(memory.bytes, memory.written, at, bytes, base, stride, target.kind, wide)
    if not good:
        raise NotAlone("an operation outside memory")
