"""A kernel as an instruction stream: a loop over tiles with double-buffered copies around its stages.

For each region of the grid: the first tiles of all inputs are asked for; then, each step, the next
tiles are asked for, each stage waits for the inputs it is the first to read, works, and the step's
outputs are sent while the next step runs. Whatever does not change from one step to the next is
copied, or computed, once for all the steps it serves. Must not know plans beyond one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...compiler.graph import TensorType
from ...compiler.graph.dtypes import F32
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
from .stages import Key, Stage, type_of
from .strided import Box, dense, padded, padded_bytes
from .tiles import Form, Region, TileBody, tile_body


@dataclass(frozen=True, slots=True)
class Scratch:
    """A kernel's buffer in VMEM: `slots` copies of `nbytes`."""

    name: str
    address: int
    nbytes: int
    slots: int
    type: TensorType


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A kernel's stream in three pieces, so that a neighbour's first copies can go between them.

    `ask[i]` starts the first copy of input `asked[i]` (a value of the form's body); `run` is the work;
    `drain` waits for the last outputs. `single` says that the kernel is one step, after whose `ask`
    it copies nothing in. `end` is the first VMEM byte after the kernel's buffers.
    """

    asked: tuple[int, ...]
    ask: tuple[Instruction, ...]
    run: tuple[Instruction, ...]
    drain: tuple[Instruction, ...]
    single: bool
    scratch: tuple[Scratch, ...]
    end: int


@dataclass(frozen=True, slots=True)
class _Place:
    scratch: Scratch
    period: int

    def address(self, steps: int) -> Address:
        if self.scratch.slots == 1 or steps == 1:
            return Address(self.scratch.address)
        term = Term("g", self.scratch.nbytes, self.period, self.scratch.slots)
        return Address(self.scratch.address, (term,))

    def next(self, offset: int) -> Address:
        """The slot in use `offset` steps later."""
        term = Term("g", self.scratch.nbytes, self.period, self.scratch.slots, offset)
        return Address(self.scratch.address, (term,))


@dataclass(slots=True)
class _Region:
    """One region being emitted. Input i waits on semaphore base + i, output j on base + inputs + j."""

    form: Form
    region: Region
    tile: TileBody
    homes: Mapping[int, Address]
    mxu: MatrixUnits
    places: dict[Key, _Place]
    waited: set[int]
    sem_base: int

    # ---- where things lie ----

    def placed(self, key: Key) -> Placed:
        t = type_of(self.tile.graph, key)
        return Placed(self.places[key].address(self.region.steps), padded(t.shape, t.dtype), t.dtype)

    def vmem(self, key: Key) -> View:
        p = self.placed(key)
        return p.box.at("vmem", p.start, p.dtype)

    def home(self, value: int, offset: int = 0, looped: bool = True) -> View:
        """The tile of a kernel input or output in HBM, `offset` steps on; without `looped` the first tile."""
        full, t = self.form.body.types[value], self.tile.graph.types[value]
        origin = self.form.origins.get(value)
        strides = origin.box.strides if origin else dense(full.shape, full.dtype).strides
        start, terms = origin.box.offset if origin else 0, list[Term]()
        for axis in range(t.rank):
            cls = self.form.cuts.of.get((value, axis))
            for position, cut in enumerate(self.region.cuts):
                if cut.index != cls:
                    continue
                unit = self.form.cuts.classes[cls].scales[value, axis] * strides[axis]
                start += self.region.starts[position] * unit
                if self.region.counts[position] > 1 and looped:
                    mod = self.region.counts[position] if position else 0
                    terms.append(Term("g", cut.tile * unit, self.region.inner(position), mod, offset))
        box = Box(tuple(map(int, t.shape)), strides)
        return box.at("hbm", self.homes[value] + Address(start, tuple(terms)), t.dtype)

    # ---- pieces ----

    def every(self, period: int, body: list[Instruction]) -> list[Instruction]:
        """`body` on steps that are multiples of `period`."""
        if not body or period == 1 or self.region.steps == 1:
            return body
        if period >= self.region.steps:
            return [When((Condition(Term("g", 1), "eq", 0),), tuple(body))]
        return [When((Condition(Term("g", 1, 1, period), "eq", 0),), tuple(body))]

    def tiled_inputs(self) -> list[int]:
        """Kernel inputs that some stage reads from VMEM."""
        read = {k.value for s in self.tile.stages for k in s.reads}
        return [n.out for n in self.form.body.inputs if n.out in read and n.type.size]

    def sem(self, value: int) -> int:
        order = [n.out for n in self.form.body.inputs]
        if value in order:
            return self.sem_base + order.index(value)
        return self.sem_base + len(order) + list(self.form.body.outputs).index(value)

    def first_copies(self) -> list[tuple[int, Instruction]]:
        """(input, its first copy)."""
        found: list[tuple[int, Instruction]] = []
        for v in self.tiled_inputs():
            place = self.places[Key(v, "tile")]
            t = self.tile.graph.types[v]
            to = padded(t.shape, t.dtype).at("vmem", Address(place.scratch.address), t.dtype)
            found.append((v, DmaStart(to, self.home(v, looped=False), self.sem(v))))
        return found

    def next_copies(self) -> list[Instruction]:
        out: list[Instruction] = []
        for v in self.tiled_inputs():
            place = self.places[Key(v, "tile")]
            if place.period >= self.region.steps:
                continue
            t = self.tile.graph.types[v]
            to = padded(t.shape, t.dtype).at("vmem", place.next(place.period), t.dtype)
            copy = DmaStart(to, self.home(v, place.period), self.sem(v))
            more = Condition(Term("g", 1), "lt", self.region.steps - place.period)
            out += self.every(place.period, [When((more,), (copy,))])
        return out

    def waits(self, stage: Stage) -> list[Instruction]:
        """Waits for the inputs that `stage` is the first to read."""
        out: list[Instruction] = []
        for key in stage.reads:
            v = key.value
            if self.form.body.producers[v].op == "input" and key.form == "tile" and v not in self.waited:
                if self.tile.graph.types[v].size:
                    self.waited.add(v)
                    out += self.every(self.places[key].period, [DmaWait(self.sem(v))])
        return out

    def free_outputs(self, stage: Stage) -> list[Instruction]:
        """Waits until the slots that `stage` writes outputs to have been sent."""
        out: list[Instruction] = []
        for v in self.written(stage):
            if self.region.steps > 2:
                out.append(When((Condition(Term("g", 1), "ge", 2),), (DmaWait(self.sem(v)),)))
        return out

    def written(self, stage: Stage) -> list[int]:
        outputs = dict.fromkeys(self.form.body.outputs)
        return [v for v in outputs if any(self.is_output(k) and k.value == v for k in stage.writes)]

    def is_output(self, key: Key) -> bool:
        """Whether `key` is the form in which an output leaves."""
        if key.value not in self.form.body.outputs or not self.tile.graph.types[key.value].size:
            return False
        return key.form == "tile" or (key.form == "acc" and self.form.body.types[key.value].dtype == F32)

    def sends(self) -> list[Instruction]:
        out: list[Instruction] = []
        for v, key in self.output_keys():
            out.append(DmaStart(self.home(v), self.vmem(key), self.sem(v)))
        return out

    def output_keys(self) -> list[tuple[int, Key]]:
        keys = [k for s in self.tile.stages for k in s.writes if self.is_output(k)]
        return [(v, next(k for k in keys if k.value == v)) for v in dict.fromkeys(self.form.body.outputs) if any(k.value == v for k in keys)]

    def last_waits(self) -> list[Instruction]:
        return [DmaWait(self.sem(v)) for v, _ in self.output_keys() for _ in range(min(2, self.region.steps))]

    # ---- stages ----

    def work(self, stage: Stage) -> list[Instruction]:
        match stage.kind:
            case "vector":
                assert stage.body is not None
                reads = tuple(map(self.vmem, stage.reads))
                return [Vector(stage.body, reads, tuple(map(self.vmem, stage.writes)))]
            case "matmul":
                return self.matmul(stage)
            case "gather":
                return self.gather(stage)

    def matmul(self, stage: Stage) -> list[Instruction]:
        node = stage.node
        assert node is not None
        left, right = (
            [Placed(self.places[k].address(self.region.steps), o.box, type_of(self.tile.graph, k).dtype) for k in o.keys]
            for o in stage.operands
        )
        order = passes(self.tile.graph.types[node.args[0]].dtype, str(node.attr("precision")))
        assert order is not None
        # Parts are renumbered to their place in the operand's list of keys.
        lefts, rights = (sorted({pair[i] for pair in order}) for i in (0, 1))
        local = [(lefts.index(a), rights.index(b)) for a, b in order]
        return list(matmul_stream(left, right, self.placed(stage.writes[0]), local, self.mxu))

    def gather(self, stage: Stage) -> list[Instruction]:
        node = stage.node
        assert node is not None
        table_type = self.form.body.types[node.args[0]]
        table = self.form.origins[node.args[0]].box.at("hbm", self.homes[node.args[0]], table_type.dtype)
        sem = self.sem(node.args[0])
        index, into = self.vmem(stage.reads[0]), self.vmem(stage.writes[0])
        return [DmaGather(into, table, index, sem), DmaWait(sem)]

    def stream(self) -> list[Instruction]:
        """All steps, without the first copies."""
        body: list[Instruction] = [] if self.region.steps == 1 else self.next_copies()
        for stage in self.tile.stages:
            inside = self.waits(stage)
            free = self.free_outputs(stage)
            body += self.every(stage.period, [*inside, *free, *self.work(stage)])
        body += self.sends()
        return body if self.region.steps == 1 else [Loop("g", 0, self.region.steps, tuple(body))]


def allocate(f: Form, region: Region, tile: TileBody, base: int, name: str) -> tuple[dict[Key, _Place], int]:
    """A place in VMEM for every key of the region's stages; the first byte after them."""
    places: dict[Key, _Place] = {}
    read = {k.value for s in tile.stages for k in s.reads if k.form == "tile"}
    keys = [Key(n.out, "tile") for n in f.body.inputs if n.out in read]
    keys += [k for s in tile.stages for k in s.writes]
    for key in dict.fromkeys(keys):
        t = type_of(tile.graph, key)
        period = tile.periods[key.value]
        slots = 2 if period < region.steps else 1
        nbytes = padded_bytes(t.shape, t.dtype)
        label = f"{name}.{key.value}.{key.form}"
        places[key] = _Place(Scratch(label, base, nbytes, slots, t), period)
        base += nbytes * slots
    return places, base


def kernel_code(
    f: Form, parts: tuple[Region, ...], homes: Mapping[int, Address], mxu: MatrixUnits, base: int, name: str, sems: int
) -> KernelCode:
    """The stream of a kernel over its regions.

    `homes` are the HBM addresses of its inputs and outputs, `base` the first VMEM byte it may use, and
    `sems` the first semaphore.
    """
    asked: list[int] = []
    ask: list[Instruction] = []
    run: list[Instruction] = []
    drain: list[Instruction] = []
    scratch: list[Scratch] = []
    end = base
    for number, region in enumerate(parts):
        tile = tile_body(f, region)
        places, last = allocate(f, region, tile, base, f"{name}.{number}" if number else name)
        end = max(end, last)
        scratch += [p.scratch for p in places.values()]
        work = _Region(f, region, tile, homes, mxu, places, set(), sems)
        copies = work.first_copies()
        if number == 0:
            asked, ask = [v for v, _ in copies], [i for _, i in copies]
        else:
            run += [*drain, *(i for _, i in copies)]
        run += work.stream()
        drain = work.last_waits()
    single = len(parts) == 1 and parts[0].steps == 1
    return KernelCode(tuple(asked), tuple(ask), tuple(run), tuple(drain), single, tuple(scratch), end)
