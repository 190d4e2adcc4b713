"""The reference engine's main thread: instructions, calls, `@map`, and how operations are issued.

The thread runs ahead of the fabric's clock where nobody can tell: while its PE has no operation in flight and a command
of the host is still open there, nothing else touches the PE's memory. Must not know how tasks are chosen.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_CODE,
    A_CONSTANTS,
    A_FUNCTIONS,
    A_PES,
    A_VECTORS,
    BUSY,
    C_A,
    C_B,
    C_C,
    C_COST,
    C_D,
    C_KIND,
    C_OP,
    CODE_SIZE,
    D_TYPE,
    F_ENTRY,
    F_REGISTERS,
    FREE,
    FUNCTION_SIZE,
    G_FREE_OPS,
    G_FUNCTIONS,
    G_LAST,
    G_LOG,
    G_LOG_ROOM,
    G_MAP_ELEMENT,
    G_MAX,
    G_NOW,
    G_STATUS,
    IN_MAP,
    IN_OPERATION,
    INPUT,
    LOG_SIZE,
    O_CALLBACK,
    O_COUNT,
    O_D,
    O_FN,
    O_FP,
    O_GROUP,
    O_INDEX,
    O_K,
    O_MAIN,
    O_N,
    O_OPERANDS,
    O_OUTPUT,
    O_PARENT,
    O_PC,
    O_PE,
    O_TIME,
    OP_SIZE,
    OPERAND_SIZE,
    P_ACTIVE,
    P_BLOCKED,
    P_BLOCKED_UT,
    P_BUSY,
    P_ELEMENTS,
    P_FN,
    P_FP,
    P_MAP,
    P_OPS,
    P_OWES,
    P_PC,
    P_REGISTERS_END,
    P_STATE,
    P_TASK,
    P_TASK_START,
    P_TIME,
    P_VECTOR_FREE,
    PE_SIZE,
    TRACE_OPERATION,
    TRACE_TASK,
)  # fmt: skip
from .ir import BlockKind, Op
from .jit import inner_kernel
from .reference_machine import (
    M_COORDINATE,
    M_RANDOM,
    M_RPC_DONE,
    M_TEXT,
    M_TIME,
    M_TRACE_NUMBER,
    machine_operation,
)  # fmt: skip
from .reference_memory import copy, lane_constant, load, store
from .reference_queues import fault, wake
from .reference_records import attach, claim, end_at, free_record, keep_ends, link, new_record, release
from .reference_registers import is_register, read_register, write_register
from .reference_stream import fetch, obstacle, put_element, trace, unblock
from .reference_values import (
    DIV,
    DSD_MOVE,
    F16,
    F32,
    NEG,
    NOT,
    REM,
    SHL,
    SHR,
    arithmetic,
    changed_dsd,
    convert,
    function,
    width_of,
    wrap,
)
from .reference_vector import (
    SCRATCH,
    V_LOAD_DSR,
    V_MAP,
    V_MICROTHREAD,
    V_OP,
    V_SIZE,
    check_operands,
    cycles_of,
    do_in_memory,
    load_dsr,
    prepare,
    shift_by_index,
    streams,
)  # fmt: skip

Cells = Any
CONST, LANE, MOVE = int(Op.CONST), int(Op.LANE), int(Op.MOVE)
CONVERT, BITCAST, LOAD, STORE, COPY, CHECK = (
    int(o) for o in (Op.CONVERT, Op.BITCAST, Op.LOAD, Op.STORE, Op.COPY, Op.CHECK)
)
JUMP, JUMP_IF_NOT, ARG, CALL, CALL_AT, RETURN = (
    int(o) for o in (Op.JUMP, Op.JUMP_IF_NOT, Op.ARG, Op.CALL, Op.CALL_AT, Op.RETURN)
)
VECTOR, ACTIVATE, BLOCK, UNBLOCK, ASSERT, MACHINE, MATH = (
    int(o) for o in (Op.VECTOR, Op.ACTIVATE, Op.BLOCK, Op.UNBLOCK, Op.ASSERT, Op.MACHINE, Op.MATH)
)
BLOCK_MICROTHREAD = int(BlockKind.MICROTHREAD)
# Below each frame: where its call returns to (-1: the task ends, -2: the element of a @map), the caller's frame,
# the caller, and the register for the result + 1.
CALL_CELLS = 2
TASK_END, MAP_END = -1, -2
# Instructions that a thread may do without time going on.
MAX_IDLE = 1 << 24


@inner_kernel
def enter(S: Cells, p: int, fp: int, fn: int, back: int, caller_fp: int, caller: int, d: int) -> None:
    """Begin a function in the frame `fp`."""
    S[fp - 2] = back << 32 | caller_fp
    S[fp - 1] = caller << 32 | (d + 1)
    S[p + P_PC] = S[S[A_FUNCTIONS] + fn * FUNCTION_SIZE + F_ENTRY]
    S[p + P_FP], S[p + P_FN] = fp, fn


@inner_kernel
def frame_after(S: Cells, fp: int, fn: int) -> int:
    """Where the frame of a call from `fn` lies."""
    return fp + S[S[A_FUNCTIONS] + fn * FUNCTION_SIZE + F_REGISTERS] + CALL_CELLS


@inner_kernel
def run_code(S: Cells, M: Cells, U: Cells, F: Cells, L: Cells, T: Cells, pe: int) -> None:
    """Let the main thread go on until it ends, waits, or must not run further ahead."""
    p = S[A_PES] + pe * PE_SIZE
    now, idle, last = S[G_NOW], 0, S[p + P_TIME]
    while S[p + P_STATE] == BUSY and S[G_STATUS] == f.RUNNING:
        time = S[p + P_TIME]
        c = S[A_CODE] + S[p + P_PC] * CODE_SIZE
        op = S[c + C_OP]
        if time > now and (not _may_run_ahead(S, p, op, S[c + C_KIND]) or _uses_router(S, p, c, op)):
            return
        idle = idle + 1 if time == last else 0
        last = time
        if time > S[G_MAX]:
            return
        if idle > MAX_IDLE:
            fault(S, f.ENDLESS, pe, S[p + P_PC], 0, 0, 0)
            return
        if op <= CHECK:
            _value(S, M, U, pe, p, c, op)
        elif op <= RETURN:
            _flow(S, M, U, F, T, pe, p, c, op)
        else:
            _other(S, M, U, F, L, T, pe, p, c, op)
        S[G_LAST] = max(S[G_LAST], S[p + P_TIME])


@inner_kernel
def _may_run_ahead(S: Cells, p: int, op: int, kind: int) -> bool:
    """Whether an instruction later than now does the same as in its own cycle."""
    if op < LOAD or op == CHECK or op == MATH or (op >= JUMP and op <= CALL_AT) or op >= DSD_MOVE:
        return True
    if op == RETURN:
        return S[p + P_MAP] < 0 or (S[p + P_OPS] < 0 and S[p + P_OWES] > 0)
    if op == MACHINE:
        if kind == M_RANDOM or kind == M_TIME or kind == M_COORDINATE or kind >= M_TEXT:
            return kind != M_RPC_DONE
        return False
    return S[p + P_OPS] < 0 and S[p + P_OWES] > 0


@inner_kernel
def _uses_router(S: Cells, p: int, c: int, op: int) -> bool:
    """Whether an instruction reads or writes a register of the PE's router."""
    return (op == LOAD or op == STORE) and is_register(S, S[S[p + P_FP] + S[c + C_A]] + S[c + C_C])


