"""Rows with regions: `loop`, `while`, `cond`. A composite (any name with a definition region) is handled by the table.

`loop(carry…, xs…, captures…)` runs its body n times. The body's inputs are the index (i32[]), the
carried values, one element of each xs along its axis 0, and the captures; its outputs are the next
carried values and then the ys, which are stacked along a new axis 0. n = 0 gives the carry as it
came and empty ys.

`while(carry…, captures…)` has two regions that take all of these: `cond` gives a bool[], `body` the
next carried values. `cond(pred, operands…)` has two that take the operands and give results of the
same types; one of them runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import BOOL, I32
from ..types import TensorType
from .row import AttrMap, AttrSpec, Context, NDArray, Op, Signature, Types, whole_axes

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


def _loop_types(args: Types, attrs: AttrMap, regions: Sequence[Signature]) -> Types | str:
    ((takes, gives),) = regions
    n, carry, _ = loop_counts(attrs)
    got = _infer(args, attrs)
    if isinstance(got, str):
        return got
    bad = _unlike("the body takes", takes, body_inputs(args, attrs))
    if bad:
        return bad
    if len(gives) < carry or not gives:
        return f"the body returns {len(gives)} values; it must return the {carry} carried and one at least"
    for i, (before, after) in enumerate(zip(args[:carry], gives, strict=False)):
        if before != after:
            return f"carried value {i} enters as {before} and leaves as {after}"
    return (*args[:carry], *(t.with_shape((n, *t.shape)) for t in gives[carry:]))


def _unlike(what: str, takes: Types, given: Types) -> str | None:
    if takes == given:
        return None
    return f"{what} ({', '.join(map(str, takes))}) but is given ({', '.join(map(str, given))})"


# ---- while and cond ------------------------------------------------------------------------------


def carried_of(attrs: AttrMap) -> int:
    """How many operands of a `while` are carried; the rest are captures."""
    carry = attrs["carry"]
    assert isinstance(carry, int)
    return carry


def _infer_while(args: Types, attrs: AttrMap) -> Types | str:
    carry, trips = carried_of(attrs), attrs["trips"]
    if not 1 <= carry <= len(args):
        return f"{carry} carried values do not fit {len(args)} operands; one at least is carried"
    if not isinstance(trips, int) or trips < 0:
        return f"trips must be 0 (not said) or more, got {trips}"
    return args[:carry]


def _while_types(args: Types, attrs: AttrMap, regions: Sequence[Signature]) -> Types | str:
    got = _infer_while(args, attrs)
    if isinstance(got, str):
        return got
    (cond_takes, test), (body_takes, gives) = regions
    bad = _unlike("the condition takes", cond_takes, args) or _unlike("the body takes", body_takes, args)
    if bad:
        return bad
    if test != (TensorType(BOOL, ()),):
        return f"the condition must return one bool[], got ({', '.join(map(str, test))})"
    if gives != got:
        wanted = ", ".join(map(str, got))
        return f"the body must return the carried values ({wanted}), got ({', '.join(map(str, gives))})"
    return got


def _infer_cond(args: Types, attrs: AttrMap) -> Types | str:
    return args[1:] if args[0] == TensorType(BOOL, ()) else f"the first operand must be bool[], got {args[0]}"


def _cond_types(args: Types, attrs: AttrMap, regions: Sequence[Signature]) -> Types | str:
    given = _infer_cond(args, attrs)
    if isinstance(given, str):
        return given
    (then_takes, then_gives), (else_takes, else_gives) = regions
    bad = _unlike("then takes", then_takes, given) or _unlike("else takes", else_takes, given)
    if bad:
        return bad
    if then_gives != else_gives or not then_gives:
        return (
            f"both branches must return the same types, one at least, got ({', '.join(map(str, then_gives))}) and "
            f"({', '.join(map(str, else_gives))})"
        )
    return then_gives


def _eval(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    raise AssertionError("ops with regions are run by evaluate(), which holds the regions")


ROWS: tuple[Op, ...] = (
    Op(
        "loop",
        "Runs its body n times over carried values and stacked xs.",
        ("*values",),
        _infer,
        _eval,
        whole_axes,
        "control",
        (AttrSpec("n", "int"), AttrSpec("carry", "int"), AttrSpec("xs", "int")),
        edges="n = 0 gives the carried values as they came and ys of no elements.",
        regions=("body",),
        region_infer=_loop_types,
    ),
    Op(
        "while",
        "Runs `body` on the first `carry` operands, the rest being captured, as long as `cond` gives true.",
        ("*values",),
        _infer_while,
        _eval,
        whole_axes,
        "control",
        (AttrSpec("carry", "int"), AttrSpec("trips", "int", 0)),
        edges="A condition that is false at once gives the operands as they came. `trips` is how often it is expected "
        "to run at most (0: not said); time is reckoned with it, and it stops nothing.",
        regions=("cond", "body"),
        region_infer=_while_types,
    ),
    Op(
        "cond",
        "The results of `then` on the operands after the first if that is true, else of `else`.",
        ("*values",),
        _infer_cond,
        _eval,
        whole_axes,
        "control",
        edges="The branch not taken has no influence.",
        regions=("then", "else"),
        region_infer=_cond_types,
    ),
)
