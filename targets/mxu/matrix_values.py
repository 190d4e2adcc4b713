"""What one matrix unit holds while values are computed: staged tiles, weights in use, results.

Knows shapes and arithmetic of one unit. Must not know memories or addresses.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from ...compiler.graph import NDArray
from .chip import Mxu
from .numerics import tile_product, wide


class Misuse(ValueError):
    """A matrix unit used out of turn; the message tells how."""


@dataclass(slots=True)
class UnitValues:
    """One unit. Rows of results wait in `queue`, oldest first, or in accumulator rows."""

    mxu: Mxu
    staged: deque[NDArray] = field(default_factory=deque[NDArray])
    weights: NDArray | None = None
    queue: deque[NDArray] = field(default_factory=deque[NDArray])
    rows: dict[int, NDArray] = field(default_factory=dict[int, NDArray])

    def push(self, tile: NDArray) -> None:
        if len(self.staged) >= self.mxu.stages:
            raise Misuse("a tile is pushed over one that is still staged")
        # The copy is what the staging register holds: later writes to VMEM do not reach it.
        self.staged.append(np.array(tile if tile.dtype.kind in "iub" else wide(tile)))

    def multiply(self, lhs: NDArray, latch: bool, acc: int | None, add: bool) -> None:
        if latch:
            if not self.staged:
                raise Misuse("a tile is latched, but none is staged")
            self.weights = self.staged.popleft()
        if self.weights is None:
            raise Misuse("rows are multiplied before any tile was latched")
        if lhs.shape[1] != self.weights.shape[0] or (lhs.dtype.kind in "iub") != (self.weights.dtype.kind in "iub"):
            raise Misuse(f"rows of {lhs.dtype}[{lhs.shape[1]}] meet a tile with {self.weights.shape[0]} rows")
        product = tile_product(lhs, self.weights)
        if acc is None:
            self.queue.append(product)
        else:
            self._accumulate(product, acc, add)

    def _accumulate(self, product: NDArray, acc: int, add: bool) -> None:
        if acc + len(product) > self.mxu.accumulator_rows:
            raise Misuse(f"accumulator rows up to {acc + len(product)} are used; there are {self.mxu.accumulator_rows}")
        for n, row in enumerate(product, acc):
            held = self.rows.get(n)
            if add and (held is None or held.shape != row.shape):
                raise Misuse(f"a product is added to accumulator row {n}, which holds no sums of that width")
            if not add and held is not None:
                raise Misuse(f"a product overwrites accumulator row {n}, which was not popped")
            with np.errstate(all="ignore"):
                self.rows[n] = held + row if add and held is not None else row

    def pop(self, rows: int, n: int, acc: int | None) -> NDArray:
        """The oldest `rows` of results, `n` wide, or those of accumulator rows from `acc` on."""
        taken = self._take(rows) if acc is None else self._empty(rows, acc)
        if taken.shape[1] != n:
            raise Misuse(f"results {taken.shape[1]} wide are popped to rows {n} wide")
        return taken

    def _take(self, rows: int) -> NDArray:
        parts: list[NDArray] = []
        left = rows
        while left:
            if not self.queue:
                raise Misuse(f"{rows} rows are popped; {rows - left} are there")
            head = self.queue.popleft()
            if len(head) > left:
                self.queue.appendleft(head[left:])
                head = head[:left]
            if parts and parts[0].shape[1] != head.shape[1]:
                raise Misuse("one pop takes results of two widths")
            parts.append(head)
            left -= len(head)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _empty(self, rows: int, acc: int) -> NDArray:
        lacking = [n for n in range(acc, acc + rows) if n not in self.rows]
        if lacking:
            raise Misuse(f"accumulator row {lacking[0]} is popped, but holds nothing")
        parts = [self.rows.pop(n) for n in range(acc, acc + rows)]
        if len({p.shape for p in parts}) > 1:
            raise Misuse("one pop takes accumulator rows of two widths")
        return np.stack(parts)

    def left(self) -> str:
        """What a program that ends now leaves behind, in words; empty when nothing."""
        held = [("a staged tile", self.staged), ("results", self.queue), ("sums", self.rows)]
        return " and ".join(word for word, things in held if things)
