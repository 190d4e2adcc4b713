"""Refinement: from a greedy choice towards what is really wanted, the cost of the fused plan.

Hill climbing over an e-graph's choices. A move takes another node for one class, or for several at
once when that lets them share a class that none of them uses now (as merged matmuls do: one of them
alone never pays). Moves are ranked by stage 1's prices; the most promising are planned, as many as the
budget allows, and kept when they are strictly better. Must not know egglog, nor any one target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ..graph import OPS, Graph
from ..rewrite.egraph import ENode, Saturated
from .extract import (
    Choice,
    ExtractionReport,
    Prices,
    as_written,
    build,
    choice_cost,
    greedy,
    lower_bound,
    origin,
    price,
    reached,
    rules_used,
)
from .fuse import Outline, Planned, Worth
from .origin import Origin
from .pricing import Pricer
from .target import PlanOptions

Objective = Callable[[Graph, Sequence[Outline]], Planned]  # of a graph, and kernels to begin with

_MOST_RANKED = 2000  # moves that are priced by stage 1; the budget plans far fewer
_MOST_VISITED = 400_000  # classes that pricing them walks over: each move is priced with all that the outputs need
_METHOD = "greedy-dag + refinement"
_ROUNDS_OFF = 1 + 1e-9  # a bound is met when the cost is within the rounding of sums


@dataclass(frozen=True, slots=True)
class _Tried:
    """A choice with its graph, the classes' values in it, what it costs, and its plan's kernels by classes."""

    choice: Choice
    graph: Graph
    values: Mapping[int, tuple[int, ...]]
    worth: Worth
    kernels: tuple[Outline, ...]


@dataclass(frozen=True, slots=True)
class Extracted:
    """The graph that was chosen, where its values come from, what its plan takes, and how it was found.

    `written` is what the plan of the model as written takes, each value that it computes twice computed once.
    """

    graph: Graph
    origin: Origin
    worth: Worth
    written: Worth
    report: ExtractionReport


def best(sat: Saturated, pricer: Pricer, objective: Objective, options: PlanOptions) -> Extracted:
    """The best graph found in `sat` and how; `options` bound the moves that are planned."""
    prices = price(sat, pricer)
    chosen = greedy(prices)
    written = {**chosen, **as_written(sat)}
    first = _tried(sat, written, objective)
    same = _key(sat, written) == _key(sat, chosen)
    start = [first, first if same else _tried(sat, chosen, objective)]
    now = min(start, key=lambda t: t.worth)  # the model as written wins a tie: it stands first
    now, tried = _climb(prices, now, objective, options)
    bound = lower_bound(sat, pricer)
    seconds = now.worth[0]
    whence = origin(sat, now.choice, now.values)
    proven = seconds <= bound * _ROUNDS_OFF
    report = ExtractionReport(_METHOD, seconds, bound, proven, rules_used(whence), tried + len(start))
    return Extracted(now.graph, whence, now.worth, start[0].worth, report)


def _tried(sat: Saturated, choice: Choice, objective: Objective, start: Sequence[Outline] = ()) -> _Tried:
    """`choice` planned; `start` are kernels to begin with, by classes in place of values."""
    graph, values = build(sat, choice)
    there = {c: vs[0] for c, vs in values.items()}
    found = objective(graph, tuple(kernel.renamed(there) for kernel in start))
    classes = {v: c for c, v in there.items()}
    return _Tried(choice, graph, values, found.worth, tuple(kernel.renamed(classes) for kernel in found.kernels))


def _climb(prices: Prices, now: _Tried, objective: Objective, options: PlanOptions) -> tuple[_Tried, int]:
    """Takes improving moves until none is left, or the budget or the patience is; returns how many were planned.

    A move is planned from the kernels at hand, which is quick, and moves are ranked anew only when those of the last
    ranking that are worth trying are through.
    """
    sat = prices.sat
    taken, seen = [now], {_key(sat, now.choice)}
    moves = deque(_ranked(prices, now.choice))
    tried = since = 0
    stale = False  # whether moves were taken since they were ranked
    while tried < options.refinements:
        if not moves or since >= options.patience:
            if not stale:
                break
            moves, since, stale = deque(_ranked(prices, now.choice)), 0, False
            continue
        choice = {**now.choice, **moves.popleft()}
        key = _key(sat, choice)
        if key is None or key in seen:
            continue
        seen.add(key)
        tried, since = tried + 1, since + 1
        new = _tried(sat, choice, objective, now.kernels)
        if new.worth < now.worth:
            now, since, stale = new, 0, True
            taken.append(now)
    return _from_nothing(sat, taken, objective), tried


def _from_nothing(sat: Saturated, taken: Sequence[_Tried], objective: Objective) -> _Tried:
    """The last of `taken` that is as good as hoped when planned from nothing, as `plan` will do; the first was so."""
    found = taken[0]
    for hoped in reversed(taken[1:]):
        again = _tried(sat, hoped.choice, objective)
        found = min(found, again, key=lambda t: t.worth)
        if again.worth <= hoped.worth:
            break
    return found


def _key(sat: Saturated, choice: Choice) -> frozenset[tuple[int, int]] | None:
    """What the outputs need of a choice; None when that has a cycle."""
    order = reached(sat, choice)
    return None if order is None else frozenset((c, choice[c]) for c in order)


# ---- moves ---------------------------------------------------------------------------------------


def _ranked(prices: Prices, choice: Choice) -> list[Mapping[int, int]]:
    """Moves from `choice`, the cheapest by stage 1 first."""
    ranked: list[tuple[float, int, Mapping[int, int]]] = []
    most = min(_MOST_RANKED, _MOST_VISITED // max(1, len(choice)))
    for number, move in enumerate(islice(_moves(prices, choice), most)):
        new = {**choice, **move}
        order = reached(prices.sat, new)
        if order is not None:
            ranked.append((round(choice_cost(prices, new, order), 12), number, move))
    return [move for _, _, move in sorted(ranked, key=lambda r: r[:2])]


def _moves(prices: Prices, choice: Choice) -> Iterator[Mapping[int, int]]:
    sat = prices.sat
    used = reached(sat, choice) or []
    inside = set(used)
    shared: dict[int, dict[int, int]] = {}
    for cid in used:
        for k in prices.allowed(cid):
            if k == choice[cid] or _swapped(sat.classes[cid].nodes[k], sat.classes[cid].nodes[choice[cid]]):
                continue
            yield {cid: k}
            for d in _fresh(prices, choice, sat.classes[cid].nodes[k], inside):
                shared.setdefault(d, {}).setdefault(cid, k)
    yield from (move for move in shared.values() if len(move) > 1)


def _swapped(a: ENode, b: ENode) -> bool:
    """Whether the two differ by the order of a commutative op's operands, which costs the same."""
    if (a.op, a.attrs) != (b.op, b.attrs) or a.op not in OPS or "commutative" not in OPS[a.op].traits:
        return False
    return sorted(a.args) == sorted(b.args)


def _fresh(prices: Prices, choice: Choice, node: ENode, inside: set[int]) -> Iterator[int]:
    """Classes of anchors that `node` would bring in: what several classes may want to share."""
    sat = prices.sat
    seen: set[int] = set()
    stack = [a for a in node.args if a not in inside]
    while stack:
        cid = stack.pop()
        if cid in seen or cid not in choice:
            continue
        seen.add(cid)
        if (cid, choice[cid]) in prices.anchors:
            yield cid
        stack += [a for a in sat.classes[cid].nodes[choice[cid]].args if a not in inside]
