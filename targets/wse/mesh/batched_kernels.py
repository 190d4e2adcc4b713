"""Loops over the PEs of a group: scalars and vectors of memory, each as the reference computes it.

Values of a group are arrays with one entry a PE; `memory` is the buffer of all PEs and `at` where each PE's begins.
A kernel tells whether all went well: what is a fault is left to the reference to find and to name. Must not know time.
"""

# Compiled code: numba's integers are not those that type checkers know.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from .batched_simd import AT_ONCE, add_multiple_at_once, add_multiples_at_once
from .batched_uniform import ADD_MULTIPLE, LOAD
from .ir import Kind, VectorOp
from .jit import inner_kernel, kernel, lean_kernel
from .reference_pointers import pointer_to
from .reference_values import arithmetic, convert, element, function, size_of, wrap

Array = Any
F32 = int(Kind.F32)
# PEs that take a row of the queue together: it is read once for all, and their memory fits into the fastest cache.
LANES = 8
I8, U8, BOOL, I16, I32 = (int(k) for k in (Kind.I8, Kind.U8, Kind.BOOL, Kind.I16, Kind.I32))
MAC, ADD, SUB, MUL, MOV = (int(o) for o in (VectorOp.MAC, VectorOp.ADD, VectorOp.SUB, VectorOp.MUL, VectorOp.MOV))


@kernel
def load_bits(memory: Array, place: int, kind: int) -> int:
    """The register of `kind` for the bytes at `place`."""
    size = size_of(kind)
    bits = np.int64(0)
    for k in range(size):
        bits |= np.int64(memory[place + k]) << (8 * k)
    return wrap(bits, kind)


@kernel
def store_bits(memory: Array, place: int, kind: int, bits: int) -> None:
    """The bytes of a register of `kind` to `place`."""
    for k in range(size_of(kind)):
        memory[place + k] = np.uint8((bits >> (8 * k)) & 255)


@kernel
def lanes_arithmetic(op: int, kind: int, a: Array, b: Array, out: Array) -> None:
    for k in range(len(out)):
        out[k] = arithmetic(op, kind, a[k % len(a)], b[k % len(b)])


@kernel
def lanes_function(op: int, kind: int, a: Array, b: Array, out: Array) -> None:
    for k in range(len(out)):
        out[k] = function(op, kind, a[k % len(a)], b[k % len(b)])


@kernel
def lanes_convert(kind: int, source: int, a: Array, out: Array) -> None:
    for k in range(len(out)):
        out[k] = convert(a[k], source, kind)


@kernel
def lanes_wrap(kind: int, a: Array, out: Array) -> None:
    for k in range(len(out)):
        out[k] = wrap(a[k], kind)


@lean_kernel
def lanes_load(
    memory: Array, written: Array, at: Array, bytes: int, address: Array, kind: int, tests: bool, out: Array
) -> bool:
    """Load; false for an address outside memory or, where `tests`, a byte that was never written."""
    size, step = size_of(kind), np.int64(len(address) > 1)
    for k in range(len(out)):
        where = address[k * step]
        if where < 0 or where + size > bytes:
            return False
        place = at[k] + where
        if tests:
            for j in range(size):
                if not written[place + j]:
                    return False
        out[k] = load_bits(memory, place, kind)
    return True


@kernel
def lanes_store(memory: Array, written: Array, at: Array, bytes: int, address: Array, kind: int, values: Array) -> bool:
    size = size_of(kind)
    for k in range(len(at)):
        where = address[k % len(address)]
        if where < 0 or where + size > bytes:
            return False
        place = at[k] + where
        store_bits(memory, place, kind, values[k % len(values)])
        for j in range(size):
            written[place + j] = 1
    return True


@kernel
def lanes_gather(
    memory: Array, written: Array, at: Array, bytes: int, base: Array, stride: Array, kind: int, out: Array
) -> bool:
    """The elements of a vector of each PE, as registers: out[pe, n]. Strides in bytes."""
    count, size = out.shape[1], size_of(kind)
    for k in range(len(at)):
        where, step = base[k % len(base)], stride[k % len(stride)]
        for j in range(count):
            address = where + j * step
            if address < 0 or address + size > bytes:
                return False
            place = at[k] + address
            for i in range(size):
                if not written[place + i]:
                    return False
            out[k, j] = load_bits(memory, place, kind)
    return True


