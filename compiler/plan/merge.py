"""The search for kernels: from one kernel an op to fewer, by the greatest gain first.

Priority fusion (the method of XLA's pass of that name): every pair of neighbours has a gain, the
seconds of the kernels before less those after, asked of the target on the joined body; the best
positive one is taken and its neighbours are priced again. Besides joining, a cheap producer may be
copied into its readers. Equal seconds are decided by bytes of main memory. Kernels may write several
values; a set of kernels is joined only if no path leads out of it and back. Must not know any one
target, nor names or texts.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..graph import Node
from .anatomy import Anatomy, contracts
from .pricing import Pricer
from .target import KernelCost, Reason, Refusal

_MOST_SIBLINGS = 4  # readers of the same value that are tried as one kernel: pairs grow with the square
_MOST_COPIES = 8  # readers that a producer is copied into
_MOST_OPS = 128  # of a kernel: prices of longer bodies cost more than they bring
_MOST_BETWEEN = 6  # kernels that a joining may sweep up to stay convex
SECONDS_DIGITS = 13  # decimal digits of seconds that are told apart; below lies the rounding of sums
_LOOP_COST = KernelCost(0.0, {}, 0, 0, 0)  # a loop is no kernel; its body is priced on its own


@dataclass(frozen=True, slots=True)
class Group:
    """A kernel in the making: the positions it computes, those of them it alone writes, the values written."""

    ops: frozenset[int]
    owned: frozenset[int]
    writes: tuple[int, ...]
    cost: KernelCost
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Groups out, groups in, and what that saves: seconds and bytes of main memory."""

    gain: float
    bytes_saved: int
    removed: tuple[int, ...]
    made: tuple[Group, ...]

    @property
    def worth(self) -> tuple[float, int]:
        """What moves are ranked by; a move pays when it is above (0, 0)."""
        return (round(self.gain, SECONDS_DIGITS), self.bytes_saved)


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a move cannot be made."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class _Made:
    """A group not yet priced; its units do at least the work of the groups `work`."""

    ops: frozenset[int]
    owned: frozenset[int]
    writes: tuple[int, ...]
    work: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A move to be: `join` of groups, or `copy` of the first group into the others."""

    kind: Literal["join", "copy"]
    groups: tuple[int, ...]


class Unplannable(Exception):
    """An op that the target cannot run even alone: its position, and the target's reason."""

    def __init__(self, position: int, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.position, self.refusal = position, refusal


class Fusion:
    """Groups that together cover a graph, and the moves between them. `run` makes them fewer.

    `start` are sets of values that shall begin in one group each, as far as that can be; by default each op is alone.
    Unplannable when the target cannot run an op even alone.
    """

    def __init__(self, a: Anatomy, pricer: Pricer, start: Sequence[frozenset[int]] = ()) -> None:
        self.a, self.pricer = a, pricer
        self.wiring = pricer.wiring(a)
        self.groups: dict[int, Group] = {}
        self.owner: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {v: set() for v in a.position}
        self._next = 0
        # A loop reads its operands where they lie in main memory; a kernel reads through views.
        lies = dict(a.aliases)
        self._sources = {
            i: frozenset(lies.get(v, v) for v in n.args) if a.roles[i] == "loop" else _bases(a, n)
            for i, n in enumerate(a.graph.nodes)
        }
        if not self._begin(self._parts(start)):
            self._begin(self._parts(()))

    def run(self) -> None:
        """Takes the best move until none pays."""
        heap: list[_Offer] = []
        seen: set[Recipe] = set()
        self._offer(heap, seen, list(self.groups))
        while heap:
            offered, _, recipe, priced = heapq.heappop(heap)
            if any(g not in self.groups for g in recipe.groups):
                continue
            move = self.evaluate(recipe)
            if isinstance(move, Blocked) or move.worth <= (0, 0):
                continue
            if not priced or _negated(move.worth) > offered:  # it pays otherwise than was hoped: it waits for its turn
                heapq.heappush(heap, (_negated(move.worth), self._order(recipe), recipe, True))
                continue
            self._offer(heap, seen, self._apply(move))

    # ---- moves -----------------------------------------------------------------------------------

    def evaluate(self, recipe: Recipe) -> Move | Blocked:
        """What the move would save, or why it cannot be."""
        outline = self._outline(recipe)
        return outline if isinstance(outline, Blocked) else self._priced(*outline)

    def _outline(self, recipe: Recipe) -> _Outline | Blocked:
        """The groups that the move takes away, and those that it makes, not yet priced."""
        if any(self.groups[g].fixed for g in recipe.groups):
            return Blocked("illegal", "a loop is not joined with what stands outside it")
        return self._join(recipe.groups) if recipe.kind == "join" else self._copy(recipe.groups[0], recipe.groups[1:])

    def _join(self, gids: tuple[int, ...]) -> _Outline | Blocked:
        between = self._between(gids)
        if any(self.groups[g].fixed for g in between) or len(between) > _MOST_BETWEEN:
            return Blocked("illegal", "a path leads out of the two and back in")
        gids = (*gids, *sorted(between))
        ops = frozenset[int]().union(*(self.groups[g].ops for g in gids))
        if len(ops) > _MOST_OPS:
            return Blocked("capacity", f"the two have {len(ops)} ops; kernels of up to {_MOST_OPS} are tried")
        owned = frozenset[int]().union(*(self.groups[g].owned for g in gids))
        return gids, (_Made(ops, owned, self._outside(owned, set(gids)), gids),)

    def _copy(self, producer: int, into: tuple[int, ...]) -> _Outline | Blocked:
        """The producer's part that each reader needs is computed in it again; what is left of the producer stays."""
        group = self.groups[producer]
        if any(contracts(self.a.graph.nodes[i]) for i in group.ops):
            return Blocked("multi_use", "the producer holds a contraction, which is not computed twice")
        left = self._outside(group.owned, {producer, *into})
        made: list[_Made] = []
        orphans = frozenset[int]() if left else group.owned
        for gid in into:
            reader = self.groups[gid]
            ops = reader.ops | self._part(group.ops, (b for i in reader.ops for b in self._sources[i]))
            made.append(_Made(ops, reader.owned | (orphans & ops), reader.writes, (gid,)))
            orphans -= ops
        if left:
            made.append(_Made(self._part(group.ops, left), group.owned, left, ()))
        return (producer, *into), tuple(made)

    def _priced(self, gids: tuple[int, ...], made: tuple[_Made, ...]) -> Move | Blocked:
        groups: list[Group] = []
        for m in made:
            price = self.pricer.kernel(self.a, self.wiring, m.ops, m.writes)
            if isinstance(price, Refusal):
                return Blocked(price.reason, price.detail)
            groups.append(Group(m.ops, m.owned & m.ops, m.writes, price))
        before = [self.groups[g].cost for g in gids]
        after = [g.cost for g in groups]
        gain = sum(c.seconds for c in before) - sum(c.seconds for c in after)
        return Move(gain, sum(map(traffic, before)) - sum(map(traffic, after)), gids, tuple(groups))

    def _hope(self, gids: tuple[int, ...], made: tuple[_Made, ...]) -> tuple[float, int]:
        """What a move may be worth: units work as before, main memory moves what must be read and written.

        Only a guess at the order in which moves are worth pricing, which is what takes time.
        """
        before = [self.groups[g].cost for g in gids]
        seconds, moved = sum(c.seconds for c in before), sum(map(traffic, before))
        memory, seconds_a_byte = self.pricer.memory
        for m in made:
            costs = [self.groups[g].cost for g in m.work]
            units = {u for c in costs for u in c.units if u != memory}
            busy = max((sum(c.units.get(u, 0.0) for c in costs) for u in units), default=0.0)
            overhead = max((c.seconds - max(c.units.values(), default=0.0) for c in costs), default=0.0)
            least = sum(self.a.graph.types[v].nbytes for v in (*self._reads(m.ops), *m.writes))
            seconds -= max(busy, least * seconds_a_byte) + overhead
            moved -= least
        return (round(seconds, SECONDS_DIGITS), moved)

    def _part(self, ops: frozenset[int], values: Iterable[int]) -> frozenset[int]:
        """Those of `ops` that `values` need."""
        part: set[int] = set()
        stack = [i for i in (self.a.position[v] for v in values) if i in ops]
        while stack:
            i = stack.pop()
            if i in part:
                continue
            part.add(i)
            stack += [j for j in (self.a.position[b] for b in self._sources[i]) if j in ops]
        return frozenset(part)

    def _outside(self, owned: Collection[int], gids: set[int]) -> tuple[int, ...]:
        """Values made at `owned` that others than `gids` need, in order."""
        a = self.a
        values = (v for i in sorted(owned) for v in a.graph.nodes[i].outs)
        return tuple(v for v in values if v in a.resident or not self.readers[v] <= gids)

    # ---- the graph of groups ---------------------------------------------------------------------

    def reads(self, group: Group) -> frozenset[int]:
        """Values in main memory that `group` reads."""
        return self._reads(group.ops)

    def _reads(self, ops: frozenset[int]) -> frozenset[int]:
        found = frozenset[int]().union(*(self._sources[i] for i in ops))
        return frozenset(v for v in found if self.a.position[v] not in ops)

    def producers(self, group: Group) -> set[int]:
        """Positions of the points and loops that make what `group` reads."""
        return {p for p in map(self.a.position.__getitem__, self.reads(group)) if p in self.owner}

    def successors(self, gid: int) -> set[int]:
        """Groups that read what `gid` writes."""
        return {r for v in self.groups[gid].writes for r in self.readers[v]}

    def _between(self, gids: Sequence[int]) -> set[int]:
        """Groups outside `gids` on a path from one of them to another."""
        inside = set(gids)
        last = max(i for g in gids for i in self.groups[g].ops)  # a path to position i starts below i
        ahead: dict[int, set[int]] = {}
        stack = [s for g in gids for s in self.successors(g) - inside]
        while stack:
            g = stack.pop()
            if g in ahead or min(self.groups[g].ops) > last:
                continue
            ahead[g] = self.successors(g)
            stack += ahead[g] - inside
        found: set[int] = set()
        grown = True
        while grown:
            more = {g for g, after in ahead.items() if g not in found and not after.isdisjoint(inside | found)}
            found |= more
            grown = bool(more)
        return found

    # ---- the beginning ---------------------------------------------------------------------------

    def _parts(self, start: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """The points and loops, in the sets of `start` (the first that has it, if any), in order."""
        left = dict.fromkeys(sorted((*self.a.points, *(i for i, r in enumerate(self.a.roles) if r == "loop"))))
        parts: list[frozenset[int]] = []
        for values in start:
            places = {self.a.position[v] for v in values if v in self.a.position}
            mine = frozenset(i for i in places if i in left and self.a.roles[i] != "loop")
            for i in mine:
                del left[i]
            parts += [mine] if mine else []
        return sorted((*parts, *(frozenset((i,)) for i in left)), key=min)

    def _begin(self, parts: Sequence[frozenset[int]]) -> bool:
        """Makes groups of `parts`; False when one of several ops cannot be a kernel, or they wait for each other."""
        users: dict[int, set[int]] = {}
        for k, part in enumerate(parts):
            for v in self._reads(part):
                users.setdefault(v, set()).add(k)
        groups = [self._group(part, users) for part in parts]
        if any(g is None for g in groups) or _has_cycle(parts, users, self.a):
            return False
        for group in groups:
            assert group is not None
            self._put(group)
        return True

    def _group(self, ops: frozenset[int], users: Mapping[int, set[int]]) -> Group | None:
        outs = [v for i in sorted(ops) for v in self.a.graph.nodes[i].outs]
        first = min(ops)
        if self.a.roles[first] == "loop":
            return Group(ops, ops, tuple(outs), _LOOP_COST, fixed=True)
        writes = tuple(v for v in outs if v in self.a.resident or v in users)
        price = self.pricer.kernel(self.a, self.wiring, ops, writes)
        if not isinstance(price, Refusal):
            return Group(ops, ops, writes, price)
        if len(ops) == 1:
            raise Unplannable(first, price)
        return None

    def _put(self, group: Group) -> int:
        gid, self._next = self._next, self._next + 1
        self.groups[gid] = group
        self.owner.update(dict.fromkeys(group.owned, gid))
        for v in self.reads(group):
            self.readers[v].add(gid)
        return gid

    def _apply(self, move: Move) -> list[int]:
        for gid in move.removed:
            for v in self.reads(self.groups.pop(gid)):
                self.readers[v].discard(gid)
        return [self._put(g) for g in move.made]

    # ---- offers ----------------------------------------------------------------------------------

    def _offer(self, heap: list[_Offer], seen: set[Recipe], gids: Sequence[int]) -> None:
        for gid in gids:
            for recipe in self._recipes(gid):
                if recipe in seen:
                    continue
                seen.add(recipe)
                outline = self._outline(recipe)
                if not isinstance(outline, Blocked):
                    heapq.heappush(heap, (_negated(self._hope(*outline)), self._order(recipe), recipe, False))

    def _recipes(self, gid: int) -> Iterator[Recipe]:
        group = self.groups[gid]
        if group.fixed:
            return
        producers = {self.owner[p] for p in self.producers(group)}
        for p in sorted(producers):
            yield Recipe("join", (p, gid))
            yield from self._copies(p, (gid,))
        readers = self.successors(gid)
        for r in sorted(readers):
            yield Recipe("join", (gid, r))
            yield from self._copies(gid, (r,))
        if 1 < len(readers) <= _MOST_COPIES:
            yield from self._copies(gid, tuple(sorted(readers)))
        yield from (Recipe("join", (min(gid, s), max(gid, s))) for s in self._siblings(gid))

    def _copies(self, producer: int, into: tuple[int, ...]) -> Iterator[Recipe]:
        readers = self.successors(producer)
        if self.groups[producer].fixed or len(readers) < 2:
            return
        yield Recipe("copy", (producer, *into))
        if len(into) < len(readers) <= _MOST_COPIES:
            yield Recipe("copy", (producer, *sorted(readers)))

    def _siblings(self, gid: int) -> list[int]:
        """The nearest other readers of what `gid` reads."""
        found = {r for v in self.reads(self.groups[gid]) for r in self.readers[v]} - {gid}
        here, place = min(self.groups[gid].ops), {r: min(self.groups[r].ops) for r in found}
        return sorted(found, key=lambda r: (abs(place[r] - here), place[r], r))[:_MOST_SIBLINGS]

    def _order(self, recipe: Recipe) -> tuple[int, ...]:
        """Where a recipe stands among equal gains: by place in the graph; joins before copies."""
        places = (min(self.groups[g].ops) for g in recipe.groups)
        return (recipe.kind == "copy", *places, *recipe.groups)


def _bases(a: Anatomy, node: Node) -> frozenset[int]:
    return frozenset(b for v in node.args for b in a.bases[v])


def _has_cycle(parts: Sequence[frozenset[int]], users: Mapping[int, set[int]], a: Anatomy) -> bool:
    """Whether some of `parts` need each other; `users` are the parts that read a value."""
    after = [{k for i in part for v in a.graph.nodes[i].outs for k in users.get(v, ())} for part in parts]
    waits = [0] * len(parts)
    for ks in after:
        for k in ks:
            waits[k] += 1
    ready = [k for k, n in enumerate(waits) if not n]
    done = 0
    while ready:
        done += 1
        for k in after[ready.pop()]:
            waits[k] -= 1
            ready += [k] if not waits[k] else []
    return done < len(parts)


_Outline = tuple[tuple[int, ...], tuple[_Made, ...]]
_Offer = tuple[tuple[float, int], tuple[int, ...], Recipe, bool]  # negated worth, order, what, whether it was priced


def _negated(worth: tuple[float, int]) -> tuple[float, int]:
    return (-worth[0], -worth[1])


def traffic(cost: KernelCost) -> int:
    """Bytes of main memory that a kernel moves."""
    return cost.bytes_read + cost.bytes_written
