"""Extraction: which way each class is computed, so that the planned whole costs least.

Stage 1 is a greedy choice on costs that are sets, so what is shared counts once (faster-greedy-dag of
the extraction gym), with prices that know kernels: an elementwise op or a view pays its arithmetic
only, for it streams with its neighbours; a contraction, reduction or gather also pays its operands'
reads and its result's write; what depends on params only pays nothing but the read of its result.
Then the choice is refined by what is really wanted, the cost of the fused plan. An exact stage would
start from `Choice` and end in one. Must not know egglog, nor any one target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum

from ..graph import LEAVES, OPS, Graph, Node, live
from ..graph.text import show_attr
from ..rewrite.egraph import EClass, ENode, Saturated
from .origin import Origin
from .pricing import Pricer, one_op
from .target import KernelCost

Choice = dict[int, int]  # class: index of the node that computes it

_ANCHORS = frozenset(("contract", "reduce", "gather", "move", "control"))
_UNPRICED = 1.0  # seconds of an op the target refuses: worse than any that it takes
_SECONDS_DIGITS = 15  # decimal digits of seconds that are told apart
_MOST_VISITS = 64  # of each class, before greedy stops: its costs only fall, but by ever less


@dataclass(frozen=True, slots=True)
class ExtractionReport:
    """How extraction went. `cost` and `bound` in seconds, `bound` below every extraction; `rules_used` counts
    the values that each rule made; `tried` are graphs that were planned."""

    method: str
    cost: float
    bound: float
    proven: bool
    rules_used: Mapping[str, int] = field(default_factory=dict[str, int])
    tried: int = 0


# ---- prices --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prices:
    """What stage 1 knows of an e-graph: seconds of each (class, node), and which classes need no run time."""

    sat: Saturated
    own: Mapping[tuple[int, int], float]
    anchors: frozenset[tuple[int, int]]
    literal: frozenset[int]
    loaded: frozenset[int]
    seconds_a_byte: float

    def allowed(self, cid: int) -> Iterator[int]:
        """Nodes that may compute the class: what can be known at load is not left to run time."""
        known = self.literal if cid in self.literal else self.literal | self.loaded if cid in self.loaded else None
        for k, node in enumerate(self.sat.classes[cid].nodes):
            if known is None or (node.op != "input" and known.issuperset(node.args)):
                yield k


def price(sat: Saturated, pricer: Pricer) -> Prices:
    """The prices of a saturated e-graph on the pricer's machine."""
    literal = _closure(sat, lambda n: n.op in LEAVES and n.op not in ("input", "param"))
    known = _closure(sat, lambda n: n.op in LEAVES and n.op != "input")
    unit, seconds_a_byte = pricer.memory
    own: dict[tuple[int, int], float] = {}
    anchors: set[tuple[int, int]] = set()
    for cid, c in sat.classes.items():
        for k, node in enumerate(c.nodes):
            if cid in known and cid not in literal:
                own[cid, k] = 0.0
                continue
            own[cid, k] = _arithmetic(sat, c, node, pricer, unit)
            if is_anchor(node):
                anchors.add((cid, k))
                own[cid, k] += _nbytes(c) * seconds_a_byte
    return Prices(sat, own, frozenset(anchors), literal, known - literal, seconds_a_byte)


def _closure(sat: Saturated, leaf: Callable[[ENode], bool]) -> frozenset[int]:
    """Classes with a node that is such a leaf, or all of whose operands are in the closure."""
    found: set[int] = set()
    grown = True
    while grown:
        more = {
            cid
            for cid, c in sat.classes.items()
            if cid not in found and any(leaf(n) or (n.op not in LEAVES and found.issuperset(n.args)) for n in c.nodes)
        }
        found |= more
        grown = bool(more)
    return frozenset(found)


def _nbytes(c: EClass) -> int:
    return sum(t.nbytes for t in c.types)


def is_anchor(node: ENode | Node) -> bool:
    """Whether the op makes or ends a kernel: its operands and result are counted as going through main memory."""
    if node.op in OPS:
        return OPS[node.op].cost in _ANCHORS
    return any(map(is_anchor, node.regions[0].nodes)) if node.regions else False


