"""The contraction: its definition replayed plainly, exact integers, f32 parts, and what is not finite."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tdslc.compiler.graph import TensorType, dtype, evaluate, verify
from tdslc.targets.mxu.chip import load
from tdslc.targets.mxu.numerics import PASSES, MxuContraction, parts_of, passes, split_body

BF16, F32, F16, F64, I8, I32 = (dtype(n) for n in ("bf16", "f32", "f16", "f64", "i8", "i32"))
V5E = MxuContraction(load("v5e").value)


def bits(x: np.ndarray) -> np.ndarray:
    return x.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[x.dtype.itemsize])


def plain(a: np.ndarray, b: np.ndarray, size: int = 128) -> np.ndarray:
    """Tile by tile by the definition, the exact sum as a fraction-free f64 dot of few terms."""
    total = None
    for at in range(0, a.shape[1], size):
        x, y = a[:, at : at + size].astype(np.float64), b[at : at + size].astype(np.float64)
        part = np.einsum("mk,kn->mn", x, y).astype(np.float32)
        total = part if total is None else (total + part).astype(np.float32)
    return total if total is not None else np.zeros((len(a), b.shape[1]), np.float32)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 3), st.integers(0, 300), st.integers(1, 4), st.integers(0, 2**31))
def test_bf16_is_tiles_in_rising_k(m: int, k: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Whole numbers: every sum is exact in f64, so the reference has no order of its own.
    a = rng.integers(-60, 60, (m, k)).astype(ml_dtypes.bfloat16)
    b = (rng.integers(-60, 60, (k, n)) * 2.0 ** rng.integers(-8, 8, (k, n))).astype(ml_dtypes.bfloat16)
    assert np.array_equal(bits(V5E.matmul(a, b, F32, "highest")), bits(plain(a, b)))


@pytest.mark.parametrize(("precision", "error"), [("highest", 3e-6), ("high", 1e-4), ("default", 3e-2)])
def test_precision_of_f32(precision: str, error: float) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((64, 256)).astype(np.float32), rng.standard_normal((256, 32)).astype(np.float32)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(V5E.matmul(a, b, F32, precision) - want).max() <= error * np.abs(want).max()


@pytest.mark.parametrize("precision", list(PASSES))
def test_not_finite_is_as_in_ieee(precision: str) -> None:
    values = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -2.0, 3e38, 1e-3], np.float32)
    a, b = np.meshgrid(values, values)
    for x, y in zip(a.ravel(), b.ravel(), strict=True):
        with np.errstate(all="ignore"):
            want = np.float32(x) * np.float32(y)
        if np.isinf(want) and np.isinf(x) == np.isinf(y):
            continue  # inf * inf and overflow: documented to be inf or NaN
        got = V5E.matmul(np.full((1, 1), x), np.full((1, 1), y), F32, precision)[0, 0]
        assert np.isnan(got) == np.isnan(want) and np.isinf(got) == np.isinf(want)
        if np.isinf(want):
            assert got == want


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_parts_sum_to_the_whole(values: list[float]) -> None:
    x = np.array(values, np.float32)
    parts = evaluate(split_body(TensorType(F32, x.shape)), {"x": x})
    total = sum(p.astype(np.float64) for p in parts)
    assert np.all(np.isfinite(total))
    assert np.all(np.abs(total - x) <= np.maximum(np.abs(x) * 2.0**-23, 2.0**-133))


@pytest.mark.parametrize("precision", list(PASSES))
def test_split_bodies_are_well_formed(precision: str) -> None:
    body = split_body(TensorType(F32, (8, 128)), parts_of(precision))
    assert verify(body) == [] and len(body.outputs) == parts_of(precision)


def test_which_products_a_dtype_takes() -> None:
    assert passes(BF16, "highest") == ((0, 0),)
    assert [len(passes(F32, p) or ()) for p in ("highest", "high", "default")] == [6, 3, 1]
    assert passes(F64, "highest") is None and passes(I8, "highest") == ((0, 0),)


def test_integers_are_exact_and_wrap() -> None:
    a, b = np.full((2, 1000), 127, np.int8), np.full((1000, 3), -128, np.int8)
    assert (V5E.matmul(a, b, I32, "highest") == -127 * 128 * 1000).all()
    assert V5E.matmul(a, b, I8, "highest").dtype == np.int8


def test_empty_k_gives_zeros() -> None:
    for d in (BF16, F32, F64, I8):
        out = V5E.matmul(np.zeros((2, 0), d.numpy), np.zeros((0, 3), d.numpy), d, "highest")
        assert out.shape == (2, 3) and not out.astype(np.float64).any()


def test_batches_and_shared_right_operands() -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((2, 3, 4, 200)).astype(np.float32)
    b = rng.standard_normal((2, 3, 200, 5)).astype(np.float32)
    out = V5E.matmul(a, b, F32, "highest")
    assert np.array_equal(out[1, 2], V5E.matmul(a[1, 2], b[1, 2], F32, "highest"))
    shared = V5E.matmul(a, b[0, 0], F32, "highest")
    assert np.array_equal(shared[1, 2], V5E.matmul(a[1, 2], b[0, 0], F32, "highest"))


def test_f16_and_f64() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((4, 100)), rng.standard_normal((100, 4))
    assert np.allclose(V5E.matmul(a, b, F64, "highest"), a @ b, rtol=1e-13)
    half = V5E.matmul(a.astype(np.float16), b.astype(np.float16), F16, "highest")
    assert half.dtype == np.float16 and np.allclose(half, a @ b, atol=0.1)
