"""Tensor operators as NumPy has them, made of the op table's rows: broadcasting, `@`, indexing, casts.

The table's elementwise ops take operands of one shape and dtype; what NumPy does silently becomes nodes here
(`broadcast`, `reshape`, `full`). dtypes never mix silently. Must not know syntax.
"""

# ruff: noqa: RET503 - Site.fail never returns, which ruff cannot see in another file
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import TypeAlias

from ..graph import DType, TensorType
from ..graph.dtypes import BOOL
from ..graph.ops.elementwise import int_range
from ..source import Note
from .frame import Tensor
from .values import Site, Value, describe, is_static_number

Operand: TypeAlias = "Tensor | int | float | bool"

_OPERATORS = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "and": "and",
    "or": "or",
}


def broadcast_shape(site: Site, types: Sequence[TensorType], what: str) -> tuple[int, ...]:
    """The shape NumPy broadcasts `types` to."""
    rank = max(t.rank for t in types)
    out: list[int] = []
    for axis in range(-rank, 0):
        sizes = [t.shape[axis] for t in types if t.rank >= -axis]
        wide = [n for n in sizes if n != 1] or sizes
        if any(n != wide[0] for n in wide):
            other = next(n for n in wide if n != wide[0])
            both = " and ".join(map(str, types))
            note = Note(f"counted from the right, axis {-axis} is {wide[0]} in one and {other} in the other")
            site.fail(
                "E0108", f"{what}: the shapes {both} do not broadcast", notes=(note,), help=_broadcast_help(types)
            )
        out.append(wide[0])
    return tuple(out)


def _broadcast_help(types: Sequence[TensorType]) -> str | None:
    if len(types) != 2:
        return None
    a, b = types
    if a.rank == b.rank == 2 and a.shape == b.shape[::-1]:
        return "one of them is the other's transpose: `.T`"
    if b.rank == 1 and a.rank > 1 and b.shape[0] in a.shape[:-1]:
        return "`y[:, none]` gives an axis of 1 behind the one that fits"
    return None


def broadcast_to(site: Site, x: Tensor, shape: Sequence[int]) -> Tensor:
    """`x` with its axes at the right end of `shape`."""
    if x.shape == tuple(shape):
        return x
    rank = len(shape)
    if x.type.rank > rank or any(
        a not in (1, b) for a, b in zip(reversed(x.shape), reversed(tuple(shape)), strict=False)
    ):
        shown = TensorType(x.dtype, tuple(shape))
        site.fail("E0108", f"cannot broadcast {x.type} to {shown}")
    return site.add("broadcast", x, shape=tuple(shape), dims=tuple(range(rank - x.type.rank, rank)))


