"""A body straight from and to main memory, for the op whose operands VMEM cannot hold however they are cut.

One vector instruction whose views lie in HBM. Its passes over the data, which otherwise go between VMEM and registers,
go between main memory and registers: slow, and total. Only a body of one op is streamed; a larger one is refused,
so that it is split. Must not know plans beyond one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...compiler.graph import Graph, TensorType, is_composite
from ...compiler.plan.target import Kernel, KernelCost
from .chip import Chip
from .isa import Address, Vector, View
from .strided import dense
from .work import Work, unit_cycles, vector_work

LITERALS = ("input", "full", "iota", "constant")
VIEWS = ("reshape", "transpose", "slice", "broadcast")


def can_stream(body: Graph) -> bool:
    """Whether `body` is one op, seen through views."""
    ops = [n for n in body.nodes if n.op not in (*LITERALS, *VIEWS)]
    return len(ops) <= 1 and not any(map(is_composite, ops))


def streamed_bytes(
    inputs: Sequence[TensorType], outputs: Sequence[TensorType], work: Work, chip: Chip
) -> tuple[int, int]:
    """(bytes read, bytes written): every register loaded or stored, and each tensor once at least.

    What the scalar core reads one by one takes a granule each.
    """
    register = chip.vreg_bytes
    single = work.scalar / chip.vector.scalar_cycles_per_element * chip.dma.granule_bytes
    read = max(sum(t.nbytes for t in inputs), int(work.load * register)) + int(single)
    return read, max(sum(t.nbytes for t in outputs), int(work.store * register))


def streamed_cycles(work: Work, moved: int, chip: Chip) -> float:
    """Cycles from the first read to the last write: the busiest unit, main memory among them, and the latencies."""
    busiest = max(*unit_cycles(work, chip).values(), moved / chip.hbm_bytes_per_cycle)
    return busiest + work.latency + chip.dma.read_setup_cycles + chip.dma.write_setup_cycles


def streamed_cost(body: Graph, chip: Chip) -> KernelCost:
    """What `body` costs as a kernel of its own."""
    work = vector_work(body, chip)
    read, written = streamed_bytes([n.type for n in body.inputs], body.output_types, work, chip)
    cycles = streamed_cycles(work, read + written, chip)
    busy = unit_cycles(work, chip) | {"hbm": (read + written) / chip.hbm_bytes_per_cycle}
    return KernelCost(cycles / chip.hz, {u: c / chip.hz for u, c in busy.items()}, read, written, 0)


def streamed_instruction(k: Kernel, where: Mapping[int, Address]) -> Vector:
    """The instruction of kernel `k`; `where` are the HBM addresses of values."""

    def view(value: int, t: TensorType) -> View:
        return dense(t.shape, t.dtype).at("hbm", where[value], t.dtype)

    inputs = tuple(view(v, n.type) for v, n in zip(k.inputs, k.body.inputs, strict=True))
    return Vector(k.body, inputs, tuple(map(view, k.outputs, k.body.output_types)))
