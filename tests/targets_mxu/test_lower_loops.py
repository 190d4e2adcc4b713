"""Loops on mxu: carried tensors in place, by turns or copied, stacked reads and yields, whatever the body does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bodies import random_inputs, row, same_bits
from tdslc.compiler.graph import Builder, Graph, TensorType, evaluate, verify
from tdslc.compiler.graph.dtypes import BF16, I32
from tdslc.compiler.plan.fuse import plan
from tdslc.compiler.plan.target import PlanOptions
from tdslc.targets.mxu import TARGET

MACHINE = TARGET.load("v5e")
ROWS = TensorType(BF16, (5, 24))


def _loop(n: int, carry: int, body: Callable[[Builder, list[int]], list[int]], xs: int = 0) -> Graph:
    """A loop over `carry` tensors and `xs` stacked weights with one capture, its results returned."""
    b = Builder("loops")
    starts = [b.input(f"c{i}", ROWS) for i in range(carry)]
    stacks = [b.param(f"w{{i}}.{i}", TensorType(BF16, (n, 24, 24)), stack=n) for i in range(xs)]
    capture = b.input("bias", TensorType(BF16, (24,)))
    # One start is itself computed, so that a kernel can make it where the loop wants it.
    starts[0] = b.one("add", starts[0], starts[0])
    inner = Builder("body")
    args = [inner.input("i", TensorType(I32, ()))]
    args += [inner.input(f"x{i}", ROWS) for i in range(carry)]
    args += [inner.input(f"s{i}", TensorType(BF16, (24, 24))) for i in range(xs)]
    args.append(inner.input("k", TensorType(BF16, (24,))))
    region = inner.finish(body(inner, args))
    outs = b.add("loop", (*starts, *stacks, capture), {"n": n, "carry": carry, "xs": xs}, regions=(region,))
    return b.finish(outs, [f"y{i}" for i in range(len(outs))])


def _layer(b: Builder, a: list[int]) -> list[int]:
    y = b.one("matmul", a[1], a[2])
    return [b.one("add", b.one("add", y, row(b, a[3], (5, 24))), a[1])]


def _swap(b: Builder, a: list[int]) -> list[int]:
    return [a[2], a[1]]


def _swap_and_add(b: Builder, a: list[int]) -> list[int]:
    return [a[2], b.one("add", a[1], a[2])]


def _same_twice(b: Builder, a: list[int]) -> list[int]:
    y = b.one("max", a[1], a[2])
    return [y, y, y]


def _yield(b: Builder, a: list[int]) -> list[int]:
    y = b.one("tanh", b.one("matmul", a[1], a[2]))
    return [y, y, b.one("add", y, a[1])]


def _kept(b: Builder, a: list[int]) -> list[int]:
    return [a[1], b.one("add", a[1], a[2])]


def _index(b: Builder, a: list[int]) -> list[int]:
    i = b.one("convert", b.one("broadcast", a[0], shape=(5, 24), dims=()), dtype=BF16)
    return [b.one("add", a[1], i)]


def _reshaped(b: Builder, a: list[int]) -> list[int]:
    y = b.one("add", a[1], a[1])
    return [y, b.one("reshape", y, shape=(24, 5))]


def _nested(b: Builder, a: list[int]) -> list[int]:
    inner = Builder("inner")
    inner.input("j", TensorType(I32, ()))
    x, k = inner.input("x", ROWS), inner.input("k", TensorType(BF16, (24,)))
    region = inner.finish([inner.one("mul", x, row(inner, k, (5, 24)))])
    return [b.add("loop", (a[1], a[2]), {"n": 3, "carry": 1, "xs": 0}, regions=(region,))[0]]


CASES: dict[str, tuple[int, int, Callable[[Builder, list[int]], list[int]], int]] = {
    "layer": (4, 1, _layer, 1),
    "layer_odd": (5, 1, _layer, 1),
    "swap": (3, 2, _swap, 0),
    "swap_and_add": (3, 2, _swap_and_add, 0),
    "same_twice": (3, 2, _same_twice, 0),
    "yield": (3, 1, _yield, 1),
    "kept": (4, 2, _kept, 0),
    "index": (5, 1, _index, 0),
    "reshaped": (3, 1, _reshaped, 0),
    "nested": (3, 1, _nested, 0),
    "once": (1, 1, _layer, 1),
    "never": (0, 1, _layer, 1),
}


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_loop_computes_what_it_means(name: str, fuse: bool) -> None:
    n, carry, body, xs = CASES[name]
    graph = _loop(n, carry, body, xs)
    assert verify(graph) == []
    planned = plan(graph, MACHINE, PlanOptions(fuse=fuse))
    program = MACHINE.lower(planned)
    assert MACHINE.verify(program) == []
    assert MACHINE.parse(MACHINE.show(program)) == program
    values = random_inputs(graph)
    got = MACHINE.run(program, values)
    wanted = evaluate(graph, values, contraction=MACHINE.contraction)
    for output, array in zip(graph.output_names, wanted, strict=True):
        assert same_bits(got[output], array), output
    assert MACHINE.time(program).seconds > 0 or n == 0
