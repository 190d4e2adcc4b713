"""The op table: every primitive op, once.

Knows types and NumPy. Must not know the parser, egglog or any target: they read this table.
"""

from __future__ import annotations

from . import contract, control, elementwise, movement
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

OPS: dict[str, Op] = {
    row.name: row for row in (*elementwise.ROWS, *movement.ROWS, *contract.ROWS, *control.ROWS)
}

LEAVES = frozenset(("input", "param", "constant", "full", "iota"))

__all__ = [
    "LEAVES", "OPS", "Attr", "AttrMap", "AttrSpec", "Axes", "AxesRule", "Context", "Contraction", "Entry", "NDArray",
    "Op", "Types", "whole_axes",
]
