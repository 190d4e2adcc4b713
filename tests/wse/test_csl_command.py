"""`tdslc csl`: programs checked, run and traced from the command line, and what it says of mistakes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tdslc.cli import main
from wse_case import write_files

PROGRAM = """// FILE: layout.csl
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 2, .height = 1 });
layout {
  @set_rectangle(2, 1);
  for (@range(i16, 2)) |x| {
    @set_tile_code(x, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(x) });
  }
  @export_name("v", [*]f32, true);
  @export_name("scale", fn(i16)void);
}
// FILE: pe.csl
param memcpy_params;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var v = @zeros([3]f32);
var v_pointer: [*]f32 = &v;
fn scale(by: i16) void {
  for (@range(u16, 3)) |i| { v[i] *= @as(f32, by); }
  sys.unblock_cmd_stream();
}
comptime {
  @export_symbol(v_pointer, "v");
  @export_symbol(scale);
}
"""
VALUES = np.arange(6, dtype=np.float32).reshape(1, 2, 3)


@pytest.fixture
def say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("numba", reason="needs the extra tdslc[wse]")
    write_files(PROGRAM, tmp_path)
    np.save(tmp_path / "v.npy", VALUES)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tdslc", "csl", *words])
        code = main()
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_program_is_checked(say) -> None:
    code, out, _ = say("check", "layout.csl")
    assert code == 0 and "2 x 1 PEs on wse3, 1 programs" in out


def test_a_run_copies_launches_and_copies_back(say, tmp_path: Path) -> None:
    code, out, _ = say(
        "run", "layout.csl", "--copy", "v=v.npy", "--launch", "scale:3", "--get", "v=out.npy", "--map", "busy"
    )
    assert code == 0 and "cycles busy by PE" in out
    assert np.load(tmp_path / "out.npy").tolist() == (3 * VALUES).tolist()


@pytest.mark.parametrize("engine", ["reference", "batched"])
def test_a_run_as_json_tells_which_engine_ran(say, engine: str) -> None:
    code, out, _ = say("run", "layout.csl", "--launch", "scale:2", "--engine", engine, "--json")
    assert code == 0 and {e["engine"] for e in json.loads(out)["engines"]} == {engine}


def test_a_trace_has_a_slice_for_each_task(say, tmp_path: Path) -> None:
    code, _, _ = say("trace", "layout.csl", "--launch", "scale:2", "-o", "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert code == 0 and [e["pid"] for e in events if e.get("cat") == "task"] == [0, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--copy", "w=v.npy"], 'exports no variable "w"'),
        (["--copy", "v=none.npy"], "cannot read `none.npy`"),
        (["--copy", "v"], "`--copy` of `v`"),
        (["--launch", "shrink"], 'no PE exports a function "shrink"'),
        (["--launch", "scale"], "`scale` takes 1 arguments, not 0"),
        (["--launch", "scale:1.5"], "the argument 1.5 is no whole number"),
        (["--launch", "scale:nan"], "the argument nan is no whole number"),
        (["--launch", "scale:40000"], "the argument 40000 does not fit into i16"),
        (["--launch", "scale:x"], "the argument `x` is no number"),
        (["--get", "v=nowhere/out.npy"], "cannot write `nowhere/out.npy`"),
        (["--get", "v=out.npy:f99"], "`f99` is no type of numbers"),
        (["--get", "v=out.npy:object"], "`object` is no type of numbers"),
        (["--launch", "scale:2", "--max-cycles", "20"], "has not ended after 20 cycles"),
    ],
)
def test_mistakes_are_told(say, words: list[str], said: str) -> None:
    code, _, err = say("run", "layout.csl", *words)
    assert code == 1 and said in err
