"""Whether a Graph survives being written as `.tdsl` and read back: what importers promise, for tests and benchmarks."""

from __future__ import annotations

import tempfile
from itertools import zip_longest
from pathlib import Path

from ..graph import Graph, show
from ..language import load_model
from .canonical import canonical
from .tdsl_writer import write_tdsl


def through_text(graph: Graph) -> Graph:
    """The graph of the `.tdsl` text of `graph`. DiagnosticError when the language has no words for it (E1105)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tdsl"
        path.write_text(write_tdsl(graph), encoding="utf-8")
        return load_model(path).graph


def difference(a: Graph, b: Graph) -> str:
    """The first line in which the canonical forms of two graphs differ, of each; empty when they are equal."""
    first, second = canonical(a), canonical(b)
    if first == second:
        return ""
    for x, y in zip_longest(show(first).splitlines(), show(second).splitlines(), fillvalue=""):
        if x != y:
            return f"{x.strip()} | {y.strip()}"
    return "names or places that the text does not show"
