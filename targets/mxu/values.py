"""Values of a program: real bytes at real addresses, instruction by instruction, without time.

HBM and VMEM are arrays of bytes beside a mask of those ever written. A hazard is an error that names
the kernel, the instruction and the loops' values, never a wrong number: a read of what a copy under
way writes, a write to what one reads or writes, a read of what nobody wrote, an address outside the
buffers, a matrix unit used out of turn. Copies take effect between start and wait; since touching
their bytes in between is an error, when exactly cannot be seen. Must not know time, plans or costs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from ...compiler.graph import Context, NDArray
from ...compiler.graph.evaluate import run_region
from ...compiler.plan.target import Buffer
from ...compiler.source import Diagnostic, DiagnosticError
from ...compiler.source.diagnostic import Note
from .chip import Chip
from .isa import (
    DmaGather,
    DmaStart,
    DmaWait,
    Instruction,
    KernelBlock,
    Loop,
    Memory,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Vector,
    View,
    When,
)
from .matrix_values import Misuse, UnitValues
from .numerics import MxuContraction
from .regions import holds, share_bytes, view_extent
from .text import show_instruction

# Resolved views kept for one view of the program; enough for every address of a rotating buffer.
PLACES = 1024


def run_program(program: MxuProgram, chip: Chip, buffers: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Outputs of `program` by name. `buffers` holds inputs and params by name, of their buffers' types.

    LookupError names one that is missing, ValueError one that does not fit. DiagnosticError (E09xx)
    tells of a hazard.
    """
    machine = _Machine(program, chip)
    for b in program.buffers:
        if b.kind == "index":
            assert b.type is not None
            machine.bind(b, {b.name: np.arange(b.type.size, dtype=np.int32)})
        if b.kind in ("input", "param"):
            machine.bind(b, buffers)
    machine.stream(program.stream)
    machine.settle()
    return {b.name: machine.output(b) for b in program.buffers if b.kind == "output"}


@dataclass(slots=True)
class _Place:
    """A view at one address: its elements, and which of their bytes have been written.

    `read_at` and `written_at` tell at which state of the copies under way it was last found free of them.
    """

    view: View
    low: int
    high: int
    array: NDArray
    written: NDArray
    # Bytes once written stay so: neither needs a second look.
    was_read: bool = False
    was_written: bool = False
    read_at: int = -1
    written_at: int = -1


@dataclass(slots=True)
class _Spot:
    """A view of the program: the bytes it reaches over, its terms as numbers, its places by address."""

    view: View
    length: int
    terms: tuple[tuple[str, int, int, int, int], ...]
    places: dict[int, _Place] = field(default_factory=dict[int, _Place])


@dataclass(slots=True)
class _Copy:
    """A copy under way: what it writes and what it reads."""

    dst: _Place
    src: tuple[_Place, ...]


@dataclass(slots=True)
class _Bytes:
    """One memory."""

    data: NDArray
    written: NDArray
    spans: list[tuple[int, int]]

    def holds(self, low: int, high: int) -> bool:
        """Whether these bytes lie in one buffer."""
        at = bisect_right(self.spans, low, key=lambda s: s[0]) - 1
        return at >= 0 and high <= self.spans[at][1]


