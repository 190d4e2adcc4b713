"""Forms that move elements: pads of every kind, slices of any direction, tiles, splits, named rearrangements."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..build import Builder, InferError
from ..dtypes import BOOL, I32
from .basic import broadcast_to, known, reshape, scalar, transpose

# ---- pads ------------------------------------------------------------------------------------------


def pad(
    b: Builder, x: int, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None = None,
    value: int | float | bool = 0, fill: int | None = None,
) -> int:  # fmt: skip
    """StableHLO's pad: `interior` elements between neighbours, then `low` and `high` around, negative ones cut off.

    `fill`, a scalar of x's dtype, is a value of the graph and takes the place of the number `value`.
    """
    if fill is not None:
        literal = known(b, fill)
        if literal is None:
            return _filled(b, x, low, high, interior, fill)
        value = literal.reshape(()).item() if literal.dtype.kind in "fiub" else float(literal.reshape(()))
        value = int(value) if b.types[x].dtype.is_int else value
    if b.types[x].dtype == BOOL:
        value = bool(value)
    if interior is not None and any(interior):
        x = b.one("interior_pad", x, interior=tuple(interior), value=value)
    if any(n > 0 for n in (*low, *high)):
        x = b.one("pad", x, low=tuple(max(0, n) for n in low), high=tuple(max(0, n) for n in high), value=value)
    if not any(n < 0 for n in (*low, *high)):
        return x
    shape = b.types[x].shape
    starts = tuple(max(0, -n) for n in low)
    stops = tuple(d - max(0, -n) for d, n in zip(shape, high, strict=True))
    if any(z < a for a, z in zip(starts, stops, strict=True)):
        raise InferError(f"pad: {tuple(low)} and {tuple(high)} cut more off {b.types[x]} than there is")
    return b.one("slice", x, starts=starts, stops=stops, steps=(1,) * len(shape))


def _filled(
    b: Builder, x: int, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None, fill: int
) -> int:
    """Padding by a value known at run time only: chosen where a mask padded alike says so."""
    inside = pad(b, b.full(True, BOOL, b.types[x].shape), low, high, interior, False)
    moved = pad(b, x, low, high, interior)
    return b.one("select", inside, moved, broadcast_to(b, reshape(b, fill, ()), b.types[moved].shape))


def pad_edge(b: Builder, x: int, low: Sequence[int], high: Sequence[int]) -> int:
    """The outermost elements repeated outwards; negative amounts cut off."""

    def sides(v: int, axis: int, a: int, z: int) -> list[int]:
        size = b.types[v].shape[axis]
        ends = (_along(b, v, axis, 0, 1), _along(b, v, axis, size - 1, size))
        return [_repeated(b, ends[0], axis, a), v, _repeated(b, ends[1], axis, z)]

    return _padded(b, x, low, high, sides)


def pad_reflect(b: Builder, x: int, low: Sequence[int], high: Sequence[int]) -> int:
    """The elements mirrored about the outermost, which is not repeated, as often as needed."""
    return _bounced(b, x, low, high, 1)


def pad_symmetric(b: Builder, x: int, low: Sequence[int], high: Sequence[int]) -> int:
    """The elements mirrored about the edge, the outermost repeated, as often as needed."""
    return _bounced(b, x, low, high, 0)


def _bounced(b: Builder, x: int, low: Sequence[int], high: Sequence[int], skip: int) -> int:
    def sides(v: int, axis: int, a: int, z: int) -> list[int]:
        size = b.types[v].shape[axis]
        period = size - skip
        if period < 1:
            if size == 1:
                return [_repeated(b, v, axis, a), v, _repeated(b, v, axis, z)]
            raise InferError(f"cannot reflect axis {axis} of {b.types[v]}")
        before, after = min(a, period), min(z, period)
        left = b.one("reverse", _along(b, v, axis, skip, skip + before), axes=(axis,))
        right = b.one("reverse", _along(b, v, axis, size - skip - after, size - skip), axes=(axis,))
        return [left, v, right]

    def rounds(v: int, axis: int, a: int, z: int) -> list[int]:
        # Mirrors of what has been mirrored already: the pattern has period 2 * (size - skip).
        while True:
            parts = sides(v, axis, a, z)
            a -= b.types[parts[0]].shape[axis]
            z -= b.types[parts[2]].shape[axis]
            if a <= 0 and z <= 0:
                return parts
            v = _joined(b, parts, axis)

    return _padded(b, x, low, high, rounds)


def pad_wrap(b: Builder, x: int, low: Sequence[int], high: Sequence[int]) -> int:
    """The axis repeated end to end."""

    def sides(v: int, axis: int, a: int, z: int) -> list[int]:
        size = b.types[v].shape[axis]
        if not size:
            raise InferError(f"cannot wrap axis {axis} of {b.types[v]}")
        left = [v] * (a // size)
        right = [v] * (z // size)
        return [_along(b, v, axis, size - a % size, size), *left, v, *right, _along(b, v, axis, 0, z % size)]

    return _padded(b, x, low, high, sides)


def _padded(b: Builder, x: int, low: Sequence[int], high: Sequence[int], sides: object) -> int:
    """Axis after axis; what is to be cut off is cut first."""
    x = pad(b, x, [min(0, n) for n in low], [min(0, n) for n in high])
    for axis, (a, z) in enumerate(zip(low, high, strict=True)):
        if a > 0 or z > 0:
            x = _joined(b, sides(x, axis, max(0, a), max(0, z)), axis)  # type: ignore[operator]
    return x


def _joined(b: Builder, parts: Sequence[int], axis: int) -> int:
    kept = [p for p in parts if b.types[p].shape[axis]] or [parts[0]]
    return kept[0] if len(kept) == 1 else b.add("concat", kept, {"axis": axis})[0]


def _repeated(b: Builder, x: int, axis: int, times: int) -> int:
    """An axis of size 1 repeated."""
    return broadcast_to(b, x, (*b.types[x].shape[:axis], times, *b.types[x].shape[axis + 1 :]))


def _along(b: Builder, x: int, axis: int, start: int, stop: int, step: int = 1) -> int:
    """Elements start, start + step, … below stop of one axis."""
    shape = b.types[x].shape
    if (start, stop, step) == (0, shape[axis], 1):
        return x
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops = tuple(stop if i == axis else d for i, d in enumerate(shape))
    return b.one(
        "slice", x, starts=starts, stops=stops, steps=tuple(step if i == axis else 1 for i in range(len(shape)))
    )


# ---- slices ----------------------------------------------------------------------------------------


def slice_any(
    b: Builder, x: int, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> int:  # fmt: skip
    """Slices as Python's x[a:b:s]: bounds count from the end if negative and are held to the axis; any step but 0."""
    shape = b.types[x].shape
    chosen = range(len(starts)) if axes is None else axes
    strides = (1,) * len(starts) if steps is None else steps
    cuts = {a % len(shape): (p, q, s) for a, p, q, s in zip(chosen, starts, stops, strides, strict=True)}
    rows = [cuts.get(i, (0, d, 1)) for i, d in enumerate(shape)]
    if any(s == 0 for _, _, s in rows):
        raise InferError("slice: a step must not be 0")
    begin, end, by, back = list[int](), list[int](), list[int](), list[int]()
    for i, (d, (p, q, s)) in enumerate(zip(shape, rows, strict=True)):
        whole = (p, q, s) == (0, d, 1)
        found = range(int(d))[slice(p, q, s)] if not whole else range(int(d))
        if s < 0:
            back.append(i)
            found = found[::-1]
        begin.append(found.start if len(found) else 0)
        end.append(d if whole else found[-1] + 1 if len(found) else 0)
        by.append(abs(s))
    if any((a, z, s) != (0, d, 1) for a, z, s, d in zip(begin, end, by, shape, strict=True)):
        x = b.one("slice", x, starts=tuple(begin), stops=tuple(end), steps=tuple(by))
    return b.one("reverse", x, axes=tuple(back)) if back else x


