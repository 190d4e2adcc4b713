"""Simulated time of a program: (max,+) arithmetic on the state of a core, without values.

`time_program` makes each instruction a step once, runs the stream, lets loops skip what repeats, and
tells times by kernel and by unit. Formulas and their sources are in `docs/mxu-machine.md`. Must not
know plans, costs or values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from ...compiler.plan.target import KernelTime, Slice, Timing, UnitTime
from . import timing_state as ts
from .chip import Chip
from .fallback import fallback_notes
from .isa import (
    Condition,
    DmaGather,
    DmaStart,
    DmaWait,
    Instruction,
    KernelBlock,
    Loop,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Vector,
    View,
    When,
)
from .regions import Extent, loop_range
from .timing_loop import KernelStep, LoopStep, Notes, WhenStep, reach, shape_of
from .timing_state import COUNTERS, TICKS, MatrixUnit, State
from .timing_steps import (
    Access,
    Conflicts,
    DmaStep,
    MulStep,
    PopStep,
    ProgramError,
    PushStep,
    Step,
    StreamStep,
    VectorStep,
    WaitStep,
    access_of,
)

__all__ = ["ProgramError", "limited_by", "time_program"]

# A loop of more iterations than this that is replayed in full is worth a note.
MANY = 4000


def time_program(program: MxuProgram, chip: Chip, *, jumps: bool = True) -> Timing:
    """Simulated time of `program` on `chip`: seconds, kernels, units, bytes, bars of the first iterations.

    `jumps=False` replays every iteration (the result is the same). Raises ProgramError for a program
    that could not run: a pop of nothing, a wait for nothing.
    """
    made = _Maker(chip, Notes(jumps))
    steps = made.body(program.stream, {}, [], [])
    state = State([_unit(chip) for _ in range(chip.mxu.count)], deque(maxlen=chip.dma.in_flight))
    state.counters = [0] * (COUNTERS * (1 + len(made.kernels)))
    for step in steps:
        step.run(state, {})
    return _Result(made, state, chip).timing()


def _unit(chip: Chip) -> MatrixUnit:
    return MatrixUnit(latched=deque(maxlen=chip.mxu.stages))


@dataclass(slots=True)
class _Maker:
    """Makes steps; gathers each loop's accesses and conditions on the way."""

    chip: Chip
    notes: Notes
    conflicts: Conflicts = field(default_factory=lambda: Conflicts([]))
    kernels: list[tuple[KernelBlock, KernelStep]] = field(default_factory=list[tuple[KernelBlock, KernelStep]])

    def body(
        self,
        stream: Sequence[Instruction],
        ranges: dict[str, tuple[int, int]],
        found: list[Access],
        tests: list[Condition],
    ) -> list[Step]:
        """Steps of `stream` inside loops of `ranges`; its accesses go to `found`, its conditions to `tests`."""
        return [self._step(i, ranges, found, tests) for i in stream]

    def _step(
        self, i: Instruction, ranges: dict[str, tuple[int, int]], found: list[Access], tests: list[Condition]
    ) -> Step:
        match i:
            case Loop():
                return self._loop(i, ranges, found, tests)
            case When(conditions, body):
                tests.extend(conditions)
                return WhenStep(conditions, self.body(body, ranges, found, tests))
            case KernelBlock():
                return self._kernel(i, ranges, found, tests)
            case DmaWait():
                return WaitStep(i)
            case _:
                return self._plain(i, ranges, found)

    def _loop(self, i: Loop, ranges: dict[str, tuple[int, int]], found: list[Access], tests: list[Condition]) -> Step:
        own: list[Access] = []
        conditions: list[Condition] = []
        inner = {**ranges, i.var: loop_range(i)}
        body = self.body(i.body, inner, own, conditions)
        found += own
        tests += conditions
        shape = shape_of(i.var, own, conditions, _inside(i.body), self.conflicts)
        return LoopStep(i.var, i.start, i.stop, body, shape, self.chip.issue.loop_cycles, self.notes, self.conflicts)

    def _kernel(
        self, i: KernelBlock, ranges: dict[str, tuple[int, int]], found: list[Access], tests: list[Condition]
    ) -> Step:
        at = len(self.kernels)
        step = KernelStep(i.name, COUNTERS * (at + 1), [])
        self.kernels.append((i, step))
        step.body = self.body(i.body, ranges, found, tests)
        return step

    def _plain(
        self,
        i: DmaStart | DmaGather | Push | Mul | Pop | Vector,
        ranges: dict[str, tuple[int, int]],
        found: list[Access],
    ) -> Step:
        def access(view: View, write: bool, unit: int) -> Access:
            return self._add(access_of(len(self.conflicts.accesses), view, write, unit), ranges, found)

        def acc(unit: int, row: int | None, rows: int, write: bool) -> Access | None:
            if row is None:
                return None
            made = Access(len(self.conflicts.accesses), f"acc{unit}", row, (), Extent(1, rows, 0), write, ts.MXU)
            return self._add(made, ranges, found)

        chip, conflicts = self.chip, self.conflicts
        match i:
            case DmaStart(dst, src):
                sides = [access(v, v is dst, ts.DMA) for v in (src, dst) if v.memory == "vmem"]
                return DmaStep(i, chip, conflicts, sides)
            case DmaGather(dst, table, index):
                sides = [access(v, v is dst, ts.DMA) for v in (index, table, dst) if v.memory == "vmem"]
                return DmaStep(i, chip, conflicts, sides)
            case Push():
                return PushStep(i, chip, conflicts, access(i.tile, False, ts.PUSH))
            case Mul():
                lhs = access(i.lhs, False, ts.MXU)
                return MulStep(i, chip, conflicts, lhs, acc(i.unit, i.acc, i.lhs.shape[0], True))
            case Pop():
                dst = access(i.dst, True, ts.POP)
                return PopStep(i, chip, conflicts, dst, acc(i.unit, i.acc, i.dst.shape[0], True))
            case Vector() if any(v.memory == "hbm" for v in (*i.inputs, *i.outputs)):
                return StreamStep(i, chip)
            case Vector():
                reads = [access(v, False, ts.VALU) for v in i.inputs]
                return VectorStep(i, chip, conflicts, reads, [access(v, True, ts.VALU) for v in i.outputs])

    def _add(self, made: Access, ranges: dict[str, tuple[int, int]], found: list[Access]) -> Access:
        made.low, made.high = reach(made, ranges)
        self.conflicts.accesses.append(made)
        found.append(made)
        return made


