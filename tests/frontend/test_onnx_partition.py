"""Which nodes of an ONNX model are compiled, which are left to the host, and what goes between them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")

from onnx import helper
from onnx_models import FLOAT, INT64, STRING, constant, graph, model, node, value
from onnx_parts import (
    chosen_piece,
    custom_in_the_middle,
    detector_head,
    domains,
    residual_net,
    scaler_in_the_middle,
    weights,
    words_at_the_input,
)
from tdslc.compiler.frontend.onnx import host
from tdslc.compiler.frontend.onnx.partition import partition_model
from tdslc.compiler.frontend.onnx.parts import HostPart
from tdslc.compiler.graph import evaluate, verify
from tdslc.compiler.source import CODES, DiagnosticError


@pytest.fixture
def cut(tmp_path):
    """A function that writes a model and cuts it."""

    def make(data, **dims):
        path = tmp_path / "m.onnx"
        path.write_bytes(data)
        return partition_model(str(path), dims={name.replace("__", "."): n for name, n in dims.items()})

    return make


def shape_of(p):
    """The parts as text: nodes of the host by name, regions by the number of their nodes."""
    return [
        [n.name.split("`")[1] for n in part.nodes] if isinstance(part, HostPart) else part.nodes for part in p.parts
    ]


def ran(p, inputs):
    """The outputs of a partition, regions in the evaluator."""
    values = {p.inputs[name]: x for name, x in inputs.items()}
    for part in p.parts:
        if isinstance(part, HostPart):
            values |= zip(part.outputs, part.program.run({n: values[n] for n in part.inputs}), strict=True)
            continue
        assert verify(part.imported.graph) == []
        given = {name: values[v] for name, v in part.inputs.items()}
        got = evaluate(part.imported.graph, given, part.imported.params)
        values |= dict(zip(part.outputs.values(), got, strict=True))
    return {name: values[v] for name, v in p.outputs.items()}


def whole(p, inputs):
    """The outputs of the model that is not cut, on the host."""
    program = p.whole()
    return dict(zip(program.outputs, program.run({p.inputs[n]: x for n, x in inputs.items()}), strict=True))


def refused(call, *words):
    """The diagnostics of a model that cannot be cut, in whose texts `words` stand."""
    with pytest.raises(DiagnosticError) as caught:
        call()
    found = caught.value.diagnostics
    text = "\n".join(f"{d.code} {d.message} {d.help} {[n.message for n in d.notes]}" for d in found)
    assert all(d.code in CODES for d in found)
    assert all(word in text for word in words), text
    return found


CASES = {
    "custom": (scaler_in_the_middle, {"batch": 2}, {"x": weights(2, 16)}, [1, ["custom"], 1]),
    "detector": (detector_head, {}, {"x": weights(1, 12, 16)}, [4, ["nms", "pick"]]),
    "residual": (residual_net, {}, {"x": weights(4, 16)}, [2, ["break0"], 3, ["break1"], 5]),
    "words": (words_at_the_input, {"n": 3}, {"s": np.array(["a", "c", "q"], object)}, [["vocabulary"], 2]),
    "sequence": (chosen_piece, {}, {"x": weights(4, 3), "which": np.array(1)}, [1, ["split", "take"], 1]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_cut_model_computes_what_the_whole_does(cut, case):
    make, dims, inputs, shape = CASES[case]
    p = cut(make(), **dims)
    assert shape_of(p) == shape
    got, want = ran(p, inputs), whole(p, inputs)
    for name, value_ in p.outputs.items():
        np.testing.assert_allclose(got[name], want[value_], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_without_onnxruntime_it_is_cut_alike(cut, monkeypatch, case):
    monkeypatch.setattr(host, "_onnxruntime", lambda: None)
    make, dims, inputs, shape = CASES[case]
    p = cut(make(), **dims)
    assert shape_of(p) == shape
    assert {part.program.runner for part in p.hosted} == {"onnx.reference"}
    got, want = ran(p, inputs), whole(p, inputs)
    for name, value_ in p.outputs.items():
        np.testing.assert_allclose(got[name], want[value_], rtol=1e-4, atol=1e-5)


def test_shape_arithmetic_and_weights_do_not_cross(cut):
    p = cut(residual_net())
    assert [e.value for e in p.edges] == ["t0", "g0", "x0", "t1", "g1"]
    assert all(e.type is not None for e in p.edges)
    # Every region has the weights that it reads, and no other.
    assert [list(r.imported.params) for r in p.regions] == [["w0"], ["w1"], ["w2"]]


def test_weights_that_are_computed_are_made_where_they_are_read(cut):
    nodes = [node("Transpose", ["w"], ["wt"], name="turn"), node("MatMul", ["x", "wt"], ["a"], name="one"),
             node("Binarizer", ["a"], ["b"], name="break", domain="ai.onnx.ml"),
             node("MatMul", ["b", "wt"], ["y"], name="two")]  # fmt: skip
    leaves = [constant("w", weights(16, 16))]
    p = cut(domains(nodes, [value("x", [2, 16])], [value("y", None)], leaves, ("ai.onnx.ml", 1)))
    assert [e.value for e in p.edges] == ["a", "b"]
    assert [list(r.imported.params) for r in p.regions] == [["w"], ["w"]]
    x = weights(2, 16)
    np.testing.assert_allclose(ran(p, {"x": x})["y"], whole(p, {"x": x})["y"], rtol=1e-4)


def test_a_declared_size_brings_the_rest_back(cut):
    p = cut(detector_head(), selected__0=4)
    assert shape_of(p) == [4, ["nms"], 1]
    assert p.notes == ()
    p = cut(detector_head())
    assert [d.code for d in p.notes] == ["E1119"]
    assert "--dim selected.0=SIZE" in str(p.notes[0].help)


def test_a_declared_size_that_fits_nothing(cut):
    refused(lambda: cut(detector_head(), selected__7=4), "E1109", "selected.7")
    refused(lambda: cut(detector_head(), boxes__0=4), "E1109", "boxes.0")
    refused(lambda: cut(detector_head(), seleced__0=4), "E1109", "seleced.0")


def test_onnxruntimes_operators(cut):
    pytest.importorskip("onnxruntime", reason="the operator is its own")
    p = cut(custom_in_the_middle(), batch=2)
    assert shape_of(p) == [2, ["custom"], 2]
    assert [part.program.runner for part in p.hosted] == ["onnxruntime"]
    x = weights(2, 16)
    np.testing.assert_allclose(ran(p, {"x": x})["y"], whole(p, {"x": x})["y"], rtol=1e-4, atol=1e-6)


def test_onnxruntimes_operators_without_it(cut, monkeypatch):
    monkeypatch.setattr(host, "_onnxruntime", lambda: None)
    refused(lambda: cut(custom_in_the_middle(), batch=2), "E1116", "`custom`", "com.microsoft", "install onnxruntime")


def test_an_operator_that_nobody_knows(cut):
    data = custom_in_the_middle("Foo", ("com.acme", 1))
    refused(lambda: cut(data, batch=2), "E1116", "`custom`", "Foo", "com.acme")


def test_nothing_to_compile(cut):
    nodes = [node("StringNormalizer", ["s"], ["t"], name="lower"), node("Identity", ["t"], ["y"], name="same")]
    data = model(nodes, [value("s", [2], STRING)], [value("y", None, STRING)])
    refused(lambda: cut(data), "E1117", "`lower`", "`same`")


def test_nothing_for_the_host(cut):
    p = cut(model([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])]))
    assert (len(p.regions), len(p.hosted)) == (1, 0)


def test_what_is_wrong_stays_wrong(cut):
    x, y = [value("x", [2, 3])], [value("y", None)]
    lost = node("MatMul", ["x", "x"], ["y"], name="product")
    refused(lambda: cut(model([lost], x, y)), "E1106", "`product`")
    refused(lambda: cut(model([node("Add", ["x"], ["y"], name="sum")], x, y)), "E1106", "`sum`")
    refused(lambda: cut(model([node("Relu", ["z"], ["y"], name="act")], x, y)), "E1104", "`z`")
    refused(lambda: cut(model([node("Relu", ["x"], ["y"])], [value("x", ["n"])], y)), "E1109", "--dim n=1")
    refused(lambda: cut(model([node("Relu", ["x"], ["y"], name="act")], x, [value("y", [9, 9])])), "E1110", "act")


def test_sequences_and_optionals_at_the_border(cut):
    sequence = helper.make_tensor_sequence_value_info("q", FLOAT, [2])
    nodes = [node("SequenceConstruct", ["x", "x"], ["q"], name="both"), node("Relu", ["x"], ["y"], name="act")]
    data = model(nodes, [value("x", [2])], [sequence, value("y", None)])
    refused(lambda: cut(data), "E1105", "output `q`", "sequence")
    data = model([node("SequenceAt", ["q", "i"], ["y"], name="take")], [sequence], [value("y", None)],
                 [constant("i", np.array(0))])  # fmt: skip
    refused(lambda: cut(data), "E1105", "input `q`", "sequence")
    nodes = [node("Relu", ["x"], ["r"], name="act"), node("Optional", ["r"], ["o"], name="wrap"),
             node("OptionalGetElement", ["o"], ["y"], name="unwrap")]  # fmt: skip
    p = cut(model(nodes, [value("x", [2])], [value("y", None)]))
    assert shape_of(p) == [1, ["wrap", "unwrap"]]
    # To onnx's evaluator an optional is a list of one.
    assert np.ravel(ran(p, {"x": np.array([-1, 1], np.float32)})["y"]).tolist() == [0, 1]


def test_a_branch_with_an_unknown_operator_goes_whole(cut):
    def branch(*nodes):
        return graph(nodes, [], [value("b", None)])

    nodes = [
        node("Tanh", ["x"], ["t"], name="act"), node("ReduceMax", ["t"], ["m"], name="most", keepdims=0),
        node("Less", ["zero", "m"], ["c"], name="is_positive"),
        node("If", ["c"], ["z"], name="branch", then_branch=branch(node("NonZero", ["t"], ["b"], name="where")),
             else_branch=branch(node("NonZero", ["x"], ["b"], name="elsewhere"))),
    ]  # fmt: skip
    data = model(nodes, [value("x", [4])], [value("z", None, INT64)], [constant("zero", np.float32(0))])
    p = cut(data)
    assert shape_of(p) == [3, ["branch"]]
    x = np.array([0, 1, 0, -2], np.float32)
    assert ran(p, {"x": x})["z"].tolist() == [[1, 3]]


def test_random_numbers_and_training_are_the_hosts(cut):
    nodes = [node("RandomNormalLike", ["x"], ["n"], name="noise", seed=1.0), node("Add", ["x", "n"], ["y"], name="sum")]
    p = cut(model(nodes, [value("x", [4])], [value("y", None)]))
    assert shape_of(p) == [["noise"], 1]
    assert p.drawing == ["`noise` (RandomNormalLike)"]
    nodes = [node("Relu", ["x"], ["r"], name="act"), node("Dropout", ["r", "", "t"], ["y"], name="drop")]
    p = cut(model(nodes, [value("x", [4])], [value("y", None)], [constant("t", np.array(True))]))
    assert shape_of(p) == [1, ["drop"]]


def test_dead_nodes_are_left_out(cut):
    nodes = [node("Relu", ["x"], ["y"], name="act"), node("Foo", ["x"], ["z"], name="dead", domain="com.acme")]
    assert shape_of(cut(domains(nodes, [value("x", [2])], [value("y", None)], [], ("com.acme", 1)))) == [1]


def test_an_output_of_weights_alone_and_one_that_is_an_input(cut):
    nodes = [node("Binarizer", ["x"], ["b"], name="break", domain="ai.onnx.ml"), node("Neg", ["w"], ["n"], name="neg"),
             node("Add", ["b", "w"], ["y"], name="sum")]  # fmt: skip
    leaves = [constant("w", weights(16))]
    outputs = [value(name, None) for name in ("y", "n", "w", "x")]
    p = cut(domains(nodes, [value("x", [16])], outputs, leaves, ("ai.onnx.ml", 1)))
    x = weights(16, seed=3)
    got, want = ran(p, {"x": x}), whole(p, {"x": x})
    for name in ("y", "n", "w", "x"):
        np.testing.assert_allclose(got[name], want[name])


def test_external_weights_are_read_for_the_host_too(tmp_path):
    import onnx

    nodes = [node("Tanh", ["x"], ["t"], name="act"), node("Scan9", ["t", "w"], ["y"], name="f", domain="me")]
    body = [node("Mul", ["a", "b"], ["m"]), node("NonZero", ["m"], ["c"])]
    f = helper.make_function("me", "Scan9", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)])
    g = graph(nodes, [value("x", [64])], [value("y", None, INT64)], [constant("w", weights(64))])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("me", 1)]
    made = helper.make_model(g, functions=[f], opset_imports=sets, ir_version=8)
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    p = partition_model(str(tmp_path / "m.onnx"))
    assert shape_of(p) == [1, ["f"]]
    x = weights(64, seed=1)
    assert (ran(p, {"x": x})["y"] == whole(p, {"x": x})["y"]).all()


def test_the_first_failing_node_is_named(cut):
    p = cut(chosen_piece())
    taken = p.hosted[0]
    given = {"t": weights(4, 3), "which": np.array(7)}
    with pytest.raises(host.HostError):
        taken.program.run(given)
    found = taken.failing(given)
    assert found is not None
    assert found[0] == "`take` (SequenceAt)"


# ---- repro: found with ONNX's own node cases between compiled neighbours -------------------------


def test_repro_a_tensor_without_a_shape_is_no_scalar(cut):
    """The trial runs of Cast took an operand of unknown rank for one of rank 0."""
    nodes = [node("Relu", ["x"], ["r"], name="act"), node("ReduceSum", ["r", "axes"], ["s"], name="sum", keepdims=0),
             node("Cast", ["s"], ["c"], name="cast", to=FLOAT), node("Sqrt", ["c"], ["y"], name="root")]  # fmt: skip
    p = cut(model(nodes, [value("x", [2, 3]), value("axes", [1], INT64)], [value("y", [3])]))
    assert shape_of(p) == [1, ["sum", "cast", "root"]]
    got = ran(p, {"x": np.array([[1, 4, 9], [0, 0, 0]], np.float32), "axes": np.array([0])})
    assert got["y"].tolist() == [1, 2, 3]
    assert next(str(d.help) for d in p.notes) == "`--bind axes=FILE.npy` fixes that input"


def test_repro_two_trials_do_not_tell_what_axes_do(cut):
    """Axes 0 and axes 1 gave the same shape, which others do not."""
    nodes = [node("Relu", ["x"], ["r"], name="act"), node("Unsqueeze", ["r", "axes"], ["u"], name="wider"),
             node("Tanh", ["u"], ["y"], name="out")]  # fmt: skip
    p = cut(model(nodes, [value("x", [1, 3]), value("axes", [1], INT64)], [value("y", None)]))
    assert shape_of(p) == [1, ["wider", "out"]]
    x = weights(1, 3)
    assert ran(p, {"x": x, "axes": np.array([2])})["y"].shape == (1, 3, 1)


def test_repro_types_that_numpy_lacks_go_by_onnxs_evaluator(cut):
    pytest.importorskip("onnxruntime", reason="it takes no such values from Python")
    from onnx import TensorProto

    kind = TensorProto.FLOAT8E4M3FNUZ
    nodes = [node("Relu", ["x"], ["r"], name="act"), node("Cast", ["r"], ["c"], name="there", to=kind),
             node("Cast", ["c"], ["d"], name="back", to=FLOAT), node("Tanh", ["d"], ["y"], name="out")]  # fmt: skip
    outputs = [value("y", None), value("c", None, kind)]
    p = cut(model(nodes, [value("x", [3])], outputs, opset=21))
    assert [part.program.runner for part in p.hosted] == ["onnx.reference"]
    assert ran(p, {"x": np.array([0, 1, 2], np.float32)})["y"].tolist() == pytest.approx(np.tanh([0, 1, 2]).tolist())


def test_a_shape_that_only_trials_tell(cut, monkeypatch):
    """Scaler has no shape inference in ONNX: two runs tell the shape, and a note says so."""
    monkeypatch.setattr(host, "_onnxruntime", lambda: None)
    scaler = node("Scaler", ["t"], ["s"], name="scale", domain="ai.onnx.ml", scale=[2.0], offset=[1.0])
    nodes = [node("Tanh", ["x"], ["t"], name="act"), scaler, node("Neg", ["s"], ["y"], name="out")]
    p = cut(domains(nodes, [value("x", [2, 3])], [value("y", None)], [], ("ai.onnx.ml", 1)))
    assert shape_of(p) == [1, ["scale"], 1]
    assert ["`s` is f32[2, 3] was seen in trial runs" in d.message for d in p.notes] == [True]
    x = weights(2, 3)
    np.testing.assert_allclose(ran(p, {"x": x})["y"], 2 * (1 - np.tanh(x)), rtol=1e-6)
