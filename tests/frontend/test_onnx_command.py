"""`tdslc import`, `build` and `run` of .onnx files, and what they say when the extra is not installed."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from command import run_here
from toy_target import toy

__all__ = ["toy"]

BATCH, WIDTH = 2, 16


def test_without_the_package_it_says_which_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "m.onnx").write_bytes(b"whatever")
    outcome = run_here(["import", "m.onnx"], tmp_path)
    assert outcome.code == 1
    assert "E1101" in outcome.stderr
    assert "pip install 'tdslc[onnx]'" in outcome.stderr


@pytest.fixture
def folder(tmp_path):
    """A folder with a perceptron whose batch is symbolic, its input, and a vector to bind."""
    pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")
    from onnx_models import INT64, constant, model, node, value

    rng = np.random.default_rng(0)
    w = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32)
    nodes = [node("MatMul", ["in.x", "fc.w"], ["h"]), node("Tanh", ["h"], ["t"]), node("Reshape", ["t", "to"], ["y"])]
    inputs = [value("in.x", ["batch", WIDTH]), value("to", [2], INT64)]
    (tmp_path / "m.onnx").write_bytes(model(nodes, inputs, [value("y", None)], [constant("fc.w", w)]))
    x = rng.standard_normal((BATCH, WIDTH)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "to.npy", np.array([-1, 4]))
    np.save(tmp_path / "want.npy", np.tanh(x @ w).reshape(-1, 4))
    return tmp_path


@pytest.mark.usefixtures("toy")
def test_run_takes_dims_from_inputs_and_weights_from_the_model(folder):
    line = "run m.onnx --target toy:one --bind to=to.npy --input in_x=x.npy --check --save y.npy --json"
    outcome = run_here(line.split(), folder)
    document = json.loads(outcome.stdout)
    assert (outcome.code, document["diagnostics"]) == (0, [])
    np.testing.assert_allclose(np.load(folder / "y.npy"), np.load(folder / "want.npy"), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("toy")
def test_import_writes_a_text_that_computes_the_same(folder):
    line = f"import m.onnx --dim batch={BATCH} --bind to=to.npy -o made"
    outcome = run_here(line.split(), folder)
    assert outcome.code == 0, outcome.stderr
    assert "renamed: `in.x` is `in_x`" in outcome.stdout
    line = "run made/m.tdsl --target toy:one --weights made/m.safetensors --input in_x=x.npy --check --save z.npy"
    outcome = run_here(line.split(), folder)
    assert outcome.code == 0, outcome.stderr
    np.testing.assert_allclose(np.load(folder / "z.npy"), np.load(folder / "want.npy"), rtol=1e-5, atol=1e-6)


def test_import_replaces_nothing(folder):
    line = f"import m.onnx --dim batch={BATCH} --bind to=to.npy -o made".split()
    assert run_here(line, folder).code == 0
    outcome = run_here([*line, "--json"], folder)
    assert outcome.code == 1
    assert [d["code"] for d in json.loads(outcome.stdout)["diagnostics"]] == ["E0702"]


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("line", "code", "codes"),
    [
        ("import m.onnx", 1, ["E1109"]),
        ("import m.onnx --dim batch=2", 1, ["E1107"]),
        ("import m.onnx --dim bach=2 --bind to=to.npy", 1, ["E1109", "E1109"]),
        ("import no.onnx", 1, ["E0001"]),
        ("import m.onnx --bind to=no.npy", 1, ["E0001"]),
        ("build m.onnx --target toy:one --dim batch=2 --bind to=to.npy", 0, []),
        ("build m.onnx --target toy:one --dim batch=2 --bind to=to.npy --dtype T=f32", 1, ["E0117"]),
        ("build m.onnx --target toy:one --bind to=to.npy", 1, ["E1109"]),
    ],
)
def test_mistakes_are_diagnostics(folder, line, code, codes):
    outcome = run_here([*line.split(), "--json"], folder)
    document = json.loads(outcome.stdout)
    assert (outcome.code, [d["code"] for d in document["diagnostics"]]) == (code, codes)


@pytest.mark.usefixtures("toy")
def test_a_manifest_says_what_was_bound(folder):
    line = "build m.onnx --target toy:one --dim batch=2 --bind to=to.npy -o built"
    assert run_here(line.split(), folder).code == 0
    options = json.loads((folder / "built" / "manifest.json").read_text())["options"]
    assert options["binds"] == {"to": "to.npy"}
    assert options["dims"] == {"batch": 2}
