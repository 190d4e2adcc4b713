"""The task IR: a whole program as flat arrays, which both engines execute and nothing else decides.

Functions are runs of instructions over numbered registers. A register holds 64 bits: integers sign- or zero-extended,
floats as the bits of their format, pointers as byte addresses, DSDs packed (`pack`). Every instruction has its cost in
cycles beside it, taken from the machine's `[cost]` once, when lowering. PEs are numbered class by class, so that the
PEs of a code class are one run of numbers. docs/decisions/0011-task-ir.md gives the meaning and the timing rules.
Must not know how code came about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Span

Words = NDArray[np.int64]
Table = NDArray[np.int32]


class Kind(IntEnum):
    """The type of a register's value, as instructions need it."""

    BOOL = 0
    I8 = 1
    U8 = 2
    I16 = 3
    U16 = 4
    I32 = 5
    U32 = 6
    I64 = 7
    U64 = 8
    F16 = 9
    F32 = 10
    DSD = 11


class Op(IntEnum):
    """Instructions: `op kind d a b c`. d, a, b, c are registers of the frame unless told otherwise."""

    CONST = 0  # d = constants[a]
    LANE = 1  # d = lanes[a, pe]
    MOVE = 2  # d = a
    # Arithmetic in `kind`; integers wrap; division by zero and shifts by too much are faults of the machine's kind.
    ADD = 3
    SUB = 4
    MUL = 5
    DIV = 6
    REM = 7
    AND = 8
    OR = 9
    XOR = 10
    SHL = 11
    SHR = 12
    NEG = 13
    NOT = 14
    EQ = 15
    NE = 16
    LT = 17
    LE = 18
    CONVERT = 19  # d = a of Kind b, as `kind`
    BITCAST = 20  # d = the bits of a (of Kind b), as `kind`
    LOAD = 21  # d = memory[a + c], of `kind` (c is a number)
    STORE = 22  # memory[a + c] = d
    COPY = 23  # memory[d ...] = memory[a ...], b bytes (b is a number)
    CHECK = 24  # fault unless 0 <= a < b (b is a number); an index and its extent
    JUMP = 25  # to instruction a
    JUMP_IF_NOT = 26  # to instruction b when a is 0
    ARG = 27  # register d of the frame of the next call = a
    CALL = 28  # function a (a number); its result into d
    CALL_AT = 29  # the function whose number is in a; its result into d
    RETURN = 30  # a, or -1 for nothing
    VECTOR = 31  # row a of `vectors`; d = whether it ran to its end
    ACTIVATE = 32  # local task a
    BLOCK = 33  # a, of BlockKind b (a number)
    UNBLOCK = 34
    ASSERT = 35  # fault when a is 0
    MACHINE = 36  # d = machine operation `kind` (a MachineOp) of a, b, c
    MATH = 37  # d = function b (a MathOp; a number) of a and c, in `kind`
    # DSDs, packed.
    DSD_MOVE = 38  # d = a with its base b * c bytes on (c is a number)
    DSD_BASE = 39  # d = a with base b and elements of Kind `kind`
    DSD_LENGTH = 40  # d = a with extent b
    DSD_STRIDE = 41  # d = a with stride b


class BlockKind(IntEnum):
    """What BLOCK and UNBLOCK name: tasks by id, queues, colors or microthreads by number."""

    TASK = 0
    COLOR = 1
    INPUT_QUEUE = 2
    MICROTHREAD = 3


class MachineOp(IntEnum):
    """Operations of the machine itself (`kind` of MACHINE)."""

    TIMESTAMP_WORD = 0  # word a of the 48-bit counter
    TIMESTAMP_ENABLE = 1
    TIMESTAMP_RESET = 2
    RANDOM16 = 3
    SEED = 4
    COORDINATE = 5  # a = 0: x, 1: y
    UNBLOCK_COMMANDS = 6
    QUEUE_FLUSH = 7  # output queue a
    QUEUE_FLUSH_EXIT = 8
    QUEUE_BIND = 9  # a: input?, b: queue, c: color
    TEARDOWN_PENDING = 10  # the bit mask of colors being torn down
    TEARDOWN_EXIT = 11
    ROUTES_RESET = 12  # color a: rx mask b, tx mask c
    SWITCH_POSITION = 13  # color a: position b
    SWITCH_RING = 14
    SWITCH_POP = 15
    SWITCH_SET = 16  # color a; b: position | rx mask << 8 | tx mask << 16, or position alone for an invalid one
    TASK_PRIORITY = 17  # task a: high (1) or low (0), in register b
    FIFO_READ_LENGTH = 18  # FIFO a: b
    FIFO_WRITE_LENGTH = 19
    PRINT_TEXT = 20  # texts[a] (the number of the text is in register a)
    PRINT_NUMBER = 21  # a: format, b: bits, c: the number
    TRACE_TEXT = 22  # a: tag, b: texts[b], c: the key, texts[c] (numbers in registers)
    TRACE_NUMBER = 23  # a: tag, b: the number, c: the key, texts[c]
    RPC_DONE = 24


