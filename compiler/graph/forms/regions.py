"""Regions given by a source: lifted from scalars to tensors, reduced over, sorted by; while loops that count; cases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from ..build import Builder, InferError, is_composite
from ..dtypes import BOOL, I32
from ..graph import Graph, Node, live, renumber
from ..ops import OPS
from ..types import TensorType
from .basic import broadcast_to, constant, convert, known, reshape, scalar, transpose
from .movement import pad
from .reductions import Windows, combined, reduce, reduce_window

_KINDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "and": "and", "or": "or"}
_UNROLLED_TAPS = 4096


# ---- lifting ---------------------------------------------------------------------------------------


def lift(region: Graph, shape: Sequence[int], name: str = "") -> Graph:
    """A region of elementwise ops on scalars as one on tensors of `shape`, an element of each at a time.

    InferError names an op that has no such form.
    """
    b = Builder(name or region.name)
    to = tuple(shape)
    names: dict[int, int] = {}
    for n in region.nodes:
        names.update(zip(n.outs, _lifted(b, n, [names[a] for a in n.args], to), strict=True))
    return b.finish([names[v] for v in region.outputs], region.output_names)


def _lifted(b: Builder, n: Node, args: list[int], to: tuple[int, ...]) -> tuple[int, ...]:
    attrs = dict(n.attrs)
    if any(t.size != 1 for t in n.types):
        raise InferError(f"{n.op}: {n.types[0]} in a region of scalars")
    if n.op == "input":
        return (b.input(str(attrs["name"]), n.type.with_shape(to)),)
    if n.op in ("full", "constant", "iota"):
        value = known(b, b.add(n.op, (), attrs)[0])
        assert value is not None
        return (broadcast_to(b, constant(b, value.reshape(()), n.type.dtype), to),)
    if n.op in ("reshape", "broadcast", "transpose"):
        return (args[0],)
    if is_composite(n):
        return b.add(n.op, args, attrs, regions=(lift(n.regions[0], to),), loc=n.loc)
    if "elementwise" not in OPS[n.op].traits and n.op != "bitcast_convert":
        raise InferError(f"{n.op} has no form that works element by element")
    return b.add(n.op, args, attrs, loc=n.loc)


def region_kind(region: Graph) -> str | None:
    """sum, prod, max, min, and, or when `region` applies just that op to its two inputs, else None."""
    body = live(region)
    if len(body.inputs) != 2 or len(body.nodes) != 3 or len(body.outputs) != 1:
        return None
    node = body.nodes[-1]
    pair = {n.out for n in body.inputs}
    kind = _KINDS.get(node.op)
    if set(node.args) != pair or node.outs != body.outputs:
        return None
    if node.type.dtype == BOOL:
        return {"max": "or", "min": "and"}.get(kind or "", kind)
    return None if kind in ("and", "or") else kind


# ---- reductions ------------------------------------------------------------------------------------


def reduce_region(
    b: Builder, xs: Sequence[int], inits: Sequence[int], axes: Sequence[int], region: Graph
) -> tuple[int, ...]:
    """StableHLO's reduce: the region takes (accumulators…, elements…) and gives the accumulators.

    One op on one operand is that reduction. Anything else is a loop over the reduced elements in row-major order, with
    the region on whole slices.
    """
    t = b.types[xs[0]]
    gone = sorted(a % t.rank for a in axes)
    kind = region_kind(region)
    if len(xs) == 1 and kind is not None:
        return (combined(b, reduce(b, xs[0], kind, gone) if gone else xs[0], kind, inits[0]),)
    kept = [i for i in range(t.rank) if i not in gone]
    shape = tuple(t.shape[i] for i in kept)
    count = prod(int(t.shape[a]) for a in gone)
    rows = [reshape(b, transpose(b, x, (*gone, *kept)), (count, *shape)) for x in xs]
    starts = [broadcast_to(b, reshape(b, v, ()), shape) for v in inits]
    inner = Builder("step", b.loc)
    inner.input("i", TensorType(I32, ()))
    given = [inner.input(f"x{i}", b.types[v].with_shape(shape)) for i, v in enumerate((*starts, *rows))]
    body = inner.finish(inner.inline(lift(region, shape), given))
    return b.add("loop", (*starts, *rows), {"n": count, "carry": len(xs), "xs": len(xs)}, regions=(body,))


def reduce_window_region(
    b: Builder, xs: Sequence[int], inits: Sequence[int], w: Windows, region: Graph
) -> tuple[int, ...]:
    """StableHLO's reduce_window with any region; padding is the initial value. Taps are folded in row-major order."""
    kind = region_kind(region)
    if len(xs) == 1 and kind is not None:
        return (reduce_window(b, xs[0], kind, w, inits[0]),)
    taps = prod(w.window)
    if taps > _UNROLLED_TAPS:
        raise InferError(f"reduce_window: a region over windows of {taps} elements, more than {_UNROLLED_TAPS}")
    spread = [
        pad(b, x, [p[0] for p in w.pads], [p[1] for p in w.pads], [d - 1 for d in w.base_dilations], fill=init)
        for x, init in zip(xs, inits, strict=True)
    ]
    whole = Windows(w.window, w.strides, (1,) * len(w.window), w.dilations, ((0, 0),) * len(w.window))
    counts = whole.counts(b.types[spread[0]].shape)
    sums = [broadcast_to(b, reshape(b, v, ()), counts) for v in inits]
    step = lift(region, counts)
    for tap in product(*map(range, w.window)) if all(counts) else ():
        at = tuple(i * d for i, d in zip(tap, w.dilations, strict=True))
        stops = tuple(a + (n - 1) * s + 1 for a, n, s in zip(at, counts, w.strides, strict=True))
        parts = [b.one("slice", x, starts=at, stops=stops, steps=w.strides) for x in spread]
        sums = list(b.inline(step, (*sums, *parts)))
    return tuple(sums)


