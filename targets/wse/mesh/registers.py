"""Few registers for many values: a linear scan over the instructions of one function.

Values are numbered without end while code is made; here each gets a register of the frame, and those that are never
alive at once share one. Frames of a chain of calls follow each other. Must not know what instructions compute, only
which of their fields are registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from .ir import OPERANDS, Op, V

# Fields of an instruction (2: d, 3: a, 4: b, 5: c) that are registers; -1 in one of them is none.
_D, _A, _B, _C = 2, 3, 4, 5
_BINARY = (_D, _A, _B)
REGISTER_FIELDS: dict[Op, tuple[int, ...]] = {
    Op.CONST: (_D,), Op.LANE: (_D,), Op.MOVE: (_D, _A),
    **dict.fromkeys(
        (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.REM, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR, Op.EQ, Op.NE, Op.LT, Op.LE),
        _BINARY,
    ),
    Op.NEG: (_D, _A), Op.NOT: (_D, _A), Op.CONVERT: (_D, _A), Op.BITCAST: (_D, _A), Op.LOAD: (_D, _A),
    Op.STORE: (_D, _A), Op.COPY: (_D, _A), Op.CHECK: (_A,), Op.JUMP: (), Op.JUMP_IF_NOT: (_A,), Op.ARG: (_A,),
    Op.CALL: (_D,), Op.CALL_AT: (_D, _A), Op.RETURN: (_A,), Op.VECTOR: (_D,), Op.ACTIVATE: (_A,), Op.BLOCK: (_A,),
    Op.UNBLOCK: (_A,), Op.ASSERT: (_A,), Op.MACHINE: (_D, _A, _B, _C), Op.MATH: (_D, _A, _C),
    Op.DSD_MOVE: _BINARY, Op.DSD_BASE: _BINARY, Op.DSD_LENGTH: _BINARY, Op.DSD_STRIDE: _BINARY,
}  # fmt: skip
# Instructions whose d is read, not written.
READS_D = frozenset({Op.STORE, Op.COPY})
VECTOR_REGISTERS = (*OPERANDS, V.ACTIVATE, V.UNBLOCK, V.MICROTHREAD, V.INDEX)
# A register with a task id, where ON_CONTROL is at least this.
ON_CONTROL_REGISTER = 2


@dataclass(frozen=True, slots=True)
class Loop:
    """The instructions first .. last of a loop."""

    first: int
    last: int


def used(instruction: Sequence[int], vectors: Sequence[Sequence[int]]) -> list[int]:
    """The registers that an instruction reads or writes."""
    op = Op(instruction[0])
    found = [instruction[k] for k in REGISTER_FIELDS[op] if instruction[k] >= 0]
    if op == Op.VECTOR:
        row = vectors[instruction[_A]]
        found += [row[k] for k in VECTOR_REGISTERS if row[k] >= 0]
        if row[V.ON_CONTROL] >= ON_CONTROL_REGISTER:
            found.append(row[V.ON_CONTROL] - ON_CONTROL_REGISTER)
    return found


def assign(
    code: Sequence[Sequence[int]],
    vectors: Sequence[Sequence[int]],
    loops: Sequence[Loop],
    params: int,
    variables: frozenset[int],
) -> tuple[dict[int, int], int]:
    """The register of each value, and how many there are. Values 0 .. params - 1 keep their numbers.

    `variables` may carry what one round of a loop wrote into the next.
    """
    spans = _spans(code, vectors, params)
    _stretch(spans, loops, variables)
    return _scan(spans, params)


def _spans(code: Sequence[Sequence[int]], vectors: Sequence[Sequence[int]], params: int) -> dict[int, list[int]]:
    """First and last use of each value."""
    spans: dict[int, list[int]] = {k: [-1, -1] for k in range(params)}
    for at, instruction in enumerate(code):
        for value in used(instruction, vectors):
            spans.setdefault(value, [at, at])[1] = at
    return spans


def _stretch(spans: dict[int, list[int]], loops: Sequence[Loop], variables: frozenset[int]) -> None:
    """Values that live across the turn of a loop live through all of it. Inner loops first."""
    for loop in sorted(loops, key=lambda x: x.last - x.first):
        for value, span in spans.items():
            if span[1] < loop.first or span[0] > loop.last:
                continue
            inside = span[0] >= loop.first and span[1] <= loop.last
            if inside and value in variables:
                span[:] = [loop.first, loop.last]
            elif not inside:
                span[1] = max(span[1], loop.last)
                if value in variables:
                    span[0] = min(span[0], loop.first)


def _scan(spans: dict[int, list[int]], params: int) -> tuple[dict[int, int], int]:
    place = {k: k for k in range(params)}
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for value in range(params):
        heappush(busy, (spans[value][1], value))
    count = params
    for value, (first, last) in sorted(spans.items(), key=lambda x: (x[1][0], x[0])):
        if value in place:
            continue
        # A register whose last use is here may be written here: operands are read first.
        while busy and busy[0][0] <= first:
            heappush(free, heappop(busy)[1])
        if free:
            place[value] = heappop(free)
        else:
            place[value], count = count, count + 1
        heappush(busy, (last, place[value]))
    return place, count


# ---- chains of calls -----------------------------------------------------------------------------

# Frames of a function that calls itself, directly or through others, that a PE has room for at once.
MAX_ROUNDS = 16


def circle(k: int, calls: Sequence[Sequence[int]]) -> list[int]:
    """The functions that `k` calls and that call `k`, directly or through others; empty where it cannot call itself."""
    onward = _reached(k, calls)
    return sorted(j for j in onward if k in _reached(j, calls)) if k in onward else []


def _reached(k: int, calls: Sequence[Sequence[int]]) -> set[int]:
    found: set[int] = set()
    work = list(calls[k])
    while work:
        at = work.pop()
        if at not in found:
            found.add(at)
            work += calls[at]
    return found


def chain_registers(calls: Sequence[Sequence[int]], own: Sequence[int]) -> list[int]:
    """Registers that each function and all it calls need; a circle counts MAX_ROUNDS times."""
    circles = [circle(k, calls) for k in range(len(calls))]
    depth: dict[int, int] = {}
    # What is called comes before its callers; the functions of a circle are done together.
    for root in range(len(calls)):
        stack = [root]
        while stack:
            k = stack[-1]
            group = circles[k] or [k]
            below = sorted({c for member in group for c in calls[member]} - set(group))
            missing = [c for c in below if c not in depth]
            stack += missing
            if not missing:
                stack.pop()
                rounds = MAX_ROUNDS if circles[k] else 1
                need = rounds * sum(own[member] for member in group) + max((depth[c] for c in below), default=0)
                depth.update(dict.fromkeys(group, need))
    return [depth[k] for k in range(len(calls))]
