"""Images: their text reads back, the verifier finds what is broken, tables hold what engines look for."""

import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from tdslc.compiler.source import DiagnosticError
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.mesh import ir
from tdslc.targets.wse.mesh.ir import Image, Kind, Op, V
from tdslc.targets.wse.mesh.lower import lower
from tdslc.targets.wse.mesh.registers import MAX_ROUNDS
from tdslc.targets.wse.mesh.text import parse, show
from tdslc.targets.wse.mesh.verify import verify
from wse_case import compiled, placed
from wse_eval import Machine

_WAFER = load("wse3").value

PROGRAM = """// FILE: layout.csl
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 3, .height = 2 });
layout {
  @set_rectangle(3, 2);
  for (@range(i16, 3)) |x| {
    for (@range(i16, 2)) |y| {
      @set_tile_code(x, y, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .x = x, .y = y });
    }
  }
  @export_name("run", fn(i16) void);
  @export_name("A", [*]f32, true);
}
// FILE: pe.csl
param memcpy_params;
param x: i16;
param y: i16;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
const math = @import_module("<math>");
const time = @import_module("<time>");
const q = @get_output_queue(2);
const inq = @get_input_queue(3);
const id = @get_local_task_id(9);
const data_id = @get_data_task_id(inq);
var A = @zeros([8]f32);
var A_ptr: [*]f32 = &A;
var where = [2]i16{ x, y };
var stamp: [3]u16;
const dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{4} -> A[2 * i] });
const out = @get_dsd(fabout_dsd, .{ .extent = 4, .output_queue = q });
const grid = @get_dsd(mem4d_dsd, .{ .tensor_access = |i, j|{2, 3} -> A[4 * i + j] });
var buffer = @zeros([16]f32);
const fifo = @allocate_fifo(buffer, .{ .activate_pop = id });
fn scaled(v: f32, by: f32) f32 { return math.sqrt(v) * by; }
fn run(n: i16) void {
  time.get_timestamp(&stamp);
  var d = @set_dsd_length(dsd, @as(u16, n));
  d = @increment_dsd_offset(d, 1, f32);
  @fadds(d, d, 1.5);
  @map(scaled, dsd, 2.0, dsd);
  @fmovs(grid, 0.0);
  @fmovs(out, dsd, .{ .async = true, .activate = id });
  where[0] += x * n;
}
task done() void { @block(id); sys.unblock_cmd_stream(); }
task got(w: f32) void { A[0] = w; @activate(id); }
comptime {
  @bind_local_task(done, id);
  @bind_data_task(got, data_id);
  @initialize_queue(q, .{ .color = @get_color(4) });
  @initialize_queue(inq, .{ .color = @get_color(4) });
  @export_symbol(run);
  @export_symbol(A_ptr, "A");
  @block(data_id);
}
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return lower(compiled(PROGRAM, tmp_path_factory.mktemp("image")), _WAFER)


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if hasattr(a, "__dataclass_fields__") and type(a) is type(b):
        return all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))  # type: ignore[arg-type]
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def _sources(image: Image) -> dict:
    spans = [*image.spans, *(f.span for f in image.functions), *(s.span for c in image.classes for s in c.symbols)]
    return {span.file.path: span.file for span in spans}


def test_text_reads_back(image: Image) -> None:
    text = show(image)
    again = parse(text, _sources(image))
    assert _same(again, image)
    assert show(again) == text


def test_the_same_program_gives_the_same_text(image: Image, tmp_path: Path) -> None:
    first = show(lower(compiled(PROGRAM, tmp_path), _WAFER))
    assert first == show(lower(compiled(PROGRAM, tmp_path), _WAFER))


def test_text_is_for_people(image: Image) -> None:
    lines = [line.split("/")[-1] for line in show(image).splitlines()]
    assert any(line.endswith("where[0] += x * n;") for line in lines)
    assert any("VECTOR.BOOL" in line and "# ADD F32" in line for line in lines)


def test_tables_of_a_class(image: Image) -> None:
    assert verify(image) == []
    (row,) = image.classes
    assert (row.count, image.pes) == (6, 6)
    assert row.variables["A"] == (row.symbols[0].address, 32, Kind.F32)
    assert row.pointers["A"] == next(s.address for s in row.symbols if s.name == "A_ptr")
    where = next(s for s in row.symbols if s.name == "where")
    assert where.initial is not None
    assert np.array_equal(where.initial.view(np.int16), np.stack([row.x, row.y], axis=1))
    assert next(s for s in row.symbols if s.name == "stamp").initial is None
    assert {(task.kind, task.id) for task in row.tasks} == {("local", 9), ("data", 3)}
    assert row.queues == ((True, 3, 4, 2), (False, 2, 4, 2))
    assert row.blocked == ((ir.BlockKind.TASK, 3),)
    assert [(f.element, f.count, f.activate_push, f.activate_pop) for f in row.fifos] in ([], [(Kind.F32, 16, -1, 9)])
    used = {int(r[3]) for r in image.code if r[0] == Op.LANE}
    assert any(np.array_equal(image.lanes[k], row.x) for k in used)


def test_descriptors(image: Image) -> None:
    row = image.classes[0]
    at = row.variables["A"][0]
    held = set(image.constants.tolist())
    assert ir.pack(ir.Dsd.MEM1D, at, 4, 2, Kind.F32) in held
    assert ir.pack(ir.Dsd.FABOUT, 4, 2 | ir.NO_COLOR << 8) in held
    assert image.shapes.tolist() == [[1, 1, 2, 3, 0, 0, 4, 1]]
    assert ir.pack(ir.Dsd.MEM4D, at, 0, 0, Kind.F32) in held


def test_vectors(image: Image) -> None:
    rows = {ir.VectorOp(r[V.OP]).name: r for r in image.vectors.tolist()}
    add = rows["ADD"]
    assert (add[V.COUNT], add[V.DSDS], add[V.POINTERS], add[V.DEST_KIND]) == (3, 0b011, 0, Kind.F32)
    assert add[V.WIDTH] == _WAFER.simd.f32
    assert rows["MAP"][V.HAS_OUTPUT] == 1
    assert image.functions[rows["MAP"][V.CALLBACK]].name == "scaled"
    moved = next(r for r in image.vectors.tolist() if r[V.ASYNC] == 1)
    assert moved[V.ACTIVATE] >= 0
    assert moved[V.UNBLOCK] == -1


_BROKEN = {
    "a register": lambda m: m.code.__setitem__((0, 2), 99),
    "a jump": lambda m: m.code.__setitem__(0, (Op.JUMP, 0, -1, 10_000, -1, -1)),
    "an op": lambda m: m.code.__setitem__((0, 0), 77),
    "a kind": lambda m: m.code.__setitem__((0, 1), 77),
    "a cost": lambda m: m.cost.__setitem__(0, -1),
    "a span": lambda m: m.span_of.__setitem__(0, 10_000),
    "a vector": lambda m: m.vectors.__setitem__((0, V.OP), 99),
    "operands": lambda m: m.vectors.__setitem__((0, V.OPERAND1), -1),
    "a width": lambda m: m.vectors.__setitem__((0, V.WIDTH), 0),
    "an argument": lambda m: m.code.__setitem__(
        int(np.argmax(m.code[:, 0] == Op.ARG)), (Op.CONST, 0, 0, 0, -1, -1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(_BROKEN))
def test_the_verifier_finds(image: Image, what: str) -> None:
    broken = replace(
        image,
        code=image.code.copy(),
        cost=image.cost.copy(),
        span_of=image.span_of.copy(),
        vectors=image.vectors.copy(),
    )
    _BROKEN[what](broken)
    assert verify(broken)


def test_the_verifier_finds_symbols_over_each_other(image: Image) -> None:
    row = image.classes[0]
    moved = replace(row.symbols[1], address=row.symbols[0].address)
    assert verify(replace(image, classes=(replace(row, symbols=(row.symbols[0], moved, *row.symbols[2:])),)))


def _refused(text: str, folder: Path) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        lower(placed(text, folder), _WAFER)
    return [d.code for d in caught.value.diagnostics]


def test_recursion_over_memory_is_refused(tmp_path: Path) -> None:
    text = "fn odd(n: u16) bool { var a = [2]u16{ n, 1 }; if (a[n & 1] == 0) return false; return even(n - 1); }\n"
    text += "fn even(n: u16) bool { if (n == 0) return true; return odd(n - 1); }\ncomptime { @export_symbol(even); }"
    assert _refused(text, tmp_path) == ["E1044"]


def test_recursion_has_room(tmp_path: Path) -> None:
    text = "fn odd(n: u16) bool { if (n == 0) return false; return even(n - 1); }\nfn even(n: u16) bool {"
    text += " if (n == 0) return true; return odd(n - 1); }\ncomptime { @export_symbol(even); }"
    image = lower(placed(text, tmp_path), _WAFER)
    assert verify(image) == []
    assert image.classes[0].registers == MAX_ROUNDS * sum(f.registers for f in image.functions)
    assert [bool(Machine(image).call("even", n)) for n in (0, 1, 7, 12)] == [True, False, False, True]


def test_memory_of_functions_counts(tmp_path: Path) -> None:
    text = "var g = @zeros([7000]f32);\nfn f(n: u16) f32 { var a = g; a[n] = 1.0; g = a; return a[n]; }\n"
    text += "comptime { @export_symbol(f); }"
    assert _refused(text, tmp_path) == ["E1041"]


def test_registers_follow_the_deepest_calls(tmp_path: Path) -> None:
    text = "fn a(x: i16) i16 { return x * x; }\nfn b(x: i16) i16 { return a(x) + a(x + 1); }\n"
    text += "fn c(x: i16) i16 { return b(x) - a(x); }\ncomptime { @export_symbol(c); }"
    image = lower(placed(text, tmp_path), _WAFER)
    by_name = {f.name: f.registers for f in image.functions}
    assert image.classes[0].registers == by_name["a"] + by_name["b"] + by_name["c"]


def test_costs_come_from_the_machine(tmp_path: Path) -> None:
    text = "var g = [4]i16{ 1, 2, 3, 4 };\nfn f(i: u16, x: i16) i16 { g[i] = x / 3; return g[i]; }\n"
    text += "comptime { @export_symbol(f); }"
    cost = _WAFER.cost
    image = lower(placed(text, tmp_path), _WAFER)
    ops = [(Op(row[0]), int(c)) for row, c in zip(image.code.tolist(), image.cost, strict=True)]
    expected = {
        Op.DIV: cost.divide,
        Op.STORE: cost.store,
        Op.LOAD: cost.load,
        Op.CHECK: 0,
        Op.CONST: 0,
        Op.MUL: cost.scalar,
    }
    for op, cycles in expected.items():
        assert {c for o, c in ops if o == op} == {cycles}, op


def test_work_follows_classes_not_pes(tmp_path: Path) -> None:
    """128 x 128 PEs with values of their own: one class, one row of lanes for each of them."""
    text = PROGRAM.replace(".width = 3, .height = 2", ".width = 128, .height = 128").replace(
        "@set_rectangle(3, 2)", "@set_rectangle(128, 128)"
    )
    text = text.replace("@range(i16, 3)", "@range(i16, 128)").replace("@range(i16, 2)", "@range(i16, 128)")
    program = compiled(text, tmp_path)
    start = time.process_time()
    image = lower(program, _WAFER)
    assert time.process_time() - start < 1.0
    assert (len(image.classes), image.pes) == (1, 128 * 128)
    assert len(image.code) < 200
    assert len(image.lanes) <= 2
    where = next(s for s in image.classes[0].symbols if s.name == "where")
    assert where.initial is not None
    assert where.initial.shape == (128 * 128, 4)


_FABRIC = """
const q = @get_input_queue(3);
const oq = @get_output_queue(2);
const c = @get_color(3);
const id = @get_local_task_id(9);
var A = @zeros([8]f16);
const mem = @get_dsd(mem1d_dsd, .{ .base_address = &A, .extent = 4, .stride = 2, .offset = 1 });
const in = @get_dsd(fabin_dsd, .{ .extent = 8, .input_queue = q, .simd_mode = .{ .simd_32 = true },
  .priority = .{ .high = true } });
