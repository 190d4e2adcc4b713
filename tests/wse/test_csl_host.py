"""The host interface: how tensors are laid out, scripts that run in its reach, programs placed region by region."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tdslc.compiler.source import DiagnosticError
from tdslc.targets.wse.host.arrays import MemcpyDataType, MemcpyOrder, fill, from_region, to_region, words_of
from tdslc.targets.wse.host.execute import execute
from tdslc.targets.wse.host.placing import (
    Edge,
    EdgeRouting,
    IntRectangle,
    IntVector,
    Route,
    RoutingPosition,
    SdkLayout,
    SdkTarget,
    get_platform,
)  # fmt: skip
from tdslc.targets.wse.host.ports import EAST, NORTH, SOUTH, WEST, directions_along, edge_places, path_between
from tdslc.targets.wse.host.utils import calculate_cycles, input_array_to_u32, make_u48, memcpy_view
from wse_case import write_files

ORDERS = list(MemcpyOrder)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (2, 4, 0)])
def test_tensors_come_back_as_they_went(order: MemcpyOrder, shape: tuple[int, int, int]) -> None:
    words = np.arange(np.prod(shape), dtype=np.uint32)
    region = to_region(words, *shape, order, np.dtype(np.uint32))
    assert region.shape == shape
    assert from_region(region, order).tolist() == words.tolist()


def test_the_two_orders() -> None:
    words = np.arange(12, dtype=np.uint32)
    row = to_region(words, 2, 3, 2, MemcpyOrder.ROW_MAJOR, np.dtype(np.uint32))
    column = to_region(words, 2, 3, 2, MemcpyOrder.COL_MAJOR, np.dtype(np.uint32))
    assert row[1, 0].tolist() == [6, 7] and row[0, 1].tolist() == [2, 3]
    assert column[1, 0].tolist() == [1, 7] and column[0, 1].tolist() == [2, 8]


def test_the_upper_half_of_a_word_is_dropped() -> None:
    words = np.array([0x12345678, 0xFFFF0001], np.uint32)
    region = to_region(words, 1, 1, 2, MemcpyOrder.ROW_MAJOR, MemcpyDataType.MEMCPY_16BIT.dtype)
    assert region.tolist() == [[[0x5678, 1]]]


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (np.zeros(3, np.float32), "1 x 2 PEs with 2 elements each are 4 words; the host tensor has 3"),
        (np.zeros(4, np.float64), "elements of the host tensor have 4 bytes, not 8"),
        (np.zeros((4, 2), np.float32)[:, 0], "must lie in memory without gaps"),
    ],
)
def test_a_tensor_that_does_not_fit_is_told(tensor: np.ndarray, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        to_region(words_of(tensor, "x"), 1, 2, 2, MemcpyOrder.ROW_MAJOR, np.dtype(np.uint32))


def test_a_tensor_is_filled_in_place() -> None:
    target = np.zeros((2, 2), np.float32)
    fill(target, np.array([1, 2, 3, 4], np.float32).view(np.uint32), "x")
    assert target.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="3 words come back"):
        fill(target, np.zeros(3, np.uint32), "x")


def test_helpers_of_scripts() -> None:
    numbers = np.array([1, -2, 3], np.int16)
    plain, indexed = input_array_to_u32(numbers, 0, 3), input_array_to_u32(numbers, 1, 2)
    assert plain.tolist() == [1, 65534, 3]
    assert (indexed >> 16).tolist() == [0, 1, 0]
    assert memcpy_view(indexed, np.dtype(np.int16)).tolist() == [1, -2, 3]
    assert make_u48(np.array([1, 2, 3], np.uint16)) == 1 + (2 << 16) + (3 << 32)
    stamps = np.array([100, 0, 0, 350, 0, 0], np.uint16).view(np.uint32)
    assert calculate_cycles(stamps) == 250


PROGRAM = """// FILE: layout.csl
param n: i16;
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  for (@range(i16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x), .n = n });
  }
  @export_name("v", [*]f32, true);
  @export_name("add", fn(f32)void);
}
// FILE: pe.csl
param memcpy_params;
param n: i16;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var v: [n]f32;
var v_pointer: [*]f32 = &v;
const whole = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> v[i] });
fn add(x: f32) void {
  @fadds(whole, whole, x);
  sys.unblock_cmd_stream();
}
comptime {
  @export_symbol(v_pointer, "v");
  @export_symbol(add);
}
// FILE: run.py
import json
import sys
import numpy as np
from cerebras.sdk.runtime.sdkruntimepybind import MemcpyDataType, MemcpyOrder, SdkRuntime
name = sys.argv[1]
with open(f"{name}/out.json", encoding="utf-8") as file:
    n = int(json.load(file)["params"]["n"])
