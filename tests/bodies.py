"""Kernel bodies that tests of tiling, lowering and simulation share: each is a function of its sizes and dtype."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tdslc.compiler.graph import Builder, DType, Graph, NDArray, TensorType
from tdslc.compiler.graph.dtypes import BF16, F32, I32


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, NDArray]:
    """Seeded values for a graph's inputs and params, by name: floats near 1, small integers."""
    rng = np.random.default_rng(seed)
    found: dict[str, NDArray] = {}
    for n in (*graph.inputs, *graph.params):
        shape = tuple(map(int, n.type.shape))
        values = rng.standard_normal(shape) if n.type.dtype.is_float else rng.integers(0, 5, shape)
        found[str(n.attr("name"))] = np.asarray(values).astype(n.type.dtype.numpy)
    return found


def same_bits(got: NDArray, wanted: NDArray) -> bool:
    """Whether two arrays have one dtype, one shape and the same bytes."""
    return (
        got.dtype == wanted.dtype
        and got.shape == wanted.shape
        and got.tobytes() == np.ascontiguousarray(wanted).tobytes()
    )


def row(b: Builder, v: int, shape: tuple[int, ...]) -> int:
    """`v` along the last axis of `shape`."""
    return b.one("broadcast", v, shape=shape, dims=(len(shape) - 1,))


def matmul_bias_gelu(m: int, k: int, n: int, dtype: DType) -> Graph:
    b = Builder("mlp")
    x, w = b.input("x", TensorType(dtype, (m, k))), b.input("w", TensorType(dtype, (k, n)))
    bias = b.input("b", TensorType(dtype, (n,)))
    y = b.one("add", b.one("matmul", x, w), row(b, bias, (m, n)))
    f = y if dtype == F32 else b.one("convert", y, dtype=F32)
    e = b.one("erf", b.one("mul", f, b.full(0.7071067811865476, F32, (m, n))))
    g = b.one("mul", b.one("mul", f, b.full(0.5, F32, (m, n))), b.one("add", e, b.full(1.0, F32, (m, n))))
    return b.finish([g if dtype == F32 else b.one("convert", g, dtype=dtype)], ["y"])


def softmax_rows(m: int, n: int, dtype: DType) -> Graph:
    b = Builder("softmax")
    x = b.input("x", TensorType(dtype, (m, n)))
    f = x if dtype == F32 else b.one("convert", x, dtype=F32)
    top = b.one("broadcast", b.one("reduce_max", f, axes=(1,)), shape=(m, n), dims=(0,))
    e = b.one("exp", b.one("sub", f, top))
    total = b.one("broadcast", b.one("reduce_sum", e, axes=(1,)), shape=(m, n), dims=(0,))
    p = b.one("div", e, total)
    return b.finish([p if dtype == F32 else b.one("convert", p, dtype=dtype)], ["y"])


def attention(batch: int, s: int, heads: int, d: int, dtype: DType) -> Graph:
    """From a merged [B, S, 3*H*D] projection to [B, S, H*D]."""
    b = Builder("attention")
    width = heads * d
    qkv = b.input("qkv", TensorType(dtype, (batch, s, 3 * width)))

    def head(i: int) -> int:
        part = b.one("slice", qkv, starts=(0, 0, i * width), stops=(batch, s, (i + 1) * width), steps=(1, 1, 1))
        return b.one("transpose", b.one("reshape", part, shape=(batch, s, heads, d)), perm=(0, 2, 1, 3))

    q, k, v = head(0), head(1), head(2)
    shape = (batch, heads, s, s)
    scores = b.one("matmul", q, b.one("transpose", k, perm=(0, 1, 3, 2)))
    f = scores if dtype == F32 else b.one("convert", scores, dtype=F32)
    top = b.one("broadcast", b.one("reduce_max", f, axes=(3,)), shape=shape, dims=(0, 1, 2))
    e = b.one("exp", b.one("sub", f, top))
    total = b.one("broadcast", b.one("reduce_sum", e, axes=(3,)), shape=shape, dims=(0, 1, 2))
    p = b.one("div", e, total)
    p = p if dtype == F32 else b.one("convert", p, dtype=dtype)
    out = b.one("transpose", b.one("matmul", p, v), perm=(0, 2, 1, 3))
    return b.finish([b.one("reshape", out, shape=(batch, s, width))], ["y"])