# ---- values ------------------------------------------------------------------------------------------


@inner_kernel
def _value(S: Cells, M: Cells, U: Cells, pe: int, p: int, c: int, op: int) -> None:
    """Instructions that compute or move a value."""
    fp, kind, pc = S[p + P_FP], S[c + C_KIND], S[p + P_PC]
    d, a, b = fp + S[c + C_D], S[c + C_A], S[c + C_B]
    S[p + P_PC] = pc + 1
    S[p + P_TIME] += S[c + C_COST]
    if op == CONST:
        S[d] = S[S[A_CONSTANTS] + a]
    elif op == LANE:
        S[d] = lane_constant(S, p, a)
    elif op == MOVE:
        S[d] = S[fp + a]
    elif op < CONVERT:
        x = S[fp + a]
        y = S[fp + b] if op != NEG and op != NOT else np.int64(0)
        if (op == DIV or op == REM) and y == 0 and kind != F32 and kind != F16:
            fault(S, f.DIVISION, pe, pc, x, 0, 0)
        elif (op == SHL or op == SHR) and (y < 0 or y >= width_of(kind)):
            fault(S, f.SHIFT, pe, pc, y, width_of(kind), 0)
        else:
            S[d] = arithmetic(op, kind, x, y)
    elif op == CONVERT:
        S[d] = convert(S[fp + a], b, kind)
    elif op == BITCAST:
        S[d] = wrap(S[fp + a], kind)
    elif op == LOAD:
        address = S[fp + a] + S[c + C_C]
        S[d] = read_register(S, pe, pc, address) if is_register(S, address) else load(S, M, U, pe, pc, address, kind)
    elif op == STORE:
        address = S[fp + a] + S[c + C_C]
        if is_register(S, address):
            write_register(S, pe, pc, address, S[d])
        else:
            store(S, M, U, pe, pc, address, kind, S[d])
    elif op == COPY:
        copy(S, M, U, pe, pc, S[d], S[fp + a], b)
    elif S[fp + a] < 0 or S[fp + a] >= b:
        fault(S, f.INDEX, pe, pc, S[fp + a], b, 0)


