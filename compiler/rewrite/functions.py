"""The functions of the rule language: what `compose(p, q)` or `lossless(D1, D2)` gives.

`FUNCTIONS` is the whole list; rules/README.md prints it. A function that asks about a tensor gets a `Facts`, so the
e-graph and the checker answer by the same code. A call that has no value (index out of range, say) raises one of the
errors in `NO_VALUE`, and the rule does not apply. Must not know egglog.
"""

# The table below is of lambdas over whatever a rule's author wrote; a wrong type is a TypeError, which is in NO_VALUE.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import copysign, prod
from typing import Any, Protocol

import numpy as np

from ..graph import DType, TensorType
from ..graph.dtypes import extremes
from ..graph.dtypes import rounded as round_array

NO_VALUE = (IndexError, KeyError, ValueError, TypeError, ZeroDivisionError, OverflowError)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that a rule speaks of: a class of the e-graph, or a value of a graph under test."""

    id: int


class Facts(Protocol):
    """What is known of tensors. All but `type` only ever turn from false to true as the search goes on."""

    def type(self, x: Tensor) -> TensorType: ...
    def full_value(self, x: Tensor) -> int | float | bool | None:
        """The one value x is full of, when it is known to be."""
        ...

    def is_const(self, x: Tensor) -> bool: ...
    def is_param(self, x: Tensor) -> bool: ...
    def is_written(self, x: Tensor) -> bool: ...
    def before(self, x: Tensor, y: Tensor) -> bool: ...
    def same(self, x: Tensor, y: Tensor) -> bool: ...


def equal(a: object, b: object) -> bool:
    """Whether two attribute values are one: numbers by value, +0 apart from -0, NaN equal to NaN."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return type(a) is type(b) and a == b
    if a != a or b != b:
        return a != a and b != b
    return bool(a == b) and (a != 0 or copysign(1, a) == copysign(1, b))


def lossless(a: DType, b: DType) -> bool:
    """Whether every value of `a` is a value of `b`."""
    if a == b:
        return True
    if a.is_float or b.is_float:
        return b.is_float and _float_holds(a, b)
    low_a, high_a = extremes(a)
    low_b, high_b = extremes(b)
    return b.kind != "bool" and low_b <= low_a and high_a <= high_b


# (precision in bits, least and greatest exponent of a normal number): IEEE 754, and the OCP 8-bit formats.
_FLOATS = {
    "f64": (53, -1022, 1023),
    "f32": (24, -126, 127),
    "bf16": (8, -126, 127),
    "f16": (11, -14, 15),
    "f8e4m3": (4, -6, 8),
    "f8e5m2": (3, -14, 15),
}


def _float_holds(a: DType, b: DType) -> bool:
    precision, low, high = _FLOATS[b.name]
    if not a.is_float:
        return precision >= (1 if a.kind == "bool" else a.bits - (a.kind == "int")) and high >= a.bits
    mine, least, most = _FLOATS[a.name]
    # f8e4m3 has no infinity, so it holds no other float's values but its own.
    return b.name != "f8e4m3" and mine <= precision and most <= high and low - precision <= least - mine


def rounded(value: float, to: DType) -> int | float | bool:
    """`value` rounded to dtype `to`, as a Python number."""
    got = round_array(np.asarray(value), to)
    return float(got) if to.is_float else bool(got) if to.kind == "bool" else int(got)


def permuted(t: Sequence[Any], p: Sequence[int]) -> tuple[Any, ...]:
    """t[p[0]], t[p[1]], …"""
    return tuple(t[_natural(i)] for i in p)


def _natural(i: int) -> int:
    if i < 0:
        raise IndexError(i)
    return i


