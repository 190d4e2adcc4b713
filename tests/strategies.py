"""Hypothesis strategies: what a text, a span, a type, a graph may be. Every feature adds its own here."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st
from tdslc.compiler.graph import DTYPES, OPS, Array, Attr, Builder, DType, Graph, NDArray, TensorType
from tdslc.compiler.graph.dtypes import BOOL, from_numpy, int_range, rounded
from tdslc.compiler.graph.ops.contract import window_length
from tdslc.compiler.source import SourceFile, Span

_T = TypeVar("_T")

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

# The other 8-bit float and the wide integers appear in `convert` and in the golden tables.
TESTED_DTYPES = tuple(DTYPES[name] for name in ("f32", "bf16", "f16", "f64", "f8e4m3", "i32", "i8", "i4", "u8", "bool"))
NUMBERS = tuple(d for d in TESTED_DTYPES if d.kind != "bool")
_SPECIAL = np.array([0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, -0.5, 1.0, -1.0, 3e38, 1e-40])
_WINDOW = ("strides", "low", "high", "dilations")


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
    """Random values of `d`, special ones among them; `whole` ones are small, so that sums are exact in any order."""
    if d.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if d.is_int:
        low, high = int_range(d)
        low, high = (max(low, -9), min(high, 9)) if whole else (low, high)
        return rng.integers(low, high, shape, dtype=np.uint64 if low == 0 else np.int64, endpoint=True).astype(d.numpy)
    plain = rng.integers(-4, 5, shape).astype(np.float64) if whole else rng.standard_normal(shape) * 4
    special = _SPECIAL[:2] if whole else _SPECIAL
    return rounded(np.where(rng.random(shape) < 0.2, special[rng.integers(0, len(special), shape)], plain), d)


@cache
def shapes(min_rank: int = 0, max_rank: int = 3) -> st.SearchStrategy[tuple[int, ...]]:
    """Small shapes, now and then one with a long axis."""
    sizes = st.sampled_from([2, 3, 1, 5, 0, 7, 8, 9])
    of_rank = {rank: st.tuples(*[sizes] * rank) for rank in range(min_rank, max_rank + 1)}
    # The highest rank as often as all others: laws about axes are about several.
    small = st.sampled_from([*of_rank, *[max_rank] * len(of_rank)]).flatmap(of_rank.__getitem__)
    long = st.builds(lambda shape, n: (n, *shape[1 : max(min_rank, 2)]), small, st.sampled_from([127, 128, 129]))
    return st.one_of(small, small, small, small, long) if max_rank else small


class Chooser:
    """What examples are drawn with: shapes and dtypes by hypothesis, for shrinking; the rest by a seed."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(_SEEDS))

    def shape(self, min_rank: int = 0, max_rank: int = 3) -> tuple[int, ...]:
        return self.draw(shapes(min_rank, max_rank))

    def dtype(self, of: Sequence[DType]) -> DType:
        return self.draw(_sampled(tuple(of)))

    def array(self, d: DType, shape: tuple[int, ...], whole: bool = False) -> NDArray:
        return values(self.rng, d, shape, whole)

    def any_array(self, of: Sequence[DType] = TESTED_DTYPES, min_rank: int = 0, max_rank: int = 3) -> NDArray:
        return self.array(self.dtype(of), self.shape(min_rank, max_rank))

    def pick(self, of: Sequence[_T]) -> _T:
        return of[int(self.rng.integers(len(of)))]

    def upto(self, n: int) -> int:
        return int(self.rng.integers(n + 1))

    def some(self, of: Iterable[_T]) -> tuple[_T, ...]:
        return tuple(x for x in of if self.pick((True, False)))


_SEEDS = st.integers(0, 2**32 - 1)
_sampled = cache(st.sampled_from)


