import pickle
from dataclasses import dataclass
from pathlib import Path

import pytest
from golden import Case, Golden, golden_cases
from hypothesis import given
from hypothesis import strategies as st
from tdslc.compiler.machine import FrozenDict, Machine, load_machine
from tdslc.compiler.source import Diagnostic, DiagnosticError, SourceFile, render_all
from toy_machine import TEXT, Chip


def load(text: str = TEXT, *overrides: str) -> Machine[Chip]:
    return load_machine(Chip, SourceFile("toy.toml", text), overrides)


def problems(text: str, *overrides: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(DiagnosticError) as error:
        load(text, *overrides)
    return error.value.diagnostics


@golden_cases("machine/problems")
def test_every_problem_is_told(case: Case, golden: Golden) -> None:
    """The input is a chip file; `# base: FROM => TO` edits the good one instead, `# set:` lays a setting over it."""
    text = case.input or TEXT
    for edit in case.all("base"):
        before, after = (part.encode().decode("unicode_escape").strip(" ") for part in edit.split("=>"))
        assert before in text
        text = text.replace(before, after)
    golden.check(case, render_all(problems(text, *case.all("set"))))


def test_a_good_file_becomes_values() -> None:
    machine = load()
    assert machine.name == "toy"
    assert machine.value.clock_ghz == 1.5
    assert machine.value.memory.fast_kib == 48.0
    assert isinstance(machine.value.memory.fast_kib, float)
    assert machine.value.engine.rows_per_cycle == {"bf16": 1.0, "i8": 2.0}
    assert machine.value.engine.skew_cycles is None
    assert machine.text == TEXT


def test_each_figure_has_its_source() -> None:
    machine = load()
    assert list(machine.figures) == list(machine.sources)
    assert "name" not in machine.figures
    assert machine.sources["engine.rows_per_cycle.bf16"] == "doc: a book"
    assert machine.kind("engine.rows_per_cycle.i8") == "guess"
    assert [key for key in machine.figures if machine.is_guess(key)] == [
        "memory.main_gb",
        "engine.rows_per_cycle.i8",
        "engine.share",
        "engine.exact",
    ]
    with pytest.raises(KeyError):
        machine.is_guess("memory.fast_mib")


def test_a_path_is_read(tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(TEXT)
    assert load_machine(Chip, tmp_path / "toy.toml").digest == load().digest


def test_settings_replace_figures_and_their_sources() -> None:
    machine = load(TEXT, "memory.main_gb=8", "engine.rows_per_cycle.bf16 = 2", "engine.share=fifo", "memory.main_gb=32")
    assert machine.value.memory.main_gb == 32.0
    assert machine.value.engine.rows_per_cycle == {"bf16": 2.0, "i8": 2.0}
    assert machine.value.engine.share == "fifo"
    assert machine.sources["memory.main_gb"] == machine.sources["engine.rows_per_cycle.bf16"] == "user: --set"
    assert machine.kind("engine.share") == "user"
    assert not machine.is_guess("memory.main_gb")
    assert machine.span("memory.main_gb").file.path == "--set"
    assert machine.span("memory.fast_kib").where == "toy.toml:6"


def test_a_setting_may_give_what_the_file_lacks() -> None:
    machine = load(
        TEXT.replace("main_gb = 16.0\n", ""), "memory.main_gb=1", "engine.skew_cycles=-4", "engine.slots.mul=1"
    )
    assert machine.value.memory.main_gb == 1.0
    assert machine.value.engine.skew_cycles == -4.0
    assert machine.value.engine.slots == {"load": 2, "mul": 1}
    assert machine.figures["engine.slots.mul"] == 1
    assert load(TEXT, "engine.slots={mul=3}").value.engine.slots == {"mul": 3}


def test_digest_follows_content_and_not_layout() -> None:
    digest = load().digest
    assert load(TEXT.replace("  # a comment", "").replace("48", "48.0")).digest == digest
    changed = [
        load(TEXT.replace("48", "64")),
        load(TEXT, "memory.fast_kib=48"),
        load(TEXT.replace("measured: by us", "guess: ours")),
        load(TEXT.replace('"toy"', '"toy2"')),
    ]
    assert len({digest, *(machine.digest for machine in changed)}) == 5


def test_machines_are_values() -> None:
    machine = load()
    copy = pickle.loads(pickle.dumps(machine))
    assert copy == machine
    assert hash(copy.value) == hash(machine.value)
    with pytest.raises(TypeError, match="cannot be changed"):
        machine.value.engine.slots["load"] = 3
    with pytest.raises(TypeError, match="cannot be changed"):
        FrozenDict({1: 2}).update({3: 4})


@given(st.text(max_size=60) | st.builds("{}={}".format, st.sampled_from(["clock_ghz", "engine.slots.a"]), st.text()))
def test_no_setting_gets_past_a_diagnostic(setting: str) -> None:
    try:
        load(TEXT, setting)
    except DiagnosticError as error:
        render_all(error.diagnostics)


@given(st.text() | st.builds(lambda at, x: TEXT[:at] + x + TEXT[at:], st.integers(0, len(TEXT)), st.text(max_size=5)))
def test_no_file_gets_past_a_diagnostic(text: str) -> None:
    try:
        load(text)
    except DiagnosticError as error:
        render_all(error.diagnostics)


@dataclass(frozen=True)
class DefaultNumber:
    """A figure that no file gives would have no source."""

    count: int = 3


@dataclass(frozen=True)
class ListField:
    """Lists are not machine figures."""

    counts: list[int]


@pytest.mark.parametrize("schema", [DefaultNumber, ListField, int])
def test_a_schema_no_file_can_fill_is_our_mistake(schema: type) -> None:
    with pytest.raises(TypeError):
        load_machine(schema, SourceFile("x", 'name = "x"'))
