"""What stages cost by the time rules of the mesh (docs/decisions/0011-task-ir.md), in closed form, and the least of a
graph. Must not know CSL or plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...compiler.graph import Graph, Node, expand, is_composite
from ...compiler.plan.target import Bound
from ...compiler.plan.traffic import compulsory_bytes, executions
from .chip import Wafer
from .elementwise import Recipe, extreme, recipe
from .emit_stages import by_column, by_rows
from .placement import ARG_OPS, VIEWS, Shares
from .sketch import in_steps
from .stages import SCANS, Flow, Map, Scan, Stage

# What limits a kernel, and the figures of the machine file that say so.
UNIT_FIGURES: Mapping[str, tuple[str, ...]] = {
    "pe": ("simd.f32", "cost.vector_setup", "cost.scalar", "cost.branch", "cost.load", "cost.map_element"),
    "fabric": ("cost.hop", "cost.ramp"),
}
# Kinds of vector operations by their builtin, as [simd] names their widths.
_WIDTHS = {
    "fmuls": "mul32", "xp162fs": "convert", "mov32": "mov32",
    "mov16": "int16", "and16": "int16", "or16": "int16", "xor16": "int16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cycles:
    """Busy cycles of a PE: its vector unit, its thread beside that, and waiting for the fabric."""

    vector: float = 0.0
    scalar: float = 0.0
    fabric: float = 0.0

    def __add__(self, other: Cycles) -> Cycles:
        return Cycles(self.vector + other.vector, self.scalar + other.scalar, self.fabric + other.fabric)

    def times(self, n: float) -> Cycles:
        """As much `n` times."""
        return Cycles(self.vector * n, self.scalar * n, self.fabric * n)

    @property
    def total(self) -> float:
        return self.vector + self.scalar + self.fabric

    def units(self, hz: float) -> dict[str, float]:
        """Busy seconds by unit."""
        return {"pe": (self.vector + self.scalar) / hz, "fabric": self.fabric / hz}


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of stages on a wafer, shared out as `shares` says."""

    wafer: Wafer
    shares: Shares

    def launch(self, flow: Flow, stages: Iterable[Stage]) -> Cycles:
        """A launch of `stages`, from the host's command on; the host's part counts as scalar."""
        cost = self.wafer.cost
        made = Cycles(scalar=cost.host_command + cost.task_start)
        for stage in stages:
            made += self._map(flow, stage) if isinstance(stage, Map) else self._scan(flow, stage)
        return made

    def load(self, words: int) -> Cycles:
        """Sending `words` from the first row of PEs to the others."""
        cost = self.wafer.cost
        path = self.shares.height * cost.hop + 2 * cost.ramp
        return Cycles(scalar=cost.host_command + cost.task_start, fabric=words + path)

    def _map(self, flow: Flow, stage: Map) -> Cycles:
        p = flow.placements[stage.out]
        rows, columns = self.shares.rows(p), self.shares.columns(p)
        if in_steps(flow, stage):
            return self._vector(rows, "f32").times(columns * len(stage.recipe.steps)) + self._turns(columns)
        if not by_column(flow, stage):
            return self._operation(stage.recipe, rows * columns)
        return self._operation(stage.recipe, rows).times(columns) + self._turns(columns)

    def _operation(self, r: Recipe, n: int) -> Cycles:
        """One operation over `n` elements."""
        cost = self.wafer.cost
        if r.vector:
            return self._vector(n, _WIDTHS.get(r.vector, "f32"))
        each = r.functions * cost.function + r.divides * cost.divide + r.scalars * cost.scalar
        each += r.tests * (cost.scalar + cost.branch) + cost.map_element
        return Cycles(scalar=cost.vector_setup + n * each)

    def _vector(self, n: int, width: str, setup: bool = True) -> Cycles:
        elements: int = getattr(self.wafer.simd, width)
        return Cycles(-(-n // elements), self.wafer.cost.vector_setup if setup else 0)

    def _turns(self, n: int) -> Cycles:
        """`n` turns of a loop around an operation: count, compare, branch, move a DSD, find and read a scalar."""
        cost = self.wafer.cost
        return Cycles(scalar=n * (5 * cost.scalar + cost.branch + cost.load))

    def _scan(self, flow: Flow, scan: Scan) -> Cycles:
        """Every column is received and then worked on while the next arrives."""
        cost, p = self.wafer.cost, flow.placements[scan.source]
        rows = self.shares.rows(p)
        # The task around the work on a column: start, two calls, receiving the next, counting, finding the scan.
        task = cost.task_start + 2 * cost.call + cost.vector_setup + 9 * cost.load + 2 * cost.store + 18 * cost.scalar
        task += 4 * cost.branch
        update = self._update(flow, scan, rows) + Cycles(scalar=task)
        waiting = max(0.0, rows + 1 - update.total)
        path = self.shares.width * (2 * cost.hop + 2 * cost.ramp + 1) + cost.ramp + rows
        return (update + Cycles(fabric=waiting)).times(p.columns) + Cycles(fabric=path)

    def _update(self, flow: Flow, scan: Scan, rows: int) -> Cycles:
        """The work on one column."""
        cost, op = self.wafer.cost, scan.node.op
        if op == "matmul":
            columns = self.shares.columns(flow.placements[scan.out])
            long, turns = (columns, rows) if by_rows(rows, columns) else (rows, columns)
            return self._vector(long, "f32").times(turns) + self._turns(turns)
        if op == "reduce_sum":
            return self._vector(rows, "f32").times(6)
        if op in ARG_OPS:
            return Cycles(scalar=rows * (2 * cost.load + 8 * cost.scalar + 4 * cost.branch))
        return self._operation(extreme(op.removeprefix("reduce_")), rows)


# ---- the least of a graph ------------------------------------------------------------------------


def bound(graph: Graph, wafer: Wafer, pes: int) -> Bound:
    """Busy seconds that no program for `graph` goes below on `pes` PEs that share the work evenly.

    Copies between host and wafer take no simulated time. FLOPs are of contractions, 2 a multiply-add.
    """
    flops, vector, scalar = 0, 0.0, 0.0
    for owner, node, times in executions(graph):
        for inner, n in _primitives(owner, node):
            if n.op == "matmul":
                flops += 2 * n.type.size * int(inner.types[n.args[0]].shape[-1]) * times
                vector += times * n.type.size * int(inner.types[n.args[0]].shape[-1]) / wafer.simd.f32
                continue
            fast, slow = _least(inner, n, wafer)
            vector, scalar = vector + times * fast, scalar + times * slow
    hz = wafer.clock_ghz * 1e9
    # The vector unit may work while the thread goes on: the longer of the two is what no program goes below.
    seconds = max(vector, scalar) / pes / hz
    return Bound(seconds, "pe", {"pe": seconds}, flops, compulsory_bytes(graph))


def _primitives(owner: Graph, node: Node) -> list[tuple[Graph, Node]]:
    if not is_composite(node):
        return [(owner, node)]
    inner = expand(node.regions[0])
    return [(inner, n) for n in inner.nodes if n.args]


def _least(g: Graph, n: Node, wafer: Wafer) -> tuple[float, float]:
    """Cycles of the vector unit and of the thread that `n` takes at least, in all PEs together.

    A maximum takes @fmaxs at least, whatever else it takes for NaN.
    """
    args = tuple(g.types[a] for a in n.args)
    made = recipe(n, args) if n.op not in (*SCANS, *VIEWS, "loop") else None
    if n.op == "reduce_sum":
        return args[0].size / wafer.simd.f32, 0.0
    if n.op in SCANS or n.op in ("max", "min"):
        return args[0].size / wafer.simd.max32, 0.0
    if made is None:
        return 0.0, 0.0
    if made.vector:
        return n.type.size / getattr(wafer.simd, _WIDTHS.get(made.vector, "f32")), 0.0
    cost = wafer.cost
    return 0.0, n.type.size * max(made.functions * cost.function + made.divides * cost.divide, cost.scalar)
