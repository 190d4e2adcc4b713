"""Every program of tests/wse/programs does on the mesh what its check says."""

import mesh_case
import pytest
from tdslc.targets.wse.chip import machine_names


@pytest.mark.parametrize(
    ("name", "machine"), [(name, machine) for machine in machine_names() for name in mesh_case.names(machine)]
)
def test_a_program_does_what_its_check_says(name: str, machine: str) -> None:
    mesh_case.run_checks(name, machine)


def test_every_program_says_what_it_shows() -> None:
    every = {name for machine in machine_names() for name in mesh_case.names(machine)}
    assert len(every) >= 60
    assert all(mesh_case.check_of(name)["what"].endswith(".") for name in every)
