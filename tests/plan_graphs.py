"""Graphs that the tests of planning share."""

from collections.abc import Sequence

from tdslc.compiler.graph import DTYPES, Builder, Graph, TensorType

F32, I32, BOOL = DTYPES["f32"], DTYPES["i32"], DTYPES["bool"]


def t(*shape: int, dtype=F32) -> TensorType:
    return TensorType(dtype, shape)


def row(b: Builder, value: int, shape: Sequence[int]) -> int:
    """A vector along the last axis."""
    return b.one("broadcast", value, shape=tuple(shape), dims=(len(shape) - 1,))


def column(b: Builder, value: int, shape: Sequence[int]) -> int:
    """A value without the last axis, repeated along it."""
    return b.one("broadcast", value, shape=tuple(shape), dims=tuple(range(len(shape) - 1)))


def scalar(b: Builder, value: float, shape: Sequence[int]) -> int:
    return b.full(value, F32, shape)


def gelu(b: Builder, x: int) -> int:
    """x/2 (1 + erf(x/√2)) in primitive ops."""
    shape = b.types[x].shape
    e = b.one("erf", b.one("mul", x, scalar(b, 0.5**0.5, shape)))
    return b.one("mul", b.one("mul", x, scalar(b, 0.5, shape)), b.one("add", e, scalar(b, 1.0, shape)))


def softmax(b: Builder, x: int) -> int:
    """Over the last axis, in primitive ops."""
    shape = b.types[x].shape
    axes = (len(shape) - 1,)
    e = b.one("exp", b.one("sub", x, column(b, b.one("reduce_max", x, axes=axes), shape)))
    return b.one("div", e, column(b, b.one("reduce_sum", e, axes=axes), shape))


def layer_norm(b: Builder, x: int, gamma: int, beta: int) -> int:
    """Over the last axis, in primitive ops."""
    shape = b.types[x].shape
    axes = (len(shape) - 1,)
    share = scalar(b, 1.0 / shape[-1], shape[:-1])
    c = b.one("sub", x, column(b, b.one("mul", b.one("reduce_sum", x, axes=axes), share), shape))
    v = b.one("mul", b.one("reduce_sum", b.one("mul", c, c), axes=axes), share)
    r = b.one("rsqrt", b.one("add", v, scalar(b, 1e-5, shape[:-1])))
    return b.one("add", b.one("mul", b.one("mul", c, column(b, r, shape)), row(b, gamma, shape)), row(b, beta, shape))


def linear(b: Builder, x: int, w: int, bias: int) -> int:
    """x @ wᵀ + bias, with w[out, in] as PyTorch keeps it."""
    y = b.one("matmul", x, b.one("transpose", w, perm=(1, 0)))
    return b.one("add", y, row(b, bias, b.types[y].shape))


def mlp() -> Graph:
    """gelu(x @ w + b)."""
    b = Builder("mlp")
    x, w, bias = b.input("x", t(128, 256)), b.param("w", t(256, 1024)), b.param("b", t(1024))
    y = b.one("matmul", x, w)
    return b.finish([gelu(b, b.one("add", y, row(b, bias, (128, 1024))))], ["y"])


def heads(b: Builder, x: int, count: int) -> int:
    """[S, D] as [count, S, D / count]."""
    s, d = b.types[x].shape
    return b.one("transpose", b.one("reshape", x, shape=(s, count, d // count)), perm=(1, 0, 2))


_WEIGHTS = {
    "q.w": (0, 0),
    "q.b": (0,),
    "k.w": (0, 0),
    "k.b": (0,),
    "v.w": (0, 0),
    "v.b": (0,),
    "o.w": (0, 0),
    "o.b": (0,),
    "ln1.w": (0,),
    "ln1.b": (0,),
    "up.w": (4, 0),
    "up.b": (4,),
    "down.w": (0, 4),
    "down.b": (0,),
    "ln2.w": (0,),
    "ln2.b": (0,),
}  # 0 is the model's width, 4 four times it


def encoder_layer(b: Builder, x: int, w: dict[str, int], count: int) -> int:
    s, d = b.types[x].shape
    q, k, v = (heads(b, linear(b, x, w[f"{n}.w"], w[f"{n}.b"]), count) for n in "qkv")
    scores = b.one("matmul", q, b.one("transpose", k, perm=(0, 2, 1)))
    scores = b.one("mul", scores, scalar(b, (d // count) ** -0.5, b.types[scores].shape))
    a = b.one("matmul", softmax(b, scores), v)
    a = b.one("reshape", b.one("transpose", a, perm=(1, 0, 2)), shape=(s, d))
    x = layer_norm(b, b.one("add", x, linear(b, a, w["o.w"], w["o.b"])), w["ln1.w"], w["ln1.b"])
    h = linear(b, gelu(b, linear(b, x, w["up.w"], w["up.b"])), w["down.w"], w["down.b"])
    return layer_norm(b, b.one("add", x, h), w["ln2.w"], w["ln2.b"])


def encoder(layers: int = 3, s: int = 16, d: int = 32, count: int = 4) -> Graph:
    """A transformer encoder whose layers are a loop over stacked weights."""
    shapes = {n: tuple(d if k == 0 else k * d for k in shape) for n, shape in _WEIGHTS.items()}
    body = Builder("layer")
    body.input("i", t(dtype=I32))
    x = body.input("x", t(s, d))
    w = {n: body.input(n, t(*shape)) for n, shape in shapes.items()}
    region = body.finish([encoder_layer(body, x, w, count)])
    b = Builder("encoder")
    x = b.input("x", t(s, d))
    stacked = [b.param(f"layer.{{i}}.{n}", t(layers, *shape), stack=layers) for n, shape in shapes.items()]
    attrs = {"n": layers, "carry": 1, "xs": len(stacked)}
    (y,) = b.add("loop", [x, *stacked], attrs, regions=(region,), loc="encoder.tdsl:9:5")
    return b.finish([b.one("reshape", y, shape=(1, s, d))], ["y"])
