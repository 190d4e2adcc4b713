"""Where the values of a graph lie on a rectangle of PEs.

Every value is seen as rows x columns: its last axis along x, the others, flattened, along y; an axis that nothing cuts
lies in every PE. Which axes those are follows from the ops: a contraction or reduction runs along x, what it leaves
alone along y. Joined axes (`compiler/plan/tiling.py`) go the same way, so the whole graph is placed at once.
Must not know kernels, CSL or costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

from ...compiler.graph import Graph, Node, TensorType
from ...compiler.graph.ops.movement import ints
from ...compiler.plan.tiling import Axis, Tiling, tiling

Side = Literal["x", "y"]
REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min")
ARG_OPS = ("argmax", "argmin")
VIEWS = ("reshape", "broadcast")


@dataclass(frozen=True, slots=True)
class Placement:
    """A value as `rows` x `columns`; `split_rows`: over y, else all rows in every PE; `split_columns`: over x alike.

    The weights of a matmul have all their rows in every PE, and their columns over x.
    """

    rows: int
    columns: int
    split_rows: bool
    split_columns: bool

    @property
    def kind(self) -> str:
        """How people call it: a matrix in blocks, a row (the same for all rows), a column, or one number."""
        names = {(True, True): "matrix", (False, True): "row", (True, False): "column", (False, False): "everywhere"}
        return "weights" if self.rows > 1 and not self.split_rows else names[self.split_rows, self.split_columns]


class NotPlaced(Exception):
    """`node` needs a distribution that there is not yet; the message says which."""

    def __init__(self, node: Node, detail: str) -> None:
        super().__init__(detail)
        self.node = node


@dataclass(frozen=True, slots=True)
class Shares:
    """How rows and columns are shared out: rows to `height` PEs in each of `passes`, columns to `width` PEs."""

    width: int
    height: int
    passes: int = 1

    def rows(self, p: Placement) -> int:
        """Rows in one PE, the same in all: what lies beyond the last row is padding."""
        return -(-p.rows // (self.passes * self.height)) if p.split_rows else p.rows

    def columns(self, p: Placement) -> int:
        """The most columns that one PE has."""
        return -(-p.columns // self.width) if p.split_columns else p.columns

    def own(self, p: Placement, x: int) -> tuple[int, int]:
        """(first column, columns) of the PEs at `x`; the PEs at 0 have as many as any."""
        if not p.split_columns:
            return 0, p.columns
        first, behind = (-(-i * p.columns // self.width) for i in (x, x + 1))
        return first, behind - first


def place(graph: Graph) -> dict[int, Placement]:
    """The placement of every value of `graph` (composites expanded, no loops). Raises NotPlaced."""
    weights = _weights(graph)
    cuts = tiling(graph)
    sides: dict[int, Side] = {}
    for node in graph.nodes:
        for axis, side in _demands(node, graph):
            _settle(node, axis, side, cuts, sides)
    values = [v for v in graph.types if v not in weights]
    for v in sorted(values, key=lambda v: graph.types[v].rank < 2):
        _default(v, graph.types[v], cuts, sides)
    placed = {v: _weights_placement(graph.types[v]) for v in weights}
    for v in values:
        placed[v] = _placement(graph.producers[v], v, graph.types[v], cuts, sides)
    for node in graph.nodes:
        if node.op in VIEWS and node.out in placed:
            _check_view(node, placed[node.args[0]], placed[node.out])
    return {v: placed[v] for v in graph.types}


def _demands(node: Node, graph: Graph) -> list[tuple[Axis, Side]]:
    """The axes that `node` needs along x or y."""
    if node.op == "matmul":
        a, rank = node.args[0], graph.types[node.args[0]].rank
        rows: list[tuple[Axis, Side]] = [((a, i), "y") for i in range(rank - 1)]
        return [*rows, ((a, rank - 1), "x"), ((node.out, node.type.rank - 1), "x")]
    if node.op not in REDUCTIONS and node.op not in ARG_OPS:
        return []
    (x,) = node.args
    rank = graph.types[x].rank
    axes = ints(node.attr("axes")) if node.op in REDUCTIONS else (node.attr("axis"),)
    if [i for i in range(rank) if i in axes] != [rank - 1]:
        raise NotPlaced(node, f"{node.op} over other axes than the last is not yet on wse")
    return [*(((x, i), "y") for i in range(rank - 1)), ((x, rank - 1), "x")]


def _settle(node: Node, axis: Axis, side: Side, cuts: Tiling, sides: dict[int, Side]) -> None:
    index = cuts.of.get(axis)
    if index is None:
        return
    if sides.setdefault(index, side) != side:
        raise NotPlaced(node, "an axis that runs along x would have to run along y too, which is not yet on wse")


def _default(v: int, t: TensorType, cuts: Tiling, sides: dict[int, Side]) -> None:
    """Along which side axes run that no op cares about."""
    for i, extent in enumerate(t.shape):
        index = cuts.of.get((v, i))
        if index is not None and extent != 1:
            sides.setdefault(index, "x" if t.rank > 1 and i == t.rank - 1 else "y")


def _weights(graph: Graph) -> frozenset[int]:
    """The right operands of matmuls: leaves that nothing else reads."""
    found: dict[int, None] = {}
    for node in graph.nodes:
        if node.op != "matmul":
            continue
        a, b = node.args
        others = [u for u in graph.users[b] if u.op != "matmul" or u.args[0] == b]
        if graph.producers[b].op not in ("input", "param") or others or b in graph.outputs or a == b:
            raise NotPlaced(
                node, "a matmul whose second operand is not an input or parameter of its own is not yet on wse"
            )
        if graph.types[b].rank != 2:
            raise NotPlaced(node, f"a matmul by {graph.types[b]}, of other rank than two, is not yet on wse")
        found[b] = None
    return frozenset(found)


def _weights_placement(t: TensorType) -> Placement:
    return Placement(int(t.shape[0]), int(t.shape[1]), False, True)


def _placement(node: Node, v: int, t: TensorType, cuts: Tiling, sides: Mapping[int, Side]) -> Placement:
    found: list[Side | None] = []
    for i, extent in enumerate(t.shape):
        index = cuts.of.get((v, i))
        side = sides.get(index) if index is not None else None
        assert side or extent == 1, f"axis {i} of {t} was given no side"
        found.append(side)
    if 0 in t.shape:
        raise NotPlaced(node, f"{t}, which has no elements, is not yet on wse")
    if "x" in found[:-1]:
        raise NotPlaced(node, f"{node.op} makes {t} with columns before its last axis, which is not yet on wse")
    split_columns = bool(found) and found[-1] == "x"
    columns = int(t.shape[-1]) if split_columns else 1
    return Placement(prod(map(int, t.shape)) // columns, columns, "y" in found, split_columns)


def _check_view(node: Node, source: Placement, made: Placement) -> None:
    """Views are ways to read what lies in the same PE."""
    same = (source.rows, source.columns) == (made.rows, made.columns)
    if node.op == "reshape":
        if not same or (source.split_rows, source.split_columns) != (made.split_rows, made.split_columns):
            raise NotPlaced(node, "a reshape that moves elements between PEs is not yet on wse")
        return
    rows = source.rows == made.rows if source.split_rows else source.rows == 1
    columns = source.columns == made.columns if source.split_columns else source.columns == 1
    if not (rows and columns):
        raise NotPlaced(node, "a broadcast that moves elements between PEs is not yet on wse")
