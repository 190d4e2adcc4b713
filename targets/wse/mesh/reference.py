"""The reference engine: every wavelet, element and instruction in its own cycle, for any program.

One interpreter in compiled code, the same for all programs. Must not know host programs.
"""

from __future__ import annotations

import numpy as np

from . import faults
from . import fields as f
from .jit import need_numba
from .state import Reason, State, Until
from .state_builder import grow_operations


def run(state: State, until: Until, max_cycles: int) -> Reason:
    """Let time go on until the condition holds (MET), nothing moves (QUIET), or the cycle after `max_cycles` would
    come (BUDGET). Raises DiagnosticError for what a program does wrong, and where numba is not installed (E1065)."""
    need_numba()
    from . import reference_host, reference_loop

    state.need_queues()
    state.cells[f.G_UNTIL], state.cells[f.G_MAX] = int(until), max_cycles
    state.cells[f.G_LAST] = max(state.cells[f.G_LAST], state.cells[f.G_NOW])
    if state.touched.any():
        first = state.now if state.fresh else state.now + 1
        reference_host.awaken(state.cells, state.host, np.flatnonzero(state.touched), first)
        state.touched[:] = False
    if until != Until.QUIET and _holds(state, until):
        return Reason.MET
    state.fresh = False
    while True:
        came = int(
            reference_loop.run(state.cells, state.data, state.set, state.ops, state.logs, state.traces, state.host)
        )
        if came == f.FAULT:
            raise faults.error(state)
        if came != f.GROW:
            return Reason(came)
        _grow(state)


def _holds(state: State, until: Until) -> bool:
    return state.open_commands == 0 if until == Until.COMMANDS else state.missing_words <= 0


def _grow(state: State) -> None:
    """More room for what the kernel found too small."""
    from .reference_loop import SPARE_OPS

    if state.cells[f.G_FREE_OPS] < SPARE_OPS + 2:
        grow_operations(state, 2 * (len(state.ops) // f.OP_SIZE))
    if (int(state.cells[f.G_LOG]) + 1) * f.LOG_SIZE > len(state.logs):
        state.logs = np.concatenate([state.logs, np.zeros_like(state.logs)])