@lean_kernel
def lanes_gather_words(
    words: Array, written: Array, at: Array, bytes: int, base: Array, stride: Array, out: Array, tests: bool,
    first: int, last: int,
) -> bool:  # fmt: skip
    """As lanes_gather of aligned elements of 4 bytes of the PEs first .. last - 1, from `words`, the buffer as words;
    `tests` whether they were written."""
    count = out.shape[1]
    for k in range(first, last):
        where, step = base[k % len(base)], stride[k % len(stride)]
        end = where + (count - 1) * step
        if min(where, end) < 0 or max(where, end) + 4 > bytes:
            return False
        place = at[k] + where
        if tests:
            for j in range(count):
                byte = place + j * step
                if not (written[byte] and written[byte + 1] and written[byte + 2] and written[byte + 3]):
                    return False
        source, apart = place >> 2, step >> 2
        if apart == 1:
            t = np.uint64(source)
            for u in range(np.uint64(count)):
                out[k, u] = words[t + u]
        else:
            for j in range(count):
                out[k, j] = words[source + j * apart]
    return True


@lean_kernel
def lanes_move_words(
    words: Array, written: Array, at: Array, bytes: int, base: Array, stride: Array, values: Array, rows: Array,
    starts: Array, count: int, marks: bool, first: int, last: int,
) -> bool:  # fmt: skip
    """Of the PEs first .. last - 1: values[rows[pe], starts[pe] ...] to memory, `count` aligned words; `marks` them as
    written. False for what lies outside."""
    for k in range(first, last):
        where, step = base[k % len(base)], stride[k % len(stride)]
        end = where + (count - 1) * step
        if min(where, end) < 0 or max(where, end) + 4 > bytes:
            return False
        to, row, start = (at[k] + where) >> 2, rows[k], starts[k]
        if step == 4:
            t, s = np.uint64(to), np.uint64(start)
            for u in range(np.uint64(count)):
                words[t + u] = values[row, s + u]
        else:
            for j in range(count):
                words[to + j * (step >> 2)] = values[row, start + j]
        if marks:
            for j in range(count):
                place = at[k] + where + j * step
                for i in range(4):
                    written[place + i] = 1
    return True


@kernel
def lanes_scatter_words(
    words: Array, written: Array, at: Array, bytes: int, base: Array, stride: Array, values: Array
) -> bool:
    """As lanes_scatter of aligned elements of 4 bytes."""
    count = values.shape[1]
    for k in range(len(at)):
        where, step = base[k % len(base)], stride[k % len(stride)]
        last = where + (count - 1) * step
        if min(where, last) < 0 or max(where, last) + 4 > bytes:
            return False
        place = at[k] + where
        for j in range(count):
            words[place >> 2] = values[k, j]
            for i in range(4):
                written[place + i] = 1
            place += step
    return True


@kernel
def lanes_scatter(
    memory: Array, written: Array, at: Array, bytes: int, base: Array, stride: Array, kind: int, values: Array
) -> bool:
    count, size = values.shape[1], size_of(kind)
    for k in range(len(at)):
        where, step = base[k % len(base)], stride[k % len(stride)]
        for j in range(count):
            address = where + j * step
            if address < 0 or address + size > bytes:
                return False
            place = at[k] + address
            store_bits(memory, place, kind, values[k, j])
            for i in range(size):
                written[place + i] = 1
    return True


@kernel
def lanes_elements(op: int, kind: int, source: int, a: Array, b: Array, c: Array, out: Array) -> None:
    """One element operation over whole matrices [pe, n]; a source with one column or row is repeated."""
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            x = a[k % a.shape[0], j % a.shape[1]]
            y = b[k % b.shape[0], j % b.shape[1]]
            z = c[k % c.shape[0], j % c.shape[1]]
            out[k, j] = element(op, kind, source, x, y, z)


@kernel
def _source(
    memory: Array, written: Array, at: int, bytes: int, is_memory: bool, where: int, kind: int
) -> tuple[int, bool]:
    """An element of a source, or the scalar that `where` is."""
    if not is_memory:
        return where, True
    size = size_of(kind)
    if where < 0 or where + size > bytes:
        return np.int64(0), False
    for i in range(size):
        if not written[at + where + i]:
            return np.int64(0), False
    return load_bits(memory, at + where, kind), True


