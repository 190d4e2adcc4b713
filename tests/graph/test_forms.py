"""What the forms emit means what they say: each against NumPy, or a slow loop written from the definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from strategies import type_of
from tdslc.compiler.graph import DTYPES, Builder, Graph, InferError, NDArray, TensorType, evaluate, forms, verify
from tdslc.compiler.graph.forms import ConvDims, Windows

F32, I32, I64, BOOL = (DTYPES[n] for n in ("f32", "i32", "i64", "bool"))
rng = np.random.default_rng(3)


def run(build: Callable[..., int | Sequence[int]], *arrays: NDArray) -> tuple[NDArray, ...]:
    """What `build(builder, *values)` computes of the arrays."""
    b = Builder("form", "here:1:1")
    values = [b.input(f"a{i}", type_of(np.asarray(x))) for i, x in enumerate(arrays)]
    made = build(b, *values)
    graph = b.finish((made,) if isinstance(made, int) else tuple(made))
    assert verify(graph) == []
    assert all(n.loc for n in graph.nodes)
    return evaluate(graph, {f"a{i}": np.asarray(x) for i, x in enumerate(arrays)})


def one(build: Callable[..., int], *arrays: NDArray) -> NDArray:
    (only,) = run(build, *arrays)
    return only


def same(got: NDArray, wanted: NDArray) -> None:
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(got, wanted)


def f32(*shape: int) -> NDArray:
    return rng.integers(-4, 5, shape).astype(np.float32)


# ---- elementwise -------------------------------------------------------------------------------------

FLOATS = np.array([-np.inf, -2.5, -1, -0.0, 0, 0.5, 1, 3, np.inf, np.nan], np.float32)


def test_tests_on_floats() -> None:
    same(one(forms.is_nan, FLOATS), np.isnan(FLOATS))
    same(one(forms.is_inf, FLOATS), np.isinf(FLOATS))
    same(one(lambda b, x: forms.is_inf(b, x, negative=False), FLOATS), np.isposinf(FLOATS))
    got = one(forms.trunc, FLOATS)
    same(got, np.trunc(FLOATS))
    same(np.signbit(got[:-1]), np.signbit(FLOATS[:-1]))


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint8, np.float32])
def test_floor_division(dtype: type) -> None:
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid([-7, -6, -1, 0, 1, 6, 7], [-3, -2, 1, 2, 3]))
    x, y = (x, y) if np.dtype(dtype).kind != "u" else (np.abs(x), np.abs(y))
    same(one(forms.floor_div, x, y), x // y)
    same(one(forms.floor_mod, x, y), x % y)


def test_saturating_conversions() -> None:
    def to(name: str) -> Callable[[Builder, int], int]:
        return lambda b, x: forms.convert(b, x, DTYPES[name], saturate=True)

    got = one(to("f8e4m3"), np.array([-np.inf, -500, 448, 1e9, np.nan], np.float32)).astype(np.float32)
    same(got, np.array([-448, -448, 448, 448, np.nan], np.float32))
    same(
        one(to("f8e5m2"), np.array([np.inf, 1e5], np.float32)).astype(np.float32), np.array([57344, 57344], np.float32)
    )
    same(one(to("i8"), np.array([-300, 5, 300], np.int32)), np.array([-128, 5, 127], np.int8))
    same(one(to("u8"), np.array([-300, 5, 300], np.int32)), np.array([0, 5, 255], np.uint8))
    same(one(to("i32"), np.array([2**32 - 1], np.uint32)), np.array([2**31 - 1], np.int32))


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "f8e4m3"])
def test_total_order(name: str) -> None:
    d = DTYPES[name]
    x = np.array([np.nan, 3, 1, 0, -0.0, -1, -2.5], np.float32).astype(d.numpy)
    same(np.argsort(one(forms.total_order, x)), np.arange(len(x))[::-1])


def test_next_after() -> None:
    x = np.array([1, 1, 0, 0, -1, np.inf, 2, np.nan, -0.0], np.float32)
    y = np.array([2, 0, 1, -1, 0, 0, 2, 1, 0], np.float32)
    same(one(forms.next_after, x, y), np.nextafter(x, y))


# ---- contractions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "spec", "numbers"),
    [
        ((3, 4), (4, 5), "ab,bc->ac", ((), (), (1,), (0,))),
        ((4, 3), (5, 4), "ba,cb->ac", ((), (), (0,), (1,))),
        ((2, 3, 4), (4, 5), "abc,cd->abd", ((), (), (2,), (0,))),
        ((2, 3, 4), (2, 4, 5), "abc,acd->abd", ((0,), (0,), (2,), (1,))),
        ((2, 3, 4, 6), (4, 2, 5, 3), "abcd,cafb->adf", ((0,), (1,), (1, 2), (3, 0))),
        ((2, 3), (2, 3), "ab,ab->a", ((0,), (0,), (1,), (1,))),
        ((3,), (3,), "a,a->", ((), (), (0,), (0,))),
        ((3,), (2,), "a,b->ab", ((), (), (), ())),
        ((2, 0), (0, 3), "ab,bc->ac", ((), (), (1,), (0,))),
        ((2, 3, 4), (5, 3, 6), "abc,dbe->acde", ((), (), (1,), (1,))),
    ],
)
def test_dot_general(x: tuple[int, ...], y: tuple[int, ...], spec: str, numbers: tuple[tuple[int, ...], ...]) -> None:
    a, c = f32(*x), f32(*y)
    same(one(lambda b, u, v: forms.dot_general(b, u, v, *numbers), a, c), np.einsum(spec, a, c))


def test_dot_general_dtypes() -> None:
    a, c = rng.integers(-128, 128, (3, 9)).astype(np.int8), rng.integers(0, 256, (9, 2)).astype(np.uint8)
    got = one(lambda b, u, v: forms.dot_general(b, u, v, (), (), (1,), (0,), I32), a, c)
    same(got, a.astype(np.int32) @ c.astype(np.int32))
    p, q = rng.integers(0, 2, (3, 4)).astype(bool), rng.integers(0, 2, (4, 2)).astype(bool)
    same(one(lambda b, u, v: forms.dot_general(b, u, v, (), (), (1,), (0,)), p, q), p @ q)
    narrow = one(lambda b, u, v: forms.dot_general(b, u, v, (), (), (1,), (0,), DTYPES["bf16"]), f32(2, 3), f32(3, 2))
    assert narrow.dtype == DTYPES["bf16"].numpy


@pytest.mark.parametrize(
    ("x", "y"),
    [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 2, 3), (3, 4))],
)
def test_numpy_matmul(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    a, c = f32(*x), f32(*y)
    same(one(forms.numpy_matmul, a, c), np.matmul(a, c))


def _slow_conv(x: NDArray, w: NDArray, strides, pads, lhs, rhs, groups: int, batch_groups: int = 1) -> NDArray:  # type: ignore[no-untyped-def]
    """StableHLO's definition for NC… and OI… layouts, one window at a time."""
    rank = x.ndim - 2
    spread = np.zeros(
        (*x.shape[:2], *(max(0, (n - 1) * d + 1) for n, d in zip(x.shape[2:], lhs, strict=True))), x.dtype
    )
    spread[(..., *(slice(None, None, d) for d in lhs))] = x
    for i, (a, z) in enumerate(pads):
        spread = np.pad(spread, [(max(0, a), max(0, z)) if j == 2 + i else (0, 0) for j in range(x.ndim)])
        spread = spread[
            tuple(slice(max(0, -a), spread.shape[j] - max(0, -z)) if j == 2 + i else slice(None) for j in range(x.ndim))
        ]
    out = [
        max(0, (n - (k - 1) * d - 1) // s + 1)
        for n, k, d, s in zip(spread.shape[2:], w.shape[2:], rhs, strides, strict=True)
    ]
    per, made, n = x.shape[1] // groups, w.shape[0] // (groups * batch_groups), x.shape[0] // batch_groups
    y = np.zeros((n, w.shape[0], *out), x.dtype)
    for o in range(w.shape[0]):
        g = o // made
        rows = spread[(g % batch_groups) * n :][:n] if batch_groups > 1 else spread
        cols = rows if batch_groups > 1 else rows[:, g * per : (g + 1) * per]
        for at in np.ndindex(*out):
            taps = tuple(
                slice(p * s, p * s + (k - 1) * d + 1, d)
                for p, s, k, d in zip(at, strides, w.shape[2:], rhs, strict=True)
            )
            y[(slice(None), o, *at)] = np.sum(
                cols[(slice(None), slice(None), *taps)] * w[o], axis=tuple(range(1, rank + 2))
            )
    return y


CONVS = [
    ((2, 3, 7), (4, 3, 3), (2,), [(1, 0)], (1,), (1,), 1, 1),
    ((2, 4, 5, 6), (6, 2, 3, 2), (1, 2), [(1, 2), (0, 1)], (2, 1), (1, 2), 2, 1),
    ((1, 2, 5, 5), (2, 2, 2, 2), (1, 1), [(-1, 1), (2, -2)], (1, 2), (1, 1), 1, 1),
    ((4, 3, 5), (6, 3, 2), (1,), [(0, 0)], (1,), (1,), 1, 2),
    ((1, 2, 3, 3, 3), (3, 2, 2, 2, 1), (1, 1, 2), [(0, 0), (1, 1), (0, 0)], (1, 1, 1), (1, 1, 1), 1, 1),
    ((0, 2, 3), (3, 2, 2), (1,), [(0, 0)], (1,), (1,), 1, 1),
    ((1, 2, 3), (3, 2, 5), (1,), [(0, 0)], (1,), (1,), 1, 1),
]


@pytest.mark.parametrize(("x", "w", "strides", "pads", "lhs", "rhs", "groups", "batch_groups"), CONVS)
def test_conv_general(x, w, strides, pads, lhs, rhs, groups, batch_groups) -> None:  # type: ignore[no-untyped-def]
    a, c = f32(*x), f32(*w)
    rank = len(strides)
    plain = ConvDims(0, 1, tuple(range(2, 2 + rank)))
    last = ConvDims(0, rank + 1, tuple(range(1, 1 + rank)))  # N … C
    wanted = _slow_conv(a, c, strides, pads, lhs, rhs, groups, batch_groups)

    def general(b: Builder, u: int, v: int) -> int:
        return forms.conv_general(
            b, u, v, strides, pads, lhs, rhs, (False,) * rank, plain, plain, plain, groups, batch_groups
        )

    def turned(b: Builder, u: int, v: int) -> int:
        return forms.conv_general(
            b, u, v, strides, pads, lhs, rhs, (True,) * rank, last, last, last, groups, batch_groups
        )

    same(one(general, a, c), wanted)
    back = np.flip(c, tuple(range(2, 2 + rank)))
    same(one(turned, np.moveaxis(a, 1, -1), np.moveaxis(back, 1, -1)), np.moveaxis(wanted, 1, -1))


def test_a_convolution_without_spatial_axes_is_a_product() -> None:
    a, c, dims = f32(2, 3), f32(4, 3), ConvDims(0, 1, ())
    same(one(lambda b, u, v: forms.conv_general(b, u, v, (), (), (), (), (), dims, dims, dims), a, c), a @ c.T)


@pytest.mark.parametrize("groups", [1, 2])
def test_conv_transpose(groups: int) -> None:
    """Each element of x adds its multiple of the weights to the result."""
    x, w = f32(2, 4, 3, 4), f32(4, 3, 3, 2)
    strides, low, high, dilations, more = (2, 1), (1, 0), (0, 1), (1, 2), (1, 0)
    full = np.zeros((2, 3 * groups, (3 - 1) * 2 + 3, (4 - 1) * 1 + 3), np.float32)
    per = 4 // groups
    for n, c, i, j in np.ndindex(2, 4, 3, 4):
        g = c // per
        full[n, g * 3 : g * 3 + 3, i * 2 : i * 2 + 3, j : j + 3 : 2] += x[n, c, i, j] * w[c]
    wanted = np.pad(full, [(0, 0), (0, 0), (0, 1), (0, 0)])[:, :, 1:, : full.shape[3] - 1]
    same(one(lambda b, u, v: forms.conv_transpose(b, u, v, strides, low, high, dilations, more, groups), x, w), wanted)


def test_integer_products() -> None:
    x, y = rng.integers(0, 256, (4, 7)).astype(np.uint8), rng.integers(-128, 128, (7, 3)).astype(np.int8)
    xz, yz = np.array([3, 200, 0, 255], np.uint8), np.array([-4, 0, 127], np.int8)
    wide = (x.astype(np.int32) - xz[:, None].astype(np.int32)) @ (y.astype(np.int32) - yz.astype(np.int32))
    same(one(forms.matmul_integer, x, y, xz, yz), wide)
    same(one(forms.matmul_integer, x, y), x.astype(np.int32) @ y.astype(np.int32))
    scalar = np.array(9, np.uint8)
    same(
        one(lambda b, u, v, z: forms.matmul_integer(b, u, v, z), x, y, scalar),
        (x.astype(np.int32) - 9) @ y.astype(np.int32),
    )


def test_integer_convolution() -> None:
    x, w = rng.integers(0, 256, (2, 4, 6)).astype(np.uint8), rng.integers(-128, 128, (6, 2, 3)).astype(np.int8)
    xz, wz = np.array(7, np.uint8), rng.integers(-128, 128, 6).astype(np.int8)
    args = ((2,), (1,), (2,), (1,))
    wide = _slow_conv(
        x.astype(np.int32) - 7, w.astype(np.int32) - wz[:, None, None].astype(np.int32), (2,), [(1, 2)], (1,), (1,), 2
    )
    same(one(lambda b, u, v, p, q: forms.conv_integer(b, u, v, p, q, *args, groups=2), x, w, xz, wz), wide)


# ---- movement ----------------------------------------------------------------------------------------


def test_pads() -> None:
    x = f32(3, 4)
    same(one(lambda b, v: forms.pad(b, v, (1, -1), (-2, 2), (2, 0), 9), x), _padded(x, (1, -1), (-2, 2), (2, 0), 9))
    fill = np.array(7, np.float32)
    same(
        one(lambda b, v, z: forms.pad(b, v, (1, 0), (0, 2), (0, 1), fill=z), x, fill),
        _padded(x, (1, 0), (0, 2), (0, 1), 7),
    )
    known = one(lambda b, v: forms.pad(b, v, (1, 0), (0, 2), fill=b.full(7.0, F32)), x)
    same(known, _padded(x, (1, 0), (0, 2), (0, 0), 7))
    with pytest.raises(InferError, match="cut more off"):
        run(lambda b, v: forms.pad(b, v, (-2, 0), (-2, 0)), x)


def _padded(x: NDArray, low, high, interior, value: float) -> NDArray:  # type: ignore[no-untyped-def]
    spread = np.full([n + (n - 1) * i for n, i in zip(x.shape, interior, strict=True)], value, x.dtype)
    spread[tuple(slice(None, None, 1 + i) for i in interior)] = x
    wide = np.pad(spread, [(max(0, a), max(0, z)) for a, z in zip(low, high, strict=True)], constant_values=value)
    return wide[tuple(slice(max(0, -a), n - max(0, -z)) for a, z, n in zip(low, high, wide.shape, strict=True))]


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        (forms.pad_edge, "edge"),
        (forms.pad_reflect, "reflect"),
        (forms.pad_symmetric, "symmetric"),
        (forms.pad_wrap, "wrap"),
    ],
)
@pytest.mark.parametrize(("low", "high"), [((1, 0), (2, 3)), ((0, 0), (0, 0)), ((5, 2), (7, 9)), ((0, 4), (6, 0))])
def test_pads_by_content(form, mode: str, low: tuple[int, ...], high: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    x = f32(3, 4)
    same(one(lambda b, v: form(b, v, low, high), x), np.pad(x, list(zip(low, high, strict=True)), mode=mode))  # type: ignore[call-overload]


def test_slices() -> None:
    x = f32(5, 6)
    for cut in [
        (slice(-1, -(2**31), -1),),
        (slice(0, 5, -1),),
        (slice(1, -1, 2), slice(-1, 0, -2)),
        (slice(9, 99), slice(-99, 3)),
    ]:
        starts, stops, steps = zip(*((c.start, c.stop, c.step or 1) for c in cut), strict=True)
        same(one(lambda b, v, p=starts, q=stops, r=steps: forms.slice_any(b, v, p, q, r), x), x[cut])
    same(one(lambda b, v: forms.slice_any(b, v, (-2,), (2**31 - 1,), (1,), (1,)), x), x[:, -2:])


def test_rearrangements() -> None:
    x = f32(2, 1, 3)
    same(one(forms.squeeze, x), x.squeeze())
    same(one(lambda b, v: forms.unsqueeze(b, v, (0, -1)), x), x[None, ..., None])
    same(one(lambda b, v: forms.flatten(b, v, 0), x), x.reshape(1, 6))
    same(one(lambda b, v: forms.moveaxis(b, v, 0, -1), x), np.moveaxis(x, 0, -1))
    same(one(lambda b, v: forms.tile(b, v, (2, 3, 0)), x), np.tile(x, (2, 3, 0)))
    same(one(lambda b, v: forms.tile(b, v, (2, 1, 2)), x), np.tile(x, (2, 1, 2)))
    same(one(lambda b, v: forms.repeat_interleave(b, v, 2, 2), x), np.repeat(x, 2, 2))
    same(one(lambda b, u, v: forms.stack(b, (u, v), 1), x, x), np.stack([x, x], 1))
    for part, wanted in zip(run(lambda b, v: forms.split(b, v, (1, 0, 2), 2), x), np.split(x, [1, 1], 2), strict=True):
        same(part, wanted)
    y = f32(1, 8, 2, 3)
    deep = one(lambda b, v: forms.depth_to_space(b, v, 2), y)
    same(deep, y.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6))
    same(one(lambda b, v: forms.space_to_depth(b, v, 2), deep), y)
    z = f32(2, 4, 5)
    same(one(lambda b, v: forms.triangle(b, v, True, 1), z), np.triu(z, 1))
    same(one(lambda b, v: forms.triangle(b, v, False, -1), z), np.tril(z, -1))


