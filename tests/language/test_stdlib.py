"""Each function of the standard library against a formula in NumPy, over sizes 0, 1 and primes."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from language.texts import compute, load_text
from tdslc.compiler.graph import DTYPES, Graph, TensorType, evaluate, verify
from tdslc.compiler.language import stdlib_composites
from tree import ROOT

RANDOM = np.random.default_rng(11)
SIZES = [(0, 3), (1, 1), (2, 7), (3, 1), (1, 5)]
erf = np.vectorize(math.erf, otypes=[np.float64])


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def nn(
    folder: Path, body: str, like: np.ndarray, params: Mapping[str, np.ndarray] | None = None, **inputs: np.ndarray
) -> np.ndarray:
    return compute(folder, body, np.asarray(like, np.float32), before="import nn\nimport cnn", params=params, **inputs)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + (erf(x / math.sqrt(2)) if x.size else x)) / 2,
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(tmp_path: Path, name: str) -> None:
    for shape in (*SIZES, (), (4,)):
        x = 3 * floats(*shape)
        want = ACTIVATIONS[name](x.astype(np.float64))
        np.testing.assert_allclose(nn(tmp_path, f"nn.{name}(x)", want, x=x), want, rtol=2e-6, atol=1e-6)


def test_relu_keeps_nan(tmp_path: Path) -> None:
    x = np.array([np.nan, -np.inf, np.inf, -1, 2], np.float32)
    np.testing.assert_array_equal(nn(tmp_path, "nn.relu(x)", x, x=x), np.maximum(x, 0))


@pytest.mark.parametrize("shape", SIZES)
def test_softmax_and_norms(tmp_path: Path, shape: tuple[int, int]) -> None:
    x, gamma, beta = floats(*shape), floats(shape[1]), floats(shape[1])
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gamma + beta
    rms = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * gamma
    params = {"weight": gamma, "bias": beta}
    for body, want in (("nn.softmax(x)", softmax(wide)), ("nn.layer_norm(x)", normal), ("nn.rms_norm(x)", rms)):
        got = nn(tmp_path, body, want, params, x=x)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=body)


def test_softmax_of_rows_that_are_all_masked_is_zero(tmp_path: Path) -> None:
    x = np.array([[0, -np.inf, 1], [-np.inf, -np.inf, -np.inf]], np.float32)
    got = nn(tmp_path, "nn.softmax(x)", x, x=x)
    np.testing.assert_allclose(got[0], [1 / (1 + math.e), 0, math.e / (1 + math.e)], rtol=1e-6)
    np.testing.assert_array_equal(got[1], 0)
    mask = np.array([[False, True, True], [False, False, False]])
    y = floats(2, 3)
    got = nn(tmp_path, "nn.masked_softmax(x, mask)", y, x=y, mask=mask)
    np.testing.assert_allclose(got[0], [0, *softmax(y[0, 1:].astype(np.float64))], rtol=1e-6)
    np.testing.assert_array_equal(got[1], 0)


def test_composites_compute_in_f32_and_round_once(tmp_path: Path) -> None:
    x = (40000 + np.arange(4)).astype(DTYPES["bf16"].numpy)
    text = "import nn\nmodel m(x: bf16[4]) -> bf16[4]:\n    return nn.normalize(x, ones([4], bf16), zeros([4], bf16))\n"
    (got,) = evaluate(load_text(tmp_path, text).graph, {"x": x})
    wide = x.astype(np.float64)
    want = (wide - wide.mean()) / np.sqrt(wide.var() + 1e-5)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(DTYPES["bf16"].numpy).astype(np.float32))


def linear(params: Mapping[str, np.ndarray], scope: str, x: np.ndarray) -> np.ndarray:
    return x @ params[f"{scope}.weight"].T.astype(np.float64) + params.get(f"{scope}.bias", np.float32(0))


def weights(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {name.replace("__", "."): floats(*shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("shape", [(5,), (0, 5), (1, 5), (2, 3, 5)])
def test_linear_and_mlps(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    p = weights(weight=(3, 5), bias=(3,))
    want = x @ p["weight"].T + p["bias"]
    np.testing.assert_allclose(nn(tmp_path, "nn.linear(x, 3)", want, p, x=x), want, rtol=1e-4, atol=1e-5)
    p = weights(fc1__weight=(7, 5), fc1__bias=(7,), fc2__weight=(5, 7), fc2__bias=(5,))
    want = linear(p, "fc2", ACTIVATIONS["gelu"](linear(p, "fc1", x)))
    np.testing.assert_allclose(nn(tmp_path, "nn.mlp(x, 7)", want, p, x=x), want, rtol=1e-4, atol=1e-4)
    p = weights(gate_proj__weight=(7, 5), up_proj__weight=(7, 5), down_proj__weight=(5, 7))
    want = linear(p, "down_proj", ACTIVATIONS["silu"](linear(p, "gate_proj", x)) * linear(p, "up_proj", x))
    np.testing.assert_allclose(nn(tmp_path, "nn.swiglu(x, 7)", want, p, x=x), want, rtol=1e-4, atol=1e-4)


def test_embedding(tmp_path: Path) -> None:
    p, ids = weights(weight=(11, 3)), np.array([[0, 10], [3, 3]], np.int32)
    want = p["weight"][ids]
    np.testing.assert_array_equal(nn(tmp_path, "nn.embedding(ids, 11, 3)", want, p, ids=ids), want)
    text = "import nn\ndtype T = bf16\nmodel m(ids: i32[2]) -> bf16[2, 3]:\n    return nn.embedding(ids, 11, 3)\n"
    assert str(load_text(tmp_path, text).graph.params[0].type) == "bf16[11, 3]"


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """[B, H, S, D] each, in f64; queries that may look at nothing give zeros."""
    scores = np.where(allowed, np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1]), -1e30)
    return np.where(allowed.any(-1)[..., None], softmax(scores) @ v, 0)


def heads(x: np.ndarray, count: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


@pytest.mark.parametrize(("batch", "tokens", "count"), [(1, 1, 1), (2, 5, 3), (3, 7, 2)])
def test_self_attention(tmp_path: Path, batch: int, tokens: int, count: int) -> None:
    width = 6
    x, mask = floats(batch, tokens, width), RANDOM.random((batch, tokens)) < 0.7
    mask[-1] = batch == 1  # a sentence of padding alone
    scopes = ("self.query", "self.key", "self.value", "output.dense")
    p = {f"{s}.{n}": floats(*shape) for s in scopes for n, shape in (("weight", (width, width)), ("bias", (width,)))}
    q, k, v = (heads(linear(p, s, x), count) for s in scopes[:3])
    a = attention(q, k, v, np.broadcast_to(mask[:, None, None], (batch, count, tokens, tokens)))
    want = linear(p, "output.dense", a.transpose(0, 2, 1, 3).reshape(batch, tokens, width))
    got = nn(tmp_path, f"nn.self_attention(x, mask, {count})", want, p, x=x, mask=mask)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    got = nn(tmp_path, f"nn.cross_attention(x, x, mask, {count})", want, p, x=x, mask=mask)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def rotated(x: np.ndarray, theta: float) -> np.ndarray:
    """Each pair (i, i + D/2) as a complex number, turned by its angle."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * theta ** (-np.arange(half) / max(half, 1))
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag], -1)


