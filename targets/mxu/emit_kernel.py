"""A kernel as an instruction stream: a loop over tiles with double-buffered copies around its stages.

For each region of the grid: the first tiles of all inputs are asked for; then, each turn of the loop,
the next tiles are asked for, each stage waits for the inputs it is the first to read and works, and
its outputs are sent while later stages and turns run. Whatever does not change from one step to the
next is copied, or computed, once for all the steps it serves.

The loop is software-pipelined: a stage of level number L works, in turn g, on step g - L. So no stage
waits for the one before it, and matrix units, vector units and copies all work at once on different
steps; a buffer has as many slots as the steps that lie between its writer and its last reader, and
two more. Must not know plans beyond one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...compiler.graph import TensorType
from .emit_matmul import MatrixUnits, Placed, matmul_stream
from .isa import (
    Address,
    Condition,
    DmaGather,
    DmaStart,
    DmaWait,
    Instruction,
    Loop,
    Term,
    Vector,
    View,
    When,
)
from .numerics import passes
from .stages import Key, Stage, is_sums, type_of
from .strided import Box, dense, padded, padded_bytes
from .tiles import Form, Region, TileBody, tile_body


@dataclass(frozen=True, slots=True)
class Scratch:
    """A kernel's buffer in VMEM: `slots` copies of `nbytes`, and all of that again for odd turns of a loop."""

    name: str
    address: int
    nbytes: int
    slots: int
    type: TensorType
    turns: int = 1

    @property
    def total_bytes(self) -> int:
        return self.nbytes * self.slots * self.turns


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A kernel's stream in three pieces, so that a neighbour's first copies can go between them.

    `ask[i]` is the first copy of input `asked[i]` (a value of the form's body); `run` is the work;
    `drain` waits for the last outputs. `single` says that the kernel is one step, after whose `ask`
    it copies nothing in. `end` is the first VMEM byte after the kernel's buffers.
    """

    asked: tuple[int, ...]
    ask: tuple[DmaStart, ...]
    run: tuple[Instruction, ...]
    drain: tuple[Instruction, ...]
    single: bool
    scratch: tuple[Scratch, ...]
    end: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A scratch buffer whose slot changes every `period` steps, and its half with the loop variable `turn`."""

    scratch: Scratch
    period: int
    turn: str | None

    def first(self) -> Address:
        """The slot in use at step 0."""
        s = self.scratch
        turn = (Term(self.turn, s.nbytes * s.slots, 1, 2),) if self.turn else ()
        return Address(s.address, turn)

    def address(self, offset: int) -> Address:
        """The slot in use at step g + offset."""
        s = self.scratch
        if s.slots == 1:
            return self.first()
        return self.first() + Address(0, (Term("g", s.nbytes, self.period, s.slots, offset),))


@dataclass(slots=True)
class _Region:
    """One region being emitted. Input i waits on semaphore base + i, output j on base + inputs + j."""

    form: Form
    region: Region
    tile: TileBody
    homes: Mapping[int, Address]
    mxu: MatrixUnits
    places: dict[Key, _Place]
    lags: Mapping[int, int]
    sem_base: int

    # ---- where things lie ----

    def placed(self, key: Key, lag: int) -> Placed:
        t = type_of(self.tile.graph, key)
        return Placed(self.places[key].address(-lag), padded(t.shape, t.dtype), t.dtype)

    def vmem(self, key: Key, lag: int) -> View:
        p = self.placed(key, lag)
        return p.box.at("vmem", p.start, p.dtype)

    def lag(self, stage: Stage) -> int:
        return self.lags[stage.level]

    def first_reader(self, value: int) -> Stage:
        """The stage that waits for a kernel input."""
        return next(s for s in self.tile.stages if Key(value, "tile") in s.reads)

    def home(self, value: int, offset: int = 0, looped: bool = True) -> View:
        """The tile of a kernel input or output in HBM, `offset` steps on; without `looped` the first tile."""
        full, t = self.form.body.types[value], self.tile.graph.types[value]
        origin = self.form.origins.get(value)
        within = origin.box if origin else self.form.boxes.get(value)
        strides = within.strides if within else dense(full.shape, full.dtype).strides
        start, terms = within.offset if within else 0, list[Term]()
        for axis in range(t.rank):
            for position, cut in enumerate(self.region.cuts):
                if self.form.cuts.of.get((value, axis)) != cut.index:
                    continue
                unit = self.form.cuts.classes[cut.index].scales[value, axis] * strides[axis]
                start += self.region.starts[position] * unit
                if self.region.counts[position] > 1 and looped:
                    mod = self.region.counts[position] if position else 0
                    terms.append(Term("g", cut.tile * unit, self.region.inner(position), mod, offset))
        box = Box(tuple(map(int, t.shape)), strides)
        return box.at("hbm", self.homes[value] + Address(start, tuple(terms)), t.dtype)

    # ---- pieces ----

    def every(self, period: int, body: list[Instruction], lag: int) -> list[Instruction]:
        """`body` in the turns in which a stage of this lag is on a step that is a multiple of `period`."""
        steps = self.region.steps
        if not body or steps == 1:
            return body
        if period >= steps:
            return [When((Condition(Term("g", 1), "eq", lag),), tuple(body))]
        conditions: list[Condition] = []
        if lag:
            conditions.append(Condition(Term("g", 1), "ge", lag))
        if lag < max(self.lags.values()):
            conditions.append(Condition(Term("g", 1), "lt", steps + lag))
        if period > 1:
            conditions.append(Condition(Term("g", 1, 1, period, -lag), "eq", 0))
        return [When(tuple(conditions), tuple(body))] if conditions else body

    def tiled_inputs(self) -> list[int]:
        """Kernel inputs that some stage reads from VMEM."""
        read = {k.value for s in self.tile.stages for k in s.reads}
        return [n.out for n in self.form.body.inputs if n.out in read and n.type.size]

    def sem(self, value: int) -> int:
        order = [n.out for n in self.form.body.inputs]
        if value in order:
            return self.sem_base + order.index(value)
        return self.sem_base + len(order) + list(self.form.body.outputs).index(value)

    def first_copies(self) -> list[tuple[int, DmaStart]]:
        """(input, its first copy)."""
        found: list[tuple[int, DmaStart]] = []
        for v in self.tiled_inputs():
            place = self.places[Key(v, "tile")]
            t = self.tile.graph.types[v]
            to = padded(t.shape, t.dtype).at("vmem", place.first(), t.dtype)
            found.append((v, DmaStart(to, self.home(v, looped=False), self.sem(v))))
        return found

    def next_copies(self) -> list[Instruction]:
        out: list[Instruction] = []
        for v in self.tiled_inputs():
            place = self.places[Key(v, "tile")]
            if place.period >= self.region.steps:
                continue
            t = self.tile.graph.types[v]
            lag = self.lag(self.first_reader(v))
            to = padded(t.shape, t.dtype).at("vmem", place.address(place.period - lag), t.dtype)
            copy = DmaStart(to, self.home(v, place.period - lag), self.sem(v))
            more = Condition(Term("g", 1), "lt", self.region.steps - place.period + lag)
            out += self.every(place.period, [When((more,), (copy,))], lag)
        return out

    def waits(self, stage: Stage) -> list[Instruction]:
        """Waits for the inputs that `stage` is the first to read, in the turns in which `stage` works."""
        out: list[Instruction] = []
        for v in self.tiled_inputs():
            if self.first_reader(v) is stage and self.tile.graph.types[v].size:
                period = self.places[Key(v, "tile")].period
                wait = DmaWait(self.sem(v))
                out += [wait] if period <= stage.period else self.every(period, [wait], self.lag(stage))
        return out

    def free_outputs(self, stage: Stage) -> list[Instruction]:
        """Waits until the slots that `stage` writes outputs to have been sent."""
        if self.region.steps <= 2:
            return []
        later = Condition(Term("g", 1), "ge", 2 + self.lag(stage))
        return [When((later,), (DmaWait(self.sem(v)),)) for v in self.written(stage)]

    def written(self, stage: Stage) -> list[int]:
        outputs = dict.fromkeys(self.form.body.outputs)
        return [v for v in outputs if any(self.is_output(k) and k.value == v for k in stage.writes)]

    def is_output(self, key: Key) -> bool:
        """Whether `key` is the form in which an output leaves."""
        if key.value not in self.form.body.outputs or not self.tile.graph.types[key.value].size:
            return False
        return key.form == "tile" or (key.form == "acc" and is_sums(self.form.body.types[key.value]))

    def sends(self, stage: Stage) -> list[Instruction]:
        """Starts copies of the outputs that `stage` made."""
        lag = self.lag(stage)
        keys = [(v, k) for v, k in self.output_keys() if k in stage.writes]
        return [DmaStart(self.home(v, -lag), self.vmem(k, lag), self.sem(v)) for v, k in keys]

    def output_keys(self) -> list[tuple[int, Key]]:
        keys = [k for s in self.tile.stages for k in s.writes if self.is_output(k)]
        return [
            (v, next(k for k in keys if k.value == v))
            for v in dict.fromkeys(self.form.body.outputs)
            if any(k.value == v for k in keys)
        ]

    def last_waits(self) -> list[Instruction]:
        return [DmaWait(self.sem(v)) for v, _ in self.output_keys() for _ in range(min(2, self.region.steps))]

    # ---- stages ----

    def work(self, stage: Stage) -> list[Instruction]:
        lag = self.lag(stage)
        match stage.kind:
            case "vector":
                assert stage.body is not None
                reads, writes = (tuple(self.vmem(k, lag) for k in keys) for keys in (stage.reads, stage.writes))
                return [Vector(stage.body, reads, writes)]
            case "matmul":
                return self.matmul(stage, lag)
            case "gather":
                return self.gather(stage, lag)

    def matmul(self, stage: Stage, lag: int) -> list[Instruction]:
        node = stage.node
        assert node is not None
        left, right = (
            [Placed(self.places[k].address(-lag), o.box, type_of(self.tile.graph, k).dtype) for k in o.keys]
            for o in stage.operands
        )
        order = passes(self.tile.graph.types[node.args[0]].dtype, str(node.attr("precision")))
        assert order is not None
        # Parts are renumbered to their place in the operand's list of keys.
        lefts, rights = (sorted({pair[i] for pair in order}) for i in (0, 1))
        local = [(lefts.index(a), rights.index(b)) for a, b in order]
        sums = self.placed(stage.writes[0], lag)
        into = Placed(sums.start, stage.sums or sums.box, sums.dtype)
        return list(matmul_stream(left, right, into, local, self.mxu))

    def gather(self, stage: Stage, lag: int) -> list[Instruction]:
        """Rows by the last axis of the index; one loop for each axis before it."""
        node = stage.node
        assert node is not None
        table, sem = self.home(node.args[0], -lag), self.sem(node.args[0])
        index, into = self.placed(stage.reads[0], lag), self.placed(stage.writes[0], lag)
        extents = index.box.shape[:-1]
        names = [f"b{i}" if n > 1 else None for i, n in enumerate(extents)]
        for name in names:
            index, into = index.loop(0, name), into.loop(0, name)
        if not index.box.shape:
            index = Placed(index.start, Box((1,), (4,), index.box.offset), index.dtype)
            into = Placed(into.start, Box((1, *into.box.shape), (0, *into.box.strides), into.box.offset), into.dtype)
        views = (p.box.at("vmem", p.start, p.dtype) for p in (into, index))
        body: tuple[Instruction, ...] = (DmaGather(next(views), table, next(views), sem), DmaWait(sem))
        for name, n in zip(reversed(names), reversed(extents), strict=True):
            body = body if name is None else (Loop(name, 0, n, body),)
        return list(body)

    def stream(self) -> list[Instruction]:
        """All steps, without the first copies."""
        body: list[Instruction] = [] if self.region.steps == 1 else self.next_copies()
        for stage in self.tile.stages:
            inside = [*self.waits(stage), *self.free_outputs(stage), *self.work(stage), *self.sends(stage)]
            body += self.every(stage.period, inside, self.lag(stage))
        if self.region.steps == 1:
            return body
        return [Loop("g", 0, self.region.steps + max(self.lags.values()), tuple(body))]


def lags_of(region: Region, tile: TileBody) -> dict[int, int]:
    """How many steps each level runs behind the first; none when there is one step."""
    levels = sorted({s.level for s in tile.stages})
    return {level: i if region.steps > 1 else 0 for i, level in enumerate(levels)}


@dataclass(frozen=True, slots=True)
class Room:
    """What a kernel may use: VMEM from byte `base`, semaphores from `sems` on.

    With `turn`, a loop variable, its buffers are doubled and taken in turns, so that the next iteration's
    first copies can come in while this one works.
    """

    base: int
    sems: int
    turn: str | None = None


def allocate(f: Form, region: Region, tile: TileBody, room: Room, name: str) -> tuple[dict[Key, _Place], int]:
    """A place in VMEM for every key of the region's stages; the first byte after them."""
    base = room.base
    lags = lags_of(region, tile)
    first: dict[Key, int] = {}
    last: dict[Key, int] = {}
    for s in tile.stages:
        for key in (*s.reads, *s.writes):
            first.setdefault(key, lags[s.level])
            last[key] = lags[s.level]
    places: dict[Key, _Place] = {}
    for key in sorted(first, key=lambda k: f.body.producers[k.value].op != "input"):
        t = type_of(tile.graph, key)
        period = tile.periods[key.value]
        between = -(-(last[key] - first[key]) // period)
        slots = 2 + between if period < region.steps else 1
        nbytes = padded_bytes(t.shape, t.dtype)
        scratch = Scratch(f"{name}.{key.value}.{key.form}", base, nbytes, slots, t, 2 if room.turn else 1)
        places[key] = _Place(scratch, period, room.turn)
        base += scratch.total_bytes
    return places, base


def kernel_code(
    f: Form, parts: tuple[Region, ...], homes: Mapping[int, Address], mxu: MatrixUnits, room: Room, name: str
) -> KernelCode:
    """The stream of a kernel over its regions; `homes` are the HBM addresses of its inputs and outputs."""
    asked: list[int] = []
    ask: list[DmaStart] = []
    run: list[Instruction] = []
    drain: list[Instruction] = []
    scratch: list[Scratch] = []
    end = room.base
    for number, region in enumerate(parts):
        tile = tile_body(f, region)
        places, last = allocate(f, region, tile, room, f"{name}.{number}" if number else name)
        end = max(end, last)
        scratch += [p.scratch for p in places.values()]
        work = _Region(f, region, tile, homes, mxu, places, lags_of(region, tile), room.sems)
        copies = work.first_copies()
        if number == 0:
            asked, ask = [v for v, _ in copies], [i for _, i in copies]
        else:
            run += [*drain, *(i for _, i in copies)]
        run += work.stream()
        drain = work.last_waits()
    single = len(parts) == 1 and parts[0].steps == 1
    return KernelCode(tuple(asked), tuple(ask), tuple(run), tuple(drain), single, tuple(scratch), end)
