"""The machine files of the wafer target: one PE's resources, the fabric, and what each thing costs in cycles.

`docs/csl.md` tells how each figure enters. Must not know CSL's syntax or programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from ...compiler.machine import Bounds, Machine, load_machine
from .csl.world import Arch

Zero = Annotated[int, Bounds(0)]
ArchName = Literal["wse2", "wse3"]
QueueName = Literal["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7"]
QUEUES: tuple[QueueName, ...] = ("q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")


@dataclass(frozen=True, slots=True)
class Pe:
    """A processing element."""

    memory_bytes: int
    banks: int
    # DSRs of each kind (destination, source 0, source 1).
    dsrs: int
    filters: int


@dataclass(frozen=True, slots=True)
class Ids:
    """Ids that programs may use, first and last."""

    colors: int
    local_task_first: Zero
    local_task_last: int
    control_task_last: int
    # Colors with switches, as a list of ranges: "0-9,12,13".
    switch_colors: str


@dataclass(frozen=True, slots=True)
class Fabric:
    """The mesh. A rectangle of a program must fit into it."""

    width: int
    height: int
    # Wavelets that a router keeps for each color and direction.
    router_depth_words: int
    # Words of each queue between router and PE; a queue without an entry does not exist.
    input_depth_words: dict[QueueName, int]
    output_depth_words: dict[QueueName, int]


@dataclass(frozen=True, slots=True)
class Simd:
    """Elements a cycle of operations whose operands all lie in memory, by kind of operation."""

    f16: int
    f32: int
    mixed: int
    int16: int
    mov32: int
    max16: int
    max32: int
    convert: int
    shift: int
    mul32: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles, all whole numbers. What the public documents do not tell is a named entry here."""

    # From router to router, and between router and PE (each way).
    hop: int
    ramp: Zero
    task_start: Zero
    vector_setup: Zero
    scalar: Zero
    branch: Zero
    call: Zero
    load: Zero
    store: Zero
    divide: Zero
    # sqrt, exp and their like, one result.
    function: Zero
    # One element of @map beyond its callback.
    map_element: Zero
    # Between the command of the host and the start of what it calls.
    host_command: Zero


@dataclass(frozen=True, slots=True)
class Wafer:
    """A wafer and its PEs."""

    arch: ArchName
    clock_ghz: float
    pe: Pe
    ids: Ids
    fabric: Fabric
    simd: Simd
    cost: Cost

    @property
    def front_end(self) -> Arch:
        """What checking a program needs to know."""
        queue_tasks = self.arch == "wse3"
        return Arch(
            name=self.arch, colors=self.ids.colors, input_queues=len(self.fabric.input_depth_words),
            output_queues=len(self.fabric.output_depth_words), microthreads=len(QUEUES),
            local_ids=(self.ids.local_task_first, self.ids.local_task_last),
            control_ids=(0, self.ids.control_task_last), switch_colors=_ranges(self.ids.switch_colors),
            filters=self.pe.filters, dsrs=self.pe.dsrs, memory_bytes=self.pe.memory_bytes,
            queue_tasks=queue_tasks,
        )  # fmt: skip


def _ranges(text: str) -> frozenset[int]:
    """The numbers of "0-9,12": both ends count."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


MACHINES = Path(__file__).parent / "machines"


def machine_names() -> tuple[str, ...]:
    """Names of the machines that come with the target."""
    return tuple(sorted(p.stem for p in MACHINES.glob("*.toml")))


def load(name: str, overrides: Iterable[str] = ()) -> Machine[Wafer]:
    """A shipped machine by name, or the one a `.toml` path describes. Raises DiagnosticError (E05xx)."""
    return _shipped(name, tuple(overrides)) if name in machine_names() else load_machine(Wafer, name, tuple(overrides))


@lru_cache(maxsize=32)
def _shipped(name: str, overrides: tuple[str, ...]) -> Machine[Wafer]:
    return load_machine(Wafer, MACHINES / f"{name}.toml", overrides)
