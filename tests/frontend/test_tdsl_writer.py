"""`.tdsl` text of a Graph reads back to the same Graph."""

from __future__ import annotations

import numpy as np
import pytest
from tdslc.compiler.frontend.canonical import canonical
from tdslc.compiler.frontend.names import dotted, identifier
from tdslc.compiler.frontend.tdsl_writer import write_tdsl
from tdslc.compiler.graph import Array, Builder, Graph, TensorType, dtype, forms
from tdslc.compiler.language import load_model
from tdslc.compiler.source import DiagnosticError

F32, I32, BOOL = dtype("f32"), dtype("i32"), dtype("bool")


def round_trip(graph: Graph, tmp_path) -> str:
    text = write_tdsl(graph, "A test.")
    path = tmp_path / f"{graph.name}.tdsl"
    path.write_text(text)
    assert canonical(load_model(path).graph) == canonical(graph), text
    return text


def test_numbers_and_broadcasts_stand_where_they_are_read(tmp_path):
    b = Builder("m")
    x = b.input("x", TensorType(F32, (2, 3)))
    bias = b.param("layer.bias", TensorType(F32, (3,)))
    h = b.one("mul", x, b.full(0.5, F32, (2, 3)))
    y = b.one("add", h, b.one("broadcast", bias, shape=(2, 3), dims=(1,)))
    text = round_trip(b.finish([y], ["y"]), tmp_path)
    assert "mul1 = x * 0.5" in text
    assert "add1 = mul1 + bias1" in text
    assert 'param_bias([3], f32) as "layer"' in text


def test_a_broadcast_that_the_language_would_not_make_is_written_out(tmp_path):
    b = Builder("m")
    x = b.input("x", TensorType(F32, (2,)))
    column = b.one("broadcast", x, shape=(2, 3), dims=(0,))
    both = b.one("broadcast", b.one("neg", x), shape=(4, 2), dims=(1,))
    text = round_trip(b.finish([b.one("add", column, column), b.one("exp", both)], ["y", "z"]), tmp_path)
    assert "broadcast(x, shape=[2, 3], dims=[0])" in text
    assert "broadcast_to(neg1, [4, 2])" in text


def test_literals_of_every_kind(tmp_path):
    b = Builder("m")
    x = b.input("x", TensorType(F32, (2, 2)))
    table = np.array([[1.5, -0.0], [np.inf, np.nan]], np.float32)
    literal = b.one("constant", value=Array(TensorType(F32, (2, 2)), table.tobytes()))
    whole = b.one("constant", value=Array(TensorType(I32, (3,)), np.array([-7, 0, 2**31 - 1], np.int32).tobytes()))
    on = b.full(True, BOOL, (2, 2))
    y = b.one("select", on, b.one("add", x, literal), b.full(-np.inf, F32, (2, 2)))
    round_trip(b.finish([y, whole, b.full(-3, I32, ())], ["y", "whole", "three"]), tmp_path)


def test_ops_by_their_own_names(tmp_path):
    b = Builder("m")
    x = b.input("x", TensorType(F32, (1, 2, 6, 6)))
    w = b.input("w", TensorType(F32, (4, 1, 3, 3)))
    i = b.input("i", TensorType(I32, (5,)))
    c = b.one("conv", x, w, strides=(2, 1), low=(1, 0), high=(1, 2), dilations=(1, 2), groups=2)
    p = b.one("reduce_window", x, op="min", window=(2, 2), strides=(1, 1), low=(0, 1), high=(0, 0), dilations=(1, 1))
    values, index = b.add("top_k", (x,), {"k": 2, "largest": False})
    last = b.one("argmax", x, axis=3, last=True)
    outs = [c, p, values, index, last, b.one("take", x, i, axis=1), b.one("cumsum", x, axis=2, reverse=True),
            b.one("shift_right_logical", i, i), b.one("pow", i, i), b.one("reduce_max", x, axes=(1, 3)),
            b.one("interior_pad", x, interior=(0, 0, 1, 2), value=1.0), b.one("pad", i, low=(1,), high=(0,), value=4),
            b.one("slice", x, starts=(0, 1, 0, 2), stops=(1, 2, 6, 5), steps=(1, 1, 2, 1)),
            b.one("convert", b.one("is_finite", x), dtype=I32)]  # fmt: skip
    round_trip(b.finish(outs, [f"y{k}" for k in range(len(outs))]), tmp_path)


def test_composites_are_written_out(tmp_path):
    b = Builder("m")
    x = b.input("x", TensorType(F32, (4, 3)))
    q = forms.quantize_linear(b, x, b.full(0.1, F32), b.full(3, dtype("u8")), 0, dtype("u8"))
    round_trip(b.finish([q], ["q"]), tmp_path)