# ---- control flow --------------------------------------------------------------------------------------


@inner_kernel
def _flow(S: Cells, M: Cells, U: Cells, F: Cells, T: Cells, pe: int, p: int, c: int, op: int) -> None:
    fp, pc, a, b = S[p + P_FP], S[p + P_PC], S[c + C_A], S[c + C_B]
    S[p + P_PC] = pc + 1
    S[p + P_TIME] += S[c + C_COST]
    if op == JUMP:
        S[p + P_PC] = a
    elif op == JUMP_IF_NOT:
        if S[fp + a] == 0:
            S[p + P_PC] = b
    elif op == ARG:
        S[frame_after(S, fp, S[p + P_FN]) + S[c + C_D]] = S[fp + a]
    elif op == CALL:
        _call(S, pe, p, a, pc + 1, S[c + C_D])
    elif op == CALL_AT:
        _call(S, pe, p, S[fp + a], pc + 1, S[c + C_D])
    else:
        _return(S, M, U, F, T, pe, p, a)


@inner_kernel
def _call(S: Cells, pe: int, p: int, fn: int, back: int, d: int) -> None:
    if fn < 0 or fn >= S[G_FUNCTIONS]:
        fault(S, f.NO_FUNCTION, pe, back - 1, fn, 0, 0)
        return
    fp, caller = S[p + P_FP], S[p + P_FN]
    frame = frame_after(S, fp, caller)
    if frame_after(S, frame, fn) > S[p + P_REGISTERS_END]:
        fault(S, f.DEPTH, pe, back - 1, 0, 0, 0)
        return
    enter(S, p, frame, fn, back, fp, caller, d)


@inner_kernel
def _return(S: Cells, M: Cells, U: Cells, F: Cells, T: Cells, pe: int, p: int, a: int) -> None:
    fp = S[p + P_FP]
    value = S[fp + a] if a >= 0 else np.int64(0)
    back, caller_fp = S[fp - 2] >> 32, S[fp - 2] & 0xFFFFFFFF
    caller, d = S[fp - 1] >> 32, (S[fp - 1] & 0xFFFFFFFF) - 1
    if back == TASK_END:
        S[p + P_STATE] = FREE
        S[p + P_BUSY] += S[p + P_TIME] - S[p + P_TASK_START]
        trace(S, T, TRACE_TASK, pe, S[p + P_TASK_START], S[p + P_TIME], S[p + P_TASK])
        return
    if back == MAP_END:
        _end_element(S, M, U, F, T, pe, p, value)
        return
    S[p + P_PC], S[p + P_FP], S[p + P_FN] = back, caller_fp, caller
    if d >= 0 and a >= 0:
        S[caller_fp + d] = value


# ---- vectors ----------------------------------------------------------------------------------------------


@inner_kernel
def _vector(S: Cells, M: Cells, U: Cells, F: Cells, T: Cells, pe: int, p: int, c: int) -> None:
    """Issue the operation of a row of `vectors`."""
    fp, pc, row, time = S[p + P_FP], S[p + P_PC], S[c + C_A], S[p + P_TIME]
    setup, d = S[c + C_COST], S[c + C_D]
    S[p + P_PC] = pc + 1
    op = S[S[A_VECTORS] + row * V_SIZE + V_OP]
    if op == V_LOAD_DSR:
        load_dsr(S, pe, fp, row)
        S[p + P_TIME] = time + setup
        return
    prepare(S, F, pe, SCRATCH, fp, row, pc, time)
    if S[G_STATUS] != f.RUNNING:
        return
    result = fp + d if d >= 0 else np.int64(-1)
    if op == V_MAP:
        _begin_map(S, M, U, F, T, pe, p, time + setup)
    elif streams(F, SCRATCH):
        _begin_stream(S, F, pe, p, row, fp, time + setup, result)
    else:
        _do_at_once(S, M, U, F, T, pe, p, row, fp, time + setup, result)