def common_dtype(site: Site, operands: Sequence[Operand], what: str) -> DType:
    """The one dtype of the tensors among `operands`; a difference is a mistake."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    first = tensors[0].dtype
    for tensor in tensors[1:]:
        if tensor.dtype != first:
            both = f"{tensors[0].type} and {tensor.type}"
            wide = max((first, tensor.dtype), key=lambda d: (d.is_float, d.bits))
            site.fail("E0109", f"{what}: dtypes do not mix: {both}", help=f"convert one of them, as in `{wide}(x)`")
    return first


def constant(site: Site, value: int | float | bool, dtype: DType, shape: Sequence[int], what: str) -> Tensor:
    """The number `value` as a tensor of `dtype`, which must have it."""
    check_number(site, value, dtype, what)
    return site.full(value, dtype, shape)


def check_number(site: Site, value: int | float | bool, dtype: DType, what: str) -> None:
    """Refuses a number that `dtype` does not have: a bool as a number, a fraction as an integer, one out of range."""
    kind = "bool" if isinstance(value, bool) else "float" if isinstance(value, float) else "int"
    if dtype == BOOL and kind != "bool":
        site.fail("E0109", f"{what}: {describe(value)} meets a bool tensor", help="compare first, as in `x != 0`")
    if kind == "bool" and dtype != BOOL:
        site.fail(
            "E0109", f"{what}: a bool meets a tensor of {dtype}", help=f"convert it: `{dtype}(b)`, or use `where`"
        )
    if dtype.is_int and kind == "float":
        site.fail(
            "E0109", f"{what}: {describe(value)} meets an integer tensor", help="convert the tensor, as in `f32(x)`"
        )
    if dtype.is_int and not int_range(dtype)[0] <= value <= int_range(dtype)[1]:
        low, high = int_range(dtype)
        site.fail("E0109", f"{what}: {value} is not in {dtype} ({low} to {high})")


def elementwise(site: Site, op: str, operands: Sequence[Operand], what: str) -> Tensor:
    """Table op `op` on broadcast operands of one dtype; at least one is a tensor."""
    dtype = common_dtype(site, operands, what)
    shape = broadcast_shape(site, [o.type for o in operands if isinstance(o, Tensor)], what)
    return site.add(op, *(_spread(site, o, dtype, shape, what) for o in operands))


def _spread(site: Site, operand: Operand, dtype: DType, shape: Sequence[int], what: str) -> Tensor:
    if isinstance(operand, Tensor):
        return broadcast_to(site, operand, shape)
    return constant(site, operand, dtype, shape, what)


def binary(site: Site, op: str, a: Operand, b: Operand) -> Tensor:
    """`a op b` for an operator of the language with at least one tensor."""
    what = f"`{op}`"
    match op:
        case "@":
            return matmul(site, _tensor_only(site, a), _tensor_only(site, b))
        case "**":
            return power(site, a, b)
        case "//":
            return floor_divide(site, a, b)
        case "%":
            return modulo(site, a, b)
        case "/" if common_dtype(site, (a, b), what).is_int:
            site.fail(
                "E0109", "`/` divides floats only", help="write `x // y` to round down, or convert: `f32(x) / f32(y)`"
            )
        case "and" | "or" if common_dtype(site, (a, b), what) != BOOL:
            site.fail(
                "E0109",
                f"{what} joins bools only, not {common_dtype(site, (a, b), what)}",
                help="compare first, as in `x != 0`",
            )
        case _:
            return elementwise(site, _OPERATORS[op], (a, b), what)


def _tensor_only(site: Site, x: Operand) -> Tensor:
    return (
        x
        if isinstance(x, Tensor)
        else site.fail("E0108", f"`@` multiplies tensors, not {describe(x)}", help="write `*`")
    )


def unary(site: Site, op: str, x: Tensor) -> Tensor:
    """`-x`, `+x` or `not x`."""
    if op == "+":
        return x
    if op == "not" and x.dtype != BOOL:
        site.fail("E0109", f"`not` negates bools only, not {x.type}", help="compare first, as in `x == 0`")
    if op == "-" and x.dtype == BOOL:
        site.fail("E0109", f"`-` negates numbers, not {x.type}", help="write `not x`")
    return site.add("neg" if op == "-" else "not", x)


def power(site: Site, a: Operand, b: Operand) -> Tensor:
    """`a ** b`. A square is a product, so that it is exact; integers take a static exponent of 0 or more."""
    dtype = common_dtype(site, (a, b), "`**`")
    if isinstance(a, Tensor) and not isinstance(b, Tensor) and b == 2:
        return site.add("mul", a, a)
    if not dtype.is_int:
        return elementwise(site, "pow", (a, b), "`**`")
    if not isinstance(a, Tensor) or not isinstance(b, int) or not 0 <= b <= 64:
        site.fail("E0109", "an integer tensor takes a static exponent from 0 to 64", help="convert it: `f32(x) ** y`")
    result = constant(site, 1, dtype, a.shape, "`**`") if b == 0 else a
    for _ in range(b - 1):
        result = site.add("mul", result, a)
    return result


def floor_divide(site: Site, a: Operand, b: Operand) -> Tensor:
    """`a // b`, rounded towards minus infinity."""
    dtype = common_dtype(site, (a, b), "`//`")
    quotient = elementwise(site, "div", (a, b), "`//`")
    if dtype.is_float:
        return site.add("floor", quotient)
    if dtype.kind == "uint":
        return quotient
    rest = elementwise(site, "rem", (a, b), "`//`")
    one = constant(site, 1, dtype, quotient.shape, "`//`")
    return site.add("select", _signs_differ(site, rest, b), site.add("sub", quotient, one), quotient)


def modulo(site: Site, a: Operand, b: Operand) -> Tensor:
    """`a % b`, with the sign of b."""
    dtype = common_dtype(site, (a, b), "`%`")
    rest = elementwise(site, "rem", (a, b), "`%`")
    if dtype.kind == "uint":
        return rest
    return site.add("select", _signs_differ(site, rest, b), elementwise(site, "add", (rest, b), "`%`"), rest)


def _signs_differ(site: Site, rest: Tensor, b: Operand) -> Tensor:
    """Where `rest` is not 0 and its sign is not that of `b`."""
    if not isinstance(b, Tensor):
        return elementwise(site, "lt" if b > 0 else "gt", (rest, 0), "`%`")
    signs = [elementwise(site, "lt", (x, 0), "`%`") for x in (rest, b)]
    differ = elementwise(site, "ne", signs, "`%`")
    return site.add("and", elementwise(site, "ne", (rest, 0), "`%`"), differ)


def convert(site: Site, x: Tensor, dtype: DType) -> Tensor:
    """`x` at `dtype`; itself when it has it."""
    return x if x.dtype == dtype else site.add("convert", x, dtype=dtype)


# ---- products ------------------------------------------------------------------------------------


def matmul(site: Site, a: Tensor, b: Tensor, dtype: DType | None = None, precision: str = "highest") -> Tensor:
    """`a @ b` as np.matmul: vectors gain an axis and lose it again, batch axes broadcast."""
    what = "`@`"
    common_dtype(site, (a, b), what)
    if a.type.rank == 0 or b.type.rank == 0:
        site.fail(
            "E0108", f"`@` needs axes to multiply along, got {a.type} and {b.type}", help="write `*` for a scalar"
        )
    if a.shape[-1] != b.shape[-2 if b.type.rank > 1 else -1]:
        _inner_differs(site, a, b)
    left = a if a.type.rank > 1 else reshape(site, a, (1, *a.shape))
    right = b if b.type.rank > 1 else reshape(site, b, (*b.shape, 1))
    if right.type.rank > 2:
        batch = broadcast_shape(
            site, [left.type.with_shape(left.shape[:-2]), right.type.with_shape(right.shape[:-2])], what
        )
        left = broadcast_to(site, left, (*batch, *left.shape[-2:]))
        right = broadcast_to(site, right, (*batch, *right.shape[-2:]))
    out = site.add("matmul", left, right, precision=precision, dtype=dtype)
    lost = ({-2} if a.type.rank == 1 else set[int]()) | ({-1} if b.type.rank == 1 else set[int]())
    return reshape(site, out, [n for i, n in enumerate(out.shape, -out.type.rank) if i not in lost]) if lost else out


def _inner_differs(site: Site, a: Tensor, b: Tensor) -> None:
    right = b.shape[-2 if b.type.rank > 1 else -1]
    help = None
    if b.type.rank == 2 and b.shape[-1] == a.shape[-1]:
        help = "the right one fits when transposed: `b.T`"
    elif a.type.rank == 2 and a.shape[0] == right:
        help = "the left one fits when transposed: `a.T`"
    site.fail("E0108", f"`@`: inner dims differ: {a.type} @ {b.type} multiplies {a.shape[-1]} by {right}", help=help)


# ---- shapes --------------------------------------------------------------------------------------


def reshape(site: Site, x: Tensor, shape: Sequence[int]) -> Tensor:
    return x if x.shape == tuple(shape) else site.add("reshape", x, shape=tuple(shape))


def transpose(site: Site, x: Tensor, perm: Sequence[int]) -> Tensor:
    return x if list(perm) == list(range(x.type.rank)) else site.add("transpose", x, perm=tuple(perm))


def axis_of(site: Site, axis: Value, rank: int, what: str) -> int:
    """`axis` counted from 0; a negative one counts from the end."""
    if not isinstance(axis, int) or isinstance(axis, bool):
        site.fail("E0111", f"{what}: an axis is a static integer, not {describe(axis)}")
    if not -rank <= axis < rank:
        axes = f"the axes run from {-rank} to {rank - 1}" if rank else "it has no axes"
        site.fail("E0120", f"{what}: there is no axis {axis} in a tensor of rank {rank}: {axes}")
    return int(axis) % rank


# ---- indexing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """`start:stop:step` with static ends, None where nothing is written."""

    start: int | None
    stop: int | None
    step: int | None


IndexItem: TypeAlias = "int | Range | EllipsisType | Tensor | None"


def index(site: Site, x: Tensor, items: Sequence[IndexItem]) -> Tensor:
    """`x[items]` as NumPy's basic indexing; one integer tensor, or several of rank 0, take along their axes."""
    full = _without_ellipsis(site, x, items)
    taken = [i for i in full if isinstance(i, Tensor)]
    if len(taken) > 1:
        return _take_scalars(site, x, full)
    cuts: list[tuple[int, int, int]] = []
    shape: list[int | str] = []  # "keep" marks an axis that stays, "take" the one that is taken along
    axis = 0
    for item in full:
        if item is None:
            shape.append(1)
            continue
        size = x.shape[axis]
        cuts.append(_cut(site, item, size, axis))
        if not isinstance(item, int):
            shape.append("take" if isinstance(item, Tensor) else "keep")
        axis += 1
    cut = _apply_cuts(site, x, cuts)
    dropped = [i for i, item in enumerate(i for i in full if i is not None) if isinstance(item, int)]
    return _reshaped(site, cut, dropped, shape, taken[0] if taken else None)


