"""Tensors of the host as blocks of PEs, and back.

The block of a PE holds its columns one after the other, each of its share of the rows; weights lie row after row. What
stands beyond the tensor is zeros. Must not know CSL.
"""

from __future__ import annotations

import numpy as np

from ...compiler.graph import NDArray
from .placement import Placement, Shares


def to_blocks(x: NDArray, p: Placement, shares: Shares, turn: int) -> NDArray:
    """[height, width, elements] of a tensor in pass `turn`; PEs that share a part of it have it each."""
    rows, columns = shares.rows(p), shares.columns(p)
    matrix = _matrix(x, p)
    made = np.zeros((shares.height, shares.width, rows * columns), x.dtype)
    for y in range(shares.height):
        start = (turn * shares.height + y) * rows if p.split_rows else 0
        part = matrix[start : start + rows]
        for at in range(shares.width):
            first, own = shares.own(p, at)
            block = np.zeros((rows, own), x.dtype)
            block[: len(part)] = part[:, first : first + own]
            flat = block.ravel() if _row_major(p) else block.T.ravel()
            made[y, at, : flat.size] = flat
    return made


def from_blocks(blocks: NDArray, into: NDArray, p: Placement, shares: Shares, turn: int) -> None:
    """Put the blocks [height, width, elements] of pass `turn` where they belong in the tensor `into`."""
    rows = shares.rows(p)
    matrix = _matrix(into, p)
    for y in range(shares.height if p.split_rows else 1):
        start = (turn * shares.height + y) * rows if p.split_rows else 0
        count = max(0, min(rows, p.rows - start))
        for at in range(shares.width if p.split_columns else 1):
            first, own = shares.own(p, at)
            part = blocks[y, at, : rows * own].reshape(own, rows).T
            matrix[start : start + count, first : first + own] = part[:count]


def _matrix(x: NDArray, p: Placement) -> NDArray:
    """`x`, which is contiguous, as rows and columns: the same memory."""
    return x.reshape(p.rows, p.columns)


def _row_major(p: Placement) -> bool:
    return p.kind == "weights"
