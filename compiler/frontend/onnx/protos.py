"""The one place that imports `onnx`, which is an optional dependency, and that reads its messages' fields.

Protobuf messages have no types here: everything that comes from them passes through these functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...source import Diagnostic, DiagnosticError

# Numbers of AttributeProto.AttributeType (onnx.proto3).
_FLOAT, _INT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS = 1, 2, 3, 4, 5, 6, 7, 8

DEFAULT_DOMAINS = ("", "ai.onnx")


def onnx() -> Any:
    """The package `onnx`. DiagnosticError (E1101) says how to get it when it is absent."""
    try:
        import onnx as package  # pyright: ignore[reportMissingImports]
    except ImportError:
        said = "reading ONNX models needs the package `onnx`, which is not installed"
        raise DiagnosticError(Diagnostic("E1101", said, help="pip install 'tdslc[onnx]'")) from None
    return package


def parse_model(data: bytes, path: str) -> Any:
    """The ModelProto that `data` is. DiagnosticError (E1102) when it is none, or a damaged one."""
    model = onnx().ModelProto()
    from google.protobuf.message import DecodeError  # pyright: ignore[reportMissingModuleSource]  # comes with onnx

    help = "it must be a file that `onnx.save` wrote; copy or export it again"
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError):
        said = f"{path}: not an ONNX model, or one that was cut short"
        raise DiagnosticError(Diagnostic("E1102", said, help=help)) from None
    if not model.HasField("graph") or not model.graph.output:
        said = f"{path}: not an ONNX model: it has no graph with outputs"
        raise DiagnosticError(Diagnostic("E1102", said, help=help))
    return model


def domain_of(node: Any) -> str:
    """The domain of a node's operator; "" for ONNX's own."""
    return "" if node.domain in DEFAULT_DOMAINS else str(node.domain)


def attribute(a: Any) -> Any:
    """The value of an AttributeProto: int, float, str, tuples of them, TensorProto or GraphProto; None for others."""
    kind = int(a.type)
    plain = {_FLOAT: "f", _INT: "i", _TENSOR: "t", _GRAPH: "g"}
    if kind in plain:
        return getattr(a, plain[kind])
    if kind == _STRING:
        return a.s.decode("utf-8", "replace")
    lists = {_FLOATS: "floats", _INTS: "ints"}
    if kind in lists:
        return tuple(getattr(a, lists[kind]))
    return tuple(s.decode("utf-8", "replace") for s in a.strings) if kind == _STRINGS else None


def subgraphs(node: Any) -> Iterator[tuple[str, Any]]:
    """(attribute, GraphProto) of each graph that a node holds."""
    for a in node.attribute:
        if int(a.type) == _GRAPH:
            yield str(a.name), a.g


def free_names(graph: Any) -> list[str]:
    """Names that `graph` reads from outside it, in order of first use, its own subgraphs looked into."""
    found: dict[str, None] = {}
    # (nodes still to be looked at, names made so far), innermost last; a stack, since graphs nest.
    made = {str(i.name) for i in graph.input} | {str(t.name) for t in graph.initializer}
    stack: list[tuple[Iterator[Any], set[str], Any]] = [(iter(graph.node), made, graph)]
    while stack:
        nodes, known, owner = stack[-1]
        node = next(nodes, None)
        if node is None:
            found.update({str(o.name): None for o in owner.output if str(o.name) not in known})
            stack.pop()
            continue
        found.update({str(name): None for name in node.input if name and str(name) not in known})
        known.update(str(name) for name in node.output if name)
        for _, g in subgraphs(node):
            inner = known | {str(i.name) for i in g.input} | {str(t.name) for t in g.initializer}
            stack.append((iter(g.node), inner, g))
    return list(found)
