"""Which engine runs a state: the batched one where it can prove that it is exact, else the reference.

Must not know how host code asks for time to pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from . import batched, reference
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


def advance(state: State, until: Until, engine: EngineName, max_cycles: int) -> Run:
    """Let `state` go on until the condition is met or nothing moves. "batched" is a wish as "auto" is: what the batched
    engine cannot prove the reference runs, and the reason is kept. Raises DiagnosticError for faults."""
    start = int(state.now)
    why = "it was asked for"
    if engine != "reference":
        came = batched.run(state, until, max_cycles)
        if isinstance(came, Reason):
            return Run("batched", start, int(state.now), "nothing contends", False)
        why = f"the batched engine leaves to it: {came}"
    reason = reference.run(state, until, max_cycles)
    return Run("reference", start, int(state.now), why, reason == Reason.BUDGET)