# ---- indices -----------------------------------------------------------------------------------------


def test_gathers() -> None:
    x = f32(3, 4, 5)
    index = rng.integers(-4, 4, (3, 2, 5)).astype(np.int64)
    same(one(lambda b, v, i: forms.gather_elements(b, v, i, 1), x, index), np.take_along_axis(x, index, 1))
    short = rng.integers(-5, 5, (2, 3, 9)).astype(np.int32)
    same(one(lambda b, v, i: forms.gather_elements(b, v, i, 2), x, short), np.take_along_axis(x[:2, :3], short, 2))
    places = np.array([[0, -1], [2, 1]], np.int64)
    same(one(forms.gather_nd, x, places), x[places[:, 0], places[:, 1]])
    batched = np.array([[1], [-1], [0]], np.int64)
    same(one(lambda b, v, i: forms.gather_nd(b, v, i, 1), x, batched), x[np.arange(3), batched[:, 0]])
    same(one(lambda b, v, i: forms.take(b, v, i, -1, wrap=True), x, np.array([-1, 0])), x[..., [-1, 0]])
    same(
        one(lambda b, v, i, j: forms.dynamic_slice(b, v, (i, j, i), (1, 2, 5)), x, np.array(1), np.array(9)),
        x[1:2, 2:4],
    )


