"""What a row of the op table holds.

`infer` is the type rule (a reason as text when operands do not fit), `eval` the NumPy meaning and
so the definition of the language, `axes` how iteration axes run through operands and results; the
last is what tiling, sharding and layout read. Further readings of an op (cost, gradient, docs) are
tables keyed by name, elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..dtypes import DType, rounded
from ..graph import Array, Attr
from ..types import TensorType

NDArray: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"
AttrMap: TypeAlias = Mapping[str, Attr]
Types: TypeAlias = tuple[TensorType, ...]

AttrKind = Literal["int", "ints", "float", "bool", "str", "dtype", "number", "array"]
AxisKind: TypeAlias = Literal["parallel", "reduce", "whole"]
CostClass = Literal["leaf", "view", "move", "simple", "transcendental", "contract", "reduce", "gather", "control"]


class AttrSpec(NamedTuple):
    """An attribute: name, kind of value, and default (REQUIRED when it has none)."""

    name: str
    kind: AttrKind
    default: Attr | type = object

    @property
    def required(self) -> bool:
        return self.default is object

    def admits(self, value: Attr) -> bool:
        """Whether `value` is of this attribute's kind; None only where None is the default."""
        return _KINDS[self.kind](value) or (value is None and self.default is None)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_ints(value: Attr) -> bool:
    return isinstance(value, tuple) and all(map(_is_int, value))


_KINDS: Mapping[AttrKind, Callable[[Attr], bool]] = {
    "int": _is_int,
    "ints": _is_ints,
    "float": lambda value: isinstance(value, float) or _is_int(value),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "dtype": lambda value: isinstance(value, DType),
    "number": lambda value: isinstance(value, int | float),
    "array": lambda value: isinstance(value, Array),
}


def added(products: Iterable[tuple[NDArray, NDArray]]) -> NDArray:
    """x * y, one after another added in their own type; a sum of -0s is +0."""
    total: NDArray | None = None
    with np.errstate(all="ignore"):
        for x, y in products:
            total = x * y + 0 if total is None else total + x * y
    assert total is not None
    return total


class Contraction:
    """How a target multiplies matrices: `matmul` of [..B, M, K] by [..B, K, N] at `out` dtype.

    This one is the reference: products and sums in f64, in no order that is promised, then rounded to
    `out`; integers modulo 2^64, then wrapped to `out`. A sum of no products, or of -0s, is +0.
    """

    name = "reference"

    def matmul(self, a: NDArray, b: NDArray, out: DType, precision: str) -> NDArray:
        wide = np.float64 if out.is_float else np.int64
        with np.errstate(all="ignore"):
            return rounded(np.matmul(a.astype(wide), b.astype(wide)), out)

    def tap_sums(self, products: Iterable[tuple[NDArray, NDArray]], out: DType) -> NDArray:
        """The sum of elementwise products (one at least), which a depthwise convolution is, tap by tap.

        The reference: in f64, one after another, then rounded to `out`; integers as in `matmul`.
        """
        wide = np.float64 if out.is_float else np.int64
        return rounded(added((x.astype(wide), y.astype(wide)) for x, y in products), out)


@dataclass(frozen=True, slots=True)
class Context:
    """What an evaluation is relative to: the contraction, and whether floats are widened to f64."""

    contraction: Contraction
    wide: bool = False

    def cast(self, x: NDArray, dtype: DType) -> NDArray:
        """`x` rounded to `dtype` (to f64 instead when floats are widened)."""
        if self.wide and dtype.is_float:
            return x if x.dtype == np.float64 else x.astype(np.float64)
        return rounded(x, dtype)


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

    The law of a parallel axis: cut it to the steps start … stop, that is every axis that runs with it
    to the elements start * scale … stop * scale; then the op on the cut operands, its shape attributes
    cut alike, gives exactly the cut results. A reduce axis may be cut too; the parts are then combined
    by the op's own operation.
    """

    extents: tuple[int, ...]
    kinds: tuple[AxisKind, ...]
    operands: tuple[tuple[Entry | None, ...], ...]
    results: tuple[tuple[Entry | None, ...], ...]


Infer: TypeAlias = Callable[[Types, AttrMap], "Types | str"]
Eval: TypeAlias = Callable[[Sequence[NDArray], AttrMap, Types, Context], tuple[NDArray, ...]]
AxesRule: TypeAlias = Callable[[Types, AttrMap, Types], Axes]
Signature: TypeAlias = tuple[Types, Types]
RegionInfer: TypeAlias = "Callable[[Types, AttrMap, Sequence[Signature]], Types | str]"
Recut: TypeAlias = "Callable[[AttrMap, Types, Types, Types], AttrMap]"


def same_attrs(attrs: AttrMap, args: Types, results: Types, new: Types) -> AttrMap:
    """The recut of an op whose attributes tell no size."""
    return attrs


def new_shape(attrs: AttrMap, args: Types, results: Types, new: Types) -> AttrMap:
    """The recut of an op whose `shape` is its result's."""
    return {**attrs, "shape": new[-1].shape}


@dataclass(frozen=True, slots=True)
class Op:
    """One row. `operands` are names; the last may start with `*` (variadic, one or more).

    `doc` says what it computes in a sentence, `edges` what it does with NaN, infinities, signed
    zeros, overflow and empty axes where that does not follow from `doc`.

    `regions` names its regions; `region_infer(operands, attributes, what each region takes and gives)` is
    then the type rule in place of `infer`. `recut(attributes, operands, results, new results)` gives the
    attributes of the op on operands whose parallel axes are cut so that it gives `new results`.
    """

    name: str
    doc: str
    operands: tuple[str, ...]
    infer: Infer
    eval: Eval
    axes: AxesRule
    cost: CostClass
    attrs: tuple[AttrSpec, ...] = ()
    traits: frozenset[str] = frozenset()
    edges: str = ""
    regions: tuple[str, ...] = ()
    region_infer: RegionInfer | None = None
    recut: Recut = same_attrs

    @property
    def variadic(self) -> bool:
        return bool(self.operands) and self.operands[-1].startswith("*")

    def accepts(self, count: int) -> bool:
        """Whether `count` operands is a legal number."""
        return count >= len(self.operands) if self.variadic else count == len(self.operands)


def whole_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """The axes of an op that nothing can be said about: every axis whole."""
    extents: list[int] = []

    def fresh(t: TensorType) -> tuple[Entry | None, ...]:
        extents.extend(t.shape)
        return entries(t.rank, len(extents) - t.rank)

    operands = tuple(map(fresh, args))
    outs = tuple(map(fresh, results))
    return Axes(tuple(extents), whole(len(extents)), operands, outs)


def parallel(count: int) -> tuple[AxisKind, ...]:
    """`count` parallel axes."""
    return ("parallel",) * count


def whole(count: int) -> tuple[AxisKind, ...]:
    """`count` axes that are needed all at once."""
    return ("whole",) * count


def entries(count: int, first: int = 0) -> tuple[Entry, ...]:
    """The row of a tensor whose `count` axes run with iteration axes first, first + 1, …"""
    return tuple(Entry(first + i) for i in range(count))


def same_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """The axes of an elementwise op: every operand and result runs with the same parallel axes."""
    shape = results[0].shape
    row = entries(len(shape))
    return Axes(shape, parallel(len(shape)), (row,) * len(args), (row,) * len(results))
