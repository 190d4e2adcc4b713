"""The reference engine's fabric: what a router does in one cycle, and what control wavelets do to it.

Must not know programs.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

from . import fields as f
from .fields import (
    A_CLASSES,
    A_FILTERS,
    A_NEAR,
    A_OUT,
    A_PES,
    A_ROUTER_OF,
    A_ROUTERS,
    A_SLOT,
    B_COUNT,
    B_HEAD,
    B_ITEMS,
    B_POPPED,
    COLOR_SHIFT,
    CONTROL_BIT,
    FILTER_SIZE,
    G_BINDS,
    G_DEPTH,
    G_HOP,
    G_LAST,
    G_MISSING,
    G_NOW,
    G_PES,
    G_QUEUE,
    G_RAMP,
    G_STATUS,
    G_UNSENT,
    H_COLOR,
    H_COUNT,
    H_DIRECTION,
    H_NEXT,
    H_PLACE,
    H_POSITION,
    K_HANDLERS,
    P_BUSY_OUT,
    P_CLASS,
    P_FLUSH,
    P_HEADS,
    P_HOST_IN,
    P_HOST_OUT,
    P_LAST_OUT,
    P_LAST_PASSED,
    P_LINKS,
    P_OUT,
    P_SCAN,
    P_TO_HANDLE,
    P_TORN,
    PE_SIZE,
    POP_SHIFT,
    Q_COUNT,
    Q_DEPTH,
    Q_USER,
    R_BUFFERS,
    R_COLOR,
    R_COUNT,
    R_FILTER,
    R_LIMIT,
    R_NEXT,
    R_POP,
    R_POSITION,
    R_RING,
    R_RX,
    R_SWAP_X,
    R_SWAP_Y,
    R_TORN,
    R_TX,
    R_VALID,
    R_WORDS,
    ROUTER_SIZE,
    X_CONTROL,
    X_DATA,
    X_FILTER_CONTROL,
    X_KIND,
    X_LIMIT1,
    X_LIMIT2,
    X_MAX,
    X_MAX_IDX,
    X_MIN_IDX,
)  # fmt: skip
from .jit import inner_kernel
from .reference_queues import (
    ADVANCE,
    NOP,
    RAMP,
    RESET,
    command_of,
    fault,
    head_time,
    head_word,
    ignored_by_pe,
    input_of,
    look,
    lowest_bit,
    pop,
    push,
    wake,
    wake_router,
)  # fmt: skip

Cells = Any


# ---- routers -------------------------------------------------------------------------------------


@inner_kernel
def router_of(S: Cells, pe: int, color: int) -> int:
    """The place of the PE's router configuration of a color, or -1."""
    slot = S[S[A_SLOT] + color]
    if slot < 0:
        return -1
    row = S[S[A_ROUTER_OF] + slot * S[G_PES] + pe]
    return S[A_ROUTERS] + row * ROUTER_SIZE if row >= 0 else -1


@inner_kernel
def buffer_push(S: Cells, b: int, word: int, time: int) -> None:
    slots = S[G_DEPTH] + S[G_RAMP]
    k = S[b + B_HEAD] + S[b + B_COUNT]
    if k >= slots:
        k -= slots
    S[b + B_ITEMS + 2 * k] = word
    S[b + B_ITEMS + 2 * k + 1] = time
    S[b + B_COUNT] += 1


@inner_kernel
def buffer_room(S: Cells, b: int, direction: int) -> bool:
    """Whether a buffer had room when this cycle began. A ramp holds words of its own."""
    room = S[G_DEPTH] + (S[G_RAMP] if direction == RAMP else 0)
    return S[b + B_COUNT] + (1 if S[b + B_POPPED] == S[G_NOW] else 0) < room


@inner_kernel
def buffer_time(S: Cells, b: int) -> int:
    return S[b + B_ITEMS + 2 * S[b + B_HEAD] + 1]


@inner_kernel
def route(S: Cells, r: int) -> tuple[int, int]:
    """What the current position receives from and sends to."""
    rx, tx = np.int64(0), np.int64(0)
    shift = 8 * S[r + R_POSITION]
    while shift >= 0 and (rx == 0 or tx == 0):
        # A position that says nothing of a side leaves it as the one before has it.
        rx = rx if rx else (S[r + R_RX] >> shift) & 31
        tx = tx if tx else (S[r + R_TX] >> shift) & 31
        shift -= 8
    return rx, tx


