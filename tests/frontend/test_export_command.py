"""`tdslc export` and `tdslc.export`, and what onnxruntime makes of the examples that are exported."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tdslc
from command import run_here
from safetensors.numpy import load_file, save_file
from tdslc.compiler.build.weights import random_weights
from tdslc.compiler.frontend.stablehlo import import_text
from tdslc.compiler.graph import Builder, TensorType, dtype, evaluate
from tdslc.compiler.language import load_model
from toy_target import toy
from tree import ROOT

__all__ = ["toy"]

EXAMPLES = ROOT / "examples"
MODEL = '''"""Two layers."""
dim B = 2 in 1..8
dtype T = bf16 in {bf16, f32}

model m(x: T[B, 4]) -> (y: T[B, 3]):
    param w: T[4, 3]
    y = -(-tanh(x @ w))
    return y
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "m.tdsl").write_text(MODEL)
    rng = np.random.default_rng(0)
    save_file({"w": rng.standard_normal((4, 3)).astype(np.float32)}, str(tmp_path / "w.safetensors"))
    return tmp_path


@pytest.fixture
def onnx():
    return pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")


def of_onnxruntime(path, inputs):
    ort = pytest.importorskip("onnxruntime", reason="runs the models that are exported")
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, inputs)


def export(folder, line: str):
    return run_here(["export", *line.split()], folder)


# ---- the command ---------------------------------------------------------------------------------


def test_a_text_with_weights_computes_what_the_model_does(folder):
    outcome = export(folder, "m.tdsl -o m.mlir --weights w.safetensors --dim B=3 --dtype T=f32")
    assert (outcome.code, outcome.stderr) == (0, "")
    assert "params in it: 1 of 12 elements" in outcome.stdout
    assert outcome.stdout.endswith("written: m.mlir\n")
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    graph = import_text((folder / "m.mlir").read_text()).graph
    model = load_model(folder / "m.tdsl", {"B": 3}, {"T": "f32"}).graph
    (got,) = evaluate(graph, {"x": x})
    np.testing.assert_array_equal(got, evaluate(model, {"x": x}, load_file(folder / "w.safetensors"))[0])


def test_without_weights_params_are_inputs(folder):
    document = json.loads(export(folder, "m.tdsl -o m.stablehlo --json").stdout)
    assert (document["params"], document["embedded"], document["diagnostics"]) == (["w"], [], [])
    assert "@main(%x: tensor<2x4xbf16>, %w: tensor<4x3xbf16>)" in (folder / "m.stablehlo").read_text()


def test_a_file_that_is_there_is_replaced(folder):
    (folder / "m.mlir").write_text("before")
    assert export(folder, "m.tdsl -o m.mlir").code == 0
    assert (folder / "m.mlir").read_text().startswith("module @m")
    assert sorted(p.name for p in folder.iterdir()) == ["m.mlir", "m.tdsl", "w.safetensors"]


@pytest.mark.usefixtures("toy")
def test_a_build_folder_gives_the_graph_that_the_rules_made(folder):
    line = "build m.tdsl --target toy:one --dtype T=f32 -o built"
    assert run_here(line.split(), folder).code == 0
    for level in ("", " --level rewritten", " --level graph"):
        assert export(folder, f"built -o m.mlir --weights w.safetensors{level}").code == 0
        text = (folder / "m.mlir").read_text()
        # -(-x) is x, by a rule.
        assert ("stablehlo.negate" in text) == (level == " --level graph")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("line", "code", "codes"),
    [
        ("m.tdsl -o m.txt", 1, ["E0702"]),
        ("m.tdsl -o missing/m.mlir", 0, []),
        ("m.tdsl -o m.tdsl/m.mlir", 1, ["E0702"]),
        ("no.tdsl -o m.mlir", 1, ["E0001"]),
        ("m.tdsl -o m.mlir --weights no.safetensors", 1, ["E0001"]),
        ("m.tdsl -o m.mlir --weights random:0", 0, ["E0613"]),
        ("m.tdsl -o m.mlir --level rewritten", 2, ["E0708"]),
        ("m.tdsl", 2, ["E0708"]),
        ("m.tdsl -o m.mlir --dim B=9", 1, ["E0116"]),
        ("m.tdsl -o m.mlir --bind x=w.npy", 1, ["E1112"]),
        (". -o m.mlir", 1, ["E0703"]),
        (". -o m.mlir --dim B=1", 2, ["E0708"]),
    ],
)
def test_mistakes_are_diagnostics(folder, line, code, codes):
    outcome = export(folder, f"{line} --json")
    document = json.loads(outcome.stdout)
    assert (outcome.code, [d["code"] for d in document["diagnostics"]]) == (code, codes)


def test_a_model_is_not_written_over_itself(folder):
    export(folder, "m.tdsl -o m.mlir")
    outcome = export(folder, "m.mlir -o ./m.mlir")
    assert (outcome.code, "is the model itself" in outcome.stderr) == (1, True)


def test_what_the_format_lacks_is_told_with_its_place(folder):
    pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")
    b = Builder("m")
    x = b.input("x", TensorType(dtype("f32"), (2,)))
    graph = b.finish([b.one("lgamma", x, loc="a.tdsl:3:5")], ["y"])
    with pytest.raises(tdslc.DiagnosticError, match="no counterpart of lgamma") as caught:
        tdslc.export(graph, folder / "m.onnx")
    assert [n.message for n in caught.value.diagnostics[0].notes] == ["lgamma at a.tdsl:3:5"]
    assert not (folder / "m.onnx").exists()


def test_dims_of_the_program_interface(folder):
    done = tdslc.export(folder / "m.tdsl", folder / "m.mlir", dims={"B": 7})
    assert (done.format, done.embedded, done.elements) == ("StableHLO", (), 0)
    assert "%x: tensor<7x4xbf16>" in (folder / "m.mlir").read_text()


@pytest.mark.usefixtures("onnx")
def test_an_onnx_model_keeps_its_weights(folder):
    from onnx_models import constant, model, node, value

    w = np.arange(12, dtype=np.float32).reshape(4, 3)
    nodes = [node("MatMul", ["in.x", "w"], ["h"]), node("Relu", ["h"], ["y"])]
    data = model(nodes, [value("in.x", ["batch", 4])], [value("y", None)], [constant("w", w)])
    (folder / "a.onnx").write_bytes(data)
    outcome = export(folder, "a.onnx -o b.onnx --dim batch=2")
    assert (outcome.code, "params in it: 1 of 12 elements" in outcome.stdout) == (0, True)
    x = np.array([[1, 2, 3, 4], [-4, -3, -2, -1]], np.float32)
    np.testing.assert_array_equal(of_onnxruntime(folder / "b.onnx", {"in_x": x})[0], np.maximum(x @ w, 0))


# ---- what others make of it ----------------------------------------------------------------------


@pytest.mark.usefixtures("onnx")
def test_digits_in_onnxruntime(tmp_path):
    weights = EXAMPLES / "digits.safetensors"
    images = load_file(EXAMPLES / "digits_test.safetensors")["images"]
    tdslc.export(EXAMPLES / "digits.tdsl", tmp_path / "d.onnx", weights=weights)
    run = tdslc.run(EXAMPLES / "digits.tdsl", inputs={"images": images}, weights=weights)
    logits, label = of_onnxruntime(tmp_path / "d.onnx", {"images": images})
    np.testing.assert_array_equal(run.outputs["label"], label)
    np.testing.assert_allclose(run.outputs["logits"], logits, rtol=1e-5, atol=2e-5)


@pytest.mark.usefixtures("onnx")
def test_mlp_block_in_onnxruntime(tmp_path):
    graph = load_model(EXAMPLES / "mlp_block.tdsl", dtypes={"T": "f32"}).graph
    save_file(random_weights(graph, 0), str(tmp_path / "w.safetensors"))
    given = {"weights": tmp_path / "w.safetensors", "dtypes": {"T": "f32"}}
    x = np.random.default_rng(0).standard_normal((128, 1024)).astype(np.float32)
    tdslc.export(EXAMPLES / "mlp_block.tdsl", tmp_path / "m.onnx", **given)
    (want,) = tdslc.run(EXAMPLES / "mlp_block.tdsl", inputs={"x": x}, **given).outputs.values()
    (got,) = of_onnxruntime(tmp_path / "m.onnx", {"x": x})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=5e-6)


@pytest.mark.usefixtures("onnx")
def test_a_short_minilm_in_onnxruntime(tmp_path):
    """Two layers with random weights, in the evaluator."""
    dims, dtypes = {"B": 2, "S": 9, "L": 2}, {"T": "f32"}
    graph = load_model(EXAMPLES / "minilm.tdsl", dims, dtypes).graph
    params = random_weights(graph, 0)
    ids = np.random.default_rng(0).integers(0, 30522, (2, 9)).astype(np.int32)
    inputs = {"ids": ids, "mask": np.arange(9)[None] < np.array([[9], [4]])}
    tdslc.export(EXAMPLES / "minilm.tdsl", tmp_path / "m.onnx", weights="random:0", dims=dims, dtypes=dtypes)
    (got,) = of_onnxruntime(tmp_path / "m.onnx", inputs)
    np.testing.assert_allclose(got, evaluate(graph, inputs, params)[0], rtol=1e-4, atol=1e-6)