def residual_norm(m: int, k: int, n: int, dtype: DType) -> Graph:
    """x @ w + r, and its rows normalised: two outputs."""
    b = Builder("residual_norm")
    x, w = b.input("x", TensorType(dtype, (m, k))), b.input("w", TensorType(dtype, (k, n)))
    r = b.input("r", TensorType(dtype, (m, n)))
    y = b.one("add", b.one("matmul", x, w), r)
    f = y if dtype == F32 else b.one("convert", y, dtype=F32)
    count = b.full(float(max(n, 1)), F32, (m,))
    mean = b.one("div", b.one("reduce_sum", f, axes=(1,)), count)
    c = b.one("sub", f, b.one("broadcast", mean, shape=(m, n), dims=(0,)))
    var = b.one("div", b.one("reduce_sum", b.one("mul", c, c), axes=(1,)), count)
    inv = b.one("rsqrt", b.one("add", var, b.full(1e-5, F32, (m,))))
    z = b.one("mul", c, b.one("broadcast", inv, shape=(m, n), dims=(0,)))
    return b.finish([y, z if dtype == F32 else b.one("convert", z, dtype=dtype)], ["y", "z"])


def embedding(rows: int, vocabulary: int, width: int, dtype: DType) -> Graph:
    b = Builder("embedding")
    ids = b.input("ids", TensorType(I32, (rows,)))
    table = b.input("table", TensorType(dtype, (vocabulary, width)))
    place = b.input("place", TensorType(dtype, (rows, width)))
    return b.finish([b.one("add", b.one("take", table, ids, axis=0), place)], ["y"])


def matmul_chain(m: int, k: int, n: int, dtype: DType) -> Graph:
    """(x @ a) @ b without anything between, the second weight turned."""
    b = Builder("chain")
    x, a = b.input("x", TensorType(dtype, (m, k))), b.input("a", TensorType(dtype, (k, n)))
    c = b.input("c", TensorType(dtype, (m, n)))
    y = b.one("matmul", x, a)
    return b.finish([b.one("matmul", y, b.one("transpose", c, perm=(1, 0)))], ["y"])


def convolution(batch: int, size: int, channels: int, out: int, groups: int, dtype: DType) -> Graph:
    b = Builder("conv")
    x = b.input("x", TensorType(dtype, (batch, channels, size, size)))
    w = b.input("w", TensorType(dtype, (out, channels // groups, 3, 3)))
    attrs = {"strides": (2, 1), "low": (1, 0), "high": (1, 2), "dilations": (1, 2), "groups": groups}
    y = b.one("conv", x, w, **attrs)
    zero = b.full(0, dtype, b.types[y].shape)
    return b.finish([b.one("max", y, zero)], ["y"])


BODIES: dict[str, Callable[[], Graph]] = {
    "mlp_bf16": lambda: matmul_bias_gelu(24, 40, 48, BF16),
    "mlp_f32": lambda: matmul_bias_gelu(13, 130, 12, F32),
    "softmax_f32": lambda: softmax_rows(12, 31, F32),
    "softmax_bf16": lambda: softmax_rows(9, 130, BF16),
    "attention_bf16": lambda: attention(2, 9, 3, 8, BF16),
    "attention_f32": lambda: attention(2, 6, 2, 16, F32),
    "norm_bf16": lambda: residual_norm(12, 33, 20, BF16),
    "norm_f32": lambda: residual_norm(10, 8, 9, F32),
    "embedding": lambda: embedding(12, 30, 16, BF16),
    "chain_bf16": lambda: matmul_chain(8, 20, 12, BF16),
    "chain_f32": lambda: matmul_chain(8, 20, 12, F32),
    "conv": lambda: convolution(2, 8, 4, 6, 1, BF16),
    "conv_grouped": lambda: convolution(2, 7, 4, 6, 2, F32),
}
