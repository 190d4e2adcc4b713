"""From a checked program to the task IR: all code classes, their memory and their tables, as one image.

What is written once for all PEs of a class is lowered once; only constants that differ by PE have an entry for each.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic, DiagnosticError, Note
from ..chip import Wafer
from ..csl import code as c
from ..csl import types as t
from ..csl.program import CodeClass, DsrLoad, Program
from ..csl.values import Address, Known, Symbol, by_lane, fail
from . import registers
from .builder import Builder
from .ir import ClassRow, DsrRow, Function, Image, Kind, Op, SymbolRow, TaskRow, V
from .lower_code import BLOCK_KINDS, Lowering
from .lower_locals import enter, locals_in_memory
from .lower_vectors import lower_vector, make_dsd
from .tables import ClassTables, Tables, kind_of

_PRIORITIES = ("low", "medium", "high")
# Typed code nests as deeply as syntax does.
_RECURSION_LIMIT = 20_000
# Function pointers are 16-bit numbers.
MAX_FUNCTIONS = 1 << 16


def lower(program: Program, wafer: Wafer) -> Image:
    """The image of `program` for PEs of `wafer`. Raises DiagnosticError: recursion (E1044), what cannot be run (E1045),
    memory that functions need beyond a PE's (E1041)."""
    return lower_classes(program.classes, wafer)


def lower_classes(classes: Sequence[CodeClass], wafer: Wafer) -> Image:
    """The image of code classes, in their order. Raises DiagnosticError as `lower` does."""
    tables = Tables()
    rows: list[ClassRow] = []
    lanes: list[list[NDArray[np.int64]]] = []
    first = 0
    with _deep_recursion():
        for made in classes:
            row, of_class = _class(made, first, tables, wafer)
            rows.append(row)
            lanes.append(of_class)
            first += row.count
    if len(tables.functions) > MAX_FUNCTIONS:
        message = (
            f"{len(classes)} code classes have {len(tables.functions)} functions; at most {MAX_FUNCTIONS} have numbers"
        )
        fail("E1040", message, None, help="params that differ from PE to PE decide types, sizes, branches or ids")
    return _image(tables, tuple(rows), lanes, first)


@contextmanager
def _deep_recursion() -> Generator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _image(tables: Tables, rows: tuple[ClassRow, ...], lanes: list[list[NDArray[np.int64]]], pes: int) -> Image:
    by_pe = np.zeros((max((len(x) for x in lanes), default=0), pes), np.int64)
    for row, values in zip(rows, lanes, strict=True):
        for k, of_lane in enumerate(values):
            by_pe[k, row.first : row.first + row.count] = of_lane
    return Image(
        np.array(tables.code, np.int32).reshape(-1, 6),
        np.array(tables.cost, np.int32),
        np.array(tables.span_of, np.int32),
        tuple(tables.spans),
        np.array(list(tables.constants), np.int64),
        by_pe,
        np.array(tables.vectors, np.int32).reshape(-1, V.SIZE),
        np.array(list(tables.shapes), np.int32).reshape(-1, 8),
        tuple(tables.functions),
        tuple(tables.texts),
        rows,
    )


# ---- a class -------------------------------------------------------------------------------------


def _class(
    made: CodeClass, first: int, tables: Tables, wafer: Wafer
) -> tuple[ClassRow, list[NDArray[np.int64]]]:  # fmt: skip
    start = len(tables.functions)
    of_class = ClassTables(
        made,
        tables,
        {entry.symbol: entry.address for entry in made.memory.entries},
        {instance: start + k for k, instance in enumerate(made.instances)},
        made.memory.used_bytes,
    )
    symbols = tuple(_symbol(of_class, e.symbol, e.address, e.bytes) for e in made.memory.entries)
    lowered = [_function(of_class, instance, wafer) for instance in made.instances]
    tables.functions += [function for function, _ in lowered]
    _check_memory(of_class, wafer)
    depth = _frames(of_class, start, [f for _, f in lowered])
    numbers = of_class.numbers
    variables, pointers = _variables(of_class)
    row = ClassRow(
        path=made.path, first=first, count=len(made.x), x=made.x, y=made.y, memory_bytes=of_class.end, registers=depth,
        symbols=(*symbols, *of_class.symbols),
        tasks=tuple(TaskRow(task.kind, task.id, numbers[task.instance]) for task in made.tasks),
        fifos=tuple(of_class.fifo_rows),
        queues=tuple(
            (q.is_input, q.id, -1 if q.color is None else q.color, _PRIORITIES.index(q.priority)) for q in made.queues
        ),
        functions={name: numbers[x] for name, x in made.exports.items() if isinstance(x, c.Instance)},
        variables=variables,
        teardown={color: numbers[x] for color, x in made.teardown.items()},
        empty_queue={queue: numbers[x] for queue, x in made.empty_queue.items()},
        active=made.active,
        blocked=tuple((BLOCK_KINDS[t.NAMED[type]], id) for type, id in made.blocked),
        rpc=made.rpc,
        pointers=pointers, dsrs=tuple(_dsr(of_class, load) for load in made.dsrs),
        named_queues=tuple(sorted(of_class.named_queues)),
    )  # fmt: skip
    return row, of_class.rows


