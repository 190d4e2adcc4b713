"""A StableHLO file is a model like any other: built, run, checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tdslc
from stablehlo_texts import SMALL
from tdslc.compiler.build.imports import import_stablehlo
from tdslc.compiler.frontend.canonical import canonical
from tdslc.compiler.frontend.stablehlo import import_file
from tdslc.compiler.language import load_model
from tdslc.compiler.source import DiagnosticError


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "small.mlir"
    path.write_text(SMALL)
    return path


def test_a_text_is_built_run_and_checked(model: Path) -> None:
    x, w = np.ones((2, 3), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4) - 5
    found = tdslc.run(model, inputs={"x": x, "w": w}, check=True)
    assert np.array_equal(found.outputs["y"], np.maximum(x @ w, 0))


def test_the_build_folder_names_the_text(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "built"
    tdslc.build(model, out=out)
    manifest = (out / "manifest.json").read_text()
    assert '"small.mlir"' in manifest and str(tmp_path) not in manifest
    assert "small.mlir:3:5" in (out / "ir/00-graph.txt").read_text()


def test_its_shapes_and_dtypes_are_fixed(model: Path) -> None:
    for given, code in (({"dims": {"S": 4}}, "E0116"), ({"dtypes": {"T": "bf16"}}, "E0117")):
        with pytest.raises(DiagnosticError) as caught:
            tdslc.build(model, **given)  # type: ignore[arg-type]
        assert [d.code for d in caught.value.diagnostics] == [code]


def test_a_broken_text_is_a_diagnostic(tmp_path: Path) -> None:
    path = tmp_path / "broken.stablehlo"
    path.write_text(SMALL[:200])
    with pytest.raises(DiagnosticError) as caught:
        tdslc.build(path)
    assert caught.value.diagnostics[0].code == "E1113"


def test_a_text_is_imported_as_tdsl(model: Path, tmp_path: Path) -> None:
    done = import_stablehlo(str(model), None, str(tmp_path / "out"))
    assert [Path(f).name for f in done.files] == ["small.tdsl"]
    again = load_model(done.files[0], {}, {}, None).graph
    assert canonical(again) == canonical(done.graph)


def test_weights_in_the_text_become_params_with_values(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)
    path = tmp_path / "closed.mlir"
    path.write_text(f"""func.func @main(%x: tensor<2x10xf32>) -> tensor<2x8xf32> {{
      %w = stablehlo.constant dense<"0x{w.tobytes().hex()}"> : tensor<10x8xf32>
      %0 = stablehlo.dot %x, %w : (tensor<2x10xf32>, tensor<10x8xf32>) -> tensor<2x8xf32>
      return %0 : tensor<2x8xf32>
    }}""")
    _, made = import_file(path)
    assert [str(n.attr("name")) for n in made.graph.params] == ["weights.w0"]
    assert np.array_equal(made.params["weights.w0"], w)
    x = np.ones((2, 10), np.float32)
    found = tdslc.run(path, inputs={"x": x}, check=True)
    np.testing.assert_allclose(found.outputs["y"], x @ w, rtol=1e-5, atol=1e-6)
