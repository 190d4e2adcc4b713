"""Groups enter the compiled loop over code that is the same for all their PEs (batched_uniform), and leave it again.

It pays to enter where much may follow: at calls, ends of loops, and at work that can be queued. Must not know streams,
nor who runs when.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from . import batched_uniform as u
from .batched_group import Group, row, signed
from .batched_queue import Queue, Slot
from .batched_streams import Ints, NotAlone
from .batched_times import any_later
from .ir import Dsd, Image, Kind, Op, V

# Instructions that must come out of entering at a call or the end of a loop; else it is not tried there again.
_WORTH = 8


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """A program as the loop reads it: `code` with costs as its last column, registers and entries of functions, rows of
    vectors, and which of them may be queued; `doors` tells the instructions at which to enter."""

    code: NDArray[np.int64]
    constants: Ints
    sizes: Ints
    entries: Ints
    vectors: NDArray[np.int32]
    plain: NDArray[np.bool_]
    doors: list[bool]


def tables_of(image: Image) -> Tables:
    """The tables of a program; `doors` are the caller's to close."""
    made = _tables(image)
    return Tables(
        made.code, made.constants, made.sizes, made.entries, made.vectors, made.plain, list(made.doors)
    )  # fmt: skip


@lru_cache(maxsize=8)
def _tables(image: Image) -> Tables:
    code = np.column_stack((image.code, image.cost)).astype(np.int64)
    sizes = np.array([function.registers for function in image.functions], np.int64)
    entries = np.array([function.entry for function in image.functions], np.int64)
    plain = _plain(image.vectors)
    op, places = code[:, 0], np.arange(len(code))
    doors = (op == Op.CALL) | ((op == Op.JUMP) & (code[:, 3] <= places))
    doors |= (op == Op.LOAD) & (code[:, 1] == Kind.F32)
    vectors = op == Op.VECTOR
    doors[vectors] = plain[code[vectors, 3]]
    return Tables(code, image.constants, sizes, entries, image.vectors, plain, doors.tolist())


def _plain(v: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Rows of f32 that end before the next instruction and bring nothing else about."""
    nothing = (v[:, V.ASYNC] <= 0) & (v[:, V.ON_CONTROL] <= 0) & (v[:, V.POINTERS] == 0)
    for column in (V.INDEX, V.ACTIVATE, V.UNBLOCK):
        nothing &= v[:, column] < 0
    kinds = (v[:, V.DEST_KIND] == Kind.F32) & np.isin(v[:, V.SOURCE_KIND], (-1, int(Kind.F32)))
    return nothing & kinds & np.isin(v[:, V.OP], u.QUEUED)


def enter(tables: Tables, queue: Queue, written: NDArray[np.uint8], g: Group, bounds: tuple[int, bool, int]) -> bool:
    """Run what is the same for all PEs of the group from here on; False when the instruction at hand is not.

    `bounds`: the place ahead at which another part waits, whether it may call, the last cycle. NotAlone beyond that.
    """
    registers, tags = _registers(g)
    frames = np.empty((u.MOST_FRAMES, u.FRAME), np.int64)
    state, claims, t = _state(g, bounds), _claims(g), tables
    place = g.pc
    while True:
        u.run_uniform(
            t.code, t.constants, t.sizes, t.entries, t.vectors, t.plain, registers, tags, frames, g.home.variables,
            claims, queue.rows, queue.constants, queue.counts, state,
        )  # fmt: skip
        if state[u.U_REASON] != u.UNKNOWN:
            break
        g.home.written(int(state[u.U_SYMBOL]), written)
    if state[u.U_REASON] == u.BUDGET:
        raise NotAlone("the budget of cycles is used up")
    _leave(g, registers, tags, frames, state)
    if state[u.U_REASON] == u.FULL:
        g.flush()
        return True
    if state[u.U_STEPS] < _WORTH and _leads_nowhere(t, g, place):
        t.doors[place] = False
    return bool(state[u.U_STEPS])


def _leads_nowhere(t: Tables, g: Group, place: int) -> bool:
    """Whether it is not worth to enter at a place again: at a call or the end of a loop, or at work over words."""
    if t.code[place, 0] in (Op.CALL, Op.JUMP):
        return True
    if place != g.pc or t.code[place, 0] != Op.VECTOR:
        return False
    v = t.vectors[t.code[place, 3]]
    bits = [g.registers.get(g.base + int(k)) for k in v[V.OPERAND0 : V.OPERAND0 + v[V.COUNT]]]
    return any(type(x) is int and v[V.DSDS] >> k & 1 and x >> 48 & 15 != Dsd.MEM1D for k, x in enumerate(bits))


def _registers(g: Group) -> tuple[Ints, NDArray[np.uint8]]:
    """The registers of a group, and what each holds."""
    count = max(g.home.row.registers, max(g.registers, default=0) + 1)
    numbers, tags = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    for k, value in g.registers.items():
        if type(value) is Slot:
            numbers[k], tags[k] = value.index, u.SLOT
        elif isinstance(value, np.ndarray):
            tags[k] = u.DIFFERENT
        else:
            numbers[k], tags[k] = signed(int(value)), u.NUMBER
    return numbers, tags


def _state(g: Group, bounds: tuple[int, bool, int]) -> Ints:
    meeting, calls, last = bounds
    state = np.zeros(u.U_SIZE, np.int64)
    state[u.U_PC], state[u.U_BASE], state[u.U_FUNCTION] = g.pc, g.base, g.function
    free = g.vector if g.vector is not None else int((g.home.vector_free[g.lanes] - g.start).max())
    state[u.U_OFFSET], state[u.U_VECTOR], state[u.U_MEETING], state[u.U_CALLS] = g.offset, free, meeting, calls
    state[u.U_LAST_OFFSET] = last - int(row(g.start).max())
    return state


def _claims(g: Group) -> Ints:
    """The memory that operations under way may still use at the clock of the group or later."""
    clock = row(g.clock)
    live = [(c.low, c.high, c.writes) for c in g.home.claims if any_later(c.end, g.lanes, clock)]
    return np.array(live, np.int64).reshape(-1, 3)


def _leave(g: Group, numbers: Ints, tags: NDArray[np.uint8], frames: Ints, state: Ints) -> None:
    kept = g.registers
    g.registers = {}
    for k in np.flatnonzero(tags).tolist():
        tag = tags[k]
        g.registers[k] = int(numbers[k]) if tag == u.NUMBER else Slot(int(numbers[k])) if tag == u.SLOT else kept[k]
    for back, base, function, result in frames[: state[u.U_DEPTH]].tolist():
        g.frames.append((back, base, function << 16 | (result + 1)))
    g.pc, g.base, g.function = (int(state[k]) for k in (u.U_PC, u.U_BASE, u.U_FUNCTION))
    g.offset, g.elements = int(state[u.U_OFFSET]), g.elements + int(state[u.U_ELEMENTS])
    if state[u.U_ISSUED]:
        g.vector = int(state[u.U_VECTOR])


def bounds_of(groups: list[Group], g: Group, meeting: int, last: int) -> tuple[int, bool, int]:
    """What bounds a stay of `g` while `groups` wait: it must not call where it could meet one."""
    deeper = any(p.home is g.home and len(p.frames) > len(g.frames) for p in groups)
    return meeting, not deeper, last
