"""Which nodes of an ONNX model a target can be given, and which are for the host.

The importer's own reading of the whole model decides: a node that it refuses for want of an operator, a data type or a
shape known at build, or that reads what only the host has, runs on the host. Values that the host makes go on as
inputs, of the types that ONNX gives them. Must not know how nodes are put together into parts, nor what runs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...graph import Builder, TensorType
from ...source import Diagnostic, did_you_mean
from ..names import identifier
from .call import Emitter, Params, Value
from .functions import Body
from .host import HostError, Type, infer, observe, submodel, tensor_proto, tensor_type
from .importer import Begun, Importer
from .order import reads, title
from .protos import onnx
from .scope import Scope
from .signature import Signature, stated_type, stated_types
from .tensors import Unreadable, dtype_name, dtype_of

# What a host can do where tdslc cannot: operators and data types that it lacks, values that must be known at build.
_UNKNOWN = "E1107"
_LACKING = {"E1105", _UNKNOWN}
# A node that does not fit its operands, by tdslc's reading: the host runs it if it is right by ONNX's.
_MISFIT = "E1106"


class Watched(Importer):
    """An importer to which nodes of the main graph that cannot be imported are no mistakes: `lacking` says why.

    `main` is the scope whose nodes are meant; what is wrong inside a node is wrong with that node.
    """

    def __init__(self, model: Any, file: str, folder: str | None) -> None:
        super().__init__(model, file, folder, ignore_stated=False)
        self.main: Scope | None = None
        self.lacking: dict[int, str] = {}

    def node(self, node: Any, index: int, scope: Scope, emitter: Emitter, stated: Mapping[str, Any]) -> None:
        if scope is not self.main:
            super().node(node, index, scope, emitter, stated)
            return
        s = self.session
        before, unsupported = len(s.diagnostics), {key: list(nodes) for key, nodes in s.unsupported.items()}
        self.watched(node, index, scope, emitter, stated)
        found = s.diagnostics[before:]
        missing = [key for key, nodes in s.unsupported.items() if nodes != unsupported.get(key)]
        if found or missing:
            codes = {d.code for d in found}
            if not codes <= {*_LACKING, _MISFIT} or (_MISFIT in codes and not self.is_right(node, scope)):
                return
            del s.diagnostics[before:]
            s.unsupported = unsupported
        elif all(scope.values.get(str(name)) is not None for name in node.output if name):
            return
        self.lacking[index] = self._why(node, scope, found, missing)
        self.lacks(node, index, scope, emitter, found)

    def watched(self, node: Any, index: int, scope: Scope, emitter: Emitter, stated: Mapping[str, Any]) -> None:
        """Imports a node of the main graph."""
        super().node(node, index, scope, emitter, stated)

    def is_right(self, node: Any, scope: Scope) -> bool:
        """Whether a node that the importer finds wrong is right by ONNX's own reading."""
        return False

    def lacks(self, node: Any, index: int, scope: Scope, emitter: Emitter, found: Sequence[Diagnostic]) -> None:
        """Called for each node that cannot be imported, for `found` or want of an operator; it has no values yet."""

    def _why(
        self, node: Any, scope: Scope, found: Sequence[Diagnostic], missing: Sequence[tuple[str, str, int]]
    ) -> str:
        if missing:
            names = [f"{op} of domain {domain}" if domain else op for domain, op, _ in missing]
            return f"{', '.join(dict.fromkeys(names))} is not supported"
        if found:
            return found[0].message.removeprefix(f"{self.file}: ").partition(": ")[2] or found[0].message
        unknown = [name for name in reads(node) if scope.knows(name) and scope.find(name) is None]
        listed = ", ".join(f"`{name}`" for name in unknown)
        return f"it reads {listed}, which the host alone has" if listed else f"{node.op_type} is not supported"


