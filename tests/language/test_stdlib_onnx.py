"""The layers of stdlib/onnx.tdsl against their formulas in NumPy, over sizes 0, 1 and primes."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from language.texts import compute
from tdslc.compiler.language import stdlib_composites
from tree import ROOT

RANDOM = np.random.default_rng(12)
SIZES = [(0, 3), (1, 1), (2, 7), (3, 1), (1, 5)]


def floats(*shape: int) -> np.ndarray:
    return (3 * RANDOM.standard_normal(shape)).astype(np.float32)


def run(folder: Path, body: str, like: np.ndarray, **inputs: np.ndarray) -> np.ndarray:
    return compute(folder, f"onnx.{body}", np.asarray(like, np.float32), before="import onnx", **inputs)


def close(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=2e-6)


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "leaky_relu(x)": lambda x: np.where(x < 0, 0.01 * x, x),
    "prelu(x, x)": lambda x: np.where(x < 0, x * x, x),
    "thresholded_relu(x, alpha=0.5)": lambda x: np.where(x > 0.5, x, 0),
    "elu(x, alpha=2.0)": lambda x: np.where(x < 0, 2 * np.expm1(x), x),
    "selu(x)": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "celu(x, alpha=0.7)": lambda x: np.maximum(x, 0) + np.minimum(0.7 * np.expm1(x / 0.7), 0),
    "softplus(x)": lambda x: np.log1p(np.exp(x)),
    "softsign(x)": lambda x: x / (1 + abs(x)),
    "mish(x)": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "hard_sigmoid(x)": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "hard_swish(x)": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "shrink(x, lambd=1.0, bias=0.5)": lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0)),
    "log_softmax(x)": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "l2_norm(x)": lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
}


@pytest.mark.parametrize("call", ACTIVATIONS)
def test_activations(tmp_path: Path, call: str) -> None:
    for shape in SIZES:
        x = floats(*shape)
        want = ACTIVATIONS[call](x.astype(np.float64))
        close(run(tmp_path, call, want, x=x), want)


def test_edges_do_not_overflow(tmp_path: Path) -> None:
    x = np.array([[-np.inf, -1e30, 1e30, np.inf]], np.float32)
    np.testing.assert_array_equal(run(tmp_path, "softplus(x)", x, x=x), np.array([[0, 0, 1e30, np.inf]], np.float32))
    np.testing.assert_array_equal(run(tmp_path, "elu(x)", x, x=x), np.array([[-1, -1, 1e30, np.inf]], np.float32))
    zero = np.zeros((1, 3), np.float32)
    np.testing.assert_array_equal(run(tmp_path, "l2_norm(x)", zero, x=zero), zero)


@pytest.mark.parametrize("shape", [(2, 4, 3), (1, 4, 2, 3), (0, 4, 2), (3, 4)])
def test_norms(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x, gamma, beta = floats(*shape), floats(4), floats(4)
    wide = x.astype(np.float64)
    column = (4, *(1,) * (len(shape) - 2))

    def normal(rows: np.ndarray, axes: tuple[int, ...], eps: float) -> np.ndarray:
        centred = rows - rows.mean(axes, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)

    def scaled(rows: np.ndarray) -> np.ndarray:
        return rows.reshape(shape) * gamma.reshape(column) + beta.reshape(column)

    groups = scaled(normal(wide.reshape(shape[0], 2, 2 * math.prod(shape[2:])), (2,), 1e-5))
    close(run(tmp_path, "group_norm(x, g, b, groups=2)", groups, x=x, g=gamma, b=beta), groups)
    if len(shape) > 2:
        one = scaled(normal(wide.reshape(shape[0], 4, math.prod(shape[2:])), (2,), 1e-5))
        got = run(tmp_path, "instance_norm(x, g, b)", one, x=x, g=gamma, b=beta)
        np.testing.assert_allclose(got, one, rtol=1e-4, atol=1e-4)
    if shape[0]:
        rows = wide.reshape(shape[0], 4, math.prod(shape[2:]))
        every = normal(rows, (0, 2), 1e-15).reshape(shape)
        close(run(tmp_path, "mean_variance_norm(x)", every, x=x), every)


def test_local_response_normalisation(tmp_path: Path) -> None:
    x = floats(2, 5, 3, 2)
    for size in (3, 4):
        near = np.zeros(x.shape)
        for c in range(5):
            first, last = max(0, c - (size - 1) // 2), min(4, c + size // 2)
            near[:, c] = (x[:, first : last + 1].astype(np.float64) ** 2).sum(1)
        want = x / (2 + 0.1 / size * near) ** 0.75
        close(run(tmp_path, f"lrn(x, size={size}, alpha=0.1, bias=2.0)", want, x=x), want)


def test_targets_and_images(tmp_path: Path) -> None:
    index = np.array([[0, 2], [-1, 9]], np.int32)
    want = np.zeros((2, 2, 3))
    want[0, 0, 0] = want[0, 1, 2] = want[1, 0, 2] = 1
    np.testing.assert_array_equal(run(tmp_path, "one_hot(i, 3, f32)", want, i=index), want)
    scores, target = floats(3, 4), np.array([1, 0, 3], np.int32)
    losses = np.log(np.exp(scores.astype(np.float64)).sum(-1)) - scores[np.arange(3), target]
    close(run(tmp_path, "cross_entropy(x, t)", losses, x=scores, t=target), losses)
    x = floats(1, 2, 2, 3)
    want = x.repeat(3, 2).repeat(3, 3)
    np.testing.assert_array_equal(run(tmp_path, "upsample_nearest(x, scale=3)", want, x=x), want)


def test_every_layer_is_tried() -> None:
    """A new `op fn` of the file needs a line here."""
    text = (ROOT / "stdlib" / "onnx.tdsl").read_text(encoding="utf-8")
    made = {line.split("(")[0].removeprefix("op fn ") for line in text.splitlines() if line.startswith("op fn ")}
    tried = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in made if f'"{name}(' not in tried and f"{name}(x" not in tried} == set()
    assert all(stdlib_composites().get(name) or stdlib_composites().get(f"onnx.{name}") for name in made)
