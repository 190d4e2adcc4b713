"""Operators, indexing and functions of the language against NumPy, over sizes 0, 1 and primes."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from language.texts import compute

RANDOM = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(*shape: int) -> np.ndarray:
    return RANDOM.integers(-7, 8, shape).astype(np.int32)


SHAPES = [
    ((3, 5), (5,)),
    ((3, 1), (1, 5)),
    ((2, 1, 3), (4, 1)),
    ((), (3,)),
    ((0, 3), (1,)),
    ((0, 1), (1, 4)),
    ((1,), (1, 1)),
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_broadcasting_is_numpys(tmp_path: Path, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (floats(*shape) for shape in shapes)
    for op, want in (("+", a + b), ("-", a - b), ("*", a * b), ("/", a / b), ("<", a < b), ("==", a == b)):
        got = compute(tmp_path, f"a {op} b", want, a=a, b=b)
        np.testing.assert_array_equal(got, want)


def test_literals_take_the_tensors_dtype(tmp_path: Path) -> None:
    x, n, flag = floats(3), ints(3), floats(3) > 0
    for body, want in (
        ("1 - x", 1 - x),
        ("x / 4", x / 4),
        ("2 * n + 1", 2 * n + 1),
        ("x ** 2", x * x),
        ("n ** 3", n**3),
        ("-x", -x),
        ("not flag or x > 0", ~flag | (x > 0)),
        ("where(flag, x, 0)", np.where(flag, x, np.float32(0))),
        ("flag and true", flag),
        ("maximum(x, 0)", np.maximum(x, 0)),
        ("clamp(x, -1, 1)", np.clip(x, -1, 1)),
        ("x != 0 and 0 < x", x > 0),
        ("abs(n) // 2", abs(n) // 2),
    ):
        np.testing.assert_array_equal(compute(tmp_path, body, want, x=x, n=n, flag=flag), want, body)


@pytest.mark.parametrize("divisor", [3, -3, 1])
def test_floor_division_rounds_down(tmp_path: Path, divisor: int) -> None:
    n, u = np.arange(-9, 10, dtype=np.int32), np.arange(9, dtype=np.uint8)
    d = np.full_like(n, divisor)
    np.testing.assert_array_equal(compute(tmp_path, f"n // {divisor}", n, n=n), n // divisor)
    np.testing.assert_array_equal(compute(tmp_path, f"n % {divisor}", n, n=n), n % divisor)
    np.testing.assert_array_equal(compute(tmp_path, "n // d", n, n=n, d=d), n // d)
    np.testing.assert_array_equal(compute(tmp_path, "n % d", n, n=n, d=d), n % d)
    np.testing.assert_array_equal(compute(tmp_path, "u // 2 + u % 2", u, u=u), u // 2 + u % 2)
    x = n.astype(np.float32) / 2
    np.testing.assert_array_equal(compute(tmp_path, f"x // {divisor}", x, x=x), x // divisor)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 5), (5, 2)),
        ((5,), (5, 2)),
        ((3, 5), (5,)),
        ((5,), (5,)),
        ((2, 3, 5), (5, 4)),
        ((2, 3, 5), (2, 5, 4)),
        ((3, 5), (2, 5, 4)),
        ((2, 1, 3, 5), (7, 5, 4)),
        ((7, 3, 5), (5,)),
        ((5,), (7, 5, 4)),
        ((3, 0), (0, 4)),
        ((0, 3), (3, 4)),
    ],
)
def test_matmul_is_numpys(tmp_path: Path, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = floats(*a), floats(*b)
    want = np.asarray(x @ y)
    np.testing.assert_allclose(compute(tmp_path, "x @ y", want, x=x, y=y), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "index",
    [
        "0",
        "-1",
        "1:3",
        ":-1",
        "::2",
        "::-1",
        "3:0:-2",
        "1:1",
        "5:2",
        "none",
        "...",
        "none, 1",
        "..., 0",
        ":, 1",
        "1, :, none, 2",
        "::-3, ::2",
        ":, ::-1, 1:",
        "100:",
        "-100:2",
        "none, ..., none",
        "2:100:3",
        "-1:-100:-1",
        "0, 0, 0",
    ],
)
def test_indexing_is_numpys(tmp_path: Path, index: str) -> None:
    x = floats(4, 3, 5)
    want = np.asarray(eval(f"x[{index.replace('none', 'None')}]", {"x": x}))
    np.testing.assert_array_equal(compute(tmp_path, f"x[{index}]", want, x=x), want)


@pytest.mark.parametrize("index", [":", "::-1", "0:0", "1:", "::2", "::-2"])
def test_slices_of_empty_axes_are_empty(tmp_path: Path, index: str) -> None:
    x = floats(0, 2)
    want = eval(f"x[{index}]", {"x": x})
    np.testing.assert_array_equal(compute(tmp_path, f"x[{index}]", want, x=x), want)


def test_every_slice_of_a_small_axis(tmp_path: Path) -> None:
    x = np.arange(3, dtype=np.float32)
    bounds = [None, 0, 1, 2, -1, -3]
    slices = [(a, b, s) for a, b, s in product(bounds, bounds, (1, 2, -1, -2))]
    parts = [x[slice(*s)] for s in slices]
    texts = [":".join("" if v is None else str(v) for v in s) for s in slices]
    body = f"concat([{', '.join(f'x[{t}]' for t in texts)}])"
    want = np.concatenate(parts)
    np.testing.assert_array_equal(compute(tmp_path, body, want, x=x), want)


def test_a_tensor_index_takes_along_its_axis(tmp_path: Path) -> None:
    x, at = floats(4, 3, 5), np.array([[2, 0], [1, 1]], np.int32)
    for body, want in (
        ("x[at]", x[at]),
        ("x[:, at]", x[:, at]),
        ("x[..., at]", x[..., at]),
        ("x[1:, at, none]", x[1:, at][:, :, :, None]),
    ):
        np.testing.assert_array_equal(compute(tmp_path, body, want, x=x, at=at), want, body)


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)]),
        ("ij,jk", [(2, 3), (3, 5)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 5, 4), (2, 7, 5, 4)]),
        ("i,i->", [(5,), (5,)]),
        ("i,j->ij", [(2,), (3,)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij->i", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("bii->b", [(2, 3, 3)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("ij,kj,lk->il", [(2, 3), (4, 3), (5, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("...i->...", [(2, 3)]),
        ("ijk,k->ij", [(2, 3, 4), (4,)]),
        ("abc,cbd->da", [(2, 3, 4), (4, 3, 5)]),
        ("ij,jk->ik", [(0, 3), (3, 5)]),
        ("ij,jk->ik", [(2, 0), (0, 5)]),
        ("ba", [(2, 3)]),
        ("i,ij,j->", [(2,), (2, 3), (3,)]),
        ("...,...->...", [(2, 1), (3,)]),
        ("i...,i...->...", [(2, 3), (2, 1)]),
    ],
)
def test_einsum_is_numpys(tmp_path: Path, spec: str, shapes: list[tuple[int, ...]]) -> None:
    xs = [floats(*shape) for shape in shapes]
    want = np.asarray(np.einsum(spec, *xs))
    inputs = {f"x{i}": x for i, x in enumerate(xs)}
    got = compute(tmp_path, f'einsum("{spec}", {", ".join(inputs)})', want, **inputs)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_reductions(tmp_path: Path) -> None:
    x, flag = floats(3, 1, 5), floats(3, 1, 5) > 0
    for body, want in (
        ("sum(x)", x.sum()),
        ("sum(x, axis=-1)", x.sum(-1)),
        ("max(x, axis=[0, 2])", x.max((0, 2))),
        ("min(x, axis=0, keep=true)", x.min(0, keepdims=True)),
        ("mean(x, axis=2, keep=true)", x.mean(2, keepdims=True)),
        ("prod(x, 0)", x.prod(0)),
        ("any(flag, axis=2)", flag.any(2)),
        ("all(flag)", flag.all()),
        ("argmax(x)", x.argmax(-1).astype(np.int32)),
        ("argmax(x, axis=0, keep=true)", x.argmax(0, keepdims=True).astype(np.int32)),
        ("mean(x)", x.mean()),
    ):
        np.testing.assert_allclose(compute(tmp_path, body, want, x=x, flag=flag), want, rtol=1e-6, err_msg=body)


def test_shapes(tmp_path: Path) -> None:
    x = floats(4, 3)
    for body, want in (
        ("x.T", x.T),
        ("reshape(x, [2, -1])", x.reshape(2, -1)),
        ("transpose(x[none], [2, 0, 1])", x[None].transpose(2, 0, 1)),
        ("swapaxes(x, 0, -1)", x.T),
        ("squeeze(x[:, none], 1)", x),
        ("broadcast_to(x, [2, 4, 3])", np.broadcast_to(x, (2, 4, 3))),
        ("concat([x, x], axis=1)", np.concatenate([x, x], 1)),
        ("stack([x, x], axis=-1)", np.stack([x, x], -1)),
        ("concat(split(x, 2))", x),
        ("split(x, [1, 2], axis=1)[1]", x[:, 1:]),
        ("pad(x, [1, 0], [0, 2], 9)", np.pad(x, [(1, 0), (0, 2)], constant_values=9)),
        ("reverse(x, 1)", x[:, ::-1]),
        ("take(x, i32([3, 0]), axis=0)", x[[3, 0]]),
        ("zeros([2, 3])", np.zeros((2, 3), np.float32)),
        ("ones([2], bool)", np.ones(2, bool)),
        ("full([2], 1.5)", np.full(2, 1.5, np.float32)),
        ("arange(3)", np.arange(3, dtype=np.int32)),
        ("iota([2, 3], 1)", np.tile(np.arange(3, dtype=np.int32), (2, 1))),
        ("f32([[1, 2], [3, 4]])", np.array([[1, 2], [3, 4]], np.float32)),
        ("i32(x)", np.trunc(x).astype(np.int32)),
        ("f32(3)", np.float32(3)),
    ):
        np.testing.assert_array_equal(compute(tmp_path, body, want, x=x), want, body)


def test_precision_of_integer_products(tmp_path: Path) -> None:
    a, b = (RANDOM.integers(-128, 128, (3, 3)).astype(np.int8) for _ in range(2))
    want = a.astype(np.int32) @ b.astype(np.int32)
    np.testing.assert_array_equal(compute(tmp_path, "matmul(a, b, dtype=i32)", want, a=a, b=b), want)


def test_convolution_and_pooling(tmp_path: Path) -> None:
    x, w = floats(2, 4, 6, 5), floats(6, 2, 3, 3)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    want = np.zeros((2, 6, 3, 3), np.float32)
    for o, i, j in product(range(6), range(3), range(3)):
        patch = padded[:, (o // 3) * 2 : (o // 3) * 2 + 2, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        want[:, o, i, j] = (patch * w[o]).sum((1, 2, 3))
    got = compute(tmp_path, "conv(x, w, stride=2, pad=1, groups=2)", want, x=x, w=w)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    top = np.stack(
        [np.stack([x[:, :, i : i + 2, j : j + 2].max((2, 3)) for j in range(4)], -1) for i in range(0, 5, 1)], 2
    )
    np.testing.assert_array_equal(compute(tmp_path, "max_pool(x, 2, stride=1)", top, x=x), top)


def test_ops_of_the_table_are_functions(tmp_path: Path) -> None:
    x, y = floats(3, 5), floats(5)
    for body, want in (
        ("tan(x)", np.tan(x)),
        ("atan2(x, y)", np.arctan2(x, y)),
        ("cumsum(x, axis=-1)", x.cumsum(-1)),
        ("argmin(x, 0)", x.argmin(0).astype(np.int32)),
        ("sort(x, axis=-1)", np.sort(x, -1)),
        ("top_k(x, k=2)[0]", -np.sort(-x, -1)[:, :2]),
        ("cbrt(x)", np.cbrt(x)),
    ):
        np.testing.assert_allclose(compute(tmp_path, body, want, x=x, y=y), want, rtol=1e-6, err_msg=body)
