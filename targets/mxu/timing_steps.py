"""What each instruction does to the timing state, worked out once a program and run many times.

A step is an instruction with its durations, charges and accesses as numbers; `run(state, env)` is its
(max,+) update. Chaining: a consumer may start when the producer's first rows are there, if it does
not then overtake the last ones. Must not know how loops are skipped.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil
from typing import Protocol

from . import timing_state as ts
from .chip import Chip
from .isa import DmaGather, DmaStart, DmaWait, Mul, Pop, Push, Vector, View
from .regions import Extent, disjoint, view_extent
from .streamed import streamed_bytes, streamed_cycles
from .timing_state import TICKS, Charge, Record, Results, State, ticks
from .work import (
    Work,
    dma_cycles,
    dma_setup_cycles,
    gather_cycles,
    mul_cycles,
    mul_work,
    pop_cycles,
    pop_work,
    push_cycles,
    push_work,
    queue_steps,
    unit_cycles,
    vector_work,
    view_lane_work,
    vregs,
)
from .work_vector import fill_cycles

Env = dict[str, int]
# Term as numbers: loop, coefficient, divisor, modulus, offset.
Row = tuple[str, int, int, int, int]


class ProgramError(ValueError):
    """A program that cannot run at all: pops from an empty queue, waits for nothing. `verify` tells of most."""


class Step(Protocol):
    """One instruction made ready."""

    def run(self, st: State, env: Env) -> None: ...


@dataclass(eq=False, slots=True)
class Access:
    """A static access: the region a view (or accumulator rows) covers as loops go on.

    `space` is "vmem" or an accumulator file; `low`, `high` bound it over the whole program.
    """

    sid: int
    space: str
    base: int
    terms: tuple[Row, ...]
    extent: Extent
    write: bool
    # The unit that makes the access, to be blamed for waits.
    unit: int
    low: int = 0
    high: int = 0
    length: int = field(init=False)
    # Accesses known to meet this one, or not to.
    meets: dict[int, bool] = field(default_factory=dict[int, bool])

    def __post_init__(self) -> None:
        self.length = self.extent.length

    def at(self, env: Env) -> int:
        low = self.base
        for loop, coef, div, mod, offset in self.terms:
            step = (env[loop] + offset) // div
            low += coef * (step % mod if mod else step)
        return low


@dataclass(slots=True)
class Conflicts:
    """Which static accesses can ever touch the same bytes, one of them writing."""

    accesses: list[Access]
    # The unit whose access held the latest `wait` back.
    blame: int = -1

    def between(self, a: int, b: int) -> bool:
        """Whether accesses `a` and `b` can ever meet, one of them writing."""
        known = self.accesses[a].meets
        found = known.get(b)
        if found is None:
            x, y = self.accesses[a], self.accesses[b]
            found = (x.write or y.write) and x.space == y.space and x.low < y.high and y.low < x.high
            known[b] = y.meets[a] = found
        return found

    def wait(self, st: State, access: Access, low: int, start: int, dur: int, step: int, chained: bool) -> int:
        """Earliest start from `start` on of an access that lasts `dur` and goes through its rows in order.

        With `chained`, row by row behind each conflicting access under way; otherwise after their ends.
        """
        dead: list[int] = []
        meets, high, now = access.meets, low + access.length, st.now
        for sid, records in st.live.items():
            met = meets.get(sid)
            if met is None:
                met = self.between(access.sid, sid)
            if not met:
                continue
            other = self.accesses[sid]
            length, alive = other.length, False
            for r in records:
                if r.last <= now:
                    continue
                alive = True
                # Cheap tests first: most records are over, or lie elsewhere.
                if r.last <= start or high <= r.low or r.low + length <= low:
                    continue
                if disjoint(low, access.extent, r.low, other.extent):
                    continue
                behind = _behind(access, low, other, r, dur, step) if chained else r.last
                if behind > start:
                    start, self.blame = behind, other.unit
            if not alive:
                dead.append(sid)
        for sid in dead:
            del st.live[sid]
        return start


def _behind(access: Access, low: int, other: Access, r: Record, dur: int, step: int) -> int:
    """Earliest start at which rows of `access` stay behind the same rows of the access `r`."""
    mine, theirs = access.length, other.length
    a, b = max(low, r.low), min(low + mine, r.low + theirs)
    span = r.last - r.first
    first = r.first + span * (a - r.low) // theirs
    last = r.first + span * (b - r.low) // theirs
    return max(first - dur * (a - low) // mine, last - dur * (b - low) // mine + step)


def put(st: State, access: Access, low: int, first: int, last: int) -> None:
    """Note an access under way; those that are over are forgotten."""
    records = st.live.get(access.sid)
    if records is None:
        if len(st.live) >= st.crowded:
            st.sweep()
        st.live[access.sid] = [Record(low, first, last)]
        return
    now = st.now
    if records[0].last <= now:
        records[:] = [r for r in records if r.last > now]
    records.append(Record(low, first, last))


def charges(work: Work, chip: Chip, *more: Charge) -> tuple[Charge, ...]:
    """The servers that `work` takes ticks of."""
    names = (
        ("vld", ts.VLD),
        ("vst", ts.VST),
        ("valu", ts.VALU),
        ("eup", ts.EUP),
        ("xlu", ts.XLU),
        ("scalar", ts.SCALAR),
    )
    cycles = unit_cycles(work, chip)
    found = tuple((server, ticks(cycles[name])) for name, server in names if cycles[name])
    return found + more


def _longest(least: int, taken: tuple[Charge, ...]) -> int:
    return max(least, *(w for _, w in taken)) if taken else least


# ---- matrix units --------------------------------------------------------------------------------


class PushStep:
    """Loads the tile; it is staged after its last row."""

    def __init__(self, i: Push, chip: Chip, conflicts: Conflicts, tile: Access) -> None:
        self.unit, self.tile, self.conflicts, self.stages = i.unit, tile, conflicts, chip.mxu.stages
        k, n = i.tile.shape
        own = ticks(push_cycles(i.tile.dtype, chip))
        slots = ticks(vregs((k, n), i.tile.dtype.bits, chip))
        self.charges = charges(
            push_work(k, n, i.tile.dtype, chip) + view_lane_work(i.tile, chip), chip, (ts.PUSH_SLOT, slots)
        )
        self.dur = _longest(own, self.charges)
        self.load = ticks(chip.vpu.load_latency_cycles)
        self.busy = self.dur // chip.mxu.count
        self.step = self.dur // max(1, ceil(i.tile.shape[0] / 8))

    def run(self, st: State, env: Env) -> None:
        u = st.units[self.unit]
        start, cause = st.now, -1
        if u.push_free > start:
            start, cause = u.push_free, ts.PUSH
        if len(u.staged) >= self.stages:
            raise ProgramError(f"a tile is pushed to unit {self.unit} over one that is still staged")
        before = self.stages - len(u.staged)
        if before <= len(u.latched) and u.latched[-before] > start:
            start, cause = u.latched[-before], ts.MXU
        low = self.tile.at(env)
        waited = self.conflicts.wait(st, self.tile, low, start, self.dur, self.step, True)
        if waited > start:
            start, cause = waited, self.conflicts.blame
        start, held = st.serve(start, self.dur, self.charges)
        end = start + self.dur
        u.push_free = end
        u.staged.append(end + self.load)
        st.issue(start, ts.UNIT_OF[held] if held >= 0 else cause)
        put(st, self.tile, low, start, end)
        st.counters[st.base + ts.PUSH] += self.busy
        st.finish(end + self.load)
        if st.record:
            st.note(f"push{self.unit}", start, end)


class MulStep:
    """Streams rows in; results go to the queue or the accumulators."""

    def __init__(self, i: Mul, chip: Chip, conflicts: Conflicts, lhs: Access, acc: Access | None) -> None:
        self.unit, self.latch, self.lhs, self.acc, self.conflicts = i.unit, i.latch, lhs, acc, conflicts
        rows, k = i.lhs.shape
        slots = ticks(vregs((rows, k), i.lhs.dtype.bits, chip))
        self.charges = charges(
            mul_work(rows, k, i.lhs.dtype, chip) + view_lane_work(i.lhs, chip), chip, (ts.PUSH_SLOT, slots)
        )
        self.steps = queue_steps(rows)
        own = ticks(mul_cycles(rows, i.lhs.dtype, chip))
        self.dur = _longest(own, self.charges)
        self.interval = self.dur // self.steps if self.steps else 0
        self.latency = ticks(chip.mxu.latency_of(i.unit))
        self.load = ticks(chip.vpu.load_latency_cycles)
        self.busy = own // chip.mxu.count
        self.depth = chip.mxu.result_queue_steps

    def run(self, st: State, env: Env) -> None:
        u = st.units[self.unit]
        start, cause = self._ready(st, u)
        low = self.lhs.at(env)
        waited = self.conflicts.wait(st, self.lhs, low, start, self.dur, self.interval, True)
        if self.acc is not None:
            acc_low = self.acc.at(env)
            behind = self.conflicts.wait(st, self.acc, acc_low, start + self.latency, self.dur, self.interval, True)
            waited = max(waited, behind - self.latency)
        if waited > start:
            start, cause = waited, self.conflicts.blame
        start, held = st.serve(start, self.dur, self.charges)
        end = start + self.dur
        if self.latch:
            u.staged.popleft()
            u.latched.append(start)
        u.mul_free = end
        first = start + self.latency
        if self.acc is None:
            u.queue.append(Results(self.steps, first, self.interval))
            u.entered += self.steps
        else:
            put(st, self.acc, self.acc.at(env), first, first + self.dur)
        st.issue(start, ts.UNIT_OF[held] if held >= 0 else cause)
        put(st, self.lhs, low, start, end)
        st.counters[st.base + ts.MXU] += self.busy
        st.finish(end)
        if st.record:
            st.note(f"mxu{self.unit}", start, end)

    def _ready(self, st: State, u: ts.MatrixUnit) -> tuple[int, int]:
        """When unit, weights and queue allow the first row; the unit to blame."""
        start, cause = st.now + self.load, -1
        if u.mul_free > start:
            start, cause = u.mul_free, ts.MXU
        if self.latch:
            if not u.staged:
                raise ProgramError(f"unit {self.unit} latches a tile but none is staged")
            if u.staged[0] > start:
                start, cause = u.staged[0], ts.PUSH
        if self.acc is None and self.steps:
            popped = u.step_popped(u.entered - self.depth)
            if popped is not None and popped > start:
                start, cause = popped, ts.POP
            # The last step must not enter before the pop of the one `depth` before it, if that is known.
            popped = u.step_popped(u.entered + self.steps - 1 - self.depth)
            if popped is not None and popped - self.dur + self.interval > start:
                start, cause = popped - self.dur + self.interval, ts.POP
        return start, cause


class PopStep:
    """Takes steps from the queue or accumulators to VMEM."""

    def __init__(self, i: Pop, chip: Chip, conflicts: Conflicts, dst: Access, acc: Access | None) -> None:
        self.unit, self.dst, self.acc, self.conflicts = i.unit, dst, acc, conflicts
        rows, n = i.dst.shape
        self.steps = queue_steps(rows)
        words = ticks(vregs((rows, n), 32, chip))
        self.charges = charges(
            pop_work(rows, n, i.add, i.dst.dtype, chip) + view_lane_work(i.dst, chip), chip, (ts.POP_SLOT, words)
        )
        own = ticks(pop_cycles(rows, chip))
        self.dur = _longest(own, self.charges)
        self.interval = self.dur // max(1, self.steps)
        self.busy = own // chip.mxu.count
        self.depth = chip.mxu.result_queue_steps
        add = chip.vpu.latency_cycles if i.add else 0
        self.visible = ticks(chip.mxu.pop_latency_cycles + add + chip.vpu.store_latency_cycles)

    def run(self, st: State, env: Env) -> None:
        u = st.units[self.unit]
        start, cause = st.now, -1
        if u.pop_free > start:
            start, cause = u.pop_free, ts.POP
        if self.acc is None:
            ready = self._take(u)
        else:
            ready = self.conflicts.wait(st, self.acc, self.acc.at(env), start, self.dur, self.interval, True)
        if ready > start:
            start, cause = ready, ts.MXU
        low = self.dst.at(env)
        waited = self.conflicts.wait(st, self.dst, low, start, self.dur, self.interval, True)
        if waited > start:
            start, cause = waited, self.conflicts.blame
        start, held = st.serve(start, self.dur, self.charges)
        end = start + self.dur
        u.pop_free = end
        if self.acc is None:
            self._popped(u, start)
        else:
            put(st, self.acc, self.acc.at(env), start, end)
        st.issue(start, ts.UNIT_OF[held] if held >= 0 else cause)
        last = end - self.interval + self.visible
        put(st, self.dst, low, start + self.visible, last)
        st.counters[st.base + ts.POP] += self.busy
        st.finish(last)
        if st.record:
            st.note(f"pop{self.unit}", start, end)

    def _take(self, u: ts.MatrixUnit) -> int:
        """Earliest start that finds every step ready as the pop comes to it."""
        left, start, done = self.steps, 0, 0
        while left:
            if not u.queue:
                raise ProgramError(f"unit {self.unit} pops more rows than it holds")
            head = u.queue[0]
            count = min(left, head.steps - u.taken)
            first = head.first + u.taken * head.interval
            last = first + (count - 1) * head.interval
            start = max(start, first - done * self.interval, last - (done + count - 1) * self.interval)
            done, left = done + count, left - count
            u.taken += count
            if u.taken == head.steps:
                u.queue.popleft()
                u.taken = 0
        return start

    def _popped(self, u: ts.MatrixUnit, start: int) -> None:
        """Note the pop; rows of products already issued wait for room in the queue."""
        u.pop_step, u.pop_start, u.pop_interval = u.popped, start, self.interval
        u.popped += self.steps
        popped = u.step_popped(u.entered - 1 - self.depth)
        if popped is not None:
            u.mul_free = max(u.mul_free, popped + self.interval)


# ---- vector units --------------------------------------------------------------------------------


class VectorStep:
    """A body on the vector units: as long as its busiest slot, behind its operands row by row."""

    def __init__(self, i: Vector, chip: Chip, conflicts: Conflicts, reads: list[Access], writes: list[Access]) -> None:
        self.conflicts, self.writes = conflicts, writes
        work = vector_work(i.body, chip)
        self.charges = charges(work, chip)
        self.dur = _longest(TICKS, self.charges)
        self.fill = ticks(fill_cycles(work) + chip.vpu.store_latency_cycles)
        self.streams = work.streams
        sizes = [vregs(v.shape, 32, chip) for v in i.inputs]
        most = max([*sizes, *(vregs(v.shape, 32, chip) for v in i.outputs)], default=1)
        # An operand smaller than the largest is used all along, so all of it must be there from the start.
        self.reads = [(a, size >= most) for a, size in zip(reads, sizes, strict=True)]
        self.step = self.dur // max(1, most)

    def run(self, st: State, env: Env) -> None:
        start, cause = st.now, -1
        lows: list[tuple[Access, int]] = []
        for access, chained in self.reads:
            low = access.at(env)
            lows.append((access, low))
            waited = self.conflicts.wait(st, access, low, start, self.dur, self.step, chained)
            if waited > start:
                start, cause = waited, self.conflicts.blame
        for access in self.writes:
            low = access.at(env)
            lows.append((access, low))
            waited = self.conflicts.wait(st, access, low, start, self.dur, self.step, self.streams)
            if waited > start:
                start, cause = waited, self.conflicts.blame
        start, held = st.serve(start, self.dur, self.charges)
        end = start + self.dur
        last = end + self.fill
        first = start + self.fill if self.streams else last
        st.issue(start, ts.UNIT_OF[held] if held >= 0 else cause)
        for access, low in lows:
            if access.write:
                put(st, access, low, first, last)
            else:
                put(st, access, low, start, end)
        st.finish(last)
        if st.record:
            st.note("vector", start, end)


class StreamStep:
    """A body straight from and to main memory: the stream goes on when its last result is written."""

    def __init__(self, i: Vector, chip: Chip) -> None:
        work = vector_work(i.body, chip)
        self.read, self.written = streamed_bytes([n.type for n in i.body.inputs], i.body.output_types, work, chip)
        moved = self.read + self.written
        self.charges = charges(work, chip, (ts.HBM, ticks(moved / chip.hbm_bytes_per_cycle)))
        self.dur = _longest(ticks(streamed_cycles(work, moved, chip)), self.charges)

    def run(self, st: State, env: Env) -> None:
        start, held = st.serve(st.now, self.dur, self.charges)
        end = start + self.dur
        st.counters[st.base + ts.READ] += self.read
        st.counters[st.base + ts.WRITTEN] += self.written
        st.issue(start, ts.UNIT_OF[held] if held >= 0 else -1)
        st.now = end
        st.finish(end)
        if st.record:
            st.note("vector", start, end)


# ---- copies --------------------------------------------------------------------------------------


class DmaStep:
    """Starts a copy: it waits for VMEM accesses under way, then for its turn on the memory."""

    def __init__(self, i: DmaStart | DmaGather, chip: Chip, conflicts: Conflicts, accesses: list[Access]) -> None:
        self.conflicts, self.accesses, self.sem = conflicts, accesses, i.sem
        src = i.src if isinstance(i, DmaStart) else i.table
        self.server = ts.HBM if "hbm" in (src.memory, i.dst.memory) else ts.LOCAL
        self.setup = ticks(dma_setup_cycles(i.dst, src, chip))
        if isinstance(i, DmaStart):
            self.work = self.span = ticks(dma_cycles(i.dst, i.src, chip))
        else:
            row = View(src.memory, src.address, src.dtype, (1, *src.shape[1:]), src.strides)
            work, span = gather_cycles(i.dst.shape[0], row, chip)
            self.work, self.span = ticks(work), ticks(span)
            self.setup += ticks(chip.issue.vector_to_scalar_cycles)
        moved = view_bytes(i.dst)
        self.read = moved if src.memory == "hbm" else 0
        self.written = moved if i.dst.memory == "hbm" else 0
        # A gather's descriptors are made one by one by the scalar core, which then goes on.
        self.issue = ticks(i.dst.shape[0] * chip.issue.scalar_access_cycles) if isinstance(i, DmaGather) else 0
        self.blame = ts.HBM if self.span > self.setup and self.server == ts.HBM else ts.DMA

    def run(self, st: State, env: Env) -> None:
        ready = st.now
        for access in self.accesses:
            ready = self.conflicts.wait(st, access, access.at(env), ready, TICKS, 0, False)
        if len(st.in_flight) == st.in_flight.maxlen and st.in_flight[0] > ready:
            ready = st.in_flight[0]
        turn = max(st.free[self.server], ready + self.setup)
        st.free[self.server] = turn + self.work
        end = turn + self.span
        st.in_flight.append(max(end, st.in_flight[-1]) if st.in_flight else end)
        st.semaphores.setdefault(self.sem, deque()).append((end, self.blame))
        base = st.base
        st.counters[base + ts.UNIT_OF[self.server]] += self.work
        st.counters[base + ts.READ] += self.read
        st.counters[base + ts.WRITTEN] += self.written
        st.counters[base + ts.SCALAR] += self.issue
        st.issue(st.now, -1)
        st.now += self.issue
        st.finish(end)
        if st.record:
            st.note("hbm" if self.server == ts.HBM else "copy", turn, end)


def view_bytes(view: View) -> int:
    """Bytes of a view's elements."""
    ext = view.dtype.numpy.itemsize
    for n in view.shape:
        ext *= n
    return ext


class WaitStep:
    """Holds the stream until the oldest copy of its semaphore has ended."""

    def __init__(self, i: DmaWait) -> None:
        self.sem = i.sem

    def run(self, st: State, env: Env) -> None:
        waiting = st.semaphores.get(self.sem)
        if not waiting:
            raise ProgramError(f"semaphore {self.sem} is waited for with no copy outstanding")
        end, cause = waiting.popleft()
        st.issue(max(st.now, end), cause)


def access_of(sid: int, view: View, write: bool, unit: int) -> Access:
    """The static access of a VMEM view."""
    terms = tuple((t.loop, t.coef, t.div, t.mod, t.offset) for t in view.address.terms)
    return Access(sid, view.memory, view.address.base, terms, view_extent(view), write, unit)