@pytest.mark.parametrize("shape", [(1, 1, 2), (2, 3, 5, 8), (5, 4), (0, 4), (3, 0)])
def test_rotary(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    want = rotated(x.astype(np.float64), 10000.0)
    np.testing.assert_allclose(nn(tmp_path, "nn.rotary(x)", want, x=x), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_grouped_query_attention(tmp_path: Path, causal: bool) -> None:
    x, mask = floats(2, 5, 8), np.array([[True] * 5, [False, True, True, True, False]])
    p = weights(q_proj__weight=(8, 8), k_proj__weight=(4, 8), v_proj__weight=(4, 8), o_proj__weight=(8, 8))
    q, k, v = heads(linear(p, "q_proj", x), 4), heads(linear(p, "k_proj", x), 2), heads(linear(p, "v_proj", x), 2)
    k, v = (np.repeat(t, 2, axis=1) for t in (rotated(k, 500.0), v))
    allowed = np.broadcast_to(mask[:, None, None] & (np.tri(5, dtype=bool) if causal else True), (2, 4, 5, 5))
    want = linear(p, "o_proj", attention(rotated(q, 500.0), k, v, allowed).transpose(0, 2, 1, 3).reshape(2, 5, 8))
    body = f"nn.grouped_query_attention(x, mask, 4, 2, causal={str(causal).lower()}, theta=500)"
    np.testing.assert_allclose(nn(tmp_path, body, want, p, x=x, mask=mask), want, rtol=1e-4, atol=1e-4)


def test_masked_mean(tmp_path: Path) -> None:
    x, mask = floats(2, 3, 5), np.array([[True, False, True], [False, False, False]])
    x[0, 1] = np.nan  # padding may hold anything
    want = np.stack([x[0, [0, 2]].mean(0), np.zeros(5)])
    np.testing.assert_allclose(nn(tmp_path, "nn.masked_mean(x, mask)", want, x=x, mask=mask), want, rtol=1e-6)


def test_convolutions(tmp_path: Path) -> None:
    x = floats(2, 3, 5, 4)
    p = weights(conv__weight=(4, 3, 3, 3), bn__weight=(4,), bn__bias=(4,), bn__running_mean=(4,)) | {
        "bn.running_var": RANDOM.random(4).astype(np.float32)
    }
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)]).astype(np.float64)
    rows = [
        [np.einsum("ncij,ocij->no", padded[:, :, i : i + 3, j : j + 3], p["conv.weight"]) for j in range(4)]
        for i in range(5)
    ]
    conv = np.stack([np.stack(row, -1) for row in rows], 2)
    mean, var, weight, bias = (p[f"bn.{n}"][:, None, None] for n in ("running_mean", "running_var", "weight", "bias"))
    want = np.maximum((conv - mean) / np.sqrt(var + 1e-5) * weight + bias, 0)
    np.testing.assert_allclose(nn(tmp_path, "cnn.conv_block(x, 4)", want, p, x=x), want, rtol=1e-4, atol=1e-4)


