"""`layout.csl`: the rectangle, what each PE is given, routes, and the names that the host uses.

Must not know single ops.
"""

from __future__ import annotations

from textwrap import indent

from .sketch import CHAIN, DOWN, ROW, Sketch, functions


def layout_text(s: Sketch) -> str:
    """`layout.csl`: the rectangle, routes, and the names that the host uses."""
    w, h = s.shares.width, s.shares.height
    lines = [
        f"// {s.flow.graph.name} on {s.machine}, {w} x {h} PEs: places, routes, and what the host may copy and launch.",
        "",
        f"const WIDTH: i16 = {w};",
        f"const HEIGHT: i16 = {h};",
        'const memcpy = @import_module("<memcpy/get_params>", .{ .width = WIDTH, .height = HEIGHT });',
        "",
    ]
    if s.scans:
        lines += [
            "// Columns go from neighbour to neighbour along two colors by turns, from the last PE back along `row`.",
            f"const even: color = @get_color({CHAIN[0]});",
            f"const odd: color = @get_color({CHAIN[1]});",
            f"const row: color = @get_color({ROW});",
        ]
    if s.sends_down:
        lines += [
            "// What all rows of PEs share goes from the first row down.",
            f"const down: color = @get_color({DOWN});",
        ]
    body = ["@set_rectangle(WIDTH, HEIGHT);", "", *_tiles(s)]
    if s.scans:
        body += ["", *_row_routes(s)]
    if s.sends_down:
        body += ["", *_down_routes()]
    body += ["", *(f'@export_name("{b.name}", [*]{b.stored}, true);' for b in s.exported)]
    body += [f'@export_name("{name}", fn() void);' for name in functions(s)]
    return "\n".join([*lines, "layout {", indent("\n".join(body), "  "), "}"]) + "\n"


def _tiles(s: Sketch) -> list[str]:
    fields = [".memcpy_params = memcpy.get_params(x)", ".x = x", ".y = y"]
    if s.scans:
        fields += [
            ".from_west = if (x % 2 == 0) odd else even",
            ".to_row = if (x == WIDTH - 1) row else if (x % 2 == 0) even else odd",
            ".row = row",
        ]
    if s.sends_down:
        fields.append(".down = down")
    return [
        "for (@range(i16, HEIGHT)) |y| {",
        "  for (@range(i16, WIDTH)) |x| {",
        '    @set_tile_code(x, y, "pe.csl", .{',
        *(f"      {f}," for f in fields),
        "    });",
        "  }",
        "}",
    ]


def _row_routes(s: Sketch) -> list[str]:
    """Routes of the three colors of a row of PEs."""
    if s.shares.width == 1:
        return [
            "// One PE a row: its columns come back to itself.",
            "for (@range(i16, HEIGHT)) |y| {",
            "  @set_color_config(0, y, row, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ RAMP } } });",
            "}",
        ]
    return [
        "for (@range(i16, HEIGHT)) |y| {",
        "  for (@range(i16, WIDTH - 1)) |x| {",
        "    const hop = if (x % 2 == 0) even else odd;",
        "    @set_color_config(x, y, hop, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ EAST } } });",
        "    @set_color_config(x + 1, y, hop, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ RAMP } } });",
        "  }",
        "  @set_color_config(0, y, row, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ RAMP } } });",
        "  for (@range(i16, 1, WIDTH - 1, 1)) |x| {",
        "    @set_color_config(x, y, row, .{ .routes = .{ .rx = .{ EAST }, .tx = .{ WEST, RAMP } } });",
        "  }",
        "  @set_color_config(WIDTH - 1, y, row, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ WEST, RAMP } } });",
        "}",
    ]


def _down_routes() -> list[str]:
    return [
        "for (@range(i16, WIDTH)) |x| {",
        "  @set_color_config(x, 0, down, .{ .routes = .{ .rx = .{ RAMP }, .tx = .{ SOUTH } } });",
        "  for (@range(i16, 1, HEIGHT - 1, 1)) |y| {",
        "    @set_color_config(x, y, down, .{ .routes = .{ .rx = .{ NORTH }, .tx = .{ SOUTH, RAMP } } });",
        "  }",
        "  @set_color_config(x, HEIGHT - 1, down, .{ .routes = .{ .rx = .{ NORTH }, .tx = .{ RAMP } } });",
        "}",
    ]