class MathOp(IntEnum):
    """Functions of floats (`b` of MATH)."""

    CEIL = 0
    FLOOR = 1
    TANH = 2
    COS = 3
    EXP = 4
    LOG = 5
    SIN = 6
    SQRT = 7
    INV = 8
    INVSQRT = 9
    POW = 10
    FSCALE = 11


class Dsd(IntEnum):
    """Kinds of DSDs and of other vector operands, as they are packed."""

    NONE = 0
    MEM1D = 1
    MEM4D = 2
    FABIN = 3
    FABOUT = 4
    FIFO = 5
    DSR = 6


# A packed DSD, from the lowest bit. Of every kind: `kind` and `flags`.
#   MEM1D          base 16 (bytes) | extent 16 | stride 16 (signed, elements) | kind 4 | element Kind 4 | flags 8
#   (Strides count elements of the operation that uses the DSD: a 32-bit operation over 16-bit elements takes pairs.)
#   MEM4D          base 16 | row of `shapes` 16 | 0 16 | ...
#   FABIN, FABOUT  extent 16 | queue 8 | color 8 (NO_COLOR: the queue's) | 0 16 | ...
#   FIFO           row of the class's `fifos` 16 | ...
#   DSR            number 8 | file 8 (0 dest, 1 src0, 2 src1) | ...
NO_COLOR = 255
FLAG_CONTROL = 1  # fabout: control wavelets
FLAG_ADVANCE = 2  # advance_switch: a control wavelet follows that advances switches
FLAG_INDEX = 4  # wavelet_index_offset
FLAG_SIMD32 = 8  # two 16-bit elements in each wavelet
FLAG_SIMD64 = 16  # four 16-bit elements in two wavelets, or two 32-bit ones
FLAG_ON_CONTROL_TERMINATE = 32  # fabin: a control wavelet ends the operation


def pack(kind: Dsd, low: int, middle: int = 0, high: int = 0, element: Kind = Kind.BOOL, flags: int = 0) -> int:
    """The 64 bits of a DSD as a signed integer: three fields of 16 bits, then kind, element and flags."""
    bits = (low & 0xFFFF) | (middle & 0xFFFF) << 16 | (high & 0xFFFF) << 32
    bits |= int(kind) << 48 | int(element) << 52 | flags << 56
    return bits - (1 << 64) if bits >> 63 else bits


class VectorOp(IntEnum):
    """Operations over DSDs. What they compute by element is in 0011; `w` in a name of CSL is told by `element`."""

    MOV = 0
    NEG = 1
    ABS = 2
    ADD = 3
    SUB = 4
    MUL = 5
    MAX = 6
    MAC = 7  # dest = source 0 + source 1 * source 2
    SCALE = 8
    NORM = 9
    CONVERT = 10
    ADDC = 11
    AND = 12
    OR = 13
    XOR = 14
    SAR = 15
    SLL = 16
    SLR = 17
    CLZ = 18
    CTZ = 19
    POPCNT = 20
    MAP = 21
    LOAD_DSR = 22


class V(IntEnum):
    """Columns of `vectors`. Registers where not told otherwise; -1 where there is none."""

    OP = 0  # a VectorOp
    COUNT = 1  # operands, the destination included (0th; of MAP the last is the output, if HAS_OUTPUT)
    # Operand k stands in column OPERAND0 + k; only MAP has more than four.
    OPERAND0 = 2
    OPERAND1 = 3
    OPERAND2 = 4
    OPERAND3 = 5
    OPERAND4 = 6
    OPERAND5 = 7
    OPERAND6 = 8
    OPERAND7 = 9
    # Bit k: operand k is a DSD, a DSR or a FIFO; else a pointer when bit k of POINTERS is set; else a scalar.
    DSDS = 10
    POINTERS = 11
    DEST_KIND = 12  # a Kind
    SOURCE_KIND = 13  # a Kind; of the narrow sources of MAC and ADD, where they differ from the destination
    WIDTH = 14  # elements a cycle when all operands lie in memory and no stride slows it
    ASYNC = 15  # 0 or 1
    ACTIVATE = 16  # register with a task id
    UNBLOCK = 17  # register with what is unblocked
    UNBLOCK_KIND = 18  # a BlockKind
    PRIORITY = 19  # 0 low, 1 medium, 2 high, -1 not given
    MICROTHREAD = 20  # register with a ut_id
    INDEX = 21  # register with the index of wavelet_index_offset
    CALLBACK = 22  # number of a function
    HAS_OUTPUT = 23  # MAP: whether the last operand is its output
    ON_CONTROL = 24  # 0 none, 1 terminate; else a register with a task id + 2
    SAVE_ADDRESS = 25  # LOAD_DSR: the DSR keeps where an operation ended
    SIZE = 26


