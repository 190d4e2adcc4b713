"""The meanings against other ways to the same numbers: the C library, series, NumPy, plain loops, fractions."""

import decimal
import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Example, examples, values
from tdslc.compiler.graph import DTYPES, Attr, NDArray, evaluate

F32, F64, BF16, F16 = (DTYPES[n] for n in ("f32", "f64", "bf16", "f16"))
rng = np.random.default_rng(11)


def run(op: str, /, *operands: NDArray, **attrs: Attr) -> NDArray:
    example = Example(op, operands, attrs)
    (result,) = evaluate(example.graph(), example.bound())
    return result


def ulps(got: NDArray, exact: NDArray) -> NDArray:
    """Distance in units of the last place of `exact` at the type of `got`; 0 for the same NaN or infinity."""
    same = (got == exact) | ((got != got) & (exact != exact))
    with np.errstate(all="ignore"):
        distance = np.abs(got.astype(np.float64) - exact.astype(np.float64)) / np.spacing(
            np.abs(exact.astype(got.dtype))
        )
    return np.where(same, 0, distance)


# ---- elementwise ---------------------------------------------------------------------------------

REAL = np.concatenate([
    rng.standard_normal(300) * 3, 10.0 ** rng.uniform(-300, 300, 100), -(10.0 ** rng.uniform(-300, 2, 100)),
    [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 2.0, 5e-324, 710.0, -746.0],
])  # fmt: skip


def _total(fn: Callable[[float], float]) -> Callable[[float], float]:
    """`fn` with C's results where Python raises."""

    def run_total(x: float) -> float:
        try:
            return fn(x)
        except OverflowError:
            return math.inf
        except ValueError:
            pole = fn in (math.log, math.log1p) and (x == 0 if fn is math.log else x == -1)
            return -math.inf if pole else math.nan

    return run_total


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sin", "cos"])
@pytest.mark.parametrize("d", [F64, F32], ids=str)
def test_smooth_functions(name: str, d: object) -> None:
    """In f64 within 4 ulp of the C library, in f32 the rounded value but for double rounding."""
    d = DTYPES[str(d)]
    with np.errstate(all="ignore"):
        x = REAL.astype(d.numpy)
    exact = np.array([_total(getattr(math, name))(float(v)) for v in x])
    with np.errstate(all="ignore"):
        assert np.max(ulps(run(name, x), exact.astype(d.numpy))) <= (4 if d is F64 else 1)
    if d is F32:
        with np.errstate(all="ignore"):
            assert np.mean(run(name, x) == exact.astype(np.float32)) >= np.mean(exact == exact) - 0.01


def test_erf_against_its_series() -> None:
    """erf(x) = 2 / sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1)), to 60 digits."""
    x = rng.uniform(-6, 6, 60)
    assert np.max(ulps(run("erf", x), np.array([float(_erf(decimal.Decimal(float(v)))) for v in x]))) <= 2


def _erf(x: decimal.Decimal) -> decimal.Decimal:
    with decimal.localcontext(prec=60):
        pi = decimal.Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
        total, power = decimal.Decimal(0), x
        for n in range(200):
            total += power / (2 * n + 1)
            power *= -x * x / (n + 1)
        return total * 2 / pi.sqrt()


def test_pow_against_the_c_library() -> None:
    points = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        math.inf,
        -math.inf,
        math.nan,
        1e-300,
        1e300,
        7.25,
        2.0**53,
    ]
    pairs = np.array(list(itertools.product(points, repeat=2)))
    exact = np.array([_pow(a, b) for a, b in pairs])
    got = run("pow", pairs[:, 0], pairs[:, 1])
    assert np.max(ulps(got, exact)) <= 4
    number = got == got
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(exact)[number])


def _pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.inf
    except ValueError:  # a zero to a negative power, or a negative number to one that is not whole
        return math.copysign(math.inf, a if b % 2 == 1 else 1.0) if a == 0 else abs(math.nan)


@pytest.mark.parametrize("d", [F32, BF16, F16, F64], ids=str)
def test_special_powers_are_the_simple_ops(d: object) -> None:
    d = DTYPES[str(d)]
    x = rng.standard_normal(2000).astype(d.numpy)
    for power, same in ((2, ("mul", x, x)), (1, ("mul", x, np.ones_like(x))), (-1, ("div", np.ones_like(x), x))):
        got, wanted = run("pow", x, np.full_like(x, power)), run(*same)
        np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))
    positive = np.abs(x)[x != 0]
    np.testing.assert_array_equal(
        run("pow", positive, np.full_like(positive, 0.5)).astype(np.float64), run("sqrt", positive).astype(np.float64)
    )


