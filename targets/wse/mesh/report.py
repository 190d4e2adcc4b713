"""What the PEs of a run did and waited for: as numbers, as a table, as a map of the mesh, as a trace.

Reads the counters of a state and computes nothing that an engine decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..csl.program import Program
from . import fields as f
from .engines import Run
from .ir import Image
from .state import State

Ints = NDArray[np.int64]
# Shades of a map, from nothing to the most.
_SHADES = " .:-=+*#%@"
# A map shows at most this many PEs across and down; beyond it one character stands for several.
_MAP_WIDTH, _MAP_HEIGHT = 96, 48


@dataclass(frozen=True, slots=True, eq=False)
class MeshReport:
    """Counters by PE, in the order of the image: cycles of tasks (`busy`), cycles that operations waited for words, for
    room or for FIFOs, elements computed, and words sent along each direction of the router."""

    machine: str
    clock_ghz: float
    cycles: int
    x: Ints
    y: Ints
    busy: Ints
    waited_for_words: Ints
    waited_for_room: Ints
    waited_for_fifos: Ints
    elements: Ints
    sent: Ints
    # Words that all routers passed on, by color.
    by_color: dict[int, int]
    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        return self.cycles / (self.clock_ghz * 1e9)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it."""
        totals = {
            "cycles": self.cycles, "seconds": self.seconds, "pes": len(self.x), "elements": int(self.elements.sum()),
            "busy_share": _share(self.busy, self.cycles),
            "words_between_routers": int(self.sent[:, :4].sum()), "words_to_pes": int(self.sent[:, 4].sum()),
        }  # fmt: skip
        waits = {
            "words": int(self.waited_for_words.sum()), "room": int(self.waited_for_room.sum()),
            "fifos": int(self.waited_for_fifos.sum()),
        }  # fmt: skip
        return {
            "schema": "tdslc-csl-run/1", "machine": self.machine, "totals": totals, "wait_cycles": waits,
            "colors": {str(c): n for c, n in sorted(self.by_color.items())},
            "engines": [
                {"engine": r.engine, "from_cycle": r.start, "to_cycle": r.end, "why": r.why} for r in merged(self.runs)
            ],
        }  # fmt: skip

    def text(self) -> str:
        """The report for people."""
        d = self.as_dict()
        t, waits = d["totals"], d["wait_cycles"]
        lines = [
            f"{t['pes']:,} PEs of {self.machine}: {t['cycles']:,} cycles = {_time(self.seconds)}, "
            f"{t['elements']:,} elements, PEs busy {t['busy_share']:.1%}",
            f"words: {t['words_between_routers']:,} between routers, {t['words_to_pes']:,} to PEs",
        ]
        if d["colors"]:
            lines.append("by color: " + ", ".join(f"{c}: {n:,}" for c, n in d["colors"].items()))
        lines.append("cycles waited for: " + ", ".join(f"{name} {n:,}" for name, n in waits.items()))
        lines += [f"{r.engine} engine, cycles {r.start:,} to {r.end:,}: {r.why}" for r in merged(self.runs)]
        return "\n".join(lines)

    def map(self, what: str) -> str:
        """The mesh drawn with one character for each PE (or block of PEs): `busy`, `sent` or `received`."""
        values = {"busy": self.busy, "sent": self.sent[:, :4].sum(axis=1), "received": self.sent[:, 4]}[what]
        grid = np.zeros((int(self.y.max()) + 1, int(self.x.max()) + 1))
        grid[self.y, self.x] = values
        grid, step_y, step_x = _reduced(grid)
        most = grid.max()
        shades = np.ceil(grid / most * (len(_SHADES) - 1)).astype(int) if most else np.zeros(grid.shape, int)
        unit = {"busy": "cycles busy", "sent": "words sent", "received": "words received"}[what]
        block = f", one character for {step_x} x {step_y} PEs (their mean)" if step_x * step_y > 1 else ""
        head = f"{unit} by PE, `{_SHADES[-1]}` = {most:,.0f}{block}"
        return "\n".join([head, *("|" + "".join(_SHADES[k] for k in row) + "|" for row in shades)])


def mesh_report(program: Program, image: Image, state: State, runs: tuple[Run, ...]) -> MeshReport:
    """The report of a state after `runs`."""
    table = state.pe_table
    routers = state.routers
    colors = routers[:, f.R_COLOR] if len(routers) else np.zeros(0, np.int64)
    words = routers[:, f.R_WORDS] if len(routers) else np.zeros(0, np.int64)
    by_color = {int(c): int(words[colors == c].sum()) for c in np.unique(colors)}
    return MeshReport(
        program.arch.name, state.wafer.clock_ghz, state.now, state.x, state.y, table[:, f.P_BUSY].copy(),
        table[:, f.P_WAIT_IN].copy(), table[:, f.P_WAIT_OUT].copy(), table[:, f.P_WAIT_FIFO].copy(),
        table[:, f.P_ELEMENTS].copy(), table[:, f.P_LINKS : f.P_LINKS_RAMP + 1].copy(),
        {c: n for c, n in by_color.items() if n}, runs,
    )  # fmt: skip


def merged(runs: Iterable[Run]) -> list[Run]:
    """Runs one after the other by one engine, for one reason, as one; both engines may have run at once."""
    made: list[Run] = []
    for run in runs:
        same = [
            k for k in range(max(0, len(made) - 2), len(made)) if (made[k].engine, made[k].why) == (run.engine, run.why)
        ]
        if same:
            made[same[0]] = replace(run, start=made[same[0]].start)
        elif run.end > run.start:
            made.append(run)
    return made


def _share(busy: Ints, cycles: int) -> float:
    return float(busy.sum() / (len(busy) * cycles)) if cycles and len(busy) else 0.0


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _reduced(grid: NDArray[np.float64]) -> tuple[NDArray[np.float64], int, int]:
    """The grid with blocks of PEs as their mean, so that it can be read on a screen; rows and columns of a block."""
    steps = [max(1, -(-grid.shape[0] // _MAP_HEIGHT)), max(1, -(-grid.shape[1] // _MAP_WIDTH))]
    pads = [(-grid.shape[k]) % steps[k] for k in range(2)]
    padded = np.pad(grid, ((0, pads[0]), (0, pads[1])))
    counts = np.pad(np.ones(grid.shape), ((0, pads[0]), (0, pads[1])))
    blocks = [_summed(a, steps) for a in (padded, counts)]
    return blocks[0] / blocks[1], steps[0], steps[1]


def _summed(grid: NDArray[np.float64], steps: Sequence[int]) -> NDArray[np.float64]:
    h, w = grid.shape
    return grid.reshape(h // steps[0], steps[0], w // steps[1], steps[1]).sum(axis=(1, 3))
