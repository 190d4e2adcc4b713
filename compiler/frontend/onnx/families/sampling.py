"""Operators that read between elements at places computed at run time, their kin Col2Im, and determinants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ....graph import NDArray, forms
from ....graph.dtypes import I32
from ..call import Call
from ..table import handles

# Keys 1981 with the parameter of PyTorch, whose operator GridSample describes.
_CUBIC = -0.75


@dataclass(frozen=True, slots=True)
class Taps:
    """The elements that coordinates read along one axis, each value [N, taps, P]: places as i32, weights, and where a
    place lies inside. None: 1, or everywhere.
    """

    count: int
    place: int
    weight: int | None
    inside: int | None


def _affine(n: Call, x: int, by: float, plus: float) -> int:
    scaled = n.b.one("mul", x, n.like(by, x)) if by != 1 else x
    return n.b.one("add", scaled, n.like(plus, x)) if plus else scaled


def _reflected(n: Call, x: int, low: float, high: float) -> int:
    """A triangle wave between the borders: coordinates mirrored as often as needed."""
    span = high - low
    if span <= 0:
        return n.like(low, x)
    turned = forms.floor_mod(n.b, _affine(n, x, 1, -low), n.like(2 * span, x))
    back = n.b.one("min", turned, n.b.one("sub", n.like(2 * span, x), turned))
    return _affine(n, back, 1, low)


def _held(n: Call, x: int, size: int) -> int:
    return n.b.one("min", n.b.one("max", x, n.like(0, x)), n.like(max(size - 1, 0), x))


def _taps(n: Call, x: int, size: int, mode: str, padding: str, borders: tuple[float, float]) -> Taps:
    """The taps of coordinates x[N, P] along one axis."""
    first, count = {"nearest": (0, 1), "linear": (0, 2), "cubic": (-1, 4)}[mode]
    batch, points = n.b.types[x].shape
    shape = (batch, count, points)
    whole = n.b.one("round" if mode == "nearest" else "floor", x)
    shifts = forms.constant(n.b, np.arange(first, first + count).astype(n.b.types[x].dtype.numpy), n.b.types[x].dtype)
    spread = n.b.one("broadcast", shifts, shape=shape, dims=(1,))
    place = n.b.one("add", n.b.one("broadcast", whole, shape=shape, dims=(0, 2)), spread)
    weight: int | None = None
    if mode != "nearest":
        part = n.b.one("broadcast", n.b.one("sub", x, whole), shape=shape, dims=(0, 2))
        distance = n.b.one("abs", n.b.one("sub", part, spread))
        weight = _affine(n, distance, -1, 1) if mode == "linear" else _keys(n, distance)
    if padding == "reflection":
        place = _reflected(n, place, *borders)
    inside: int | None = None
    if padding == "zeros":
        above = n.b.one("ge", place, n.like(0, place))
        inside = n.b.one("and", above, n.b.one("lt", place, n.like(size, place)))
    return Taps(count, forms.convert(n.b, _held(n, place, size), I32), weight, inside)


def _keys(n: Call, d: int) -> int:
    """The cubic convolution kernel at distances up to 2."""
    a = _CUBIC
    near = _affine(n, n.b.one("mul", _affine(n, d, a + 2, -(a + 3)), n.b.one("mul", d, d)), 1, 1)
    inner = _affine(n, n.b.one("mul", _affine(n, d, a, -5 * a), d), 1, 8 * a)
    far = _affine(n, n.b.one("mul", inner, d), 1, -4 * a)
    return n.b.one("select", n.b.one("le", d, n.like(1, d)), near, far)


def sampled(n: Call, x: int, axes: Sequence[Taps]) -> int:
    """x[N, C, …] at P places of each batch: [N, C, P]. One gather reads all combinations of the axes' taps."""
    batch, channels, *spatial = n.b.types[x].shape
    points = n.b.types[axes[0].place].shape[2]
    counts = tuple(t.count for t in axes)
    every = (batch, *counts, points)

    def wide(v: int, axis: int) -> int:
        return n.b.one("broadcast", v, shape=every, dims=(0, 1 + axis, len(counts) + 1))

    index = wide(axes[0].place, 0)
    for i, t in enumerate(axes[1:], 1):
        index = n.b.one("add", n.b.one("mul", index, n.like(spatial[i], index)), wide(t.place, i))
    flat = forms.reshape(n.b, x, (batch, channels, prod(spatial)))
    line = (batch, prod(counts) * points)
    shape = (batch, channels, line[1])
    places = n.b.one("broadcast", forms.reshape(n.b, index, line), shape=shape, dims=(0, 2))
    value = forms.gather_elements(n.b, flat, places, 2, wrap=False)
    weight = _joined(n, [wide(t.weight, i) for i, t in enumerate(axes) if t.weight is not None], "mul")
    inside = _joined(n, [wide(t.inside, i) for i, t in enumerate(axes) if t.inside is not None], "and")
    if weight is not None:
        value = n.b.one("mul", value, n.b.one("broadcast", forms.reshape(n.b, weight, line), shape=shape, dims=(0, 2)))
    if inside is not None:
        mask = n.b.one("broadcast", forms.reshape(n.b, inside, line), shape=shape, dims=(0, 2))
        value = n.b.one("select", mask, value, n.like(0, value))
    if prod(counts) == 1:
        return value
    apart = forms.reshape(n.b, value, (batch, channels, prod(counts), points))
    return n.b.one("reduce_sum", apart, axes=(2,))


