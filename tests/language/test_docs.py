"""docs/language.md is run: its files load, its mistakes are told as it says, and it names every function."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from language.texts import load_text
from tdslc.compiler.language.expr import BUILTINS, TABLE_FUNCTIONS
from tdslc.compiler.language.frame import MAX_ELEMENTS, MAX_NODES, MAX_RANK, MAX_TRIPS
from tdslc.compiler.language.layout import MAX_NESTING, MAX_TOKENS
from tdslc.compiler.language.parse import MAX_CHAIN
from tdslc.compiler.source import DiagnosticError, render_all
from tree import ROOT

TEXT = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)( error)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[int, str, str, str]]:
    """(line, "ok" or "error", the file, what is said about it)."""
    found = [(m.start(), m[1], bool(m[2]), m[3]) for m in _BLOCK.finditer(TEXT)]
    for at, (start, language, is_error, text) in enumerate(found):
        if language == "tdsl":
            yield (
                TEXT.count("\n", 0, start) + 1,
                "error" if is_error else "ok",
                text,
                found[at + 1][3] if is_error else "",
            )


@pytest.mark.parametrize(("line", "kind", "text", "said"), [pytest.param(*b, id=f"line {b[0]}") for b in blocks()])
def test_every_file_does_what_is_said(
    line: int, kind: str, text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if kind == "ok":
        load_text(Path(), text)
        return
    with pytest.raises(DiagnosticError) as caught:
        load_text(Path(), text)
    assert render_all(caught.value.diagnostics) == said.rstrip()


def test_every_function_is_named() -> None:
    words = set(re.findall(r"\w+", TEXT))
    assert set(BUILTINS) - set(TABLE_FUNCTIONS) - words == set()


def test_limits_are_the_ones_in_force() -> None:
    section = TEXT[TEXT.index("## Limits") :].replace(",", "")
    for limit in (MAX_NESTING, MAX_TOKENS, MAX_CHAIN, MAX_NODES, MAX_RANK, MAX_TRIPS):
        assert re.search(rf"\b{limit}\b", section), limit
    assert MAX_ELEMENTS == 2**31 - 1
