"""From an ONNX model to a Graph: names, types, nodes in order, folding, and everything wrong with them at once.

What a node means is a row of `table`. A node whose operands are all known is evaluated here and now, so shape
arithmetic leaves nothing behind; weights are not: what is computed from them alone is the load program's. Must not know
targets.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...graph import (
    Array,
    Attr,
    Builder,
    Graph,
    InferError,
    NDArray,
    Node,
    TensorType,
    evaluate,
    live,
    make_attrs,
    renumber,
)
from ...graph.ops.movement import array_of as array_of_literal
from ...source import Diagnostic, DiagnosticError
from ..names import dotted, identifier
from ..repeats import roll
from . import functions, table
from .call import Call, Emitter, Params, Refused, Value, known_value
from .order import ordered, title
from .protos import domain_of, free_names, parse_model, subgraphs
from .read import read_bytes
from .scope import Poisoned, Scope, Session
from .signature import MAX_RANK, Signature, stated_type, stated_types
from .tensors import MAX_ELEMENTS, Unreadable, array_of, dtype_name, dtype_of

# The opsets of ONNX's own domain that handlers know the meaning of.
LOWEST_OPSET, HIGHEST_OPSET = 1, 28
_LOC_NAME = 60
# Elements of a literal that stays one.
_FEW_LITERALS = 4096

# Nodes that would make more elements are left for the graph. 16 MiB of f32.
_FOLD_ELEMENTS = 1 << 22


@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a Graph, the values of its params by name, and remarks for the reader.

    `renamed` maps names of inputs and outputs that are none in the model language to those they have in the graph.
    `dims` are the symbolic dims and what they were fixed to.
    """

    graph: Graph
    params: Mapping[str, NDArray]
    notes: tuple[str, ...]
    renamed: Mapping[str, str]
    dims: Mapping[str, int]
    sha256: str


def import_model(
    source: str | os.PathLike[str] | bytes,
    binds: Mapping[str, NDArray] | None = None,
    dims: Mapping[str, int] | None = None,
    folder: str | None = None,
    ignore_stated: bool = False,
) -> Imported:
    """The model in the file at `source`, or the one that its bytes are.

    `binds` fixes inputs to values; `dims` fixes symbolic dims by name, unnamed ones as `INPUT.AXIS`. `folder` is where
    external data lies: the file's own by default. A type that differs from the one that the model states is a mistake
    unless `ignore_stated`. DiagnosticError with everything that is wrong (E11xx).
    """
    path = "<bytes>" if isinstance(source, bytes) else os.fspath(source)
    data = source if isinstance(source, bytes) else read_bytes(path)
    model = parse_model(data, path)
    if not isinstance(source, bytes) and folder is None:
        folder = os.path.dirname(os.path.abspath(path))
    made = Importer(model, os.path.basename(path), folder, ignore_stated).run(dict(binds or {}), dict(dims or {}))
    return replace(made, sha256=hashlib.sha256(data).hexdigest())


