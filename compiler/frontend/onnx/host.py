"""Nodes of an ONNX model run where they are, by onnxruntime when it is installed, else by onnx's own evaluator.

Makes models of some nodes, asks what types they give, and runs them. Must not know which nodes run on the host, or why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from ...graph import DType, NDArray, TensorType
from ...graph.dtypes import from_numpy
from .order import reads
from .protos import domain_of, onnx
from .tensors import dtype_name, dtype_number, dtype_of

# TypeProto; an array, a list of arrays, or what else a value of ONNX is in Python.
Type: TypeAlias = Any
HostValue: TypeAlias = Any
Run: TypeAlias = Callable[[Mapping[str, HostValue]], list[HostValue]]

ONNXRUNTIME, REFERENCE = "onnxruntime", "onnx.reference"
_STRING = 8
# A message of a library is quoted no further than this.
_MESSAGE = 300


class HostError(Exception):
    """Why the host cannot run something, in the words of the library that was to do it."""


@dataclass(frozen=True, slots=True)
class Program:
    """Nodes that the host can run: by `runner`, on values by name, to the values of `outputs` in order."""

    runner: str
    outputs: tuple[str, ...]
    run: Run


# ---- types ---------------------------------------------------------------------------------------


def tensor_type(t: TensorType) -> Type:
    """The TypeProto of a tensor."""
    return onnx().helper.make_tensor_type_proto(dtype_number(t.dtype), [int(n) for n in t.shape])


def value_type(value: HostValue) -> Type:
    """The TypeProto of a value at hand."""
    if isinstance(value, list):
        first: Any = value[0] if value else np.zeros((), np.float32)  # pyright: ignore[reportUnknownVariableType]
        return onnx().helper.make_sequence_type_proto(value_type(first))
    array = np.asarray(value)
    number = _STRING if array.dtype.kind in "OUS" else dtype_number(_dtype(array))
    return onnx().helper.make_tensor_type_proto(number, array.shape)


def _dtype(array: NDArray) -> DType:
    d = from_numpy(array.dtype)
    if d is None:
        raise HostError(f"a value of {array.dtype} has no type here")
    return d


def infer(model: Any, strict: bool = False) -> dict[str, Type]:
    """The types of the outputs of `model` as far as ONNX, or else onnxruntime, can tell. HostError when it is wrong.

    Without `strict`, an operator that nobody knows is not wrong: its outputs have no type.
    """
    shapes = onnx().shape_inference
    try:
        told = shapes.infer_shapes(model, check_type=strict, strict_mode=strict, data_prop=True)
    except (shapes.InferenceError, ValueError, RuntimeError, TypeError) as error:
        raise HostError(_message(error)) from None
    found = {str(o.name): o.type for o in told.graph.output if o.type.WhichOneof("value")}
    if len(found) == len(model.graph.output) or _onnxruntime() is None:
        return found
    try:
        session = _session(model)
    except HostError:
        return found
    return {str(o.name): _told(o) for o in session.get_outputs()} | found


def observe(model: Any) -> dict[str, Type]:
    """The types of the outputs of `model` as two trial runs give them, on zeros and on ones; {} when these differ.

    For operators of which nobody tells the shape of the result. A type so found is to be checked at each run.
    """
    inputs = {str(i.name): i.type for i in model.graph.input}
    try:
        program = load(model)
        seen = [[value_type(x) for x in program.run({n: _trial(t, k) for n, t in inputs.items()})] for k in (0, 1)]
    except HostError:
        return {}
    return dict(zip(program.outputs, seen[0], strict=True)) if seen[0] == seen[1] else {}


def _trial(t: Type, k: int) -> NDArray:
    """`k` (0 or 1) everywhere; strings "" and "a". HostError for what is no tensor of a known shape."""
    tensor = t.tensor_type
    # A tensor without a shape is not one of shape [].
    if not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
        raise HostError("an operand's shape is not known")
    shape = tuple(int(d.dim_value) for d in tensor.shape.dim)
    if tensor.elem_type == _STRING:
        return np.full(shape, ("", "a")[k], object)
    d = dtype_of(tensor.elem_type)
    if d is None:
        raise HostError("an operand's data type is not known")
    return np.full(shape, k, d.numpy)


def _told(o: Any) -> Type:
    """The TypeProto that onnxruntime tells of an output: `tensor(float)` and its dims."""
    words = {"float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "string": "STRING",
             "bool": "BOOL"}  # fmt: skip
    kind, _, element = str(o.type).rstrip(")").rpartition("(")
    number = onnx().TensorProto.DataType.Value(words.get(element, element.upper()))
    shape = [n if isinstance(n, int) else None for n in o.shape] if kind == "tensor" else None
    tensor = onnx().helper.make_tensor_type_proto(number, shape)
    return tensor if kind == "tensor" else onnx().helper.make_sequence_type_proto(tensor)


# ---- models --------------------------------------------------------------------------------------


def submodel(
    base: Any,
    nodes: Iterable[Any],
    inputs: Mapping[str, Type],
    outputs: Mapping[str, Type | None],
    initialisers: Iterable[Any] = (),
    sparse: Iterable[Any] = (),
) -> Any:
    """Some nodes of the ModelProto `base` as a model of their own; None is a type that is not known."""
    package = onnx()
    # Before version 4, initialisers had to be inputs too.
    made = package.ModelProto(ir_version=max(int(base.ir_version), 4), producer_name="tdslc")
    made.opset_import.extend(base.opset_import)
    made.functions.extend(base.functions)
    made.graph.name = str(base.graph.name) or "part"
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(initialisers)
    made.graph.sparse_initializer.extend(sparse)
    for field, types in ((made.graph.input, inputs), (made.graph.output, outputs)):
        field.extend(_info(name, t) for name, t in types.items())
    return made


def _info(name: str, t: Type | None) -> Any:
    info = onnx().ValueInfoProto(name=name)
    if t is not None:
        info.type.CopyFrom(t)
    return info


def tensor_proto(name: str, array: NDArray) -> Any:
    """An array as a TensorProto. Elements of 4 bits share a byte, the low half first."""
    d = _dtype(array)
    data = array
    if d.bits == 4:
        halves = array.reshape(-1).astype(np.int8).astype(np.uint8) & 15
        halves = np.append(halves, np.zeros(halves.size % 2, np.uint8))
        data = halves[::2] | halves[1::2] << 4
    raw = np.ascontiguousarray(data).tobytes()
    return onnx().TensorProto(name=name, data_type=dtype_number(d), dims=[int(n) for n in array.shape], raw_data=raw)


# ---- running -------------------------------------------------------------------------------------


def load(model: Any) -> Program:
    """`model` ready to run, by the first library that takes it. HostError with what each says when none does."""
    names = tuple(str(o.name) for o in model.graph.output)
    said: list[str] = []
    for runner, make in ((ONNXRUNTIME, _by_onnxruntime), (REFERENCE, _by_reference)):
        if runner == ONNXRUNTIME and _onnxruntime() is None:
            continue
        try:
            return Program(runner, names, make(model, names))
        except HostError as error:
            said.append(f"{runner}: {error}")
    raise HostError("; ".join(said))


def has_onnxruntime() -> bool:
    """Whether onnxruntime is installed."""
    return _onnxruntime() is not None


def first_failing(model: Any, titles: Sequence[str], values: Mapping[str, HostValue]) -> tuple[str, str] | None:
    """(node, why) of the first node of `model` that fails when run alone on `values` and what those before it made.

    `titles` are the nodes' names in diagnostics. None when each of them runs.
    """
    known = dict(values)
    weights = {str(t.name): t for t in model.graph.initializer}
    for node, name in zip(model.graph.node, titles, strict=True):
        read = reads(node)
        made = [str(output) for output in node.output if output]
        try:
            types = {x: value_type(known[x]) for x in read if x in known}
            own = [weights[x] for x in read if x in weights]
            alone = load(submodel(model, [node], types, dict.fromkeys(made), own))
            known.update(zip(made, alone.run({x: known[x] for x in types}), strict=True))
        except HostError as error:
            return name, str(error)
    return None


def _by_onnxruntime(model: Any, names: Sequence[str]) -> Run:
    types = [i.type.tensor_type for i in (*model.graph.input, *model.graph.output) if i.type.HasField("tensor_type")]
    unfit = dict.fromkeys(str(dtype_of(n) or dtype_name(n)) for t in types if not _is_numpys(n := int(t.elem_type)))
    if unfit:
        raise HostError(f"values of {', '.join(unfit)} do not get there from Python")
    session = _session(model)
    wanted = {str(i.name) for i in session.get_inputs()}

    def run(values: Mapping[str, HostValue]) -> list[HostValue]:
        try:
            return list(session.run(list(names), {name: x for name, x in values.items() if name in wanted}))
        except Exception as error:  # noqa: BLE001  # its exceptions have no common class
            raise HostError(_message(error)) from None

    return run


def _is_numpys(number: int) -> bool:
    """Whether NumPy itself has the data type; one that is not told may be any."""
    d = dtype_of(number)
    return number in (0, _STRING) or (d is not None and d.numpy.isbuiltin == 1)


def _session(model: Any) -> Any:
    """An InferenceSession on one thread, silent. HostError."""
    package = _onnxruntime()
    assert package is not None
    options = package.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        data = model.SerializeToString()
        return package.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  # its exceptions have no common class
        raise HostError(_message(error)) from None


def _by_reference(model: Any, names: Sequence[str]) -> Run:
    # Imported here: it is large, and few models need it.
    from onnx import reference  # pyright: ignore

    for node in model.graph.node:
        known = {(f.domain, f.name) for f in model.functions}
        if not onnx().defs.has(str(node.op_type), domain_of(node)) and (node.domain, node.op_type) not in known:
            raise HostError(f"no operator {node.op_type} of domain {node.domain or 'ONNX'} is known")
    try:
        evaluator: Any = cast(Any, reference).ReferenceEvaluator(model)
    except Exception as error:  # noqa: BLE001  # whatever an operator's Python raises
        raise HostError(_message(error)) from None

    def run(values: Mapping[str, HostValue]) -> list[HostValue]:
        try:
            with np.errstate(all="ignore"):
                return list(evaluator.run(list(names), dict(values)))
        except Exception as error:  # noqa: BLE001  # whatever an operator's Python raises
            raise HostError(_message(error)) from None

    return run


def _onnxruntime() -> Any:
    """The package onnxruntime, or None."""
    try:
        import onnxruntime  # pyright: ignore
    except ImportError:
        return None
    return onnxruntime  # pyright: ignore[reportUnknownVariableType]


def _message(error: Exception) -> str:
    """What a library says, on one line."""
    text = " ".join((str(error) or type(error).__name__).split())
    return text if len(text) <= _MESSAGE else text[:_MESSAGE] + " ..."
