"""Prices of kernels: the target's estimates, each asked for once.

A kernel is known by the expressions it computes, so a graph that differs in one place from an earlier
one is priced only there. Must not know any one target, nor how kernels are chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cached_property

from ..graph import DTYPES, Attrs, Builder, Graph, Node, TensorType
from .anatomy import BODY_NAME, Anatomy, kernel_body
from .target import CostQuery, KernelCost, Machine, Refusal

Price = KernelCost | Refusal

# Elements of the copy that tells what main memory costs: 64 MiB in and out, far more than latency hides.
_PROBE_ELEMENTS = 1 << 24


class Pricer:
    """The prices of one machine. Remembers; every answer is the one a fresh Pricer would give."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._numbers: dict[Hashable, int] = {}
        self._regions: dict[int, tuple[Graph, int]] = {}
        self._kernels: dict[Hashable, Price] = {}
        self._bodies: dict[Graph, Price] = {}
        self._bounds: dict[Graph, Mapping[str, float]] = {}

    def body(self, body: Graph) -> Price:
        """What the kernel `body` costs, or why it cannot be one."""
        if body not in self._bodies:
            self._bodies[body] = self.machine.estimate(CostQuery(body))
        return self._bodies[body]

    def expressions(self, graph: Graph) -> dict[int, tuple[int, int]]:
        """A name for each value: equal names are equal expressions, in any graph this Pricer has seen."""
        names: dict[int, tuple[int, int]] = {}
        for n in graph.nodes:
            regions = tuple(map(self._region, n.regions))
            number = self._number((n.op, n.attrs, n.types, tuple(names[a] for a in n.args), regions))
            names.update((v, (number, k)) for k, v in enumerate(n.outs))
        return names

    def kernel(
        self, a: Anatomy, names: Mapping[int, tuple[int, int]], ops: Collection[int], outputs: Sequence[int]
    ) -> Price:
        """The price of the kernel that computes `ops` (positions) and writes `outputs`; `names` by `expressions`."""
        made = tuple(sorted(names[a.graph.nodes[i].outs[0]] for i in ops))
        key = (made, tuple(sorted(names[v] for v in outputs)))
        if key not in self._kernels:
            self._kernels[key] = self.body(kernel_body(a, ops, outputs)[0])
        return self._kernels[key]

    def least(self, body: Graph) -> Mapping[str, float]:
        """The least busy seconds of each unit that `body` takes."""
        if body not in self._bounds:
            self._bounds[body] = self.machine.bound(body).units
        return self._bounds[body]

    @cached_property
    def memory(self) -> tuple[str, float]:
        """The unit that main memory is, and its seconds a byte: what limits a large copy, and by how much."""
        b = Builder(BODY_NAME)
        x = b.input("i0", TensorType(DTYPES["f32"], (_PROBE_ELEMENTS // 1024, 1024)))
        bound = self.machine.bound(b.finish([b.one("neg", x)]))
        return bound.limited_by, bound.seconds / bound.compulsory_bytes

    @cached_property
    def launch_seconds(self) -> float:
        """What a kernel costs that does next to nothing."""
        t = TensorType(DTYPES["f32"], (1, 1))
        price = self.body(one_op("neg", (), (t,), (t,), ()))
        return 0.0 if isinstance(price, Refusal) else price.seconds

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _region(self, region: Graph) -> int:
        """A number for a region; found by identity first, since hashing one walks all of it."""
        known = self._regions.get(id(region))
        if known is None:
            known = (region, self._number(region))
            self._regions[id(region)] = known
        return known[1]


def one_op(
    op: str, attrs: Attrs, args: Sequence[TensorType], types: tuple[TensorType, ...], regions: tuple[Graph, ...]
) -> Graph:
    """A kernel body of one op, all of whose results are written."""
    nodes = [
        Node("input", (), (("dtype", t.dtype), ("name", f"i{k}"), ("shape", t.shape)), (t,), (k,))
        for k, t in enumerate(args)
    ]
    outs = tuple(range(len(args), len(args) + len(types)))
    return Graph(BODY_NAME, (*nodes, Node(op, tuple(range(len(args))), attrs, types, outs, regions)), outs)
