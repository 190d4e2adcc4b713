"""Collectives in CSL take the time that the closed forms say, on a machine where starting costs nothing."""

import sys

import pytest
from tree import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import mesh_collectives

sys.path.remove(str(ROOT / "bench"))

# Every pattern at sizes where it has one step, several, and unequal groups.
CASES = list(mesh_collectives.cases((4, 8, 32), (1, 16, 64)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.pattern}-{case.P}-{case.B}")
def test_cycles_follow_the_closed_form(case: mesh_collectives.Collective) -> None:
    wafer = mesh_collectives.machine(start_up=False)
    cycles, _ = mesh_collectives.run(case, wafer)
    assert abs(cycles - case.form(wafer.cost.ramp)) <= case.slack


def test_starting_costs_on_the_machine_as_it_is() -> None:
    case = mesh_collectives.Collective("chain", 8, 16)
    free, _ = mesh_collectives.run(case, mesh_collectives.machine(start_up=False))
    real, _ = mesh_collectives.run(case, mesh_collectives.machine(start_up=True))
    assert real > free