@inner_kernel
def router_step(S: Cells, W: Cells, pe: int) -> None:
    """One cycle of a router: host words, then the PE's output queues, then what stands in its buffers."""
    p = S[A_PES] + pe * PE_SIZE
    if S[p + P_HOST_IN] >= 0:
        _host_in(S, W, pe, p)
    if S[p + P_BUSY_OUT]:
        _leave_queues(S, W, pe, p)
    _pass_all(S, W, pe, p)


@inner_kernel
def _host_in(S: Cells, W: Cells, pe: int, p: int) -> None:
    """One word of each host stream into its queue, or into the buffer of its link."""
    now = S[G_NOW]
    port = S[p + P_HOST_IN]
    while port >= 0:
        h = port
        port = W[h + H_NEXT]
        if W[h + H_POSITION] >= W[h + H_COUNT]:
            continue
        color, direction = W[h + H_COLOR], W[h + H_DIRECTION]
        word = W[W[h + H_PLACE] + W[h + H_POSITION]]
        if direction < 0:
            q = input_of(S, p, color)
            if q < 0:
                fault(S, f.NO_TAKER, pe, -1, color, -1, 0)
                return
            if S[q + Q_COUNT] >= S[q + Q_DEPTH] + S[G_RAMP]:
                continue
            push(S, q, word, now + S[G_RAMP])
            look(S, p, q, now + S[G_RAMP])
            wake(S, pe, now + S[G_RAMP])
        else:
            r = router_of(S, pe, color)
            b = S[r + R_BUFFERS + direction] if r >= 0 else np.int64(-1)
            if b < 0:
                fault(S, f.NO_ROUTE, pe, -1, color, direction, 0)
                return
            if not buffer_room(S, b, direction):
                continue
            buffer_push(S, b, word, now + S[G_HOP])
            S[p + P_HEADS + direction] |= 1 << color
            wake_router(S, pe, now + S[G_HOP])
        W[h + H_POSITION] += 1
        S[G_UNSENT] -= 1
        S[G_LAST] = now
        if W[h + H_POSITION] < W[h + H_COUNT]:
            wake_router(S, pe, now + 1)


@inner_kernel
def _leave_queues(S: Cells, W: Cells, pe: int, p: int) -> None:
    """One word of all output queues goes on the ramp: of the next one behind the last that sent."""
    now, first, sent = S[G_NOW], S[p + P_LAST_OUT] + 1, False
    behind = S[p + P_BUSY_OUT] & (np.int64(-1) << first)
    before = S[p + P_BUSY_OUT] & ~behind
    while behind | before:
        bits = behind if behind else before
        number = lowest_bit(bits)
        if behind:
            behind &= behind - 1
        else:
            before &= before - 1
        q = S[A_OUT] + (S[p + P_OUT] + number) * S[G_QUEUE]
        time = head_time(S, q)
        if time > now or sent:
            wake_router(S, pe, max(now + 1, time))
            continue
        if not _leave(S, W, pe, p, q):
            if S[G_STATUS] != f.RUNNING:
                return
            continue
        sent = True
        S[p + P_LAST_OUT] = number
        if S[q + Q_COUNT]:
            wake_router(S, pe, max(now + 1, head_time(S, q)))
        else:
            S[p + P_BUSY_OUT] &= ~(np.int64(1) << number)
        # The operation that waits for room (for up to four words at once), or the handler that waits for the end.
        full = S[q + Q_USER] and S[q + Q_COUNT] + 4 >= S[q + Q_DEPTH]
        if full or (S[p + P_FLUSH] and not S[q + Q_COUNT]):
            look(S, p, q, now + 1)
            wake(S, pe, now + 1)


