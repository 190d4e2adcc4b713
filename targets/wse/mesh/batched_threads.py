"""Work over the PEs of a group on several threads. PEs share no memory, so that the results are those of one thread.

Must not know what is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise

# Elements below which threads cost more than they save.
_LEAST = 200_000


def threads() -> int:
    """Threads that this process may use at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="tdslc-mesh")


def over_lanes(some: Callable[[int, int], None], lanes: int, each: int) -> None:
    """Call `some(first, last)` so that all lanes are done once; a lane takes about `each` elements of work."""
    count = min(threads(), lanes)
    if count < 2 or lanes * each < _LEAST:
        some(0, lanes)
        return
    ends = [lanes * k // count for k in range(count + 1)]
    for done in [_pool(threads()).submit(some, a, b) for a, b in pairwise(ends)]:
        done.result()
