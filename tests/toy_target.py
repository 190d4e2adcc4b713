"""A target of our own for tests of the driver: kernels run in NumPy, main memory is the only resource.

`toy:one` is right. `toy:broken` computes every kernel with a `tanh` in it wrong. `toy:small` has little memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from tdslc.compiler.build import targets
from tdslc.compiler.graph import LEAVES, OPS, Contraction, Graph, Node, is_composite
from tdslc.compiler.plan.evaluate import evaluate_plan
from tdslc.compiler.plan.target import (
    Bound,
    Buffer,
    CostQuery,
    HostLink,
    Kernel,
    KernelCost,
    KernelTime,
    LoopStep,
    Plan,
    Refusal,
    Slice,
    Timing,
    UnitTime,
)
from tdslc.compiler.plan.text import parse_plan, show_plan
from tdslc.compiler.plan.verify import verify_plan
from tdslc.compiler.source import Diagnostic, DiagnosticError

LAUNCH_SECONDS = 1e-6
OP_SECONDS = 1e-8
REFERENCE = Contraction()


@dataclass(frozen=True)
class ToyProgram:
    plan: Plan

    @property
    def name(self) -> str:
        return self.plan.graph.name

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        found, at = [], 0
        for node in (*self.plan.graph.inputs, *self.plan.graph.params):
            found.append(Buffer(str(node.attr("name")), "main", node.op, at, node.type.nbytes, node.type, 0, 9))
            at += node.type.nbytes
        return (*found, Buffer("scratch", "fast", "scratch", 0, 64, None, 0, 9))


@dataclass(frozen=True)
class ToyMachine:
    chip: str
    bytes_a_second: float = 1e9
    spare: float = 1.0
    link_bytes_a_second: float = 1e8
    contraction: Contraction = REFERENCE
    rule_files: Sequence[Path] = ()

    @property
    def spec(self) -> str:
        return f"toy:{self.chip}"

    @property
    def digest(self) -> str:
        return sha256(f"{self.chip} {self.bytes_a_second} {self.spare}".encode()).hexdigest()

    @property
    def host_link(self) -> HostLink | None:
        return None if self.chip == "small" else HostLink(self.link_bytes_a_second, 2e-6, 0.5)

    def estimate(self, query: CostQuery) -> KernelCost | Refusal:
        if sum(OPS[n.op].cost == "contract" for n in nodes(query.body) if not is_composite(n)) > 1:
            return Refusal("two_heavy_ops", "one contraction a kernel")
        read, written = traffic(query.body)
        work = OP_SECONDS * sum(n.op not in LEAVES for n in nodes(query.body))
        units = {"main": (read + written) / self.bytes_a_second, "vector": work}
        return KernelCost(LAUNCH_SECONDS + sum(units.values()), units, read, written, 64)

    def bound(self, graph: Graph) -> Bound:
        read, written = traffic(graph)
        seconds = (read + written) / self.bytes_a_second
        flops = sum(2 * n.type.size for n in nodes(graph) if len(n.types) == 1)
        return Bound(seconds, "main", {"main": seconds}, flops, read + written)

    def lower(self, plan: Plan) -> ToyProgram:
        program = ToyProgram(replace(plan, load=None))
        if self.chip == "small" and sum(b.nbytes for b in program.buffers) > 4096:
            raise DiagnosticError(Diagnostic("E0401", "does not fit: main memory is 4096 bytes"))
        return program

    def show(self, program: ToyProgram) -> Mapping[str, str]:
        return {"plan.txt": show_plan(program.plan)}

    def parse(self, files: Mapping[str, str]) -> ToyProgram:
        return ToyProgram(parse_plan(files["plan.txt"]))

    def verify(self, program: ToyProgram) -> list[str]:
        return verify_plan(program.plan)

    def time(self, program: ToyProgram) -> Timing:
        rows, slices, now = [], [], 0.0
        for kernel, count in kernels(program.plan):
            read, written = traffic(kernel.body)
            seconds = self.estimate(CostQuery(kernel.body)).seconds * count
            units = (UnitTime("main", seconds, LAUNCH_SECONDS),)
            rows.append(KernelTime(kernel.name, now, seconds, count, read * count, written * count, units, "main"))
            slices.append(Slice("dma", kernel.name, now, seconds / count))
            now += seconds
        read, written = sum(r.bytes_read for r in rows), sum(r.bytes_written for r in rows)
        checks = (("toy_is_a_toy", True, "always"),)
        return Timing(now, round(now * 1e9), tuple(rows), tuple(slices), read, written, checks, ())

    def run(self, program: ToyProgram, buffers: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        got = evaluate_plan(program.plan, buffers, buffers, contraction=self.contraction)
        wrong = self.chip == "broken" and any(n.op == "tanh" for k, _ in kernels(program.plan) for n in nodes(k.body))
        names = program.plan.graph.output_names
        return {name: x + np.asarray(1, x.dtype) if wrong else x for name, x in zip(names, got, strict=True)}

    def guess_share(self, timing: Timing) -> float:
        return 0.25

    def binds(self, key: str, timing: Timing) -> str | None:
        return f"`{key}` does not bind: main memory does"

    def about(self) -> Mapping[str, object]:
        return {"bytes_a_second": {"value": self.bytes_a_second, "source": "guess: a toy"}}


@dataclass(frozen=True)
class ToyTarget:
    name: str = "toy"

    def chips(self) -> Sequence[str]:
        return ("one", "broken", "small")

    def load(self, chip: str, overrides: Iterable[str] = (), size: str = "") -> ToyMachine:
        if chip.endswith(".toml"):
            Path(chip).read_text()
            chip = "file"
        elif chip not in self.chips():
            raise DiagnosticError(Diagnostic("E0502", f"no chip {chip}"))
        settings = dict(text.split("=") for text in overrides)
        return ToyMachine(chip, **{key: float(value) for key, value in settings.items()})


class _Entry:
    def load(self) -> ToyTarget:
        return ToyTarget()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy is the only target installed."""
    monkeypatch.setattr(targets, "target_entries", lambda: {"toy": _Entry()})


def nodes(graph: Graph) -> Iterator[Node]:
    for n in graph.nodes:
        yield n
        for r in n.regions:
            yield from nodes(r)


def traffic(graph: Graph) -> tuple[int, int]:
    read = sum(n.type.nbytes for n in (*graph.inputs, *graph.params) if graph.users[n.out] or n.out in graph.outputs)
    return read, sum(t.nbytes for t in graph.output_types)


def kernels(plan: Plan) -> Iterator[tuple[Kernel, int]]:
    for step in plan.steps:
        if isinstance(step, Kernel):
            yield step, 1
        elif isinstance(step, LoopStep):
            yield from ((k, count * int(step.n)) for k, count in kernels(step.body))
