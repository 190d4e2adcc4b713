"""JAX functions that the importer's tests lower: small blocks of the networks people bring. Needs JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def arrays(*shapes: tuple[int, ...], seed: int = 0, scale: float = 0.3) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple((rng.standard_normal(s) * scale).astype(np.float32) for s in shapes)


# ---- blocks ------------------------------------------------------------------------------------------


def mlp(x: Any, params: dict[str, Any]) -> Any:
    h = jax.nn.relu(x @ params["w1"] + params["b1"])
    return jax.nn.softmax(jax.nn.gelu(h @ params["w2"] + params["b2"]), axis=-1)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * g + b


def attention(x: Any, wqkv: Any, wo: Any, heads: int, causal: bool = True) -> Any:
    b, s, d = x.shape
    q, k, v = (p.reshape(b, s, heads, d // heads).transpose(0, 2, 1, 3) for p in jnp.split(x @ wqkv, 3, -1))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(d // heads)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -jnp.inf)
    out = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)
    return out.transpose(0, 2, 1, 3).reshape(b, s, d) @ wo


def gpt2_block(x: Any, p: dict[str, Any]) -> Any:
    x = x + attention(layer_norm(x, p["g1"], p["b1"]), p["wqkv"], p["wo"], heads=4)
    h = jax.nn.gelu(layer_norm(x, p["g2"], p["b2"]) @ p["w1"] + p["c1"], approximate=True)
    return x + h @ p["w2"] + p["c2"]


def rms(x: Any, g: Any) -> Any:
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * g


def rope(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 2
    angle = positions[:, None] * (10000.0 ** (-jnp.arange(half) / half))
    cos, sin = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def llama_block(x: Any, p: dict[str, Any]) -> Any:
    """RoPE, grouped queries (4 heads over 2 of keys), SwiGLU."""
    s, d = x.shape
    h = rms(x, p["g1"])
    position = jnp.arange(s)
    q = rope((h @ p["wq"]).reshape(s, 4, d // 4), position)
    k = rope((h @ p["wk"]).reshape(s, 2, d // 4), position)
    v = (h @ p["wv"]).reshape(s, 2, d // 4)
    k, v = jnp.repeat(k, 2, 1), jnp.repeat(v, 2, 1)
    scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(d // 4)
    scores = jnp.where(position[:, None] >= position[None, :], scores, -1e30)
    x = x + jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, -1), v).reshape(s, d) @ p["wo"]
    h = rms(x, p["g2"])
    return x + (jax.nn.silu(h @ p["w1"]) * (h @ p["w3"])) @ p["w2"]


def llama_decode(x: Any, cache_k: Any, cache_v: Any, position: Any, p: dict[str, Any]) -> Any:
    """One token against a KV cache, which it is written into at a position known at run time."""
    n, _, hd = cache_k.shape
    h = rms(x, p["g1"])
    q = rope((h @ p["wq"]).reshape(1, 4, hd), position[None])
    k = rope((h @ p["wk"]).reshape(1, 2, hd), position[None])
    cache_k = lax.dynamic_update_slice(cache_k, k, (position, 0, 0))
    cache_v = lax.dynamic_update_slice(cache_v, (h @ p["wv"]).reshape(1, 2, hd), (position, 0, 0))
    keys, values = jnp.repeat(cache_k, 2, 1), jnp.repeat(cache_v, 2, 1)
    scores = jnp.einsum("qhd,khd->hqk", q, keys) / np.sqrt(hd)
    scores = jnp.where(jnp.arange(n)[None, None] <= position, scores, -1e30)
    out = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, -1), values).reshape(1, -1)
    return x + out @ p["wo"], cache_k, cache_v


def vit_block(image: Any, p: dict[str, Any]) -> Any:
    patches = lax.conv_general_dilated(image, p["patch"], (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    b, h, w, d = patches.shape
    x = jnp.concatenate([jnp.broadcast_to(p["cls"], (b, 1, d)), patches.reshape(b, h * w, d)], 1) + p["pos"]
    x = x + attention(layer_norm(x, p["g1"], p["b1"]), p["wqkv"], p["wo"], heads=4, causal=False)
    return x + jax.nn.gelu(layer_norm(x, p["g2"], p["b2"]) @ p["w1"], approximate=False) @ p["w2"]


def resnet_block(x: Any, p: dict[str, Any]) -> Any:
    dims = ("NHWC", "HWIO", "NHWC")

    def conv(v: Any, w: Any, stride: int) -> Any:
        return lax.conv_general_dilated(v, w, (stride, stride), "SAME", dimension_numbers=dims)

    def norm(v: Any, k: str) -> Any:
        return (v - p[k + "m"]) * lax.rsqrt(p[k + "v"] + 1e-5) * p[k + "g"]

    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    h = jax.nn.relu(norm(conv(x, p["c1"], 2), "n1"))
    return jax.nn.relu(norm(conv(h, p["c2"], 1), "n2") + conv(x, p["down"], 2)).mean((1, 2))


def selective_scan(x: Any, p: dict[str, Any]) -> Any:
    """Mamba's recurrence h' = exp(dt A) h + dt B x, as a scan over time."""
    a = -jnp.exp(p["log_a"])
    dt = jax.nn.softplus(x @ p["w_dt"])
    b, c = x @ p["w_b"], x @ p["w_c"]

    def step(h: Any, row: Any) -> Any:
        dt_t, b_t, c_t, x_t = row
        h = jnp.exp(dt_t[:, None] * a) * h + (dt_t * x_t)[:, None] * b_t[None]
        return h, h @ c_t

    state, y = lax.scan(step, jnp.zeros(a.shape, x.dtype), (dt, b, c, x))
    return y * jax.nn.silu(x @ p["w_z"]), state


def associative(x: Any, gate: Any) -> Any:
    """The same kind of recurrence without a loop."""

    def join(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    return lax.associative_scan(join, (jax.nn.sigmoid(gate), x))[1]


def moe_block(x: Any, p: dict[str, Any]) -> Any:
    """The two best of four experts, by top_k, mixed by a one-hot."""
    gates, picks = lax.top_k(jax.nn.softmax(x @ p["router"]), 2)
    weight = (jax.nn.one_hot(picks, 4) * gates[..., None]).sum(1)
    h = jax.nn.silu(jnp.einsum("td,edf->tef", x, p["up"]))
    return jnp.einsum("te,tef,efd->td", weight, h, p["down"])


def moe_gather(x: Any, p: dict[str, Any]) -> Any:
    """The best expert's weights gathered for each token."""
    pick = jnp.argmax(x @ p["router"], -1)
    return jnp.einsum("td,tdf->tf", x, p["up"][pick])


