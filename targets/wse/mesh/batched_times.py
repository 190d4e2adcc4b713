"""Loops over the PEs of a group that tell times and turns apart: small questions that are asked of every operation.

NumPy needs several arrays for each of them. Must not know operations, nor who asks.
"""

# Compiled code: numba's integers are not those that type checkers know.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from .fields import NEVER
from .jit import inner_kernel, lean_kernel

Array = Any
# Task ids lie on a wheel: the next one behind the last that ran comes first.
WHEEL = 64
# How taking words came out.
ALL_TAKEN, TOO_FEW, MAYBE_FULL = range(3)


@lean_kernel
def same(values: Array) -> bool:
    """Whether all entries are equal."""
    for k in range(1, len(values)):
        if values[k] != values[0]:
            return False
    return True


@lean_kernel
def any_later(times: Array, lanes: Array, than: Array) -> bool:
    """Whether times[lanes[k]] > than[k] for any k; `than` has one entry for all, or one for each."""
    step = np.int64(len(than) > 1)
    for k in range(len(lanes)):
        if times[lanes[k]] > than[k * step]:
            return True
    return False


@lean_kernel
def any_under_way(end: Array, idle: Array, free: Array, picked: Array) -> bool:
    """Whether some PE's main thread has not come to `end` yet: it is free since `free`, or runs what it picked."""
    for k in range(len(end)):
        if end[k] > (free[k] if idle[k] else picked[k]):
            return True
    return False


@inner_kernel
def turn(task: int, last: int) -> int:
    """How far a task's id is behind the one taken last; the host's command (-1) is before all."""
    return np.int64(-1) if task < 0 else (task - last - 1) % WHEEL


@lean_kernel
def next_tasks(
    active: Array, block_at: Array, unblock_at: Array, free: Array, idle: Array, ids: Array, last_id: Array,
    start: Array, rows: Array,
) -> None:  # fmt: skip
    """When the next task of each PE begins (NEVER: none does) and its row, into `start` and `rows`."""
    for k in range(len(free)):
        first = np.int64(NEVER)
        for t in range(len(ids)):
            first = min(first, _ready(active[t, k], block_at[t, k], unblock_at[t, k]))
        first = max(first, free[k])
        start[k] = first if idle[k] and first < NEVER else NEVER
        best, rows[k] = np.int64(2 * WHEEL), 0
        for t in range(len(ids)):
            if _ready(active[t, k], block_at[t, k], unblock_at[t, k]) <= first and turn(ids[t], last_id[k]) < best:
                best, rows[k] = turn(ids[t], last_id[k]), t


@inner_kernel
def _ready(active: int, block_at: int, unblock_at: int) -> int:
    return np.int64(NEVER) if block_at > unblock_at or active >= NEVER else max(active, unblock_at)


@lean_kernel
def first_start(start: Array, rows: Array, progress: Array, runs: Array, wide: bool, lanes: Array) -> int:
    """The PEs that start the task which comes first, into `lanes`; how many. By the tasks they have started (`wide`:
    only those that ran this one as often), or by time."""
    best, measure = np.int64(-1), np.int64(NEVER)
    for k in range(len(start)):
        value = progress[k] if wide else start[k]
        if start[k] < NEVER and value < measure:
            best, measure = k, value
    if best < 0:
        return 0
    count, row = 0, rows[best]
    for k in range(len(start)):
        if start[k] < NEVER and rows[k] == row and (not wide or runs[row, k] == runs[row, best]):
            lanes[count] = k
            count += 1
    return count


@lean_kernel
def activate(
    active: Array, block_at: Array, unblock_at: Array, again: Array, lanes: Array, times: Array
) -> bool:  # fmt: skip
    """A task becomes active on `lanes`; whether any of them is free to run it. The later of two activations that are
    known goes into `again`."""
    free = False
    for k in range(len(lanes)):
        lane = lanes[k]
        if active[lane] < NEVER:
            again[lane] = max(again[lane], max(active[lane], times[k]))
        active[lane] = min(active[lane], times[k])
        free = free or block_at[lane] <= unblock_at[lane]
    return free


