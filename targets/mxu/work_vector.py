"""Vector work of a body: how its ops fall on load, store, ALU, transcendental and cross-lane slots.

A body is streamed register by register. A reduction, transpose or relayout is a barrier: what was
computed before it and is read after it is stored and loaded again, so levels of barriers count the
passes over the data. A value reduced along lanes keeps its rows along sublanes (`col`). Must not
know time or programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Literal

from ...compiler.graph import OPS, DType, Graph, Node, TensorType, expand, is_composite
from ...compiler.graph.ops.movement import ints
from .chip import Chip
from .work_rows import ROWS
from .work_slots import Shape, Work, op_slots, vregs

# row: last axis along lanes. col: last axis along sublanes, the same in every lane. rep: as row with a last axis of
# 1, the same in every lane.
Layout = Literal["row", "col", "rep"]


@dataclass(slots=True)
class Value:
    type: TensorType
    layout: Layout = "row"
    # Barriers between the inputs and this value; a value made by a barrier waits in VMEM.
    level: int = 0
    stored: bool = False
    # free: remade at each use (a splat, an index).
    free: bool = False
    is_input: bool = False
    loads: set[int] = field(default_factory=set[int])

    @property
    def physical(self) -> Shape:
        return (*self.type.shape, 1) if self.layout == "col" else self.type.shape


def body_work(body: Graph, chip: Chip) -> Work:
    """Work of `body` with its composites expanded."""
    graph = expand(body) if any(map(is_composite, body.nodes)) else body
    return Body(chip).run(graph)


def scalar_ops(body: Graph, chip: Chip) -> tuple[str, ...]:
    """Ops of `body` that keep the scalar core busy, each once, in order."""
    walk = Body(chip)
    walk.run(expand(body) if any(map(is_composite, body.nodes)) else body)
    return tuple(walk.slow)


class Body:
    """The walk over one body; `run` gives its work. Its other methods are for the handlers of ops."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.values: dict[int, Value] = {}
        self.load = self.store = self.alu = self.eup = self.xlu = self.scalar = 0.0
        self.latency = chip.vpu.load_latency_cycles + chip.vpu.latency_cycles
        self.depth: dict[str, int] = {}
        self.streams = True
        # Ops that keep the scalar core busy.
        self.slow: dict[str, None] = {}

    def run(self, graph: Graph) -> Work:
        for node in graph.nodes:
            self._node(node)
        for v in dict.fromkeys(graph.outputs):
            self._output(self.values[v])
        if any(t.dtype.bits == 64 and t.dtype.is_float for t in graph.types.values()):
            self._wide(graph)
        latency = self.latency + sum(self.depth.values())
        return Work(self.load, self.store, self.alu, self.eup, self.xlu, self.scalar, latency, self.streams)

    def _node(self, node: Node) -> None:
        handler = _HANDLERS.get(node.op) or (_elementwise if "elementwise" in OPS[node.op].traits else _other)
        before = self.scalar
        handler(self, node, [self.values[a] for a in node.args])
        if self.scalar > before and node.op not in ("loop", "while", "cond"):
            self.slow[node.op] = None

    def put(
        self,
        node: Node,
        layout: Layout = "row",
        level: int = 0,
        *,
        stored: bool = False,
        free: bool = False,
        is_input: bool = False,
    ) -> Value:
        """Notes the node's results, all of one kind; the first is returned."""
        for v, t in zip(node.outs, node.types, strict=True):
            self.values[v] = Value(t, layout, level, stored, free, is_input)
        return self.values[node.outs[0]]

    def count(self, value: Value, bits: int = 32) -> int:
        return vregs(value.physical, bits, self.chip)

    def width(self, value: Value) -> int:
        """Registers in which `value` is computed with."""
        d = value.type.dtype
        native = d.bits >= 32 or (d.bits == 16 and d.is_float and self.chip.vpu.native_bf16 and d.name == "bf16")
        return self.count(value, d.bits if native else 32)

    def narrow(self, dtype: DType) -> bool:
        """Whether `dtype` is unpacked to 32 bits for arithmetic and packed again after it."""
        return dtype.bits < 32 and not (dtype.name == "bf16" and self.chip.vpu.native_bf16) and dtype.name != "bool"

    def fold_slots(self, kind: str, dtype: DType) -> float:
        """ALU issues by which a register joins a reduction of this kind."""
        if kind in ("argmax", "argmin"):
            return 3  # a comparison and two selections
        return self.chip.vector.alu["sum"] if kind in ("sum", "prod") and dtype.is_float else 1

    def read(self, args: list[Value], level: int | None = None) -> int:
        """The level at which `args` meet; loads those that come from VMEM, once a level."""
        at = max((a.level for a in args), default=0) if level is None else level
        for a in args:
            in_registers = a.free or (a.level == at and not a.stored and not a.is_input)
            if in_registers or at in a.loads:
                continue
            a.loads.add(at)
            if not a.stored and not a.is_input:
                self.save(a)
            self.load += self.count(a, a.type.dtype.bits)
            if a.type.dtype.bits < 32 and not (a.type.dtype.name == "bf16" and self.chip.vpu.native_bf16):
                self.alu += self.chip.vector.alu["convert"] * self.count(a)
        return at

    def save(self, value: Value) -> None:
        value.stored = True
        self.store += self.count(value, value.type.dtype.bits)
        self.depth["spill"] = self.depth.get("spill", 0) + self.chip.vpu.store_latency_cycles

    def barrier(self, node: Node, level: int, layout: Layout = "row") -> Value:
        """The result of a barrier: written to VMEM, read from there at later levels."""
        made = self.put(node, layout, level + 1)
        self.save(made)
        return made

    def cross(self, registers: float, latency: int, kind: str) -> None:
        """Registers through the cross-lane units; passes of one kind overlap but for barriers' own waits."""
        self.xlu += registers
        if registers:
            self.depth[kind] = self.depth.get(kind, 0) + latency

    def rotate(self, registers: float) -> None:
        self.xlu += registers
        self.alu += registers
        if registers:
            self.depth["rotate"] = self.chip.xlu.rotate_latency_cycles

    def relayout(self, value: Value) -> None:
        """Rows along sublanes become rows along lanes or back: a transpose of its registers."""
        self.cross(
            max(self.count(value), vregs((*value.type.shape, 1), 32, self.chip)),
            self.chip.xlu.transpose_latency_cycles,
            "transpose",
        )

    def _output(self, value: Value) -> None:
        if value.layout == "col" and value.type.rank:
            self.relayout(value)
        if value.is_input:
            self.read([value])
        if not value.stored:
            self.store += vregs(value.type.shape, value.type.dtype.bits, self.chip)
            value.stored = True

    def _wide(self, graph: Graph) -> None:
        """f64 has no vector arithmetic: each element of each f64 result is a scalar routine."""
        each = self.chip.vector.scalar_cycles_per_element
        self.scalar += each * sum(n.types[0].size for n in graph.nodes if n.args and n.types[0].dtype.name == "f64")


