"""How much work an instruction is: slots, results and cycles, as pure functions of its operands and the chip.

The simulator and the cost function count with these same functions. A vector register holds
sublanes x lanes 32-bit words: the last axis of a tensor lies along lanes, the one before along
sublanes, and the rest picks registers; narrow types pack along sublanes in memory. Must not know
time, units' state or programs.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from ...compiler.graph import DType, Graph
from .chip import Chip
from .isa import View
from .work_slots import Work, vregs
from .work_vector import body_work

__all__ = [
    "ZERO", "Work", "contiguous_runs", "dma_bytes", "dma_cycles", "dma_setup_cycles", "gather_cycles", "lane_work",
    "mul_cycles", "mul_work", "pop_cycles", "pop_work", "push_cycles", "push_work", "queue_steps", "unit_cycles",
    "vector_cycles", "vector_work", "view_lane_work", "view_runs", "vregs",
]  # fmt: skip

ZERO = Work()


# ---- vector units --------------------------------------------------------------------------------


@dataclass(slots=True)
class _ByIdentity:
    """What was worked out for a body on a chip, for as long as the body lives."""

    found: dict[tuple[int, int], tuple[weakref.ref[Graph], Chip, Work]]

    def get(self, body: Graph, chip: Chip) -> Work | None:
        entry = self.found.get((id(body), id(chip)))
        return entry[2] if entry and entry[0]() is body and entry[1] is chip else None

    def put(self, body: Graph, chip: Chip, work: Work) -> Work:
        key = (id(body), id(chip))
        self.found[key] = (weakref.ref(body, lambda _: self.found.pop(key, None)), chip, work)
        return work


_WORK = _ByIdentity({})


def vector_work(body: Graph, chip: Chip) -> Work:
    """Work of `body` on the vector units: inputs loaded from VMEM, outputs stored to it. Cached by identity."""
    return _WORK.get(body, chip) or _WORK.put(body, chip, body_work(body, chip))


def unit_cycles(work: Work, chip: Chip) -> dict[str, float]:
    """Busy cycles of vld, vst, valu, eup, xlu and scalar when nothing else runs."""
    return {
        "vld": work.load / chip.vpu.load_slots,
        "vst": work.store / chip.vpu.store_slots,
        "valu": work.alu / chip.vpu.alu_slots,
        "eup": work.eup * chip.eup.interval_cycles,
        "xlu": work.xlu * chip.xlu.interval_cycles / chip.xlu.count,
        "scalar": work.scalar,
    }


def vector_cycles(work: Work, chip: Chip) -> float:
    """Cycles that `work` occupies the vector units: its busiest one (latency comes on top of the last result)."""
    return max(1.0, *unit_cycles(work, chip).values())


# ---- matrix units --------------------------------------------------------------------------------


def mul_cycles(rows: int, dtype: DType, chip: Chip) -> float:
    """Cycles that `rows` of operands of `dtype` take to enter a unit, in steps of 8 rows. KeyError: not multiplied."""
    return 8 * ceil(rows / 8) / chip.mxu.rows_per_cycle[dtype.name]  # type: ignore[index]


def push_cycles(dtype: DType, chip: Chip) -> int:
    """Cycles to load a tile of `dtype` into a staging register; smaller tiles are filled up with zeros."""
    return chip.mxu.push_cycles_per_tile[dtype.name]  # type: ignore[index]


def pop_cycles(rows: int, chip: Chip) -> int:
    """Cycles to take `rows` of results from one unit."""
    return ceil(rows / 8) * chip.mxu.pop_interval_cycles


def queue_steps(rows: int) -> int:
    """Result queue entries of `rows` rows."""
    return ceil(rows / 8)


def mul_work(rows: int, k: int, dtype: DType, chip: Chip) -> Work:
    """Loads of the left operand [rows, k]."""
    return Work(load=vregs((rows, k), dtype.bits, chip))


def push_work(k: int, n: int, dtype: DType, chip: Chip) -> Work:
    """Loads of the tile [k, n]."""
    return Work(load=vregs((k, n), dtype.bits, chip))


def pop_work(rows: int, n: int, add: bool, dtype: DType, chip: Chip) -> Work:
    """Registers popped to [rows, n] of `dtype` and stored; with `add` the old sums are loaded and added first."""
    words = vregs((rows, n), 32, chip)
    narrow = words * chip.vector.alu["convert"] if dtype.bits < 32 else 0
    stored = vregs((rows, n), dtype.bits, chip)
    if add:
        return Work(load=words, store=words, alu=words)
    return Work(store=stored, alu=narrow)


def lane_work(strides: Sequence[int], offset: int, shape: tuple[int, ...], dtype: DType, chip: Chip) -> Work:
    """Rotations of a matrix operand or result whose rows start within a row of lanes: each register once.

    `strides` are the steps in bytes from which its position follows (its loops', its batch axes'); the first row
    of a head of 32 columns, say, starts at lane 0, 32, 64 or 96.
    """
    row_bytes = chip.vpu.lanes * dtype.numpy.itemsize
    aligned = offset % row_bytes == 0 and all(s % row_bytes == 0 for s in strides)
    return ZERO if aligned else Work(xlu=vregs(shape, dtype.bits, chip))


def view_lane_work(view: View, chip: Chip) -> Work:
    """`lane_work` of a view in VMEM, wherever its loops take it."""
    return lane_work([t.coef for t in view.address.terms], view.address.base, view.shape, view.dtype, chip)


# ---- copies --------------------------------------------------------------------------------------


def contiguous_runs(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """(number, bytes each) of the contiguous runs of a strided box."""
    run, inner = itemsize, len(shape)
    while inner and (shape[inner - 1] == 1 or strides[inner - 1] == run):
        inner -= 1
        run *= shape[inner]
    return prod(shape[:inner]), run


def view_runs(view: View) -> tuple[int, int]:
    """(number, bytes each) of the contiguous runs of `view`."""
    return contiguous_runs(view.shape, view.strides, view.dtype.numpy.itemsize)


def dma_bytes(view: View, chip: Chip) -> int:
    """Bytes that a copy from or to `view` (in HBM) occupies the memory for: its runs in whole granules."""
    count, run = view_runs(view)
    granule = chip.dma.granule_bytes
    return count * granule * -(-run // granule) if run else 0


def dma_cycles(dst: View, src: View, chip: Chip) -> float:
    """Cycles a copy occupies its server: HBM for each side that lies there, else VMEM's copy bandwidth."""
    hbm = [v for v in (dst, src) if v.memory == "hbm"]
    if not hbm:
        return prod(dst.shape) * dst.dtype.numpy.itemsize / (chip.mem.vmem_copy_gbs / chip.clock_ghz)
    return sum(dma_bytes(v, chip) for v in hbm) / chip.hbm_bytes_per_cycle


def dma_setup_cycles(dst: View, src: View, chip: Chip) -> float:
    """Cycles from the issue of a copy to its first byte; setups of different copies overlap."""
    return chip.dma.write_setup_cycles if dst.memory == "hbm" else chip.dma.read_setup_cycles


def gather_cycles(rows: int, row: View, chip: Chip) -> tuple[float, float]:
    """(cycles of HBM, cycles from first byte to last) of a gather of `rows` rows like `row`, one descriptor each.

    The scalar core reads each index and starts each copy; no more than `in_flight` copies overlap their setups.
    """
    hbm = rows * dma_bytes(row, chip) / chip.hbm_bytes_per_cycle if row.memory == "hbm" else 0.0
    each = max(float(chip.issue.scalar_access_cycles), chip.dma.read_setup_cycles / chip.dma.in_flight)
    return hbm, max(hbm, rows * each)
