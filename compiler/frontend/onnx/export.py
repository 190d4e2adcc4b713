"""From a Graph to an ONNX model, which other compilers and onnxruntime read, and `import_model` too.

Composites are written as what they mean; loops become Scan, `while` Loop and `cond` If. Params are initialisers where
their values are given, else inputs after the graph's own. Must not know targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...graph import DType, Graph, NDArray, Node, TensorType, expand
from ...graph.dtypes import BOOL, I32, I64
from ...graph.ops.control import carried_of, loop_counts
from ...source import Diagnostic, DiagnosticError, Note
from .export_ops import OPS, Unexported
from .protos import onnx
from .tensors import dtype_number

# The opset that is written: the first with bf16 and 4-bit types throughout, and one that onnxruntime 1.18 reads.
OPSET, IR_VERSION = 21, 10
_MOST_LISTED = 20


def export_model(graph: Graph, params: Mapping[str, NDArray] | None = None) -> bytes:
    """`graph` as the bytes of an ONNX model. DiagnosticError (E1105) names every op that ONNX has no counterpart of."""
    writer = _Writer(dict(params or {}))
    made = writer.graph(expand(graph), graph.name, {})
    if writer.missing:
        notes = tuple(Note(f"at {place}") for place in writer.missing[:_MOST_LISTED])
        said = f"ONNX has no counterpart of {', '.join(sorted(writer.ops))} as used here"
        raise DiagnosticError(
            Diagnostic("E1105", said, notes=notes, help="write the model without, or export StableHLO")
        )
    helper = onnx().helper
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return bytes(model.SerializeToString())


def tensor(name: str, array: NDArray, d: DType) -> Any:
    """A TensorProto of raw data; two elements of 4 bits share a byte."""
    made = onnx().TensorProto(name=name, data_type=dtype_number(d), dims=[int(n) for n in array.shape])
    data = np.ascontiguousarray(array)
    if d.bits == 4:
        halves = data.reshape(-1).astype(np.int8).view(np.uint8) & 15
        padded = np.concatenate([halves, np.zeros(halves.size % 2, np.uint8)])
        data = padded[::2] | (padded[1::2] << 4)
    made.raw_data = data.tobytes()
    return made


@dataclass(slots=True)
class Emit:
    """What a row's writer sees: its node's operands by name, and ways to add ONNX nodes and constants."""

    writer: _Writer
    node: Node
    args: Sequence[str]
    types: Sequence[TensorType]

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.node.types[0]

    def attr(self, name: str) -> Any:
        """An attribute of the node."""
        return self.node.attr(name)

    def op(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        """Adds a node; the name of its result, or of all its results."""
        return self.writer.add(op, inputs, outputs, attrs)

    def ints(self, values: Sequence[int]) -> str:
        """A constant vector of i64."""
        return self.writer.constant(np.asarray([int(v) for v in values], np.int64), I64)

    def array(self, values: Any, d: DType) -> str:
        """A constant of dtype `d`."""
        return self.writer.constant(np.asarray(values).astype(d.numpy), d)

    def number(self, value: float | bool, d: DType) -> str:
        """A constant without axes."""
        return self.array(value, d)

    def cast(self, x: str, d: DType) -> str:
        """`x` at another dtype."""
        return self.op("Cast", x, to=dtype_number(d))

    def refuse(self) -> Unexported:
        """This use of the op has no counterpart."""
        return Unexported(self.node.op)


@dataclass(slots=True)
class _Writer:
    """Names handed out, and nodes and initialisers of the graph being written."""

    params: dict[str, NDArray]
    nodes: list[Any] = field(default_factory=list[Any])
    initialisers: list[Any] = field(default_factory=list[Any])
    constants: dict[object, str] = field(default_factory=dict[object, str])
    missing: list[str] = field(default_factory=list[str])
    ops: set[str] = field(default_factory=set[str])
    count: int = 0

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}.{self.count}"

    def add(self, op: str, inputs: Sequence[str], outputs: int, attrs: Mapping[str, Any]) -> Any:
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        self.nodes.append(onnx().helper.make_node(op, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else names

    def constant(self, array: NDArray, d: DType) -> str:
        """An initialiser of the outermost graph, made once."""
        key = (d.name, array.shape, array.tobytes())
        if key not in self.constants:
            self.constants[key] = name = self.fresh("const")
            self.initialisers.append(tensor(name, array, d))
        return self.constants[key]

    # ---- graphs ----

    def graph(self, graph: Graph, name: str, given: Mapping[int, str]) -> Any:
        """A GraphProto: the whole model's, or with `given` names for its inputs a body's without initialisers."""
        outer, self.nodes = self.nodes, []
        values = dict(given)
        inputs: list[Any] = []
        for n in (*graph.inputs, *graph.params):
            label = str(n.attr("name"))
            if n.out not in values:
                values[n.out] = label
            if not given and n.op == "param" and label in self.params:
                self.initialisers.append(tensor(label, self.params[label], n.type.dtype))
            elif not given:
                inputs.append(self.info(label, n.type))
        self.body(graph, values)
        outputs = self.outputs(graph, values, top=not given)
        nodes, self.nodes = self.nodes, outer
        made = onnx().helper.make_graph(nodes, name or "graph", inputs, outputs)
        if not given:
            made.initializer.extend(self.initialisers)
        return made

    def info(self, name: str, t: TensorType) -> Any:
        return onnx().helper.make_tensor_value_info(name, dtype_number(t.dtype), [int(d) for d in t.shape])

    def outputs(self, graph: Graph, values: Mapping[int, str], top: bool) -> list[Any]:
        """Results under names of their own: the graph's output names, or new ones."""
        found: list[Any] = []
        for i, (v, t) in enumerate(zip(graph.outputs, graph.output_types, strict=True)):
            name = graph.output_names[i] if top and graph.output_names else self.fresh("out")
            self.nodes.append(onnx().helper.make_node("Identity", [values[v]], [name]))
            found.append(self.info(name, t))
        return found

    def body(self, graph: Graph, values: dict[int, str]) -> None:
        """The nodes of a graph; those without a counterpart are noted and give names that nothing makes."""
        for n in graph.nodes:
            if n.op in ("input", "param"):
                continue
            emit = Emit(self, n, [values[a] for a in n.args], [graph.types[a] for a in n.args])
            try:
                made = _REGIONS[n.op](self, emit) if n.op in _REGIONS else _written(emit)
            except Unexported as e:
                self.ops.add(str(e))
                self.missing.append(n.loc or n.op)
                made = [self.fresh("missing") for _ in n.outs]
            values.update(zip(n.outs, made, strict=True))


