"""Plans and programs for the wafer, as its tests need them."""

from __future__ import annotations

from functools import cache

from tdslc.compiler.graph import Builder, Graph, TensorType
from tdslc.compiler.graph.dtypes import BOOL, F32, I32, U8
from tdslc.compiler.plan import plan, unfused_plan
from tdslc.compiler.plan.target import Plan, PlanOptions
from tdslc.targets.wse.target import TARGET, WseMachine


def machine(size: str, chip: str = "wse3") -> WseMachine:
    return TARGET.load(chip, (), size)


def fused(graph: Graph, m: WseMachine) -> Plan:
    return plan(graph, m, PlanOptions())


def unfused(graph: Graph, m: WseMachine) -> Plan:
    return unfused_plan(graph, m)


@cache
def perceptron(rows: int, width: int = 7, inner: int = 5, classes: int = 3) -> Graph:
    """What digits is, smaller: bytes, two layers, relu, logits and their argmax."""
    b = Builder("perceptron")
    x = b.one("convert", b.input("x", TensorType(U8, (rows, width))), dtype=F32)
    x = b.one("mul", x, b.full(0.0625, F32, (rows, width)))
    h = _linear(b, x, "hidden", width, inner)
    h = b.one("max", h, b.full(0.0, F32, (rows, inner)))
    y = _linear(b, h, "out", inner, classes)
    return b.finish([y, b.one("argmax", y, axis=1)], ["logits", "label"])


def _linear(b: Builder, x: int, name: str, width: int, out: int) -> int:
    rows = b.types[x].shape[0]
    w = b.param(f"{name}.weight", TensorType(F32, (width, out)))
    bias = b.param(f"{name}.bias", TensorType(F32, (out,)))
    return b.one("add", b.one("matmul", x, w), b.one("broadcast", bias, shape=(rows, out), dims=(1,)))


@cache
def softmax(rows: int, columns: int) -> Graph:
    """Two reductions, and values that have one number for each row."""
    b = Builder("softmax")
    x = b.input("x", TensorType(F32, (rows, columns)))
    top = b.one("broadcast", b.one("reduce_max", x, axes=(1,)), shape=(rows, columns), dims=(0,))
    e = b.one("exp", b.one("sub", x, top))
    total = b.one("broadcast", b.one("reduce_sum", e, axes=(1,)), shape=(rows, columns), dims=(0,))
    return b.finish([b.one("div", e, total), b.one("reduce_min", x, axes=(1,))], ["y", "least"])


@cache
def gelu_layer(batch: int, rows: int, width: int, out: int) -> Graph:
    """A layer of [B, S, W] with gelu by erf."""
    b = Builder("gelu")
    x = b.input("x", TensorType(F32, (batch, rows, width)))
    w = b.param("w", TensorType(F32, (width, out)))
    y = b.one("matmul", x, w)
    shape = b.types[y].shape
    e = b.one("erf", b.one("mul", y, b.full(0.7071067811865476, F32, shape)))
    half = b.one("mul", y, b.full(0.5, F32, shape))
    return b.finish([b.one("mul", half, b.one("add", e, b.full(1.0, F32, shape)))], ["y"])


@cache
def selections(rows: int, columns: int) -> Graph:
    """Bools, integers, comparisons, and a number for each row against a number for each column."""
    b = Builder("selections")
    x = b.input("x", TensorType(F32, (rows, columns)))
    keep = b.input("keep", TensorType(BOOL, (rows, columns)))
    count = b.input("count", TensorType(I32, (rows, columns)))
    limit = b.input("limit", TensorType(F32, (rows,)))
    scale = b.param("scale", TensorType(F32, (columns,)))
    by_row = b.one("broadcast", limit, shape=(rows, columns), dims=(0,))
    by_column = b.one("broadcast", scale, shape=(rows, columns), dims=(1,))
    below = b.one("and", keep, b.one("lt", x, by_row))
    chosen = b.one("select", below, b.one("mul", x, by_column), b.one("min", by_row, b.one("neg", by_column)))
    more = b.one("add", count, b.one("max", count, b.full(2, I32, (rows, columns))))
    return b.finish([chosen, more, below, b.one("argmin", x, axis=1)], ["chosen", "more", "below", "least"])


GRAPHS = {
    "perceptron": perceptron(11),
    "perceptron of one row": perceptron(1),
    "a wide perceptron": perceptron(3, 9, 24, 2),
    "softmax": softmax(6, 9),
    "gelu": gelu_layer(2, 3, 5, 4),
    "selections": selections(5, 6),
}