def test_scatters() -> None:
    x = f32(3, 4)
    index, updates = np.array([[1, 0, -1, 1], [0, 0, 2, 2]]), f32(2, 4)
    wanted = x.copy()
    for i, j in np.ndindex(2, 4):
        wanted[index[i, j], j] += updates[i, j]
    same(one(lambda b, v, i, u: forms.scatter_elements(b, v, i, u, 0, "add"), x, index, updates), wanted)
    short_i, short_u = index[:, :2].astype(np.int8), updates[:, :2]
    wanted = x.copy()
    for i, j in np.ndindex(2, 2):
        wanted[short_i[i, j], j] = short_u[i, j]
    same(one(lambda b, v, i, u: forms.scatter_elements(b, v, i, u, 0), x, short_i, short_u), wanted)
    places, rows = np.array([[2], [-3]]), f32(2, 4)
    wanted = x.copy()
    wanted[[2, 0]] = rows
    same(one(forms.scatter_nd, x, places, rows), wanted)


def test_one_hot() -> None:
    index = np.array([[0, 2], [-1, 9]], np.int8)
    wanted = np.zeros((2, 3, 2), bool)
    wanted[0, 0, 0] = wanted[0, 2, 1] = wanted[1, 2, 0] = True
    same(one(lambda b, i: forms.one_hot(b, i, 3, axis=1), index), wanted)
    on, off = np.array(5, np.float32), np.array(2, np.float32)
    same(
        one(lambda b, i, p, q: forms.one_hot(b, i, 3, p, q, 1), index, on, off),
        np.where(wanted, 5, 2).astype(np.float32),
    )


