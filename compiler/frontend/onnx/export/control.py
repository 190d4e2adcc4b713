"""Rows with regions in ONNX: loop as Scan, while as Loop, cond as If. Bodies read what they capture from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ....graph import Graph, TensorType
from ....graph.dtypes import BOOL, I32, I64
from ....graph.ops.control import carried_of, loop_counts
from .emit import Emit, info

if TYPE_CHECKING:
    from .writer import Writer

Region: TypeAlias = "Callable[[Writer, Emit], Sequence[str]]"


def _named(region: Graph, names: Sequence[str]) -> dict[int, str]:
    return dict(zip((n.out for n in region.inputs), names, strict=True))


def _loop(w: Writer, e: Emit) -> Sequence[str]:
    """The index is scanned as the xs are. Without trips: the carried values as they came."""
    trips, carry, xs = loop_counts(dict(e.node.attrs))
    if not trips:
        return [*e.args[:carry], *(e.full(0, t) for t in e.node.types[carry:])]
    region = e.node.regions[0]
    takes = [n.type for n in region.inputs[: 1 + carry + xs]]
    index, *inside = [w.fresh("in") for _ in takes]
    names = _named(region, [index, *inside, *e.args[carry + xs :]])
    # Scan takes states first, then what is scanned.
    order = [*range(1, 1 + carry), 0, *range(1 + carry, 1 + carry + xs)]
    infos = [info([index, *inside][i], takes[i]) for i in order]
    body = w.body(infos, region.output_types, lambda: w.region(region, names))
    count = w.constant(np.arange(trips, dtype=np.int32), I32)
    given = [*e.args[:carry], count, *e.args[carry : carry + xs]]
    return w.add("Scan", given, len(e.node.outs), {"body": body, "num_scan_inputs": 1 + xs})


def _while(w: Writer, e: Emit) -> Sequence[str]:
    """The body ends with the condition of the next round; the first is tested before."""
    cond, step = e.node.regions
    carry = carried_of(dict(e.node.attrs))
    captured = list(e.args[carry:])
    start = w.region(cond, _named(cond, e.args))[0]
    names = [w.fresh("in") for _ in range(carry)]

    def write() -> Sequence[str]:
        after = w.region(step, _named(step, [*names, *captured]))
        return [w.region(cond, _named(cond, [*after, *captured]))[0], *after]

    flag = TensorType(BOOL, ())
    takes = [info(w.fresh("iteration"), TensorType(I64, ())), info(w.fresh("going"), flag)]
    takes += [info(name, t) for name, t in zip(names, step.output_types, strict=True)]
    body = w.body(takes, [flag, *step.output_types], write)
    return w.add("Loop", ("", start, *e.args[:carry]), carry, {"body": body})


def _cond(w: Writer, e: Emit) -> Sequence[str]:
    then, otherwise = (_branch(w, region, e.args[1:]) for region in e.node.regions)
    return w.add("If", (e.args[0],), len(e.node.outs), {"then_branch": then, "else_branch": otherwise})


def _branch(w: Writer, region: Graph, args: Sequence[str]) -> object:
    names: Mapping[int, str] = _named(region, args)
    return w.body([], region.output_types, lambda: w.region(region, names), "branch")


REGIONS: dict[str, Region] = {"loop": _loop, "while": _while, "cond": _cond}
