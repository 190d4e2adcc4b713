"""What the language makes of texts: graphs, and diagnostics."""

import re
from pathlib import Path

from golden import Case, Golden, golden_cases
from language.texts import load_case
from tdslc.compiler.graph import parse, show, verify
from tdslc.compiler.source import DiagnosticError, render_all


@golden_cases("language/graph")
def test_lowering(case: Case, golden: Golden, tmp_path: Path) -> None:
    graph = load_case(case, tmp_path).graph
    assert verify(graph) == []
    assert parse(show(graph)) == graph
    shown = show(graph)
    golden.check(case, shown if case.get("locations", "no") == "yes" else re.sub(r' @"[^"]*"', "", shown))


def refusal(case: Case, folder: Path) -> str:
    try:
        load_case(case, folder)
    except DiagnosticError as error:
        return render_all(error.diagnostics)
    return "nothing is wrong"


@golden_cases("language/errors")
def test_errors(case: Case, golden: Golden, tmp_path: Path) -> None:
    golden.check(case, refusal(case, tmp_path))


@golden_cases("language/syntax")
def test_syntax_errors(case: Case, golden: Golden, tmp_path: Path) -> None:
    golden.check(case, refusal(case, tmp_path))