# ---- reductions and windows --------------------------------------------------------------------------


def test_reductions() -> None:
    x = f32(2, 3, 4)
    table = {
        "mean": x.mean((0, 2)), "l1": np.abs(x).sum((0, 2)), "l2": np.sqrt((x * x).sum((0, 2))),
        "sum_square": (x * x).sum((0, 2)),
        "log_sum_exp": np.log(np.exp(x).sum((0, 2))), "max": x.max((0, 2)),
    }  # fmt: skip
    for kind, wanted in table.items():
        np.testing.assert_allclose(one(lambda b, v, k=kind: forms.reduce(b, v, k, (0, -1)), x), wanted, rtol=1e-6)
    same(one(lambda b, v: forms.reduce(b, v, "sum", keep=True), x), x.sum(keepdims=True))
    edge = np.array([[-np.inf, -np.inf], [np.inf, 1]], np.float32)
    same(one(lambda b, v: forms.reduce(b, v, "log_sum_exp", (1,)), edge), np.array([-np.inf, np.inf], np.float32))
    same(one(lambda b, v: forms.reduce(b, v, "max", (0,)), edge > 0), (edge > 0).any(0))


def _slow_windows(x: NDArray, w: Windows, fold: Callable[[NDArray], float], fill: float) -> NDArray:
    spread = _padded(x, [p[0] for p in w.pads], [p[1] for p in w.pads], [d - 1 for d in w.base_dilations], fill)
    out = w.counts(_negative_cut(x, w))
    y = np.zeros(out, x.dtype)
    for at in np.ndindex(*out):
        taps = tuple(
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, s, k, d in zip(at, w.strides, w.window, w.dilations, strict=True)
        )
        y[at] = fold(spread[taps])
    return y


