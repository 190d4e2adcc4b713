"""The text form: it parses back what it shows, and refuses everything else with GraphTextError."""

import math
import string

import pytest
from graph_examples import nested, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from tdslc.compiler.graph import (
    DTYPES,
    Attr,
    Builder,
    Dim,
    Graph,
    GraphTextError,
    Node,
    TensorType,
    parse,
    show,
    verify,
)
from tdslc.compiler.graph.graph import MAX_REGION_DEPTH, make_attrs

F32 = DTYPES["f32"]
SAMPLE = show(sample())


def test_sample() -> None:
    assert verify(sample()) == []
    assert parse(SAMPLE) == sample()
    assert show(parse(SAMPLE)) == SAMPLE


def attributes() -> st.SearchStrategy[Attr]:
    names = st.sampled_from(["S", "B", "nan", "f32", "true", "_x1", "größe"])
    dims = names.map(lambda name: Dim(7, name))
    computed = st.builds(
        lambda a, b, op: {"+": a + b, "-": a - b, "*": a * b, "//": a // b, "%": a % b}[op],
        dims, dims | st.integers(1, 9), st.sampled_from(["+", "-", "*", "//", "%"]),
    )  # fmt: skip
    twice = st.builds(lambda a, b: ((a + b) * (a - 3)) // 5, computed, dims)
    leaves = st.one_of(
        st.integers(),
        st.floats(),
        st.booleans(),
        st.none(),
        st.text(),
        dims,
        computed,
        twice,
        st.sampled_from(list(DTYPES.values())),
    )
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8)


@given(attributes(), st.text(), st.text(), st.text())
def test_attributes_names_and_places(value: Attr, name: str, output: str, loc: str) -> None:
    t = TensorType(F32, (Dim(4, "S"), 8))
    leaf = Node("input", (), make_attrs({"name": name, "dtype": F32, "shape": t.shape}), (t,), (0,))
    node = Node("odd.op_1", (0, 0), make_attrs({"k": value}), (t,), (1,), (), loc)
    graph = Graph(name, (leaf, node), (1, 0), (output, name))
    got = parse(show(graph))
    assert got == graph
    assert got.nodes[1].loc == loc
    assert show(got) == show(graph)


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1, 1.0, True, math.inf, -math.inf, math.nan, 1e300, 5e-324, 10**30, -1, 0.1]
)
def test_numbers_keep_their_kind(value: float) -> None:
    node = Node("op", (), (("k", value),), (TensorType(F32, ()),), (0,))
    (got,) = parse(show(Graph("g", (node,), (0,)))).nodes
    assert repr(got.attr("k")) == repr(value)
    assert got == node


def test_dim_symbols_come_back() -> None:
    s = Dim(8, "S")
    shape = (s, s * 2, (s + 1) * 2, (s + s // 2 - 1) % 5, 3 * (s - (s - 1)), 100 - s, s + -1)
    b = Builder("g")
    graph = b.finish([b.input("x", TensorType(F32, shape))])
    assert verify(graph) == []
    exprs = [d.expr for d in parse(show(graph)).nodes[0].type.shape if isinstance(d, Dim)]
    assert exprs == ["S", "S*2", "(S+1)*2", "(S+S//2-1)%5", "3*(S-(S-1))", "100-S", "S-1"]


def test_regions_nest_as_deep_as_verify_allows() -> None:
    deepest = nested(MAX_REGION_DEPTH)
    assert verify(deepest) == []
    assert parse(show(deepest)) == deepest
    assert "deep" in verify(nested(MAX_REGION_DEPTH + 1))[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected 'graph', found 'the end'"),
        ("graph", "line 1: expected a quoted string, found 'the end'"),
        ('graph "g" {', "line 1: expected a value such as %3, found 'the end'"),
        ('graph "g" {\n  return %0\n} x', "line 3: expected the end of the text, found 'x'"),
        ('graph "\\q" {\n}', r"""line 1: expected a quoted string, found '"\\q" {'"""),
        ('graph "g" {\n  %0 = input(name="x") : f33[2]\n}', "line 2: expected a dtype, found 'f33[2]'"),
        ('graph "g" {\n  %0 = input(name="x") : f32[2.5]\n}', "line 2: expected ']', found '.5]'"),
        ('graph "g" {\n  %0 = input(name="x") : f32[-2]\n}', "line 2: expected a dim, found '-2]'"),
        ('graph "g" {\n  %0 = input(name="x") : f32[S+=2]\n}', "line 2: expected a dim, found 'S+=2]'"),
        (
            'graph "g" {\n  %0 = input(name="x", shape=(2,)) : f32[2]\n}',
            "line 2: expected no dtype or shape but in the type, found ' : f32[2]'",
        ),
        ('graph "g" {\n  %0 = op(k=1, k=2) : f32[2]\n}', "line 2: expected the attribute k once, found ') : f32[2]'"),
        ('graph "g" {\n  %0 = op(k=word) : f32[2]\n}', "line 2: expected an attribute's value, found 'word) : f32[2]'"),
        ('graph "g" {\n  %0 = op(k=dense<f32[1], A>) : f32[1]\n}', "line 2: expected base64, found 'A>) : f32[1]'"),
        (
            'graph "g" {\n  %0 = op() : f32[1]\n  return %0 "a", %0\n}',
            "line 4: expected a name for every output or for none, found 'the end'",
        ),
        ("graph " + '"g" { %0 = op(k=' + "(" * 5000, "line 1: expected at most 64 levels, found '" + "(" * 20 + "'"),
        (
            'graph "g" { %' + "9" * 5000 + " = op() : f32[] }",
            "line 1: expected a value such as %3, found '%" + "9" * 19 + "'",
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(GraphTextError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_endless_regions_are_refused() -> None:
    with pytest.raises(GraphTextError, match="at most 64 levels"):
        parse('graph "g" { %0 = op() : f32[] { ' * 3000)


_PIECES = [
    *string.punctuation,
    " ",
    "\n",
    "graph",
    "return",
    "%0",
    "%99",
    "f32[",
    '"x"',
    "S=4",
    "(S+1)*2=10",
    "dense<",
    "nan",
    "-",
    "é",
    "\x00",
]


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SAMPLE)), st.integers(0, 12), st.sampled_from(_PIECES) | st.text(max_size=5)),
        max_size=4,
    )
)
def test_mutated_text_parses_or_is_refused(edits: list[tuple[int, int, str]]) -> None:
    text = SAMPLE
    for at, cut, put in edits:
        text = text[:at] + put + text[at + cut :]
    try:
        graph = parse(text)
    except GraphTextError:
        return
    verify(graph)
    assert show(parse(show(graph))) == show(graph)


@settings(max_examples=200)
@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=3), max_size=40).map("".join))
def test_any_text_parses_or_is_refused(text: str) -> None:
    for start in ("", 'graph "g" {', 'graph "g" { %0 = op(k='):
        try:
            parse(start + text)
        except GraphTextError:
            continue
