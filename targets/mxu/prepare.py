"""A kernel body as this machine wants it: composites expanded, convolutions as matrix products.

Keeps meaning bit for bit: a convolution is the same matmul over (channel, window) that the reference
evaluator multiplies. An input that is only read in slices becomes one input for each slice, addressed
within the original: a slice of main memory is an address, and what is cut for one slice need not be
cut for another. Must not know tiles, addresses or time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from ...compiler.graph import Attr, Builder, DType, Graph, Node, expand, live
from ...compiler.graph.dtypes import BF16, F32, I8, I32, U8, int_range
from ...compiler.graph.ops.contract import is_depthwise, logical_weights
from ...compiler.graph.ops.movement import ints
from .strided import Box, dense, view_of


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an input of a prepared body lies: in the kernel's input number `index`, as `box` in bytes."""

    index: int
    box: Box


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared body and, for each of its inputs in order, its origin."""

    body: Graph
    origins: tuple[Origin, ...]


ALL_FED: frozenset[DType] = frozenset((BF16, F32, I8, U8))


@lru_cache(maxsize=512)
def prepare(body: Graph, fed: frozenset[DType] = ALL_FED) -> Prepared:
    """`body` without composites, convolutions and empty contractions; values numbered in order.

    `fed` are the dtypes that the chip's matrix units take in. Narrower floats are multiplied as f32, which is what they
    are summed in; 8-bit integers that no unit takes in as i32, on the vector units.

    An output that is an input becomes a copy of it.
    """
    whole = expand(body)
    b = Builder(whole.name)
    names: dict[int, int] = {}
    for n in whole.nodes:
        names.update(zip(n.outs, _node(b, n, [names[a] for a in n.args], whole, fed), strict=True))
    return _sliced_inputs(live(b.finish([names[v] for v in whole.outputs], whole.output_names)))


def _sliced_inputs(graph: Graph) -> Prepared:
    """`graph` with each input that only slices read replaced by one input a slice."""
    b = Builder(graph.name)
    names: dict[int, int] = {}
    origins: list[Origin] = []
    split = {
        n.out: i
        for i, n in enumerate(graph.inputs)
        if graph.users[n.out] and all(u.op == "slice" for u in graph.users[n.out]) and n.out not in graph.outputs
    }
    if not split and _in_order(graph):
        return Prepared(graph, tuple(Origin(i, dense(n.type.shape, n.type.dtype)) for i, n in enumerate(graph.inputs)))
    for i, n in enumerate(graph.inputs):
        if n.out not in split:
            names[n.out] = b.input(str(n.attr("name")), n.type, n.loc)
            origins.append(Origin(i, dense(n.type.shape, n.type.dtype)))
    for n in graph.nodes:
        if n.op == "slice" and n.args[0] in split:
            whole = graph.types[n.args[0]]
            box = view_of(n, dense(whole.shape, whole.dtype))
            assert box is not None
            names[n.out] = b.input(f"s{n.out}", n.type, n.loc)
            origins.append(Origin(split[n.args[0]], box))
        elif n.op != "input":
            names.update(zip(n.outs, b.copy(n, [names[a] for a in n.args]), strict=True))
    inputs = {n.outs[0] for n in b.nodes if n.op == "input"}
    outputs = [names[v] for v in graph.outputs]
    outputs = [b.one("reshape", v, shape=b.types[v].shape) if v in inputs else v for v in outputs]
    return Prepared(b.finish(outputs, graph.output_names), tuple(origins))


def _in_order(graph: Graph) -> bool:
    """Whether values are numbered in order, inputs first, and no output is an input."""
    inputs = [n.out for n in graph.inputs]
    return (
        list(graph.types) == list(range(len(graph.types)))
        and inputs == list(range(len(inputs)))
        and not set(inputs) & set(graph.outputs)
    )


def _node(b: Builder, n: Node, args: list[int], whole: Graph, fed: frozenset[DType]) -> tuple[int, ...]:
    if n.op == "conv":
        groups = n.attr("groups")
        assert isinstance(groups, int)
        if is_depthwise(logical_weights(whole.types[n.args[1]].shape, dict(n.attrs)), groups):
            return b.copy(n, args)  # the vector units do it tap by tap
        return (_conv(b, n, args[0], args[1], whole, fed),)
    if n.op == "take" and whole.types[n.args[1]].dtype != I32:
        return (b.one("take", args[0], _row_numbers(b, n, args[1], whole), axis=n.attr("axis"), loc=n.loc),)
    if n.op == "matmul":
        if whole.types[n.args[0]].shape[-1] == 0:
            return (b.full(0, n.type.dtype, n.type.shape, loc=n.loc),)
        return (_matmul(b, n, args[0], args[1], fed),)
    return b.copy(n, args)


def _matmul(b: Builder, n: Node, x: int, y: int, fed: frozenset[DType]) -> int:
    """x @ y with the result's dtype of `n`, a matmul or a convolution."""
    own, other, out = b.types[x].dtype, b.types[y].dtype, n.type.dtype
    attrs: dict[str, Attr] = {"precision": n.attr("precision")}
    if own.is_float and own.bits <= 16 and own not in fed:
        wide = [b.one("convert", v, dtype=F32, loc=n.loc) for v in (x, y)]
        (product,) = b.add("matmul", wide, attrs, loc=n.loc)
        return product if out == F32 else b.one("convert", product, dtype=out, loc=n.loc)
    if own.bits == 8 and own.is_int and not {own, other} <= fed:
        wide = [b.one("convert", v, dtype=I32, loc=n.loc) for v in (x, y)]
        wider = out if out.bits == 64 and out.kind == "int" else None
        (product,) = b.add("matmul", wide, {**attrs, "dtype": wider}, loc=n.loc)
        return product if b.types[product].dtype == out else b.one("convert", product, dtype=out, loc=n.loc)
    return b.add("matmul", (x, y), {**attrs, "dtype": None if out == own == other else out}, loc=n.loc)[0]


