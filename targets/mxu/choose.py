"""Which grid a kernel runs on, and what that is expected to cost: the cost function of the target.

The estimate and the lowering use one choice, so a kernel is priced as it will be built. The price of a
grid is the pipeline's: fill (the first tiles come in), then each step the slower of the copies and of
the units that compute, then drain. Unit work is counted by `work.py`, the same functions that the
simulator times with. Must not know addresses or streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod

from ...compiler.graph import DType, Graph, Node, is_composite
from ...compiler.graph.dtypes import BF16, F32
from ...compiler.graph.ops.contract import is_depthwise, logical_weights
from ...compiler.plan.target import KernelCost, Refusal
from ...compiler.plan.tiling import tile_extent
from .chip import Chip
from .emit_kernel import Room, allocate
from .emit_matmul import MatrixUnits
from .isa import Address
from .numerics import feeds, passes
from .slabs import Slab, image_of, slab, slabs_of
from .stages import Stage, stages
from .streamed import can_stream, streamed_cost
from .strided import Box, dense, element_bytes, padded_bytes, padded_size
from .tiles import Cut, Form, Region, TileBody, form, regions, tile_body
from .work import (
    ZERO,
    Work,
    contiguous_runs,
    gather_cycles,
    lane_work,
    mul_cycles,
    push_cycles,
    unit_cycles,
    vector_work,
)

# Tile lengths tried, in elements of the class's longest axis.
LENGTHS = (64, 128, 256, 512, 1024, 2048)
# Tile sizes tried for batch-like classes, in bytes of all tensors that run with the class.
TILE_BYTES = (1 << 18, 1 << 20, 1 << 22)
# Share of the other units' busy time that does not hide behind the busiest one's: they wait for each other's
# results and share issue slots. Fitted to the simulator; it orders grids, the simulator gives the time.
CONTENTION = 0.12
# The same for copies, which run beside everything else.
COPY_CONTENTION = 0.03
# Cycles by which a turn of the matrix units exceeds the staging of its weights when that is the longer part.
STAGING_CYCLES = 12
# Share of a copy's setup that shows in each step of a pipelined kernel. Fitted to the simulator.
SETUP_SHARE = 0.25
# A kernel takes all of VMEM, and so gives up the copies of its neighbours, only when it gains this much.
SOLO_GAIN = 1.1
LITERALS = ("full", "iota", "constant")
VIEWS = ("reshape", "transpose", "slice", "broadcast")


def matrix_units(chip: Chip) -> MatrixUnits:
    """The emitter's view of the chip's matrix units."""
    m = chip.mxu
    rate = m.rows_per_cycle["bf16"]
    return MatrixUnits(m.count, m.size, m.far_latency_cycles, rate, 8 * m.result_queue_steps, m.accumulator_rows)


def vmem_half(chip: Chip) -> int:
    """Bytes of one of the two halves that kernels take in turn, in whole tiles."""
    tile = chip.vreg_bytes
    return chip.mem.vmem_bytes // 2 // tile * tile


@dataclass(frozen=True, slots=True)
class Choice:
    """A grid, its regions, its expected cost. `solo`: it needs more than half of VMEM.

    `slabs`: no grid fits, and the kernel does some rows of an image after others. `streamed`: not even that fits, and
    it works from main memory.
    """

    grid: tuple[Cut, ...]
    regions: tuple[Region, ...]
    cost: KernelCost
    solo: bool
    streamed: bool = False
    slabs: tuple[tuple[Slab, Choice], ...] = ()


@dataclass(frozen=True, slots=True)
class _Totals:
    """The work of a whole kernel, before it is cut: its levels, vector work, matrix products, rows gathered."""

    levels: int
    # Its stages, which are those of the one tile when nothing is cut.
    stages: tuple[Stage, ...]
    vector: Work
    matmuls: tuple[Node, ...]
    gathers: tuple[Node, ...]
    tiled: tuple[int, ...]
    # Those of them that the first stage waits for; the others come in while it works.
    early: frozenset[int]
    # Values that take registers, those that take VMEM, and those that may: how many times the bytes of each kind.
    held: tuple[tuple[_Held, int], ...]
    kept: tuple[tuple[_Held, int], ...]
    stored: tuple[tuple[_Held, int], ...]


@dataclass(frozen=True, slots=True)
class _Held:
    """A value's extents, the axes of it that run with a class of the grid (axis, class, scale), its padding."""

    extents: tuple[int, ...]
    axes: tuple[tuple[int, int, int], ...]
    element_bytes: int
    whole_bytes: int

    def tile(self, tiles: dict[int, int]) -> list[int]:
        """Extents of one tile."""
        shape = list(self.extents)
        for axis, cls, scale in self.axes:
            if cls in tiles:
                shape[axis] = scale * tiles[cls]
        return shape

    def padded_bytes(self, tiles: dict[int, int]) -> int:
        """Bytes in VMEM of one tile."""
        return padded_size(self.tile(tiles), self.element_bytes)


