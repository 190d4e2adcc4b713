"""Programs that are wrong while they run, as what is told of them: where, and what waits for what."""

from pathlib import Path

import pytest
from golden import Case, Golden, golden_cases
from tdslc.compiler.source import DiagnosticError, render_all
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.mesh.engines import EngineName
from tdslc.targets.wse.mesh.simulation import Simulation
from wse_case import compiled

MAX_CYCLES = 100_000


@pytest.mark.parametrize("engine", ["reference", "auto"])
@golden_cases("wse/faults")
def test_what_is_told_of_a_run(case: Case, engine: EngineName, golden: Golden, tmp_path: Path) -> None:
    if engine not in case.get("engines", "reference auto").split():
        pytest.skip("the program is for the other engine")
    machine = case.get("machine", "wse3")
    simulation = Simulation(
        compiled(case.input, tmp_path, machine),
        load(machine).value,
        engine=engine,
        max_cycles=int(case.get("budget", str(MAX_CYCLES))),
    )
    with pytest.raises(DiagnosticError) as error:
        _run(simulation, case.all("launch"))
    golden.check(case, render_all(error.value.diagnostics).replace(f"{tmp_path}/", ""))


def _run(simulation: Simulation, launches: list[str]) -> None:
    for name in launches:
        simulation.launch(name)
    simulation.run("commands")
    simulation.run("quiet")
