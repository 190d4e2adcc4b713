"""Every row of the op table runs on mxu: small graphs of one op are planned, lowered, run, and compared bit for bit."""

from __future__ import annotations

import pytest
from bodies import same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples
from tdslc.compiler.graph import OPS, Graph, NDArray, evaluate
from tdslc.compiler.plan.fuse import plan
from tdslc.compiler.plan.target import PlanOptions
from tdslc.targets.mxu import TARGET
from tdslc.targets.mxu.target import MxuMachine

MACHINE = TARGET.load("v5e")
CRAMPED = TARGET.load("v5e", ["mem.vmem_mib=0.0078125"])
few = settings(max_examples=8)


def named(graph: Graph) -> Graph:
    return Graph(graph.name, graph.nodes, graph.outputs, tuple(f"y{i}" for i in range(len(graph.outputs))))


def check(graph: Graph, values: dict[str, NDArray], machine: MxuMachine = MACHINE) -> None:
    """The compiled program computes what the graph means; it verifies, prints and parses back, and takes time."""
    planned = plan(graph, machine, PlanOptions())
    program = machine.lower(planned)
    assert machine.verify(program) == []
    assert machine.parse(machine.show(program)) == program
    got = machine.run(program, values)
    for name, wanted in zip(graph.output_names, evaluate(graph, values, contraction=machine.contraction), strict=True):
        assert same_bits(got[name], wanted), name
    assert machine.time(program).seconds >= machine.bound(graph).seconds


@pytest.mark.parametrize("op", sorted(set(OPS) - {"input", "param", "constant"}))
@few
@given(st.data())
def test_one_op(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
    check(named(example.graph()), example.bound())


@pytest.mark.parametrize("op", sorted(set(OPS) - {"input", "param", "constant"}))
@settings(max_examples=3)
@given(st.data())
def test_one_op_without_room(op: str, data: st.DataObject) -> None:
    """On a chip whose VMEM holds a tile of next to nothing, every op still runs, from main memory if need be."""
    example = data.draw(examples(op))
    check(named(example.graph()), example.bound(), CRAMPED)