@lean_kernel
def chosen_too_early(
    picked: Array, picked_free: Array, picked_before: Array, picked_order: Array, id_before: Array, ids: Array,
    order: int, lanes: Array, times: Array,
) -> bool:  # fmt: skip
    """Whether a PE has chosen without the task `order`, runnable from `times` on, what it would not have chosen with
    it."""
    for k in range(len(lanes)):
        lane, time = lanes[k], times[k]
        if time > picked[lane]:
            continue
        waited = picked[lane] > picked_free[lane] and time < picked[lane]
        last = id_before[lane]
        if waited or time <= picked_before[lane] or turn(ids[order], last) <= turn(ids[picked_order[lane]], last):
            return True
    return False


@lean_kernel
def in_order(link: Array, first: Array, last: Array, begin: Array, end: Array) -> bool:
    """Whether the uses of each link, from `first` to `last`, come one after the other; then `begin` and `end` are those
    of all uses of a link."""
    begin[:], end[:] = -1, -1
    for k in range(len(link)):
        if first[k] <= end[link[k]]:
            return False
        if begin[link[k]] < 0:
            begin[link[k]] = first[k]
        end[link[k]] = last[k]
    return True


@lean_kernel
def waiting_places(position: Array, waiting: Array, lanes: Array, marks: Array, places: Array) -> int:
    """The places in a group of those of the lanes that wait, in the order of the group, into `places`; how many. Words
    may come in another order. `marks`, one for each place, are false."""
    for k in range(len(lanes)):
        place = position[lanes[k]]
        if place >= 0 and waiting[place]:
            marks[place] = True
    count = 0
    for place in range(len(marks)):
        if marks[place]:
            places[count] = place
            count += 1
    return count


@lean_kernel
def held_words(total: Array, lanes: Array, row_of: Array, taken: Array, count: int) -> None:
    """Add the words of one segment that wait for each lane."""
    for k in range(len(lanes)):
        row = row_of[lanes[k]]
        if row >= 0:
            total[k] += count - taken[row]


@lean_kernel
def first_segment(made: Array, lanes: Array, row_of: Array, taken: Array, count: int, index: int) -> None:
    """Put `index` where the segment still has words for a lane and no segment before it has."""
    for k in range(len(lanes)):
        row = row_of[lanes[k]]
        if made[k] < 0 and row >= 0 and taken[row] < count:
            made[k] = index


@lean_kernel
def take_at_once(
    taken: Array, row_of: Array, last_taken: Array, was_late: Array, lanes: Array, came: Array, ready: Array,
    words: Array, starts: Array, first: Array,
) -> int:  # fmt: skip
    """An operation that may begin at `ready` takes words that came one a cycle, the first of a segment at `came`: which
    words and when, into `starts` and `first`, and what `take_words` does. ALL_TAKEN, or with nothing done why not."""
    count, all_words, room, depth = words[0], words[1], words[2], words[3]
    for k in range(len(lanes)):
        lane = lanes[k]
        row = row_of[lane]
        starts[k] = taken[row]
        if all_words - taken[row] < count:
            return TOO_FEW
        arrived = came[row] + taken[row]
        first[k] = max(arrived, ready[k])
        waited = first[k] - arrived >= depth
        crowded = taken[row] == 0 and last_taken[lane] >= arrived - (room - depth)
        if (waited and all_words > room) or (crowded and (waited or was_late[lane])):
            return MAYBE_FULL
    for k in range(len(lanes)):
        lane = lanes[k]
        row = row_of[lane]
        waited = first[k] - (came[row] + taken[row]) >= depth
        was_late[lane] = waited or (was_late[lane] and taken[row] != 0)
        taken[row] += count
        last_taken[lane] = first[k] + count - 1
    return ALL_TAKEN


@lean_kernel
def take_words(
    taken: Array, row_of: Array, last_taken: Array, was_late: Array, lanes: Array, late: Array, last: Array,
    arrived: Array, words: Array,
) -> bool:  # fmt: skip
    """Words that went, as `Inbox.take` has it; `words` are (taken, of the segment, room, depth). False, with nothing
    done, where a queue may have been full."""
    count, all_words, room, depth = words[0], words[1], words[2], words[3]
    for k in range(len(lanes)):
        lane = lanes[k]
        waited = late[k] >= depth
        crowded = taken[row_of[lane]] == 0 and last_taken[lane] >= arrived[k] - (room - depth)
        if (waited and all_words > room) or (crowded and (waited or was_late[lane])):
            return False
    for k in range(len(lanes)):
        lane = lanes[k]
        row = row_of[lane]
        was_late[lane] = late[k] >= depth or (was_late[lane] and taken[row] != 0)
        taken[row] += count
        last_taken[lane] = last[k]
    return True
