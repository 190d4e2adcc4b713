"""onnxruntime as a judge of what we write: an ONNX model run by code that nobody here wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tdslc.compiler.graph import NDArray


def onnxruntime_of(model: bytes, values: Mapping[str, NDArray]) -> list[NDArray] | None:
    """Its outputs; None where it has no kernel for an operator, or no array for a dtype. Its rewrites are off."""
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    wanted = {i.name for i in session.get_inputs()}
    given = {name: np.asarray(x) for name, x in values.items() if name in wanted}
    exotic = any(word in o.type for o in session.get_outputs() for word in ("bfloat16", "float8", "int4"))
    if exotic or any(x.dtype.isbuiltin != 1 for x in given.values()):
        return None
    return list(session.run(None, given))
