"""The reference engine's vector operations: issued, done at once over memory, or element by element as they go.

Must not know instructions.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_FUNCTIONS,
    A_PES,
    A_VECTORS,
    D_AT,
    D_DSR,
    D_EXTENT,
    D_FLAGS,
    D_KIND,
    D_STRIDE,
    D_TYPE,
    G_STATUS,
    INPUT,
    MEMORY,
    MEMORY4,
    O_ACTIVATE,
    O_ADVANCE,
    O_CALLBACK,
    O_COUNT,
    O_ENDING,
    O_GROUP,
    O_INDEX,
    O_ISSUED,
    O_K,
    O_KIND,
    O_MAIN,
    O_N,
    O_NEXT,
    O_ON_CONTROL,
    O_OP,
    O_OPERANDS,
    O_OUTPUT,
    O_PC,
    O_PE,
    O_REASON,
    O_RESULT,
    O_ROW,
    O_SLOT,
    O_SOURCE,
    O_STREAMS,
    O_UNBLOCK,
    O_UNBLOCK_KIND,
    O_UT,
    OPERAND_SIZE,
    OUTPUT,
    P_CARRY,
    P_ELEMENTS,
    PE_SIZE,
    QUEUE,
    S_ACTIVATE,
    S_ASYNC,
    S_CONTROL,
    S_DSD,
    S_SAVE,
    S_UNBLOCK,
    S_UNBLOCK_KIND,
    S_UT,
    SCALAR,
)  # fmt: skip
from .ir import (
    FLAG_ADVANCE,
    FLAG_INDEX,
    FLAG_ON_CONTROL_TERMINATE,
    FLAG_SIMD32,
    FLAG_SIMD64,
    V,
    VectorOp,
)  # fmt: skip
from .jit import inner_kernel
from .reference_memory import INFINITE, address_of, check_memory, dsr_place, is_set, load, put_raw, raw, store, unpack
from .reference_queues import fault
from .reference_values import (
    F16,
    F32,
    I16,
    V_ADD,
    V_ADDC,
    V_CONVERT,
    V_MAC,
    V_MAX,
    V_MOV,
    V_MUL,
    V_SCALE,
    V_SUB,
    bits_of,
    element,
    f32_of,
    size_of,
    stride_width,
    wrap,
)  # fmt: skip

Cells = Any
V_SIZE, V_OP, V_COUNT, V_OPERAND0, V_DSDS, V_POINTERS = (
    int(k) for k in (V.SIZE, V.OP, V.COUNT, V.OPERAND0, V.DSDS, V.POINTERS)
)
V_DEST, V_SOURCE, V_WIDTH, V_ASYNC, V_ACTIVATE = (
    int(k) for k in (V.DEST_KIND, V.SOURCE_KIND, V.WIDTH, V.ASYNC, V.ACTIVATE)
)
V_UNBLOCK, V_UNBLOCK_KIND, V_MICROTHREAD, V_INDEX = (
    int(k) for k in (V.UNBLOCK, V.UNBLOCK_KIND, V.MICROTHREAD, V.INDEX)
)
V_CALLBACK, V_HAS_OUTPUT, V_ON_CONTROL, V_SAVE = (
    int(k) for k in (V.CALLBACK, V.HAS_OUTPUT, V.ON_CONTROL, V.SAVE_ADDRESS)
)
V_MAP, V_LOAD_DSR = int(VectorOp.MAP), int(VectorOp.LOAD_DSR)
# Elements of an operation that has no end.
ENDLESS = 1 << 60
# Row 0 of `ops` is for operations that are over as soon as they are issued.
SCRATCH = 0


# ---- issue -----------------------------------------------------------------------------------------


@inner_kernel
def load_dsr(S: Cells, pe: int, fp: int, row: int) -> None:
    """LOAD_DSR: a DSR gets a DSD, and settings for the operations that use it."""
    p = S[A_PES] + pe * PE_SIZE
    v = S[A_VECTORS] + row * V_SIZE
    place = dsr_place(S, p, S[fp + S[v + V_OPERAND0]])
    S[place + S_DSD] = S[fp + S[v + V_OPERAND0 + 1]]
    S[place + S_SAVE] = S[v + V_SAVE] > 0
    S[place + S_ASYNC] = S[v + V_ASYNC] > 0
    S[place + S_ACTIVATE] = S[fp + S[v + V_ACTIVATE]] if S[v + V_ACTIVATE] >= 0 else -1
    S[place + S_UNBLOCK] = S[fp + S[v + V_UNBLOCK]] if S[v + V_UNBLOCK] >= 0 else -1
    S[place + S_UNBLOCK_KIND] = S[v + V_UNBLOCK_KIND]
    S[place + S_CONTROL] = _on_control(S, fp, v)
    S[place + S_UT] = S[fp + S[v + V_MICROTHREAD]] if S[v + V_MICROTHREAD] >= 0 else -1


@inner_kernel
def _on_control(S: Cells, fp: int, v: int) -> int:
    """0 nothing, 1 a control wavelet ends the operation, else the task it activates + 2."""
    given = S[v + V_ON_CONTROL]
    return given if given < 2 else S[fp + given - 2] + 2


@inner_kernel
def prepare(S: Cells, F: Cells, pe: int, o: int, fp: int, row: int, pc: int, time: int) -> None:
    """Fill the record `o` of an operation issued at `time`."""
    v = S[A_VECTORS] + row * V_SIZE
    op, count = S[v + V_OP], S[v + V_COUNT]
    kind = S[v + V_DEST]
    source = S[v + V_SOURCE] if S[v + V_SOURCE] >= 0 else kind
    F[o + O_PE], F[o + O_NEXT], F[o + O_ROW], F[o + O_K], F[o + O_OP], F[o + O_COUNT] = pe, -1, row, 0, op, count
    F[o + O_KIND], F[o + O_SOURCE], F[o + O_PC], F[o + O_ISSUED], F[o + O_UT] = kind, source, pc, time, -1
    F[o + O_ACTIVATE] = S[fp + S[v + V_ACTIVATE]] if S[v + V_ACTIVATE] >= 0 else -1
    F[o + O_UNBLOCK] = S[fp + S[v + V_UNBLOCK]] if S[v + V_UNBLOCK] >= 0 else -1
    F[o + O_UNBLOCK_KIND] = S[v + V_UNBLOCK_KIND]
    F[o + O_INDEX] = S[fp + S[v + V_INDEX]] if S[v + V_INDEX] >= 0 else -1
    F[o + O_ON_CONTROL] = _on_control(S, fp, v)
    F[o + O_MAIN] = 1 - (S[v + V_ASYNC] > 0)
    F[o + O_REASON], F[o + O_ENDING], F[o + O_RESULT], F[o + O_ADVANCE], F[o + O_GROUP] = 0, 0, 1, 0, 1
    F[o + O_CALLBACK] = S[v + V_CALLBACK]
    F[o + O_OUTPUT] = 0
    if op == V_MAP:
        F[o + O_OUTPUT] = count - 1 if S[v + V_HAS_OUTPUT] > 0 else -1
    for k in range(count):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        bits = S[fp + S[v + V_OPERAND0 + k]]
        each = _operand_kind(S, op, k, kind, source, F[o + O_CALLBACK], F[o + O_OUTPUT])
        if (S[v + V_DSDS] >> k) & 1:
            unpack(S, F, pe, pc, at, bits, each)
            _take_settings(S, F, o, F[at + D_DSR])
        else:
            pointer = (S[v + V_POINTERS] >> k) & 1
            F[at + D_TYPE], F[at + D_AT] = MEMORY if pointer else SCALAR, bits
            F[at + D_STRIDE], F[at + D_KIND], F[at + D_FLAGS], F[at + D_EXTENT], F[at + D_DSR] = 0, each, 0, -1, 0
    _choose_length(S, F, o)


@inner_kernel
def _operand_kind(S: Cells, op: int, k: int, kind: int, source: int, callback: int, output: int) -> int:
    """The Kind of operand `k`'s elements."""
    if op == V_MAP:
        if k == output:
            return kind
        return (S[S[A_FUNCTIONS] + callback * f.FUNCTION_SIZE + f.F_KINDS] >> (4 * k)) & 15
    if op == V_SCALE and k == 2:
        return I16
    if (op == V_ADD and k == 2) or (op == V_MAC and k >= 2) or (op == V_CONVERT and k == 1):
        return source
    return kind


