"""docs/onnx.md is the table's. Handlers need no onnx to be listed."""

import runpy

from tree import ROOT


def test_the_page_is_up_to_date():
    maker = runpy.run_path(str(ROOT / "docs" / "make_onnx.py"))
    page = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    assert page == maker["page"](), "run python docs/make_onnx.py"