def _joined(n: Call, parts: Sequence[int], op: str) -> int | None:
    total: int | None = None
    for v in parts:
        total = v if total is None else n.b.one(op, total, v)
    return total


@handles("GridSample", since=16)
def grid_sample(n: Call) -> int:
    """x[N, C, …] at the places of a grid [N, …, axes] of coordinates from -1 to 1, last axis of x first."""
    x, grid = n.x(0), n.x(1)
    batch, channels, *spatial = n.shape(0)
    out = n.shape(1)[1:-1]
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(n.attr("mode", "linear"), n.attr("mode", "linear"))
    padding, corners = n.attr("padding_mode", "zeros"), bool(n.attr("align_corners", 0))
    if len(out) != len(spatial) or n.shape(1)[-1:] != (len(spatial),) or n.shape(1)[0] != batch:
        n.refuse(f"a grid {n.type(1)} does not fit {n.type(0)}")
    if mode not in ("nearest", "linear", "cubic") or padding not in ("zeros", "border", "reflection"):
        n.refuse(f"its mode is `{mode}`, its padding `{padding}`")
    if 0 in spatial:
        n.refuse(f"there is nothing to sample in {n.type(0)}")
    points = forms.reshape(n.b, forms.convert(n.b, grid, n.dtype(0)), (batch, prod(out), len(spatial)))
    axes: list[Taps] = []
    for i, size in enumerate(int(d) for d in spatial):
        column = forms.slice_any(n.b, points, (len(spatial) - 1 - i,), (len(spatial) - i,), axes=(2,))
        unit = forms.reshape(n.b, column, (batch, prod(out)))
        # From -1 … 1 to the centres of the outer elements, or to their outer edges.
        place = _affine(n, unit, (size - 1 if corners else size) / 2, (size - 1) / 2)
        borders = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        place = n.b.one("round", place) if mode == "nearest" else place
        if padding == "border":
            place = _held(n, place, size)
        elif padding == "reflection":
            place = _reflected(n, place, *borders)
        axes.append(_taps(n, place, size, mode, padding, borders))
    return forms.reshape(n.b, sampled(n, x, axes), (batch, channels, *out))