@inner_kernel
def _leave(S: Cells, W: Cells, pe: int, p: int, q: int) -> bool:
    """Whether the first word of an output queue could leave."""
    word = head_word(S, q)
    color = word >> COLOR_SHIFT
    port = _port(W, S[p + P_HOST_OUT], color, -1) if S[p + P_HOST_OUT] >= 0 else np.int64(-1)
    if port >= 0:
        if not _to_host(S, W, port, word):
            return False
    else:
        r = router_of(S, pe, color)
        b = S[r + R_BUFFERS + RAMP] if r >= 0 else np.int64(-1)
        if b < 0:
            fault(S, f.NO_ROUTE, pe, -1, color, RAMP, 0)
            return False
        if not buffer_room(S, b, RAMP):
            return False
        buffer_push(S, b, word & ((1 << COLOR_SHIFT) - 1), S[G_NOW] + S[G_RAMP])
        S[p + P_HEADS + RAMP] |= 1 << color
        if S[G_RAMP]:
            wake_router(S, pe, S[G_NOW] + S[G_RAMP])
    pop(S, q)
    S[G_LAST] = S[G_NOW]
    return True


@inner_kernel
def _port(W: Cells, port: int, color: int, direction: int) -> int:
    """The host port for words of a color that leave in a direction, or -1."""
    while port >= 0:
        if W[port + H_COLOR] == color and W[port + H_DIRECTION] == direction:
            return port
        port = W[port + H_NEXT]
    return -1


@inner_kernel
def _to_host(S: Cells, W: Cells, port: int, word: int) -> bool:
    """Give a word to the host; False where it does not expect any."""
    if W[port + H_POSITION] >= W[port + H_COUNT]:
        return False
    W[W[port + H_PLACE] + W[port + H_POSITION]] = word & 0xFFFFFFFF
    W[port + H_POSITION] += 1
    S[G_MISSING] -= 1
    return True


@inner_kernel
def _pass_all(S: Cells, W: Cells, pe: int, p: int) -> None:
    """Each output passes at most one wavelet, in the order of the wheel over (direction, color)."""
    start = S[p + P_LAST_PASSED] + 1
    first, color = start >> 5, start & 31
    busy = np.int64(0)
    for k in range(6):
        direction = (first + k) % 5
        heads = S[p + P_HEADS + direction]
        if k == 0:
            heads &= -1 << color
        elif k == 5:
            heads &= (1 << color) - 1
        while heads:
            bit = heads & -heads
            heads ^= bit
            number = lowest_bit(bit)
            moved = _pass(S, W, pe, p, direction, number, busy)
            if S[G_STATUS] != f.RUNNING:
                return
            if moved:
                busy |= moved
                S[p + P_LAST_PASSED] = direction << 5 | number


@inner_kernel
def _pass(S: Cells, W: Cells, pe: int, p: int, direction: int, color: int, busy: int) -> int:
    """The outputs by which the first wavelet of a buffer has left; 0 where it stays."""
    now = S[G_NOW]
    r = router_of(S, pe, color)
    b = S[r + R_BUFFERS + direction]
    time = buffer_time(S, b)
    if time > now:
        wake_router(S, pe, time)
        return 0
    if S[r + R_TORN]:
        return 0
    rx, tx = route(S, r)
    if not (rx >> direction) & 1:
        return 0
    if rx & ~(1 << direction):
        _check_one_way(S, pe, p, r, color, direction, rx)
        if S[G_STATUS] != f.RUNNING:
            return 0
    if tx == 0:
        fault(S, f.NO_ROUTE, pe, -1, color, direction, 1)
        return 0
    if tx & busy:
        wake_router(S, pe, now + 1)
        return 0
    word = S[b + B_ITEMS + 2 * S[b + B_HEAD]]
    if not _room_for(S, W, pe, p, r, color, tx, word):
        return 0
    _move(S, W, pe, p, r, b, direction, color, tx, word)
    return tx


@inner_kernel
def _check_one_way(S: Cells, pe: int, p: int, r: int, color: int, direction: int, rx: int) -> None:
    """No other direction that this color is received from has a wavelet now."""
    for other in range(5):
        if other != direction and (rx >> other) & 1 and (S[p + P_HEADS + other] >> color) & 1:
            if buffer_time(S, S[r + R_BUFFERS + other]) <= S[G_NOW]:
                fault(S, f.TWO_WAYS, pe, -1, color, direction, other)


@inner_kernel
def _swapped(S: Cells, r: int, color: int, direction: int) -> int:
    """The color under which a wavelet goes on."""
    swap = S[r + R_SWAP_X] if direction < 2 else S[r + R_SWAP_Y]
    return color ^ 1 if swap and direction != RAMP else color


