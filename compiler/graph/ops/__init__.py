"""The op table: every primitive op, once.

Knows types and NumPy. Must not know the parser, egglog or any target: they read this table.
"""

from __future__ import annotations

from . import bits, contract, control, elementwise, indexing, movement, ordering, random, special, windows
from .row import (
    Attr,
    AttrMap,
    AttrSpec,
    Axes,
    AxesRule,
    Context,
    Contraction,
    Entry,
    NDArray,
    Op,
    Types,
    whole_axes,
)

_FAMILIES = (elementwise, special, bits, movement, indexing, contract, windows, ordering, control, random)

OPS: dict[str, Op] = {row.name: row for family in _FAMILIES for row in family.ROWS}

LEAVES = frozenset(("input", "param", "constant", "full", "iota"))

__all__ = [
    "LEAVES",
    "OPS",
    "Attr",
    "AttrMap",
    "AttrSpec",
    "Axes",
    "AxesRule",
    "Context",
    "Contraction",
    "Entry",
    "NDArray",
    "Op",
    "Types",
    "whole_axes",
]
