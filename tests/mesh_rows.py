"""Random programs in CSL for rows of PEs: steps of passing on, taking in, multicast and work in memory, with PEs that
go different ways and start at different times. No step waits for one that comes later, so all of them end."""

from dataclasses import dataclass

from hypothesis import strategies as st

OPERATIONS = ("mov", "add", "mul", "mac")


@dataclass(frozen=True)
class Step:
    """What the row does: `east` and `west` add along the row from one end to the other, `all` sends from the first PE
    to all others, `shift` from every even PE to the next, `work` is in memory alone. `skew` delays PEs by place."""

    kind: str
    skew: int
    operation: str


@dataclass(frozen=True)
class Program:
    """`P` PEs in each of `rows` rows, vectors of `words` f32; the steps go round `rounds` times."""

    P: int
    rows: int
    words: int
    rounds: int
    steps: tuple[Step, ...]


def programs() -> st.SearchStrategy[Program]:
    step = st.builds(
        Step, st.sampled_from(["east", "west", "all", "shift", "work"]), st.integers(0, 40), st.sampled_from(OPERATIONS)
    )
    steps = st.lists(step, min_size=1, max_size=4).map(tuple)
    return st.builds(
        Program, st.integers(2, 6), st.integers(1, 3), st.sampled_from([1, 2, 7, 12, 33]), st.integers(1, 3), steps
    )


_LAYOUT = """\
const memcpy = @import_module("<memcpy/get_params>", .{{ .width = {P}, .height = {rows} }});
layout {{
  @set_rectangle({P}, {rows});
  for (@range(u16, {P})) |x| {{
    for (@range(u16, {rows})) |y| {{
      @set_tile_code(x, y, "pe.csl", .{{ .memcpy_params = memcpy.get_params(x), .x = x, .y = y, .odd = x % 2,
        .is_first = x == 0, .is_last = x == {P} - 1 }});
      // Colors 0 and 1 go east in turn, 2 and 3 west, 4 from the first PE to all.
      const out = @get_color(x % 2);
      const in = @get_color(1 - x % 2);
      const back = @get_color(2 + x % 2);
      const come = @get_color(3 - x % 2);
      if (x < {P} - 1) @set_color_config(x, y, out, .{{ .routes = .{{ .rx = .{{RAMP}}, .tx = .{{EAST}} }} }});
      if (x > 0) @set_color_config(x, y, in, .{{ .routes = .{{ .rx = .{{WEST}}, .tx = .{{RAMP}} }} }});
      if (x > 0) @set_color_config(x, y, back, .{{ .routes = .{{ .rx = .{{RAMP}}, .tx = .{{WEST}} }} }});
      if (x < {P} - 1) @set_color_config(x, y, come, .{{ .routes = .{{ .rx = .{{EAST}}, .tx = .{{RAMP}} }} }});
      const line = @get_color(4);
      if (x == 0) {{
        @set_color_config(x, y, line, .{{ .routes = .{{ .rx = .{{RAMP}}, .tx = .{{EAST}} }} }});
      }} else if (x == {P} - 1) {{
        @set_color_config(x, y, line, .{{ .routes = .{{ .rx = .{{WEST}}, .tx = .{{RAMP}} }} }});
      }} else {{
        @set_color_config(x, y, line, .{{ .routes = .{{ .rx = .{{WEST}}, .tx = .{{ RAMP, EAST }} }} }});
      }}
    }}
  }}
  @export_name("v", [*]f32, true);
  @export_name("go", fn()void);
}}
"""

