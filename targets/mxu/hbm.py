"""Where tensors lie in HBM, and when.

Inputs, params and outputs have their own places for the whole run; what lives between two steps
shares space with what does not live then (first fit over lifetimes, largest first). Must not know
VMEM or instructions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ALIGNMENT = 512  # bytes: the on-chip network's granule, so that no two tensors share one


@dataclass(frozen=True, slots=True)
class Life:
    """A tensor that needs `nbytes` from step `first` to step `last`, both included."""

    key: object
    nbytes: int
    first: int
    last: int


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to the alignment, at least one granule."""
    return max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)


def first_fit(lives: Iterable[Life], base: int) -> tuple[dict[object, int], int]:
    """An address for each life, none overlapping another alive at the same step; and the end of all."""
    placed: list[tuple[int, int, Life]] = []
    where: dict[object, int] = {}
    end = base
    for life in sorted(lives, key=lambda x: (-x.nbytes, x.first, x.last, str(x.key))):
        size = aligned(life.nbytes)
        taken = sorted((a, b) for a, b, other in placed if life.first <= other.last and other.first <= life.last)
        at = base
        for a, b in taken:
            if at + size <= a:
                break
            at = max(at, b)
        where[life.key] = at
        placed.append((at, at + size, life))
        end = max(end, at + size)
    return where, end
