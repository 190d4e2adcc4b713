"""Loops, conditions and kernels in the timing model; loops jump over iterations once they repeat.

A state is compared, relative to `now`, with the states of up to eight iterations ago (more when
addresses or conditions have a longer period). Where it repeats, every further iteration takes the
same time until a condition of the loop changes or a pair of accesses that moves at different rates
could meet; up to there the loop is skipped in one step, exactly. Must not know instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from . import timing_state as ts
from .isa import Address, Condition, Term
from .regions import Extent, changes, disjoint, holds, hull, period
from .timing_state import State, ticks
from .timing_steps import Access, Conflicts, Env, Step

# Periods kept to compare with; and of every PAUSE iterations that do not repeat, those in which a repeat is sought.
MOST_PERIOD = 64
HISTORY = 8
PATIENCE = 64
PAUSE = 1024
# Iterations of each loop that the trace shows.
RECORDED = 2


@dataclass(slots=True)
class Notes:
    """What is to be told about a timing: loops replayed in full, by name, with their iterations."""

    jumps: bool = True
    replayed: dict[str, int] = field(default_factory=dict[str, int])


class WhenStep:
    """Runs its body if all conditions hold."""

    def __init__(self, conditions: tuple[Condition, ...], body: list[Step]) -> None:
        self.conditions, self.body = conditions, body

    def run(self, st: State, env: Env) -> None:
        if all(holds(c, env[c.term.loop]) for c in self.conditions):
            for step in self.body:
                step.run(st, env)


class KernelStep:
    """Counts what its body does under a kernel's own counters."""

    def __init__(self, name: str, base: int, body: list[Step]) -> None:
        self.name, self.base, self.body = name, base, body
        self.first: int | None = None

    def run(self, st: State, env: Env) -> None:
        outer, name, done = st.base, st.kernel, st.done
        st.base, st.kernel = self.base, self.name
        if self.first is None:
            self.first = done
        for step in self.body:
            step.run(st, env)
        st.counters[self.base + ts.SPAN] += st.done - done
        st.counters[self.base + ts.COUNT] += 1
        if st.done > done:
            st.note("kernels", done, st.done)
        st.base, st.kernel = outer, name


@dataclass(slots=True)
class LoopShape:
    """What a loop's iterations depend on: facts about its subtree, found once."""

    # Iterations between which everything that is periodic in the variable is the same.
    period: int
    # Conditions on the variable that are not periodic.
    conditions: tuple[Condition, ...]
    # For each access that moves with the variable: its terms that move without end.
    moving: dict[int, tuple[Term, ...]]
    # Pairs of accesses that move at different rates and may meet, with the ranges of the loops inside.
    suspects: tuple[tuple[Access, Access], ...]
    inside: dict[str, tuple[int, int]]


