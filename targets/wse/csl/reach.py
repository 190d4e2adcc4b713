"""Routes that lead nowhere or in a circle, found for all PEs at once.

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
        found += _circles(routes, color)
        for direction, dy, dx, back in _STEPS:
            sends = (tx >> direction & 1).astype(bool) & ~later
            takes = _shifted((rx >> back & 1).astype(bool) | later, dy, dx)
            lost = sends & ~takes
            for index in np.unique(routes.grid[color][lost]).tolist():
                found.append(_told(routes, color, direction, lost & (routes.grid[color] == index), (dx, dy), index))
    return found


# Rounds of elimination after which a color with very long paths is left without a verdict.
_MAX_ROUNDS = 5000


def _circles(routes: Routes, color: int) -> list[Diagnostic]:
    """A warning when wavelets of `color` can come back to a router they have passed, from the same side.

    A state is a router and the side from which it takes a wavelet. States that lead only to states already removed are
    removed, until none is left or all that are left lie on circles or lead to one. Colors with switches are not judged:
    which way they send depends on the run.
    """
    used = [routes.configs[int(i)] for i in np.unique(routes.grid[color]) if i >= 0]
    if any(position.valid for config in used for position in config.positions):
        return []
    rx, tx = (mask[0] for mask in routes.masks(color))
    moves = int(np.bitwise_or.reduce(tx, axis=None))
    # On a grid, whoever comes back has gone both ways along an axis.
    if moves & 3 != 3 and moves & 12 != 12:
        return []
    left = _on_circles(rx, tx, _torn_down(routes, color))
    if left is None or not left.any():
        return []
    y, x = (int(v) for v in np.argwhere(left)[0])
    message = f"color {color} goes in a circle through PE {x}, {y}: its wavelets are never used up"
    help = "leave out one `.tx` of the circle"
    return [Diagnostic("E1043", message, routes.spans[int(routes.grid[color][y, x])], help=help, severity="warning")]


def _on_circles(rx: Mask, tx: Mask, later: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Routers with a state that is left; None when that takes too long to find out."""
    sides = len(DIRECTIONS)
    alive = np.stack([(rx >> side & 1).astype(bool) & ~later for side in range(sides)])
    for _ in range(_MAX_ROUNDS):
        onward = np.zeros_like(alive)
        for direction, dy, dx, back in _STEPS:
            goes = (tx >> direction & 1).astype(bool) & _shifted(alive[back], dy, dx, outside=False)
            for side in range(sides):
                # Nothing is sent back to where it came from.
                if side != direction:
                    onward[side] |= goes
        kept = alive & onward
        if (kept == alive).all():
            return np.any(alive[:4], axis=0)
        alive = kept
        if not alive.any():
            break
    else:
        return None
    return np.zeros(rx.shape, bool)


def _torn_down(routes: Routes, color: int) -> NDArray[np.bool_]:
    flags = np.array([config.teardown for config in routes.configs] + [False])
    return flags[routes.grid[color]]


def _shifted(takes: NDArray[np.bool_], dy: int, dx: int, outside: bool = True) -> NDArray[np.bool_]:
    """For each PE, `takes` of its neighbour; beyond the rectangle, where the host is, `outside`."""
    out = np.full_like(takes, outside)
    h, w = takes.shape
    out[max(0, -dy) : h - max(0, dy), max(0, -dx) : w - max(0, dx)] = takes[
        max(0, dy) : h + min(0, dy), max(0, dx) : w + min(0, dx)
    ]
    return out


def _told(
    routes: Routes, color: int, direction: int, lost: NDArray[Any], step: tuple[int, int], index: int
) -> Diagnostic:
    y, x = (int(v) for v in np.argwhere(lost)[0])
    count = int(lost.sum())
    more = f" (and {count - 1} other PEs with this configuration)" if count > 1 else ""
    there = f"PE {x + step[0]}, {y + step[1]}"
    message = f"PE {x}, {y} sends color {color} {DIRECTIONS[direction]} to {there}, which never takes it{more}"
    return Diagnostic(
        "E1042",
        message,
        routes.spans[index],
        help="give the neighbour a route with `.rx` from there",
        severity="warning",
    )