# ---- elementwise ---------------------------------------------------------------------------------


def _elementwise(b: Body, node: Node, args: list[Value]) -> None:
    level = b.read(args)
    wide = [a for a in args if not a.free]
    layouts = {a.layout for a in wide}
    if len(layouts) > 1 and node.types[0].rank:
        for a in wide:
            if a.layout == "col":
                b.relayout(a)
    layout: Layout = wide[0].layout if len(layouts) == 1 and wide else "row"
    made = b.put(node, layout, level, free=bool(args) and not wide)
    dtype = args[0].type.dtype if node.op != "select" else args[1].type.dtype
    alu, eup = op_slots(node.op, dtype, b.chip)
    if node.op == "convert":
        _convert(b, made, args[0])
        return
    # A comparison is as wide as what it compares.
    compared = 32 if b.narrow(dtype) else max(dtype.bits, 16)
    registers = vregs(made.physical, compared, b.chip) if made.type.dtype.name == "bool" else b.width(made)
    factor = 4 if dtype.bits == 64 else 1
    b.alu += alu * registers * factor
    b.eup += eup * registers
    if b.narrow(made.type.dtype):
        b.alu += b.chip.vector.alu["convert"] * registers  # the op's own rounding
    if eup:
        b.depth["eup"] = b.chip.eup.latency_cycles


def _convert(b: Body, made: Value, source: Value) -> None:
    """Between 32 bits and a type that is unpacked anyway, widening is free: its load unpacked it."""
    if b.narrow(source.type.dtype) and made.type.dtype.bits == 32:
        return
    b.alu += b.chip.vector.alu["convert"] * b.count(made)


