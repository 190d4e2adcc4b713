"""The reference engine's memory of a PE: loads and stores with their checks, and DSDs unpacked into operands.

Must not know time.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_CLASSES,
    A_PES,
    A_SHAPES,
    A_SYMBOLS,
    CLASS_SIZE,
    D_AT,
    D_DSR,
    D_EXTENT,
    D_FLAGS,
    D_KIND,
    D_SHAPE,
    D_STRIDE,
    D_TYPE,
    DSR_SIZE,
    DSRS_OF_A_FILE,
    FIFO_ROW,
    FIFO_SIZE,
    K_FIFO_COUNT,
    K_FIFOS,
    K_SYMBOL_COUNT,
    K_SYMBOLS,
    MEMORY,
    MEMORY4,
    P_BYTES,
    P_CLASS,
    P_DSRS,
    P_FIFOS,
    P_LANE,
    P_MEMORY,
    PE_SIZE,
    S_DSD,
    SCALAR,
)  # fmt: skip
from .ir import Dsd
from .jit import inner_kernel
from .reference_queues import fault, queue_of
from .reference_values import BOOL, F16, F32, I8, I16, I32, I64, U8, U16, U64, size_of, wrap

Cells = Any
K_MEM1D, K_MEM4D, K_FABIN, K_FABOUT, K_FIFO, K_DSR = (
    int(k) for k in (Dsd.MEM1D, Dsd.MEM4D, Dsd.FABIN, Dsd.FABOUT, Dsd.FIFO, Dsd.DSR)
)
NO_COLOR = 255
# An extent that never ends.
INFINITE = 0x7FFF


@inner_kernel
def raw(M: Cells, at: int, kind: int) -> int:
    """The value of `kind` at the place `at` of all memories."""
    size = size_of(kind)
    if size == 4:
        value = np.int64(M[at]) | np.int64(M[at + 1]) << 8 | np.int64(M[at + 2]) << 16 | np.int64(M[at + 3]) << 24
    elif size == 2:
        value = np.int64(M[at]) | np.int64(M[at + 1]) << 8
    else:
        value = np.int64(0)
        for k in range(size):
            value |= np.int64(M[at + k]) << (8 * k)
    return value if kind == F32 or kind == F16 else wrap(value, kind)


@inner_kernel
def put_raw(M: Cells, U: Cells, at: int, value: int, size: int) -> None:
    if size == 4:
        M[at], M[at + 1] = np.uint8(value & 0xFF), np.uint8((value >> 8) & 0xFF)
        M[at + 2], M[at + 3] = np.uint8((value >> 16) & 0xFF), np.uint8((value >> 24) & 0xFF)
        U[at], U[at + 1], U[at + 2], U[at + 3] = 1, 1, 1, 1
        return
    for k in range(size):
        M[at + k] = np.uint8((value >> (8 * k)) & 0xFF)
        U[at + k] = 1


@inner_kernel
def is_set(U: Cells, at: int, size: int) -> bool:
    """Whether all bytes of a value were written."""
    if size == 4:
        return U[at] & U[at + 1] & U[at + 2] & U[at + 3] != 0
    for k in range(size):
        if not U[at + k]:
            return False
    return True


@inner_kernel
def load(S: Cells, M: Cells, U: Cells, pe: int, pc: int, address: int, kind: int) -> int:
    """The value at an address of a PE; a fault where nothing was written, or outside its memory."""
    p = S[A_PES] + pe * PE_SIZE
    size = size_of(kind)
    if address < 0 or address + size > S[p + P_BYTES]:
        fault(S, f.OUTSIDE, pe, pc, address, size, S[p + P_BYTES])
        return np.int64(0)
    at = S[p + P_MEMORY] + address
    if not is_set(U, at, size):
        fault(S, f.UNSET, pe, pc, address, size, 0)
        return np.int64(0)
    return raw(M, at, kind)


@inner_kernel
def store(S: Cells, M: Cells, U: Cells, pe: int, pc: int, address: int, kind: int, value: int) -> None:
    p = S[A_PES] + pe * PE_SIZE
    size = size_of(kind)
    if address < 0 or address + size > S[p + P_BYTES]:
        fault(S, f.OUTSIDE, pe, pc, address, size, S[p + P_BYTES])
        return
    put_raw(M, U, S[p + P_MEMORY] + address, value, size)


@inner_kernel
def copy(S: Cells, M: Cells, U: Cells, pe: int, pc: int, to: int, source: int, count: int) -> None:
    """Move bytes as they are, set or not."""
    p = S[A_PES] + pe * PE_SIZE
    end = S[p + P_BYTES]
    if to < 0 or source < 0 or to + count > end or source + count > end:
        fault(S, f.OUTSIDE, pe, pc, to if to < 0 or to + count > end else source, count, end)
        return
    base = S[p + P_MEMORY]
    step = 1 if to <= source else -1
    k = 0 if step > 0 else count - 1
    for _ in range(count):
        M[base + to + k] = M[base + source + k]
        U[base + to + k] = U[base + source + k]
        k += step


# ---- operands --------------------------------------------------------------------------------------


@inner_kernel
def signed16(bits: int) -> int:
    return np.int64(np.int16(bits))


@inner_kernel
def dsr_place(S: Cells, p: int, bits: int) -> int:
    """The place of the DSR that a packed DSD names."""
    return S[p + P_DSRS] + (((bits >> 8) & 0xFF) * DSRS_OF_A_FILE + (bits & 0xFF)) * DSR_SIZE


@inner_kernel
def unpack(S: Cells, F: Cells, pe: int, pc: int, at: int, bits: int, kind: int) -> None:
    """Fill the operand record at `at` from a packed DSD (or the one that a DSR holds), for elements of `kind`."""
    p = S[A_PES] + pe * PE_SIZE
    F[at + D_DSR] = 0
    if (bits >> 48) & 15 == K_DSR:
        place = dsr_place(S, p, bits)
        F[at + D_DSR] = place
        bits = S[place + S_DSD]
    what = (bits >> 48) & 15
    low, middle, high = bits & 0xFFFF, (bits >> 16) & 0xFFFF, (bits >> 32) & 0xFFFF
    F[at + D_KIND] = kind
    F[at + D_FLAGS] = (bits >> 56) & 0xFF
    # Strides count elements of the operation, whatever the DSD was made over.
    size = size_of(kind)
    F[at + D_SHAPE] = 0
    if what == K_MEM1D:
        F[at + D_TYPE], F[at + D_AT], F[at + D_EXTENT] = MEMORY, low, middle
        F[at + D_STRIDE] = signed16(high) * size
    elif what == K_MEM4D:
        shape = S[A_SHAPES] + middle * 8
        F[at + D_TYPE], F[at + D_AT], F[at + D_SHAPE], F[at + D_STRIDE] = MEMORY4, low, shape, size
        F[at + D_EXTENT] = S[shape] * S[shape + 1] * S[shape + 2] * S[shape + 3]
    elif what == K_FABIN or what == K_FABOUT:
        q = queue_of(S, p, what == K_FABIN, middle & 0xFF)
        if q < 0:
            fault(S, f.NO_QUEUE, pe, pc, middle & 0xFF, 1 if what == K_FABIN else 0, 0)
        F[at + D_TYPE] = f.INPUT if what == K_FABIN else f.OUTPUT
        F[at + D_AT], F[at + D_EXTENT] = q, low
        color = (middle >> 8) & 0xFF
        if what == K_FABOUT:
            if color == NO_COLOR and q >= 0:
                color = S[q + f.Q_COLOR]
            if color < 0 or color >= f.COLORS:
                fault(S, f.NO_COLOR_OF_QUEUE, pe, pc, middle & 0xFF, 0, 0)
        F[at + D_STRIDE] = color
    elif what == K_FIFO:
        row = S[A_CLASSES] + S[p + P_CLASS] * CLASS_SIZE
        if low >= S[row + K_FIFO_COUNT]:
            fault(S, f.NO_QUEUE, pe, pc, low, 2, 0)
            return
        F[at + D_TYPE], F[at + D_AT] = f.QUEUE, S[p + P_FIFOS] + low * FIFO_SIZE
        F[at + D_STRIDE], F[at + D_EXTENT] = S[row + K_FIFOS] + low * FIFO_ROW, 0
    else:
        # A DSR that nothing was loaded into.
        fault(S, f.NO_QUEUE, pe, pc, bits & 0xFF, 3, 0)
        F[at + D_TYPE], F[at + D_AT], F[at + D_EXTENT] = SCALAR, 0, 0


@inner_kernel
def address_of(S: Cells, F: Cells, at: int, k: int) -> int:
    """Where element `k` of an operand in memory lies."""
    if F[at + D_TYPE] == MEMORY:
        return F[at + D_AT] + k * F[at + D_STRIDE]
    shape = F[at + D_SHAPE]
    offset = np.int64(0)
    for axis in range(3, -1, -1):
        extent = S[shape + axis]
        offset += (k % extent) * S[shape + 4 + axis]
        k //= extent
    return F[at + D_AT] + offset * F[at + D_STRIDE]


@inner_kernel
def check_memory(S: Cells, F: Cells, pe: int, pc: int, at: int, n: int) -> None:
    """All `n` elements of an operand in memory lie in the variable in which it begins, and so in the PE's memory."""
    if n <= 0:
        return
    p = S[A_PES] + pe * PE_SIZE
    size = size_of(F[at + D_KIND])
    low = high = F[at + D_AT]
    if F[at + D_TYPE] == MEMORY:
        last = F[at + D_AT] + (n - 1) * F[at + D_STRIDE]
        low, high = min(low, last), max(high, last)
    else:
        shape = F[at + D_SHAPE]
        for axis in range(4):
            reach = (S[shape + axis] - 1) * S[shape + 4 + axis] * F[at + D_STRIDE]
            if reach < 0:
                low += reach
            else:
                high += reach
    if low < 0 or high + size > S[p + P_BYTES]:
        fault(S, f.OUTSIDE, pe, pc, low if low < 0 else high, size, S[p + P_BYTES])
        return
    symbol = symbol_of(S, p, F[at + D_AT])
    if symbol >= 0 and (low < S[symbol] or high + size > S[symbol + 1]):
        fault(S, f.LEAVES_SYMBOL, pe, pc, F[at + D_AT], low if low < S[symbol] else high, 0)


@inner_kernel
def symbol_of(S: Cells, p: int, address: int) -> int:
    """The place of (first, end) of the variable that an address lies in, or -1."""
    row = S[A_CLASSES] + S[p + P_CLASS] * CLASS_SIZE
    low, high = np.int64(0), S[row + K_SYMBOL_COUNT]
    table = S[A_SYMBOLS] + S[row + K_SYMBOLS]
    while low < high:
        middle = (low + high) >> 1
        if S[table + 2 * middle + 1] <= address:
            low = middle + 1
        else:
            high = middle
    if low < S[row + K_SYMBOL_COUNT] and S[table + 2 * low] <= address:
        return table + 2 * low
    return np.int64(-1)


@inner_kernel
def lane_constant(S: Cells, p: int, row: int) -> int:
    """Entry of `lanes` for the PE."""
    return S[S[f.A_LANES] + row * S[f.G_PES] + S[p + P_LANE]]


assert (BOOL, I8, U8, I16, U16, I32, I64, U64, F16) == (0, 1, 2, 3, 4, 5, 7, 8, 9)
