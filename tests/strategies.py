"""Hypothesis strategies: what a text, a span, a type, a graph may be. Every feature adds its own here."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from hypothesis import strategies as st
from tdslc.compiler.graph import DTYPES, OPS, Array, Attr, Builder, DType, Graph, NDArray, TensorType
from tdslc.compiler.graph.dtypes import BOOL, from_numpy, int_range, rounded
from tdslc.compiler.source import SourceFile, Span

# Characters that have cost other tools an alignment: tabs, wide, combining, invisible and reordering ones.
_AWKWARD = "\n\t\x00\x1b\u0301\u200b\u202e\u2028漢🙂"


def texts(max_size: int = 400) -> st.SearchStrategy[str]:
    """Source texts, awkward ones among them, of any Unicode characters but lone surrogates."""
    return st.text(st.sampled_from(_AWKWARD + "ab =(") | st.characters(codec="utf-8"), max_size=max_size)


def source_files() -> st.SearchStrategy[SourceFile]:
    """Files of `texts`; some with one line of many thousand characters."""
    long = st.builds(lambda text, n: text * n, texts(20), st.integers(1, 2000))
    return st.builds(SourceFile, st.sampled_from(["a.tdsl", "sub/b.rules"]), texts() | long)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    """Any place of any file, empty ones and the end of the file included."""
    file = draw(source_files())
    start = draw(st.integers(0, len(file.text)))
    return file.span(start, draw(st.integers(start, len(file.text))))


# ---- graphs --------------------------------------------------------------------------------------

_SIZES = st.sampled_from([0, 1, 1, 2, 2, 3, 3, 5, 7, 8, 9])
_LONG = st.sampled_from([127, 128, 129])
# f64, the other 8-bit float and the wide integers appear in `convert` and in the golden tables.
TESTED_DTYPES = tuple(DTYPES[name] for name in ("f32", "bf16", "f16", "f8e4m3", "i32", "i8", "i4", "u8", "bool"))
FLOATS = tuple(d for d in TESTED_DTYPES if d.is_float)
NUMBERS = tuple(d for d in TESTED_DTYPES if d.kind != "bool")
_SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, -0.5, 1.0, -1.0, 3e38, 1e-40)


@dataclass(frozen=True)
class Example:
    """An op with operands that it accepts."""

    op: str
    operands: tuple[NDArray, ...]
    attrs: dict[str, Attr]
    regions: tuple[Graph, ...] = ()

    @property
    def types(self) -> tuple[TensorType, ...]:
        return tuple(type_of(x) for x in self.operands)

    def graph(self) -> Graph:
        """The op on inputs `a0`, `a1`, …; a leaf is the graph's own."""
        b = Builder("example")
        args = [b.input(f"a{i}", t) for i, t in enumerate(self.types)]
        return b.finish(b.add(self.op, args, self.attrs, regions=self.regions))

    def bound(self) -> dict[str, NDArray]:
        """Values of the graph's inputs."""
        given = {f"a{i}": x for i, x in enumerate(self.operands)}
        if self.op in ("input", "param"):
            shape, kind = self.attrs["shape"], self.attrs["dtype"]
            given["leaf"] = values(np.random.default_rng(7), kind, shape)
        return given


def type_of(x: NDArray) -> TensorType:
    """The type an array is of."""
    kind = from_numpy(x.dtype)
    assert kind is not None, x.dtype
    return TensorType(kind, x.shape)


def values(rng: np.random.Generator, d: DType, shape: tuple[int, ...], whole: bool = False) -> NDArray:
    """Random values of `d`, special ones among them; `whole`: small whole numbers, whose sums are exact in any order."""
    if d.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if d.is_int:
        low, high = int_range(d)
        return rng.integers(max(low, -9), min(high, 9), shape, endpoint=True).astype(d.numpy) if whole else (
            rng.integers(low, high, shape, dtype=np.int64, endpoint=True).astype(d.numpy))
    plain = rng.integers(-4, 5, shape).astype(np.float64) if whole else rng.standard_normal(shape) * 4
    special = np.array([0.0, -0.0, 1.0] if whole else _SPECIAL)[rng.integers(0, 3 if whole else len(_SPECIAL), shape)]
    return rounded(np.where(rng.random(shape) < 0.2, special, plain), d)


