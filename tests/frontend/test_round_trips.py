"""Graphs written in each format of the project read back as graphs that compute the same."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from tdslc.compiler.frontend.round_trip import difference, through_text
from tdslc.compiler.frontend.stablehlo import export_text, import_text
from tdslc.compiler.graph import Builder, Graph, NDArray, TensorType, dtype, evaluate, verify
from tree import ROOT

# Every so manieth case of ONNX's own tests; `bench/round_trips.py` takes them all.
SAMPLED = 6
MANY = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def equal(again: Graph, graph: Graph, values: dict[str, NDArray], params: dict[str, NDArray] | None = None) -> None:
    """`again` gives what `graph` does, of inputs in the same order, zeros of either sign being equal."""
    assert verify(again) == []
    assert again.output_types == graph.output_types
    names = [str(n.attr("name")) for n in graph.inputs]
    given = {str(n.attr("name")): values[name] for n, name in zip(again.inputs, names, strict=True)}
    for got, want in zip(evaluate(again, given, params), evaluate(graph, values), strict=True):
        np.testing.assert_array_equal(got, want)


@MANY
@given(strategies.programs())
def test_tdsl(program):
    graph, _ = program
    named = Graph(graph.name, graph.nodes, graph.outputs, tuple(f"y{i}" for i in range(len(graph.outputs))))
    assert difference(through_text(named), named) == ""


@MANY
@given(strategies.programs())
def test_stablehlo(program):
    graph, values = program
    equal(import_text(export_text(graph)).graph, graph, values)


@MANY
@given(strategies.programs())
def test_onnx(program):
    pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")
    from tdslc.compiler.frontend.onnx import export_model, import_model

    graph, values = program
    made = import_model(export_model(graph))
    equal(made.graph, graph, values, made.params)


def test_a_difference_is_told():
    def made(op: str) -> Graph:
        b = Builder("m")
        return b.finish([b.one(op, b.input("x", TensorType(dtype("f32"), (2,))))], ["y"])

    assert difference(made("neg"), made("neg")) == ""
    assert difference(made("neg"), made("abs")) == "%1 = neg(%0) : f32[2] | %1 = abs(%0) : f32[2]"


# ---- ONNX's own tests ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trips():
    pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import round_trips
    finally:
        sys.path.pop(0)
    return round_trips


@pytest.fixture(scope="module")
def samples(trips):
    suite = trips.suite
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite makes its cases with divisions by zero
        cases = [*suite.node_cases(), *suite.stored_cases("pytorch-converted")]
        return list(trips.samples([c for c in cases if suite.tier(c)[0] == "A"][::SAMPLED]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["tdsl", "stablehlo", "onnx", "onnxruntime"])
def test_cases_come_back_from(way, trips, samples):
    if way == "onnxruntime":
        pytest.importorskip("onnxruntime", reason="runs the models that are exported")
    assert len(samples) > 150
    found = {s.case.name: trips.outcome(s, way) for s in samples}
    assert {name: said for name, said in found.items() if said not in ("", trips.NO_KERNEL)} == {}
