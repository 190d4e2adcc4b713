"""The least time of a graph on a chip: for each unit, the least work over the unit's peak.

No padding, no fill, no re-reads: what any program for this graph must do. Work that depends on params
alone is done when weights bind and counts nothing. Must not know kernels or programs.
"""

from __future__ import annotations

from math import prod

from ...compiler.graph import OPS, Graph, Node, expand, is_composite
from ...compiler.graph.ops.contract import is_depthwise, logical_weights
from ...compiler.plan.target import Bound
from ...compiler.plan.traffic import compulsory_bytes, executions
from .chip import Chip
from .numerics import passes
from .work_slots import op_slots


def bound(graph: Graph, chip: Chip) -> Bound:
    """Busy seconds that no program for `graph` goes below, by unit; FLOPs are of contractions, 2 a multiply-add."""
    flops, cycles = 0, dict.fromkeys(("mxu", "valu", "eup"), 0.0)
    for owner, node, times in executions(graph):
        for inner, n in _primitives(owner, node):
            if n.op in ("matmul", "conv"):
                work = _contraction_flops(inner, n)
                flops += work * times
                if n.op == "conv" and _is_depthwise(inner, n):
                    cycles["valu"] += times * work / (chip.vpu.lanes * chip.vpu.sublanes * chip.vpu.alu_slots)
                    continue
                cycles["mxu"] += times * work / 2 * _passes(inner, n) / _macs_per_cycle(inner, n, chip)
            elif "elementwise" in OPS[n.op].traits and n.args:
                registers = n.types[0].size / (chip.vpu.lanes * chip.vpu.sublanes)
                alu, eup = op_slots(n.op, inner.types[n.args[-1]].dtype, chip)
                if n.op != "convert":
                    packed = 2 if chip.vpu.native_bf16 and n.types[0].dtype.bits <= 16 else 1
                    cycles["valu"] += times * registers * alu / chip.vpu.alu_slots / packed
                    cycles["eup"] += times * registers * eup * chip.eup.interval_cycles / packed
    moved = compulsory_bytes(graph)
    units = {u: c / chip.hz for u, c in cycles.items()} | {"hbm": moved / (chip.dma.hbm_gbs * 1e9)}
    limited = max(sorted(units), key=lambda u: units[u])
    return Bound(units[limited], limited, units, flops, moved)


def _primitives(owner: Graph, node: Node) -> list[tuple[Graph, Node]]:
    if not is_composite(node):
        return [(owner, node)]
    inner = expand(node.regions[0])
    return [(inner, n) for n in inner.nodes if n.op not in ("input", "param", "constant", "full", "iota")]


def _contraction_flops(g: Graph, n: Node) -> int:
    if n.op == "matmul":
        return 2 * n.type.size * int(g.types[n.args[0]].shape[-1])
    return 2 * n.type.size * int(prod(g.types[n.args[1]].shape[1:]))


def _is_depthwise(g: Graph, n: Node) -> bool:
    groups = n.attr("groups")
    assert isinstance(groups, int)
    return is_depthwise(logical_weights(g.types[n.args[1]].shape, dict(n.attrs)), groups)


def _passes(g: Graph, n: Node) -> int:
    return len(passes(g.types[n.args[0]].dtype, str(n.attr("precision"))) or ((0, 0),))


def _macs_per_cycle(g: Graph, n: Node, chip: Chip) -> float:
    """Multiply-adds a cycle of all matrix units, or of the vector units for a dtype they cannot multiply."""
    d = g.types[n.args[0]].dtype
    if passes(d, str(n.attr("precision"))) is None:
        return chip.vpu.lanes * chip.vpu.sublanes * chip.vpu.alu_slots / 2
    rate = next((r for name, r in chip.mxu.rows_per_cycle.items() if name == d.name), chip.mxu.rows_per_cycle["bf16"])
    return chip.mxu.count * chip.mxu.size**2 * rate