def shapes(min_rank: int = 0, max_rank: int = 3, min_size: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    """Small shapes, now and then one with a long axis."""
    size = _SIZES.filter(lambda n: n >= min_size)
    small = st.lists(size, min_size=min_rank, max_size=max_rank).map(tuple)
    at = st.integers(0, max(min_rank - 1, 0))
    long = st.builds(lambda s, n, i: (*s[:i], n, *s[i + 1 :]), small, _LONG, at).filter(lambda s: len(s) >= min_rank)
    return st.one_of(small, small, small, long) if max_rank else small


def arrays(
    dtypes: Sequence[DType], shape: st.SearchStrategy[tuple[int, ...]], whole: bool = False
) -> st.SearchStrategy[NDArray]:
    """Arrays of `values`."""
    seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
    return st.builds(lambda rng, d, s: values(rng, d, s, whole), seeds, st.sampled_from(dtypes), shape)


@st.composite
def alike(draw: st.DrawFn, count: int, dtypes: Sequence[DType]) -> tuple[NDArray, ...]:
    """`count` arrays of one type."""
    first = draw(arrays(dtypes, shapes()))
    return (first, *(draw(arrays([type_of(first).dtype], st.just(first.shape))) for _ in range(count - 1)))


def examples(op: str) -> st.SearchStrategy[Example]:
    """Examples of `op`; of an elementwise op without attributes from its row alone, of others from this table."""
    if op in _EXAMPLES:
        return _EXAMPLES[op]()
    row = OPS[op]
    if row.attrs or "elementwise" not in row.traits:
        raise LookupError(f"tests/strategies.py has no examples of {op}")
    legal = [d for d in TESTED_DTYPES if isinstance(row.infer((TensorType(d, ()),) * len(row.operands), {}), tuple)]
    return alike(len(row.operands), legal).map(lambda xs: Example(op, xs, {}))


@st.composite
def _leaf(draw: st.DrawFn, op: str) -> Example:
    d, shape = draw(st.sampled_from(TESTED_DTYPES)), draw(shapes())
    if op == "constant":
        x = draw(arrays([d], st.just(shape)))
        return Example(op, (), {"value": Array(type_of(x), x.tobytes())})
    if op == "full":
        value = draw(arrays([d], st.just(()))).item()
        return Example(op, (), {"value": float(value) if d.is_float else int(value), "dtype": d, "shape": shape})
    return Example(op, (), {"name": "leaf", "dtype": d, "shape": shape})


@st.composite
def _iota(draw: st.DrawFn) -> Example:
    shape = draw(shapes(1))
    axis = draw(st.integers(0, len(shape) - 1))
    return Example("iota", (), {"axis": axis, "dtype": draw(st.sampled_from(NUMBERS)), "shape": shape})


@st.composite
def _select(draw: st.DrawFn) -> Example:
    x, y = draw(alike(2, TESTED_DTYPES))
    return Example("select", (draw(arrays([BOOL], st.just(x.shape))), x, y), {})


@st.composite
def _convert(draw: st.DrawFn) -> Example:
    every = tuple(DTYPES.values())
    return Example("convert", (draw(arrays(every, shapes())),), {"dtype": draw(st.sampled_from(every))})


@st.composite
def _broadcast(draw: st.DrawFn) -> Example:
    shape = draw(shapes())
    dims = [i for i in range(len(shape)) if draw(st.booleans())]
    have = tuple(draw(st.sampled_from([1, shape[i]])) for i in dims)
    return Example("broadcast", (draw(arrays(TESTED_DTYPES, st.just(have))),), {"shape": shape, "dims": tuple(dims)})


@st.composite
def _reshape(draw: st.DrawFn) -> Example:
    """Both shapes are groupings of one list of small factors, so that all kinds of runs come up."""
    factors = draw(st.lists(st.sampled_from([1, 2, 2, 3, 4, 5, 0] if draw(st.booleans()) else [1, 2, 3, 4]), max_size=6))

    def grouped(order: Sequence[int]) -> tuple[int, ...]:
        cuts = sorted(draw(st.lists(st.integers(0, len(order)), max_size=4)))
        edges = [0, *cuts, len(order)]
        return tuple(math.prod(order[a:b]) for a, b in itertools.pairwise(edges))

    other = draw(st.sampled_from([factors, factors[::-1], sorted(factors)]))
    return Example("reshape", (draw(arrays(TESTED_DTYPES, st.just(grouped(factors)))),), {"shape": grouped(other)})


@st.composite
def _transpose(draw: st.DrawFn) -> Example:
    x = draw(arrays(TESTED_DTYPES, shapes()))
    return Example("transpose", (x,), {"perm": tuple(draw(st.permutations(range(x.ndim))))})


@st.composite
def _slice(draw: st.DrawFn) -> Example:
    x = draw(arrays(TESTED_DTYPES, shapes()))
    cuts: list[tuple[int, int, int]] = []
    for n in x.shape:
        start, stop = sorted((draw(st.integers(0, n)), draw(st.integers(0, n))))
        cuts.append(draw(st.sampled_from([(0, n, 1), (start, stop, draw(st.integers(1, 4)))])))
    attrs = {name: tuple(c[i] for c in cuts) for i, name in enumerate(("starts", "stops", "steps"))}
    return Example("slice", (x,), attrs)


@st.composite
def _concat(draw: st.DrawFn) -> Example:
    x = draw(arrays(TESTED_DTYPES, shapes(1)))
    axis = draw(st.integers(0, x.ndim - 1))
    sizes = draw(st.lists(_SIZES, max_size=3))
    shaped = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes]
    rest = [draw(arrays([type_of(x).dtype], st.just(s))) for s in shaped]
    return Example("concat", (x, *rest), {"axis": axis})