@kernel
def lanes_vector(
    memory: Array, written: Array, at: Array, bytes: int, op: int, kind: int, source: int, count: int, base: Array,
    stride: Array, is_memory: Array, kinds: Array, operands: int,
) -> bool:  # fmt: skip
    """A vector operation over memory: operand 0 is the destination; base[operand, pe], stride[operand, pe] in bytes;
    where is_memory[operand] is 0, base is a scalar. Elements go one after the other, as they may depend on another."""
    size = size_of(kind)
    for k in range(len(at)):
        start = at[k]
        for j in range(count):
            a, b, c = np.int64(0), np.int64(0), np.int64(0)
            fine = True
            if operands > 1:
                a, good = _source(memory, written, start, bytes, is_memory[1], base[1, k] + j * stride[1, k], kinds[1])
                fine = fine and good
            if operands > 2:
                b, good = _source(memory, written, start, bytes, is_memory[2], base[2, k] + j * stride[2, k], kinds[2])
                fine = fine and good
            if operands > 3:
                c, good = _source(memory, written, start, bytes, is_memory[3], base[3, k] + j * stride[3, k], kinds[3])
                fine = fine and good
            where = base[0, k] + j * stride[0, k]
            if not fine or where < 0 or where + size > bytes:
                return False
            store_bits(memory, start + where, kind, element(op, kind, source, a, b, c))
            for i in range(size):
                written[start + where + i] = 1
    return True


@kernel
def lanes_all_written(written: Array, at: Array, base: Array, stride: Array, count: int, size: int, bytes: int) -> bool:
    """Whether every element of a vector lies in memory and was written, in every PE."""
    for k in range(len(at)):
        where, step = base[k], stride[k]
        last = where + (count - 1) * step
        if min(where, last) < 0 or max(where, last) + size > bytes:
            return False
        for j in range(count):
            place = at[k] + where + j * step
            for i in range(size):
                if not written[place + i]:
                    return False
    return True


@kernel
def lanes_f32(
    words: Array, at: Array, op: int, count: int, base: Array, stride: Array, is_memory: Array, scalars: Array
) -> None:
    """MAC, ADD, SUB, MUL or MOV of f32 in memory, aligned and checked: as lanes_vector, with `words` the buffer as f32,
    `at`, `base` and `stride` in words, scalars[operand, pe] the sources that are no memory."""
    for k in range(len(at)):
        d, sd = at[k] + base[0, k], stride[0, k]
        a, sa = at[k] + base[1, k], stride[1, k]
        if op == MOV:
            x = scalars[1, k]
            for j in range(count):
                words[d + j * sd] = words[a + j * sa] if is_memory[1] else x
            continue
        b, sb = at[k] + base[2, k], stride[2, k]
        if op == MAC:
            c, sc = at[k] + base[3, k], stride[3, k]
            x, y, z = scalars[1, k], scalars[2, k], scalars[3, k]
            for j in range(count):
                s = words[a + j * sa] if is_memory[1] else x
                p = words[b + j * sb] if is_memory[2] else y
                q = words[c + j * sc] if is_memory[3] else z
                product = np.float32(p * q)
                words[d + j * sd] = s + product
            continue
        x, y = scalars[1, k], scalars[2, k]
        for j in range(count):
            p = words[a + j * sa] if is_memory[1] else x
            q = words[b + j * sb] if is_memory[2] else y
            if op == ADD:
                words[d + j * sd] = p + q
            elif op == SUB:
                words[d + j * sd] = p - q
            else:
                words[d + j * sd] = p * q


@kernel
def lanes_queue(
    words: Array, at: Array, rows: Array, slots: Array, live: Array, out: Array, first: int, last: int
) -> None:
    """Rows of batched_queue.Queue for the PEs first .. last - 1, LANES of them after another: `at` in words, scratch
    slots[slot, LANES], the slots `live` to out[live, pe]."""
    memory, starts, scratch, four = pointer_to(words), pointer_to(at), pointer_to(slots), fours(rows)
    for block in range(first, last, LANES):
        end = min(block + LANES, last)
        i = np.int64(-1)
        while i + 1 < len(rows):
            i += 1
            op, count, d = np.int64(rows[i, 0]), np.int64(rows[i, 1]), np.int64(rows[i, 2])
            if op == ADD_MULTIPLE and four[i]:
                _add_four(memory, starts, scratch, rows, i, block, end)
                i += 3
            elif op == ADD_MULTIPLE:
                b, slot, factor = np.int64(rows[i, 8]), np.int64(rows[i, 11]) * LANES, np.int64(rows[i, 12])
                for k in range(block, end):
                    z = memory[starts[k] + factor]
                    scratch[slot + k - block] = z
                    _add_multiple(memory, starts[k] + d, starts[k] + b, count, z)
            elif op == LOAD:
                for k in range(block, end):
                    scratch[count * LANES + k - block] = memory[starts[k] + d]
            else:
                for k in range(block, end):
                    _queue_row(words, at[k], rows, i, slots, k - block)
        for j in range(len(live)):
            for k in range(block, end):
                out[j, k] = slots[live[j], k - block]