@pytest.mark.parametrize("d", ["bf16", "f16", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_narrow_arithmetic_is_the_exact_result_rounded_once(op: str, d: str) -> None:
    """f32 has more than twice their digits, so that rounding twice is rounding once (Figueroa 1995)."""
    kind = DTYPES[d]
    a, b = (values(rng, kind, (400,)) for _ in range(2))
    fine = np.isfinite(a.astype(np.float64)) & np.isfinite(b.astype(np.float64)) & (b.astype(np.float64) != 0)
    a, b = a[fine], b[fine]
    exact = [_exact(op, Fraction(float(x)), Fraction(float(y))) for x, y in zip(a, b, strict=True)]
    for got, value in zip(run(op, a, b), exact, strict=True):
        assert not np.isfinite(np.float64(got)) or _is_nearest(got, value, kind.numpy)


def _exact(op: str, a: Fraction, b: Fraction) -> Fraction:
    return {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b}[op]


def _is_nearest(got: np.generic, value: Fraction, kind: np.dtype[np.generic]) -> bool:
    """Whether no neighbour of `got` is closer to `value`, and at a tie `got` is even."""
    error = abs(Fraction(float(got)) - value)
    for towards in (-math.inf, math.inf):
        near = float(np.nextafter(np.asarray(got), np.asarray(towards, np.float32).astype(kind)))
        if math.isfinite(near) and near != float(got):
            other = abs(Fraction(near) - value)
            even = int(np.asarray(got).view(f"u{kind.itemsize}")) % 2 == 0
            if other < error or (other == error and not even):
                return False
    return True


@pytest.mark.parametrize("name", ["i8", "u8", "i4", "u4", "i32", "u64", "i64"])
def test_integers_are_pythons_modulo_two_to_the_bits(name: str) -> None:
    d = DTYPES[name]
    a, b = values(rng, d, (300,)), values(rng, d, (300,))

    def wrapped(n: int) -> int:
        n %= 1 << d.bits
        return n - (1 << d.bits) if d.kind == "int" and n >> (d.bits - 1) else n

    def divided(x: int, y: int) -> int:
        return wrapped(-1) if y == 0 else wrapped(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))

    def remainder(x: int, y: int) -> int:
        return x if y == 0 else int(math.copysign(1, x)) * (abs(x) % abs(y))

    plain: dict[str, Callable[[int, int], int]] = {
        "add": lambda x, y: wrapped(x + y), "sub": lambda x, y: wrapped(x - y), "mul": lambda x, y: wrapped(x * y),
        "div": divided, "rem": remainder, "max": max, "min": min, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y, "lt": lambda x, y: x < y, "eq": lambda x, y: x == y,
    }  # fmt: skip
    for op, fn in plain.items():
        assert [int(v) for v in run(op, a, b)] == [fn(int(x), int(y)) for x, y in zip(a, b, strict=True)], op
    for op, one in {"neg": lambda x: wrapped(-x), "abs": lambda x: wrapped(abs(x)), "not": lambda x: wrapped(~x),
                    "sign": lambda x: (x > 0) - (x < 0)}.items():  # fmt: skip
        assert [int(v) for v in run(op, a)] == [one(int(x)) for x in a], op
    for op, total in {"reduce_sum": sum, "reduce_prod": math.prod, "reduce_max": max, "reduce_min": min}.items():
        assert int(run(op, a, axes=(0,))) == wrapped(total(int(x) for x in a)), op


# ---- convert -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "theirs"),
    [
        ("bf16", ml_dtypes.bfloat16),
        ("f16", np.float16),
        ("f8e4m3", ml_dtypes.float8_e4m3fn),
        ("f8e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_converting_f32_is_ml_dtypes_cast(to: str, theirs: type) -> None:
    x = np.concatenate([values(rng, F32, (2000,)), np.frombuffer(rng.bytes(8000), np.float32)])
    with np.errstate(all="ignore"):
        wanted = x.astype(theirs)
    got = run("convert", x, dtype=DTYPES[to])
    np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))
    np.testing.assert_array_equal(np.signbit(got)[x == x], np.signbit(wanted)[x == x])


@pytest.mark.parametrize("to", ["bf16", "f16", "f8e4m3", "f8e5m2"])
def test_converting_f64_goes_through_f32(to: str) -> None:
    x = rng.standard_normal(1000) * 10.0 ** rng.integers(-10, 10, 1000)
    twice = run("convert", run("convert", x, dtype=F32), dtype=DTYPES[to])
    np.testing.assert_array_equal(run("convert", x, dtype=DTYPES[to]).astype(np.float64), twice.astype(np.float64))


# ---- contractions and reductions -----------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "formula"), [
    ((3, 4), (4, 5), "mk,kn->mn"), ((2, 3, 4), (4, 5), "bmk,kn->bmn"), ((2, 3, 4), (2, 4, 5), "bmk,bkn->bmn"),
    ((2, 6, 3, 4), (2, 6, 4, 1), "abmk,abkn->abmn"), ((2, 6, 3, 0), (0, 2), "abmk,kn->abmn"),
])  # fmt: skip
def test_matmul_against_einsum(a: tuple[int, ...], b: tuple[int, ...], formula: str) -> None:
    x, y = (values(rng, F32, s, whole=True) for s in (a, b))
    np.testing.assert_array_equal(run("matmul", x, y), np.einsum(formula, x, y))


