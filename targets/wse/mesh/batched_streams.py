"""Streams: whole vectors of wavelets with the times of their words, and the proof that none met another.

A stream leaves output queues and reaches input queues along static routes (batched_routes), as if it were alone.
Whether it was, is checked of every link, ramp and queue; `NotAlone` says that it was not, or cannot be shown to have
been. Rows of arrays are PEs; times of a stream are `first` (of word 0, by row), a word a cycle, or `times`
(row, word). Must not know tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .batched_times import ALL_TAKEN, TOO_FEW, first_segment, held_words, in_order, take_at_once, take_words

Ints = NDArray[np.int64]
_SEVERAL = "an operation takes words of several streams"
_MAYBE_FULL = "a queue may have been full"
# Intervals kept until they are checked.
_MOST_INTERVALS = 4_000_000


class NotAlone(Exception):
    """The batched engine cannot show that its times are right; the text says why."""


class TooEarly(NotAlone):
    """Something was assumed too early, which another order of the work may not do."""


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
        begin, end = (np.full(int(link.max()) + 1, -1, np.int64) for _ in range(2))
        # Streams are mostly found in the order of time.
        if not in_order(link, first, last, begin, end):
            order = np.lexsort((first, link))
            if not in_order(link[order], first[order], last[order], begin, end):
                raise NotAlone("streams share a link at the same time")
        used = np.flatnonzero(begin >= 0)
        self._parts = [(used, begin[used], end[used])]
        self._count = len(used)


@dataclass(frozen=True, slots=True, eq=False)
class Taken:
    """Words that PEs take: `count` of row `rows` of `values`, from column `starts` on, for each PE."""

    values: NDArray[np.uint32]
    rows: Ints
    starts: Ints
    count: int

    def matrix(self) -> NDArray[np.uint32]:
        """The words as [pe, count]."""
        start = int(self.starts[0])
        if (self.starts == start).all():
            return self.values[self.rows, start : start + self.count]
        return self.values[self.rows[:, None], self.starts[:, None] + np.arange(self.count)]


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
            held_words(total, lanes, s.row_of, s.taken, s.count)
        return total

    def first_segment(self, lanes: Ints) -> Ints:
        """Index of the segment that holds the next word of each lane, or -1."""
        made = np.full(len(lanes), -1, np.int64)
        for k, s in enumerate(self.segments):
            first_segment(made, lanes, s.row_of, s.taken, s.count, k)
        return made

    def look(self, lanes: Ints, index: int, count: int) -> tuple[Taken, Ints, Ints | None]:
        """The next `count` words of `lanes` in segment `index`, which has as many for each; first arrival; arrivals
        unless a word a cycle."""
        s = self.segments[index]
        row = s.row_of[lanes]
        taken = s.taken[row]
        if s.count - int(taken.max()) < count:
            raise NotAlone(_SEVERAL)
        words = Taken(s.values, s.value_row[row], taken, count)
        if s.times is None:
            return words, s.first[row] + taken, None
        times = s.times[row[:, None], taken[:, None] + np.arange(count)]
        return words, times[:, 0], times

    def take_at_once(self, lanes: Ints, ready: Ints, count: int) -> tuple[Taken, Ints] | None:
        """`look` and `take` of an operation that may begin at `ready` and has no other input; its first cycle by lane.
        None where there are several segments, or words that did not come one a cycle."""
        if len(self.segments) != 1 or self.segments[0].times is not None:
            return None
        s = self.segments[0]
        starts, first = (np.empty(len(lanes), np.int64) for _ in range(2))
        words = np.array([count, s.count, self.room, self.depth], np.int64)
        came = take_at_once(
            s.taken, s.row_of, self.last_taken, self.was_late, lanes, s.first, ready, words, starts, first
        )  # fmt: skip
        if came != ALL_TAKEN:
            raise NotAlone(_SEVERAL if came == TOO_FEW else _MAYBE_FULL)
        self._gone(s, count * len(lanes))
        return Taken(s.values, s.value_row[s.row_of[lanes]], starts, count), first

    def _gone(self, s: Segment, words: int) -> None:
        s.left -= words
        if not s.left:
            self.segments.remove(s)

    def take(self, lanes: Ints, index: int, count: int, late: Ints, last: Ints, arrived: Ints) -> None:
        """The next `count` words are gone, the last at `last`, each at most `late` cycles after it came, the first of
        them at `arrived`. NotAlone when the queue may have been full while they came: a word finds room if those
        before it waited less than the depth, or if all of its stream fit in and the queue was empty."""
        s = self.segments[index]
        words = np.array([count, s.count, self.room, self.depth], np.int64)
        if not take_words(
            s.taken, s.row_of, self.last_taken, self.was_late, lanes, late, last, arrived, words
        ):  # fmt: skip
            raise NotAlone(_MAYBE_FULL)
        self._gone(s, count * len(lanes))


def popped(first: Ints, times: Ints | None, ready: Ints) -> tuple[Ints, Ints | None]:
    """When an operation that may begin at `ready` takes words that arrive at `times` (or from `first`, one a cycle)."""
    if times is None:
        return np.maximum(first, ready), None
    ramp = np.arange(times.shape[1], dtype=np.int64)
    made: Ints = np.maximum.accumulate(np.maximum(times, ready[:, None]) - ramp, axis=1) + ramp
    return made[:, 0], made