def _row_numbers(b: Builder, n: Node, index: int, g: Graph) -> int:
    """The index of a `take` as i32, which is what row copies read; held to the table first, as the op's meaning is."""
    axis, d, shape = n.attr("axis"), b.types[index].dtype, b.types[index].shape
    assert isinstance(axis, int)
    last = min(max(g.types[n.args[0]].shape[axis] - 1, 0), int_range(d)[1])
    held = b.one("min", b.one("max", index, b.full(0, d, shape)), b.full(last, d, shape))
    return b.one("convert", held, dtype=I32, loc=n.loc)


def _conv(b: Builder, n: Node, x: int, w: int, g: Graph, fed: frozenset[DType]) -> int:
    """conv as weights @ patches: K is (*window, channel) as in the op's meaning, columns are places of an image.

    An image is laid out as rows of one flat axis once; a tap's patch is then a slice of it. Columns are the places of
    all rows of that layout, of which those beyond the output's width are dropped again.
    """
    groups, out = n.attr("groups"), n.type.shape
    assert isinstance(groups, int)
    _, per, *taps = logical_weights(g.types[n.args[1]].shape, dict(n.attrs))
    if n.type.size == 0:
        return b.full(0, n.type.dtype, out, loc=n.loc)
    made = out[1] // groups
    if per * prod(taps) == 0:
        return b.full(0, n.type.dtype, out, loc=n.loc)
    slices, width = _tap_slices(b, n, x, taps, out[2:])
    parts: list[int] = []
    for i in range(groups):
        cuts = [_cut(b, v, 1, i * per, per) for v in slices]
        patches = cuts[0] if len(cuts) == 1 else b.add("concat", cuts, {"axis": 1}, loc=n.loc)[0]
        parts.append(_matmul(b, n, _weights(b, n, w, i * made, made), patches, fed))
    flat = parts[0] if groups == 1 else b.add("concat", parts, {"axis": 1}, loc=n.loc)[0]
    grid = b.one("reshape", flat, shape=(out[0], out[1], out[2], *width), loc=n.loc)
    if tuple(width) == out[3:]:
        return grid
    return b.one("slice", grid, starts=(0,) * len(out), stops=out, steps=(1,) * len(out), loc=n.loc)


