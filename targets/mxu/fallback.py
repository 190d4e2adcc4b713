"""What of a program runs in a slow way for want of a better one, in words: notes of its timing.

Must not know how time is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...compiler.graph import Graph, Node, is_composite
from .chip import Chip
from .isa import Instruction, KernelBlock, Loop, Vector, When
from .work_vector import scalar_ops


def fallback_notes(block: KernelBlock, chip: Chip) -> Iterator[str]:
    """What a kernel leaves to the scalar core or to main memory, and what its time takes for granted."""
    vectors = list(_vectors(block.body))
    slow = dict.fromkeys(op for i in vectors for op in scalar_ops(i.body, chip))
    if slow:
        yield f"kernel {block.name}: {', '.join(slow)} on the scalar core, element by element or row by row"
    if any(v.memory == "hbm" for i in vectors for v in (*i.inputs, *i.outputs)):
        yield f"kernel {block.name} works from main memory: VMEM cannot hold its operands however they are cut"
    loops = [n for i in vectors for n in _nodes(i.body) if n.op == "while"]
    for n in dict.fromkeys(loops):
        trips = n.attr("trips")
        times = f"the {trips} rounds that are declared" if trips else "one round: how often it runs is not known"
        yield f"kernel {block.name}: a while loop is timed for {times} (assumed)"


def _vectors(stream: Iterable[Instruction]) -> Iterator[Vector]:
    for i in stream:
        if isinstance(i, Vector):
            yield i
        elif isinstance(i, Loop | When | KernelBlock):
            yield from _vectors(i.body)


def _nodes(graph: Graph) -> Iterator[Node]:
    """Nodes of `graph` and of its regions; of a while, not those within."""
    for n in graph.nodes:
        yield n
        if is_composite(n) or n.op in ("loop", "cond"):
            for region in n.regions:
                yield from _nodes(region)