@inner_kernel
def _room_for(S: Cells, W: Cells, pe: int, p: int, r: int, color: int, tx: int, word: int) -> bool:
    """Whether every output of a route can take the wavelet."""
    for out in range(5):
        if not (tx >> out) & 1:
            continue
        if out == RAMP:
            if not reaches_pe(S, r, word):
                continue
            q = input_of(S, p, color)
            if q < 0:
                port = _port(W, S[p + P_HOST_OUT], color, -1)
                if port < 0:
                    if not S[G_BINDS]:
                        fault(S, f.NO_TAKER, pe, -1, color, word & 0xFFFFFFFF, 1 if word & CONTROL_BIT else 0)
                    return False
                if W[port + H_POSITION] >= W[port + H_COUNT]:
                    return False
            elif S[q + Q_COUNT] >= S[q + Q_DEPTH] + S[G_RAMP]:
                return False
            continue
        port = _port(W, S[p + P_HOST_OUT], color, out) if S[p + P_HOST_OUT] >= 0 else np.int64(-1)
        if port >= 0:
            if W[port + H_POSITION] >= W[port + H_COUNT] and not word & CONTROL_BIT:
                return False
            continue
        nb = S[r + R_NEXT + out]
        if nb < 0:
            near = S[S[A_NEAR] + pe * 4 + out]
            if near < 0:
                fault(S, f.NO_ROUTE, pe, -1, color, out, 2)
            else:
                fault(S, f.NO_ROUTE, near, -1, _swapped(S, r, color, out), out ^ 1, 0)
            return False
        if not buffer_room(S, nb, out ^ 1):
            # It may have made room in this cycle, before this router was due: its waking is then lost.
            if S[nb + B_POPPED] == S[G_NOW]:
                wake_router(S, pe, S[G_NOW] + 1)
            return False
    return True


@inner_kernel
def _move(S: Cells, W: Cells, pe: int, p: int, r: int, b: int, direction: int, color: int, tx: int, word: int) -> None:
    """Take the wavelet out of its buffer and put it where its route leads; then its command acts."""
    now = S[G_NOW]
    room = S[G_DEPTH] + (S[G_RAMP] if direction == RAMP else 0)
    if S[b + B_COUNT] >= room:
        # Who could not come because of this buffer tries again.
        near = S[S[A_NEAR] + pe * 4 + direction] if direction != RAMP else pe
        wake_router(S, near if near >= 0 else pe, now + 1)
    k = S[b + B_HEAD] + 1
    S[b + B_HEAD] = k if k < S[G_DEPTH] + S[G_RAMP] else 0
    S[b + B_COUNT] -= 1
    S[b + B_POPPED] = now
    if S[b + B_COUNT]:
        wake_router(S, pe, max(now + 1, buffer_time(S, b)))
    else:
        S[p + P_HEADS + direction] &= ~(1 << color)
    carried = _after_pop(S, r, word) if word & CONTROL_BIT else word
    delivered = reaches_pe(S, r, word) if (tx >> RAMP) & 1 else False
    if (tx >> RAMP) & 1:
        _count_filter(S, r, word)
    for out in range(5):
        if not (tx >> out) & 1:
            continue
        S[p + P_LINKS + out] += 1
        if out == RAMP:
            if delivered:
                _deliver(S, W, pe, p, color, word)
            continue
        port = _port(W, S[p + P_HOST_OUT], color, out) if S[p + P_HOST_OUT] >= 0 else np.int64(-1)
        if port >= 0:
            if not word & CONTROL_BIT:
                _to_host(S, W, port, word)
            continue
        near = S[S[A_NEAR] + pe * 4 + out]
        buffer_push(S, S[r + R_NEXT + out], carried, now + S[G_HOP])
        S[S[A_PES] + near * PE_SIZE + P_HEADS + (out ^ 1)] |= np.int64(1) << _swapped(S, r, color, out)
        wake_router(S, near, now + S[G_HOP])
    S[r + R_WORDS] += 1
    S[G_LAST] = now
    if word & CONTROL_BIT:
        _command(S, pe, p, r, command_of(word))


