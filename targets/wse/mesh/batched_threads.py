"""Work over the PEs of a group on several threads. PEs share no memory, so that the results are those of one thread.

Must not know what is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

Part = Callable[[int, int], None]
# Elements below which threads cost more than they save.
LEAST_ELEMENTS = 1_000_000


@lru_cache(maxsize=1)
def threads() -> int:
    """Threads that this process may use at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(), thread_name_prefix="tdslc-mesh")


def begin_lanes(some: Part, lanes: int, each: int) -> list[Future[None]]:
    """Have `some(first, last)` called so that all lanes are done once, beside the caller; what is to be waited for. A
    lane takes about `each` elements of work: little work is done before this returns."""
    ends = _ends(lanes, each)
    if len(ends) > 2:
        return [_pool().submit(some, a, b) for a, b in pairwise(ends)]
    some(0, lanes)
    return []


def over_lanes(some: Part, lanes: int, each: int) -> None:
    """The same, done when this returns."""
    ends = _ends(lanes, each)
    others = [_pool().submit(some, a, b) for a, b in pairwise(ends[1:])]
    some(0, ends[1])
    for other in others:
        other.result()


def _ends(lanes: int, each: int) -> list[int]:
    """Where the parts of lanes begin and end: one for each thread, or one where that is little work."""
    count = max(min(threads(), lanes), 1) if lanes * each >= LEAST_ELEMENTS else 1
    return [lanes * k // count for k in range(count + 1)]
