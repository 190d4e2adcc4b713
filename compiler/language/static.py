"""Arithmetic on static values: the integers, numbers, bools, strings and lists that a build knows.

As Python's, within limits: integers of 64 bits, lists of `MAX_LIST`. Must not know tensors or syntax.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from ..graph import DType
from .values import Site, Value, describe

MAX_LIST = 10_000
_INT_LIMIT = 2**63

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b,
}  # fmt: skip
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def binary(site: Site, op: str, a: Value, b: Value) -> Value:
    """`a op b` of two static values."""
    if op in ("==", "!="):
        return equal(a, b) == (op == "==")
    if op in ("and", "or"):
        return _logic(site, op, a, b)
    if isinstance(a, tuple) and isinstance(b, tuple) and op == "+":
        return _list(site, a + b)
    if isinstance(a, str) and isinstance(b, str) and op in _ORDER:
        return _ORDER[op](a, b)
    if not _is_number(a) or not _is_number(b) or op == "@":
        site.fail("E0107", f"`{op}` does not join {describe(a)} and {describe(b)}", help=_help(a, b))
    return number(site, op, a, b)


def number(site: Site, op: str, a: Any, b: Any) -> int | float | bool:
    """`a op b` of two numbers."""
    if op in _ORDER:
        return _ORDER[op](a, b)
    if op in ("/", "//", "%") and b == 0:
        site.fail("E0118", f"{a} {op} 0: division by zero")
    try:
        got = _power(site, a, b) if op == "**" else _ARITHMETIC[op](a, b)
    except OverflowError:
        site.fail("E0118", f"{a} {op} {b} is larger than any f64")
    return in_range(site, got)


def _power(site: Site, a: int | float, b: int | float) -> int | float:
    if a == 0 and b < 0:
        site.fail("E0118", f"{a} ** {b}: division by zero")
    if isinstance(a, int) and isinstance(b, int) and b > 0 and int(a).bit_length() * int(b) > 200:
        site.fail("E0118", f"{a} ** {b} does not fit 64 bits")
    got: Any = a**b
    return site.fail("E0118", f"{a} ** {b} is not a real number") if isinstance(got, complex) else got


def in_range(site: Site, value: int | float) -> int | float:
    """`value`; an integer beyond 64 bits is a mistake."""
    if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:
        site.fail("E0118", "an integer does not fit 64 bits")
    return value


def equal(a: Value, b: Value) -> bool:
    """Whether two static values are the same; true and 1 are not, 1 and 1.0 are."""
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return a is b if a is None or b is None else bool(a == b)


def _logic(site: Site, op: str, a: Value, b: Value) -> bool:
    for value in (a, b):
        if not isinstance(value, bool):
            site.fail("E0107", f"`{op}` joins bools, not {describe(value)}")
    return bool(a and b) if op == "and" else bool(a or b)


def unary(site: Site, op: str, x: Value) -> Value:
    """`op x` of a static value."""
    if op == "not":
        return not x if isinstance(x, bool) else site.fail("E0107", f"`not` negates a bool, not {describe(x)}")
    if not _is_number(x):
        site.fail("E0107", f"`{op}` takes a number, not {describe(x)}")
    return x if op == "+" else in_range(site, -x)  # pyright: ignore


def function(site: Site, name: str, x: int | float) -> int | float:
    """A function of one static number: `sqrt`, `exp`, `log`, `abs`, `floor`, `ceil`, …"""
    try:
        got: int | float = _FUNCTIONS[name](x)
    except ValueError:
        site.fail("E0118", f"{name}({x}) is not a real number")
    except (OverflowError, ZeroDivisionError):
        site.fail("E0118", f"{name}({x}) is larger than any f64")
    return in_range(site, got)


def _sign(x: int | float) -> int | float:
    return type(x)((x > 0) - (x < 0))


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "abs": abs, "sign": _sign, "floor": math.floor, "ceil": math.ceil, "round": round,
    "exp": math.exp, "expm1": math.expm1, "log": math.log, "log1p": math.log1p, "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x), "tanh": math.tanh, "erf": math.erf, "sin": math.sin, "cos": math.cos,
}  # fmt: skip


def _list(site: Site, items: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(items) > MAX_LIST:
        site.fail("E0115", f"a list has {len(items)} elements, more than {MAX_LIST}")
    return items


def _is_number(x: Value) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def _help(a: Value, b: Value) -> str | None:
    return "a dtype converts when it is called: `f32(x)`" if isinstance(a, DType) or isinstance(b, DType) else None