# ---- sorting ---------------------------------------------------------------------------------------


def sort_region(b: Builder, xs: Sequence[int], axis: int, region: Graph) -> tuple[int, ...]:
    """StableHLO's sort by a comparator on (a0, b0, a1, b1, …): whether the a's come before the b's. Always stable.

    A comparator `f(a) < f(b)` (or >) sorts by the key f. Any other ranks each element by counting what comes before it,
    a loop over the axis, and sorts by that rank.
    """
    t = b.types[xs[0]]
    axis %= t.rank
    found = _key_of(region)
    if found is not None:
        key, descending = found
        (made,) = b.inline(lift(key, t.shape), xs)
        if made in xs and made == xs[0]:
            return b.add("sort", tuple(xs), {"axis": axis, "keys": 1, "descending": descending})
        return b.add("sort", (made, *xs), {"axis": axis, "keys": 1, "descending": descending})[1:]
    return b.add("sort", (_ranks(b, xs, axis, region), *xs), {"axis": axis, "keys": 1})[1:]


def _key_of(region: Graph) -> tuple[Graph, bool] | None:
    """(key of the a's, descending) of a comparator that compares one function of either side, else None."""
    body = live(region)
    test = body.producers[body.outputs[0]]
    if test.op not in ("lt", "gt") or len(body.outputs) != 1:
        return None
    sides = [n.out for n in body.inputs]
    keys = [_side(body, v, set(sides[i::2]), sides[i::2]) for i, v in enumerate(test.args)]
    descending = test.op == "gt"
    if None in keys:
        keys = [_side(body, v, set(sides[1 - i :: 2]), sides[1 - i :: 2]) for i, v in enumerate(test.args)]
        descending = not descending
    first, second = keys
    return (first, descending) if first is not None and first == second else None


def _side(body: Graph, value: int, legal: set[int], inputs: Sequence[int]) -> Graph | None:
    """What makes `value`, as a graph of `inputs` alone; None when it reads anything else."""
    needed = {value}
    for n in reversed(body.nodes):
        if not needed.isdisjoint(n.outs):
            if n.op == "input" and n.out not in legal:
                return None
            needed.update(n.args)
    b = Builder("key")
    names = {v: b.input(f"x{i}", body.types[v]) for i, v in enumerate(inputs)}
    for n in body.nodes:
        if n.op != "input" and not needed.isdisjoint(n.outs):
            names.update(zip(n.outs, b.copy(n, [names[a] for a in n.args]), strict=True))
    return renumber(b.finish([names[value]]))


def _ranks(b: Builder, xs: Sequence[int], axis: int, region: Graph) -> int:
    """How many elements of its line come before each: those put first, and equals of lower index."""
    t = b.types[xs[0]]
    n = t.shape[axis]
    order = (axis, *(i for i in range(t.rank) if i != axis))
    rows = [transpose(b, x, order) for x in xs]
    start = b.full(0, I32, t.shape)
    inner = Builder("count", b.loc)
    index = inner.input("i", TensorType(I32, ()))
    total = inner.input("rank", TensorType(I32, t.shape))
    ones = [
        inner.input(f"one{i}", TensorType(b.types[x].dtype, b.types[r].shape[1:]))
        for i, (x, r) in enumerate(zip(xs, rows, strict=True))
    ]
    alls = [inner.input(f"all{i}", b.types[x]) for i, x in enumerate(xs)]
    dims = tuple(i for i in range(t.rank) if i != axis)
    wide = [inner.one("broadcast", v, shape=t.shape, dims=dims) for v in ones]
    compare = lift(region, t.shape)
    (before,) = inner.inline(compare, [v for pair in zip(wide, alls, strict=True) for v in pair])
    (after,) = inner.inline(compare, [v for pair in zip(alls, wide, strict=True) for v in pair])
    place = inner.one("iota", axis=axis, dtype=I32, shape=t.shape)
    lower = inner.one("lt", broadcast_to(inner, index, t.shape), place)
    first = inner.one("or", before, inner.one("and", lower, inner.one("not", after)))
    body = inner.finish([inner.one("add", total, convert(inner, first, I32))])
    outs = b.add("loop", (start, *rows, *xs), {"n": int(n), "carry": 1, "xs": len(xs)}, regions=(body,))
    return outs[0]


