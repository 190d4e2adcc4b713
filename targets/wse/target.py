"""The target protocol, answered for wse by the modules of this folder: a rectangle of PEs as one machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...compiler.graph import Contraction, Graph, NDArray
from ...compiler.machine import Machine as MachineFile
from ...compiler.plan.target import Bound, CostQuery, HostLink, KernelCost, Plan, Refusal, Timing
from ...compiler.source import Diagnostic, DiagnosticError
from . import chip as chips
from .buffers import assign
from .chip import Wafer
from .cost import UNIT_FIGURES, Costs, bound
from .lower import lower
from .numerics import WseContraction
from .placement import NotPlaced, Shares
from .program import WseProgram, parse, show
from .simulate import run_program
from .stages import flow_of_body
from .timing import time_program
from .verify import verify

_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")


@dataclass(frozen=True)
class WseMachine:
    """`width` x `height` PEs of a wafer as its machine file describes it."""

    file: MachineFile[Wafer]
    width: int
    height: int

    @property
    def wafer(self) -> Wafer:
        return self.file.value

    @property
    def spec(self) -> str:
        return f"wse:{self.file.name},{self.width}x{self.height}"

    @property
    def digest(self) -> str:
        return self.file.digest

    @property
    def contraction(self) -> Contraction:
        return WseContraction()

    @property
    def rule_files(self) -> Sequence[Path]:
        return tuple(sorted(Path(__file__).parent.glob("*.rules")))

    @property
    def host_link(self) -> HostLink | None:
        return None

    def estimate(self, query: CostQuery) -> KernelCost | Refusal:
        """A launch, from the host's command to the end. What it reads and writes stays in the PEs."""
        try:
            flow = flow_of_body(query.body)
        except NotPlaced as why:
            return Refusal("illegal", str(why))
        shares = Shares(self.width, self.height)
        cycles = Costs(self.wafer, shares).launch(flow, flow.stages)
        hz = self.wafer.clock_ghz * 1e9
        return KernelCost(cycles.total / hz, cycles.units(hz), 0, 0, assign(flow, shares).nbytes)

    def bound(self, graph: Graph) -> Bound:
        return bound(graph, self.wafer, self.width * self.height)

    def lower(self, plan: Plan) -> WseProgram:
        return lower(plan, self.wafer, self.file.name, self.width, self.height)

    def show(self, program: WseProgram) -> Mapping[str, str]:
        return show(program)

    def parse(self, files: Mapping[str, str]) -> WseProgram:
        return parse(files)

    def verify(self, program: WseProgram) -> list[str]:
        return verify(program, self.wafer)

    def time(self, program: WseProgram) -> Timing:
        return time_program(program, self.wafer)

    def run(self, program: WseProgram, buffers: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
        return run_program(program, self.wafer, buffers)

    def guess_share(self, timing: Timing) -> float:
        """Each kernel's seconds count as guessed by the share of its busiest unit's figures that are guesses."""
        total = sum(k.seconds for k in timing.kernels)
        guessed = sum(k.seconds * self._guess_of(k.limited_by) for k in timing.kernels)
        return guessed / total if total else 0.0

    def _guess_of(self, unit: str) -> float:
        figures = ("clock_ghz", *UNIT_FIGURES[unit])
        return sum(map(self.file.is_guess, figures)) / len(figures)

    def binds(self, key: str, timing: Timing) -> str | None:
        """What limits the most seconds, when figure `key` changed nothing."""
        seconds: dict[str, float] = {}
        for k in timing.kernels:
            seconds[k.limited_by] = seconds.get(k.limited_by, 0.0) + k.seconds
        if not seconds:
            return None
        unit = max(sorted(seconds), key=lambda u: seconds[u])
        share = seconds[unit] / (sum(seconds.values()) or 1.0)
        return f"`{key}` does not bind: {unit} limits {share:.0%} of the time (see {', '.join(UNIT_FIGURES[unit][:2])})"

    def about(self) -> Mapping[str, object]:
        f = self.file
        return {key: {"value": value, "source": f.sources.get(key, "")} for key, value in f.figures.items()}


@dataclass(frozen=True, slots=True)
class WseTarget:
    """The target: its wafers, and how a rectangle of one is loaded."""

    name: str = "wse"

    def chips(self) -> Sequence[str]:
        return chips.machine_names()

    def load(self, chip: str, overrides: Iterable[str] = (), size: str = "") -> WseMachine:
        """`size` is WIDTHxHEIGHT, in PEs."""
        found = _SIZE.fullmatch(size)
        if found is None:
            named = f"{self.name}:{chip}"
            said = f"`{size}` is no number of PEs" if size else f"`{named}` does not say how many PEs"
            help = f"write {named},WIDTHxHEIGHT, as in {named},4x4"
            raise DiagnosticError(Diagnostic("E0704", said, help=help))
        file = chips.load(chip, overrides)
        width, height = map(int, found.groups())
        fabric = file.value.fabric
        if not (0 < width <= fabric.width and 0 < height <= fabric.height):
            said = f"{file.name} has {fabric.width} x {fabric.height} PEs, not {width} x {height}"
            raise DiagnosticError(Diagnostic("E0704", said, help="name a rectangle that lies in it"))
        return WseMachine(file, width, height)


TARGET = WseTarget()