def is_view(node: ENode) -> bool:
    """Whether the node only addresses its operand."""
    return node.op == "get" or (node.op in OPS and OPS[node.op].cost == "view")


def _arithmetic(sat: Saturated, c: EClass, node: ENode, pricer: Pricer, memory: str) -> float:
    """Busy seconds of the busiest unit but main memory when the op stands alone."""
    if node.op in LEAVES or is_view(node) or node.op == "loop":
        return 0.0  # a loop stands in one class only, whatever is chosen
    args = [sat.classes[a].types[0] for a in node.args]
    got = pricer.body(one_op(node.op, node.attrs, args, c.types, node.regions))
    if not isinstance(got, KernelCost):
        return _definition(node, pricer, memory)
    return max((s for unit, s in got.units.items() if unit != memory), default=0.0)


def _definition(node: ENode, pricer: Pricer, memory: str) -> float:
    """A composite that the target refuses costs what its parts do."""
    if not node.regions:
        return _UNPRICED
    region = node.regions[0]
    total = 0.0
    for n in region.nodes:
        if n.op in LEAVES or (n.op in OPS and OPS[n.op].cost == "view"):
            continue
        got = pricer.body(one_op(n.op, n.attrs, [region.types[a] for a in n.args], n.types, n.regions))
        busy = got.units.items() if isinstance(got, KernelCost) else (("", _UNPRICED),)
        total += max((s for unit, s in busy if unit != memory), default=0.0)
    return total


# ---- greedy --------------------------------------------------------------------------------------

Parts = dict[Hashable, float]  # classes computed and ("read", class) pairs, each with its seconds


@dataclass(frozen=True, slots=True)
class _Best:
    """The best way found so far for a class: `bases` are the classes it is an addressing of."""

    rank: tuple[object, ...]
    node: int
    parts: Parts
    bases: tuple[int, ...]


def greedy(prices: Prices) -> Choice:
    """The greedy-DAG choice for every class that can be computed."""
    sat = prices.sat
    parents: dict[int, dict[int, None]] = {cid: {} for cid in sat.classes}
    for cid, c in sat.classes.items():
        for node in c.nodes:
            for a in node.args:
                parents[a][cid] = None
    best: dict[int, _Best] = {}
    queue = deque(sat.classes)
    waiting = set(queue)
    visits = dict.fromkeys(sat.classes, 0)
    while queue:
        cid = queue.popleft()
        waiting.discard(cid)
        if not _improve(prices, cid, best) or visits[cid] == _MOST_VISITS:
            continue
        visits[cid] += 1
        fresh = [p for p in parents[cid] if p not in waiting]
        queue.extend(fresh)
        waiting.update(fresh)
    return settle(sat, {cid: b.node for cid, b in best.items()})


def _improve(prices: Prices, cid: int, best: dict[int, _Best]) -> bool:
    """Whether a better node for the class was found, given the best of the others."""
    found = best.get(cid)
    for k in prices.allowed(cid):
        node = prices.sat.classes[cid].nodes[k]
        if any(a not in best for a in node.args):
            continue
        parts: Parts = {}
        for a in node.args:
            parts |= best[a].parts
        if cid in parts:
            continue  # it would compute itself
        bases = tuple(dict.fromkeys(b for a in node.args for b in best[a].bases))
        parts |= _added(prices, cid, k, bases)
        rank = (round(fsum(parts.values()), _SECONDS_DIGITS), *_taste(node, len(parts)))
        if found is None or rank < found.rank:
            found = _Best(rank, k, parts, _bases(prices, cid, node, bases))
    changed = found is not None and found is not best.get(cid)
    if found is not None and changed:
        best[cid] = found
    return changed


def _added(prices: Prices, cid: int, k: int, bases: Sequence[int]) -> Parts:
    """What computing the class by this node adds to its operands' parts."""
    node = prices.sat.classes[cid].nodes[k]
    parts: Parts = {cid: prices.own[cid, k]}
    if cid in prices.loaded or is_view(node):
        return parts
    for b in bases:
        if b in prices.loaded or (cid, k) in prices.anchors:
            parts["read", b] = _nbytes(prices.sat.classes[b]) * prices.seconds_a_byte
    return parts


