"""The e-graph's other half, in Python: what each e-node is, its type, where it came from, and which are equal.

egglog keeps congruence and finds matches; it knows e-nodes as numbers. This holds what the numbers mean. An e-node's
number is its handle; handles count up, so lower means met earlier, and a class goes by its lowest handle. Must not know
egglog, nor rules.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..graph import OPS, Array, Attr, Attrs, Composites, DType, Graph, InferError, Node, TensorType, infer, make_attrs
from ..graph.build import complete_attrs
from ..graph.ops import AttrMap
from .functions import Tensor

Key: TypeAlias = "tuple[object, ...]"

_LITERALS = frozenset(("constant", "full", "iota"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One e-node: interned op and attributes, operand handles (as they were when it was made), result types."""

    op: str
    op_id: int
    attr_id: int
    args: tuple[int, ...]
    types: tuple[TensorType, ...]
    rule: str
    loc: str


class TypeClash(Exception):
    """Two tensors of different types were called equal."""


class Store:
    """E-nodes by handle, classes as a union-find. `drain` gives what egglog has not been told yet."""

    def __init__(self, composites: Composites, const_inputs: Iterable[str] = ()) -> None:
        self.composites = composites
        self.const_inputs = frozenset(const_inputs)
        self.entries: list[Entry] = []
        self.ops: dict[str, int] = {}
        self.op_names: list[str] = []
        self.attrs: list[tuple[Attrs, tuple[Graph, ...]]] = []
        self.written = 0  # handles below this are the model as written
        self.learned = 0  # counts what became known of classes: a condition that failed may now hold
        self._attr_ids: dict[Key, int] = {}
        self._regions: dict[int, tuple[Graph, Key]] = {}
        self._parent: list[int] = []
        self._memo: dict[Key, int] = {}
        self._const: list[bool] = []
        self._full: dict[int, int | float | bool] = {}
        self._told = 0
        self._unions: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.entries)

    # ---- interning ----

    def op_id(self, op: str) -> int:
        if op not in self.ops:
            self.ops[op] = len(self.op_names)
            self.op_names.append(op)
        return self.ops[op]

    def attr_id(self, attrs: Attrs, regions: tuple[Graph, ...] = ()) -> int:
        key = (*((k, attr_key(v)) for k, v in attrs), *(self._region_key(r) for r in regions))
        if key not in self._attr_ids:
            self._attr_ids[key] = len(self.attrs)
            self.attrs.append((attrs, regions))
        return self._attr_ids[key]

    def _region_key(self, region: Graph) -> Key:
        """Regions are shared values, so one is walked once; it is kept, lest another take its id."""
        known = self._regions.get(id(region))
        if known is None:
            known = self._regions[id(region)] = (region, graph_key(region))
        return known[1]

    # ---- classes ----

    def find(self, handle: int) -> int:
        parent = self._parent
        while parent[handle] != handle:
            parent[handle] = parent[parent[handle]]
            handle = parent[handle]
        return handle

    def union(self, a: int, b: int) -> bool:
        """Makes two classes one; False when they were. TypeClash when their types differ."""
        low, high = sorted((self.find(a), self.find(b)))
        if low == high:
            return False
        if self.entries[low].types != self.entries[high].types:
            raise TypeClash(f"{_types(self.entries[low].types)} and {_types(self.entries[high].types)}")
        self._join(low, high)
        self._unions.append((low, high))
        return True

    def merge_congruent(self, groups: Iterable[list[int]]) -> None:
        """Takes over what egglog found equal: each group is the handles of one class."""
        for group in groups:
            for other in group[1:]:
                low, high = sorted((self.find(group[0]), self.find(other)))
                if low != high:
                    self._join(low, high)

    def _join(self, low: int, high: int) -> None:
        self._parent[high] = low
        self.learned += self._const[low] != self._const[high] or (low in self._full) != (high in self._full)
        self.learned += low < self.written <= high
        self._const[low] = self._const[low] or self._const[high]
        if high in self._full:
            self._full.setdefault(low, self._full[high])

    def members(self) -> dict[int, list[int]]:
        """Handles of each class in rising order, by its lowest."""
        found: dict[int, list[int]] = {}
        for h in range(len(self.entries)):
            found.setdefault(self.find(h), []).append(h)
        return found

    def refresh(self) -> None:
        """Brings hash-consing and facts up to date with the classes."""
        self._memo = {}
        for h, e in enumerate(self.entries):
            self._memo.setdefault(self._key(e.op_id, e.attr_id, e.args), h)
        changed = True
        while changed:
            changed = False
            for h, e in enumerate(self.entries):
                top = self.find(h)
                if not self._const[top] and e.args and all(self._const[self.find(a)] for a in e.args):
                    self._const[top] = changed = True
                    self.learned += 1

    # ---- adding ----

    def add(
        self,
        op: str,
        args: Iterable[int],
        attrs: Attrs,
        regions: tuple[Graph, ...],
        types: tuple[TensorType, ...],
        rule: str = "",
        loc: str = "",
    ) -> int:
        """The handle of an e-node, the one already there when it is known."""
        given = tuple(args)
        op_id, attr_id = self.op_id(op), self.attr_id(attrs, regions)
        found = self.lookup(op_id, attr_id, given, op)
        if found is not None:
            return found
        handle = len(self.entries)
        self.entries.append(Entry(op, op_id, attr_id, given, types, rule, loc))
        self._parent.append(handle)
        self._memo[self._key(op_id, attr_id, given)] = handle
        self._const.append(self._is_const(op, given, attrs))
        if op == "full":
            self._full[handle] = dict(attrs)["value"]  # pyright: ignore[reportArgumentType]
        return handle

    def lookup(self, op_id: int, attr_id: int, args: tuple[int, ...], op: str) -> int | None:
        """The handle of a known e-node; operands of a commutative op may stand in either order."""
        found = self._memo.get(self._key(op_id, attr_id, args))
        if found is None and len(args) == 2 and is_commutative(op):
            found = self._memo.get(self._key(op_id, attr_id, args[::-1]))
        return found

    def _key(self, op_id: int, attr_id: int, args: tuple[int, ...]) -> Key:
        return (op_id, attr_id, *map(self.find, args))

    def _is_const(self, op: str, args: tuple[int, ...], attrs: Attrs) -> bool:
        if op == "input":
            return dict(attrs)["name"] in self.const_inputs
        return op == "param" or op in _LITERALS or (bool(args) and all(self._const[self.find(a)] for a in args))

    def drain(self) -> tuple[range, list[tuple[int, int]]]:
        """New handles and unions since the last call."""
        fresh, unions = range(self._told, len(self.entries)), self._unions
        self._told, self._unions = len(self.entries), []
        return fresh, unions

    # ---- facts about classes (functions.Facts) ----

    def type(self, x: Tensor) -> TensorType:
        types = self.entries[x.id].types
        if len(types) != 1:
            raise ValueError("several results")
        return types[0]

    def full_value(self, x: Tensor) -> int | float | bool | None:
        return self._full.get(self.find(x.id))

    def is_const(self, x: Tensor) -> bool:
        return self._const[self.find(x.id)]

    def is_param(self, x: Tensor) -> bool:
        # Weights of a repeated layer enter its body as inputs that the caller declared constant.
        entry = self.entries[self.find(x.id)]
        return entry.op == "param" or (entry.op == "input" and self._const[self.find(x.id)])

    def is_written(self, x: Tensor) -> bool:
        return self.find(x.id) < self.written

    def before(self, x: Tensor, y: Tensor) -> bool:
        return self.find(x.id) < self.find(y.id)

    def same(self, x: Tensor, y: Tensor) -> bool:
        return self.find(x.id) == self.find(y.id)


