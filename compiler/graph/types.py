"""Dims and tensor types.

A dim is an int that may remember the expression it came from, so that shape arithmetic is written
once, in plain ints, and the symbolic form rides along. Must not know ops.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from .dtypes import DType


class Dim(int):
    """A dim's value with the symbolic expression it stands for; equal to its value."""

    expr: str

    def __new__(cls, value: int, expr: str) -> Dim:
        self = super().__new__(cls, value)
        self.expr = expr
        return self

    def __reduce__(self) -> tuple[type[Dim], tuple[int, str]]:
        return (Dim, (int(self), self.expr))

    def __repr__(self) -> str:
        return f"Dim({int(self)}, {self.expr!r})"

    def __str__(self) -> str:
        return str(int(self))

    # Operands that are no ints (floats, NumPy scalars) are left to their own arithmetic: no symbol survives it.

    def __add__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return self if other == 0 else Dim(int(self) + int(other), _sum(self, other))

    def __radd__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return self if other == 0 else Dim(int(other) + int(self), _sum(other, self))

    def __sub__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return self if other == 0 else Dim(int(self) - int(other), f"{self.expr}-{_factor(other)}")

    def __rsub__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return Dim(int(other) - int(self), f"{_expr(other)}-{_factor(self)}")

    def __mul__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return self if other == 1 else Dim(int(self) * int(other), f"{_factor(self)}*{_factor(other)}")

    def __rmul__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return self if other == 1 else Dim(int(other) * int(self), f"{_factor(other)}*{_factor(self)}")

    def __floordiv__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return self if other == 1 else Dim(int(self) // int(other), f"{_factor(self)}//{_factor(other)}")

    def __rfloordiv__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return Dim(int(other) // int(self), f"{_factor(other)}//{_factor(self)}")

    def __mod__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return Dim(int(self) % int(other), f"{_factor(self)}%{_factor(other)}")

    def __rmod__(self, other: object) -> int:
        if not isinstance(other, int):
            return NotImplemented
        return Dim(int(other) % int(self), f"{_factor(other)}%{_factor(self)}")


def _expr(d: int) -> str:
    return d.expr if isinstance(d, Dim) else str(int(d))


def _factor(d: int) -> str:
    text = _expr(d)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _sum(left: int, right: int) -> str:
    """`left + right`; a negative number is taken away."""
    if isinstance(left, Dim) and not isinstance(right, Dim) and right < 0:
        return f"{left.expr}-{-int(right)}"
    return f"{_expr(left)}+{_expr(right)}"


_TOKEN = re.compile(r"\s*(?:(?P<operand>\w+)|(?P<operator>//|[-+*%])|(?P<paren>[()]))")


def is_dim_expr(text: str) -> bool:
    """Whether `text` is an expression of names and numbers with + - * // % and parentheses."""
    at, depth, wants_operand = 0, 0, True
    while at < len(text.rstrip()):
        token = _TOKEN.match(text, at)
        if not token or not _fits(token, wants_operand, depth):
            return False
        at = token.end()
        depth += {"(": 1, ")": -1}.get(token["paren"], 0)
        wants_operand = token["operator"] is not None or token["paren"] == "("
    return depth == 0 and not wants_operand


def _fits(token: re.Match[str], wants_operand: bool, depth: int) -> bool:
    if token["paren"] == ")":
        return not wants_operand and depth > 0
    is_operator = token["operator"] is not None and not (token["operator"] == "-" and wants_operand)
    return wants_operand != is_operator


def show_dim(d: int) -> str:
    """`S=128` for a symbolic dim, `128` for a plain one."""
    return f"{_expr(d)}={int(d)}" if isinstance(d, Dim) else str(d)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dtype and a shape (dims from outermost to innermost; values fixed, symbols beside them)."""

    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(show_dim, self.shape))}]"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements; 1 for a scalar."""
        return int(prod(int(d) for d in self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes in main memory, dense, at the declared dtype."""
        return self.dtype.nbytes(self.size)

    def with_shape(self, shape: Iterable[int]) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, new: DType) -> TensorType:
        return TensorType(new, self.shape)
