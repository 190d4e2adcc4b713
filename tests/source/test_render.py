import json
import pickle
import unicodedata

import pytest
import strategies as my
from golden import Case, Golden, golden_cases
from hypothesis import given
from tdslc.compiler.source import Diagnostic, DiagnosticError, Note, SourceFile, Span, render, render_all, to_json

SLOT = "E0001"


@golden_cases("source/render")
def test_rendered(case: Case, golden: Golden) -> None:
    """`# span: START END` and `# note: START END MESSAGE` count from 0 in the unescaped input."""
    file = SourceFile(case.get("path", "f.tdsl"), case.input.rstrip("\n").encode().decode("unicode_escape"))
    notes = [note.split(" ", 2) for note in case.all("note")]
    diagnostic = Diagnostic(
        SLOT,
        case.get("message", "what is wrong"),
        file.span(*map(int, case.get("span").split())) if case.all("span") else None,
        (
            *(Note(message, file.span(int(start), int(end))) for start, end, message in notes),
            *(Note(message) for message in case.all("remark")),
        ),
        case.get("help") if case.all("help") else None,
    )
    golden.check(case, render(diagnostic))


@given(my.spans())
def test_nothing_in_a_source_can_steer_the_terminal(span: Span) -> None:
    printed = render(Diagnostic(SLOT, span.text[:50].replace("\n", " "), span, (Note("here", span),)))
    assert not [c for c in printed if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
    assert max(map(len, printed.split("\n"))) < 2000


@given(my.spans())
def test_every_excerpt_has_a_caret(span: Span) -> None:
    lines = render(Diagnostic(SLOT, "x", span)).split("\n")
    assert lines[1].endswith(f"{span.line}:{span.col}")
    assert any(set(line.strip(" |")) == {"^"} for line in lines[3:])


@given(my.spans())
def test_json_holds_what_the_value_holds(span: Span) -> None:
    value = json.loads(json.dumps(to_json(Diagnostic(SLOT, "m", span, (Note("n"),), "h", "warning"))))
    assert (value["code"], value["severity"], value["message"], value["help"]) == (SLOT, "warning", "m", "h")
    assert span.file.text[value["span"]["start"] : value["span"]["end"]] == span.text
    assert value["notes"] == [{"message": "n", "span": None}]
    assert value["rendered"].startswith(f"warning[{SLOT}]: m\n")


def test_diagnostics_are_parted_by_a_blank_line() -> None:
    assert render_all([Diagnostic(SLOT, "a"), Diagnostic(SLOT, "b")]) == f"error[{SLOT}]: a\n\nerror[{SLOT}]: b"


def test_the_error_carries_its_diagnostics_across_processes() -> None:
    error = DiagnosticError(Diagnostic(SLOT, "a", SourceFile("f", "x").span()))
    assert pickle.loads(pickle.dumps(error)).diagnostics == error.diagnostics
    assert DiagnosticError(list(error.diagnostics)).diagnostics == error.diagnostics
    with pytest.raises(ValueError, match="at least one"):
        DiagnosticError([])