@st.composite
def _pad(draw: st.DrawFn) -> Example:
    x = draw(arrays(TESTED_DTYPES, shapes()))
    d = type_of(x).dtype
    low, high = (tuple(draw(st.sampled_from([0, 0, 1, 2])) for _ in x.shape) for _ in range(2))
    value = draw(st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf] if d.is_float else [0, 1]))
    return Example("pad", (x,), {"low": low, "high": high, "value": value})


@st.composite
def _reverse(draw: st.DrawFn) -> Example:
    x = draw(arrays(TESTED_DTYPES, shapes()))
    return Example("reverse", (x,), {"axes": tuple(i for i in range(x.ndim) if draw(st.booleans()))})


@st.composite
def _take(draw: st.DrawFn) -> Example:
    table = draw(arrays(TESTED_DTYPES, shapes(1)))
    axis = draw(st.integers(0, table.ndim - 1))
    shape = draw(shapes(0, 2) if table.shape[axis] else st.just((0,)))
    index = draw(arrays([DTYPES[n] for n in ("i32", "i64", "i8", "u8", "i4", "u64")], st.just(shape), draw(st.booleans())))
    return Example("take", (table, index), {"axis": axis})


@st.composite
def _matmul(draw: st.DrawFn) -> Example:
    d = draw(st.sampled_from(NUMBERS))
    *batch, m, k = draw(shapes(2, 4))
    b_batch = tuple(batch) if draw(st.booleans()) else ()
    a = draw(arrays([d], st.just((*batch, m, k)), whole=True))
    b = draw(arrays([d], st.just((*b_batch, k, draw(_SIZES))), whole=True))
    wider = [None, *(x for x in NUMBERS if x.kind == d.kind and x.bits >= d.bits)]
    return Example("matmul", (a, b), {"dtype": draw(st.sampled_from(wider))})


