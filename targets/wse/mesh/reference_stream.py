"""The reference engine's operations in flight: those with a fabric or FIFO operand, element by element, and the ends
of all that are asynchronous.

Must not know instructions.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_PES,
    CONTROL_BIT,
    D_AT,
    D_FLAGS,
    D_KIND,
    D_STRIDE,
    D_TYPE,
    FC_ADDRESS,
    FC_CAPACITY,
    FC_KIND,
    FC_POP,
    FC_PUSH,
    FF_COUNT,
    FF_HEAD,
    FF_POPPED,
    FF_PUSHED,
    FF_READER,
    FF_WRITER,
    G_LAST,
    G_NOW,
    G_TRACE,
    G_TRACE_ROOM,
    G_TRACED,
    INPUT,
    O_ACTIVATE,
    O_ADVANCE,
    O_COUNT,
    O_D,
    O_ENDING,
    O_GROUP,
    O_INDEX,
    O_ISSUED,
    O_K,
    O_KIND,
    O_MAIN,
    O_N,
    O_ON_CONTROL,
    O_OPERANDS,
    O_OUTPUT,
    O_PC,
    O_PE,
    O_REASON,
    O_RESULT,
    O_STREAMS,
    O_TIME,
    O_UNBLOCK,
    O_UNBLOCK_KIND,
    O_UT,
    OPERAND_SIZE,
    OUTPUT,
    P_ACTIVE,
    P_BLOCKED,
    P_BLOCKED_UT,
    P_ELEMENTS,
    P_SLOTS,
    P_STATE,
    P_STREAMS,
    P_TIME,
    P_WAIT_FIFO,
    P_WAIT_IN,
    P_WAIT_OUT,
    PE_SIZE,
    Q_COLOR,
    Q_COUNT,
    Q_POPPED,
    QUEUE,
    SCALAR,
    TRACE_OPERATION,
    TRACE_RECEIVED,
    TRACE_SENT,
    TRACE_SIZE,
)  # fmt: skip
from .ir import FLAG_CONTROL, FLAG_INDEX, BlockKind
from .jit import inner_kernel
from .reference_memory import address_of, load, store
from .reference_queues import (
    NEVER,
    NO_ENTRY,
    head_time,
    head_word,
    output_room,
    pop_input,
    send,
    time_at,
    word_at,
)  # fmt: skip
from .reference_records import detach, end_at, free_record, look_at_user, release
from .reference_values import size_of, wrap
from .reference_vector import compute, per_word

Cells = Any
BLOCK_MICROTHREAD = int(BlockKind.MICROTHREAD)
# The command of a control wavelet that advances switches and reaches no PE.
ADVANCE_WORD = (31 << 16) | (1 << 22) | (1 << 24)


@inner_kernel
def words_for(F: Cells, at: int, elements: int) -> int:
    """Wavelets that hold some elements of a fabric operand."""
    each = per_word(F[at + D_FLAGS], F[at + D_KIND])
    return (elements + each - 1) // each


@inner_kernel
def obstacle(S: Cells, F: Cells, o: int, elements: int) -> int:
    """Why the next elements cannot be done in this cycle, or NO_REASON."""
    now, group = S[G_NOW], F[o + O_GROUP]
    mask, k = F[o + O_STREAMS], np.int64(-1)
    while mask >> (k + 1):
        k += 1
        if not (mask >> k) & 1:
            continue
        at = o + O_OPERANDS + k * OPERAND_SIZE
        what, place = F[at + D_TYPE], F[at + D_AT]
        if what == INPUT:
            need = words_for(F, at, elements) if group > 1 else 1
            if S[place + Q_COUNT] < need or time_at(S, place, need - 1) > now:
                return f.NO_INPUT
            for j in range(need):
                if word_at(S, place, j) & CONTROL_BIT:
                    return f.NO_INPUT
        elif what == OUTPUT:
            if output_room(S, place) < (words_for(F, at, elements) if group > 1 else 1):
                return f.NO_ROOM
        elif what == QUEUE:
            reason = _fifo_obstacle(S, F, o, k, at, now)
            if reason:
                return reason
    return f.NO_REASON


@inner_kernel
def _fifo_obstacle(S: Cells, F: Cells, o: int, k: int, at: int, now: int) -> int:
    place = F[at + D_AT]
    if k == F[o + O_OUTPUT]:
        taken = S[place + FF_COUNT] + (1 if S[place + FF_POPPED] == now else 0)
        return f.FIFO_FULL if taken >= S[F[at + D_STRIDE] + FC_CAPACITY] else f.NO_REASON
    return f.FIFO_EMPTY if S[place + FF_COUNT] - (1 if S[place + FF_PUSHED] == now else 0) < 1 else f.NO_REASON


@inner_kernel
def take_control(S: Cells, F: Cells, o: int) -> bool:
    """Let a control wavelet at the head of an input act on an operation that is to notice them; whether it ends it.
    One that names no task is dropped by others."""
    pe = F[o + O_PE]
    p = S[A_PES] + pe * PE_SIZE
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_TYPE] != INPUT:
            continue
        q = F[at + D_AT]
        word = head_word(S, q)
        if head_time(S, q) > S[G_NOW] or not word & CONTROL_BIT:
            continue
        if F[o + O_ON_CONTROL] == 0:
            if (word >> 16) & 63 == NO_ENTRY:
                pop_input(S, pe, q)
            continue
        pop_input(S, pe, q)
        if F[o + O_ON_CONTROL] == 1:
            F[o + O_N] = F[o + O_K]
            return True
        S[p + P_ACTIVE] |= np.int64(1) << (F[o + O_ON_CONTROL] - 2)
    return False


@inner_kernel
def do_elements(S: Cells, M: Cells, U: Cells, F: Cells, o: int, elements: int) -> None:
    """The next elements of an operation; nothing stands in their way."""
    if F[o + O_GROUP] == 1:
        _do_element(S, M, U, F, o)
        return
    pe, first = F[o + O_PE], F[o + O_K]
    p = S[A_PES] + pe * PE_SIZE
    packed = np.int64(0)
    destination = o + O_OPERANDS
    for j in range(elements):
        k = first + j
        a = fetch(S, M, U, F, o, 1, k, j, elements)
        b = fetch(S, M, U, F, o, 2, k, j, elements)
        c = fetch(S, M, U, F, o, 3, k, j, elements)
        value = compute(S, F, o, p, a, b, c)
        if F[destination + D_TYPE] != OUTPUT:
            put_element(S, M, U, F, o, destination, k, value)
            continue
        each = per_word(F[destination + D_FLAGS], F[destination + D_KIND])
        bits = value & (0xFFFF if size_of(F[destination + D_KIND]) <= 2 else 0xFFFFFFFF)
        packed |= bits << (16 * (j % each))
        if j % each == each - 1 or j == elements - 1:
            put_element(S, M, U, F, o, destination, k, packed)
            packed = np.int64(0)
    S[p + P_ELEMENTS] += elements
    S[G_LAST] = S[G_NOW]
    F[o + O_K] = first + elements


@inner_kernel
def _do_element(S: Cells, M: Cells, U: Cells, F: Cells, o: int) -> None:
    """One element, each word of which is one."""
    p, k, count = S[A_PES] + F[o + O_PE] * PE_SIZE, F[o + O_K], F[o + O_COUNT]
    a = fetch(S, M, U, F, o, 1, k, 0, 1)
    b = fetch(S, M, U, F, o, 2, k, 0, 1) if count > 2 else np.int64(0)
    c = fetch(S, M, U, F, o, 3, k, 0, 1) if count > 3 else np.int64(0)
    value = compute(S, F, o, p, a, b, c)
    if F[o + O_OPERANDS + D_TYPE] == OUTPUT and size_of(F[o + O_KIND]) <= 2:
        value &= 0xFFFF
    put_element(S, M, U, F, o, o + O_OPERANDS, k, value)
    S[p + P_ELEMENTS] += 1
    S[G_LAST] = S[G_NOW]
    F[o + O_K] = k + 1


@inner_kernel
def fetch(S: Cells, M: Cells, U: Cells, F: Cells, o: int, operand: int, k: int, j: int, elements: int) -> int:
    """Element `k` of an operand, the j-th of this step."""
    if operand >= F[o + O_COUNT]:
        return np.int64(0)
    at = o + O_OPERANDS + operand * OPERAND_SIZE
    what, place, kind = F[at + D_TYPE], F[at + D_AT], F[at + D_KIND]
    if what == SCALAR:
        return place
    if what == INPUT:
        if elements == 1:
            return wrap(pop_input(S, F[o + O_PE], place) & 0xFFFFFFFF, kind)
        each = per_word(F[at + D_FLAGS], kind)
        word = head_word(S, place)
        if j % each == each - 1 or j == elements - 1:
            pop_input(S, F[o + O_PE], place)
        return wrap((word & 0xFFFFFFFF) >> (16 * (j % each)), kind)
    if what == QUEUE:
        return pop_fifo(S, M, U, F, o, at)
    address = address_of(S, F, at, k)
    if F[at + D_FLAGS] & FLAG_INDEX and F[o + O_INDEX] < 0:
        address += 2 * wavelet_index(S, F, o)
    return load(S, M, U, F[o + O_PE], F[o + O_PC], address, kind)


@inner_kernel
def wavelet_index(S: Cells, F: Cells, o: int) -> int:
    """The index that comes with a wavelet: the upper half of the first input's word (or of the last one taken)."""
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_TYPE] == INPUT:
            # A word that was just taken still stands in its place of the ring.
            q = F[at + D_AT]
            before = (S[q + f.Q_HEAD] - 1 + S[f.G_SLOTS]) % S[f.G_SLOTS]
            word = S[q + f.Q_ITEMS + 2 * before] if S[q + f.Q_POPPED] == S[G_NOW] else head_word(S, q)
            return (word >> 16) & 0xFFFF
    return np.int64(0)


