"""Traces for ui.perfetto.dev: slices that do not overlap on a track, and arrows from who sends to who takes."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import mesh_case
import pytest
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.csl.program import compile_program
from tdslc.targets.wse.mesh.simulation import Simulation

WAFER = load("wse3").value
LAYOUT = """\
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  for (@range(u16, 2)) |x| @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .first = x == 0 });
  @set_color_config(0, 0, @get_color(0), .{ .routes = .{ .rx = .{RAMP}, .tx = .{EAST} } });
  @set_color_config(1, 0, @get_color(0), .{ .routes = .{ .rx = .{WEST}, .tx = .{RAMP} } });
  @export_name("go", fn()void);
}
"""
# The first PE sends 5 and 3 words, the second takes 2, 4 and 2 of them.
PE = """\
param memcpy_params;
param first: bool;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var v = @zeros([8]f32);
fn part(comptime from: u16, comptime n: u16) mem1d_dsd {
  return @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> v[i + from] });
}
fn out(comptime n: u16) fabout_dsd {
  return @get_dsd(fabout_dsd, .{ .extent = n, .fabric_color = @get_color(0), .output_queue = @get_output_queue(2) });
}
fn in(comptime n: u16) fabin_dsd {
  return @get_dsd(fabin_dsd, .{ .extent = n, .input_queue = @get_input_queue(2) });
}
fn go() void {
  if (first) {
    @fmovs(out(5), part(0, 5));
    @fmovs(out(3), part(5, 3));
  } else {
    @fmovs(part(0, 2), in(2));
    @fmovs(part(2, 4), in(4));
    @fmovs(part(6, 2), in(2));
  }
  sys.unblock_cmd_stream();
}
comptime {
  if (first) {
    @initialize_queue(@get_output_queue(2), .{ .color = @get_color(0) });
  } else {
    @initialize_queue(@get_input_queue(2), .{ .color = @get_color(0) });
  }
  @export_symbol(go);
}
"""


def traced(name: str) -> dict[str, Any]:
    """The trace of one of the programs of tests/wse/programs, run as its check says."""
    simulation = mesh_case.run_checks(name, "wse3", trace=True)
    return json.loads(simulation.perfetto())


def slice_at(trace: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """The slice that an end of an arrow is bound to."""
    track = [e for e in trace["traceEvents"] if e["ph"] == "X" and (e["pid"], e["tid"]) == (event["pid"], event["tid"])]
    (found,) = [e for e in track if e["ts"] <= event["ts"] < e["ts"] + max(e["dur"], 0.0005)]
    return found


def arrows(trace: dict[str, Any]) -> list[tuple[str, str]]:
    """ "PE name" of the source and target of each arrow."""
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    ends: dict[int, list[str]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] in "sf":
            ends.setdefault(event["id"], []).append(f"{names[event['pid']]} {slice_at(trace, event)['name']}")
    return [(source, target) for source, target in ends.values()]


def test_arrows_count_the_words(tmp_path: Path) -> None:
    (tmp_path / "layout.csl").write_text(LAYOUT, encoding="utf-8")
    (tmp_path / "pe.csl").write_text(PE, encoding="utf-8")
    program = compile_program(str(tmp_path / "layout.csl"), WAFER.front_end, {})
    simulation = Simulation(program, WAFER, trace=True)
    simulation.launch("go")
    simulation.run("commands")
    first = "PE 0, 0 @fmovs(out({n}), part({k}, {n})) (pe.csl:{line})"
    second = "PE 1, 0 @fmovs(part({k}, {n}), in({n})) (pe.csl:{line})"
    five, three = (first.format(n=n, k=k, line=line) for n, k, line in ((5, 0, 16), (3, 5, 17)))
    two, four, last = (second.format(n=n, k=k, line=line) for n, k, line in ((2, 0, 19), (4, 2, 20), (2, 6, 21)))
    assert arrows(json.loads(simulation.perfetto())) == [(five, two), (five, four), (three, four), (three, last)]


def test_words_that_start_tasks_have_arrows_to_them() -> None:
    found = Counter(arrows(traced("multicast")))
    send = "PE 0, 0 @mov32(out, source_dsd) (pe.csl:17)"
    assert found == {(send, f"PE {x}, 0 word"): 3 for x in range(1, 5)}


def test_colors_whose_routes_change_are_named() -> None:
    assert traced("switch_of_routes")["otherData"]["colors without flows"].startswith("routes may change: ")


@pytest.mark.parametrize(
    "name", ["async_memory", "back_pressure", "chain_sum", "fifo", "halo", "streams", "task_priority"]
)
def test_slices_of_a_track_do_not_overlap(name: str) -> None:
    trace = traced(name)
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            start, end = round(1000 * e["ts"]), round(1000 * (e["ts"] + e["dur"]))
            tracks.setdefault((e["pid"], e["tid"]), []).append((start, end))
    assert tracks
    for slices in tracks.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(slices)))


def test_a_trace_is_the_same_on_every_run() -> None:
    assert traced("chain_sum") == traced("chain_sum")
