"""Prices of kernels: the target's estimates, each asked for once.

A kernel is known by how its ops hang together, whatever is around it, so a graph that differs in one
place from an earlier one is priced only there. Must not know any one target, nor how kernels are chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from ..graph import DTYPES, Attrs, Builder, Graph, Node, TensorType
from .anatomy import BODY_NAME, Anatomy, kernel_body
from .target import CostQuery, KernelCost, Machine, Refusal

T = TypeVar("T")
Price = KernelCost | Refusal
# Of each point: its number as an op; its operands' ways of addressing and bases; its results.
Wiring = Mapping[int, tuple[int, tuple[tuple[int, tuple[int, ...]], ...], tuple[int, ...]]]

# Elements of the copy that tells what main memory costs: 64 MiB in and out, far more than latency hides.
_PROBE_ELEMENTS = 1 << 24


class Pricer:
    """The prices of one machine. Remembers; every answer is the one a fresh Pricer would give.

    Nodes are told apart by numbers: comparing whole bodies would cost more than most estimates.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._numbers: dict[Hashable, int] = {}
        self._seen: dict[Hashable, tuple[int, object]] = {}
        self._kernels: dict[Hashable, Price] = {}
        self._bodies: dict[Hashable, Price] = {}
        self._bounds: dict[Hashable, Mapping[str, float]] = {}
        self._made: dict[Hashable, Any] = {}

    def body(self, body: Graph) -> Price:
        """What the kernel `body` costs, or why it cannot be one."""
        key = self._body_key(body)
        if key not in self._bodies:
            self._bodies[key] = self.machine.estimate(CostQuery(body))
        return self._bodies[key]

    def wiring(self, a: Anatomy) -> Wiring:
        """For each point of a graph: what it is, and for each operand the way it is addressed and its bases."""
        ways: dict[int, tuple[int, tuple[int, ...]]] = {}
        for n, role in zip(a.graph.nodes, a.roles, strict=True):
            for v, t in zip(n.outs, n.types, strict=True):
                if role == "view":
                    ways[v] = (self._number((self._what(n), ways[n.args[0]][0])), a.bases[v])
                else:
                    ways[v] = (self._number((self._what(n),) if role == "literal" else t), a.bases[v])
        nodes = a.graph.nodes
        return {i: (self._what(nodes[i]), tuple(ways[v] for v in nodes[i].args), nodes[i].outs) for i in a.points}

    def kernel(self, a: Anatomy, wiring: Wiring, ops: Collection[int], outputs: Sequence[int]) -> Price:
        """The price of the kernel that computes `ops` (positions) and writes `outputs`; `wiring` is that of `a`."""
        key = self.kernel_key(wiring, ops, outputs)
        if key not in self._kernels:
            self._kernels[key] = self.body(kernel_body(a, ops, outputs)[0])
        return self._kernels[key]

    def kernel_key(self, wiring: Wiring, ops: Collection[int], outputs: Sequence[int]) -> Hashable:
        """What the price of a kernel hangs on: equal keys, equal prices."""
        local: dict[int, int] = {}
        made: list[tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]] = []
        for i in sorted(ops):
            what, operands, outs = wiring[i]
            reads = tuple((way, tuple(local.setdefault(b, len(local)) for b in bases)) for way, bases in operands)
            made.append((what, reads))
            for v in outs:
                local[v] = len(local)
        return tuple(made), tuple(local[v] for v in outputs)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """`make()`, asked for once for each key: what follows from prices and the key alone."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def least(self, body: Graph) -> Mapping[str, float]:
        """The least busy seconds of each unit that `body` takes."""
        key = self._body_key(body)
        if key not in self._bounds:
            self._bounds[key] = self.machine.bound(body).units
        return self._bounds[key]

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

    def _body_key(self, body: Graph) -> Hashable:
        return (tuple((self._what(n), n.args) for n in body.nodes), body.outputs)

    def _what(self, node: Node) -> int:
        """A number for op, attributes, types and regions; found by identity first, since hashing walks all of them."""
        at_hand = (node.op, id(node.attrs), id(node.types), *map(id, node.regions))
        known = self._seen.get(at_hand)
        if known is None:
            number = self._number((node.op, node.attrs, node.types, node.regions))
            known = (number, (node.attrs, node.types, node.regions))  # kept, so that the identities stay theirs
            self._seen[at_hand] = known
        return known[0]


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
