"""What the host did while nothing moved, made known to the reference engine. Must not know programs."""

# Compiled code: its integers are np.int64, as `int` is called here.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

from .fields import A_PES, L_TIME, P_ACTIVE, P_HOST_IN, P_HOST_OUT, P_LAUNCH, PE_SIZE
from .jit import lean_kernel
from .reference_pointers import pointer_to
from .reference_queues import wake, wake_router

Cells = Any


@lean_kernel
def awaken(cells: Cells, host: Cells, pes: Cells, time: int) -> None:
    """Look at the PEs in the cycle `time`, or when their launch is due."""
    S, W = pointer_to(cells), pointer_to(host)
    for k in range(len(pes)):
        pe = pes[k]
        p = S[A_PES] + pe * PE_SIZE
        if S[p + P_LAUNCH] >= 0:
            wake(S, pe, max(W[S[p + P_LAUNCH] + L_TIME], time))
        if S[p + P_ACTIVE]:
            wake(S, pe, time)
        if S[p + P_HOST_IN] >= 0 or S[p + P_HOST_OUT] >= 0:
            wake_router(S, pe, time)
