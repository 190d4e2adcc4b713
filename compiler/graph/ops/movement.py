"""Rows that move or make elements without arithmetic: leaves, broadcast, reshape, transpose, slice, …

Every one of them is total on 0-size dims. A view (`reshape`, `transpose`, `broadcast`, `slice`) is
never a kernel of its own; it is an addressing of its operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, prod

import numpy as np

from ..dtypes import BOOL, DType, holds, rounded
from ..graph import Array
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
    new_shape,
    parallel,
    whole,
    whole_axes,
)


def ints(value: object) -> tuple[int, ...]:
    """An `ints` attribute as a tuple."""
    assert isinstance(value, tuple)
    return value  # pyright: ignore[reportUnknownVariableType]


# ---- leaves --------------------------------------------------------------------------------------


def _infer_leaf(args: Types, attrs: AttrMap) -> Types | str:
    to, shape = attrs["dtype"], ints(attrs["shape"])
    if any(d < 0 for d in shape):
        return f"dims must not be negative, got {shape}"
    return (TensorType(to, shape),) if isinstance(to, DType) else "dtype must be a dtype"


def _infer_full(args: Types, attrs: AttrMap) -> Types | str:
    got = _infer_leaf(args, attrs)
    return got if isinstance(got, str) else bad_value(attrs["value"], got[0].dtype) or got


def bad_value(value: object, d: DType) -> str | None:
    """Why `value` cannot be written at `d`, or None."""
    assert isinstance(value, int | float)
    return None if holds(d, value) else f"{value} is not a value of {d}"


def _infer_constant(args: Types, attrs: AttrMap) -> Types | str:
    value = attrs["value"]
    assert isinstance(value, Array)
    wanted = value.type.size * value.type.dtype.numpy.itemsize
    if len(value.data) != wanted:
        return f"a literal {value.type} has {wanted} bytes, got {len(value.data)}"
    if value.type.dtype == BOOL and value.data.strip(b"\0\1"):
        return "a literal bool is a byte of 0 or 1"
    return (value.type,)


def _unbound(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    raise LookupError(f"{attrs['name']} has no value bound to it")


def array_of(value: Array) -> NDArray:
    """The ndarray of a literal (read-only)."""
    return np.frombuffer(value.data, value.type.dtype.numpy).reshape(tuple(map(int, value.type.shape)))


def _constant(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    value = attrs["value"]
    assert isinstance(value, Array)
    return (ctx.cast(array_of(value), types[0].dtype),)


def _full(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    one = ctx.cast(scalar(attrs["value"], types[0].dtype), types[0].dtype)
    return (np.broadcast_to(one, types[0].shape),)


def scalar(value: object, d: DType) -> NDArray:
    """The number `value` rounded to `d`, as an array without axes."""
    exact = float if d.is_float else np.uint64 if d.kind == "uint" else np.int64
    return rounded(np.asarray(value, exact), d)


def _iota(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    t, axis = types[0], attrs["axis"]
    assert isinstance(axis, int)
    line = np.arange(t.shape[axis]).reshape([t.shape[i] if i == axis else 1 for i in range(t.rank)])
    return (np.broadcast_to(ctx.cast(rounded(line, t.dtype), t.dtype), t.shape),)


def _infer_iota(args: Types, attrs: AttrMap) -> Types | str:
    axis, shape = attrs["axis"], ints(attrs["shape"])
    if not isinstance(axis, int) or not 0 <= axis < len(shape):
        return f"axis {axis} is not an axis of {shape}"
    return "an iota of bools has no meaning" if attrs["dtype"] == BOOL else _infer_leaf(args, attrs)


def _iota_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    return kept_axes(args, results, lambda i: i != attrs["axis"])


def _leaf_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    t = results[0]
    return Axes(t.shape, parallel(t.rank), (), (entries(t.rank),))


# ---- views ---------------------------------------------------------------------------------------


def _infer_broadcast(args: Types, attrs: AttrMap) -> Types | str:
    (x,), shape, dims = args, ints(attrs["shape"]), ints(attrs["dims"])
    if len(dims) != x.rank or any(not 0 <= d < len(shape) for d in dims) or list(dims) != sorted(set(dims)):
        return f"dims {dims} must name, in rising order, one axis of {shape} for each axis of {x}"
    for size, d in zip(x.shape, dims, strict=True):
        if size not in (1, shape[d]):
            return f"cannot broadcast {x} to {shape}: {size} is neither 1 nor {shape[d]}"
    return (x.with_shape(shape),)


def _broadcast(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    (x,), dims, shape = args, ints(attrs["dims"]), types[0].shape
    spread = [1] * len(shape)
    for size, d in zip(x.shape, dims, strict=True):
        spread[d] = size
    return (np.broadcast_to(x.reshape(spread), shape),)


def _broadcast_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    (x,), (out,), dims = args, results, ints(attrs["dims"])
    operand = tuple(None if size != out.shape[d] else Entry(d) for size, d in zip(x.shape, dims, strict=True))
    return Axes(out.shape, parallel(out.rank), (operand,), (entries(out.rank),))


def _infer_reshape(args: Types, attrs: AttrMap) -> Types | str:
    (x,), shape = args, ints(attrs["shape"])
    if any(d < 0 for d in shape) or prod(map(int, shape)) != x.size:
        return f"cannot reshape {x} of {x.size} elements to {shape} of {prod(map(int, shape))}"
    return (x.with_shape(shape),)


def _reshape(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    return (args[0].reshape(tuple(map(int, types[0].shape))),)


def reshape_groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Splits both shapes into runs of axes with equal products, outermost first.

    A size-1 axis joins the run it meets. Shapes with no elements are one group.
    """
    if 0 in old:
        return [(list(range(len(old))), list(range(len(new))))]
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        a, b = [i] if i < len(old) else [], [j] if j < len(new) else []
        left, right = (int(old[i]) if a else 1), (int(new[j]) if b else 1)
        i, j = i + len(a), j + len(b)
        while left != right:
            if left < right:
                left, i = left * int(old[i]), i + 1
                a.append(i - 1)
            else:
                right, j = right * int(new[j]), j + 1
                b.append(j - 1)
        groups.append((a, b))
    return groups


