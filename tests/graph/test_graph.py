"""Graphs, nodes, dims and dtypes as values: copies, equality, hashing, numbering, depth."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_examples import chain, sample
from hypothesis import given
from hypothesis import strategies as st
from tdslc.compiler.graph import (
    DTYPES,
    Attr,
    Builder,
    Dim,
    Graph,
    InferError,
    Node,
    TensorType,
    attr_key,
    evaluate,
    expand,
    live,
    parse,
    renumber,
    show,
    show_dim,
    verify,
)
from tdslc.compiler.graph.dtypes import extremes, from_numpy, holds, rounded
from tdslc.compiler.graph.types import is_dim_expr

F32, I32 = DTYPES["f32"], DTYPES["i32"]


# ---- copies, equality ----------------------------------------------------------------------------


def _pickled(x: object) -> object:
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("again", [_pickled, copy.copy, copy.deepcopy])
def test_copies_are_equal(again: Callable[[Any], Any]) -> None:
    graph = sample()
    made = again(graph)
    assert made == graph
    assert hash(made) == hash(graph)
    assert show(made) == show(graph)
    assert all(again(d) is d for d in DTYPES.values())
    assert repr(again(Dim(4, "S+1"))) == "Dim(4, 'S+1')"


def _with(value: Attr) -> Node:
    return Node("op", (), (("k", value),), (TensorType(F32, ()),), (0,))


@pytest.mark.parametrize(
    ("a", "b"), [(0.0, -0.0), (1, 1.0), (1, True), (0, False), (1.0, math.nan), ((0.0,), (-0.0,)), (None, 0), ("1", 1)]
)
def test_different_attributes_are_different_nodes(a: Attr, b: Attr) -> None:
    assert _with(a) != _with(b)
    assert attr_key(a) != attr_key(b)
    assert len({_with(a), _with(b)}) == 2


@pytest.mark.parametrize("text", ["float('nan')", "(1, (float('nan'),))", "-0.0", "10**400"])
def test_equal_attributes_are_equal_nodes(text: str) -> None:
    a, b = _with(eval(text)), _with(eval(text))
    assert a == b
    assert len({a, b}) == 1


def test_a_dim_is_its_value_and_a_place_is_no_difference() -> None:
    assert _with(Dim(4, "S")) == _with(4)
    assert Node("op", (), (), (TensorType(F32, (Dim(4, "S"),)),), (0,), (), "a:1:1") == Node(
        "op", (), (), (TensorType(F32, (4,)),), (0,), (), "b:2:2"
    )


# ---- numbering, dead code ------------------------------------------------------------------------


def test_renumber_and_live() -> None:
    b = Builder("g")
    x, unused = b.input("x", TensorType(F32, (2,))), b.input("unused", TensorType(F32, (2,)))
    dead = b.one("neg", x)
    b.one("add", dead, unused)
    y = b.one("abs", x)
    graph = b.finish([y, x], ["y", "x"])
    kept = live(graph)
    assert [n.op for n in kept.nodes] == ["input", "input", "abs"]
    assert (kept.outputs, kept.output_names) == (graph.outputs, graph.output_names)
    assert verify(renumber(kept)) == []
    assert renumber(kept).outputs == (2, 0)
    assert renumber(renumber(kept)) == renumber(kept)


def test_renumber_reaches_regions_and_keeps_meaning() -> None:
    graph = sample()
    shifted = Graph(
        graph.name, tuple(_shift(n, 10) for n in graph.nodes), tuple(v + 10 for v in graph.outputs), graph.output_names
    )
    assert renumber(shifted) == graph
    assert renumber(graph) == graph


def _shift(n: Node, by: int) -> Node:
    return Node(n.op, tuple(a + by for a in n.args), n.attrs, n.types, tuple(v + by for v in n.outs), n.regions, n.loc)


def test_expand_keeps_meaning() -> None:
    graph = sample()
    flat = expand(graph)
    assert verify(flat) == []
    assert {n.op for n in flat.nodes} >= {"mul", "loop"}
    assert not {n.op for n in flat.nodes} & {"soft.max_2", "square"}
    bound = {"x": np.ones((4, 8), np.float32), "layer.{i}.w": np.ones((3, 8, 8), np.float32)}
    for a, b in zip(evaluate(graph, bound), evaluate(flat, bound), strict=True):
        np.testing.assert_array_equal(a, b)


def test_users_are_in_order_and_once() -> None:
    b = Builder("g")
    x = b.input("x", TensorType(F32, (2,)))
    square = b.one("mul", x, x)
    graph = b.finish([b.one("add", square, x)])
    assert [[n.op for n in graph.users[v]] for v in (x, square)] == [["mul", "add"], ["add"]]
    assert graph.producers[square].op == "mul"


def test_deep_graphs_need_no_stack() -> None:
    graph = chain(10_000)
    assert verify(graph) == []
    assert parse(show(graph)) == graph
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert copy.deepcopy(graph) == graph
    assert hash(renumber(expand(live(graph)))) == hash(graph)
    np.testing.assert_array_equal(evaluate(graph, {"x": np.zeros(2, np.float32)})[0], np.full(2, 1e4, np.float32))


# ---- builder -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "args", "attrs", "message"),
    [
        ("nothing", 1, {}, "no op is called nothing"),
        ("neg", 2, {}, "neg takes 1 operand (x), got 2"),
        ("concat", 0, {"axis": 0}, "concat takes at least 1 operand (*xs), got 0"),
        ("neg", 1, {"axis": 1}, "neg has no attribute axis; it has none"),
        ("transpose", 1, {}, "transpose needs the attribute perm"),
        ("transpose", 1, {"perm": 0}, "transpose: perm must be of kind ints, got 0"),
        ("transpose", 1, {"perm": (0, True)}, "transpose: perm must be of kind ints, got (0, True)"),
        ("convert", 1, {"dtype": "f32"}, "convert: dtype must be of kind dtype, got 'f32'"),
        ("full", 0, {"value": None, "dtype": F32, "shape": ()}, "full: value must be of kind number, got None"),
        ("loop", 1, {"n": 1, "carry": 1, "xs": 0}, "loop takes one region, got 0"),
        ("add", 2, {}, None),
    ],
)
def test_builder_refuses(op: str, args: int, attrs: dict[str, Attr], message: str | None) -> None:
    b = Builder("g")
    values = [b.input(f"x{i}", TensorType(F32, (2, 3))) for i in range(args)]
    if message is None:
        b.add(op, values, attrs)
        return
    with pytest.raises(InferError) as caught:
        b.add(op, values, attrs)
    assert str(caught.value) == message


def test_an_attribute_may_be_called_op() -> None:
    b = Builder("g")
    x = b.input("x", TensorType(F32, (1, 1, 4)))
    one: dict[str, Attr] = {"strides": (1,), "low": (0,), "high": (0,), "dilations": (1,)}
    y = b.one("reduce_window", x, op="max", window=(2,), **one)
    assert str(b.types[y]) == "f32[1, 1, 3]"


def test_a_composite_takes_what_its_definition_takes() -> None:
    d = Builder("twice")
    x = d.input("x", TensorType(F32, (2,)))
    definition = d.finish([d.one("add", x, x)])
    b = Builder("g")
    with pytest.raises(InferError, match=r"twice is defined for \(f32\[2\]\), got \(f32\[3\]\)"):
        b.add("twice", [b.input("x", TensorType(F32, (3,)))], regions=(definition,))


# ---- dims ----------------------------------------------------------------------------------------

_NAMES = {"S": 12, "B": 5, "heads": 3}


@st.composite
def dims(draw: st.DrawFn) -> int:
    """Any arithmetic of symbols and numbers."""
    value: int = Dim(_NAMES["S"], "S")
    for _ in range(draw(st.integers(0, 6))):
        name = draw(st.sampled_from([*_NAMES, None]))
        other = draw(st.integers(-4, 9)) if name is None else Dim(_NAMES[name], name)
        left, right = draw(st.sampled_from([(value, other), (other, value)]))
        op = draw(st.sampled_from(["add", "sub", "mul", "floordiv", "mod"]))
        if right == 0 and op in ("floordiv", "mod"):
            continue
        value = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
                 "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b}[op](left, right)  # fmt: skip
    return value


@given(dims())
def test_a_dims_expression_has_its_value(d: int) -> None:
    text = show_dim(d)
    expr, _, value = text.rpartition("=")
    assert int(value) == d
    if isinstance(d, Dim):
        assert is_dim_expr(expr)
        assert eval(expr, {}, dict(_NAMES)) == d
        assert (pickle.loads(pickle.dumps(d)), str(d), f"{d}") == (d, str(int(d)), str(int(d)))


def test_dims_meet_other_numbers_as_ints_do() -> None:
    d = Dim(4, "S")
    assert (d * 0.5, 0.5 * d, d + 0.5, d - 0.5, d / 8) == (2.0, 2.0, 4.5, 3.5, 0.5)
    assert (type(d * np.int64(3)), d * np.int64(3), np.float32(2) * d) == (np.int64, 12, 8.0)
    assert sum([d, d]) == 8
    assert repr(sum([d, d])) == "Dim(8, 'S+S')"
    assert [repr(x) for x in (d + 0, 0 + d, d - 0, d * 1, 1 * d, d // 1)] == ["Dim(4, 'S')"] * 6
    assert repr(100 // d) == "Dim(25, '100//S')"
    with pytest.raises(TypeError):
        d + "1"  # pyright: ignore


@pytest.mark.parametrize("text", ["", "S S", "S+", "*S", "(S", "S)", "()", "S//", "S=1", "S/2", "S,1", "f(x)", "S+*2"])
def test_what_is_no_expression(text: str) -> None:
    assert not is_dim_expr(text)


# ---- dtypes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", DTYPES.values(), ids=str)
def test_dtype_rows(d: object) -> None:
    d = DTYPES[str(d)]
    assert from_numpy(d.numpy) is d
    assert d.nbytes(3) == (3 * d.bits + 7) // 8
    assert d.numpy.itemsize * 8 == (8 if d.bits == 4 else d.bits)
    low, high = extremes(d)
    assert holds(d, low) and holds(d, high)
    for value in (low, high):
        assert rounded(rounded(np.asarray(value), d), DTYPES["f64"]) == float(value)
    if not d.is_float:
        assert not holds(d, high + 1) and not holds(d, low - 1) and not holds(d, 0.5) and not holds(d, math.nan)


def test_packed_sizes() -> None:
    assert [DTYPES["i4"].nbytes(n) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert TensorType(DTYPES["i4"], (3, 3)).nbytes == 5
    assert TensorType(F32, ()).nbytes == 4
    assert TensorType(F32, (3, 0)).nbytes == 0
