"""The reference engine's clock: which PEs and routers act in a cycle, and which task a free PE takes.

Must not know Python objects: what comes back is a reason, and everything else stands in the arrays.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_CLASSES,
    A_FUNCTIONS,
    A_IN,
    A_OUT,
    A_PE_WHEEL,
    A_PES,
    A_ROUTER_WHEEL,
    A_TASKS,
    BUSY,
    CLASS_SIZE,
    CONTROL_BIT,
    F_KINDS,
    F_PARAMS,
    FREE,
    FUNCTION_SIZE,
    G_FREE_OPS,
    G_LAST,
    G_LOG,
    G_LOG_ROOM,
    G_MAX,
    G_MISSING,
    G_NOW,
    G_OPEN,
    G_QUEUE,
    G_START,
    G_STATUS,
    G_TRACE_ROOM,
    G_UNTIL,
    G_WSE3,
    IN_MAP,
    K_CONTROL,
    K_EMPTY,
    K_HANDLERS,
    K_TASKS,
    L_ARGS,
    L_FUNCTION,
    L_NEXT,
    L_TIME,
    LOG_SIZE,
    O_ENDING,
    O_NEXT,
    O_TIME,
    P_ACTIVE,
    P_BLOCKED,
    P_CLASS,
    P_EMPTY,
    P_ENDING,
    P_HIGH,
    P_IN,
    P_INS,
    P_LAST_ID,
    P_LAUNCH,
    P_LAUNCH_LAST,
    P_MAP,
    P_OPS,
    P_OUT,
    P_OUTS,
    P_REGISTERS,
    P_ROUTER_WAKE,
    P_SCAN,
    P_SLOTS,
    P_STATE,
    P_STREAMS,
    P_TASK,
    P_TASK_START,
    P_TIME,
    P_TO_HANDLE,
    P_WAKE,
    PE_SIZE,
    Q_COLOR,
    Q_COUNT,
    Q_USER,
    STREAMS,
    TASK_IDS,
)  # fmt: skip
from .jit import inner_kernel, lean_kernel
from .reference_code import CALL_CELLS, TASK_END, enter, next_element, run_code
from .reference_fabric import router_step
from .reference_pointers import pointer_to
from .reference_queues import (
    NEVER,
    NO_ENTRY,
    fault,
    first_of,
    head_time,
    head_word,
    lowest_bit,
    next_cycle,
    pop_input,
    wake,
)  # fmt: skip
from .reference_stream import finish, next_time, step
from .reference_values import size_of, wrap

Cells = Any
# The task under which handlers of teardown and of empty queues run.
HANDLER_ID = 29
# Operations that one PE may begin in a cycle before the kernel looks whether there are records left.
SPARE_OPS = 64
UNTIL_COMMANDS, UNTIL_WORDS = 0, 1


@lean_kernel
def run(S: Cells, M: Cells, U: Cells, F: Cells, L: Cells, T: Cells, W: Cells) -> int:
    """Let time go on until the condition of G_UNTIL holds, nothing moves, or the fault or limit; the reason."""
    S[G_LOG_ROOM], S[G_TRACE_ROOM] = len(L), len(T)
    return _run(
        pointer_to(S), pointer_to(M), pointer_to(U), pointer_to(F), pointer_to(L), pointer_to(T), pointer_to(W)
    )  # fmt: skip


@inner_kernel
def _run(S: Cells, M: Cells, U: Cells, F: Cells, L: Cells, T: Cells, W: Cells) -> int:
    S[G_STATUS] = f.RUNNING
    while True:
        pe = first_of(S, S[A_ROUTER_WHEEL], P_ROUTER_WAKE)
        while pe >= 0 and S[G_STATUS] == f.RUNNING:
            router_step(S, W, pe)
            pe = first_of(S, S[A_ROUTER_WHEEL], P_ROUTER_WAKE)
        while S[G_STATUS] == f.RUNNING:
            if S[G_FREE_OPS] < SPARE_OPS or (S[G_LOG] + 1) * LOG_SIZE > S[G_LOG_ROOM]:
                return f.GROW
            pe = first_of(S, S[A_PE_WHEEL], P_WAKE)
            if pe < 0:
                break
            pe_step(S, M, U, F, L, T, W, pe)
        if S[G_STATUS] != f.RUNNING:
            return S[G_STATUS]
        if _met(S):
            return f.MET
        following = next_cycle(S)
        if following < 0:
            # Somebody may have been looked at for nothing since.
            S[G_NOW] = S[G_LAST]
            return f.QUIET
        if following > S[G_MAX]:
            return f.BUDGET
        S[G_NOW] = following


@inner_kernel
def _met(S: Cells) -> bool:
    if S[G_UNTIL] == UNTIL_COMMANDS:
        return S[G_OPEN] == 0
    return S[G_UNTIL] == UNTIL_WORDS and S[G_MISSING] <= 0


@inner_kernel
def pe_step(S: Cells, M: Cells, U: Cells, F: Cells, L: Cells, T: Cells, W: Cells, pe: int) -> None:
    """What one PE does in this cycle: operations that end, its main thread, then elements of operations."""
    p = S[A_PES] + pe * PE_SIZE
    now = S[G_NOW]
    _end_operations(S, T, F, p)
    for _ in range(1 << 30):
        if S[p + P_STATE] == IN_MAP and S[p + P_TIME] <= now:
            S[p + P_TIME] = now
            next_element(S, M, U, F, T, pe)
        if S[p + P_STATE] == BUSY:
            run_code(S, M, U, F, L, T, pe)
        if S[G_STATUS] != f.RUNNING:
            return
        if S[p + P_STATE] != FREE or S[p + P_TIME] > now or not _take_task(S, W, pe, p):
            break
    for slot in range(S[p + P_STREAMS]):
        if S[S[p + P_SLOTS] + slot] <= now:
            look = step(S, M, U, F, S[S[p + P_SLOTS] + STREAMS + slot])
            S[S[p + P_SLOTS] + slot] = look
            if S[G_STATUS] != f.RUNNING:
                return
    time = S[p + P_ENDING]
    for slot in range(S[p + P_STREAMS]):
        time = min(time, S[S[p + P_SLOTS] + slot])
    _sleep(S, F, W, pe, p, time)


@inner_kernel
def _end_operations(S: Cells, T: Cells, F: Cells, p: int) -> None:
    """Operations whose end has come are taken off the list."""
    if S[p + P_ENDING] > S[G_NOW]:
        return
    before, o, soonest = np.int64(-1), S[p + P_OPS], NEVER
    while o >= 0:
        following = F[o + O_NEXT]
        if F[o + O_ENDING] and F[o + O_TIME] <= S[G_NOW]:
            if before >= 0:
                F[before + O_NEXT] = following
            else:
                S[p + P_OPS] = following
            finish(S, T, F, o)
        else:
            if F[o + O_ENDING]:
                soonest = min(soonest, F[o + O_TIME])
            before = o
        o = following
    S[p + P_ENDING] = soonest


@inner_kernel
def _sleep(S: Cells, F: Cells, W: Cells, pe: int, p: int, time: int) -> None:
    """Be woken when the main thread, or at `time` an operation, can next do something as far as it can be told now;
    others wake the PE for what they do."""
    now, state = S[G_NOW], S[p + P_STATE]
    if state == BUSY or (state == FREE and S[p + P_TIME] > now):
        time = min(time, max(S[p + P_TIME], now + 1))
    elif state == IN_MAP:
        time = min(time, S[p + P_TIME] if S[p + P_TIME] > now else next_time(S, F, S[p + P_MAP]))
    elif state == FREE:
        if S[p + P_SCAN]:
            for k in range(S[p + P_INS]):
                at = head_time(S, S[A_IN] + (S[p + P_IN] + k) * S[G_QUEUE])
                if at > now:
                    time = min(time, at)
        if S[p + P_LAUNCH] >= 0:
            time = min(time, max(W[S[p + P_LAUNCH] + L_TIME], now + 1))
    if time < NEVER:
        wake(S, pe, max(time, now + 1))


# ---- choosing a task -----------------------------------------------------------------------------------


@inner_kernel
def _take_task(S: Cells, W: Cells, pe: int, p: int) -> bool:
    """Start the task that comes first of those that can run; False when there is none."""
    if S[p + P_LAUNCH] >= 0 and W[S[p + P_LAUNCH] + L_TIME] <= S[G_NOW]:
        _start_launch(S, W, p)
        return True
    data, control, strays = _waiting_wavelets(S, pe, p)
    if S[G_STATUS] != f.RUNNING:
        return False
    local = S[p + P_ACTIVE] & ~S[p + P_BLOCKED]
    if _handler_due(S, p) and not (S[p + P_BLOCKED] >> HANDLER_ID) & 1:
        local |= np.int64(1) << HANDLER_ID
    runnable = data | control | local
    if runnable == 0:
        return strays
    if runnable & S[p + P_HIGH]:
        runnable &= S[p + P_HIGH]
    behind = runnable & ~((np.int64(2) << S[p + P_LAST_ID]) - 1)
    number = lowest_bit(behind if behind else runnable)
    S[p + P_LAST_ID] = number
    bit = np.int64(1) << number
    if data & bit:
        _start_from_queue(S, pe, p, number, False)
    elif control & bit:
        _start_from_queue(S, pe, p, number, True)
    elif number == HANDLER_ID and _handler_due(S, p):
        _start_handler(S, p)
    else:
        S[p + P_ACTIVE] &= ~bit
        fn = S[S[A_TASKS] + S[_row(S, p) + K_TASKS] + TASK_IDS + number]
        if fn < 0:
            fault(S, f.NO_TASK, pe, -1, number, 0, 0)
            return False
        _start(S, p, fn)
    return S[G_STATUS] == f.RUNNING


@inner_kernel
def _row(S: Cells, p: int) -> int:
    return S[A_CLASSES] + S[p + P_CLASS] * CLASS_SIZE


@inner_kernel
def _start(S: Cells, p: int, fn: int) -> int:
    """Begin a task; the place of its registers."""
    fp = S[p + P_REGISTERS] + CALL_CELLS
    enter(S, p, fp, fn, TASK_END, 0, 0, -1)
    S[p + P_STATE], S[p + P_TASK], S[p + P_TASK_START] = BUSY, fn, S[G_NOW]
    S[p + P_TIME] = S[G_NOW] + S[G_START]
    return fp


@inner_kernel
def _start_launch(S: Cells, W: Cells, p: int) -> None:
    """The function that the host called."""
    record = S[p + P_LAUNCH]
    S[p + P_LAUNCH] = W[record + L_NEXT]
    if S[p + P_LAUNCH] < 0:
        S[p + P_LAUNCH_LAST] = -1
    fn = W[record + L_FUNCTION]
    fp = _start(S, p, fn)
    for k in range(S[S[A_FUNCTIONS] + fn * FUNCTION_SIZE + F_PARAMS]):
        S[fp + k] = W[record + L_ARGS + k]


@inner_kernel
def _handler_due(S: Cells, p: int) -> bool:
    return S[p + P_TO_HANDLE] != 0 or _empty_queue(S, p) >= 0


@inner_kernel
def _empty_queue(S: Cells, p: int) -> int:
    """The first output queue that is flushed and empty and whose handler has not run; -1 without one."""
    if S[p + P_EMPTY] == 0:
        return -1
    for k in range(S[p + P_OUTS]):
        q = S[A_OUT] + (S[p + P_OUT] + k) * S[G_QUEUE]
        if (S[p + P_EMPTY] >> S[q]) & 1 and S[q + Q_COUNT] == 0 and S[q + Q_USER] == 0:
            return S[q]
    return -1


@inner_kernel
def _start_handler(S: Cells, p: int) -> None:
    if S[p + P_TO_HANDLE]:
        color = lowest_bit(S[p + P_TO_HANDLE])
        S[p + P_TO_HANDLE] &= ~(np.int64(1) << color)
        _start(S, p, S[S[_row(S, p) + K_HANDLERS] + color])
        return
    number = _empty_queue(S, p)
    S[p + P_EMPTY] &= ~(np.int64(1) << number)
    fn = S[S[_row(S, p) + K_EMPTY] + number]
    if fn >= 0:
        _start(S, p, fn)


@inner_kernel
def _waiting_wavelets(S: Cells, pe: int, p: int) -> tuple[int, int, bool]:
    """Data and control tasks for which a wavelet heads a queue, by id; and whether a wavelet for nobody was dropped."""
    data, control, dropped = np.int64(0), np.int64(0), False
    if not S[p + P_SCAN]:
        return data, control, dropped
    tasks = S[A_TASKS] + S[_row(S, p) + K_TASKS]
    for k in range(S[p + P_INS]):
        q = S[A_IN] + (S[p + P_IN] + k) * S[G_QUEUE]
        if head_time(S, q) > S[G_NOW]:
            continue
        word = head_word(S, q)
        number = S[q] if S[G_WSE3] else S[q + Q_COLOR]
        if number < 0 or (S[p + P_BLOCKED] >> number) & 1:
            continue
        if word & CONTROL_BIT:
            entry = (word >> 16) & 63
            if S[q + Q_USER]:
                continue
            fn = S[S[A_TASKS] + S[_row(S, p) + K_CONTROL] + entry]
            if fn >= 0:
                control |= np.int64(1) << entry
            elif entry == NO_ENTRY:
                pop_input(S, pe, q)
                dropped = True
            else:
                fault(S, f.NO_CONTROL_TASK, pe, -1, entry, S[q + Q_COLOR], 0)
        elif S[tasks + number] >= 0 and not S[q + Q_USER]:
            data |= np.int64(1) << number
    return data, control, dropped


@inner_kernel
def _start_from_queue(S: Cells, pe: int, p: int, number: int, is_control: bool) -> None:
    """The task of the wavelet at the head of the first queue that has one for `number`."""
    for k in range(S[p + P_INS]):
        q = S[A_IN] + (S[p + P_IN] + k) * S[G_QUEUE]
        if head_time(S, q) > S[G_NOW] or S[q + Q_USER]:
            continue
        word = head_word(S, q)
        own = S[q] if S[G_WSE3] else S[q + Q_COLOR]
        if own < 0 or (S[p + P_BLOCKED] >> own) & 1 or (word & CONTROL_BIT != 0) != is_control:
            continue
        if is_control and (word >> 16) & 63 != number:
            continue
        if not is_control and own != number:
            continue
        pop_input(S, pe, q)
        table = S[A_TASKS] + S[_row(S, p) + (K_CONTROL if is_control else K_TASKS)]
        fn = S[table + number]
        fp = _start(S, p, fn)
        _arguments(S, fp, fn, word & 0xFFFFFFFF)
        return


@inner_kernel
def _arguments(S: Cells, fp: int, fn: int, word: int) -> None:
    """Parameters from a wavelet: equal parts of it, the lowest first."""
    at = S[A_FUNCTIONS] + fn * FUNCTION_SIZE
    count = S[at + F_PARAMS]
    shift = np.int64(0)
    for k in range(count):
        kind = (S[at + F_KINDS] >> (4 * k)) & 15
        S[fp + k] = wrap(word >> shift, kind)
        shift += 8 * size_of(kind) if count > 1 else 0
