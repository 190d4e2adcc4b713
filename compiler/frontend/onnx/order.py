"""The nodes of a graph in an order in which each reads what is made before it; what is wrong with their names.

Must not know operators.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...source import Diagnostic, Note, did_you_mean
from .protos import free_names, subgraphs

_MOST_LISTED = 8


def title(node: Any, index: int) -> str:
    """How messages call a node: its name, or its operator and what it makes."""
    if node.name:
        return f"`{node.name}` ({node.op_type})"
    made = next((str(name) for name in node.output if name), "")
    return f"{node.op_type} number {index}" + (f", which makes `{made}`" if made else "")


def reads(node: Any) -> list[str]:
    """Names that a node reads, those of its subgraphs among them."""
    found = dict.fromkeys(str(name) for name in node.input if name)
    for _, g in subgraphs(node):
        found.update(dict.fromkeys(free_names(g)))
    return list(found)


def ordered(
    nodes: Sequence[Any], known: Callable[[str], bool], given: Iterable[str], file: str
) -> tuple[list[int], list[Diagnostic]]:
    """(indices of `nodes` in order, mistakes): names made twice, read and never made, or made in a circle.

    `known` says whether a name is defined outside, `given` are the graph's own inputs and initialisers. The order is
    the file's where that is one.
    """
    faults: list[Diagnostic] = []
    maker: dict[str, int] = {}
    given = set(given)
    for i, node in enumerate(nodes):
        for name in (str(n) for n in node.output if n):
            if name in maker or name in given:
                first = "the graph's inputs or initializers"
                if name in maker:
                    first = f"node {title(nodes[maker[name]], maker[name])}"
                said = f"{file}: node {title(node, i)} makes `{name}`, which {first} made already"
                faults.append(Diagnostic("E1104", said, help="every value has a name of its own"))
            maker.setdefault(name, i)
    waits = [0] * len(nodes)
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(nodes):
        for name in reads(node):
            if name in maker:
                waits[i] += 1
                readers.setdefault(name, []).append(i)
            elif name not in given and not known(name):
                help = did_you_mean(name, [*maker, *given])
                said = f"{file}: node {title(node, i)} reads `{name}`, which nothing makes"
                faults.append(Diagnostic("E1104", said, help=help or "the file was cut or edited; export it again"))
    if faults:
        return [], faults
    return _sorted(nodes, maker, waits, readers, file)


def _sorted(
    nodes: Sequence[Any], maker: dict[str, int], waits: list[int], readers: dict[str, list[int]], file: str
) -> tuple[list[int], list[Diagnostic]]:
    """Kahn's algorithm; in the order of the file as long as that is possible."""
    if _in_order(nodes, maker):
        return list(range(len(nodes))), []
    ready = deque(i for i, n in enumerate(waits) if not n)
    order: list[int] = []
    while ready:
        i = ready.popleft()
        order.append(i)
        for name in (str(n) for n in nodes[i].output if n):
            for reader in readers.pop(name, ()):
                waits[reader] -= 1
                if not waits[reader]:
                    ready.append(reader)
    if len(order) == len(nodes):
        return order, []
    stuck = [i for i, n in enumerate(waits) if n]
    notes = tuple(Note(f"node {title(nodes[i], i)}") for i in stuck[:_MOST_LISTED])
    what = f"{len(stuck)} nodes wait for each other" if len(stuck) > 1 else "a node waits for itself"
    said = f"{file}: {what} in a circle"
    return [], [Diagnostic("E1104", said, notes=notes, help="a graph has no cycles; use Loop or Scan")]


def _in_order(nodes: Sequence[Any], maker: dict[str, int]) -> bool:
    return all(maker.get(name, -1) < i for i, node in enumerate(nodes) for name in reads(node))
