"""The timing model against published cycle counts of a TPU v4 (pallas-tpu-tutorial; tpu-v4-latency-numbers)."""

import pytest
from mxu_gemm import Gemm
from mxu_programs import BF16, F32, dense
from tdslc.targets.mxu.chip import chip_names, load
from tdslc.targets.mxu.isa import Instruction, Mul, MxuProgram, Pop, Push
from tdslc.targets.mxu.timing import time_program
from tdslc.targets.mxu.verify import verify

V4 = load("v4").value


def cycles(stream: list[Instruction]) -> int:
    return time_program(MxuProgram("probe", tuple(stream), ()), V4).cycles


@pytest.mark.parametrize(("k", "measured"), [(1, 96), (2, 104), (4, 120), (8, 152), (12, 190), (16, 254)])
def test_k_products_then_k_pops(k: int, measured: int) -> None:
    stream: list[Instruction] = [Push(0, dense("vmem", 0, BF16, 128, 128))]
    stream += [Mul(0, dense("vmem", 65536 + 2048 * i, BF16, 8, 128), latch=i == 0) for i in range(k)]
    stream += [Pop(0, dense("vmem", 262_144 + 4096 * i, F32, 8, 128)) for i in range(k)]
    # Measured from the first product on, weights in place, operands and results in registers: the push of
    # 64 cycles, the load before it and the store after the last pop are not in it.
    outside = V4.mxu.push_cycles_per_tile["bf16"] + V4.vpu.load_latency_cycles + V4.vpu.store_latency_cycles
    assert cycles(stream) - outside == measured


@pytest.mark.parametrize(
    ("rows", "units", "measured"), [(16, 1, 176), (32, 4, 211), (256, 4, 435)], ids=["16", "128 on 4", "1024 on 4"]
)
def test_kernels_from_vmem_to_vmem(rows: int, units: int, measured: int) -> None:
    stream: list[Instruction] = [Push(u, dense("vmem", 0, BF16, 128, 128)) for u in range(units)]
    stream += [Mul(u, dense("vmem", 65536 + u * rows * 256, BF16, rows, 128)) for u in range(units)]
    stream += [Pop(u, dense("vmem", 2_097_152 + u * rows * 512, F32, rows, 128)) for u in range(units)]
    assert abs(cycles(stream) / measured - 1) <= 0.05


@pytest.mark.parametrize("rows", [16, 64, 128, 512])
def test_closed_form_of_a_chain_of_tiles(rows: int) -> None:
    """cycles = P + sum of max(rows / r, P) + L, beside the fixed cycles of the first load and the last pop."""
    tiles = 12
    stream: list[Instruction] = [Push(0, dense("vmem", 0, BF16, 128, 128))]
    for i in range(tiles):
        stream.append(Mul(0, dense("vmem", 65536, BF16, rows, 128)))
        stream += [Push(0, dense("vmem", 0, BF16, 128, 128))] if i < tiles - 1 else []
        stream += [Pop(0, dense("vmem", 262_144 + 512 * rows * i, F32, rows, 128))] if rows >= 128 else []
    if rows < 128:
        # Pops of short products come together, or each would wait for its own latency in the in-order stream.
        stream += [Pop(0, dense("vmem", 262_144, F32, rows, 128)) for _ in range(tiles)]
        del stream[-tiles:]
    push, latency = 64, V4.mxu.latency_cycles
    closed = push + (tiles - 1) * max(rows, push) + rows + latency
    fixed = V4.vpu.load_latency_cycles + V4.mxu.pop_latency_cycles + V4.vpu.store_latency_cycles
    if rows >= 128:
        assert abs(cycles(stream) - closed - fixed) <= 8 + tiles
    else:
        assert abs(cycles(stream) - (closed - latency)) <= tiles + fixed


# ---- 4096 x 4096 x 4096 --------------------------------------------------------------------------

# (rows, columns) of a block; v4's VMEM of 16 MiB holds no larger one.
BLOCKS = {"v4": (256, 512), "v5e": (512, 512), "v6e": (1024, 512), "tpu7x": (1024, 512)}
LEAST = {"v4": 0.90, "v5e": 0.95, "v6e": 0.85, "tpu7x": 0.90}


@pytest.mark.parametrize("name", chip_names())
def test_gemm_4096(name: str) -> None:
    chip = load(name).value
    program = Gemm(chip, 4096, 4096, 4096, *BLOCKS[name]).program()
    assert verify(program, chip) == []
    timing = time_program(program, chip)
    assert all(ok for _, ok, _ in timing.checks)
    assert 2 * 4096**3 / timing.seconds / chip.peak_flops() >= LEAST[name]


def test_peak_of_v5e() -> None:
    assert load("v5e").value.peak_flops() == pytest.approx(196.6e12, rel=1e-3)
