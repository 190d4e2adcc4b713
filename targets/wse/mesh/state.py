"""The state of a run: everything that an engine changes, made from an image, a machine and a program's routes.

Both engines work on the same State and may take turns when nothing moves. Most of it is one array of 64-bit integers,
`cells`, laid out by `fields.py`; memory, operations in flight, logs and host words have their own. What is allocated
follows what a program uses: queues that it names, routers of colors that it configures. Must not know how either engine
works, nor host programs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..chip import Wafer
from ..csl.program import Program
from . import fields as f
from .ir import Image
from .state_builder import Builder

Cells = NDArray[np.int64]
Pes = NDArray[np.int32]
# Records of tasks and operations that a trace keeps.
MAX_TRACE = 1_000_000


class Until(IntEnum):
    """What a run waits for: no command of the host open, no word missing that it expects, or nothing moving."""

    COMMANDS = 0
    WORDS = 1
    QUIET = 2


class Reason(IntEnum):
    """Why a run came to an end."""

    MET = 1
    QUIET = 2
    BUDGET = 3


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One piece of text or number that a program printed or traced. `text` is an index of the image's texts (of a
    trace: its key), -1 for a printed number; `tag` the tag of a trace or the format of a printed number of `bits` bits;
    `value` the number, or of a traced text the index of it."""

    cycle: int
    pe: int
    is_trace: bool
    text: int
    tag: int
    bits: int
    value: int


