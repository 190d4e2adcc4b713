"""Every fault that the verifier knows, once each; and what it must not complain of."""

import pytest
from mxu_programs import BF16, F32, I32, dense, double_body
from tdslc.compiler.graph import TensorType
from tdslc.compiler.plan.target import Buffer
from tdslc.targets.mxu.chip import load
from tdslc.targets.mxu.isa import (
    Address,
    Condition,
    DmaGather,
    DmaStart,
    Instruction,
    KernelBlock,
    Loop,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Term,
    Vector,
    View,
    When,
)
from tdslc.targets.mxu.verify import verify

V5E, TPU7X = load("v5e").value, load("tpu7x").value
BUFFERS = (Buffer("h", "hbm", "temp", 0, 65536, None, 0, 0), Buffer("v", "vmem", "scratch", 0, 65536, None, 0, 0))


def faults(*stream: Instruction, buffers: tuple[Buffer, ...] = BUFFERS) -> list[str]:
    return verify(MxuProgram("p", stream, buffers), V5E)


def at(i: str, coef: int = 32768) -> View:
    return dense("vmem", Address(0, (Term(i, coef),)), BF16, 128, 128)


def push(view: View) -> Push:
    return Push(0, view)


TILE = dense("vmem", 0, BF16, 128, 128)
BODY = double_body(8, 128)
BAD: list[tuple[str, Instruction]] = [
    ("i is no loop around it", push(at("i"))),
    ("i is no loop around it", When((Condition(Term("i", 1), "eq", 0),), ())),
    ("has the same variable", Loop("i", 0, 2, (Loop("i", 0, 2, ()),))),
    ("kernel b lies in kernel a", KernelBlock("a", "", (KernelBlock("b", "", ()),))),
    ("lie in no buffer", Loop("i", 0, 3, (push(at("i")),))),
    ("do not fit shape", push(View("vmem", Address(0), BF16, (128, 128), (2,)))),
    ("boxes of two axes in VMEM", push(dense("hbm", 0, BF16, 128, 128))),
    ("larger than the array of 128", push(dense("vmem", 0, BF16, 128, 256))),
    ("do not multiply f32", push(dense("vmem", 0, F32, 64, 128))),
    ("there is no matrix unit 4", Push(4, TILE)),
    ("accumulator rows", Mul(0, TILE, acc=0)),
    ("only a product into accumulators", Mul(0, TILE, add=True)),
    ("sums are f32 or i32, not bf16", Pop(0, TILE, add=True)),
    ("two sides of a copy", DmaStart(TILE, dense("hbm", 0, F32, 64, 128), 0)),
    (
        "the index is not i32[8]",
        DmaGather(dense("vmem", 0, F32, 8, 128), dense("hbm", 0, F32, 16, 128), dense("vmem", 8192, F32, 8), 0),
    ),
    (
        "rows of the table",
        DmaGather(dense("vmem", 0, F32, 8, 128), dense("hbm", 0, F32, 16, 64), dense("vmem", 8192, I32, 8), 0),
    ),
    ("the body takes", Vector(BODY, (dense("vmem", 0, BF16, 8, 128),), (dense("vmem", 8192, BF16, 8, 128),))),
    ("the body gives", Vector(BODY, (dense("vmem", 0, F32, 8, 128),), (dense("vmem", 8192, F32, 8, 128),))),
    ("vector units work on VMEM", Vector(BODY, (dense("hbm", 0, F32, 8, 128),), (dense("vmem", 8192, BF16, 8, 128),))),
]


@pytest.mark.parametrize(("message", "instruction"), BAD, ids=[f"{n}-{m}" for n, (m, _) in enumerate(BAD)])
def test_fault(message: str, instruction: Instruction) -> None:
    assert any(message in f for f in faults(instruction))


def test_buffers() -> None:
    found = faults(buffers=(
        Buffer("big", "vmem", "scratch", 0, V5E.mem.vmem_bytes + 1, None, 0, 0),
        Buffer("x", "hbm", "input", 0, 4, None, 0, 0),
        Buffer("odd", "smem", "scratch", 0, 4, TensorType(F32, (1,)), 0, 0),
    ))  # fmt: skip
    assert len(found) == 3


def test_conditions_narrow_what_an_address_can_be() -> None:
    ahead = push(dense("vmem", Address(0, (Term("i", 32768, 1, 0, 1),)), BF16, 128, 128))
    assert faults(Loop("i", 0, 2, (ahead,)))
    assert faults(Loop("i", 0, 2, (When((Condition(Term("i", 1), "lt", 1),), (ahead,)),))) == []
    assert faults(Loop("i", 0, 9, (When((Condition(Term("i", 1), "eq", 0),), (ahead,)),))) == []


def test_loops_without_iterations_are_not_looked_into() -> None:
    assert faults(Loop("i", 3, 3, (push(at("i")),))) == []


def test_accumulators_of_a_chip_that_has_them() -> None:
    lhs = dense("vmem", 0, BF16, 64, 256)
    program = MxuProgram("p", (Mul(0, lhs, acc=TPU7X.mxu.accumulator_rows - 64),), BUFFERS)
    assert verify(program, TPU7X) == []
    assert verify(MxuProgram("p", (Mul(0, lhs, acc=TPU7X.mxu.accumulator_rows),), BUFFERS), TPU7X)
