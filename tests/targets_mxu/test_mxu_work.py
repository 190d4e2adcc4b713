"""Work of vector bodies: hand counts, and laws that hold for every op."""

import pytest
from tdslc.compiler.graph import Builder, Graph, TensorType, dtype
from tdslc.targets.mxu.chip import chip_names, load
from tdslc.targets.mxu.isa import Address, View
from tdslc.targets.mxu.work import (
    contiguous_runs,
    dma_bytes,
    dma_cycles,
    mul_cycles,
    pop_work,
    unit_cycles,
    vector_cycles,
    vector_work,
    vregs,
)

BF16, F32, F64, I32 = dtype("bf16"), dtype("f32"), dtype("f64"), dtype("i32")
V5E, V6E = load("v5e").value, load("v6e").value


def unary(op: str, d=F32, size: tuple[int, ...] = (64, 256), **attrs) -> Graph:
    b = Builder(op)
    return b.finish([b.one(op, b.input("x", TensorType(d, size)), **attrs)])


def test_registers_are_padded_tiles() -> None:
    assert vregs((8, 128), 32, V5E) == 1
    assert vregs((9, 129), 32, V5E) == 4
    assert vregs((16, 128), 16, V5E) == 1
    assert vregs((3, 5, 7), 32, V5E) == 3
    assert vregs((), 32, V5E) == 1
    assert vregs((0, 128), 32, V5E) == 0


def test_add_of_two_operands() -> None:
    b = Builder("add")
    x, y = (b.input(n, TensorType(F32, (64, 256))) for n in "xy")
    work = vector_work(b.finish([b.one("add", x, y)]), V5E)
    assert (work.load, work.store, work.alu, work.eup, work.xlu) == (32, 16, 16, 0, 0)
    assert vector_cycles(work, V5E) == 16  # two loads a cycle, one store


def test_bf16_is_unpacked_where_it_is_not_native() -> None:
    g = unary("neg", BF16)
    wide, native = vector_work(g, V5E), vector_work(g, V6E)
    assert native.alu == 8 and native.load == 8
    assert wide.alu == 16 + 16 + 16 and wide.load == 8  # unpack, negate, round


def test_a_reduction_is_a_second_pass() -> None:
    b = Builder("centre")
    x = b.input("x", TensorType(F32, (64, 256)))
    top = b.one("broadcast", b.one("reduce_max", x, axes=(1,)), shape=(64, 256), dims=(0,))
    work = vector_work(b.finish([b.one("sub", x, top)]), V5E)
    assert work.load == 16 + 16 + 8  # x twice, the maxima once
    assert work.store == 8 + 16
    assert work.xlu == 8  # one lane reduction a row of registers
    assert work.streams


def test_reductions_over_rows_do_not_stream() -> None:
    assert not vector_work(unary("reduce_max", axes=(0,)), V5E).streams
    assert vector_work(unary("reduce_max", axes=(1,)), V5E).streams


def test_views_of_whole_registers_are_free() -> None:
    free = vector_work(unary("reshape", shape=(8, 8, 256)), V5E)
    assert (free.load, free.store, free.alu, free.xlu) == (16, 16, 0, 0)
    assert vector_work(unary("reshape", shape=(256, 64)), V5E).xlu > 0
    assert vector_work(unary("transpose", perm=(1, 0)), V5E).xlu >= 16


def test_gathers_and_f64_are_scalar() -> None:
    b = Builder("take")
    table, index = b.input("t", TensorType(F32, (100, 256))), b.input("i", TensorType(I32, (32,)))
    work = vector_work(b.finish([b.one("take", table, index, axis=0)]), V5E)
    assert work.scalar == 32 * V5E.issue.scalar_access_cycles and work.load >= 32 * 2
    assert vector_work(unary("neg", F64), V5E).scalar == 64 * 256 * V5E.vector.scalar_cycles_per_element


def test_work_is_kept_by_identity() -> None:
    g = unary("exp")
    assert vector_work(g, V5E) is vector_work(g, V5E)
    assert vector_work(g, V5E) is not vector_work(g, V6E)


@pytest.mark.parametrize("name", chip_names())
def test_products_keep_pace_with_the_array(name: str) -> None:
    mxu = load(name).value.mxu
    assert mul_cycles(512, BF16, load(name).value) == 512 / mxu.rows_per_cycle["bf16"]
    # Pops must not be slower than products, nor the queue shorter than the latency.
    assert mxu.pop_interval_cycles <= 8 / mxu.rows_per_cycle["bf16"]
    assert mxu.result_queue_steps * mxu.pop_interval_cycles >= mxu.far_latency_cycles


def test_popped_sums_are_loaded_added_and_stored() -> None:
    add, put = pop_work(64, 128, True, F32, V5E), pop_work(64, 128, False, F32, V5E)
    assert (add.load, add.alu, add.store) == (8, 8, 8)
    assert (put.load, put.alu, put.store) == (0, 0, 8)


def test_runs_are_rounded_to_granules() -> None:
    assert contiguous_runs((4, 8), (32, 4), 4) == (1, 128)
    assert contiguous_runs((4, 8), (64, 4), 4) == (4, 32)
    view = View("hbm", Address(0), BF16, (16, 100), (4096, 2))
    assert dma_bytes(view, V5E) == 16 * 512
    inside = View("vmem", Address(0), BF16, (16, 100), (256, 2))
    assert dma_cycles(inside, view, V5E) == pytest.approx(16 * 512 / (819 / 1.5))
    assert unit_cycles(vector_work(unary("neg"), V5E), V5E)["vst"] == 16
