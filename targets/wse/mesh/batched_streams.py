"""Streams: whole vectors of wavelets with the times of their words, and the proof that none met another.

A stream leaves output queues and reaches input queues along static routes, as if it were alone. Whether it was, is
checked of every link, ramp and queue; `NotAlone` says that it was not, or cannot be shown to have been. Rows of arrays
are PEs; times of a stream are `first` (of word 0, by row), with one cycle between words, or `times` (row, word).
Must not know tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..csl.routes import ColorConfig, Routes

Ints = NDArray[np.int64]
RAMP = 4
# Direction -> step in y and x, and the side from which the neighbour takes it. West, east, south, north.
_STEP_Y = np.array([0, 0, 1, -1])
_STEP_X = np.array([-1, 1, 0, 0])
_BACK = np.array([1, 0, 3, 2])
# Links of a PE in the proof: four outputs to neighbours, the ramp to it, the ramp from it.
LINKS, _TO_PE = 6, 4
# Intervals kept until they are checked.
_MOST_INTERVALS = 4_000_000


class NotAlone(Exception):
    """The batched engine cannot show that its times are right; the text says why."""


class TooEarly(NotAlone):
    """Something was assumed too early, which another order of the work may not do."""


@dataclass(frozen=True, slots=True)
class Paths:
    """Where words of some sources arrive: `row` of the source, PE and hops; and every link they take on the way with
    the hops before it."""

    row: Ints
    pe: Ints
    hops: Ints
    link_row: Ints
    link: Ints
    link_hops: Ints


def static_refusal(config: ColorConfig) -> str | None:
    """Why colors with this configuration are left to the reference, or None."""
    if any(position.valid for position in config.positions):
        return "switches"
    if config.filter is not None:
        return "filters"
    if config.teardown:
        return "teardown"
    return "color swaps" if config.swap_x or config.swap_y else None


class RouteMap:
    """The static routes of all colors, followed when first asked for."""

    def __init__(self, routes: Routes, pe_at: NDArray[np.int32]) -> None:
        self._routes = routes
        self._height, self._width = pe_at.shape
        self._pe_at = pe_at.ravel().astype(np.int64)
        self._place = np.zeros(int(self._pe_at.max()) + 1, np.int64)
        there = self._pe_at >= 0
        self._place[self._pe_at[there]] = np.flatnonzero(there)
        self._rx = np.array([c.rx for c in routes.configs] + [0], np.int64)
        self._tx = np.array([c.tx for c in routes.configs] + [0], np.int64)

    @property
    def places(self) -> Ints:
        """The PE at each place, or -1."""
        return self._pe_at

    def place_of(self, pes: Ints) -> Ints:
        """y * width + x of PEs."""
        return self._place[pes]

    def pe_of(self, place: Ints) -> Ints:
        """PEs at places y * width + x."""
        return self._pe_at[place]

    def paths(self, color: int, pes: Ints) -> Paths:
        """Where words go that leave the PEs `pes` with `color`. NotAlone where a word would be lost."""
        grid = self._routes.grid.get(color)
        if grid is None:
            raise NotAlone(f"color {color} has no routes")
        flat = grid.ravel()
        row, place = np.arange(len(pes)), self._place[pes]
        side, hops = np.full(len(pes), RAMP), np.zeros(len(pes), np.int64)
        ends: list[tuple[Ints, ...]] = []
        links: list[tuple[Ints, ...]] = []
        for _ in range(2 * (self._height + self._width) + 2):
            if not len(row):
                return _gathered(ends, links)
            config = flat[place]
            if (config < 0).any() or ((self._rx[config] >> side & 1) == 0).any():
                raise NotAlone(f"words of color {color} meet no route")
            row, place, side, hops = self._step(config, (row, place, side, hops), ends, links)
        raise NotAlone(f"color {color} goes in a circle")

    def _step(
        self,
        config: Any,
        at: tuple[Ints, Ints, Ints, Ints],
        ends: list[tuple[Ints, ...]],
        links: list[tuple[Ints, ...]],
    ) -> tuple[Ints, Ints, Ints, Ints]:
        row, place, _, hops = at
        tx = self._tx[config]
        down = np.flatnonzero((tx >> RAMP & 1) == 1)
        if len(down):
            here = self._pe_at[place[down]]
            if (here < 0).any():
                raise NotAlone("words reach a place without a program")
            ends.append((row[down], here, hops[down]))
            links.append((row[down], place[down] * LINKS + _TO_PE, hops[down]))
        parts = [self._onward(d, tx, at, links) for d in range(4)]
        return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))  # pyright: ignore[reportReturnType]

    def _onward(
        self, direction: int, tx: Ints, at: tuple[Ints, Ints, Ints, Ints], links: list[tuple[Ints, ...]]
    ) -> tuple[Ints, Ints, Ints, Ints]:
        row, place, side, hops = at
        go = np.flatnonzero((tx >> direction & 1) == 1)
        if (side[go] == direction).any():
            raise NotAlone("words go back where they came from")
        y, x = place[go] // self._width + _STEP_Y[direction], place[go] % self._width + _STEP_X[direction]
        if len(go) and ((y < 0) | (y >= self._height) | (x < 0) | (x >= self._width)).any():
            raise NotAlone("words leave the rectangle")
        links.append((row[go], place[go] * LINKS + direction, hops[go]))
        return row[go], y * self._width + x, np.full(len(go), _BACK[direction]), hops[go] + 1


def _gathered(ends: list[tuple[Ints, ...]], links: list[tuple[Ints, ...]]) -> Paths:
    none = np.zeros(0, np.int64)
    columns = [np.concatenate(c) for c in zip(*ends, strict=True)] if ends else [none] * 3
    more = [np.concatenate(c) for c in zip(*links, strict=True)] if links else [none] * 3
    return Paths(columns[0], columns[1], columns[2], more[0], more[1], more[2])


class Proof:
    """Intervals in which links were in use; `check` finds two that overlap on one link."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Ints]] = []
        self._count = 0

    def use(self, link: Ints, first: Ints, last: Ints) -> None:
        """Each link is in use from the cycle `first` to `last`."""
        self._parts.append((link, first, last))
        self._count += len(link)
        if self._count > _MOST_INTERVALS:
            self.check()

    def check(self) -> None:
        """NotAlone when two streams shared a link. What is behind is kept as one interval a link, so that a stream that
        is found later but was earlier counts as an overlap."""
        if not self._parts:
            return
        link, first, last = (np.concatenate(c) for c in zip(*self._parts, strict=True))
        order = np.lexsort((first, link))
        link, first, last = link[order], first[order], last[order]
        same = link[1:] == link[:-1]
        if (same & (first[1:] <= last[:-1])).any():
            raise NotAlone("streams share a link at the same time")
        starts = np.flatnonzero(np.concatenate(([True], ~same)))
        ends = np.concatenate((starts[1:], [len(link)])) - 1
        self._parts = [(link[starts], first[starts], last[ends])]
        self._count = len(starts)


