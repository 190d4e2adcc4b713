"""How a kernel body can be cut into tiles.

Every op's row says how its iteration axes run through operands and results (`Op.axes`). Joining these
through a body gives *axis classes*: sets of tensor axes that must be cut together, each at its own
scale. A class that some op needs whole, or reduces, cannot be cut; the others can, on any machine:
over time (a tile loop) or over places (a distribution). `retile` gives the body of one tile.
Must not know any target, nor costs.

Design: a weighted union-find over (value, axis) pairs. A pair's *scale* is its elements for one step
of its class, so that a reshape of H*D to (H, D) cuts H*D in multiples of D. `steps` of a class is the
greatest number of equal cuts all of its members allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from ..graph import OPS, Builder, Graph, Node, TensorType

Axis = tuple[int, int]


@dataclass(frozen=True, slots=True)
class AxisClass:
    """Tensor axes that are cut together: `steps` units long, `scales[(value, axis)]` elements a unit.

    `cut` says whether it may be cut at all: no op needs it whole and none reduces it.
    """

    index: int
    steps: int
    scales: Mapping[Axis, int]
    cut: bool


@dataclass(frozen=True, slots=True)
class Tiling:
    """The axis classes of a body, and the class of each (value, axis) of it that runs with one."""

    classes: tuple[AxisClass, ...]
    of: Mapping[Axis, int]

    def carried(self, value: int, rank: int) -> frozenset[int]:
        """Indices of the classes that a value's axes run with."""
        return frozenset(self.of[value, i] for i in range(rank) if (value, i) in self.of)


Weight = int | Fraction


def _divide(a: Weight, b: Weight) -> Weight:
    """a / b; an int where it is one (nearly always: most axes run with scale 1)."""
    if b == 1:
        return a
    found = Fraction(a) / b
    return int(found) if found.denominator == 1 else found


class _Joined:
    """Weighted union-find: `find(x)` gives (root, w) with elements of x = w * elements of root."""

    def __init__(self) -> None:
        self.parent: dict[Axis, tuple[Axis, Weight]] = {}

    def find(self, x: Axis) -> tuple[Axis, Weight]:
        parent, path = self.parent, list[Axis]()
        while x in parent:
            path.append(x)
            x = parent[x][0]
        weight: Weight = 1
        for node in reversed(path):
            weight = parent[node][1] * weight
            parent[node] = (x, weight)
        return x, weight

    def join(self, a: Axis, b: Axis, ratio: Weight) -> bool:
        """elements(a) = ratio * elements(b). False when that contradicts what is known."""
        (ra, wa), (rb, wb) = self.find(a), self.find(b)
        if ra == rb:
            return wa == ratio * wb
        self.parent[ra] = (rb, _divide(ratio * wb, wa))
        return True


def tiling(body: Graph) -> Tiling:
    """Axis classes of `body` (composites expanded, no loops)."""
    joined = _Joined()
    extents: dict[Axis, int] = {}
    stuck: set[Axis] = set()
    for v, t in body.types.items():
        extents.update({(v, i): int(d) for i, d in enumerate(t.shape)})
    for number, node in enumerate(body.nodes):
        if node.op not in ("input", "param", "full"):
            _join_node(number, node, body, joined, extents, stuck)
    return _classes(body, joined, extents, stuck)


def _join_node(
    number: int, node: Node, body: Graph, joined: _Joined, extents: dict[Axis, int], stuck: set[Axis]
) -> None:
    rule = OPS[node.op].axes(tuple(body.types[a] for a in node.args), dict(node.attrs), node.types)
    # Iteration axes are pseudo-axes of a negative value, one value a node.
    iteration = [(-1 - number, i) for i in range(len(rule.extents))]
    for axis, extent, kind in zip(iteration, rule.extents, rule.kinds, strict=True):
        extents[axis] = int(extent)
        if kind != "parallel":
            stuck.add(axis)
    rows = (*zip(node.args, rule.operands, strict=True), *zip(node.outs, rule.results, strict=True))
    for value, entries in rows:
        for i, entry in enumerate(entries):
            if entry is None:
                continue
            axis = iteration[entry.axis]
            if not joined.join((value, i), axis, entry.scale):
                stuck.add(axis)


def _classes(body: Graph, joined: _Joined, extents: dict[Axis, int], stuck: set[Axis]) -> Tiling:
    groups: dict[Axis, list[tuple[Axis, Weight]]] = {}
    for axis in extents:
        root, weight = joined.find(axis)
        groups.setdefault(root, []).append((axis, weight))
    roots_stuck = {joined.find(axis)[0] for axis in stuck}
    classes: list[AxisClass] = []
    of: dict[Axis, int] = {}
    for root, group in groups.items():
        members = [(a, w) for a, w in group if a[0] >= 0]
        if not members:
            continue
        unit = lcm(*(w.denominator for _, w in group))
        scales = {a: int(w * unit) for a, w in members}
        first, scale = next(iter(scales.items()))
        steps = extents[first] // scale
        exact = all(extents[a] == s * steps for a, s in scales.items())
        index = len(classes)
        classes.append(AxisClass(index, steps, scales, exact and steps > 1 and root not in roots_stuck))
        of.update(dict.fromkeys(scales, index))
    return Tiling(tuple(classes), of)


def retile(body: Graph, cuts: Tiling, steps: Mapping[int, int]) -> Graph:
    """The body of one tile: class i is `steps[i]` units long; classes not named stay whole."""
    b = Builder(body.name)
    names: dict[int, int] = {}
    for node in body.nodes:
        types = tuple(_tile_type(v, t, cuts, steps) for v, t in zip(node.outs, node.types, strict=True))
        args = [names[a] for a in node.args]
        attrs = OPS[node.op].recut(dict(node.attrs), tuple(body.types[a] for a in node.args), node.types, types)
        outs = b.add(node.op, args, attrs, regions=node.regions, loc=node.loc)
        assert tuple(b.types[v] for v in outs) == types, (node.op, types, [str(b.types[v]) for v in outs])
        names.update(zip(node.outs, outs, strict=True))
    return b.finish([names[v] for v in body.outputs], body.output_names)


def _tile_type(v: int, t: TensorType, cuts: Tiling, steps: Mapping[int, int]) -> TensorType:
    return t.with_shape(tile_extent(v, i, int(d), cuts, steps) for i, d in enumerate(t.shape))


def tile_extent(value: int, axis: int, extent: int, cuts: Tiling, steps: Mapping[int, int]) -> int:
    """Elements of (value, axis) in one tile."""
    index = cuts.of.get((value, axis))
    if index is None or index not in steps:
        return extent
    return cuts.classes[index].scales[value, axis] * steps[index]