_PE = """\
param memcpy_params;
param x: u16;
param y: u16;
param odd: u16;
param is_first: bool;
param is_last: bool;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
const next_id = @get_local_task_id(9);
const done_id = @get_local_task_id(12);
var v = @zeros([{n}]f32);
var w = @constants([{n}]f32, 3.0);
var u = @zeros([{n}]f32);
var count = @zeros([1]u32);
var v_pointer: [*]f32 = &v;
const V = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{n}}} -> v[i] }});
const W = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{n}}} -> w[i] }});
const U = @get_dsd(mem1d_dsd, .{{ .tensor_access = |i|{{{n}}} -> u[i] }});
const east = @get_dsd(fabout_dsd, .{{ .extent = {n}, .fabric_color = @get_color(odd),
  .output_queue = @get_output_queue(0) }});
const west = @get_dsd(fabout_dsd, .{{ .extent = {n}, .fabric_color = @get_color(2 + odd),
  .output_queue = @get_output_queue(1) }});
const all = @get_dsd(fabout_dsd, .{{ .extent = {n}, .fabric_color = @get_color(4),
  .output_queue = @get_output_queue(2) }});
const from_west = @get_dsd(fabin_dsd, .{{ .extent = {n}, .input_queue = @get_input_queue(3) }});
const from_east = @get_dsd(fabin_dsd, .{{ .extent = {n}, .input_queue = @get_input_queue(4) }});
const from_all = @get_dsd(fabin_dsd, .{{ .extent = {n}, .input_queue = @get_input_queue(5) }});
var at: u16 = 0;
var round: u16 = 0;

fn delay(much: u16) void {{
  for (@range(u16, much)) |k| count[0] += @as(u32, k) * 3;
}}

fn go() void {{
  delay(y * 5 + x % 3);
  @activate(next_id);
}}

task next() void {{
  const step = at;
  at += 1;
{steps}
  if (round == {rounds}) {{
    sys.unblock_cmd_stream();
  }} else {{
    at = 0;
    round += 1;
    @activate(next_id);
  }}
}}

// Runs when the second of what it waits for has come.
task done() void {{
  @block(done_id);
  if (v[0] > u[0]) v[0] = v[0] * 0.5 else v[0] += 1.0;
  @activate(next_id);
}}

comptime {{
  @bind_local_task(next, next_id);
  @bind_local_task(done, done_id);
  @block(done_id);
  if (!is_last) {{
    @initialize_queue(@get_output_queue(0), .{{ .color = @get_color(odd) }});
    @initialize_queue(@get_input_queue(4), .{{ .color = @get_color(3 - odd) }});
  }}
  if (!is_first) {{
    @initialize_queue(@get_output_queue(1), .{{ .color = @get_color(2 + odd) }});
    @initialize_queue(@get_input_queue(3), .{{ .color = @get_color(1 - odd) }});
    @initialize_queue(@get_input_queue(5), .{{ .color = @get_color(4) }});
  }} else {{
    @initialize_queue(@get_output_queue(2), .{{ .color = @get_color(4) }});
  }}
  @export_symbol(v_pointer, "v");
  @export_symbol(go);
}}
"""

_WORK = {
    "mov": "@fmovs(U, V);", "add": "@fadds(V, V, W);", "mul": "@fmuls(V, V, W);", "mac": "@fmacs(V, V, W, v[0]);",
}  # fmt: skip


def layout_text(p: Program) -> str:
    return _LAYOUT.format(P=p.P, rows=p.rows)


def pe_text(p: Program) -> str:
    steps = "\n".join(f"  if (step == {k}) {{\n{_step(s)}\n    return;\n  }}" for k, s in enumerate(p.steps))
    return _PE.format(n=p.words, rounds=p.rounds, steps=steps)


def _step(s: Step) -> str:
    lines = [f"    delay((x * {s.skew}) % 23);", f"    {_WORK[s.operation]}"]
    match s.kind:
        case "east":
            lines += _chain("is_first", "is_last", "east", "from_west")
        case "west":
            lines += _chain("is_last", "is_first", "west", "from_east")
        case "all":
            lines += [
                "    if (is_first) @fmovs(all, V) else @fadds(U, from_all, W);",
                "    @activate(next_id);",
            ]
        case "shift":
            lines += [
                "    if (odd == 0) {",
                "      if (!is_last) @fmovs(east, V, .{ .async = true, .unblock = done_id }) else @unblock(done_id);",
                "    } else {",
                "      @fadds(U, from_west, U, .{ .async = true, .unblock = done_id });",
                "    }",
                "    @fmuls(W, W, 1.5);",
                "    @activate(done_id);",
            ]
        case _:
            lines += ["    @fmuls(U, W, v[0], .{ .async = true, .activate = next_id });", "    delay(x % 2 * 9);"]
    return "\n".join(lines)


def _chain(first: str, last: str, out: str, come: str) -> list[str]:
    return [
        f"    if ({first}) {{ @fmovs({out}, V); }}",
        f"    else if ({last}) {{ @fadds(V, {come}, V); }}",
        f"    else {{ @fadds({out}, {come}, V); }}",
        "    @activate(next_id);",
    ]
