"""The reference engine's clock work: who is looked at when, the queues of PEs, and what a control wavelet says.

Everything is driven by events: a PE or router is looked at in a cycle only if something could have changed for it.
Must not know routes or programs.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_IN,
    A_OUT,
    A_PE_WHEEL,
    A_PES,
    A_ROUTER_WHEEL,
    COLOR_SHIFT,
    G_FAULT,
    G_FAULT_A,
    G_FAULT_B,
    G_FAULT_C,
    G_FAULT_PC,
    G_FAULT_PE,
    G_NOW,
    G_QUEUE,
    G_RAMP,
    G_SLOTS,
    G_STATUS,
    P_BUSY_OUT,
    P_IN,
    P_INS,
    P_OUT,
    P_OUTS,
    P_ROUTER_WAKE,
    P_SLOTS,
    P_WAKE,
    PE_SIZE,
    POP_SHIFT,
    Q_COLOR,
    Q_COUNT,
    Q_DEPTH,
    Q_HEAD,
    Q_ITEMS,
    Q_POPPED,
    Q_SLOT,
    Q_USER,
    WHEEL,
)  # fmt: skip
from .jit import inner_kernel

Cells = Any
RAMP = 4
NEVER = np.int64(f.NEVER)
# Where commands stand in a control wavelet, the bit beside each that keeps it from the PE, and the entry point.
COMMAND_AT = (22, 25, 28, 1, 4, 7, 10, 13)
IGNORE_AT = (24, 27, 0, 3, 6, 9, 12, 15)
NOP, ADVANCE, RESET, TEARDOWN = range(4)
NO_ENTRY = 31


@inner_kernel
def fault(S: Cells, code: int, pe: int, pc: int, a: int, b: int, c: int) -> None:
    """Note the first fault of this run; the loop stops at it."""
    if S[G_STATUS] == f.RUNNING:
        S[G_STATUS], S[G_FAULT], S[G_FAULT_PE], S[G_FAULT_PC] = f.FAULT, code, pe, pc
        S[G_FAULT_A], S[G_FAULT_B], S[G_FAULT_C] = a, b, c


# ---- waking --------------------------------------------------------------------------------------


@inner_kernel
def wake(S: Cells, pe: int, time: int) -> None:
    """Look at the PE in the cycle `time`, or before."""
    p = S[A_PES] + pe * PE_SIZE
    if not 0 <= S[p + P_WAKE] <= time:
        _put(S, p, pe, time, S[A_PE_WHEEL], P_WAKE)


@inner_kernel
def wake_router(S: Cells, pe: int, time: int) -> None:
    """Look at the PE's router in the cycle `time`, or before."""
    p = S[A_PES] + pe * PE_SIZE
    if not 0 <= S[p + P_ROUTER_WAKE] <= time:
        _put(S, p, pe, time, S[A_ROUTER_WHEEL], P_ROUTER_WAKE)


@inner_kernel
def _put(S: Cells, p: int, pe: int, time: int, wheel: int, at: int) -> None:
    """Into the slot of `time`, or of the last cycle that the wheel reaches (waking early does no harm). The columns for
    the next and the one before lie behind the column `at` of the time."""
    time = min(time, S[G_NOW] + WHEEL - 1)
    now = S[p + at]
    if 0 <= now <= time:
        return
    if now >= 0:
        _take_out(S, p, wheel + (now & (WHEEL - 1)), at)
    slot = wheel + (time & (WHEEL - 1))
    first = S[slot]
    S[p + at], S[p + at + 1], S[p + at + 2] = time, first, -1
    if first >= 0:
        S[S[A_PES] + first * PE_SIZE + at + 2] = pe
    S[slot] = pe


@inner_kernel
def _take_out(S: Cells, p: int, slot: int, at: int) -> None:
    after, previous = S[p + at + 1], S[p + at + 2]
    if previous >= 0:
        S[S[A_PES] + previous * PE_SIZE + at + 1] = after
    else:
        S[slot] = after
    if after >= 0:
        S[S[A_PES] + after * PE_SIZE + at + 2] = previous


@inner_kernel
def first_of(S: Cells, wheel: int, at: int) -> int:
    """Take the first one out of the slot of this cycle; -1 when there is none."""
    slot = wheel + (S[G_NOW] & (WHEEL - 1))
    pe = S[slot]
    if pe >= 0:
        p = S[A_PES] + pe * PE_SIZE
        _take_out(S, p, slot, at)
        S[p + at] = -1
    return pe


@inner_kernel
def next_cycle(S: Cells) -> int:
    """The next cycle in which anything is to be looked at; -1 when nothing is."""
    now, pes, routers = S[G_NOW], S[A_PE_WHEEL], S[A_ROUTER_WHEEL]
    for k in range(1, WHEEL):
        slot = (now + k) & (WHEEL - 1)
        if S[pes + slot] >= 0 or S[routers + slot] >= 0:
            return now + k
    return -1


