"""Bad models are refused with diagnostics that name the node, several at once, and never with a traceback."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")

from onnx import TensorProto, helper
from onnx_models import FLOAT, INT64, STRING, constant, graph, model, node, value
from tdslc.compiler.frontend.onnx import import_model
from tdslc.compiler.source import CODES, DiagnosticError

GOOD = model([node("Relu", ["x"], ["y"], name="act")], [value("x", [2, 3])], [value("y", [2, 3])])


def refused(data, *words, **more):
    """The diagnostics of a model, each with a known code; `words` stand in their texts and notes."""
    with pytest.raises(DiagnosticError) as caught:
        import_model(data, **more)
    found = caught.value.diagnostics
    text = "\n".join(f"{d.code} {d.message} {d.help} {[n.message for n in d.notes]}" for d in found)
    assert all(d.code in CODES for d in found)
    for word in words:
        assert word in text
    return found


@pytest.mark.parametrize("number", range(7))
def test_truncated_and_foreign_files(number):
    data = [b"", b"not a model at all", bytes(100), GOOD[:20], GOOD[:-1], GOOD[:-5], b"\x89PNG\r\n\x1a\n"]
    refused(data[number], "E1102", "not an ONNX model")


def test_paths_that_are_no_files(tmp_path):
    refused(tmp_path / "none.onnx", "E0001", "no such file")
    refused(tmp_path, "E0002")
    os.mkfifo(tmp_path / "pipe.onnx")
    refused(tmp_path / "pipe.onnx", "E0002")


@pytest.mark.parametrize("opset", [0, 29, -1])
def test_wrong_opset(opset):
    refused(model([node("Relu", ["x"], ["y"])], [value("x", [2])], [value("y", [2])], opset=opset), "E1111", "1 to 28")


def test_every_unknown_operator_at_once():
    nodes = [node("Foo", ["x"], ["a"], name="one"), node("Bar", ["a"], ["b"], name="two", domain="com.acme"),
             node("Foo", ["b"], ["c"], name="three"), node("Relu", ["c"], ["y"])]  # fmt: skip
    found = refused(model(nodes, [value("x", [2])], [value("y", [2])]), "Foo", "one", "three", "Bar", "com.acme", "two")
    assert [d.code for d in found] == ["E1105", "E1105"]


def test_an_unknown_operator_in_a_branch_is_told_too():
    inner = graph([node("Foo", ["x"], ["a"], name="deep")], [], [value("a", [2])])
    nodes = [node("Bar", ["x"], ["c"], name="first"), node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
    refused(model(nodes, [value("x", [2])], [value("y", [2])]), "Bar", "Foo", "deep")


def test_circles_doubles_and_gaps():
    x, y = [value("x", [2])], [value("y", [2])]
    refused(
        model([node("Add", ["x", "y"], ["a"], name="one"), node("Relu", ["a"], ["y"], name="two")], x, y),
        "circle",
        "one",
        "two",
    )
    refused(
        model([node("Relu", ["x"], ["y"], name="one"), node("Abs", ["x"], ["y"], name="two")], x, y),
        "one",
        "two",
        "already",
    )
    refused(model([node("Add", ["x", "wrong"], ["y"], name="sum")], x, y), "sum", "`wrong`", "nothing makes")
    refused(model([node("Relu", ["x"], ["y"])], [*x, *x], y), "two inputs are called `x`")
    refused(
        model([node("Relu", ["x"], ["y"])], x, y, [constant("w", np.ones(2))] * 2), "two initializers are called `w`"
    )


def test_shapes_that_do_not_fit_are_all_told():
    nodes = [node("Add", ["x", "w"], ["a"], name="sum"), node("MatMul", ["x", "x"], ["b"], name="product")]
    w = constant("w", np.zeros((5, 7), np.float32))
    found = refused(model(nodes, [value("x", [2, 3])], [value("a", None), value("b", None)], [w]), "sum", "product")
    assert len(found) == 2


def test_shapes_that_differ_from_those_stated():
    x = [value("x", [2, 3])]
    nodes = [node("Relu", ["x"], ["h"], name="act"), node("Abs", ["h"], ["y"], name="size")]
    refused(model(nodes, x, [value("y", [3, 2])]), "E1110", "size", "[3, 2]")
    refused(model(nodes, x, [value("y", [2, 3])], value_info=[value("h", [9])]), "act", "[9]")
    refused(model(nodes, x, [value("y", [2, 3], INT64)]), "size", "i64")
    import_model(model(nodes, x, [value("y", [3, 2])]), ignore_stated=True)


@pytest.mark.parametrize(
    ("nodes", "inputs", "weights", "words"),
    [
        ([node("Relu", ["x"], ["y"])], [value("x", [2**20, 2**20])], [], ("input `x`",)),
        ([node("Relu", ["x"], ["y"])], [value("x", [2**62, 2**62])], [], ("input `x`",)),
        ([node("ConstantOfShape", ["s"], ["y"], name="zeros")], [], [constant("s", np.array([2**40]))], ("zeros",)),
        ([node("Expand", ["x", "s"], ["y"], name="wide")], [value("x", [1])],
         [constant("s", np.full(2, 2**20))], ("wide",)),
        ([node("Range", ["a", "b", "c"], ["y"], name="count")], [],
         [constant("a", np.array(0)), constant("b", np.array(2**62)), constant("c", np.array(1))], ("count",)),
    ],
    ids=["input", "overflow", "constant", "expand", "range"],
)  # fmt: skip
def test_dims_beyond_all_memory(nodes, inputs, weights, words):
    refused(model(nodes, inputs, [value("y", None)], weights), "E1108", *words)


def test_dims_and_binds_that_fit_nothing():
    data = model([node("Relu", ["x"], ["y"])], [value("x", ["batch", 3, None])], [value("y", None)])
    refused(data, "E1109", "`batch`", "`x.2`", "--dim batch=1")
    refused(data, "E1109", "`bach`", "did you mean `batch`", dims={"bach": 1})
    refused(data, "-2", dims={"batch": -2, "x.2": 1})
    refused(GOOD, "E1112", "`z`", binds={"z": np.zeros(1)})
    refused(GOOD, "E1112", "f64", binds={"x": np.zeros((2, 3))})


def test_what_must_be_known_says_how_to_fix_it():
    nodes = [node("Reshape", ["x", "to"], ["y"], name="shape"), node("NonZero", ["x"], ["z"], name="where")]
    inputs = [value("x", [4]), value("to", [2], INT64)]
    found = refused(model(nodes, inputs, [value("y", None), value("z", None)]), "shape", "where", "--bind to=FILE.npy")
    assert [d.code for d in found] == ["E1107", "E1107"]


def test_strings_and_training_are_refused():
    refused(
        model([node("Identity", ["x"], ["y"])], [value("x", [2], STRING)], [value("y", [2], STRING)]), "E1105", "STRING"
    )
    weights = [constant("t", np.array(True))]
    refused(
        model([node("Dropout", ["x", "", "t"], ["y"], name="drop")], [value("x", [2])], [value("y", [2])], weights),
        "drop",
        "training",
    )


@pytest.mark.parametrize(
    "bad",
    [
        node("Concat", ["x", "x"], ["y"], name="it", axis="one"),
        node("Transpose", ["x"], ["y"], name="it", perm=[5]),
        node("Add", ["x"], ["y"], name="it"),
        node("MaxPool", ["x"], ["y"], name="it", kernel_shape=[2, 2], strides=[0, 1]),
        node("Softmax", ["x"], ["y"], name="it", axis=7),
        node("Cast", ["x"], ["y"], name="it", to=999),
    ],
    ids=lambda n: n.op_type,
)
def test_misshapen_nodes(bad):
    refused(model([bad], [value("x", [1, 3, 5, 5])], [value("y", None)]), "`it`")


def test_functions_that_call_themselves():
    f = helper.make_function(
        "me", "F", ["a"], ["b"], [node("F", ["a"], ["b"], domain="me")], [helper.make_opsetid("me", 1)]
    )
    g = graph([node("F", ["x"], ["y"], domain="me", name="call")], [value("x", [2])], [value("y", [2])])
    made = helper.make_model(
        g, functions=[f], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("me", 1)]
    )
    refused(made.SerializeToString(), "calls itself", "call")


# ---- external data -------------------------------------------------------------------------------


@pytest.fixture
def external(tmp_path):
    """A function that writes a model whose weights lie at `location`, and gives its path."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    (tmp_path / "inside" / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    os.symlink(tmp_path / "secret.bin", tmp_path / "inside" / "link.bin")
    os.mkfifo(tmp_path / "inside" / "pipe.bin")

    def make(location, **more):
        t = TensorProto(name="w", data_type=FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL)
        for key, text in {"location": location, **more}.items():
            entry = t.external_data.add()
            entry.key, entry.value = key, str(text)
        path = tmp_path / "inside" / "m.onnx"
        path.write_bytes(model([node("Add", ["x", "w"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])], [t]))
        return path

    return make


def test_external_data_is_read(external):
    made = import_model(external("w.bin"))
    assert [n.op for n in made.graph.nodes if n.op in ("param", "constant")]


@pytest.mark.parametrize(
    ("location", "more", "word"),
    [
        ("gone.bin", {}, "no such file"),
        ("../secret.bin", {}, "outside the model's folder"),
        ("link.bin", {}, "outside the model's folder"),
        ("/etc/passwd", {}, "no path below"),
        ("pipe.bin", {}, "no regular file"),
        ("w.bin", {"offset": 8}, "24 bytes at 8"),
        ("w.bin", {"offset": -8}, "offset"),
        ("w.bin", {"length": 4}, "stated: 4"),
        ("", {}, "no path below"),
    ],
    ids=range(9),
)
def test_external_data_that_is_not_there_or_not_ours(external, location, more, word):
    refused(external(location, **more), "E1103", "`w`", word)


def test_bytes_have_no_folder(external):
    refused(external("w.bin").read_bytes(), "E1103", "another file")
