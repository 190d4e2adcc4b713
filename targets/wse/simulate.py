"""A program on the mesh simulator: values for a run, and time without values.

A copy between host and wafer takes no simulated time; a launch does. Time is that of a run with zeros: what depends on
values (comparisons of maxima and argmaxes) is timed as it is there, and the timing says so. Must not know how programs
are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...compiler.graph import NDArray
from .blocks import from_blocks, to_blocks
from .chip import Wafer
from .compiled import compiled
from .program import LAYOUT, PE, Copy, WseProgram

if TYPE_CHECKING:
    from .mesh.simulation import Simulation

_WORDS = {2: np.uint16, 4: np.uint32}


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch as it ran: its number among the program's commands, its first cycle and how many it took.

    `busiest` are the cycles in which the thread of the busiest PE did something, `most_words` the words over the link
    that had most.
    """

    command: int
    start: int
    cycles: int
    busiest: int
    most_words: int


@dataclass(slots=True)
class Run:
    """A program under way; `launches` grows."""

    program: WseProgram
    simulation: Simulation
    launches: list[Launched]

    def write(self, copy: Copy, x: NDArray, turn: int) -> None:
        """Copy the blocks of a tensor in pass `turn`: those of the first row of PEs, where it sends them on."""
        shares = self.program.shares
        blocks = to_blocks(x.astype(_stored(copy)), copy.placement, shares, turn)
        height = 1 if copy.once else shares.height
        self.simulation.write(copy.symbol, 0, 0, shares.width, height, blocks[:height].view(_WORDS[copy.itemsize]))

    def read(self, copy: Copy, into: NDArray, turn: int) -> None:
        """Copy back the blocks of a tensor in pass `turn`."""
        shares, p = self.program.shares, copy.placement
        elements = shares.rows(p) * shares.columns(p)
        words = self.simulation.read(copy.symbol, 0, 0, shares.width, shares.height, elements, _WORDS[copy.itemsize])
        from_blocks(words.view(_stored(copy)).astype(into.dtype), into, p, shares, turn)

    def launch(self, command: int) -> None:
        """Launch and wait until all PEs are done."""
        simulation = self.simulation
        before, start = simulation.report(), simulation.cycles
        simulation.launch(self.program.commands[command].function)
        simulation.run("commands")
        after = simulation.report()
        busiest, words = (after.busy - before.busy).max(), (after.sent - before.sent).max()
        self.launches.append(Launched(command, start, simulation.cycles - start, int(busiest), int(words)))


def started(program: WseProgram, wafer: Wafer) -> Run:
    """`program` on a wafer on which nothing has run."""
    # Building costs nothing of the engines, nor what they are compiled with; running does.
    from .mesh.simulation import Simulation

    return Run(program, Simulation(compiled(program.texts[LAYOUT], program.texts[PE], wafer), wafer), [])


def _stored(copy: Copy) -> type[np.generic]:
    return {"f32": np.float32, "i32": np.int32, "u32": np.uint32, "i16": np.int16}[copy.stored]


def run_passes(run: Run, tensors: Mapping[str, NDArray], passes: int) -> Iterator[int]:
    """Run the first `passes` passes, inputs and params by name in `tensors`; each is yielded when its outputs lie in
    the PEs."""
    program = run.program
    first = next(i for i, c in enumerate(program.commands) if c.kernel or i == len(program.commands) - 1)
    for turn in range(passes):
        for copy in program.copies:
            if copy.role != "output" and (turn == 0 or not copy.once):
                run.write(copy, tensors[copy.name], turn)
        for command in range(0 if turn == 0 else first, len(program.commands)):
            run.launch(command)
        yield turn


def run_program(program: WseProgram, wafer: Wafer, tensors: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The outputs by name. DiagnosticError (E106x) for faults on the mesh."""
    run = started(program, wafer)
    outputs = [c for c in program.copies if c.role == "output"]
    made = {c.name: np.zeros(c.type.shape, c.type.dtype.numpy) for c in outputs}
    for turn in run_passes(run, tensors, program.shares.passes):
        for copy in outputs:
            run.read(copy, made[copy.name], turn)
    return made


def timed_launches(program: WseProgram, wafer: Wafer) -> list[Launched]:
    """The launches of the first pass, of zeros."""
    run = started(program, wafer)
    zeros = {c.name: np.zeros(c.type.shape, c.type.dtype.numpy) for c in program.copies if c.role != "output"}
    for _ in run_passes(run, zeros, 1):
        pass
    return run.launches