# ---- queues --------------------------------------------------------------------------------------


@inner_kernel
def head_time(S: Cells, q: int) -> int:
    """When the first word of a queue came or will come; NEVER for an empty one."""
    return S[q + Q_ITEMS + 2 * S[q + Q_HEAD] + 1] if S[q + Q_COUNT] else NEVER


@inner_kernel
def head_word(S: Cells, q: int) -> int:
    return S[q + Q_ITEMS + 2 * S[q + Q_HEAD]]


@inner_kernel
def word_at(S: Cells, q: int, k: int) -> int:
    """The k-th word of a queue."""
    k += S[q + Q_HEAD]
    return S[q + Q_ITEMS + 2 * (k if k < S[G_SLOTS] else k - S[G_SLOTS])]


@inner_kernel
def time_at(S: Cells, q: int, k: int) -> int:
    k += S[q + Q_HEAD]
    return S[q + Q_ITEMS + 2 * (k if k < S[G_SLOTS] else k - S[G_SLOTS]) + 1]


@inner_kernel
def push(S: Cells, q: int, word: int, time: int) -> None:
    slots = S[G_SLOTS]
    k = S[q + Q_HEAD] + S[q + Q_COUNT]
    if k >= slots:
        k -= slots
    S[q + Q_ITEMS + 2 * k] = word
    S[q + Q_ITEMS + 2 * k + 1] = time
    S[q + Q_COUNT] += 1


@inner_kernel
def pop(S: Cells, q: int) -> int:
    word = head_word(S, q)
    k = S[q + Q_HEAD] + 1
    S[q + Q_HEAD] = k if k < S[G_SLOTS] else 0
    S[q + Q_COUNT] -= 1
    S[q + Q_POPPED] = S[G_NOW]
    return word


@inner_kernel
def look(S: Cells, p: int, q: int, time: int) -> None:
    """Look in the cycle `time`, or before, at the operation that uses a queue."""
    if S[q + Q_USER] and S[q + Q_SLOT] >= 0:
        at = S[p + P_SLOTS] + S[q + Q_SLOT]
        S[at] = min(S[at], time)


@inner_kernel
def pop_input(S: Cells, pe: int, q: int) -> int:
    """The first word of an input queue; who waited for room is woken."""
    if S[q + Q_COUNT] >= S[q + Q_DEPTH] + S[G_RAMP]:
        wake_router(S, pe, S[G_NOW] + 1)
    return pop(S, q)


@inner_kernel
def output_room(S: Cells, q: int) -> int:
    """Words that an output queue takes in this cycle: those popped in it still count."""
    return S[q + Q_DEPTH] - S[q + Q_COUNT] - (1 if S[q + Q_POPPED] == S[G_NOW] else 0)


@inner_kernel
def send(S: Cells, pe: int, q: int, word: int, color: int) -> None:
    """Put a word into an output queue, for the next cycle."""
    push(S, q, word | color << COLOR_SHIFT, S[G_NOW] + 1)
    p = S[A_PES] + pe * PE_SIZE
    S[p + P_BUSY_OUT] |= np.int64(1) << ((q - S[A_OUT]) // S[G_QUEUE] - S[p + P_OUT])
    wake_router(S, pe, S[G_NOW] + 1)


@inner_kernel
def input_of(S: Cells, p: int, color: int) -> int:
    """The place of the input queue bound to `color`, or -1."""
    size = S[G_QUEUE]
    for k in range(S[p + P_INS]):
        q = S[A_IN] + (S[p + P_IN] + k) * size
        if S[q + Q_COLOR] == color:
            return q
    return -1


@inner_kernel
def queue_of(S: Cells, p: int, is_input: bool, number: int) -> int:
    """The place of a queue by its number, or -1."""
    size = S[G_QUEUE]
    if is_input:
        for k in range(S[p + P_INS]):
            q = S[A_IN] + (S[p + P_IN] + k) * size
            if S[q] == number:
                return q
    else:
        for k in range(S[p + P_OUTS]):
            q = S[A_OUT] + (S[p + P_OUT] + k) * size
            if S[q] == number:
                return q
    return -1


@inner_kernel
def command_of(word: int) -> int:
    """The first command that a control wavelet still holds."""
    k = (word >> POP_SHIFT) & 15
    return (word >> COMMAND_AT[k]) & 3 if k < 8 else NOP


@inner_kernel
def ignored_by_pe(word: int) -> bool:
    """Whether a control wavelet passes by PEs."""
    k = (word >> POP_SHIFT) & 15
    return k < 8 and (word >> IGNORE_AT[k]) & 1 == 1


@inner_kernel
def lowest_bit(mask: int) -> int:
    """The number of the lowest 1 of a mask that is not 0."""
    number = np.int64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if mask & ((np.int64(1) << step) - 1) == 0:
            mask >>= step
            number += step
    return number
