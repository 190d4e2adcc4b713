"""Lowering's law: the program of a kernel computes what its body means, bit for bit, whatever the grid."""

from __future__ import annotations

from math import prod

import pytest
from bodies import BODIES, matmul_bias_gelu, random_inputs, same_bits
from tdslc.compiler.graph import Graph, evaluate
from tdslc.compiler.graph.dtypes import BF16, F32
from tdslc.compiler.plan.target import Kernel, Plan
from tdslc.targets.mxu import TARGET
from tdslc.targets.mxu.choose import Choice, choose
from tdslc.targets.mxu.emit_kernel import Room, kernel_code
from tdslc.targets.mxu.tiles import Cut, form, regions

MACHINE = TARGET.load("v5e")
CHIPS = ("v4", "v5e", "v6e", "tpu7x")


def one_kernel(body: Graph, choice: Choice) -> Plan:
    """The plan whose only kernel is all of `body`."""
    inputs = tuple(n.out for n in body.inputs)
    return Plan(body, (Kernel("k", body, inputs, body.outputs, choice.cost),))


def check(body: Graph, chip: str = "v5e") -> None:
    machine = TARGET.load(chip)
    choice = choose(body, machine.chip)
    assert isinstance(choice, Choice)
    program = machine.lower(one_kernel(body, choice))
    assert machine.verify(program) == []
    assert machine.parse(machine.show(program)) == program
    values = random_inputs(body)
    got = machine.run(program, values)
    wanted = evaluate(body, values, contraction=machine.contraction)
    for name, array in zip(body.output_names, wanted, strict=True):
        assert same_bits(got[name], array), name
    assert machine.time(program).seconds >= 0


@pytest.mark.parametrize("name", sorted(BODIES))
def test_a_kernel_computes_its_body(name: str) -> None:
    check(BODIES[name]())


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", ["mlp_bf16", "mlp_f32", "attention_bf16"])
def test_on_every_chip(name: str, chip: str) -> None:
    check(BODIES[name](), chip)


@pytest.mark.parametrize("m", [0, 1, 7, 127, 128, 129])
@pytest.mark.parametrize("k", [0, 1, 128, 257])
@pytest.mark.parametrize("n", [1, 129, 640])
@pytest.mark.parametrize("dtype", [BF16, F32])
def test_sizes_around_the_array(m: int, k: int, n: int, dtype: object) -> None:
    check(matmul_bias_gelu(m, k, n, BF16 if dtype == BF16 else F32))


@pytest.mark.parametrize("name", sorted(BODIES))
def test_every_grid_gives_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = BODIES[name]()
    f, chip = form(body), MACHINE.chip
    values = random_inputs(body)
    wanted = evaluate(body, values, contraction=MACHINE.contraction)
    base = choose(body, chip)
    assert isinstance(base, Choice)
    grids = [(Cut(i, t),) for i in f.grid_classes for t in (1, 3, 4) if t < f.cuts.classes[i].steps]
    grids += [(Cut(i, 2), Cut(j, 5)) for i in f.grid_classes for j in f.grid_classes if i != j]
    assert grids
    for grid in grids:
        choice = Choice(grid, regions(f, grid), base.cost, False)
        monkeypatch.setattr("tdslc.targets.mxu.lower.choose", lambda b, c, choice=choice: choice)
        program = MACHINE.lower(one_kernel(body, choice))
        assert MACHINE.verify(program) == []
        got = MACHINE.run(program, values)
        for output, array in zip(body.output_names, wanted, strict=True):
            assert same_bits(got[output], array), (grid, output)


def test_a_larger_product_is_cut_and_near_the_peak() -> None:
    body = matmul_bias_gelu(2048, 2048, 2048, BF16)
    choice = choose(body, MACHINE.chip)
    assert isinstance(choice, Choice) and prod(r.steps for r in choice.regions) > 1
    timing = MACHINE.time(MACHINE.lower(one_kernel(body, choice)))
    assert timing.seconds >= MACHINE.bound(body).seconds
    assert timing.seconds <= 1.35 * MACHINE.bound(body).seconds


def test_kernel_code_stays_in_its_half() -> None:
    body = BODIES["mlp_bf16"]()
    f = form(body)
    choice = choose(body, MACHINE.chip)
    assert isinstance(choice, Choice)
    from tdslc.targets.mxu.choose import matrix_units
    from tdslc.targets.mxu.isa import Address

    homes = {v: Address(0) for v in (*f.origins, *f.body.outputs)}
    code = kernel_code(f, choice.regions, homes, matrix_units(MACHINE.chip), Room(4096, 0), "k")
    assert all(s.address >= 4096 and s.address + s.total_bytes <= code.end for s in code.scratch)