def _negative_cut(x: NDArray, w: Windows) -> tuple[int, ...]:
    return tuple(
        n + (n - 1) * (d - 1) + min(0, a) + min(0, z)
        for n, d, (a, z) in zip(x.shape, w.base_dilations, w.pads, strict=True)
    )


WINDOWS = [
    Windows((1, 2, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0))),
    Windows((2, 2, 3), (1, 2, 2), (1, 1, 2), (1, 2, 1), ((1, 0), (2, 1), (-1, 2))),
    Windows((1, 1, 5), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (4, 0))),
    Windows((1, 1, 5), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 4))),
    Windows((1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0))),
    Windows((9, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), ((0, 0), (0, 0), (0, 0))),
]


@pytest.mark.parametrize("w", WINDOWS)
def test_windows(w: Windows) -> None:
    x = f32(3, 4, 5)
    folds = (("sum", np.sum, 0), ("max", np.max, -np.inf), ("min", np.min, np.inf), ("prod", np.prod, 1))
    for kind, fold, fill in folds:
        same(one(lambda b, v, k=kind: forms.reduce_window(b, v, k, w), x), _slow_windows(x, w, fold, fill))
    init = one(lambda b, v: forms.reduce_window(b, v, "max", w, b.full(2.0, F32)), x)
    same(init, np.maximum(_slow_windows(x, w, np.max, -np.inf), 2))
    bools = x > 0
    same(one(lambda b, v: forms.reduce_window(b, v, "or", w), bools), _slow_windows(bools, w, np.any, 0))


