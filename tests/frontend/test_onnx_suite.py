"""ONNX's own backend tests: tier A, whole, in the evaluator and on mxu:v5e. `bench/conformance.py` runs the others."""

from __future__ import annotations

import sys
import warnings

import pytest
from tree import ROOT

pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")
pytestmark = pytest.mark.filterwarnings("ignore")  # the suite makes its cases with divisions by zero


@pytest.fixture(scope="module")
def suite():
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import onnx_suite
    finally:
        sys.path.pop(0)
    return onnx_suite


@pytest.fixture(scope="module")
def cases(suite):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [c for c in suite.node_cases() if "_expanded" not in c.name]
        made += [*suite.stored_cases("pytorch-converted"), *suite.stored_cases("pytorch-operator")]
    return [c for c in made if suite.tier(c)[0] == "A"]


def bad(suite, cases, machine=None):
    return [f"{o.name}: {o.status}: {o.reason}" for _, o in suite.outcomes(cases, machine) if o.status != "passed"]


def test_tier_a_in_the_evaluator(suite, cases):
    assert len(cases) > 900
    assert bad(suite, cases) == []


def test_tier_a_on_mxu(suite, cases):
    assert bad(suite, cases, suite.Machine("mxu:v5e")) == []
