"""Programs: classes of PEs, what they declare, and their memory."""

from pathlib import Path

import numpy as np
import pytest
from tdslc.targets.wse.chip import load, machine_names
from tdslc.targets.wse.csl.layout import Layout
from tdslc.targets.wse.csl.program import compile_placed, one_file, symbols_of
from tdslc.targets.wse.csl.routes import Routes
from tdslc.targets.wse.csl.text import show
from tdslc.targets.wse.csl.world import Rectangle, library_names
from wse_case import compiled, one_pe, told

HALO = """// FILE: layout.csl
param W: u16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = W, .height = 1 });
const right: color = @get_color(0);
layout {
  @set_rectangle(W, 1);
  for (@range(u16, W)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{
      .memcpy_params = memcpy.get_params(x), .weight = @as(f32, x) * 0.5, .first = x == 0, .last = x == W - 1 });
    if (x == 0) {
      @set_color_config(x, 0, right, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });
    } else if (x == W - 1) {
      @set_color_config(x, 0, right, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });
    } else {
      @set_color_config(x, 0, right, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ EAST, RAMP } } });
    }
  }
  @export_name("y", [*]f32, true);
  @export_name("go", fn(i16)void);
}
// FILE: pe.csl
param memcpy_params;
param weight: f32;
param first: bool;
param last: bool;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
const position = @import_module("<layout>");
const oq = @get_output_queue(2);
const iq = @get_input_queue(3);
const done = @get_local_task_id(9);
const wavelet_id: data_task_id = if (@is_arch("wse3")) @get_data_task_id(iq) else @get_data_task_id(@get_color(0));
var y = @zeros([2]f32);
var y_ptr: [*]f32 = &y;
const out = @get_dsd(fabout_dsd, .{ .extent = 1, .fabric_color = @get_color(0), .output_queue = oq });
fn go(n: i16) void {
  y[0] = weight * @as(f32, n);
  if (first) {
    @fmovs(out, y[0], .{ .async = true, .activate = done });
  }
}
task wavelet(v: f32) void {
  y[1] += v + @as(f32, position.get_x_coord());
  @activate(done);
}
task finish() void {
  sys.unblock_cmd_stream();
}
comptime {
  @bind_local_task(finish, done);
  @block(done);
  if (!last) @unblock(done);
  if (first) {
    @initialize_queue(oq, if (@is_arch("wse3")) .{ .color = @get_color(0) } else .{});
  } else {
    @bind_data_task(wavelet, wavelet_id);
    @initialize_queue(iq, .{ .color = @get_color(0) });
  }
  @export_symbol(y_ptr, "y");
  @export_symbol(go);
}
"""


@pytest.mark.parametrize("arch", machine_names())
def test_classes_follow_what_steers_the_program(arch: str, tmp_path: Path) -> None:
    program = compiled(HALO, tmp_path, arch, {"W": 6})
    first, middle, last = sorted(program.classes, key=lambda c: int(c.x[0]))
    assert (first.x.tolist(), middle.x.tolist(), last.x.tolist()) == ([0], [1, 2, 3, 4], [5])
    assert program.class_of.shape == (1, 6) and len(set(program.class_of.ravel().tolist())) == 3
    assert [(k.kind, k.instance.name) for k in middle.tasks] == [("local", "finish"), ("data", "wavelet")]
    assert [k.kind for k in first.tasks] == ["local"]
    assert last.blocked == (("local_task_id", 9),) and middle.blocked == ()
    assert [(q.is_input, q.id) for q in first.queues] == [(False, 2)]
    assert [(q.is_input, q.id, q.color) for q in middle.queues] == [(True, 3, 0)]
    assert list(middle.exports) == ["y", "go"]


def test_what_differs_by_pe_is_a_lane_of_a_constant(tmp_path: Path) -> None:
    program = compiled(HALO, tmp_path, params={"W": 6})
    middle = next(c for c in program.classes if len(c.x) == 4)
    weight = middle.params["weight"].data
    assert isinstance(weight, np.ndarray) and weight.tolist() == [0.5, 1.0, 1.5, 2.0]
    go = middle.exports["go"]
    assert show(go).splitlines()[1] == "    y = (<0.5, 1.0, 1.5, 2.0> * convert(f32, n.0))"
    wavelet = next(k.instance for k in middle.tasks if k.kind == "data")
    assert "get_x_coord()" in show(wavelet)