def _held(f: Form, v: int) -> _Held:
    t = f.body.types[v]
    axes = tuple(
        (i, f.cuts.of[v, i], f.cuts.classes[f.cuts.of[v, i]].scales[v, i])
        for i in range(t.rank)
        if f.cuts.of.get((v, i)) in f.grid_classes
    )
    return _Held(tuple(map(int, t.shape)), axes, element_bytes(t.dtype), padded_bytes(t.shape, t.dtype))


@lru_cache(maxsize=4096)
def choose(body: Graph, chip: Chip) -> Choice | Refusal:
    """The cheapest grid of those tried that fits in VMEM, or why none does."""
    if _windows(body) > 1:
        return Refusal("two_heavy_ops", "a convolution with a window is not cut along its image: one to a kernel")
    f = form(body, feeds(chip))
    total = _totals(f, chip)
    priced = sorted(
        ((_price(f, total, grid, chip), i, grid) for i, grid in enumerate(_grids(f, total))),
        key=lambda row: (row[0].seconds, row[1]),
    )
    half, whole = vmem_half(chip), chip.mem.vmem_bytes
    shared = next((row for row in priced if row[0].fast_bytes <= half or _fits(f, total, row[2], half)), None)
    if shared is not None and shared is priced[0]:
        return Choice(shared[2], regions(f, shared[2]), shared[0], False)
    alone = next((row for row in priced if _fits(f, total, row[2], whole)), None)
    if shared is not None and (alone is None or shared[0].seconds <= SOLO_GAIN * alone[0].seconds):
        return Choice(shared[2], regions(f, shared[2]), shared[0], False)
    if alone is not None:
        return Choice(alone[2], regions(f, alone[2]), alone[0], True)
    slabs = _slabs(body, chip)
    if slabs:
        return Choice((), (), _together([c.cost for _, c in slabs]), any(c.solo for _, c in slabs), False, slabs)
    if can_stream(body):
        return Choice((), (), streamed_cost(body, chip), False, True)
    least = min((fast_bytes(f, regions(f, grid)) for _, _, grid in priced), default=0)
    return Refusal(
        "capacity", f"the smallest tiles need {least / 2**20:.1f} MiB of VMEM, the chip has {chip.mem.vmem_mib:g} MiB"
    )


