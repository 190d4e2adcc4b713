"""An ONNX model as regions that a target compiles and parts between them that the host runs.

The cut is `graph.cut`'s; which node may go where is `probe`'s word. Must not know targets, nor what a crossing costs.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...graph import NDArray, TensorType
from ...graph.cut import Segment, cut, edges
from ...source import Diagnostic, DiagnosticError, Note
from ..names import identifier
from .call import Value
from .host import HostError, Program, Type, has_onnxruntime, load, submodel, tensor_proto, tensor_type
from .importer import Begun
from .order import reads, title
from .parts import HostNode, HostPart, Part, Partition, Region
from .probe import Probe, RegionImporter, shown_type
from .protos import parse_model
from .read import read_bytes
from .scope import Scope
from .tensors import Unreadable, array_of

_MOST_LISTED = 20


def partition_model(
    path: str, binds: Mapping[str, NDArray] | None = None, dims: Mapping[str, int] | None = None
) -> Partition:
    """The model in the file at `path` in parts; `binds` and `dims` as `import_model`.

    `dims` may also state sizes that only running tells, as `VALUE.AXIS`. DiagnosticError with what is wrong with the
    model (E11xx), when the host cannot run what it has to (E1116), or when nothing is left to compile (E1117).
    """
    data = read_bytes(path)
    model = parse_model(data, path)
    facts = _facts(model, os.path.basename(path), os.path.dirname(os.path.abspath(path)))
    forced: dict[int, str] = {}
    while True:
        # A node that does not compile in its region goes to the host, and all is cut anew.
        probe = Probe(model, facts.file, facts.folder, forced)
        made = _Cut(facts, probe, probe.probe(dict(binds or {}), dict(dims or {}))).parts()
        if isinstance(made, Partition):
            return replace(made, sha256=hashlib.sha256(data).hexdigest())
        forced = {**forced, **made}


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the file says: nodes, what makes and reads what, and its initialisers."""

    model: Any
    file: str
    folder: str
    nodes: Sequence[Any]
    maker: Mapping[str, int]
    reads: Sequence[Sequence[str]]
    outputs: Sequence[str]
    weights: Mapping[str, Any]
    sparse: Mapping[str, Any]


def _facts(model: Any, file: str, folder: str) -> _Facts:
    nodes = list(model.graph.node)
    return _Facts(
        model,
        file,
        folder,
        nodes,
        {str(name): i for i, n in enumerate(nodes) for name in n.output if name},
        [reads(n) for n in nodes],
        [str(o.name) for o in model.graph.output],
        {str(t.name): t for t in model.graph.initializer},
        {str(t.values.name): t for t in model.graph.sparse_initializer},
    )


@dataclass(frozen=True, slots=True)
class _Held:
    """A segment with what it pulls in: its nodes in order, all values they make, and those that they are given."""

    segment: Segment
    nodes: Sequence[int]
    made: Sequence[str]
    given: Sequence[str]


