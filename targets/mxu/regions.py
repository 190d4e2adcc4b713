"""Regions: which bytes a view covers, as rows of one length at one stride from a low address.

A region is exact for boxes whose inner axes are dense; otherwise it covers more than the view does.
Must not know time or values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Literal

import numpy as np

from .isa import Address, Condition, Loop, Term, View


@dataclass(frozen=True, slots=True)
class Extent:
    """`rows` rows of `width` bytes, `stride` bytes apart; one row has stride 0. `dense`: no gaps within a row."""

    rows: int
    width: int
    stride: int
    dense: bool = True

    @property
    def length(self) -> int:
        """Bytes from the first to the last, gaps included."""
        return (self.rows - 1) * self.stride + self.width if self.rows else 0


def extent(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Extent:
    """The extent of a strided box; strides must not be negative."""
    if 0 in shape:
        return Extent(0, 0, 0)
    axes = sorted((s, n) for n, s in zip(shape, strides, strict=True) if n > 1)
    width, dense = itemsize, True
    while axes and axes[0][0] == width:
        width *= axes.pop(0)[1]
    if not axes:
        return Extent(1, width, 0)
    *inner, (stride, rows) = axes
    for s, n in inner:
        dense = dense and s <= width
        width += (n - 1) * s
    if stride <= width:
        return Extent(1, (rows - 1) * stride + width, 0, dense)
    return Extent(rows, width, stride, dense)


def view_extent(view: View) -> Extent:
    """The extent of `view` from its address on."""
    return extent(view.shape, view.strides, view.dtype.numpy.itemsize)


def disjoint(a_low: int, a: Extent, b_low: int, b: Extent) -> bool:
    """Whether no byte can be in both; False when they may overlap."""
    if a_low + a.length <= b_low or b_low + b.length <= a_low or not a.rows or not b.rows:
        return True
    if a.rows > 1 and b.rows > 1 and a.stride != b.stride:
        return False
    stride = max(a.stride, b.stride)
    if not stride:
        return False
    offset = (b_low - a_low) % stride
    return offset >= a.width and offset + b.width <= stride


def term_range(term: Term, start: int, stop: int) -> tuple[int, int]:
    """Least and greatest value of `term` for its variable from `start` to `stop` - 1 (at least one value)."""
    first, last = (start + term.offset) // term.div, (stop - 1 + term.offset) // term.div
    if not term.mod:
        ends = (term.coef * first, term.coef * last)
    elif last - first + 1 >= term.mod:
        ends = (0, term.coef * (term.mod - 1))
    else:
        values = [
            term.coef * (s % term.mod) for s in (range(first, last + 1) if last - first < 64 else (0, term.mod - 1))
        ]
        ends = (min(values), max(values))
    return min(ends), max(ends)


def hull(
    address: Address, length: int, ranges: Mapping[str, tuple[int, int]], periodic: Sequence[Condition] = ()
) -> tuple[int, int]:
    """(lowest byte, one past the highest) of `length` bytes at `address` over all loops in `ranges`.

    `periodic` are conditions that hold, on terms with a modulus: they narrow terms that run with the same period.
    """
    low = high = address.base
    for t in address.terms:
        a, b = term_range(t, *ranges[t.loop])
        if t.mod and periodic:
            a, b = _narrowed_term(t, (a, b), periodic)
        low, high = low + a, high + b
    return low, high + length


def _narrowed_term(t: Term, ends: tuple[int, int], periodic: Sequence[Condition]) -> tuple[int, int]:
    """The ends of what `t`, which lies in `ends`, is where conditions on the same step hold."""
    own = [c for c in periodic if _step(c.term) == _step(t)]
    steps = [s for s in range(t.mod) if all(compare(c.relation, c.term.coef * s, c.value) for c in own)]
    values = [t.coef * s for s in steps if ends[0] <= t.coef * s <= ends[1]]
    return (min(values), max(values)) if own and values else ends


def _step(t: Term) -> tuple[str, int, int, int]:
    return t.loop, t.div, t.mod, t.offset


def period(terms: Iterable[Term]) -> int:
    """Iterations after which every one of `terms` (of one loop) has moved by a constant."""
    return lcm(1, *(t.div * t.mod if t.mod else t.div for t in terms))


def loop_range(loop: Loop) -> tuple[int, int]:
    return loop.start, max(loop.stop, loop.start + 1)


# ---- conditions ----------------------------------------------------------------------------------


def holds(c: Condition, i: int) -> bool:
    """Whether a condition holds at iteration `i` of its loop."""
    return compare(c.relation, c.term.at(i), c.value)


def compare(relation: Literal["eq", "ne", "lt", "ge"], x: int, value: int) -> bool:
    """Whether `x` stands in `relation` to `value`."""
    match relation:
        case "eq":
            return x == value
        case "ne":
            return x != value
        case "lt":
            return x < value
        case "ge":
            return x >= value


def changes(c: Condition, i: int, stop: int) -> int:
    """The first iteration in (i, stop] at which `c`, whose term has no modulus, holds otherwise than at `i`.

    The term is monotone in the iteration, so a comparison changes only next to where it meets the value.
    """
    now = holds(c, i)
    edges = sorted(e for e in _edges(c.term, c.value) if i < e < stop)
    return next((e for e in edges if holds(c, e) != now), stop)


def _edges(term: Term, value: int) -> Iterator[int]:
    """Iterations at which a comparison of a term without modulus with `value` may change."""
    if not term.coef:
        return
    for step in (value // term.coef, -(-value // term.coef)):
        for s in (step, step + 1):
            yield s * term.div - term.offset


def narrowed(
    ranges: Mapping[str, tuple[int, int]], conditions: Sequence[Condition]
) -> dict[str, tuple[int, int]] | None:
    """`ranges` cut to where all `conditions` may hold, periodic ones left out; None when they never do."""
    found = dict(ranges)
    for c in conditions:
        if c.term.mod or c.term.loop not in found:
            continue
        start, stop = found[c.term.loop]
        held: list[tuple[int, int]] = []
        i = start
        while i < stop:
            end = changes(c, i, stop)
            held += [(i, end)] if holds(c, i) else []
            i = end
        if not held:
            return None
        found[c.term.loop] = (held[0][0], held[-1][1])
    return found


# ---- exact overlap -------------------------------------------------------------------------------


def share_bytes(a_low: int, a: View, b_low: int, b: View) -> bool:
    """Whether two views at these addresses have a byte in common; exact."""
    if disjoint(a_low, view_extent(a), b_low, view_extent(b)):
        return False
    a_starts, a_run = _runs(a_low, a)
    b_starts, b_run = _runs(b_low, b)
    if not a_starts.size or not b_starts.size:
        return False
    at = np.searchsorted(b_starts, a_starts - b_run, side="right")
    inside = at < b_starts.size
    return bool(np.any(b_starts[at[inside]] < a_starts[inside] + a_run))


def _runs(low: int, view: View) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], int]:
    """Sorted starts of the contiguous runs of a view, and the bytes of each."""
    run, inner = view.dtype.numpy.itemsize, len(view.shape)
    while inner and (view.shape[inner - 1] == 1 or view.strides[inner - 1] == run):
        inner -= 1
        run *= view.shape[inner]
    starts = np.array([low], np.int64)
    for n, s in zip(view.shape[:inner], view.strides[:inner], strict=True):
        starts = (starts[:, None] + np.arange(n, dtype=np.int64) * s).reshape(-1)
    return np.sort(starts), run if 0 not in view.shape else 0