class LoopStep:
    """Runs its body for each value of its variable, skipping what repeats."""

    def __init__(
        self,
        var: str,
        start: int,
        stop: int,
        body: list[Step],
        shape: LoopShape,
        loop_cycles: int,
        notes: Notes,
        conflicts: Conflicts,
    ) -> None:
        self.var, self.start, self.stop, self.body = var, start, stop, body
        self.shape, self.notes, self.conflicts = shape, notes, conflicts
        self.round = ticks(loop_cycles)

    def run(self, st: State, env: Env) -> None:
        recording = st.record
        i = self.start
        while i < self.stop:
            end = self._same_until(i)
            i = self._stretch(st, env, i, end, recording)
        st.record = recording
        env.pop(self.var, None)

    def _same_until(self, i: int) -> int:
        """The first iteration after `i` from which some condition differs from what it is at `i`."""
        return min((changes(c, i, self.stop) for c in self.shape.conditions), default=self.stop)

    def _stretch(self, st: State, env: Env, i: int, end: int, recording: bool) -> int:
        """Runs iterations `i` to `end` - 1, in which all conditions stay; returns `end`."""
        begin, shape, run = i, self.shape, 0
        jumps = self.notes.jumps and shape.period <= MOST_PERIOD and end - i > 3 * shape.period
        history: dict[int, tuple[object, int, list[int]]] = {}
        while i < end:
            recorded = recording and i - self.start < RECORDED
            tries = jumps and not recorded and run % PAUSE < max(PATIENCE, 3 * shape.period)
            if tries and (i - begin) % shape.period == 0:
                i += self._jump(st, env, i, end, history)
                if i >= end:
                    break
            st.record = recorded
            env[self.var] = i
            for step in self.body:
                step.run(st, env)
            st.now += self.round
            i += 1
            run += 1
        if run > PATIENCE:
            self.notes.replayed[self.var] = self.notes.replayed.get(self.var, 0) + run
        return end

    def _jump(self, st: State, env: Env, i: int, end: int, history: dict[int, tuple[object, int, list[int]]]) -> int:
        """Iterations skipped at `i`: whole periods of a state met before."""
        seen = self._snapshot(st, i)
        step = self.shape.period
        for back in range(i - step, i - HISTORY * step - 1, -step):
            found = history.get(back)
            if found is None or found[0] != seen:
                continue
            times = (end - i) // (i - back)
            # Accesses that meet later on do not forbid a shorter jump.
            while times and not self._regular(st, env, back, i, i + times * (i - back)):
                times //= 2
            if times:
                self._skip(st, i, times, i - back, found[1], found[2])
                history.clear()
                return times * (i - back)
            break
        history[i] = (seen, st.now, list(st.counters))
        history.pop(i - HISTORY * step - step, None)
        return 0

    def _skip(self, st: State, i: int, times: int, over: int, then: int, counters: list[int]) -> None:
        st.shift((st.now - then) * times)
        st.counters = [c + (c - before) * times for c, before in zip(st.counters, counters, strict=True)]
        for sid, terms in self.shape.moving.items():
            by = sum(t.at(i + times * over) - t.at(i) for t in terms)
            for r in st.live.get(sid, ()):
                r.low += by

    def _snapshot(self, st: State, i: int) -> object:
        """All that the future depends on, relative to `now` and, for moving accesses, to where they move."""
        now = st.now
        live: list[tuple[int, int, int, int]] = []
        for sid in sorted(st.live):
            moved = sum(t.at(i) for t in self.shape.moving.get(sid, ()))
            # `first` matters while `last` does, also when it is past: rows in between are placed by both.
            live += [(sid, r.low - moved, r.first - now, r.last - now) for r in st.live[sid] if r.last > now]
        return (
            st.done - now,
            tuple(max(t - now, 0) for t in st.free),
            tuple(max(t - now, 0) for t in st.in_flight),
            tuple((s, tuple((max(t - now, 0), c) for t, c in q)) for s, q in sorted(st.semaphores.items()) if q),
            tuple(u.relative(now) for u in st.units),
            tuple(live),
        )

    def _regular(self, st: State, env: Env, back: int, i: int, end: int) -> bool:
        """Whether no two accesses of the loop that move at different rates meet from `back` to `end` - 1.

        `back` to `i` - 1 is what is to be repeated: a chance meeting in it would not come again. What was
        under way at `back` counts too; the states being alike, it is what is under way at `i`, moved back.
        """
        if not self.shape.suspects:
            return True
        ranges = {**{k: (v, v + 1) for k, v in env.items()}, **self.shape.inside, self.var: (back, end)}

        def sweep(a: Access) -> Sweep:
            low, high = reach(a, ranges)
            moved = sum(t.at(i) - t.at(back) for t in self.shape.moving.get(a.sid, ()))
            for r in st.live.get(a.sid, ()):
                low, high = min(low, r.low - moved), max(high, r.low + a.length)
            # What stands still keeps its own extent; what moves covers all between the ends.
            return low, a.extent if high - low == a.length else Extent(1, high - low, 0)

        return not any(_meet(sweep(a), sweep(b)) for a, b in self.shape.suspects)


# A low address and the extent from there.
Sweep = tuple[int, Extent]


def _meet(a: Sweep, b: Sweep) -> bool:
    return not disjoint(a[0], a[1], b[0], b[1])


def reach(a: Access, ranges: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """Lowest byte and one past the highest of `a` while loops go through `ranges`."""
    return hull(Address(a.base, tuple(Term(*row) for row in a.terms)), a.length, ranges)


def shape_of(
    var: str,
    accesses: list[Access],
    conditions: list[Condition],
    inside: dict[str, tuple[int, int]],
    conflicts: Conflicts,
) -> LoopShape:
    """The facts about the loop over `var` whose subtree has these VMEM accesses and conditions."""
    own = {a.sid: [Term(*row) for row in a.terms if row[0] == var] for a in accesses}
    tests = [c for c in conditions if c.term.loop == var]
    every = [t for terms in own.values() for t in terms] + [c.term for c in tests if c.term.mod]
    moving = {sid: tuple(t for t in terms if not t.mod) for sid, terms in own.items() if any(not t.mod for t in terms)}
    rates = {a.sid: sum(t.coef * 720720 // t.div for t in moving.get(a.sid, ())) for a in accesses}
    suspects = tuple(
        (a, b)
        for n, a in enumerate(accesses)
        if moving
        for b in accesses[:n]
        if rates[a.sid] != rates[b.sid] and conflicts.between(a.sid, b.sid)
    )
    return LoopShape(period(every), tuple(c for c in tests if not c.term.mod), moving, suspects, inside)
