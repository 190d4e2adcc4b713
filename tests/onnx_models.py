"""Small ONNX models for tests, and the two ways to run one. Import this after `onnx` is known to be there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tdslc.compiler.frontend.onnx import Imported, import_model
from tdslc.compiler.graph import evaluate, verify

node = helper.make_node
FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def value(name: str, shape: Sequence[Any] | None, kind: int = FLOAT) -> Any:
    """A ValueInfoProto."""
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, array: Any) -> Any:
    """An initialiser."""
    return numpy_helper.from_array(np.asarray(array), name)


def graph(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any] = (), **more: Any
) -> Any:
    """A GraphProto."""
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights), **more)


def model(
    nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any] = (), opset: int = 17,
    **more: Any,
) -> bytes:  # fmt: skip
    """A model of the default domain, as bytes."""
    made = graph(nodes, inputs, outputs, weights, **more)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)]).SerializeToString()


def run(data: bytes, inputs: Mapping[str, Any], **more: Any) -> list[Any]:
    """The outputs of a model in the evaluator."""
    made = import_model(data, **more)
    return run_imported(made, inputs)


def run_imported(made: Imported, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of an imported model, its graph verified."""
    assert verify(made.graph) == []
    values = {made.renamed.get(name, name): x for name, x in inputs.items()}
    return list(evaluate(made.graph, values, made.params))


assert onnx.__version__
