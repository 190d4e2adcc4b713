"""The driver on a toy target: levels, figures, the folder, runs and checks."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tdslc.compiler.build.command import Outcome, build_targets
from tdslc.compiler.build.driver import Build, build
from tdslc.compiler.build.files import build_files
from tdslc.compiler.build.folder import write_folder
from tdslc.compiler.build.options import BuildOptions
from tdslc.compiler.build.runs import run, runnable, runnable_folder
from tdslc.compiler.build.search import Searcher
from tdslc.compiler.graph import DTYPES, Builder, Graph, TensorType
from tdslc.compiler.source import DiagnosticError
from toy_target import toy

__all__ = ["toy"]
pytestmark = pytest.mark.usefixtures("toy")

F32 = DTYPES["f32"]


def two_layers() -> Graph:
    """tanh(x @ w) @ w, the same weight twice, and a loop that adds a stacked bias three times."""
    t = TensorType(F32, (4, 4))
    body = Builder("body")
    body.input("i", TensorType(DTYPES["i32"], ()))
    h, b = body.input("h", t), body.input("b", t)
    step = body.one("add", h, b, loc="m.tdsl:5:9")
    inner = body.finish([body.one("tanh", step, loc="m.tdsl:6:9")], ["h"])
    g = Builder("two_layers")
    x = g.input("x", t)
    w = g.param("w", t)
    biases = g.param("layer.{i}.b", TensorType(F32, (3, 4, 4)), stack=3)
    y = g.one("matmul", x, w, precision="highest", loc="m.tdsl:3:5")
    (y,) = g.add("loop", (y, biases), {"n": 3, "carry": 1, "xs": 1}, regions=(inner,), loc="m.tdsl:4:5")
    return g.finish([g.one("neg", y, loc="m.tdsl:7:5")], ["y"])


@pytest.fixture(scope="module")
def searcher() -> Iterator[Searcher]:
    """One worker for the whole file: starting one costs more than a search."""
    with Searcher() as one:
        yield one


@pytest.fixture
def make(searcher: Searcher) -> Callable[..., Build]:
    def made(chip: str = "one", **options: object) -> Build:
        asked = BuildOptions(two_layers(), f"toy:{chip}", **options)  # type: ignore[arg-type]
        return build(asked, searcher=searcher)

    return made


Make = Callable[..., Build]


INPUTS = {"x": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)}


def test_figures(make: Make) -> None:
    report = make().report
    assert list(report) == [
        "schema", "model", "target", "totals", "kernels", "search", "checks", "edges", "load", "notes",
    ]  # fmt: skip
    assert all(check["ok"] for check in report["checks"]), report["checks"]
    totals = report["totals"]
    assert (
        totals["bytes_read"] + totals["bytes_written"]
        <= totals["unfused"]["bytes_read"] + totals["unfused"]["bytes_written"]
    )
    assert totals["bound_ratio"] >= 1
    assert sum(k["seconds"] for k in report["kernels"]) == pytest.approx(totals["seconds"])
    json.dumps(report, allow_nan=False)


def test_the_folder_has_every_file_and_is_the_same_again(make: Make, tmp_path: Path) -> None:
    files = build_files(make())
    assert sorted(files) == [
        "ir/00-graph.txt", "ir/10-rewritten.txt", "ir/20-plan.txt", "manifest.json", "memory.json", "program/plan.txt",
        "report.json", "rules/origin.json", "rules/trace.jsonl", "schedule.json", "trace.perfetto.json",
    ]  # fmt: skip
    assert build_files(make()) == files
    trace = json.loads(files["trace.perfetto.json"])
    assert {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"} == {"kernels", "dma"}


def test_stop_after(make: Make) -> None:
    made = make(stop_after="rewritten")
    assert made.plan is None and made.chosen is None and made.rewritten is not None
    assert "report.json" not in build_files(made)


@pytest.mark.parametrize("numerics", ["exact", "reassoc"])
def test_runs_and_checks(make: Make, numerics: str, tmp_path: Path) -> None:
    made = make(numerics=numerics)
    here = run(runnable(made), INPUTS, "random:1", checked=True)
    write_folder(str(tmp_path / "b"), build_files(made))
    there = run(runnable_folder(str(tmp_path / "b")), INPUTS, "random:1", checked=True)
    for result in (here, there):
        assert [d.code for d in result.diagnostics] == ["E0613"]
        assert [(c["name"], c["ok"]) for c in result.checks] == [("check", True)]
    np.testing.assert_array_equal(here.outputs["y"], there.outputs["y"])
    assert not np.array_equal(here.outputs["y"], run(runnable(made), INPUTS, "random:2").outputs["y"])


def test_a_broken_simulator_is_found_by_kernel(make: Make) -> None:
    made = make("broken")
    result = run(runnable(made), INPUTS, "random:1", checked=True)
    (wrong,) = [d for d in result.diagnostics if d.code == "E0801"]
    assert "`tanh`" in wrong.message and "m.tdsl:6" in wrong.message and "in iteration 0" in wrong.message
    assert "the program of kernel" in wrong.message


def test_a_wrong_rule_is_found_and_named(make: Make, tmp_path: Path) -> None:
    rules = tmp_path / "wrong.rules"
    rules.write_text("# tanh is nothing\nrule no_tanh @exact:\n    tanh(x: f32[..S]) => x\n")
    with pytest.raises(DiagnosticError, match="no_tanh"):
        make(rules=(str(rules),))
    made = make(rules=(str(rules),), unchecked=True)
    result = run(runnable(made), INPUTS, "random:1", checked=True)
    (wrong,) = [d for d in result.diagnostics if d.code == "E0801"]
    assert "`tanh`" in wrong.message and "m.tdsl:6" in wrong.message
    assert "in iteration 0" in wrong.message and "`no_tanh`" in wrong.message


def test_settings_that_change_nothing_are_told(make: Make) -> None:
    notes = {d.code: d.message for d in make(overrides=("spare=3",)).diagnostics}
    assert notes == {"E0705": "`--set spare=3` changes nothing: `spare` does not bind: main memory does"}
    assert make(overrides=("bytes_a_second=2e9",)).diagnostics == ()


def test_mistakes_of_several_files_are_told_together(tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"")
    with pytest.raises(DiagnosticError) as caught:
        build(BuildOptions(two_layers(), "toy:two", weights=str(weights), budget={"nodes": 3}))
    assert [d.code for d in caught.value.diagnostics] == ["E0704", "E0711", "E0601"]


def test_no_fit_is_an_error_of_its_target_only() -> None:
    big = Builder("big")
    x = big.input("x", TensorType(F32, (64, 64)))
    graph = big.finish([big.one("neg", x)], ["y"])
    done: list[Outcome] = build_targets(
        [BuildOptions(graph, "toy:small"), BuildOptions(graph, "toy:one")], None, lambda _: None, write=False
    )
    assert [d.code for d in done[0].diagnostics] == ["E0401"]
    assert done[1].build is not None


def test_opt_and_fusion(make: Make) -> None:
    kernels = {opt: make(opt=opt).report["totals"]["kernels"] for opt in range(4)}
    assert kernels[0] > kernels[1] >= kernels[2] >= kernels[3]
    assert make(fuse=False).report["totals"]["kernels"] == kernels[0]
    assert make(opt=0).report["search"]["stop_reason"] == "no_rules"


def test_from_a_level(make: Make, tmp_path: Path) -> None:
    made = make()
    write_folder(str(tmp_path / "b"), build_files(made))
    for level in ("graph", "rewritten", "plan", "program"):
        again = build(BuildOptions(str(tmp_path / "b"), "toy:one", start=(str(tmp_path / "b"), level)))  # type: ignore[arg-type]
        assert again.report["totals"] == made.report["totals"]


def test_a_search_that_explodes_ends_at_its_budget_with_a_program_and_a_note(
    tmp_path: Path, searcher: Searcher
) -> None:
    rules = tmp_path / "boom.rules"
    rules.write_text(
        "# (a + b) + c = a + (b + c)\n"
        "rule boom @reassoc:\n"
        "    add(add(a: float[..S], b: float[..S]), c: float[..S]) <=> add(a, add(b, c))\n"
    )
    g = Builder("sum")
    total, *others = [g.input(f"x{i}", TensorType(F32, (4,))) for i in range(10)]
    for x in others:
        total = g.one("add", total, x)
    graph = g.finish([total], ["y"])
    options = BuildOptions(graph, "toy:one", rules=(str(rules),), budget={"e_nodes": 300})
    made = build(options, searcher=searcher)
    assert made.report["search"]["stop_reason"] == "node_limit"
    (note,) = [d.message for d in made.diagnostics if d.code == "E0707"]
    assert "boom" in note and "300 e-nodes" in note
    assert made.report["totals"]["seconds"] > 0
