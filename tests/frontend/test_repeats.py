"""Equal blocks one after another become a loop that computes the same bits, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from tdslc.compiler.frontend.canonical import canonical
from tdslc.compiler.frontend.repeats import roll
from tdslc.compiler.frontend.tdsl_writer import write_tdsl
from tdslc.compiler.graph import Builder, Graph, TensorType, dtype, evaluate, verify
from tdslc.compiler.language import load_model

F32 = dtype("f32")
WIDTH = 4


def blocks(count: int, names: str = "layers.{}.weight", scales: bool = False, weights_first: bool = False) -> Graph:
    """tanh(x @ w.T + skip) * scale, `count` times, between other nodes."""
    b = Builder("m")
    x = b.input("x", TensorType(F32, (3, WIDTH)))
    skip = b.one("neg", x)
    made = [b.param(names.format(i), TensorType(F32, (WIDTH, WIDTH))) for i in range(count)] if weights_first else []
    turned = [b.one("transpose", w, perm=(1, 0)) for w in made]
    for i in range(count):
        own = made[i] if made else b.param(names.format(i), TensorType(F32, (WIDTH, WIDTH)))
        w = turned[i] if made else b.one("transpose", own, perm=(1, 0))
        h = b.one("add", b.one("matmul", x, w), skip)
        scale = b.full(0.5 + i if scales else 0.5, F32, (3, WIDTH))
        x = b.one("mul", b.one("tanh", b.one("abs", b.one("sub", h, skip))), scale)
    return b.finish([b.one("exp", x)], ["y"])


def weights(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {str(n.attr("name")): rng.standard_normal(n.type.shape).astype(np.float32) for n in graph.params}


def loops(graph: Graph) -> list[int]:
    return [int(n.attr("n")) for n in graph.nodes if n.op == "loop"]  # type: ignore[arg-type]


def check(graph: Graph, trips: list[int], tmp_path) -> tuple[Graph, dict[str, np.ndarray]]:
    """`graph` rolled has loops of `trips`, computes the same bits, and can be written."""
    params = weights(graph)
    rolled, stacked = roll(graph, params)
    assert verify(rolled) == []
    assert loops(rolled) == trips
    x = {"x": np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(3, WIDTH)}
    for before, after in zip(evaluate(graph, x, params), evaluate(rolled, x, stacked), strict=True):
        np.testing.assert_array_equal(before, after)
    path = tmp_path / "m.tdsl"
    path.write_text(write_tdsl(rolled))
    assert canonical(load_model(path).graph) == canonical(rolled)
    return rolled, stacked


def test_numbered_layers_keep_their_names(tmp_path):
    rolled, stacked = check(blocks(5), [5], tmp_path)
    assert list(stacked) == ["layers.{i}.weight"]
    assert [n.attr("stack") for n in rolled.params] == [5]
    assert "repeat i1 in range(5):" in (tmp_path / "m.tdsl").read_text()
    assert load_model(tmp_path / "m.tdsl").param_names == tuple(f"layers.{i}.weight" for i in range(5))


@pytest.mark.parametrize("names", ["w_{}", "onnx_MatMul_9{}", "a.x{}"])
def test_other_names_are_replaced(names, tmp_path):
    _, stacked = check(blocks(4, names), [4], tmp_path)
    assert [name.startswith("block.{i}.") for name in stacked] == [True]


def test_numbers_may_differ_from_block_to_block(tmp_path):
    check(blocks(4, scales=True), [4], tmp_path)


def test_weights_may_be_prepared_before_all_blocks(tmp_path):
    check(blocks(4, weights_first=True), [4], tmp_path)


def test_two_blocks_are_no_loop(tmp_path):
    check(blocks(2), [], tmp_path)


def test_a_block_that_is_read_later_ends_the_run(tmp_path):
    b = Builder("m")
    x = first = b.input("x", TensorType(F32, (3, WIDTH)))
    for i in range(6):
        w = b.param(f"l.{i}.w", TensorType(F32, (WIDTH, WIDTH)))
        x = b.one("tanh", b.one("exp", b.one("neg", b.one("abs", b.one("sin", b.one("matmul", x, w))))))
        first = x if i == 0 else first
    check(b.finish([b.one("add", x, first)], ["y"]), [5], tmp_path)


def test_chains_without_contractions_stay(tmp_path):
    b = Builder("m")
    x = b.input("x", TensorType(F32, (3, WIDTH)))
    for _ in range(40):
        x = b.one("sin", b.one("abs", x))
    check(b.finish([x], ["y"]), [], tmp_path)