@cache
def examples(op: str) -> st.SearchStrategy[Example]:
    """Examples of `op`; of an elementwise op without attributes from its row alone, of others from the table below."""
    make = _EXAMPLES.get(op) or partial(_elementwise, op)

    @st.composite
    def draw_one(draw: st.DrawFn) -> Example:
        return make(Chooser(draw))

    return draw_one()


def _elementwise(op: str, c: Chooser) -> Example:
    row = OPS[op]
    if row.attrs or "elementwise" not in row.traits:
        raise LookupError(f"tests/strategies.py has no examples of {op}")
    count = len(row.operands)
    legal = [d for d in TESTED_DTYPES if isinstance(row.infer((TensorType(d, ()),) * count, {}), tuple)]
    d, shape = c.dtype(legal), c.shape()
    return Example(op, tuple(c.array(d, shape) for _ in range(count)), {})


def _leaf(op: str, c: Chooser) -> Example:
    return Example(op, (), {"name": "leaf", "dtype": c.dtype(TESTED_DTYPES), "shape": c.shape()})


def _constant(c: Chooser) -> Example:
    x = c.any_array()
    return Example("constant", (), {"value": Array(type_of(x), x.tobytes())})


def _full(c: Chooser) -> Example:
    d = c.dtype(TESTED_DTYPES)
    value = c.array(d, ())
    number = float(value) if d.is_float else bool(value) if d is BOOL else int(value)
    return Example("full", (), {"value": number, "dtype": d, "shape": c.shape()})


def _iota(c: Chooser) -> Example:
    shape = c.shape(1)
    return Example("iota", (), {"axis": c.upto(len(shape) - 1), "dtype": c.dtype(NUMBERS), "shape": shape})


def _select(c: Chooser) -> Example:
    d, shape = c.dtype(TESTED_DTYPES), c.shape()
    return Example("select", (c.array(BOOL, shape), c.array(d, shape), c.array(d, shape)), {})


def _convert(c: Chooser) -> Example:
    every = tuple(DTYPES.values())
    return Example("convert", (c.any_array(every),), {"dtype": c.dtype(every)})


def _broadcast(c: Chooser) -> Example:
    shape = c.shape()
    dims = c.some(range(len(shape)))
    have = tuple(c.pick((1, shape[i])) for i in dims)
    return Example("broadcast", (c.array(c.dtype(TESTED_DTYPES), have),), {"shape": shape, "dims": dims})


def _reshape(c: Chooser) -> Example:
    """Both shapes are groupings of one list of small factors, so that all kinds of runs come up."""
    factors = c.draw(st.lists(st.sampled_from([1, 2, 3, 4, 2, 5]), max_size=6))
    factors = factors if c.upto(9) else [*factors, 0]

    def grouped(order: Sequence[int]) -> tuple[int, ...]:
        edges = [0, *sorted(c.upto(len(order)) for _ in range(c.upto(4))), len(order)]
        return tuple(math.prod(order[a:b]) for a, b in itertools.pairwise(edges))

    x = c.array(c.dtype(TESTED_DTYPES), grouped(factors))
    return Example("reshape", (x,), {"shape": grouped(c.pick([factors, factors[::-1], sorted(factors)]))})


def _transpose(c: Chooser) -> Example:
    x = c.any_array()
    return Example("transpose", (x,), {"perm": tuple(map(int, c.rng.permutation(x.ndim)))})


def _slice(c: Chooser) -> Example:
    x = c.any_array()
    cuts = [(0, n, 1) if c.upto(1) else (*sorted((c.upto(n), c.upto(n))), 1 + c.upto(3)) for n in x.shape]
    return Example(
        "slice", (x,), {name: tuple(t[i] for t in cuts) for i, name in enumerate(("starts", "stops", "steps"))}
    )


def _concat(c: Chooser) -> Example:
    x = c.any_array(min_rank=1)
    axis = c.upto(x.ndim - 1)
    sizes = [c.pick((0, 1, 2, 5)) for _ in range(c.upto(3))]
    rest = [c.array(type_of(x).dtype, (*x.shape[:axis], n, *x.shape[axis + 1 :])) for n in sizes]
    return Example("concat", (x, *rest), {"axis": axis})


