"""How a kernel body can be cut into tiles.

Every op's row says how its iteration axes run through operands and results (`Op.axes`). Joining these
through a body gives *axis classes*: sets of tensor axes that must be cut together, each at its own
scale. A class that some op needs whole, or reduces, cannot be cut; the others can, on any machine:
over time (a tile loop) or over places (a distribution). `retile` gives the body of one tile.
Must not know any target, nor costs.

Design: a weighted union-find over numbered (value, axis) pairs and ops' iteration axes. A pair's *scale*
is its elements for one step of its class, so that a reshape of H*D to (H, D) cuts H*D in multiples of D.
`steps` of a class is the greatest number of equal cuts all of its members allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from ..graph import OPS, Graph, Node, TensorType, infer, make_attrs

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
    """Weighted union-find over numbered axes: `find(x)` gives (root, w) with elements of x = w * elements of root."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.weight: list[Weight] = []
        self.extents: list[int] = []
        self.stuck: list[int] = []

    def add(self, extents: Iterable[int]) -> int:
        """Adds axes of these extents; the number of the first."""
        first = len(self.parent)
        self.extents.extend(map(int, extents))
        self.parent.extend(range(first, len(self.extents)))
        self.weight.extend([1] * (len(self.extents) - first))
        return first

    def find(self, x: int) -> tuple[int, Weight]:
        parent, weight = self.parent, self.weight
        up = parent[x]
        if parent[up] == up:  # a root, or right below one: nearly always
            return up, weight[x]
        path: list[int] = []
        while parent[x] != x:
            path.append(x)
            x = parent[x]
        total: Weight = 1
        for node in reversed(path):
            total = weight[node] = weight[node] * total
            parent[node] = x
        return x, total

    def join(self, a: int, b: int, ratio: Weight) -> bool:
        """elements(a) = ratio * elements(b). False when that contradicts what is known."""
        (ra, wa), (rb, wb) = self.find(a), self.find(b)
        if ra == rb:
            return wa == ratio * wb
        self.parent[ra], self.weight[ra] = rb, _divide(ratio * wb, wa)
        return True


def tiling(body: Graph) -> Tiling:
    """Axis classes of `body` (composites expanded, no loops)."""
    joined = _Joined()
    first = {v: joined.add(t.shape) for v, t in body.types.items()}
    axes = [(v, i) for v, t in body.types.items() for i in range(t.rank)]
    for node in body.nodes:
        if node.op not in ("input", "param", "full"):
            _join_node(node, body, joined, first)
    return _classes(axes, joined)


def _join_node(node: Node, body: Graph, joined: _Joined, first: Mapping[int, int]) -> None:
    rule = OPS[node.op].axes(tuple(body.types[a] for a in node.args), dict(node.attrs), node.types)
    # The number that stands for each iteration axis: that of the first tensor axis that is the same, else its own.
    stands: dict[int, int] = {}
    rows = (*zip(node.args, rule.operands, strict=True), *zip(node.outs, rule.results, strict=True))
    for value, entries in rows:
        for axis, entry in enumerate(entries, first[value]):
            if entry is None:
                continue
            if entry.axis not in stands:
                if entry.scale == 1:
                    stands[entry.axis] = axis
                    continue
                stands[entry.axis] = joined.add((rule.extents[entry.axis],))
            if not joined.join(axis, stands[entry.axis], entry.scale):
                joined.stuck.append(axis)
    joined.stuck += [stands[i] for i, kind in enumerate(rule.kinds) if kind != "parallel" and i in stands]


def _classes(axes: Sequence[Axis], joined: _Joined) -> Tiling:
    """The classes that `axes`, numbered first and in this order, lie in."""
    groups: dict[int, list[tuple[int, Weight]]] = {}
    for number in range(len(joined.extents)):
        root, weight = joined.find(number)
        groups.setdefault(root, []).append((number, weight))
    stuck = {joined.find(number)[0] for number in joined.stuck}
    classes: list[AxisClass] = []
    of: dict[Axis, int] = {}
    for root, group in groups.items():
        members = [(number, w) for number, w in group if number < len(axes)]
        if not members:
            continue
        unit = lcm(*(w.denominator for _, w in group))
        scales = {axes[number]: int(w * unit) for number, w in members}
        extents = [joined.extents[number] for number, _ in members]
        steps = extents[0] // next(iter(scales.values()))
        exact = all(extent == s * steps for extent, s in zip(extents, scales.values(), strict=True))
        index = len(classes)
        classes.append(AxisClass(index, steps, scales, exact and steps > 1 and root not in stuck))
        of.update(dict.fromkeys(scales, index))
    return Tiling(tuple(classes), of)


def retile(body: Graph, cuts: Tiling, steps: Mapping[int, int]) -> Graph:
    """The body of one tile, its values numbered alike: class i is `steps[i]` units long; those not named stay whole."""
    cut = {a for i in steps for a in cuts.classes[i].scales}
    nodes: list[Node] = []
    tiles: dict[int, TensorType] = {}
    for node in body.nodes:
        types = node.types
        if not cut.isdisjoint((v, i) for v, t in zip(node.outs, types, strict=True) for i in range(t.rank)):
            types = tuple(_tile_type(v, t, cuts, steps) for v, t in zip(node.outs, types, strict=True))
        tiles.update(zip(node.outs, types, strict=True))
        nodes.append(_recut(node, body, types, tiles) if _is_cut(node, body, tiles) else node)
    return Graph(body.name, tuple(nodes), body.outputs, body.output_names)


def _is_cut(node: Node, body: Graph, tiles: Mapping[int, TensorType]) -> bool:
    return any(tiles[v] is not body.types[v] for v in (*node.args, *node.outs))


def _recut(node: Node, body: Graph, types: tuple[TensorType, ...], tiles: Mapping[int, TensorType]) -> Node:
    """`node` on operands of these tile types; its row's own type rule has the last word."""
    row = OPS[node.op]
    attrs = row.recut(dict(node.attrs), tuple(body.types[a] for a in node.args), node.types, types)
    got = infer(node.op, tuple(tiles[a] for a in node.args), attrs, node.regions)
    assert got == types, (node.op, types, [str(t) for t in got])
    return Node(node.op, node.args, make_attrs(attrs), types, node.outs, node.regions, node.loc)


def _tile_type(v: int, t: TensorType, cuts: Tiling, steps: Mapping[int, int]) -> TensorType:
    return t.with_shape(tile_extent(v, i, int(d), cuts, steps) for i, d in enumerate(t.shape))


def tile_extent(value: int, axis: int, extent: int, cuts: Tiling, steps: Mapping[int, int]) -> int:
    """Elements of (value, axis) in one tile."""
    index = cuts.of.get((value, axis))
    if index is None or index not in steps:
        return extent
    return cuts.classes[index].scales[value, axis] * steps[index]
