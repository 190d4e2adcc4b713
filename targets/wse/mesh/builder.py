"""Instructions of one function under way: values without end, labels, constants before the loops that use them.

`finish` turns values into registers and labels into numbers of instructions. Must not know typed code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from ....compiler.source import Span
from ..chip import Cost
from ..csl.values import by_lane
from . import registers
from .costs import cycles
from .ir import Kind, MachineOp, Op, V
from .tables import Bits, ClassTables


@dataclass(slots=True, eq=False)
class Label:
    """A place to jump to."""

    at: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class LoopEdge:
    """Where a loop starts or ends."""

    starts: bool


@dataclass(slots=True, eq=False)
class Instruction:
    op: Op
    kind: int
    d: int
    a: Any
    b: Any
    c: int
    cost: int
    span: Span


Item: TypeAlias = "Instruction | Label | LoopEdge | list[Item]"


@dataclass(slots=True, eq=False)
class _Scope:
    """A stretch of code whose constants are known while it lasts; of a loop, `out` stands before it."""

    out: list[Item]
    is_loop: bool
    constants: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])


@dataclass(slots=True, eq=False)
class Builder:
    """`out` takes what is emitted; `span` is that of the source under way."""

    made: ClassTables
    costs: Cost
    span: Span
    params: int = 0
    values: int = 0
    out: list[Item] = field(default_factory=list[Item])
    scopes: list[_Scope] = field(default_factory=list[_Scope])
    variables: set[int] = field(default_factory=set[int])
    vectors: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self.scopes.append(_Scope(self.out, False))

    # ---- values --------------------------------------------------------------------------------

    def value(self) -> int:
        """A new value that one place writes, or two that exclude each other."""
        self.values += 1
        return self.values - 1

    def variable(self) -> int:
        """A new value that any place may write."""
        made = self.value()
        self.variables.add(made)
        return made

    def constant(self, bits: Bits) -> int:
        """A value that holds `bits` (one for each lane, or one for all), set once where its scope starts."""
        if by_lane(bits):
            lanes = np.asarray(bits, np.int64)
            if (lanes == lanes[0]).all():
                return self.constant(int(lanes[0]))
            return self._held(Op.LANE, self.made.lane_row(lanes))
        return self._held(Op.CONST, self.made.tables.constant(int(bits)))

    def _held(self, op: Op, row: int) -> int:
        key = (op.name, row)
        for scope in self.scopes:
            if key in scope.constants:
                return scope.constants[key]
        # Before the outermost loop around: it is then set once.
        scope = next((s for s in self.scopes if s.is_loop), self.scopes[-1])
        made = self.value()
        scope.constants[key] = made
        scope.out.append(Instruction(op, 0, made, row, -1, -1, 0, self.span))
        return made

    # ---- instructions --------------------------------------------------------------------------

    def emit(self, op: Op, kind: int = 0, d: int = -1, a: Any = -1, b: Any = -1, c: int = -1) -> int:
        """Add an instruction; gives d."""
        bytes = b if isinstance(b, int) else 0
        self.out.append(Instruction(op, int(kind), d, a, b, c, cycles(self.costs, op, int(kind), bytes), self.span))
        return d

    def operate(self, op: Op, kind: Kind, a: int, b: int = -1, into: int | None = None) -> int:
        """d = a op b."""
        return self.emit(op, kind, self.value() if into is None else into, a, b)

    def machine(self, op: MachineOp, *args: int, result: bool = False) -> int:
        a, b, c = (*args, -1, -1, -1)[:3]
        return self.emit(Op.MACHINE, op, self.value() if result else -1, a, b, c)

    def move(self, kind: Kind, d: int, a: int) -> int:
        return d if d == a else self.emit(Op.MOVE, kind, d, a)

    def jump(self, to: Label, cost: int = 0) -> None:
        self.out.append(Instruction(Op.JUMP, 0, -1, to, -1, -1, cost, self.span))

    def jump_if_not(self, test: int, to: Label) -> None:
        self.emit(Op.JUMP_IF_NOT, 0, -1, test, to)

    def label(self, label: Label) -> None:
        self.out.append(label)

    def vector(self, row: list[int]) -> int:
        """Add a row of `vectors` and the operation; the value tells whether it ran to its end."""
        self.made.tables.vectors.append(row)
        number = len(self.made.tables.vectors) - 1
        self.vectors.append(number)
        return self.emit(Op.VECTOR, 0, self.value(), number)

    # ---- stretches -----------------------------------------------------------------------------

    def open(self, is_loop: bool = False) -> None:
        """Start a stretch of code that may not be run, or that is run again and again."""
        out = self.out
        if is_loop:
            before: list[Item] = []
            self.out.append(before)
            out = before
            self.out.append(LoopEdge(True))
        self.scopes.append(_Scope(out, is_loop))

    def close(self) -> None:
        if self.scopes.pop().is_loop:
            self.out.append(LoopEdge(False))

    # ---- the end -------------------------------------------------------------------------------

    def finish(self) -> tuple[int, int]:
        """Put the function into the tables: its first instruction and the registers of its frame."""
        tables = self.made.tables
        entry = len(tables.code)
        instructions, loops = _flattened(self.out, entry)
        rows = [(x.op, x.kind, x.d, _target(x.a), _target(x.b), x.c) for x in instructions]
        place, count = registers.assign(rows, tables.vectors, loops, self.params, frozenset(self.variables))
        for row, instruction in zip(rows, instructions, strict=True):
            tables.code.append(_placed(row, place))
            tables.cost.append(instruction.cost)
            tables.span_of.append(tables.span(instruction.span))
        for number in self.vectors:
            _place_vector(tables.vectors[number], place)
        return entry, count


def _target(x: Any) -> int:
    return x.at if isinstance(x, Label) else cast(int, x)


def _flattened(items: list[Item], entry: int) -> tuple[list[Instruction], list[registers.Loop]]:
    """Instructions in order; labels get their numbers, from `entry`. Loops count from the start of the function."""
    flat: list[Instruction] = []
    loops: list[registers.Loop] = []
    starts: list[int] = []
    stack = [iter(items)]
    while stack:
        item = next(stack[-1], None)
        match item:
            case None:
                stack.pop()
            case Instruction():
                flat.append(item)
            case Label():
                item.at = entry + len(flat)
            case LoopEdge(True):
                starts.append(len(flat))
            case LoopEdge():
                loops.append(registers.Loop(starts.pop(), len(flat) - 1))
            case _:
                stack.append(iter(item))
    return flat, loops


def _placed(row: tuple[int, ...], place: dict[int, int]) -> tuple[int, ...]:
    fields = [int(x) for x in row]
    for k in registers.REGISTER_FIELDS[Op(row[0])]:
        if fields[k] >= 0:
            fields[k] = place[fields[k]]
    return tuple(fields)


def _place_vector(row: list[int], place: dict[int, int]) -> None:
    for k in registers.VECTOR_REGISTERS:
        if row[k] >= 0:
            row[k] = place[row[k]]
    if row[V.ON_CONTROL] >= registers.ON_CONTROL_REGISTER:
        row[V.ON_CONTROL] = place[row[V.ON_CONTROL] - registers.ON_CONTROL_REGISTER] + registers.ON_CONTROL_REGISTER
