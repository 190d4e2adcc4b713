"""The target protocol, answered for mxu by the modules of this folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...compiler.graph import Contraction, Graph, NDArray
from ...compiler.machine import Machine as MachineFile
from ...compiler.plan.target import Bound, CostQuery, HostLink, KernelCost, Plan, Refusal, Timing
from ...compiler.source import Diagnostic, DiagnosticError
from . import chip as chips
from .bound import bound
from .chip import Chip
from .choose import Choice, choose
from .isa import MxuProgram
from .lower import lower
from .numerics import MxuContraction
from .text import parse, show
from .timing import time_program
from .values import run_program
from .verify import verify

PROGRAM_FILE = "program.mxu"


@dataclass(frozen=True)
class MxuMachine:
    """One core as its chip file describes it."""

    file: MachineFile[Chip]

    @property
    def chip(self) -> Chip:
        return self.file.value

    @property
    def spec(self) -> str:
        return f"mxu:{self.file.name}"

    @property
    def digest(self) -> str:
        return self.file.digest

    @property
    def contraction(self) -> Contraction:
        return MxuContraction(self.chip)

    @property
    def rule_files(self) -> Sequence[Path]:
        return tuple(sorted(Path(__file__).parent.glob("*.rules")))

    @property
    def host_link(self) -> HostLink | None:
        host = self.chip.host
        if host is None:
            return None
        guessed = sum(self.file.is_guess(f"host.{figure}") for figure in ("link_gbs", "latency_us"))
        return HostLink(host.link_gbs * 1e9, host.latency_us * 1e-6, guessed / 2)

    def estimate(self, query: CostQuery) -> KernelCost | Refusal:
        """Row-major tensors in main memory; other queries are refused until layouts are chosen."""
        choice = choose(query.body, self.chip)
        return choice.cost if isinstance(choice, Choice) else choice

    def bound(self, graph: Graph) -> Bound:
        return bound(graph, self.chip)

    def lower(self, plan: Plan) -> MxuProgram:
        return lower(plan, self.chip)

    def show(self, program: MxuProgram) -> Mapping[str, str]:
        return {PROGRAM_FILE: show(program)}

    def parse(self, files: Mapping[str, str]) -> MxuProgram:
        return parse(files[PROGRAM_FILE])

    def verify(self, program: MxuProgram) -> list[str]:
        return verify(program, self.chip)

    def time(self, program: MxuProgram) -> Timing:
        return time_program(program, self.chip)

    def run(self, program: MxuProgram, buffers: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
        return run_program(program, self.chip, buffers)

    def guess_share(self, timing: Timing) -> float:
        """Each kernel's seconds count as guessed by the share of its busiest unit's figures that are guesses."""
        total = sum(k.seconds for k in timing.kernels)
        guessed = sum(k.seconds * self._guess_of(k.limited_by) for k in timing.kernels)
        return guessed / total if total else 0.0

    def _guess_of(self, unit: str) -> float:
        figures = ("clock_ghz", *chips.UNIT_FIGURES.get(unit, ("mxu.latency_cycles",)))
        known = [f for f in figures if f in self.file.figures]
        return sum(self.file.is_guess(f) for f in known) / len(known) if known else 1.0

    def binds(self, key: str, timing: Timing) -> str | None:
        """What limits the most seconds, when figure `key` changed nothing."""
        seconds: dict[str, float] = {}
        for k in timing.kernels:
            seconds[k.limited_by] = seconds.get(k.limited_by, 0.0) + k.seconds
        if not seconds:
            return None
        unit = max(sorted(seconds), key=lambda u: seconds[u])
        figures = ", ".join(chips.UNIT_FIGURES.get(unit, ())[:2])
        share = seconds[unit] / (sum(seconds.values()) or 1.0)
        return f"`{key}` does not bind: {unit} limits {share:.0%} of the time" + (
            f" (see {figures})" if figures else ""
        )

    def about(self) -> Mapping[str, object]:
        f = self.file
        return {key: {"value": value, "source": f.sources.get(key, "")} for key, value in f.figures.items()}


@dataclass(frozen=True, slots=True)
class MxuTarget:
    """The target: its chips and how one is loaded."""

    name: str = "mxu"

    def chips(self) -> Sequence[str]:
        return chips.chip_names()

    def load(self, chip: str, overrides: Iterable[str] = (), size: str = "") -> MxuMachine:
        if size:
            said = f"a chip of mxu is taken as a whole: `{size}` means nothing"
            raise DiagnosticError(Diagnostic("E0704", said, help=f"write {self.name}:{chip}"))
        return MxuMachine(chips.load(chip, overrides))


TARGET = MxuTarget()