def _bases(prices: Prices, cid: int, node: ENode, bases: tuple[int, ...]) -> tuple[int, ...]:
    if cid in prices.literal:
        return ()
    # Of what is loaded, only these stay addressing: the rest is stored as it is read.
    follows = node.op in ("reshape", "broadcast") if cid in prices.loaded else is_view(node)
    return bases if follows else (cid,)


def _taste(node: ENode, size: int) -> tuple[object, ...]:
    """What decides among equal costs: the model as written, fewer nodes, and then the text."""
    attrs = ", ".join(f"{k}={show_attr(v)}" for k, v in node.attrs)
    return (node.rule != "", size, node.op, attrs, node.args)


# ---- choices as graphs ---------------------------------------------------------------------------


def reached(sat: Saturated, choice: Choice, roots: Sequence[int] = ()) -> list[int] | None:
    """Classes that `roots` (the outputs' by default) need, operands first; None when they need themselves."""
    order: list[int] = []
    state: dict[int, bool] = {}  # False while its operands are being walked
    for root in roots or sat.roots:
        stack: list[tuple[int, Iterator[int]]] = []
        if root not in state:
            stack = [(root, iter(sat.classes[root].nodes[choice[root]].args))]
            state[root] = False
        while stack:
            cid, rest = stack[-1]
            a = next(rest, None)
            if a is None:
                state[cid] = True
                order.append(cid)
                stack.pop()
            elif a not in state:
                state[a] = False
                stack.append((a, iter(sat.classes[a].nodes[choice[a]].args)))
            elif not state[a]:
                return None
    return order


def settle(sat: Saturated, choice: Choice) -> Choice:
    """`choice`, with as few nodes exchanged as it takes for no class to need itself."""
    if reached(sat, choice) is not None:
        return choice
    settled: Choice = {}
    while any(r not in settled for r in sat.roots):
        ready = [c for c, k in choice.items() if c not in settled and _ready(sat, settled, c, k)]
        if ready:
            settled.update((c, choice[c]) for c in ready)
            continue
        cid, k = next(
            (cid, k)
            for cid, c in sat.classes.items()
            if cid not in settled
            for k in range(len(c.nodes))
            if _ready(sat, settled, cid, k)
        )
        settled[cid] = k
    return {**choice, **settled}


def _ready(sat: Saturated, settled: Choice, cid: int, k: int) -> bool:
    return all(a in settled for a in sat.classes[cid].nodes[k].args)


def as_written(sat: Saturated) -> Choice:
    """The choice that computes every class as the model does."""
    written: Choice = {}
    grown = True
    while grown:
        grown = False
        for cid, c in sat.classes.items():
            if cid in written:
                continue
            ready = (k for k, n in enumerate(c.nodes) if n.rule == "" and _ready(sat, written, cid, k))
            k = next(ready, None)
            if k is not None:
                written[cid] = k
                grown = True
    return written


def build(sat: Saturated, choice: Choice) -> tuple[Graph, dict[int, tuple[int, ...]]]:
    """The graph of a choice without cycles, and the values of each class in it.

    Inputs and params stand first, all of them, in the model's order.
    """
    order = reached(sat, choice)
    assert order is not None, "a choice with a cycle has no graph"
    values: dict[int, tuple[int, ...]] = {}
    nodes: list[Node] = []
    for cid, node in _signature(sat):
        values.setdefault(cid, (len(nodes),))
        nodes.append(Node(node.op, (), node.attrs, sat.classes[cid].types, (len(nodes),), (), node.loc))
    count = len(nodes)
    for cid in order:
        c = sat.classes[cid]
        node = c.nodes[choice[cid]]
        if cid in values:
            continue
        if node.op == "get":
            index = dict(node.attrs)["index"]
            assert isinstance(index, int)
            values[cid] = (values[node.args[0]][index],)
            continue
        values[cid] = tuple(range(count, count + len(c.types)))
        count += len(c.types)
        args = tuple(values[a][0] for a in node.args)
        nodes.append(Node(node.op, args, node.attrs, c.types, values[cid], node.regions, node.loc or _place(c)))
    outputs = tuple(values[r][0] for r in sat.roots)
    return live(Graph(sat.name, tuple(nodes), outputs, sat.output_names)), values