def _pad(c: Chooser) -> Example:
    x = c.any_array()
    low, high = (tuple(c.pick((0, 0, 1, 2)) for _ in x.shape) for _ in range(2))
    value = c.pick((0.0, -0.0, 1.5, math.nan, -math.inf) if type_of(x).dtype.is_float else (0, 1))
    return Example("pad", (x,), {"low": low, "high": high, "value": value})


def _reverse(c: Chooser) -> Example:
    x = c.any_array()
    return Example("reverse", (x,), {"axes": c.some(range(x.ndim))})


def _take(c: Chooser) -> Example:
    table = c.any_array(min_rank=1)
    axis = c.upto(table.ndim - 1)
    shape = c.shape(0, 2) if table.shape[axis] else (0, *c.shape(0, 1))
    index = c.array(DTYPES[c.pick(("i32", "i64", "i8", "u8", "i4", "u64"))], shape, whole=c.pick((True, False)))
    return Example("take", (table, index), {"axis": axis})


def _matmul(c: Chooser) -> Example:
    d, (*batch, m, k) = c.dtype(NUMBERS), c.shape(2, 4)
    a, b = c.array(d, (*batch, m, k), True), c.array(d, (*c.pick((batch, ())), k, c.pick((0, 1, 2, 5))), True)
    return Example(
        "matmul", (a, b), {"dtype": c.pick([None, *(x for x in NUMBERS if x.kind == d.kind and x.bits >= d.bits)])}
    )


def _windowed(c: Chooser, rank: int) -> dict[str, Attr]:
    choices = {"strides": (1, 1, 2, 3), "low": (0, 0, 1, 2), "high": (0, 1), "dilations": (1, 1, 2)}
    return {name: tuple(c.pick(of) for _ in range(rank)) for name, of in choices.items()}


def _conv(c: Chooser) -> Example:
    d, groups, per, out = c.dtype(NUMBERS), c.pick((1, 1, 2, 3)), c.upto(3), c.upto(3)
    spatial = c.shape(1, 2)
    x = c.array(d, (c.upto(3), per * groups, *spatial), True)
    w = c.array(d, (out * groups, per, *(c.pick((1, 1, 2, 3)) for _ in spatial)), True)
    last = c.pick((True, False))
    w = np.moveaxis(w, 1, -1).copy() if last else w
    return Example("conv", (x, w), {**_windowed(c, len(spatial)), "groups": groups, "channels_last": last})


def _reduce_window(c: Chooser) -> Example:
    x = c.any_array(NUMBERS, 3, 4)
    rank = x.ndim - 2
    attrs = {"window": tuple(c.pick((1, 2, 2, 3)) for _ in range(rank)), "op": c.pick(("max", "min", "sum", "prod"))}
    return Example("reduce_window", (x,), {**_windowed(c, rank), **attrs})


def _reduce(op: str, c: Chooser) -> Example:
    x = c.any_array([BOOL] if op in ("reduce_and", "reduce_or") else NUMBERS)
    return Example(op, (x,), {"axes": c.some(range(x.ndim))})


def _arg(op: str, c: Chooser) -> Example:
    x = c.array(c.dtype(TESTED_DTYPES), (*c.shape(0, 2), 1 + c.upto(9)), c.pick((True, False)))
    axis = c.pick([i for i, n in enumerate(x.shape) if n])
    return Example(op, (x,), {"axis": axis, "last": c.pick((True, False))})


def _scan(op: str, c: Chooser) -> Example:
    x = c.any_array(NUMBERS, min_rank=1)
    flags = {name: c.pick((True, False)) for name in ("exclusive", "reverse")}
    return Example(op, (x,), {"axis": c.upto(x.ndim - 1), **flags})


