import pickle

import pytest
import strategies as my
from hypothesis import given
from tdslc.compiler.source import SourceFile, Span

FILE = SourceFile("m.tdsl", "dim S = 3\n\n  x = y\n")


@pytest.mark.parametrize(
    ("start", "end", "place"),
    [
        (0, 0, (1, 1, 1, 1)),
        (4, 5, (1, 5, 1, 6)),
        (9, 10, (1, 10, 2, 1)),
        (13, 18, (3, 3, 3, 8)),
        (19, 19, (4, 1, 4, 1)),
    ],
)
def test_lines_and_columns_count_from_one(start: int, end: int, place: tuple[int, ...]) -> None:
    span = FILE.span(start, end)
    assert (span.line, span.col, span.end_line, span.end_col) == place


@given(my.spans())
def test_a_place_is_where_counting_puts_it(span: Span) -> None:
    before = span.file.text[: span.start]
    assert (span.line, span.col) == (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
    assert span.file.line(span.line) == span.file.text.split("\n")[span.line - 1]


def test_line_span_leaves_out_indentation_and_line_end() -> None:
    assert FILE.line_span(3).text == "x = y"
    assert FILE.line_span(2) == FILE.span(10, 10)


def test_where_is_path_and_line() -> None:
    assert FILE.span(13, 14).where == "m.tdsl:3"


def test_to_covers_both_ways_round() -> None:
    first, last = FILE.span(0, 3), FILE.span(13, 14)
    assert first.to(last) == last.to(first) == FILE.span(0, 14)
    with pytest.raises(ValueError, match="two files"):
        first.to(SourceFile("other", "x").span())


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (3, 2), (0, 20)])
def test_a_span_outside_its_file_is_our_mistake(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        Span(FILE, start, end)


def test_spans_travel_between_processes() -> None:
    span = FILE.span(4, 5)
    assert span.line == 1  # fills the file's line index, which does not travel
    copy = pickle.loads(pickle.dumps(span))
    assert copy == span
    assert hash(copy) == hash(span)
    assert copy.where == span.where
