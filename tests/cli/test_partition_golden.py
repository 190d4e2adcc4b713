"""What commands print of models in parts, on a toy target. The host is onnx's evaluator, whatever else is installed."""

from pathlib import Path

import pytest
from command import run_case
from golden import Case, Golden, golden_cases
from toy_target import toy

__all__ = ["toy"]

pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")


@pytest.mark.usefixtures("toy")
@golden_cases("cli/partition")
def test_golden(case: Case, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tdslc.compiler.frontend.onnx import host

    monkeypatch.setattr(host, "_onnxruntime", lambda: None)
    golden.check(case, run_case(case, tmp_path))