def _sort(c: Chooser) -> Example:
    shape = c.shape(1)
    xs = tuple(c.array(c.dtype(TESTED_DTYPES), shape, c.pick((True, False))) for _ in range(1 + c.upto(2)))
    attrs = {"axis": c.upto(len(shape) - 1), "keys": 1 + c.upto(len(xs) - 1), "descending": c.pick((True, False))}
    return Example("sort", xs, attrs)


def _top_k(c: Chooser) -> Example:
    x = c.array(c.dtype(TESTED_DTYPES), c.shape(1), c.pick((True, False)))
    return Example("top_k", (x,), {"k": c.upto(x.shape[-1]), "largest": c.pick((True, False))})


def _bitcast_convert(c: Chooser) -> Example:
    source = c.dtype([d for d in DTYPES.values() if d is not BOOL])
    to = c.dtype([d for d in DTYPES.values() if d is not BOOL])
    ratio = max(1, to.bits // source.bits)
    return Example("bitcast_convert", (c.array(source, (*c.shape(0, 2), *((ratio,) * (ratio > 1)))),), {"dtype": to})


def _reduce_precision(c: Chooser) -> Example:
    x = c.any_array([d for d in TESTED_DTYPES if d.is_float])
    return Example("reduce_precision", (x,), {"exponent_bits": 1 + c.upto(11), "mantissa_bits": c.upto(23)})


INDICES = tuple(DTYPES[name] for name in ("i32", "i64", "i8", "u8", "i4", "u64"))


def _starts(c: Chooser, shape: tuple[int, ...]) -> NDArray:
    return c.array(c.pick(INDICES), shape, whole=c.pick((True, True, False)))


def _dynamic_slice(c: Chooser) -> Example:
    x = c.any_array()
    sizes = tuple(c.pick((n, c.upto(n))) for n in x.shape)
    return Example("dynamic_slice", (x, _starts(c, (x.ndim,))), {"sizes": sizes})


def _dynamic_update_slice(c: Chooser) -> Example:
    x = c.any_array()
    update = c.array(type_of(x).dtype, tuple(c.pick((n, c.upto(n))) for n in x.shape))
    return Example("dynamic_update_slice", (x, update, _starts(c, (x.ndim,))), {})


@dataclass(frozen=True)
class _Indexed:
    """Axes of an operand by what gather or scatter does with them, and an index tensor for it."""

    x: NDArray
    index: NDArray
    gone: tuple[int, ...]
    batching: tuple[int, ...]
    index_batching: tuple[int, ...]
    start_map: tuple[int, ...]
    vector_dim: int
    sizes: tuple[int, ...]
    batch: tuple[int, ...]


def _indexed(c: Chooser) -> _Indexed:
    x = c.any_array([d for d in TESTED_DTYPES if d.name != "f8e4m3"])
    axes = range(x.ndim)
    role = [c.pick(("slice", "slice", "gone", "batch")) for _ in axes]
    role = ["slice" if r == "gone" and not x.shape[i] else r for i, r in enumerate(role)]
    batching = tuple(i for i in axes if role[i] == "batch" and x.shape[i])
    gone = tuple(i for i in axes if role[i] == "gone")
    sizes = tuple(1 if i in (*gone, *batching) else c.pick((n, c.upto(n))) for i, n in enumerate(x.shape))
    free = [i for i in axes if i not in batching]
    start_map = tuple(free[i] for i in c.rng.permutation(len(free))[: c.upto(len(free))])
    batch = [x.shape[i] for i in batching] + [c.pick((0, 1, 2, 3)) for _ in range(c.upto(2))]
    places = [int(p) for p in c.rng.permutation(len(batch))]
    shuffled = [batch[p] for p in places]
    vector_dim = c.upto(len(batch))
    index_batching = tuple(places.index(i) + (places.index(i) >= vector_dim) for i in range(len(batching)))
    shape = (*shuffled[:vector_dim], len(start_map), *shuffled[vector_dim:])
    if len(start_map) == 1 and vector_dim == len(batch) and c.pick((True, False)):
        shape = tuple(shuffled)
    index = _starts(c, shape)
    return _Indexed(x, index, gone, batching, index_batching, start_map, vector_dim, sizes, tuple(shuffled))


def _gather(c: Chooser) -> Example:
    i = _indexed(c)
    kept = i.x.ndim - len(i.gone) - len(i.batching)
    offset = tuple(sorted(int(p) for p in c.rng.permutation(kept + len(i.batch))[:kept]))
    attrs = {
        "offset_dims": offset, "collapsed_slice_dims": i.gone, "operand_batching_dims": i.batching,
        "start_indices_batching_dims": i.index_batching, "start_index_map": i.start_map,
        "index_vector_dim": i.vector_dim, "slice_sizes": i.sizes,
    }  # fmt: skip
    return Example("gather", (i.x, i.index), attrs)


def _scatter(c: Chooser) -> Example:
    i = _indexed(c)
    d = type_of(i.x).dtype
    kept = [a for a in range(i.x.ndim) if a not in (*i.gone, *i.batching)]
    window = tuple(sorted(int(p) for p in c.rng.permutation(len(kept) + len(i.batch))[: len(kept)]))
    inside, others = iter([i.sizes[a] for a in kept]), iter(i.batch)
    shape = tuple(next(inside) if p in window else next(others) for p in range(len(kept) + len(i.batch)))
    kinds = ("set", "and", "or") if d is BOOL else ("set", "add", "mul", "min", "max")
    attrs = {
        "update_window_dims": window, "inserted_window_dims": i.gone, "input_batching_dims": i.batching,
        "scatter_indices_batching_dims": i.index_batching, "scatter_dims_to_operand_dims": i.start_map,
        "index_vector_dim": i.vector_dim, "op": c.pick(kinds),
    }  # fmt: skip
    return Example("scatter", (i.x, i.index, c.array(d, shape, True)), attrs)


def _interior_pad(c: Chooser) -> Example:
    pad = _pad(c)
    x = pad.operands[0]
    return Example(
        "interior_pad", (x,), {"interior": tuple(c.pick((0, 0, 1, 2)) for _ in x.shape), "value": pad.attrs["value"]}
    )


def _select_and_scatter(c: Chooser) -> Example:
    x = c.any_array(NUMBERS, 3, 4)
    rank = x.ndim - 2
    attrs = {name: way for name, way in _windowed(c, rank).items() if name != "dilations"}
    window = tuple(c.pick((1, 2, 2, 3)) for _ in range(rank))
    rows = zip(x.shape[2:], window, *(attrs[k] for k in ("strides", "low", "high")), strict=True)  # type: ignore[arg-type]
    out = tuple(window_length(n, k, s, a, b, 1) for n, k, s, a, b in rows)
    source = c.array(type_of(x).dtype, (*x.shape[:2], *out), True)
    return Example(
        "select_and_scatter", (x, source), {**attrs, "window": window, "select": c.pick(("ge", "gt", "le", "lt"))}
    )


def _rng_bits(c: Chooser) -> Example:
    algorithm, length = c.pick((("threefry", 2), ("philox", 2), ("philox", 3)))
    state = c.array(DTYPES["u64"], (length,))
    d = DTYPES[c.pick(("u32", "u64", "i32", "u8", "u16", "i64"))]
    return Example("rng_bits", (state,), {"algorithm": algorithm, "dtype": d, "shape": c.shape()})


def _while(c: Chooser) -> Example:
    """While n > 0: n = n - 1, x = x + captured."""
    t, count = TensorType(c.dtype([DTYPES["f32"], DTYPES["i32"]]), c.shape()), TensorType(DTYPES["i32"], ())
    regions: list[Graph] = []
    for part in ("cond", "body"):
        b = Builder(part)
        n, x, k = b.input("n", count), b.input("x", t), b.input("k", t)
        zero, one = b.full(0, count.dtype), b.full(1, count.dtype)
        outs = [b.one("gt", n, zero)] if part == "cond" else [b.one("sub", n, one), b.one("add", x, k)]
        regions.append(b.finish(outs))
    operands = (np.asarray(c.upto(3), np.int32), *(c.array(t.dtype, t.shape) for _ in range(2)))
    return Example("while", operands, {"carry": 2, "trips": c.pick((0, 3))}, tuple(regions))


def _cond(c: Chooser) -> Example:
    t = TensorType(c.dtype([DTYPES["f32"], DTYPES["i32"]]), c.shape())
    regions: list[Graph] = []
    for op in ("add", "mul"):
        b = Builder(op)
        x, y = b.input("x", t), b.input("y", t)
        regions.append(b.finish([b.one(op, x, y), y]))
    operands = (c.array(BOOL, ()), *(c.array(t.dtype, t.shape) for _ in range(2)))
    return Example("cond", operands, {}, tuple(regions))


def _loop(c: Chooser) -> Example:
    """carry = carry + x + captured; y = (carry, index)."""
    t, n = TensorType(c.dtype([DTYPES["f32"], DTYPES["i32"]]), c.shape()), c.upto(3)
    b = Builder("body")
    index, carry, x, k = b.input("i", TensorType(DTYPES["i32"], ())), *(b.input(name, t) for name in "cxk")
    body = b.finish([b.one("add", b.one("add", carry, x), k), carry, index])
    operands = tuple(c.array(t.dtype, shape) for shape in (t.shape, (n, *t.shape), t.shape))
    return Example("loop", operands, {"n": n, "carry": 1, "xs": 1}, (body,))


_EXAMPLES: dict[str, Callable[[Chooser], Example]] = {
    **{op: partial(_leaf, op) for op in ("input", "param")},
    **{f"reduce_{kind}": partial(_reduce, f"reduce_{kind}") for kind in ("sum", "prod", "max", "min", "and", "or")},
    "constant": _constant,
    "full": _full,
    "iota": _iota,
    "select": _select,
    "convert": _convert,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "reverse": _reverse,
    "take": _take,
    "matmul": _matmul,
    "conv": _conv,
    "reduce_window": _reduce_window,
    **{op: partial(_arg, op) for op in ("argmax", "argmin")},
    **{op: partial(_scan, op) for op in ("cumsum", "cumprod", "cummax", "cummin")},
    "sort": _sort,
    "top_k": _top_k,
    "bitcast_convert": _bitcast_convert,
    "reduce_precision": _reduce_precision,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "interior_pad": _interior_pad,
    "select_and_scatter": _select_and_scatter,
    "rng_bits": _rng_bits,
    "loop": _loop,
    "while": _while,
    "cond": _cond,
}


# ---- programs ------------------------------------------------------------------------------------

_F32, _I32 = DTYPES["f32"], DTYPES["i32"]
Step = Callable[["Chooser", Builder, int], Sequence[int] | None]


def _unary(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    return [b.one(c.pick(("neg", "abs", "sign")), v)]


def _binary(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    same = [u for u, t in b.types.items() if t == b.types[v]]
    return [b.one(c.pick(("add", "sub", "mul", "max", "min")), v, c.pick(same))]


def _chosen(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    t = b.types[v]
    test = b.one(c.pick(("lt", "le", "eq", "ne")), v, b.full(c.upto(2), t.dtype, t.shape))
    return [b.one("select", test, v, b.one("neg", v))]


def _converted(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    return [b.one("convert", v, dtype=_I32 if b.types[v].dtype is _F32 else _F32)]


def _reduced(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    axes = c.some(range(b.types[v].rank))
    return [b.one(c.pick(("reduce_sum", "reduce_max", "reduce_min")), v, axes=axes)]


def _spread(c: Chooser, b: Builder, v: int) -> Sequence[int] | None:
    t = b.types[v]
    at, size = c.upto(t.rank), 1 + c.upto(2)
    shape = (*t.shape[:at], size, *t.shape[at:])
    return (
        [b.one("broadcast", v, shape=shape, dims=tuple(i + (i >= at) for i in range(t.rank)))] if t.rank < 3 else None
    )


def _turned(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    return [b.one("transpose", v, perm=tuple(map(int, c.rng.permutation(b.types[v].rank))))]


def _flat(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    return [b.one("reshape", v, shape=(b.types[v].size,))]


def _along(c: Chooser, b: Builder, v: int) -> Sequence[int] | None:
    """What is done along one axis."""
    t = b.types[v]
    if not t.size or not t.rank:
        return None
    axis, kind = c.upto(t.rank - 1), c.pick(("cumsum", "sort", "argmax", "take", "concat", "reverse", "top_k", "pad"))
    if kind == "cumsum":
        return [b.one(kind, v, axis=axis, exclusive=c.pick((True, False)), reverse=c.pick((True, False)))]
    if kind == "sort":
        return list(b.add(kind, (v, b.one("neg", v)), {"axis": axis, "descending": c.pick((True, False))}))
    if kind == "top_k":
        return list(b.add(kind, (v,), {"k": 1 + c.upto(t.shape[-1] - 1), "largest": c.pick((True, False))}))
    if kind == "take":
        return [b.one(kind, v, b.one("argmax", v, axis=axis), axis=axis)] if t.rank < 3 else None
    if kind == "pad":
        low = tuple(c.upto(1) for _ in t.shape)
        return [b.one(kind, v, low=low, high=low[::-1], value=c.upto(3))]
    attrs: dict[str, Attr] = {"axes": (axis,)} if kind == "reverse" else {"axis": axis}
    return [b.one(kind, *((v, v) if kind == "concat" else (v,)), **attrs)]


def _cut(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    cuts = [(*sorted((c.upto(n), c.upto(n))), 1 + c.upto(1)) for n in b.types[v].shape]
    starts, stops, steps = (tuple(t[i] for t in cuts) for i in range(3))
    return [b.one("slice", v, starts=starts, stops=stops, steps=steps)]


def _product(c: Chooser, b: Builder, v: int) -> Sequence[int] | None:
    return [b.one("matmul", v, b.one("transpose", v, perm=(1, 0)))] if b.types[v].rank == 2 else None


def _looped(c: Chooser, b: Builder, v: int) -> Sequence[int]:
    t, n = b.types[v], c.upto(3)
    body = Builder("body")
    index = body.input("i", TensorType(_I32, ()))
    one, other, k = (body.input(name, t) for name in ("one", "other", "k"))
    step = body.one("broadcast", body.one("convert", index, dtype=t.dtype), shape=t.shape, dims=())
    # What is carried changes places, and is given as it was before.
    region = body.finish([body.one("max", body.one("add", other, step), k), one, other])
    return list(b.add("loop", (v, b.one("neg", v), v), {"n": n, "carry": 2, "xs": 0}, regions=(region,)))


_STEPS: tuple[Step, ...] = (
    _unary, _binary, _chosen, _converted, _reduced, _spread, _turned, _flat, _along, _along, _cut, _product, _looped,
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> tuple[Graph, dict[str, NDArray]]:
    """A Graph of several ops whose arithmetic is exact (small whole numbers), and values of its inputs."""
    c = Chooser(draw)
    b = Builder("program")
    given = {f"x{i}": c.array(d, c.shape(), whole=True) for i, d in enumerate((_F32, _I32))}
    # Negative zeros have a sign that not every format's max and sort keep.
    given["x0"] = given["x0"] + np.float32(0)
    values = [b.input(name, type_of(x)) for name, x in given.items()]
    for _ in range(draw(st.integers(1, 8))):
        of = c.pick(values[-4:])
        if b.types[of].dtype is not BOOL and b.types[of].size < 2000:
            values += c.pick(_STEPS)(c, b, of) or []
    return b.finish(values[2:] or values), given
