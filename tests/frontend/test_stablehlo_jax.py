"""JAX's own functions and jaxlib's own parser against ours. Skipped where JAX is not installed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import strategies
from bodies import BODIES
from hypothesis import HealthCheck, given, settings
from stablehlo_texts import CONTROL, REGIONS, SMALL
from tdslc.compiler.frontend.canonical import canonical
from tdslc.compiler.frontend.stablehlo import export_text, import_text
from tdslc.compiler.frontend.tdsl_writer import write_tdsl
from tdslc.compiler.graph import OPS, Graph, evaluate, show, verify
from tdslc.compiler.language import load_model

jax = pytest.importorskip("jax", reason="needs JAX: pip install 'tdslc[jax]'")

# JAX warns of what it will change in its own next versions.
pytestmark = pytest.mark.filterwarnings("default")

import jax_models  # noqa: E402 - it imports jax
from tdslc.compiler.frontend.jax import from_jax  # noqa: E402

CASES = jax_models.cases()


def plain(graph: Graph) -> str:
    """A graph's text without places."""
    return re.sub(r' @"[^"]*"', "", show(graph))


@pytest.mark.parametrize("name", CASES)
def test_a_function_computes_what_jax_computes(name: str) -> None:
    fn, args = CASES[name]()
    graph = from_jax(fn, *args)
    assert verify(graph) == []
    leaves = jax.tree_util.tree_leaves(args)
    bound = {str(n.attr("name")): np.asarray(v) for n, v in zip(graph.inputs, leaves, strict=True)}
    wanted = jax.tree_util.tree_leaves(jax.jit(fn)(*args))
    for got, value in zip(evaluate(graph, bound), wanted, strict=True):
        expected = np.asarray(value)
        assert got.dtype == expected.dtype and got.shape == expected.shape
        np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=2e-5, atol=5e-6)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"newton", "switch"}))  # these branch on data
def test_a_function_is_written_as_tdsl_and_read_again(name: str, tmp_path: Path) -> None:
    fn, args = CASES[name]()
    graph = from_jax(fn, *args)
    path = tmp_path / "model.tdsl"
    path.write_text(write_tdsl(graph))
    assert canonical(load_model(str(path), {}, {}, None).graph) == canonical(graph)


def test_loops_of_scans_have_rows_and_stacks() -> None:
    fn, args = CASES["selective_scan"]()
    loops = [n for n in from_jax(fn, *args).nodes if n.op == "loop"]
    assert [(n.attr("n"), n.attr("carry"), n.attr("xs")) for n in loops] == [(9, 1, 4)]


def test_leaves_of_chosen_arguments_become_params() -> None:
    fn, args = CASES["mlp"]()
    graph = from_jax(fn, *args, param_argnums=(1,))
    assert [str(n.attr("name")) for n in graph.inputs] == ["x"]
    assert [str(n.attr("name")) for n in graph.params] == ["params.b1", "params.b2", "params.w1", "params.w2"]


def parsed(text: str) -> str:
    """`text` as jaxlib reads and prints it, in the generic form."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        return str(module.operation.get_asm(print_generic_op_form=True))


@pytest.mark.parametrize("text", [SMALL, CONTROL, REGIONS], ids=["small", "control", "regions"])
def test_our_reader_reads_what_jaxlib_reads(text: str) -> None:
    mine, theirs = plain(import_text(text).graph), plain(import_text(parsed(text)).graph)
    names = r'name="[^"]*"'
    assert re.sub(names, "", mine) == re.sub(names, "", theirs)


@pytest.mark.parametrize("op", sorted(OPS))
def test_jaxlib_accepts_what_we_write(op: str) -> None:
    @settings(max_examples=4, suppress_health_check=list(HealthCheck))
    @given(strategies.examples(op))
    def holds(example: strategies.Example) -> None:
        parsed(export_text(example.graph()))

    holds()


@pytest.mark.parametrize("name", BODIES)
def test_jaxlib_accepts_whole_bodies(name: str) -> None:
    parsed(export_text(BODIES[name]()))
