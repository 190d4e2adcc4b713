"""Graphs that the rewrite tests search: a transformer layer as the standard library spells one, and small ones."""

import math

from tdslc.compiler.graph import Builder, DType, Graph, TensorType, dtype

F32, BOOL = dtype("f32"), dtype("bool")


def _composite(b: Builder, name: str, g: Graph, *args: int, **attrs: object) -> int:
    (out,) = b.add(name, args, attrs, regions=(g,))  # type: ignore[arg-type]
    return out


def _rows(b: Builder, x: int, to: int) -> int:
    """x[..., ] spread over a new last axis of the shape of `to`."""
    shape = b.types[to].shape
    return b.one("broadcast", x, shape=shape, dims=tuple(range(len(shape) - 1)))


def _full(b: Builder, value: float, like: int) -> int:
    return b.full(value, b.types[like].dtype, b.types[like].shape)


def _softmax(t: TensorType) -> Graph:
    b = Builder("softmax")
    x = b.input("x", t)
    wide = b.one("convert", x, dtype=F32)
    top = b.one("reduce_max", wide, axes=(t.rank - 1,))
    safe = b.one("select", b.one("is_finite", top), top, _full(b, 0.0, top))
    e = b.one("exp", b.one("sub", wide, _rows(b, safe, wide)))
    total = b.one("reduce_sum", e, axes=(t.rank - 1,))
    y = b.one("div", e, _rows(b, b.one("max", total, _full(b, 1e-30, total)), e))
    return b.finish([b.one("convert", y, dtype=t.dtype)])


def _gelu(t: TensorType) -> Graph:
    b = Builder("gelu")
    x = b.input("x", t)
    w = b.one("convert", x, dtype=F32)
    e = b.one("erf", b.one("mul", w, _full(b, 1 / math.sqrt(2), w)))
    y = b.one("mul", b.one("mul", w, _full(b, 0.5, w)), b.one("add", e, _full(b, 1.0, e)))
    return b.finish([b.one("convert", y, dtype=t.dtype)])


def _normalize(t: TensorType) -> Graph:
    b = Builder("normalize")
    x = b.input("x", t)
    w = b.one("convert", x, dtype=F32)
    n = t.shape[-1]

    def mean(v: int) -> int:
        total = b.one("reduce_sum", v, axes=(t.rank - 1,))
        return b.one("div", total, _full(b, float(n), total))

    c = b.one("sub", w, _rows(b, mean(w), w))
    var = mean(b.one("mul", c, c))
    y = b.one("mul", c, _rows(b, b.one("rsqrt", b.one("add", var, _full(b, 1e-12, var))), c))
    return b.finish([b.one("convert", y, dtype=t.dtype)])


def linear(b: Builder, x: int, name: str, n: int) -> int:
    """x @ w.T + b with w[n, k] as PyTorch keeps it."""
    t = b.types[x]
    w = b.input(f"{name}.weight", TensorType(t.dtype, (n, t.shape[-1])))
    bias = b.input(f"{name}.bias", TensorType(t.dtype, (n,)))
    y = b.one("matmul", x, b.one("transpose", w, perm=(1, 0)))
    shape = b.types[y].shape
    return b.one("add", y, b.one("broadcast", bias, shape=shape, dims=(len(shape) - 1,)))


def _layer_norm(b: Builder, x: int, name: str) -> int:
    t = b.types[x]
    y = _composite(b, "normalize", _normalize(t), x, eps=1e-12)
    for what, op in (("weight", "mul"), ("bias", "add")):
        p = b.input(f"{name}.{what}", TensorType(t.dtype, t.shape[-1:]))
        y = b.one(op, y, b.one("broadcast", p, shape=t.shape, dims=(t.rank - 1,)))
    return y


def transformer_layer(
    d: DType, batch: int = 1, seq: int = 128, width: int = 384, heads: int = 12, inner: int = 1536
) -> Graph:
    """A BERT layer: the body of MiniLM's loop. Every input but `x` and `mask` is a weight."""
    b = Builder("layer")
    x = b.input("x", TensorType(d, (batch, seq, width)))
    mask = b.input("mask", TensorType(BOOL, (batch, seq)))
    per = width // heads

    def split(v: int, perm: tuple[int, ...]) -> int:
        return b.one("transpose", b.one("reshape", v, shape=(batch, seq, heads, per)), perm=perm)

    q, k, v = (split(linear(b, x, n, width), (0, 2, 1, 3)) for n in ("query", "key", "value"))
    s = b.one("matmul", q, b.one("transpose", k, perm=(0, 1, 3, 2)))
    s = b.one("mul", s, _full(b, 1 / math.sqrt(per), s))
    m = b.one("broadcast", mask, shape=b.types[s].shape, dims=(0, 3))
    s = b.one("select", m, s, _full(b, -math.inf, s))
    p = _composite(b, "softmax", _softmax(b.types[s]), s, axis=-1)
    o = b.one("reshape", b.one("transpose", b.one("matmul", p, v), perm=(0, 2, 1, 3)), shape=(batch, seq, width))
    x = _layer_norm(b, b.one("add", x, linear(b, o, "output", width)), "norm1")
    h = linear(b, x, "up", inner)
    h = linear(b, _composite(b, "gelu", _gelu(b.types[h]), h), "down", width)
    return b.finish([_layer_norm(b, b.one("add", x, h), "norm2")], ["y"])


def weights(g: Graph) -> tuple[str, ...]:
    """Names of the inputs of `transformer_layer` that are weights."""
    return tuple(str(n.attr("name")) for n in g.inputs if n.attr("name") not in ("x", "mask"))