def _signature(sat: Saturated) -> list[tuple[int, ENode]]:
    """The model's inputs and params, each with its class."""
    classes = dict.fromkeys(sat.values.values())
    return [(c, n) for c in classes for n in sat.classes[c].nodes if n.op in ("input", "param") and n.rule == ""]


def _place(c: EClass) -> str:
    """Where the model computes what the class is."""
    return next((n.loc for n in c.nodes if n.loc), "")


# ---- what it comes to ----------------------------------------------------------------------------


def choice_cost(prices: Prices, choice: Choice, order: Sequence[int]) -> float:
    """Stage 1's seconds of the classes `order` (operands first) under `choice`."""
    bases: dict[int, tuple[int, ...]] = {}
    parts: Parts = {}
    for cid in order:
        node = prices.sat.classes[cid].nodes[choice[cid]]
        below = tuple(dict.fromkeys(b for a in node.args for b in bases[a]))
        parts |= _added(prices, cid, choice[cid], below)
        bases[cid] = _bases(prices, cid, node, below)
    return fsum(parts.values())


def origin(sat: Saturated, choice: Choice, values: Mapping[int, tuple[int, ...]]) -> Origin:
    """Where the values of the graph built from `choice` come from; `loops` is left empty."""
    kept = {v: values[cid][0] for v, cid in sat.values.items() if cid in values}
    rules: dict[int, str] = {}
    for cid in reached(sat, choice) or ():
        rule = sat.classes[cid].nodes[choice[cid]].rule
        if rule:
            rules.update(dict.fromkeys(values[cid], rule))
    return Origin(kept, rules)


def rules_used(found: Origin) -> dict[str, int]:
    """How many values of a rewritten graph each rule made, by name in order."""
    counts: dict[str, int] = {}
    for rule in found.rules.values():
        counts[rule] = counts.get(rule, 0) + 1
    return dict(sorted(counts.items()))


def lower_bound(sat: Saturated, pricer: Pricer) -> float:
    """Seconds that no extraction can be below: on each unit the least work along a path to an output, and the
    writing of the outputs."""
    memory, seconds_a_byte = pricer.memory
    known = _closure(sat, lambda n: n.op in LEAVES and n.op != "input")
    made = [r for r in dict.fromkeys(sat.roots) if r not in known and not _is_given(sat.classes[r])]
    written = fsum(_nbytes(sat.classes[r]) for r in made) * seconds_a_byte
    work: dict[int, list[Mapping[str, float]]] = {}
    for cid, c in sat.classes.items():
        work[cid] = [_least(sat, c, n, pricer) if cid not in known else {} for n in c.nodes]
    units = sorted({u for nodes in work.values() for w in nodes for u in w if u != memory})
    return max(written, *(_least_path(sat, work, u) for u in units), 0.0)


def _is_given(c: EClass) -> bool:
    return any(n.op in ("input", "param") for n in c.nodes)


def _least(sat: Saturated, c: EClass, node: ENode, pricer: Pricer) -> Mapping[str, float]:
    if node.op in LEAVES or is_view(node):
        return {}
    args = [sat.classes[a].types[0] for a in node.args]
    return pricer.least(one_op(node.op, node.attrs, args, c.types, node.regions))


def _least_path(sat: Saturated, work: Mapping[int, Sequence[Mapping[str, float]]], unit: str) -> float:
    """The most that an output's cheapest derivation takes along one path, on one unit: a fixed point from above."""
    least = dict.fromkeys(sat.classes, float("inf"))
    users: dict[int, dict[tuple[int, int], None]] = {cid: {} for cid in sat.classes}
    ready: list[tuple[int, int]] = []
    for cid, c in sat.classes.items():
        for k, n in enumerate(c.nodes):
            for a in n.args:
                users[a][cid, k] = None
            ready += [(cid, k)] if not n.args else []
    waiting = deque(ready)
    while waiting:
        cid, k = waiting.popleft()
        args = sat.classes[cid].nodes[k].args
        seconds = work[cid][k].get(unit, 0.0) + max((least[a] for a in args), default=0.0)
        if seconds < least[cid]:
            least[cid] = seconds
            waiting.extend(users[cid])
    return max((least[r] for r in sat.roots), default=0.0)
