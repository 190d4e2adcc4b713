"""What importing means: versions of operators, folding, names, weights, dims, control flow."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")

from onnx_models import BOOL, FLOAT, INT64, constant, graph, model, node, run, value
from tdslc.compiler.frontend.canonical import canonical
from tdslc.compiler.frontend.onnx import dims_of, import_model
from tdslc.compiler.frontend.tdsl_writer import write_tdsl
from tdslc.compiler.language import load_model

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7 - 1


def softmax(x, axes):
    e = np.exp(x - x.max(axis=axes, keepdims=True))
    return e / e.sum(axis=axes, keepdims=True)


# ---- one operator, several opsets ----------------------------------------------------------------


@pytest.mark.parametrize(("opset", "axes"), [(12, (1, 2)), (13, (-1,))])
def test_softmax_took_all_axes_from_one_on(opset, axes):
    (y,) = run(
        model([node("Softmax", ["x"], ["y"])], [value("x", X.shape)], [value("y", X.shape)], opset=opset), {"x": X}
    )
    np.testing.assert_allclose(y, softmax(X, axes), rtol=1e-6)


@pytest.mark.parametrize("opset", [6, 11, 13])
def test_clip_by_attributes_then_by_operands(opset):
    bounds = [constant("low", np.float32(-0.5)), constant("high", np.float32(0.5))]
    old = opset < 11
    made = node("Clip", ["x"], ["y"], min=-0.5, max=0.5) if old else node("Clip", ["x", "low", "high"], ["y"])
    data = model([made], [value("x", X.shape)], [value("y", X.shape)], () if old else bounds, opset=opset)
    np.testing.assert_array_equal(run(data, {"x": X})[0], np.clip(X, -0.5, 0.5))


@pytest.mark.parametrize("opset", [9, 10, 13])
def test_slice_by_attributes_then_by_operands(opset):
    if opset < 10:
        made, weights = node("Slice", ["x"], ["y"], starts=[1, -3], ends=[3, 9], axes=[1, 2]), []
    else:
        names = ["starts", "ends", "axes", "steps"]
        weights = [constant(n, np.array(v)) for n, v in zip(names, ([2, -1], [-9, -9], [1, 2], [-1, -2]), strict=True)]
        made = node("Slice", ["x", *names], ["y"])
    (y,) = run(model([made], [value("x", X.shape)], [value("y", None)], weights, opset=opset), {"x": X})
    np.testing.assert_array_equal(y, X[:, 1:3, -3:] if opset < 10 else X[:, ::-1, ::-2])


@pytest.mark.parametrize("opset", [11, 13])
def test_axes_of_squeeze_and_reduce_become_operands(opset):
    def made(op, x, y, old, name, **more):
        return node(op, [x], [y], axes=old, **more) if opset < 13 else node(op, [x, name], [y], **more)

    nodes = [
        made("Unsqueeze", "x", "u", [0], "axes"),
        made("ReduceSum", "u", "s", [2], "two", keepdims=0),
        made("Squeeze", "s", "y", [0], "axes"),
    ]
    axes = constant("axes", np.array([0]))
    weights = [] if opset < 13 else [axes, constant("two", np.array([2]))]
    (y,) = run(model(nodes, [value("x", X.shape)], [value("y", None)], weights, opset=opset), {"x": X})
    np.testing.assert_allclose(y, X.sum(axis=1), rtol=1e-6)


def test_broadcast_by_axis_before_opset_7():
    bias = np.array([1, 2, 3], np.float32)
    data = model([node("Add", ["x", "b"], ["y"], broadcast=1, axis=1)], [value("x", X.shape)], [value("y", X.shape)],
                 [constant("b", bias)], opset=6)  # fmt: skip
    np.testing.assert_array_equal(run(data, {"x": X})[0], X + bias[:, None])


# ---- folding and weights -------------------------------------------------------------------------


def test_shape_arithmetic_leaves_nothing_behind():
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "zero1"], ["n1"]),
        node("Concat", ["n1", "minus"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["y"]),
    ]
    weights = [constant("zero", np.array(0)), constant("zero1", np.array([0])), constant("minus", np.array([-1]))]
    made = import_model(model(nodes, [value("x", X.shape)], [value("y", None)], weights))
    assert [n.op for n in made.graph.nodes] == ["input", "reshape"]
    assert not made.params


def test_weights_are_params_and_what_comes_of_them_alone_is_not_folded():
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    nodes = [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])]
    made = import_model(model(nodes, [value("x", X.shape)], [value("y", None)], [constant("w", w)]))
    assert [n.op for n in made.graph.nodes] == ["input", "param", "transpose", "matmul"]
    np.testing.assert_array_equal(made.params["w"], w)


def test_dead_nodes_and_their_weights_go():
    weights = [constant("w", np.ones((9, 9), np.float32))]
    nodes = [node("Relu", ["x"], ["y"]), node("Neg", ["w"], ["unused"])]
    made = import_model(model(nodes, [value("x", [2])], [value("y", [2])], weights))
    assert [n.op for n in made.graph.nodes if n.op in ("param", "neg")] == []


def test_a_bound_input_is_a_constant():
    data = model([node("Reshape", ["x", "to"], ["y"])], [value("x", [6]), value("to", [2], INT64)], [value("y", None)])
    (y,) = run(data, {"x": np.arange(6, dtype=np.float32)}, binds={"to": np.array([2, -1])})
    assert y.shape == (2, 3)


def test_dims_are_fixed_by_name_or_place():
    data = model([node("Relu", ["x"], ["y"])], [value("x", ["batch", 3, None])], [value("y", None)])
    made = import_model(data, dims={"batch": 2, "x.2": 5})
    assert made.graph.output_types[0].shape == (2, 3, 5)
    assert dict(made.dims) == {"batch": 2, "x.2": 5}


def test_dims_come_from_shapes(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Relu", ["in.1"], ["y"])], [value("in.1", ["batch", 3, None])], [value("y", None)]))
    assert dims_of(path, {"in_1": (4, 3, 7)}) == {"batch": 4, "in.1.2": 7}


def test_names_become_names_of_the_language():
    made = import_model(model([node("Relu", ["input.1"], ["model"])], [value("input.1", [2])], [value("model", [2])]))
    assert dict(made.renamed) == {"input.1": "input_1", "model": "model_"}
    assert made.graph.output_names == ("model_",)


# ---- control flow --------------------------------------------------------------------------------


def branch(op, out):
    return graph([node(op, ["x"], [out])], [], [value(out, [2])])


def if_model():
    made = node("If", ["c"], ["y"], then_branch=branch("Relu", "a"), else_branch=branch("Neg", "b"))
    return model([made], [value("x", [2]), value("c", [], BOOL)], [value("y", [2])])


@pytest.mark.parametrize("test", [False, True])
def test_if(test):
    x = np.array([-1, 2], np.float32)
    want = np.maximum(x, 0) if test else -x
    np.testing.assert_array_equal(run(if_model(), {"x": x, "c": np.array(test)})[0], want)
    np.testing.assert_array_equal(run(if_model(), {"x": x}, binds={"c": np.array(test)})[0], want)
    folded = import_model(if_model(), binds={"c": np.array(test)}).graph
    assert "cond" not in [n.op for n in folded.nodes]


def loop_model(condition):
    """Adds the index to `x` while the condition that the body gives holds, and stacks what it had."""
    body = graph(
        [node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["v", "f"], ["w"]), condition],
        [value("i", [], INT64), value("going", [], BOOL), value("v", [2])],
        [value("on", [], BOOL), value("w", [2]), *([value("w2", [2])] if condition.op_type == "Identity" else [])],
    )
    if condition.op_type == "Identity":
        body.node.append(node("Identity", ["w"], ["w2"]))
    outputs = ["y", "all"] if condition.op_type == "Identity" else ["y"]
    weights = [constant("m", np.array(5)), constant("go", np.array(True)), constant("limit", np.float32(3))]
    made = node("Loop", ["m", "go", "x"], outputs, body=body)
    return model([made], [value("x", [2])], [value(o, None) for o in outputs], weights)


def test_loop_of_a_known_count_stacks():
    y, stacked = run(loop_model(node("Identity", ["going"], ["on"])), {"x": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(y, [10, 10])
    np.testing.assert_array_equal(stacked[:, 0], [0, 1, 3, 6, 10])


def test_loop_ends_when_its_condition_does():
    less = [node("ReduceMax", ["w"], ["top"], keepdims=0), node("Less", ["top", "limit"], ["on"])]
    body = graph(
        [node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["v", "f"], ["w"]), *less],
        [value("i", [], INT64), value("going", [], BOOL), value("v", [2])], [value("on", [], BOOL), value("w", [2])],
    )  # fmt: skip
    data = model([node("Loop", ["", "go", "x"], ["y"], body=body)], [value("x", [2])], [value("y", None)],
                 [constant("go", np.array(True)), constant("limit", np.float32(3))])  # fmt: skip
    np.testing.assert_array_equal(run(data, {"x": np.zeros(2, np.float32)})[0], [3, 3])


def test_a_branch_reads_weights_and_outer_values():
    w = np.arange(20, dtype=np.float32)
    then = graph([node("Add", ["h", "w"], ["a"])], [], [value("a", [20])])
    other = graph([node("Mul", ["h", "x"], ["b"])], [], [value("b", [20])])
    nodes = [node("Neg", ["x"], ["h"]), node("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    data = model(nodes, [value("x", [20]), value("c", [], BOOL)], [value("y", [20])], [constant("w", w)])
    np.testing.assert_array_equal(run(data, {"x": w, "c": np.array(True)})[0], np.zeros(20))
    np.testing.assert_array_equal(run(data, {"x": w, "c": np.array(False)})[0], -w * w)


# ---- size ----------------------------------------------------------------------------------------


def test_a_chain_of_5000_nodes(tmp_path):
    n = 5000
    nodes = [node("Relu" if i % 2 else "Abs", [f"v{i}"], [f"v{i + 1}"]) for i in range(n)]
    made = import_model(model(nodes[::-1], [value("v0", [2])], [value(f"v{n}", [2])]))
    assert sum(n.op in ("abs", "max") for n in made.graph.nodes) == n
    path = tmp_path / "chain.tdsl"
    path.write_text(write_tdsl(made.graph))
    assert canonical(load_model(path).graph) == canonical(made.graph)


def test_a_network_of_resnet_50s_size_imports_in_time():
    nodes, weights, last = [], [], "x"
    for i in range(53):
        c = 64 if i else 3
        weights += [
            constant(f"w{i}", np.full((64, c, 3, 3), 0.01, np.float32)),
            *(constant(f"{k}{i}", np.ones(64, np.float32)) for k in "sbmv"),
        ]
        nodes += [
            node("Conv", [last, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", [f"c{i}", *(f"{k}{i}" for k in "sbmv")], [f"n{i}"]),
            node("Relu", [f"n{i}"], [f"r{i}"]),
        ]
        last = f"r{i}"
    data = model(nodes, [value("x", [1, 3, 56, 56])], [value(last, None)], weights)
    started = time.perf_counter()
    import_model(data)
    assert time.perf_counter() - started < 5