def _dsr(of_class: ClassTables, load: DsrLoad) -> DsrRow:
    def setting(name: str) -> int:
        value = load.settings.get(name, -1)
        return int(value.data) if isinstance(value, c.Constant) else int(value)

    unblock = load.settings.get("unblock")
    control = load.settings.get("on_control")
    return DsrRow(
        int(of_class.bits(load.dsr.type, load.dsr.data)),
        np.atleast_1d(np.asarray(of_class.bits(load.dsd.type, load.dsd.data), np.int64)),
        max(setting("save_address"), 0), max(setting("async"), 0), setting("activate"), setting("unblock"),
        -1 if unblock is None else int(BLOCK_KINDS[unblock.type]),
        int(control == "terminate") if control is None or isinstance(control, str) else int(control.data) + 2,
        setting("ut_id"),
    )  # fmt: skip


def _symbol(of_class: ClassTables, symbol: Symbol, address: int, size: int) -> SymbolRow:
    initial = None if symbol.initial is None else of_class.image(symbol.type, symbol.initial.data)
    return SymbolRow(symbol.name, address, size, initial, symbol.span)


def _variables(of_class: ClassTables) -> tuple[dict[str, tuple[int, int, Kind]], dict[str, int]]:
    """What the host can copy: where each exported name lies at the start, and the pointers that say so later."""
    variables: dict[str, tuple[int, int, Kind]] = {}
    pointers: dict[str, int] = {}
    for name, target in of_class.made.exports.items():
        if isinstance(target, c.Instance):
            continue
        type, at = target.type, target.data if isinstance(target, Known) else None
        if isinstance(target, Symbol):
            at = Address(target, 0)
            if isinstance(type, t.Pointer) and not isinstance(type.to, t.Function):
                pointers[name] = of_class.addresses[target]
                at = target.initial.data if target.initial is not None else None
        else:
            type = cast(t.Pointer, type)
        if isinstance(at, Address):
            variables[name] = _extent(of_class, name, type, at)
        else:
            element = _element(type)
            variables[name] = (0, 0, element)
    return variables, pointers


def _element(type: t.Type) -> Kind:
    while isinstance(type, t.Pointer | t.Array):
        type = type.to if isinstance(type, t.Pointer) else type.element
    return kind_of(type) or Kind.U16


def _extent(of_class: ClassTables, name: str, type: t.Type, at: Address) -> tuple[int, int, Kind]:
    """(address, bytes, Kind of an element) of what a pointer points at, up to the end of its symbol."""
    base = cast(Symbol, at.base)
    if by_lane(at.offset):
        fail("E1045", f'"{name}" lies at an address that differs from PE to PE', base.span)
    offset = cast(int, at.offset)
    return of_class.addresses[base] + offset, t.size_bytes(base.type) - offset, _element(type)


# ---- functions -----------------------------------------------------------------------------------


def _function(of_class: ClassTables, instance: c.Instance, wafer: Wafer) -> tuple[Function, Lowering]:
    b = Builder(of_class, wafer.cost, instance.span)
    f = Lowering(b, of_class, instance, vector=lambda f, e: lower_vector(f, e, wafer.simd), make_dsd=make_dsd)
    params, result = enter(f, locals_in_memory(instance))
    f.steps(instance.body or ())
    b.span = instance.span
    b.emit(Op.RETURN)
    entry, count = b.finish()
    return Function(instance.name, entry, count, params, result, instance.is_task, instance.span), f


def _check_memory(of_class: ClassTables, wafer: Wafer) -> None:
    if of_class.end <= wafer.pe.memory_bytes:
        return
    added = sorted(of_class.symbols, key=lambda s: (-s.bytes, s.address))[:8]
    message = (
        f"variables and what functions keep in memory take {of_class.end:,} bytes; a PE has {wafer.pe.memory_bytes:,}"
    )
    notes = tuple(Note(f"`{s.name}` takes {s.bytes:,} bytes", s.span) for s in added)
    help = "make arrays of functions global, or spread the data over more PEs"
    raise DiagnosticError(Diagnostic("E1041", message, added[0].span if added else None, notes, help))


def _frames(of_class: ClassTables, start: int, functions: list[Lowering]) -> int:
    """Registers of the deepest chain of calls. E1044 when a function with memory of its own can call itself."""
    index = {f.instance: k for k, f in enumerate(functions)}
    calls = [[index[i] for i in _called(f, of_class)] for f in functions]
    for k, f in enumerate(functions):
        if f.in_memory and (circle := registers.circle(k, calls)):
            _refuse(f.instance, [functions[j].instance for j in circle if j != k], f.in_memory[0])
    own = [f.registers for f in of_class.tables.functions[start:]]
    return max(registers.chain_registers(calls, own), default=0)


def _called(f: Lowering, of_class: ClassTables) -> list[c.Instance]:
    """What `f` can call; by a pointer, every function of its type that is pointed at."""
    by_pointer = [i for i in of_class.pointed if t.Function(i.params, i.result, False) in f.pointer_calls]
    return list(dict.fromkeys((*f.calls, *by_pointer)))


def _refuse(instance: c.Instance, others: list[c.Instance], name: str) -> None:
    notes = tuple(Note(f"it calls `{i.name}`, which calls it", i.span) for i in others)
    message = f"`{instance.name}` can call itself, and keeps `{name}` in memory, of which there is one"
    help = "make it global, or write a loop"
    raise DiagnosticError(Diagnostic("E1044", message, instance.span, notes, help))
