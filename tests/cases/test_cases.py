"""Public faults of other compilers, as written and compiled: each case, and laws for the whole kind of some."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import neutral
import pytest
from tdslc.compiler.graph import NO_COMPOSITES, Builder, DType, Graph, TensorType, evaluate, verify
from tdslc.compiler.graph.dtypes import BF16, F32
from tdslc.compiler.plan import optimise, plan
from tdslc.compiler.plan.target import Kernel, Plan, PlanOptions
from tdslc.compiler.rewrite import Budget, Worker, builtin_rules, load_rules
from tdslc.targets.mxu import TARGET
from tdslc.targets.mxu.choose import Choice, choose
from tdslc.targets.mxu.tiles import Cut, form, regions

MACHINE = TARGET.load("v5e")
CASES = neutral.load()
every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    search = Worker()
    search.start()
    yield search
    search.stop()


@every_case
def test_as_written(case: neutral.Case) -> None:
    assert verify(case.graph) == []
    got = evaluate(case.graph, case.inputs)
    assert case.wrong(dict(zip(case.graph.output_names, got, strict=True))) == []


def _compiled(graph: Graph, case: neutral.Case) -> list[str]:
    program = MACHINE.lower(plan(graph, MACHINE, PlanOptions()))
    assert MACHINE.verify(program) == []
    assert MACHINE.time(program).seconds >= 0
    return case.wrong(MACHINE.run(program, case.inputs))


@every_case
def test_compiled_as_written(case: neutral.Case) -> None:
    assert _compiled(case.graph, case) == []


@every_case
@pytest.mark.parametrize("numerics", ["exact", "reassoc"])
def test_compiled_after_the_search(case: neutral.Case, numerics: str, worker: Worker) -> None:
    rules = load_rules([*builtin_rules(), *MACHINE.rule_files], numerics, ())  # type: ignore[arg-type]
    best = optimise(case.graph, lambda g: worker.saturate(g, rules, NO_COMPOSITES, Budget()), MACHINE, PlanOptions())
    assert _compiled(best.graph, case) == []


# ---- dev-12: cycles of small products --------------------------------------------------------------


def _product(m: int, k: int, n: int, d: DType) -> Graph:
    b = Builder("product")
    x, y = b.input("a", TensorType(d, (m, k))), b.input("b", TensorType(d, (k, n)))
    return b.finish([b.one("matmul", x, y)], ["y"])


def _cycles(m: int, k: int, n: int, d: DType) -> float:
    return MACHINE.time(MACHINE.lower(plan(_product(m, k, n, d), MACHINE, PlanOptions()))).cycles


@pytest.mark.parametrize("d", [BF16, F32])
def test_cycles_of_products(d: DType) -> None:
    """At least the products over all elements of the units; more for more of any dimension."""
    units = MACHINE.chip.mxu.count * MACHINE.chip.mxu.size**2
    sizes = [(1, 1, 1), (5, 1, 2), (4, 4, 4), (127, 128, 129), (1, 768, 256), (256, 768, 256)]
    for m, k, n in sizes:
        cycles = _cycles(m, k, n, d)
        assert cycles > 0 and cycles >= ceil(m * k * n / units)
        assert all(_cycles(m + i, k + j, n + h, d) >= cycles for i, j, h in ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    assert _cycles(1, 768, 256, d) < _cycles(256, 768, 256, d)


def test_edge_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grid that the case forces: tiles of 4 rows and 2 columns of a product with 5 rows."""
    case = next(c for c in CASES if "force" in c.more)
    rows, columns, _ = case.more["force"]["tile"]
    body = case.graph
    f, base = form(body), choose(body, MACHINE.chip)
    assert isinstance(base, Choice)
    (y,) = f.body.outputs
    at = [f.cuts.of[y, axis] for axis in (0, 1)]
    grid = tuple(
        Cut(cls, tile) for cls, tile in zip(at, (rows, columns), strict=True) if tile < f.cuts.classes[cls].steps
    )
    forced = Choice(grid, regions(f, grid), base.cost, False)
    monkeypatch.setattr("tdslc.targets.mxu.lower.choose", lambda b, c: forced)
    kernel = Kernel("k", body, tuple(n.out for n in body.inputs), body.outputs, base.cost)
    program = MACHINE.lower(Plan(body, (kernel,)))
    assert grid and case.wrong(MACHINE.run(program, case.inputs)) == []
