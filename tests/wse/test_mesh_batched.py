"""The batched engine and the reference agree, PE by PE and cycle by cycle, on every program that both can run."""

from pathlib import Path
from typing import Any

import mesh_case
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mesh_engines import assert_same
from mesh_rows import Program, Step, layout_text, pe_text, programs
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.csl.program import compile_program
from tdslc.targets.wse.mesh import batched
from tdslc.targets.wse.mesh.simulation import Simulation
from tdslc.targets.wse.mesh.state import Reason, Until
from tree import ROOT

BENCH = ROOT / "bench" / "csl"
WAFER = load("wse3").value
# Programs in which nothing keeps the batched engine from running every stretch.
BOTH = (
    "arrays", "async_memory", "bits", "chain_sum", "conditions", "copies", "dsd_changes", "floats", "functions", "gemv",
    "integers", "launch_arguments", "lib_math", "lib_time", "loops", "params_by_place", "pointers",
    "send_to_neighbour", "started_by_itself", "structs", "switches_of_values", "task_chain", "torus_shift",
    "vector_f16", "vector_f32", "vector_scale", "wavelets_of_16_bits",
)  # fmt: skip
COLLECTIVES = [("chain", 8, 16), ("tree", 8, 16), ("broadcast", 8, 16), ("two_phase", 16, 5), ("ring", 8, 32)]


def ran_batched(simulation: Simulation) -> bool:
    return all(run.engine == "batched" for run in simulation.report().runs)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", BOTH)
def test_engines_agree_on_programs(name: str) -> None:
    ours = mesh_case.run_checks(name, "wse3", "batched")
    assert ran_batched(ours)
    assert_same(ours.state, mesh_case.run_checks(name, "wse3", "reference").state)


def started(path: Path, params: dict[str, int], engine: Any, words: dict[str, int]) -> Simulation:
    """The program run once by `go`, with small whole numbers in the given exported variables (of `words` words)."""
    program = compile_program(str(path), WAFER.front_end, params)
    simulation = Simulation(program, WAFER, engine=engine)
    w, h = program.rectangle.width, program.rectangle.height
    for symbol, count in words.items():
        data = (np.arange(w * h * count) * 7 % 32).astype(np.float32).reshape(h, w, count)
        simulation.write(symbol, 0, 0, w, h, data.view(np.uint32))
    simulation.launch("go")
    simulation.run("commands")
    simulation.run("quiet")
    return simulation


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("pattern", "P", "B"), COLLECTIVES)
def test_engines_agree_on_collectives(pattern: str, P: int, B: int) -> None:
    params = {"P": P, "B": B} | ({"S": 4} if pattern == "two_phase" else {})
    path = BENCH / "collectives" / f"{pattern}.csl"
    ours, theirs = (started(path, params, engine, {"v": B}) for engine in ("batched", "reference"))
    assert ran_batched(ours)
    assert_same(ours.state, theirs.state)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("name", "N", "T"), [("summa", 4, 8), ("mesh_gemm", 4, 4), ("summa", 2, 16)])
def test_engines_agree_on_products(name: str, N: int, T: int) -> None:
    path = BENCH / "gemm" / f"{name}.csl"
    words = {"A": T * T, "B": T * T}
    ours, theirs = (started(path, {"N": N, "T": T}, engine, words) for engine in ("batched", "reference"))
    assert ran_batched(ours)
    assert_same(ours.state, theirs.state)


@pytest.mark.parametrize("name", ["fifo", "control_task", "switch_of_routes", "halo", "maps"])
def test_a_refused_program_leaves_the_state_as_it_was(name: str) -> None:
    program = mesh_case.compiled_program(name, "wse3")
    simulation = Simulation(program, WAFER, engine="batched")
    simulation.launch(next(iter(simulation.image.classes[0].functions)))
    state = simulation.state
    before = state.snapshot()
    came = batched.run(state, Until.COMMANDS, 1_000_000)
    assert isinstance(came, str) and not isinstance(came, Reason)
    for key, kept in before.items():
        if isinstance(kept, np.ndarray):
            np.testing.assert_array_equal(getattr(state, key), kept, key)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
@pytest.mark.usefixtures("threads")
def test_engines_agree_on_random_rows(tmp_path_factory: pytest.TempPathFactory, drawn: Program) -> None:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "layout.csl").write_text(layout_text(drawn), encoding="utf-8")
    (folder / "pe.csl").write_text(pe_text(drawn), encoding="utf-8")
    ours, theirs = (
        started(folder / "layout.csl", {}, engine, {"v": drawn.words}) for engine in ("batched", "reference")
    )
    assert_same(ours.state, theirs.state)


def test_random_rows_are_mostly_run_by_the_batched_engine(tmp_path: Path) -> None:
    drawn = Program(5, 3, 12, 4, (Step("east", 0, "add"), Step("west", 3, "mul"), Step("all", 1, "mov")))
    (tmp_path / "layout.csl").write_text(layout_text(drawn), encoding="utf-8")
    (tmp_path / "pe.csl").write_text(pe_text(drawn), encoding="utf-8")
    assert ran_batched(started(tmp_path / "layout.csl", {}, "batched", {"v": drawn.words}))


# ---- parts of a program for each engine -----------------------------------------------------------------------

