"""From a Graph to an ONNX model, which other compilers and onnxruntime read, and `import_model` too.

Composites are written as what they mean; loops become Scan, `while` Loop and `cond` If. Each row of the op table is
written in a module of its family. Must not know targets.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....graph import Graph, NDArray, expand
from ....source import Diagnostic, DiagnosticError, Note
from ..protos import onnx
from .writer import Writer

# What a protobuf message may have in bytes, less room for what is not weights.
_MOST_BYTES = 2**31 - 2**24
_MOST_LISTED = 20


def export_model(graph: Graph, params: Mapping[str, NDArray] | None = None) -> bytes:
    """`graph` as the bytes of an ONNX model that computes what it does.

    `params` are values by name, of the declared dtypes; params without one are inputs after the graph's own. What ONNX
    leaves open stays open: the order of NaN in TopK and pools, digits of transcendental functions, the order of sums.
    DiagnosticError: E1105 names every op that ONNX has no counterpart of and its place in the source, E1120 weights
    that no ONNX file holds.
    """
    values = dict(params or {})
    size = sum(a.nbytes for a in values.values())
    if size > _MOST_BYTES:
        said = f"{graph.name}: its weights are {size} bytes, and an ONNX file holds 2 GiB"
        raise DiagnosticError(Diagnostic("E1120", said, help="leave `--weights` out: they are inputs then"))
    writer = Writer()
    made = writer.model(expand(graph), values)
    if writer.missing:
        raise DiagnosticError(_missing(writer.missing))
    helper = onnx().helper
    opset = helper.make_opsetid("", writer.opset)
    version = helper.find_min_ir_version_for([opset])
    model = helper.make_model(made, opset_imports=[opset], ir_version=version, producer_name="tdslc")
    return bytes(model.SerializeToString())


def _missing(missing: list[tuple[str, str]]) -> Diagnostic:
    notes = [Note(f"{op} at {place}" if place else op) for op, place in missing[:_MOST_LISTED]]
    notes += [Note(f"and {len(missing) - _MOST_LISTED} more")] if len(missing) > _MOST_LISTED else []
    ops = ", ".join(sorted({op for op, _ in missing}))
    said = f"ONNX has no counterpart of {ops} as used here"
    return Diagnostic("E1105", said, notes=tuple(notes), help="write the model without, or export StableHLO")


__all__ = ["export_model"]