# ---- leaves and views ----------------------------------------------------------------------------


def _leaf(b: Body, node: Node, args: list[Value]) -> None:
    b.put(node, is_input=True)


def _full(b: Body, node: Node, args: list[Value]) -> None:
    b.put(node, free=True)


def _iota(b: Body, node: Node, args: list[Value]) -> None:
    b.alu += b.count(b.put(node))


def _alias(b: Body, node: Node, source: Value, layout: Layout, level: int) -> None:
    """A view that costs nothing: where it lies and how often it is loaded is its source's matter."""
    made = b.put(node, layout, level, free=source.free, is_input=source.is_input, stored=source.stored)
    made.loads = set(source.loads)


def _broadcast(b: Body, node: Node, args: list[Value]) -> None:
    (x,), out = args, node.types[0]
    dims = node.attr("dims")
    assert isinstance(dims, tuple)
    if x.free or not x.type.rank:
        b.read(args)
        b.put(node, level=x.level, free=True)
        return
    level = b.read(args)
    last = dims[-1]
    onto_lanes = last == out.rank - 1
    if x.layout == "row" and onto_lanes:
        if x.type.shape[-1] == 1 and out.shape[-1] != 1:
            b.cross(b.count(x), b.chip.xlu.rotate_latency_cycles, "rotate")
        elif x.type.rank < 2 or x.type.shape[-2] == 1:
            b.alu += b.count(x)
    elif (x.layout == "col" and (onto_lanes or last != out.rank - 2)) or x.layout == "row":
        b.relayout(x)
    b.put(node, "row", level)


def _tiled_alike(old: Shape, new: Shape, chip: Chip) -> bool:
    """Whether registers of a shape are registers of the other: same lanes, and sublanes in whole registers."""
    (old_rows, old_lanes), (new_rows, new_lanes) = (1, 1, *old)[-2:], (1, 1, *new)[-2:]
    if old_lanes != new_lanes:
        return False
    step = chip.vpu.sublanes
    return old_rows == new_rows or (old_rows % step == 0 and new_rows % step == 0)


def _reshape(b: Body, node: Node, args: list[Value]) -> None:
    (x,), shape = args, node.types[0].shape
    layouts: tuple[Layout, ...] = ("col", "rep") if x.layout != "row" else ("row",)
    for layout in layouts:
        made = (*shape, 1) if layout == "col" else shape
        if (layout != "rep" or shape[-1:] == (1,)) and _tiled_alike(x.physical, made, b.chip):
            _alias(b, node, x, layout, x.level)
            return
    level = b.read(args)
    moved = max(b.count(x), vregs(shape, 32, b.chip))
    passes = 1 if x.type.shape[-1:] == shape[-1:] else 2  # sublanes only, or lanes and sublanes
    b.cross(passes * moved, b.chip.xlu.rotate_latency_cycles, "relayout")
    b.barrier(node, level)


def _transpose(b: Body, node: Node, args: list[Value]) -> None:
    (x,), perm = args, node.attr("perm")
    assert isinstance(perm, tuple)
    rank = len(perm)
    moving = [p for p in perm if x.type.shape[p] != 1]  # pyright: ignore[reportArgumentType, reportCallIssue]
    if list(perm) == list(range(rank)) or (moving == sorted(moving) and perm[-2:] == tuple(range(rank))[-2:]):  # type: ignore[type-var]
        _alias(b, node, x, x.layout, x.level)
        return
    b.streams = False
    if perm[-2:] == (rank - 2, rank - 1):
        _alias(b, node, x, x.layout if x.layout != "rep" else "row", x.level)
        return
    level = b.read(args)
    moved = max(b.count(x, x.type.dtype.bits), vregs(node.types[0].shape, node.types[0].dtype.bits, b.chip))
    swap = perm[-2:] == (rank - 1, rank - 2)
    b.cross(moved if swap or perm[-1] == rank - 1 else 2 * moved, b.chip.xlu.transpose_latency_cycles, "transpose")
    b.barrier(node, level)


