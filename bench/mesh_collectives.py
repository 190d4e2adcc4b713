"""Collectives along a row of PEs against the closed forms of Near-Optimal Wafer-Scale Reduce (arXiv 2404.15888).

The programs are bench/csl/collectives. A form gives cycles from the word `go` until the last PE is done, for P PEs, B
words and a latency of T_R between a PE and its router. It knows no cost of starting anything, so what it is compared
with is run on a machine whose `[cost]` is 0 but for `hop` and `ramp`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tdslc.targets.wse.chip import Wafer, load
from tdslc.targets.wse.csl.program import compile_program
from tdslc.targets.wse.mesh.engines import EngineName
from tdslc.targets.wse.mesh.simulation import Simulation

FOLDER = Path(__file__).parent / "csl" / "collectives"
PATTERNS = ("star", "chain", "tree", "two_phase", "broadcast", "ring")
_START_UP = (
    "task_start", "vector_setup", "scalar", "branch", "call", "load", "store", "divide", "function", "map_element",
    "host_command",
)  # fmt: skip
# A star moves every word over all hops to the root, one by one: beyond this many it is left out.
MAX_STAR_HOPS = 1 << 22


@dataclass(frozen=True, slots=True)
class Collective:
    """`pattern` over P PEs with vectors of B words of f32."""

    pattern: str
    P: int
    B: int

    @property
    def group(self) -> int:
        """PEs of a group of the two-phase sum: the power of 2 at or below the root of P."""
        return 1 << (int(math.log2(self.P)) // 2)

    @property
    def levels(self) -> float:
        """Steps of the longest chain of dependencies (D)."""
        return {
            "star": 1, "broadcast": 1, "chain": self.P - 1, "tree": math.log2(self.P),
            "two_phase": 2 * math.sqrt(self.P) - 2, "ring": 2 * (self.P - 1),
        }[self.pattern]  # fmt: skip

    def form(self, ramp: int) -> float:
        """Cycles by the closed form, with T_R = `ramp`. Tree and two-phase from the general one, max(C, E/N) + L +
        (2 T_R + 1) D with the contention C = B log2 P or 2 B at the root, and L = P - 1 hops."""
        P, B, step = self.P, self.B, 2 * ramp + 1
        match self.pattern:
            case "star":
                return B * (P - 1) + step
            case "chain":
                return B + (step + 1) * (P - 1)
            case "tree":
                return B * self.levels + P - 1 + step * self.levels
            case "two_phase":
                return 2 * B + P - 1 + step * self.levels
            case "broadcast":
                return B + P + 2 * ramp
            case _:
                return 2 * (P - 1) * B / P + 4 * P - 6 + 2 * (P - 1) * step

    @property
    def slack(self) -> float:
        """Cycles by which a run may differ: 4 %, or 2 for each dependency."""
        return max(0.04 * self.form(2), 2 * self.levels)

    @property
    def is_run(self) -> bool:
        """Whether the pattern is meant for the size: a ring's shares are whole, and a star stays small."""
        if self.pattern == "ring":
            return self.B % self.P == 0
        return self.pattern != "star" or self.B * self.P * (self.P - 1) // 2 <= MAX_STAR_HOPS


def cases(sizes: tuple[int, ...], words: tuple[int, ...]) -> Iterator[Collective]:
    """Every pattern for every size that it is meant for."""
    every = (Collective(pattern, P, B) for pattern in PATTERNS for P in sizes for B in words)
    return (case for case in every if case.is_run)


def machine(start_up: bool) -> Wafer:
    """WSE-3 as its file has it, or with everything in `[cost]` that starts something at 0."""
    return load("wse3", () if start_up else [f"cost.{name}=0" for name in _START_UP]).value


def run(case: Collective, wafer: Wafer, engine: EngineName = "auto") -> tuple[int, str]:
    """Cycles from the launch to the end, and the engine that ran it. AssertionError when the values are wrong."""
    params = {"P": case.P, "B": case.B} | ({"S": case.group} if case.pattern == "two_phase" else {})
    program = compile_program(str(FOLDER / f"{case.pattern}.csl"), wafer.front_end, params)
    simulation = Simulation(program, wafer, engine=engine)
    # Whole numbers small enough that their sums are exact in any order.
    data = ((np.arange(case.P)[:, None] * 7 + np.arange(case.B)) % 32).astype(np.float32)
    simulation.write("v", 0, 0, case.P, 1, data[None].view(np.uint32))
    simulation.launch("go")
    simulation.run("commands")
    simulation.run("quiet")
    _check(case, data, simulation.read("v", 0, 0, case.P, 1, case.B, np.float32)[0])
    longest = max(simulation.report().runs, key=lambda run: run.end - run.start)
    return simulation.cycles - wafer.cost.host_command, longest.engine


def _check(case: Collective, data: NDArray[np.float32], got: NDArray[np.float32]) -> None:
    if case.pattern == "broadcast":
        np.testing.assert_array_equal(got, np.broadcast_to(data[0], data.shape))
    elif case.pattern == "ring":
        np.testing.assert_array_equal(got, np.broadcast_to(data.sum(0), data.shape))
    else:
        np.testing.assert_array_equal(got[0], data.sum(0))
