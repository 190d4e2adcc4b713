"""Everything that is wrong with an image; what its docstring lists is what engines may rely on.

- Every instruction has a known op and kind, a cost of at least 0 and a span; it belongs to the function whose entry
  comes last before it; it ends with RETURN or JUMP where the function does.
- Registers lie in the frame of their function; only results that nobody wants, the value of RETURN and operands that a
  machine operation or MATH does not take are -1. Jumps stay in their function.
- Numbers of constants, lanes, vectors, functions, texts and shapes lie in their tables. A call has an ARG for each
  register of its function's parameters, from 0, just before it.
- Classes follow each other without gaps; their symbols lie in their memory without overlap; initial bytes are as long
  as the symbol, with a row for each PE where PEs differ; every function that a class names exists, and no chain of
  calls needs more registers than the class says. Ids of tasks are bound once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from .ir import OPERANDS, BlockKind, ClassRow, Function, Image, Kind, MachineOp, MathOp, Op, SymbolRow, V, VectorOp
from .registers import ON_CONTROL_REGISTER, REGISTER_FIELDS, VECTOR_REGISTERS, chain_registers

_FIELDS = "okdabc"
_OPTIONAL: dict[Op, tuple[int, ...]] = {
    Op.CALL: (2,), Op.CALL_AT: (2,), Op.MACHINE: (2, 3, 4, 5), Op.RETURN: (3,), Op.MATH: (5,),
}  # fmt: skip
_KINDLESS = frozenset({Op.MACHINE})


def verify(image: Image) -> list[str]:
    """Every broken invariant of `image`; empty when it is well formed."""
    found = list(_tables(image))
    if found:
        return found
    owners = _Owners(image)
    found += owners.problems
    for k, function in enumerate(image.functions):
        found += _function(image, k, function, owners)
    for k in range(len(image.vectors)):
        found += _vector(image, k)
    found += _classes(image)
    return found


class _Owners:
    """Which instructions are whose: each function's last one."""

    def __init__(self, image: Image) -> None:
        entries = sorted(f.entry for f in image.functions)
        self.problems: list[str] = []
        if entries and (entries[0] or len(set(entries)) < len(entries) or entries[-1] >= len(image.code)):
            self.problems.append("the entries of functions do not divide the code")
        self._entries = [*entries, len(image.code)]

    def end(self, entry: int) -> int:
        return self._entries[bisect_right(self._entries, entry)] if entry < self._entries[-1] else entry


def _tables(image: Image) -> Iterator[str]:
    n = len(image.code)
    if image.code.shape != (n, 6) or image.code.dtype != np.int32:
        yield "code is not int32 of shape (n, 6)"
    for name in ("cost", "span_of"):
        table = getattr(image, name)
        if table.shape != (n,) or table.dtype != np.int32:
            yield f"{name} is not int32 of shape ({n})"
    if n and (image.cost < 0).any():
        yield "a cost is below 0"
    if n and not ((image.span_of >= 0) & (image.span_of < len(image.spans))).all():
        yield "span_of points beyond spans"
    if image.constants.ndim != 1 or image.constants.dtype != np.int64:
        yield "constants are not int64 of one dimension"
    if image.lanes.ndim != 2 or image.lanes.shape[1] != image.pes or image.lanes.dtype != np.int64:
        yield f"lanes are not int64 of shape (rows, {image.pes})"
    if image.vectors.shape != (len(image.vectors), V.SIZE):
        yield f"rows of vectors do not have {int(V.SIZE)} columns"
    if image.shapes.shape != (len(image.shapes), 8) or (image.shapes[:, :4] < 0).any():
        yield "shapes are not four extents and four strides"


# ---- functions -----------------------------------------------------------------------------------