@handles("DeformConv", since=19)
def deform_conv(n: Call) -> int:
    """A 2-D convolution whose taps are moved by offsets (Dai et al. 2017) and weighted by a mask (Zhu et al. 2019)."""
    if n.type(0).rank != 4 or n.type(1).rank != 4 or n.type(2).rank != 4:
        n.refuse(f"it takes tensors of rank 4, not {n.type(0)}, {n.type(1)} and {n.type(2)}")
    batch, channels, *sizes = (int(d) for d in n.shape(0))
    made, each, *taps = (int(d) for d in n.shape(1))
    groups, moved = int(n.attr("group", 1)), int(n.attr("offset_group", 1))
    strides, dilations = n.attr("strides", (1, 1)), n.attr("dilations", (1, 1))
    pads, out = n.attr("pads", (0,) * 4), tuple(int(d) for d in n.shape(2)[2:])
    count, places = prod(taps), prod(out)
    if channels != each * groups or made % groups or channels % moved or n.shape(2)[1] != moved * count * 2:
        n.refuse(f"{n.type(0)}, {n.type(1)} and offsets {n.type(2)} do not fit {groups} groups and {moved} of offsets")
    offsets = forms.reshape(n.b, n.x(2), (batch * moved, count, 2, places))
    axes: list[Taps] = []
    for axis in range(2):
        part = forms.slice_any(n.b, offsets, (axis,), (axis + 1,), axes=(2,))
        flat = forms.reshape(n.b, part, (batch * moved, count * places))
        base = _base(axis, taps, out, strides[axis], dilations[axis], pads[axis]).astype(n.dtype().numpy)
        line = forms.constant(n.b, base, n.dtype())
        place = n.b.one("add", flat, n.b.one("broadcast", line, shape=n.b.types[flat].shape, dims=(1,)))
        axes.append(_taps(n, place, sizes[axis], "linear", "zeros", (0.0, 0.0)))
    grouped = forms.reshape(n.b, n.x(0), (batch * moved, channels // moved, *sizes))
    columns = forms.reshape(n.b, sampled(n, grouped, axes), (batch, moved, channels // moved, count, places))
    if n.has(4):
        mask = forms.reshape(n.b, n.x(4), (batch, moved, 1, count, places))
        columns = n.b.one("mul", columns, forms.broadcast_to(n.b, mask, n.b.types[columns].shape))
    columns = forms.reshape(n.b, columns, (batch, groups, each * count, places))
    weights = forms.reshape(n.b, n.x(1), (1, groups, made // groups, each * count))
    weights = forms.broadcast_to(n.b, weights, (batch, *n.b.types[weights].shape[1:]))
    y = forms.reshape(n.b, n.b.one("matmul", weights, columns), (batch, made, *out))
    return n.b.one("add", y, n.b.one("broadcast", n.x(3), shape=n.b.types[y].shape, dims=(1,))) if n.has(3) else y


def _base(axis: int, taps: Sequence[int], out: Sequence[int], stride: int, dilation: int, pad: int) -> NDArray:
    """Where each tap of each window stands along an axis without offsets, taps outermost."""
    tap = np.indices(tuple(taps))[axis].reshape(-1, 1) * dilation
    window = np.indices(tuple(out))[axis].reshape(1, -1) * stride
    return (tap + window - pad).reshape(-1)


@handles("Col2Im", since=18)
def col2im(n: Call) -> int:
    """Columns of blocks [N, C * elements, blocks] put back where they lie in an image, summed where they overlap.

    It is a transposed convolution by one-hot weights.
    """
    image, block = n.ints(1, "image shape"), n.ints(2, "block shape")
    rank = len(image)
    dilations, strides = n.attr("dilations", (1,) * rank), n.attr("strides", (1,) * rank)
    pads = n.attr("pads", (0,) * (2 * rank))
    count = prod(block)
    fits = len(block) == len(dilations) == len(strides) == rank and len(pads) == 2 * rank and n.type().rank == 3
    if not fits or count < 1 or n.shape()[1] % count or min((*strides, *dilations), default=1) < 1:
        n.refuse(f"blocks {list(block)} of an image {list(image)} do not fit {n.type()}")
    low, high = pads[:rank], pads[rank:]
    rows = list(zip(image, low, high, block, dilations, strides, strict=True))
    blocks = [(size + a + z - d * (k - 1) - 1) // s + 1 for size, a, z, k, d, s in rows]
    if prod(blocks) != n.shape()[2] or min(blocks, default=1) < 1:
        n.refuse(f"an image {list(image)} has {prod(blocks)} blocks, not {n.shape()[2]}")
    left = [size + a + z - (m - 1) * s - d * (k - 1) - 1 for m, (size, a, z, k, d, s) in zip(blocks, rows, strict=True)]
    channels = int(n.shape()[1]) // count
    x = forms.reshape(n.b, n.x(), (n.shape()[0], channels * count, *blocks))
    one_hot = np.tile(np.eye(count), (channels, 1)).reshape(channels * count, 1, *block).astype(n.dtype().numpy)
    w = forms.constant(n.b, one_hot, n.dtype())
    return forms.conv_transpose(n.b, x, w, strides, low, high, dilations, left, channels)


_LARGEST_DETERMINANT = 4


@handles("Det", since=11)
def det(n: Call) -> int:
    """Determinants of matrices up to 4 by 4, by minors of the first row."""
    shape = n.shape()
    if len(shape) < 2 or shape[-1] != shape[-2] or not 1 <= shape[-1] <= _LARGEST_DETERMINANT:
        n.refuse(f"it takes square matrices up to {_LARGEST_DETERMINANT} by {_LARGEST_DETERMINANT}, not {n.type()}")

    def at(i: int, j: int) -> int:
        part = forms.slice_any(n.b, n.x(), (i, j), (i + 1, j + 1), axes=(len(shape) - 2, len(shape) - 1))
        return forms.reshape(n.b, part, shape[:-2])

    def minor(row: int, columns: tuple[int, ...]) -> int:
        if len(columns) == 1:
            return at(row, columns[0])
        total: int | None = None
        for k, column in enumerate(columns):
            term = n.b.one("mul", at(row, column), minor(row + 1, (*columns[:k], *columns[k + 1 :])))
            total = term if total is None else n.b.one("sub" if k % 2 else "add", total, term)
        assert total is not None
        return total

    return minor(0, tuple(range(int(shape[-1]))))
