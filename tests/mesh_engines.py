"""What two runs of a mesh must agree on, whichever engines ran them."""

import numpy as np
from tdslc.targets.wse.mesh import fields as f
from tdslc.targets.wse.mesh.state import State

# What both engines give of each PE.
COLUMNS = {
    "time": f.P_TIME, "busy": f.P_BUSY, "elements": f.P_ELEMENTS, "west": f.P_LINKS, "east": f.P_LINKS_E,
    "south": f.P_LINKS_S, "north": f.P_LINKS_N, "ramp": f.P_LINKS_RAMP, "vector": f.P_VECTOR_FREE,
    "active": f.P_ACTIVE, "blocked": f.P_BLOCKED, "clock": f.P_CLOCK, "clock on": f.P_CLOCK_ON, "owes": f.P_OWES,
    "last task": f.P_LAST_ID, "waits for words": f.P_WAIT_IN, "waits for room": f.P_WAIT_OUT,
}  # fmt: skip


def assert_same(ours: State, theirs: State) -> None:
    """Memory, clocks, tasks and counters of two runs are equal."""
    assert ours.now == theirs.now
    np.testing.assert_array_equal(ours.set, theirs.set, "what is written")
    np.testing.assert_array_equal(ours.data, theirs.data, "memory")
    for name, column in COLUMNS.items():
        np.testing.assert_array_equal(ours.pe_table[:, column], theirs.pe_table[:, column], name)