task t() void {}
fn f(n: u16, to: u16) void {
  @fmovh(mem, in, .{ .async = true, .on_control = .{ .terminate = true } });
  @fmovh(mem, in, .{ .async = true, .on_control = .{ .activate = t } });
  const d = @get_dsd(fabout_dsd, .{ .extent = n, .output_queue = @get_output_queue(to),
    .fabric_color = @get_color(to) });
  @fmovh(d, mem);
}
comptime {
  @export_symbol(f);
  @bind_local_task(t, id);
  @initialize_queue(q, .{ .color = c });
  @initialize_queue(oq, .{ .color = c });
}
"""


def test_settings_of_fabric_operations(tmp_path: Path) -> None:
    image = lower(placed(_FABRIC, tmp_path), _WAFER)
    assert verify(image) == []
    ends, activates, _ = image.vectors.tolist()
    assert (ends[V.ON_CONTROL], ends[V.PRIORITY], ends[V.WIDTH]) == (1, 2, _WAFER.simd.f16)
    assert activates[V.ON_CONTROL] >= 2
    held = set(image.constants.tolist())
    assert ir.pack(ir.Dsd.MEM1D, 2, 4, 2, Kind.F16) in held
    assert ir.pack(ir.Dsd.FABIN, 8, 3 | ir.NO_COLOR << 8, flags=ir.FLAG_SIMD32) in held


@pytest.mark.parametrize(
    ("setting", "code"), [("{ .unblock = t }", "E1045"), ("{ .terminate = 1 }", "E1010"), ("{ .stop = true }", "E1011")]
)
def test_wrong_on_control(tmp_path: Path, setting: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        placed(_FABRIC.replace("{ .terminate = true }", setting), tmp_path)
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_functions_can_be_pointed_at(tmp_path: Path) -> None:
    text = """