def _reshape_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    """In a group the outermost non-unit axes run together, in the most steps both divide into; the rest is whole."""
    old, new = args[0].shape, results[0].shape
    extents: list[int] = []
    kinds: list[AxisKind] = []
    left: list[Entry | None] = [None] * len(old)
    right: list[Entry | None] = [None] * len(new)

    def fresh(extent: int, kind: AxisKind) -> int:
        extents.append(extent)
        kinds.append(kind)
        return len(extents) - 1

    for a, b in reshape_groups(old, new):
        wide_a, wide_b = [i for i in a if old[i] != 1], [j for j in b if new[j] != 1]
        if wide_a and wide_b and 0 not in old:
            x, y = int(old[wide_a[0]]), int(new[wide_b[0]])
            steps = gcd(x, y)
            if steps > 1:
                axis = fresh(steps, "parallel")
                left[wide_a[0]], right[wide_b[0]] = Entry(axis, x // steps), Entry(axis, y // steps)
        for side, shape, axes in ((left, old, a), (right, new, b)):
            for i in axes:
                if side[i] is None and shape[i] != 1:
                    side[i] = Entry(fresh(shape[i], "whole"))
    return Axes(tuple(extents), tuple(kinds), (tuple(left),), (tuple(right),))


def _infer_transpose(args: Types, attrs: AttrMap) -> Types | str:
    (x,), perm = args, ints(attrs["perm"])
    if sorted(perm) != list(range(x.rank)):
        return f"perm {perm} is not a permutation of the {x.rank} axes of {x}"
    return (x.with_shape(x.shape[p] for p in perm),)


def _transpose(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    return (np.transpose(args[0], ints(attrs["perm"])),)


def _transpose_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    perm, out = ints(attrs["perm"]), results[0]
    operand: list[Entry | None] = [None] * out.rank
    for to, source in enumerate(perm):
        operand[source] = Entry(to)
    return Axes(out.shape, parallel(out.rank), (tuple(operand),), (entries(out.rank),))


def slice_length(start: int, stop: int, step: int) -> int:
    """Elements of start, start+step, … before stop."""
    return max(0, -(-(stop - start) // step))


def _infer_slice(args: Types, attrs: AttrMap) -> Types | str:
    (x,) = args
    starts, stops, steps = _cuts(attrs)
    if not len(starts) == len(stops) == len(steps) == x.rank:
        return f"starts, stops and steps need one entry for each axis of {x}"
    for i, (a, b, s) in enumerate(zip(starts, stops, steps, strict=True)):
        if s < 1 or not 0 <= a <= b <= x.shape[i]:
            return f"slice {a}:{b}:{s} does not lie in axis {i} of {x} (0 <= start <= stop <= size, step >= 1)"
    return (x.with_shape(map(_cut, x.shape, starts, stops, steps)),)


def _cuts(attrs: AttrMap) -> list[tuple[int, ...]]:
    return [ints(attrs[k]) for k in ("starts", "stops", "steps")]


def _cut(size: int, start: int, stop: int, step: int) -> int:
    return size if (start, stop, step) == (0, size, 1) else slice_length(int(start), int(stop), int(step))


def _slice(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    return (args[0][tuple(map(slice, *_cuts(attrs)))],)


def _new_stops(attrs: AttrMap, args: Types, results: Types, new: Types) -> AttrMap:
    """An axis kept whole shrinks with its tile; a sliced axis is never cut."""
    rows = zip(args[0].shape, results[0].shape, new[0].shape, ints(attrs["stops"]), strict=True)
    return {**attrs, "stops": tuple(cut if made == size else stop for size, made, cut, stop in rows)}


def _slice_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    return kept_axes(args, results, lambda i: args[0].shape[i] == results[0].shape[i])


def kept_axes(args: Types, results: Types, kept: Callable[[int], bool]) -> Axes:
    """Axes for which `kept(i)` run together in all tensors; the others are whole, each its own."""
    shape = results[0].shape
    extents: list[int] = []
    shared: dict[int, Entry] = {}
    for i in filter(kept, range(len(shape))):
        shared[i] = Entry(len(extents))
        extents.append(shape[i])

    def row(t: TensorType) -> tuple[Entry | None, ...]:
        own: list[Entry | None] = []
        for i, d in enumerate(t.shape):
            if i not in shared:
                extents.append(d)
            own.append(shared.get(i, Entry(len(extents) - 1)))
        return tuple(own)

    operands, outs = tuple(map(row, args)), tuple(map(row, results))
    kinds = parallel(len(shared)) + whole(len(extents) - len(shared))
    return Axes(tuple(extents), kinds, operands, outs)


# ---- copies --------------------------------------------------------------------------------------


def _infer_concat(args: Types, attrs: AttrMap) -> Types | str:
    axis, first = attrs["axis"], args[0]
    if not isinstance(axis, int) or not 0 <= axis < first.rank:
        return f"axis {axis} is not an axis of {first}"
    rest = [t.shape[:axis] + t.shape[axis + 1 :] for t in args]
    if any(t.rank != first.rank or t.dtype != first.dtype or r != rest[0] for t, r in zip(args, rest, strict=True)):
        return f"operands must agree but for axis {axis}, got {' and '.join(map(str, args))}"
    total = sum((t.shape[axis] for t in args[1:]), start=args[0].shape[axis])
    return (first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :])),)


def _concat(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    axis = attrs["axis"]
    assert isinstance(axis, int)
    return (np.concatenate(args, axis),)


def _infer_pad(args: Types, attrs: AttrMap) -> Types | str:
    (x,), low, high = args, ints(attrs["low"]), ints(attrs["high"])
    if len(low) != x.rank or len(high) != x.rank or min((*low, *high), default=0) < 0:
        return f"low and high need one entry, 0 or more, for each axis of {x}"
    bad = bad_value(attrs["value"], x.dtype)
    return bad or (x.with_shape(a + n + b for a, n, b in zip(low, x.shape, high, strict=True)),)


def _pad(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    widths = list(zip(ints(attrs["low"]), ints(attrs["high"]), strict=True))
    value = ctx.cast(scalar(attrs["value"], types[0].dtype), types[0].dtype)
    out = np.full(types[0].shape, value, value.dtype)
    out[tuple(slice(a, a + n) for (a, _), n in zip(widths, args[0].shape, strict=True))] = args[0]
    return (out,)


def _reverse(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    return (np.flip(args[0], ints(attrs["axes"])),)


def _infer_reverse(args: Types, attrs: AttrMap) -> Types | str:
    axes = ints(attrs["axes"])
    if len(set(axes)) < len(axes) or any(not 0 <= a < args[0].rank for a in axes):
        return f"axes {axes} must be different axes of {args[0]}"
    return (args[0],)


def _infer_take(args: Types, attrs: AttrMap) -> Types | str:
    (table, index), axis = args, attrs["axis"]
    if not index.dtype.is_int:
        return f"indices must be integers, got {index}"
    if not isinstance(axis, int) or not 0 <= axis < table.rank:
        return f"axis {axis} is not an axis of {table}"
    if table.shape[axis] == 0 and index.size:
        return f"cannot take from an axis of size 0: {table}"
    return (table.with_shape((*table.shape[:axis], *index.shape, *table.shape[axis + 1 :])),)


def _take(args: Sequence[NDArray], attrs: AttrMap, types: Types, ctx: Context) -> tuple[NDArray, ...]:
    (table, index), axis = args, attrs["axis"]
    assert isinstance(axis, int)
    return (np.take(table, _nearest(index, table.shape[axis]), axis),)


def _nearest(index: NDArray, size: int) -> NDArray:
    """`index` held to 0 … size-1, as i64."""
    exact = np.uint64 if index.dtype.kind == "u" else np.int64  # u64 has indices that i64 would make negative
    return np.clip(index.astype(exact), 0, max(size - 1, 0)).astype(np.int64)


def _take_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    (table, index), axis = args, attrs["axis"]
    assert isinstance(axis, int)
    out = results[0]
    result = entries(out.rank)
    operand = (*result[:axis], Entry(out.rank), *result[axis + index.rank :])
    operands = (operand, result[axis : axis + index.rank])
    return Axes((*out.shape, table.shape[axis]), (*parallel(out.rank), "whole"), operands, (result,))


def _concat_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    return kept_axes(args, results, lambda i: i != attrs["axis"])


def _pad_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    return kept_axes(args, results, lambda i: args[0].shape[i] == results[0].shape[i])


def _reverse_axes(args: Types, attrs: AttrMap, results: Types) -> Axes:
    return kept_axes(args, results, lambda i: i not in ints(attrs["axes"]))


_TYPE = (AttrSpec("dtype", "dtype"), AttrSpec("shape", "ints"))
_VIEW = frozenset(("view",))

_CUTS = (AttrSpec("starts", "ints"), AttrSpec("stops", "ints"), AttrSpec("steps", "ints"))

ROWS: tuple[Op, ...] = (
    Op(
        "input",
        "A tensor given at run time.",
        (),
        _infer_leaf,
        _unbound,
        _leaf_axes,
        "leaf",
        (AttrSpec("name", "str"), *_TYPE),
        recut=new_shape,
    ),
    Op(
        "param",
        "A tensor given when weights bind. With stack = n > 0 axis 0 stacks the n tensors whose names have "
        "'{i}' replaced by 0 … n-1.",
        (),
        _infer_leaf,
        _unbound,
        _leaf_axes,
        "leaf",
        (AttrSpec("name", "str"), *_TYPE, AttrSpec("stack", "int", 0)),
        recut=new_shape,
    ),
    Op(
        "constant",
        "A literal tensor.",
        (),
        _infer_constant,
        _constant,
        whole_axes,
        "leaf",
        (AttrSpec("value", "array"),),
    ),
    Op(
        "full",
        "One value everywhere.",
        (),
        _infer_full,
        _full,
        _leaf_axes,
        "leaf",
        (AttrSpec("value", "number"), *_TYPE),
        edges="The value is rounded to a float dtype, NaN and -0 included; an integer dtype must hold it exactly.",
        recut=new_shape,
    ),
    Op(
        "iota",
        "The index along `axis`.",
        (),
        _infer_iota,
        _iota,
        _iota_axes,
        "leaf",
        (AttrSpec("axis", "int"), *_TYPE),
        edges="Rounded or wrapped to the dtype; not of bools.",
        recut=new_shape,
    ),
    Op(
        "broadcast",
        "Axis i of x becomes axis dims[i] of `shape`; a size-1 axis is repeated.",
        ("x",),
        _infer_broadcast,
        _broadcast,
        _broadcast_axes,
        "view",
        (AttrSpec("shape", "ints"), AttrSpec("dims", "ints")),
        _VIEW,
        "`dims` rise. Size 1 may become 0.",
        recut=new_shape,
    ),
    Op(
        "reshape",
        "The same elements in row-major order.",
        ("x",),
        _infer_reshape,
        _reshape,
        _reshape_axes,
        "view",
        (AttrSpec("shape", "ints"),),
        _VIEW,
        recut=new_shape,
    ),
    Op(
        "transpose",
        "Axis i of the result is axis perm[i] of x.",
        ("x",),
        _infer_transpose,
        _transpose,
        _transpose_axes,
        "view",
        (AttrSpec("perm", "ints"),),
        _VIEW,
    ),
    Op(
        "slice",
        "Elements start, start+step, … below stop of each axis.",
        ("x",),
        _infer_slice,
        _slice,
        _slice_axes,
        "view",
        _CUTS,
        _VIEW,
        "0 <= start <= stop <= size and step >= 1, or it is refused.",
        recut=_new_stops,
    ),
    Op(
        "concat",
        "Operands one after another along `axis`.",
        ("*xs",),
        _infer_concat,
        _concat,
        _concat_axes,
        "move",
        (AttrSpec("axis", "int"),),
    ),
    Op(
        "pad",
        "x with `low` and `high` elements of `value` around each axis.",
        ("x",),
        _infer_pad,
        _pad,
        _pad_axes,
        "move",
        (AttrSpec("low", "ints"), AttrSpec("high", "ints"), AttrSpec("value", "number", 0)),
        edges="`value` as in full.",
    ),
    Op(
        "reverse",
        "x back to front along `axes`.",
        ("x",),
        _infer_reverse,
        _reverse,
        _reverse_axes,
        "move",
        (AttrSpec("axes", "ints"),),
    ),
    Op(
        "take",
        "Rows of `table` along `axis`: its place in the table's shape is taken by the shape of `index`.",
        ("table", "index"),
        _infer_take,
        _take,
        _take_axes,
        "gather",
        (AttrSpec("axis", "int", 0),),
        edges="An index out of range takes the nearest row, a negative one the first. From an axis of size 0 only no "
        "rows.",
    ),
)
