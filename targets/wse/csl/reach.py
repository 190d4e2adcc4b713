"""Routes that lead nowhere: what no wavelet can pass, found for all PEs at once.

A program may change its routes while it runs, and the host sends from outside the rectangle, so these are warnings.
Must not know code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic
from .routes import DIRECTIONS, Routes

Mask = NDArray[np.uint8]
# (direction, step in y, step in x, the direction from which the neighbour receives)
_STEPS = ((0, 0, -1, 1), (1, 0, 1, 0), (2, 1, 0, 3), (3, -1, 0, 2))


def check_routes(routes: Routes) -> list[Diagnostic]:
    """A warning for each configuration from which wavelets go to a neighbour in the rectangle that never takes them.

    Colors that are torn down at the start are left out, here and at the neighbour: their routes are set later.
    """
    found: list[Diagnostic] = []
    for color in sorted(routes.grid):
        rx, tx = (np.bitwise_or.reduce(mask, axis=0) for mask in routes.masks(color))
        later = _torn_down(routes, color)
        for direction, dy, dx, back in _STEPS:
            sends = (tx >> direction & 1).astype(bool) & ~later
            takes = _shifted((rx >> back & 1).astype(bool) | later, dy, dx)
            lost = sends & ~takes
            for index in np.unique(routes.grid[color][lost]).tolist():
                found.append(_told(routes, color, direction, lost & (routes.grid[color] == index), (dx, dy), index))
    return found


def _torn_down(routes: Routes, color: int) -> NDArray[np.bool_]:
    flags = np.array([config.teardown for config in routes.configs] + [False])
    return flags[routes.grid[color]]


def _shifted(takes: NDArray[np.bool_], dy: int, dx: int) -> NDArray[np.bool_]:
    """For each PE, `takes` of its neighbour; outside the rectangle is the host's."""
    out = np.ones_like(takes)
    h, w = takes.shape
    out[max(0, -dy) : h - max(0, dy), max(0, -dx) : w - max(0, dx)] = takes[max(0, dy) : h + min(0, dy), max(0, dx) : w + min(0, dx)]
    return out


def _told(routes: Routes, color: int, direction: int, lost: NDArray[Any], step: tuple[int, int], index: int) -> Diagnostic:
    y, x = (int(v) for v in np.argwhere(lost)[0])
    count = int(lost.sum())
    more = f" (and {count - 1} other PEs with this configuration)" if count > 1 else ""
    message = (
        f"PE {x}, {y} sends color {color} {DIRECTIONS[direction]} to PE {x + step[0]}, {y + step[1]}, which never takes it{more}"
    )
    return Diagnostic("E1042", message, routes.spans[index], help="give the neighbour a route with `.rx` from there", severity="warning")