@dataclass(slots=True)
class _Machine:
    program: MxuProgram
    chip: Chip
    memories: dict[Memory, _Bytes] = field(init=False)
    units: list[UnitValues] = field(init=False)
    context: Context = field(init=False)
    env: dict[str, int] = field(default_factory=dict[str, int])
    spots: dict[int, _Spot] = field(default_factory=dict[int, _Spot])
    # Copies under way by semaphore, and how often they have changed.
    copies: dict[int, deque[_Copy]] = field(default_factory=dict[int, deque[_Copy]])
    changes: int = 0
    kernel: KernelBlock | None = None
    at: Instruction | None = None

    def __post_init__(self) -> None:
        self.memories = {m: self._memory(m) for m in ("hbm", "vmem")}
        self.units = [UnitValues(self.chip.mxu) for _ in range(self.chip.mxu.count)]
        self.context = Context(MxuContraction(self.chip))

    def _memory(self, memory: Memory) -> _Bytes:
        own = [b for b in self.program.buffers if b.memory == memory]
        size = max((b.address + b.nbytes for b in own), default=0)
        spans: list[tuple[int, int]] = []
        for low, high in sorted(((b.address, b.address + b.nbytes) for b in own), key=lambda s: (s[0], -s[1])):
            # What lies within another says nothing more, and without it the ends rise with the starts.
            if not spans or high > spans[-1][1]:
                spans.append((low, high))
        return _Bytes(np.zeros(size, np.uint8), np.zeros(size, np.bool_), spans)

    # ---- the host's side ----

    def bind(self, b: Buffer, given: Mapping[str, NDArray]) -> None:
        """Lay an input or param into its buffer."""
        if b.name not in given:
            raise LookupError(f"{b.kind} {b.name} has no value bound to it")
        array = given[b.name]
        assert b.type is not None
        if array.shape != b.type.shape or array.dtype != b.type.dtype.numpy:
            raise ValueError(
                f"{b.kind} {b.name} is {b.type} but the value bound to it is {array.dtype}{list(array.shape)}"
            )
        raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        memory = self.memories["hbm"]
        memory.data[b.address : b.address + raw.size] = raw
        memory.written[b.address : b.address + raw.size] = True

    def output(self, b: Buffer) -> NDArray:
        """A copy of what an output's buffer holds."""
        assert b.type is not None
        size = b.type.size * b.type.dtype.numpy.itemsize
        memory = self.memories["hbm"]
        if not memory.written[b.address : b.address + size].all():
            self.hazard("E0903", f"output {b.name} is not written in full")
        raw = memory.data[b.address : b.address + size].tobytes()
        return np.frombuffer(raw, b.type.dtype.numpy).reshape(tuple(map(int, b.type.shape)))

    def settle(self) -> None:
        """Nothing may be left in a unit or under way."""
        self.at = None
        for n, unit in enumerate(self.units):
            left = unit.left()
            if left:
                self.hazard("E0906", f"matrix unit {n} still holds {left} at the end")
        for sem, waiting in sorted(self.copies.items()):
            self.hazard("E0906", f"{len(waiting)} copies on semaphore {sem} are not waited for")

    def hazard(self, code: str, message: str) -> NoReturn:
        notes: list[Note] = []
        if self.kernel is not None:
            notes.append(
                Note(f"in kernel {self.kernel.name}" + (f", from {self.kernel.source}" if self.kernel.source else ""))
            )
        if self.at is not None:
            notes.append(Note(f"at `{show_instruction(self.at)}`"))
        if self.env:
            notes.append(Note("with " + ", ".join(f"{k} = {v}" for k, v in self.env.items())))
        raise DiagnosticError(Diagnostic(code, message, notes=tuple(notes)))

    # ---- the stream ----

    def stream(self, stream: Sequence[Instruction]) -> None:
        for i in stream:
            match i:
                case Loop(var, start, stop, body):
                    for n in range(start, stop):
                        self.env[var] = n
                        self.stream(body)
                    self.env.pop(var, None)
                case When(conditions, body):
                    if all(holds(c, self.env[c.term.loop]) for c in conditions):
                        self.stream(body)
                case KernelBlock(_, _, body):
                    outer, self.kernel = self.kernel, i
                    self.stream(body)
                    self.kernel = outer
                case _:
                    self.at = i
                    self.plain(i)

    def plain(self, i: DmaStart | DmaGather | DmaWait | Push | Mul | Pop | Vector) -> None:
        match i:
            case DmaStart(dst, src, sem):
                source = self.read(src)
                self.start(sem, self.write(dst, source), source)
            case DmaGather():
                self.gather(i)
            case DmaWait(sem):
                self.wait(sem)
            case Vector():
                self.vector(i)
            case _:
                self.matrix(i)

    def matrix(self, i: Push | Mul | Pop) -> None:
        try:
            unit = self.units[i.unit]
            match i:
                case Push(_, tile, transpose):
                    array = self.read(tile).array
                    unit.push(array.T if transpose else array)
                case Mul(_, lhs, latch, acc, add):
                    unit.multiply(self.read(lhs).array, latch, acc, add)
                case Pop(_, dst, add, acc):
                    rows = unit.pop(dst.shape[0], dst.shape[1], acc)
                    if add:
                        place = self.read(dst)
                        with np.errstate(all="ignore"):
                            rows = place.array + rows
                    self.write(dst).array[...] = rows.astype(dst.dtype.numpy, copy=False)
        except Misuse as error:
            self.hazard("E0905", f"matrix unit {i.unit}: {error}")

    def vector(self, i: Vector) -> None:
        given = [self.read(v).array for v in i.inputs]
        results = run_region(i.body, given, self.context)
        if len(results) > 1:
            # One result may be a view of bytes that another is about to be written to.
            results = tuple(np.array(r) for r in results)
        for view, result in zip(i.outputs, results, strict=True):
            self.write(view).array[...] = result

    def gather(self, i: DmaGather) -> None:
        index = self.read(i.index)
        rows = np.clip(index.array.astype(np.int64), 0, max(i.table.shape[0] - 1, 0))
        used: list[_Place] = [index]
        table = self.place(i.table)
        # Only the rows taken are read, so only they must have been written.
        one = View(i.table.memory, i.table.address, i.table.dtype, (1, *i.table.shape[1:]), i.table.strides)
        length = view_extent(one).length
        for n in dict.fromkeys(rows.tolist()):
            place = self.resolve(one, table.low + int(n) * i.table.strides[0], length)
            self.check_read(place)
            used.append(place)
        dst = self.write(i.dst)
        dst.array[...] = table.array[rows]
        self.start(i.sem, dst, *used)

    def start(self, sem: int, dst: _Place, *src: _Place) -> None:
        if dst.view.shape == src[0].view.shape and len(src) == 1:
            dst.array[...] = src[0].array
        self.copies.setdefault(sem, deque()).append(_Copy(dst, src))
        self.changes += 1

    def wait(self, sem: int) -> None:
        if sem not in self.copies:
            self.hazard("E0907", f"no copy on semaphore {sem} is under way")
        waiting = self.copies[sem]
        waiting.popleft()
        if not waiting:
            del self.copies[sem]
        self.changes += 1

    # ---- bytes ----

    def read(self, view: View) -> _Place:
        """The place of `view`, fit to be read."""
        place = self.place(view)
        self.check_read(place)
        return place

    def check_read(self, place: _Place) -> None:
        if place.read_at == self.changes:
            return
        for waiting in self.copies.values():
            for copy in waiting:
                if self.shared(place, copy.dst):
                    self.hazard(
                        "E0901", f"{self.told(place)} is read while a copy to {self.told(copy.dst)} is under way"
                    )
        if not place.was_read:
            if not place.written.all():
                self.hazard("E0903", f"{self.told(place)} is read, but not all of it was ever written")
            place.was_read = True
        place.read_at = self.changes

    def write(self, view: View, source: _Place | None = None) -> _Place:
        """The place of `view`, fit to be written and marked so. `source`: what the same copy reads."""
        place = self.place(view)
        if place.written_at != self.changes:
            self.check_write(place)
        if source is not None and self.shared(place, source):
            self.hazard("E0902", f"a copy to {self.told(place)} overwrites what it reads")
        if not place.was_written:
            place.written[...] = True
            place.was_written = True
        return place

    def check_write(self, place: _Place) -> None:
        for waiting in self.copies.values():
            for copy in waiting:
                for other in (copy.dst, *copy.src):
                    if self.shared(place, other):
                        self.hazard(
                            "E0902",
                            f"{self.told(place)} is overwritten while a copy of {self.told(other)} is under way",
                        )
        place.written_at = self.changes

    def shared(self, a: _Place, b: _Place) -> bool:
        if a.low >= b.high or b.low >= a.high or a.view.memory != b.view.memory:
            return False
        return share_bytes(a.low, a.view, b.low, b.view)

    def told(self, place: _Place) -> str:
        return f"{place.view.memory}[{place.low}..{place.high - 1}]"

    def place(self, view: View) -> _Place:
        """`view` where the loops stand now."""
        spot = self.spots.get(id(view))
        if spot is None:
            terms = tuple((t.loop, t.coef, t.div, t.mod, t.offset) for t in view.address.terms)
            spot = self.spots[id(view)] = _Spot(view, view_extent(view).length, terms)
        # What Term.at says, written out: this runs for every operand of every instruction.
        low = view.address.base
        for loop, coef, div, mod, offset in spot.terms:
            step = (self.env[loop] + offset) // div
            low += coef * (step % mod if mod else step)
        found = spot.places.get(low)
        if found is None:
            if len(spot.places) >= PLACES:
                spot.places.clear()
            found = spot.places[low] = self.resolve(view, low, spot.length)
        return found

    def resolve(self, view: View, low: int, length: int) -> _Place:
        """`view`, which reaches over `length` bytes, at the address `low`."""
        memory, high = self.memories[view.memory], low + length
        if length and not memory.holds(low, high):
            self.hazard("E0904", f"{view.memory}[{low}..{high - 1}] lies in no buffer")
        if not length:
            return _Place(view, low, low, np.zeros(view.shape, view.dtype.numpy), np.ones(0, np.bool_))
        dtype = view.dtype.numpy
        array = np.ndarray(view.shape, dtype, memory.data.data, low, view.strides)
        shape, strides = (*view.shape, dtype.itemsize), (*view.strides, 1)
        return _Place(view, low, high, array, np.ndarray(shape, np.bool_, memory.written.data, low, strides))
