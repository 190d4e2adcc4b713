"""Program text reads back as the program; text that is none says where and why."""

import pytest
from hypothesis import Phase, given, settings
from mxu_gemm import Gemm
from mxu_programs import BF16, dense, programs
from tdslc.compiler.graph import Dim, TensorType
from tdslc.compiler.plan.target import Buffer
from tdslc.targets.mxu.chip import load
from tdslc.targets.mxu.isa import DmaStart, MxuProgram
from tdslc.targets.mxu.text import ProgramTextError, parse, show


@settings(max_examples=30, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(programs())
def test_round_trip(program: MxuProgram) -> None:
    assert parse(show(program)) == program


def test_round_trip_of_buffers_and_bodies() -> None:
    program = Gemm(load("v5e").value, 1024, 1024, 1024, 256, 512).program()
    text = show(program)
    assert parse(text) == program
    assert show(parse(text)) == text


def test_dims_keep_their_symbols() -> None:
    t = TensorType(BF16, (Dim(128, "B*S"), 4))
    program = MxuProgram("p", (), (Buffer('x "1"', "hbm", "input", 0, 1024, t, -1, 3),))
    assert "B*S=128" in show(program)
    assert show(parse(show(program))) == show(program)


def test_copy_between_unlike_views_is_shown_in_full() -> None:
    copy = DmaStart(dense("vmem", 0, BF16, 8, 128), dense("hbm", 0, BF16, 8, 64), 1)
    program = MxuProgram("p", (copy,), ())
    assert parse(show(program)) == program


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'program'"),
        ('program "p"\nwait x', "line 2: expected a number"),
        ('program "p"\nloop i 0 4 {\nwait 1', "not closed"),
        ('program "p"\njump 3', "no instruction is called jump"),
        ('program "p"\nvector @0 () -> ()', "there is no body @0"),
        ('program "p"\npush 0 vmem[0] f99[1, 1] (1, 1)', "line 2: expected a dtype"),
        ('program "p"\nwait 1 2', "line 2: expected the end of the line"),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str) -> None:
    with pytest.raises(ProgramTextError, match=message):
        parse(text)
