"""Slots of the vector units: what work is, how many registers a tensor takes, what an elementwise op issues.

Must not know bodies, time or programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from ...compiler.graph import OPS, DType
from .chip import Chip, OpClass

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Registers loaded, stored; ALU issues; transcendental results; cross-lane registers; scalar cycles.

    `latency` is the cycles from the first operand to the first result beyond the issue itself.
    `streams`: rows of results come in the order of the rows of operands.
    """

    load: float = 0
    store: float = 0
    alu: float = 0
    eup: float = 0
    xlu: float = 0
    scalar: float = 0
    latency: int = 0
    streams: bool = True

    def __add__(self, other: Work) -> Work:
        return Work(
            self.load + other.load, self.store + other.store, self.alu + other.alu, self.eup + other.eup,
            self.xlu + other.xlu, self.scalar + other.scalar, self.latency + other.latency,
            self.streams and other.streams,
        )  # fmt: skip

    def times(self, n: float) -> Work:
        """The work of `n` such bodies one after another; latencies overlap."""
        return Work(
            self.load * n, self.store * n, self.alu * n, self.eup * n, self.xlu * n, self.scalar * n, self.latency,
            self.streams,
        )  # fmt: skip


def vregs(shape: Shape, bits: int, chip: Chip) -> int:
    """Registers that a tensor of `bits`-wide elements takes, padded; 0 when it has no elements."""
    if not shape:
        return 1
    pack = max(1, 32 // bits)
    rows, lanes = (1, *shape)[-2:]
    tiles = -(-rows // (chip.vpu.sublanes * pack)) * -(-lanes // chip.vpu.lanes)
    return int(prod(shape[:-2]) * tiles * max(1, bits // 32))


# Ops by the class whose figures the chip has.
_CLASS: dict[str, OpClass] = {
    "sign": "sign", "floor": "round", "ceil": "round", "round": "round", "exp": "exp", "expm1": "expm1", "log": "log",
    "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt", "tanh": "tanh", "erf": "erf", "sin": "sin", "cos": "cos",
    "pow": "pow", "convert": "convert", "div": "div", "rem": "rem",
}  # fmt: skip

_SIMPLE: tuple[OpClass, ...] = ("simple",)
# Others as what a routine for them is made of: range reductions and formulas of textbooks around polynomials of erf's
# length, and bits counted by masks and adds.
_MADE_OF: dict[str, tuple[OpClass, ...]] = {
    "tan": ("sin", "cos", "div"), "asin": ("sqrt", "erf"), "acos": ("sqrt", "erf"), "atan": ("erf", "div"),
    "atan2": ("erf", "div", "simple", "simple", "simple"), "sinh": ("exp", "div", "simple"),
    "cosh": ("exp", "div", "simple"), "asinh": ("sqrt", "log", "simple"), "acosh": ("sqrt", "log", "simple"),
    "atanh": ("log", "div", "simple"), "cbrt": ("pow",), "exp2": ("exp",), "log2": ("log",),
    "logistic": ("exp", "div", "simple"), "erfc": ("erf", "exp"), "erf_inv": ("log", "sqrt", "erf", "erf"),
    "lgamma": ("log", "log", "sin", "div"), "digamma": ("log", "sin", "cos", "div", "div"),
    "round_away": ("round", "simple"), "reduce_precision": _SIMPLE * 6, "popcnt": _SIMPLE * 12,
    "count_leading_zeros": _SIMPLE * 22,
}  # fmt: skip


def _classes(op: str, dtype: DType) -> tuple[OpClass, ...]:
    if op == "pow" and not dtype.is_float:
        return _SIMPLE * (2 * dtype.bits)  # by squaring: a product or two a bit
    costly = op in OPS and OPS[op].cost == "transcendental"
    # What neither table has counts as sine: a range reduction and a long polynomial.
    parts = _MADE_OF.get(op, (_CLASS.get(op, "sin" if costly else "simple"),))
    return parts if dtype.is_float else tuple("int_div" if p in ("div", "rem") else p for p in parts)


def op_slots(op: str, dtype: DType, chip: Chip) -> tuple[float, float]:
    """(ALU issues, transcendental results) of one register of an elementwise op on operands of `dtype`."""
    parts = _classes(op, dtype)
    return sum(chip.vector.alu[p] for p in parts), sum(chip.vector.eup[p] for p in parts)