def _weights(b: Builder, n: Node, w: int, first: int, made: int) -> int:
    """Weights of output channels first … first + made as [batch, made, K], alike for every image."""
    part = _cut(b, w, 0, first, made)
    _, per, *taps = logical_weights(b.types[part].shape, dict(n.attrs))
    if not n.attr("channels_last") and prod(taps) > 1:
        part = b.one("transpose", part, perm=(0, *range(2, 2 + len(taps)), 1), loc=n.loc)
    rows = b.one("reshape", part, shape=(made, prod(taps) * per), loc=n.loc)
    return b.one("broadcast", rows, shape=(n.type.shape[0], made, prod(taps) * per), dims=(1, 2), loc=n.loc)


def _tap_slices(
    b: Builder, n: Node, x: int, taps: Sequence[int], out: Sequence[int]
) -> tuple[list[int], tuple[int, ...]]:
    """For each tap its patch [N, C, places], and the layout's extents after the first axis.

    With strides the image is split into its phases first: every tap then moves by whole steps within one of them.
    """
    strides, low, dilations = (ints(n.attr(k)) for k in ("strides", "low", "dilations"))
    places = [[d * t for t in range(k)] for d, k in zip(dilations, taps, strict=True)]
    reach = [max(at) // s for at, s in zip(places, strides, strict=True)]
    grid = [o + r for o, r in zip(out, reach, strict=True)]
    grid[0] += any(reach[1:])  # the last rows of the last taps run over into one more
    image = b.types[x].shape
    least = [g * s for g, s in zip(grid, strides, strict=True)]
    high = [max(0, m - a - d) for m, a, d in zip(least, low, image[2:], strict=True)]
    if any((*low, *high)):
        x = b.one("pad", x, low=(0, 0, *low), high=(0, 0, *high), value=0, loc=n.loc)
    columns = prod(grid[1:])
    phases: dict[tuple[int, ...], int] = {}
    found: list[int] = []
    for tap in product(*places):
        phase = tuple(at % s for at, s in zip(tap, strides, strict=True))
        if phase not in phases:
            phases[phase] = _phase(b, n, x, phase, grid, strides)
        start = 0
        for at, s, extent in zip(tap, strides, grid, strict=True):
            start = start * extent + at // s
        found.append(_cut(b, phases[phase], 2, start, out[0] * columns))
    return found, tuple(grid[1:])


def _phase(b: Builder, n: Node, x: int, phase: Sequence[int], grid: Sequence[int], strides: Sequence[int]) -> int:
    """Every stride-th element from `phase` on, `grid` of them, as [N, C, places]."""
    batch, channels, *image = b.types[x].shape
    stops = [p + (g - 1) * s + 1 for p, g, s in zip(phase, grid, strides, strict=True)]
    if any(p for p in phase) or stops != image or any(s != 1 for s in strides):
        x = b.one("slice", x, starts=(0, 0, *phase), stops=(batch, channels, *stops), steps=(1, 1, *strides), loc=n.loc)
    return b.one("reshape", x, shape=(batch, channels, prod(grid)), loc=n.loc)


def _cut(b: Builder, x: int, axis: int, start: int, size: int) -> int:
    shape = b.types[x].shape
    axis %= len(shape)
    if size == shape[axis]:
        return x
    return b.one(
        "slice",
        x,
        starts=tuple(start if i == axis else 0 for i in range(len(shape))),
        stops=tuple(start + size if i == axis else d for i, d in enumerate(shape)),
        steps=(1,) * len(shape),
    )