# One more row: each even PE sends words one by one to the data task of the next, which takes its time over each.
_OTHER = """\
param memcpy_params;
param odd: u16;
param alone: bool;
param words: u16;
param slow: u16;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
const iq = @get_input_queue(2);
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(5), .output_queue = @get_output_queue(3) });
var v = @zeros([4]f32);
var v_pointer: [*]f32 = &v;
var count: u16 = 0;
var spent = @zeros([1]u32);
fn go() void {
  if (alone) {
    sys.unblock_cmd_stream();
  } else if (odd == 0) {
    for (@range(u16, words)) |k| @mov32(out, @as(u32, k));
    sys.unblock_cmd_stream();
  }
}
task word(w: u32) void {
  for (@range(u16, slow)) |k| spent[0] += w + @as(u32, k);
  count += 1;
  if (count == words) sys.unblock_cmd_stream();
}
comptime {
  if (odd == 0) {
    @initialize_queue(@get_output_queue(3), .{ .color = @get_color(5) });
  } else {
    @bind_data_task(word, @get_data_task_id(iq));
    @initialize_queue(iq, .{ .color = @get_color(5) });
  }
  @export_symbol(v_pointer, "v");
  @export_symbol(go);
}
"""


def with_another_row(p: Program, words: int, slow: int) -> dict[str, str]:
    """The files of a random program that has one more row, of data tasks."""
    more = f"""\
  const l5 = @get_color(5);
  for (@range(u16, {p.P})) |x| {{
    @set_tile_code(x, {p.rows}, "other.csl", .{{ .memcpy_params = memcpy.get_params(x), .odd = x % 2,
      .alone = x == {p.P} - 1, .words = {words}, .slow = {slow} }});
    if (x % 2 == 0) {{
      if (x < {p.P} - 1) @set_color_config(x, {p.rows}, l5, .{{ .routes = .{{ .rx = .{{RAMP}}, .tx = .{{EAST}} }} }});
    }} else {{
      @set_color_config(x, {p.rows}, l5, .{{ .routes = .{{ .rx = .{{WEST}}, .tx = .{{RAMP}} }} }});
    }}
  }}
  @export_name("v", [*]f32, true);
"""
    layout = layout_text(p).replace(f".height = {p.rows} ", f".height = {p.rows + 1} ")
    layout = layout.replace(f"@set_rectangle({p.P}, {p.rows});", f"@set_rectangle({p.P}, {p.rows + 1});")
    layout = layout.replace('  @export_name("v", [*]f32, true);\n', more)
    return {"layout.csl": layout, "pe.csl": pe_text(p), "other.csl": _OTHER}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(1, 6), st.integers(0, 40))
def test_parts_run_side_by_side(
    tmp_path_factory: pytest.TempPathFactory, drawn: Program, words: int, slow: int
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    for name, text in with_another_row(drawn, words, slow).items():
        (folder / name).write_text(text, encoding="utf-8")
    ours, theirs = (started(folder / "layout.csl", {}, engine, {"v": 1}) for engine in ("auto", "reference"))
    assert_same(ours.state, theirs.state)


def test_a_report_tells_which_parts_each_engine_ran(tmp_path: Path) -> None:
    drawn = Program(5, 2, 12, 4, (Step("east", 0, "add"), Step("west", 3, "mul"), Step("all", 1, "mov")))
    for name, text in with_another_row(drawn, 3, 5).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    runs = started(tmp_path / "layout.csl", {}, "auto", {"v": 1}).report().as_dict()["engines"]
    assert [(run["engine"], run["why"]) for run in runs[:2]] == [
        ("batched", "nothing contends among 11 of 15 PEs"),
        ("reference", "the batched engine leaves 4 PEs to it: data or control tasks"),
    ]


# ---- words that outlive a command -------------------------------------------------------------------------------

_FAR_LAYOUT = """\
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 40, .height = 1 });
layout {
  @set_rectangle(40, 1);
  for (@range(u16, 40)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .x = x });
    @set_color_config(x, 0, @get_color(0), .{ .routes = .{
      .rx = if (x == 0) [1]direction{RAMP} else [1]direction{WEST},
      .tx = if (x == 39) [1]direction{RAMP} else [1]direction{EAST},
    } });
  }
  @export_name("v", [*]f32, true);
  @export_name("go", fn()void);
}
"""
_FAR = """\
param memcpy_params;
param x: u16;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var v = @zeros([1]f32);
var v_pointer: [*]f32 = &v;
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(0), .output_queue = @get_output_queue(3) });
fn go() void {
  if (x == 0) @fmovs(out, v[0]);
  sys.unblock_cmd_stream();
}
comptime {
  if (x == 0) @initialize_queue(@get_output_queue(3), .{ .color = @get_color(0) });
  if (x == 39) @initialize_queue(@get_input_queue(2), .{ .color = @get_color(0) });
  @export_symbol(v_pointer, "v");
  @export_symbol(go);
}
"""


def test_repro_words_in_routers_keep_time_going(tmp_path: Path) -> None:
    (tmp_path / "layout.csl").write_text(_FAR_LAYOUT, encoding="utf-8")
    (tmp_path / "pe.csl").write_text(_FAR, encoding="utf-8")
    ours, theirs = (started(tmp_path / "layout.csl", {}, engine, {"v": 1}) for engine in ("auto", "reference"))
    assert_same(ours.state, theirs.state)