def test_average_pool() -> None:
    x = f32(1, 2, 5, 4)
    taps = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)]), (3, 2), (2, 3))[
        :, :, ::2, ::2
    ]
    count = np.array([2, 3, 2])[:, None] * 2
    same(
        one(lambda b, v: forms.avg_pool(b, v, (3, 2), (2, 2), (1, 0), (1, 0), (1, 1)), x),
        taps.sum((4, 5)) / count.astype(np.float32),
    )
    got = one(lambda b, v: forms.avg_pool(b, v, (3, 2), (2, 2), (1, 0), (1, 0), (1, 1), count_include_pad=True), x)
    same(got, taps.sum((4, 5)) / np.float32(6))


@pytest.mark.parametrize("column_major", [False, True])
def test_max_pool_indices(column_major: bool) -> None:
    x = f32(2, 3, 5, 4)
    args = ((2, 3), (2, 1), (1, 1), (0, 0), (1, 1))
    values, places = run(lambda b, v: forms.max_pool_indices(b, v, *args, column_major), x)
    assert places.dtype == np.int64
    for n, c, i, j in np.ndindex(*values.shape):
        rows, cols = [r for r in (2 * i - 1, 2 * i) if 0 <= r < 5], [q for q in (j - 1, j, j + 1) if 0 <= q < 4]
        best = max((x[n, c, r, q], -r, -q) for r in rows for q in cols)
        place = -best[1] * 4 - best[2] if not column_major else -best[2] * 5 - best[1]
        assert values[n, c, i, j] == best[0] and places[n, c, i, j] == (n * 3 + c) * 20 + place


def test_select_and_scatter() -> None:
    x, source = f32(4, 6), f32(2, 3)
    w = Windows((2, 2), (2, 2), (1, 1), (1, 1), ((0, 0), (0, 0)))
    wanted = np.full((4, 6), 3, np.float32)
    for i, j in np.ndindex(2, 3):
        part = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        r, q = divmod(int(np.argmax(part)), 2)
        wanted[2 * i + r, 2 * j + q] += source[i, j]
    same(one(lambda b, u, v: forms.select_and_scatter(b, u, v, b.full(3.0, F32), w), x, source), wanted)


