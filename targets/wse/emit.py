"""`pe.csl`, which every PE runs: what stages share, the stages, and what the host launches.

docs/decisions/0012-wse-target.md tells how it works. Only what `compile_program` reads of CSL is written. Must not know
the compiler's plans.
"""

from __future__ import annotations

from .elementwise import PRELUDE, extreme, stored_bytes
from .emit_stages import has_end, stage_texts
from .placement import Placement
from .sketch import (
    COLUMN_ARRIVED,
    DOWN_IN,
    DOWN_OUT,
    FORWARD,
    LOAD,
    ROW_IN,
    ROW_OUT,
    SEND_OWN,
    WEST_IN,
    Sketch,
    element_function,
    fabin,
    fabout,
    function,
    functions,
    mem,
    scratch_columns,
    stage_name,
)
from .stages import Map, Scan

_HEAD = """\
// Matrices lie in blocks, rows over y and columns over x; in a PE column after column. What has one number for each row
// lies in every PE of that row, what has one for each column in every PE of that column.
"""
_HEAD_SCAN = """\
// Matmuls, reductions and argmaxes see all columns of their row of PEs in order: each PE sends its own east behind
// those of the PEs to the west of it, and the last one sends them all back along the row, to itself too. A PE works on
// one column while the next one arrives.
"""


def pe_text(s: Sketch) -> str:
    """`pe.csl`: the program of every PE."""
    title = f"// {s.flow.graph.name} on {s.machine}, {s.shares.width} x {s.shares.height} PEs: what each PE does.\n//\n"
    parts = [_extents(s), _arrays(s)]
    if s.scans:
        parts.append(_scanning(s))
    if s.sends_down:
        parts.append(_load(s))
    parts += [*stage_texts(s), *_kernels(s)]
    if s.scans:
        parts.append(_arrived(s))
    with_math = any("math." in part for part in parts)
    head = title + _HEAD + (_HEAD_SCAN if s.scans else "")
    return "\n".join([head, _params(s), _imports(s, with_math), *parts, _comptime(s)])


# ---- what everything stands on -------------------------------------------------------------------


def _params(s: Sketch) -> str:
    lines = ["param memcpy_params;", "param x: i16;", "param y: i16;"]
    if s.scans:
        lines += [
            "param from_west: color; // columns of the PEs to the west",
            "param to_row: color;    // where this PE sends columns: east, or, the last one, back along the row",
            "param row: color;       // all columns of the row",
        ]
    if s.sends_down:
        lines.append("param down: color;      // what all rows of PEs share")
    return "\n".join(lines) + "\n"


def _imports(s: Sketch, with_math: bool) -> str:
    """Libraries, and the functions of elements that several stages may call."""
    libraries = {stage.recipe.library for stage in s.flow.stages if isinstance(stage, Map)} - {""}
    lines = ['const sys = @import_module("<memcpy/memcpy>", memcpy_params);']
    if libraries or with_math:
        lines.append('const math = @import_module("<math>");')
    helpers = [PRELUDE[name] for name in sorted(libraries) if name in PRELUDE]
    extremes = sorted({scan.node.op.removeprefix("reduce_") for _, scan in s.scans} & {"max", "min"})
    helpers += [element_function(op, "a: f32, b: f32", "f32", extreme(op).formula) for op in extremes]
    return "\n".join(["\n".join(lines) + "\n", *helpers])


def _extents(s: Sketch) -> str:
    """Names for how many rows and columns of each extent a PE has."""
    used = [s.flow.placements[v] for stage in s.flow.stages for v in (*stage.reads, stage.out)]
    passes = f" in each of {s.shares.passes} passes" if s.shares.passes > 1 else ""
    lines = [
        f"const rows_{n}: u16 = {s.shares.rows(Placement(n, 1, True, False))}; // of {n} rows, the PE's share{passes}"
        for n in sorted({p.rows for p in used if p.split_rows})
    ]
    columns = sorted({p.columns for p in used if p.split_columns})
    if columns:
        lines += [
            "",
            "// Of n columns: how many lie to the west of a place, and how many this PE has.",
            "fn west_of(place: u32, n: u32) u16 {",
            f"  return @as(u16, (place * n + {s.shares.width - 1}) / {s.shares.width});",
            "}",
            "fn own(n: u32) u16 {",
            "  return west_of(@as(u32, x) + 1, n) - west_of(@as(u32, x), n);",
            "}",
            *(f"const columns_{n}: u16 = own({n});" for n in columns),
        ]
    return "\n".join(lines) + "\n"