@inner_kernel
def _take_settings(S: Cells, F: Cells, o: int, dsr: int) -> None:
    """What the program gave to a DSR that an operand comes from."""
    if not dsr:
        return
    if S[dsr + S_ASYNC]:
        F[o + O_MAIN] = 0
    if S[dsr + S_ACTIVATE] >= 0:
        F[o + O_ACTIVATE] = S[dsr + S_ACTIVATE]
    if S[dsr + S_UNBLOCK] >= 0:
        F[o + O_UNBLOCK], F[o + O_UNBLOCK_KIND] = S[dsr + S_UNBLOCK], S[dsr + S_UNBLOCK_KIND]
    if S[dsr + S_CONTROL]:
        F[o + O_ON_CONTROL] = S[dsr + S_CONTROL]


@inner_kernel
def _choose_length(S: Cells, F: Cells, o: int) -> None:
    """The elements of the operation: the extent of the first source that has one, else that of the destination; of
    `@map` the least of all. Without any extent it is one element, and with FIFOs alone as many as they hold or take."""
    count = F[o + O_COUNT]
    n, fifo, group = np.int64(-1), False, np.int64(1)
    F[o + O_STREAMS], F[o + O_SLOT] = 0, -1
    for j in range(count):
        k = j if F[o + O_OP] == V_MAP else (j + 1) % count
        at = o + O_OPERANDS + k * OPERAND_SIZE
        what, extent = F[at + D_TYPE], F[at + D_EXTENT]
        if what >= INPUT:
            F[o + O_STREAMS] |= np.int64(1) << k
        if what == QUEUE:
            fifo = True
            continue
        if what == SCALAR or extent < 0:
            continue
        if extent == INFINITE and (what == INPUT or what == OUTPUT):
            extent = ENDLESS
        if F[o + O_OP] == V_MAP:
            n = extent if n < 0 else min(n, extent)
        elif n <= 0:
            n = extent
        if what == OUTPUT and F[at + D_FLAGS] & FLAG_ADVANCE:
            F[o + O_ADVANCE] = 1
        if what == INPUT and F[at + D_FLAGS] & FLAG_ON_CONTROL_TERMINATE and F[o + O_ON_CONTROL] == 0:
            F[o + O_ON_CONTROL] = 1
        if what == INPUT or what == OUTPUT:
            group = max(group, _group(F[at + D_FLAGS], F[at + D_KIND]))
    if n < 0:
        n = ENDLESS if fifo else 1
    F[o + O_N], F[o + O_GROUP] = n, group


