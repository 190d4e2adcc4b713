"""The Python API."""

from pathlib import Path

import numpy as np
import pytest
import tdslc
from toy_target import toy

__all__ = ["toy"]
pytestmark = pytest.mark.usefixtures("toy")

MODEL = """\
dim B = 2
model m(x: f32[B, 4]) -> (y: f32[B, 4], i: i32[B]):
    param w: f32[4, 4]
    y = tanh(x @ w)
    return y, argmax(y, axis=-1)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "m.tdsl").write_text(MODEL)
    return tmp_path / "m.tdsl"


def test_build_run_and_save(model: Path) -> None:
    built = tdslc.build(model, "toy:one", weights="random:3", out=model.parent / "out")
    assert built.totals.seconds == built.report["totals"]["seconds"] > 0
    assert built.totals.unfused.kernels is not None
    x = np.ones((2, 4), np.float32)
    result = built.run({"x": x}, check=True)
    assert list(result.outputs) == ["y", "i"]
    assert [c["ok"] for c in result.checks] == [True]
    again = tdslc.run(model.parent / "out", inputs={"x": x}, weights="random:3")
    np.testing.assert_array_equal(again.outputs["y"], result.outputs["y"])


def test_run_takes_dims_from_inputs(model: Path) -> None:
    result = tdslc.run(model, "toy:one", inputs={"x": np.ones((5, 4), np.float32)}, weights="random:3")
    assert result.outputs["y"].shape == (5, 4)


def test_mistakes_are_one_exception_with_all_of_them(model: Path) -> None:
    with pytest.raises(tdslc.DiagnosticError) as caught:
        tdslc.build(model, "toy:nowhere", dims={"C": 1})
    assert len(caught.value.diagnostics) == 2


def test_names() -> None:
    assert set(tdslc.__all__) <= set(dir(tdslc))
    assert tdslc.__version__
    with pytest.raises(AttributeError):
        tdslc.nothing  # noqa: B018
