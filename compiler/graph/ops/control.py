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
    """The types that say what goes in; what comes out is the body's, see `loop_types`."""
    n, carry, xs = loop_counts(attrs)
    if n < 0 or carry < 0 or xs < 0 or carry + xs > len(args):
        return f"{carry} carried values and {xs} xs do not fit {len(args)} operands"
    for t in args[carry : carry + xs]:
        if not t.rank or t.shape[0] != n:
            return f"xs need {n} elements along axis 0, got {t}"
    return args[:carry]


def loop_types(args: Types, attrs: AttrMap, takes: Types, gives: Types) -> Types | str:
    """Result types of a loop whose body takes and gives these types; a reason as text when they do not fit."""
    n, carry, _ = loop_counts(attrs)
    got = _infer(args, attrs)
    if isinstance(got, str):
        return got
    given = body_inputs(args, attrs)
    if takes != given:
        return f"the body takes ({', '.join(map(str, takes))}) but is given ({', '.join(map(str, given))})"
    if len(gives) < carry or not gives:
        return f"the body returns {len(gives)} values; it must return the {carry} carried and one at least"
    for i, (before, after) in enumerate(zip(args[:carry], gives, strict=False)):
        if before != after:
            return f"carried value {i} enters as {before} and leaves as {after}"
    return (*args[:carry], *(t.with_shape((n, *t.shape)) for t in gives[carry:]))


def _eval(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    raise AssertionError("loops are run by evaluate(), which holds the region")


ROWS: tuple[Op, ...] = (
    Op(
        "loop", "Runs its body n times over carried values and stacked xs.", ("*values",), _infer, _eval, whole_axes,
        "control", (AttrSpec("n", "int"), AttrSpec("carry", "int"), AttrSpec("xs", "int")),
        edges="n = 0 gives the carried values as they came and ys of no elements.",
    ),
)
