"""How rows that combine elements are written: products, reductions, windows, sorts, loops, random bits.

Must not know how names are made: a writer does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import DType, Graph, Node, TensorType
from ...graph.dtypes import BOOL, I32, extremes
from .export_ops import (
    Write,
    array,
    binary,
    compare,
    compare_kind,
    convert,
    ints,
    reshape,
    select,
    sliced,
    splat,
    with_region,
)
from .types import type_text

if TYPE_CHECKING:
    from .export import Writer

_SCALAR_I32 = TensorType(I32, ())
_PRECISIONS = {"highest": "HIGHEST", "high": "HIGH", "default": "DEFAULT"}
_COMBINE = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}


# ---- contractions, reductions, windows ---------------------------------------------------------------


def _matmul(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    a, b = takes
    args, (a, b) = _one_dtype(w, args, [a, b], n.type.dtype)
    batch = list(range(b.rank - 2))
    dims = f"batching_dims = {batch} x {batch}, " if batch else ""
    more = f", {dims}contracting_dims = [{a.rank - 1}] x [{b.rank - 2}]{_precision(n)}"
    return (w.call("stablehlo.dot_general", args, [a, b], n.type, more),)


def _one_dtype(
    w: Writer, args: list[str], takes: list[TensorType], to: DType
) -> tuple[list[str], tuple[TensorType, TensorType]]:
    """Operands of a product at one dtype: StableHLO multiplies no i8 by u8."""
    a, b = takes
    if a.dtype == b.dtype:
        return args, (a, b)
    return [convert(w, x, t, to) for x, t in zip(args, takes, strict=True)], (a.with_dtype(to), b.with_dtype(to))


def _precision(n: Node) -> str:
    word = _PRECISIONS[str(n.attr("precision"))]
    return f", precision = [{word}, {word}]"


def _conv(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    args, types = _one_dtype(w, args, takes, n.type.dtype)
    spatial = ", ".join(map(str, range(n.type.rank - 2)))
    weights = f"o, {spatial}, i" if n.attr("channels_last") else f"o, i, {spatial}"
    axes = f"[b, f, {spatial}]x[{weights}]->[b, f, {spatial}]"
    strides, dilations = ints(n.attr("strides")), ints(n.attr("dilations"))
    pads = [list(p) for p in zip(ints(n.attr("low")), ints(n.attr("high")), strict=True)]
    window = f"{{stride = {strides}, pad = {pads}, rhs_dilate = {dilations}}}"
    word = _PRECISIONS[str(n.attr("precision"))]
    more = (
        f" dim_numbers = {axes}, window = {window} {{batch_group_count = 1 : i64, "
        f"feature_group_count = {n.attr('groups')} : i64, "
        f"precision_config = [#stablehlo<precision {word}>, #stablehlo<precision {word}>]}}"
    )
    return (w.call("stablehlo.convolution", [f"({', '.join(args)})"], list(types), n.type, more),)


def neutral(kind: str, d: DType) -> float | int | bool:
    least, greatest = extremes(d)
    return {"sum": 0, "prod": 1, "max": least, "min": greatest, "and": True, "or": False}[kind]


def _reduce(kind: str) -> Write:
    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        scalar = n.type.with_shape(())
        init = splat(w, neutral(kind, n.type.dtype), scalar)
        across = f"across dimensions = {ints(n.attr('axes'))}"
        text = f"stablehlo.reduce({args[0]} init: {init}) applies stablehlo.{_COMBINE[kind]} {across}"
        return (w.op(text, f"({type_text(takes[0])}, {type_text(scalar)}) -> {type_text(n.type)}"),)

    return write


def _window(n: Node) -> tuple[list[int], list[int], list[list[int]], list[int]]:
    """Window, strides, pads and dilations over all axes of x[N, C, …]."""
    pads = [[0, 0], [0, 0], *([a, z] for a, z in zip(ints(n.attr("low")), ints(n.attr("high")), strict=True))]
    dilations = ints(dict(n.attrs).get("dilations", (1,) * (len(pads) - 2)))
    return [1, 1, *ints(n.attr("window"))], [1, 1, *ints(n.attr("strides"))], pads, [1, 1, *dilations]


def windowed(
    w: Writer, x: str, t: TensorType, to: TensorType, kind: str, window: Sequence[int], strides: Sequence[int],
    pads: Sequence[Sequence[int]], dilations: Sequence[int],
) -> str:  # fmt: skip
    scalar = to.with_shape(())
    init = splat(w, neutral(kind, to.dtype), scalar)
    attributes = (
        f"<{{padding = dense<{[list(p) for p in pads]}> : tensor<{len(pads)}x2xi64>, "
        f"window_dilations = {array(dilations)}, "
        f"window_dimensions = {array(window)}, window_strides = {array(strides)}}}>"
    )

    def combine(a: str, b: str) -> str:
        return binary(w, _COMBINE[kind], a, b, scalar)

    body = (scalar, combine)
    return with_region(w, '"stablehlo.reduce_window"', [x, init], [t, scalar], to, attributes, [body])


def _reduce_window(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    window, strides, pads, dilations = _window(n)
    return (windowed(w, args[0], takes[0], n.type, str(n.attr("op")), window, strides, pads, dilations),)


def _select_and_scatter(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    window, strides, pads, _ = _window(n)
    element = n.type.with_shape(())
    init = splat(w, 0, element)
    attributes = (
        f"<{{padding = dense<{pads}> : tensor<{len(pads)}x2xi64>, window_dimensions = {array(window)}, "
        f"window_strides = {array(strides)}}}>"
    )
    direction = str(n.attr("select")).upper()

    def choose(a: str, b: str) -> str:
        return compare(w, direction, a, b, element)

    def combine(a: str, b: str) -> str:
        return binary(w, "add", a, b, element)

    bodies = [(element, choose), (element, combine)]
    return (
        with_region(w, '"stablehlo.select_and_scatter"', [*args, init], [*takes, element], n.type, attributes, bodies),
    )


def _cumulative(kind: str) -> Write:
    """A running reduction is a window over all that came before."""

    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        axis = n.attr("axis")
        assert isinstance(axis, int)
        t = takes[0]
        size, rank = int(t.shape[axis]), t.rank
        if not t.size:
            return (args[0],)
        away = 1 if n.attr("exclusive") else 0
        pair = [size - 1 + away, -away] if not n.attr("reverse") else [-away, size - 1 + away]
        ones = [1] * rank
        window, pads = list(ones), [[0, 0] for _ in range(rank)]
        window[axis], pads[axis] = size, pair
        return (windowed(w, args[0], t, n.type, kind, window, ones, pads, ones),)

    return write


# ---- order -------------------------------------------------------------------------------------------


def key(w: Writer, x: str, t: TensorType) -> str:
    """Floats with one NaN and one zero, so that total order puts them as the sorts here do."""
    if not t.dtype.is_float:
        return x
    nan, zero = splat(w, math.nan, t), splat(w, 0.0, t)
    one_zero = select(w, compare(w, "EQ", x, zero, t), zero, x, t)
    return select(w, compare(w, "NE", x, x, t), nan, one_zero, t)


def before(w: Writer, pairs: Sequence[tuple[str, str, TensorType]], direction: str) -> str:
    """Whether the first of each pair comes before the second, lexicographically."""
    x, y, t = pairs[0]
    kind = "TOTALORDER" if t.dtype.is_float else compare_kind(t.dtype)
    a, b = key(w, x, t), key(w, y, t)
    first = compare(w, direction, a, b, t, kind)
    if len(pairs) == 1:
        return first
    same = compare(w, "EQ", a, b, t, kind)
    test = TensorType(BOOL, ())
    return binary(w, "or", first, binary(w, "and", same, before(w, pairs[1:], direction), test), test)


def sorted_(
    w: Writer, args: Sequence[str], takes: Sequence[TensorType], axis: int, keys: int, descending: bool
) -> list[str]:
    made = w.fresh()
    results = [f"{made}#{i}" for i in range(len(args))] if len(args) > 1 else [made]
    left = f"{made}:{len(args)}" if len(args) > 1 else made
    w.line(f'{left} = "stablehlo.sort"({", ".join(args)}) <{{dimension = {axis} : i64, is_stable = true}}> ({{')
    elements = [t.with_shape(()) for t in takes]
    names, label = w.region([t for t in elements for _ in (0, 1)])
    w.line(label)
    w.depth += 1
    pairs = [(names[2 * i], names[2 * i + 1], elements[i]) for i in range(keys)]
    w.line(f"stablehlo.return {before(w, pairs, 'GT' if descending else 'LT')} : tensor<i1>")
    w.depth -= 1
    types = ", ".join(map(type_text, takes))
    w.line(f"}}) : ({types}) -> {types if len(takes) == 1 else f'({types})'}")
    return results


def _sort(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    axis, keys = n.attr("axis"), n.attr("keys")
    assert isinstance(axis, int) and isinstance(keys, int)
    return sorted_(w, args, takes, axis, keys, bool(n.attr("descending")))


def _top_k(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    """A sort with places, cut after k: stable, so ties keep their order."""
    t, k = takes[0], n.attr("k")
    places = w.op(f"stablehlo.iota dim = {t.rank - 1}", type_text(t.with_dtype(I32)))
    both = [t, t.with_dtype(I32)]
    made = sorted_(w, [args[0], places], both, t.rank - 1, 1, bool(n.attr("largest")))
    stops = [*map(int, t.shape[:-1]), int(k)]  # type: ignore[arg-type]
    return [sliced(w, x, own, [0] * t.rank, stops, [1] * t.rank)[0] for x, own in zip(made, both, strict=True)]


def _argument(kind: str) -> Write:
    """A reduce of (value, place): the better one, or one that is NaN; of equals the first place, or the last."""
    direction = "GT" if kind == "argmax" else "LT"

    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        x, t, axis = args[0], takes[0], n.attr("axis")
        if t.dtype == BOOL:
            x, t = convert(w, x, t, I32), t.with_dtype(I32)
        place = t.with_dtype(I32)
        places = w.op(f"stablehlo.iota dim = {axis}", type_text(place))
        element, index = t.with_shape(()), _SCALAR_I32
        inits = splat(w, neutral("max" if kind == "argmax" else "min", t.dtype), element), splat(w, 0, index)
        made = w.fresh()
        types = [t, place, element, index]
        gives = [n.type.with_dtype(t.dtype), n.type]
        pairs = f"({x} init: {inits[0]}), ({places} init: {inits[1]})"
        w.line(f"{made}:2 = stablehlo.reduce{pairs} across dimensions = [{axis}] : "
               f"({', '.join(map(type_text, types))}) -> ({', '.join(map(type_text, gives))})")  # fmt: skip
        a, i, b, j = (w.fresh() for _ in range(4))
        w.line(
            f" reducer({a}: {type_text(element)}, {b}: {type_text(element)}) ({i}: tensor<i32>, {j}: tensor<i32>) {{"
        )
        w.depth += 1
        _pick(w, a, b, i, j, element, direction, "GT" if n.attr("last") else "LT")
        w.depth -= 1
        w.line("}")
        return (f"{made}#1",)

    return write


def _pick(w: Writer, a: str, b: str, i: str, j: str, element: TensorType, direction: str, tie: str) -> None:
    test, index = TensorType(BOOL, ()), _SCALAR_I32
    wins = compare(w, direction, a, b, element)
    same = compare(w, "EQ", a, b, element)
    if element.dtype.is_float:
        nan, other = compare(w, "NE", a, a, element), compare(w, "NE", b, b, element)
        if tie == "GT":  # of two NaNs the later one wins, so the first must give way
            wins = binary(
                w, "or", wins, binary(w, "and", nan, w.op(f"stablehlo.not {other}", "tensor<i1>"), test), test
            )
            same = binary(w, "or", same, binary(w, "and", nan, other, test), test)
        else:
            wins = binary(w, "or", wins, nan, test)
    lower = binary(w, "and", same, compare(w, tie, i, j, index), test)
    taken = binary(w, "or", wins, lower, test)
    value = select(w, wins, a, b, element)
    w.line(f"stablehlo.return {value}, {select(w, taken, i, j, index)} : {type_text(element)}, tensor<i32>")


# ---- control, random bits ----------------------------------------------------------------------------


def _region(w: Writer, graph: Graph, values: Sequence[str], returns: bool = True) -> list[str]:
    """The nodes of a region whose inputs have these names; with `returns` its terminator too."""
    names = dict(zip((n.out for n in graph.inputs), values, strict=True))
    outputs = w.graph(graph, names)
    if returns:
        w.line(f"stablehlo.return {', '.join(outputs)} : {', '.join(map(type_text, graph.output_types))}")
    return outputs


def _opened(w: Writer, start: Sequence[str], types: Sequence[TensorType]) -> tuple[list[str], list[str]]:
    """The first line of a while; (names of its results, names of its arguments)."""
    made, names = w.fresh(), [w.fresh() for _ in start]
    left = f"{made}:{len(start)}" if len(start) > 1 else made
    pairs = ", ".join(f"{a} = {v}" for a, v in zip(names, start, strict=True))
    w.line(f"{left} = stablehlo.while({pairs}) : {', '.join(map(type_text, types))}")
    return [f"{made}#{i}" for i in range(len(start))] if len(start) > 1 else [made], names


def _while(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    carry = n.attr("carry")
    assert isinstance(carry, int)
    results, names = _opened(w, args[:carry], takes[:carry])
    for word, region in zip(("cond", "} do"), n.regions, strict=True):
        w.line(f"{word} {{")
        w.depth += 1
        _region(w, region, [*names, *args[carry:]])
        w.depth -= 1
    w.line("}")
    return results


def _cond(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    made = w.fresh()
    several = len(n.outs) > 1
    w.line(f'{made}{f":{len(n.outs)}" if several else ""} = "stablehlo.if"({args[0]}) ({{')
    for i, region in enumerate(n.regions):
        if i:
            w.line("}, {")
        w.depth += 1
        _region(w, region, args[1:])
        w.depth -= 1
    types = ", ".join(map(type_text, n.types))
    w.line(f"}}) : (tensor<i1>) -> {f'({types})' if several else types}")
    return [f"{made}#{i}" for i in range(len(n.outs))] if several else [made]


def _loop(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    """A while that counts: xs are read by slices, ys written into buffers."""
    carry, xs, count = (int(str(n.attr(k))) for k in ("carry", "xs", "n"))
    zero = splat(w, 0, _SCALAR_I32)
    ys = n.types[carry:]
    buffers = [splat(w, False if t.dtype == BOOL else 0, t) for t in ys]
    if not count:
        return [*args[:carry], *buffers]
    types = [_SCALAR_I32, *takes[:carry], *ys]
    results, names = _opened(w, [zero, *args[:carry], *buffers], types)
    i, values, filled = names[0], names[1 : 1 + carry], names[1 + carry :]
    w.line("cond {")
    w.depth += 1
    test = compare(w, "LT", i, splat(w, count, _SCALAR_I32), _SCALAR_I32)
    w.line(f"stablehlo.return {test} : tensor<i1>")
    w.depth -= 1
    w.line("} do {")
    w.depth += 1
    rows = [_row(w, x, t, i) for x, t in zip(args[carry : carry + xs], takes[carry : carry + xs], strict=True)]
    outs = _region(w, n.regions[0], [i, *values, *rows, *args[carry + xs :]], returns=False)
    after = [_put(w, buffer, y, t, i) for buffer, y, t in zip(filled, outs[carry:], ys, strict=True)]
    following = binary(w, "add", i, splat(w, 1, _SCALAR_I32), _SCALAR_I32)
    w.line(f"stablehlo.return {', '.join((following, *outs[:carry], *after))} : {', '.join(map(type_text, types))}")
    w.depth -= 1
    w.line("}")
    return results[1:]


def _row(w: Writer, x: str, t: TensorType, i: str) -> str:
    """x[i]."""
    starts, kinds = _row_starts(w, t, i)
    part = t.with_shape((1, *t.shape[1:]))
    more = f", sizes = {[int(d) for d in part.shape]}"
    made = w.call("stablehlo.dynamic_slice", [x, *starts], [t, *kinds], part, more)
    return reshape(w, made, part, t.shape[1:])


def _row_starts(w: Writer, t: TensorType, i: str) -> tuple[list[str], list[TensorType]]:
    zeros = [splat(w, 0, _SCALAR_I32)] * (t.rank - 1) if t.rank > 1 else []
    return [i, *zeros], [_SCALAR_I32] * t.rank


def _put(w: Writer, buffer: str, y: str, t: TensorType, i: str) -> str:
    """`buffer` with y in place i."""
    starts, kinds = _row_starts(w, t, i)
    part = t.with_shape((1, *t.shape[1:]))
    wide = reshape(w, y, t.with_shape(t.shape[1:]), part.shape)
    return w.call("stablehlo.dynamic_update_slice", [buffer, wide, *starts], [t, part, *kinds], t)


def _rng_bits(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    word = {"threefry": "THREE_FRY", "philox": "PHILOX"}[str(n.attr("algorithm"))]
    made = w.fresh()
    types = f"({type_text(takes[0])}) -> ({', '.join(map(type_text, n.types))})"
    w.line(f"{made}:2 = stablehlo.rng_bit_generator {args[0]}, algorithm = {word} : {types}")
    return f"{made}#0", f"{made}#1"


WRITERS: dict[str, Write] = {
    **{f"reduce_{kind}": _reduce(kind) for kind in _COMBINE},
    **{f"cum{kind}": _cumulative(kind) for kind in ("sum", "prod", "max", "min")},
    **{kind: _argument(kind) for kind in ("argmax", "argmin")},
    "matmul": _matmul, "conv": _conv, "reduce_window": _reduce_window, "select_and_scatter": _select_and_scatter,
    "sort": _sort, "top_k": _top_k, "loop": _loop, "while": _while, "cond": _cond, "rng_bits": _rng_bits,
}  # fmt: skip
