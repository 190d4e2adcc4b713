"""Graphs that several tests of this room look at."""

import numpy as np
from tdslc.compiler.graph import DTYPES, Array, Builder, Dim, Graph, TensorType

F32, I32 = DTYPES["f32"], DTYPES["i32"]


def sample() -> Graph:
    """One of everything: symbolic dims, a stacked param, a literal, a loop, composites in each other, odd names."""
    s = Dim(4, "S")
    b = Builder('odd "name"\n')
    x = b.input("x", TensorType(F32, (s, 8)), loc="a.tdsl:1:2")
    w = b.param("layer.{i}.w", TensorType(F32, (3, 8, 8)), stack=3)
    literal = b.one("constant", value=Array(TensorType(F32, (2,)), np.array([1, -0.0], "<f4").tobytes()))
    low = b.full(float("-inf"), F32, (s, 8))
    top = b.one("max", x, low)
    c, ys = b.add("loop", [top, w, x], {"n": 3, "carry": 1, "xs": 1}, regions=(body(s),), loc="a.tdsl:3:1")
    (y,) = b.add("soft.max_2", [c], {"axis": -1, "eps": 1e-5}, regions=(square(s),))
    flat = b.one("reshape", ys, shape=(3 * s * 8,))
    return b.finish([y, flat, literal], ["y", "flat", ""])


def body(s: int) -> Graph:
    b = Builder("body")
    b.input("i", TensorType(I32, ()))
    c, w, k = (
        b.input("c", TensorType(F32, (s, 8))),
        b.input("w", TensorType(F32, (8, 8))),
        b.input("k", TensorType(F32, (s, 8))),
    )
    after = b.one("add", b.one("matmul", c, w), k)
    return b.finish([after, after])


def square(s: int) -> Graph:
    inner = Builder("inner")
    x = inner.input("x", TensorType(F32, (s, 8)))
    made = inner.finish([inner.one("mul", x, x)])
    b = Builder("outer")
    return b.finish(b.add("square", [b.input("x", TensorType(F32, (s, 8)))], regions=(made,)))


def nested(depth: int) -> Graph:
    """A composite in a composite …, `depth` regions deep."""
    t = TensorType(F32, (2,))
    b = Builder("leaf")
    graph = b.finish([b.one("neg", b.input("x", t))])
    for level in range(depth):
        b = Builder(f"level{level}")
        graph = b.finish(b.add("wrap", [b.input("x", t)], regions=(graph,)))
    return graph


def chain(length: int) -> Graph:
    """x + 1 + 1 …"""
    t = TensorType(F32, (2,))
    b = Builder("chain")
    v, one = b.input("x", t), b.full(1.0, F32, (2,))
    for _ in range(length):
        v = b.one("add", v, one)
    return b.finish([v], ["y"])
