"""What expressions are worth when compiling. Each line is asserted by the program itself."""

from pathlib import Path

import pytest
from tdslc.targets.wse.csl.text import show
from wse_case import checked, compiled, one_pe, told

NUMBERS = """
1 + 2 * 3 == 7
(7 - 10) / 2 == -1
(7 - 10) % 2 == -1
1 << 4 | 1 == 17
6 & 3 == 2
0xff ^ 0b1111 == 0xf0
~@as(u8, 1) == 254
@as(u16, 1) << 15 == 0x8000
@as(i16, -4) >> 1 == -2
!(1 > 2) and 2 >= 2 or false
@as(i16, 10.8) == 10
@as(i16, -10.8) == -10
@as(bool, 0) == false
@as(f32, @as(f16, 0.1)) != @as(f32, 0.1)
@as(f32, 16777217) == 16777216.0
@bitcast(u16, @as(f16, 1.0)) == 0x3c00
@bitcast(i16, @as(u16, 0xffff)) == -1
1.5 * 2.0 == 3.0
1 / 4 == 0
1.0 / 4.0 == 0.25
'A' == 65
1_000 == 1000
"""

TYPES = """
@is_same_type(@type_of(@as(i16, 1) + 1), i16)
@is_same_type(@type_of(1), comptime_int)
@is_same_type(@type_of(a), [3]i16)
@type_of(nothing) == void
@is_same_type(@element_type([2, 3]f32), f32)
@element_count([2, 3]f32) == 6
@rank([2, 3]f32) == 2
@dimensions([2, 3]f32)[1] == 3
@is_same_type(@type_of(@get_int(Mode.run)), u16)
@is_same_type(*const [4]u16, *const [4]u16)
"""

STRUCTS = """
a[0] + a[2] == 5
m[1, 2] == 6
point.x == 3 and point.y == -1
p.color == blue
@get_int(Mode.stop) == 5
Mode.run == Mode.run and Mode.run != Mode.stop
tuple[1] == 20
@concat_structs(.{ .a = 1 }, .{ .b = 2 }).b == 2
@has_field(p, "color") and !@has_field(p, "size")
@field(point, "x") == 3
@strlen(@strcat("ab", "cde")) == 5
@get_array("ab")[1] == 98
(if (1 < 2) 10 else 20) == 10
fib(10) == 55
sum(a) == 9
fives[3] == 5
first(&a) == 2
"""

DECLARATIONS = """
const a = [3]i16{ 2, 4, 3 };
const m = [2, 3]i16{ 1, 2, 3, 4, 5, 6 };
const Point = struct { x: i16, y: i16 };
const point = Point{ .x = 3, .y = -1 };
const blue: color = @get_color(3);
const p = .{ .color = blue };
const Mode = enum(u16) { run, stop = 5 };
const tuple = .{ 10, 20 };
const nothing = {};
const fives = @constants([4]u16, 5);
fn fib(n: u16) u16 {
  if (n < 2) return n;
  return fib(n - 1) + fib(n - 2);
}
fn sum(values: [3]i16) i16 {
  var total: i16 = 0;
  for (values) |v| {
    total += v;
  }
  return total;
}
fn first(values: *const [3]i16) i16 {
  return values[0];
}
"""


@pytest.mark.parametrize("lines", [NUMBERS, TYPES, STRUCTS], ids=["numbers", "types", "structs"])
def test_each_line_holds(lines: str, tmp_path: Path) -> None:
    assert told(checked(lines, DECLARATIONS), tmp_path) == ""


