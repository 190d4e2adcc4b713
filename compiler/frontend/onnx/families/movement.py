"""Operators that move elements: reshapes, slices, pads, concatenations, tilings."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....graph import forms
from ....graph.dtypes import I32
from ..call import Call, Value
from ..table import handles


@handles("Reshape", since=1)
def reshape_by_attribute(n: Call) -> int:
    """The shape of an attribute, as before opset 5."""
    return _reshaped(n, tuple(n.need("shape")), False)


@handles("Reshape", since=5)
def reshape(n: Call) -> int:
    """The shape of an operand: 0 keeps a dim unless `allowzero`, -1 is what is left."""
    return _reshaped(n, n.ints(1, "shape"), bool(n.attr("allowzero", 0)))


def _reshaped(n: Call, wanted: Sequence[int], zero_is_zero: bool) -> int:
    have = n.shape()
    if not zero_is_zero:
        if any(d == 0 and i >= len(have) for i, d in enumerate(wanted)):
            n.refuse(f"its shape {list(wanted)} keeps a dim that {n.type()} does not have")
        wanted = [have[i] if d == 0 else d for i, d in enumerate(wanted)]
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        n.refuse(f"its shape is {list(wanted)}")
    if -1 in wanted:
        rest = prod(int(d) for d in wanted if d != -1)
        if not rest or n.type().size % rest:
            n.refuse(f"{n.type()} of {n.type().size} elements does not take the shape {[int(d) for d in wanted]}")
        wanted = [n.type().size // rest if d == -1 else d for d in wanted]
    return forms.reshape(n.b, n.x(), wanted)


@handles("Flatten")
def flatten(n: Call) -> int:
    """A matrix: the axes before `axis`, and the others."""
    axis = int(n.attr("axis", 1))
    if not -n.type().rank <= axis <= n.type().rank:
        n.refuse(f"axis {axis} does not split the axes of {n.type()}")
    return forms.flatten(n.b, n.x(), axis)


@handles("Transpose")
def transpose(n: Call) -> int:
    """Axes in the order of `perm`, reversed by default."""
    return forms.transpose(n.b, n.x(), n.attr("perm", tuple(reversed(range(n.type().rank)))))


def _axes(n: Call, since_input: int, i: int = 1) -> tuple[int, ...] | None:
    """The axes of an attribute, or since an opset of an operand."""
    if n.version < since_input:
        return n.attr("axes")
    return n.ints(i, "axes") if n.has(i) else None


@handles("Squeeze")
def squeeze(n: Call) -> int:
    """Without axes of size 1."""
    return forms.squeeze(n.b, n.x(), _axes(n, 13))


@handles("Unsqueeze")
def unsqueeze(n: Call) -> int:
    """With new axes of size 1."""
    return forms.unsqueeze(n.b, n.x(), _axes(n, 13) or ())


@handles("Expand")
def expand(n: Call) -> int:
    """The operand broadcast with a shape, both ways."""
    return n.spread_to(0, forms.broadcast_shape(n.shape(), n.ints(1, "shape")))


@handles("Tile", since=1)
def tile_one_axis(n: Call) -> int:
    """One axis repeated end to end, as before opset 6."""
    (times,), (axis,) = n.ints(1, "number of tiles"), n.ints(2, "axis")
    return forms.tile(n.b, n.x(), [times if i == axis else 1 for i in range(n.type().rank)])


@handles("Tile", since=6)
def tile(n: Call) -> int:
    """Each axis repeated end to end."""
    return forms.tile(n.b, n.x(), n.ints(1, "repeats"))


@handles("Concat")
def concat(n: Call) -> int | Value:
    """Operands one after another."""
    return forms.concat(n.b, n.xs(), n.axis(1 if n.version < 4 else None))


@handles("Split")
def split(n: Call) -> list[int]:
    """Parts of sizes that are given, else of even size, the last one smaller."""
    axis = n.axis(0)
    size = int(n.shape()[axis])
    sizes = n.attr("split") if n.version < 13 else n.ints(1, "sizes") if n.has(1) else None
    if sizes is None:
        parts = int(n.attr("num_outputs", n.outputs))
        if parts != n.outputs:
            n.refuse(f"it says {parts} outputs and has {n.outputs}")
        each = -(-size // parts)
        sizes = [max(0, min(each, size - i * each)) for i in range(parts)]
    return forms.split(n.b, n.x(), [int(s) for s in sizes], axis)


@handles("Slice", since=1)
def slice_by_attributes(n: Call) -> int:
    """Slices with bounds in attributes."""
    starts, ends = n.need("starts"), n.need("ends")
    if len(starts) != len(ends) or len(n.attr("axes", starts)) != len(starts):
        n.refuse(f"it has {len(starts)} starts and {len(ends)} ends")
    return forms.slice_any(n.b, n.x(), starts, ends, None, n.attr("axes", tuple(range(len(starts)))))


@handles("Slice", since=10)
def slice_(n: Call) -> int:
    """Slices with bounds that are operands known at import, or one step of 1 from a start known at run time."""
    starts, ends = (n.ints(i, what) for i, what in ((1, "starts"), (2, "ends")))
    axes = [n.at(a, n.type().rank) for a in (n.ints(3, "axes") if n.has(3) else range(len(starts)))]
    steps = n.ints(4, "steps") if n.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        n.refuse(f"it has {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    # The end of a slice that runs backwards past the first element is any number below -size.
    stops = [None if s < 0 and e < -int(n.shape()[a]) else e for e, s, a in zip(ends, steps, axes, strict=True)]
    return forms.slice_any(n.b, n.x(), starts, stops, steps, axes)  # pyright: ignore[reportArgumentType]  # None: to the front


@handles("Pad", since=1)
def pad_by_attributes(n: Call) -> int:
    """Pads in attributes."""
    pads = n.attr("pads", n.attr("paddings"))
    if pads is None:
        n.refuse("its attribute `pads` is missing")
    return _padded(n, list(pads), n.attr("value", 0.0), None)


@handles("Pad", since=11)
def pad(n: Call) -> int:
    """Pads in an operand, around all axes or those named."""
    pads, rank = n.ints(1, "pads"), n.type().rank
    if n.has(3):
        axes = [n.at(a, rank) for a in n.ints(3, "axes")]
        if len(pads) != 2 * len(axes):
            n.refuse(f"it has {len(pads)} pads for {len(axes)} axes")
        full = [0] * (2 * rank)
        for i, a in enumerate(axes):
            full[a], full[rank + a] = pads[i], pads[len(axes) + i]
        pads = tuple(full)
    return _padded(n, list(pads), 0, n.maybe(2))


def _padded(n: Call, pads: Sequence[int], value: float, fill: int | None) -> int:
    rank, mode = n.type().rank, n.attr("mode", "constant")
    if len(pads) != 2 * rank:
        n.refuse(f"it has {len(pads)} pads for {n.type()}")
    if any(0 in n.shape() and p for p in pads) and mode != "constant":
        n.refuse(f"it cannot repeat elements of {n.type()}, which has none")
    low, high = pads[:rank], pads[rank:]
    if mode == "constant":
        d = n.dtype()
        number = bool(value) if d.kind == "bool" else int(value) if d.is_int else float(value)
        return forms.pad(n.b, n.x(), low, high, value=number, fill=fill)
    ways = {"reflect": forms.pad_reflect, "edge": forms.pad_edge, "wrap": forms.pad_wrap}
    if mode not in ways:
        n.refuse(f"its mode is `{mode}`")
    return ways[mode](n.b, n.x(), low, high)


def _image(n: Call) -> None:
    if n.type().rank != 4:
        n.refuse(f"it takes x[N, C, H, W], not {n.type()}")


@handles("DepthToSpace")
def depth_to_space(n: Call) -> int:
    """Channels to blocks of places."""
    _image(n)
    return forms.depth_to_space(n.b, n.x(), int(n.need("blocksize")), n.attr("mode", "DCR") == "CRD")


@handles("SpaceToDepth")
def space_to_depth(n: Call) -> int:
    """Blocks of places to channels."""
    _image(n)
    block = int(n.need("blocksize"))
    if n.attr("mode", "DCR") == "CRD":
        rows, channels, h, w = n.shape()
        if block < 1 or h % block or w % block:
            n.refuse(f"blocks of {block} do not fit {n.type()}")
        apart = forms.reshape(n.b, n.x(), (rows, channels, h // block, block, w // block, block))
        moved = forms.transpose(n.b, apart, (0, 1, 3, 5, 2, 4))
        return forms.reshape(n.b, moved, (rows, channels * block * block, h // block, w // block))
    return forms.space_to_depth(n.b, n.x(), block)


@handles("Trilu")
def trilu(n: Call) -> int:
    """The triangle on one side of a diagonal; 0 on the other."""
    k = n.ints(1, "diagonal")[0] if n.has(1) else 0
    # Beyond the matrix the diagonal's number means no more, and i32 holds what is left.
    reach = sum(int(d) for d in n.shape()[-2:])
    return forms.triangle(n.b, n.x(), bool(n.attr("upper", 1)), max(-reach, min(reach, k)))


@handles("CenterCropPad")
def center_crop_pad(n: Call) -> int:
    """Cut or padded with zeros about the centre to the sizes given."""
    rank = n.type().rank
    axes = [n.at(a, rank) for a in n.attr("axes", tuple(range(rank)))]
    low, high = [0] * rank, [0] * rank
    sizes = n.ints(1, "shape")
    if len(sizes) != len(axes):
        n.refuse(f"{len(sizes)} sizes for {len(axes)} axes")
    for axis, size in zip(axes, sizes, strict=True):
        more = size - int(n.shape()[axis])
        low[axis] = more // 2 if more >= 0 else -((-more) // 2)
        high[axis] = more - low[axis]
    return forms.pad(n.b, n.x(), low, high, value=False if n.dtype().kind == "bool" else 0)


@handles("ReverseSequence")
def reverse_sequence(n: Call) -> int:
    """The first so many elements of each sequence backwards, the rest as it is."""
    time, batch = int(n.attr("time_axis", 0)), int(n.attr("batch_axis", 1))
    shape = n.shape()
    lengths = forms.convert(n.b, n.x(1), I32)
    spread = n.b.one("broadcast", lengths, shape=shape, dims=(batch,))
    place = n.b.one("iota", axis=time, dtype=I32, shape=shape)
    mirrored = n.b.one("sub", n.b.one("sub", spread, place), n.like(1, place))
    index = n.b.one("select", n.b.one("lt", place, spread), mirrored, place)
    return forms.gather_elements(n.b, n.x(), index, time, wrap=False)