def embedding(ids: Any, table: Any) -> Any:
    return table[ids] * np.sqrt(table.shape[-1])


def sampled(logits: Any, key: Any) -> Any:
    return jax.random.categorical(key, logits, axis=-1)


def train_step(x: Any, y: Any, p: dict[str, Any]) -> Any:
    def loss(q: dict[str, Any]) -> Any:
        logits = jnp.tanh(x @ q["w1"]) @ q["w2"]
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(x.shape[0]), y])

    value, grads = jax.value_and_grad(loss)(p)
    return value, jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, p, grads)


def newton(x: Any) -> Any:
    """A while whose trip count is data, and a branch."""
    root = lax.while_loop(lambda r: jnp.abs(r * r - x) > 1e-4, lambda r: 0.5 * (r + x / r), x)
    return lax.cond(root > 1.0, lambda r: r - 1.0, lambda r: r * 2.0, root)


def switch(i: Any, x: Any) -> Any:
    return lax.switch(i, [lambda v: v + 1, lambda v: v * 2, lambda v: -v], x)


def sorts(x: Any, y: Any) -> Any:
    order = jnp.lexsort((y, jnp.round(x)))
    return jnp.sort(x), jnp.argsort(y), order, jnp.cumsum(x), jnp.searchsorted(jnp.sort(x), y)


def scatters(x: Any, ids: Any, v: Any) -> Any:
    return x.at[ids].add(v), x.at[ids[0]].set(v[0]), jax.ops.segment_sum(v, ids, 5), x.at[ids].max(v)


def narrow(x: Any, w: Any) -> Any:
    return jnp.tanh(x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16))


