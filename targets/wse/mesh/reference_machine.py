"""The reference engine's machine operations: clock, random bits, queues, routes, switches, and the log.

Must not know when they are executed.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    G_LOG,
    G_NOW,
    G_OPEN,
    LOG_SIZE,
    P_CLOCK,
    P_CLOCK_ON,
    P_EMPTY,
    P_FLUSH,
    P_HIGH,
    P_OWES,
    P_RANDOM,
    P_TO_HANDLE,
    P_TORN,
    P_X,
    P_Y,
    Q_COLOR,
    R_POP,
    R_POSITION,
    R_RING,
    R_RX,
    R_TORN,
    R_TX,
    R_VALID,
)  # fmt: skip
from .ir import MachineOp
from .jit import inner_kernel
from .reference_fabric import router_of
from .reference_queues import fault, queue_of, wake_router

Cells = Any
M_TIME, M_ENABLE, M_CLEAR, M_RANDOM, M_SEED, M_COORDINATE, M_UNBLOCK, M_FLUSH, M_FLUSH_EXIT, M_BIND = range(10)
M_PENDING, M_EXIT, M_ROUTES, M_POSITION, M_RING, M_POP, M_SET, M_PRIORITY, M_FIFO_READ, M_FIFO_WRITE = range(10, 20)
M_TEXT, M_NUMBER, M_TRACE_TEXT, M_TRACE_NUMBER, M_RPC_DONE = range(20, 25)
assert tuple(MachineOp) == tuple(range(25))


@inner_kernel
def machine_operation(
    S: Cells, L: Cells, pe: int, p: int, pc: int, kind: int, x: int, y: int, z: int, time: int
) -> int:
    """A MachineOp of the values x, y, z; its result, or 0."""
    if kind >= M_TEXT and kind <= M_TRACE_NUMBER:
        at = S[G_LOG] * LOG_SIZE
        S[G_LOG] += 1
        L[at], L[at + 1], L[at + 2], L[at + 3], L[at + 4], L[at + 5] = time, pe, kind - M_TEXT, x, y, z
        return np.int64(0)
    if kind == M_TIME:
        clock = time - S[p + P_CLOCK] if S[p + P_CLOCK_ON] else S[p + P_CLOCK]
        return (clock >> (16 * x)) & 0xFFFF
    if kind == M_ENABLE:
        _switch_clock(S, p, x, time)
    elif kind == M_CLEAR:
        S[p + P_CLOCK] = time if S[p + P_CLOCK_ON] else 0
    elif kind == M_RANDOM:
        return _random(S, p)
    elif kind == M_SEED:
        S[p + P_RANDOM] = x & 0xFFFFFFFF
    elif kind == M_COORDINATE:
        return S[p + P_X] if x == 0 else S[p + P_Y]
    elif kind == M_UNBLOCK or kind == M_RPC_DONE:
        if S[p + P_OWES]:
            S[p + P_OWES] -= 1
            S[G_OPEN] -= 1
    elif kind <= M_BIND:
        _queue_operation(S, pe, p, pc, kind, x, y, z)
    elif kind == M_PENDING:
        return S[p + P_TORN]
    elif kind == M_PRIORITY:
        bit = np.int64(1) << x
        S[p + P_HIGH] = S[p + P_HIGH] | bit if y else S[p + P_HIGH] & ~bit
    elif kind <= M_SET:
        router_operation(S, pe, p, pc, kind, x, y, z)
    return np.int64(0)


@inner_kernel
def _switch_clock(S: Cells, p: int, on: int, time: int) -> None:
    """The clock keeps its count while it is off. Off, P_CLOCK is the count; on, the time at which it was 0."""
    if (on and not S[p + P_CLOCK_ON]) or (not on and S[p + P_CLOCK_ON]):
        S[p + P_CLOCK] = time - S[p + P_CLOCK]
    S[p + P_CLOCK_ON] = 1 if on else 0


@inner_kernel
def _random(S: Cells, p: int) -> int:
    """16 bits of a shift register x^23 + x^18 + 1, which goes on 128 steps for each use. The documents do not tell its
    direction: bits leave at the low end here."""
    state = S[p + P_RANDOM] & 0x7FFFFF
    for _ in range(128):
        state = state >> 1 | ((state ^ state >> 5) & 1) << 22
    S[p + P_RANDOM] = state
    return state & 0xFFFF


@inner_kernel
def _queue_operation(S: Cells, pe: int, p: int, pc: int, kind: int, x: int, y: int, z: int) -> None:
    if kind == M_BIND:
        q = queue_of(S, p, x != 0, y)
        if q < 0:
            fault(S, f.NO_QUEUE, pe, pc, y, 1 if x else 0, 0)
            return
        S[q + Q_COLOR] = z
        wake_router(S, pe, S[G_NOW] + 1)
        return
    q = queue_of(S, p, False, x)
    if q < 0:
        fault(S, f.NO_QUEUE, pe, pc, x, 0, 0)
        return
    bit = np.int64(1) << x
    if kind == M_FLUSH:
        S[p + P_FLUSH] |= bit
        S[p + P_EMPTY] |= bit
    else:
        S[p + P_FLUSH] &= ~bit


@inner_kernel
def router_operation(S: Cells, pe: int, p: int, pc: int, kind: int, x: int, y: int, z: int) -> None:
    """An operation on the color `x` of the PE's router."""
    r = router_of(S, pe, x)
    if r < 0:
        fault(S, f.NO_ROUTE, pe, pc, x, -1, 3)
        return
    wake_router(S, pe, S[G_NOW] + 1)
    if kind == M_EXIT:
        S[r + R_TORN] = 0
        S[p + P_TORN] &= ~(np.int64(1) << x)
        S[p + P_TO_HANDLE] &= ~(np.int64(1) << x)
    elif kind == M_ROUTES:
        _set_bits(S, r, 0, y, z)
    elif kind == M_POSITION:
        S[r + R_POSITION] = y & 3
    elif kind == M_RING:
        S[r + R_RING] = 1 if y else 0
    elif kind == M_POP:
        S[r + R_POP] = y & 3
    else:
        position, rx, tx = y & 0xFF, (y >> 8) & 0xFF, (y >> 16) & 0xFF
        S[r + R_VALID] &= ~(np.int64(1) << position)
        if rx or tx:
            S[r + R_VALID] |= np.int64(1) << position
        _set_bits(S, r, position, rx, tx)


@inner_kernel
def _set_bits(S: Cells, r: int, position: int, rx: int, tx: int) -> None:
    """What a position receives from and sends to; 0 where position 0 says it."""
    shift = 8 * position
    S[r + R_RX] = (S[r + R_RX] & ~(np.int64(255) << shift)) | (rx & 31) << shift
    S[r + R_TX] = (S[r + R_TX] & ~(np.int64(255) << shift)) | (tx & 31) << shift