@inner_kernel
def pop_fifo(S: Cells, M: Cells, U: Cells, F: Cells, o: int, at: int) -> int:
    place, row = F[at + D_AT], F[at + D_STRIDE]
    kind = F[at + D_KIND]
    address = S[row + FC_ADDRESS] + S[place + FF_HEAD] * size_of(S[row + FC_KIND])
    value = load(S, M, U, F[o + O_PE], F[o + O_PC], address, kind)
    S[place + FF_HEAD] = (S[place + FF_HEAD] + 1) % S[row + FC_CAPACITY]
    S[place + FF_COUNT] -= 1
    S[place + FF_POPPED] = S[G_NOW]
    look_at_user(S, F, S[place + FF_WRITER])
    if S[row + FC_POP] >= 0:
        S[S[A_PES] + F[o + O_PE] * PE_SIZE + P_ACTIVE] |= np.int64(1) << S[row + FC_POP]
    return value


@inner_kernel
def put_element(S: Cells, M: Cells, U: Cells, F: Cells, o: int, at: int, k: int, value: int) -> None:
    """Give a value (of an output: a word) to the destination."""
    pe, pc = F[o + O_PE], F[o + O_PC]
    what, place, kind = F[at + D_TYPE], F[at + D_AT], F[at + D_KIND]
    if what == OUTPUT:
        control = CONTROL_BIT if F[at + D_FLAGS] & FLAG_CONTROL else 0
        if F[at + D_FLAGS] & FLAG_INDEX:
            value = (value & 0xFFFF) | (k & 0xFFFF) << 16
        send(S, pe, place, (value & 0xFFFFFFFF) | control, F[at + D_STRIDE])
    elif what == QUEUE:
        row = F[at + D_STRIDE]
        where = (S[place + FF_HEAD] + S[place + FF_COUNT]) % S[row + FC_CAPACITY]
        store(S, M, U, pe, pc, S[row + FC_ADDRESS] + where * size_of(S[row + FC_KIND]), kind, value)
        S[place + FF_COUNT] += 1
        S[place + FF_PUSHED] = S[G_NOW]
        look_at_user(S, F, S[place + FF_READER])
        if S[row + FC_PUSH] >= 0:
            S[S[A_PES] + pe * PE_SIZE + P_ACTIVE] |= np.int64(1) << S[row + FC_PUSH]
    else:
        address = address_of(S, F, at, k)
        if F[at + D_FLAGS] & FLAG_INDEX and F[o + O_INDEX] < 0:
            address += 2 * wavelet_index(S, F, o)
        store(S, M, U, pe, pc, address, kind, value)