def _function(image: Image, number: int, function: Function, owners: _Owners) -> Iterator[str]:
    name = f"function {number} `{function.name}`"
    end = owners.end(function.entry)
    if len(function.params) > function.registers:
        yield f"{name} has more parameters than registers"
    if function.entry >= end:
        yield f"{name} has no code"
        return
    if image.code[end - 1, 0] not in (Op.RETURN, Op.JUMP):
        yield f"{name} does not end"
    args: list[int] = []
    for at in range(function.entry, end):
        row = image.code[at].tolist()
        where = f"{name}, instruction {at}"
        if row[0] not in Op.__members__.values():
            yield f"{where}: no op {row[0]}"
            continue
        yield from (
            f"{where} {Op(row[0]).name}: {x}" for x in _instruction(image, row, function, (function.entry, end))
        )
        if row[0] == Op.ARG:
            args.append(row[2])
        elif args or row[0] in (Op.CALL, Op.CALL_AT):
            yield from (f"{where}: {x}" for x in _call(image, row, args))
            args = []


def _call(image: Image, row: list[int], args: list[int]) -> Iterator[str]:
    if row[0] not in (Op.CALL, Op.CALL_AT):
        yield "an ARG is not followed by its call"
    elif args != list(range(len(args))):
        yield f"its ARGs are {args}"
    elif row[0] == Op.CALL and 0 <= row[3] < len(image.functions):
        callee = image.functions[row[3]]
        if len(args) != len(callee.params):
            yield f"{len(args)} ARGs for `{callee.name}`, which takes {len(callee.params)}"
        if row[2] >= 0 and callee.result is None:
            yield f"a result of `{callee.name}`, which has none"


def _instruction(image: Image, row: list[int], f: Function, code: tuple[int, int]) -> Iterator[str]:
    op = Op(row[0])
    for k in REGISTER_FIELDS[op]:
        least = -1 if k in _OPTIONAL.get(op, ()) else 0
        if not least <= row[k] < f.registers:
            yield f"{_FIELDS[k]} is register {row[k]} of {f.registers}"
    kinds = MachineOp if op in _KINDLESS else Kind
    if row[1] not in kinds.__members__.values():
        yield f"no kind {row[1]}"
    for k, low, high in _numbers(image, op, code):
        if not low <= row[k] < high:
            yield f"{_FIELDS[k]} is {row[k]}, not in {low} .. {high - 1}"
    if op == Op.VECTOR and 0 <= row[3] < len(image.vectors):
        vector = image.vectors[row[3]]
        used = [int(vector[k]) for k in VECTOR_REGISTERS if vector[k] >= 0]
        if vector[V.ON_CONTROL] >= ON_CONTROL_REGISTER:
            used.append(int(vector[V.ON_CONTROL]) - ON_CONTROL_REGISTER)
        yield from (f"row {row[3]} has register {r} of {f.registers}" for r in used if r >= f.registers)


_ANY = 1 << 31


def _numbers(image: Image, op: Op, code: tuple[int, int]) -> tuple[tuple[int, int, int], ...]:
    """(field, least, beyond) of the fields of `op` that are numbers."""
    match op:
        case Op.CONST:
            return ((3, 0, len(image.constants)),)
        case Op.LANE:
            return ((3, 0, len(image.lanes)),)
        case Op.CONVERT | Op.BITCAST:
            return ((4, 0, len(Kind)),)
        case Op.LOAD | Op.STORE:
            return ((5, 0, _ANY),)
        case Op.COPY | Op.CHECK:
            return ((4, 0, _ANY),)
        case Op.JUMP:
            return ((3, *code),)
        case Op.JUMP_IF_NOT:
            return ((4, *code),)
        case Op.CALL:
            return ((3, 0, len(image.functions)),)
        case Op.VECTOR:
            return ((3, 0, len(image.vectors)),)
        case Op.BLOCK | Op.UNBLOCK:
            return ((4, 0, len(BlockKind)),)
        case Op.MATH:
            return ((4, 0, len(MathOp)),)
        case _:
            return ()


