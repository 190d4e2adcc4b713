"""What a well-formed program is. `verify` returns every breach as a sentence.

- Every loop variable of an address or a condition is one of a loop around it; no loop has the
  variable of a loop around it; kernels lie in no other kernel.
- Every view lies within one buffer of its memory for all values of its loops, its strides are not
  negative, and it has one stride an axis.
- Push, mul and pop work on VMEM, a vector instruction on VMEM or on HBM alone; a copy has one type on
  both sides; a gather's index is i32 in VMEM with one entry a row.
- A tile is at most size x size and of a dtype the units multiply; units exist; accumulators only
  where the chip has them and within their number.
- A body is a well-formed graph whose inputs and outputs have the types of the views.
- Buffers lie within their memories; those of inputs, params and outputs have a type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...compiler.graph import TensorType
from ...compiler.graph import verify as verify_graph
from ...compiler.graph.dtypes import BF16, F32, I32
from .chip import Chip
from .isa import (
    Condition,
    DmaGather,
    DmaStart,
    DmaWait,
    Instruction,
    KernelBlock,
    Loop,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Vector,
    View,
    When,
)
from .regions import hull, loop_range, narrowed, view_extent
from .text import show_instruction

Ranges = Mapping[str, tuple[int, int]]


def verify(program: MxuProgram, chip: Chip) -> list[str]:
    """Every broken invariant of `program` on `chip`; empty when it is well formed."""
    check = _Check(program, chip)
    check.buffers()
    check.stream(program.stream, {}, "")
    return check.faults


@dataclass(slots=True)
class _Check:
    program: MxuProgram
    chip: Chip
    faults: list[str] = field(default_factory=list[str])
    bodies: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    # The conditions around, of those on terms with a modulus, which ranges cannot say.
    periodic: tuple[Condition, ...] = ()

    def buffers(self) -> None:
        sizes = {"vmem": self.chip.mem.vmem_bytes, "hbm": self.chip.mem.hbm_bytes}
        for b in self.program.buffers:
            if b.memory not in sizes:
                self.faults.append(f"buffer {b.name} lies in {b.memory}, which is no memory")
            elif b.address < 0 or b.address + b.nbytes > sizes[b.memory]:
                self.faults.append(
                    f"buffer {b.name} ends at byte {b.address + b.nbytes} of {sizes[b.memory]} of {b.memory}"
                )
            if b.kind in ("input", "param", "output") and b.type is None:
                self.faults.append(f"{b.kind} buffer {b.name} has no type")
        for memory in sizes:
            own = {(b.address, b.address + b.nbytes) for b in self.program.buffers if b.memory == memory}
            self.spans[memory] = sorted(own)

    def stream(self, stream: Sequence[Instruction], ranges: Ranges, kernel: str) -> None:
        for i in stream:
            if isinstance(i, KernelBlock):
                if kernel:
                    self.faults.append(f"kernel {i.name} lies in kernel {kernel}")
                self.stream(i.body, ranges, i.name)
            elif isinstance(i, Loop):
                self.loop(i, ranges, kernel)
            else:
                self.faults += (f"{_where(kernel, i)}: {fault}" for fault in self.instruction(i, ranges))
                inside = narrowed(ranges, i.conditions) if isinstance(i, When) else None
                if isinstance(i, When) and inside is not None:
                    before = self.periodic
                    self.periodic = (*before, *(c for c in i.conditions if c.term.mod))
                    self.stream(i.body, inside, kernel)
                    self.periodic = before

    def loop(self, i: Loop, ranges: Ranges, kernel: str) -> None:
        if i.var in ranges:
            self.faults.append(f"{_where(kernel, i)}: a loop around it has the same variable")
        if i.stop > i.start:
            self.stream(i.body, {**ranges, i.var: loop_range(i)}, kernel)

    def instruction(self, i: Instruction, ranges: Ranges) -> Iterator[str]:
        match i:
            case When(conditions, _):
                yield from (f for c in conditions for f in _condition(c, ranges))
            case DmaStart(dst, src, _):
                yield from self.views((dst, src), ranges)
                if dst.dtype != src.dtype or dst.shape != src.shape:
                    yield "the two sides of a copy have different types"
            case DmaGather():
                yield from self.gather(i, ranges)
            case Push() | Mul() | Pop():
                yield from self.matrix(i, ranges)
            case Vector():
                yield from self.vector(i, ranges)
            case DmaWait() | Loop() | KernelBlock():
                return

    def gather(self, i: DmaGather, ranges: Ranges) -> Iterator[str]:
        yield from self.views((i.dst, i.table, i.index), ranges)
        if i.index.memory != "vmem" or i.index.dtype != I32 or i.index.shape != i.dst.shape[:1]:
            yield f"the index is not i32[{i.dst.shape[0] if i.dst.shape else ''}] in VMEM"
        if (
            not i.table.shape
            or i.table.shape[0] < 1
            or i.table.shape[1:] != i.dst.shape[1:]
            or i.table.dtype != i.dst.dtype
        ):
            yield "rows of the table and of the destination have different types"

    def matrix(self, i: Push | Mul | Pop, ranges: Ranges) -> Iterator[str]:
        view = i.tile if isinstance(i, Push) else i.lhs if isinstance(i, Mul) else i.dst
        mxu = self.chip.mxu
        yield from self.views((view,), ranges)
        if not 0 <= i.unit < mxu.count:
            yield f"there is no matrix unit {i.unit}; the chip has {mxu.count}"
        if view.memory != "vmem" or len(view.shape) != 2 or 0 in view.shape:
            yield "a matrix unit works on boxes of two axes in VMEM"
            return
        if isinstance(i, Pop):
            if i.add and view.dtype not in (F32, I32):
                yield f"sums are f32 or i32, not {view.dtype}"
            elif view.dtype not in (F32, I32, BF16):
                yield f"results are popped as f32, bf16 or i32, not {view.dtype}"
        elif not mxu.multiplies(view.dtype):
            yield f"the matrix units do not multiply {view.dtype}"
        limits = (mxu.size, mxu.size) if isinstance(i, Push) else (view.shape[0], mxu.size)
        if view.shape[0] > limits[0] or view.shape[1] > limits[1]:
            yield f"{list(view.shape)} is larger than the array of {mxu.size}"
        if not isinstance(i, Push) and i.acc is not None and not 0 <= i.acc <= mxu.accumulator_rows - view.shape[0]:
            yield f"accumulator rows {i.acc} to {i.acc + view.shape[0] - 1} of {mxu.accumulator_rows}"
        if isinstance(i, Mul) and i.add and i.acc is None:
            yield "only a product into accumulators is added to what they hold"

    def vector(self, i: Vector, ranges: Ranges) -> Iterator[str]:
        yield from self.views((*i.inputs, *i.outputs), ranges)
        if len({v.memory for v in (*i.inputs, *i.outputs)}) > 1:
            yield "vector units work on VMEM, or from and to HBM alone"
        if id(i.body) not in self.bodies:
            self.bodies[id(i.body)] = [f"in the body: {f}" for f in verify_graph(i.body)]
        yield from self.bodies[id(i.body)]
        takes, gives = tuple(n.type for n in i.body.inputs), i.body.output_types
        for word, types, views in (("takes", takes, i.inputs), ("gives", gives, i.outputs)):
            seen = tuple(TensorType(v.dtype, v.shape) for v in views)
            if types != seen:
                yield f"the body {word} {_types(types)}, the views are {_types(seen)}"

    def views(self, views: Sequence[View], ranges: Ranges) -> Iterator[str]:
        for v in views:
            yield from self.view(v, ranges)

    def view(self, v: View, ranges: Ranges) -> Iterator[str]:
        unknown = sorted({t.loop for t in v.address.terms} - set(ranges))
        if unknown:
            yield f"{', '.join(unknown)} is no loop around it"
            return
        if len(v.strides) != len(v.shape) or min((*v.strides, *v.shape), default=0) < 0:
            yield f"strides {list(v.strides)} do not fit shape {list(v.shape)}"
            return
        low, high = hull(v.address, view_extent(v).length, ranges, self.periodic)
        if high > low and not any(a <= low and high <= b for a, b in self.spans.get(v.memory, [])):
            yield f"bytes {low} to {high - 1} of {v.memory} lie in no buffer"


def _condition(c: Condition, ranges: Ranges) -> Iterator[str]:
    if c.term.loop not in ranges:
        yield f"{c.term.loop} is no loop around it"


def _types(types: Sequence[TensorType]) -> str:
    return f"({', '.join(map(str, types))})"


def _where(kernel: str, i: Instruction) -> str:
    return f"{kernel + ': ' if kernel else ''}`{show_instruction(i)}`"