class Draft:
    """Builds a right side, touching the store only on `commit`: a side that does not fit leaves nothing."""

    def __init__(self, store: Store, rule: str, loc: str) -> None:
        self.store, self.rule, self.loc = store, rule, loc
        self.pending: list[tuple[str, tuple[int, ...], Attrs, tuple[Graph, ...], tuple[TensorType, ...]]] = []

    def type(self, x: Tensor) -> TensorType:
        return self.store.type(x) if x.id >= 0 else self.pending[-1 - x.id][4][0]

    def full_value(self, x: Tensor) -> int | float | bool | None:
        return self.store.full_value(x) if x.id >= 0 else None

    def is_const(self, x: Tensor) -> bool:
        return x.id >= 0 and self.store.is_const(x)

    def is_param(self, x: Tensor) -> bool:
        return x.id >= 0 and self.store.is_param(x)

    def is_written(self, x: Tensor) -> bool:
        return x.id >= 0 and self.store.is_written(x)

    def before(self, x: Tensor, y: Tensor) -> bool:
        return x.id >= 0 and y.id >= 0 and self.store.before(x, y)

    def same(self, x: Tensor, y: Tensor) -> bool:
        return x.id == y.id or (x.id >= 0 and y.id >= 0 and self.store.same(x, y))

    def make(self, op: str, args: tuple[Tensor, ...], attrs: AttrMap) -> Tensor:
        types = tuple(self.type(a) for a in args)
        full, regions = define(op, types, attrs, self.store.composites)
        ids = tuple(a.id for a in args)
        if all(i >= 0 for i in ids):
            known = self.store.lookup(self.store.op_id(op), self.store.attr_id(full, regions), ids, op)
            if known is not None:
                return Tensor(known)
        result = infer(op, types, dict(full), regions)
        if len(result) != 1:
            raise InferError(f"{op} has several results")
        self.pending.append((op, ids, full, regions, result))
        return Tensor(-len(self.pending))

    def commit(self) -> list[int]:
        """Adds what was built; `handles[-1 - t.id]` is the handle of a pending tensor t."""
        handles: list[int] = []
        for op, ids, attrs, regions, types in self.pending:
            args = [i if i >= 0 else handles[-1 - i] for i in ids]
            handles.append(self.store.add(op, args, attrs, regions, types, self.rule, self.loc))
        return handles