const F = fn(i16) i16;
fn inc(x: i16) i16 { return x + 1; }
fn dec(x: i16) i16 { return x - 1; }
fn apply(f: F, x: i16) i16 { return f(x); }
var table = [2]F{ inc, dec };
var held: *const fn(i16) i16 = &inc;
fn picked(i: u16, x: i16) i16 { held = &dec; return table[i](x) * 100 + apply(dec, held(x)); }
comptime { @export_symbol(picked); }
"""
    image = lower(placed(text, tmp_path), _WAFER)
    assert verify(image) == []
    assert [Machine(image).call("picked", i, 10) for i in (0, 1)] == [1108, 908]


def test_dsrs_of_comptime_blocks(tmp_path: Path) -> None:
    text = (
        _FABRIC
        + """
const dest = @get_dsr(dsr_dest, 2);
const src = @get_dsr(dsr_src1, 1);
comptime {
  @load_to_dsr(dest, mem, .{ .save_address = true });
  @load_to_dsr(src, in, .{ .async = true, .activate = id, .on_control = .{ .terminate = true } });
}
"""
    )
    image = lower(placed(text, tmp_path), _WAFER)
    assert verify(image) == []
    assert show(parse(show(image), _sources(image))) == show(image)
    memory, fabric = image.classes[0].dsrs
    assert (memory.dsr, memory.save_address, memory.is_async) == (ir.pack(ir.Dsd.DSR, 2), 1, 0)
    assert memory.dsd.tolist() == [ir.pack(ir.Dsd.MEM1D, 2, 4, 2, Kind.F16)]
    assert (fabric.dsr, fabric.is_async, fabric.activate) == (ir.pack(ir.Dsd.DSR, 1 | 2 << 8), 1, 9)
    assert (fabric.on_control, fabric.unblock, fabric.microthread) == (1, -1, -1)


def test_functions_of_known_floats(tmp_path: Path) -> None:
    text = 'const math = @import_module("<math>");\nconst a: f16 = math.floor(@as(f16, 2.75));\n'
    text += "const b: f32 = math.sqrt(@as(f32, 2.0));\ncomptime { @comptime_assert(a == 2.0);"
    text += f" @comptime_assert(b == {float(np.float32(np.sqrt(2.0)))!r}); }}"
    placed(text, tmp_path)
