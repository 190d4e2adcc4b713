"""Code that is the same for all PEs of a group, run by one compiled loop until something is not.

Registers here are numbers that all PEs share, or slots: values of f32 that the queue will bring (batched_queue). Vector
operations over f32 in memory whose addresses are such numbers become rows of the queue, and their time passes; so do
loads of f32. The loop stops before an instruction that it does not do, which is then done for all PEs as arrays. Must
not know how groups part and meet, nor streams.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from .ir import Dsd, Kind, Op, V, VectorOp
from .jit import inner_kernel, lean_kernel
from .reference_values import (
    ADD,
    DIV,
    DSD_MOVE,
    DSD_STRIDE,
    LE,
    NEG,
    NOT,
    REM,
    SHL,
    SHR,
    arithmetic,
    changed_dsd,
    convert,
    function,
    size_of,
    stride_width,
    wrap,
)

Array = Any

# What a register holds.
ABSENT, NUMBER, SLOT, DIFFERENT = 0, 1, 2, 3
# Columns of the state of a run: where it is, its clock, what bounds it, and how it came out.
(
    U_PC, U_BASE, U_FUNCTION, U_DEPTH, U_OFFSET, U_VECTOR, U_ISSUED, U_ELEMENTS, U_MEETING, U_CALLS, U_LAST_OFFSET,
    U_STEPS, U_REASON, U_SYMBOL,
) = range(14)  # fmt: skip
U_SIZE = 14
# Why a run stopped: an instruction that is not done here; a variable of which it is not known whether all PEs have
# written it; a queue that is full; a time or number of instructions that is used up.
OTHER, UNKNOWN, FULL, BUDGET = range(4)
# Variables of a class: first byte, behind the last, whether all PEs have written it; then what the queue uses of it:
# from and behind what is read, and what is written.
(VAR_LOW, VAR_HIGH, VAR_STATE, VAR_READ, VAR_READ_END, VAR_WRITE, VAR_WRITE_END, VAR_SIZE) = range(8)
UNTESTED, UNWRITTEN, WRITTEN = range(3)

# The queue. Rows: the VectorOp or LOAD | elements, or of a load the slot | destination: word and stride | three
# sources: what, then word and stride of memory (0) or the slot (1). ADD_MULTIPLE is a MAC onto its first source with no
# stride, whose factor (the last source) is loaded first: its slot, then where it lies.
ROW = 13
LOAD, ADD_MULTIPLE = -1, -2
IN_MEMORY, IN_SLOT = 0, 1
MOST_ROWS, MOST_CONSTANTS = 1 << 15, 64
Q_ROWS, Q_SLOTS, Q_CONSTANTS, Q_SIZE = 0, 1, 2, 3
QUEUED = (VectorOp.MOV, VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MAC)
# Frames of calls: where they go back to, the base of the caller, the caller, and the register of the result.
FRAME, MOST_FRAMES = 4, 64
MOST_STEPS = 1 << 26

_F32, _MEM1D = int(Kind.F32), int(Dsd.MEM1D)
_MOV, _MAC = int(VectorOp.MOV), int(VectorOp.MAC)
_OPERAND0, _COUNT, _DSDS = int(V.OPERAND0), int(V.COUNT), int(V.DSDS)
_V_OP, _V_WIDTH = int(V.OP), int(V.WIDTH)
CONST, MOVE, CONVERT, BITCAST, O_LOAD, CHECK, JUMP, JUMP_IF_NOT = (
    int(o) for o in (Op.CONST, Op.MOVE, Op.CONVERT, Op.BITCAST, Op.LOAD, Op.CHECK, Op.JUMP, Op.JUMP_IF_NOT)
)
ARG, CALL, RETURN, VECTOR, ASSERT, MATH, LANE, MACHINE = (
    int(o) for o in (Op.ARG, Op.CALL, Op.RETURN, Op.VECTOR, Op.ASSERT, Op.MATH, Op.LANE, Op.MACHINE)
)


@lean_kernel
def run_uniform(
    code: Array, constants: Array, sizes: Array, entries: Array, vectors: Array, plain: Array, R: Array, tags: Array,
    frames: Array, symbols: Array, claims: Array, rows: Array, fixed: Array, Q: Array, S: Array,
) -> None:  # fmt: skip
    """Run from S[U_PC] on. `code` has the cost as its last column, `sizes` and `entries` are of functions, `plain`
    tells which `vectors` may be queued; `symbols` are variables (VAR_...), `claims` memory in use (first byte, behind
    the last, written?). Registers, frames, queue and S are as they are left."""
    while True:
        pc = S[U_PC]
        if S[U_DEPTH] == 0 and pc >= S[U_MEETING]:
            S[U_REASON] = OTHER
            return
        if S[U_OFFSET] > S[U_LAST_OFFSET] or S[U_STEPS] >= MOST_STEPS:
            S[U_REASON] = BUDGET
            return
        op = code[pc, 0]
        if op == VECTOR:
            reason = _vector(code, vectors, plain, R, tags, symbols, claims, rows, fixed, Q, S, pc)
        elif op == O_LOAD:
            reason = _load(code, R, tags, symbols, claims, rows, Q, S, pc)
        elif op == CALL or op == RETURN or op == ARG:
            reason = _frames(code, sizes, entries, R, tags, frames, S, pc)
        else:
            reason = _scalar(code, constants, R, tags, S, pc)
        if reason >= 0:
            S[U_REASON] = reason
            return
        S[U_STEPS] += 1


@inner_kernel
def _scalar(code: Array, constants: Array, R: Array, tags: Array, S: Array, pc: int) -> int:
    """Instructions on numbers; -1 when done."""
    op, kind, a, b, c = code[pc, 0], code[pc, 1], code[pc, 3], code[pc, 4], code[pc, 5]
    base, following = S[U_BASE], pc + 1
    d = base + code[pc, 2]
    if op == CONST:
        R[d], tags[d] = constants[a], NUMBER
    elif op == MOVE:
        if tags[base + a] != NUMBER and tags[base + a] != SLOT:
            return OTHER
        R[d], tags[d] = R[base + a], tags[base + a]
    elif op == JUMP:
        following = a
    elif op == LANE or op == MACHINE:
        # Their operands may be no registers.
        return OTHER
    else:
        if tags[base + a] != NUMBER:
            return OTHER
        x, y = R[base + a], np.int64(0)
        two = (op >= ADD and op <= LE and op != NEG and op != NOT) or (op >= DSD_MOVE and op <= DSD_STRIDE)
        if two:
            if tags[base + b] != NUMBER:
                return OTHER
            y = R[base + b]
        if op >= ADD and op <= LE:
            if ((op == DIV or op == REM) and y == 0) or (
                (op == SHL or op == SHR) and (y < 0 or y >= 8 * size_of(kind))
            ):
                return OTHER
            R[d], tags[d] = arithmetic(op, kind, x, y), NUMBER
        elif op == CONVERT:
            R[d], tags[d] = convert(x, b, kind), NUMBER
        elif op == BITCAST:
            R[d], tags[d] = wrap(x, kind), NUMBER
        elif op == CHECK:
            if x < 0 or x >= b:
                return OTHER
        elif op == ASSERT:
            if x == 0:
                return OTHER
        elif op == JUMP_IF_NOT:
            if x == 0:
                following = b
        elif op == MATH:
            if c >= 0:
                if tags[base + c] != NUMBER:
                    return OTHER
                y = R[base + c]
            R[d], tags[d] = function(b, kind, x, y), NUMBER
        elif op >= DSD_MOVE and op <= DSD_STRIDE:
            R[d], tags[d] = changed_dsd(op, x, y, c, kind), NUMBER
        else:
            return OTHER
    S[U_OFFSET] += code[pc, 6]
    S[U_PC] = following
    return -1


@inner_kernel
def _frames(
    code: Array, sizes: Array, entries: Array, R: Array, tags: Array, frames: Array, S: Array, pc: int
) -> int:  # fmt: skip
    """ARG, CALL and RETURN; -1 when done."""
    op, d, a = code[pc, 0], code[pc, 2], code[pc, 3]
    base, depth = S[U_BASE], S[U_DEPTH]
    above = base + sizes[S[U_FUNCTION]]
    if op == ARG:
        if above + d >= len(R) or (tags[base + a] != NUMBER and tags[base + a] != SLOT):
            return OTHER
        R[above + d], tags[above + d] = R[base + a], tags[base + a]
        S[U_PC] = pc + 1
        return -1
    if op == CALL:
        if depth >= MOST_FRAMES or not S[U_CALLS] or above + sizes[a] > len(R):
            return OTHER
        frames[depth, 0], frames[depth, 1], frames[depth, 2], frames[depth, 3] = pc + 1, base, S[U_FUNCTION], d
        S[U_DEPTH], S[U_BASE], S[U_FUNCTION], S[U_PC] = depth + 1, above, a, entries[a]
        S[U_OFFSET] += code[pc, 6]
        return -1
    if depth == 0 or (a >= 0 and tags[base + a] != NUMBER and tags[base + a] != SLOT):
        return OTHER
    value, tag = (R[base + a], tags[base + a]) if a >= 0 else (np.int64(0), tags[base])
    for k in range(base, len(tags)):
        tags[k] = ABSENT
    S[U_OFFSET] += code[pc, 6]
    back = frames[depth - 1, 1]
    result = frames[depth - 1, 3]
    S[U_PC], S[U_BASE], S[U_FUNCTION], S[U_DEPTH] = frames[depth - 1, 0], back, frames[depth - 1, 2], depth - 1
    if a >= 0 and result >= 0:
        R[back + result], tags[back + result] = value, tag
    return -1


@inner_kernel
def _usable(symbols: Array, claims: Array, low: int, high: int, writes: bool, S: Array) -> int:
    """-1 when all PEs have written the variable of the bytes low .. high - 1, and nothing else uses them."""
    found = np.int64(-1)
    for k in range(len(symbols)):
        if symbols[k, VAR_LOW] <= low and low < symbols[k, VAR_HIGH]:
            if high > symbols[k, VAR_HIGH] or symbols[k, VAR_STATE] == UNWRITTEN:
                return OTHER
            if symbols[k, VAR_STATE] == UNTESTED:
                S[U_SYMBOL] = k
                return UNKNOWN
            found = k
            break
    if found < 0:
        return OTHER
    for k in range(len(claims)):
        if low < claims[k, 1] and claims[k, 0] < high and (writes or claims[k, 2]):
            return OTHER
    column = VAR_WRITE if writes else VAR_READ
    symbols[found, column] = min(symbols[found, column], low)
    symbols[found, column + 1] = max(symbols[found, column + 1], high)
    return -1


@inner_kernel
def _load(
    code: Array, R: Array, tags: Array, symbols: Array, claims: Array, rows: Array, Q: Array, S: Array, pc: int
) -> int:  # fmt: skip
    """LOAD of f32 into a slot; -1 when done."""
    a = S[U_BASE] + code[pc, 3]
    address = R[a] + code[pc, 5]
    if code[pc, 1] != _F32 or tags[a] != NUMBER or address & 3:
        return OTHER
    reason = _usable(symbols, claims, address, address + 4, False, S)
    if reason >= 0:
        return reason
    if Q[Q_ROWS] >= len(rows):
        return FULL
    r, slot = Q[Q_ROWS], Q[Q_SLOTS]
    rows[r, 0], rows[r, 1], rows[r, 2] = LOAD, slot, address >> 2
    Q[Q_ROWS], Q[Q_SLOTS] = r + 1, slot + 1
    d = S[U_BASE] + code[pc, 2]
    R[d], tags[d] = slot, SLOT
    S[U_OFFSET] += code[pc, 6]
    S[U_PC] = pc + 1
    return -1


@inner_kernel
def _vector(
    code: Array, vectors: Array, plain: Array, R: Array, tags: Array, symbols: Array, claims: Array, rows: Array,
    fixed: Array, Q: Array, S: Array, pc: int,
) -> int:  # fmt: skip
    """VECTOR over f32 in memory becomes a row; -1 when done."""
    v, setup, base = code[pc, 3], code[pc, 6], S[U_BASE]
    if not plain[v] or S[U_VECTOR] > S[U_OFFSET] + setup:
        return OTHER
    if Q[Q_ROWS] >= len(rows) or Q[Q_CONSTANTS] + 4 > len(fixed):
        return FULL
    count = vectors[v, _COUNT]
    n = _length(vectors, v, count, R, tags, base)
    if n <= 0:
        return OTHER
    r, constants, slots = Q[Q_ROWS], Q[Q_CONSTANTS], Q[Q_SLOTS]
    width, column = np.int64(vectors[v, _V_WIDTH]), np.int64(2)
    rows[r, 0], rows[r, 1] = vectors[v, _V_OP], n
    for k in range(count):
        register = base + vectors[v, _OPERAND0 + k]
        bits = R[register]
        memory = (vectors[v, _DSDS] >> k) & 1
        if memory:
            # The stride is signed, in elements.
            at, stride = bits & 0xFFFF, (((bits >> 32) & 0xFFFF) ^ 0x8000) - 0x8000
            last = at + 4 * (n - 1) * stride
            low, high = min(at, last), max(at, last) + 4
            reason = OTHER if low < 0 or low & 3 else _usable(symbols, claims, low, high, k == 0, S)
            if reason >= 0:
                # Without the row nothing uses the constants of its operands.
                Q[Q_CONSTANTS], Q[Q_SLOTS] = constants, slots
                return reason
            width = min(width, stride_width(np.int64(vectors[v, _V_WIDTH]), 4 * stride, 4))
        elif k == 0 or (k == 1 and vectors[v, _V_OP] == _MAC):
            return OTHER
        else:
            at = bits if tags[register] == SLOT else _constant(fixed, Q, bits)
            stride = np.int64(0)
        if k:
            rows[r, column] = IN_MEMORY if memory else IN_SLOT
            column += 1
        rows[r, column], rows[r, column + 1] = at >> 2 if memory else at, stride
        column += 2
    Q[Q_ROWS] = r if _joined(rows, r) else r + 1
    S[U_ELEMENTS] += n
    S[U_OFFSET] += setup + (n + width - 1) // width
    S[U_VECTOR], S[U_ISSUED] = S[U_OFFSET], 1
    S[U_PC] = pc + 1
    d = code[pc, 2]
    if d >= 0:
        R[base + d], tags[base + d] = 1, NUMBER
    return -1


@inner_kernel
def _joined(rows: Array, r: int) -> bool:
    """Whether row `r` could be made one with the load before it."""
    if r == 0 or rows[r, 0] != _MAC or rows[r - 1, 0] != LOAD or rows[r, 10] != IN_SLOT or rows[r, 7] != IN_MEMORY:
        return False
    if rows[r, 11] != rows[r - 1, 1] or rows[r, 2] != rows[r, 5]:
        return False
    if rows[r, 3] != 1 or rows[r, 6] != 1 or rows[r, 9] != 1:
        return False
    word = rows[r - 1, 2]
    for column in range(ROW - 1):
        rows[r - 1, column] = rows[r, column]
    rows[r - 1, 0], rows[r - 1, ROW - 1] = ADD_MULTIPLE, word
    return True


@inner_kernel
def _length(vectors: Array, v: int, count: int, R: Array, tags: Array, base: int) -> int:
    """Elements of an operation: the extent of the first source that has one, else that of the destination, else one;
    0 when an operand is no plain DSD of memory, or no number."""
    n = np.int64(-1)
    for k in range(count):
        operand = (k + 1) % count
        register = base + vectors[v, _OPERAND0 + operand]
        dsd = (vectors[v, _DSDS] >> operand) & 1
        if tags[register] != NUMBER and (dsd or tags[register] != SLOT):
            return 0
        if not dsd:
            continue
        bits = R[register]
        # Kind and flags: those of a DSD of memory without a mode.
        if (bits >> 48) & 15 != _MEM1D or (bits >> 56) & 255:
            return 0
        if n <= 0:
            n = (bits >> 16) & 0xFFFF
    return np.int64(1) if n < 0 else n


@inner_kernel
def _constant(fixed: Array, Q: Array, bits: int) -> int:
    """The slot that holds `bits`."""
    for k in range(Q[Q_CONSTANTS]):
        if fixed[k, 0] == bits:
            return fixed[k, 1]
    k = Q[Q_CONSTANTS]
    fixed[k, 0], fixed[k, 1] = bits, Q[Q_SLOTS]
    Q[Q_CONSTANTS], Q[Q_SLOTS] = k + 1, Q[Q_SLOTS] + 1
    return fixed[k, 1]
