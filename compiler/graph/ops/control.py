"""Rows with regions: `loop`. A composite (any name with a definition region) is handled by the table.

`loop(carry…, xs…, captures…)` runs its body n times. The body's inputs are the index (i32[]), the
carried values, one element of each xs along its axis 0, and the captures; its outputs are the next
carried values and then the ys, which are stacked along a new axis 0. n = 0 gives the carry as it
came and empty ys.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import I32
from ..types import TensorType
from .row import AttrMap, AttrSpec, Context, NDArray, Op, Types, whole_axes

INDEX = TensorType(I32, ())


def loop_counts(attrs: AttrMap) -> tuple[int, int, int]:
    """(n, number of carried values, number of xs) of a loop."""
    n, carry, xs = attrs["n"], attrs["carry"], attrs["xs"]
    assert isinstance(n, int) and isinstance(carry, int) and isinstance(xs, int)
    return n, carry, xs


def body_inputs(args: Types, attrs: AttrMap) -> Types:
    """Types that a loop's body must take, given the loop's operands."""
    _, carry, xs = loop_counts(attrs)
    elements = tuple(t.with_shape(t.shape[1:]) for t in args[carry : carry + xs])
    return (INDEX, *args[:carry], *elements, *args[carry + xs :])


def _infer(args: Types, attrs: AttrMap) -> Types | str:
    """The body's output types arrive as `attrs["region"]`, put there by the table."""
    n, carry, xs = loop_counts(attrs)
    outs: object = attrs["region"]
    assert isinstance(outs, tuple)
    if n < 0 or carry < 0 or xs < 0 or carry + xs > len(args):
        return f"{carry} carried values and {xs} xs do not fit {len(args)} operands"
    for t in args[carry : carry + xs]:
        if not t.rank or t.shape[0] != n:
            return f"xs need {n} elements along axis 0, got {t}"
    for i, (before, after) in enumerate(zip(args[:carry], outs, strict=False)):
        if before != after:
            return f"carried value {i} enters as {before} and leaves as {after}"
    if len(outs) < carry:  # pyright: ignore[reportUnknownArgumentType]
        return f"the body returns {len(outs)} values, fewer than the {carry} carried"  # pyright: ignore[reportUnknownArgumentType]
    ys = tuple(t.with_shape((n, *t.shape)) for t in outs[carry:])  # pyright: ignore
    return (*args[:carry], *ys)


def _eval(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    raise AssertionError("loops are run by evaluate(), which holds the region")


ROWS: tuple[Op, ...] = (
    Op(
        "loop", "Runs its body n times over carried values and stacked xs.", ("*values",), _infer, _eval, whole_axes,
        "control", (AttrSpec("n", "int"), AttrSpec("carry", "int"), AttrSpec("xs", "int")),
    ),
)
