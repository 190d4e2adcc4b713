"""Products of integers and convolutions on mxu: the units they run on, images in slabs, what runs from main memory."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import random_inputs, same_bits
from tdslc.compiler.graph import DTYPES, NO_COMPOSITES, Attr, Builder, Graph, NDArray, TensorType, evaluate
from tdslc.compiler.plan.fuse import plan
from tdslc.compiler.plan.target import PlanOptions, Timing
from tdslc.compiler.rewrite import read_rules
from tdslc.compiler.rewrite.checker import check_rule, show_verdicts
from tdslc.targets.mxu import TARGET
from tdslc.targets.mxu.choose import Choice, choose
from tdslc.targets.mxu.target import MxuMachine

F32 = DTYPES["f32"]


def check(graph: Graph, values: dict[str, NDArray], machine: MxuMachine) -> Timing:
    """Compiles, runs and compares bit for bit."""
    program = machine.lower(plan(graph, machine, PlanOptions()))
    assert machine.verify(program) == []
    got = machine.run(program, values)
    for name, wanted in zip(graph.output_names, evaluate(graph, values, contraction=machine.contraction), strict=True):
        assert same_bits(got[name], wanted), name
    return machine.time(program)


def busy(timing: Timing, unit: str) -> float:
    return sum(u.busy_seconds for k in timing.kernels for u in k.units if u.unit == unit)


def integers(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray:
    low, high = (0, 256) if name[0] == "u" else (-128, 128)
    return rng.integers(low, high, shape).astype(DTYPES[name].numpy)


PRODUCTS = [("i8", "i8", "i32"), ("u8", "i8", "i32"), ("u8", "i8", "i64"), ("i8", "i8", None), ("u8", "u8", "u32")]


@pytest.mark.parametrize("chip", ["v4", "v5e"])
@pytest.mark.parametrize(("a", "b", "out"), PRODUCTS)
def test_integer_products_run_on_the_matrix_units(chip: str, a: str, b: str, out: str | None) -> None:
    rng, machine = np.random.default_rng(1), TARGET.load(chip)
    g = Builder("product")
    x, y = g.input("x", TensorType(DTYPES[a], (19, 300))), g.input("y", TensorType(DTYPES[b], (130, 300)))
    z = g.one("matmul", x, g.one("transpose", y, perm=(1, 0)), dtype=DTYPES[out] if out else None)
    graph = g.finish([z, g.one("convert", z, dtype=F32)], ["z", "w"])
    values = {"x": integers(rng, a, (19, 300)), "y": integers(rng, b, (130, 300))}
    assert busy(check(graph, values, machine), "mxu") > 0


@pytest.mark.parametrize("name", ["f16", "f8e4m3", "f8e5m2"])
def test_narrow_floats_multiply_as_f32(name: str) -> None:
    rng, machine, d = np.random.default_rng(2), TARGET.load("v5e"), DTYPES[name]
    g = Builder("product")
    graph = g.finish(
        [g.one("matmul", *(g.input(n, TensorType(d, s)) for n, s in (("x", (9, 140)), ("y", (140, 20)))))], ["z"]
    )
    values = {n: rng.standard_normal(s).astype(d.numpy) for n, s in (("x", (9, 140)), ("y", (140, 20)))}
    assert busy(check(graph, values, machine), "mxu") > 0


def conv(n: int, c: int, h: int, w: int, o: int, k: int, s: int, p: int, d: int, groups: int = 1) -> Graph:
    """A convolution, a bias by channel and a relu."""
    b = Builder("conv")
    x, weights = b.input("x", TensorType(F32, (n, c, h, w))), b.input("w", TensorType(F32, (o, k, k, c // groups)))
    window: dict[str, Attr] = {"strides": (s, s), "low": (p, p), "high": (p, p), "dilations": (d, d)}
    (y,) = b.add("conv", (x, weights), {**window, "groups": groups, "channels_last": True})
    t = b.types[y]
    y = b.one("add", y, b.one("broadcast", b.input("b", t.with_shape((o,))), shape=t.shape, dims=(1,)))
    return b.finish([b.one("max", y, b.full(0.0, F32, t.shape))], ["y"])


@pytest.mark.parametrize(
    "shape",
    [
        (1, 8, 40, 40, 8, 3, 1, 1, 1), (2, 4, 33, 31, 8, 5, 2, 2, 1), (1, 3, 17, 9, 5, 3, 3, 0, 1),
        (1, 8, 12, 12, 9, 1, 1, 0, 1), (1, 8, 41, 20, 16, 3, 1, 2, 2), (1, 6, 20, 20, 6, 3, 1, 1, 1, 6),
        (1, 8, 20, 20, 16, 3, 2, 1, 1, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mib", [128, 0.5, 0.0625])
def test_convolutions(shape: tuple[int, ...], mib: float) -> None:
    graph = conv(*shape)
    check(graph, random_inputs(graph), TARGET.load("v5e", [f"mem.vmem_mib={mib}"]))


def test_an_image_that_does_not_fit_is_done_in_slabs() -> None:
    graph, machine = conv(1, 8, 40, 40, 8, 3, 1, 1, 1), TARGET.load("v5e", ["mem.vmem_mib=0.5"])
    choice = choose(graph, machine.chip)
    assert isinstance(choice, Choice) and len(choice.slabs) > 1 and not choice.streamed
    timing = check(graph, random_inputs(graph), machine)
    assert busy(timing, "mxu") > 0 and timing.notes == ()


def test_convolutions_are_not_far_from_their_bound() -> None:
    """Layers of the sizes of ResNet-50 and VGG-16: a few times the least time, with weights laid out for them."""
    machine = TARGET.load("v5e")
    for shape in (
        (1, 64, 56, 56, 64, 3, 1, 1, 1),
        (1, 128, 28, 28, 128, 3, 1, 1, 1),
        (1, 64, 224, 224, 64, 3, 1, 1, 1),
    ):
        graph = conv(*shape)
        timing = machine.time(machine.lower(plan(graph, machine, PlanOptions())))
        assert machine.bound(graph).seconds < timing.seconds < 6 * machine.bound(graph).seconds


def test_what_fits_nowhere_runs_from_main_memory_and_says_so() -> None:
    machine = TARGET.load("v5e", ["mem.vmem_mib=0.0625"])
    b = Builder("large")
    x, at = b.input("x", TensorType(F32, (9000,))), b.input("i", TensorType(DTYPES["i32"], (9000,)))
    rows, order = b.add("sort", [x, b.one("iota", axis=0, dtype=DTYPES["i32"], shape=(9000,))], {"axis": 0, "keys": 1})
    graph = b.finish([b.one("take", b.one("cumsum", rows, axis=0), at, axis=0), order], ["y", "order"])
    rng = np.random.default_rng(3)
    timing = check(
        graph,
        {"x": rng.standard_normal(9000).astype(np.float32), "i": rng.integers(0, 9000, 9000).astype(np.int32)},
        machine,
    )
    assert any("sort.0 works from main memory" in note for note in timing.notes)
    assert timing.seconds >= machine.bound(graph).seconds


def test_scalar_work_and_open_loops_are_named() -> None:
    machine, f32, i32 = TARGET.load("v5e"), TensorType(F32, (3, 64)), TensorType(DTYPES["i32"], (64,))
    b = Builder("slow")
    taken = b.one("take", b.input("x", f32), b.input("i", i32), axis=1)

    def region(name: str) -> Graph:
        inner = Builder(name)
        v = inner.input("v", f32)
        top = inner.one("reduce_max", v, axes=(0, 1))
        return inner.finish(
            [inner.one("lt", top, inner.full(100.0, F32)) if name == "cond" else inner.one("add", v, v)]
        )

    (grown,) = b.add("while", [taken], {"carry": 1, "trips": 0}, regions=(region("cond"), region("body")))
    graph = b.finish([grown], ["y"])
    values = {"x": np.linspace(-1, 1, 192, dtype=np.float32).reshape(3, 64), "i": np.arange(64, dtype=np.int32)}
    notes = "\n".join(check(graph, values, machine).notes)
    assert "take on the scalar core" in notes
    assert "one round: how often it runs is not known (assumed)" in notes


def test_the_rules_of_the_target_hold() -> None:
    rules = read_rules(list(TARGET.load("v5e").rule_files))
    verdicts = [check_rule(rule, NO_COMPOSITES) for rule in rules]
    assert rules and all(v.kind == "tested" for v in verdicts), show_verdicts(verdicts)
