"""Making graphs: type inference for a node, and a builder that numbers values.

Must not know where the request comes from: a language, an importer or a rewrite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .dtypes import DType
from .graph import Attr, Attrs, Graph, Node, make_attrs
from .ops import OPS, Op, Types
from .ops.row import Signature
from .types import TensorType


class InferError(ValueError):
    """An op was asked for with operands or attributes that do not fit; the text says which."""


def complete_attrs(op: Op, attrs: Mapping[str, Attr]) -> dict[str, Attr]:
    """`attrs` with defaults filled in; InferError for an unknown, a missing or a misshapen one."""
    full: dict[str, Attr] = {}
    for spec in op.attrs:
        if spec.name not in attrs and spec.required:
            raise InferError(f"{op.name} needs the attribute {spec.name}")
        value: Attr = attrs.get(spec.name, spec.default)  # pyright: ignore[reportAssignmentType]
        if not spec.admits(value):
            raise InferError(f"{op.name}: {spec.name} must be of kind {spec.kind}, got {value!r}")
        full[spec.name] = value
    for name in attrs:
        if name not in full:
            raise InferError(f"{op.name} has no attribute {name}; it has {', '.join(sorted(full)) or 'none'}")
    return full


def infer(name: str, args: Types, attrs: Mapping[str, Attr], regions: Sequence[Graph] = ()) -> Types:
    """Result types of op `name`; InferError says why operands do not fit.

    A composite is any node with one region whose op is not in the table: its types are the region's.
    """
    if name not in OPS:
        return _infer_composite(name, args, regions)
    return _infer_op(OPS[name], args, complete_attrs(OPS[name], attrs), regions)


def _infer_op(row: Op, args: Types, full: Mapping[str, Attr], regions: Sequence[Graph]) -> Types:
    name = row.name
    if not row.accepts(len(args)):
        raise InferError(f"{name} takes {_arity(row)}, got {len(args)}")
    if len(regions) != len(row.regions):
        raise InferError(f"{name} takes {_regions(row)}, got {len(regions)}")
    inside = [_signature(r) for r in regions]
    got = row.region_infer(args, full, inside) if row.region_infer else row.infer(args, full)
    if isinstance(got, str):
        raise InferError(f"{name}: {got}")
    return got


def _arity(row: Op) -> str:
    least = f"at least {len(row.operands)}" if row.variadic else str(len(row.operands))
    return f"{least} operand{'s' * (len(row.operands) != 1)} ({', '.join(row.operands)})"


def _regions(row: Op) -> str:
    return ("no region", "one region", f"two regions ({', '.join(row.regions)})")[len(row.regions)]


def _signature(region: Graph) -> Signature:
    """What a region takes and gives."""
    return tuple(n.type for n in region.inputs), region.output_types


def _infer_composite(name: str, args: Types, regions: Sequence[Graph]) -> Types:
    if len(regions) != 1:
        raise InferError(f"no op is called {name}")
    takes, gives = _signature(regions[0])
    if takes != args:
        raise InferError(f"{name} is defined for ({', '.join(map(str, takes))}), got ({', '.join(map(str, args))})")
    return gives


class Builder:
    """Collects nodes in order. `add` infers types and raises InferError; values are ints.

    A node added without a place in the source takes `loc`, which whoever builds may move along.
    """

    def __init__(self, name: str, loc: str = "") -> None:
        self.name = name
        self.loc = loc
        self.nodes: list[Node] = []
        self.types: dict[int, TensorType] = {}

    def add(
        self,
        op: str,
        args: Sequence[int] = (),
        attrs: Mapping[str, Attr] | None = None,
        *,
        regions: tuple[Graph, ...] = (),
        loc: str = "",
    ) -> tuple[int, ...]:
        """Appends a node and returns its values."""
        operands, given, row = tuple(self.types[a] for a in args), attrs or {}, OPS.get(op)
        full = complete_attrs(row, given) if row else dict(given)
        types = _infer_op(row, operands, full, regions) if row else _infer_composite(op, operands, regions)
        outs = tuple(range(len(self.types), len(self.types) + len(types)))
        self.nodes.append(Node(op, tuple(args), make_attrs(full), types, outs, regions, loc or self.loc))
        self.types.update(zip(outs, types, strict=True))
        return outs

    def one(self, op: str, /, *args: int, loc: str = "", **attrs: Attr) -> int:
        """`add` for an op with one result and no region."""
        (only,) = self.add(op, args, attrs, loc=loc)
        return only

    def input(self, name: str, t: TensorType, loc: str = "") -> int:
        out = len(self.types)
        attrs: Attrs = (("dtype", t.dtype), ("name", name), ("shape", t.shape))
        self.nodes.append(Node("input", (), attrs, (t,), (out,), (), loc or self.loc))
        self.types[out] = t
        return out

    def param(self, name: str, t: TensorType, stack: int = 0, loc: str = "") -> int:
        return self.one("param", name=name, dtype=t.dtype, shape=t.shape, stack=stack, loc=loc)

    def full(self, value: int | float | bool, dtype: DType, shape: Iterable[int] = (), loc: str = "") -> int:
        return self.one("full", value=value, dtype=dtype, shape=tuple(shape), loc=loc)

    def copy(self, node: Node, args: Sequence[int], loc: str = "") -> tuple[int, ...]:
        """Appends `node` with other operands of the same types; nothing is inferred again."""
        outs = tuple(range(len(self.types), len(self.types) + len(node.types)))
        place = loc or node.loc or self.loc
        self.nodes.append(Node(node.op, tuple(args), node.attrs, node.types, outs, node.regions, place))
        self.types.update(zip(outs, node.types, strict=True))
        return outs

    def inline(self, graph: Graph, args: Sequence[int], loc: str = "") -> tuple[int, ...]:
        """Copies `graph`'s nodes in with its inputs bound to `args`, of the same types; returns its outputs here."""
        names = dict(zip((n.out for n in graph.inputs), args, strict=True))
        for n in graph.nodes:
            if n.op != "input":
                names.update(zip(n.outs, self.copy(n, [names[a] for a in n.args], loc), strict=True))
        return tuple(names[v] for v in graph.outputs)

    def finish(self, outputs: Sequence[int], names: Sequence[str] = ()) -> Graph:
        return Graph(self.name, tuple(self.nodes), tuple(outputs), tuple(names))


def is_composite(node: Node) -> bool:
    """Whether `node`'s meaning is its region."""
    return node.op not in OPS


def expand(graph: Graph) -> Graph:
    """`graph` with every composite replaced by its definition, all the way down (loop bodies stay as loops)."""
    b = Builder(graph.name)
    names: dict[int, int] = {}
    for n in graph.nodes:
        args = [names[a] for a in n.args]
        if is_composite(n):
            outs = b.inline(expand(n.regions[0]), args, n.loc)
        else:
            bodies = tuple(map(expand, n.regions))
            outs = b.copy(replace(n, regions=bodies) if bodies else n, args)
        names.update(zip(n.outs, outs, strict=True))
    return b.finish([names[v] for v in graph.outputs], graph.output_names)