def test_matmul_error() -> None:
    """Of random bf16 numbers, the exact sum of exact products rounded to f32."""
    x, y = (rng.standard_normal(s).astype(BF16.numpy) for s in ((20, 129), (129, 20)))
    got = run("matmul", x, y, dtype=F32)
    for i, j in itertools.product(range(20), repeat=2):
        exact = sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(x[i], y[:, j], strict=True))
        assert float(got[i, j]) == np.float32(float(exact))


def test_conv_against_einsum() -> None:
    x, w = values(rng, F64, (2, 3, 9, 8), whole=True), values(rng, F64, (4, 3, 3, 2), whole=True)
    patches = np.lib.stride_tricks.sliding_window_view(x, (3, 2), axis=(2, 3))
    got = run("conv", x, w, strides=(1, 1), low=(0, 0), high=(0, 0), dilations=(1, 1))
    np.testing.assert_array_equal(got, np.einsum("nchwij,ocij->nohw", patches, w))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_against_plain_loops(stride: int, dilation: int, groups: int) -> None:
    x, w, low, high = values(rng, F32, (2, 4, 7), whole=True), values(rng, F32, (6, 4 // groups, 3), whole=True), 2, 1
    got = run("conv", x, w, strides=(stride,), low=(low,), high=(high,), dilations=(dilation,), groups=groups)
    padded = np.pad(x, ((0, 0), (0, 0), (low, high)))
    for n, o, at in itertools.product(*map(range, got.shape)):
        first = o // (6 // groups) * (4 // groups)
        taps = itertools.product(range(4 // groups), range(3))
        assert got[n, o, at] == sum(padded[n, first + c, at * stride + k * dilation] * w[o, c, k] for c, k in taps)
    assert got.shape[2] == (7 + low + high - 2 * dilation - 1) // stride + 1


@pytest.mark.parametrize(("kind", "fold"), [("max", max), ("sum", sum)])
def test_reduce_window_against_plain_loops(kind: str, fold: Callable[..., float]) -> None:
    x = values(rng, F32, (2, 3, 6, 5), whole=True)
    got = run("reduce_window", x, op=kind, window=(2, 3), strides=(2, 1), low=(1, 0), high=(0, 2), dilations=(1, 2))
    filled = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=-np.inf if kind == "max" else 0)
    for n, c, i, j in itertools.product(*map(range, got.shape)):
        assert got[n, c, i, j] == fold(
            filled[n, c, 2 * i + a, j + 2 * b] for a, b in itertools.product(range(2), range(3))
        )


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_reductions_against_numpy(axes: tuple[int, ...]) -> None:
    x = rng.standard_normal((5, 129, 3)).astype(np.float32)
    wide = x.astype(np.float64)
    for op, wanted in (("sum", wide.sum(axes)), ("prod", wide.prod(axes)), ("max", x.max(axes)), ("min", x.min(axes))):
        np.testing.assert_allclose(run(f"reduce_{op}", x, axes=axes), np.asarray(wanted, np.float32), rtol=1e-6, atol=0)
    exact = math.fsum(map(float, x[:, :, 1].ravel()))
    assert run("reduce_sum", np.ascontiguousarray(x[:, :, 1]), axes=(0, 1)) == np.float32(exact)


def test_gathers_and_copies_against_numpy() -> None:
    x = values(rng, F32, (4, 5, 6))
    index = rng.integers(0, 5, (2, 3))
    np.testing.assert_array_equal(run("take", x, index, axis=1), x[:, index])
    np.testing.assert_array_equal(run("reverse", x, axes=(0, 2)), x[::-1, :, ::-1])
    np.testing.assert_array_equal(
        run("pad", x, low=(1, 0, 2), high=(0, 3, 0), value=1.5),
        np.pad(x, ((1, 0), (0, 3), (2, 0)), constant_values=1.5),
    )
    np.testing.assert_array_equal(
        run("slice", x, starts=(1, 0, 5), stops=(4, 5, 6), steps=(2, 3, 1)), x[1:4:2, ::3, 5:]
    )
    np.testing.assert_array_equal(run("concat", x, x[:, :2], axis=1), np.concatenate([x, x[:, :2]], 1))
    np.testing.assert_array_equal(run("argmax", x, axis=1), np.argmax(x, 1))


# ---- special functions ---------------------------------------------------------------------------

C_LIBRARY: dict[str, Callable[[float], float]] = {
    "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh,
    "asinh": math.asinh, "acosh": math.acosh, "atanh": math.atanh, "cbrt": math.cbrt, "exp2": math.exp2,
    "log2": math.log2, "erfc": math.erfc,
}  # fmt: skip


@pytest.mark.parametrize("name", C_LIBRARY)
def test_functions_of_the_c_library(name: str) -> None:
    x = np.concatenate([REAL, rng.uniform(-1, 1, 100)])
    finite = x[np.isfinite(x) & ((np.abs(x) != 1) | (name != "atanh")) & ((x != 0) | (name != "log2"))]
    exact = np.array([_total(C_LIBRARY[name])(float(v)) for v in finite])
    if name == "sinh":
        exact = np.copysign(exact, finite)  # `_total` has no sign for an overflow
    assert ulps(run(name, finite), exact).max() <= 4, name


def test_atan2_and_logistic() -> None:
    y, x = rng.standard_normal((2, 300))
    assert ulps(run("atan2", y, x), np.array(list(map(math.atan2, y, x)))).max() <= 2
    wide = np.linspace(-700, 700, 301)
    assert ulps(run("logistic", wide), np.array([1 / (1 + math.exp(-v)) for v in wide])).max() <= 4


def test_erf_inv_undoes_erf() -> None:
    x = np.concatenate([rng.uniform(-5.8, 5.8, 300), 10.0 ** rng.uniform(-300, 0, 100)])
    y = np.array(list(map(math.erf, x)))
    back = run("erf_inv", y)
    # What erf(x) rounds away cannot come back: half an ulp of y, over erf's slope.
    lost = np.spacing(np.abs(y)) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    inside = np.abs(y) < 1
    assert np.all(np.abs(back - x)[inside] <= (lost + 4 * np.spacing(np.abs(x)))[inside])


def test_digamma_keeps_its_recurrence() -> None:
    """digamma(x + 1) = digamma(x) + 1 / x, and known values (Abramowitz and Stegun 6.3)."""
    x = np.concatenate([rng.uniform(-9, 9, 200), rng.uniform(10, 1e6, 50)])
    np.testing.assert_allclose(run("digamma", x + 1), run("digamma", x) + 1 / x, rtol=1e-9, atol=1e-10)
    gamma = 0.5772156649015329
    known = run("digamma", np.array([1.0, 2.0, 0.5, 10.0]))
    np.testing.assert_allclose(known, [-gamma, 1 - gamma, -gamma - 2 * math.log(2), 2.2517525890667211], rtol=1e-15)


def test_lgamma_of_integers_is_log_factorial() -> None:
    n = np.arange(1.0, 60)
    exact = [math.log(math.factorial(int(v) - 1)) for v in n]
    np.testing.assert_allclose(run("lgamma", n), exact, rtol=1e-14, atol=1e-14)


# ---- places by index, from the definitions in StableHLO's specification ----------------------------


def _index_vector(index: NDArray, place: tuple[int, ...], axis: int) -> list[int]:
    wide = index[..., None] if axis == index.ndim else index
    return [int(v) for v in wide[(*place[:axis], slice(None), *place[axis:])]]


def slow_gather(x: NDArray, index: NDArray, a: dict[str, Attr], out: NDArray) -> NDArray:
    """Element by element."""
    offset = list(a["offset_dims"])  # type: ignore[arg-type]
    gone = sorted([*a["collapsed_slice_dims"], *a["operand_batching_dims"]])  # type: ignore[misc]
    for at in np.ndindex(*out.shape):
        batch = tuple(at[i] for i in range(out.ndim) if i not in offset)
        inside = iter([at[i] for i in offset])
        within = [0 if d in gone else next(inside) for d in range(x.ndim)]
        start = [0] * x.ndim
        for d, v in zip(a["start_index_map"], _index_vector(index, batch, a["index_vector_dim"]), strict=True):  # type: ignore[arg-type]
            start[d] = min(max(v, 0), x.shape[d] - a["slice_sizes"][d])  # type: ignore[index]
        for d, i in zip(a["operand_batching_dims"], a["start_indices_batching_dims"], strict=True):  # type: ignore[arg-type]
            start[d] = batch[i - (i > a["index_vector_dim"])]  # type: ignore[operator]
        out[at] = x[tuple(s + w for s, w in zip(start, within, strict=True))]
    return out


def slow_scatter(x: NDArray, index: NDArray, updates: NDArray, a: dict[str, Attr]) -> NDArray:
    """Update by update, in row-major order; for `set`, `add` and `max` of integers."""
    out = x.copy()
    window = list(a["update_window_dims"])  # type: ignore[arg-type]
    gone = sorted([*a["inserted_window_dims"], *a["input_batching_dims"]])  # type: ignore[misc]
    kept = [d for d in range(x.ndim) if d not in gone]
    for at in np.ndindex(*updates.shape):
        batch = tuple(at[i] for i in range(updates.ndim) if i not in window)
        start = [0] * x.ndim
        pairs = zip(a["scatter_dims_to_operand_dims"], _index_vector(index, batch, a["index_vector_dim"]), strict=True)  # type: ignore[arg-type]
        for d, v in pairs:
            start[d] = v
        for d, i in zip(a["input_batching_dims"], a["scatter_indices_batching_dims"], strict=True):  # type: ignore[arg-type]
            start[d] = batch[i - (i > a["index_vector_dim"])]  # type: ignore[operator]
        sizes = {d: updates.shape[i] for d, i in zip(kept, window, strict=True)}
        if any(not 0 <= start[d] <= x.shape[d] - sizes.get(d, 1) for d in range(x.ndim)):
            continue
        within = {d: at[i] for d, i in zip(kept, window, strict=True)}
        place = tuple(start[d] + within.get(d, 0) for d in range(x.ndim))
        fold = {"set": lambda old, new: new, "add": lambda old, new: old + new, "max": max, "min": min}
        out[place] = fold.get(str(a["op"]), lambda old, new: old * new)(int(out[place]), int(updates[at]))
    return out


@settings(max_examples=150)
@given(st.data())
def test_gather_and_scatter_are_stablehlos(data: st.DataObject) -> None:
    """On the examples of the laws, with values in which no sum or product overflows."""
    gather = data.draw(examples("gather"))
    x, index = np.arange(gather.operands[0].size).reshape(gather.operands[0].shape), gather.operands[1]
    got = run("gather", x, index, **gather.attrs)
    np.testing.assert_array_equal(got, slow_gather(x, index, gather.attrs, np.zeros_like(got)))
    scatter = data.draw(examples("scatter"))
    if scatter.attrs["op"] in ("and", "or"):
        return
    shapes = [o.shape for o in scatter.operands]
    x, updates = (np.arange(math.prod(shape)).reshape(shape) for shape in (shapes[0], shapes[2]))
    attrs = {**scatter.attrs, "op": "add" if scatter.attrs["op"] == "mul" else scatter.attrs["op"]}
    got = run("scatter", x, scatter.operands[1], updates, **attrs)
    np.testing.assert_array_equal(got, slow_scatter(x, scatter.operands[1], updates, attrs))


# ---- random bits ---------------------------------------------------------------------------------


def test_random_bits_are_the_published_ones() -> None:
    """The known answers of the authors' library Random123 (kat_vectors) for Threefry-2x32-20 and Philox-4x32-10."""
    ones = np.uint64(0xFFFFFFFFFFFFFFFF)
    u64, u32 = np.uint64, DTYPES["u32"]
    for state, words in (
        ([0, 0], (0x6B200159, 0x99BA4EFE)),
        ([ones, ones], (0x1CB996FC, 0xBB002BE7)),
    ):
        example = Example("rng_bits", (np.array(state, u64),), {"algorithm": "threefry", "dtype": u32, "shape": (2,)})
        np.testing.assert_array_equal(evaluate(example.graph(), example.bound())[1], np.array(words, np.uint32))
    for state, block in (
        ([0, 0, 0], (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ([ones, ones, ones], (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ):
        example = Example("rng_bits", (np.array(state, u64),), {"algorithm": "philox", "dtype": u32, "shape": (4,)})
        np.testing.assert_array_equal(evaluate(example.graph(), example.bound())[1], np.array(block, np.uint32))
