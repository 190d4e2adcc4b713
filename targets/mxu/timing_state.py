"""The state of a core as the timing model sees it: when each unit, slot, register and byte is free.

Times are whole ticks, so that a state met again is met exactly. Everything is (max,+): a time only
ever grows by max and by adding constants, so a state that repeats relative to `now` repeats for ever.
Must not know instructions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import ceil
from typing import TypeAlias

# Ticks a cycle: fractions of a cycle (three load slots, bytes over bandwidth) are rounded up to them.
TICKS = 1024

# What busy and stall times are told by. `dma`: the latency of copies; `issue`: one instruction a cycle, loops.
UNITS = ("hbm", "mxu", "push", "pop", "vld", "vst", "valu", "eup", "xlu", "scalar", "dma", "issue")
HBM, MXU, PUSH, POP, VLD, VST, VALU, EUP, XLU, SCALAR, DMA, ISSUE = range(len(UNITS))
# Servers: the units with one queue of work. Slots that push and pop instructions issue in come after them.
SERVERS = len(UNITS) + 3
PUSH_SLOT, POP_SLOT, LOCAL = len(UNITS), len(UNITS) + 1, len(UNITS) + 2
# The unit that a server's busy time counts for; push and pop slots belong to units that count their own.
UNIT_OF = (*range(len(UNITS)), PUSH, POP, DMA)

# Counters: busy a unit, stall a unit, bytes read, bytes written, ticks, count.
STALL = len(UNITS)
READ, WRITTEN, SPAN, COUNT = 2 * STALL, 2 * STALL + 1, 2 * STALL + 2, 2 * STALL + 3
COUNTERS = 2 * STALL + 4

Charge: TypeAlias = "tuple[int, int]"  # server, ticks
SLICE_LIMIT = 20_000
# Accesses under way, at least, from which on those that are over are looked for.
FEW_LIVE = 64


def ticks(cycles: float) -> int:
    """`cycles` in ticks, rounded up."""
    return ceil(cycles * TICKS)


@dataclass(slots=True)
class Results:
    """Results of one product waiting in a queue: step `i` of `steps` is ready at first + i * interval."""

    steps: int
    first: int
    interval: int

    def relative(self, now: int) -> tuple[int, int, int]:
        """These results in times from `now`; once all are ready, since when does not matter."""
        ready = self.first + self.steps * self.interval <= now
        return self.steps, 0 if ready else self.first - now, self.interval


@dataclass(slots=True)
class MatrixUnit:
    """One matrix unit. Steps (8 rows) entered and popped are counted from the start of the program."""

    mul_free: int = 0
    push_free: int = 0
    pop_free: int = 0
    # Times at which pushed tiles are ready, oldest first, and when the latest latches freed their registers.
    staged: deque[int] = field(default_factory=deque[int])
    latched: deque[int] = field(default_factory=deque[int])
    queue: deque[Results] = field(default_factory=deque[Results])
    # Steps taken from the queue's head entry.
    taken: int = 0
    entered: int = 0
    popped: int = 0
    # The latest pop: its first step, its start, its interval.
    pop_step: int = 0
    pop_start: int = 0
    pop_interval: int = 0

    def step_popped(self, step: int) -> int | None:
        """When step number `step` was popped, if the latest pop took it."""
        if self.pop_interval and self.pop_step <= step < self.popped:
            return self.pop_start + (step - self.pop_step) * self.pop_interval
        return None

    def shift(self, by: int) -> None:
        self.mul_free += by
        self.push_free += by
        self.pop_free += by
        self.pop_start += by
        self.staged = deque(t + by for t in self.staged)
        self.latched = deque((t + by for t in self.latched), self.latched.maxlen)
        for r in self.queue:
            r.first += by

    def relative(self, now: int) -> tuple[object, ...]:
        """What of this unit the future can depend on, in times from `now`."""
        last = self.step_popped(self.popped - 1)
        recent = (
            self.entered - self.popped,
            self.popped - self.pop_step,
            max(self.pop_start - now, -(1 << 40)),
            self.pop_interval,
        )
        live = recent if last is not None and last > now else (self.entered - self.popped,)
        return (
            max(self.mul_free - now, 0), max(self.push_free - now, 0), max(self.pop_free - now, 0), self.taken, live,
            tuple(max(t - now, 0) for t in self.staged), tuple(max(t - now, 0) for t in self.latched),
            tuple(r.relative(now) for r in self.queue),
        )  # fmt: skip


@dataclass(slots=True)
class Record:
    """An access under way: where it began, and when its first and its last row are done with."""

    low: int
    first: int
    last: int


@dataclass(slots=True)
class State:
    """A core at one point of its stream. `now`: the earliest start of the next instruction."""

    units: list[MatrixUnit]
    in_flight: deque[int]
    now: int = 0
    done: int = 0
    free: list[int] = field(default_factory=lambda: [0] * SERVERS)
    # Completion of outstanding copies by semaphore, oldest first, with the unit to blame for the wait.
    semaphores: dict[int, deque[tuple[int, int]]] = field(default_factory=dict[int, deque[tuple[int, int]]])
    # Accesses under way, by static access.
    live: dict[int, list[Record]] = field(default_factory=dict[int, list[Record]])
    # The number of them at which those that are over are forgotten; each wait looks through all.
    crowded: int = FEW_LIVE
    counters: list[int] = field(default_factory=list[int])
    # Counters of the whole program, or from `base` on of the kernel at work.
    base: int = 0
    record: bool = True
    slices: list[tuple[str, str, int, int]] = field(default_factory=list[tuple[str, str, int, int]])
    kernel: str = ""

    def serve(self, start: int, dur: int, charges: tuple[Charge, ...]) -> tuple[int, int]:
        """(start, server that held it back or -1): earliest start from `start` on so that every charge fits by its end.

        Each server takes its work first come, first served; `dur` is at least every charge.
        """
        cause = -1
        free = self.free
        for server, work in charges:
            least = free[server] + work - dur
            if least > start:
                start, cause = least, server
        for server, work in charges:
            at = free[server]
            free[server] = (at if at > start else start) + work
            if server < STALL:
                self.counters[self.base + server] += work
        return start, cause

    def issue(self, start: int, cause: int) -> None:
        """The stream goes on after an instruction that started at `start`, held up by unit `cause`."""
        if start > self.now and cause >= 0:
            self.counters[self.base + STALL + cause] += start - self.now
        self.now = start + TICKS

    def sweep(self) -> None:
        """Forgets accesses that are over."""
        self.live = {sid: rs for sid, rs in self.live.items() if any(r.last > self.now for r in rs)}
        self.crowded = max(FEW_LIVE, 2 * len(self.live))

    def finish(self, end: int) -> None:
        if end > self.done:
            self.done = end

    def note(self, unit: str, start: int, end: int) -> None:
        """A bar of the trace, while recording."""
        if self.record and len(self.slices) < SLICE_LIMIT:
            self.slices.append((unit, self.kernel, start, end - start))

    def shift(self, by: int) -> None:
        """Everything `by` ticks later."""
        self.now += by
        self.done += by
        self.free = [t + by for t in self.free]
        self.in_flight = deque((t + by for t in self.in_flight), self.in_flight.maxlen)
        for waiting in self.semaphores.values():
            for i, (t, cause) in enumerate(waiting):
                waiting[i] = (t + by, cause)
        for unit in self.units:
            unit.shift(by)
        for records in self.live.values():
            for r in records:
                r.first += by
                r.last += by
