"""Static routes of colors: where words go that leave a PE, and over which links.

A path is followed by a compiled loop, from each source on its own. Must not know streams, nor time.
"""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..csl.routes import ColorConfig, Routes
from .batched_streams import Ints, NotAlone
from .jit import inner_kernel, lean_kernel

# Links of a PE: four outputs to neighbours (west, east, south, north), the ramp to it, the ramp from it.
LINKS, RAMP, FROM_PE = 6, 4, 5
# How a path ended.
_DONE, _FULL, _NO_ROUTE, _NO_PROGRAM, _BACK, _OUTSIDE, _CIRCLE = range(7)
_TOLD = {
    _NO_ROUTE: "words of color {color} meet no route",
    _NO_PROGRAM: "words of color {color} reach a place without a program",
    _BACK: "words of color {color} go back where they came from",
    _OUTSIDE: "words of color {color} leave the rectangle",
    _CIRCLE: "color {color} goes in a circle",
}


@dataclass(frozen=True, slots=True)
class Paths:
    """Where words of some sources arrive: `row` of the source, PE and hops; and every link they take on the way with
    the hops before it, those of one router after another."""

    row: Ints
    pe: Ints
    hops: Ints
    link_row: Ints
    link: Ints
    link_hops: Ints


def static_refusal(config: ColorConfig) -> str | None:
    """Why colors with this configuration are left to the reference, or None."""
    if any(position.valid for position in config.positions):
        return "switches"
    if config.filter is not None:
        return "filters"
    if config.teardown:
        return "teardown"
    return "color swaps" if config.swap_x or config.swap_y else None


class RouteMap:
    """The static routes of all colors, and words that went along them: by side and PE, and by color and PE."""

    def __init__(self, routes: Routes, pe_at: NDArray[np.int32]) -> None:
        self._routes = routes
        self._height, self._width = pe_at.shape
        self._pe_at = pe_at.ravel().astype(np.int64)
        self._place = np.zeros(int(self._pe_at.max()) + 1, np.int64)
        there = self._pe_at >= 0
        self._place[self._pe_at[there]] = np.flatnonzero(there)
        self._rx = np.array([c.rx for c in routes.configs] + [0], np.int64)
        self._tx = np.array([c.tx for c in routes.configs] + [0], np.int64)
        self._grids: dict[int, Any] = {}
        self._room = 4096
        self.link_words = np.zeros((RAMP + 1, len(self._place)), np.int64)
        self.color_words: dict[int, Ints] = {}

    def place_of(self, pes: Ints) -> Ints:
        """y * width + x of PEs."""
        return self._place[pes]

    def paths(self, color: int, pes: Ints) -> Paths:
        """Where words go that leave the PEs `pes` with `color`. NotAlone where a word would be lost."""
        grid = self._routes.grid.get(color)
        if grid is None:
            raise NotAlone(f"color {color} has no routes")
        if color not in self._grids:
            self._grids[color] = np.ascontiguousarray(grid.ravel(), np.int32)
        size = (self._height, self._width)
        while True:
            ends, links = (np.empty((3, self._room), np.int64) for _ in range(2))
            counts = np.zeros(2, np.int64)
            came = follow(
                self._grids[color], self._rx, self._tx, self._pe_at, self._place[pes], *size, ends, links, counts
            )  # fmt: skip
            if came == _DONE:
                return Paths(*(c[: counts[0]].copy() for c in ends), *(c[: counts[1]].copy() for c in links))
            if came != _FULL:
                raise NotAlone(_TOLD[came].format(color=color))
            self._room *= 4

    def count_words(self, color: int, paths: Paths, count: int) -> None:
        """`count` words of `color` went along each link of `paths`."""
        total = self.color_words.setdefault(color, np.zeros(len(self._place), np.int64))
        count_words(paths.link_row, paths.link, self._pe_at, count, self.link_words, total)


@lean_kernel
def follow(
    grid: Any, rx: Any, tx: Any, pe_at: Any, sources: Any, height: int, width: int, ends: Any, links: Any, counts: Any
) -> int:  # fmt: skip
    """The paths from the places `sources` into ends[(row, pe, hops), .] and links[(row, link, hops), .], `counts` of
    both; how it ended."""
    places = np.int64(height) * width
    # Of each fork at most three ways wait while one is followed.
    most = 2 * (np.int64(height) + width) + 2
    for row in range(len(sources)):
        waiting, before = 1, counts[1]
        top = links.shape[1] - 3 * (most + 2)
        # Places that wait are kept behind the links; `top` is where they begin.
        if counts[1] >= top:
            return _FULL
        links[0, top], links[1, top], links[2, top] = sources[row], RAMP, 0
        while waiting:
            waiting -= 1
            place, side, hops = links[0, top + waiting], links[1, top + waiting], links[2, top + waiting]
            if counts[1] + LINKS > top or counts[0] >= ends.shape[1]:
                return _FULL
            if hops >= most or counts[1] - before > LINKS * places:
                return _CIRCLE
            config = grid[place]
            if config < 0 or (rx[config] >> side) & 1 == 0:
                return _NO_ROUTE
            out = tx[config]
            if (out >> RAMP) & 1:
                if pe_at[place] < 0:
                    return _NO_PROGRAM
                n = counts[0]
                ends[0, n], ends[1, n], ends[2, n] = row, pe_at[place], hops
                counts[0] = n + 1
                _link(links, counts, row, place * LINKS + RAMP, hops)
            for direction in range(4):
                if (out >> direction) & 1 == 0:
                    continue
                if direction == side:
                    return _BACK
                y, x = place // width, place % width
                if direction == 0:
                    x -= 1
                elif direction == 1:
                    x += 1
                elif direction == 2:
                    y += 1
                else:
                    y -= 1
                if y < 0 or y >= height or x < 0 or x >= width:
                    return _OUTSIDE
                _link(links, counts, row, place * LINKS + direction, hops)
                at = top + waiting
                links[0, at], links[1, at], links[2, at] = y * width + x, direction ^ 1, hops + 1
                waiting += 1
    return _DONE


@inner_kernel
def _link(links: Any, counts: Any, row: int, link: int, hops: int) -> None:
    n = counts[1]
    links[0, n], links[1, n], links[2, n] = row, link, hops
    counts[1] = n + 1


@lean_kernel
def count_words(rows: Any, links: Any, pe_at: Any, count: int, by_link: Any, by_color: Any) -> None:
    """Add `count` to each link of the PE it leaves, and once to each router that a row visits; of places with a PE."""
    last_row, last_place = np.int64(-1), np.int64(-1)
    for k in range(len(rows)):
        place = links[k] // LINKS
        pe = pe_at[place]
        if pe >= 0:
            by_link[links[k] % LINKS, pe] += count
            by_color[pe] += count if rows[k] != last_row or place != last_place else 0
        last_row, last_place = rows[k], place
