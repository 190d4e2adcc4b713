"""The command line of cslc."""

import json
from pathlib import Path

import pytest
from tdslc.compiler.source import DiagnosticError
from tdslc.targets.wse.host.cslc import main, read_options
from wse_case import write_files

PROGRAM = """// FILE: layout.csl
param width: u16;
param scale: f32 = 1.0;
param c: color;
layout {
  @set_rectangle(width, 1);
  for (@range(u16, width)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .scale = scale, .last = x == width - 1 });
    @set_color_config(x, 0, c, .{ .routes = .{ .rx = .{ WEST }, .tx = .{ EAST } } });
  }
}
// FILE: pe.csl
param scale: f32;
param last: bool;
var y: f32 = scale;
const id = @get_local_task_id(9);
task main() void { if (!last) y += 1.0; }
comptime { @bind_local_task(main, id); }
"""


def test_options_are_read_in_both_spellings() -> None:
    line = (
        "layout.csl --arch wse3 --params=a:1,b:-0x10 --params c:1.5,d:true,e:name --colors=k:3 --fabric-dims=8,3 "
        "--fabric-offsets 4,1 -o out --memcpy --channels=1 --import-path=lib --import-path other"
    )
    options = read_options(line.split())
    assert options.params == {"a": 1, "b": -16, "c": 1.5, "d": True, "e": "name"}
    assert (options.layout, options.arch, options.colors, options.output) == ("layout.csl", "wse3", {"k": 3}, "out")
    assert (options.fabric, options.offsets, options.import_paths) == ((8, 3), (4, 1), ("lib", "other"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--arch=wse3", "0 files are named"),
        ("a.csl", "the machine is not named"),
        ("a.csl --arch=wse4", "there is no machine wse4"),
        ("a.csl --arch=wse3 --parms=a:1", "there is no option `--parms`"),
        ("a.csl --arch=wse3 --params=a", "`--params` of `a` has no value"),
        ("a.csl --arch=wse3 --fabric-dims=8", "`--fabric-dims` is two numbers, not `8`"),
        ("a.csl --arch", "`--arch` needs a value"),
    ],
)
def test_a_wrong_command_line_is_told(line: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        read_options(line.split())
    assert caught.value.diagnostics[0].message == message
    said: list[str] = []
    assert main(line.split(), said.append) == 2
    assert message in said[0]


def test_a_program_is_checked_and_its_params_written(tmp_path: Path) -> None:
    layout = write_files(PROGRAM, tmp_path)
    said: list[str] = []
    out = tmp_path / "out"
    argv = [str(layout), "--arch=wse2", "--params=width:3,scale:2.5", "--colors=c:7", f"-o={out}", "--memcpy"]
    assert main(argv, said.append) == 0
    assert json.loads((out / "out.json").read_text()) == {
        "params": {"width": "3", "scale": "2.5", "c": "7"},
        "colors": {"c": "7"},
    }
    assert said == [
        "3 x 1 PEs on wse2, 2 programs\n"
        "        2 PEs  pe.csl: main (local 9); 4 of 49,152 bytes of variables\n"
        "        1 PEs  pe.csl: main (local 9); 0 of 49,152 bytes of variables"
    ]


def test_what_is_wrong_with_a_program_is_exit_code_1(tmp_path: Path) -> None:
    layout = write_files(PROGRAM, tmp_path)
    said: list[str] = []
    assert main([str(layout), "--arch=wse3", "--params=width:3", "--colors=c:24"], said.append) == 1
    assert "E1030" in said[0]
    assert main([str(layout), "--arch=wse3", "--params=width:9", "--colors=c:1", "--fabric-dims=8,3"], said.append) == 1
    assert "do not fit into a fabric of 8 x 3" in said[1]
    assert main(["no_such.csl", "--arch=wse3"], said.append) == 1
    assert "E0001" in said[2]
