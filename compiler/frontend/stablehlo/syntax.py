"""What a StableHLO text says, as values: modules, functions, operations, attributes. Names are not resolved here.

Values are called as written (`%0`, `%1#1`). Types stay texts until someone needs them (`types`). Must not know what any
operation means, nor Graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...source import SourceFile


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word where a value may stand: an enumerator (`LT`, `DEFAULT`), a type (`i64`), `unit`."""

    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """`@name`."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeText:
    """A type where an attribute may stand."""

    text: str


@dataclass(frozen=True, slots=True)
class Dense:
    """`dense<body>` with the type it is of; `at` is the offset of its text in the file."""

    body: str = field(repr=False)
    type: str
    at: int


@dataclass(frozen=True, slots=True)
class ConvAxes:
    """`[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: what the axes of operand, kernel and result are."""

    operand: tuple[str, ...]
    kernel: tuple[str, ...]
    result: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """An attribute of another dialect, or of a kind that no operation here reads."""

    text: str


Leaf: TypeAlias = int | float | bool | str | Word | Symbol | TypeText | Dense | ConvAxes | Opaque
Value: TypeAlias = "Leaf | tuple[Value, ...] | Mapping[str, Value]"
Attributes: TypeAlias = "Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a block; its type is "" where the text leaves it to the operands."""

    name: str
    type: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Block:
    """The only block of a region: what it takes and what it does, the last operation being its terminator."""

    arguments: tuple[Argument, ...]
    operations: tuple[Operation, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `operand_types` is empty where the text does not state them; `start:end` is its text's place."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    operand_types: tuple[str, ...]
    result_types: tuple[str, ...]
    attributes: Attributes
    regions: tuple[Block, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Function:
    """A function; `body` is None for a declaration."""

    name: str
    arguments: tuple[Argument, ...]
    result_types: tuple[str, ...]
    result_attributes: tuple[Attributes, ...]
    public: bool
    body: Block | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Module:
    """All functions of a text by name, in order, and what else stood among them and was passed over."""

    file: SourceFile
    functions: Mapping[str, Function]
    attributes: Attributes
    passed_over: tuple[str, ...]