def split(b: Builder, x: int, sizes: Sequence[int], axis: int) -> list[int]:
    """Parts of these sizes one after another along `axis`."""
    axis %= b.types[x].rank
    if sum(sizes) != b.types[x].shape[axis]:
        raise InferError(f"split: {list(sizes)} do not add up to axis {axis} of {b.types[x]}")
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [_along(b, x, axis, end - n, end) for n, end in zip(sizes, ends, strict=True)]


# ---- shapes ----------------------------------------------------------------------------------------


def squeeze(b: Builder, x: int, axes: Sequence[int] | None = None) -> int:
    """Without these axes of size 1; without all of them by default."""
    t = b.types[x]
    gone = [i for i, d in enumerate(t.shape) if d == 1] if axes is None else [a % t.rank for a in axes]
    if any(t.shape[a] != 1 for a in gone):
        raise InferError(f"squeeze: only axes of size 1 can go, {t} has {[int(t.shape[a]) for a in gone]}")
    return reshape(b, x, [d for i, d in enumerate(t.shape) if i not in gone])


def unsqueeze(b: Builder, x: int, axes: Sequence[int]) -> int:
    """With new axes of size 1 at these places of the result."""
    rank = b.types[x].rank + len(axes)
    places = sorted(a % rank for a in axes)
    if len(set(places)) != len(axes) or any(not -rank <= a < rank for a in axes):
        raise InferError(f"unsqueeze: {list(axes)} are not {len(axes)} places in {rank} axes")
    old = iter(b.types[x].shape)
    return reshape(b, x, [1 if i in places else next(old) for i in range(rank)])


