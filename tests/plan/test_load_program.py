"""What moves to the load program, what stays, and under which names."""

from hypothesis import given
from hypothesis import strategies as st
from plan_graphs import F32, I32, encoder, row, scalar, t
from plan_values import leaf_values, same_bits
from tdslc.compiler.graph import Builder, Graph, evaluate, verify
from tdslc.compiler.plan import split_load


def split(graph: Graph) -> tuple[Graph, Graph | None]:
    """`split_load`, both parts well formed and together equal to `graph`."""
    rest, load = split_load(graph)
    assert verify(rest) == []
    inputs, params = leaf_values(graph)
    made = {}
    if load is not None:
        assert verify(load) == [] and not load.inputs
        assert set(load.output_names) <= {n.attr("name") for n in rest.params}
        made = dict(zip(load.output_names, evaluate(load, {}, params), strict=True))
    right, got = evaluate(graph, inputs, params), evaluate(rest, inputs, {**params, **made})
    assert all(same_bits(a, b) for a, b in zip(right, got, strict=True))
    assert [n.attr("name") for n in rest.inputs] == [n.attr("name") for n in graph.inputs]
    return rest, load


def names(graph: Graph | None) -> list[str]:
    return [] if graph is None else [str(n.attr("name")) for n in graph.params]


def test_weights_are_prepared_and_no_longer_read():
    b = Builder("qkv")
    x = b.input("x", t(4, 8))
    ws = [b.one("transpose", b.param(n, t(8, 8)), perm=(1, 0)) for n in ("q", "k")]
    rest, load = split(b.finish([b.one("matmul", x, b.one("concat", *ws, axis=1))]))
    assert load is not None
    assert names(rest) == ["concat(transpose(q),transpose(k))"] == list(load.output_names)
    assert names(load) == ["q", "k"]


def test_what_would_be_more_to_read_stays():
    b = Builder("bias")
    x, bias = b.input("x", t(4, 8)), b.param("b", t(8))
    wide = b.one("exp", row(b, b.one("neg", bias), (4, 8)))
    rest, load = split(b.finish([b.one("add", x, wide)]))
    assert names(rest) == ["neg(b)"]
    assert load is not None
    assert [n.op for n in load.nodes] == ["param", "neg"]
    assert [n.op for n in rest.nodes if n.op not in ("input", "param")] == ["broadcast", "exp", "add"]


def test_addressing_alone_stays():
    b = Builder("addressing")
    x, w = b.input("x", t(4, 8)), b.param("w", t(32))
    rest, load = split(b.finish([b.one("add", x, b.one("reshape", w, shape=(4, 8)))]))
    assert load is None and names(rest) == ["w"]


def test_literals_alone_stay():
    b = Builder("literals")
    rest, load = split(b.finish([b.one("add", b.input("x", t(3)), b.one("exp", scalar(b, 1.0, (3,))))]))
    assert load is None and len(rest.nodes) == 4


def test_names_are_different():
    b = Builder("names")
    x, w = b.input("x", t(4, 4)), b.param("w", t(4, 4))
    parts = [b.one("slice", w, starts=(k, 0), stops=(k + 2, 4), steps=(1, 1)) for k in (0, 2)]
    rest, _ = split(b.finish([b.one("matmul", p, x) for p in parts]))
    assert names(rest) == ["slice(w)", "slice(w)#2"]


def test_unused_params_go():
    b = Builder("unused")
    b.param("w", t(4))
    rest, load = split(b.finish([b.one("neg", b.input("x", t(4)))]))
    assert load is None and names(rest) == []


def test_a_body_reads_what_was_prepared_for_all_iterations():
    rest, load = split(encoder())
    assert load is not None
    assert "transpose(layer.{i}.up.w)" in load.output_names
    assert "layer.{i}.up.w" in names(load) and "layer.{i}.up.w" not in names(rest)
    prepared = next(n for n in rest.params if n.attr("name") == "transpose(layer.{i}.up.w)")
    assert prepared.type == t(3, 32, 128) and prepared.attr("stack") == 3
    (loop,) = (n for n in rest.nodes if n.op == "loop")
    turned = [n for n in loop.regions[0].nodes if n.op == "transpose"]
    assert turned and all(n.type.rank == 3 for n in turned)  # heads, at run time; the weights' are gone


