"""A made-up machine for tests of planning: a roofline with one matrix unit, vector units and a small fast memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from tdslc.compiler.graph import LEAVES, OPS, Graph, Node, is_composite
from tdslc.compiler.plan.target import Bound, CostQuery, KernelCost, Refusal


@dataclass(frozen=True)
class FakeMachine:
    """Seconds = launch + the busiest unit. One contraction a kernel; a row of everything must fit in fast memory."""

    bytes_a_second: float = 1e11
    matrix_flops_a_second: float = 2e12
    vector_flops_a_second: float = 2e11
    launch_seconds: float = 2e-6
    fast_bytes: int = 1 << 20
    refused: tuple[str, ...] = ()  # ops it cannot run
    spec: str = "fake:one"

    def estimate(self, query: CostQuery) -> KernelCost | Refusal:
        body = query.body
        for n in _all_nodes(body):
            if n.op in self.refused:
                return Refusal("illegal", f"no {n.op} on this machine")
        heavy = sum(OPS[n.op].cost == "contract" for n in _all_nodes(body) if not is_composite(n))
        if heavy > 1:
            return Refusal("two_heavy_ops", f"{heavy} contractions, and one matrix unit")
        row = sum(n.types[0].nbytes // max(1, n.types[0].shape[0] if n.types[0].rank else 1) for n in body.inputs)
        if row > self.fast_bytes:
            return Refusal("capacity", f"a row takes {row} B of {self.fast_bytes} B")
        units, read, written = self._work(body)
        return KernelCost(self.launch_seconds + max(units.values()), units, read, written, row)

    def bound(self, graph: Graph) -> Bound:
        units, read, written = self._work(graph)
        worst = max(units, key=lambda u: units[u])
        flops = int(units["matrix"] * self.matrix_flops_a_second)
        return Bound(units[worst], worst, units, flops, read + written)

    def _work(self, graph: Graph) -> tuple[dict[str, float], int, int]:
        read = sum(n.type.nbytes for n in (*graph.inputs, *graph.params))
        written = sum(t.nbytes for t in graph.output_types)
        matrix = vector = 0.0
        for n, args in _all_work(graph):
            if OPS[n.op].cost == "contract":
                matrix += 2.0 * n.type.size * args[0][-1]
            elif n.op != "loop" and OPS[n.op].cost != "view" and n.op not in LEAVES:
                vector += (8 if OPS[n.op].cost == "transcendental" else 1) * max(n.type.size, *(_size(a) for a in args))
        units = {
            "memory": (read + written) / self.bytes_a_second,
            "matrix": matrix / self.matrix_flops_a_second,
            "vector": vector / self.vector_flops_a_second,
        }
        return units, read, written


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for n in graph.nodes:
        yield n
        for r in n.regions:
            yield from _all_nodes(r)


def _all_work(graph: Graph) -> Iterator[tuple[Node, list[tuple[int, ...]]]]:
    for n in graph.nodes:
        if is_composite(n):
            yield from _all_work(n.regions[0])
        else:
            yield n, [graph.types[a].shape for a in n.args]
