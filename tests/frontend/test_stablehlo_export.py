"""Every graph written as StableHLO reads back as what it was."""

from __future__ import annotations

import math

import numpy as np
import pytest
import strategies
from bodies import BODIES, random_inputs
from graph_examples import sample
from hypothesis import HealthCheck, given, settings
from tdslc.compiler.frontend.stablehlo import export, export_text, import_text
from tdslc.compiler.graph import DTYPES, OPS, Builder, Graph, NDArray, TensorType, evaluate, verify
from tdslc.compiler.graph.dtypes import NARROW_FLOATS
from tdslc.compiler.source import DiagnosticError

# Their counterparts are a power and a quotient in f64: at f64 itself the last bit may differ.
ABOUT = {"exp2", "log2"}


def read_back(graph: Graph, bound: dict[str, NDArray]) -> list[tuple[NDArray, NDArray]]:
    """Pairs (of the graph read back, of the graph itself)."""
    again = import_text(export_text(graph)).graph
    assert verify(again) == []
    leaves = [str(n.attr("name")) for n in (*graph.inputs, *graph.params)]
    given = {str(n.attr("name")): bound[name] for n, name in zip(again.inputs, leaves, strict=True)}
    assert again.output_types == graph.output_types
    return list(zip(evaluate(again, given), evaluate(graph, bound, bound), strict=True))


def same(x: NDArray, y: NDArray, exact: bool = True) -> bool:
    """Equal values, NaN being NaN, and zeros of one sign."""
    if x.dtype.kind != "f" and x.dtype not in NARROW_FLOATS:
        return bool(np.array_equal(x, y))
    a, b = x.astype(np.float64), y.astype(np.float64)
    equal = (a == b) & ((a != 0) | (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        close = np.abs(a - b) <= 2e-15 * np.abs(b)
    return bool(np.all(equal | close if not exact else equal))


@pytest.mark.parametrize("op", sorted(set(OPS) - {"input", "param"}))
def test_every_row_comes_back(op: str) -> None:
    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(strategies.examples(op))
    def holds(example: strategies.Example) -> None:
        for got, wanted in read_back(example.graph(), example.bound()):
            assert same(got, wanted, exact=op not in ABOUT)

    holds()


@pytest.mark.parametrize("name", BODIES)
def test_bodies_come_back(name: str) -> None:
    graph = BODIES[name]()
    for got, wanted in read_back(graph, random_inputs(graph)):
        assert same(got, wanted)


def test_a_graph_with_a_loop_a_param_and_composites_comes_back() -> None:
    graph = sample()
    rng = np.random.default_rng(0)
    bound = {
        "x": rng.standard_normal((4, 8)).astype(np.float32),
        "layer.{i}.w": rng.standard_normal((3, 8, 8)).astype(np.float32),
    }
    for got, wanted in read_back(graph, bound):
        assert same(got, wanted)


def test_names_come_back() -> None:
    b = Builder("model")
    x, w = b.input("x", TensorType(DTYPES["f32"], (2,))), b.param("layer.0.w", TensorType(DTYPES["f32"], (2,)))
    text = export_text(b.finish([b.one("add", x, w), x], ["logits", "same"]))
    assert "@main(%x: tensor<2xf32>, %layer.0.w: tensor<2xf32>)" in text
    again = import_text(text, params=["layer.0.w"]).graph
    assert [str(n.attr("name")) for n in (*again.inputs, *again.params)] == ["x", "layer.0.w"]
    assert again.output_names == ("logits", "same")


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, 3.4028235e38, math.inf, -math.inf, math.nan, 0.1, 1e300, -1.5e-8])
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2"])
def test_numbers_are_exact(value: float, dtype: str) -> None:
    b = Builder("number")
    graph = b.finish([b.full(value, DTYPES[dtype], ())])
    ((got, wanted),) = read_back(graph, {})
    assert same(got, wanted)


def test_an_op_without_a_counterpart_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(export.WRITERS, "erf")
    b = Builder("model")
    with pytest.raises(DiagnosticError, match="StableHLO has no counterpart of erf"):
        export_text(b.finish([b.one("erf", b.input("x", TensorType(DTYPES["f32"], (2,))))]))


def test_every_row_has_a_writer() -> None:
    assert sorted(set(OPS) - set(export.WRITERS) - {"input", "param"}) == []
