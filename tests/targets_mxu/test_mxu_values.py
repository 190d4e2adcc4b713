"""Values: programs compute what the contraction defines, and every hazard is an error that names its place."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from mxu_gemm import Gemm
from mxu_programs import BF16, F32, I32, dense, double_body
from tdslc.compiler.graph import TensorType
from tdslc.compiler.plan.target import Buffer
from tdslc.compiler.source import DiagnosticError
from tdslc.compiler.source.codes import CODES
from tdslc.targets.mxu.chip import load
from tdslc.targets.mxu.isa import (
    Address,
    DmaGather,
    DmaStart,
    DmaWait,
    Instruction,
    KernelBlock,
    Loop,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Term,
    Vector,
)
from tdslc.targets.mxu.numerics import MxuContraction
from tdslc.targets.mxu.values import run_program

V5E, TPU7X = load("v5e").value, load("tpu7x").value


@pytest.mark.parametrize(
    ("name", "shape"), [("v5e", (256, 512, 384)), ("v4", (128, 256, 128)), ("tpu7x", (256, 512, 512))]
)
def test_gemm_equals_the_contraction_bit_for_bit(name: str, shape: tuple[int, int, int]) -> None:
    chip = load(name).value
    m, n, k = shape
    k = k if chip.mxu.size == 128 else 512
    rng = np.random.default_rng(3)
    a = rng.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((k, n)).astype(ml_dtypes.bfloat16)
    got = run_program(Gemm(chip, m, n, k, 128, 256).program(), chip, {"a": a, "b": b})["c"]
    want = MxuContraction(chip).matmul(a, b, BF16, "highest")
    assert np.array_equal(got.view(np.uint16), want.view(np.uint16))


def test_accumulators_add_like_pops() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal((256, 512)).astype(ml_dtypes.bfloat16) for _ in range(2))
    b = b.reshape(512, 256)
    x, y, c = (
        dense("vmem", 0, BF16, 256, 512),
        dense("vmem", 262144, BF16, 512, 256),
        dense("vmem", 524288, F32, 256, 256),
    )
    lhs = lambda k: dense("vmem", 0, BF16, 256, 256).__class__("vmem", Address(k * 2), BF16, (256, 256), (1024, 2))  # noqa: E731
    stream = [
        DmaStart(x, dense("hbm", 0, BF16, 256, 512), 0), DmaStart(y, dense("hbm", 262144, BF16, 512, 256), 0),
        DmaWait(0), DmaWait(0),
        Push(0, dense("vmem", 262144, BF16, 256, 256)), Mul(0, lhs(0), acc=64),
        Push(0, dense("vmem", 262144 + 131072, BF16, 256, 256)), Mul(0, lhs(256), acc=64, add=True),
        Pop(0, c, acc=64), DmaStart(dense("hbm", 524288, F32, 256, 256), c, 1), DmaWait(1),
    ]  # fmt: skip
    buffers = (
        Buffer("a", "hbm", "input", 0, 262144, TensorType(BF16, (256, 512)), 0, 0),
        Buffer("b", "hbm", "input", 262144, 262144, TensorType(BF16, (512, 256)), 0, 0),
        Buffer("c", "hbm", "output", 524288, 262144, TensorType(F32, (256, 256)), 0, 0),
        Buffer("all", "vmem", "scratch", 0, 786432, None, 0, 0),
    )
    got = run_program(MxuProgram("p", tuple(stream), buffers), TPU7X, {"a": a, "b": b})["c"]
    assert np.array_equal(got, MxuContraction(TPU7X).matmul(a, b, F32, "highest"))


# ---- hazards -------------------------------------------------------------------------------------

X, Y = dense("hbm", 0, F32, 64, 128), dense("hbm", 32768, F32, 64, 128)
IN, OUT = dense("vmem", 0, F32, 64, 128), dense("vmem", 32768, BF16, 64, 128)
TILE, LHS, SUM = (
    dense("vmem", 65536, BF16, 128, 128),
    dense("vmem", 32768, BF16, 64, 128),
    dense("vmem", 131072, F32, 64, 128),
)
LOAD = [DmaStart(IN, X, 0), DmaWait(0)]
DOUBLE = Vector(double_body(64, 128), (IN,), (OUT,))
FILL = Vector(double_body(64, 128), (IN,), (dense("vmem", 65536, BF16, 64, 128),))
FILL2 = Vector(double_body(64, 128), (IN,), (dense("vmem", 65536 + 16384, BF16, 64, 128),))
READY = [*LOAD, DOUBLE, FILL, FILL2]
BUFFERS = (
    Buffer("x", "hbm", "input", 0, 32768, TensorType(F32, (64, 128)), 0, 0),
    Buffer("y", "hbm", "temp", 32768, 32768, TensorType(F32, (64, 128)), 0, 0),
    Buffer("vmem", "vmem", "scratch", 0, 163840, None, 0, 0),
)


def run(*stream: Instruction) -> None:
    x = np.ones((64, 128), np.float32)
    run_program(MxuProgram("p", (KernelBlock("k7", "model.tdsl:9", stream),), BUFFERS), V5E, {"x": x})


def slid(make: Callable[[Address], Instruction]) -> Loop:
    return Loop("i", 0, 4, (make(Address(0, (Term("i", 65536),))),))


HAZARDS: list[tuple[str, str, list[Instruction]]] = [
    ("E0901", "read while a copy to", [DmaStart(IN, X, 0), DOUBLE, DmaWait(0)]),
    ("E0902", "overwritten while a copy", [DmaStart(IN, X, 0), DmaStart(IN, X, 1), DmaWait(0), DmaWait(1)]),
    ("E0902", "overwritten while a copy", [*LOAD, DmaStart(Y, IN, 0), DmaStart(IN, X, 1), DmaWait(0), DmaWait(1)]),
    ("E0903", "not all of it was ever written", [DOUBLE]),
    ("E0903", "not all of it was ever written", [DmaStart(IN, Y, 0), DmaWait(0)]),
    (
        "E0904",
        "lies in no buffer",
        [*LOAD, slid(lambda a: Vector(double_body(64, 128), (IN,), (dense("vmem", a, BF16, 64, 128),)))],
    ),
    ("E0905", "over one that is still staged", [*READY, Push(0, TILE), Push(0, TILE)]),
    ("E0905", "none is staged", [*READY, Mul(0, LHS)]),
    ("E0905", "before any tile was latched", [*READY, Push(0, TILE), Mul(0, LHS, latch=False)]),
    (
        "E0905",
        "rows are popped",
        [*READY, Push(0, TILE), Mul(0, LHS), Pop(0, dense("vmem", 131072, F32, 64, 128)), Pop(0, SUM)],
    ),
    ("E0905", "accumulator", [*READY, Push(0, TILE), Mul(0, LHS, acc=0)]),
    (
        "E0905",
        "wide are popped to rows",
        [*READY, Push(0, TILE), Mul(0, LHS), Pop(0, dense("vmem", 131072, F32, 64, 64))],
    ),
    ("E0906", "still holds a staged tile", [*READY, Push(0, TILE)]),
    ("E0906", "still holds results", [*READY, Push(0, TILE), Mul(0, LHS)]),
    ("E0906", "not waited for", [DmaStart(IN, X, 0)]),
    ("E0907", "no copy on semaphore 3", [DmaWait(3)]),
]


@pytest.mark.parametrize(
    ("code", "message", "stream"), HAZARDS, ids=[f"{n}-{c}" for n, (c, _, _) in enumerate(HAZARDS)]
)
def test_hazard(code: str, message: str, stream: list[Instruction]) -> None:
    with pytest.raises(DiagnosticError) as caught:
        run(*stream)
    (found,) = caught.value.diagnostics
    assert found.code == code in CODES
    assert message in found.message
    if code != "E0906":
        notes = " ".join(n.message for n in found.notes)
        assert "in kernel k7, from model.tdsl:9" in notes and "at `" in notes


def test_the_same_program_without_a_hazard_runs() -> None:
    run(*READY, Push(0, TILE), Mul(0, LHS), Pop(0, SUM))


def test_neighbouring_columns_are_no_hazard() -> None:
    half = lambda address, at: dense("vmem", 0, F32, 64, 64).__class__(address, Address(at), F32, (64, 64), (512, 4))  # noqa: E731
    run(
        DmaStart(half("vmem", 0), half("hbm", 0), 0),
        DmaStart(half("vmem", 256), half("hbm", 256), 1),
        DmaWait(0),
        DmaWait(1),
        DOUBLE,
    )


def test_gather_takes_rows_and_clamps() -> None:
    index = np.array([3, 0, 99, -5], np.int32)
    table = np.arange(10 * 128, dtype=np.float32).reshape(10, 128)
    stream = (
        DmaStart(dense("vmem", 0, I32, 4), dense("hbm", 5120, I32, 4), 0), DmaWait(0),
        DmaGather(dense("vmem", 4096, F32, 4, 128), dense("hbm", 0, F32, 10, 128), dense("vmem", 0, I32, 4), 1),
        DmaWait(1),
        DmaStart(dense("hbm", 8192, F32, 4, 128), dense("vmem", 4096, F32, 4, 128), 2), DmaWait(2),
    )  # fmt: skip
    buffers = (
        Buffer("table", "hbm", "param", 0, 5120, TensorType(F32, (10, 128)), 0, 0),
        Buffer("index", "hbm", "input", 5120, 16, TensorType(I32, (4,)), 0, 0),
        Buffer("out", "hbm", "output", 8192, 2048, TensorType(F32, (4, 128)), 0, 0),
        Buffer("v", "vmem", "scratch", 0, 8192, None, 0, 0),
    )
    got = run_program(MxuProgram("p", stream, buffers), V5E, {"table": table, "index": index})["out"]
    assert np.array_equal(got, table[[3, 0, 9, 0]])


def test_inputs_are_checked() -> None:
    with pytest.raises(LookupError, match="input x has no value"):
        run_program(MxuProgram("p", (), BUFFERS), V5E, {})
    with pytest.raises(ValueError, match="input x is"):
        run_program(MxuProgram("p", (), BUFFERS), V5E, {"x": np.ones((2, 2), np.float32)})