# ---- control ---------------------------------------------------------------------------------------


def case(b: Builder, index: int, operands: Sequence[int], branches: Sequence[Graph]) -> tuple[int, ...]:
    """The results of branch `index` on the operands; an index out of range takes the last."""
    last = len(branches) - 1
    if not last:
        return b.inline(branches[0], operands)
    test = b.one("eq", index, scalar(b, 0, index))
    rest = branches[1]
    if last > 1:
        inner = Builder("rest", b.loc)
        at = inner.input("index", b.types[index])
        given = [inner.input(f"x{i}", b.types[v]) for i, v in enumerate(operands)]
        less = inner.one("sub", at, scalar(inner, 1, at))
        rest = inner.finish(case(inner, less, given, branches[1:]))
        return b.add("cond", (test, index, *operands), regions=(_ignoring(branches[0], b.types[index]), rest))
    return b.add("cond", (test, *operands), regions=(branches[0], rest))


def _ignoring(branch: Graph, first: TensorType) -> Graph:
    """`branch` with one more operand before its own, which it does not read."""
    b = Builder(branch.name)
    b.input("unread", first)
    given = [b.input(str(n.attr("name")), n.type) for n in branch.inputs]
    return b.finish(b.inline(branch, given))


def while_loop(
    b: Builder, carried: Sequence[int], captures: Sequence[int], cond: Graph, body: Graph, trips: int = 0
) -> tuple[int, ...]:
    """StableHLO's while; a `loop` where it counts from one literal to another by a literal step."""
    count = _count(b, carried, cond, body)
    if count is None:
        attrs = {"carry": len(carried), "trips": trips}
        return b.add("while", (*carried, *captures), attrs, regions=(cond, body))
    inner = Builder(body.name, b.loc)
    inner.input("i", TensorType(I32, ()))
    given = [inner.input(str(n.attr("name")), n.type) for n in body.inputs]
    region = inner.finish(inner.inline(body, given))
    return b.add("loop", (*carried, *captures), {"n": count, "carry": len(carried), "xs": 0}, regions=(region,))


def _count(b: Builder, carried: Sequence[int], cond: Graph, body: Graph) -> int | None:
    """How often a loop runs whose condition compares a carried counter with a literal; None when that is not known."""
    test = cond.producers[cond.outputs[0]]
    if test.op not in ("lt", "le", "gt", "ge", "ne") or len(carried) < len(body.outputs):
        return None
    places = {n.out: i for i, n in enumerate(cond.inputs)}
    which = places.get(test.args[0])
    bound = _literal(cond, test.args[1])
    if which is None or bound is None or which >= len(carried) or not cond.types[test.args[0]].dtype.is_int:
        return None
    start = known(b, carried[which])
    step = _step(body, body.outputs[which], body.inputs[which].out)
    if start is None or start.size != 1 or not step:
        return None
    first = int(start.reshape(()))
    ends = {"lt": bound, "le": bound + 1, "gt": bound, "ge": bound - 1, "ne": bound}
    stop = ends[test.op]
    rises = test.op in ("lt", "le") or (test.op == "ne" and stop >= first)
    if test.op == "ne" and (stop - first) % step:
        return None
    if (step > 0) != rises:
        return 0 if (first >= stop if rises else first <= stop) else None
    return max(0, -(-(stop - first) // step))


def _step(body: Graph, after: int, before: int) -> int | None:
    """What a body adds to its counter, when it adds a literal and nothing else."""
    node = body.producers[after]
    if node.op not in ("add", "sub") or before not in node.args:
        return None
    other = node.args[1] if node.args[0] == before else node.args[0]
    value = _literal(body, other)
    if value is None or (node.op == "sub" and node.args[0] != before):
        return None
    return value if node.op == "add" else -value


def _literal(graph: Graph, value: int) -> int | None:
    """The integer that a scalar of `graph` is, when it is a literal."""
    node = graph.producers[value]
    while node.op in ("reshape", "broadcast", "convert"):
        node = graph.producers[node.args[0]]
    if node.op not in ("full", "constant") or node.type.size != 1 or not node.type.dtype.is_int:
        return None
    b = Builder("literal")
    found = known(b, b.copy(node, ())[0])
    return None if found is None else int(found.reshape(()))
