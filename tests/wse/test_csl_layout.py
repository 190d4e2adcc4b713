"""Layouts: loops evaluated at once give what walking them gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tdslc.targets.wse.csl import program as program_module
from tdslc.targets.wse.csl.layout import evaluate_layout
from tdslc.targets.wse.csl.program import Program
from wse_case import compiled, told

PE = "// FILE: pe.csl\nparam a = 0;\nparam b = 0;\nparam edge = false;\nparam c = {};\n"

CHAIN = """// FILE: layout.csl
param W: u16;
param H: u16;
const c0: color = @get_color(0);
const c1: color = @get_color(1);
fn turn(x: u16) direction {
  if (x % 3 == 0) return NORTH;
  return if (x % 3 == 1) EAST else SOUTH;
}
layout {
  @set_rectangle(W, H);
  for (@range(u16, W)) |x| {
    const even = x % 2 == 0;
    for (@range(u16, H)) |y| {
      var n = x * 10;
      if (y > x) { n += y; }
      @set_tile_code(x, y, "pe.csl", .{ .a = n, .b = y * 3, .edge = x == 0 or y == H - 1, .c = if (even) c0 else c1 });
      if (x > 0 and x < W - 1) {
        @set_color_config(x, y, if (even) c0 else c1, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ EAST, RAMP } } });
      } else {
        @set_color_config(x, y, c0, .{ .routes = .{ .rx = .{ RAMP }, .tx = turn(x + y) } });
      }
    }
  }
}
"""

COUNTED = """// FILE: layout.csl
param W: u16;
param H: u16;
layout {
  @set_rectangle(W, H);
  var x: u16 = 0;
  while (x < W) : (x += 1) {
    var y: u16 = 0;
    while (y < H) : (y += 1) {
      @set_tile_code(x, y, "pe.csl", .{ .a = x * y });
    }
    @set_color_config(x, y - 1, @get_color(2), .{ .routes = .{ .rx = .{ NORTH }, .tx = .{ RAMP } } });
  }
  @comptime_assert(x == W);
}
"""

DEPENDENT = """// FILE: layout.csl
param W: u16;
param H: u16;
layout {
  @set_rectangle(W, H);
  var total: u16 = 0;
  for (@zeros([W]u8)) |_, x| {
    for (@range(u16, H)) |y| {
      total += x + y;
      @set_tile_code(x, y, "pe.csl", .{ .a = total });
    }
  }
}
"""

SHARED = """// FILE: layout.csl
param W: u16;
param H: u16;
var count: u16 = 0;
fn next() u16 {
  count += 1;
  return count;
}
layout {
  @set_rectangle(W, H);
  for (@range(u16, W)) |x| {
    for (@range(u16, H)) |y| {
      @set_tile_code(x, y, "pe.csl", .{ .a = next() });
    }
  }
}
"""


def facts(program: Program) -> dict[str, Any]:
    """What a layout comes to, PE by PE."""
    h, w = program.rectangle.height, program.rectangle.width
    pes: dict[str, Any] = {}
    for made in program.classes:
        for k, (x, y) in enumerate(zip(made.x.tolist(), made.y.tolist(), strict=True)):
            params = {n: v.data[k].item() if isinstance(v.data, np.ndarray) else v.data for n, v in made.params.items()}
            pes[f"{x},{y}"] = (made.path, params)
    routes = {c: [m.tolist() for m in program.routes.masks(c)] for c in sorted(program.routes.grid)}
    return {"size": (w, h), "pes": dict(sorted(pes.items())), "routes": routes}


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 4), (7, 1)], ids=str)
@pytest.mark.parametrize("text", [CHAIN, COUNTED, DEPENDENT, SHARED], ids=["chain", "counted", "dependent", "shared"])
def test_at_once_is_as_one_by_one(
    text: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = dict(zip("WH", size, strict=True))
    at_once = facts(compiled(text + PE, tmp_path, params=params))
    monkeypatch.setattr(program_module._Hooks, "loop", staticmethod(lambda stmt, f: False))
    assert facts(compiled(text + PE, tmp_path, params=params)) == at_once
    assert len(at_once["pes"]) == size[0] * size[1]


def test_a_wafer_takes_few_evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def counted(module: Any) -> Any:
        made = evaluate_layout(module)
        steps.append(module.world.steps)
        return made

    monkeypatch.setattr(program_module, "evaluate_layout", counted)
    for size in (16, 256):
        compiled(CHAIN + PE, tmp_path, params={"W": size, "H": size})
    assert steps[0] == steps[1] < 2000


def test_switch_positions_and_filters_become_masks(tmp_path: Path) -> None:
    program = compiled(
        """// FILE: layout.csl
layout {
  @set_rectangle(2, 1);
  for (@range(i16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl");
  }
  @set_color_config(1, 0, @get_color(4), .{
    .routes = .{ .rx = .{ WEST }, .tx = .{ EAST, RAMP } },
    .switches = .{ .pos1 = .{ .rx = RAMP }, .pos3 = .{ .tx = NORTH }, .ring_mode = true, .current_switch_pos = 1,
                   .pop_mode = .{ .always_pop = true } },
    .filter = .{ .kind = .{ .counter = true }, .count_data = true, .limit1 = 5, .max_counter = 4 },
  });
}
"""
        + PE,
        tmp_path,
    )
    rx, tx = program.routes.masks(4)
    west, east, north, ramp = 1, 2, 8, 16
    assert rx[:, 0, 1].tolist() == [west, ramp, 0, ramp] and tx[:, 0, 1].tolist() == [
        east | ramp,
        east | ramp,
        0,
        north,
    ]
    assert not rx[:, 0, 0].any()
    (config,) = program.routes.configs
    assert (config.current, config.ring, config.pop) == (1, True, "always_pop")
    assert config.filter is not None and dict(config.filter.fields) == {"count_data": 1, "limit1": 5, "max_counter": 4}


def test_the_fabric_must_hold_the_rectangle(tmp_path: Path) -> None:
    text = "// FILE: layout.csl\nlayout { @set_rectangle(4, 4); }\n"
    assert "E1037" in told(text, tmp_path)


def test_routes_both_ways_are_no_circle(tmp_path: Path) -> None:
    text = """// FILE: layout.csl
const c = @get_color(1);
layout {
  @set_rectangle(64, 2);
  for (@range(i16, 64)) |x| {
    for (@range(i16, 2)) |y| {
      @set_tile_code(x, y, "pe.csl");
      if (y == 0) {
        const out = if (x == 63) SOUTH else EAST;
        @set_color_config(x, y, c, .{ .routes = .{ .rx = if (x == 0) RAMP else WEST, .tx = out } });
      } else {
        const in = if (x == 63) NORTH else EAST;
        @set_color_config(x, y, c, .{ .routes = .{ .rx = in, .tx = if (x == 0) RAMP else WEST } });
      }
    }
  }
}
"""
    assert told(text + PE, tmp_path) == ""
