"""What a well-formed Graph is. `verify` returns every breach as a sentence.

- Values are made before they are read, and made once. Every node makes at least one.
- Every node's op is in the op table or has one region (a composite). Only those and `loop` have regions.
- Attributes are exactly the op's, each of its kind, sorted by name. Names of ops and attributes are words.
- The types a node states are the types its op infers. A dim's expression is one.
- A region reads only its own values; its inputs are what its node gives it; it holds no params.
- Regions lie at most MAX_REGION_DEPTH deep in each other.
- Outputs exist; output names are as many as outputs, or none; inputs and params have different names.
- A pass must not call `verify` for users' mistakes: a breach is a fault of ours.
"""

from __future__ import annotations

import re
from collections import Counter

from .build import InferError, infer, is_composite
from .graph import MAX_REGION_DEPTH, Graph, Node
from .ops import OPS, Types
from .types import Dim, TensorType, is_dim_expr

WORD = re.compile(r"[^\W\d][\w.]*")


def verify(graph: Graph) -> list[str]:
    """Every broken invariant of `graph`; empty when it is well formed."""
    return _graph(graph, 0)


def _graph(graph: Graph, depth: int) -> list[str]:
    if depth > MAX_REGION_DEPTH:
        return [f"regions lie more than {MAX_REGION_DEPTH} deep"]
    faults = _values(graph)
    if faults:
        return faults
    for node in graph.nodes:
        faults += _node(node, tuple(graph.types[a] for a in node.args), depth)
    faults += [f"output %{v} is never made" for v in graph.outputs if v not in graph.types]
    if graph.output_names and len(graph.output_names) != len(graph.outputs):
        faults.append(f"{len(graph.output_names)} output names for {len(graph.outputs)} outputs")
    if depth:
        faults += [f"{_title(n)} is a param in a region" for n in graph.params]
    return faults + _names(graph)


def _values(graph: Graph) -> list[str]:
    faults: list[str] = []
    made: set[int] = set()
    for node in graph.nodes:
        if not node.outs or len(node.outs) != len(node.types):
            faults.append(f"{_title(node)} makes {len(node.outs)} values of {len(node.types)} types")
        faults += [f"{_title(node)} reads %{a}, which is not made before it" for a in node.args if a not in made]
        for v in node.outs:
            if v in made:
                faults.append(f"{_title(node)} makes %{v} a second time")
            made.add(v)
    return faults


def _title(node: Node) -> str:
    return f"%{node.outs[0] if node.outs else '?'} = {node.op}"


def _names(graph: Graph) -> list[str]:
    counts = Counter(dict(n.attrs).get("name") for n in (*graph.inputs, *graph.params))
    return [f"two leaves are called {name}" for name in sorted(str(n) for n, times in counts.items() if times > 1)]


def _node(node: Node, args: Types, depth: int) -> list[str]:
    words = [w for w in (node.op, *(k for k, _ in node.attrs)) if not WORD.fullmatch(w)]
    if words:
        return [f"{_title(node)}: {words[0]!r} is not a word"]
    if list(node.attrs) != sorted(node.attrs, key=lambda kv: kv[0]):
        return [f"{_title(node)}: attributes are not sorted"]
    if not is_composite(node) and [k for k, _ in node.attrs] != sorted(s.name for s in OPS[node.op].attrs):
        return [f"{_title(node)}: attributes are {[k for k, _ in node.attrs]}"]
    inside = [fault for region in node.regions for fault in _graph(region, depth + 1)]
    if inside:
        return [f"{_title(node)}: in its region: {fault}" for fault in inside]
    return _dims(node) + _types(node, args)


def _dims(node: Node) -> list[str]:
    dims = (d for t in node.types for d in t.shape if isinstance(d, Dim))
    return [f"{_title(node)}: {d.expr!r} is not a dim's expression" for d in dims if not is_dim_expr(d.expr)]


def _types(node: Node, args: Types) -> list[str]:
    try:
        types = infer(node.op, args, dict(node.attrs), node.regions)
    except InferError as e:
        return [f"{_title(node)}: {str(e).removeprefix(node.op + ': ')}"]
    if types == node.types:
        return []
    return [f"{_title(node)} is typed {_list(node.types)}, but {node.op} gives {_list(types)}"]


def _list(types: tuple[TensorType, ...]) -> str:
    return ", ".join(map(str, types))
