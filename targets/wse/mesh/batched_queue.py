"""Work of a group that is put off: loads and vector operations in f32 whose addresses all its PEs share.

The main thread of an unrolled product issues thousands of them one after the other. Queued (by `batched_uniform`) and
then done PE by PE, they use memory that is still in the cache. What they cost is known when they are issued. Only the
group at work has any. Must not know time, nor groups.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batched_kernels import LANES, lanes_queue
from .batched_threads import begin_lanes
from .batched_uniform import (
    MOST_CONSTANTS,
    MOST_ROWS,
    Q_CONSTANTS,
    Q_ROWS,
    Q_SIZE,
    Q_SLOTS,
    ROW,
    VAR_READ,
    VAR_READ_END,
    VAR_WRITE,
    VAR_WRITE_END,
)  # fmt: skip

# Of a variable: that the queue reads and writes none of it.
UNUSED = (1 << 32, -1, 1 << 32, -1)


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
    `counts` says how many of each there are.

    Rows that have begun may still be under way, on other threads, while their group goes on: whoever uses memory waits
    for those that use the same (`wait`)."""

    words: NDArray[np.float32]
    rows: NDArray[np.int32] = field(default_factory=_rows)
    constants: NDArray[np.int64] = field(default_factory=_constants)
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(Q_SIZE, np.int64))
    _under_way: list[Future[None]] = field(default_factory=list["Future[None]"])
    # The class of rows under way, and what they use of its variables.
    _owner: int = -1
    _uses: NDArray[np.int64] | None = None

    @property
    def waits(self) -> bool:
        """Whether there is work that has not begun."""
        return bool(self.counts[Q_ROWS])

    def begin(self, owner: int, variables: NDArray[np.int64], at: NDArray[np.int64], registers: dict[int, Any]) -> None:
        """Begin all rows on PEs of the class `owner`, whose memory begins at the bytes `at` and holds `variables`.
        Registers that hold slots get their values, for which this waits."""
        self.finish()
        live = {k: v.index for k, v in registers.items() if type(v) is Slot}
        fixed = self.constants[: self.counts[Q_CONSTANTS]]
        slots = np.zeros(max(int(self.counts[Q_SLOTS]), 1), np.float32)
        slots[fixed[:, 1]] = fixed[:, 0].astype(np.uint32).view(np.float32)
        out = np.empty((len(live), len(at)), np.float32)
        wanted = np.array(list(live.values()), np.int64)
        rows, places = self.rows[: self.counts[Q_ROWS]].copy(), at >> 2

        def some(first: int, last: int) -> None:
            scratch = np.repeat(slots[:, None], LANES, axis=1)
            lanes_queue(self.words, places, rows, scratch, wanted, out, first, last)

        self._under_way = begin_lanes(some, len(at), int(rows[:, 1].sum()))
        self._owner, self._uses = owner, variables.copy()
        variables[:, VAR_READ:] = UNUSED
        self.counts[:] = 0
        if live:
            self.finish()
        for k, values in zip(live, out.view(np.uint32), strict=True):
            registers[k] = values.astype(np.int64)

    def wait(self, owner: int, low: int, high: int, writes: bool) -> None:
        """Wait for what is under way if it uses the bytes low .. high - 1 of the class, and it or this writes them."""
        uses = self._uses
        if not self._under_way or uses is None or owner != self._owner:
            return
        taken = (uses[:, VAR_WRITE] < high) & (low < uses[:, VAR_WRITE_END])
        if writes:
            taken |= (uses[:, VAR_READ] < high) & (low < uses[:, VAR_READ_END])
        if taken.any():
            self.finish()

    def finish(self) -> None:
        """Wait for all that is under way."""
        for part in self._under_way:
            part.result()
        self._under_way = []
