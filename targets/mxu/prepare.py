"""A kernel body as this machine wants it: composites expanded, convolutions as matrix products.

Keeps meaning bit for bit: a convolution is the same matmul over (channel, window) that the reference
evaluator multiplies. An input that is only read in slices becomes one input for each slice, addressed
within the original: a slice of main memory is an address, and what is cut for one slice need not be
cut for another. Must not know tiles, addresses or time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from ...compiler.graph import Attr, Builder, DType, Graph, Node, expand, live
from ...compiler.graph.dtypes import BF16, F32, I8, I32, U8, int_range
from ...compiler.graph.ops.contract import is_depthwise
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


def _node(b: Builder, n: Node, args: list[int], whole: Graph, fed: frozenset[DType]) -> tuple[int, ...]:
    if n.op == "conv":
        groups = n.attr("groups")
        assert isinstance(groups, int)
        if is_depthwise(whole.types[n.args[1]].shape, groups):
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
    """conv as patches @ weights; rows are (batch, *out), K is (channel, *window) as in the op's meaning."""
    groups, out = n.attr("groups"), n.type.shape
    assert isinstance(groups, int)
    taps = g.types[n.args[1]].shape[2:]
    if n.type.size == 0:
        return b.full(0, n.type.dtype, out, loc=n.loc)
    per = g.types[n.args[0]].shape[1] // groups
    wide = per * prod(taps)
    if wide == 0:
        return b.full(0, n.type.dtype, out, loc=n.loc)
    patches = _patches(b, n, x, taps, out[2:])  # [N, *out, C, taps]
    rows, per_out = out[0] * prod(out[2:]), out[1] // groups
    parts: list[int] = []
    for i in range(groups):
        lhs = b.one("reshape", _cut(b, patches, -2, i * per, per), shape=(rows, wide), loc=n.loc)
        rhs = b.one("reshape", _cut(b, w, 0, i * per_out, per_out), shape=(per_out, wide), loc=n.loc)
        rhs = b.one("transpose", rhs, perm=(1, 0), loc=n.loc)
        parts.append(_matmul(b, n, lhs, rhs, fed))
    flat = parts[0] if groups == 1 else b.add("concat", parts, {"axis": 1}, loc=n.loc)[0]
    back = b.one("reshape", flat, shape=(out[0], *out[2:], out[1]), loc=n.loc)
    return b.one("transpose", back, perm=(0, len(out) - 1, *range(1, len(out) - 1)), loc=n.loc)


def _patches(b: Builder, n: Node, x: int, taps: tuple[int, ...], out: tuple[int, ...]) -> int:
    """[N, *out, C, taps]: one strided slice of the padded input for each tap, side by side."""
    strides, low, high, dilations = (ints(n.attr(k)) for k in ("strides", "low", "high", "dilations"))
    if any((*low, *high)):
        x = b.one("pad", x, low=(0, 0, *low), high=(0, 0, *high), value=0, loc=n.loc)
    shape = b.types[x].shape
    order = (0, *range(2, len(shape)), 1)
    slices: list[int] = []
    for tap in range(prod(taps)):
        at = [dilations[i] * ((tap // prod(taps[i + 1 :])) % taps[i]) for i in range(len(taps))]
        stops = [a + (o - 1) * s + 1 for a, o, s in zip(at, out, strides, strict=True)]
        part = b.one(
            "slice", x, starts=(0, 0, *at), stops=(shape[0], shape[1], *stops), steps=(1, 1, *strides), loc=n.loc
        )
        turned = b.one("transpose", part, perm=order, loc=n.loc)
        slices.append(b.one("reshape", turned, shape=(*b.types[turned].shape, 1), loc=n.loc))
    return slices[0] if len(slices) == 1 else b.add("concat", slices, {"axis": len(shape)}, loc=n.loc)[0]


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
