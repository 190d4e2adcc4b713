"""Tiling's law: the body of a tile, on the tiles of the inputs, gives the tile of each output, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from bodies import BODIES, attention, random_inputs
from tdslc.compiler.graph import Graph, NDArray, evaluate, expand, verify
from tdslc.compiler.graph.dtypes import BF16
from tdslc.compiler.plan.tiling import Tiling, retile, tile_extent, tiling


def _cut(graph: Graph, cuts: Tiling, value: int, array: NDArray, cls: int, start: int, length: int) -> NDArray:
    """The part of a value's array that a tile of class `cls` covers."""
    box = [slice(None)] * array.ndim
    for axis in range(array.ndim):
        if cuts.of.get((value, axis)) == cls:
            scale = cuts.classes[cls].scales[value, axis]
            box[axis] = slice(start * scale, (start + length) * scale)
    return array[tuple(box)]


def _tile_agrees(graph: Graph, cuts: Tiling, cls: int, start: int, length: int, values: Mapping[str, NDArray]) -> None:
    small = retile(graph, cuts, {cls: length})
    assert verify(small) == []
    given = {
        str(n.attr("name")): _cut(graph, cuts, n.out, values[str(n.attr("name"))], cls, start, length)
        for n in graph.inputs
    }
    whole = evaluate(graph, values)
    for v, full, part in zip(graph.outputs, whole, evaluate(small, given), strict=True):
        wanted = _cut(graph, cuts, v, full, cls, start, length)
        np.testing.assert_array_equal(part.view(np.uint8), np.ascontiguousarray(wanted).view(np.uint8))


@pytest.mark.parametrize("name", sorted(BODIES))
def test_each_cut_of_each_class_gives_the_same_bits(name: str) -> None:
    graph = expand(BODIES[name]())
    cuts = tiling(graph)
    carried = [cuts.carried(v, graph.types[v].rank) for v in graph.outputs]
    usable = [c for c in cuts.classes if c.cut and all(c.index in s for s in carried)]
    assert usable, "every body here can be cut somewhere"
    values = random_inputs(graph)
    for c in usable:
        for start, length in ((0, 1), (c.steps - 1, 1), (0, c.steps - 1), (1, c.steps - 1)):
            if start + length <= c.steps and length:
                _tile_agrees(graph, cuts, c.index, start, length, values)


def test_a_reshape_is_cut_in_multiples_of_its_inner_size() -> None:
    graph = attention(2, 9, 3, 8, BF16)
    cuts = tiling(graph)
    output = graph.outputs[0]
    batch = cuts.classes[cuts.of[output, 0]]
    assert batch.cut and batch.steps == 2
    assert tile_extent(output, 0, 2, cuts, {batch.index: 1}) == 1
    heads = cuts.classes[cuts.of[output, 2]]
    assert heads.steps == 3 and heads.scales[output, 2] == 8
