"""The evaluator: binding, loops, widening, what a contraction is asked, and that nothing warns or is changed."""

import numpy as np
import pytest
from graph_examples import sample
from strategies import values
from tdslc.compiler.graph import DTYPES, Builder, Contraction, DType, Graph, NDArray, TensorType, evaluate

F32, I32, BF16 = DTYPES["f32"], DTYPES["i32"], DTYPES["bf16"]
rng = np.random.default_rng(5)


def identity(t: TensorType) -> Graph:
    b = Builder("g")
    return b.finish([b.input("x", t)])


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        ("f32", np.array([0.1]), np.array([0.1], np.float32)),
        ("bf16", np.array([1.00390625], np.float32), np.array([1.0], BF16.numpy)),
        ("f64", np.array([0.1], np.float32), np.array([np.float32(0.1)], np.float64)),
        ("i8", np.array([127], np.int64), np.array([127], np.int8)),
        ("i4", np.array([-8], np.int32), np.array([-8], DTYPES["i4"].numpy)),
        ("u64", np.array([2**64 - 1], np.uint64), np.array([2**64 - 1], np.uint64)),
    ],
)
def test_inputs_convert_within_their_kind(declared: str, given: NDArray, expected: NDArray) -> None:
    (got,) = evaluate(identity(TensorType(DTYPES[declared], (1,))), {"x": given})
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("declared", "given"),
    [
        ("i32", np.array([1.0])),
        ("f32", np.array([1])),
        ("bool", np.array([1])),
        ("i32", np.array([True])),
        ("i8", np.array([128])),
        ("u8", np.array([-1])),
        ("i4", np.array([8])),
        ("f32", np.array([1 + 0j])),
        ("f32", np.array(["1"])),
        ("i64", np.array([2**63], np.uint64)),
        ("f32", np.array([1.0], ">f4")),
    ],
)
def test_inputs_of_another_kind_are_refused(declared: str, given: NDArray) -> None:
    with pytest.raises(ValueError, match=r"input x is .*\[1\] but the value bound to it is"):
        evaluate(identity(TensorType(DTYPES[declared], (1,))), {"x": given})


def test_missing_and_misshapen() -> None:
    graph = identity(TensorType(F32, (2,)))
    with pytest.raises(LookupError, match="input x has no value bound to it"):
        evaluate(graph, {})
    with pytest.raises(ValueError, match=r"input x is f32\[2\] but the value bound to it has shape \(3,\)"):
        evaluate(graph, {"x": np.zeros(3, np.float32)})


def test_inputs_go_before_params_of_the_same_name() -> None:
    (got,) = evaluate(identity(TensorType(F32, ())), {"x": np.float32(1)}, {"x": np.asarray(np.float32(2))})
    assert got == 1


# ---- loops and composites ------------------------------------------------------------------------


def running_sum(n: int, d: DType) -> Graph:
    """carry += x * (i + 1) + k; y = (carry, i)."""
    b = Builder("body")
    t = TensorType(d, (2,))
    i, c, x, k = b.input("i", TensorType(I32, ())), b.input("c", t), b.input("x", t), b.input("k", t)
    weight = b.one("broadcast", b.one("convert", b.one("add", i, b.full(1, I32)), dtype=d), shape=(2,), dims=())
    after = b.one("add", b.one("add", c, b.one("mul", x, weight)), k)
    region = b.finish([after, after, i])
    g = Builder("g")
    args = [g.input("c", t), g.input("x", TensorType(d, (n, 2))), g.input("k", t)]
    return g.finish(g.add("loop", args, {"n": n, "carry": 1, "xs": 1}, regions=(region,)))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_loop(n: int, wide: bool) -> None:
    c, x, k = (rng.integers(-3, 4, s).astype(np.float32) for s in ((2,), (n, 2), (2,)))
    last, each, index = evaluate(running_sum(n, F32), {"c": c, "x": x, "k": k}, wide=wide)
    steps = c + np.cumsum(x * np.arange(1, n + 1)[:, None] + k, axis=0)
    np.testing.assert_array_equal(last, steps[-1] if n else c)
    np.testing.assert_array_equal(each, steps)
    np.testing.assert_array_equal(index, np.arange(n))
    assert (last.dtype, each.dtype, index.dtype) == ((np.float64,) * 2 if wide else (np.float32,) * 2) + (np.int32,)


def test_loop_without_elements() -> None:
    """n = 0: the carry as it came, and ys of no elements."""
    bound = {"c": np.array([-0.0, np.nan]), "x": np.zeros((0, 2)), "k": np.zeros(2)}
    last, each, index = evaluate(running_sum(0, BF16), bound)
    assert np.signbit(last.astype(np.float64)).tolist()[0]
    assert np.isnan(last.astype(np.float64)).tolist() == [False, True]
    assert (each.shape, each.dtype, index.shape, index.dtype) == ((0, 2), BF16.numpy, (0,), np.int32)


def test_operands_are_left_as_they_were() -> None:
    bound = {"x": values(rng, F32, (4, 8)), "layer.{i}.w": values(rng, F32, (3, 8, 8))}
    before = {k: v.tobytes() for k, v in bound.items()}
    evaluate(sample(), bound)
    assert {k: v.tobytes() for k, v in bound.items()} == before


# ---- contractions --------------------------------------------------------------------------------


class Recorded(Contraction):
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], tuple[int, ...], str, str]] = []

    def matmul(self, a: NDArray, b: NDArray, out: DType, precision: str) -> NDArray:
        self.asked.append((a.shape, b.shape, out.name, precision))
        return super().matmul(a, b, out, precision)


def products() -> Graph:
    b = Builder("g")
    x, w = b.input("x", TensorType(BF16, (2, 3, 4))), b.input("w", TensorType(BF16, (4, 5)))
    image, taps = b.input("image", TensorType(BF16, (2, 4, 6))), b.input("taps", TensorType(BF16, (6, 2, 3)))
    window = {"strides": (2,), "low": (1,), "high": (0,), "dilations": (1,)}
    return b.finish([
        b.one("matmul", x, w, precision="default", dtype=F32), b.one("matmul", x, w),
        b.one("conv", image, taps, groups=2, precision="high", **window),
    ])  # fmt: skip


def bound_products() -> dict[str, NDArray]:
    return {n.attr("name"): values(rng, BF16, n.type.shape, whole=True) for n in products().inputs}  # type: ignore[misc]


def test_a_contraction_sees_every_product() -> None:
    contraction = Recorded()
    evaluate(products(), bound_products(), contraction=contraction)
    assert contraction.asked == [
        ((2, 3, 4), (4, 5), "f32", "default"),
        ((2, 3, 4), (4, 5), "bf16", "highest"),
        *[((3, 6), (6, 3), "bf16", "high")] * 4,  # the weights of two groups, each by the patches of two images
    ]


def test_widening_asks_no_contraction_and_rounds_nothing() -> None:
    contraction = Recorded()
    got = evaluate(
        products(),
        {k: v.astype(np.float64) + 2.0**-30 for k, v in bound_products().items()},
        contraction=contraction,
        wide=True,
    )
    assert contraction.asked == []
    assert all(x.dtype == np.float64 for x in got)
    assert any(np.any(x != np.rint(x)) for x in got)
