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
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """A kernel in the making: the positions it computes, those of them it alone writes, the values written and read."""

    ops: frozenset[int]
    owned: frozenset[int]
    writes: tuple[int, ...]
    reads: frozenset[int]
    cost: KernelCost
    fixed: bool = False
    first: int = field(init=False)  # the least position

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", min(self.ops))


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
    reads: frozenset[int]
    work: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A move to be: `join` of groups, or `copy` of the first group into the others."""

    kind: Literal["join", "copy"]
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A kernel of an earlier search: the values its ops make (the first of each), those of them it alone writes, those
    it reads, and its price's key."""

    values: frozenset[int]
    owned: frozenset[int]
    reads: frozenset[int]
    key: Hashable


@dataclass(frozen=True, slots=True)
class _Part:
    """A group to begin with: the positions it computes, and those of them it alone writes."""

    ops: frozenset[int]
    owned: frozenset[int]


class Unplannable(Exception):
    """An op that the target cannot run even alone: its position, and the target's reason."""

    def __init__(self, position: int, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.position, self.refusal = position, refusal


class Fusion:
    """Groups that together cover a graph, and the moves between them. `run` makes them fewer.

    `start` are kernels of a graph like this one that shall begin in one group each, as far as that can be; by default
    each op is alone. No move pays among those that are still what they were: `run` tries only moves of the others.
    Unplannable when the target cannot run an op even alone.
    """

    def __init__(self, a: Anatomy, pricer: Pricer, start: Sequence[Known] = ()) -> None:
        self.a, self.pricer = a, pricer
        self.wiring = pricer.wiring(a)
        self.groups: dict[int, Group] = {}
        self.owner: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {v: set() for v in a.position}
        self._after: dict[int, set[int]] = {}  # successors, as far as they were asked for
        self._nbytes = {v: t.nbytes for v, t in a.graph.types.items()}
        self._next = 0
        # A loop reads its operands where they lie in main memory; a kernel reads through views.
        lies = dict(a.aliases)
        self._sources = {
            i: frozenset(lies.get(v, v) for v in n.args) if a.roles[i] == "loop" else _bases(a, n)
            for i, n in enumerate(a.graph.nodes)
        }
        if not self._begin(self._parts(start)):
            start = ()
            self._begin(self._parts(()))
        self._settled = self._unchanged(start)

    def run(self) -> None:
        """Takes the best move until none pays."""
        heap: list[_Offer] = []
        seen: set[Recipe] = set()
        self._offer(heap, seen, [g for g in self.groups if g not in self._settled])
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
        place = self.a.position
        reads = frozenset(v for g in gids for v in self.groups[g].reads if place[v] not in ops)
        return gids, (_Made(ops, owned, self._outside(owned, set(gids)), reads, gids),)

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
            made.append(_Made(ops, reader.owned | (orphans & ops), reader.writes, self._reads(ops), (gid,)))
            orphans -= ops
        if left:
            part = self._part(group.ops, left)
            made.append(_Made(part, group.owned, left, self._reads(part), ()))
        return (producer, *into), tuple(made)

    def _priced(self, gids: tuple[int, ...], made: tuple[_Made, ...]) -> Move | Blocked:
        groups: list[Group] = []
        for m in made:
            price = self.pricer.kernel(self.a, self.wiring, m.ops, m.writes)
            if isinstance(price, Refusal):
                return Blocked(price.reason, price.detail)
            groups.append(Group(m.ops, m.owned & m.ops, m.writes, m.reads, price))
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
            least = sum(self._nbytes[v] for v in (*m.reads, *m.writes))
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

    def _reads(self, ops: frozenset[int]) -> frozenset[int]:
        """Values in main memory that a kernel of `ops` reads."""
        found = frozenset[int]().union(*(self._sources[i] for i in ops))
        return frozenset(v for v in found if self.a.position[v] not in ops)

    def producers(self, group: Group) -> set[int]:
        """Positions of the points and loops that make what `group` reads."""
        return {p for p in map(self.a.position.__getitem__, group.reads) if p in self.owner}

    def successors(self, gid: int) -> set[int]:
        """Groups that read what `gid` writes."""
        found = self._after.get(gid)
        if found is None:
            found = self._after[gid] = {r for v in self.groups[gid].writes for r in self.readers[v]}
        return found

    def _between(self, gids: Sequence[int]) -> set[int]:
        """Groups outside `gids` on a path from one of them to another."""
        inside = set(gids)
        stack = [s for g in gids for s in self.successors(g) - inside]
        if not stack:
            return set()
        last = max(max(self.groups[g].ops) for g in gids)  # a path to position i starts below i
        ahead: dict[int, set[int]] = {}
        while stack:
            g = stack.pop()
            if g in ahead or self.groups[g].first > last:
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

    def known(self) -> list[Known]:
        """The groups, as a start for a graph like this one."""
        groups = (g for g in self.groups.values() if not g.fixed)
        return [Known(self._makes(g.ops), self._makes(g.owned), g.reads, self._key(g)) for g in groups]

    def _makes(self, ops: Iterable[int]) -> frozenset[int]:
        return frozenset(self.a.graph.nodes[i].outs[0] for i in ops)

    def _key(self, group: Group) -> Hashable:
        return self.pricer.kernel_key(self.wiring, group.ops, group.writes)

    def _unchanged(self, start: Sequence[Known]) -> frozenset[int]:
        """The groups that are kernels of `start` as they were: what they compute, write and read."""
        before = {k.values: k for k in start}
        found: set[int] = set()
        for gid, group in self.groups.items() if before else ():
            was = None if group.fixed else before.get(self._makes(group.ops))
            if was is not None and was.reads == group.reads and was.key == self._key(group):
                found.add(gid)
        return frozenset(found)

    def _parts(self, start: Sequence[Known]) -> list[_Part]:
        """The points and loops, in the kernels of `start` (the first that owns it, if any), in order."""
        left = dict.fromkeys(sorted((*self.a.points, *(i for i, r in enumerate(self.a.roles) if r == "loop"))))
        points = frozenset(i for i in left if self.a.roles[i] != "loop")
        parts: list[tuple[frozenset[int], frozenset[int]]] = []
        for kernel in start:
            ops = self._places(kernel.values) & points
            owned = frozenset(i for i in self._places(kernel.owned) & ops if i in left)
            for i in owned:
                del left[i]
            parts += [(ops, owned)] if owned else []
        alone = dict(left)
        for i, k in self._between_parts(left, [owned for _, owned in parts]).items():
            del alone[i]
            parts[k] = (parts[k][0] | {i}, parts[k][1] | {i})
        made = [_Part(self._part(ops, self._outs(owned)), owned) for ops, owned in parts]
        made += [_Part(o, o) for o in (frozenset((i,)) for i in alone)]
        return sorted(made, key=lambda part: min(part.owned))

    def _between_parts(self, left: Iterable[int], parts: Sequence[frozenset[int]]) -> dict[int, int]:
        """Those of the positions `left` that lie on a path from one of `parts` through others of `left` back to it."""
        if not parts:
            return {}
        order = [i for i in left if self.a.roles[i] != "loop"]
        feeds = {i: {k} for k, part in enumerate(parts) for i in part}
        needs = {i: {k} for k, part in enumerate(parts) for i in part}
        users: dict[int, list[int]] = {}
        for i in self.a.points:
            for b in self._sources[i]:
                users.setdefault(self.a.position[b], []).append(i)
        for i in order:
            feeds[i] = set[int]().union(*(feeds.get(self.a.position[b], ()) for b in self._sources[i]))
        for i in reversed(order):
            needs[i] = set[int]().union(*(needs.get(u, ()) for u in users.get(i, ())))
        return {i: min(feeds[i] & needs[i]) for i in order if feeds[i] & needs[i]}

    def _outs(self, ops: Iterable[int]) -> Iterator[int]:
        return (v for i in ops for v in self.a.graph.nodes[i].outs)

    def _places(self, values: Iterable[int]) -> frozenset[int]:
        return frozenset(self.a.position[v] for v in values if v in self.a.position)

    def _begin(self, parts: Sequence[_Part]) -> bool:
        """Makes groups of `parts`, those that cannot be kernels op by op; False when parts wait for each other."""
        users: dict[int, set[int]] = {}
        for k, part in enumerate(parts):
            for v in self._reads(part.ops):
                users.setdefault(v, set()).add(k)
        if _has_cycle(parts, users, self.a):
            return False
        groups = [self._group(part, users) for part in parts]
        made = [g for g in groups if g is not None]
        if len(made) < len(groups):
            return self._begin([p for part, g in zip(parts, groups, strict=True) for p in _unless(g, part)])
        for group in made:
            self._put(group)
        return True

    def _group(self, part: _Part, users: Mapping[int, set[int]]) -> Group | None:
        ops, reads = part.ops, self._reads(part.ops)
        outs = [v for i in sorted(part.owned) for v in self.a.graph.nodes[i].outs]
        first = min(ops)
        if self.a.roles[first] == "loop":
            return Group(ops, ops, tuple(outs), reads, _LOOP_COST, fixed=True)
        writes = tuple(v for v in outs if v in self.a.resident or v in users)
        if not writes:  # all who need it compute it themselves
            if len(ops) > 1:
                return None
            writes = tuple(outs)
        price = self.pricer.kernel(self.a, self.wiring, ops, writes)
        if not isinstance(price, Refusal):
            return Group(ops, part.owned, writes, reads, price)
        if len(ops) == 1:
            raise Unplannable(first, price)
        return None

    def _put(self, group: Group) -> int:
        gid, self._next = self._next, self._next + 1
        self.groups[gid] = group
        self.owner.update(dict.fromkeys(group.owned, gid))
        for v in group.reads:
            self.readers[v].add(gid)
            self._forget(v)
        return gid

    def _apply(self, move: Move) -> list[int]:
        for gid in move.removed:
            self._after.pop(gid, None)
            for v in self.groups.pop(gid).reads:
                self.readers[v].discard(gid)
                self._forget(v)
        return [self._put(g) for g in move.made]

    def _forget(self, value: int) -> None:
        """The readers of `value` are others now."""
        self._after.pop(self.owner.get(self.a.position[value], -1), None)

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
        found = {r for v in self.groups[gid].reads for r in self.readers[v]} - {gid}
        here, place = self.groups[gid].first, {r: self.groups[r].first for r in found}
        return sorted(found, key=lambda r: (abs(place[r] - here), place[r], r))[:_MOST_SIBLINGS]

    def _order(self, recipe: Recipe) -> tuple[int, ...]:
        """Where a recipe stands among equal gains: by place in the graph; joins before copies."""
        places = (self.groups[g].first for g in recipe.groups)
        return (recipe.kind == "copy", *places, *recipe.groups)


def _bases(a: Anatomy, node: Node) -> frozenset[int]:
    return frozenset(b for v in node.args for b in a.bases[v])


def _unless(group: Group | None, part: _Part) -> list[_Part]:
    """`part`, or, when it made no group, its ops one by one."""
    return [part] if group is not None else [_Part(o, o) for o in (frozenset((i,)) for i in sorted(part.owned))]


def _has_cycle(parts: Sequence[_Part], users: Mapping[int, set[int]], a: Anatomy) -> bool:
    """Whether some of `parts` need each other; `users` are the parts that read a value."""
    after = [{k for i in part.owned for v in a.graph.nodes[i].outs for k in users.get(v, ())} for part in parts]
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