def _gpt2() -> Case:
    names = {"wqkv": (32, 96), "wo": (32, 32), "w1": (32, 64), "w2": (64, 32), "c1": (64,), "c2": (32,),
             "g1": (32,), "b1": (32,), "g2": (32,), "b2": (32,)}  # fmt: skip
    (x,) = arrays((2, 6, 32))
    return gpt2_block, (x, _tree(names))


def _tree(names: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    return dict(zip(names, arrays(*names.values(), seed=1), strict=True))


_LLAMA = {"g1": (32,), "g2": (32,), "wq": (32, 32), "wk": (32, 16), "wv": (32, 16), "wo": (32, 32), "w1": (32, 48),
          "w3": (32, 48), "w2": (48, 32)}  # fmt: skip


def _vit() -> Case:
    names = {"patch": (4, 4, 3, 32), "cls": (1, 1, 32), "pos": (1, 17, 32), "wqkv": (32, 96), "wo": (32, 32),
             "w1": (32, 64), "w2": (64, 32), "g1": (32,), "b1": (32,), "g2": (32,), "b2": (32,)}  # fmt: skip
    return vit_block, (*arrays((2, 16, 16, 3)), _tree(names))


def _resnet() -> Case:
    tree = _tree({"c1": (3, 3, 4, 8), "c2": (3, 3, 8, 8), "down": (1, 1, 4, 8), "n1m": (8,), "n1v": (8,), "n1g": (8,),
                  "n2m": (8,), "n2v": (8,), "n2g": (8,)})  # fmt: skip
    tree = {k: np.abs(v) + 0.5 if k.endswith("v") and k[0] == "n" else v for k, v in tree.items()}
    return resnet_block, (*arrays((2, 12, 12, 4)), tree)


def cases() -> dict[str, Callable[[], Case]]:
    """Functions and what to call them with, by name; made when asked for."""
    ids = np.array([1, 3, 3, 0], np.int32)
    return {
        "mlp": lambda: (mlp, (*arrays((3, 8)), _tree({"w1": (8, 16), "b1": (16,), "w2": (16, 5), "b2": (5,)}))),
        "attention": lambda: (partial(attention, heads=4), arrays((2, 7, 32), (32, 96), (32, 32))),
        "gpt2_block": _gpt2,
        "llama_block": lambda: (llama_block, (*arrays((6, 32)), _tree(_LLAMA))),
        "llama_decode": lambda: (llama_decode, (*arrays((1, 32), (10, 2, 8), (10, 2, 8)), np.int32(4), _tree(_LLAMA))),
        "vit_block": _vit,
        "resnet_block": _resnet,
        "selective_scan": lambda: (selective_scan, (*arrays((9, 12)), _tree(
            {"log_a": (12, 4), "w_dt": (12, 12), "w_b": (12, 4), "w_c": (12, 4), "w_z": (12, 12)}))),
        "associative_scan": lambda: (associative, arrays((11, 6), (11, 6))),
        "moe_block": lambda: (moe_block, (*arrays((6, 8)), _tree(
            {"router": (8, 4), "up": (4, 8, 12), "down": (4, 12, 8)}))),
        "moe_gather": lambda: (moe_gather, (*arrays((6, 8)), _tree({"router": (8, 4), "up": (4, 8, 12)}))),
        "embedding": lambda: (embedding, (ids, *arrays((7, 5)))),
        "sampled": lambda: (sampled, (*arrays((5, 7)), np.array([3, 9], np.uint32))),
        "train_step": lambda: (train_step, (*arrays((4, 6)), ids % 3, _tree({"w1": (6, 8), "w2": (8, 3)}))),
        "newton": lambda: (newton, (np.float32(7.0),)),
        "switch": lambda: (switch, (np.int32(2), *arrays((4,)))),
        "sorts": lambda: (sorts, arrays((9,), (9,), scale=3.0)),
        "scatters": lambda: (scatters, (*arrays((5, 3)), ids, *arrays((4, 3), seed=4))),
        "vmapped": lambda: (jax.vmap(lambda v, w: jnp.linalg.norm(v @ w)), arrays((3, 4), (3, 4, 5))),
        "bf16": lambda: (narrow, arrays((4, 8), (8, 6))),
    }  # fmt: skip
