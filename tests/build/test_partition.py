"""Builds in parts: figures that add up, folders that are builds, runs that are checked against the whole model."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")

from command import run_here
from onnx_models import constant, model, node, value
from onnx_parts import chosen_piece, detector_head, residual_net, scaler_in_the_middle, weights, words_at_the_input
from toy_target import toy

__all__ = ["toy"]

CONTRACT = ["schema", "model", "target", "totals", "kernels", "search", "checks", "edges", "load", "notes"]
LINK_BYTES_A_SECOND, LATENCY_SECONDS = 1e8, 2e-6


@pytest.fixture
def folder(tmp_path):
    """A folder with models in parts and their inputs."""
    for make in (residual_net, detector_head, scaler_in_the_middle, words_at_the_input, chosen_piece):
        (tmp_path / f"{make.__name__}.onnx").write_bytes(make())
    np.save(tmp_path / "x.npy", weights(4, 16))
    return tmp_path


def ran(line, folder, code=0):
    """The JSON document of a command. Builds leave rules out, which are tested elsewhere: a search takes a while."""
    quick = ["--opt", "1"] if "--target" in line and "--opt" not in line else []
    outcome = run_here([*line.split(), *quick, "--json"], folder)
    assert outcome.code == code, outcome.stdout + outcome.stderr
    return json.loads(outcome.stdout)


@pytest.mark.usefixtures("toy")
def test_totals_are_those_of_regions_and_crossings(folder):
    document = ran("build residual_net.onnx --partition --target toy:one --opt 2 -o made", folder)
    report = json.loads((folder / "made" / "report.json").read_text())
    assert [key for key in CONTRACT if key not in report] == []
    assert {key: document[key] for key in report} == report
    regions = [json.loads((folder / "made" / r["folder"] / "report.json").read_text()) for r in report["regions"]]
    totals = report["totals"]
    for key in ("cycles", "flops", "bytes_read", "bytes_written", "compulsory_bytes", "kernels"):
        assert totals[key] == sum(r["totals"][key] for r in regions), key
    searched = [r["search"] for r in regions]
    assert report["search"]["e_nodes"] == sum(s["e_nodes"] for s in searched)
    assert report["search"]["extraction"]["cost"] == sum(s["extraction"]["cost"] for s in searched)
    for crossing in report["crossings"]:
        assert crossing["bytes"] == 4 * 16 * 4
        assert crossing["seconds"] == pytest.approx(LATENCY_SECONDS + crossing["bytes"] / LINK_BYTES_A_SECOND)
    assert [c["direction"] for c in report["crossings"]] == ["to_host", "to_chip", "to_host", "to_chip"]
    crossed = sum(c["seconds"] for c in report["crossings"])
    for key in ("seconds", "bound_seconds", "source_bound_seconds"):
        assert totals[key] == pytest.approx(sum(r["totals"][key] for r in regions) + crossed)
    assert totals["limited_by"] == "host_link"
    assert [h["time"] for h in report["host"]] == ["not simulated"] * 2
    assert all(check["ok"] for check in report["checks"])


@pytest.mark.usefixtures("toy")
def test_a_value_that_stays_on_the_chip_does_not_cross(folder):
    report = ran("build residual_net.onnx --partition --target toy:one", folder)
    assert "x0" not in [c["value"] for c in report["crossings"]]
    made = json.loads((folder / "build" / "residual_net-toy-one" / "partition.json").read_text())
    assert {"value": "x0", "type": "f32[4, 16]", "from": "02", "to": ["04"]} in made["edges"]


@pytest.mark.usefixtures("toy")
def test_two_builds_are_the_same_bytes(folder):
    for out in ("one", "two"):
        ran(f"build residual_net.onnx --partition --target toy:one -o {out}", folder)
    files = [
        {p.relative_to(folder / o): p.read_bytes() for p in (folder / o).rglob("*") if p.is_file()}
        for o in ("one", "two")
    ]
    assert files[0] == files[1]
    assert not any(str(folder).encode() in data for data in files[0].values())


@pytest.mark.usefixtures("toy")
def test_a_region_is_an_ordinary_build(folder):
    ran("build residual_net.onnx --partition --target toy:one -o made", folder)
    ran("report made/regions/00", folder)
    line = "run made/regions/00 --weights random:0 --input x=rand:0 --check"
    assert ran(line, folder)["values"][0]["ok"]


@pytest.mark.usefixtures("toy")
def test_a_wrong_region_is_found(folder):
    line = "run residual_net.onnx --partition --target toy:broken --input x=x.npy --check"
    document = ran(line, folder, code=4)
    assert {d["code"] for d in document["diagnostics"]} == {"E0801"}
    assert "region 00: " in document["diagnostics"][0]["message"]
    assert not document["values"][-1]["ok"]


@pytest.mark.usefixtures("toy")
def test_a_folder_runs_with_the_file_that_it_was_made_from(folder):
    built = ran("run residual_net.onnx --partition --target toy:one --input x=x.npy --save a.npy -o made", folder)
    again = ran("run made --weights residual_net.onnx --input x=x.npy --save b.npy --check", folder)
    assert built["totals"] == again["totals"]
    np.testing.assert_array_equal(np.load(folder / "a.npy"), np.load(folder / "b.npy"))


@pytest.mark.usefixtures("toy")
def test_dims_and_binds_come_back_from_the_folder(folder):
    nodes = [node("MatMul", ["x", "w"], ["a"], name="fc"), node("Unique", ["a"], ["u"], name="unique"),
             node("Add", ["u", "b"], ["y"], name="sum")]  # fmt: skip
    inputs = [value("x", ["batch", 2]), value("b", [])]
    leaves = [constant("w", np.eye(2, dtype=np.float32))]
    (folder / "m.onnx").write_bytes(model(nodes, inputs, [value("y", None)], leaves))
    np.save(folder / "b.npy", np.float32(1))
    np.save(folder / "two.npy", np.array([[1, 2], [2, 1]], np.float32))
    line = "build m.onnx --partition --target toy:one --dim batch=2 --dim u.0=2 --bind b=b.npy -o made"
    report = ran(line, folder)
    assert [r["part"] for r in report["regions"]] == ["00", "02"]
    document = ran("run made --weights m.onnx --input x=two.npy --check", folder)
    assert document["outputs"]["y"]["data"] == [2, 3]
    assert document["values"][-1]["ok"]
    refused = ran("run made --weights m.onnx --input x=rand:0", folder, code=1)
    assert [d["code"] for d in refused["diagnostics"]] == ["E1118"]


@pytest.mark.usefixtures("toy")
def test_random_numbers_are_not_compared(folder):
    nodes = [node("RandomNormalLike", ["x"], ["n"], name="noise"), node("Add", ["x", "n"], ["y"], name="sum")]
    (folder / "m.onnx").write_bytes(model(nodes, [value("x", [4])], [value("y", None)]))
    document = ran("run m.onnx --partition --target toy:one --input x=rand:0 --check", folder)
    assert "`noise` (RandomNormalLike)" in document["values"][-1]["detail"]


@pytest.mark.usefixtures("toy")
def test_strings_in_a_document(folder):
    from onnx_models import STRING

    nodes = [node("StringConcat", ["s", "s"], ["t"], name="twice"), node("Tanh", ["x"], ["y"], name="act")]
    inputs, outputs = [value("s", [2], STRING), value("x", [2])], [value("t", None, STRING), value("y", None)]
    (folder / "m.onnx").write_bytes(model(nodes, inputs, outputs, opset=20))
    np.save(folder / "s.npy", np.array(["a", "é"]))
    document = ran("run m.onnx --partition --target toy:one --input s=s.npy --input x=rand:0 --check", folder)
    assert document["outputs"]["t"] == {"dtype": "string", "shape": [2], "data": ["aa", "éé"]}
    assert document["crossings"] == []


def test_on_mxu_the_link_is_that_of_the_chip(folder):
    line = "run detector_head.onnx --partition --target mxu:v5e --input x=rand:0 --check"
    document = ran(line, folder)
    assert [c["value"] for c in document["crossings"]] == ["boxes", "scores"]
    assert [c["seconds"] for c in document["crossings"]] == pytest.approx([10e-6 + n / 15e9 for n in (192, 144)])
    assert document["values"][-1]["ok"]
    slower = ran(line + " --set host.link_gbs=0.001 --set host.latency_us=1 -o slow", folder)
    assert [c["seconds"] for c in slower["crossings"]] == pytest.approx([1e-6 + n / 1e6 for n in (192, 144)])
    assert slower["regions"][0]["seconds"] == document["regions"][0]["seconds"]


def test_a_chip_without_a_link(folder):
    from tdslc.targets.mxu.chip import CHIPS

    text = (CHIPS / "v5e.toml").read_text().replace("[host]\nlink_gbs = 15\nlatency_us = 10.0\n", "")
    lines = [line for line in text.splitlines() if not line.startswith('"host.')]
    (folder / "lone.toml").write_text("\n".join(lines))
    refused = ran("build detector_head.onnx --partition --target mxu:lone.toml", folder, code=1)
    assert [d["code"] for d in refused["diagnostics"]] == ["E0503"]
    given = "--set host.link_gbs=15 --set host.latency_us=10"
    assert ran(f"build detector_head.onnx --partition --target mxu:lone.toml {given}", folder)["crossings"]
