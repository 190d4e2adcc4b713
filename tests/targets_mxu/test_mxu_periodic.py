"""Loops that jump give exactly what replaying every iteration gives."""

from dataclasses import replace

from hypothesis import Phase, given, settings
from mxu_programs import BF16, F32, dense, programs
from tdslc.targets.mxu.chip import load
from tdslc.targets.mxu.isa import (
    Address,
    Condition,
    DmaStart,
    DmaWait,
    KernelBlock,
    Loop,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Term,
    When,
)
from tdslc.targets.mxu.timing import time_program

V5E = load("v5e").value


def same(program: MxuProgram) -> None:
    fast, full = time_program(program, V5E), time_program(program, V5E, jumps=False)
    assert replace(fast, notes=()) == replace(full, notes=())


@settings(max_examples=80, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(programs())
def test_jumps_equal_full_replay(program: MxuProgram) -> None:
    same(program)


def test_long_loop_is_not_replayed() -> None:
    body = (
        Push(0, dense("vmem", 0, BF16, 128, 128)),
        Mul(0, dense("vmem", Address(65536, (Term("i", 4096, 1, 2),)), BF16, 256, 128)),
        Pop(0, dense("vmem", 400000, F32, 256, 128)),
    )
    million = MxuProgram("p", (Loop("i", 0, 1_000_000, body),), ())
    thousand = MxuProgram("p", (Loop("i", 0, 1000, body),), ())
    a, b = time_program(million, V5E), time_program(thousand, V5E)
    assert abs(a.seconds / b.seconds - 1000) < 5


def test_copy_ahead_across_iterations() -> None:
    def copy(ahead: int) -> DmaStart:
        slot = Address(0, (Term("i", 65536, 1, 2, ahead),)) if ahead else Address(0)
        source = Address(0, (Term("i", 65536, 1, 0, ahead),)) if ahead else Address(0)
        return DmaStart(dense("vmem", slot, BF16, 256, 128), dense("hbm", source, BF16, 256, 128), 0)

    lhs = dense("vmem", Address(0, (Term("i", 65536, 1, 2),)), BF16, 256, 128)
    body = (
        When((Condition(Term("i", 1), "lt", 299),), (copy(1),)),
        Push(1, dense("vmem", 200000, BF16, 128, 128)),
        DmaWait(0),
        Mul(1, lhs),
        Pop(1, dense("vmem", 300000, F32, 256, 128)),
    )
    # The wait stands before the use and takes the copy of the round before.
    stream = (copy(0), Loop("i", 0, 299, body), DmaWait(0))
    same(MxuProgram("p", (KernelBlock("k", "", stream),), ()))


def test_a_sliding_access_that_meets_a_fixed_one_late() -> None:
    body = (
        Push(0, dense("vmem", Address(0, (Term("i", 4096),)), BF16, 128, 128)),
        Mul(0, dense("vmem", 10_000_000, BF16, 512, 128)),
        Pop(0, dense("vmem", 4096 * 150, F32, 512, 128)),
    )
    same(MxuProgram("p", (Loop("i", 0, 400, body),), ()))