class Probe(Watched):
    """One reading of a model. Afterwards `lacking` has the nodes for the host, `scope` every value, None for those that
    only the host has, and `types` what ONNX says of these. `forced` are nodes that are for the host in any case.
    """  # fmt: skip

    def __init__(self, model: Any, file: str, folder: str | None, forced: Mapping[int, str]) -> None:
        super().__init__(model, file, folder)
        self.forced = forced
        # TypeProtos of values that are not in the scope, and their texts for those whose shapes are not known.
        self.types: dict[str, Type | None] = {}
        self.shapeless: dict[str, str] = {}
        # What to do about that, where the node that makes them says so; else "".
        self.hints: dict[str, str] = {}
        # Values whose shapes trial runs gave, by the node that makes them.
        self.seen: dict[str, str] = {}
        self.declared: dict[str, int] = {}
        self._stated: dict[str, Type] = {}
        self._used_dims: set[str] = set()

    def probe(self, binds: Mapping[str, Any], dims: Mapping[str, int]) -> Begun:
        """Reads the whole model. DiagnosticError with what is wrong with it, whoever runs it."""
        graph = self.model.graph
        own = set(_input_dims(graph))
        self.declared = {name: n for name, n in dims.items() if name not in own and self._may_declare(name)}
        given = {name: n for name, n in dims.items() if name not in self.declared}
        at = self.begin(Signature(self.session, graph, given, binds, host=True))
        self.main = at.scope
        for name, shape in at.signature.hosted.items():
            at.scope.values[name] = None
            self.types[name] = _sized(next(i for i in graph.input if str(i.name) == name).type, shape)
        self._nodes(at)
        self._check_outputs(at)
        self._check_declared()
        self.stop_at_faults()
        return at

    def _nodes(self, at: Begun) -> None:
        graph = self.model.graph
        known = {name: _stated_proto(info) for info in (*graph.value_info, *graph.output) for name in (str(info.name),)}
        self._stated = {name: t for name, t in known.items() if t is not None}
        self.nodes(graph, at.scope, at.emitter, stated_types(graph))

    def unreadable(self, name: str, e: Unreadable) -> None:
        """Data types that tdslc lacks stay on the host."""
        if e.code != "E1105":
            super().unreadable(name, e)

    # ---- nodes ----

    def watched(self, node: Any, index: int, scope: Scope, emitter: Emitter, stated: Mapping[str, Any]) -> None:
        if index not in self.forced:
            super().watched(node, index, scope, emitter, stated)
            return
        scope.values.update({str(name): None for name in node.output if name})

    def is_right(self, node: Any, scope: Scope) -> bool:
        try:
            return bool(infer(self._alone(node, scope), strict=True))
        except HostError:
            return False

    def lacks(self, node: Any, index: int, scope: Scope, emitter: Emitter, found: Sequence[Diagnostic]) -> None:
        hint = next((d.help for d in found if d.code == _UNKNOWN and d.help), "")
        if index in self.forced:
            self.lacking[index] = self.forced[index]
        try:
            told = infer(self._alone(node, scope))
        except HostError:
            # It is wrong, or the library's own gap; whoever is to run it says so.
            told = {}
        outputs = [str(n) for n in node.output if n]
        known = all(_has_shape(told.get(name)) or _has_shape(self._stated.get(name)) for name in outputs)
        # Where a value must be known that is not, the shape depends on it, whatever two trials give.
        if not known and not any(d.code == _UNKNOWN for d in found):
            seen = observe(self._alone(node, scope))
            told |= {name: t for name, t in seen.items() if not _has_shape(told.get(name))}
            self.seen |= {name: title(node, index) for name in seen if name in outputs}
        for name in outputs:
            proto = self._merged(name, told.get(name))
            self.types[name] = proto
            t = _ours(proto)
            if t is None:
                self.shapeless[name] = shown_type(proto)
                self.hints[name] = hint
                scope.values[name] = None
                continue
            scope.values[name] = v = Value(name, t)
            emitter.ids[v] = emitter.b.input(f"host{len(emitter.b.nodes)}", t)

    def _alone(self, node: Any, scope: Scope) -> Any:
        """The node as a model of its own, its operands of the types that they have here."""
        inputs: dict[str, Type] = {}
        arrays: list[Any] = []
        strange = {str(t.name): t for t in self.model.graph.initializer}
        for name in reads(node):
            v = scope.find(name)
            if v is not None and v.array is not None and not v.weight:
                arrays.append(tensor_proto(name, v.array))
            elif v is not None and not v.is_sequence:
                inputs[name] = tensor_type(v.type)
            elif name in strange:
                arrays.append(strange[name])
            elif self.types.get(name) is not None:
                inputs[name] = self.types[name]
        outputs = dict.fromkeys(str(n) for n in node.output if n)
        return submodel(self.model, [node], inputs, outputs, arrays)

    def _merged(self, name: str, told: Type | None) -> Type | None:
        """What is known of a value's type: by inference, else by what the model states, else by `--dim`."""
        made = onnx().TypeProto()
        stated = self._stated.get(name)
        source = told if told is not None else stated
        if source is None:
            return None
        made.CopyFrom(source)
        if not made.HasField("tensor_type"):
            return made
        t = made.tensor_type
        if not t.HasField("shape") and stated is not None and stated.tensor_type.HasField("shape"):
            t.shape.CopyFrom(stated.tensor_type.shape)
        of = stated.tensor_type.shape.dim if stated is not None and stated.HasField("tensor_type") else ()
        for axis, d in enumerate(t.shape.dim if t.HasField("shape") else ()):
            self._fix(name, axis, d, of[axis] if len(of) == len(t.shape.dim) else None)
        return made

    def _fix(self, name: str, axis: int, d: Any, stated: Any) -> None:
        """A size for a dim that inference leaves open, if the model states one or `--dim` does."""
        if d.HasField("dim_value"):
            return
        if stated is not None and stated.HasField("dim_value"):
            d.dim_value = stated.dim_value
            return
        symbol = str(stated.dim_param) if stated is not None else ""
        for key in (f"{name}.{axis}", symbol):
            if key in self.declared:
                self._used_dims.add(key)
                d.dim_value = self.declared[key]
                return

    # ---- checks ----

    def _may_declare(self, name: str) -> bool:
        """Whether `--dim NAME` may speak of a value that the host makes: VALUE.AXIS, or a symbol that is stated."""
        graph = self.model.graph
        value, dot, axis = name.rpartition(".")
        made = dot and axis.isdigit() and any(value in n.output for n in graph.node)
        return bool(made) or name in {
            str(d.dim_param) for i in (*graph.value_info, *graph.output) for d in i.type.tensor_type.shape.dim
        }

    def _check_declared(self) -> None:
        for name in self.declared:
            if name not in self._used_dims:
                open_dims = [f"{value}.{axis}" for value, t in self.types.items() for axis in _open_axes(t)]
                help = did_you_mean(name, open_dims) or f"such dims are {', '.join(open_dims) or 'none'}"
                said = f"{self.file}: `--dim {name}` fixes no dim that is unknown: the host makes no such value"
                self.session.tell(Diagnostic("E1109", said, help=help))

    def _check_outputs(self, at: Begun) -> None:
        for info in self.model.graph.output:
            name = str(info.name)
            if not at.scope.knows(name):
                self.session.tell(Diagnostic("E1104", f"{self.file}: nothing makes the output `{name}`"))
                continue
            v = at.scope.find(name)
            if v is not None and not v.is_sequence:
                self.check_stated(v, stated_type(info), self.session.makers.get(name, "the model"))
            t = self.types.get(name)
            if (v is not None and v.is_sequence) or (t is not None and not t.HasField("tensor_type")):
                said = f"{self.file}: the output `{name}` is a sequence or an optional, not a tensor"
                help = "export the model so that it gives tensors; between its nodes the host may have such values"
                self.session.tell(Diagnostic("E1105", said, help=help))


