"""The instructions of the task IR on a group: each a function of the same parameters, false where the group stops.

Must not know who runs when.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import batched_group as bg
from .batched_group import Group, Value, row, simplest, spread
from .batched_operations import vector
from .batched_streams import NotAlone
from .batched_tasks import activate, block, changed
from .batched_vector import BYTES
from .batched_work import Work, past
from .ir import BlockKind, MachineOp, Op

# Members of enumerations are slow to look up.
_ONE_OPERAND, _SHIFTS = {int(Op.NEG), int(Op.NOT)}, {int(Op.SHL), int(Op.SHR)}
_CONVERT, _CALL = int(Op.CONVERT), int(Op.CALL)


def _spend(g: Group, cost: int) -> None:
    g.offset += cost


def _const(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    g.put(d, int(w.image.constants[a]))
    return True


def _lane(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    g.put(d, simplest(w.image.lanes[a, g.home.row.first + g.lanes]))
    return True


def _move(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    g.put(d, g.registers[g.base + a])
    _spend(g, cost)
    return True


def _arithmetic(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    y: Value = 0 if op in _ONE_OPERAND else g.get(b)
    if op in _SHIFTS and bool(np.any((row(y) < 0) | (row(y) >= 8 * BYTES[kind]))):
        raise NotAlone("a shift that is too wide")
    g.put(d, bg.arithmetic_of(op, kind, g.get(a), y))
    _spend(g, cost)
    return True


def _convert(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    g.put(d, bg.converted(kind, b, g.get(a)) if op == _CONVERT else bg.bitcast(kind, g.get(a)))
    _spend(g, cost)
    return True


def _load(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    address = g.get(a) + c
    g.put(d, bg.loaded(g, w.memory, w.written, address, kind, BYTES[kind]))
    _spend(g, cost)
    return True


def _store(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    bg.stored(g, w.memory, w.written, g.get(a) + c, kind, BYTES[kind], g.get(d))
    _spend(g, cost)
    return True


def _check(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    index = row(g.get(a))
    if ((index < 0) | (index >= b)).any():
        raise NotAlone("an index outside its array")
    return True


def _jump(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    _spend(g, cost)
    if a < g.pc and int(row(g.start).max()) + g.offset > w.max_cycles:
        raise NotAlone("the budget of cycles is used up")
    g.pc = a
    return True


def _branch(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    test = g.get(a)
    _spend(g, cost)
    if not isinstance(test, np.ndarray):
        g.pc = g.pc if test else b
        return True
    no = test == 0
    if no.all():
        g.pc = b
        return True
    if not no.any():
        return True
    yes_part, no_part = g.part(np.flatnonzero(~no)), g.part(np.flatnonzero(no))
    no_part.pc = b
    w.groups += [no_part, yes_part]
    return False


def _arg(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    g.registers[_next_frame(w, g) + d] = g.get(a)
    return True


def _next_frame(w: Work, g: Group) -> int:
    return g.base + w.image.functions[g.function].registers


def _call(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    target = a if op == _CALL else g.get(a)
    if isinstance(target, np.ndarray):
        raise NotAlone("calls of different functions at one place")
    g.frames.append((g.pc, g.base, g.function << 16 | (d + 1)))
    g.base, g.function = _next_frame(w, g), target
    if g.base + w.image.functions[target].registers > g.home.row.registers:
        raise NotAlone("calls are nested deeply")
    g.pc = w.image.functions[target].entry
    _spend(g, cost)
    return True


def _return(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    value = g.get(a) if a >= 0 else None
    _spend(g, cost)
    if not g.frames:
        g.settle()
        changed(g.home)
        end = spread(g.clock, g.size)
        g.home.free[g.lanes] = end
        g.home.idle[g.lanes] = True
        g.home.busy[g.lanes] += end - g.home.picked[g.lanes]
        past(w, end)
        return False
    g.pc, base, packed = g.frames.pop()
    for register in [k for k in g.registers if k >= g.base]:
        del g.registers[register]
    g.base, g.function = base, packed >> 16
    if value is not None:
        g.put((packed & 0xFFFF) - 1, value)
    return True


def _activate(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    activate(g.home, g.lanes, spread(g.clock, g.size), g.get(a))
    _spend(g, cost)
    return True


def _blocking(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    if b != BlockKind.TASK:
        raise NotAlone("blocked queues or colors")
    block(g.home, g.lanes, spread(g.clock, g.size), g.get(a), op == Op.BLOCK)
    _spend(g, cost)
    return True


def _assert(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    if (row(g.get(a)) == 0).any():
        raise NotAlone("an assertion that does not hold")
    _spend(g, cost)
    return True


def _math(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    g.put(d, bg.math_of(b, kind, g.get(a), g.get(c) if c >= 0 else 0))
    _spend(g, cost)
    return True


def _machine(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    if kind == MachineOp.COORDINATE:
        axis = g.get(a)
        places = g.home.row.x if axis == 0 else g.home.row.y
        g.put(d, simplest(places[g.lanes].astype(np.int64)))
    elif kind == MachineOp.UNBLOCK_COMMANDS:
        g.home.open[g.lanes] = False
        g.home.done_at[g.lanes] = spread(g.clock, g.size)
    elif kind in _CLOCK:
        g.put(d, _clock(g, kind, g.get(a) if a >= 0 else 0))
    else:
        raise NotAlone(f"{MachineOp(kind).name.lower().replace('_', ' ')}")
    _spend(g, cost)
    return True


_CLOCK = (MachineOp.TIMESTAMP_WORD, MachineOp.TIMESTAMP_ENABLE, MachineOp.TIMESTAMP_RESET)


def _clock(g: Group, kind: int, x: Value) -> Value:
    """Operations of the time stamp counter, as the reference does them."""
    home, lanes, time = g.home, g.lanes, spread(g.clock, g.size)
    on = home.clock_on[lanes] != 0
    if kind == MachineOp.TIMESTAMP_WORD:
        count = np.where(on, time - home.clock[lanes], home.clock[lanes])
        return simplest((count >> (16 * x)) & 0xFFFF)
    if kind == MachineOp.TIMESTAMP_RESET:
        home.clock[lanes] = np.where(on, time, 0)
        return 0
    wanted = spread(x, g.size) != 0
    home.clock[lanes] = np.where(wanted != on, time - home.clock[lanes], home.clock[lanes])
    home.clock_on[lanes] = wanted
    return 0


def _dsd(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    bits, value = g.get(a), g.get(b)
    if op == Op.DSD_MOVE:
        moved = (bits & 0xFFFF) + value * c
        g.put(d, (bits & ~0xFFFF) | (moved & 0xFFFF))
    elif op == Op.DSD_BASE:
        g.put(d, (bits & ~(0xFFFF | 15 << 52)) | (value & 0xFFFF) | kind << 52)
    elif op == Op.DSD_LENGTH:
        g.put(d, _length_set(bits, value))
    else:
        g.put(d, (bits & ~(0xFFFF << 32)) | (value & 0xFFFF) << 32)
    _spend(g, cost)
    return True


def _length_set(bits: Value, value: Value) -> Value:
    """A DSD with extent `value`: the second field of memory DSDs, the first of fabric ones."""
    fabric = (bits >> 48 & 15) >= 3
    if isinstance(fabric, np.ndarray):
        raise NotAlone("DSDs of different kinds")
    return (bits & ~0xFFFF) | (value & 0xFFFF) if fabric else (bits & ~(0xFFFF << 16)) | (value & 0xFFFF) << 16


def _copy(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    """COPY: bytes with whether they are set."""
    to, source = g.get(d), g.get(a)
    g.flush()
    bg.guard(g, source, b, False)
    low, high = bg.guard(g, to, b, True)
    at, end = g.at[:, None], g.home.row.memory_bytes
    if (row(to).min() < 0) or (row(source).min() < 0) or max(row(to).max(), row(source).max()) + b > end:
        raise NotAlone("a copy outside memory")
    steps = np.arange(b)
    into, out = at + row(to)[:, None] + steps, at + row(source)[:, None] + steps
    flags = w.written[out]
    w.memory[into], w.written[into] = w.memory[out], flags
    if not flags.all():
        g.home.forget(low, high)
    _spend(g, cost)
    return True


HANDLERS: dict[int, Any] = {
    Op.CONST: _const, Op.LANE: _lane, Op.MOVE: _move, Op.CONVERT: _convert, Op.BITCAST: _convert, Op.LOAD: _load,
    Op.STORE: _store, Op.COPY: _copy, Op.CHECK: _check, Op.JUMP: _jump, Op.JUMP_IF_NOT: _branch, Op.ARG: _arg,
    Op.CALL: _call, Op.CALL_AT: _call, Op.RETURN: _return, Op.VECTOR: vector, Op.ACTIVATE: _activate,
    Op.BLOCK: _blocking, Op.UNBLOCK: _blocking, Op.ASSERT: _assert, Op.MACHINE: _machine, Op.MATH: _math,
    Op.DSD_MOVE: _dsd, Op.DSD_BASE: _dsd, Op.DSD_LENGTH: _dsd, Op.DSD_STRIDE: _dsd,
    **{o: _arithmetic for o in Op if Op.ADD <= o <= Op.LE},
}  # fmt: skip
