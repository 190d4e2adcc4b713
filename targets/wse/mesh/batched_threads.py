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
# Elements for which a thread pays. One beside the caller has time; each takes the interpreter from it to begin.
LEAST_ELEMENTS = 1_000_000
_LEAST_BESIDE = 8


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
    if lanes * each < LEAST_ELEMENTS or threads() < 2:
        some(0, lanes)
        return []
    return [_pool().submit(some, a, b) for a, b in pairwise(_ends(lanes, each, _LEAST_BESIDE * LEAST_ELEMENTS))]


def over_lanes(some: Part, lanes: int, each: int) -> None:
    """The same, done when this returns."""
    ends = _ends(lanes, each, LEAST_ELEMENTS)
    others = [_pool().submit(some, a, b) for a, b in pairwise(ends[1:])]
    some(0, ends[1])
    for other in others:
        other.result()


def _ends(lanes: int, each: int, least: int) -> list[int]:
    """Where the parts of lanes begin and end: as many as threads, of at least so many elements."""
    count = max(1, min(threads(), lanes, lanes * each // max(least, 1)))
    return [lanes * k // count for k in range(count + 1)]
