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

MACHINE = TARGET.load("v5e")
few = settings(max_examples=8)


def named(graph: Graph) -> Graph:
    return Graph(graph.name, graph.nodes, graph.outputs, tuple(f"y{i}" for i in range(len(graph.outputs))))


def check(graph: Graph, values: dict[str, NDArray]) -> None:
    """The compiled program computes what the graph means; it verifies, prints and parses back, and takes time."""
    planned = plan(graph, MACHINE, PlanOptions())
    program = MACHINE.lower(planned)
    assert MACHINE.verify(program) == []
    assert MACHINE.parse(MACHINE.show(program)) == program
    got = MACHINE.run(program, values)
    for name, wanted in zip(graph.output_names, evaluate(graph, values, contraction=MACHINE.contraction), strict=True):
        assert same_bits(got[name], wanted), name
    assert MACHINE.time(program).seconds >= MACHINE.bound(graph).seconds


@pytest.mark.parametrize("op", sorted(set(OPS) - {"input", "param", "constant"}))
@few
@given(st.data())
def test_one_op(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
    check(named(example.graph()), example.bound())