def _inside(stream: Sequence[Instruction]) -> dict[str, tuple[int, int]]:
    """The ranges of the loops in `stream`."""
    found: dict[str, tuple[int, int]] = {}
    for i in stream:
        if isinstance(i, Loop):
            found[i.var] = loop_range(i)
        if isinstance(i, (Loop, When, KernelBlock)):
            found |= _inside(i.body)
    return found


def limited_by(busy: Sequence[int], span: int) -> str:
    """The busiest unit of a span; `latency` when none is busy for half of it."""
    units = [u for u in range(len(ts.UNITS)) if u not in (ts.DMA, ts.ISSUE)]
    most = max(units, key=lambda u: busy[u])
    return ts.UNITS[most] if 2 * busy[most] > span else "latency"


@dataclass(slots=True)
class _Result:
    """Counters turned into seconds."""

    made: _Maker
    state: State
    chip: Chip

    def seconds(self, t: int) -> float:
        return t / TICKS / self.chip.hz

    def timing(self) -> Timing:
        st, total = self.state, self.totals()
        return Timing(
            seconds=self.seconds(st.done),
            cycles=ceil(st.done / TICKS),
            kernels=self.kernels(),
            slices=tuple(Slice(u, n, self.seconds(a), self.seconds(d)) for u, n, a, d in st.slices),
            bytes_read=total[ts.READ],
            bytes_written=total[ts.WRITTEN],
            checks=self.checks(total),
            notes=self.notes(),
        )

    def totals(self) -> list[int]:
        """Each counter summed over the kernels and what lies outside them."""
        return [sum(self.state.counters[c::COUNTERS]) for c in range(COUNTERS)]

    def kernels(self) -> tuple[KernelTime, ...]:
        """One entry for each kernel name, in order of first appearance."""
        found: dict[str, tuple[int, list[int]]] = {}
        for block, step in self.made.kernels:
            own = self.state.counters[step.base : step.base + COUNTERS]
            if not own[ts.COUNT] or step.first is None:
                continue
            first, sums = found.get(block.name, (step.first, [0] * COUNTERS))
            found[block.name] = (first, [a + b for a, b in zip(sums, own, strict=True)])
        return tuple(self._kernel(name, first, c) for name, (first, c) in found.items())

    def _kernel(self, name: str, first: int, c: list[int]) -> KernelTime:
        units = tuple(
            UnitTime(u, self.seconds(c[n]), self.seconds(c[ts.STALL + n]))
            for n, u in enumerate(ts.UNITS)
            if c[n] or c[ts.STALL + n]
        )
        return KernelTime(
            name, self.seconds(first), self.seconds(c[ts.SPAN]), c[ts.COUNT], c[ts.READ], c[ts.WRITTEN], units,
            limited_by(c, c[ts.SPAN]),
        )  # fmt: skip

    def checks(self, total: list[int]) -> tuple[tuple[str, bool, str], ...]:
        """What must hold of any timing; a breach is a fault of the model."""
        done, chip = self.state.done, self.chip
        busiest = max(range(len(ts.UNITS)), key=lambda u: total[u])
        moved = total[ts.READ] + total[ts.WRITTEN]
        least = moved / (chip.dma.hbm_gbs * 1e9)
        return (
            ("busy_within_total", total[busiest] <= done,
             f"{ts.UNITS[busiest]} is busy for {total[busiest] / max(done, 1):.1%} of the time"),
            ("bandwidth", self.seconds(done) >= least * (1 - 1e-12),
             f"{moved} bytes need {least:.3e} s, taken {self.seconds(done):.3e} s"),
            ("kernels_sum_to_total", total[ts.SPAN] <= done,
             f"{self.seconds(done - total[ts.SPAN]):.3e} s lie outside kernels"),
            ("queues_empty", self.settled(), "no tile staged, no result and no copy left at the end"),
        )  # fmt: skip

    def settled(self) -> bool:
        st = self.state
        return not any(u.staged or u.queue for u in st.units) and not any(st.semaphores.values())

    def notes(self) -> tuple[str, ...]:
        replayed = (
            f"loop {var} does not repeat: its {n} iterations were timed one by one"
            for var, n in self.made.notes.replayed.items()
            if n > MANY and self.made.notes.jumps
        )
        slow = (note for block, _ in self.made.kernels for note in fallback_notes(block, self.chip))
        return (*replayed, *dict.fromkeys(slow))