class RegionImporter(Watched):
    """The import of one region: its nodes alone, from values that others make."""

    def nodes_of(
        self, nodes: Sequence[Any], leaves: Mapping[str, Value | None], inputs: Mapping[str, TensorType]
    ) -> Begun:
        """Reads `nodes`; `leaves` are known arrays and weights. `lacking` says which could not be imported."""
        scope = Scope(self.session, self.opsets, self, values=dict(leaves))
        signature = Signature(self.session, self.model.graph, {}, {})
        at = Begun(scope, Emitter(Builder(identifier(self.file))), signature)
        used: set[str] = set()
        for name, t in inputs.items():
            used.add(at.take(name, t, identifier(name, used), self.file))
        at.emitter.params = Params(used)
        self.main = scope
        self.nodes(Body(nodes, [], [], {}), scope, at.emitter)
        return at


# ---- types ---------------------------------------------------------------------------------------


def shown_type(t: Type | None) -> str:
    """A TypeProto for people: `i64[?, 3]`, `STRING[2]`, `sequence`."""
    if t is None:
        return "of a type that is not known"
    if not t.HasField("tensor_type"):
        return str(t.WhichOneof("value") or "unknown").removesuffix("_type")
    tensor = t.tensor_type
    name = dtype_of(tensor.elem_type) or dtype_name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return f"{name} of unknown rank"
    return f"{name}[{', '.join(str(d.dim_value) if d.HasField('dim_value') else '?' for d in tensor.shape.dim)}]"


def _ours(t: Type | None) -> TensorType | None:
    """The TensorType that a TypeProto is, if its dtype is ours and its dims are known."""
    if t is None or not t.HasField("tensor_type") or not t.tensor_type.HasField("shape"):
        return None
    d, dims = dtype_of(t.tensor_type.elem_type), t.tensor_type.shape.dim
    if d is None or not all(n.HasField("dim_value") and n.dim_value >= 0 for n in dims):
        return None
    return TensorType(d, tuple(int(n.dim_value) for n in dims))


def _has_shape(t: Type | None) -> bool:
    """Whether something is known of the shape. What is no tensor has none to know."""
    return t is not None and (not t.HasField("tensor_type") or t.tensor_type.HasField("shape"))


def _open_axes(t: Type | None) -> list[int]:
    if t is None or not t.HasField("tensor_type") or not t.tensor_type.HasField("shape"):
        return []
    return [axis for axis, d in enumerate(t.tensor_type.shape.dim) if not d.HasField("dim_value")]


def _sized(t: Type, shape: Iterable[int]) -> Type:
    made = onnx().TypeProto()
    made.CopyFrom(t)
    for d, n in zip(made.tensor_type.shape.dim, shape, strict=True):
        d.dim_value = n
    return made


def _stated_proto(info: Any) -> Type | None:
    return info.type if info.type.WhichOneof("value") else None


def _input_dims(graph: Any) -> list[str]:
    """What `--dim` calls the open dims of the inputs."""
    found: list[str] = []
    for info in graph.input:
        dims = stated_type(info)[1] or []
        found += [dim or f"{info.name}.{axis}" for axis, dim in enumerate(dims) if not isinstance(dim, int)]
    return found