class State:
    """All arrays of a run. PEs are numbered as in the image."""

    def __init__(self, image: Image, wafer: Wafer, program: Program, trace: bool = False) -> None:
        self.image, self.wafer, self.program = image, wafer, program
        self.fresh = True
        self.pes = image.pes
        self.x = np.concatenate([row.x for row in image.classes]).astype(np.int64)
        self.y = np.concatenate([row.y for row in image.classes]).astype(np.int64)
        self.class_of = np.repeat(np.arange(len(image.classes)), [row.count for row in image.classes])
        rectangle = program.rectangle
        self.pe_at = np.full((rectangle.height, rectangle.width), -1, np.int64)
        self.pe_at[self.y, self.x] = np.arange(self.pes)
        self.strides = [(row.memory_bytes + 7) // 8 * 8 for row in image.classes]
        self.bases = np.concatenate(
            [[0], np.cumsum([s * r.count for s, r in zip(self.strides, image.classes, strict=True)])]
        )
        Builder(self).build(MAX_TRACE if trace else 0)
        self._fill_memory()
        # Words and launches of the host: a heap that only grows, and the ports by (in or out, color, direction).
        self.host = np.zeros(1024, np.int64)
        self._host_used = 0
        self._ports: dict[tuple[bool, int, int], Cells] = {}
        self.touched = np.ones(self.pes, np.bool_)

    # ---- filled by the builder -------------------------------------------------------------------
    # Fills queues and buffers, a good part of `cells`, until it has been done.
    fill_queues: Callable[[], None] | None
    cells: Cells
    ops: Cells
    logs: Cells
    traces: Cells
    data: NDArray[np.uint8]
    set: NDArray[np.uint8]

    def _fill_memory(self) -> None:
        total = int(self.bases[-1])
        # A few bytes more: values are read as they lie, up to eight bytes from any address.
        self.data, self.set = np.zeros(total + 8, np.uint8), np.zeros(total + 8, np.uint8)
        for k, row in enumerate(self.image.classes):
            memory, written = self.memory(k), self.written(k)
            for symbol in row.symbols:
                if symbol.initial is not None:
                    memory[:, symbol.address : symbol.address + symbol.bytes] = symbol.initial
                    written[:, symbol.address : symbol.address + symbol.bytes] = 1

    def need_queues(self) -> None:
        """Whoever uses queues or buffers of routers says so first: a run that never does has no memory for them."""
        if self.fill_queues is not None:
            self.fill_queues()
            self.fill_queues = None

    def trust(self) -> None:
        """Memory that nothing has set is 0 from now on, and DSDs may leave the variable that they begin in."""
        self.set[:] = 1
        self.table(f.A_CLASSES, len(self.image.classes), f.CLASS_SIZE)[:, f.K_SYMBOL_COUNT] = 0

    # ---- what others read --------------------------------------------------------------------------

    def memory(self, k: int) -> NDArray[np.uint8]:
        """Memory of class `k`, (lanes, bytes) with rows padded to 8 bytes."""
        return self.data[self.bases[k] : self.bases[k + 1]].reshape(-1, max(self.strides[k], 1))

    def written(self, k: int) -> NDArray[np.uint8]:
        """1 for each byte of `memory(k)` that holds something."""
        return self.set[self.bases[k] : self.bases[k + 1]].reshape(-1, max(self.strides[k], 1))

    def table(self, at: int, rows: int, columns: int) -> Cells:
        """A table of `cells` whose place stands in the header at `at`."""
        start = int(self.cells[at])
        return self.cells[start : start + rows * columns].reshape(rows, columns)

    @property
    def pe_table(self) -> Cells:
        """(PEs, PE_SIZE): columns are P_... of fields.py."""
        return self.table(f.A_PES, self.pes, f.PE_SIZE)

    @property
    def routers(self) -> Cells:
        """(configured colors of all routers, ROUTER_SIZE): columns are R_... of fields.py."""
        return self.table(f.A_ROUTERS, self.router_count, f.ROUTER_SIZE)

    router_count: int
    in_count: int
    out_count: int

    @property
    def now(self) -> int:
        """The cycle of the last thing that happened."""
        return int(self.cells[f.G_NOW])

    @property
    def open_commands(self) -> int:
        """PEs on which a launch has not yet said that it is done."""
        return int(self.cells[f.G_OPEN])

    @property
    def missing_words(self) -> int:
        """Words that the host expects and that have not come."""
        return int(self.cells[f.G_MISSING])

    @property
    def unsent_words(self) -> int:
        """Words of the host that have not got into the mesh."""
        return int(self.cells[f.G_UNSENT])

    def log_records(self) -> list[LogRecord]:
        """What was printed and traced, in the order of cycles."""
        rows = self.logs[: self.cells[f.G_LOG] * f.LOG_SIZE].reshape(-1, f.LOG_SIZE)
        return [_log_record(row) for row in rows[np.argsort(rows[:, 0], kind="stable")].tolist()]

    def trace_records(self) -> Cells:
        """(n, 5): kind (0 task, 1 operation), PE, first and last cycle, function or instruction; by their end."""
        return self.traces[: min(int(self.cells[f.G_TRACED]), MAX_TRACE) * f.TRACE_SIZE].reshape(-1, f.TRACE_SIZE)

    @property
    def trace_is_full(self) -> bool:
        """Whether a trace lost records because it had MAX_TRACE of them."""
        return int(self.cells[f.G_TRACED]) > MAX_TRACE

    # ---- what the host does ------------------------------------------------------------------------

    def launch(self, pes: Pes, functions: NDArray[Any], args: NDArray[Any]) -> None:
        """Start function `functions[k]` with `args[k]` (registers) on PE `pes[k]`, `host_command` cycles from now. Its
        command is open until the PE says that it is done."""
        numbers = np.asarray(pes, np.int64)
        registers = np.asarray(args, np.int64).reshape(len(numbers), -1)
        block = self._reserve(len(numbers) * (f.L_ARGS + registers.shape[1]))
        rows = self.host[block : block + len(numbers) * (f.L_ARGS + registers.shape[1])].reshape(len(numbers), -1)
        rows[:, f.L_NEXT] = -1
        rows[:, f.L_TIME] = self.now + self.cells[f.G_HOST_COMMAND]
        rows[:, f.L_FUNCTION] = functions
        rows[:, f.L_ARGS :] = registers
        places = block + np.arange(len(numbers)) * rows.shape[1]
        table = self.pe_table
        last = table[numbers, f.P_LAUNCH_LAST]
        waiting = last >= 0
        self.host[last[waiting] + f.L_NEXT] = places[waiting]
        table[numbers[~waiting], f.P_LAUNCH] = places[~waiting]
        table[numbers, f.P_LAUNCH_LAST] = places
        table[numbers, f.P_OWES] += 1
        self.cells[f.G_OPEN] += len(numbers)
        self.touched[numbers] = True

    def inject(self, pes: Pes, color: int, words: NDArray[Any], *, direction: int = -1) -> None:
        """Send `words` (PEs, n) to the PEs along `color`, behind what still waits: into their input queues, or into
        their routers through the link `direction`."""
        numbers, block = np.asarray(pes, np.int64), np.asarray(words, np.int64).reshape(len(pes), -1)
        ports = self._port(True, numbers, color, direction)
        self._extend(ports, block.shape[1], f.H_POSITION)
        ends = self.host[ports + f.H_PLACE] + self.host[ports + f.H_COUNT] - block.shape[1]
        self.host[ends[:, None] + np.arange(block.shape[1])] = block & 0xFFFFFFFF
        self.cells[f.G_UNSENT] += block.size
        self.touched[numbers] = True

    def expect(self, pes: Pes, color: int, count: int, *, direction: int = -1) -> None:
        """Take `count` more words of `color` from each of the PEs: from their output queues, or from the link
        `direction` of their routers. A PE whose words the host has not asked for waits."""
        numbers = np.asarray(pes, np.int64)
        ports = self._port(False, numbers, color, direction)
        self._extend(ports, count, f.H_SPARE)
        self.cells[f.G_MISSING] += count * len(numbers)
        self.touched[numbers] = True

    def collected(self, pes: Pes, color: int, count: int, *, direction: int = -1) -> NDArray[np.uint32]:
        """Take the oldest `count` words of each PE, (PEs, count). All must have come."""
        ports = self._port(False, np.asarray(pes, np.int64), color, direction)
        taken = self.host[ports + f.H_SPARE]
        if (self.host[ports + f.H_POSITION] - taken < count).any():
            raise ValueError("words are collected that have not come")
        places = (self.host[ports + f.H_PLACE] + taken)[:, None] + np.arange(count)
        self.host[ports + f.H_SPARE] = taken + count
        return self.host[places].astype(np.uint32)

    def _reserve(self, count: int) -> int:
        """The place of `count` new cells of the host's heap."""
        start = self._host_used
        self._host_used += count
        if self._host_used > len(self.host):
            grown = np.zeros(max(self._host_used, 2 * len(self.host)), np.int64)
            grown[:start] = self.host[:start]
            self.host = grown
        return start

    def _port(self, is_input: bool, pes: Cells, color: int, direction: int) -> Cells:
        """Places of the PEs' ports; made where there is none yet."""
        key = (is_input, color, direction)
        ports = self._ports.setdefault(key, np.full(self.pes, -1, np.int64))
        new = np.unique(pes[ports[pes] < 0])
        if len(new):
            start = self._reserve(len(new) * f.PORT_SIZE)
            rows = self.host[start : start + len(new) * f.PORT_SIZE].reshape(-1, f.PORT_SIZE)
            head = f.P_HOST_IN if is_input else f.P_HOST_OUT
            places = start + np.arange(len(new)) * f.PORT_SIZE
            rows[:] = 0
            rows[:, f.H_NEXT], rows[:, f.H_PE] = self.pe_table[new, head], new
            rows[:, f.H_COLOR], rows[:, f.H_DIRECTION] = color, direction
            self.pe_table[new, head] = places
            ports[new] = places
        return ports[pes]

    def _extend(self, ports: Cells, count: int, first: int) -> None:
        """Make the ports' buffers longer by `count`; what lies before the column `first` is dropped."""
        dropped, old = self.host[ports + first], self.host[ports + f.H_COUNT]
        kept = old - dropped
        width = int(kept.max(initial=0)) + count
        start = self._reserve(len(ports) * width)
        places = start + np.arange(len(ports)) * width
        for k in np.flatnonzero(kept).tolist():
            at = int(self.host[ports[k] + f.H_PLACE] + dropped[k])
            self.host[places[k] : places[k] + kept[k]] = self.host[at : at + int(kept[k])]
        self.host[ports + f.H_PLACE] = places
        self.host[ports + f.H_COUNT] = kept + count
        self.host[ports + f.H_POSITION] -= dropped
        if first == f.H_SPARE:
            self.host[ports + f.H_SPARE] = 0

    # ---- going back ----------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """All that changes, for `restore`."""
        names = ("cells", "ops", "logs", "traces", "data", "set", "host", "touched")
        kept: dict[str, Any] = {name: getattr(self, name).copy() for name in names}
        kept["_host_used"], kept["fresh"], kept["fill_queues"] = self._host_used, self.fresh, self.fill_queues
        kept["_ports"] = {key: ports.copy() for key, ports in self._ports.items()}
        return kept

    def restore(self, kept: dict[str, Any]) -> None:
        """Go back to a snapshot; it is used up by that."""
        for name, value in kept.items():
            setattr(self, name, value)


def _log_record(row: list[int]) -> LogRecord:
    cycle, pe, kind, x, y, z = row[:6]
    match kind:
        case f.LOG_TEXT:
            return LogRecord(cycle, pe, False, x, -1, 0, 0)
        case f.LOG_NUMBER:
            return LogRecord(cycle, pe, False, -1, x, y, z)
        case _:
            return LogRecord(cycle, pe, True, z, x, 32, y)
