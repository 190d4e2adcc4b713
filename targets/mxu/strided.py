"""Strided boxes: what a chain of views is, as an addressing of its base buffer.

Must not know plans, kernels or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from ...compiler.graph import DType, Node
from ...compiler.graph.ops.movement import ints, reshape_groups
from .isa import Address, Memory, View

LANES = 128
SUBLANES = 8


@dataclass(frozen=True, slots=True)
class Box:
    """`shape` elements at `offset` bytes, `strides` bytes apart, from a buffer's start."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def at(self, memory: Memory, start: Address, dtype: DType) -> View:
        return View(memory, start + self.offset, dtype, self.shape, self.strides)

    def part(self, axis: int, start: int, size: int) -> Box:
        """The box of `size` elements from `start` along `axis`."""
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        return Box(shape, self.strides, self.offset + start * self.strides[axis])

    def drop(self, axis: int) -> Box:
        """Without `axis`, at its first element."""
        cut = slice(axis, axis + 1)
        shape, strides = list(self.shape), list(self.strides)
        del shape[cut], strides[cut]
        return Box(tuple(shape), tuple(strides), self.offset)


def element_bytes(dtype: DType) -> int:
    """Bytes an element takes where it is addressed alone (sub-byte types take one)."""
    return dtype.numpy.itemsize


def dense(shape: tuple[int, ...], dtype: DType) -> Box:
    """Row-major without padding: how tensors lie in HBM."""
    strides: list[int] = []
    step = element_bytes(dtype)
    for d in reversed(shape):
        strides.append(step)
        step *= max(int(d), 1)
    return Box(tuple(map(int, shape)), tuple(reversed(strides)))


def padded(shape: tuple[int, ...], dtype: DType) -> Box:
    """Row-major in VMEM: the last axis padded to 128 lanes, the last but one to whole (8, 128) x 32-bit tiles.

    Packing follows the TPU's tiled layout (8 sublanes x 128 lanes x 32 bits; narrower types pack rows).
    """
    size = element_bytes(dtype)
    rows = SUBLANES * max(1, 4 // size)
    lanes = [*map(int, shape)]
    if lanes:
        lanes[-1] = -(-lanes[-1] // LANES) * LANES
    if len(lanes) > 1:
        lanes[-2] = -(-lanes[-2] // rows) * rows
    return Box(tuple(map(int, shape)), dense(tuple(lanes), dtype).strides)


def padded_bytes(shape: tuple[int, ...], dtype: DType) -> int:
    """Bytes that `padded(shape)` occupies; a multiple of one tile."""
    return padded_size(shape, element_bytes(dtype))


def padded_size(shape: Sequence[int], element_bytes: int) -> int:
    """`padded_bytes` of elements of so many bytes."""
    rows = SUBLANES * max(1, 4 // element_bytes)
    size = element_bytes
    for i, d in enumerate(reversed(shape)):
        step = LANES if i == 0 else rows if i == 1 else 1
        size *= -(-max(int(d), 1) // step) * step
    tile = SUBLANES * LANES * 4
    return max(tile, -(-size // tile) * tile)


def view_of(node: Node, box: Box) -> Box | None:
    """The box of a view op's result given its operand's, or None when no strides say it."""
    match node.op:
        case "transpose":
            perm = ints(node.attr("perm"))
            return Box(tuple(box.shape[p] for p in perm), tuple(box.strides[p] for p in perm), box.offset)
        case "slice":
            return _slice(node, box)
        case "broadcast":
            return _broadcast(node, box)
        case "reshape":
            return reshaped(box, tuple(map(int, node.type.shape)))
        case _:
            return None


def _slice(node: Node, box: Box) -> Box:
    starts, steps = ints(node.attr("starts")), ints(node.attr("steps"))
    offset = box.offset + sum(int(a) * s for a, s in zip(starts, box.strides, strict=True))
    strides = tuple(s * int(k) for s, k in zip(box.strides, steps, strict=True))
    return Box(tuple(map(int, node.type.shape)), strides, offset)


def _broadcast(node: Node, box: Box) -> Box:
    shape = tuple(map(int, node.type.shape))
    strides = [0] * len(shape)
    for i, d in enumerate(ints(node.attr("dims"))):
        strides[d] = box.strides[i] if box.shape[i] == shape[d] else 0
    return Box(shape, tuple(strides), box.offset)


def reshaped(box: Box, shape: tuple[int, ...]) -> Box | None:
    """`box` read in row-major order as `shape`, when strides can say it."""
    if prod(shape) == 0:
        return Box(shape, (0,) * len(shape), box.offset)
    strides = [0] * len(shape)
    for old, new in reshape_groups(box.shape, shape):
        wide = [i for i in old if box.shape[i] != 1]
        if any(box.strides[i] != box.strides[j] * box.shape[j] for i, j in pairwise(wide)):
            return None
        step = box.strides[wide[-1]] if wide else 0
        for j in reversed(new):
            strides[j] = step
            step *= shape[j]
    return Box(shape, tuple(strides), box.offset)
