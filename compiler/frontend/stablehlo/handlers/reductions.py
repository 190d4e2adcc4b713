"""Reductions with regions: reduce, reduce_window, select_and_scatter."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph import DTYPES, Builder, Graph, forms, live
from ....graph.dtypes import BOOL
from ..call import Call, Handler
from .contractions import pairs
from .elementwise import BINARY


def _reduce(call: Call) -> Sequence[int]:
    xs, inits = _halves(call)
    axes = call.ints("dimensions")
    rank = call.b.types[xs[0]].rank
    if any(not 0 <= a < rank for a in axes) or any(call.b.types[x].shape != call.b.types[xs[0]].shape for x in xs):
        call.refuse(f"reduces the axes {list(axes)} of {call.b.types[xs[0]]}; operands have one shape")
    region = _applied(call, inits)
    kind = forms.region_kind(region)
    if not axes and len(xs) == 1 and kind:  # each element with the initial value: -0 + 0 is +0
        return (forms.combined(call.b, call.b.one(f"reduce_{kind}", xs[0], axes=()), kind, inits[0]),)
    found = _argument_of_best(call, xs, inits, axes, region)
    return found or forms.reduce_region(call.b, xs, inits, axes, region)


def _halves(call: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(operands, initial values)."""
    n, rest = divmod(len(call.args), 2)
    if rest or not n:
        call.refuse(f"takes operands and as many initial values, got {len(call.args)}")
    xs, inits = call.args[:n], call.args[n:]
    for x, init in zip(xs, inits, strict=True):
        if call.b.types[init] != call.b.types[x].with_shape(()):
            call.refuse(f"starts {call.b.types[x]} from {call.b.types[init]}")
    return xs, inits


def _applied(call: Call, inits: Sequence[int]) -> Graph:
    """The region on scalars: written out, or `applies stablehlo.add`."""
    types = [call.b.types[v] for v in inits] * 2
    name = call.word("applies")
    if not name:
        return call.region(types, types[: len(inits)])
    op = BINARY.get(name.removeprefix("stablehlo."))
    if op is None or len(inits) != 1:
        call.refuse(f"applies {name}, which is no operation on two scalars")
    b = Builder("reduce")
    x, y = b.input("a0", types[0]), b.input("a1", types[1])
    boolean = {"add": "or", "mul": "and"} if types[0].dtype.kind == "bool" else {}
    return b.finish([b.one(boolean.get(op, op), x, y)])


def _argument_of_best(
    call: Call, xs: Sequence[int], inits: Sequence[int], axes: Sequence[int], region: Graph
) -> Sequence[int] | None:
    """The pair (best, its place) of a tensor and an iota along the one reduced axis, as argmax and argmin make it.

    The region is recognised by what it is: best by gt or lt or NaN, ties to the lower index; see `_picks`.
    """
    if len(xs) != 2 or len(axes) != 1:
        return None
    places, kind = call.scope.node(xs[1]), _picks(region)
    x, to = xs[0], call.b.types[xs[1]].dtype
    if kind is None or places is None or places.op != "iota" or places.attr("axis") != axes[0]:
        return None
    if call.b.types[x].dtype == BOOL:
        return None
    n = int(call.b.types[x].shape[axes[0]])
    # Without elements the initial values are the answer, and an initial value may itself be the best.
    start = forms.known(call.b, inits[0])
    neutral = forms.neutral("max" if kind == "argmax" else "min", call.b, x)
    if n == 0 or start is None or float(start.reshape(())) != float(neutral):
        return None
    best = call.b.one("reduce_max" if kind == "argmax" else "reduce_min", x, axes=tuple(axes))
    return best, forms.convert(call.b, call.b.one(kind, x, axis=axes[0]), to)


def _picks(region: Graph) -> str | None:
    """argmax or argmin when the region is one of (best, place, value, index): the graphs of `_picker`, else None."""
    body = live(region)
    takes = [n.type for n in body.inputs]
    if len(takes) != 4 or len(body.outputs) != 2:
        return None
    for kind in ("argmax", "argmin"):
        if _shape_of(body) in [_shape_of(_picker(kind, takes, nan)) for nan in (True, False)]:
            return kind
    return None


def _picker(kind: str, takes: Sequence[object], nan: bool) -> Graph:
    """The region JAX writes: x0 stays when it is better, NaN, or equal and of lower index."""
    b = Builder("pick")
    x, i, y, j = (b.input(f"a{k}", t) for k, t in enumerate(takes))  # type: ignore[arg-type]
    better = b.one("gt" if kind == "argmax" else "lt", x, y)
    wins = b.one("or", better, b.one("ne", x, x)) if nan else better
    tie = b.one("and", b.one("eq", x, y), b.one("lt", i, j))
    return b.finish([b.one("select", wins, x, y), b.one("select", b.one("or", wins, tie), i, j)])


def _shape_of(g: Graph) -> object:
    """A graph as nested tuples from its outputs, so that the order of its nodes has no part in it."""
    inputs = {n.out: k for k, n in enumerate(g.inputs)}
    made: dict[int, object] = {}
    for n in g.nodes:
        for v in n.outs:
            made[v] = inputs[v] if v in inputs else (n.op, n.attrs, tuple(made[a] for a in n.args))
    return tuple(made[v] for v in g.outputs)


# ---- windows -----------------------------------------------------------------------------------------


def _windows(call: Call, rank: int) -> forms.Windows:
    window = call.ints("window_dimensions")
    ones = (1,) * rank
    pads = pairs(call, call.value("padding"), "padding") if call.has("padding") else [(0, 0)] * rank
    rows = (window, call.ints("window_strides", default=ones), call.ints("base_dilations", default=ones),
            call.ints("window_dilations", default=ones))  # fmt: skip
    if any(len(r) != rank or min(r, default=1) < 1 for r in rows) or len(pads) != rank:
        call.refuse(f"needs a window, strides, dilations and pads for each of {rank} axes")
    return forms.Windows(*rows, tuple(pads))


def _reduce_window(call: Call) -> Sequence[int]:
    xs, inits = _halves(call)
    windows = _windows(call, call.b.types[xs[0]].rank)
    return forms.reduce_window_region(call.b, xs, inits, windows, _applied(call, inits))


def _select_and_scatter(call: Call) -> int:
    x, source, init = call.arity(3)
    windows = _windows(call, call.type().rank)
    element = call.type().with_shape(())
    select = call.region((element, element), (element.with_dtype(BOOL),), 0)
    scatter = call.region((element, element), (element,), 1)
    test, inputs = select.producers[select.outputs[0]], tuple(n.out for n in select.inputs)
    if test.op not in ("ge", "gt", "le", "lt") or test.args != inputs:
        call.refuse(
            "selects by something else than a comparison of the two elements", "compare with GE, GT, LE or LT", "E1105"
        )
    kind = forms.region_kind(scatter)
    if kind != "sum" and not (kind == "or" and element.dtype == BOOL):
        call.refuse("combines by something else than addition", "add what is scattered", "E1105")
    if element.dtype != BOOL:
        return forms.select_and_scatter(call.b, x, source, init, windows, test.op)
    # Whether anything true was scattered: how many were.
    wide = DTYPES["i32"]
    x, source = (forms.convert(call.b, v, wide) for v in (x, source))
    counts = forms.select_and_scatter(call.b, x, source, None, windows, test.op)
    return forms.combined(call.b, call.b.one("ne", counts, forms.scalar(call.b, 0, counts)), "or", init)


TABLE: dict[str, Handler] = {
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