def _take_scalars(site: Site, x: Tensor, items: Sequence[int | Range | Tensor | None]) -> Tensor:
    """`x[items]` with several tensors of rank 0 in it, taken one after another from the last axis."""
    axes = [(axis, i) for axis, i in enumerate(i for i in items if i is not None) if isinstance(i, Tensor)]
    if any(i.type.rank for _, i in axes):
        site.fail("E0120", "of several tensors in one index each has rank 0", help="index twice, or use `take`")
    for axis, i in reversed(axes):
        x = index(site, x, [*[Range(None, None, None)] * axis, i])
    return index(site, x, [i for i in items if not isinstance(i, Tensor)])


def _without_ellipsis(site: Site, x: Tensor, items: Sequence[IndexItem]) -> list[int | Range | Tensor | None]:
    """`items` with one for each axis of x: `...`, or the end, stands for whole axes."""
    dots = [i for i, item in enumerate(items) if item is ...]
    if len(dots) > 1:
        site.fail("E0120", "`...` stands twice in an index")
    used = sum(item is not None and item is not ... for item in items)
    if used > x.type.rank:
        site.fail("E0120", f"{used} indices into {x.type}, which has {x.type.rank} axes")
    at = dots[0] if dots else len(items)
    whole = [Range(None, None, None)] * (x.type.rank - used)
    rest = [i for i in (*items[:at], *whole, *items[at + len(dots) :]) if not isinstance(i, EllipsisType)]
    return list(rest)


