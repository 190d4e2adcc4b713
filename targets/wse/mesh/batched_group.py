"""Groups of PEs of one class that take the same way through a task, and the instructions they run together.

A value of a group is one number for all its PEs, or an array with one for each. Where PEs would go different ways the
group parts. Must not know streams or who runs when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .batched_kernels import lanes_arithmetic, lanes_convert, lanes_function, lanes_load, lanes_store, lanes_wrap
from .batched_queue import UNUSED, Queue, Slot
from .batched_streams import Ints, NotAlone
from .batched_times import any_later, same
from .batched_uniform import (
    UNTESTED,
    UNWRITTEN,
    VAR_HIGH,
    VAR_LOW,
    VAR_SIZE,
    VAR_STATE,
    VAR_WRITE,
    VAR_WRITE_END,
    WRITTEN,
)  # fmt: skip
from .ir import ClassRow, Op
from .reference_values import arithmetic, convert, function, wrap

Value: TypeAlias = "int | Ints"
_SIGN = 1 << 63
_DIVISIONS = {int(Op.DIV), int(Op.REM)}


@dataclass(slots=True, eq=False)
class Claim:
    """Memory that an asynchronous operation uses until `end` (by lane): bytes low .. high - 1, written or only read."""

    low: int
    high: int
    writes: bool
    end: Ints


def orders(row: ClassRow) -> list[int]:
    """Indices of a class's tasks in the order in which they are chosen; row 0 of arrays is the host's command."""
    return sorted(range(len(row.tasks)), key=lambda k: row.tasks[k].id)


@dataclass(slots=True, eq=False)
class ClassState:
    """The PEs of a class: all arrays by lane (tasks: by task and lane)."""

    row: ClassRow
    index: int
    at: Ints
    # By row of `functions`: the id of the task, -1 of the host's command.
    ids: Ints
    functions: Ints
    # When a task became active (NEVER: it is not), was last blocked and unblocked.
    active: Ints
    block_at: Ints
    unblock_at: Ints
    # The latest unblock that is known, and the one before it.
    latest: Ints
    before: Ints
    free: Ints
    vector_free: Ints
    idle: NDArray[np.bool_]
    # Start of the task that was last picked, when the PE was free for it, its row, the start of the one before, and the
    # ids of the last one and of the one before it.
    picked: Ints
    picked_free: Ints
    picked_order: Ints
    picked_before: Ints
    last_id: Ints
    id_before: Ints
    open: NDArray[np.bool_]
    done_at: Ints
    # The time stamp counter: the time at which it was 0 while it is on, its count while it is off.
    clock: Ints
    clock_on: Ints
    busy: Ints
    elements: Ints
    # Cycles in which operations waited for words.
    wait_in: Ints
    # Arguments of the host's command, by lane.
    arguments: list[Ints] = field(default_factory=list["Ints"])
    queue_until: dict[tuple[bool, int], Ints] = field(default_factory=dict[tuple[bool, int], Ints])
    thread_until: dict[int, Ints] = field(default_factory=dict[int, Ints])
    dsrs: dict[int, Ints] = field(default_factory=dict[int, Ints])
    claims: list[Claim] = field(default_factory=list[Claim])
    # What `next_tasks` found, until something changes.
    following: tuple[Ints, Ints] | None = None
    first_start: Any = None
    # Tasks started, by lane and by row and lane: how far PEs are.
    progress: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    runs: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    # Values in memory that all PEs are known to share, by address and bytes: (Kind, the register that a load gives).
    alike: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict[tuple[int, int], tuple[int, int]])
    # By row and lane: the latest activation of several that are known, or -1.
    again: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    # Of each variable: where it lies, whether all PEs have written it, what the queue uses of it (batched_uniform).
    variables: Ints = field(init=False)
    has_unwritten: bool = False
    # Whether an operation without `.ut_id` takes the microthread of its queue, as on WSE-2.
    queues_name_threads: bool = False
    # The row of each local task by its id; operands by row of `vectors` and the bits of its registers.
    row_of_task: dict[int, int] = field(default_factory=dict[int, int])
    arguments_of: dict[tuple[int, ...], Any] = field(default_factory=dict[tuple[int, ...], Any])

    def __post_init__(self) -> None:
        self.row_of_task = {self.row.tasks[k].id: place for place, k in enumerate(orders(self.row), 1)}
        self.variables = np.array(
            [(s.address, s.address + s.bytes, UNTESTED, *UNUSED) for s in self.row.symbols], np.int64
        ).reshape(-1, VAR_SIZE)

    def all_written(self, low: int, high: int, written: NDArray[np.uint8]) -> bool:
        """Whether the bytes low .. high - 1 lie in a variable that all PEs have written."""
        for k, (first, end) in enumerate(self.variables[:, :VAR_STATE].tolist()):
            if first <= low and high <= end:
                if self.variables[k, VAR_STATE] == UNTESTED:
                    self.written(k, written)
                return bool(self.variables[k, VAR_STATE] == WRITTEN)
        return False

    def written(self, variable: int, written: NDArray[np.uint8]) -> None:
        """Find out whether all PEs have written a variable."""
        low, high = self.variables[variable, :VAR_STATE]
        step = int(self.at[1] - self.at[0]) if len(self.at) > 1 else self.row.memory_bytes
        block = written[self.at[0] : self.at[0] + len(self.at) * step].reshape(len(self.at), -1)
        all_written = bool(block[:, low:high].all())
        self.variables[variable, VAR_STATE] = WRITTEN if all_written else UNWRITTEN
        self.has_unwritten |= not all_written

    def changes(self, low: int, high: int) -> None:
        """The bytes low .. high - 1 of some PEs are written."""
        for place, size in [x for x in self.alike if x[0] < high and low < x[0] + x[1]]:
            del self.alike[place, size]

    def forget(self, low: int, high: int) -> None:
        """The bytes low .. high - 1 may be unset from now on."""
        some = (self.variables[:, VAR_LOW] < high) & (low < self.variables[:, VAR_HIGH])
        self.variables[some, VAR_STATE] = UNTESTED

    def forget_unwritten(self) -> None:
        """A task that begins may find written what was not."""
        if self.has_unwritten:
            state = self.variables[:, VAR_STATE]
            state[state == UNWRITTEN] = UNTESTED
            self.has_unwritten = False


@dataclass(slots=True, eq=False)
class Group:
    """PEs (lanes of a class, ascending) in one task, at one instruction, with their registers and clocks.

    The clock is `start` + `offset`; `vector` is the offset at which the vector unit is free, where it is known to be
    the same for all. `elements` are not yet counted; `queue` holds work of the group that runs (batched_queue.py).
    """

    home: ClassState
    lanes: Ints
    whole: bool
    registers: dict[int, Any]
    pc: int
    start: Value
    queue: Queue
    base: int = 0
    frames: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    function: int = -1
    offset: int = 0
    vector: int | None = None
    elements: int = 0
    # The number of the task among those of its PEs.
    progress: int = 0

    @property
    def size(self) -> int:
        return len(self.lanes)

    @property
    def at(self) -> Ints:
        """Where the memory of each PE begins."""
        return self.home.at if self.whole else self.home.at[self.lanes]

    @property
    def clock(self) -> Value:
        return self.start + self.offset

    @clock.setter
    def clock(self, value: Value) -> None:
        self.settle()
        self.start, self.offset = value, 0

    def settle(self) -> None:
        """Do what is queued, and give the class what the group knows of its PEs."""
        self.flush()
        if self.vector is not None:
            self.home.vector_free[self.lanes] = self.start + self.vector
            self.vector = None
        if self.elements:
            self.home.elements[self.lanes] += self.elements
            self.elements = 0

    def flush(self) -> None:
        """Have done what is queued: registers hold numbers from now on. `reserve` comes before a use of memory."""
        if not self.queue.waits:
            return
        for low, high in self.home.variables[:, VAR_WRITE : VAR_WRITE_END + 1].tolist():
            if low < high:
                self.home.changes(low, high)
        self.queue.begin(self.home.index, self.home.variables, self.at, self.registers)

    def reserve(self, low: int, high: int, writes: bool) -> None:
        """Wait until nothing that was queued uses the bytes low .. high - 1 of the class, which are read or written."""
        self.flush()
        if writes:
            self.home.changes(low, high)
        self.queue.wait(self.home.index, low, high, writes)

    def part(self, chosen: Ints) -> Group:
        """The PEs at places `chosen` of the group, as a group of their own."""
        if len(chosen) == self.size:
            return self
        self.settle()
        registers = {k: pick(v, chosen) for k, v in self.registers.items()}
        return Group(
            self.home, self.lanes[chosen], False, registers, self.pc, pick(self.clock, chosen), self.queue,
            self.base, list(self.frames), self.function, progress=self.progress,
        )  # fmt: skip

    def meets(self, other: Group) -> bool:
        """Whether both are at one place of one function, called from the same places."""
        return (self.home, self.pc, self.function) == (
            other.home,
            other.pc,
            other.function,
        ) and self.frames == other.frames

    def join(self, other: Group) -> Group:
        """Both groups, which meet, as one."""
        self.settle()
        other.settle()
        lanes = np.concatenate((self.lanes, other.lanes))
        order = np.argsort(lanes, kind="stable")
        sizes = (self.size, other.size)
        registers = {
            k: _joined(v, other.registers[k], sizes, order) for k, v in self.registers.items() if k in other.registers
        }
        whole = len(lanes) == self.home.row.count
        return Group(
            self.home, lanes[order], whole, registers, self.pc, _joined(self.clock, other.clock, sizes, order),
            self.queue, self.base, self.frames, self.function, progress=min(self.progress, other.progress),
        )  # fmt: skip

    def get(self, register: int) -> Value:
        value = self.registers[self.base + register]
        if type(value) is Slot:
            self.flush()
            return self.registers[self.base + register]
        return value

    def put(self, register: int, value: Any) -> None:
        if register >= 0:
            self.registers[self.base + register] = value


def _joined(a: Value, b: Value, sizes: tuple[int, int], order: Ints) -> Value:
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray) and a == b:
        return a
    return np.concatenate((spread(a, sizes[0]), spread(b, sizes[1])))[order]


def simplest(value: Value) -> Value:
    """One number where all PEs agree."""
    if isinstance(value, np.ndarray) and len(value) and same(value):
        return int(value[0])
    return value


def pick(value: Value, chosen: Any) -> Value:
    """The values of the PEs `chosen`."""
    return simplest(value[chosen]) if isinstance(value, np.ndarray) else value


def spread(value: Value, count: int) -> Ints:
    """`value` as an array of one number a PE."""
    return value if isinstance(value, np.ndarray) else np.full(count, value, np.int64)


def row(value: Value) -> Ints:
    """`value` as an array for kernels that repeat a single entry."""
    return value if isinstance(value, np.ndarray) else np.array([value], np.int64)


def later(a: Value, b: Value) -> Value:
    """The later of two times."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return simplest(np.maximum(a, b))
    return max(a, b)


