"""Work of a group that is put off: loads and vector operations in f32 whose addresses all its PEs share.

The main thread of an unrolled product issues thousands of them one after the other. Queued and then done PE by PE, they
use memory that is still in the cache. What they cost is known when they are issued. Must not know time, nor groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batched_kernels import lanes_queue
from .ir import VectorOp

# Rows: the VectorOp or LOAD | elements, or of a load the slot | destination: word and stride | three sources: what,
# then word and stride of memory (0) or the slot (1).
ROW = 13
LOAD, MEMORY, SLOT = -1, 0, 1
MOST_ROWS = 1 << 15
OPERATIONS = {int(o) for o in (VectorOp.MAC, VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MOV)}


@dataclass(frozen=True, slots=True)
class Slot:
    """A register whose value is that of slot `index` once the queue has run."""

    index: int


@dataclass(slots=True, eq=False)
class Queue:
    """Rows in their order; `words` is the memory of all PEs as f32, `constants` the slots that hold a number."""

    words: NDArray[np.float32]
    rows: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    slots: int = 0
    constants: dict[int, int] = field(default_factory=dict[int, int])

    def another(self) -> Queue:
        """An empty queue over the same memory."""
        return Queue(self.words)

    def load(self, word: int) -> Slot:
        """A load of the word at `word` of each PE."""
        self.rows.append((LOAD, self.slots, word) + (0,) * (ROW - 3))
        self.slots += 1
        return Slot(self.slots - 1)

    def constant(self, bits: int) -> int:
        """The slot that holds `bits`."""
        if bits not in self.constants:
            self.constants[bits] = self.slots
            self.slots += 1
        return self.constants[bits]

    def run(self, at: NDArray[np.int64], registers: dict[int, Any]) -> None:
        """Do all rows on the PEs whose memory begins at the bytes `at`; registers that hold slots get their values."""
        live = {k: v.index for k, v in registers.items() if type(v) is Slot}
        slots = np.zeros(max(self.slots, 1), np.float32)
        for bits, index in self.constants.items():
            slots[index] = np.array([bits & 0xFFFFFFFF], np.uint32).view(np.float32)[0]
        out = np.empty((len(live), len(at)), np.float32)
        rows = np.array(self.rows, np.int64)
        lanes_queue(self.words, at >> 2, rows, slots, np.array(list(live.values()), np.int64), out)
        for k, values in zip(live, out.view(np.uint32), strict=True):
            registers[k] = values.astype(np.int64)
        self.rows, self.slots, self.constants = [], 0, {}