def test_captures_are_prepared_once_and_the_index_counts_as_known():
    b = Builder("captures")
    body = Builder("body")
    i, c, w, g = (body.input(n, s) for n, s in (("i", t(dtype=I32)), ("c", t(4, 4)), ("w", t(4, 4)), ("g", t(4, 4))))
    step = body.one("broadcast", body.one("convert", i, dtype=F32), shape=(4, 4), dims=())
    once = body.one("exp", g)
    each = body.one("mul", w, step)
    y = body.one("add", body.one("add", body.one("matmul", c, once), each), step)
    region = body.finish([y, body.one("mul", c, each)])
    x, stack, g = b.input("x", t(4, 4)), b.param("w.{i}", t(3, 4, 4), stack=3), b.param("g", t(4, 4))
    outs = b.add("loop", [x, stack, g], {"n": 3, "carry": 1, "xs": 1}, regions=(region,))
    rest, load = split(b.finish(outs))
    assert load is not None
    assert list(load.output_names) == ["exp(g)", "mul(w.{i},convert(i))"]
    assert [n.type for n in rest.params] == [t(4, 4), t(3, 4, 4)]


def test_nested_loops():
    inner = Builder("inner")
    inner.input("j", t(dtype=I32))
    c, w = inner.input("c", t(4, 4)), inner.input("w", t(4, 4))
    inner_body = inner.finish([inner.one("matmul", c, inner.one("transpose", w, perm=(1, 0)))])
    outer = Builder("outer")
    outer.input("i", t(dtype=I32))
    c, ws = outer.input("c", t(4, 4)), outer.input("ws", t(2, 4, 4))
    outer_body = outer.finish(outer.add("loop", [c, ws], {"n": 2, "carry": 1, "xs": 1}, regions=(inner_body,)))
    b = Builder("nested")
    x, w = b.input("x", t(4, 4)), b.param("w.{i}", t(3, 2, 4, 4), stack=3)
    rest, load = split(b.finish(b.add("loop", [x, w], {"n": 3, "carry": 1, "xs": 1}, regions=(outer_body,))))
    assert load is not None and load.output_names == ("transpose(w.{i})",)
    assert [n.type for n in rest.params] == [t(3, 2, 4, 4)]


def test_a_loop_over_params_is_run_at_load():
    body = Builder("power")
    body.input("i", t(dtype=I32))
    c, w = body.input("c", t(4, 4)), body.input("w", t(4, 4))
    region = body.finish([body.one("matmul", c, w)])
    b = Builder("m")
    w = b.param("w", t(4, 4))
    (p,) = b.add("loop", [w, w], {"n": 3, "carry": 1, "xs": 0}, regions=(region,))
    rest, load = split(b.finish([b.one("matmul", b.input("x", t(4, 4)), p)]))
    assert load is not None and load.output_names == ("loop(w,w)",)
    assert [n.op for n in rest.nodes if n.op not in ("input", "param")] == ["matmul"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Chains over params, inputs and literals, some in a loop's body."""
    b = Builder("body")
    values = [b.input("i", t(dtype=I32)), b.input("c", t(2, 2)), b.input("w", t(2, 2)), b.input("g", t(2, 2))][1:]
    for _ in range(draw(st.integers(1, 8))):
        x, y = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        op = draw(st.sampled_from(["add", "mul", "neg", "transpose"]))
        args = (x, y) if op in ("add", "mul") else (x,)
        values.append(b.add(op, args, {"perm": (1, 0)} if op == "transpose" else {})[0])
    region = b.finish([values[-1], draw(st.sampled_from(values))])
    m = Builder("m")
    x, w, g = m.input("x", t(2, 2)), m.param("w.{i}", t(3, 2, 2), stack=3), m.param("g", t(2, 2))
    outs = m.add("loop", [x, w, m.one("neg", g)], {"n": 3, "carry": 1, "xs": 1}, regions=(region,))
    return m.finish(outs)


@given(graphs())
def test_any_loop(graph: Graph):
    split(graph)
