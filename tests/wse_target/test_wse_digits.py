"""The whole way on the wafer: digits through the same front, rules, plan and report as on mxu, and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tdslc
from tdslc.compiler.build.tensors import read_tensor
from tdslc.compiler.source import DiagnosticError
from tree import ROOT

pytest.importorskip("numba")
DIGITS = ROOT / "examples/digits.tdsl"
WEIGHTS = ROOT / "examples/digits.safetensors"
TEST = ROOT / "examples/digits_test.safetensors"
IMAGES = f"{TEST}:images"


@pytest.fixture(scope="module")
def labels() -> np.ndarray:
    ran = tdslc.run(DIGITS, target="mxu:v5e", inputs={"images": IMAGES}, weights=WEIGHTS)
    return ran.outputs["label"]


@pytest.mark.parametrize("size", ["4x4", "1x1", "2x3", "5x4"])
def test_every_decision_is_that_of_mxu_and_every_bit_that_of_the_model(size: str, labels: np.ndarray) -> None:
    built = tdslc.build(DIGITS, target=f"wse:wse3,{size}", numerics="exact")
    ran = built.run({"images": IMAGES}, weights=WEIGHTS, check=True)
    assert [c["ok"] for c in ran.checks] == [True]
    assert np.count_nonzero(ran.outputs["label"] == labels) == 360
    assert np.count_nonzero(ran.outputs["label"] == read_tensor(f"{TEST}:labels").read()) == 351


def test_the_report_has_what_every_report_has(tmp_path: Path) -> None:
    built = tdslc.build(DIGITS, target="wse:wse3,4x4")
    assert all(check["ok"] for check in built.report["checks"]), built.report["checks"]
    totals = built.totals
    assert totals.seconds >= totals.bound_seconds > 0
    assert totals.bytes_read + totals.bytes_written >= totals.compulsory_bytes
    assert totals.unfused.kernels > totals.kernels == 2
    assert totals.peak_fast_bytes <= 49_152
    built.save(tmp_path / "a")
    tdslc.build(DIGITS, target="wse:wse3,4x4").save(tmp_path / "b")
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert {"program/layout.csl", "program/pe.csl", "program/host.json"} <= {p.as_posix() for p in files}
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [
        ("reduce(x: f32[8, 16]) -> f32[16]:\n    return sum(x, axis=0)", "E0410", "reduce_sum over other axes"),
        ("product(x: f32[8, 8]) -> f32[8, 8]:\n    return x @ x", "E0410", "is not an input or parameter of its own"),
        ("narrow(x: bf16[8, 8]) -> bf16[8, 8]:\n    return x * 2", "E0410", "bf16 is not yet on wse"),
        ("sorted(x: f32[8, 8]) -> f32[8, 8]:\n    return sort(x, axis=1)", "E0410", "sort of f32 is not yet on wse"),
        (
            "large(x: f32[8, 512]) -> f32[8, 512]:\n    param w: f32[512, 512]\n    return x @ w",
            "E0401",
            "does not fit",
        ),
    ],
)
def test_what_is_not_there_yet_is_told(model: str, code: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.tdsl").write_text(f'"""A model."""\nmodel {model}\n')
    with pytest.raises(DiagnosticError) as caught:
        tdslc.build(tmp_path / "m.tdsl", target="wse:wse3,4x4")
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert said in caught.value.diagnostics[0].message


def test_layers_of_the_library(tmp_path: Path) -> None:
    """Norms, gelu, silu and softmax, over two leading axes that go over y together."""
    (tmp_path / "m.tdsl").write_text(
        '"""Layers."""\nimport nn\n\nmodel layers(x: f32[2, 3, 20]) -> f32[2, 3, 12]:\n'
        '    h = nn.gelu(nn.linear(nn.layer_norm(x) as "n", 12) as "a")\n'
        '    return nn.softmax(h + nn.silu(nn.rms_norm(h) as "r"))\n'
    )
    built = tdslc.build(tmp_path / "m.tdsl", target="wse:wse3,3x2")
    x = np.random.default_rng(2).standard_normal((2, 3, 20)).astype(np.float32)
    ran = built.run({"x": x}, weights="random:1", check=True)
    assert [c["ok"] for c in ran.checks] == [True], ran.checks
    assert np.allclose(ran.outputs["output"].sum(axis=-1), 1, rtol=1e-6)
