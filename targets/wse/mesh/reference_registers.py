"""The reference engine's routers as a PE of WSE-2 sees them in memory: two registers a color, of routes and switches.

Addresses and bits are those that a public program writes down which changes its routes that way (Cerebras/sdk-examples,
spmv-hypersparse, allreduce2R1E). Must not know instructions.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_PES,
    G_WSE3,
    PE_SIZE,
    R_POP,
    R_POSITION,
    R_RING,
    R_RX,
    R_SWAP_X,
    R_SWAP_Y,
    R_TORN,
    R_TX,
    R_VALID,
    ROUTER_REGISTERS,
    ROUTES_AT,
    SWITCHES_AT,
)  # fmt: skip
from .jit import inner_kernel
from .reference_fabric import router_of
from .reference_machine import M_POP, M_POSITION, M_RING, M_ROUTES, M_SET, router_operation
from .reference_queues import fault

Cells = Any
# The direction of a switch position that there is not.
INVALID = 5


@inner_kernel
def is_register(S: Cells, address: int) -> bool:
    """Whether a byte address is that of a router's register."""
    if S[G_WSE3]:
        return False
    return 0 <= address - ROUTES_AT < 2 * ROUTER_REGISTERS or 0 <= address - SWITCHES_AT < 2 * ROUTER_REGISTERS


@inner_kernel
def read_register(S: Cells, pe: int, pc: int, address: int) -> int:
    """Routes: bits 0-4 send, 5-9 receive, 10 and 11 swaps, 12-13 pop mode, 14 teardown. Switches: bits 0-3, 4-7 and
    8-11 positions 1 to 3 (a direction or INVALID; 8: of the input), 12 ring mode, 13-14 the current position."""
    switches = address >= SWITCHES_AT
    color = (address - (SWITCHES_AT if switches else ROUTES_AT)) >> 1
    r = router_of(S, pe, color)
    if r < 0:
        fault(S, f.NO_ROUTE, pe, pc, color, -1, 3)
        return np.int64(0)
    if not switches:
        value = (S[r + R_TX] & 31) | (S[r + R_RX] & 31) << 5 | S[r + R_SWAP_Y] << 10 | S[r + R_SWAP_X] << 11
        return value | S[r + R_POP] << 12 | S[r + R_TORN] << 14
    value = S[r + R_RING] << 12 | S[r + R_POSITION] << 13
    for position in range(1, 4):
        value |= _switch_bits(S, r, position) << (4 * (position - 1))
    return value


@inner_kernel
def _switch_bits(S: Cells, r: int, position: int) -> int:
    """A position's four bits. One that is not valid says that it is of the input, as positions of programs are."""
    rx, tx = (S[r + R_RX] >> (8 * position)) & 31, (S[r + R_TX] >> (8 * position)) & 31
    if not (S[r + R_VALID] >> position) & 1 or rx | tx == 0:
        return np.int64(INVALID | 8)
    mask, direction = rx if rx else tx, np.int64(0)
    while not (mask >> direction) & 1:
        direction += 1
    return direction | (8 if rx else 0)


@inner_kernel
def write_register(S: Cells, pe: int, pc: int, address: int, value: int) -> None:
    """The reverse of read_register; the teardown bit is not changed (`teardown.exit` does that)."""
    p = S[A_PES] + pe * PE_SIZE
    if address < SWITCHES_AT:
        color = (address - ROUTES_AT) >> 1
        router_operation(S, pe, p, pc, M_ROUTES, color, (value >> 5) & 31, value & 31)
        router_operation(S, pe, p, pc, M_POP, color, (value >> 12) & 3, 0)
        return
    color = (address - SWITCHES_AT) >> 1
    router_operation(S, pe, p, pc, M_POSITION, color, (value >> 13) & 3, 0)
    router_operation(S, pe, p, pc, M_RING, color, (value >> 12) & 1, 0)
    for position in range(1, 4):
        bits = (value >> (4 * (position - 1))) & 15
        direction = bits & 7
        mask = np.int64(0) if direction >= INVALID else np.int64(1) << direction
        rx, tx = (mask, np.int64(0)) if bits & 8 else (np.int64(0), mask)
        router_operation(S, pe, p, pc, M_SET, color, position | rx << 8 | tx << 16, 0)
