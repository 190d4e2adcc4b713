"""Regions: which bytes a view covers, as rows of one length at one stride from a low address.

A region is exact for boxes whose inner axes are dense; otherwise it covers more than the view does.
Must not know time or values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from .isa import Address, Loop, Term, View


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


def evaluate(address: Address, env: Mapping[str, int]) -> int:
    """The byte that `address` names while loops stand as in `env`."""
    return address.base + sum(t.at(env[t.loop]) for t in address.terms)


def term_range(term: Term, start: int, stop: int) -> tuple[int, int]:
    """Least and greatest value of `term` for its variable from `start` to `stop` - 1 (at least one value)."""
    first, last = (start + term.offset) // term.div, (stop - 1 + term.offset) // term.div
    if not term.mod:
        ends = (term.coef * first, term.coef * last)
    elif last - first + 1 >= term.mod:
        ends = (0, term.coef * (term.mod - 1))
    else:
        values = [term.coef * (s % term.mod) for s in (range(first, last + 1) if last - first < 64 else (0, term.mod - 1))]
        ends = (min(values), max(values))
    return min(ends), max(ends)


def hull(address: Address, length: int, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """(lowest byte, one past the highest) of `length` bytes at `address` over all loops in `ranges`."""
    low = high = address.base
    for t in address.terms:
        a, b = term_range(t, *ranges[t.loop])
        low, high = low + a, high + b
    return low, high + length


def period(terms: Iterable[Term]) -> int:
    """Iterations after which every one of `terms` (of one loop) has moved by a constant."""
    return lcm(1, *(t.div * t.mod if t.mod else t.div for t in terms))


def loop_range(loop: Loop) -> tuple[int, int]:
    return loop.start, max(loop.stop, loop.start + 1)
