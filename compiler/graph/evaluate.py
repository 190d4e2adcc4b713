"""The reference evaluator: what a Graph means, in NumPy.

Each op's result is rounded to its dtype. `contraction` says how matrices multiply (a target passes
its own); `wide` computes every float in f64, which is the yardstick for errors. Must not know
targets or how graphs are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from .build import is_composite
from .dtypes import DType, from_numpy, int_range, rounded
from .graph import Graph, Node
from .ops import OPS, Context, Contraction, NDArray
from .ops.control import carried_of, loop_counts
from .types import TensorType

REFERENCE = Context(Contraction())

# Rounds after which a `while` is taken for one that never ends: no file may hang its reader.
MAX_TRIPS = 1 << 24


class EndlessLoop(ValueError):
    """A `while` whose condition still holds after MAX_TRIPS rounds."""


def evaluate(
    graph: Graph,
    inputs: Mapping[str, NDArray],
    params: Mapping[str, NDArray] | None = None,
    *,
    contraction: Contraction | None = None,
    wide: bool = False,
) -> tuple[NDArray, ...]:
    """Outputs of `graph`. `inputs` and `params` are by name, of the declared shape.

    Floats are rounded to the declared float dtype; integers of another width must be in the declared
    one's range. A stacked param is found under its own name as one stacked tensor. LookupError names a
    missing one, ValueError one that does not fit.
    """
    ctx = Context(contraction or Contraction(), wide)
    values = evaluate_all(graph, {**(params or {}), **inputs}, ctx)
    return tuple(values[v] for v in graph.outputs)


def evaluate_all(graph: Graph, bound: Mapping[str, NDArray], ctx: Context) -> dict[int, NDArray]:
    """Every value of `graph`, by value number. Frees nothing: for checks and small graphs."""
    values: dict[int, NDArray] = {}
    for node, results in steps(graph, bound, ctx, values):
        values.update(zip(node.outs, results, strict=True))
    return values


def steps(
    graph: Graph, bound: Mapping[str, NDArray], ctx: Context, values: Mapping[int, NDArray]
) -> Iterator[tuple[Node, tuple[NDArray, ...]]]:
    """Each node with its results, in order; the caller keeps `values` filled."""
    for node in graph.nodes:
        if node.op in ("input", "param"):
            yield node, (_bound(node, bound, ctx),)
        else:
            yield node, apply(node, [values[a] for a in node.args], ctx, graph.types)


def _bound(node: Node, bound: Mapping[str, NDArray], ctx: Context) -> NDArray:
    name, t = node.attr("name"), node.type
    if name not in bound:
        raise LookupError(f"{node.op} {name} has no value bound to it")
    got = bound[str(name)]
    if got.shape != t.shape:
        raise ValueError(f"{node.op} {name} is {t} but the value bound to it has shape {got.shape}")
    if not _converts(got, t.dtype):
        raise ValueError(f"{node.op} {name} is {t} but the value bound to it is {got.dtype}, or beyond its range")
    return ctx.cast(got, t.dtype)


def _converts(got: NDArray, to: DType) -> bool:
    """Whether `got` is at `to`, or can be brought to it without changing what kind of number it is."""
    source = from_numpy(got.dtype)
    if source is None or source is to or not (source.is_int and to.is_int):
        return source is to or (source is not None and source.is_float and to.is_float)
    low, high = int_range(to)
    return not got.size or (low <= int(got.min()) and int(got.max()) <= high)


def apply(node: Node, args: Sequence[NDArray], ctx: Context, types: Mapping[int, TensorType]) -> tuple[NDArray, ...]:
    """Results of one node on concrete operands; `types` are the types of its graph's values.

    An op of bits sees its operands at their own width even when floats are widened.
    """
    if is_composite(node):
        return run_region(node.regions[0], args, ctx)
    if node.op in _RUNNERS:
        return _RUNNERS[node.op](node, args, ctx)
    row = OPS[node.op]
    if ctx.wide and "bits" in row.traits:
        args = [rounded(x, types[a].dtype) for x, a in zip(args, node.args, strict=True)]
    # NumPy's functions give scalars where operands have no axes; a value of the graph is always an array.
    return tuple(np.asarray(x) for x in row.eval(args, dict(node.attrs), node.types, ctx))


def run_region(region: Graph, args: Sequence[NDArray], ctx: Context) -> tuple[NDArray, ...]:
    """Outputs of `region` with its inputs bound to `args` in order."""
    given = dict(zip((n.out for n in region.inputs), args, strict=True))
    values: dict[int, NDArray] = {}
    for node in region.nodes:
        if node.op == "input":
            values[node.out] = given[node.out]
            continue
        results = apply(node, [values[a] for a in node.args], ctx, region.types)
        values.update(zip(node.outs, results, strict=True))
    return tuple(values[v] for v in region.outputs)


def _loop(node: Node, args: Sequence[NDArray], ctx: Context) -> tuple[NDArray, ...]:
    n, carried, xs = loop_counts(dict(node.attrs))
    body = node.regions[0]
    carry, stacked, captures = list(args[:carried]), args[carried : carried + xs], args[carried + xs :]
    ys = [np.empty(t.shape, ctx.cast(np.empty(0, t.dtype.numpy), t.dtype).dtype) for t in node.types[carried:]]
    for i in range(n):
        outs = run_region(body, [np.asarray(i, np.int32), *carry, *(x[i] for x in stacked), *captures], ctx)
        carry = list(outs[:carried])
        for y, value in zip(ys, outs[carried:], strict=True):
            y[i] = value
    return (*carry, *ys)


def _while(node: Node, args: Sequence[NDArray], ctx: Context) -> tuple[NDArray, ...]:
    carried = carried_of(dict(node.attrs))
    cond, body = node.regions
    carry, captures = tuple(args[:carried]), args[carried:]
    for _ in range(MAX_TRIPS):
        if not run_region(cond, (*carry, *captures), ctx)[0]:
            return carry
        carry = run_region(body, (*carry, *captures), ctx)
    place = f" at {node.loc}" if node.loc else ""
    raise EndlessLoop(f"the condition of while{place} still holds after {MAX_TRIPS} rounds")


def _cond(node: Node, args: Sequence[NDArray], ctx: Context) -> tuple[NDArray, ...]:
    then, otherwise = node.regions
    return run_region(then if args[0] else otherwise, args[1:], ctx)


_RUNNERS: Mapping[str, Callable[[Node, Sequence[NDArray], Context], tuple[NDArray, ...]]] = {
    "loop": _loop, "while": _while, "cond": _cond,
}  # fmt: skip