def _written(emit: Emit) -> list[str]:
    op = emit.node.op
    if op not in OPS:
        raise Unexported(op)
    made = OPS[op](emit)
    return [made] if isinstance(made, str) else list(made)


# ---- regions -------------------------------------------------------------------------------------


def _loop(w: _Writer, e: Emit) -> list[str]:
    """A Scan over the index and the rows; what is captured it reads from outside. No trips: the carry, and empty ys."""
    trips, carry, xs = loop_counts(dict(e.node.attrs))
    if not trips:
        empty = [e.array(np.zeros(t.shape), t.dtype) for t in e.node.types[carry:]]
        return [*e.args[:carry], *empty]
    region = e.node.regions[0]
    inside = [n.out for n in region.inputs]
    names = {v: w.fresh("in") for v in inside[: 1 + carry + xs]}
    names |= dict(zip(inside[1 + carry + xs :], e.args[carry + xs :], strict=True))
    body = w.graph(region, w.fresh("body"), names)
    # Scan takes states first, then scanned values; our index is one of these.
    order = [*inside[1 : 1 + carry], inside[0], *inside[1 + carry : 1 + carry + xs]]
    body.input.extend(w.info(names[v], region.types[v]) for v in order)
    index = w.constant(np.arange(trips, dtype=np.int32), I32)
    given = [*e.args[:carry], index, *e.args[carry : carry + xs]]
    made = w.add("Scan", given, len(e.node.outs), {"body": body, "num_scan_inputs": 1 + xs})
    return [made] if isinstance(made, str) else made


def _while(w: _Writer, e: Emit) -> list[str]:
    """A Loop whose body ends with the condition of the next round; the first is tested before."""
    cond, step = e.node.regions
    carry = carried_of(dict(e.node.attrs))
    captured = list(e.args[carry:])

    def bound(region: Graph, carried: Sequence[str]) -> dict[int, str]:
        return dict(zip((n.out for n in region.inputs), (*carried, *captured), strict=True))

    first = bound(cond, e.args[:carry])
    w.body(cond, first)
    start = first[cond.outputs[0]]
    outer, w.nodes = w.nodes, []
    names = [w.fresh("in") for _ in range(carry)]
    values = bound(step, names)
    w.body(step, values)
    after = [values[v] for v in step.outputs]
    again = bound(cond, after)
    w.body(cond, again)
    helper = onnx().helper
    results = [again[cond.outputs[0]], *after]
    outs = [w.fresh("out") for _ in results]
    nodes = [*w.nodes, *(helper.make_node("Identity", [r], [o]) for r, o in zip(results, outs, strict=True))]
    w.nodes = outer
    scalar_bool, scalar_int = TensorType(BOOL, ()), TensorType(I64, ())
    takes = [w.info(w.fresh("iteration"), scalar_int), w.info(w.fresh("going"), scalar_bool)]
    takes += [w.info(name, t) for name, t in zip(names, step.output_types, strict=True)]
    gives = [w.info(o, t) for o, t in zip(outs, (scalar_bool, *step.output_types), strict=True)]
    body = helper.make_graph(nodes, w.fresh("body"), takes, gives)
    made = w.add("Loop", ("", start, *e.args[:carry]), carry, {"body": body})
    return [made] if isinstance(made, str) else made


def _cond(w: _Writer, e: Emit) -> list[str]:
    """An If; its branches read their operands from outside."""
    branches: list[Any] = []
    for region in e.node.regions:
        # A name for its inputs is what tells a branch from a model, so one without inputs gets one that nobody reads.
        names = dict(zip((n.out for n in region.inputs), e.args[1:], strict=True)) or {-1: ""}
        branches.append(w.graph(region, w.fresh("branch"), names))
    attrs = {"then_branch": branches[0], "else_branch": branches[1]}
    made = w.add("If", (e.args[0],), len(e.node.outs), attrs)
    return [made] if isinstance(made, str) else made


_REGIONS = {"loop": _loop, "while": _while, "cond": _cond}
