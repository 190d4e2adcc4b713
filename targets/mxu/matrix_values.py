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
    """One unit. Rows of results wait in `queue`, oldest first, or in accumulator rows.

    An accumulator row holds as many sums as `held` says: of f32, or of i32 where that is negative, or none.
    """

    mxu: Mxu
    staged: deque[NDArray] = field(default_factory=deque[NDArray])
    weights: NDArray | None = None
    queue: deque[NDArray] = field(default_factory=deque[NDArray])
    sums: NDArray = field(init=False)
    held: NDArray = field(init=False)

    def __post_init__(self) -> None:
        self.sums = np.zeros((self.mxu.accumulator_rows, self.mxu.size), np.float32)
        self.held = np.zeros(self.mxu.accumulator_rows, np.int32)

    def push(self, tile: NDArray) -> None:
        if len(self.staged) >= self.mxu.stages:
            raise Misuse("a tile is pushed over one that is still staged")
        # The copy is what the staging register holds: later writes to VMEM do not reach it.
        self.staged.append(np.array(tile) if tile.dtype.kind in "iub" else wide(tile))

    def multiply(self, lhs: NDArray, latch: bool, acc: int | None, add: bool) -> None:
        if latch:
            if not self.staged:
                raise Misuse("a tile is latched, but none is staged")
            self.weights = self.staged.popleft()
        if self.weights is None:
            raise Misuse("rows are multiplied before any tile was latched")
        if self.weights.shape[1] > self.mxu.size:
            raise Misuse(f"a tile is {self.weights.shape[1]} wide, the array {self.mxu.size}")
        if lhs.shape[1] != self.weights.shape[0] or (lhs.dtype.kind in "iub") != (self.weights.dtype.kind in "iub"):
            raise Misuse(f"rows of {lhs.dtype}[{lhs.shape[1]}] meet a tile with {self.weights.shape[0]} rows")
        product = tile_product(lhs, self.weights)
        if acc is None:
            self.queue.append(product)
        else:
            self._accumulate(product, acc, add)

    def _accumulate(self, product: NDArray, acc: int, add: bool) -> None:
        end, n = acc + len(product), product.shape[1]
        if end > self.mxu.accumulator_rows:
            raise Misuse(f"accumulator rows up to {end} are used; there are {self.mxu.accumulator_rows}")
        held, own = self.held[acc:end], -n if product.dtype.kind == "i" else n
        wrong = held != (own if add else 0)
        if wrong.any():
            row = acc + int(np.argmax(wrong))
            if add:
                raise Misuse(f"a product is added to accumulator row {row}, which holds no sums of that width")
            raise Misuse(f"a product overwrites accumulator row {row}, which was not popped")
        sums = self.sums.view(product.dtype)[acc:end, :n]
        with np.errstate(all="ignore"):
            sums[...] = sums + product if add else product
        held[:] = own

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
        held = self.held[acc : acc + rows]
        lacking = np.flatnonzero(held == 0)
        if lacking.size or len(held) < rows:
            row = acc + (int(lacking[0]) if lacking.size else len(held))
            raise Misuse(f"accumulator row {row} is popped, but holds nothing")
        if np.any(held != held[0]):
            raise Misuse("one pop takes accumulator rows of two widths")
        n = int(held[0])
        held[:] = 0
        return np.array(self.sums.view(np.int32 if n < 0 else np.float32)[acc : acc + rows, : abs(n)])

    def left(self) -> str:
        """What a program that ends now leaves behind, in words; empty when nothing."""
        held = [("a staged tile", self.staged), ("results", self.queue), ("sums", self.held.any())]
        return " and ".join(word for word, things in held if things)