@inner_kernel
def _to_record(S: Cells, F: Cells) -> int:
    """A record of its own for the operation that was prepared."""
    o = new_record(S, F, S[A_PES] + F[SCRATCH + O_PE] * PE_SIZE)
    for k in range(OP_SIZE):
        F[o + k] = F[SCRATCH + k]
    return o


@inner_kernel
def _microthread(S: Cells, row: int, fp: int) -> int:
    register = S[S[A_VECTORS] + row * V_SIZE + V_MICROTHREAD]
    return S[fp + register] if register >= 0 else np.int64(-1)


@inner_kernel
def _do_at_once(
    S: Cells, M: Cells, U: Cells, F: Cells, T: Cells, pe: int, p: int, row: int, fp: int, ready: int, result: int
) -> None:
    """An operation over memory: its values are those of now, only its end takes time."""
    do_in_memory(S, M, U, F, SCRATCH)
    start = max(ready, S[p + P_VECTOR_FREE])
    end = start + cycles_of(S, F, SCRATCH)
    S[p + P_VECTOR_FREE] = end
    if result >= 0:
        S[result] = 1
    if F[SCRATCH + O_MAIN]:
        keep_ends(S, F, SCRATCH)
        trace(S, T, TRACE_OPERATION, pe, S[p + P_TIME], end, F[SCRATCH + O_PC])
        S[p + P_TIME] = end
        return
    S[p + P_TIME] = ready
    o = _to_record(S, F)
    F[o + O_D] = -1
    end_at(S, F, o, end)
    claim(S, F, o, _microthread(S, row, fp))
    link(S, F, p, o)


@inner_kernel
def _begin_stream(S: Cells, F: Cells, pe: int, p: int, row: int, fp: int, ready: int, result: int) -> None:
    """An operation with a fabric or FIFO operand, which goes on by itself from now on."""
    o = _to_record(S, F)
    main = F[o + O_MAIN]
    F[o + O_D], F[o + O_TIME] = result if main else -1, ready
    if F[o + O_INDEX] >= 0:
        shift_by_index(F, o, F[o + O_INDEX])
    check_operands(S, F, o) if F[o + O_N] < (1 << 40) else None
    if F[o + O_N] == 0 and not _has_advance(F, o):
        end_at(S, F, o, ready)
    claim(S, F, o, _microthread(S, row, fp))
    link(S, F, p, o)
    attach(S, F, o)
    if main:
        S[p + P_STATE] = IN_OPERATION
    elif result >= 0:
        S[result] = 1
    S[p + P_TIME] = ready


@inner_kernel
def _has_advance(F: Cells, o: int) -> bool:
    return F[o + f.O_ADVANCE] != 0


# ---- map ---------------------------------------------------------------------------------------------------


@inner_kernel
def _begin_map(S: Cells, M: Cells, U: Cells, F: Cells, T: Cells, pe: int, p: int, ready: int) -> None:
    o = _to_record(S, F)
    F[o + O_FN], F[o + O_FP], F[o + O_PARENT], F[o + O_MAIN] = S[p + P_FN], S[p + P_FP], S[p + P_MAP], 1
    F[o + O_TIME], F[o + O_D], F[o + O_GROUP] = ready, -1, 1
    check_operands(S, F, o)
    claim(S, F, o, -1)
    S[p + P_TIME], S[p + P_MAP], S[p + P_STATE] = ready, o, IN_MAP
    next_element(S, M, U, F, T, pe)


@inner_kernel
def next_element(S: Cells, M: Cells, U: Cells, F: Cells, T: Cells, pe: int) -> None:
    """Begin the callback for the next element of the PE's `@map`, or end the operation; or wait (IN_MAP)."""
    p = S[A_PES] + pe * PE_SIZE
    o = S[p + P_MAP]
    time = S[p + P_TIME]
    if F[o + O_K] >= F[o + O_N]:
        _end_map(S, F, T, pe, p, o)
        return
    if _map_streams(F, o):
        # What the fabric and FIFOs hold can only be told in this very cycle.
        if time > S[G_NOW]:
            return
        S[p + P_TIME] = max(time, S[G_NOW])
        reason = obstacle(S, F, o, 1)
        if reason:
            F[o + f.O_REASON] = reason
            return
    frame = frame_after(S, F[o + O_FP], F[o + O_FN])
    callback = F[o + O_CALLBACK]
    if frame_after(S, frame, callback) > S[p + P_REGISTERS_END]:
        fault(S, f.DEPTH, pe, F[o + O_PC], 0, 0, 0)
        return
    for k in range(F[o + O_COUNT]):
        if k != F[o + O_OUTPUT]:
            S[frame + k] = fetch(S, M, U, F, o, k, F[o + O_K], 0, 1)
    S[p + P_TIME] += S[G_MAP_ELEMENT]
    S[p + P_STATE] = BUSY
    enter(S, p, frame, callback, MAP_END, F[o + O_FP], F[o + O_FN], -1)