def test_resample() -> None:
    x = f32(2, 3, 4)
    same(one(lambda b, v: forms.resample(b, v, 1, np.eye(3)[[0, 0, 2, 1]]), x), x[:, [0, 0, 2, 1]])
    halves = np.array([[0.5, 0.5, 0], [0, 0.25, 0.75]])
    same(one(lambda b, v: forms.resample(b, v, 1, halves), x), np.einsum("ij,ajb->aib", halves, x).astype(np.float32))


@pytest.mark.parametrize(
    ("places", "ops"),
    [
        ([0, 0, 1, 1, 2, 2, 3, 3], ["broadcast", "reshape"]),
        ([0, 2], ["slice"]),
        ([1, 1, 1, 3, 3, 3], ["slice", "broadcast", "reshape"]),
        ([2, 2, 2], ["slice", "broadcast", "reshape"]),
        ([3], ["slice"]),
        ([0, 1, 2, 3], []),
        ([], ["constant", "take"]),
        ([0, 0, 1], ["constant", "take"]),
        ([3, 2, 1, 0], ["constant", "take"]),
        ([0, 1, 3], ["constant", "take"]),
    ],
)
def test_repro_even_picks_are_views(places: list[int], ops: list[str]) -> None:
    """Resize by a whole factor was a `take`, which machines without a gather unit do element by element."""
    x = f32(2, 4, 3)
    b = Builder("form", "here:1:1")
    v = b.input("x", type_of(x))
    graph = b.finish((forms.resample(b, v, 1, np.eye(4)[places]),))
    assert [n.op for n in graph.nodes if n.op != "input"] == ops
    same(evaluate(graph, {"x": x})[0], x[:, places])


# ---- regions -----------------------------------------------------------------------------------------


def _region(takes: Sequence[TensorType], build: Callable[..., int | Sequence[int]]) -> Graph:
    b = Builder("region")
    made = build(b, *(b.input(f"x{i}", t) for i, t in enumerate(takes)))
    return b.finish((made,) if isinstance(made, int) else tuple(made))


S, SI = TensorType(F32, ()), TensorType(I32, ())


def test_reductions_by_region() -> None:
    x = f32(3, 4, 5)
    add = _region((S, S), lambda b, u, v: b.one("add", u, v))
    got = run(lambda b, v: forms.reduce_region(b, (v,), (b.full(2.0, F32),), (0, 2), add), x)
    same(got[0], x.sum((0, 2)) + 2)
    odd = _region((S, S), lambda b, u, v: b.one("sub", b.one("mul", u, b.full(0.5, F32)), v))
    wanted = np.full(4, 1, np.float32)
    for i, k in np.ndindex(3, 5):
        wanted = wanted * np.float32(0.5) - x[i, :, k]
    same(run(lambda b, v: forms.reduce_region(b, (v,), (b.full(1.0, F32),), (0, 2), odd), x)[0], wanted)

    def best(b: Builder, u: int, i: int, v: int, j: int) -> tuple[int, int]:
        keep = b.one("ge", u, v)
        return b.one("select", keep, u, v), b.one("select", keep, i, j)

    argmax = _region((S, SI, S, SI), best)

    def arg(b: Builder, v: int) -> tuple[int, ...]:
        place = b.one("iota", axis=1, dtype=I32, shape=(3, 4, 5))
        return forms.reduce_region(b, (v, place), (b.full(-np.inf, F32), b.full(0, I32)), (1,), argmax)

    value, place = run(arg, x)
    same(value, x.max(1))
    same(place, x.argmax(1))
    same(
        run(lambda b, v: forms.reduce_region(b, (v,), (b.full(1.0, F32),), (0,), odd), f32(0, 2))[0],
        np.ones(2, np.float32),
    )


def test_windows_by_region() -> None:
    x, w = f32(3, 4, 5), WINDOWS[1]
    odd = _region((S, S), lambda b, u, v: b.one("sub", b.one("mul", u, b.full(0.5, F32)), v))

    def fold(part: NDArray) -> float:
        total = np.float32(1)
        for v in part.ravel():
            total = total * np.float32(0.5) - v
        return float(total)

    got = run(lambda b, v: forms.reduce_window_region(b, (v,), (b.full(1.0, F32),), w, odd), x)
    same(got[0], _slow_windows(x, w, fold, 1))


