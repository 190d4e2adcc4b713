"""Which engine runs what of a state: the batched one where it can prove that it is exact, else the reference.

Parts of a program that no word can pass between are told apart: those that the batched engine can run at all go to it,
and the others to the reference, over the same stretch of time. Must not know how host code asks for time to pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from . import batched, reference
from . import fields as f
from .batched_components import Runnable, runnable
from .state import Reason, State, Until

EngineName: TypeAlias = Literal["auto", "reference", "batched"]


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of time that one engine ran: from cycle `start` to `end`, and why it was that engine."""

    engine: str
    start: int
    end: int
    why: str
    over_budget: bool


def advance(state: State, until: Until, engine: EngineName, max_cycles: int) -> tuple[Run, ...]:
    """Let `state` go on until the condition is met or nothing moves. "batched" is a wish as "auto" is: what the batched
    engine cannot prove the reference runs, and the reason is kept. Raises DiagnosticError for faults."""
    start = int(state.now)
    why = "it was asked for"
    if engine != "reference":
        may = runnable(state.image, state.program.routes)
        if _in_parts(state, until, may):
            came = _side_by_side(state, until, max_cycles, may)
        else:
            came = batched.run(state, until, max_cycles)
        if isinstance(came, tuple):
            return came
        if isinstance(came, Reason):
            return (Run("batched", start, int(state.now), "nothing contends", False),)
        why = f"the batched engine leaves to it: {came}"
    reason = reference.run(state, until, max_cycles)
    return (Run("reference", start, int(state.now), why, reason == Reason.BUDGET),)


def _in_parts(state: State, until: Until, may: Runnable) -> bool:
    """Whether each engine has something to do. The batched engine, always ahead, cannot stop for words for the host."""
    return may.why is not None and until != Until.WORDS and batched.anything(state, may.pes)


def _side_by_side(state: State, until: Until, max_cycles: int, may: Runnable) -> tuple[Run, ...] | str:
    """Both engines over the same time: the batched one on the parts that it may run, then the reference on the others.
    The reason, when it is all left to the reference."""
    start, last = int(state.now), int(state.cells[f.G_LAST])
    ahead = batched.run_some(state, until, max_cycles, may.pes)
    if isinstance(ahead, str):
        return ahead
    state.touched[may.pes] = False
    # Where the parts that ran have open commands for good, time goes on for the others as long as they move.
    wanted = until if ahead.met else Until.QUIET
    reason = reference.run(state, wanted, max_cycles)
    end = int(state.now)
    if reason == Reason.MET and end < ahead.done:
        reference.run(state, Until.QUIET, ahead.done)
    met = reason == Reason.MET and ahead.met
    state.cells[f.G_NOW] = max(end, ahead.done if met else ahead.last)
    state.cells[f.G_LAST] = max(last, int(state.cells[f.G_LAST]), ahead.last)
    count, all_pes = int(np.count_nonzero(may.pes)), state.pes
    ours = Run("batched", start, int(state.now), f"nothing contends among {count:,} of {all_pes:,} PEs", False)
    why = f"the batched engine leaves {all_pes - count:,} PEs to it: {may.why}"
    return ours, Run("reference", start, int(state.now), why, reason == Reason.BUDGET)