def define(
    op: str, types: tuple[TensorType, ...], attrs: AttrMap, composites: Composites
) -> tuple[Attrs, tuple[Graph, ...]]:
    """Complete attributes of an op to be made, and the definition when it is a composite. InferError when unknown."""
    if op in OPS:
        return make_attrs(complete_attrs(OPS[op], attrs)), ()
    row = composites.get(op)
    if row is None:
        raise InferError(f"no op is called {op}")
    full = {s.name: attrs.get(s.name, s.default) for s in row.attrs}  # pyright: ignore[reportArgumentType]
    missing = [k for k, v in full.items() if v is object]
    if missing or len(types) != len(row.operands):
        raise InferError(f"{op} lacks {', '.join(missing)}" if missing else f"{op} takes {len(row.operands)} operands")
    definition = row.define(types, full)  # pyright: ignore[reportArgumentType]
    if isinstance(definition, str):
        raise InferError(f"{op}: {definition}")
    return make_attrs(full), (definition,)  # pyright: ignore[reportArgumentType]


def is_commutative(op: str) -> bool:
    return op in OPS and "commutative" in OPS[op].traits


def _types(types: tuple[TensorType, ...]) -> str:
    return ", ".join(map(str, types))


# ---- keys ----------------------------------------------------------------------------------------


def attr_key(value: Attr) -> object:
    """Equal for attributes that mean one thing: +0 is not -0, 1 is not true nor 1.0, NaN is NaN."""
    match value:
        case bool() | str() | None:
            return (type(value).__name__, value)
        case int():
            return ("int", int(value))
        case float():
            return ("float", struct.pack("<d", value))
        case DType():
            return ("dtype", value.name)
        case Array(t, data):
            return ("array", t.dtype.name, tuple(map(int, t.shape)), data)
        case tuple():
            return tuple(map(attr_key, value))


def graph_key(graph: Graph) -> Key:
    """Equal for graphs that compute the same thing in the same way: places and value numbers aside."""
    names: dict[int, int] = {}
    rows: list[object] = []
    for n in graph.nodes:
        args = tuple(names[a] for a in n.args)
        for v in n.outs:
            names[v] = len(names)
        types = tuple((t.dtype.name, tuple(map(int, t.shape))) for t in n.types)
        rows.append((n.op, args, tuple((k, attr_key(v)) for k, v in n.attrs), types, tuple(map(graph_key, n.regions))))
    return (tuple(rows), tuple(names[v] for v in graph.outputs))


# ---- encoding ------------------------------------------------------------------------------------


def encode(store: Store, graph: Graph) -> dict[int, int]:
    """Puts `graph` in, composites with their definitions beside them; the handle of each value."""
    values = _encode(store, graph, {}, "", "")
    store.written = len(store)
    return values


def _encode(store: Store, graph: Graph, given: Mapping[int, int], rule: str, loc: str) -> dict[int, int]:
    values = dict(given)
    for n in graph.nodes:
        if n.outs and n.outs[0] in values:
            continue
        place = loc or n.loc
        args = tuple(values[a] for a in n.args)
        handle = store.add(n.op, args, n.attrs, n.regions, n.types, rule, place)
        outs = [handle] if len(n.outs) == 1 else [_get(store, handle, i, t, rule, place) for i, t in enumerate(n.types)]
        values.update(zip(n.outs, outs, strict=True))
        if n.op not in OPS:
            _encode_definition(store, n, args, outs, place)
    return values


def _get(store: Store, handle: int, index: int, t: TensorType, rule: str, loc: str) -> int:
    return store.add("get", (handle,), make_attrs({"index": index}), (), (t,), rule, loc)


def _encode_definition(store: Store, node: Node, args: tuple[int, ...], outs: list[int], loc: str) -> None:
    """The parts of a composite as written, equal to the whole."""
    region = node.regions[0]
    given = dict(zip((n.out for n in region.inputs), args, strict=True))
    parts = _encode(store, region, given, f"def {node.op}", loc)
    for whole, v in zip(outs, region.outputs, strict=True):
        store.union(whole, parts[v])