def inverse(p: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes p."""
    return tuple(p.index(i) for i in range(len(p)))


def put(t: Sequence[Any], i: int, value: Any) -> tuple[Any, ...]:
    return (*t[: _place(t, i)], value, *t[_place(t, i) + 1 :])


def _place(t: Sequence[Any], i: int) -> int:
    at = i + len(t) if i < 0 else i
    if not 0 <= at < len(t):
        raise IndexError(i)
    return at


def insert(t: Sequence[Any], i: int, value: Any) -> tuple[Any, ...]:
    if not 0 <= i <= len(t):
        raise IndexError(i)
    return (*t[:i], value, *t[i:])


def _without(t: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    return tuple(v for i, v in enumerate(t) if i not in axes)


def _same_length(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], tuple[Any, ...]]:
    return lambda a, b: tuple(fn(x, y) for x, y in zip(a, b, strict=True))


def _shape(f: Facts, x: Tensor) -> tuple[int, ...]:
    return f.type(x).shape


def _is_full(f: Facts, x: Tensor, value: Any) -> bool:
    got = f.full_value(x)
    return got is not None and equal(got, value)


def _moves_only_units(shape: Sequence[int], p: Sequence[int]) -> bool:
    moved = [a for a in p if shape[a] != 1]
    return moved == sorted(moved)


def _rises(t: Sequence[int]) -> bool:
    return all(a < b for a, b in pairwise(t))


def _is_normal(value: float, to: DType) -> bool:
    least = np.ldexp(1.0, _FLOATS[to.name][1])
    got = float(rounded(value, to))
    return bool(np.isfinite(got) and abs(got) >= least)


@dataclass(frozen=True, slots=True)
class Function:
    """One function: how it is called, what it gives, and the code. `facts` functions take a Facts first."""

    call: str
    doc: str
    run: Callable[..., Any]
    facts: bool = False


def _rows(facts: bool, *rows: tuple[str, str, Callable[..., Any]]) -> dict[str, Function]:
    return {call.partition("(")[0]: Function(call, doc, run, facts) for call, doc, run in rows}


FUNCTIONS: dict[str, Function] = {
    **_rows(
        True,
        ("shape(x)", "The dims of x, a tuple.", _shape),
        ("rank(x)", "How many dims x has.", lambda f, x: f.type(x).rank),
        ("dim(x, i)", "Dim i of x; -1 is the last.", lambda f, x, i: f.type(x).shape[i]),
        ("dtype(x)", "The dtype of x.", lambda f, x: f.type(x).dtype),
        ("size(x)", "How many elements x has.", lambda f, x: f.type(x).size),
        ("is_full(x, v)", "x is known to hold v everywhere (+0 is not -0).", _is_full),
        (
            "is_const(x)",
            "x depends on parameters and constants only, so it costs nothing at run time.",
            lambda f, x: f.is_const(x),
        ),
        ("is_param(x)", "x is a parameter as it comes from the weights.", lambda f, x: f.is_param(x)),
        (
            "is_written(x)",
            "x is a value of the model as written, not one that a rule made.",
            lambda f, x: f.is_written(x),
        ),
        (
            "before(x, y)",
            "x is not y, and was met first: keeps one of two mirrored matches.",
            lambda f, x, y: f.before(x, y),
        ),
    ),
    **_rows(
        False,
        ("lossless(D1, D2)", "Every value of dtype D1 is a value of D2.", lossless),
        ("is_float(D)", "D is a float dtype.", lambda d: d.is_float),
        ("is_int(D)", "D is an integer dtype; bool is not.", lambda d: d.is_int),
        ("bits(D)", "Bits of an element.", lambda d: d.bits),
        ("bytes(n, D)", "Bytes of n elements.", lambda n, d: d.nbytes(n)),
        ("rounded(v, D)", "The number v rounded to dtype D.", rounded),
        ("len(t)", "Entries of a tuple.", len),
        ("sum(t)", "Their sum.", lambda t: sum(t, start=0)),
        ("prod(t)", "Their product; 1 for ().", lambda t: prod(t)),
        ("least(a, b)", "The lesser number.", min),
        ("greatest(a, b)", "The greater number.", max),
        ("ceildiv(a, b)", "a / b rounded up.", lambda a, b: -(-a // b)),
        ("range(a, b)", "(a, a+1, …, b-1); range(b) starts at 0.", lambda *ab: tuple(range(*ab))),
        ("filled(n, v)", "v, n times.", lambda n, v: (v,) * n),
        ("has(t, v)", "v is an entry of t.", lambda t, v: v in t),
        ("count(t, v)", "How many entries of t are v.", lambda t, v: t.count(v)),
        ("index(t, v)", "Where v first stands in t.", lambda t, v: t.index(v)),
        ("put(t, i, v)", "t with v in place of entry i.", put),
        ("insert(t, i, v)", "t with v before entry i.", insert),
        ("without(t, axes)", "t without the entries at `axes`.", _without),
        ("plus(a, b)", "Entry by entry sum of two tuples.", _same_length(lambda x, y: x + y)),
        ("minus(a, b)", "Entry by entry difference.", _same_length(lambda x, y: x - y)),
        ("permuted(t, p)", "(t[p[0]], t[p[1]], …).", permuted),
        ("compose(p, q)", "The perm of transpose(transpose(x, perm=p), perm=q).", permuted),
        ("inverse(p)", "The permutation that undoes p.", inverse),
        ("sorted(t)", "t in rising order.", lambda t: tuple(sorted(t))),
        ("is_sorted(t)", "t rises strictly.", _rises),
        ("is_identity(p)", "p leaves every axis where it is.", lambda p: tuple(p) == tuple(range(len(p)))),
        ("moves_only_units(s, p)", "perm p of a tensor of shape s moves no element.", _moves_only_units),
        ("is_normal(v, D)", "The number v, rounded to dtype D, is finite and not denormal nor 0.", _is_normal),
        ("is_power_of_two(v)", "v is a power of two or its negative.", lambda v: v != 0 and np.frexp(abs(v))[0] == 0.5),
    ),
}