@inner_kernel
def _add_four(memory: Array, starts: Array, scratch: Array, rows: Array, i: int, block: int, end: int) -> None:
    """Four rows from `i` on, which `fours` found, for the PEs block .. end - 1."""
    count, b = np.int64(rows[i, 1]), np.int64(rows[i, 8])
    d0, d1, d2, d3 = rows[i, 2], rows[i + 1, 2], rows[i + 2, 2], rows[i + 3, 2]
    f0, f1, f2, f3 = rows[i, 12], rows[i + 1, 12], rows[i + 2, 12], rows[i + 3, 12]
    whole = count // AT_ONCE * AT_ONCE
    for k in range(block, end):
        start = starts[k]
        z0, z1, z2, z3 = memory[start + f0], memory[start + f1], memory[start + f2], memory[start + f3]
        scratch[rows[i, 11] * LANES + k - block] = z0
        scratch[rows[i + 1, 11] * LANES + k - block] = z1
        scratch[rows[i + 2, 11] * LANES + k - block] = z2
        scratch[rows[i + 3, 11] * LANES + k - block] = z3
        for u in range(0, whole, AT_ONCE):
            to = start + u
            add_multiples_at_once(memory, to + d0, to + d1, to + d2, to + d3, to + b, z0, z1, z2, z3)
        for u in range(whole, count):
            x = memory[start + b + u]
            memory[start + d0 + u] += np.float32(x * z0)
            memory[start + d1 + u] += np.float32(x * z1)
            memory[start + d2 + u] += np.float32(x * z2)
            memory[start + d3 + u] += np.float32(x * z3)


@kernel
def fours(rows: Array) -> Array:
    """Where four rows of ADD_MULTIPLE begin that add multiples of one source to four places, and none of them changes
    the source, a factor, or the place of another: their order does not matter."""
    made = np.zeros(len(rows), np.bool_)
    i = np.int64(0)
    while i + 3 < len(rows):
        made[i] = _is_four(rows, i)
        i += 4 if made[i] else 1
    return made


@inner_kernel
def _is_four(rows: Array, i: int) -> bool:
    count, b = rows[i, 1], rows[i, 8]
    for p in range(i, i + 4):
        if rows[p, 0] != ADD_MULTIPLE or rows[p, 1] != count or rows[p, 8] != b:
            return False
    for p in range(i, i + 4):
        d = rows[p, 2]
        if abs(d - b) < count:
            return False
        for q in range(i, i + 4):
            inside = rows[q, 12] - d
            if (p != q and abs(d - rows[q, 2]) < count) or (inside >= 0 and inside < count):
                return False
    return True


@inner_kernel
def _add_multiple(words: Array, d: int, b: int, count: int, z: float) -> None:
    """words[d ...] += words[b ...] * z, one after the other as far as anyone can tell."""
    done = np.int64(0)
    if d <= b or d - b >= AT_ONCE:
        while done + AT_ONCE <= count:
            add_multiple_at_once(words, d + done, b + done, z)
            done += AT_ONCE
    for j in range(done, count):
        words[d + j] += np.float32(words[b + j] * z)


@inner_kernel
def _queue_row(words: Array, start: int, rows: Array, i: int, slots: Array, k: int) -> None:
    """Any row for the PE whose memory begins at `start` and whose slots are column k."""
    op, count = rows[i, 0], rows[i, 1]
    d, sd = start + rows[i, 2], np.int64(rows[i, 3])
    a, sa = start + rows[i, 5], np.int64(rows[i, 6])
    if op == MOV:
        for j in range(count):
            words[d + j * sd] = words[a + j * sa] if rows[i, 4] == 0 else slots[rows[i, 5], k]
        return
    b, sb = start + rows[i, 8], np.int64(rows[i, 9])
    if op == MAC:
        c, sc = start + rows[i, 11], np.int64(rows[i, 12])
        for j in range(count):
            p = words[b + j * sb] if rows[i, 7] == 0 else slots[rows[i, 8], k]
            q = words[c + j * sc] if rows[i, 10] == 0 else slots[rows[i, 11], k]
            words[d + j * sd] = words[a + j * sa] + np.float32(p * q)
        return
    for j in range(count):
        p = words[a + j * sa] if rows[i, 4] == 0 else slots[rows[i, 5], k]
        q = words[b + j * sb] if rows[i, 7] == 0 else slots[rows[i, 8], k]
        if op == ADD:
            words[d + j * sd] = p + q
        elif op == SUB:
            words[d + j * sd] = p - q
        else:
            words[d + j * sd] = p * q
