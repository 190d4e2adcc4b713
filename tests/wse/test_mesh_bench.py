"""The programs of `bench/mesh.py` compute what NumPy does, at sizes of a test."""

import sys

import pytest
from tree import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import mesh

sys.path.remove(str(ROOT / "bench"))


@pytest.mark.parametrize("name", ["layout", "chain", "summa", "mesh_gemm", "stencil"])
def test_a_section_says_what_it_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    mesh.SECTIONS[name](True)
    assert "PEs" in capsys.readouterr().out
