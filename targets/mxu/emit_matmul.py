"""Matrix products as instruction streams: weights staged ahead, rows streamed, sums popped behind.

One product is rows [M, K] by [K, N], for each batch index. *Columns* are what different matrix units
work on at a time: N tiles, or batch indices when there are more of those. The stream is one loop over
(group of columns, K tile); each turn multiplies, stages the next turn's tile and pops its own sums
(or, when the rows are too few to cover the unit's latency, the previous turn's). On a chip without
accumulators the sums of each K tile are added in VMEM in rising k, which is the order that
`numerics.py` defines; with accumulators the matrix unit does the same additions.
Must not know kernels or HBM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...compiler.graph import DType
from .isa import Address, Condition, Instruction, Loop, Mul, Pop, Push, Term, When
from .strided import Box, element_bytes, reshaped


@dataclass(frozen=True, slots=True)
class Placed:
    """A box somewhere in VMEM."""

    start: Address
    box: Box
    dtype: DType

    def shifted(self, more: Address | int) -> Placed:
        return Placed(self.start + more, self.box, self.dtype)

    def loop(self, axis: int, var: str | None) -> Placed:
        """Without `axis`: its index is the loop variable `var`, or 0 without one."""
        step = self.box.strides[axis]
        terms = (Term(var, step),) if step and var else ()
        return Placed(self.start + Address(0, terms), self.box.drop(axis), self.dtype)


@dataclass(frozen=True, slots=True)
class MatrixUnits:
    """What the emitter needs of a chip: units, their size, latency, queue and accumulator rows (0: none)."""

    count: int
    size: int
    latency_cycles: int
    rows_per_cycle: float
    queue_rows: int
    accumulator_rows: int


def matmul_stream(
    lhs: Sequence[Placed], rhs: Sequence[Placed], acc: Placed, order: Sequence[tuple[int, int]], mxu: MatrixUnits
) -> tuple[Instruction, ...]:
    """acc = lhs @ rhs. lhs and rhs are the parts [..B, M, K] and [..B, K, N] (or [K, N]); acc is [..B, M, N].

    `order` lists (lhs part, rhs part) in the order their products are summed.
    """
    if len(rhs[0].box.shape) == 2 and len(acc.box.shape) > 2:
        merged = _merge_rows(lhs, acc)
        if merged is not None:
            return _batched(merged[0], rhs, merged[1], order, mxu, 0)
        rhs = [_broadcast(r, acc.box.shape[:-2]) for r in rhs]
    return _batched(lhs, rhs, acc, order, mxu, 0)


def _merge_rows(lhs: Sequence[Placed], acc: Placed) -> tuple[list[Placed], Placed] | None:
    """Batch and rows as one rows axis, when the strides allow it."""

    def flat(p: Placed) -> Placed | None:
        rows = 1
        for d in p.box.shape[:-1]:
            rows *= d
        box = reshaped(p.box, (rows, p.box.shape[-1]))
        return None if box is None else Placed(p.start, box, p.dtype)

    left, out = [flat(p) for p in lhs], flat(acc)
    whole = [p for p in left if p is not None]
    return (whole, out) if out is not None and len(whole) == len(lhs) else None


def _broadcast(p: Placed, batch: tuple[int, ...]) -> Placed:
    return Placed(p.start, Box((*batch, *p.box.shape), ((0,) * len(batch) + p.box.strides), p.box.offset), p.dtype)


def _batched(
    lhs: Sequence[Placed],
    rhs: Sequence[Placed],
    acc: Placed,
    order: Sequence[tuple[int, int]],
    mxu: MatrixUnits,
    depth: int,
) -> tuple[Instruction, ...]:
    """Loops over all batch axes but one that serves as columns."""
    rank = len(acc.box.shape)
    if rank > 2:
        extent, last = acc.box.shape[0], rank == 3
        few_tiles = -(-acc.box.shape[-1] // mxu.size) < mxu.count
        if not (last and few_tiles and extent > 1):
            var = f"b{depth}" if extent > 1 else None
            inner = _batched(
                [p.loop(0, var) for p in lhs], [p.loop(0, var) for p in rhs], acc.loop(0, var), order, mxu, depth + 1
            )
            return inner if var is None else (Loop(var, 0, extent, inner),)
        return _over_batch(lhs, rhs, acc, order, mxu)
    return _over_tiles(lhs, rhs, acc, order, mxu)


def _over_batch(
    lhs: Sequence[Placed], rhs: Sequence[Placed], acc: Placed, order: Sequence[tuple[int, int]], mxu: MatrixUnits
) -> tuple[Instruction, ...]:
    """Columns are the indices of the only batch axis; N tiles follow one another."""
    batch, size = acc.box.shape[0], mxu.size
    steps = (lhs[0].box.strides[0], rhs[0].box.strides[0], acc.box.strides[0])
    out: list[Instruction] = []
    for n in range(0, acc.box.shape[2], size):
        width = min(size, acc.box.shape[2] - n)
        right = [Placed(p.start, p.box.part(2, n, width).drop(0), p.dtype) for p in rhs]
        into = Placed(acc.start, acc.box.part(2, n, width).drop(0), acc.dtype)
        left = [Placed(p.start, p.box.drop(0), p.dtype) for p in lhs]
        out += _columns(left, right, into, batch, steps, order, mxu)
    return tuple(out)


def _over_tiles(
    lhs: Sequence[Placed], rhs: Sequence[Placed], acc: Placed, order: Sequence[tuple[int, int]], mxu: MatrixUnits
) -> tuple[Instruction, ...]:
    """Columns are the N tiles; a narrower last tile comes on its own."""
    width, size = acc.box.shape[1], mxu.size
    full, rest = divmod(width, size)
    steps = (0, size * rhs[0].box.strides[1], size * acc.box.strides[1])
    out: list[Instruction] = []
    for start, count, n in ((0, full, size), (full * size, 1 if rest else 0, rest)):
        if count:
            right = [Placed(p.start, p.box.part(1, start, n), p.dtype) for p in rhs]
            into = Placed(acc.start, acc.box.part(1, start, n), acc.dtype)
            out += _columns(lhs, right, into, count, steps, order, mxu)
    return tuple(out)


def _columns(
    lhs: Sequence[Placed],
    rhs: Sequence[Placed],
    acc: Placed,
    columns: int,
    steps: tuple[int, int, int],
    order: Sequence[tuple[int, int]],
    mxu: MatrixUnits,
) -> list[Instruction]:
    """`columns` products, `steps` bytes apart, in groups of as many as there are units; rows in chunks."""
    chunk = mxu.accumulator_rows or acc.box.shape[0]
    out: list[Instruction] = []
    for row in range(0, acc.box.shape[0], chunk):
        rows = min(chunk, acc.box.shape[0] - row)
        left = [Placed(p.start, p.box.part(0, row, rows), p.dtype) for p in lhs]
        into = Placed(acc.start, acc.box.part(0, row, rows), acc.dtype)
        groups, rest = divmod(columns, mxu.count)
        for first, number, units in ((0, groups, mxu.count), (groups * mxu.count, 1, rest)):
            if number and units:
                shifts = [first * s for s in steps]
                out += _Stream(
                    [p.shifted(shifts[0]) for p in left],
                    [p.shifted(shifts[1]) for p in rhs],
                    into.shifted(shifts[2]),
                    number,
                    units,
                    steps,
                    tuple(order),
                    mxu,
                ).emit()
    return out


@dataclass(frozen=True, slots=True)
class _Stream:
    """`groups` x `units` products of [M, K] by [K, n], as one loop over t = (group, K tile)."""

    lhs: Sequence[Placed]
    rhs: Sequence[Placed]
    acc: Placed
    groups: int
    units: int
    steps: tuple[int, int, int]
    order: tuple[tuple[int, int], ...]
    mxu: MatrixUnits

    @property
    def k(self) -> int:
        return self.lhs[0].box.shape[1]

    @property
    def tiles(self) -> int:
        return -(-self.k // self.mxu.size)

    @property
    def turns(self) -> int:
        return self.groups * self.tiles

    @property
    def late(self) -> bool:
        """Whether pops run one product behind: when rows are fewer than the latency covers."""
        rows = self.acc.box.shape[0]
        cycles = rows / self.mxu.rows_per_cycle
        return not self.mxu.accumulator_rows and cycles < self.mxu.latency_cycles and 2 * rows <= self.mxu.queue_rows

    def emit(self) -> list[Instruction]:
        last = len(self.order) - 1
        body: list[Instruction] = []
        for i in range(len(self.order)):
            body += self._by_tile(0, lambda k, off, i=i: self._muls(i, k, off))
            if i < last:
                body += self._by_tile(0, lambda k, off, i=i: self._pushes(i + 1, k, off))
            elif self.turns > 1:
                more = Condition(Term("t", 1), "lt", self.turns - 1)
                body.append(When((more,), tuple(self._by_tile(1, lambda k, off: self._pushes(0, k, off)))))
            body += self._pop_turn(i)
        tail = self._pops(last, self.turns - 1, looped=False) if self.late else []
        head = self._first_pushes()
        looped = [Loop("t", 0, self.turns, tuple(body))] if self.turns > 1 else _unrolled(body)
        return [*head, *looped, *tail]

    def _first_pushes(self) -> list[Instruction]:
        width = min(self.k, self.mxu.size)
        return [Push(u, *self._tile(0, width, u, None)) for u in range(self.units)]

    # ---- addresses: `off` turns from t; None when outside the loop (t = 0) ----

    def _along(self, coef: int, what: str, off: int | None) -> Address:
        """coef times the group or K tile index of turn t + off."""
        if off is None or self.turns == 1 or coef == 0:
            return Address(0)
        if what == "group":
            return Address(0, (Term("t", coef, self.tiles, 0, off),) if self.groups > 1 else ())
        mod = self.tiles if self.groups > 1 else 0
        return Address(0, (Term("t", coef, 1, mod, off),) if self.tiles > 1 else ())

    def _at(self, p: Placed, which: int, unit: int, off: int | None) -> Address:
        step = self.steps[which]
        return p.start + unit * step + self._along(self.units * step, "group", off)

    def _tile(self, part: int, k: int, unit: int, off: int | None):  # -> (view, transpose)
        p = self.rhs[part if part < len(self.rhs) else 0]
        box = p.box.part(0, 0, k)
        start = self._at(p, 1, unit, off) + self._along(self.mxu.size * p.box.strides[0], "tile", off)
        if box.strides[1] == element_bytes(p.dtype) or box.shape[1] == 1:
            return box.at("vmem", start, p.dtype), False
        turned = Box((box.shape[1], box.shape[0]), (box.strides[1], box.strides[0]), box.offset)
        return turned.at("vmem", start, p.dtype), True

    def _pushes(self, i: int, k: int, off: int) -> list[Instruction]:
        return [Push(u, *self._tile(self.order[i][1], k, u, off)) for u in range(self.units)]

    def _muls(self, i: int, k: int, off: int) -> list[Instruction]:
        p = self.lhs[self.order[i][0]]
        box = p.box.part(1, 0, k)
        views = [
            box.at("vmem", self._at(p, 0, u, off) + self._along(self.mxu.size * p.box.strides[1], "tile", off), p.dtype)
            for u in range(self.units)
        ]
        if not self.mxu.accumulator_rows:
            return [Mul(u, v) for u, v in enumerate(views)]
        if i > 0:
            return [Mul(u, v, True, 0, True) for u, v in enumerate(views)]
        return self._by_first(
            [Mul(u, v, True, 0, False) for u, v in enumerate(views)],
            [Mul(u, v, True, 0, True) for u, v in enumerate(views)],
            off,
        )

    def _pop_turn(self, i: int) -> list[Instruction]:
        if not self.late:
            return self._pops(i, 0)
        if i > 0:
            return self._pops(i - 1, 0)
        if self.turns == 1:
            return []
        return [When((Condition(Term("t", 1), "ge", 1),), tuple(self._pops(len(self.order) - 1, -1)))]

    def _pops(self, i: int, off: int, looped: bool = True) -> list[Instruction]:
        """Pops of product i of turn t + off (of turn `off` itself outside the loop)."""
        if self.mxu.accumulator_rows:
            if i < len(self.order) - 1:
                return []
            pops: list[Instruction] = [Pop(u, self._into(u, off), False, 0) for u in range(self.units)]
            return pops if self.tiles == 1 else [When((self._tile_is("eq", self.tiles - 1, off),), tuple(pops))]
        views = [self._into(u, off) if looped else self._into_last(u) for u in range(self.units)]
        put, add = ([Pop(u, v, a) for u, v in enumerate(views)] for a in (False, True))
        if i > 0 or (not looped and self.tiles > 1):
            return list(add)
        return list(put) if not looped else self._by_first(put, add, off)

    def _into(self, unit: int, off: int):
        return self.acc.box.at("vmem", self._at(self.acc, 2, unit, off), self.acc.dtype)

    def _into_last(self, unit: int):
        shift = (unit + (self.groups - 1) * self.units) * self.steps[2]
        return self.acc.box.at("vmem", self.acc.start + shift, self.acc.dtype)

    # ---- conditions ----

    def _tile_is(self, relation: str, tile: int, off: int) -> Condition:
        mod = self.tiles if self.groups > 1 else 0
        return Condition(Term("t", 1, 1, mod, off), relation, tile)  # pyright: ignore[reportArgumentType]

    def _by_first(self, first: Sequence[Instruction], later: Sequence[Instruction], off: int) -> list[Instruction]:
        """`first` at K tile 0, `later` at the others."""
        if self.tiles == 1:
            return list(first)
        return [When((self._tile_is("eq", 0, off),), tuple(first)), When((self._tile_is("ne", 0, off),), tuple(later))]

    def _by_tile(self, off: int, make: Callable[[int, int], list[Instruction]]) -> list[Instruction]:
        """`make(k, off)` for the K tile at hand, whose last may be narrower."""
        size, rest = self.mxu.size, self.k % self.mxu.size
        if not rest or self.tiles == 1:
            return make(min(self.k, size), off)
        last = self.tiles - 1
        return [
            When((self._tile_is("ne", last, off),), tuple(make(size, off))),
            When((self._tile_is("eq", last, off),), tuple(make(rest, off))),
        ]


def _unrolled(body: list[Instruction]) -> list[Instruction]:
    """A body whose loop would turn once; its addresses have no term of it."""
    return body