@inner_kernel
def step(S: Cells, M: Cells, U: Cells, F: Cells, o: int) -> int:
    """One cycle of an operation with a fabric or FIFO operand; when it is to be looked at next, as far as known."""
    now, n = S[G_NOW], F[o + O_N]
    if F[o + O_ENDING]:
        return NEVER
    if F[o + O_TIME] > now:
        return F[o + O_TIME]
    p = S[A_PES] + F[o + O_PE] * PE_SIZE
    if F[o + O_UT] >= 0 and (S[p + P_BLOCKED_UT] >> F[o + O_UT]) & 1:
        return NEVER
    elements = min(F[o + O_GROUP], n - F[o + O_K])
    if elements <= 0:
        _advance_word(S, F, o)
        return next_time(S, F, o)
    reason = obstacle(S, F, o, elements)
    if reason:
        _held_up(S, F, o, reason)
        return next_time(S, F, o)
    if F[o + O_TIME] < now:
        column = P_WAIT_IN if F[o + O_REASON] == f.NO_INPUT else P_WAIT_OUT
        if F[o + O_REASON] >= f.FIFO_EMPTY:
            column = P_WAIT_FIFO
        S[p + column] += now - F[o + O_TIME]
    do_elements(S, M, U, F, o, elements)
    F[o + O_TIME] = now + 1
    if F[o + O_K] >= n and not F[o + O_ADVANCE]:
        end_at(S, F, o, now + 1)
        return NEVER
    return now + 1