def test_a_function_that_runs_is_typed_code(tmp_path: Path) -> None:
    program = compiled(
        one_pe("""
const id = @get_local_task_id(9);
param scale: f32 = 2.0;
var x = @zeros([4]f32);
var n: i16 = 0;
fn half(v: f32) f32 { return v * 0.5; }
task main() void {
  for (@range(i16, 4)) |i| {
    if (n > 2) break;
    x[i] += half(x[3 - i]) * scale;
  }
  while (n < 10) : (n += 1) {
    if (n == 3) continue;
    n = if (n < 5) 1 else 2;
  }
}
comptime { @bind_local_task(main, id); }
"""),
        tmp_path,
    )
    (made,) = program.classes
    assert show(made.tasks[0].instance) == (
        "task main() void\n"
        "    i.0 = 0\n"
        "    while (i.0 < 4)\n"
        "        if (n > 2)\n"
        "            break\n"
        "        place.1 = &x[i.0 * 4]\n"
        "        (place.1).* = ((place.1).* + (half(x[(3 - i.0) * 4]) * 2.0))\n"
        "    step\n"
        "        i.0 = (i.0 + 1)\n"
        "    while (n < 10)\n"
        "        if (n == 3)\n"
        "            continue\n"
        "        n = choose((n < 5), 1, 2)\n"
        "    step\n"
        "        n = (n + 1)"
    )


def test_what_is_not_taken_is_not_looked_at(tmp_path: Path) -> None:
    text = """
const on = @is_arch("wse3");
fn f() i16 {
  if (on) { return 1; } else { return no_such_name; }
  return also_none;
}
comptime { @comptime_assert(f() == 1); }
"""
    assert told(one_pe(text), tmp_path) == ""


def test_dsds_are_known_when_their_parts_are(tmp_path: Path) -> None:
    program = compiled(
        one_pe("""
var a = @zeros([4, 8]f32);
const row = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{8} -> a[2, i] });
const column = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> a[i, 1] });
const all = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{4, 8} -> a[3 - i, 2 * j - j] });
const oq = @get_output_queue(2);
const out = @get_dsd(fabout_dsd, .{ .extent = 8, .output_queue = oq });
const id = @get_local_task_id(9);
task main() void {
  @fmovs(row, column);
  @fadds(all, all, @increment_dsd_offset(row, 1, f32));
  @fmovs(out, @set_dsd_length(row, 4), .{ .async = true, .activate = main });
}
comptime { @bind_local_task(main, id); @initialize_queue(oq, .{ .color = @get_color(1) }); }
"""),
        tmp_path,
    )
    lines = show(program.classes[0].tasks[0].instance).splitlines()
    row = "mem1d_dsd{base = &a[64], extents = (8), strides = (1), element = f32}"
    assert lines[1] == f"    @fmovs({row}, mem1d_dsd{{base = &a[4], extents = (4), strides = (8), element = f32}})"
    assert "base = &a[96], extents = (4, 8), strides = (-8, 1)" in lines[2]
    assert "base = &a[68]" in lines[2]
    assert lines[3].endswith("async = true, activate = local_task_id 9)")


def test_repro_a_switch_over_every_member_of_an_enum_needs_no_else(tmp_path: Path) -> None:
    text = """
const shade = enum(u16) { DARK, LIGHT = 7 };
var now: shade = shade.DARK;
var r: u16 = 0;
const id = @get_local_task_id(9);
fn other(s: shade) u16 {
  switch (s) {
    shade.DARK => return 1,
    shade.LIGHT => { return 2; },
  }
}
task main() void { r = other(now); }
comptime { @bind_local_task(main, id); }
"""
    assert told(one_pe(text), tmp_path) == ""
    assert "E1009" in told(one_pe(text.replace("LIGHT = 7", "LIGHT = 7, GREY")), tmp_path)


def test_repro_a_function_given_to_a_function_is_called_by_name(tmp_path: Path) -> None:
    text = """
var r: f32 = 3.0;
const id = @get_local_task_id(9);
fn twice(x: f32) f32 { return 2.0 * x; }
fn square(x: f32) f32 { return x * x; }
fn apply(f: fn(f32)f32, x: f32) f32 { return f(x); }
task main() void { r = apply(twice, r) + apply(square, r); }
comptime { @bind_local_task(main, id); }
"""
    (made,) = compiled(one_pe(text), tmp_path).classes
    assert [i.name for i in made.instances] == ["main", "apply", "apply", "twice", "square"]