@inner_kernel
def _group(flags: int, kind: int) -> int:
    """Elements that an operation takes at once from a fabric DSD in a SIMD mode."""
    if flags & FLAG_SIMD64:
        return 4 if size_of(kind) <= 2 else 2
    return 2 if flags & FLAG_SIMD32 and size_of(kind) <= 2 else 1


@inner_kernel
def per_word(flags: int, kind: int) -> int:
    """Elements in a wavelet."""
    return 2 if flags & (FLAG_SIMD32 | FLAG_SIMD64) and size_of(kind) <= 2 else 1


@inner_kernel
def streams(F: Cells, o: int) -> bool:
    """Whether an operand is not in memory."""
    for k in range(F[o + O_COUNT]):
        if F[o + O_OPERANDS + k * OPERAND_SIZE + D_TYPE] >= INPUT:
            return True
    return False


@inner_kernel
def shift_by_index(F: Cells, o: int, index: int) -> None:
    """Move operands with `wavelet_index_offset` on by `index` words of 16 bits."""
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_FLAGS] & FLAG_INDEX and (F[at + D_TYPE] == MEMORY or F[at + D_TYPE] == MEMORY4):
            F[at + D_AT] += 2 * index


@inner_kernel
def check_operands(S: Cells, F: Cells, o: int) -> None:
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_TYPE] == MEMORY or F[at + D_TYPE] == MEMORY4:
            check_memory(S, F, F[o + O_PE], F[o + O_PC], at, F[o + O_N])


# ---- memory only -------------------------------------------------------------------------------------


@inner_kernel
def cycles_of(S: Cells, F: Cells, o: int) -> int:
    """Cycles of an operation over memory: its elements by the width that its strides allow."""
    base = S[S[A_VECTORS] + F[o + O_ROW] * V_SIZE + V_WIDTH]
    width = base
    for k in range(F[o + O_COUNT]):
        at = o + O_OPERANDS + k * OPERAND_SIZE
        if F[at + D_TYPE] == MEMORY:
            width = min(width, stride_width(base, F[at + D_STRIDE], size_of(F[at + D_KIND])))
        elif F[at + D_TYPE] == MEMORY4:
            shape = F[at + f.D_SHAPE]
            axis = 3
            while axis > 0 and S[shape + axis] == 1:
                axis -= 1
            width = min(width, stride_width(base, S[shape + 4 + axis] * F[at + D_STRIDE], size_of(F[at + D_KIND])))
    return (F[o + O_N] + width - 1) // width


@inner_kernel
def do_in_memory(S: Cells, M: Cells, U: Cells, F: Cells, o: int) -> None:
    """All elements of an operation whose operands lie in memory, in order, each seeing what came before."""
    pe, n = F[o + O_PE], F[o + O_N]
    p = S[A_PES] + pe * PE_SIZE
    if F[o + O_INDEX] >= 0:
        shift_by_index(F, o, F[o + O_INDEX])
    check_operands(S, F, o)
    if S[G_STATUS] != f.RUNNING:
        return
    S[p + P_ELEMENTS] += n
    if F[o + O_KIND] == F32 and F[o + O_SOURCE] == F32 and _all_simple(F, o) and _fast(S, M, U, F, o):
        return
    for k in range(n):
        _element_in_memory(S, M, U, F, o, p, k)
        if S[G_STATUS] != f.RUNNING:
            return