def dims_of(path: str | os.PathLike[str], shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The symbolic dims of the model at `path` as inputs of these shapes have them, for `import_model`.

    Inputs are called as in the graph. DiagnosticError (E0609) when two inputs say different things of one dim.
    """
    graph = parse_model(read_bytes(os.fspath(path)), os.fspath(path)).graph
    own = {str(t.name) for t in graph.initializer}
    used: list[str] = []
    found: dict[str, int] = {}
    for info in (i for i in graph.input if str(i.name) not in own):
        plain = identifier(str(info.name), used)
        used.append(plain)
        dims = stated_type(info)[1] or []
        shape = shapes.get(plain, ())
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=False)):
            key = dim or f"{info.name}.{axis}"
            if isinstance(key, str) and found.setdefault(key, int(size)) != size:
                said = f"{key} is {found[key]} by another input and {size} by axis {axis} of `{plain}`"
                raise DiagnosticError(Diagnostic("E0609", said))
    return found


@dataclass(slots=True)
class Begun:
    """A graph under import: its names, where its nodes go, its inputs, and names that had to be changed."""

    scope: Scope
    emitter: Emitter
    signature: Signature
    renamed: dict[str, str] = field(default_factory=dict[str, str])

    def take(self, name: str, t: TensorType, plain: str, file: str) -> str:
        """Makes `name` an input of type `t`, called `plain` in the graph, which is given back."""
        self.renamed |= {name: plain} if plain != name else {}
        self.scope.values[name] = v = Value(name, t)
        self.emitter.ids[v] = self.emitter.b.input(plain, t, f"{file}:{name}:1")
        return plain


class Importer:
    """One import under way; the `Bodies` of its scopes."""

    def __init__(self, model: Any, file: str, folder: str | None, ignore_stated: bool) -> None:
        self.model, self.file, self.ignore_stated = model, file, ignore_stated
        local = {(domain_of(f), str(f.name)): f for f in model.functions}
        self.session = Session(file, folder, local)
        self.opsets = {("" if o.domain == "ai.onnx" else str(o.domain)): int(o.version) for o in model.opset_import}

    def run(self, binds: Mapping[str, NDArray], dims: Mapping[str, int]) -> Imported:
        """The whole model. DiagnosticError."""
        graph = self.model.graph
        at = self.begin(Signature(self.session, graph, dims, binds))
        self.nodes(graph, at.scope, at.emitter, stated_types(graph))
        outputs, names = self._outputs(graph, at)
        return self.finish(at, outputs, names)

    def begin(self, signature: Signature) -> Begun:
        """The scope of the main graph with all that is there before its first node. DiagnosticError."""
        graph = self.model.graph
        self._check_opset()
        scope = Scope(self.session, self.opsets, self)
        self._initialisers(graph, scope)
        at = Begun(scope, Emitter(Builder(identifier(os.path.splitext(self.file)[0] or str(graph.name)))), signature)
        used: set[str] = set()
        for name, t in signature.inputs():
            used.add(at.take(name, t, identifier(name, used), self.file))
        at.emitter.params = Params(used)
        scope.values.update(signature.bound)
        self.session.inputs = frozenset(name for name, v in scope.values.items() if v is not None and v.array is None)
        self.stop_at_faults()
        return at

    def finish(self, at: Begun, outputs: Sequence[int], names: Sequence[str]) -> Imported:
        """The graph of `outputs` (values of the builder), called `names`. DiagnosticError with what went wrong."""
        self.stop_at_faults()
        assert at.emitter.params is not None
        graph = _without_unread_params(live(at.emitter.b.finish(outputs, names)))
        kept = {str(n.attr("name")) for n in graph.params}
        params = {name: array for name, array in at.emitter.params.arrays.items() if name in kept}
        graph, params = _literals_as_params(graph, params)
        made, params = roll(graph, params)
        return Imported(renumber(made), params, tuple(self.session.notes), at.renamed, at.signature.fixed, "")

    def stop_at_faults(self) -> None:
        """DiagnosticError with every mistake so far, if there is one."""
        faults = self.session.faults()
        if faults:
            raise DiagnosticError(faults)

    def _check_opset(self) -> None:
        version = self.opsets.get("")
        if version is None and any(not domain_of(n) for n in self.model.graph.node):
            said = f"{self.file}: the model does not say of which opset it is"
            raise DiagnosticError(Diagnostic("E1111", said, help="export it again; `opset_import` says so"))
        if version is not None and not LOWEST_OPSET <= version <= HIGHEST_OPSET:
            said = f"{self.file}: the model is of opset {version}; {LOWEST_OPSET} to {HIGHEST_OPSET} are read"
            raise DiagnosticError(Diagnostic("E1111", said, help="onnx.version_converter.convert_version changes it"))

    # ---- leaves ----

    def _initialisers(self, graph: Any, scope: Scope) -> None:
        for t in graph.sparse_initializer:
            name = str(t.values.name)
            why = "it is a sparse tensor, which tdslc does not have"
            self.unreadable(name, Unreadable(why, "E1105", "export the model with dense weights"))
            scope.values[name] = None
        for t in graph.initializer:
            name = str(t.name)
            if name in scope.values:
                self.session.tell(Diagnostic("E1104", f"{self.file}: two initializers are called `{name}`"))
            scope.values[name] = self._constant(t, name)

    def _constant(self, t: Any, name: str) -> Value | None:
        try:
            return known_value(name, array_of(t, self.session.folder))
        except Unreadable as e:
            self.unreadable(name, e)
            return None

    def unreadable(self, name: str, e: Unreadable) -> None:
        """Tells that an initialiser cannot be read."""
        said = f"{self.file}: the tensor `{name}` cannot be read: {e.why}"
        self.session.tell(Diagnostic(e.code, said, help=e.help))

    def _outputs(self, graph: Any, at: Begun) -> tuple[list[int], list[str]]:
        outputs: list[int] = []
        names: list[str] = []
        for info in graph.output:
            name = str(info.name)
            if not at.scope.knows(name):
                self.session.tell(Diagnostic("E1104", f"{self.file}: nothing makes the output `{name}`"))
                continue
            v = at.scope.find(name)
            if v is None:
                continue
            if v.is_sequence:
                self.session.tell(Diagnostic("E1105", f"{self.file}: the output `{name}` is a sequence, not a tensor"))
                continue
            self.check_stated(v, stated_type(info), self.session.makers.get(name, "the model"))
            plain = identifier(name, names)
            at.renamed |= {name: plain} if plain != name else {}
            names.append(plain)
            outputs.append(at.emitter.id(v))
        return outputs, names

    # ---- nodes ----

    def nodes(self, graph: Any, scope: Scope, emitter: Emitter, stated: Mapping[str, Any] | None = None) -> None:
        """Import the nodes of a graph or function body."""
        nodes = list(graph.node)
        order, faults = ordered(nodes, scope.knows, list(scope.values), self.file)
        for fault in faults:
            self.session.tell(fault)
        for i in order:
            self.node(nodes[i], i, scope, emitter, stated or {})
        if faults:
            raise Poisoned if scope.parent is not None or scope.where else DiagnosticError(self.session.faults())

    def node(self, node: Any, index: int, scope: Scope, emitter: Emitter, stated: Mapping[str, Any]) -> None:
        """Import one node, the `index`-th of its graph: its outputs get values, None where they could not be made."""
        where = title(node, index) + scope.where
        made: Sequence[Value | None] = ()
        try:
            made = self._made(node, where, scope, emitter)
        except Poisoned:
            pass
        except (Refused, Unreadable) as e:
            self._tell(where, e.why, e.code, e.help)
        except InferError as e:
            self._tell(where, str(e), "E1106", None)
        for i, name in enumerate(str(n) for n in node.output):
            if name:
                self.session.makers[name] = f"node {where}"
                v = made[i] if i < len(made) else None
                scope.values[name] = v
                if v is not None and name in stated:
                    self.check_stated(v, stated[name], f"node {where}")

    def _tell(self, where: str, why: str, code: str, help: str | None) -> None:
        self.session.tell(Diagnostic(code, f"{self.file}: node {where}: {why}", help=help))

    def _made(self, node: Any, where: str, scope: Scope, emitter: Emitter) -> list[Value | None]:
        """The outputs of one node. Raises Refused, InferError, Unreadable, Poisoned."""
        domain, op = domain_of(node), str(node.op_type)
        version = scope.opsets.get(domain, 1 if domain else self.opsets.get("", HIGHEST_OPSET))
        row = None if (domain, op) in self.session.functions else table.find(domain, op, version)
        given = [scope.find(str(name)) if name else None for name in node.input]
        body = None
        poisoned = any(name and v is None for name, v in zip(node.input, given, strict=True))
        if row is None:
            body = functions.body_of(self.session.functions, node, domain, version, [v and v.type for v in given])
            if body is None:
                self.session.missing(domain, op, version, where)
                raise Poisoned
        if poisoned:
            self._look_for_missing(node, where, scope)
            raise Poisoned
        wrong = functions.misuse(node, domain, version)
        if wrong:
            raise Refused(wrong)
        call = Call(node, op, version, given, emitter, scope)
        if body is not None:
            return list(self._function(call, body, where))
        assert row is not None
        if self._folds(node, given):
            folded = self._folded(call, row)
            if folded is not None:
                return folded
        emitter.b.loc = f"{self.file}:{str(node.name or op)[:_LOC_NAME]}:1"
        start = len(emitter.b.nodes)
        results = _several(row.run(call))
        _check_sizes(emitter.b.nodes[start:])
        self._check_count(call, results)
        return [self._value(emitter, str(name), r) for name, r in zip(node.output, results, strict=False)]

    def _check_count(self, call: Call, results: Sequence[table.Result]) -> None:
        for i, name in enumerate(call.node.output):
            if name and (i >= len(results) or results[i] is None):
                call.refuse(f"its output {i} (`{name}`) is not supported")

    def _value(self, emitter: Emitter, name: str, r: table.Result) -> Value | None:
        if r is None or isinstance(r, Value):
            return r
        if isinstance(r, np.ndarray):
            return known_value(name, r)
        v = Value(name, emitter.b.types[r])
        emitter.ids[v] = r
        return v

    def _look_for_missing(self, node: Any, where: str, scope: Scope) -> None:
        """Operators without handlers in the subgraphs of a node that is passed over: all are told at once."""
        stack = [(g, f"{where}, in its {name}") for name, g in subgraphs(node)]
        while stack:
            g, inside = stack.pop()
            for i, n in enumerate(g.node):
                domain = domain_of(n)
                version = scope.opsets.get(domain, 1)
                op = str(n.op_type)
                known = (domain, op) in self.session.functions or table.find(domain, op, version)
                if not known and not functions.has_body(op, domain, version):
                    self.session.missing(domain, op, version, title(n, i) + f" in {inside}")
                stack += [(h, f"{title(n, i)}, in its {name}") for name, h in subgraphs(n)]

    # ---- folding ----

    def _folds(self, node: Any, given: Sequence[Value | None]) -> bool:
        known = all(v is None or (v.array is not None and not v.weight) for v in given)
        return known and not any(True for _ in subgraphs(node)) and str(node.op_type) != "Constant"

    def _folded(self, call: Call, row: table.Row) -> list[Value | None] | None:
        """The outputs of a node whose operands are known; None when they are too large to hold here."""
        b = Builder("fold")
        call = replace(call, emitter=Emitter(b))
        results = _several(row.run(call))
        _check_sizes(b.nodes)
        self._check_count(call, results)
        if any(t.size > _FOLD_ELEMENTS for n in b.nodes for t in n.types if n.op != "full"):
            return None
        ids = [r for r in results if isinstance(r, int)]
        arrays = iter(evaluate(b.finish(ids), {}) if ids else ())
        found: list[Value | None] = []
        for name, r in zip(call.node.output, results, strict=False):
            if r is None or isinstance(r, Value):
                found.append(r)
                continue
            array: NDArray = np.asarray(next(arrays)) if isinstance(r, int) else r
            found.append(known_value(str(name), array, folded=True))
        return found

    # ---- bodies ----

    def _function(self, call: Call, body: functions.Body, where: str) -> list[Value | None]:
        """A function's body in the place of its node."""
        key = (domain_of(call.node), call.op)
        if key in self.session.active:
            call.refuse(f"the function {call.op} calls itself", code="E1104")
        scope = Scope(self.session, {**self.opsets, **body.opsets}, self, where=f" of function {call.op} at {where}")
        scope.values.update(zip(body.inputs, call.given, strict=False))
        missing = body.inputs[len(call.given) :]
        scope.values.update(dict.fromkeys(missing))
        with self.session.deeper() as allowed:
            if not allowed:
                call.refuse("functions call each other too deeply, or themselves")
            nodes = functions.with_left_out(body, {n for n, v in scope.values.items() if v is None})
            self.session.active.append(key)
            try:
                self.nodes(nodes, scope, call.emitter)
            finally:
                self.session.active.pop()
        # A body made for this call lacks the outputs that nobody reads.
        return [scope.values.get(name) for name in body.outputs]

    def inline(self, call: Call, graph: Any, given: Mapping[str, Value]) -> list[Value]:
        """See `Bodies`."""
        scope = self._inner(call, graph)
        scope.values.update(given)
        with self.session.deeper() as allowed:
            if not allowed:
                call.refuse("subgraphs are nested too deeply")
            self.nodes(graph, scope, call.emitter)
        return _all_made([scope.find(str(o.name)) for o in graph.output])

    def region(self, call: Call, graph: Any, takes: Sequence[tuple[str, TensorType]]) -> tuple[Graph, list[Value]]:
        """See `Bodies`."""
        b = Builder(identifier(str(graph.name) or "body"), call.b.loc)
        emitter = Emitter(b, outer=call.emitter)
        scope = self._inner(call, graph)
        for i, (name, t) in enumerate(takes):
            v = Value(name or f"taken{i}", t)
            emitter.ids[v] = b.input(f"x{i}", t)
            if name:
                scope.values[name] = v
        with self.session.deeper() as allowed:
            if not allowed:
                call.refuse("subgraphs are nested too deeply")
            self.nodes(graph, scope, emitter)
        made = _all_made([scope.find(str(o.name)) for o in graph.output])
        for v in made:
            if v.is_sequence:
                call.refuse(f"its subgraph gives `{v.name}`, a sequence, at run time", code="E1105")
        return b.finish([emitter.id(v) for v in made]), emitter.captured

    def _inner(self, call: Call, graph: Any) -> Scope:
        """The scope of a subgraph: what it names itself hides what lies outside."""
        where = f" in {title(call.node, 0)}{call.scope.where}"
        scope = Scope(self.session, call.scope.opsets, self, call.scope, where=where)
        for name in free_names(graph):
            if not call.scope.knows(name):
                call.refuse(f"its subgraph reads `{name}`, which nothing makes", code="E1104")
        self._initialisers(graph, scope)
        return scope

    # ---- stated types ----

    def check_stated(self, v: Value, stated: Any, what: str) -> None:
        """Tells when `v`, which `what` makes, is of another type than the model states: (data type, dims or None)."""
        number, dims = stated
        if self.ignore_stated:
            return
        d = dtype_of(number) if number else None
        if number and d != v.type.dtype:
            shown = d or dtype_name(number)
            said = f"{self.file}: {what} makes `{v.name}`, which is {v.type}, but the model states {shown}"
            self.session.tell(Diagnostic("E1110", said))
            return
        if dims is None:
            return
        agrees = len(dims) == v.type.rank and all(
            not isinstance(want, int) or want == have for want, have in zip(dims, v.type.shape, strict=False)
        )
        if not agrees:
            shown = ", ".join(str(n) if n is not None else "?" for n in dims)
            said = f"{self.file}: {what} makes `{v.name}`, which is {v.type}, but the model states [{shown}]"
            help = "was it exported for this `--dim`? `tdslc import --ignore-stated` does not look at what is stated"
            self.session.tell(Diagnostic("E1110", said, help=help))


def _several(results: table.Result | Sequence[table.Result]) -> list[table.Result]:
    return list(results) if isinstance(results, Sequence) else [results]


def _all_made(values: Sequence[Value | None]) -> list[Value]:
    made = [v for v in values if v is not None]
    if len(made) != len(values):
        raise Poisoned
    return made


def _check_sizes(nodes: Sequence[Node]) -> None:
    for n in nodes:
        for t in n.types:
            if t.size > MAX_ELEMENTS or t.rank > MAX_RANK or max(t.shape, default=0) > MAX_ELEMENTS:
                said = f"it makes a tensor {t} of {t.size} elements; a tensor has at most 2^31 - 1, and {MAX_RANK} axes"
                raise Refused(said, "use smaller dims", "E1108")


def _literals_as_params(graph: Graph, params: dict[str, NDArray]) -> tuple[Graph, dict[str, NDArray]]:
    """Literals of many elements, as matrices that resize images are, as params: no text should hold them."""
    nodes: list[Node] = []
    arrays = dict(params)
    used = {str(n.attr("name")) for n in (*graph.inputs, *graph.params)}
    for n in graph.nodes:
        value = n.attr("value") if n.op == "constant" else None
        if not isinstance(value, Array) or n.type.size <= _FEW_LITERALS:
            nodes.append(n)
            continue
        name = dotted("literal.values", used)
        used.add(name)
        arrays[name] = array_of_literal(value)
        attrs: dict[str, Attr] = {"name": name, "dtype": n.type.dtype, "shape": n.type.shape, "stack": 0}
        nodes.append(Node("param", (), make_attrs(attrs), n.types, n.outs, (), n.loc))
    return Graph(graph.name, tuple(nodes), graph.outputs, graph.output_names), arrays


def _without_unread_params(graph: Graph) -> Graph:
    read = {a for n in graph.nodes for a in n.args} | set(graph.outputs)
    nodes = tuple(n for n in graph.nodes if n.op != "param" or n.out in read)
    return Graph(graph.name, nodes, graph.outputs, graph.output_names)
