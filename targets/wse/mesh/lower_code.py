"""Typed code of one function as instructions: control flow, scalars, places, calls.

Scalars and structs of scalars live in registers, one for each scalar; arrays, structs with arrays in them, and
variables whose address is taken live in memory. A value of the latter kind is the place where it lies. Memory of a
function is given once, so one that has any must not call itself. Vector operations are in `lower_vectors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from ..csl import code as c
from ..csl import types as t
from ..csl.values import ArrayData, Symbol, by_lane
from .builder import Builder, Label
from .ir import BlockKind, Kind, MachineOp, MathOp, Op
from .tables import ClassTables, kind_of, leaves, scalar_kind


@dataclass(frozen=True, slots=True)
class At:
    """Memory at register `base` (None: nothing to add) + `offset` bytes. `own`: nobody else writes it."""

    base: int | None
    offset: int
    own: bool = False

    def plus(self, bytes: int) -> At:
        return At(self.base, self.offset + bytes, self.own)


# Registers of the scalars of a value, or the place where it lies.
Lowered: TypeAlias = "tuple[int, ...] | At"

_BINARY: dict[str, tuple[Op, bool]] = {
    "+": (Op.ADD, False), "-": (Op.SUB, False), "*": (Op.MUL, False), "/": (Op.DIV, False), "%": (Op.REM, False),
    "&": (Op.AND, False), "|": (Op.OR, False), "^": (Op.XOR, False), "<<": (Op.SHL, False), ">>": (Op.SHR, False),
    "==": (Op.EQ, False), "!=": (Op.NE, False), "<": (Op.LT, False), "<=": (Op.LE, False), ">": (Op.LT, True),
    ">=": (Op.LE, True),
}  # fmt: skip
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_MATH = {op.name.lower(): op for op in MathOp}
_MACHINE: dict[str, MachineOp] = {
    "timestamp_word": MachineOp.TIMESTAMP_WORD, "timestamp_enable": MachineOp.TIMESTAMP_ENABLE,
    "timestamp_reset": MachineOp.TIMESTAMP_RESET, "random16": MachineOp.RANDOM16, "seed": MachineOp.SEED,
    "unblock_cmd_stream": MachineOp.UNBLOCK_COMMANDS, "queue_flush": MachineOp.QUEUE_FLUSH,
    "queue_flush_exit": MachineOp.QUEUE_FLUSH_EXIT, "queue_bind": MachineOp.QUEUE_BIND,
    "teardown_pending": MachineOp.TEARDOWN_PENDING, "teardown_exit": MachineOp.TEARDOWN_EXIT,
    "routes_reset": MachineOp.ROUTES_RESET, "switch_position": MachineOp.SWITCH_POSITION,
    "switch_ring": MachineOp.SWITCH_RING, "switch_pop": MachineOp.SWITCH_POP, "task_priority": MachineOp.TASK_PRIORITY,
    "set_fifo_read_length": MachineOp.FIFO_READ_LENGTH, "set_fifo_write_length": MachineOp.FIFO_WRITE_LENGTH,
    "print_u32": MachineOp.PRINT_NUMBER,
}  # fmt: skip
BLOCK_KINDS: dict[t.Type, BlockKind] = {
    t.LOCAL_ID: BlockKind.TASK, t.DATA_ID: BlockKind.TASK, t.CONTROL_ID: BlockKind.TASK, t.COLOR: BlockKind.COLOR,
    t.INPUT_QUEUE: BlockKind.INPUT_QUEUE, t.UT_ID: BlockKind.MICROTHREAD,
}  # fmt: skip
# An array constant of at most this many elements is made by stores; of more, copied from memory or filled in a loop.
_MAX_STORES = 8


@dataclass(slots=True, eq=False)
class Lowering:
    """One function under way."""

    b: Builder
    made: ClassTables
    instance: c.Instance
    # For each local its registers, or its place.
    locals: list[Lowered] = field(default_factory=list["Lowered"])
    # (label of the next round, label of the end) of the loops around, innermost last.
    loops: list[tuple[Label, Label]] = field(default_factory=list[tuple[Label, Label]])
    result: At | None = None
    calls: dict[c.Instance, None] = field(default_factory=dict["c.Instance", None])
    # Names of what the function keeps in memory of its own.
    in_memory: list[str] = field(default_factory=list[str])
    # Types of the functions that are called by pointer.
    pointer_calls: dict[t.Type, None] = field(default_factory=dict["t.Type", None])
    vector: Callable[[Lowering, c.Vector], int] = field(default=lambda f, e: -1)
    make_dsd: Callable[[Lowering, c.Make], int] = field(default=lambda f, e: -1)

    # ---- memory --------------------------------------------------------------------------------

    def memory(self, name: str, type: t.Type) -> At:
        """Memory of the function for a value of `type`."""
        self.in_memory.append(name)
        name = f"{self.instance.name}.{name}"
        return At(None, self.made.allocate(name, t.size_bytes(type), t.align_bytes(type), self.instance.span), own=True)

    def base(self, at: At) -> int:
        return self.b.constant(0) if at.base is None else at.base

    def load(self, at: At, type: t.Type, into: int | None = None) -> Lowered:
        """The value of `type` at `at`; one with arrays stays there."""
        parts = leaves(type)
        if parts is None:
            return at
        base = self.base(at)
        return tuple(
            self.b.emit(Op.LOAD, kind, self.b.value() if into is None else into, base, -1, at.offset + offset)
            for offset, kind in parts
        )

    def store(self, at: At, type: t.Type, value: Lowered) -> None:
        if isinstance(value, At):
            self.b.emit(Op.COPY, 0, self.address(at), self.address(value), t.size_bytes(type))
            return
        parts = cast("tuple[tuple[int, Kind], ...]", leaves(type))
        base = self.base(at)
        for register, (offset, kind) in zip(value, parts, strict=True):
            self.b.emit(Op.STORE, kind, register, base, -1, at.offset + offset)

    def address(self, at: At, into: int | None = None) -> int:
        """The address of `at` in a register."""
        if at.base is None:
            return self.b.constant(at.offset)
        if not at.offset:
            return at.base
        return self.b.operate(Op.ADD, Kind.U16, at.base, self.b.constant(at.offset), into)

    def locate(self, place: c.Place) -> At:
        """Where a place lies that is no local in registers. Each index that has an extent is checked."""
        at = self._origin(place)
        register = at.base
        for index, stride, extent in place.terms:
            got = self.scalar(index)
            self.b.span = place.span
            if extent is not None:
                self.b.emit(Op.CHECK, scalar_kind(index.type), -1, got, extent)
            if stride != 1:
                got = self.b.operate(Op.MUL, Kind.U16, got, self.b.constant(stride))
            register = got if register is None else self.b.operate(Op.ADD, Kind.U16, register, got)
        if at.offset and any(extent is None for _, _, extent in place.terms):
            # Behind a pointer an index may be negative: the sum wraps as addresses do.
            return At(self.address(At(register, at.offset)), 0)
        return At(register, at.offset)

    def _origin(self, place: c.Place) -> At:
        """Where the first element of a place lies."""
        match place.base:
            case Symbol() as symbol:
                start = At(None, self.made.addresses[symbol])
            case c.Local(_, slot) if is_local(place):
                start = cast(At, self.locals[slot])
            case _:
                start = At(self.scalar(place.base), 0)
        if not by_lane(place.offset):
            return start.plus(int(place.offset))
        lanes = self.b.constant(np.asarray(place.offset, np.int64) + start.offset)
        return At(lanes if start.base is None else self.b.operate(Op.ADD, Kind.U16, start.base, lanes), 0)

    def in_registers(self, place: c.Place) -> tuple[int, ...] | None:
        """The registers of a place that is (a part of) a local in registers."""
        if not is_local(place):
            return None
        local = cast(c.Local, place.base)
        held = self.locals[local.slot]
        if isinstance(held, At):
            return None
        offsets = [offset for offset, _ in leaves(local.type) or ()]
        count = len(leaves(place.type) or ())
        first = offsets.index(int(place.offset)) if count else 0
        return held[first : first + count]

    # ---- expressions ---------------------------------------------------------------------------

    def scalar(self, e: c.Code, into: int | None = None) -> int:
        """The register of a scalar; it is `into` where one is given and the value is computed."""
        return cast("tuple[int, ...]", self.value(e, into))[0]

    def value(self, e: c.Code, into: int | None = None) -> Lowered:
        """The value of `e`."""
        match e:
            case c.Constant(type, data):
                return self.constant(type, data)
            case c.Local(type, slot):
                mine = self.locals[slot]
                return self.load(mine, type, into) if isinstance(mine, At) else mine
            case c.Load(type, place):
                held = self.in_registers(place)
                return self.load(self.locate(place), type, into) if held is None else held
            case c.AddressOf(_, place):
                return (self.address(self.locate(place), into),)
            case c.Operation():
                self.b.span = e.span
                return self.operation(e, into)
            case c.Make():
                self.b.span = e.span
                return self.make(e)
            case c.Member():
                return self.member(e)
            case c.Vector():
                return (self.vector(self, e),)
            case c.Call():
                return self.call(e, into)

    def constant(self, type: t.Type, data: Any) -> Lowered:
        if type == t.VOID:
            return ()
        if isinstance(type, t.Struct) and leaves(type) is not None:
            parts = [self.constant(inner, data[name].data) for name, inner in type.fields]
            return tuple(r for part in parts for r in cast("tuple[int, ...]", part))
        if isinstance(type, t.Struct | t.Array):
            return self.constant_memory(type, data)
        return (self.b.constant(self.made.bits(type, data)),)

    def constant_memory(self, type: t.Type, data: Any) -> At:
        """An aggregate constant in memory of its own, that nobody writes."""
        image = self.made.image(type, data)
        at = self.made.allocate("constant", t.size_bytes(type), t.align_bytes(type), self.b.span, image)
        return At(None, at, own=True)

    def fill(self, at: At, type: t.Type, data: Any) -> bool:
        """Write an array constant by instructions where that is shorter than copying it; else False."""
        if not isinstance(type, t.Array) or not isinstance(data, ArrayData) or data.items.dtype == np.dtype(object):
            return False
        kind = kind_of(type.element)
        if kind is None or data.lanes:
            return False
        items, size = data.items.ravel(), t.size_bytes(type.element)
        if len(items) <= _MAX_STORES:
            for k, item in enumerate(items):
                self.store(at.plus(k * size), type.element, self.constant(type.element, item.item()))
            return True
        if len(items) and (items == items[0]).all():
            self._fill_loop(at, type, kind, self.constant(type.element, items[0].item()))
            return True
        return False

    def _fill_loop(self, at: At, type: t.Array, kind: Kind, value: Lowered) -> None:
        size, b = t.size_bytes(type.element), self.b
        first = self.address(at)
        end = b.operate(Op.ADD, Kind.U16, first, b.constant(type.count * size))
        pointer = b.variable()
        b.move(Kind.U16, pointer, first)
        again, done = Label(), Label()
        step = b.constant(size)
        b.open(is_loop=True)
        b.label(again)
        b.jump_if_not(b.operate(Op.NE, Kind.U16, pointer, end), done)
        b.emit(Op.STORE, kind, cast("tuple[int, ...]", value)[0], pointer, -1, 0)
        b.operate(Op.ADD, Kind.U16, pointer, step, pointer)
        b.jump(again)
        b.close()
        b.label(done)

    def make(self, e: c.Make) -> Lowered:
        if e.what not in ("struct", "array"):
            return (self.make_dsd(self, e),)
        if isinstance(e.type, t.Struct) and leaves(e.type) is not None:
            parts = [self.value(e.fields[name]) for name, _ in e.type.fields]
            return tuple(r for part in parts for r in cast("tuple[int, ...]", part))
        at = self.memory(e.what, e.type)
        for offset, type, field_code in _fields(e):
            self.put(at.plus(offset), type, field_code)
        return at

    def put(self, at: At, type: t.Type, e: c.Code) -> None:
        """Write the value of `e` to memory."""
        if not (isinstance(e, c.Constant) and self.fill(at, type, e.data)):
            self.store(at, type, self.value(e))

    def member(self, e: c.Member) -> Lowered:
        struct = cast(t.Struct, e.base.type)
        offset = t.struct_offsets(struct)[e.name]
        if isinstance(e.base, c.Load):
            place = e.base.place
            inner = c.Place(e.type, place.base, place.offset + offset, place.terms, place.span)
            return self.value(c.Load(e.type, inner))
        base = self.locals[e.base.slot] if isinstance(e.base, c.Local) else self.value(e.base)
        if isinstance(base, At):
            return self.load(base.plus(offset), e.type)
        before = next(k for k, (name, _) in enumerate(struct.fields) if name == e.name)
        first = sum(len(leaves(type) or ()) for _, type in struct.fields[:before])
        return base[first : first + len(leaves(e.type) or ())]

    # ---- operations ----------------------------------------------------------------------------

    def operation(self, e: c.Operation, into: int | None) -> Lowered:
        if e.op in _BINARY and len(e.args) == 2:
            return (self._binary(e, into),)
        match e.op:
            case "and" | "or":
                return (self._lazy(e),)
            case "choose":
                return self._choose(e)
            case "convert":
                return (self._convert(e, into),)
            case "bitcast":
                return self._bitcast(e, into)
            case "neg" | "~":
                got, kind = self.scalar(e.args[0]), scalar_kind(e.type)
                self.b.span = e.span
                return (self.b.operate(Op.NEG if e.op == "neg" else Op.NOT, kind, got, -1, into),)
            case "!":
                got = self.scalar(e.args[0])
                self.b.span = e.span
                return (self.b.operate(Op.EQ, Kind.BOOL, got, self.b.constant(0), into),)
            case _:
                return self._builtin(e, into)

    def _binary(self, e: c.Operation, into: int | None) -> int:
        op, swapped = _BINARY[e.op]
        a, b = self.scalar(e.args[0]), self.scalar(e.args[1])
        self.b.span = e.span
        kind = scalar_kind(e.args[0].type if e.op in _COMPARISONS else e.type)
        return self.b.operate(op, kind, b if swapped else a, a if swapped else b, into)

    def _lazy(self, e: c.Operation) -> int:
        """`and`, `or`: the right side only where the left does not decide."""
        made, end = self.b.value(), Label()
        self.b.move(Kind.BOOL, made, self.scalar(e.args[0]))
        self.b.span = e.span
        test = made if e.op == "and" else self.b.operate(Op.EQ, Kind.BOOL, made, self.b.constant(0))
        self.b.jump_if_not(test, end)
        self.b.open()
        self.b.move(Kind.BOOL, made, self.scalar(e.args[1]))
        self.b.close()
        self.b.label(end)
        return made

    def _choose(self, e: c.Operation) -> Lowered:
        parts, no, end = leaves(e.type), Label(), Label()
        at = self.memory("choice", e.type) if parts is None else None
        made = tuple(self.b.value() for _ in parts or ())
        test = self.scalar(e.args[0])
        self.b.span = e.span
        self.b.jump_if_not(test, no)
        for k, side in enumerate(e.args[1:]):
            self.b.open()
            if at is not None:
                self.put(at, e.type, side)
            else:
                self._into(made, e.type, side)
            self.b.close()
            if not k:
                self.b.jump(end)
                self.b.label(no)
        self.b.label(end)
        return made if at is None else at

    def _into(self, made: tuple[int, ...], type: t.Type, e: c.Code) -> None:
        """Compute `e` into the registers `made`, which it may itself read."""
        parts = cast("tuple[tuple[int, Kind], ...]", leaves(type))
        if len(made) == 1:
            self.b.move(parts[0][1], made[0], self.scalar(e, made[0]))
            return
        got = list(cast("tuple[int, ...]", self.value(e)))
        if len(made) > 1 and not set(got).isdisjoint(made):
            got = [self.b.emit(Op.MOVE, kind, self.b.value(), r) for r, (_, kind) in zip(got, parts, strict=True)]
        for target, register, (_, kind) in zip(made, got, parts, strict=True):
            self.b.move(kind, target, register)

    def _convert(self, e: c.Operation, into: int | None) -> int:
        got, source, kind = self.scalar(e.args[0]), scalar_kind(e.args[0].type), scalar_kind(e.type)
        self.b.span = e.span
        return got if source == kind else self.b.operate(Op.CONVERT, kind, got, int(source), into)

    def _bitcast(self, e: c.Operation, into: int | None) -> Lowered:
        source, kind = kind_of(e.args[0].type), kind_of(e.type)
        got = self.value(e.args[0])
        self.b.span = e.span
        if source is not None and kind is not None:
            if source == kind:
                return got
            return (self.b.operate(Op.BITCAST, kind, cast("tuple[int, ...]", got)[0], int(source), into),)
        if not isinstance(got, At):
            at = self.memory("bits", e.args[0].type)
            self.store(at, e.args[0].type, got)
            got = at
        return self.load(got, e.type)

    def _builtin(self, e: c.Operation, into: int | None) -> Lowered:
        """An operation of the machine by its name."""
        if e.op in _MATH:
            return (self._math(e, into),)
        if e.op == "coordinate":
            return self.value(e.args[0])
        if e.op in ("trace_text", "trace_u32", "print_text"):
            self._log(e)
            return ()
        args = [self.scalar(a) for a in e.args]
        self.b.span = e.span
        match e.op:
            case "activate":
                self.b.emit(Op.ACTIVATE, 0, -1, args[0])
            case "block" | "unblock":
                op = Op.BLOCK if e.op == "block" else Op.UNBLOCK
                self.b.emit(op, 0, -1, args[0], int(BLOCK_KINDS[e.args[0].type]))
            case "assert":
                self.b.emit(Op.ASSERT, 0, -1, args[0])
            case "switch_set":
                self._switch_set(args)
            case "set_dsd_base_addr" | "set_dsd_length" | "set_dsd_stride" | "increment_dsd_offset":
                return (self._dsd_change(e, args, into),)
            case _:
                made = self.b.machine(_MACHINE[e.op], *args, result=e.type != t.VOID)
                return () if e.type == t.VOID else (made,)
        return ()

    def _math(self, e: c.Operation, into: int | None) -> int:
        args = [self.scalar(a) for a in e.args]
        self.b.span = e.span
        made = self.b.value() if into is None else into
        second = args[1] if len(args) > 1 else -1
        return self.b.emit(Op.MATH, scalar_kind(e.type), made, args[0], int(_MATH[e.op]), second)

    def _log(self, e: c.Operation) -> None:
        """What the simulator prints or records. Texts travel as constants: of a record the key comes first."""
        args = [self._text(a) if a.type == t.STRING else self.scalar(a) for a in e.args]
        self.b.span = e.span
        if e.op == "print_text":
            self.b.machine(MachineOp.PRINT_TEXT, args[0])
        else:
            op = MachineOp.TRACE_TEXT if e.op == "trace_text" else MachineOp.TRACE_NUMBER
            self.b.machine(op, args[1], args[2], args[0])

    def _text(self, e: c.Code) -> int:
        return self.b.constant(self.made.tables.text(cast(str, cast(c.Constant, e).data)))

    def _switch_set(self, args: list[int]) -> None:
        """position | rx mask << 8 | tx mask << 16 in one register."""
        color, packed = args[:2]
        for shift, mask in zip((8, 16), args[2:], strict=True):
            moved = self.b.operate(Op.SHL, Kind.U32, mask, self.b.constant(shift))
            packed = self.b.operate(Op.OR, Kind.U32, packed, moved)
        self.b.machine(MachineOp.SWITCH_SET, color, packed)

    def _dsd_change(self, e: c.Operation, args: list[int], into: int | None) -> int:
        made = self.b.value() if into is None else into
        if e.op == "increment_dsd_offset":
            size = int(cast(c.Constant, e.args[2]).data)
            return self.b.emit(Op.DSD_MOVE, 0, made, args[0], args[1], size)
        if e.op == "set_dsd_base_addr":
            to = cast(t.Pointer, e.args[1].type).to
            element = scalar_kind(to.element if isinstance(to, t.Array) else to)
            return self.b.emit(Op.DSD_BASE, element, made, args[0], args[1])
        return self.b.emit(Op.DSD_LENGTH if e.op == "set_dsd_length" else Op.DSD_STRIDE, 0, made, args[0], args[1])

    # ---- calls ---------------------------------------------------------------------------------

    def call(self, e: c.Call, into: int | None) -> Lowered:
        """Arguments into the frame of the callee; a result that takes more than a register comes as its address."""
        target = -1 if isinstance(e.target, c.Instance) else self.scalar(e.target)
        args = [r for a in e.args for r in self._argument(a)]
        self.b.span = e.span
        for k, register in enumerate(args):
            self.b.emit(Op.ARG, 0, k, register)
        parts = leaves(e.type)
        made = -1 if parts == () else into if into is not None else self.b.value()
        if isinstance(e.target, c.Instance):
            self.calls[e.target] = None
            self.b.emit(Op.CALL, 0, made, self.made.numbers[e.target])
        else:
            self.pointer_calls[_function_type(e.target.type)] = None
            self.b.emit(Op.CALL_AT, 0, made, target)
        if parts is not None and len(parts) <= 1:
            return () if made < 0 else (made,)
        if parts is not None:
            return self.load(At(made, 0), e.type)
        # The next call of the same function writes its result to the same place.
        at = self.memory("result of a call", e.type)
        self.store(at, e.type, At(made, 0))
        return at

    def _argument(self, e: c.Code) -> tuple[int, ...]:
        got = self.value(e)
        if not isinstance(got, At):
            return got
        if not got.own:
            at = self.memory("argument", e.type)
            self.store(at, e.type, got)
            got = at
        return (self.address(got),)

    # ---- steps ---------------------------------------------------------------------------------

    def steps(self, steps: tuple[c.Step, ...]) -> None:
        for step in steps:
            self.step(step)

    def step(self, step: c.Step) -> None:
        match step:
            case c.Store(place, value):
                self._store(place, value)
            case c.SetLocal(slot, value):
                self._set_local(slot, value)
            case c.Do(value):
                self.value(value)
            case c.Branch():
                self._branch(step)
            case c.Loop():
                self._loop(step)
            case c.Leave(value):
                self._leave(value)
            case c.Stop():
                self.b.jump(self.loops[-1][1])
            case c.Next():
                self.b.jump(self.loops[-1][0])

    def _store(self, place: c.Place, value: c.Code) -> None:
        held = self.in_registers(place)
        if held is not None:
            self._into(held, place.type, value)
            return
        if isinstance(value, c.Constant):
            at = self.locate(place)
            self.b.span = place.span
            self.put(at, place.type, value)
            return
        got = self.value(value)
        at = self.locate(place)
        self.b.span = place.span
        self.store(at, place.type, got)

    def _set_local(self, slot: int, value: c.Code) -> None:
        held, type = self.locals[slot], self.instance.locals[slot][1]
        if isinstance(held, At):
            self.put(held, type, value)
        else:
            self._into(held, type, value)

    def _branch(self, step: c.Branch) -> None:
        no, end = Label(), Label()
        test = self.scalar(step.test)
        self.b.span = step.span
        self.b.jump_if_not(test, no)
        self.b.open()
        self.steps(step.yes)
        self.b.close()
        if step.no:
            self.b.jump(end)
        self.b.label(no)
        if step.no:
            self.b.open()
            self.steps(step.no)
            self.b.close()
        self.b.label(end)

    def _loop(self, step: c.Loop) -> None:
        again, following, end = Label(), Label(), Label()
        forever = isinstance(step.test, c.Constant) and step.test.data is True
        self.b.span = step.span
        self.b.open(is_loop=True)
        self.b.label(again)
        if not forever:
            test = self.scalar(step.test)
            self.b.span = step.span
            self.b.jump_if_not(test, end)
        self.loops.append((following, end))
        # What the body holds is not seen by the step: a round may have gone there early.
        self.b.open()
        self.steps(step.body)
        self.b.close()
        self.loops.pop()
        self.b.label(following)
        self.steps(step.step)
        self.b.span = step.span
        self.b.jump(again, self.b.costs.branch if forever else 0)
        self.b.close()
        self.b.label(end)

    def _leave(self, value: c.Code | None) -> None:
        if value is None:
            self.b.emit(Op.RETURN)
            return
        if self.result is None:
            got = self.value(value)
            self.b.emit(Op.RETURN, 0, -1, cast("tuple[int, ...]", got)[0] if got else -1)
            return
        self.put(self.result, value.type, value)
        self.b.emit(Op.RETURN, 0, -1, self.address(self.result))


def is_local(place: c.Place) -> bool:
    """Whether a place is (a part of) a local, and not what a local points at."""
    return isinstance(place.base, c.Local) and (
        not isinstance(place.base.type, t.Pointer) or place.type == place.base.type
    )


def _function_type(type: t.Type) -> t.Type:
    return type.to if isinstance(type, t.Pointer) else type


def _fields(e: c.Make) -> Iterator[tuple[int, t.Type, c.Code]]:
    """(offset, type, value) of the fields of a struct or the elements of an array."""
    if isinstance(e.type, t.Struct):
        offsets = t.struct_offsets(e.type)
        for name, type in e.type.fields:
            yield offsets[name], type, e.fields[name]
    else:
        element = cast(t.Array, e.type).element
        size = t.size_bytes(element)
        for name, value in e.fields.items():
            yield int(name) * size, element, value