def _arrays(s: Sketch) -> str:
    lines: list[str] = []
    for b in s.blocks.all:
        types = ", ".join(dict.fromkeys(str(s.flow.graph.types[v]) for v in b.values))
        what = f'{b.role} "{b.source}"' if b.source else "values"
        lines.append(f"var {b.name}: [{b.elements}]{b.stored}; // {what}: {types}")
    if s.odd_rows:
        lines.append(f"var odd: [{s.odd_rows}]f32; // where a column has NaN, NaN, else a zero")
    lines += [f"var {b.name}_ptr: [*]{b.stored} = &{b.name};" for b in s.exported]
    return "\n".join(lines) + "\n"


# ---- columns along the row -----------------------------------------------------------------------


def _scanning(s: Sketch) -> str:
    """What all scans share: the state of the one under way, and how columns are sent and taken."""
    most, alone = s.most_rows, s.shares.width == 1
    ids = [
        *([] if alone else [f"const west_in: input_queue = @get_input_queue({WEST_IN});"]),
        f"const row_in: input_queue = @get_input_queue({ROW_IN});",
        f"const row_out: output_queue = @get_output_queue({ROW_OUT});",
        f"const column_arrived_id: local_task_id = @get_local_task_id({COLUMN_ARRIVED});",
        f"const forward_id: local_task_id = @get_local_task_id({FORWARD});",
        f"const send_own_id: local_task_id = @get_local_task_id({SEND_OWN});",
    ]
    state = [
        "var stage: u16 = 0;   // the scan under way",
        "var rows: u16 = 0;    // elements of a column of it",
        "var columns: u16 = 0; // its columns",
        "var column: u16 = 0;  // the one that has arrived",
        f"var arrivals: [{2 * most}]f32; // one column that has arrived, and one that arrives",
        f"var arrived: u16 = {most}; // where the former starts",
        f"var outgoing: mem1d_dsd = {mem('arrivals', '0')}; // this PE's own columns",
        "var outgoing_words: u16 = 0;",
        *([] if alone else ["var west: u16 = 0; // words of the PEs to the west"]),
    ]
    if any(scan.node.op == "matmul" for _, scan in s.scans):
        state.append("var weight: u16 = 0; // the next element of the weights")
    state += [f"var {name}: [{most}]f32; // {what}" for name, what in scratch_columns(s).items()]
    west = "Columns of the PEs to the west go first. A scan begins to send when the one before has sent everything."
    parts = [
        "\n".join([*ids, "", *state]) + "\n",
        "// Send columns along the row and take those of all its PEs.\n"
        + function("scan", ["stage = number;", "column = 0;", "receive();", "@activate(forward_id);"], "number: u16"),
        f"// {west}\n"
        + function("forward", _forward(s), kind="task")
        + function("send_own", _send_own(s), kind="task"),
        function("receive", _receive(most)),
    ]
    return "\n".join(parts)


def _forward(s: Sketch) -> list[str]:
    """Passing on what comes from the west, then the PE's own; the next scan waits for its end at the block."""
    if s.shares.width == 1:
        return ["@block(forward_id);", "@activate(send_own_id);"]
    return [
        "@block(forward_id);",
        "if (x == 0) {",
        "  @activate(send_own_id);",
        "  return;",
        "}",
        f"const ahead = {fabin('west_in', 'west')};",
        f"const on = {fabout(s, 'to_row', 'row_out', 'west')};",
        "if (outgoing_words == 0) {",
        "  @mov32(on, ahead, .{ .async = true, .unblock = forward_id });",
        "} else {",
        "  @mov32(on, ahead, .{ .async = true, .activate = send_own_id });",
        "}",
    ]


