"""Simulated time of a program as the protocol's Timing. Must not know how programs are made."""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.plan.target import KernelTime, Slice, Timing, UnitTime
from .chip import Wafer
from .program import WseProgram
from .simulate import Launched, timed_launches

_ZEROS = "timed with inputs of zeros, on which maxima and argmaxes branch; copies between host and wafer take no time"
_PASSES = "one pass is simulated and counted {n} times: all passes run alike"


def time_program(program: WseProgram, wafer: Wafer) -> Timing:
    """Seconds from the first launch to the end of the last; launches follow each other without a gap."""
    launches = timed_launches(program, wafer)
    hz, passes = wafer.clock_ghz * 1e9, program.shares.passes
    kernels = tuple(_kernel(program, x, hz) for x in launches)
    seconds = sum(k.seconds for k in kernels)
    cycles = sum(x.cycles * _count(program, x.command) for x in launches)
    slices = tuple(Slice("pe", k.name, k.start, k.seconds / k.count) for k in kernels)
    read, written = sum(k.bytes_read for k in kernels), sum(k.bytes_written for k in kernels)
    notes = (_ZEROS, *((_PASSES.format(n=passes),) if passes > 1 else ()))
    return Timing(seconds, cycles, kernels, slices, read, written, (), notes)


def _count(program: WseProgram, command: int) -> int:
    """How often a launch runs: parameters are loaded once, kernels run in every pass."""
    return program.shares.passes if program.commands[command].kernel else 1


def _kernel(program: WseProgram, launched: Launched, hz: float) -> KernelTime:
    command, count = program.commands[launched.command], _count(program, launched.command)
    seconds = launched.cycles * count / hz
    units = tuple(_units(launched, count, hz))
    busiest = max(units, key=lambda u: u.busy_seconds).unit
    read, written = _moved(program, launched.command, "in"), _moved(program, launched.command, "out")
    name = command.kernel or command.function
    return KernelTime(name, launched.start / hz, seconds, count, read, written, units, busiest)


def _units(launched: Launched, count: int, hz: float) -> Iterator[UnitTime]:
    """The thread of the busiest PE, and the words over the busiest link."""
    for unit, busy in (("pe", launched.busiest), ("fabric", launched.most_words)):
        yield UnitTime(unit, busy * count / hz, (launched.cycles - busy) * count / hz)


def _moved(program: WseProgram, command: int, way: str) -> int:
    """Bytes between host and wafer that belong to a launch, over all passes."""
    shares, moved = program.shares, 0
    for c in program.copies:
        if c.launch != command or (c.role == "output") != (way == "out"):
            continue
        across = shares.width if c.placement.split_columns or c.role != "output" else 1
        down = shares.height if c.placement.split_rows else 1
        elements = shares.rows(c.placement) * shares.columns(c.placement)
        moved += across * down * elements * c.itemsize * (1 if c.once else shares.passes)
    return moved