@inner_kernel
def _held_up(S: Cells, F: Cells, o: int, reason: int) -> None:
    """Elements cannot be done in this cycle; a control wavelet, or a FIFO, may end the operation instead."""
    F[o + O_REASON] = reason
    if reason == f.NO_INPUT and take_control(S, F, o):
        S[G_LAST] = S[G_NOW]
        end_at(S, F, o, S[G_NOW] + 1)
    elif reason >= f.FIFO_EMPTY and F[o + O_MAIN]:
        # A synchronous operation on an empty or full FIFO ends where it is.
        F[o + O_RESULT] = 0
        end_at(S, F, o, F[o + O_TIME])


@inner_kernel
def _advance_word(S: Cells, F: Cells, o: int) -> None:
    """The control wavelet behind the last element of a DSD with `advance_switch`."""
    now = S[G_NOW]
    if F[o + O_ADVANCE]:
        at = o + O_OPERANDS + F[o + O_OUTPUT] * OPERAND_SIZE
        if output_room(S, F[at + D_AT]) < 1:
            F[o + O_REASON] = f.NO_ROOM
            return
        send(S, F[o + O_PE], F[at + D_AT], ADVANCE_WORD | CONTROL_BIT, F[at + D_STRIDE])
    end_at(S, F, o, now + 1)


@inner_kernel
def next_time(S: Cells, F: Cells, o: int) -> int:
    """When an operation is to be looked at next, as far as it can be told now."""
    now, time = S[G_NOW], NEVER
    if F[o + O_ENDING]:
        return time
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_TYPE] == INPUT:
            q = F[at + D_AT]
            if S[q + Q_POPPED] == now and S[q + Q_COUNT]:
                time = now + 1
            for j in range(S[q + Q_COUNT]):
                if time_at(S, q, j) > now:
                    time = min(time, time_at(S, q, j))
                    break
        elif F[at + D_TYPE] == OUTPUT and S[F[at + D_AT] + Q_POPPED] == now:
            time = now + 1
    return time


@inner_kernel
def finish(S: Cells, T: Cells, F: Cells, o: int) -> None:
    """The end of an operation that is taken off the PE's list: what follows it takes effect."""
    p = S[A_PES] + F[o + O_PE] * PE_SIZE
    detach(S, F, p, o)
    release(S, F, o)
    if F[o + O_ACTIVATE] >= 0:
        S[p + P_ACTIVE] |= np.int64(1) << F[o + O_ACTIVATE]
    if F[o + O_UNBLOCK] >= 0:
        unblock(S, p, F[o + O_UNBLOCK_KIND], F[o + O_UNBLOCK])
    if F[o + O_MAIN]:
        S[p + P_STATE], S[p + P_TIME] = f.BUSY, F[o + O_TIME]
        if F[o + O_D] >= 0:
            S[F[o + O_D]] = F[o + O_RESULT]
    S[G_LAST] = max(S[G_LAST], F[o + O_TIME])
    if S[G_TRACE]:
        _trace_operation(S, T, F, o)
    free_record(S, F, p, o)


@inner_kernel
def _trace_operation(S: Cells, T: Cells, F: Cells, o: int) -> None:
    """The operation, and the words that it sent and received."""
    pe, start, end = F[o + O_PE], F[o + O_ISSUED], F[o + O_TIME]
    trace(S, T, TRACE_OPERATION, pe, start, end, F[o + O_PC])
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_TYPE] == OUTPUT:
            trace(S, T, TRACE_SENT, pe, start, end, F[at + D_STRIDE] | words_for(F, at, F[o + O_K]) << 8)
        elif F[at + D_TYPE] == INPUT:
            trace(S, T, TRACE_RECEIVED, pe, start, end, S[F[at + D_AT] + Q_COLOR] | words_for(F, at, F[o + O_K]) << 8)


@inner_kernel
def unblock(S: Cells, p: int, kind: int, number: int) -> None:
    """A data task has the number of its color (WSE-2) or input queue (WSE-3), so that both are one bit."""
    if kind == BLOCK_MICROTHREAD:
        S[p + P_BLOCKED_UT] &= ~(np.int64(1) << number)
        for slot in range(S[p + P_STREAMS]):
            S[S[p + P_SLOTS] + slot] = min(S[S[p + P_SLOTS] + slot], S[G_NOW])
    else:
        S[p + P_BLOCKED] &= ~(np.int64(1) << number)


@inner_kernel
def trace(S: Cells, T: Cells, kind: int, pe: int, start: int, end: int, what: int) -> None:
    if not S[G_TRACE]:
        return
    at = S[G_TRACED] * TRACE_SIZE
    S[G_TRACED] += 1
    if at + TRACE_SIZE > S[G_TRACE_ROOM]:
        S[G_TRACED] = S[G_TRACE_ROOM] // TRACE_SIZE + 1
        return
    T[at], T[at + 1], T[at + 2], T[at + 3], T[at + 4] = kind, pe, start, end, what