def flatten(b: Builder, x: int, axis: int = 1) -> int:
    """[the product of the axes before `axis`, that of the others]."""
    shape = b.types[x].shape
    axis = axis + len(shape) if axis < 0 else axis
    return reshape(b, x, (prod(shape[:axis]), prod(shape[axis:])))


def moveaxis(b: Builder, x: int, source: int, to: int) -> int:
    """Axis `source` put at place `to`."""
    rank = b.types[x].rank
    order = [i for i in range(rank) if i != source % rank]
    order.insert(to % rank, source % rank)
    return transpose(b, x, order)


def concat(b: Builder, xs: Sequence[int], axis: int) -> int:
    """Operands one after another; a single one is itself."""
    return xs[0] if len(xs) == 1 else b.add("concat", xs, {"axis": axis % b.types[xs[0]].rank})[0]


def stack(b: Builder, xs: Sequence[int], axis: int = 0) -> int:
    """Operands side by side along a new axis."""
    axis %= b.types[xs[0]].rank + 1
    return concat(b, [unsqueeze(b, x, (axis,)) for x in xs], axis)


def tile(b: Builder, x: int, repeats: Sequence[int]) -> int:
    """Each axis repeated end to end."""
    shape = b.types[x].shape
    if len(repeats) != len(shape) or min(repeats, default=0) < 0:
        raise InferError(f"tile: repeats {list(repeats)} need one entry, 0 or more, for each axis of {b.types[x]}")
    if all(n == 1 for n in repeats):
        return x
    apart = reshape(b, x, [v for d in shape for v in (1, d)])
    wide = broadcast_to(b, apart, [v for d, n in zip(shape, repeats, strict=True) for v in (n, d)])
    return reshape(b, wide, [d * n for d, n in zip(shape, repeats, strict=True)])


def repeat_interleave(b: Builder, x: int, times: int, axis: int) -> int:
    """Each element of an axis `times` times, one after another."""
    shape = b.types[x].shape
    axis %= len(shape)
    apart = unsqueeze(b, x, (axis + 1,))
    wide = broadcast_to(b, apart, (*shape[: axis + 1], times, *shape[axis + 1 :]))
    return reshape(b, wide, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))


def depth_to_space(b: Builder, x: int, block: int, columns_first: bool = False) -> int:
    """x[N, C, H, W] as [N, C / block^2, H * block, W * block]; ONNX's DCR order, or CRD with `columns_first`."""
    n, c, h, w = b.types[x].shape
    if block < 1 or c % (block * block):
        raise InferError(f"depth_to_space: blocks of {block} do not share the channels of {b.types[x]}")
    depth = c // (block * block)
    split_shape = (n, depth, block, block, h, w) if columns_first else (n, block, block, depth, h, w)
    order = (0, 1, 4, 2, 5, 3) if columns_first else (0, 3, 4, 1, 5, 2)
    return reshape(b, transpose(b, reshape(b, x, split_shape), order), (n, depth, h * block, w * block))


def space_to_depth(b: Builder, x: int, block: int) -> int:
    """x[N, C, H, W] as [N, C * block^2, H / block, W / block], blocks before channels as ONNX has it."""
    n, c, h, w = b.types[x].shape
    if block < 1 or h % block or w % block:
        raise InferError(f"space_to_depth: blocks of {block} do not fit {b.types[x]}")
    apart = reshape(b, x, (n, c, h // block, block, w // block, block))
    return reshape(b, transpose(b, apart, (0, 3, 5, 1, 2, 4)), (n, c * block * block, h // block, w // block))


def triangle(b: Builder, x: int, upper: bool, diagonal: int = 0) -> int:
    """x[…, M, N] with zeros below (`upper`) or above the diagonal, which is moved `diagonal` places up."""
    t = b.types[x]
    if t.rank < 2:
        raise InferError(f"a triangle needs two axes, got {t}")
    row = b.one("iota", axis=t.rank - 2, dtype=I32, shape=t.shape)
    column = b.one("iota", axis=t.rank - 1, dtype=I32, shape=t.shape)
    edge = b.one("add", row, scalar(b, diagonal, row))
    return b.one("select", b.one("ge" if upper else "le", column, edge), x, scalar(b, 0, x))
