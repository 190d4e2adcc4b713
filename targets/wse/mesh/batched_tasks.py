"""Which task a PE runs next, from what is known so far: activation, blocking, and the wheel of ids.

What turns out later to have come earlier is `TooEarly`, or `NotAlone` where no other order of the work can help. Must
not know groups at work, nor streams.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import batched_times as times_of
from .batched_group import ClassState, Value
from .batched_streams import Ints, NotAlone, TooEarly


@dataclass(frozen=True, slots=True)
class Start:
    """A task to start: its row, on which lanes and when, and where it stands in the order of `_go_on`."""

    order: int
    row: int
    lanes: Ints
    times: Ints


def first_start(home: ClassState, wide: bool) -> Start | None:
    """What a class would start first: one task, on all PEs for which it is next and that ran it as often."""
    if home.first_start is None:
        home.first_start = _found_start(home, wide)
    return None if isinstance(home.first_start, bool) else home.first_start


def _found_start(home: ClassState, wide: bool) -> Start | bool:
    start, rows = next_tasks(home)
    found = np.empty(len(start), np.int64)
    count = times_of.first_start(start, rows, home.progress, home.runs, wide, found)
    if not count:
        return False
    lanes = found[:count]
    measure = home.progress[lanes].min() + 1 if wide else start[lanes].min()
    return Start(int(measure), int(rows[lanes[0]]), lanes, start[lanes])


def changed(home: ClassState) -> None:
    home.following, home.first_start = None, None


def next_tasks(home: ClassState) -> tuple[Ints, Ints]:
    """For each PE of a class: when its next task begins (NEVER: none does) and the row of `home.active` it is."""
    if home.following is None:
        start, rows = (np.empty(home.row.count, np.int64) for _ in range(2))
        times_of.next_tasks(
            home.active, home.block_at, home.unblock_at, home.free, home.idle, home.ids, home.last_id, start, rows
        )
        home.following = start, rows
    return home.following


def notice(home: ClassState, lanes: Ints, times: Ints, order: int) -> None:
    """Something became known that lets task `order` run from `times` on. TooEarly when a PE has chosen without it what
    it would not have chosen with it."""
    if times_of.chosen_too_early(
        home.picked, home.picked_free, home.picked_before, home.picked_order, home.id_before, home.ids, order, lanes,
        times,
    ):  # fmt: skip
        raise TooEarly("a task was chosen before another was known to be active")


def activate(home: ClassState, lanes: Ints, times: Ints, task: Value) -> None:
    """The local task `task` becomes active."""
    for number, chosen in parts(task, len(lanes)):
        order = _order_of(home, number)
        some, when = lanes[chosen], times[chosen]
        changed(home)
        free = times_of.activate(
            home.active[order], home.block_at[order], home.unblock_at[order], home.again[order], some, when
        )
        if free:
            notice(home, some, when, order)


def _order_of(home: ClassState, number: int) -> int:
    if number not in home.row_of_task:
        raise NotAlone(f"local task {number} is bound to nothing")
    return home.row_of_task[number]


def parts(value: Value, size: int) -> Iterable[tuple[int, Any]]:
    """(number, places) of each different entry of a value."""
    if not isinstance(value, np.ndarray):
        return [(int(value), slice(None))]
    return [(int(x), np.flatnonzero(value == x)) for x in np.unique(value)]


def block(home: ClassState, lanes: Ints, times: Ints, task: Value, blocks: bool) -> None:
    changed(home)
    for number, chosen in parts(task, len(lanes)):
        order, some, when = _order_of(home, number), lanes[chosen], times[chosen]
        if blocks:
            _block_one(home, order, some, when)
        else:
            _unblock_one(home, order, some, when)


def _block_one(home: ClassState, order: int, lanes: Ints, times: Ints) -> None:
    """Blocked from `times` until the next unblock, which may be known already."""
    latest = home.latest[order, lanes]
    if (latest == times).any() or (home.before[order, lanes] >= times).any():
        raise NotAlone("a task is blocked while it is unblocked several times")
    home.block_at[order, lanes] = np.maximum(home.block_at[order, lanes], times)
    home.unblock_at[order, lanes] = np.where(latest > times, latest, home.unblock_at[order, lanes])


def _unblock_one(home: ClassState, order: int, lanes: Ints, times: Ints) -> None:
    """Unblocked from `times` on, unless that was so before or it is blocked later."""
    blocked, unblocked = home.block_at[order, lanes], home.unblock_at[order, lanes]
    if (blocked == times).any():
        raise NotAlone("a task is blocked and unblocked in one cycle")
    latest = home.latest[order, lanes]
    home.before[order, lanes] = np.maximum(home.before[order, lanes], np.minimum(latest, times))
    home.latest[order, lanes] = np.maximum(latest, times)
    counts = (times > blocked) & ((blocked > unblocked) | (times < unblocked))
    home.unblock_at[order, lanes] = np.where(counts, times, unblocked)
    active = home.active[order, lanes] < times_of.NEVER
    notice(home, lanes[active], times[active], order)