def signed(bits: int) -> int:
    """64 bits as a signed number."""
    bits &= 2 * _SIGN - 1
    return bits - 2 * _SIGN if bits >= _SIGN else bits


# ---- instructions over scalars -----------------------------------------------------------------------


def arithmetic_of(op: int, kind: int, a: Value, b: Value) -> Value:
    """An arithmetic instruction. NotAlone for a division by zero or a shift that is too wide."""
    if op in _DIVISIONS and kind < 9 and _any(b, 0):
        raise NotAlone("a division by zero")
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return int(arithmetic(op, kind, a, b))
    out = np.empty(max(len(row(a)), len(row(b))), np.int64)
    lanes_arithmetic(op, kind, row(a), row(b), out)
    return out


def _any(value: Value, wanted: int) -> bool:
    return bool((value == wanted).any()) if isinstance(value, np.ndarray) else value == wanted


def converted(kind: int, source: int, a: Value) -> Value:
    """CONVERT."""
    if not isinstance(a, np.ndarray):
        return int(convert(a, source, kind))
    out = np.empty(len(a), np.int64)
    lanes_convert(kind, source, a, out)
    return out


def bitcast(kind: int, a: Value) -> Value:
    """BITCAST: the same bits, extended as `kind` is."""
    if not isinstance(a, np.ndarray):
        return int(wrap(a, kind))
    out = np.empty(len(a), np.int64)
    lanes_wrap(kind, a, out)
    return out


