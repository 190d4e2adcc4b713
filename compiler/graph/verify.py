"""What a well-formed Graph is. `verify` returns every breach as a sentence.

- Values are made before they are read, and made once.
- Every node's op is in the op table or has one region (a composite).
- Attributes are exactly the op's, sorted by name.
- The types a node states are the types its op infers.
- A region reads only its own values; its inputs are what its node gives it.
- Outputs exist; output names are as many as outputs, or none; inputs and params have different names.
- A pass must not call `verify` for users' mistakes: a breach is a fault of ours.
"""

from __future__ import annotations

from .build import InferError, infer, is_composite
from .graph import Graph, Node
from .ops import OPS, Types
from .ops.control import body_inputs


def verify(graph: Graph) -> list[str]:
    """Every broken invariant of `graph`; empty when it is well formed."""
    faults: list[str] = []
    made: set[int] = set()
    for node in graph.nodes:
        faults += [f"{_title(node)} reads %{a}, which is not made before it" for a in node.args if a not in made]
        faults += [f"{_title(node)} makes %{v} a second time" for v in node.outs if v in made]
        made.update(node.outs)
    if faults:
        return faults
    for node in graph.nodes:
        faults += _node(node, tuple(graph.types[a] for a in node.args))
    faults += [f"output %{v} is never made" for v in graph.outputs if v not in made]
    if graph.output_names and len(graph.output_names) != len(graph.outputs):
        faults.append(f"{len(graph.output_names)} output names for {len(graph.outputs)} outputs")
    return faults + _names(graph)


def _title(node: Node) -> str:
    return f"%{node.outs[0] if node.outs else '?'} = {node.op}"


def _names(graph: Graph) -> list[str]:
    names = [str(n.attr("name")) for n in (*graph.inputs, *graph.params)]
    return [f"two leaves are called {name}" for name in sorted({n for n in names if names.count(n) > 1})]


def _node(node: Node, args: Types) -> list[str]:
    if list(node.attrs) != sorted(node.attrs, key=lambda kv: kv[0]):
        return [f"{_title(node)}: attributes are not sorted"]
    if not is_composite(node) and {k for k, _ in node.attrs} != {s.name for s in OPS[node.op].attrs}:
        return [f"{_title(node)}: attributes are {[k for k, _ in node.attrs]}"]
    faults = [f"{_title(node)}: in its region: {f}" for r in node.regions for f in verify(r)]
    if node.op == "loop" and not faults:
        faults += _loop(node, args)
    try:
        types = infer(node.op, args, dict(node.attrs), node.regions)
    except InferError as e:
        return [*faults, f"{_title(node)}: {e}"]
    if types != node.types:
        faults.append(
            f"{_title(node)} is typed {', '.join(map(str, node.types))}, but {node.op} gives {', '.join(map(str, types))}"
        )
    return faults


def _loop(node: Node, args: Types) -> list[str]:
    if len(node.regions) != 1:
        return [f"{_title(node)} has {len(node.regions)} regions, not one"]
    takes, gives = tuple(n.type for n in node.regions[0].inputs), body_inputs(args, dict(node.attrs))
    if takes != gives:
        return [f"{_title(node)}: the body takes ({', '.join(map(str, takes))}) but is given ({', '.join(map(str, gives))})"]
    return []