def test_memory_is_laid_out_in_order_and_aligned(tmp_path: Path) -> None:
    text = """
const id = @get_local_task_id(9);
var small: u8 = 1;
var wide: f32 = 2.0;
var words = @zeros([3]u16);
var far: [4]f32 align(16) = @zeros([4]f32);
const table = [2]i16{ 7, 8 };
var k: u16 = 0;
task main() void { small = 2; wide = 1.0; words[k] = 1; far[k] = 1.0; words[0] = @bitcast(u16, table[k]); }
comptime { @bind_local_task(main, id); }
"""
    (made,) = compiled(one_pe(text), tmp_path).classes
    places = {e.symbol.name: (e.address, e.bytes) for e in made.memory.entries}
    assert places["wide"] == (4, 4) and places["words"] == (8, 6)
    assert places["far"][0] % 16 == 0 and places["table"][1] == 4
    assert [s.name for s in symbols_of(made)] == list(places)
    assert made.memory.table().splitlines()[0].split() == ["16", "bytes", "far", "[4]f32"]


def test_a_module_has_its_own_variables_at_each_import(tmp_path: Path) -> None:
    text = one_pe(
        """
const one = @import_module("counter.csl", .{ .step = 1 });
const two = @import_module("counter.csl", .{ .step = 2 });
const id = @get_local_task_id(9);
task main() void { one.bump(); two.bump(); one.count = 0; }
comptime { @bind_local_task(main, id); }
"""
    )
    text += "// FILE: counter.csl\nparam step: i16;\nvar count: i16 = 0;\nfn bump() void { count += step; }\n"
    (made,) = compiled(text, tmp_path).classes
    assert [i.name for i in made.instances] == ["main", "bump", "bump"]
    assert [s.name for s in symbols_of(made)] == ["count", "count"]


def test_functions_are_shared_by_equal_comptime_arguments(tmp_path: Path) -> None:
    text = """
const math = @import_module("<math>");
const id = @get_local_task_id(9);
var a: f32 = 2.0;
var b: f16 = 2.0;
fn scaled(comptime k: i16, x: f32) f32 { return @as(f32, k) * x; }
task main() void { a = scaled(2, a); a = scaled(2, a); a = scaled(3, a); a = math.sqrt(a); b = math.sqrt(b); }
comptime { @bind_local_task(main, id); }
"""
    (made,) = compiled(one_pe(text), tmp_path).classes
    assert [i.name for i in made.instances] == ["main", "scaled", "scaled", "sqrt", "sqrt"]


# <kernels/fft/fft3d_pe> exports what only its own layout names; tests/wse/programs/fft3d has both.
# What the layout parts of <collectives_2d> and <kernels/tally> give to a PE.
LINE = (
    ".{ .is_x = true, .length = 2, .send = @get_color(0), .take = @get_color(1), .queues = [2]u16{ 2, 4 },"
    " .taken_task = @get_local_task_id(8), .sent_task = @get_local_task_id(9) }"
)
COUNT = (
    ".{ .is_root = false, .from_below = true, .from_behind = true, .below = @get_color(12),"
    " .behind = @get_color(13), .send = @get_color(14), .goal = @as(u32, 8) }"
)


@pytest.mark.parametrize("arch", machine_names())
@pytest.mark.parametrize("name", [n for n in library_names() if n != "kernels/fft/fft3d_pe"])
def test_every_library_is_well_formed(name: str, arch: str, tmp_path: Path) -> None:
    given = {
        "memcpy/get_params": ".{ .width = 4, .height = 2 }", "memcpy/memcpy": ".{ .px = 1, .width = 4, .height = 2 }",
        "debug": '.{ .key = "k", .buffer_size = 8 }', "malloc": ".{ .buffer_num_words = 8 }",
        "collectives_2d/pe": f".{{ .dim_params = {LINE} }}",
        "kernels/tally/layout": ".{ .kernel_height = 2, .kernel_width = 2, .phase2_tally = 8, .colors = [3]color{"
        " @get_color(12), @get_color(13), @get_color(14) } }",
        "kernels/tally/pe": f".{{ .tally_params = {COUNT}, .output_queues = [2]u16{{ 4, 5 }}, .input_queues = [2]u16{{"
        " 6, 7 }, .callback = @get_local_task_id(15) }",
        "kernels/fft/fft3d_layout": '.{ .width = 2, .memcpy = @import_module("<empty>") }',
    }.get(name, ".{}")  # fmt: skip
    assert told(one_pe(f'const m = @import_module("<{name}>", {given});'), tmp_path, arch) == ""


