"""Values while compiling: known ones, and typed code for those that only a run will know.

One evaluation stands for many processing elements: a number may be an array with one entry per *lane* (PE), as long as
they all take the same way through the program. Where they part, `Diverged` tells how, and the caller evaluates each
part again. Must not know syntax or rules of the language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic, DiagnosticError, Note, Span
from . import types as t
from .code import Code

Lanes: TypeAlias = NDArray[Any]
# A number, or one per lane.
Number: TypeAlias = "int | float | bool | Lanes"


class Diverged(Exception):
    """The lanes do not agree; `labels` numbers the parts that do, from 0."""

    def __init__(self, labels: NDArray[np.int64]) -> None:
        super().__init__()
        self.labels = labels


class Dependent(Exception):
    """A round of a loop changed what the others see: its rounds cannot be evaluated at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A value of `type`. `data` by type: numbers, ids and enums `Number`; `type` a Type; strings str; structs
    `dict[str, Value]` (tuples have fields "0", "1", ...); arrays `ArrayData`; pointers `Address`; functions, modules,
    ranges, DSDs their own classes; `void` None."""

    type: t.Type
    data: Any


@dataclass(frozen=True, slots=True, eq=False)
class Unknown:
    """A value of `type` that `code` will compute."""

    type: t.Type
    code: Code


Value: TypeAlias = Known | Unknown

NOTHING = Known(t.VOID, None)


@dataclass(slots=True, eq=False)
class ArrayData:
    """Elements of an array: `items` of shape dims, or (lanes, *dims) where `lanes`. Numbers as numbers, others as
    Known objects."""

    items: NDArray[Any]
    lanes: bool = False

    def copy(self) -> ArrayData:
        return ArrayData(self.items.copy(), self.lanes)


@dataclass(slots=True, eq=False)
class Symbol:
    """A variable or constant with storage in every PE of the class."""

    name: str
    type: t.Type
    mutable: bool
    # Initial value; None where the program must write before it reads.
    initial: Known | None
    span: Span
    align: int = 0


@dataclass(slots=True, eq=False)
class Cell:
    """A variable that lives while compiling; `shared` at the top of a module."""

    name: str
    value: Known
    span: Span
    shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """A place in a symbol (or a cell), `offset` bytes in."""

    base: Symbol | Cell
    offset: int | Lanes


@dataclass(frozen=True, slots=True)
class Affine:
    """`constant + sum(coefficients[k] * index k)`, of the index expressions of a tensor access."""

    constant: int | Lanes
    coefficients: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Range:
    element: t.Type
    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A tensor access: where its first element lies, and the extent and stride (in elements) of each axis."""

    base: Value
    element: t.Type
    extents: tuple[Value, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Dsd:
    """A data structure descriptor: `fields` by name; memory ones have base, extents, strides (elements), element."""

    kind: t.Basic
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Dsr:
    kind: t.Basic
    id: int


# ---- numbers of numpy ----------------------------------------------------------------------------


def dtype_of(type: t.Type) -> np.dtype[Any]:
    """How elements of `type` are kept in an ArrayData."""
    match type:
        case t.Int(bits, signed):
            return np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
        case t.Float(bits):
            return np.dtype(f"f{bits // 8}")
        case t.Enum(_, base):
            return dtype_of(base)
        case _:
            if type == t.BOOL:
                return np.dtype(bool)
            if type in t.IDS or type == t.DIRECTION or type == t.COMPTIME_INT:
                return np.dtype(np.int64)
            return np.dtype(np.float64 if type == t.COMPTIME_FLOAT else object)


def plain(type: t.Type) -> bool:
    """Whether values of `type` are `Number`s."""
    return dtype_of(type) != np.dtype(object)


# ---- lanes ---------------------------------------------------------------------------------------


def by_lane(data: object) -> bool:
    return isinstance(data, np.ndarray)


def uniform(data: Any) -> Any:
    """The one value of all lanes; raises Diverged when they differ."""
    if not isinstance(data, np.ndarray):
        return data
    lanes = cast("Lanes", data)
    if (lanes == lanes[0]).all():
        return lanes[0].item()
    if lanes.dtype == np.dtype(bool):
        raise Diverged(lanes.astype(np.int64))
    raise Diverged(np.unique(lanes, return_inverse=True)[1].astype(np.int64))


def repeated(flat: NDArray[np.int64], size: int) -> int | None:
    """The place of an entry of `flat` (each in 0..size-1) that another one equals, or None."""
    order = np.arange(len(flat))
    last = np.empty(size, np.int64)
    last[flat] = order
    again = last[flat] != order
    return int(np.argmax(again)) if again.any() else None


def known_scalar(data: Lanes) -> Number:
    """Lanes as a Number: one lane is a plain number."""
    return data[0].item() if len(data) == 1 else data


def take(value: Value, index: NDArray[np.int64]) -> Value:
    """`value` seen by the lanes `index` of those it was made for."""
    if isinstance(value, Unknown):
        return value
    return Known(value.type, _take(value.data, index))


def _take(data: Any, index: NDArray[np.int64]) -> Any:
    return map_lanes(data, lambda lanes: lanes[index])


def map_lanes(data: Any, change: Callable[[Lanes], Lanes]) -> Any:
    """`data` with every array of lanes in it changed; what holds none is returned as it is."""
    match data:
        case np.ndarray():
            return change(cast("Lanes", data))
        case ArrayData(items, True):
            return ArrayData(change(items), True)
        case dict():
            fields = cast("dict[str, Any]", data)
            changed = {k: map_lanes(v, change) for k, v in fields.items()}
            return changed if any(changed[k] is not fields[k] for k in fields) else fields
        case tuple():
            items = cast("tuple[Any, ...]", data)
            moved = tuple(map_lanes(v, change) for v in items)
            return moved if any(a is not b for a, b in zip(items, moved, strict=True)) else items
        case Known(type, inner):
            new = map_lanes(inner, change)
            return data if new is inner else Known(type, new)
        case Address(base, offset) if by_lane(offset):
            return Address(base, change(cast("Lanes", offset)))
        case Dsd(kind, fields):
            changed = map_lanes(fields, change)
            return data if changed is fields else Dsd(kind, changed)
        case _:
            return data


# ---- mistakes ------------------------------------------------------------------------------------


def fail(code: str, message: str, span: Span | None, *notes: Note, help: str | None = None) -> NoReturn:
    """Raise one diagnostic."""
    raise DiagnosticError(Diagnostic(code, message, span, notes, help))
