"""ONNX models that cannot be compiled whole, for tests of `--partition`. For tests that know `onnx` is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from onnx_models import INT64, STRING, constant, graph, model, node, value

WIDTH = 16
# A domain that onnxruntime has operators of, and one that onnx's evaluator has too.
MICROSOFT, ML = ("com.microsoft", 1), ("ai.onnx.ml", 2)


def weights(*shape: int, seed: int = 0) -> Any:
    """Seeded f32 values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def domains(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], leaves: list[Any], *more: tuple[str, int]
) -> bytes:
    """A model of several domains, as bytes."""
    sets = [helper.make_opsetid(*pair) for pair in (("", 17), *more)]
    made = helper.make_model(graph(nodes, inputs, outputs, leaves), opset_imports=sets, ir_version=8)
    return made.SerializeToString()


def custom_in_the_middle(op: str = "QuickGelu", domain: tuple[str, int] = MICROSOFT) -> bytes:
    """Two layers with an operator of another domain between them; the batch is symbolic."""
    nodes = [
        node("MatMul", ["x", "w1"], ["a"], name="fc1"), node("Relu", ["a"], ["r"], name="act"),
        node(op, ["r"], ["g"], name="custom", domain=domain[0]),
        node("MatMul", ["g", "w2"], ["b"], name="fc2"), node("Tanh", ["b"], ["y"], name="out"),
    ]  # fmt: skip
    leaves = [constant("w1", weights(WIDTH, 32)), constant("w2", weights(32, 8, seed=1))]
    return domains(nodes, [value("x", ["batch", WIDTH])], [value("y", None)], leaves, domain)


def scaler_in_the_middle() -> bytes:
    """As `custom_in_the_middle`, by an operator that onnx's own evaluator has."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"], name="fc1"),
        node("Binarizer", ["a"], ["g"], name="custom", domain="ai.onnx.ml", threshold=0.5),
        node("MatMul", ["g", "w"], ["y"], name="fc2"),
    ]
    leaves = [constant("w", weights(WIDTH, WIDTH))]
    return domains(nodes, [value("x", ["batch", WIDTH])], [value("y", None)], leaves, ML)


def detector_head() -> bytes:
    """Boxes and scores from features, the best boxes picked: their number depends on values."""
    nodes = [
        node("MatMul", ["x", "wb"], ["bb"], name="boxes_fc"), node("Sigmoid", ["bb"], ["boxes"], name="boxes_act"),
        node("MatMul", ["x", "ws"], ["sc"], name="score_fc"),
        node("Transpose", ["sc"], ["scores"], name="score_t", perm=[0, 2, 1]),
        node("NonMaxSuppression", ["boxes", "scores", "k", "iou", "least"], ["selected"], name="nms"),
        node("Gather", ["selected", "two"], ["picked"], name="pick", axis=1),
    ]  # fmt: skip
    leaves = [
        constant("wb", weights(WIDTH, 4)), constant("ws", weights(WIDTH, 3, seed=1)), constant("k", np.array([4])),
        constant("iou", np.array([0.5], np.float32)), constant("least", np.array([0.1], np.float32)),
        constant("two", np.array(2)),
    ]  # fmt: skip
    outputs = [value("boxes", None), value("picked", None, INT64)]
    return model(nodes, [value("x", [1, 12, WIDTH])], outputs, leaves)


def residual_net() -> bytes:
    """Three residual blocks, two of them with an operator that is not compiled; shape arithmetic spans the breaks."""
    nodes: list[Any] = [node("Shape", ["x"], ["shape"], name="shape")]
    last = "x"
    for i in range(3):
        nodes += [node("MatMul", [last, f"w{i}"], [f"h{i}"], name=f"fc{i}"), node("Tanh", [f"h{i}"], [f"t{i}"])]
        inner = f"t{i}"
        if i < 2:
            nodes.append(node("Binarizer", [inner], [f"g{i}"], name=f"break{i}", domain="ai.onnx.ml", threshold=0.1))
            inner = f"g{i}"
        nodes.append(node("Add", [last, inner], [f"x{i}"], name=f"add{i}"))
        last = f"x{i}"
    nodes.append(node("Reshape", [last, "shape"], ["y"], name="again"))
    leaves = [constant(f"w{i}", weights(WIDTH, WIDTH, seed=i)) for i in range(3)]
    return domains(nodes, [value("x", [4, WIDTH])], [value("y", None)], leaves, ML)


def words_at_the_input() -> bytes:
    """Words to numbers, numbers to embeddings, a layer."""
    nodes = [
        node("LabelEncoder", ["s"], ["ids"], name="vocabulary", domain="ai.onnx.ml", keys_strings=["a", "b", "c"],
             values_int64s=[1, 2, 3], default_int64=0),
        node("Gather", ["table", "ids"], ["e"], name="embed"), node("MatMul", ["e", "w"], ["y"], name="fc"),
    ]  # fmt: skip
    leaves = [constant("table", weights(5, 8)), constant("w", weights(8, 4, seed=1))]
    return domains(nodes, [value("s", ["n"], STRING)], [value("y", None)], leaves, ML)


def chosen_piece() -> bytes:
    """A sequence made of compiled parts, of which an input says at run time which element is taken."""
    nodes = [
        node("Tanh", ["x"], ["t"], name="act"),
        node("SplitToSequence", ["t", "sizes"], ["pieces"], name="split", axis=0),
        node("SequenceAt", ["pieces", "which"], ["piece"], name="take"),
        node("Identity", ["piece"], ["y"], name="out"),
    ]
    leaves = [constant("sizes", np.array([2, 2]))]
    return model(nodes, [value("x", [4, 3]), value("which", [], INT64)], [value("y", [2, 3])], leaves)
