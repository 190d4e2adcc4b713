"""Bodies of functions: those that a model defines, and those by which ONNX itself defines an operator.

An operator without a handler is imported through its body. Must not know handlers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ...graph import TensorType
from .protos import DEFAULT_DOMAINS, onnx
from .tensors import dtype_number


@dataclass(frozen=True, slots=True)
class Body:
    """A function's body for one call: nodes with attributes filled in, and the opsets they are of."""

    node: Sequence[Any]
    inputs: Sequence[str]
    outputs: Sequence[str]
    opsets: Mapping[str, int]


def body_of(
    local: Mapping[tuple[str, str], Any], node: Any, domain: str, version: int, types: Sequence[TensorType | None]
) -> Body | None:
    """The body of the function that `node` calls, or None when it calls none."""
    own = local.get((domain, str(node.op_type)))
    proto = own if own is not None else _defined(node, domain, version, types)
    if proto is None:
        return None
    given = {str(a.name): a for a in node.attribute}
    defaults = {str(a.name): a for a in proto.attribute_proto}
    if own is None:
        defaults = {**_schema_defaults(str(node.op_type), domain, version), **defaults}
    nodes = [_filled(n, {**defaults, **given}) for n in proto.node]
    opsets = {("" if o.domain in DEFAULT_DOMAINS else str(o.domain)): int(o.version) for o in proto.opset_import}
    return Body(nodes, [str(n) for n in proto.input], [str(n) for n in proto.output], opsets)


def has_body(op: str, domain: str, version: int) -> bool:
    """Whether ONNX defines `op` by a function at this opset."""
    schema = _schema(op, domain, version)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def with_left_out(body: Body, left_out: set[str]) -> Body:
    """`body` with inputs that the call leaves out written as left out."""
    if not left_out:
        return body
    nodes: list[Any] = []
    for node in body.node:
        if left_out.isdisjoint(node.input):
            nodes.append(node)
            continue
        copy = type(node)()
        copy.CopyFrom(node)
        for i, name in enumerate(copy.input):
            if name in left_out:
                copy.input[i] = ""
        nodes.append(copy)
    return Body(nodes, body.inputs, body.outputs, body.opsets)


def misuse(node: Any, domain: str, version: int) -> str | None:
    """How a node differs from its operator's signature: an attribute of another kind, too few or many operands."""
    schema = _schema(str(node.op_type), domain, version)
    if schema is None:
        return None
    stated = schema.attributes
    for a in node.attribute:
        if a.name in stated and int(a.type) != int(stated[a.name].type.value):
            return f"its attribute `{a.name}` is of another kind than the operator says"
    if not schema.min_input <= len(node.input) <= schema.max_input:
        return f"it has {len(node.input)} operands, the operator takes {schema.min_input} to {schema.max_input}"
    return None


@cache
def _schema(op: str, domain: str, version: int) -> Any:
    defs = onnx().defs
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


def _schema_defaults(op: str, domain: str, version: int) -> dict[str, Any]:
    schema = _schema(op, domain, version)
    found = {} if schema is None else dict(schema.attributes)
    return {str(name): a.default_value for name, a in found.items() if a.default_value.name}


def _defined(node: Any, domain: str, version: int, types: Sequence[TensorType | None]) -> Any:
    """The FunctionProto by which ONNX defines the operator for these operands."""
    schema = _schema(str(node.op_type), domain, version)
    if schema is None:
        return None
    data: bytes | None = None
    if schema.has_function:
        since = [v for v in schema.function_opset_versions if v <= version]
        data = schema.get_function_with_opset_version(max(since)) if since else None
    elif schema.has_context_dependent_function:
        since = [v for v in schema.context_dependent_function_opset_versions if v <= version]
        data = _dependent(schema, max(since), node, types) if since else None
    if not data:
        return None
    proto = onnx().FunctionProto()
    proto.ParseFromString(data)
    return proto


def _dependent(schema: Any, version: int, node: Any, types: Sequence[TensorType | None]) -> bytes | None:
    """The body made for these operands; None where they are none that the operator takes."""
    try:
        stated = [_type(t) for t in types]
        return schema.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), stated)
    except (ValueError, RuntimeError):
        return None


def _type(t: TensorType | None) -> bytes:
    if t is None:
        return bytes(onnx().TypeProto().SerializeToString())
    made = onnx().helper.make_tensor_type_proto(dtype_number(t.dtype), [int(d) for d in t.shape])
    return bytes(made.SerializeToString())


def _filled(node: Any, given: Mapping[str, Any]) -> Any:
    """A copy of `node` in which attributes that refer to the call's are these; one that has none goes."""
    copy = type(node)()
    copy.CopyFrom(node)
    stack = [copy]
    while stack:
        n = stack.pop()
        kept: list[Any] = []
        for a in n.attribute:
            if not a.ref_attr_name:
                kept.append(a)
            elif str(a.ref_attr_name) in given:
                value = type(a)()
                value.CopyFrom(given[str(a.ref_attr_name)])
                value.name = a.name
                kept.append(value)
        copies: list[Any] = [onnx().AttributeProto.FromString(a.SerializeToString()) for a in kept]
        del n.attribute[:]
        n.attribute.extend(copies)
        stack += [inner for a in n.attribute if a.HasField("g") for inner in a.g.node]
    return copy
