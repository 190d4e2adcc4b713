"""Which task a PE runs next, from what is known so far: activation, blocking, and the wheel of ids.

What turns out later to have come earlier is `TooEarly`, or `NotAlone` where no other order of the work can help. Must
not know groups at work, nor streams.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .batched_group import NEVER, ClassState, Value
from .batched_streams import Ints, NotAlone, TooEarly
from .ir import ClassRow

_WHEEL = 64


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
    ready = np.flatnonzero(start < NEVER)
    if not len(ready):
        return False
    measure = home.progress[ready] + 1 if wide else start[ready]
    k = int(np.argmin(measure))
    wanted = int(rows[ready[k]])
    lanes = ready[rows[ready] == wanted]
    if wide:
        runs = home.runs[wanted, lanes]
        lanes = lanes[runs == home.runs[wanted, ready[k]]]
    return Start(int(measure[k]), wanted, lanes, start[lanes])


def changed(home: ClassState) -> None:
    home.following, home.first_start = None, None


def next_tasks(home: ClassState) -> tuple[Ints, Ints]:
    """For each PE of a class: when its next task begins (NEVER: none does) and the row of `home.active` it is."""
    if home.following is None:
        ready = np.where(home.block_at > home.unblock_at, NEVER, np.maximum(home.active, home.unblock_at))
        ready = np.where(home.active >= NEVER, NEVER, ready)
        start = np.maximum(ready.min(axis=0), home.free)
        start = np.where(home.idle & (start < NEVER), start, NEVER)
        turns = np.where(ready <= start, _turn(home.ids[:, None], home.last_id), 2 * _WHEEL)
        home.following = start, np.argmin(turns, axis=0)
    return home.following


def _turn(task: Any, last: Ints) -> Ints:
    """How far ids are behind the one taken last, on the wheel; the host's command is before all."""
    return np.where(task < 0, -1, (task - last - 1) % _WHEEL)


def notice(home: ClassState, lanes: Ints, times: Ints, order: int) -> None:
    """Something became known that lets task `order` run from `times` on. TooEarly when a PE has chosen without it what
    it would not have chosen with it."""
    picked = home.picked[lanes]
    early = times <= picked
    if not early.any():
        return
    waited = (picked > home.picked_free[lanes]) & (times < picked)
    last = home.id_before[lanes]
    better = _turn(home.ids[order], last) <= _turn(home.ids[home.picked_order[lanes]], last)
    if (early & (waited | better | (times <= home.picked_before[lanes]))).any():
        raise TooEarly("a task was chosen before another was known to be active")


def activate(home: ClassState, lanes: Ints, times: Ints, task: Value) -> None:
    """The local task `task` becomes active."""
    for number, chosen in parts(task, len(lanes)):
        order = _order_of(home, number)
        some = lanes[chosen]
        changed(home)
        active = home.active[order, some]
        home.active[order, some] = np.minimum(active, times[chosen])
        if not (home.block_at[order, some] > home.unblock_at[order, some]).all():
            notice(home, some, times[chosen], order)


def _order_of(home: ClassState, number: int) -> int:
    for k, task in enumerate(home.row.tasks):
        if task.kind == "local" and task.id == number:
            return orders(home.row).index(k) + 1
    raise NotAlone(f"local task {number} is bound to nothing")


def orders(row: ClassRow) -> list[int]:
    """Indices of a class's tasks in the order in which they are chosen; row 0 of arrays is the host's command."""
    return sorted(range(len(row.tasks)), key=lambda k: row.tasks[k].id)


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
    active = home.active[order, lanes] < NEVER
    notice(home, lanes[active], times[active], order)
