"""Cutting a graph of numbers: every order is one in which nodes can run, and no cut has fewer segments."""

from __future__ import annotations

from itertools import groupby, pairwise, permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from tdslc.compiler.graph import TensorType
from tdslc.compiler.graph.cut import Edge, Segment, cut, edges
from tdslc.compiler.graph.dtypes import F32


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    """What each node reads, of those before it, and whether it is compiled."""
    n = draw(st.integers(0, 6))
    reads = [draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else [] for i in range(n)]
    return reads, draw(st.lists(st.booleans(), min_size=n, max_size=n))


def runs(order: tuple[int, ...], reads: list[list[int]]) -> bool:
    place = {i: k for k, i in enumerate(order)}
    return all(place[source] < place[i] for i in order for source in reads[i])


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_no_order_has_fewer_segments(graph: tuple[list[list[int]], list[bool]]) -> None:
    reads, compiled = graph
    found = cut(reads, compiled)
    order = tuple(i for s in found for i in s.nodes)
    assert sorted(order) == list(range(len(reads)))
    assert runs(order, reads)
    assert all(compiled[i] == s.compiled for s in found for i in s.nodes)
    assert all(a.compiled != b.compiled for a, b in pairwise(found))
    orders = (o for o in permutations(range(len(reads))) if runs(o, reads))
    assert len(found) == min(len([*groupby(o, key=lambda i: compiled[i])]) for o in orders)


def test_a_chain_of_many_nodes() -> None:
    n = 20_000
    found = cut([[i - 1] if i else [] for i in range(n)], [i % 1000 != 500 for i in range(n)])
    assert [len(s.nodes) for s in found] == [500, *[1, 999] * 19, 1, 499]


def test_nothing() -> None:
    assert cut([], []) == ()


def test_edges_are_the_values_that_leave_their_segment() -> None:
    t = TensorType(F32, (2,))
    segments = [Segment(True, (0, 1)), Segment(False, (2,)), Segment(True, (3,))]
    makes, reads = [["a", "b"], ["c"], ["d"]], [["x", "a"], ["a", "c", "b"], ["a", "c"]]
    found = edges(segments, makes, reads, {"a": t})
    assert found == (Edge("a", t, 0, (1, 2)), Edge("b", None, 0, (1,)), Edge("c", None, 1, (2,)))