class _Cut:
    """One way of cutting a model: nodes of `probe.lacking` are for the host.

    `moved` are the nodes that have a place. What is computed from weights alone (`static`) and what is known at build
    (`known`: shape arithmetic) is made wherever it is read, and never crosses.
    """

    def __init__(self, facts: _Facts, probe: Probe, at: Begun) -> None:
        self.f, self.probe, self.at = facts, probe, at
        self.lacking = probe.lacking
        values = at.scope.values
        self.known = {name for name, v in values.items() if v is not None and v.array is not None and not v.weight}
        self.static = self._static()
        needed = self._needed()
        self.moved = [i for i in sorted(needed) if i not in self.static and not self._is_gone(i)]
        self.number = {i: k for k, i in enumerate(self.moved)}

    def parts(self) -> Partition | dict[int, str]:
        """The model in parts, or nodes that are for the host after all, and why. DiagnosticError."""
        segments = cut([self._sources(i) for i in self.moved], [i not in self.lacking for i in self.moved])
        if not any(s.compiled for s in segments):
            raise DiagnosticError([self._nothing(), *self._notes()])
        held = self._held([replace(s, nodes=tuple(self.moved[i] for i in s.nodes)) for s in segments])
        found: list[Part] = []
        forced: dict[int, str] = {}
        for k, h in enumerate(held):
            part = self._region(h, self._wanted(held, k), k) if h.segment.compiled else None
            if isinstance(part, dict):
                forced |= part
            elif part is not None:
                found.append(part)
            elif not forced:
                found.append(self._host_part(h, self._wanted(held, k)))
        return forced or self._partition(tuple(found), held)

    # ---- what moves ----

    def _static(self) -> set[int]:
        """Nodes that depend on weights alone and are compiled."""
        found: set[int] = set()
        for i in self._order():
            if i not in self.lacking and not any(self._varies(name, found) for name in self.f.reads[i]):
                found.add(i)
        return found

    def _varies(self, name: str, static: set[int]) -> bool:
        return self.f.maker[name] not in static if name in self.f.maker else not self._is_leaf(name)

    def _is_gone(self, i: int) -> bool:
        """Whether all that node `i` makes is known: shape arithmetic."""
        return i not in self.lacking and all(str(o) in self.known for o in self.f.nodes[i].output if o)

    def _needed(self) -> set[int]:
        """The nodes that outputs of the model depend on."""
        stack = [self.f.maker[name] for name in self.f.outputs if name in self.f.maker]
        found: set[int] = set()
        while stack:
            i = stack.pop()
            if i not in found:
                found.add(i)
                read = (name for name in self.f.reads[i] if name not in self.known)
                stack += [self.f.maker[name] for name in read if name in self.f.maker]
        return found

    def _order(self) -> list[int]:
        """Nodes so that each comes after those that it reads from."""
        everything = [[self.f.maker[name] for name in names if name in self.f.maker] for names in self.f.reads]
        return list(cut(everything, [True] * len(self.f.nodes))[0].nodes) if self.f.nodes else []

    def _sources(self, i: int) -> list[int]:
        """The moved nodes that node `i` reads from, through known values and static nodes none; by their numbers."""
        made = (self.f.maker[name] for name in self.f.reads[i] if name in self.f.maker and name not in self.known)
        return [self.number[k] for k in made if k in self.number]

    def _pulled(self, nodes: Sequence[int]) -> list[int]:
        """`nodes` and before them the static ones that they need."""
        found: dict[int, None] = {}
        stack = [(i, False) for i in reversed(nodes)]
        while stack:
            i, done = stack.pop()
            if done:
                found[i] = None
            elif i not in found:
                stack.append((i, True))
                needed = [self.f.maker[n] for n in self.f.reads[i] if n in self.f.maker and n not in self.known]
                stack += [(k, False) for k in reversed(needed) if k in self.static]
        return list(found)

    # ---- parts ----

    def _held(self, segments: Sequence[Segment]) -> list[_Held]:
        last = max(k for k, s in enumerate(segments) if s.compiled)
        found: list[_Held] = []
        for k, s in enumerate(segments):
            nodes = self._pulled([*s.nodes, *(self._static_outputs() if k == last else ())])
            made = [str(n) for i in nodes for n in self.f.nodes[i].output if n]
            names = dict.fromkeys(name for i in nodes for name in self.f.reads[i])
            inside = set(made)
            given = [name for name in names if name not in inside and not self._is_leaf(name)]
            found.append(_Held(s, nodes, made, given))
        return found

    def _static_outputs(self) -> list[int]:
        """Nodes that make outputs of the model from weights alone: the last region gives these."""
        made = (self.f.maker[name] for name in self.f.outputs if name in self.f.maker)
        return [i for i in made if i in self.static]

    def _is_leaf(self, name: str) -> bool:
        v = self.at.scope.values.get(name)
        known = v is not None and v.array is not None and (not v.weight or name not in self.f.maker)
        return known or name in self.f.weights or name in self.f.sparse

    def _wanted(self, held: Sequence[_Held], k: int) -> list[str]:
        """The values of part `k` that others read, or that are outputs of the model."""
        own = {str(n) for i in held[k].segment.nodes for n in self.f.nodes[i].output if n}
        elsewhere = [name for j, h in enumerate(held) if j != k for name in h.given if name in own]
        is_last = k == max(j for j, h in enumerate(held) if h.segment.compiled)
        given = [name for name in self.f.outputs if name in own or (is_last and self._is_constant(name))]
        return list(dict.fromkeys([*elsewhere, *given]))

    def _is_constant(self, name: str) -> bool:
        """Whether an output of the model depends on no input: a weight, or made of weights or shapes alone."""
        return name in self.known or self._is_leaf(name) or self.f.maker.get(name) in self.static

    def _region(self, h: _Held, outputs: Sequence[str], number: int) -> Region | dict[int, str]:
        importer = RegionImporter(self.f.model, self.f.file, self.f.folder)
        made = set(h.made)
        leaves = {name: v for name, v in self.at.scope.values.items() if name not in made and self._is_leaf(name)}
        at = importer.nodes_of([self.f.nodes[i] for i in h.nodes], leaves, {n: self._type(n) for n in h.given})
        forced = {h.nodes[i]: why for i, why in importer.lacking.items()}
        for name in outputs:
            v = at.scope.values.get(name)
            if v is not None and v.is_sequence:
                forced[self.f.maker[name]] = f"`{name}` is a sequence that leaves what is compiled"
        if forced:
            return forced
        plain: dict[str, str] = {}
        for name in outputs:
            plain[identifier(name, list(plain))] = name
        imported = importer.finish(at, [at.emitter.id(_made(at.scope, name)) for name in plain.values()], list(plain))
        stem = identifier(f"{os.path.splitext(self.f.file)[0]}_{number:02}")
        called = {str(n.attr("name")) for n in imported.graph.inputs}
        given = {at.renamed.get(name, name): name for name in h.given}
        inputs = {name: value for name, value in given.items() if name in called}
        return Region(replace(imported, graph=replace(imported.graph, name=stem)), len(h.nodes), inputs, plain)

    def _type(self, name: str) -> TensorType:
        v = self.at.scope.find(name)
        assert v is not None, f"`{name}` has no type, and a region reads it"
        return v.type

    def _host_part(self, h: _Held, outputs: Sequence[str]) -> HostPart:
        nodes, inputs = h.nodes, h.given
        protos = [self.f.nodes[i] for i in nodes]
        titles = tuple(self._host_node(i) for i in nodes)
        made = {str(n) for proto in protos for n in proto.output if n}
        read = dict.fromkeys(name for i in nodes for name in self.f.reads[i] if name not in made)
        leaves = [self._leaf_proto(name) for name in read if name not in inputs and name not in self.f.sparse]
        sparse = [self.f.sparse[name] for name in read if name in self.f.sparse]
        types = {name: self._proto(name) for name in inputs}
        model = submodel(self.f.model, protos, types, {name: self._proto(name) for name in outputs}, leaves, sparse)
        try:
            return HostPart(titles, tuple(inputs), tuple(outputs), load(model), model)
        except HostError as error:
            raise DiagnosticError(self._unloadable(protos, titles, model, error)) from None

    def _host_node(self, i: int) -> HostNode:
        node = self.f.nodes[i]
        why = self.lacking.get(i, "it makes, from weights alone, what these nodes read")
        op = f"{node.domain}::{node.op_type}" if node.domain else str(node.op_type)
        return HostNode(title(node, i), op, why, tuple(str(n) for n in node.output if n))

    def _leaf_proto(self, name: str) -> Any:
        """A known array or a weight as a TensorProto that holds its data."""
        v = self.at.scope.values.get(name)
        if v is not None and v.array is not None and (name not in self.f.weights or name in self.known):
            return tensor_proto(name, v.array)
        proto = self.f.weights[name]
        try:
            return tensor_proto(name, array_of(proto, self.f.folder)) if proto.external_data else proto
        except Unreadable as e:
            raise DiagnosticError(Diagnostic(e.code, f"{self.f.file}: `{name}`: {e.why}", help=e.help)) from None

    def _proto(self, name: str) -> Type | None:
        v = self.at.scope.values.get(name)
        return self.probe.types.get(name) if v is None or v.is_sequence else tensor_type(v.type)

    def _unloadable(
        self, protos: Sequence[Any], titles: Sequence[HostNode], model: Any, error: HostError
    ) -> list[Diagnostic]:
        """Every node that the host cannot run alone, or else the part as a whole."""
        found: list[Diagnostic] = []
        weights = {str(t.name): t for t in model.graph.initializer}
        for proto, node in zip(protos, titles, strict=True):
            read = reads(proto)
            types = {name: t for name in read if name not in weights and (t := self._proto(name)) is not None}
            own = [weights[name] for name in read if name in weights]
            try:
                load(submodel(self.f.model, [proto], types, dict.fromkeys(str(n) for n in proto.output if n), own))
            except HostError as why:
                said = f"node {node.name} cannot be compiled ({node.why}), and the host cannot run it: {why}"
                found.append(self._not_there(said))
        return found or [self._not_there(f"the host cannot run part of the model: {error}")]

    def _not_there(self, said: str) -> Diagnostic:
        missing = (
            "" if has_onnxruntime() else "install onnxruntime, which knows more operators than onnx.reference, or "
        )
        help = f"{missing}export the model without this operator, or define it as a function of the model"
        return Diagnostic("E1116", f"{self.f.file}: {said}", help=help)

    # ---- the whole ----

    def _partition(self, parts: tuple[Part, ...], held: Sequence[_Held]) -> Partition:
        values = self.at.scope.values
        types = {name: v.type for name, v in values.items() if v is not None and not v.is_sequence}
        signature = self.at.signature
        inputs = {identifier(n, ()): n for n in signature.hosted}
        inputs = {self.at.renamed.get(name, name): name for name in self._inputs()} | inputs
        outputs: dict[str, str] = {}
        for name in self.f.outputs:
            outputs[identifier(name, list(outputs))] = name
        shown = {name: str(t) for name, t in types.items()}
        shown |= {name: shown_type(t) for name, t in self.probe.types.items() if name not in types}
        cross = edges([h.segment for h in held], [h.made for h in held], [h.given for h in held], types)
        return Partition(
            self.f.file,
            parts,
            cross,
            inputs,
            outputs,
            types,
            shown,
            signature.fixed,
            "",
            tuple(self._notes()),
            self._whole,
        )

    def _whole(self) -> Program:
        """The whole model, weights that lie beside it read in."""
        graph = self.f.model.graph
        # A bound input is fed, also where the model has a default for it.
        own = [name for name in self.f.weights if name not in self.at.signature.bound]
        inputs = {str(i.name): i.type for i in graph.input if str(i.name) not in own}
        outputs = {str(o.name): o.type for o in graph.output}
        leaves = [self._leaf_proto(name) for name in own]
        return load(submodel(self.f.model, self.f.nodes, inputs, outputs, leaves, self.f.sparse.values()))

    def _inputs(self) -> list[str]:
        own = {*self.f.weights, *self.at.signature.bound, *self.at.signature.hosted}
        return [str(i.name) for i in self.f.model.graph.input if str(i.name) not in own]

    def _shown(self, name: str) -> str:
        v = self.at.scope.values.get(name)
        return str(v.type) if v is not None else shown_type(self.probe.types.get(name))

    def _nothing(self) -> Diagnostic:
        lines = [f"node {title(self.f.nodes[i], i)}: {self.lacking[i]}" for i in sorted(self.lacking)]
        notes = tuple(Note(line) for line in lines[:_MOST_LISTED])
        notes += (Note(f"and {len(lines) - _MOST_LISTED} more"),) if len(lines) > _MOST_LISTED else ()
        said = f"{self.f.file}: none of its {len(self.f.nodes)} nodes would be compiled: all of them run on the host"
        return Diagnostic("E1117", said, notes=notes, help="docs/onnx.md lists the operators that are compiled")

    def _notes(self) -> list[Diagnostic]:
        """Remarks on values whose shape is known at run time only: what reads them stays on the host."""
        found: list[Diagnostic] = []
        for name, shown in self.probe.shapeless.items():
            readers = [i for i in self.lacking if name in self.f.reads[i]]
            is_open = "?" in shown or "unknown rank" in shown
            if not is_open or not readers:
                continue
            many = f"{len(readers)} nodes that read it run" if len(readers) > 1 else "the node that reads it runs"
            said = f"{self.f.file}: `{name}` is {shown}, its shape known only when it is made: {many} on the host too"
            help = self.probe.hints.get(name) or _sized_by(name, shown)
            found.append(Diagnostic("E1119", said, help=help, severity="note"))
        for name, node in self.probe.seen.items():
            said = f"{self.f.file}: that `{name}` is {self._shown(name)} was seen in trial runs of node {node}"
            help = "each run is checked; state the type in the model's value_info to be sure"
            found.append(Diagnostic("E1119", said, help=help, severity="note"))
        return found


def _sized_by(name: str, shown: str) -> str:
    if "?" not in shown:
        return f"state the shape of `{name}` in the model's value_info"
    axis = shown.partition("[")[2].rstrip("]").split(", ").index("?")
    return f"`--dim {name}.{axis}=SIZE` states the size, which each run then must have"


def _made(scope: Scope, name: str) -> Value:
    v = scope.values[name]
    assert v is not None, f"`{name}` was not made, and no node was refused"
    return v
