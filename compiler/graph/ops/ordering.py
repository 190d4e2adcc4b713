"""Rows that order elements along an axis: sort, top_k, argmax, argmin, and the running cumsum … cummin.

One order for all: -0 = +0, NaN is the greatest of floats, false is below true. All sorts are stable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import BOOL, I32, NARROW_FLOATS, DType, extremes
from ..types import TensorType
from .row import (
    AttrMap,
    AttrSpec,
    Axes,
    AxisKind,
    Context,
    Entry,
    NDArray,
    Op,
    Types,
    entries,
    parallel,
    whole,
)


def _axis(attrs: AttrMap) -> int:
    axis = attrs["axis"]
    assert isinstance(axis, int)
    return axis


def _bad_axis(x: TensorType, axis: object) -> str | None:
    return None if isinstance(axis, int) and 0 <= axis < x.rank else f"axis {axis} is not an axis of {x}"


# ---- ranks -----------------------------------------------------------------------------------------


def _ascending(x: NDArray) -> NDArray:
    """Integers that order as the elements of `x` do; u64 as itself."""
    if x.dtype.kind == "f" or x.dtype in NARROW_FLOATS:
        wide = x.astype(np.float64)
        wide = np.where(wide == 0, 0.0, wide)
        bits = wide.view(np.int64)
        flipped = np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)
        return np.where(np.isnan(wide), np.iinfo(np.int64).max, flipped)
    return x if x.dtype == np.uint64 else x.astype(np.int64)


def _ranks(x: NDArray, descending: bool) -> NDArray:
    """Integers that sort upwards as `x` sorts in the direction asked for."""
    keys = _ascending(np.ascontiguousarray(x).reshape(x.shape))
    return ~keys if descending else keys  # ~k falls as k rises, without the overflow of -k


def order_of(keys: Sequence[NDArray], axis: int, descending: bool) -> NDArray:
    """Indices that sort `keys` along `axis`, lexicographically and stably."""
    ranks = [_ranks(k, descending) for k in keys]
    return np.lexsort(ranks[::-1], axis=axis) if ranks[0].size else np.zeros(ranks[0].shape, np.int64)


# ---- sort and top_k --------------------------------------------------------------------------------


def _infer_sort(args: Types, attrs: AttrMap) -> Types | str:
    keys = attrs["keys"]
    if any(t.shape != args[0].shape for t in args):
        return f"operands must have one shape, got {' and '.join(map(str, args))}"
    if not isinstance(keys, int) or not 1 <= keys <= len(args):
        return f"keys must be 1 … {len(args)}, got {keys}"
    return _bad_axis(args[0], attrs["axis"]) or args


def _sort(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    keys = attrs["keys"]
    assert isinstance(keys, int)
    order = order_of(args[:keys], _axis(attrs), bool(attrs["descending"]))
    return tuple(np.take_along_axis(x, order, _axis(attrs)) for x in args)


def _sort_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    t, axis = args[0], _axis(attrs)
    row = entries(t.rank)
    kinds: tuple[AxisKind, ...] = tuple("whole" if i == axis else "parallel" for i in range(t.rank))
    return Axes(t.shape, kinds, (row,) * len(args), (row,) * len(results))


def _infer_top_k(args: Types, attrs: AttrMap) -> Types | str:
    (x,), k = args, attrs["k"]
    if not x.rank or not isinstance(k, int) or not 0 <= k <= x.shape[-1]:
        return f"k must be 0 … the length of the last axis of {x}, got {k}"
    shape = (*x.shape[:-1], k)
    return (x.with_shape(shape), TensorType(I32, shape))


def _top_k(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    (x,), k = args, types[0].shape[-1]
    order = order_of([x], x.ndim - 1, bool(attrs["largest"]))[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def _top_k_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    x, out = args[0], results[0]
    last, kept = x.rank - 1, entries(x.rank - 1)
    extents = (*x.shape, out.shape[-1])
    kinds = (*parallel(last), *whole(2))
    row = (*kept, Entry(x.rank))
    return Axes(extents, kinds, ((*kept, Entry(last)),), (row, row))


# ---- argmax and argmin -----------------------------------------------------------------------------


def _infer_arg(args: Types, attrs: AttrMap) -> Types | str:
    (x,), axis = args, attrs["axis"]
    bad = _bad_axis(x, axis)
    if bad:
        return bad
    assert isinstance(axis, int)
    if x.shape[axis] == 0:
        return f"axis {axis} of {x} has no element to choose"
    return (TensorType(I32, (*x.shape[:axis], *x.shape[axis + 1 :])),)


def _best(x: NDArray, axis: int, last: bool, greatest: bool) -> NDArray:
    ranks = _ranks(x, descending=not greatest)
    if not greatest and (x.dtype.kind == "f" or x.dtype in NARROW_FLOATS):
        # NaN wins here too: it is above all in either direction.
        ranks = np.where(np.isnan(x.astype(np.float64)), np.iinfo(np.int64).max, ranks)
    if last:
        return x.shape[axis] - 1 - np.argmax(np.flip(ranks, axis), axis)
    return np.argmax(ranks, axis)


def _arg(name: str, word: str, greatest: bool) -> Op:
    def run(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
        return (_best(args[0], _axis(attrs), bool(attrs["last"]), greatest).astype(np.int32),)

    return Op(name, f"Index of the first (or `last`) {word} element along `axis`, which vanishes.", ("x",), _infer_arg,
              run, _arg_axes, "reduce", (AttrSpec("axis", "int"), AttrSpec("last", "bool", False)),
              edges="NaN wins; -0 = +0. An axis of size 0 is refused.")  # fmt: skip


def _arg_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    (x,), axis = args, _axis(attrs)
    row = entries(x.rank)
    kinds: tuple[AxisKind, ...] = tuple("whole" if i == axis else "parallel" for i in range(x.rank))
    return Axes(x.shape, kinds, (row,), (tuple(e for e in row if e.axis != axis),))


# ---- running sums ----------------------------------------------------------------------------------


def _infer_scan(args: Types, attrs: AttrMap) -> Types | str:
    (x,) = args
    return f"needs numbers, got {x}" if x.dtype == BOOL else _bad_axis(x, attrs["axis"]) or (x,)


def _scan(kind: str) -> Op:
    def run(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
        (x,), axis, d = args, _axis(attrs), types[0].dtype
        line = np.ascontiguousarray(np.moveaxis(x, axis, -1))
        line = line[..., ::-1] if attrs["reverse"] else line
        with np.errstate(all="ignore"):
            sums = _RUNS[kind](line, d)
            if attrs["exclusive"] and x.shape[axis]:
                first = np.full((*sums.shape[:-1], 1), _neutral(kind, d), sums.dtype)
                sums = np.concatenate([first, sums[..., :-1]], axis=-1)
            made = ctx.cast(sums, d)
        return (np.moveaxis(made[..., ::-1] if attrs["reverse"] else made, -1, axis),)

    doc, edges = _SCAN_DOCS[kind]
    return Op(f"cum{kind}", f"{doc} up to and with (`exclusive`: without) each along `axis`; `reverse`: from the end.",
              ("x",), _infer_scan, run, _sort_axes, "reduce",
              (AttrSpec("axis", "int"), AttrSpec("exclusive", "bool", False), AttrSpec("reverse", "bool", False)),
              edges=edges)  # fmt: skip


def _neutral(kind: str, d: DType) -> object:
    least, greatest = extremes(d)
    return {"sum": 0, "prod": 1, "max": least, "min": greatest}[kind]


def _run_sum(x: NDArray, d: DType) -> NDArray:
    # A sum starts at +0, so no prefix is -0.
    return np.cumsum(x.astype(np.float64 if d.is_float else np.int64), axis=-1) + 0


def _run_prod(x: NDArray, d: DType) -> NDArray:
    return np.cumprod(x.astype(np.float64 if d.is_float else np.int64), axis=-1)


def _run_max(x: NDArray, d: DType) -> NDArray:
    if not d.is_float:
        return np.maximum.accumulate(_whole(x), axis=-1)
    wide = x.astype(np.float64)
    top = np.maximum.accumulate(wide, axis=-1)
    plus = np.logical_or.accumulate((wide == 0) & ~np.signbit(wide), axis=-1)
    return np.where(top == 0, np.where(plus, 0.0, -0.0), top)


def _run_min(x: NDArray, d: DType) -> NDArray:
    return -_run_max(-x.astype(np.float64), d) if d.is_float else np.minimum.accumulate(_whole(x), axis=-1)


def _whole(x: NDArray) -> NDArray:
    """Integers in a type that NumPy accumulates."""
    return x if x.dtype.kind in "iu" else x.astype(np.int64)


_RUNS = {"sum": _run_sum, "prod": _run_prod, "max": _run_max, "min": _run_min}
_ROUNDED = "Floats accumulate in f64 and each prefix is rounded once. Integers wrap."
_SCAN_DOCS = {
    "sum": ("Sums of the elements", f"{_ROUNDED} An empty sum, and a sum of -0s, is +0."),
    "prod": ("Products of the elements", f"{_ROUNDED} An empty product is 1."),
    "max": (
        "The greatest of the elements",
        "NaN from the first NaN on; +0 is above -0. Of no elements: as reduce_max.",
    ),
    "min": ("The least of the elements", "NaN from the first NaN on; -0 is below +0. Of no elements: as reduce_min."),
}

ROWS: tuple[Op, ...] = (
    Op(
        "sort",
        "The operands sorted together along `axis`, lexicographically by the first `keys` of them, stably.",
        ("*xs",),
        _infer_sort,
        _sort,
        _sort_axes,
        "gather",
        (AttrSpec("axis", "int"), AttrSpec("keys", "int", 1), AttrSpec("descending", "bool", False)),
        edges="-0 = +0 and NaN is greatest, all NaNs alike: last, or first when `descending`. Equals keep their order "
        "either way.",
    ),
    Op(
        "top_k",
        "The `k` greatest (or, not `largest`, least) elements along the last axis, best first, and their indices.",
        ("x",),
        _infer_top_k,
        _top_k,
        _top_k_axes,
        "gather",
        (AttrSpec("k", "int"), AttrSpec("largest", "bool", True)),
        edges="-0 = +0 and NaN is greatest. Of equals, the one of lower index first.",
    ),
    _arg("argmax", "greatest", True),
    _arg("argmin", "least", False),
    *map(_scan, ("sum", "prod", "max", "min")),
)