runner = SdkRuntime(name)
v = runner.get_id("v")
runner.load()
runner.run()
x = np.arange(2 * n, dtype=np.float32)
how = dict(streaming=False, order=MemcpyOrder.ROW_MAJOR, data_type=MemcpyDataType.MEMCPY_32BIT)
runner.memcpy_h2d(v, x, 0, 0, 2, 1, n, nonblock=True, **how)
runner.launch("add", np.float32(1.5), nonblock=True)
y = np.zeros(2 * n, np.float32)
runner.memcpy_d2h(y, v, 0, 0, 2, 1, n, nonblock=False, **how)
runner.stop()
np.testing.assert_array_equal(y, x + np.float32(1.5))
WRONG
// FILE: commands.sh
set -e
cslc ./layout.csl --arch=wse3 --fabric-dims=9,3 --fabric-offsets=4,1 --params=n:5 -o out --memcpy --channels=1
cs_python run.py out
"""


def wrote(folder: Path, wrong: str = "") -> Path:
    write_files(PROGRAM.replace("WRONG", wrong), folder)
    return folder


def run_script(folder: Path) -> subprocess.CompletedProcess[str]:
    program = "import sys; from tdslc.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "csl", "exec", "commands.sh"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_script_and_its_commands_run_unchanged(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="needs the extra tdslc[wse]")
    done = run_script(wrote(tmp_path))
    assert done.returncode == 0, done.stderr
    params = json.loads((tmp_path / "out" / "out.json").read_text())
    assert params == {"params": {"n": "5"}, "colors": {}}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('runner.get_id("w")', 'the program exports no name "w"'),
        ('SdkRuntime("nowhere").load()', "cannot load `nowhere`: it holds no compiled program"),
        ('SdkRuntime(name, cmaddr="10.0.0.1")', "there is no machine at 10.0.0.1"),
        ('runner.launch("sub", nonblock=False)', 'no PE exports a function "sub"'),
        ("runner.memcpy_h2d(v, x, 1, 0, 2, 1, n, nonblock=False, **how)", "are not all in 2 x 1 PEs"),
        (
            "runner.memcpy_h2d(v, np.zeros(24, np.float32), 0, 0, 2, 1, 12, nonblock=False, **how)",
            "has 20 bytes in each PE",
        ),
    ],
)
def test_what_a_program_does_not_allow_is_told(tmp_path: Path, wrong: str, said: str) -> None:
    pytest.importorskip("numba", reason="needs the extra tdslc[wse]")
    done = run_script(wrote(tmp_path, wrong))
    assert done.returncode != 0
    assert said in done.stderr


def test_the_exit_code_of_a_script_is_ours(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text("import sys\nsys.exit(int(sys.argv[1]))\n")
    assert execute(str(tmp_path / "run.py"), ["7"]) == 7


def test_a_script_that_is_not_there_is_told() -> None:
    with pytest.raises(DiagnosticError) as caught:
        execute("nowhere.py", [])
    assert caught.value.diagnostics[0].code == "E1053"


# ---- placing --------------------------------------------------------------------------------------


def test_positions_and_edges() -> None:
    position = RoutingPosition().set_input([Route.WEST]).set_output([Route.RAMP, Route.EAST])
    assert (position.rx, position.tx) == (WEST, EAST | 16)
    assert EdgeRouting(Edge.TOP, (position,)).edge.value == NORTH
    assert edge_places(3, 2, 4, 2, SOUTH) == [(3, 3), (4, 3), (5, 3), (6, 3)]
    assert IntRectangle(IntVector(0, 0), IntVector(1, 2)).lower_right.y == 2


def test_a_path_is_the_shortest_way_around_what_is_taken() -> None:
    straight = path_between((0, 0), EAST, (3, 0), WEST, {}, (5, 5))
    assert straight == [(0, 0), (1, 0), (2, 0), (3, 0)]
    around = path_between((0, 0), EAST, (3, 0), WEST, {(1, 1): 0}, (5, 5))
    assert around == straight
    back = path_between((2, 2), EAST, (0, 2), EAST, {}, (5, 5))
    assert back[0] == (2, 2) and back[-2:] == [(1, 2), (0, 2)]
    assert directions_along(back)[0] == EAST


def test_a_port_without_a_way_is_told() -> None:
    with pytest.raises(DiagnosticError) as caught:
        path_between((0, 0), EAST, (2, 0), WEST, {(1, 0): 0}, (3, 1))
    assert caught.value.diagnostics[0].code == "E1054"


TWICE = """param n: u16;
param take: u16;
param give: u16;
const in_q = @get_input_queue(2);
const out_q = @get_output_queue(2);
const in = @get_dsd(fabin_dsd, .{ .extent = n, .fabric_color = @get_color(take), .input_queue = in_q });
const out = @get_dsd(fabout_dsd, .{ .extent = n, .fabric_color = @get_color(give), .output_queue = out_q });
export var seen = @zeros([n]u32);
const seen_dsd = @get_dsd(mem1d_dsd, .{ .tensor_access = |i|{n} -> seen[i] });
const start = @get_local_task_id(9);
const done = @get_local_task_id(10);
task begin() void { @mov32(seen_dsd, in, .{ .async = true, .activate = done }); }
task go_on() void {
  for (@range(u16, n)) |i| { seen[i] *= 2; }
  @mov32(out, seen_dsd, .{ .async = true });
}
comptime {
  @bind_local_task(begin, start);
  @bind_local_task(go_on, done);
  @activate(start);
  @initialize_queue(in_q, .{ .color = @get_color(take) });
  if (@is_arch("wse3")) @initialize_queue(out_q, .{ .color = @get_color(give) });
}
"""


@pytest.mark.parametrize("target", list(SdkTarget))
def test_regions_that_are_placed_pass_words_on(tmp_path: Path, target: SdkTarget) -> None:
    pytest.importorskip("numba", reason="needs the extra tdslc[wse]")
    from tdslc.targets.wse.host.runtime import SdkRuntime

    n, file = 6, tmp_path / "twice.csl"
    file.write_text(TWICE)
    layout = SdkLayout(get_platform(None, None, target))
    ports = []
    for k, place in enumerate([(1, 1), (4, 0)]):
        region = layout.create_code_region(str(file), f"twice{k}", 1, 1)
        take, give = region.color("take"), region.color("give")
        region.set_param_all("n", n)
        region.set_param_all(take)
        region.set_param_all(give)
        to_pe, from_pe = RoutingPosition().set_output([Route.RAMP]), RoutingPosition().set_input([Route.RAMP])
        ports.append(
            (
                region.create_input_port(take, Edge.LEFT, [to_pe], n),
                region.create_output_port(give, Edge.RIGHT, [from_pe], n),
            )
        )
        region.place(*place)
    layout.connect(ports[0][1], ports[1][0])
    going_in, coming_out = layout.create_input_stream(ports[0][0]), layout.create_output_stream(ports[1][1])
    runtime = SdkRuntime(layout.compile(), None, memcpy_required=False)
    runtime.load()
    runtime.run()
    numbers, result = np.arange(n, dtype=np.uint32), np.zeros(n, np.uint32)
    runtime.send(going_in, numbers, nonblock=True)
    runtime.receive(coming_out, result, n, nonblock=True)
    runtime.stop()
    assert result.tolist() == (4 * numbers).tolist()
    assert runtime.read_symbol(1, 1, "seen", dtype="uint32").tolist() == (2 * numbers).tolist()


def test_regions_that_overlap_are_told(tmp_path: Path) -> None:
    from tdslc.targets.wse.host.runtime import SdkError

    layout = SdkLayout(get_platform(None))
    layout.create_code_region("a.csl", "a", 2, 1)
    layout.create_code_region("b.csl", "b", 1, 1)
    with pytest.raises(SdkError, match="`a` and `b` overlap at 0, 0"):
        layout.compile()
