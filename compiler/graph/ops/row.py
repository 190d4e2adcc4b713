"""What a row of the op table holds.

`infer` is the type rule (a reason as text when operands do not fit), `eval` the NumPy meaning and
so the definition of the language, `axes` how iteration axes run through operands and results; the
last is what tiling, sharding and layout read. Further readings of an op (cost, gradient, docs) are
tables keyed by name, elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from ..dtypes import DType
from ..graph import Attr
from ..types import TensorType

NDArray: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"
AttrMap: TypeAlias = Mapping[str, Attr]
Types: TypeAlias = tuple[TensorType, ...]

AttrKind = Literal["int", "ints", "float", "bool", "str", "dtype", "number", "array"]
CostClass = Literal["leaf", "view", "move", "simple", "transcendental", "contract", "reduce", "gather", "control"]


class AttrSpec(NamedTuple):
    """An attribute: name, kind of value, and default (REQUIRED when it has none)."""

    name: str
    kind: AttrKind
    default: Attr | type = object

    @property
    def required(self) -> bool:
        return self.default is object


class Contraction:
    """How a target multiplies matrices: `matmul` of [..B, M, K] by [..B, K, N] at `out` dtype.

    This one is the reference: exact products summed in f64, rounded once.
    """

    name = "reference"

    def matmul(self, a: NDArray, b: NDArray, out: DType, precision: str) -> NDArray:
        if a.dtype.kind in "iub":
            return np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(out.numpy)
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(out.numpy)


@dataclass(frozen=True, slots=True)
class Context:
    """What an evaluation is relative to: the contraction, and whether floats are widened to f64."""

    contraction: Contraction
    wide: bool = False

    def cast(self, x: NDArray, dtype: DType) -> NDArray:
        """`x` rounded to `dtype` (to f64 instead when floats are widened)."""
        target = np.dtype(np.float64) if self.wide and dtype.is_float else dtype.numpy
        return x if x.dtype == target else x.astype(target)


class Entry(NamedTuple):
    """An operand's or result's axis: it runs with iteration axis `axis`, `scale` elements a step."""

    axis: int
    scale: int = 1


@dataclass(frozen=True, slots=True)
class Axes:
    """An op's iteration space.

    `extents[i]` is the length of iteration axis i and `kinds[i]` is `parallel` (slices of it give
    slices of every result that carries it), `reduce` (no result carries it) or `whole` (the op needs
    all of it at once). `operands` and `results` say for each axis of each tensor which iteration axis
    it runs with; None for a size-1 axis that is broadcast.
    """

    extents: tuple[int, ...]
    kinds: tuple[Literal["parallel", "reduce", "whole"], ...]
    operands: tuple[tuple[Entry | None, ...], ...]
    results: tuple[tuple[Entry | None, ...], ...]


Infer: TypeAlias = Callable[[Types, AttrMap], "Types | str"]
Eval: TypeAlias = Callable[[Sequence[NDArray], AttrMap, Types, Context], tuple[NDArray, ...]]
AxesRule: TypeAlias = Callable[[Types, AttrMap, Types], Axes]


@dataclass(frozen=True, slots=True)
class Op:
    """One row. `operands` are names; the last may start with `*` (variadic, one or more)."""

    name: str
    doc: str
    operands: tuple[str, ...]
    infer: Infer
    eval: Eval
    axes: AxesRule
    cost: CostClass
    attrs: tuple[AttrSpec, ...] = ()
    traits: frozenset[str] = frozenset()

    @property
    def variadic(self) -> bool:
        return bool(self.operands) and self.operands[-1].startswith("*")

    def accepts(self, count: int) -> bool:
        """Whether `count` operands is a legal number."""
        return count >= len(self.operands) if self.variadic else count == len(self.operands)


def whole_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """The axes of an op that nothing can be said about: every axis whole."""
    extents: list[int] = []

    def entries(t: TensorType) -> tuple[Entry | None, ...]:
        start = len(extents)
        extents.extend(t.shape)
        return tuple(Entry(start + i) for i in range(t.rank))

    operands = tuple(map(entries, args))
    outs = tuple(map(entries, results))
    return Axes(tuple(extents), ("whole",) * len(extents), operands, outs)


def same_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """The axes of an elementwise op: every operand and result runs with the same parallel axes."""
    shape = results[0].shape
    row = tuple(Entry(i) for i in range(len(shape)))
    return Axes(shape, ("parallel",) * len(shape), (row,) * len(args), (row,) * len(results))
