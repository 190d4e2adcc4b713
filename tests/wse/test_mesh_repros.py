"""Programs on which the engines once differed: both must give the same state, or the same fault."""

from pathlib import Path
from typing import Any

import pytest
from mesh_engines import assert_same
from tdslc.compiler.source import DiagnosticError, render_all
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.csl.program import compile_program
from tdslc.targets.wse.mesh.simulation import Simulation

# PE 0 sends east along color 1, or west along color 2 from the last PE.
_LAYOUT = """\
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 4, .height = 1 });
layout {
  @set_rectangle(4, 1);
  for (@range(u16, 4)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .x = x });
    const east = @get_color(1);
    const west = @get_color(2);
    if (x == 0) {
      @set_color_config(x, 0, east, .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
      @set_color_config(x, 0, west, .{ .routes = .{ .rx = .{EAST}, .tx = .{RAMP} } });
    } else if (x == 3) {
      @set_color_config(x, 0, east, .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
      @set_color_config(x, 0, west, .{ .routes = .{ .rx = .{RAMP}, .tx = .{WEST} } });
    } else {
      @set_color_config(x, 0, east, .{ .routes = .{ .rx = .{WEST}, .tx = .{ RAMP, EAST } } });
      @set_color_config(x, 0, west, .{ .routes = .{ .rx = .{EAST}, .tx = .{ RAMP, WEST } } });
    }
  }
  @export_name("go", fn()void);
}
"""
_PE = """\
param memcpy_params;
param x: u16;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
const to_east = @get_dsd(fabout_dsd, .{ .extent = 12, .fabric_color = @get_color(1),
  .output_queue = @get_output_queue(2) });
const to_west = @get_dsd(fabout_dsd, .{ .extent = 12, .fabric_color = @get_color(2),
  .output_queue = @get_output_queue(3) });
const from_west = @get_dsd(fabin_dsd, .{ .extent = 12, .input_queue = @get_input_queue(2) });
const from_east = @get_dsd(fabin_dsd, .{ .extent = 12, .input_queue = @get_input_queue(3) });
var v = @constants([40]f32, 1.5);
const V = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{12} -> v[i] });
"""
_ENDS = """\
comptime {
  if (x == 0) @initialize_queue(@get_output_queue(2), .{ .color = @get_color(1) });
  if (x != 0) @initialize_queue(@get_input_queue(2), .{ .color = @get_color(1) });
  if (x == 3) @initialize_queue(@get_output_queue(3), .{ .color = @get_color(2) });
  if (x != 3) @initialize_queue(@get_input_queue(3), .{ .color = @get_color(2) });
  @export_symbol(go);
}
"""
# What a PE has, and `go` without its end.
CASES = {
    # Words come to PE 2 first; times were those of the lanes in the order of the path.
    "words_in_another_order_than_lanes": ("", """
        if (x == 3) { for (@range(u16, 20)) |k| v[k] = 2.0; @fmovs(to_west, V); } else { @fmovs(V, from_east); }"""),
    # Element k + 1 reads what element k wrote.
    "a_stream_reads_what_it_writes": ("""
        const next = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{12} -> v[i + 1] });""", """
        if (x == 0) { @fmovs(to_east, V); } else { @fadds(next, from_west, V); }"""),
    "a_task_activated_again_after_it_began": ("""
        const again = @get_local_task_id(9);
        var w = @zeros([200]f32);
        const W = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{200} -> w[i] });
        var count: u16 = 0;
        task often() void { count += 1; }
        comptime { @bind_local_task(often, again); }""", """
        @activate(again);
        @fmovs(W, 1.0, .{ .async = true, .activate = again });"""),
    "a_sum_of_products_from_a_number": ("var s: f32 = 2.5;", "@fmacs(&s, s, V, 2.0); @fmacs(V, 0.25, V, V);"),
    "a_pointer_as_a_source": ("var s: f32 = 2.5;", "const p: *f32 = &s; @fadds(V, V, p); s = 3.5; @fadds(V, p, V);"),
    "many_constants_that_nothing_uses": ("""
        var u: [4]f32 = undefined;
        const U = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> u[i] });
        const W = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{2} -> v[i] });""", """
        u[0] = 1.0;
        u[1] = 2.0;
        for (@range(u16, 70)) |k| @fmuls(W, @as(f32, k), U);"""),
    "a_copy_of_what_is_not_set": ("""
        var a = @zeros([4]f32);
        var b: [4]f32 = undefined;""", "v[0] = a[1]; a = b; v[1] = a[2];"),
    "words_beyond_a_variable": ("""
        var a = @constants([8]f32, 1.0);
        var b = @constants([16]f32, 2.0);
        const A = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> a[i] });""", """
        if (x == 0) { @fmovs(to_east, V); } else { @fmovs(A, from_west); }
        b[13] = 3.0;"""),
    "calls_nested_too_deeply": ("""
        var deep: u16 = 16;
        fn count(n: u16) u32 { if (n == 0) return 0; return 1 + count(n - 1); }""", "v[0] = @as(f32, count(deep));"),
    "a_microthread_used_twice": ("""
        var w = @zeros([12]f32);
        const W = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{12} -> w[i] });""", """
        @fadds(V, V, 1.0, .{ .async = true, .ut_id = @get_ut_id(3) });
        @fadds(W, W, 1.0, .{ .async = true, .ut_id = @get_ut_id(3) });"""),
}  # fmt: skip


def outcome(folder: Path, engine: Any) -> tuple[Simulation | None, str]:
    """The run and "", or None and what is said of its fault."""
    wafer = load("wse3").value
    try:
        simulation = Simulation(compile_program(str(folder / "layout.csl"), wafer.front_end, {}), wafer, engine=engine)
        simulation.launch("go")
        simulation.run("commands")
        simulation.run("quiet")
    except DiagnosticError as error:
        return None, render_all(error.diagnostics)
    return simulation, ""


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", CASES)
def test_repro_engines_agree(name: str, tmp_path: Path) -> None:
    has, does = CASES[name]
    (tmp_path / "layout.csl").write_text(_LAYOUT, encoding="utf-8")
    text = f"{_PE}{has}\nfn go() void {{\n{does}\n  sys.unblock_cmd_stream();\n}}\n{_ENDS}"
    (tmp_path / "pe.csl").write_text(text, encoding="utf-8")
    (ours, said), (theirs, wanted) = (outcome(tmp_path, engine) for engine in ("auto", "reference"))
    assert said == wanted
    if ours is not None and theirs is not None:
        assert_same(ours.state, theirs.state)