@st.composite
def _windowed(draw: st.DrawFn, rank: int) -> dict[str, Attr]:
    def each(*choices: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(choices)) for _ in range(rank))

    return {"strides": each(1, 1, 2, 3), "low": each(0, 0, 1, 2), "high": each(0, 1), "dilations": each(1, 1, 2)}


@st.composite
def _conv(draw: st.DrawFn) -> Example:
    d, groups = draw(st.sampled_from(NUMBERS)), draw(st.sampled_from([1, 1, 2, 3]))
    n, per, out = draw(st.sampled_from([0, 1, 2, 3])), draw(st.sampled_from([0, 1, 2, 3])), draw(st.integers(0, 3))
    spatial = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 7]), min_size=1, max_size=2))
    taps = [draw(st.sampled_from([1, 1, 2, 3])) for _ in spatial]
    x = draw(arrays([d], st.just((n, per * groups, *spatial)), whole=True))
    w = draw(arrays([d], st.just((out * groups, per, *taps)), whole=True))
    return Example("conv", (x, w), {**draw(_windowed(len(spatial))), "groups": groups})


@st.composite
def _reduce_window(draw: st.DrawFn) -> Example:
    x = draw(arrays(NUMBERS, shapes(3, 4), whole=draw(st.booleans())))
    rank = x.ndim - 2
    window = tuple(draw(st.sampled_from([1, 2, 2, 3])) for _ in range(rank))
    return Example("reduce_window", (x,), {**draw(_windowed(rank)), "window": window, "op": draw(st.sampled_from(["max", "sum"]))})


@st.composite
def _reduce(draw: st.DrawFn, op: str) -> Example:
    logical = op in ("reduce_and", "reduce_or")
    x = draw(arrays([BOOL] if logical else NUMBERS, shapes()))
    return Example(op, (x,), {"axes": tuple(i for i in range(x.ndim) if draw(st.booleans()))})


@st.composite
def _argmax(draw: st.DrawFn) -> Example:
    x = draw(arrays(NUMBERS, shapes(1)).filter(lambda x: any(x.shape)))
    return Example("argmax", (x,), {"axis": draw(st.sampled_from([i for i, n in enumerate(x.shape) if n]))})


@st.composite
def _loop(draw: st.DrawFn) -> Example:
    """carry = carry + x + captured; y = (carry, index)."""
    (carry,) = draw(alike(1, [DTYPES["f32"], DTYPES["i32"]]))
    t, n = type_of(carry), draw(st.integers(0, 3))
    xs, captured = draw(arrays([t.dtype], st.just((n, *t.shape)))), draw(arrays([t.dtype], st.just(t.shape)))
    b = Builder("body")
    index, c, x, k = b.input("i", TensorType(DTYPES["i32"], ())), *(b.input(name, t) for name in "cxk")
    after = b.one("add", b.one("add", c, x), k)
    body = b.finish([after, c, index])
    return Example("loop", (carry, xs, captured), {"n": n, "carry": 1, "xs": 1}, (body,))


_EXAMPLES: dict[str, Callable[[], st.SearchStrategy[Example]]] = {
    **{op: partial(_leaf, op) for op in ("input", "param", "constant", "full")},
    **{f"reduce_{kind}": partial(_reduce, f"reduce_{kind}") for kind in ("sum", "prod", "max", "min", "and", "or")},
    "iota": _iota, "select": _select, "convert": _convert, "broadcast": _broadcast, "reshape": _reshape,
    "transpose": _transpose, "slice": _slice, "concat": _concat, "pad": _pad, "reverse": _reverse, "take": _take,
    "matmul": _matmul, "conv": _conv, "reduce_window": _reduce_window, "argmax": _argmax, "loop": _loop,
}  # fmt: skip
