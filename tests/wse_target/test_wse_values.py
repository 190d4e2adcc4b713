"""Programs on the mesh simulator against the meaning of the graph: values, and figures that must hold."""

from functools import cache

import numpy as np
import pytest
from bodies import random_inputs
from tdslc.compiler.build.compare import close, same_bits
from tdslc.compiler.graph import Graph, NDArray, evaluate
from tdslc.compiler.plan import evaluate_plan
from tdslc.targets.wse.simulate import run_passes, started
from tdslc.targets.wse.target import WseMachine
from wse_programs import GRAPHS, fused, machine, perceptron, softmax, unfused

pytest.importorskip("numba")
# Contractions, and all that is rounded once: bit for bit. The others have functions of <math> or long sums in them.
EXACT = ("perceptron", "perceptron of one row", "a wide perceptron", "selections")


@cache
def small(size: str, chip: str = "wse3") -> WseMachine:
    return machine(size, chip)


def check(name: str, m: WseMachine, inputs: dict[str, NDArray], planned: bool = True) -> None:
    graph = GRAPHS[name]
    made = fused(graph, m) if planned else unfused(graph, m)
    got = m.run(m.lower(made), inputs)
    want = evaluate_plan(made, inputs, inputs, contraction=m.contraction)
    agree(name, graph, inputs, m, got, want)


def agree(name: str, graph: Graph, inputs: dict[str, NDArray], m: WseMachine, got: object, want: object) -> None:
    assert isinstance(got, dict)
    wide = evaluate(graph, inputs, inputs, contraction=m.contraction, wide=True)
    for output, right, exact, v in zip(got, want, wide, graph.outputs, strict=True):  # pyright: ignore
        dtype = graph.types[v].dtype
        found = same_bits(got[output], right, dtype) if name in EXACT else close(got[output], right, exact, dtype)
        assert got[output].dtype == right.dtype and not found.fault, (output, str(found.fault))


@pytest.mark.parametrize("size", ["1x1", "2x3", "5x4", "7x1", "1x4"])
@pytest.mark.parametrize("name", GRAPHS)
def test_values_do_not_depend_on_the_rectangle(name: str, size: str) -> None:
    check(name, small(size), random_inputs(GRAPHS[name], seed=len(size)))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_launch_an_op_gives_the_same(name: str) -> None:
    check(name, small("3x2"), random_inputs(GRAPHS[name]), planned=False)


@pytest.mark.parametrize("name", ["perceptron", "softmax", "selections"])
def test_the_other_machine(name: str) -> None:
    check(name, small("3x2", "wse2"), random_inputs(GRAPHS[name]))


@pytest.mark.parametrize("name", ["perceptron", "softmax", "selections"])
def test_nan_infinities_and_zeros_keep_their_meaning(name: str) -> None:
    graph = GRAPHS[name]
    inputs = random_inputs(graph)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    rng = np.random.default_rng(5)
    for n in (*graph.inputs, *graph.params):
        x = inputs[str(n.attr("name"))]
        if x.dtype == np.float32:
            x[rng.random(x.shape) < 0.3] = rng.choice(odd)
            x[..., 0] = rng.choice(odd, x[..., 0].shape)
    check(name, small("3x2"), inputs)


def test_rows_in_passes_give_what_they_give_at_once() -> None:
    graph, m = perceptron(1500), small("1x1")
    program = m.lower(fused(graph, m))
    assert program.shares.passes > 1
    inputs = random_inputs(graph)
    logits, label = evaluate(graph, inputs, inputs, contraction=m.contraction)
    got = m.run(program, inputs)
    assert np.array_equal(got["logits"], logits) and np.array_equal(got["label"], label)


# ---- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", ["1x1", "3x2", "5x4"])
def test_the_estimate_is_near_the_simulation(size: str) -> None:
    graph, m = perceptron(300, 40, 24, 10), small(size)
    made = fused(graph, m)
    (kernel,) = made.steps
    timing = m.time(m.lower(made))
    estimated = kernel.cost.seconds  # pyright: ignore
    assert 0.75 < estimated / timing.kernels[-1].seconds < 1.25


def test_time_is_not_below_the_bound_and_bytes_are_those_of_the_copies() -> None:
    graph, m = perceptron(11), small("4x4")
    made = fused(graph, m)
    program = m.lower(made)
    timing = m.time(program)
    assert timing.seconds >= m.bound(graph).seconds > 0
    assert timing.cycles == round(timing.seconds * m.wafer.clock_ghz * 1e9)
    load, kernel = timing.kernels
    # Weights and biases once, each column of PEs its share: 7 x 2, 2, 5 x 1 and 1 words; no PE has the rest.
    assert (load.bytes_read, load.bytes_written) == (4 * (14 + 2 + 5 + 1) * 4, 0)
    # 3 rows of 2 bytes' words in each of 16 PEs; 3 rows of 1 logit each, and labels from the first column of PEs.
    assert (kernel.bytes_read, kernel.bytes_written) == (16 * 6 * 2, 4 * 4 * 3 * 4 + 4 * 3 * 4)
    assert timing.bytes_read + timing.bytes_written >= m.bound(graph).compulsory_bytes


def test_passes_are_timed_once_and_counted() -> None:
    graph, m = perceptron(1500), small("1x1")
    program = m.lower(fused(graph, m))
    (kernel,) = m.time(program).kernels
    assert kernel.count == program.shares.passes
    run = started(program, m.wafer)
    zeros = {c.name: np.zeros(c.type.shape, c.type.dtype.numpy) for c in program.copies if c.role != "output"}
    for _ in run_passes(run, zeros, program.shares.passes):
        pass
    assert sum(x.cycles for x in run.launches) == round(kernel.seconds * m.wafer.clock_ghz * 1e9)


def test_the_same_program_takes_the_same_cycles() -> None:
    m = small("4x4")
    program = m.lower(fused(softmax(6, 9), m))
    assert m.time(program) == m.time(program)