@inner_kernel
def _element_in_memory(S: Cells, M: Cells, U: Cells, F: Cells, o: int, p: int, k: int) -> None:
    a = _read(S, M, U, F, o, 1, k)
    b = _read(S, M, U, F, o, 2, k)
    c = _read(S, M, U, F, o, 3, k)
    value = compute(S, F, o, p, a, b, c)
    store(S, M, U, F[o + O_PE], F[o + O_PC], address_of(S, F, o + O_OPERANDS, k), F[o + O_KIND], value)


@inner_kernel
def _read(S: Cells, M: Cells, U: Cells, F: Cells, o: int, operand: int, k: int) -> int:
    if operand >= F[o + O_COUNT]:
        return np.int64(0)
    at = o + O_OPERANDS + operand * OPERAND_SIZE
    if F[at + D_TYPE] == SCALAR:
        return F[at + D_AT]
    return load(S, M, U, F[o + O_PE], F[o + O_PC], address_of(S, F, at, k), F[at + D_KIND])


@inner_kernel
def compute(S: Cells, F: Cells, o: int, p: int, a: int, b: int, c: int) -> int:
    """The value of one element; the carry of 16-bit additions is the PE's."""
    op, kind = F[o + O_OP], F[o + O_KIND]
    if op == V_ADDC or (op == V_ADD and kind != F32 and kind != F16):
        mask = (np.int64(1) << (8 * size_of(kind))) - 1
        total = (a & mask) + (b & mask) + (S[p + P_CARRY] if op == V_ADDC else 0)
        S[p + P_CARRY] = total > mask
        return wrap(total, kind)
    return element(op, kind, F[o + O_SOURCE], a, b, c)


@inner_kernel
def _all_simple(F: Cells, o: int) -> bool:
    """Whether every operand is a scalar or a one-dimensional DSD."""
    for k in range(F[o + O_COUNT]):
        if F[o + O_OPERANDS + k * OPERAND_SIZE + D_TYPE] > MEMORY:
            return False
    return True


@inner_kernel
def _fast(S: Cells, M: Cells, U: Cells, F: Cells, o: int) -> bool:
    """The common operations in f32, without a choice in each element; False for others, with nothing done."""
    op, n, pe, pc = F[o + O_OP], F[o + O_N], F[o + O_PE], F[o + O_PC]
    if op != V_MAC and op != V_ADD and op != V_SUB and op != V_MUL and op != V_MOV and op != V_MAX:
        return False
    base = S[S[A_PES] + pe * PE_SIZE + f.P_MEMORY]
    d = base + F[o + O_OPERANDS + D_AT]
    ds = F[o + O_OPERANDS + D_STRIDE]
    at0, at1, at2 = (
        o + O_OPERANDS + OPERAND_SIZE,
        o + O_OPERANDS + 2 * OPERAND_SIZE,
        o + O_OPERANDS + 3 * OPERAND_SIZE,
    )
    count = F[o + O_COUNT]
    m0, m1, m2 = (
        F[at0 + D_TYPE] == MEMORY,
        count > 2 and F[at1 + D_TYPE] == MEMORY,
        count > 3 and F[at2 + D_TYPE] == MEMORY,
    )
    x0, x1, x2 = base + F[at0 + D_AT], base + F[at1 + D_AT], base + F[at2 + D_AT]
    s0, s1, s2 = F[at0 + D_STRIDE], F[at1 + D_STRIDE], F[at2 + D_STRIDE]
    v0, v1, v2 = F[at0 + D_AT], F[at1 + D_AT] if count > 2 else 0, F[at2 + D_AT] if count > 3 else 0
    for k in range(n):
        if m0:
            if not is_set(U, x0, 4):
                break
            v0 = raw(M, x0, F32)
        if m1:
            if not is_set(U, x1, 4):
                x0 = x1
                break
            v1 = raw(M, x1, F32)
        if m2:
            if not is_set(U, x2, 4):
                x0 = x2
                break
            v2 = raw(M, x2, F32)
        if op == V_MAC:
            value = bits_of(f32_of(v0) + np.float32(f32_of(v1) * f32_of(v2)))
        elif op == V_ADD:
            value = bits_of(f32_of(v0) + f32_of(v1))
        elif op == V_SUB:
            value = bits_of(f32_of(v0) - f32_of(v1))
        elif op == V_MUL:
            value = bits_of(f32_of(v0) * f32_of(v1))
        elif op == V_MOV:
            value = v0
        else:
            value = element(op, F32, F32, v0, v1, v2)
        put_raw(M, U, d, value, 4)
        d += ds
        x0 += s0
        x1 += s1
        x2 += s2
        if k == n - 1:
            return True
    if n > 0:
        fault(S, f.UNSET, pe, pc, x0 - base, 4, 0)
    return True