def _send_own(s: Sketch) -> list[str]:
    return [
        f"const on = {fabout(s, 'to_row', 'row_out', 'outgoing_words')};",
        "@mov32(on, outgoing, .{ .async = true, .unblock = forward_id });",
    ]


def _receive(most: int) -> list[str]:
    return [
        f"const to = {mem('arrivals', 'rows', f', .offset = @as(i16, {most} - arrived)')};",
        f"const from = {fabin('row_in', 'rows')};",
        "@fmovs(to, from, .{ .async = true, .activate = column_arrived_id });",
    ]


def _arrived(s: Sketch) -> str:
    """The task that works on a column when it has come."""
    lines = [f"arrived = {s.most_rows} - arrived;", "if (column + 1 < columns) receive();", "switch (stage) {"]
    for number, scan in s.scans:
        name = stage_name(number, scan)
        lines.append(f"  {number} => {{ {name}_column(); column += 1; if (column == columns) after_{number}(); }},")
    return function("column_arrived", [*lines, "  else => {},", "}"], kind="task")


# ---- what the host launches ----------------------------------------------------------------------


def _load(s: Sketch) -> str:
    """What all rows of PEs share goes from the first row down."""
    queues = [
        f"const down_in: input_queue = @get_input_queue({DOWN_IN});",
        f"const down_out: output_queue = @get_output_queue({DOWN_OUT});",
    ]
    parts = ["\n".join(queues) + "\n"]
    for bits in sorted({8 * stored_bytes(b.dtype) for b in s.loaded}):
        lines = [
            "if (y == 0) {",
            f"  @mov{bits}({fabout(s, 'down', 'down_out', 'words')}, block);",
            "} else {",
            f"  @mov{bits}(block, {fabin('down_in', 'words')});",
            "}",
        ]
        text = function(f"send_down_{bits}", lines, "block: mem1d_dsd, words: u16")
        parts.append("// The first row of PEs sends a block down, the others take it.\n" + text)
    calls = [f"send_down_{8 * stored_bytes(b.dtype)}({mem(b.name, str(b.elements))}, {b.elements});" for b in s.loaded]
    text = function(LOAD, [*calls, "sys.unblock_cmd_stream();"])
    return "\n".join([*parts, "// What all rows of PEs share: the first row has it from the host.\n" + text])


def _kernels(s: Sketch) -> list[str]:
    """The functions that the host launches, and what follows on the end of each scan."""
    made: list[str] = []
    number = 0
    for k, launch in enumerate(s.flow.launches, 1):
        pieces: list[tuple[str, list[str]]] = [(f"kernel_{k}", [])]
        for stage in launch.stages:
            number += 1
            pieces[-1][1].append(f"{stage_name(number, stage)}();")
            if isinstance(stage, Scan):
                end = [f"{stage_name(number, stage)}_end();"] if has_end(stage) else []
                pieces.append((f"after_{number}", end))
        pieces[-1][1].append("sys.unblock_cmd_stream();")
        made.append(f"// Kernel {launch.name}.\n" + "".join(function(name, lines) for name, lines in pieces))
    return made


def _comptime(s: Sketch) -> str:
    lines: list[str] = []
    if s.scans:
        lines += [f"@bind_local_task({task}, {task}_id);" for task in ("column_arrived", "forward", "send_own")]
        if s.shares.width > 1:
            lines.append("if (x > 0) @initialize_queue(west_in, .{ .color = from_west });")
        lines += [
            "@initialize_queue(row_in, .{ .color = row });",
            f"@initialize_queue(row_out, {_color(s, 'to_row')});",
        ]
    if s.sends_down:
        lines += [
            f"if (y == 0) @initialize_queue(down_out, {_color(s, 'down')})",
            "else @initialize_queue(down_in, .{ .color = down });",
        ]
    lines += [f'@export_symbol({b.name}_ptr, "{b.name}");' for b in s.exported]
    lines += [f"@export_symbol({name});" for name in functions(s)]
    return "\n".join(["comptime {", *(f"  {line}" for line in lines), "}"]) + "\n"


def _color(s: Sketch, color: str) -> str:
    """How an output queue is bound to a color: on wse2 the DSD says which."""
    return ".{}" if s.arch == "wse2" else f".{{ .color = {color} }}"
