"""Hypothesis strategies: what a text, a span, a type, a graph may be. Every feature adds its own here."""

from hypothesis import strategies as st
from tdslc.compiler.source import SourceFile, Span

# Characters that have cost other tools an alignment: tabs, wide, combining, invisible and reordering ones.
_AWKWARD = "\n\t\x00\x1b\u0301\u200b\u202e\u2028漢🙂"


def texts(max_size: int = 400) -> st.SearchStrategy[str]:
    """Source texts, awkward ones among them, of any Unicode characters but lone surrogates."""
    return st.text(st.sampled_from(_AWKWARD + "ab =(") | st.characters(codec="utf-8"), max_size=max_size)


def source_files() -> st.SearchStrategy[SourceFile]:
    """Files of `texts`; some with one line of many thousand characters."""
    long = st.builds(lambda text, n: text * n, texts(20), st.integers(1, 2000))
    return st.builds(SourceFile, st.sampled_from(["a.tdsl", "sub/b.rules"]), texts() | long)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Any place of any file, empty ones and the end of the file included."""
    file = draw(source_files())
    start = draw(st.integers(0, len(file.text)))
    return file.span(start, draw(st.integers(start, len(file.text))))