def _cut(site: Site, item: int | Range | Tensor, size: int, axis: int) -> tuple[int, int, int]:
    """(start, stop, step) along an axis of `size`; a negative step means: reverse first, with stop and start so."""
    if isinstance(item, Tensor):
        if not item.dtype.is_int:
            help = "use `where(mask, x, 0)`: a result's shape cannot depend on values" if item.dtype == BOOL else None
            site.fail("E0120", f"an index is an integer, not {item.type}", help=help)
        return 0, size, 1
    if isinstance(item, int):
        if not -size <= item < size:
            site.fail("E0120", f"index {item} is outside axis {axis}, which has {size} elements")
        start = int(item) % size
        return start, start + 1, 1
    if item.step == 0:
        site.fail("E0120", "the step of a slice is not 0")
    if item.start in (None, 0) and item.step in (None, 1) and (item.stop is None or item.stop == size):
        return 0, size, 1
    start, stop, step = slice(item.start, item.stop, item.step).indices(int(size))
    if step > 0:
        return (start, max(start, stop), step) if start < size else (0, 0, step)
    start, stop = size - 1 - start, size - 1 - stop
    return (start, max(start, stop), step) if start < size else (0, 0, step)


def _apply_cuts(site: Site, x: Tensor, cuts: Sequence[tuple[int, int, int]]) -> Tensor:
    backwards = tuple(i for i, (_, _, step) in enumerate(cuts) if step < 0)
    if backwards:
        x = site.add("reverse", x, axes=backwards)
    if all((start, stop, abs(step)) == (0, size, 1) for (start, stop, step), size in zip(cuts, x.shape, strict=True)):
        return x
    starts, stops, steps = (tuple(abs(c[i]) for c in cuts) for i in range(3))
    return site.add("slice", x, starts=starts, stops=stops, steps=steps)


def _reshaped(
    site: Site, cut: Tensor, dropped: Sequence[int], shape: Sequence[int | str], indices: Tensor | None
) -> Tensor:
    """`cut` without its `dropped` axes, taken along the marked axis, with new axes of 1."""
    kept = [n for i, n in enumerate(cut.shape) if i not in dropped]
    x = reshape(site, cut, kept)
    if indices is not None:
        axis = [entry for entry in shape if entry != 1].index("take")
        x = site.add("take", x, indices, axis=axis)
    sizes = iter(x.shape)
    out: list[int] = []
    for entry in shape:
        count = indices.type.rank if entry == "take" and indices is not None else 1
        out += [1] if entry == 1 else [next(sizes) for _ in range(count)]
    return reshape(site, x, out)


def number_or_tensor(site: Site, value: Value, what: str) -> Operand:
    """`value` where a number, a bool or a tensor is due."""
    if isinstance(value, Tensor | bool) or is_static_number(value):
        return value  # pyright: ignore[reportReturnType]
    site.fail("E0107", f"{what} takes tensors and numbers, not {describe(value)}")