OPERANDS = (
    V.OPERAND0, V.OPERAND1, V.OPERAND2, V.OPERAND3, V.OPERAND4, V.OPERAND5, V.OPERAND6, V.OPERAND7,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Function:
    """A function or task: its first instruction, registers of a frame (parameters first), kinds of its parameters."""

    name: str
    entry: int
    registers: int
    params: tuple[Kind, ...]
    result: Kind | None
    is_task: bool
    span: Span


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task bound to an id of its kind ("local", "data", "control"); `function` is a number."""

    kind: str
    id: int
    function: int


@dataclass(frozen=True, slots=True)
class FifoRow:
    """A FIFO: its buffer (byte address), element kind and capacity, and tasks activated by a push or pop (or -1).

    `length` is its capacity as set by the program (else `count`); `read_length` and `write_length` are those that
    FIFO_READ_LENGTH and FIFO_WRITE_LENGTH change, 0 where not given.
    """

    address: int
    element: Kind
    count: int
    activate_push: int
    activate_pop: int
    length: int = 0
    read_length: int = 0
    write_length: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DsrRow:
    """A DSR that is loaded before the program starts. `dsr` and `dsd` are packed; `dsd` is of shape (1), or (PEs of the
    class) where they differ. Settings as LOAD_DSR has them: ids instead of registers, -1 where not given."""

    dsr: int
    dsd: Words
    save_address: int
    is_async: int
    activate: int
    unblock: int
    unblock_kind: int
    # 0 none, 1 terminate, else a task id + 2.
    on_control: int
    microthread: int


@dataclass(frozen=True, slots=True, eq=False)
class SymbolRow:
    """A variable of a class: where it lies, and the pattern it starts with.

    `initial` is None for what must be written before it is read; else its bytes, of shape (bytes) or (lanes, bytes).
    """

    name: str
    address: int
    bytes: int
    initial: NDArray[np.uint8] | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class ClassRow:
    """What the PEs first .. first + count - 1 have in common."""

    path: str
    first: int
    count: int
    x: NDArray[np.int64]
    y: NDArray[np.int64]
    # Bytes of a PE: symbols, then the stack of aggregates that functions keep in memory.
    memory_bytes: int
    # Registers of the deepest chain of calls; a circle of calls counts registers.MAX_ROUNDS times.
    registers: int
    symbols: tuple[SymbolRow, ...]
    tasks: tuple[TaskRow, ...]
    fifos: tuple[FifoRow, ...]
    # Queues: (input?, id, color or -1, priority 0..2).
    queues: tuple[tuple[bool, int, int, int], ...]
    # Exported functions by name, and symbols: (address, bytes, Kind of an element).
    functions: dict[str, int]
    variables: dict[str, tuple[int, int, Kind]]
    # Handlers: color or output queue -> function.
    teardown: dict[int, int]
    empty_queue: dict[int, int]
    active: tuple[int, ...]
    blocked: tuple[tuple[BlockKind, int], ...]
    rpc: int | None
    # Exported pointers that are variables: the address of the pointer (U16) itself. `variables` holds where it points
    # at the start, with 0 bytes where it points nowhere yet.
    pointers: dict[str, int] = field(default_factory=dict[str, int])
    dsrs: tuple[DsrRow, ...] = ()
    # Queues that DSDs name, wherever those are kept: (input?, id, color or -1), each once.
    named_queues: tuple[tuple[bool, int, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Image:
    """A lowered program: `code[i]` is (op, kind, d, a, b, c), `cost[i]` its cycles, `span_of[i]` one of `spans`."""

    code: Table
    cost: Table
    span_of: Table
    spans: tuple[Span, ...]
    constants: Words
    lanes: Words
    vectors: Table
    # Extents (4) and strides (4, in elements) of mem4d DSDs, innermost last, unused ones 1 and 0.
    shapes: Table
    functions: tuple[Function, ...]
    texts: tuple[str, ...]
    classes: tuple[ClassRow, ...]

    def __repr__(self) -> str:
        return f"Image({len(self.code)} instructions, {self.pes} PEs)"

    @property
    def pes(self) -> int:
        """PEs of the whole program."""
        return sum(row.count for row in self.classes)