def _vector(image: Image, number: int) -> Iterator[str]:
    row, name = image.vectors[number].tolist(), f"vector {number}"
    if row[V.OP] not in VectorOp.__members__.values():
        yield f"{name}: no op {row[V.OP]}"
        return
    count = row[V.COUNT]
    if not 1 <= count <= len(OPERANDS):
        yield f"{name}: {count} operands"
        return
    given = [row[k] >= 0 for k in OPERANDS]
    if given != [k < count for k in range(len(OPERANDS))]:
        yield f"{name}: its operands are not the first {count}"
    if row[V.DSDS] & row[V.POINTERS] or (row[V.DSDS] | row[V.POINTERS]) >> count:
        yield f"{name}: its operands are of two kinds, or more than there are"
    if row[V.DSDS] == 0:
        yield f"{name}: no operand is a DSD"
    yield from (f"{name}: no Kind {row[k]}" for k in (V.DEST_KIND, V.SOURCE_KIND) if not 0 <= row[k] < len(Kind))
    if row[V.WIDTH] < 1:
        yield f"{name}: {row[V.WIDTH]} elements a cycle"
    if (row[V.OP] == VectorOp.MAP) != (0 <= row[V.CALLBACK] < len(image.functions)):
        yield f"{name}: its callback is {row[V.CALLBACK]}"
    if (row[V.UNBLOCK] >= 0) != (0 <= row[V.UNBLOCK_KIND] < len(BlockKind)):
        yield f"{name}: what it unblocks is {row[V.UNBLOCK_KIND]}"
    if not -1 <= row[V.PRIORITY] <= 2 or row[V.ASYNC] not in (0, 1) or row[V.ON_CONTROL] < 0:
        yield f"{name}: its settings are out of range"


# ---- classes -------------------------------------------------------------------------------------


def _classes(image: Image) -> Iterator[str]:
    first = 0
    depths = _depths(image)
    for k, row in enumerate(image.classes):
        name = f"class {k} `{row.path}`"
        if row.first != first:
            yield f"{name} starts at PE {row.first}, not {first}"
        first += row.count
        if len(row.x) != row.count or len(row.y) != row.count:
            yield f"{name} has {len(row.x)}, {len(row.y)} coordinates for {row.count} PEs"
        yield from (f"{name}: {x}" for x in _symbols(row))
        yield from (f"{name}: {x}" for x in _bindings(image, row, depths))


def _symbols(row: ClassRow) -> Iterator[str]:
    end = 0
    for symbol in sorted(row.symbols, key=lambda s: (s.address, s.address + s.bytes)):
        if symbol.address < end or symbol.address + symbol.bytes > row.memory_bytes:
            yield f"`{symbol.name}` lies over another symbol or beyond the memory"
        end = max(end, symbol.address + symbol.bytes)
        yield from _initial(symbol, row.count)


def _initial(symbol: SymbolRow, count: int) -> Iterator[str]:
    initial = symbol.initial
    if initial is None:
        return
    if initial.dtype != np.uint8 or initial.shape not in ((symbol.bytes,), (count, symbol.bytes)):
        yield f"the initial bytes of `{symbol.name}` are {initial.dtype} of shape {initial.shape}"


def _bindings(image: Image, row: ClassRow, depths: list[int]) -> Iterator[str]:
    named = [*(x.function for x in row.tasks), *row.functions.values(), *row.teardown.values()]
    named += row.empty_queue.values()
    yield from (f"it names function {k}" for k in named if not 0 <= k < len(image.functions))
    for k in named:
        if 0 <= k < len(depths) and depths[k] > row.registers:
            yield f"function {k} needs {depths[k]} registers; it has {row.registers}"
    bound = [(task.kind, task.id) for task in row.tasks]
    yield from (f"{kind} task {id} is bound twice" for kind, id in sorted({b for b in bound if bound.count(b) > 1}))
    for name, (address, size, _) in row.variables.items():
        if address < 0 or address + size > row.memory_bytes:
            yield f'exported "{name}" lies beyond the memory'


def _depths(image: Image) -> list[int]:
    """Registers of each function and all that it calls by number."""
    order = sorted(range(len(image.functions)), key=lambda k: image.functions[k].entry)
    ends = [image.functions[k].entry for k in order[1:]] + [len(image.code)]
    calls: list[list[int]] = [[] for _ in order]
    for k, end in zip(order, ends, strict=True):
        for row in image.code[image.functions[k].entry : end].tolist():
            if row[0] == Op.CALL:
                calls[k].append(row[3])
            elif row[0] == Op.VECTOR and 0 <= row[3] < len(image.vectors):
                calls[k].append(int(image.vectors[row[3], V.CALLBACK]))
    known = [[c for c in called if 0 <= c < len(order)] for called in calls]
    return chain_registers(known, [f.registers for f in image.functions])