def _slice(b: Body, node: Node, args: list[Value]) -> None:
    (x,) = args
    starts, steps = ints(node.attr("starts")), ints(node.attr("steps"))
    if x.layout == "col":
        starts, steps = (*starts, 0), (*steps, 1)
    units = (b.chip.vpu.sublanes, b.chip.vpu.lanes)
    off = sum(
        s % u != 0 or t != 1 for s, t, u in zip(starts[-2:], steps[-2:], units[2 - len(starts[-2:]) :], strict=True)
    )
    if not off:
        _alias(b, node, x, x.layout, x.level)
        return
    level = b.read(args)
    b.rotate(off * vregs((*node.types[0].shape, 1) if x.layout == "col" else node.types[0].shape, 32, b.chip))
    b.put(node, x.layout, level)


# ---- moves ---------------------------------------------------------------------------------------


def _concat(b: Body, node: Node, args: list[Value]) -> None:
    level, axis = b.read(args), node.attr("axis")
    assert isinstance(axis, int)
    made = b.put(node, level=level)
    from_last = node.types[0].rank - 1 - axis
    if from_last < 2:
        step = b.chip.vpu.lanes if from_last == 0 else b.chip.vpu.sublanes
        if any(a.type.shape[axis] % step for a in args[:-1]):
            b.rotate(b.count(made))
    for a in args:
        if a.layout == "col":
            b.relayout(a)
    b.streams &= axis == node.types[0].rank - 1


def _pad(b: Body, node: Node, args: list[Value]) -> None:
    level, low = b.read(args), node.attr("low")
    assert isinstance(low, tuple)
    made = b.put(node, level=level)
    b.alu += b.count(made)
    units = (b.chip.vpu.sublanes, b.chip.vpu.lanes)
    if any(n % u for n, u in zip(low[-2:], units[2 - len(low[-2:]) :], strict=True)):  # pyright: ignore
        b.rotate(b.count(made))


def _reverse(b: Body, node: Node, args: list[Value]) -> None:
    level = b.read(args)
    made = b.put(node, level=level)
    b.rotate(b.count(made))
    b.streams = False


def _take(b: Body, node: Node, args: list[Value]) -> None:
    """Rows by scalar addresses; along lanes, element by element."""
    table, index = args
    level, axis, out = b.read([index]), node.attr("axis"), node.types[0]
    assert isinstance(axis, int)
    b.streams = False
    if axis == table.type.rank - 1:
        b.scalar += out.size * b.chip.vector.scalar_cycles_per_element
    else:
        rows = prod(table.type.shape[:axis]) * index.type.size
        b.scalar += rows * b.chip.issue.scalar_access_cycles
        b.load += rows * vregs(table.type.shape[axis + 1 :], out.dtype.bits, b.chip)
    b.depth["scalar"] = b.chip.issue.vector_to_scalar_cycles
    b.barrier(node, level)


# ---- reductions and contractions -----------------------------------------------------------------


def _reduce(b: Body, node: Node, args: list[Value]) -> None:
    x = args[0]
    level = b.read(args)
    axes = node.attr("axis") if node.op in ("argmax", "argmin") else node.attr("axes")
    gone = {axes} if isinstance(axes, int) else set(axes)  # type: ignore[arg-type]
    each = b.fold_slots(node.op.removeprefix("reduce_"), x.type.dtype)
    b.alu += each * b.count(x)
    last = x.type.rank - 1
    kept = tuple(d for i, d in enumerate(x.type.shape) if i not in gone)
    over_lanes = last in gone and x.layout != "col"
    if over_lanes:
        b.cross(vregs((*kept, 1), 32, b.chip), b.chip.xlu.reduce_latency_cycles, "reduce")
    sublane = last if x.layout == "col" else last - 1
    if sublane in gone:
        # Three halvings of the eight sublanes: a rotation and an op each.
        b.alu += 6 * vregs(kept if not over_lanes else (*kept, 1), 32, b.chip)
        if x.layout == "col":
            b.cross(b.count(x), b.chip.xlu.transpose_latency_cycles, "transpose")
    b.streams &= gone <= {last} and last > 0
    col = kept and (over_lanes or x.layout == "col") and sublane not in gone
    b.barrier(node, level, "col" if col else "row")


def _window(b: Body, node: Node, args: list[Value]) -> None:
    level, window = b.read(args), node.attr("window")
    assert isinstance(window, tuple)
    taps = prod(int(w) for w in window)  # type: ignore[arg-type]
    registers = vregs(node.types[0].shape, 32, b.chip)
    b.rotate(taps * registers)
    b.alu += taps * registers * (b.fold_slots(str(node.attr("op")), node.types[0].dtype) - 1)  # a rotation counts one
    b.streams = False
    b.barrier(node, level)