def test_pooling(tmp_path: Path) -> None:
    x = floats(1, 2, 5, 4)
    inside = np.ones_like(x)
    pad = [(0, 0), (0, 0), (1, 1), (1, 1)]
    total, count = (np.pad(t, pad) for t in (x, inside))
    cells = [(i, j) for i in range(0, 5, 2) for j in range(0, 4, 2)]
    means = [
        total[..., i : i + 3, j : j + 3].sum((2, 3)) / count[..., i : i + 3, j : j + 3].sum((2, 3)) for i, j in cells
    ]
    want = np.stack(means, -1).reshape(1, 2, 3, 2)
    np.testing.assert_allclose(nn(tmp_path, "cnn.avg_pool(x, 3, 2, pad=1)", want, x=x), want, rtol=1e-5)
    np.testing.assert_allclose(
        nn(tmp_path, "cnn.global_avg_pool(x)", x.mean((2, 3)), x=x), x.mean((2, 3)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(nn(tmp_path, "cnn.global_max_pool(x)", x.max((2, 3)), x=x), x.max((2, 3)))


def test_every_composite_defines_itself() -> None:
    """Rows are complete, and their definitions are well formed for f32, bf16 and f64 at small sizes."""
    elsewhere = (ROOT / "stdlib" / "onnx.tdsl").read_text(encoding="utf-8")  # these have tests of their own
    rows = {name: row for name, row in stdlib_composites().rows.items() if f"op fn {name}(" not in elsewhere}
    assert {"relu", "gelu", "softmax", "normalize", "rms_normalize", "attention", "rotary"} <= rows.keys()
    for name, row in rows.items():
        assert row.doc, name
        for dtype in ("f32", "bf16", "f64"):
            types = tuple(TensorType(DTYPES["bool" if o == "mask" else dtype], _shape(name, o)) for o in row.operands)
            graph = row.define(types, {spec.name: 1.0 for spec in row.attrs})
            assert isinstance(graph, Graph), graph
            assert verify(graph) == []
            assert tuple(n.type for n in graph.inputs) == types
            assert graph.output_types[0].dtype.name == dtype


def _shape(composite: str, operand: str) -> tuple[int, ...]:
    if composite == "attention":
        return (1, 1, 1, 3) if operand == "mask" else (1, 2, 3, 4)
    return (4,) if operand in ("gamma", "beta") else (3, 4)


def test_a_composite_says_why_operands_do_not_fit() -> None:
    row = stdlib_composites().rows["normalize"]
    f32 = DTYPES["f32"]
    got = row.define((TensorType(f32, (3, 4)), TensorType(f32, (5,)), TensorType(f32, (4,))), {"eps": 1e-5})
    assert isinstance(got, str)
    assert "`N` is 4" in got