def math_of(op: int, kind: int, a: Value, b: Value) -> Value:
    """MATH."""
    if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
        return int(function(op, kind, a, b))
    out = np.empty(max(len(row(a)), len(row(b))), np.int64)
    lanes_function(op, kind, row(a), row(b), out)
    return out


def loaded(g: Group, memory: Any, written: Any, address: Value, kind: int, size: int) -> Value:
    """LOAD. NotAlone where the reference would find a fault."""
    low, high = guard(g, address, size, False)
    found = g.home.alike.get((low, size)) if type(address) is int else None
    if found is not None and found[0] == kind:
        return found[1]
    out, tests = np.empty(g.size, np.int64), not g.home.all_written(low, high, written)
    if not lanes_load(memory, written, g.at, g.home.row.memory_bytes, row(address), kind, tests, out):
        raise NotAlone("a load of memory that is not set")
    value = simplest(out)
    _keep(g, address, kind, size, value)
    return value


def stored(g: Group, memory: Any, written: Any, address: Value, kind: int, size: int, value: Value) -> None:
    """STORE."""
    guard(g, address, size, True)
    if not lanes_store(memory, written, g.at, g.home.row.memory_bytes, row(address), kind, row(value)):
        raise NotAlone("a store outside memory")
    _keep(g, address, kind, size, value)


def _keep(g: Group, address: Value, kind: int, size: int, value: Value) -> None:
    """Remember what all PEs of the class have at an address."""
    if g.whole and type(address) is int and isinstance(value, int):
        g.home.alike[address, size] = kind, int(wrap(value, kind))


def guard(g: Group, address: Value, size: int, writes: bool) -> tuple[int, int]:
    """NotAlone when bytes from `address` are in use by an operation under way, and one of the two writes. Waits
    for what was queued and uses them. The first byte, and that behind the last."""
    low = int(address.min()) if isinstance(address, np.ndarray) else address
    high = (int(address.max()) if isinstance(address, np.ndarray) else address) + size
    g.reserve(low, high, writes)
    guard_range(g, low, high, writes)
    return low, high


def guard_range(g: Group, low: int, high: int, writes: bool) -> None:
    """NotAlone when an operation under way uses the bytes low .. high - 1, and one of the two writes."""
    for claim in g.home.claims:
        shared = low < claim.high and claim.low < high and (writes or claim.writes)
        if shared and any_later(claim.end, g.lanes, row(g.clock)):
            raise NotAlone("memory is used by an operation under way")