def test_sorts_by_region() -> None:
    x, y = f32(6, 3), rng.integers(0, 3, (6, 3)).astype(np.int32)
    takes = (S, S, SI, SI)
    order = np.argsort(x, 0, kind="stable")
    less = _region(takes, lambda b, u, v, i, j: b.one("lt", u, v))
    more = _region(takes, lambda b, u, v, i, j: b.one("gt", u, v))
    key = _region(takes, lambda b, u, v, i, j: b.one("lt", b.one("abs", u), b.one("abs", v)))
    swapped = _region(takes, lambda b, u, v, i, j: b.one("gt", v, u))

    def two(b: Builder, u: int, v: int, i: int, j: int) -> int:
        equal = b.one("and", b.one("eq", u, v), b.one("gt", i, j))
        return b.one("or", b.one("lt", u, v), equal)

    for region, wanted, length in (
        (less, order, 1), (swapped, order, 1), (more, np.argsort(-x, 0, kind="stable"), 1),
        (key, np.argsort(np.abs(x), 0, kind="stable"), 1), (_region(takes, two), np.lexsort((-y, x), axis=0), None),
    ):  # fmt: skip
        b = Builder("sort")
        values = [b.input("a0", type_of(x)), b.input("a1", type_of(y))]
        graph = b.finish(forms.sort_region(b, values, 0, region))
        assert ("loop" in {n.op for n in graph.nodes}) == (length is None)
        for got, v in zip(evaluate(graph, {"a0": x, "a1": y}), (x, y), strict=True):
            same(got, np.take_along_axis(v, wanted, 0))


@pytest.mark.parametrize(
    ("start", "op", "bound", "step"),
    [(0, "lt", 5, 1), (7, "ge", 0, -2), (0, "ne", 6, 2), (3, "le", 3, 1), (9, "lt", 5, 1)],
)
def test_counting_loops_are_loops(start: int, op: str, bound: int, step: int) -> None:
    cond = _region((SI, S), lambda b, i, x: b.one(op, i, b.full(bound, I32)))
    body = _region((SI, S), lambda b, i, x: (b.one("add", i, b.full(step, I32)), b.one("add", x, x)))

    def build(b: Builder, x: int) -> tuple[int, ...]:
        made = forms.while_loop(b, (b.full(start, I32), x), (), cond, body)
        assert b.nodes[-1].op == "loop"
        return made

    tests = {"lt": int.__lt__, "ge": int.__ge__, "ne": int.__ne__, "le": int.__le__}
    i, x = start, np.float32(1)
    while tests[op](i, bound):
        i, x = i + step, x + x
    got = run(build, np.array(1, np.float32))
    assert int(got[0]) == i and got[1] == x


def test_other_loops_stay_while() -> None:
    cond = _region((SI, S), lambda b, i, x: b.one("lt", x, b.full(100.0, F32)))
    body = _region((SI, S), lambda b, i, x: (b.one("add", i, b.full(1, I32)), b.one("add", x, x)))
    got = run(lambda b, x: forms.while_loop(b, (b.full(0, I32), x), (), cond, body), np.array(3, np.float32))
    assert (int(got[0]), float(got[1])) == (6, 192.0)


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_case(index: int) -> None:
    branches = [_region((S,), lambda b, x, k=k: b.one("add", x, b.full(float(k), F32))) for k in range(3)]
    got = run(lambda b, i, x: forms.case(b, i, (x,), branches), np.array(index, np.int32), np.array(10, np.float32))
    assert got[0] == 10 + (index if 0 <= index < 3 else 2)


# ---- quantisation ------------------------------------------------------------------------------------


def test_quantisation() -> None:
    x = np.array([[0, 2, 3, 1000], [-254, -1000, 1.5, 2.5]], np.float32)
    scale, zero = np.array([2, 4], np.float32), np.array([128, 0], np.uint8)
    q = one(lambda b, v, s, z: forms.quantize_linear(b, v, s, z, 0, DTYPES["u8"]), x, scale, zero)
    wanted = np.clip(np.rint(x / scale[:, None]) + zero[:, None], 0, 255).astype(np.uint8)
    same(q, wanted)
    back = one(lambda b, v, s, z: forms.dequantize_linear(b, v, s, z, 0), q, scale, zero)
    same(back, (wanted.astype(np.float32) - zero[:, None]) * scale[:, None])
    # From ONNX's own example of DynamicQuantizeLinear.
    y, s, z = run(forms.dynamic_quantize_linear, np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32))
    same(y, np.array([153, 255, 0, 26, 221, 179], np.uint8))
    assert s == np.float32(0.0196078438) and z == 153