@dataclass(slots=True, eq=False)
class Segment:
    """Words that reached PEs of a class: `row_of` lane is its row in `values`, or -1; `first` and `times` by lane row
    of arrival (index `at_of`). `taken` words of each are gone."""

    values: NDArray[np.uint32]
    value_row: Ints
    first: Ints
    times: Ints | None
    row_of: NDArray[np.int32]
    count: int
    taken: Ints
    left: int


@dataclass(slots=True, eq=False)
class Inbox:
    """What one color brought to the PEs of a class, and how its queue stands."""

    lanes: int
    room: int
    depth: int
    segments: list[Segment] = field(default_factory=list["Segment"])
    # By lane: when the last word known of came, when the last one was taken.
    last_arrival: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    last_taken: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    # Whether words of the last stream waited as long as the queue is deep.
    was_late: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        self.last_arrival = np.full(self.lanes, -1, np.int64)
        self.last_taken = np.full(self.lanes, -1, np.int64)
        self.was_late = np.zeros(self.lanes, np.bool_)

    def put(self, lanes: Ints, values: NDArray[np.uint32], value_row: Ints, first: Ints, times: Ints | None) -> None:
        """Words arrive at `lanes`: row k of `first` (and `times`) is lane k, its values row value_row[k]."""
        count = values.shape[1]
        if not count:
            return
        if (first <= self.last_arrival[lanes]).any():
            raise NotAlone("two streams of a color meet at a PE")
        self.last_arrival[lanes] = times[:, -1] if times is not None else first + count - 1
        row_of = np.full(self.lanes, -1, np.int32)
        row_of[lanes] = np.arange(len(lanes), dtype=np.int32)
        self.segments.append(
            Segment(values, value_row, first, times, row_of, count, np.zeros(len(lanes), np.int64), len(lanes) * count)
        )

    def held(self, lanes: Ints) -> Ints:
        """Words that wait for each lane."""
        total = np.zeros(len(lanes), np.int64)
        for s in self.segments:
            row = s.row_of[lanes]
            here = row >= 0
            total[here] += s.count - s.taken[row[here]]
        return total

    def first_segment(self, lanes: Ints) -> Ints:
        """Index of the segment that holds the next word of each lane, or -1."""
        made = np.full(len(lanes), -1, np.int64)
        for k in range(len(self.segments) - 1, -1, -1):
            s = self.segments[k]
            row = s.row_of[lanes]
            here = np.flatnonzero(row >= 0)
            here = here[s.taken[row[here]] < s.count]
            made[here] = k
        return made

    def look(self, lanes: Ints, index: int, count: int) -> tuple[NDArray[np.uint32], Ints, Ints | None]:
        """The next `count` words of `lanes` in segment `index`: values, first arrival, arrivals unless a word a cycle.
        All lanes have as many."""
        s = self.segments[index]
        row = s.row_of[lanes]
        taken = s.taken[row]
        if (taken == taken[0]).all():
            start = int(taken[0])
            values = s.values[s.value_row[row], start : start + count]
            times = None if s.times is None else s.times[row, start : start + count]
        else:
            columns = taken[:, None] + np.arange(count)
            values = s.values[s.value_row[row][:, None], columns]
            times = None if s.times is None else s.times[row[:, None], columns]
        first = s.first[row] + taken if times is None else times[:, 0]
        return values, first, times

    def take(self, lanes: Ints, index: int, count: int, late: Ints, last: Ints, arrived: Ints) -> None:
        """The next `count` words are gone, the last at `last`, each at most `late` cycles after it came, the first of
        them at `arrived`. NotAlone when the queue may have been full while they came: a word finds room if those
        before it waited less than the depth, or if all of its stream fit in and the queue was empty."""
        s = self.segments[index]
        row = s.row_of[lanes]
        waited = late >= self.depth
        fresh = s.taken[row] == 0
        crowded = fresh & (self.last_taken[lanes] >= arrived - (self.room - self.depth))
        if (waited & (s.count > self.room)).any() or (crowded & (waited | self.was_late[lanes])).any():
            raise NotAlone("a queue may have been full")
        self.was_late[lanes] = waited | (self.was_late[lanes] & ~fresh)
        s.taken[row] += count
        s.left -= count * len(lanes)
        self.last_taken[lanes] = last
        if not s.left:
            self.segments.remove(s)


def popped(first: Ints, times: Ints | None, ready: Ints) -> tuple[Ints, Ints | None]:
    """When an operation that may begin at `ready` takes words that arrive at `times` (or from `first`, one a cycle)."""
    if times is None:
        return np.maximum(first, ready), None
    ramp = np.arange(times.shape[1], dtype=np.int64)
    made: Ints = np.maximum.accumulate(np.maximum(times, ready[:, None]) - ramp, axis=1) + ramp
    return made[:, 0], made
