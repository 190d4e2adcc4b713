"""Which entry of a machine's `[cost]` each instruction costs. Must not know programs."""

from __future__ import annotations

from typing import Literal

from ..chip import Cost
from .ir import Kind, MachineOp, Op

Entry = Literal["scalar", "branch", "call", "load", "store", "divide", "function", "vector_setup", "copy", "none"]

# "none": operands that the machine encodes in the instruction that uses them, or checks that it does not make.
# "copy": a load and a store for each 4 bytes.
ENTRY: dict[Op, Entry] = {
    Op.CONST: "none", Op.LANE: "none", Op.MOVE: "scalar",
    Op.ADD: "scalar", Op.SUB: "scalar", Op.MUL: "scalar", Op.DIV: "divide", Op.REM: "divide",
    Op.AND: "scalar", Op.OR: "scalar", Op.XOR: "scalar", Op.SHL: "scalar", Op.SHR: "scalar",
    Op.NEG: "scalar", Op.NOT: "scalar", Op.EQ: "scalar", Op.NE: "scalar", Op.LT: "scalar", Op.LE: "scalar",
    Op.CONVERT: "scalar", Op.BITCAST: "none", Op.LOAD: "load", Op.STORE: "store", Op.COPY: "copy",
    Op.CHECK: "none", Op.JUMP: "none", Op.JUMP_IF_NOT: "branch",
    Op.ARG: "none", Op.CALL: "call", Op.CALL_AT: "call", Op.RETURN: "none",
    Op.VECTOR: "vector_setup", Op.ACTIVATE: "scalar", Op.BLOCK: "scalar", Op.UNBLOCK: "scalar", Op.ASSERT: "branch",
    Op.MACHINE: "scalar", Op.MATH: "function",
    Op.DSD_MOVE: "scalar", Op.DSD_BASE: "scalar", Op.DSD_LENGTH: "scalar", Op.DSD_STRIDE: "scalar",
}  # fmt: skip

# What only the simulator does: its log and its records of values.
_FREE = frozenset(
    {MachineOp.PRINT_TEXT, MachineOp.PRINT_NUMBER, MachineOp.TRACE_TEXT, MachineOp.TRACE_NUMBER, MachineOp.COORDINATE}
)
_BYTES = {
    Kind.BOOL: 1, Kind.I8: 1, Kind.U8: 1, Kind.I16: 2, Kind.U16: 2, Kind.F16: 2, Kind.I32: 4, Kind.U32: 4, Kind.F32: 4,
    Kind.I64: 8, Kind.U64: 8, Kind.DSD: 8,
}  # fmt: skip
# Bytes of one access to memory.
_ACCESS_BYTES = 4


def kind_bytes(kind: Kind) -> int:
    """Bytes of memory that a value takes."""
    return _BYTES[kind]


def cycles(cost: Cost, op: Op, kind: int, b: int) -> int:
    """Cycles of an instruction with the fields `kind` and `b` (the bytes of a COPY)."""
    entry = ENTRY[op]
    if entry == "none" or (op == Op.MACHINE and MachineOp(kind) in _FREE):
        return 0
    if entry == "copy":
        return -(-b // _ACCESS_BYTES) * (cost.load + cost.store)
    each: int = getattr(cost, entry)
    if entry in ("load", "store"):
        return each * max(1, kind_bytes(Kind(kind)) // _ACCESS_BYTES)
    return each
