"""The pages about ops are those of the table."""

import re
import runpy

from tdslc.compiler.graph import OPS
from tree import ROOT

MAKER = runpy.run_path(str(ROOT / "docs" / "make_operators.py"))


def test_operators_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert page == MAKER["page"](), "run python docs/make_operators.py"


def test_every_op_is_on_the_page() -> None:
    assert re.findall(r"^### `(\w+)\(", MAKER["page"](), re.MULTILINE) == list(OPS)


def test_every_row_says_what_it_computes() -> None:
    for op in OPS.values():
        assert op.doc.endswith("."), op.name
        assert not op.edges or op.edges.endswith("."), op.name
        assert [a.name for a in op.attrs] == list(dict.fromkeys(a.name for a in op.attrs)), op.name