def _slabs(body: Graph, chip: Chip) -> tuple[tuple[Slab, Choice], ...]:
    """The fewest slabs, by powers of two, that each fit; none when the body is not around an image or none fit."""
    image = image_of(body)
    count = 2
    while image is not None and count <= image.rows:
        rows = -(-image.rows // count)
        middle = choose(slab(image, image.rows // 2 - rows // 2, image.rows // 2 - rows // 2 + rows).body, chip)
        if isinstance(middle, Choice) and not middle.streamed:
            found = [(s, choose(s.body, chip)) for s in slabs_of(image, rows)]
            fit = tuple((s, c) for s, c in found if isinstance(c, Choice) and not c.streamed)
            if len(fit) == len(found):
                return fit
        count *= 2
    return ()


def _together(costs: Sequence[KernelCost]) -> KernelCost:
    """The cost of kernels one after another."""
    units = {u: sum(c.units.get(u, 0.0) for c in costs) for u in costs[0].units}
    read, written = sum(c.bytes_read for c in costs), sum(c.bytes_written for c in costs)
    return KernelCost(sum(c.seconds for c in costs), units, read, written, max(c.fast_bytes for c in costs))


@lru_cache(maxsize=4096)
def _totals(f: Form, chip: Chip) -> _Totals:
    found = stages(f.body, dict.fromkeys(f.body.types, 1))
    vector = ZERO
    for s in found:
        vector += vector_work(s.body, chip) if s.body is not None else _lane_work(f, s, chip)
    read = {k.value for s in found for k in s.reads}
    inputs = {n.out for n in f.body.inputs}
    waits = ({k.value for k in s.reads} & inputs for s in found)
    return _Totals(
        len({s.level for s in found}),
        found,
        vector,
        tuple(s.node for s in found if s.kind == "matmul" and s.node is not None),
        tuple(s.node for s in found if s.kind == "gather" and s.node is not None),
        tuple(n.out for n in f.body.inputs if n.out in read and n.type.size),
        frozenset(next((w for w in waits if w), set[int]())),
        _counted((_held(f, n.outs[0]), 1) for n in f.body.nodes if n.op not in LITERALS and n.types[0].size),
        _counted(
            (_held(f, v), 1) for v, t in f.body.types.items() if t.size and (v in f.body.outputs or v in read & inputs)
        ),
        _counted(_stored(f)),
    )


def _counted(values: Iterable[tuple[_Held, int]]) -> tuple[tuple[_Held, int], ...]:
    """Each kind of value once: most of a body's are alike."""
    times: dict[_Held, int] = {}
    for value, n in values:
        times[value] = times.get(value, 0) + n
    return tuple(times.items())


def _lane_work(f: Form, s: Stage, chip: Chip) -> Work:
    """Rotations of a matrix product whose operands' or sums' rows start within a row of lanes."""
    fed = _fed(f, s.node) if s.node is not None else BF16
    boxes = [(o.box, fed) for o in s.operands for _ in o.keys]
    boxes += [(s.sums, F32)] if s.sums is not None else []
    work = ZERO
    for box, dtype in boxes:
        work += lane_work(box.strides[:-2], box.offset, box.shape, dtype, chip)
    return work


def _stored(f: Form) -> Iterable[tuple[_Held, int]]:
    """Values that stages may keep in VMEM: as they are, as f32 sums beside that, or in bf16 parts."""
    kept = {*f.body.outputs, *(a for n in f.body.nodes if n.op == "matmul" for a in n.args)}
    for n in f.body.nodes:
        if n.op in (*LITERALS, *VIEWS) and n.outs[0] not in kept:
            continue
        t = n.types[0]
        yield _held(f, n.outs[0]), 5 if t.dtype == F32 and t.rank > 1 else 3 if n.op == "matmul" else 1


# ---- candidates ----------------------------------------------------------------------------------


def _grids(f: Form, total: _Totals) -> Iterable[tuple[Cut, ...]]:
    """Grids worth pricing: none, each class alone, and the classes of matrix products' rows and columns in pairs."""
    yield ()
    lengths = {i: _lengths(f, i) for i in f.grid_classes}
    for i, found in lengths.items():
        yield from ((Cut(i, n),) for n in found)
    pairs = [(i, j) for i in _main_classes(f, total) for j in _main_classes(f, total) if i != j]
    for i, j in pairs:
        for a in lengths[i]:
            yield from ((Cut(i, a), Cut(j, b)) for b in lengths[j])


def _main_classes(f: Form, total: _Totals) -> list[int]:
    """The classes that the largest tensor's axes run with, at most three, the longest first."""
    sizes = sorted((-f.body.types[v].size, v) for v in (*f.body.outputs, *total.tiled))[:3]
    found: dict[int, int] = {}
    for _, v in sizes:
        for axis, extent in enumerate(f.body.types[v].shape):
            cls = f.cuts.of.get((v, axis))
            if cls in f.grid_classes:
                found[cls] = max(found.get(cls, 0), int(extent))
    return sorted(found, key=lambda c: (-found[c], c))[:3]


def _lengths(f: Form, index: int) -> list[int]:
    """Tile lengths of a class in units: near the usual element counts and byte sizes, divisors preferred."""
    cls = f.cuts.classes[index]
    scale = max(cls.scales.values())
    bytes_a_unit = max(
        1,
        sum(
            f.body.types[v].nbytes
            for v in {v for v, _ in cls.scales}
            if v in f.body.outputs or f.body.producers[v].op == "input"
        )
        // cls.steps,
    )
    wanted = [n // scale for n in LENGTHS] + [n // bytes_a_unit for n in TILE_BYTES]
    return sorted({_divisor_near(cls.steps, n) for n in wanted if 1 <= n < cls.steps})


def _divisor_near(steps: int, wanted: int) -> int:
    """The greatest divisor of `steps` in (wanted / 2, wanted], or `wanted` itself."""
    for n in range(wanted, wanted // 2, -1):
        if steps % n == 0:
            return n
    return wanted


# ---- price ---------------------------------------------------------------------------------------


def _price(f: Form, total: _Totals, grid: tuple[Cut, ...], chip: Chip) -> KernelCost:
    """The expected cost of `grid`. `fast_bytes` is an upper bound on the VMEM it needs."""
    tiles = {c.index: c.tile for c in grid}
    counts = {c.index: ceil(f.cuts.classes[c.index].steps / c.tile) for c in grid}
    steps = prod(counts.values())
    read, first = _reads(f, total, grid, tiles, counts, chip)
    written = _writes(f, tiles, counts, chip)
    gathers = [_gather(f, n, chip) for n in total.gathers]
    read += sum(hbm for hbm, _ in gathers) * chip.hbm_bytes_per_cycle
    mxu = _mxu_cycles(f, total, tiles, counts, chip)
    padding = _padding(total, tiles, counts)
    units = {"mxu": mxu, **{u: c * padding for u, c in unit_cycles(total.vector, chip).items()}}
    copies = (read + written) / chip.hbm_bytes_per_cycle
    compute = max(units.values()) if steps > 1 else mxu + max(units[u] for u in units if u != "mxu")
    latency = total.vector.latency + (chip.mxu.latency_cycles if mxu else 0)
    # The stages after a gather wait for its last row, one descriptor at a time.
    waits = sum(span + chip.dma.read_setup_cycles for _, span in gathers)
    fill = chip.dma.read_setup_cycles * (read > 0) + first / chip.hbm_bytes_per_cycle
    drain = (compute / steps if steps > 1 else 0) + chip.dma.write_setup_cycles * (written > 0)
    drain += written / steps / chip.hbm_bytes_per_cycle
    rest = copies - first / chip.hbm_bytes_per_cycle - written / steps / chip.hbm_bytes_per_cycle
    # A step's copies are asked for one step ahead: part of their setup shows in every step.
    rest += SETUP_SHARE * chip.dma.read_setup_cycles * (steps - 1) if read else 0
    others = sum(units.values()) - max(units.values())
    steady = max(rest, compute) + COPY_CONTENTION * min(rest, compute) + CONTENTION * others
    cycles = fill + steady + drain + waits + latency * (steps if steps < 4 else 4)
    busy = {u: c / chip.hz for u, c in units.items()} | {"hbm": copies / chip.hz}
    return KernelCost(cycles / chip.hz, busy, int(read), written, _upper_bytes(total, tiles))


def _tile_size(f: Form, v: int, tiles: dict[int, int]) -> tuple[int, ...]:
    return tuple(tile_extent(v, i, int(d), f.cuts, tiles) for i, d in enumerate(f.body.types[v].shape))


def _reads(
    f: Form, total: _Totals, grid: tuple[Cut, ...], tiles: dict[int, int], counts: dict[int, int], chip: Chip
) -> tuple[float, float]:
    """(bytes copied in, bytes of the tiles that the first stage waits for), in whole granules.

    A tile is copied again when an outer cut moves on.
    """
    read = first = 0.0
    for v in total.tiled:
        carried = f.cuts.carried(v, f.body.types[v].rank)
        positions = [i for i, c in enumerate(grid) if c.index in carried]
        copies = prod(counts[c.index] for c in grid[: positions[-1] + 1]) if positions else 1
        tile = _occupied(_tile_size(f, v, tiles), f.origins[v].box.strides, f.body.types[v].dtype, chip)
        read += tile * copies
        first += tile if v in total.early else 0
    return read, first


def _occupied(shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, chip: Chip) -> int:
    """Bytes of main memory time that a copy of such a box takes: its runs in whole granules."""
    number, run = contiguous_runs(shape, strides, element_bytes(dtype))
    return number * -(-run // chip.dma.granule_bytes) * chip.dma.granule_bytes


def _writes(f: Form, tiles: dict[int, int], counts: dict[int, int], chip: Chip) -> int:
    """Bytes copied out, in whole granules."""
    steps = prod(counts.values())
    total = 0
    for v in dict.fromkeys(f.body.outputs):
        t = f.body.types[v]
        if t.size:
            total += steps * _occupied(_tile_size(f, v, tiles), dense(t.shape, t.dtype).strides, t.dtype, chip)
    return total


def _gather(f: Form, n: Node, chip: Chip) -> tuple[float, float]:
    """(cycles of HBM, cycles in all) of a gather of rows."""
    table = f.origins[n.args[0]].box
    row = Box((1, *table.shape[1:]), table.strides).at("hbm", Address(0), n.type.dtype)
    return gather_cycles(f.body.types[n.args[1]].size, row, chip)


def _mxu_cycles(f: Form, total: _Totals, tiles: dict[int, int], counts: dict[int, int], chip: Chip) -> float:
    """Cycles of the matrix units over the whole grid."""
    size, units = chip.mxu.size, chip.mxu.count
    cycles = 0.0
    for n in total.matmuls:
        left, out = _tile_size(f, n.args[0], tiles), _tile_size(f, n.out, tiles)
        flat = f.body.types[n.args[1]].rank == 2
        rows = prod(out[:-1]) if flat else out[-2]
        columns = ceil(out[-1] / size) * (1 if flat else prod(out[:-2]))
        order = passes(f.body.types[n.args[0]].dtype, str(n.attr("precision"))) or ((0, 0),)
        dtype = _fed(f, n)
        turn = max(mul_cycles(rows, dtype, chip), push_cycles(dtype, chip) + STAGING_CYCLES)
        turns = ceil(columns / units) * ceil(left[-1] / size) * len(order)
        carried = f.cuts.carried(n.out, f.body.types[n.out].rank)
        # Between tiles a stream drains: the last rows come out while the next weights go in.
        bubble = chip.mxu.latency_cycles + push_cycles(dtype, chip)
        cycles += (turn * turns + bubble) * prod(c for i, c in counts.items() if i in carried)
    return cycles


def _padding(total: _Totals, tiles: dict[int, int], counts: dict[int, int]) -> float:
    """How much more the registers of all tiles hold than those of the whole tensors: short tiles are padded."""
    if not tiles:
        return 1.0
    cut = whole = 0
    for value, times in total.held:
        number = times * prod(counts[cls] for _, cls, _ in value.axes if cls in counts)
        cut += number * value.padded_bytes(tiles)
        whole += times * value.whole_bytes
    return cut / whole if whole else 1.0


def _fed(f: Form, n: Node) -> DType:
    """The dtype that enters the unit for matmul `n`: its own, or the bf16 parts of f32."""
    own = f.body.types[n.args[0]].dtype
    return BF16 if own == F32 else own


def _upper_bytes(total: _Totals, tiles: dict[int, int]) -> int:
    """More VMEM than any stages of this body take: every value in all its slots."""
    return (1 + total.levels) * sum(times * value.padded_bytes(tiles) for value, times in total.stored)


def _windows(body: Graph) -> int:
    """Convolutions of `body` that gather more than one tap into a matrix."""
    found = 0
    for n in body.nodes:
        if is_composite(n):
            found += _windows(n.regions[0])
        elif n.op == "conv":
            w, groups = logical_weights(body.types[n.args[1]].shape, dict(n.attrs)), n.attr("groups")
            assert isinstance(groups, int)
            found += prod(w[2:]) > 1 and not is_depthwise(w, groups)
    return found


def _lower_bytes(total: _Totals, tiles: dict[int, int]) -> int:
    """Less VMEM than any stages of this body take: a slot for each tile that is copied in or out."""
    return sum(times * value.padded_bytes(tiles) for value, times in total.kept)


def _fits(f: Form, total: _Totals, grid: tuple[Cut, ...], limit: int) -> bool:
    if _lower_bytes(total, {c.index: c.tile for c in grid}) > limit:
        return False
    if grid:
        return fast_bytes(f, regions(f, grid)) <= limit
    (only,) = regions(f, ())
    tile = TileBody(f.body, dict.fromkeys(f.body.types, only.steps), total.stages)
    return allocate(f, only, tile, Room(0, 0), "")[1] <= limit


def vmem_of(body: Graph, choice: Choice, chip: Chip) -> int:
    """Bytes of VMEM that a kernel takes as chosen, exactly."""
    parts = [(s.body, c) for s, c in choice.slabs] or [(body, choice)]
    return max(fast_bytes(form(b, feeds(chip)), c.regions) for b, c in parts)


def fast_bytes(f: Form, parts: Iterable[Region]) -> int:
    """Bytes of VMEM that a kernel over these regions takes, exactly."""
    return max((allocate(f, r, tile_body(f, r), Room(0, 0), "")[1] for r in parts), default=0)
