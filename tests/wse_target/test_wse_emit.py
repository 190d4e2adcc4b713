"""What is written for a rectangle of PEs: the front end takes it, it reads back, and it is what it was."""

from dataclasses import replace

import pytest
from golden import Case, Golden, golden_cases
from tdslc.compiler.source import DiagnosticError
from tdslc.targets.wse.program import PE, parse, show
from wse_programs import GRAPHS, fused, machine, perceptron, unfused


@pytest.mark.parametrize("size", ["1x1", "2x3", "5x4"])
@pytest.mark.parametrize("name", GRAPHS)
def test_programs_are_well_formed_and_read_back(name: str, size: str) -> None:
    m = machine(size)
    program = m.lower(fused(GRAPHS[name], m))
    assert m.verify(program) == []
    assert parse(show(program)) == program
    assert show(parse(show(program))) == show(program)


@pytest.mark.parametrize("name", GRAPHS)
def test_programs_for_the_other_machine_and_op_by_op(name: str) -> None:
    for m in (machine("3x2", "wse2"), machine("12x2")):
        assert m.verify(m.lower(unfused(GRAPHS[name], m))) == []


def test_a_kernel_is_a_launch() -> None:
    m = machine("2x2")
    one, many = m.lower(fused(perceptron(11), m)), m.lower(unfused(perceptron(11), m))
    assert [c.function for c in one.commands] == ["load_params", "kernel_1"]
    assert len(many.commands) == 1 + 8
    assert [c.kernel for c in many.commands[1:]] == [s.name for s in unfused(perceptron(11), m).steps]


def test_one_row_of_pes_has_nothing_to_send_down() -> None:
    m = machine("4x1")
    assert [c.function for c in m.lower(fused(perceptron(11), m)).commands] == ["kernel_1"]


def test_rows_that_do_not_fit_at_once_come_in_passes() -> None:
    m = machine("1x1")
    program = m.lower(fused(perceptron(4000), m))
    assert program.shares.passes > 1
    assert max(a.address + a.nbytes for a in program.arrays) <= m.wafer.pe.memory_bytes
    fewer = replace(program.shares, passes=program.shares.passes - 1)
    assert fewer.rows(program.copies[0].placement) > program.shares.rows(program.copies[0].placement)


@golden_cases("wse_target/golden")
def test_texts(case: Case, golden: Golden) -> None:
    """`size` and `graph` name a program; the file of it that `file` names is expected."""
    m = machine(case.get("size"), case.get("chip", "wse3"))
    golden.check(case, show(m.lower(fused(GRAPHS[case.get("graph")], m)))[case.get("file")])


def test_weights_that_do_not_fit_are_told_with_their_sizes() -> None:
    m = machine("4x4")
    with pytest.raises(DiagnosticError) as caught:
        m.lower(fused(perceptron(8, 512, 256), m))
    (told,) = caught.value.diagnostics
    assert told.code == "E0401"
    assert "with 1 row(s) at a time a PE needs 1" in told.message
    assert any(
        '131,072 bytes  param_hidden_weight: 32768 x f32, param "hidden.weight"' in n.message for n in told.notes
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (("@export_symbol(kernel_1);", ""), "`kernel_1` is not a function that every PE exports"),
        (("var temp_7: [", "var temp_7: [1"), "other variables than the program lists"),
        (("fn kernel_1", "fn kernel_1x"), "E1003"),
    ],
)
def test_what_is_broken_is_found(change: tuple[str, str], wanted: str) -> None:
    m = machine("2x2")
    program = m.lower(fused(perceptron(11), m))
    text = program.texts[PE].replace(change[0], change[1], 1)
    assert text != program.texts[PE]
    faults = m.verify(replace(program, texts={**program.texts, PE: text}))
    assert faults and wanted in faults[0]
