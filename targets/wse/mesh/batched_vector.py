"""Vector operations of a group: over memory at once, or over streams with the times of every element.

Must not know who runs when; what a finished operation brings about is told to the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
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
from .ir import FLAG_INDEX, NO_COLOR, Dsd, Image, Kind, V, VectorOp
from .reference_values import stride_width

_OPERAND0 = int(V.OPERAND0)
_FAST = {int(o) for o in (VectorOp.MAC, VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MOV)}
_F32 = int(Kind.F32)
_UNSET = "an operation over memory that is not set"
Words = NDArray[np.uint32]
# Arguments kept for a class.
_MOST_ARGUMENTS = 4096
BYTES = {int(kind): kind_bytes(kind) for kind in Kind}
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


@dataclass(frozen=True, slots=True)
class Form:
    """A row of `vectors`: the operation, registers of operands with their Kinds, what else it says; `refusal` tells why
    only the reference does it."""

    op: int
    kind: int
    source: int
    width: int
    registers: tuple[int, ...]
    kinds: tuple[int, ...]
    dsds: int
    pointers: int
    is_async: bool
    activate: int
    unblock: int
    microthread: int
    refusal: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """The operands of an operation, and what follows from them: those that bring and take words, elements, the memory
    in use as (low, high, written?), and whether words of 4 bytes go to memory as they come."""

    all: list[Operand]
    inputs: list[Operand]
    output: Operand | None
    count: int
    spans: list[tuple[int, int, bool]]
    moves_words: bool
    # Whether a source in memory lies where the destination does, other than element by element.
    feeds_back: bool

    @property
    def streams(self) -> bool:
        return bool(self.inputs) or self.output is not None


@dataclass(slots=True, eq=False)
class Operation:
    """An operation issued by PEs (`lanes`) of a class: what it does, since when it may, and what follows it. `left` of
    the PEs still wait."""

    home: ClassState
    lanes: Ints
    form: Form
    arguments: Arguments
    ready: Ints
    activate: Value
    unblock: Value
    # The microthread of an asynchronous operation, or -1.
    thread: int = -1
    group: Group | None = None
    waiting: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    left: int = 0
    position: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    claims: list[Claim] = field(default_factory=list[Claim])

    @property
    def count(self) -> int:
        return self.arguments.count

    @property
    def operands(self) -> list[Operand]:
        return self.arguments.all


@lru_cache(maxsize=8)
def forms_of(image: Image) -> list[Form | None]:
    """The rows of `vectors`; None for loads of DSRs."""
    return [None if v[V.OP] == VectorOp.LOAD_DSR else _form(v) for v in image.vectors.tolist()]


def _form(v: list[int]) -> Form:
    op, kind = v[V.OP], v[V.DEST_KIND]
    source = v[V.SOURCE_KIND] if v[V.SOURCE_KIND] >= 0 else kind
    count = min(v[V.COUNT], 8)
    return Form(
        op, kind, source, v[V.WIDTH], tuple(v[_OPERAND0 : _OPERAND0 + count]),
        tuple(_kind_of(op, k, kind, source) for k in range(count)), v[V.DSDS], v[V.POINTERS], v[V.ASYNC] > 0,
        v[V.ACTIVATE], v[V.UNBLOCK], v[V.MICROTHREAD], _refusal(v),
    )  # fmt: skip


def _refusal(v: list[int]) -> str | None:
    op = VectorOp(v[V.OP])
    if op in (VectorOp.MAP, VectorOp.ADDC) or v[V.ON_CONTROL] > 0:
        return f"{op.name.lower()} operations"
    if op == VectorOp.ADD and v[V.DEST_KIND] not in (Kind.F16, Kind.F32):
        return "additions with a carry"
    if v[V.UNBLOCK] >= 0 and v[V.UNBLOCK_KIND] != 0:
        return "operations that unblock a queue or color"
    return "offsets by a wavelet's index" if v[V.INDEX] >= 0 else None


def fields_of(bits: Value) -> tuple[Value, Value, Value, Value, Value, Value]:
    """(low, middle, high, kind, element, flags) of a packed DSD."""
    return bits & 0xFFFF, bits >> 16 & 0xFFFF, bits >> 32 & 0xFFFF, bits >> 48 & 15, bits >> 52 & 15, bits >> 56 & 255


def issue(g: Group, form: Form, number: int, setup: int) -> Operation:
    """The operation of row `number`, issued by `g` now. NotAlone for what only the reference does."""
    if form.refusal is not None:
        raise NotAlone(form.refusal)
    arguments = _arguments(g, form, number)
    unblock: Value = g.get(form.unblock) if form.unblock >= 0 else -1
    activate: Value = g.get(form.activate) if form.activate >= 0 else -1
    ready = spread(g.clock, g.size) + setup
    return Operation(g.home, g.lanes, form, arguments, ready, activate, unblock, _thread(g, form, arguments))


def _thread(g: Group, form: Form, arguments: Arguments) -> int:
    """The microthread of an operation: the one it names, else on WSE-2 the number of a queue; -1 for none."""
    if not form.is_async:
        return -1
    if form.microthread >= 0:
        named = g.get(form.microthread)
        if isinstance(named, np.ndarray):
            raise NotAlone("microthreads of different numbers")
        return named
    if not g.home.queues_name_threads:
        return -1
    used = [arguments.output] if arguments.output is not None else arguments.inputs[:1]
    return used[0].queue if used else -1


def _arguments(g: Group, form: Form, number: int) -> Arguments:
    """The operands of row `number`, kept for when all PEs have the same in its registers."""
    bits = [g.get(register) for register in form.registers]
    shared = [x for x in bits if isinstance(x, int)]
    key = (number, *shared)
    if len(shared) == len(bits) and key in g.home.arguments_of:
        return g.home.arguments_of[key]
    operands = [_operand(g, form, k, bits[k]) for k in range(len(bits))]
    made = _arguments_of(form, operands)
    for operand in operands:
        if operand.what == "memory":
            _check_symbol(g, operand, made.count)
    if len(shared) == len(bits) and all(operand.dsr < 0 for operand in operands):
        if len(g.home.arguments_of) >= _MOST_ARGUMENTS:
            g.home.arguments_of.clear()
        g.home.arguments_of[key] = made
    return made


def _arguments_of(form: Form, operands: list[Operand]) -> Arguments:
    n = _length(operands)
    spans = [(*span_of(x, max(n, 1)), k == 0) for k, x in enumerate(operands) if x.what == "memory"]
    inputs = [x for x in operands if x.what == "in"]
    output = operands[0] if operands[0].what == "out" else None
    moves = form.op == VectorOp.MOV and form.kind == form.source and BYTES[form.kind] == 4 and len(inputs) == 1
    moves = moves and operands[0].what == "memory" and _aligned(operands[0])
    back = n > 1 and operands[0].what == "memory"
    back = back and any(x.what == "memory" and _feeds(operands[0], x, n) for x in operands[1:])
    return Arguments(operands, inputs, output, n, spans, moves, back)


def _feeds(target: Operand, source: Operand, n: int) -> bool:
    """Whether elements of `source` may be those that earlier elements of `target` were written to."""
    (low, high), (first, end) = span_of(target, n), span_of(source, n)
    if high <= first or end <= low:
        return False
    same = (row(target.base) == row(source.base)).all() and (row(target.stride) == row(source.stride)).all()
    return not same or not row(target.stride).all()


def _aligned(operand: Operand) -> bool:
    """Whether it is made of whole words."""
    return not ((row(operand.base) & 3).any() or (row(operand.stride) & 3).any())


def _operand(g: Group, form: Form, k: int, bits: Value) -> Operand:
    each = form.kinds[k]
    if not form.dsds >> k & 1:
        return Operand("memory" if form.pointers >> k & 1 else "scalar", bits, 0, None, each)
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
        size = BYTES[kind]
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
    width: Value = o.form.width
    for operand in o.operands:
        if operand.what == "memory":
            width = _least(width, _width(o.form.width, operand.stride, BYTES[operand.kind]))
    return -(-o.count // width)


def _least(a: Value, b: Value) -> Value:
    return np.minimum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else min(a, b)


def _width(width: int, stride: Value, size: int) -> Value:
    if isinstance(stride, np.ndarray):
        return np.array([_width(width, int(s), size) for s in stride], np.int64)
    return int(stride_width(width, stride, size))


def span_of(operand: Operand, count: int) -> tuple[int, int]:
    """The bytes that an operand in memory uses: low .. high - 1."""
    size, last = BYTES[operand.kind], operand.base + (count - 1) * operand.stride
    if type(operand.base) is int and type(last) is int:
        return min(operand.base, last), max(operand.base, last) + size
    ends = np.concatenate((row(operand.base), row(last)))
    return int(ends.min()), int(ends.max()) + size


def _check_symbol(g: Group, operand: Operand, count: int) -> None:
    """NotAlone when an operand leaves the variable it begins in, which the reference would refuse."""
    if count <= 0:
        return
    low, high = span_of(operand, count)
    for symbol in g.home.row.symbols:
        if symbol.address <= int(row(operand.base)[0]) < symbol.address + symbol.bytes:
            if low < symbol.address or high > symbol.address + symbol.bytes:
                raise NotAlone("a DSD leaves its variable")
            return
    if low < 0 or high > g.home.row.memory_bytes or isinstance(operand.base, np.ndarray):
        raise NotAlone("a DSD leaves the memory of its PE, or begins in no variable")


def over_memory(g: Group, o: Operation, memory: Any, written: Any, words: Any) -> None:
    """Do all elements of an operation whose operands lie in memory."""
    for low, high, writes in o.arguments.spans:
        g.reserve(low, high, writes)
        guard_range(g, low, high, writes)
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
        memory,
        written,
        at,
        bytes,
        o.form.op,
        o.form.kind,
        o.form.source,
        o.count,
        base,
        stride,
        is_memory,
        kinds,
        len(operands),
    )
    if not good:
        raise NotAlone(_UNSET)


def _is_fast(o: Operation) -> bool:
    return o.form.op in _FAST and o.form.kind == _F32 and o.form.source == _F32


def _fast(o: Operation, at: Ints, bytes: int, base: Any, stride: Any, is_memory: Any, written: Any, words: Any) -> bool:
    """The common operations in f32 on whole words; False for others, with nothing done."""
    used = [k for k, x in enumerate(o.operands) if x.what == "memory"]
    if (base[used] & 3).any() or (stride[used] & 3).any():
        return False
    for k in used[1:] if used[0] == 0 else used:
        if not lanes_all_written(written, at, base[k], stride[k], o.count, 4, bytes):
            return False
    scalars = base.astype(np.uint32).view(np.float32)
    lanes_f32(words, at >> 2, o.form.op, o.count, base >> 2, stride >> 2, is_memory, scalars)
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
    if o.form.kind == _F32 and o.form.source == _F32 and o.form.op in _FAST:
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
    lanes_elements(o.form.op, o.form.kind, o.form.source, a, b, c, out)
    return (out & (0xFFFF if BYTES[o.form.kind] <= 2 else 0xFFFFFFFF)).astype(np.uint32)


def _values_f32(o: Operation, chosen: Ints, words: list[Taken], memory: Memories) -> Words:
    """The common operations in f32: NumPy rounds each step as the reference does."""
    taken = iter(words)
    sources = [next(taken).matrix() if x.what == "in" else _words_f32(o, x, chosen, memory) for x in o.operands[1:]]
    if o.form.op == VectorOp.MOV:
        return np.broadcast_to(sources[0], (len(chosen), o.count))
    a, b, *more = (np.ascontiguousarray(x).view(np.float32) for x in sources)
    with np.errstate(all="ignore"):
        match o.form.op:
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
    if not _aligned(operand):
        out = np.empty((len(chosen), o.count), np.int64)
        if not lanes_gather(memory.bytes, memory.written, at, bytes, base, stride, operand.kind, out):
            raise NotAlone(_UNSET)
        return out.astype(np.uint32)
    made = np.empty((len(chosen), o.count), np.uint32)
    tests = not o.home.all_written(*span_of(operand, o.count), memory.written)
    good: list[bool] = []

    def some(first: int, last: int) -> None:
        came = lanes_gather_words(
            memory.words, memory.written, at, bytes, base, stride, made, tests, first, last
        )  # fmt: skip
        good.append(came)

    over_lanes(some, len(at), o.count)
    if not all(good):
        raise NotAlone(_UNSET)
    return made


def _cut(words: Words, kind: int) -> NDArray[np.int64]:
    """Words as registers of `kind` hold them."""
    wide = words.astype(np.int64)
    if kind in (Kind.U32, Kind.F32):
        return wide
    out = wide & (0xFFFF if BYTES[kind] == 2 else 0xFFFFFFFF)
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
    low, high, _ = o.arguments.spans[0]
    marks = not home.all_written(low, high, memory.written)
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
    if BYTES[target.kind] == 4 and _aligned(target):
        good = lanes_scatter_words(memory.words, memory.written, at, bytes, base, stride, kept)
    else:
        wide = kept.astype(np.int64)
        good = lanes_scatter(memory.bytes, memory.written, at, bytes, base, stride, target.kind, wide)
    if not good:
        raise NotAlone("an operation outside memory")