USES = """
const id = @get_local_task_id(9);
const math = @import_module("<math>");
const time = @import_module("<time>");
const ctrl = @import_module("<control>");
const random = @import_module("<random>");
const trace = @import_module("<debug>", .{ .key = "t", .buffer_size = 64 });
const print = @import_module("<simprint>");
const config = @import_module("<tile_config>");
const directions = @import_module("<directions>");
const switches = @import_module("<memcpy/memcpy_switches>");
const complex = @import_module("<complex>");
const ops = @import_module("<dsd_ops>");
const arena = @import_module("<malloc>", .{ .buffer_num_words = 64, .asserts_enabled = true });
var z = complex.get_complex_64(1.0, 2.0);
const d = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{3} -> stamp[i] });
var x: f32 = 1.0;
var h: f16 = 1.0;
var n: u16 = 1;
var stamp = @zeros([time.tsc_size_words]u16);
var word: u32 = 0;
task main() void {
  x = math.sqrt(x) + math.exp_f32(x) + math.pow(x, 2.0) + math.max(x, 1.0) + math.abs(x) + math.sig(x) + math.sign(x);
  h = math.tanh(h) + math.invsqrt_f16(h) + math.NaN(f16);
  if (math.isFinite(x) and !math.signbit(x)) x = math.floor(x) * math.PI;
  time.enable_tsc();
  time.get_timestamp(&stamp);
  word = ctrl.encode_single_payload(ctrl.opcode.SWITCH_ADV, true, {}, n);
  word = ctrl.encode_control_task_payload(@get_control_task_id(40));
  const commands = [2]ctrl.opcode{ ctrl.opcode.NOP, ctrl.opcode.TEARDOWN };
  word = ctrl.encode_payload(2, commands, [2]bool{ false, true }, true, {});
  word = switches.ctrl(switches.switch_cmd_11());
  x = random.random_f32(-1.0, 1.0) + random.random_normal_f32();
  trace.trace(n);
  trace.trace_string("hello");
  trace.trace_timestamp();
  print.fmt_with_coords("{d} {{ {f} {X}", .{ n, x, word });
  config.color_config.reset_routes(@get_color(1), .{ .rx = WEST, .tx = [2]direction{ EAST, RAMP } });
  config.switch_config.set_rx_switch_pos1(@get_color(1), RAMP);
  config.teardown.exit(@get_color(1));
  config.task_priority.set_task_priority(id);
  z = complex.multiply_complex(z, complex.get_complex(x, 1.0));
  x = complex.add_complex_64(z, z).imag;
  if (ops.mov(u16, d, n, .{})) ops.add(u16, u16, d, d, d, .{ .async = true, .activate = id });
  if (arena.has_enough_space(f32, 4)) arena.malloc(f32, 4)[1] = x;
}
comptime {
  @bind_local_task(main, id);
  @comptime_assert(directions.flip(EAST) == WEST and directions.rotate_clockwise(WEST) == NORTH);
  @comptime_assert(directions.dirToRxBits(RAMP) == directions.RX_RAMP);
  @comptime_assert(ctrl.encode_control_task_payload(@get_control_task_id(3)) == 3 << 16);
  @comptime_assert(switches.ctrl(switches.teardown_cmd_1()) >> 22 & 3 == 3);
}
"""


@pytest.mark.parametrize("arch", machine_names())
def test_libraries_as_they_are_used(arch: str, tmp_path: Path) -> None:
    assert told(one_pe(USES), tmp_path, arch) == ""


def test_only_libraries_ask_for_the_machine(tmp_path: Path) -> None:
    assert "E1003" in told(one_pe("fn f() void { @tdslc_unblock_cmd_stream(); }\ncomptime { f(); }"), tmp_path)


def test_machines_differ_where_the_documents_say() -> None:
    two, three = (load(name).value for name in ("wse2", "wse3"))
    assert (two.front_end.output_queues, three.front_end.output_queues) == (6, 8)
    assert (two.front_end.local_ids, three.front_end.local_ids) == ((0, 30), (8, 30))
    assert 10 in two.front_end.switch_colors and 10 not in three.front_end.switch_colors
    assert load("wse3", ["pe.memory_bytes=65536"]).value.front_end.memory_bytes == 65536
    assert all(
        load(name).kind(key) in ("doc", "measured", "guess") for name in machine_names() for key in load(name).figures
    )


def test_a_code_region_needs_no_layout(tmp_path: Path) -> None:
    path = tmp_path / "region.csl"
    path.write_text(
        "param size: u16;\nexport var data = @zeros([size]f32);\nconst id = @get_local_task_id(8);\n"
        "task main() void { data[0] = 1.0; }\ncomptime { @bind_local_task(main, id); @activate(id); }\n"
    )
    y, x = (axis.ravel() for axis in np.mgrid[:2, :3])
    rectangle = Rectangle(3, 2, (3, 2), (0, 0))
    layout = Layout(rectangle, (one_file(str(path), {"size": 4}, x, y),), Routes(3, 2, [], [], {}), None)
    (made,) = compile_placed(layout, load("wse2").value.front_end, "regions").classes
    assert (made.x.tolist(), made.y.tolist()) == ([0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1])
    assert list(made.exports) == ["data"] and made.active == (8,)
    assert made.memory.used_bytes == 16