@inner_kernel
def _map_streams(F: Cells, o: int) -> bool:
    for k in range(F[o + O_COUNT]):
        if F[o + O_OPERANDS + k * OPERAND_SIZE + D_TYPE] >= INPUT:
            return True
    return False


@inner_kernel
def _end_element(S: Cells, M: Cells, U: Cells, F: Cells, T: Cells, pe: int, p: int, value: int) -> None:
    """The callback returned `value`."""
    o = S[p + P_MAP]
    if F[o + O_OUTPUT] >= 0:
        at = o + O_OPERANDS + F[o + O_OUTPUT] * OPERAND_SIZE
        put_element(S, M, U, F, o, at, F[o + O_K], value)
    S[p + P_ELEMENTS] += 1
    F[o + O_K] += 1
    S[p + P_STATE] = IN_MAP
    next_element(S, M, U, F, T, pe)


@inner_kernel
def _end_map(S: Cells, F: Cells, T: Cells, pe: int, p: int, o: int) -> None:
    release(S, F, o)
    trace(S, T, TRACE_OPERATION, pe, F[o + f.O_ISSUED], S[p + P_TIME], F[o + O_PC])
    S[p + P_PC], S[p + P_FP], S[p + P_FN] = F[o + O_PC] + 1, F[o + O_FP], F[o + O_FN]
    S[p + P_MAP], S[p + P_STATE] = F[o + O_PARENT], BUSY
    free_record(S, F, p, o)


# ---- tasks, the machine, the host ------------------------------------------------------------------------------


@inner_kernel
def _other(S: Cells, M: Cells, U: Cells, F: Cells, L: Cells, T: Cells, pe: int, p: int, c: int, op: int) -> None:
    if op == VECTOR:
        if S[G_FREE_OPS] < 2:
            S[G_STATUS] = f.GROW
            wake(S, pe, S[G_NOW])
            return
        _vector(S, M, U, F, T, pe, p, c)
        return
    fp, pc, kind = S[p + P_FP], S[p + P_PC], S[c + C_KIND]
    d, a, b = fp + S[c + C_D], S[c + C_A], S[c + C_B]
    if op == MACHINE and kind >= M_TEXT and kind <= M_TRACE_NUMBER and (S[G_LOG] + 1) * LOG_SIZE > S[G_LOG_ROOM]:
        # The log must grow first; the instruction is done when the kernel is called again.
        S[G_STATUS] = f.GROW
        wake(S, pe, S[G_NOW])
        return
    S[p + P_PC] = pc + 1
    time = S[p + P_TIME]
    S[p + P_TIME] = time + S[c + C_COST]
    if op == ACTIVATE:
        S[p + P_ACTIVE] |= np.int64(1) << S[fp + a]
    elif op == BLOCK:
        if b == BLOCK_MICROTHREAD:
            S[p + P_BLOCKED_UT] |= np.int64(1) << S[fp + a]
        else:
            S[p + P_BLOCKED] |= np.int64(1) << S[fp + a]
    elif op == UNBLOCK:
        unblock(S, p, b, S[fp + a])
    elif op == ASSERT:
        if S[fp + a] == 0:
            fault(S, f.ASSERTION, pe, pc, 0, 0, 0)
    elif op == MATH:
        y = S[fp + S[c + C_C]] if S[c + C_C] >= 0 else np.int64(0)
        S[d] = function(b, kind, S[fp + a], y)
    elif op >= DSD_MOVE:
        S[d] = changed_dsd(op, S[fp + a], S[fp + b], S[c + C_C], kind)
    else:
        x = S[fp + a] if a >= 0 else np.int64(0)
        y = S[fp + b] if b >= 0 else np.int64(0)
        z = S[fp + S[c + C_C]] if S[c + C_C] >= 0 else np.int64(0)
        value = machine_operation(S, L, pe, p, pc, kind, x, y, z, time)
        if S[c + C_D] >= 0:
            S[d] = value
