"""A kernel's grid: which axis classes are cut, into what tiles, in which order.

A *form* is a prepared body with its axis classes. A *grid* is a list of (class, tile length), the
outermost first. Lengths that do not divide leave a shorter last tile: the grid splits into regions,
each of equal tiles. Must not know addresses, instructions or time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod

from ...compiler.graph import DType, Graph
from ...compiler.plan.tiling import Tiling, retile, tiling
from .prepare import ALL_FED, Origin, prepare
from .stages import Stage, stages
from .strided import Box


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """A prepared kernel body, its axis classes, and the classes that may be cut (all outputs carry them).

    `origins[v]` says where input v of the body lies in the kernel's inputs, `boxes[v]` where output v lies in the
    kernel's output; one that is not there is all of it.
    """

    body: Graph
    origins: Mapping[int, Origin]
    cuts: Tiling
    grid_classes: tuple[int, ...]
    boxes: Mapping[int, Box] = field(default_factory=dict[int, Box])


@lru_cache(maxsize=512)
def form(body: Graph, fed: frozenset[DType] = ALL_FED) -> Form:
    """The form of a kernel body. A class can be cut when its axes allow it and every output runs with it."""
    prepared = prepare(body, fed)
    ready = prepared.body
    cuts = tiling(ready)
    shared = [cuts.carried(v, ready.types[v].rank) for v in dict.fromkeys(ready.outputs)]
    common = [c.index for c in cuts.classes if c.cut and all(c.index in carried for carried in shared)]
    origins = dict(zip((n.out for n in ready.inputs), prepared.origins, strict=True))
    return Form(ready, origins, cuts, tuple(common))


@dataclass(frozen=True, slots=True)
class Cut:
    """One axis class of a grid: its tile length in units."""

    index: int
    tile: int


@dataclass(frozen=True, slots=True)
class Region:
    """Equal tiles of a grid: for each cut its first unit, tile length and number of tiles; outermost first."""

    cuts: tuple[Cut, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def steps(self) -> int:
        return prod(self.counts)

    def inner(self, position: int) -> int:
        """Grid steps for one tile of the cut at `position`."""
        return prod(self.counts[position + 1 :])

    def period(self, carried: frozenset[int]) -> int:
        """Grid steps over which a value that runs with these classes stays the same."""
        for position in reversed(range(len(self.cuts))):
            if self.cuts[position].index in carried and self.counts[position] > 1:
                return self.inner(position)
        return self.steps


def regions(f: Form, grid: tuple[Cut, ...]) -> tuple[Region, ...]:
    """The regions of `grid`, the one of full tiles first."""
    rows: list[list[tuple[int, int, int]]] = []
    for cut in grid:
        full, rest = divmod(f.cuts.classes[cut.index].steps, cut.tile)
        rows.append([(0, cut.tile, full)] * (full > 0) + [(full * cut.tile, rest, 1)] * (rest > 0))
    found: list[Region] = []
    for combination in product(*rows):
        cuts = tuple(Cut(c.index, tile) for c, (_, tile, _) in zip(grid, combination, strict=True))
        found.append(Region(cuts, tuple(s for s, _, _ in combination), tuple(n for _, _, n in combination)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class TileBody:
    """The body of a region's tiles with its stages; `periods` of its values (numbered as the form's)."""

    graph: Graph
    periods: Mapping[int, int]
    stages: tuple[Stage, ...]


def tile_body(f: Form, region: Region) -> TileBody:
    """What one tile of `region` computes."""
    lengths = {c.index: c.tile for c in region.cuts}
    graph = retile(f.body, f.cuts, lengths)
    periods = {v: region.period(f.cuts.carried(v, t.rank)) for v, t in f.body.types.items()}
    return TileBody(graph, periods, stages(graph, periods))