def _matmul(b: Body, node: Node, args: list[Value]) -> None:
    """On the vector units: for each step of K a lane broadcast of the left column, a product and a sum."""
    x, level, out = args[0], b.read(args), node.types[0]
    k = x.type.shape[-1]
    registers = vregs(out.shape, 32, b.chip)
    b.alu += 2 * k * registers
    b.cross(k * vregs((*out.shape[:-1], 1), 32, b.chip), b.chip.xlu.rotate_latency_cycles, "rotate")
    b.streams = False
    b.barrier(node, level)


def _conv(b: Body, node: Node, args: list[Value]) -> None:
    """On the vector units: a shifted window, a product and a sum for each tap of each input channel."""
    w, level, out = args[1], b.read(args), node.types[0]
    taps = prod(w.type.shape[1:])
    registers = vregs(out.shape, 32, b.chip)
    b.alu += 2 * taps * registers
    b.rotate(taps * registers)
    b.streams = False
    b.barrier(node, level)


def _loop(b: Body, node: Node, args: list[Value]) -> None:
    """Rounds depend on one another: each waits for the last one's results."""
    n = node.attr("n") if node.op == "loop" else node.attr("trips")
    assert isinstance(n, int)
    _regions(b, [_inside(b, r) for r in node.regions], max(n, 1) if node.op == "while" else n)
    _from_regions(b, node, args)


def _cond(b: Body, node: Node, args: list[Value]) -> None:
    """Either branch may run: the longer one is charged."""
    works = [_inside(b, r) for r in node.regions]
    _regions(b, [max(works, key=lambda w: (w.alu + w.load + w.store + w.xlu, w.scalar, w.latency))], 1)
    b.scalar += b.chip.issue.vector_to_scalar_cycles
    _from_regions(b, node, args)


def _inside(b: Body, region: Graph) -> Work:
    """The work of a region; what of it is slow is slow in `b` too."""
    walk = Body(b.chip)
    work = walk.run(expand(region) if any(map(is_composite, region.nodes)) else region)
    b.slow.update(walk.slow)
    return work


def _regions(b: Body, works: list[Work], n: int) -> None:
    for one in works:
        b.load += one.load * n
        b.store += one.store * n
        b.alu += one.alu * n
        b.eup += one.eup * n
        b.xlu += one.xlu * n
        b.scalar += n * (one.scalar + one.latency)
    b.scalar += n * b.chip.issue.loop_cycles


def _from_regions(b: Body, node: Node, args: list[Value]) -> None:
    b.streams = False
    b.put(node, level=b.read(args) + 1, stored=True)


def _bitcast(b: Body, node: Node, args: list[Value]) -> None:
    (x,) = args
    if x.type.dtype.bits == node.types[0].dtype.bits:
        _alias(b, node, x, x.layout, x.level)
        return
    level = b.read(args)
    b.cross(2 * max(b.count(x), vregs(node.types[0].shape, 32, b.chip)), b.chip.xlu.rotate_latency_cycles, "relayout")
    b.barrier(node, level)


def _other(b: Body, node: Node, args: list[Value]) -> None:
    """Nothing known (sorting, scattering, random bits): element by element."""
    level = b.read(args)
    b.scalar += sum(t.size for t in node.types) * b.chip.vector.scalar_cycles_per_element
    b.streams = False
    b.barrier(node, level)


_HANDLERS: dict[str, Callable[[Body, Node, list[Value]], None]] = {
    "input": _leaf, "param": _leaf, "constant": _leaf, "full": _full, "iota": _iota, "broadcast": _broadcast,
    "reshape": _reshape, "transpose": _transpose, "slice": _slice, "concat": _concat, "pad": _pad,
    "reverse": _reverse, "take": _take, "argmax": _reduce, "argmin": _reduce, "reduce_window": _window,
    "matmul": _matmul, "conv": _conv, "loop": _loop, "while": _loop, "cond": _cond, "bitcast_convert": _bitcast,
    **ROWS,
    **{f"reduce_{k}": _reduce for k in ("sum", "prod", "max", "min", "and", "or")},
}  # fmt: skip


def fill_cycles(work: Work) -> int:
    """Cycles from the first operand to the first result, rounded up."""
    return ceil(work.latency)
