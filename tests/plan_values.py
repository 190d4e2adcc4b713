"""Random values for a graph's leaves, and the law that plans keep values."""

import numpy as np
from tdslc.compiler.graph import Graph, evaluate
from tdslc.compiler.plan import evaluate_plan, parse_plan, show_plan, verify_plan
from tdslc.compiler.plan.target import Plan


def leaf_values(graph: Graph, seed: int = 0) -> tuple[dict, dict]:
    """(inputs, params) by name: small floats, small integers, bools."""
    rng = np.random.default_rng(seed)

    def draw(t):
        shape = tuple(map(int, t.shape))
        if t.dtype.is_float:
            return rng.standard_normal(shape).astype(t.dtype.numpy)
        return rng.integers(0, 2, shape).astype(t.dtype.numpy)

    return tuple({str(n.attr("name")): draw(n.type) for n in leaves} for leaves in (graph.inputs, graph.params))


def same_bits(a, b) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def assert_sound(made: Plan, model: Graph) -> None:
    """A plan of `model` is well formed, prints and parses back, and gives its values bit for bit."""
    assert verify_plan(made) == []
    text = show_plan(made)
    assert parse_plan(text) == made
    assert show_plan(parse_plan(text)) == text
    inputs, params = leaf_values(model)
    right, got = evaluate(model, inputs, params), evaluate_plan(made, inputs, params)
    assert all(same_bits(np.asarray(a), np.asarray(b)) for a, b in zip(right, got, strict=True))
