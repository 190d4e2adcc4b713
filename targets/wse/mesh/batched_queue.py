"""Work of a group that is put off: loads and vector operations in f32 whose addresses all its PEs share.

The main thread of an unrolled product issues thousands of them one after the other. Queued (by `batched_uniform`) and
then done PE by PE, they use memory that is still in the cache. What they cost is known when they are issued. Only the
group at work has any. Must not know time, nor groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batched_kernels import LANES, lanes_queue
from .batched_threads import over_lanes
from .batched_uniform import (
    MOST_CONSTANTS,
    MOST_ROWS,
    Q_CONSTANTS,
    Q_ROWS,
    Q_SIZE,
    Q_SLOTS,
    ROW,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slot:
    """A register whose value is that of slot `index` once the queue has run."""

    index: int


def _rows() -> NDArray[np.int32]:
    return np.empty((MOST_ROWS, ROW), np.int32)


def _constants() -> NDArray[np.int64]:
    return np.empty((MOST_CONSTANTS, 2), np.int64)


@dataclass(slots=True, eq=False)
class Queue:
    """`rows` in their order; `words` is the memory of all PEs as f32, `constants` the bits and slots of numbers, and
    `counts` says how many of each there are."""

    words: NDArray[np.float32]
    rows: NDArray[np.int32] = field(default_factory=_rows)
    constants: NDArray[np.int64] = field(default_factory=_constants)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(Q_SIZE, np.int64))

    @property
    def waits(self) -> bool:
        """Whether there is work."""
        return bool(self.counts[Q_ROWS])

    def run(self, at: NDArray[np.int64], registers: dict[int, Any]) -> None:
        """Do all rows on the PEs whose memory begins at the bytes `at`; registers that hold slots get their values."""
        live = {k: v.index for k, v in registers.items() if type(v) is Slot}
        fixed = self.constants[: self.counts[Q_CONSTANTS]]
        slots = np.zeros(max(int(self.counts[Q_SLOTS]), 1), np.float32)
        slots[fixed[:, 1]] = fixed[:, 0].astype(np.uint32).view(np.float32)
        out = np.empty((len(live), len(at)), np.float32)
        wanted = np.array(list(live.values()), np.int64)
        rows, places = self.rows[: self.counts[Q_ROWS]], at >> 2

        def some(first: int, last: int) -> None:
            scratch = np.repeat(slots[:, None], LANES, axis=1)
            lanes_queue(self.words, places, rows, scratch, wanted, out, first, last)

        over_lanes(some, len(at), int(rows[:, 1].sum()) if len(rows) else 0)
        for k, values in zip(live, out.view(np.uint32), strict=True):
            registers[k] = values.astype(np.int64)
        self.counts[:] = 0
