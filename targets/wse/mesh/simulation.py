"""A program on a mesh, as host code drives it: copies, launches, streams, and what can be seen afterwards.

The state of all PEs is one value that either engine advances. Copies take no simulated time and happen when nothing
moves. Must not know how an engine works, nor how scripts spell their calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic, DiagnosticError, did_you_mean
from ..chip import Wafer
from ..csl.program import Program
from . import faults, records
from .engines import EngineName, Run, advance
from .ir import Image, Kind, SymbolRow
from .lower import lower
from .report import MeshReport, mesh_report
from .state import State, Until
from .trace import perfetto

# Cycles after which a program is taken to be endless, unless the caller knows better.
MAX_CYCLES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Stream:
    """Where a host stream meets the mesh: wavelets of `color` at the PE (x, y), through the link `direction` of its
    router (an index of DIRECTIONS), or -1 for its queues themselves."""

    x: int
    y: int
    color: int
    direction: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """Words that a host waits for: `count` of each of `shape` PEs."""

    pes: NDArray[np.int32]
    color: int
    direction: int
    shape: tuple[int, ...]
    count: int


class Simulation:
    """A program and the state of its PEs. Raises DiagnosticError: E106x for faults on the mesh (with PE, file and
    line), E1052 for what the host asks and the program does not have. A `lenient` simulation lets pass what
    the machine lets pass and existing programs do: memory that was never written reads as 0, DSDs and copies to
    the host may leave their variable as long as they stay in the PE's memory."""

    def __init__(
        self,
        program: Program,
        wafer: Wafer,
        *,
        engine: EngineName = "auto",
        max_cycles: int = MAX_CYCLES,
        trace: bool = False,
        lenient: bool = False,
        image: Image | None = None,
    ) -> None:
        self.program, self.wafer = program, wafer
        self.image = image or lower(program, wafer)
        if lenient:
            self.image = _with_room(self.image, wafer.pe.memory_bytes)
        self.state = State(self.image, wafer, program, trace=trace)
        self._lenient = lenient
        if lenient:
            self.state.trust()
        self._engine: EngineName = engine
        self._max_cycles = max_cycles
        self._runs: list[Run] = []
        self._pe_at = _numbers(program, self.image)
        self._pending: list[Pending] = []

    # ---- running -------------------------------------------------------------------------------

    @property
    def cycles(self) -> int:
        """The cycle in which the last thing happened."""
        return int(self.state.now)

    def run(self, until: Literal["commands", "words", "quiet"] = "quiet") -> None:
        """Let time pass: until every launched command is done, every awaited word is there, or nothing can move."""
        wanted = {"commands": Until.COMMANDS, "words": Until.WORDS, "quiet": Until.QUIET}[until]
        made = advance(self.state, wanted, self._engine, self._max_cycles)
        self._runs += made
        if any(run.over_budget for run in made):
            raise faults.budget(self.state, self._max_cycles)
        waits = {Until.COMMANDS: self.state.open_commands, Until.WORDS: self.state.missing_words, Until.QUIET: 0}
        if waits[wanted]:
            raise faults.deadlock(self.state)

    # ---- copies --------------------------------------------------------------------------------

    def write(self, symbol: str, x: int, y: int, w: int, h: int, data: NDArray[Any]) -> None:
        """Copy `data` [h, w, n] (u16 or u32) to the start of the exported `symbol` of each PE of the region."""
        self._settle()
        for k, lanes, places in self._lanes(x, y, w, h):
            block = np.ascontiguousarray(data.reshape(h * w, -1)[places]).view(np.uint8)
            columns = self._columns(symbol, k, lanes, block.shape[1], False)
            self.state.memory(k)[lanes[:, None], columns] = block
            self.state.written(k)[lanes[:, None], columns] = 1

    def read(self, symbol: str, x: int, y: int, w: int, h: int, n: int, dtype: Any) -> NDArray[Any]:
        """The first `n` elements of the exported `symbol` of each PE of the region: [h, w, n] of `dtype`."""
        self._settle()
        kind = np.dtype(dtype)
        made = np.zeros((h * w, n), kind)
        for k, lanes, places in self._lanes(x, y, w, h):
            columns = self._columns(symbol, k, lanes, n * kind.itemsize, self._lenient)
            block = self.state.memory(k)[lanes[:, None], columns]
            made[places] = np.ascontiguousarray(block).view(kind)
        return made.reshape(h, w, n)

    def _columns(self, symbol: str, k: int, lanes: NDArray[np.int64], size: int, lenient: bool) -> Any:
        """The bytes of memory of class `k` that a copy of `size` bytes of `symbol` means, by lane or for all; it may
        leave the variable if `lenient`."""
        row = self.image.classes[k]
        if symbol not in row.variables:
            raise _asked(
                f'PE {int(row.x[0])}, {int(row.y[0])} exports no variable "{symbol}"',
                did_you_mean(symbol, row.variables),
            )
        address, bytes, _ = row.variables[symbol]
        if symbol not in row.pointers:
            _check_room(symbol, size, row.memory_bytes - address if lenient else bytes)
            return np.arange(address, address + size)
        at = row.pointers[symbol]
        # An exported pointer variable: what it points at now.
        start = self.state.memory(k)[lanes, at : at + 2].astype(np.int64) @ np.array([1, 256])
        for first in np.unique(start).tolist():
            ends = [v.address + v.bytes for v in row.symbols if v.address <= first < v.address + v.bytes]
            end = row.memory_bytes if lenient else (ends or [first])[0]
            _check_room(symbol, size, end - first)
        return start[:, None] + np.arange(size)

    def read_all(self, symbol: str, dtype: Any = None) -> NDArray[Any]:
        """The whole of the exported `symbol` of every PE, as [height, width, n]; its own type unless one is given."""
        _, bytes, kind = self._declared(symbol)
        wanted = np.dtype(dtype or _DTYPES[kind])
        height, width = self._pe_at.shape
        return self.read(symbol, 0, 0, width, height, bytes // wanted.itemsize, wanted)

    def _declared(self, symbol: str) -> tuple[int, int, Kind]:
        found = [row.variables[symbol] for row in self.image.classes if symbol in row.variables]
        if not found:
            names = sorted({name for row in self.image.classes for name in row.variables})
            raise _asked(f'the program exports no variable "{symbol}"', did_you_mean(symbol, names))
        return found[0]

    def read_whole(self, symbol: str, x: int, y: int) -> NDArray[np.uint8]:
        """The bytes of the variable `symbol` of the PE at (x, y), exported or not."""
        self._settle()
        k, lane, row = self._symbol(symbol, x, y)
        return self.state.memory(k)[lane, row.address : row.address + row.bytes].copy()

    def write_whole(self, symbol: str, x: int, y: int, data: bytes) -> None:
        """What the variable `symbol` of the PE at (x, y), exported or not, starts with."""
        k, lane, row = self._symbol(symbol, x, y)
        _check_room(symbol, len(data), row.bytes)
        self.state.memory(k)[lane, row.address : row.address + len(data)] = np.frombuffer(data, np.uint8)
        self.state.written(k)[lane, row.address : row.address + len(data)] = 1

    def _symbol(self, symbol: str, x: int, y: int) -> tuple[int, int, SymbolRow]:
        ((k, lanes, _),) = self._lanes(x, y, 1, 1)
        row = next((s for s in self.image.classes[k].symbols if s.name == symbol), None)
        if row is None:
            names = [s.name for s in self.image.classes[k].symbols]
            raise _asked(f"PE {x}, {y} has no variable `{symbol}`", did_you_mean(symbol, names))
        return k, int(lanes[0]), row

    def _settle(self) -> None:
        self.run("quiet")

    # ---- launches ------------------------------------------------------------------------------

    def launch(self, function: str, args: Sequence[Any] = ()) -> None:
        """Call the exported `function` on every PE that exports it."""
        chosen = [(row, row.functions[function]) for row in self.image.classes if function in row.functions]
        if not chosen:
            names = sorted({name for row in self.image.classes for name in row.functions})
            raise _asked(f'no PE exports a function "{function}"', did_you_mean(function, names))
        pes = np.concatenate([np.arange(row.first, row.first + row.count, dtype=np.int32) for row, _ in chosen])
        numbers = np.concatenate([np.full(row.count, number, np.int32) for row, number in chosen])
        params = self.image.functions[chosen[0][1]].params
        if len(params) != len(args):
            raise _asked(f"`{function}` takes {len(params)} arguments, not {len(args)}", None)
        bits = np.array([argument_bits(a, kind) for a, kind in zip(args, params, strict=True)], np.int64)
        self.state.launch(pes, numbers, np.broadcast_to(bits, (len(pes), len(bits))).copy())

    # ---- streams -------------------------------------------------------------------------------

    def send(self, color: int, x: int, y: int, w: int, h: int, words: NDArray[Any]) -> None:
        """Stream `words` [h, w, n] of `color` to the PEs of the region, behind what already waits for them."""
        pes = self._region(x, y, w, h)
        self.state.inject(pes, color, words.reshape(h * w, -1).astype(np.uint32))

    def receive(self, color: int, x: int, y: int, w: int, h: int, n: int) -> Pending:
        """Await `n` words of `color` from each PE of the region; `collect` returns them."""
        return self._await(Pending(self._region(x, y, w, h), color, -1, (h, w), n))

    def send_along(self, stream: Stream, words: NDArray[np.uint32]) -> None:
        """Stream `words` in where `stream` meets the mesh."""
        pes = self._region(stream.x, stream.y, 1, 1)
        self.state.inject(pes, stream.color, words.reshape(1, -1), direction=stream.direction)

    def receive_along(self, stream: Stream, n: int) -> Pending:
        """Await `n` words where `stream` leaves the mesh."""
        pes = self._region(stream.x, stream.y, 1, 1)
        return self._await(Pending(pes, stream.color, stream.direction, (), n))

    def _await(self, pending: Pending) -> Pending:
        self.state.expect(pending.pes, pending.color, pending.count, direction=pending.direction)
        return pending

    def collect(self, pending: Pending) -> NDArray[np.uint32]:
        """The words of `pending`, [*shape, n], when all have come."""
        self.run("words")
        words = self.state.collected(pending.pes, pending.color, pending.count, direction=pending.direction)
        return words.reshape(*pending.shape, pending.count)

    # ---- seeing --------------------------------------------------------------------------------

    def log(self) -> list[str]:
        """Lines that `<simprint>` wrote, in the order of time, each with its PE and cycle."""
        where = pe_places(self.image)
        said = records.lines(self.state.log_records(), self.image)
        return [f"@{cycle} P{where[pe][0]}.{where[pe][1]}: {text}" for cycle, pe, text in said]

    def traces(self) -> dict[tuple[int, int, str], list[Any]]:
        """Records of `<debug>` by (x, y, key), in the order of time."""
        where = pe_places(self.image)
        found = records.records(self.state.log_records(), self.image)
        return {(*where[pe], key): values for (pe, key), values in found.items()}

    def report(self) -> MeshReport:
        """What the PEs did and waited for, and which engine ran what."""
        return mesh_report(self.program, self.image, self.state, tuple(self._runs))

    def perfetto(self) -> str:
        """The trace that was asked for at the start, as JSON for ui.perfetto.dev."""
        return perfetto(self.state)

    # ---- places --------------------------------------------------------------------------------

    def _region(self, x: int, y: int, w: int, h: int) -> NDArray[np.int32]:
        """Numbers of the PEs of a region, row by row."""
        height, width = self._pe_at.shape
        if w < 0 or h < 0 or x < 0 or y < 0 or x + w > width or y + h > height:
            raise _asked(f"PEs {x}, {y} to {x + w - 1}, {y + h - 1} are not all in {width} x {height} PEs", None)
        found = self._pe_at[y : y + h, x : x + w].ravel()
        if (found < 0).any():
            k = int(np.argmin(found))
            raise _asked(f"PE {x + k % w}, {y + k // w} has no program", None)
        return found

    def _lanes(self, x: int, y: int, w: int, h: int) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """For each class in a region: its index, lanes, and the places of those PEs in the region."""
        pes = self._region(x, y, w, h).astype(np.int64)
        starts = np.array([row.first for row in self.image.classes])
        classes = np.searchsorted(starts, pes, side="right") - 1
        made: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []
        for k in np.unique(classes).tolist():
            places = np.flatnonzero(classes == k)
            made.append((k, pes[places] - starts[k], places))
        return made


def argument_bits(value: Any, kind: Kind) -> int:
    """`value` as the bits that a register of `kind` holds. Raises DiagnosticError (E1052) when it does not fit."""
    if kind == Kind.F32:
        return int(np.float32(value).view(np.uint32))
    if kind == Kind.F16:
        return int(np.float16(value).view(np.uint16))
    if not float(value).is_integer():
        raise _asked(f"the argument {value} is no whole number, which {kind.name.lower()} needs", None)
    number = int(value)
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise _asked(f"the argument {number} does not fit into {kind.name.lower()}", None)
    return number


_DTYPES: dict[Kind, str] = {
    Kind.BOOL: "u1", Kind.I8: "i1", Kind.U8: "u1", Kind.I16: "i2", Kind.U16: "u2", Kind.I32: "i4", Kind.U32: "u4",
    Kind.I64: "i8", Kind.U64: "u8", Kind.F16: "f2", Kind.F32: "f4",
}  # fmt: skip
_RANGES: dict[Kind, tuple[int, int]] = {
    Kind.BOOL: (0, 1), Kind.I8: (-128, 127), Kind.U8: (0, 255), Kind.I16: (-(1 << 15), (1 << 15) - 1),
    Kind.U16: (0, (1 << 16) - 1), Kind.I32: (-(1 << 31), (1 << 31) - 1), Kind.U32: (0, (1 << 32) - 1),
    Kind.I64: (-(1 << 63), (1 << 63) - 1), Kind.U64: (0, (1 << 63) - 1),
}  # fmt: skip


def pe_places(image: Image) -> list[tuple[int, int]]:
    """(x, y) of each PE by its number."""
    return [(int(x), int(y)) for row in image.classes for x, y in zip(row.x, row.y, strict=True)]


# Bytes behind the variables of a PE that a lenient simulation has.
_SLACK_BYTES = 1024


def _with_room(image: Image, most: int) -> Image:
    """`image` with some of the memory behind each PE's variables."""
    classes = (
        replace(c, memory_bytes=max(c.memory_bytes, min(c.memory_bytes + _SLACK_BYTES, most))) for c in image.classes
    )
    return replace(image, classes=tuple(classes))


def _numbers(program: Program, image: Image) -> NDArray[np.int32]:
    """The number of the PE at [y, x], or -1."""
    made = np.full((program.rectangle.height, program.rectangle.width), -1, np.int32)
    for row in image.classes:
        made[row.y, row.x] = np.arange(row.first, row.first + row.count, dtype=np.int32)
    return made


def _check_room(symbol: str, wanted: int, room: int) -> None:
    if wanted > room:
        raise _asked(f'"{symbol}" has {room} bytes in each PE; the copy is of {wanted}', None)


def _asked(message: str, help: str | None) -> DiagnosticError:
    return DiagnosticError(Diagnostic("E1052", message, help=help))