@inner_kernel
def _deliver(S: Cells, W: Cells, pe: int, p: int, color: int, word: int) -> None:
    q = input_of(S, p, color)
    if q < 0:
        _to_host(S, W, _port(W, S[p + P_HOST_OUT], color, -1), word)
        return
    push(S, q, word, S[G_NOW] + S[G_RAMP])
    if word & CONTROL_BIT:
        S[p + P_SCAN] = 1
    look(S, p, q, S[G_NOW] + S[G_RAMP])
    wake(S, pe, S[G_NOW] + S[G_RAMP])


# ---- control wavelets and filters ------------------------------------------------------------------


@inner_kernel
def _advances(S: Cells, r: int) -> bool:
    """Whether SWITCH_ADV would move the color's switch."""
    following = S[r + R_POSITION] + 1
    return S[r + R_RING] != 0 or (following < 4 and (S[r + R_VALID] >> following) & 1 == 1)


@inner_kernel
def _after_pop(S: Cells, r: int, word: int) -> int:
    """The wavelet as it goes on: without its first command where the color's pop mode takes it."""
    mode, command = S[r + R_POP], command_of(word)
    moved = command == ADVANCE and _advances(S, r)
    taken = mode == f.ALWAYS_POP or (mode == f.POP_ON_ADVANCE and moved)
    taken = taken or (mode == f.POP_ON_ADVANCE_NOP and (moved or command == NOP))
    return word + (1 << POP_SHIFT) if taken and (word >> POP_SHIFT) & 15 < 8 else word


@inner_kernel
def _command(S: Cells, pe: int, p: int, r: int, command: int) -> None:
    """The effect of a command on a color's switch."""
    if command == NOP:
        return
    if command == ADVANCE:
        following = S[r + R_POSITION] + 1
        if following < 4 and (S[r + R_VALID] >> following) & 1:
            S[r + R_POSITION] = following
        elif S[r + R_RING]:
            S[r + R_POSITION] = 0
    elif command == RESET:
        S[r + R_POSITION] = 0
    else:
        tear_down(S, pe, p, r)
    wake_router(S, pe, S[G_NOW] + 1)


@inner_kernel
def tear_down(S: Cells, pe: int, p: int, r: int) -> None:
    """Let the color stand still, and its handler run."""
    bit = np.int64(1) << S[r + R_COLOR]
    S[r + R_TORN] = 1
    S[p + P_TORN] |= bit
    if S[S[A_CLASSES] + S[p + P_CLASS] * f.CLASS_SIZE + K_HANDLERS] >= 0:
        if S[S[S[A_CLASSES] + S[p + P_CLASS] * f.CLASS_SIZE + K_HANDLERS] + S[r + R_COLOR]] >= 0:
            S[p + P_TO_HANDLE] |= bit
            wake(S, pe, S[G_NOW] + 1)


@inner_kernel
def reaches_pe(S: Cells, r: int, word: int) -> bool:
    """Whether a wavelet for the ramp gets to the PE: not past `ce_ignore`, nor past the color's filter."""
    control = word & CONTROL_BIT != 0
    if control and ignored_by_pe(word):
        return False
    if S[r + R_FILTER] < 0:
        return True
    x = S[A_FILTERS] + S[r + R_FILTER] * FILTER_SIZE
    if control and not S[x + X_FILTER_CONTROL]:
        return True
    if S[x + X_KIND] == 2:
        index = (word >> 16) & 0xFFFF
        return S[x + X_MIN_IDX] <= index <= S[x + X_MAX_IDX]
    return S[r + R_COUNT] <= S[x + X_MAX]


@inner_kernel
def _count_filter(S: Cells, r: int, word: int) -> None:
    """A counter filter counts a wavelet; behind its limit it starts at 0 again, a sparse one with its other limit."""
    if S[r + R_FILTER] < 0:
        return
    x = S[A_FILTERS] + S[r + R_FILTER] * FILTER_SIZE
    if S[x + X_KIND] == 2 or not S[x + (X_CONTROL if word & CONTROL_BIT else X_DATA)]:
        return
    limit = S[x + X_LIMIT2] if S[r + R_LIMIT] else S[x + X_LIMIT1]
    S[r + R_COUNT] += 1
    if S[r + R_COUNT] > limit:
        S[r + R_COUNT] = 0
        if S[x + X_KIND] == 1:
            S[r + R_LIMIT] ^= 1
