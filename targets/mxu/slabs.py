"""A body around a convolution as bodies for some rows of its image each, for images that VMEM cannot hold whole.

A convolution's image is not cut by a grid: neighbouring tiles share rows. A slab reads the rows it needs, those it
shares with its neighbours included, and makes its own rows of every result. Everything around the convolution is cut
along with it. Must not know VMEM, addresses or time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...compiler.graph import Attr, Builder, Graph, Node, expand, make_attrs
from ...compiler.graph.ops.contract import logical_weights
from ...compiler.graph.ops.movement import ints
from ...compiler.plan.tiling import Tiling, retile, tiling
from .strided import Box, dense


@dataclass(frozen=True, slots=True)
class Slab:
    """A body with the inputs of the whole one, and where each of its outputs lies in the whole one's."""

    body: Graph
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Image:
    """A body whose only convolution reads and weighs kernel inputs, and whose outputs all run with its rows."""

    whole: Graph
    conv: Node
    around: Graph
    cuts: Tiling
    rows_class: int

    @property
    def rows(self) -> int:
        """Rows of the convolution's result."""
        return int(self.conv.type.shape[2])


def image_of(body: Graph) -> Image | None:
    """`body` as one around a convolution's image, or None when it is not of that kind."""
    whole = expand(body)
    convs = [n for n in whole.nodes if n.op == "conv"]
    if len(convs) != 1 or any(whole.producers[a].op != "input" for a in convs[0].args):
        return None
    (conv,) = convs
    given = {"name": "conv", "dtype": conv.type.dtype, "shape": conv.type.shape}
    stand_in = Node("input", (), make_attrs(given), conv.types, conv.outs)
    nodes = tuple(stand_in if n is conv else n for n in whole.nodes)
    around = Graph(whole.name, nodes, whole.outputs, whole.output_names)
    cuts = tiling(around)
    rows = cuts.of.get((conv.out, 2))
    if rows is None or not cuts.classes[rows].cut or cuts.classes[rows].scales[conv.out, 2] != 1:
        return None
    if any(rows not in cuts.carried(v, around.types[v].rank) for v in around.outputs):
        return None
    return Image(whole, conv, around, cuts, rows)


def slabs_of(image: Image, rows: int) -> Iterator[Slab]:
    """Slabs of `rows` rows each, the last one maybe shorter."""
    for first in range(0, image.rows, rows):
        yield slab(image, first, min(image.rows, first + rows))


def slab(image: Image, first: int, stop: int) -> Slab:
    """The slab of rows `first` … `stop` - 1 of the convolution's result."""
    tile = retile(image.around, image.cuts, {image.rows_class: stop - first})
    b = Builder(image.whole.name)
    full = {n.out: b.input(str(n.attr("name")), n.type, n.loc) for n in image.whole.inputs}
    given: list[int] = []
    for n in image.around.inputs:
        if n.out == image.conv.out:
            given.append(_conv_rows(b, image, full, first, stop))
        else:
            given.append(_rows(b, image, n.out, full[n.out], first, stop))
    outputs = b.inline(tile, given)
    boxes = tuple(_box(image, v, first, stop) for v in image.around.outputs)
    return Slab(b.finish(outputs, image.whole.output_names), boxes)


def _axis(image: Image, value: int) -> tuple[int, int] | None:
    """(axis, elements a row) of a value that runs with the image's rows."""
    for axis in range(image.around.types[value].rank):
        if image.cuts.of.get((value, axis)) == image.rows_class:
            return axis, image.cuts.classes[image.rows_class].scales[value, axis]
    return None


def _rows(b: Builder, image: Image, value: int, x: int, first: int, stop: int) -> int:
    """Those rows of an input; all of one that does not run with the image."""
    found = _axis(image, value)
    return x if found is None else _cut(b, x, found[0], first * found[1], stop * found[1])


def _cut(b: Builder, x: int, axis: int, start: int, stop: int) -> int:
    shape = b.types[x].shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops = tuple(stop if i == axis else d for i, d in enumerate(shape))
    return b.one("slice", x, starts=starts, stops=stops, steps=(1,) * len(shape))


def _conv_rows(b: Builder, image: Image, full: dict[int, int], first: int, stop: int) -> int:
    """The convolution of the rows that these rows of its result look at; what lies outside the image is padding."""
    conv, (x, w) = image.conv, image.conv.args
    attrs: dict[str, Attr] = dict(conv.attrs)
    low, high, strides, dilations = (ints(attrs[k]) for k in ("low", "high", "strides", "dilations"))
    height, taps = image.whole.types[x].shape[2], logical_weights(image.whole.types[w].shape, attrs)[2]
    top = first * strides[0] - low[0]
    bottom = (stop - 1) * strides[0] + (taps - 1) * dilations[0] + 1 - low[0]
    start = min(max(top, 0), height)
    end = max(start, min(bottom, height))
    attrs |= {"low": (start - top, *low[1:]), "high": (bottom - end, *high[1:])}
    return b.add("conv", (_cut(b, full[x], 2, start, end), full[w]), attrs, loc=conv.loc)[0]


def _box(image: Image, value: int, first: int, stop: int) -> Box:
    """Where the rows of an output lie in the whole of it, in bytes."""
    found, t = _axis(image, value), image.around.types[value]
    assert found is not None
    axis, scale = found
    strides = dense(t.shape, t.dtype).strides
    shape = tuple((stop - first) * scale if i == axis else int(d) for i, d in enumerate(t.shape))
    return Box(shape, strides, first * scale * strides[axis])
