"""Records of operations in flight in the reference engine: who holds which queues, and which are looked at when.

A PE keeps a list of its operations in the order of their issue, and a slot for each that moves words or uses a FIFO:
when to look at it next. Whatever lets an operation go on lowers that time, so that a PE that wakes looks at few. Must
not know elements, nor instructions.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_PES,
    D_AT,
    D_DSR,
    D_FLAGS,
    D_KIND,
    D_STRIDE,
    D_TYPE,
    FF_READER,
    FF_WRITER,
    G_FREE_OP,
    G_FREE_OPS,
    G_NOW,
    G_RAMP,
    G_WSE3,
    INPUT,
    MEMORY,
    O_COUNT,
    O_ENDING,
    O_GROUP,
    O_MAIN,
    O_N,
    O_NEXT,
    O_OPERANDS,
    O_OUTPUT,
    O_PC,
    O_PE,
    O_SLOT,
    O_TIME,
    O_UT,
    OPERAND_SIZE,
    OUTPUT,
    P_ENDING,
    P_FREE_OP,
    P_OPS,
    P_SLOTS,
    P_STREAMS,
    P_UTS,
    PE_SIZE,
    Q_DEPTH,
    Q_SLOT,
    Q_USER,
    QUEUE,
    S_DSD,
    S_SAVE,
    STREAMS,
)  # fmt: skip
from .jit import inner_kernel
from .reference_queues import (
    NEVER,
    fault,
    wake,
)  # fmt: skip
from .reference_vector import per_word

Cells = Any


@inner_kernel
def new_record(S: Cells, F: Cells, p: int) -> int:
    """A free record of `ops`: one that the PE has had before, which then lies near its others, else any."""
    o = S[p + P_FREE_OP]
    if o >= 0:
        S[p + P_FREE_OP] = F[o + O_NEXT]
        return o
    o = S[G_FREE_OP]
    S[G_FREE_OP] = F[o + O_NEXT]
    S[G_FREE_OPS] -= 1
    return o


@inner_kernel
def free_record(S: Cells, F: Cells, p: int, o: int) -> None:
    F[o + O_NEXT] = S[p + P_FREE_OP]
    S[p + P_FREE_OP] = o


@inner_kernel
def claim(S: Cells, F: Cells, o: int, microthread: int) -> None:
    """Take the queues and the microthread of an operation; a fault where they are in use."""
    pe, pc = F[o + O_PE], F[o + O_PC]
    p = S[A_PES] + pe * PE_SIZE
    thread = np.int64(-1)
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        what, place = F[at + D_TYPE], F[at + D_AT]
        if what == INPUT or what == OUTPUT:
            if S[place + Q_USER]:
                fault(S, f.TWO_USERS, pe, pc, S[place], what, F[S[place + Q_USER] - 1 + O_PC])
                return
            S[place + Q_USER], S[place + Q_SLOT] = o + 1, -1
            room = S[place + Q_DEPTH] + (S[G_RAMP] if what == INPUT else 0)
            if F[o + O_GROUP] > room * per_word(F[at + D_FLAGS], F[at + D_KIND]):
                fault(S, f.TOO_WIDE, pe, pc, S[place], what, F[o + O_GROUP])
                return
            if thread < 0 or what == OUTPUT:
                thread = S[place]
        elif what == QUEUE:
            user = FF_WRITER if k == F[o + O_OUTPUT] else FF_READER
            if S[place + user]:
                number, other = (place - S[p + f.P_FIFOS]) // f.FIFO_SIZE, F[S[place + user] - 1 + O_PC]
                fault(S, f.TWO_USERS, pe, pc, number, QUEUE, other)
                return
            S[place + user] = o + 1
    if F[o + O_MAIN]:
        return
    if microthread >= 0:
        thread = microthread
    elif S[G_WSE3]:
        return
    if thread >= 0:
        if (S[p + P_UTS] >> thread) & 1:
            fault(S, f.MICROTHREAD_USED, pe, pc, thread, 0, 0)
            return
        S[p + P_UTS] |= np.int64(1) << thread
        F[o + O_UT] = thread


@inner_kernel
def release(S: Cells, F: Cells, o: int) -> None:
    """Give back what `claim` took, and let DSRs keep where the operation ended."""
    p = S[A_PES] + F[o + O_PE] * PE_SIZE
    if F[o + O_UT] >= 0:
        S[p + P_UTS] &= ~(np.int64(1) << F[o + O_UT])
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        what, place = F[at + D_TYPE], F[at + D_AT]
        if what == INPUT or what == OUTPUT:
            S[place + Q_USER] = 0
        elif what == QUEUE:
            S[place + (FF_WRITER if k == F[o + O_OUTPUT] else FF_READER)] = 0
    keep_ends(S, F, o)


@inner_kernel
def keep_ends(S: Cells, F: Cells, o: int) -> None:
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        dsr = F[at + D_DSR]
        if dsr and F[at + D_TYPE] == MEMORY and S[dsr + S_SAVE]:
            moved = (F[at + D_AT] + F[o + O_N] * F[at + D_STRIDE]) & 0xFFFF
            S[dsr + S_DSD] = (S[dsr + S_DSD] & ~np.int64(0xFFFF)) | moved


@inner_kernel
def attach(S: Cells, F: Cells, o: int) -> None:
    """Look at the operation from its first cycle on."""
    p = S[A_PES] + F[o + O_PE] * PE_SIZE
    slot = S[p + P_STREAMS]
    if slot >= STREAMS:
        fault(S, f.TOO_MANY, F[o + O_PE], F[o + O_PC], STREAMS, 0, 0)
        return
    S[p + P_STREAMS] = slot + 1
    S[S[p + P_SLOTS] + slot] = NEVER if F[o + O_ENDING] else F[o + O_TIME]
    _settle(S, F, p, o, slot)


@inner_kernel
def _settle(S: Cells, F: Cells, p: int, o: int, slot: int) -> None:
    """Let a slot be that of the operation, for its queues too."""
    S[S[p + P_SLOTS] + STREAMS + slot], F[o + O_SLOT] = o, slot
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_TYPE] == INPUT or F[at + D_TYPE] == OUTPUT:
            S[F[at + D_AT] + Q_SLOT] = slot


@inner_kernel
def detach(S: Cells, F: Cells, p: int, o: int) -> None:
    """The operations behind it move up."""
    if F[o + O_SLOT] < 0:
        return
    S[p + P_STREAMS] -= 1
    for slot in range(F[o + O_SLOT], S[p + P_STREAMS]):
        S[S[p + P_SLOTS] + slot] = S[S[p + P_SLOTS] + slot + 1]
        _settle(S, F, p, S[S[p + P_SLOTS] + STREAMS + slot + 1], slot)


@inner_kernel
def look_at_user(S: Cells, F: Cells, user: int) -> None:
    """Look in the next cycle at the operation that reads or fills a FIFO (its record + 1, or 0)."""
    if user == 0:
        return
    o = user - 1
    p = S[A_PES] + F[o + O_PE] * PE_SIZE
    if F[o + O_SLOT] >= 0:
        S[S[p + P_SLOTS] + F[o + O_SLOT]] = min(S[S[p + P_SLOTS] + F[o + O_SLOT]], S[G_NOW] + 1)
    wake(S, F[o + O_PE], S[G_NOW] + 1)


@inner_kernel
def link(S: Cells, F: Cells, p: int, o: int) -> None:
    """Behind the operations that were issued before."""
    last = S[p + P_OPS]
    if last < 0:
        S[p + P_OPS] = o
        return
    while F[last + O_NEXT] >= 0:
        last = F[last + O_NEXT]
    F[last + O_NEXT] = o


@inner_kernel
def end_at(S: Cells, F: Cells, o: int, time: int) -> None:
    """Let an operation end in the cycle `time`."""
    F[o + O_ENDING], F[o + O_TIME] = 1, time
    p = S[A_PES] + F[o + O_PE] * PE_SIZE
    S[p + P_ENDING] = min(S[p + P_ENDING], time)