def test_loops_are_repeats(tmp_path):
    b = Builder("m")
    xs, state, w = (b.input(n, TensorType(F32, s)) for n, s in (("xs", (5, 2)), ("state", (2,)), ("w", (2, 2))))
    body = Builder("body")
    step = body.input("i", TensorType(I32, ()))
    h, x, m, scale = (
        body.input(n, TensorType(F32, s)) for n, s in (("h", (2,)), ("x", (2,)), ("m", (2, 2)), ("scale", (2,)))
    )
    row = body.one("reshape", h, shape=(1, 2))
    product = body.one("reshape", body.one("matmul", row, m), shape=(2,))
    later = body.one("broadcast", body.one("convert", step, dtype=F32), shape=(2,), dims=())
    new = body.one("tanh", body.one("add", body.one("mul", product, scale), body.one("add", x, later)))
    region = body.finish([new, body.one("neg", new)])
    outs = b.add("loop", (state, xs, w, b.full(0.5, F32, (2,))), {"n": 5, "carry": 1, "xs": 1}, regions=(region,))
    text = round_trip(b.finish(outs, ["last", "all"]), tmp_path)
    assert "repeat i1 in range(5):" in text
    assert "yield" in text


def test_repro_a_loop_gives_what_it_carried_before(tmp_path):
    """`yield` stands behind the assignment of what is carried, and gave what comes after it."""
    b, body = Builder("m"), Builder("body")
    t = TensorType(F32, (2,))
    x = b.input("x", t)
    body.input("i", TensorType(I32, ()))
    one, other = body.input("one", t), body.input("other", t)
    wide = body.one("broadcast", one, shape=(3, 2), dims=(1,))
    region = body.finish([other, body.one("neg", one), one, wide])
    outs = b.add("loop", (x, b.one("exp", x)), {"n": 4, "carry": 2, "xs": 0}, regions=(region,))
    text = round_trip(b.finish(outs, ["a", "b", "before", "wide"]), tmp_path)
    assert "before1 = state1" in text


def test_copies_are_no_difference():
    def graph(*copies) -> Graph:
        b = Builder("m")
        v = b.input("x", TensorType(F32, (2, 3)))
        for op, attrs in copies:
            v = b.one(op, v, **attrs)
        return canonical(b.finish([b.one("neg", v)], ["y"]))

    copies = [
        ("transpose", {"perm": (0, 1)}), ("reshape", {"shape": (2, 3)}), ("convert", {"dtype": F32}),
        ("broadcast", {"shape": (2, 3), "dims": (0, 1)}), ("reverse", {"axes": ()}), ("reduce_max", {"axes": ()}),
        ("slice", {"starts": (0, 0), "stops": (2, 3), "steps": (1, 1)}), ("pad", {"low": (0, 0), "high": (0, 0)}),
        ("concat", {"axis": 0}), ("interior_pad", {"interior": (0, 0)}),
    ]  # fmt: skip
    assert graph(*copies) == graph()
    # A sum over no axes makes +0 of -0.
    assert graph(("reduce_sum", {"axes": ()})) != graph()


def test_a_sum_over_no_axes_stays_one(tmp_path):
    b = Builder("m")
    x = b.input("x", TensorType(F32, (2,)))
    round_trip(b.finish([b.one("reduce_sum", x, axes=()), b.one("reduce_max", x, axes=())], ["y", "z"]), tmp_path)


def test_what_the_language_has_no_words_for_is_refused():
    b = Builder("m")
    x = b.input("x", TensorType(I32, ()))
    test, step = Builder("test"), Builder("step")
    v = test.input("v", TensorType(I32, ()))
    u = step.input("v", TensorType(I32, ()))
    regions = (
        test.finish([test.one("lt", v, test.full(9, I32))]),
        step.finish([step.one("add", u, step.full(1, I32))]),
    )
    outs = b.add("while", (x,), {"carry": 1, "trips": 0}, regions=regions)
    with pytest.raises(DiagnosticError) as caught:
        write_tdsl(b.finish(outs, ["y"]))
    assert "no `while`" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "plain", "full"),
    [
        ("x", "x", "x"),
        ("input.1", "input_1", "input.x1"),
        ("/layers.0/attn/MatMul_1:0", "layers_0_attn_MatMul_1_0", "layers.0.attn.MatMul_1_0"),
        ("onnx::Conv_5", "onnx_Conv_5", "onnx_Conv_5"),
        ("model", "model_", "model_"),
        ("sum", "sum_", "sum_"),
        ("", "x", "x"),
    ],
    ids=range(7),
)
def test_names(name, plain, full):
    assert identifier(name) == plain
    assert dotted(name) == full
    assert identifier(name, {plain}) != plain
