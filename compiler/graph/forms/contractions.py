"""Products: dot_general, NumPy's matmul, convolutions of any layout, transposed ones, and on quantised integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from ..build import Builder, InferError
from ..dtypes import BOOL, I32, DType
from .basic import broadcast_shape, broadcast_to, convert, reshape, scalar, transpose
from .movement import pad


def _multiplied(b: Builder, x: int, y: int, dtype: DType | None, precision: str) -> int:
    """matmul, also of bools (any of ands) and with a result narrower than the operands."""
    a, own = b.types[x].dtype, b.types[y].dtype
    if a == BOOL:
        wide = b.one("matmul", convert(b, x, I32), convert(b, y, I32))
        return b.one("ne", wide, scalar(b, 0, wide))
    if dtype is not None and (dtype.is_float != a.is_float or dtype.bits < a.bits):
        return convert(b, _multiplied(b, x, y, I32 if a != own else None, precision), dtype)
    return b.one("matmul", x, y, dtype=None if dtype == a == own else dtype, precision=precision)


def dot_general(
    b: Builder, x: int, y: int, lhs_batch: Sequence[int], rhs_batch: Sequence[int], lhs_contract: Sequence[int],
    rhs_contract: Sequence[int], dtype: DType | None = None, precision: str = "highest",
) -> int:  # fmt: skip
    """StableHLO's dot_general: batch axes, then free axes of x, then free axes of y."""
    xs, ys = b.types[x].shape, b.types[y].shape
    if [xs[i] for i in lhs_batch] != [ys[i] for i in rhs_batch] or [xs[i] for i in lhs_contract] != [
        ys[i] for i in rhs_contract
    ]:
        raise InferError(f"dot_general: batch or contracted axes of {b.types[x]} and {b.types[y]} differ")
    x_free = [i for i in range(len(xs)) if i not in (*lhs_batch, *lhs_contract)]
    y_free = [i for i in range(len(ys)) if i not in (*rhs_batch, *rhs_contract)]
    batch = tuple(xs[i] for i in lhs_batch)
    rows, columns = tuple(xs[i] for i in x_free), tuple(ys[i] for i in y_free)
    inner, n = _product(xs[i] for i in lhs_contract), _product(columns)
    left = transpose(b, x, (*lhs_batch, *x_free, *lhs_contract))
    right = transpose(b, y, (*rhs_batch, *rhs_contract, *y_free))
    # Without batch axes the free axes of x stay apart: [..., K] @ [K, N].
    kept = rows if not batch and rows else (_product(rows),)
    left = reshape(b, left, (*batch, *kept, inner))
    right = reshape(b, right, (*batch, inner, n))
    return reshape(b, _multiplied(b, left, right, dtype, precision), (*batch, *rows, *columns))


def _product(sizes: Iterable[int]) -> int:
    """The product of dims, symbols kept; a lone dim is itself."""
    total: int = 1
    for n in sizes:
        total = n if total == 1 else total * n
    return total


def numpy_matmul(b: Builder, x: int, y: int, dtype: DType | None = None, precision: str = "highest") -> int:
    """np.matmul: vectors are rows or columns for the while, batch axes broadcast."""
    row, column = b.types[x].rank == 1, b.types[y].rank == 1
    if not b.types[x].rank or not b.types[y].rank:
        raise InferError(f"matmul needs at least one axis, got {b.types[x]} and {b.types[y]}")
    x = reshape(b, x, (1, *b.types[x].shape)) if row else x
    y = reshape(b, y, (*b.types[y].shape, 1)) if column else y
    xs, ys = b.types[x].shape, b.types[y].shape
    if len(ys) > 2:
        batch = broadcast_shape(xs[:-2], ys[:-2])
        x, y = broadcast_to(b, x, (*batch, *xs[-2:])), broadcast_to(b, y, (*batch, *ys[-2:]))
    out = _multiplied(b, x, y, dtype, precision)
    shape = b.types[out].shape
    if not row and not column:
        return out
    return reshape(b, out, (*shape[:-2], *(() if row else shape[-2:-1]), *(() if column else shape[-1:])))


# ---- convolutions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConvDims:
    """Which axis is which. Of weights, `batch` is the output's feature axis and `feature` the input's."""

    batch: int
    feature: int
    spatial: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        return (self.batch, self.feature, *self.spatial)


def conv_general(
    b: Builder, x: int, w: int, strides: Sequence[int], pads: Sequence[tuple[int, int]], lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int], reversal: Sequence[bool], x_dims: ConvDims, w_dims: ConvDims, out_dims: ConvDims,
    feature_groups: int = 1, batch_groups: int = 1, dtype: DType | None = None, precision: str = "highest",
) -> int:  # fmt: skip
    """StableHLO's convolution. `pads` are (low, high) around the dilated x and may be negative."""
    rank = len(x_dims.spatial)
    left, right = transpose(b, x, x_dims.order), transpose(b, w, w_dims.order)
    if any(reversal):
        right = b.one("reverse", right, axes=tuple(2 + i for i, back in enumerate(reversal) if back))
    if rank and (any(d > 1 for d in lhs_dilation) or any(min(p) < 0 for p in pads)):
        low, high = ((0, 0, *(min(0, p[i]) for p in pads)) for i in (0, 1))
        left = pad(b, left, low, high, interior=(0, 0, *(d - 1 for d in lhs_dilation)))
    left, groups = _batch_grouped(b, left, feature_groups, batch_groups)
    if not rank:
        left, right = (reshape(b, v, (*b.types[v].shape, 1)) for v in (left, right))
    low, high = (tuple(max(0, p[i]) for p in pads) or (0,) for i in (0, 1))
    own = b.types[left].dtype
    narrower = dtype is not None and (dtype.is_float != own.is_float or dtype.bits < own.bits)
    same = dtype == own == b.types[right].dtype
    out = b.one(
        "conv",
        left,
        right,
        strides=tuple(strides) or (1,),
        low=low,
        high=high,
        dilations=tuple(rhs_dilation) or (1,),
        groups=groups,
        precision=precision,
        dtype=None if narrower or same else dtype,
    )
    out = reshape(b, out, b.types[out].shape[:2]) if not rank else out
    out = convert(b, out, dtype) if narrower and dtype is not None else out
    return transpose(b, out, tuple(out_dims.order.index(i) for i in range(rank + 2)))


def _batch_grouped(b: Builder, x: int, feature_groups: int, batch_groups: int) -> tuple[int, int]:
    """Groups of the batch turned into groups of features: (x, the number of groups)."""
    if batch_groups == 1:
        return x, feature_groups
    n, c, *rest = b.types[x].shape
    if feature_groups != 1 or n % batch_groups:
        raise InferError(
            f"convolution: {batch_groups} batch groups do not share {n} batches, or there are feature groups too"
        )
    split = reshape(b, x, (batch_groups, n // batch_groups, c, *rest))
    turned = transpose(b, split, (1, 0, *range(2, 3 + len(rest))))
    return reshape(b, turned, (n // batch_groups, batch_groups * c, *rest)), batch_groups


def conv_transpose(
    b: Builder, x: int, w: int, strides: Sequence[int], low: Sequence[int], high: Sequence[int],
    dilations: Sequence[int], output_padding: Sequence[int], groups: int = 1,
) -> int:  # fmt: skip
    """ONNX's ConvTranspose of x[N, C, …] by w[C, O / groups, …]: the gradient of a convolution to its operand.

    `low` and `high` are cut off the full result; `output_padding` adds to its high side.
    """
    c, made, *taps = b.types[w].shape
    rank = len(taps)
    if groups < 1 or c % groups:
        raise InferError(f"conv_transpose: {groups} groups do not share {c} channels")
    split = reshape(b, w, (groups, c // groups, made, *taps))
    turned = reshape(b, transpose(b, split, (0, 2, 1, *range(3, 3 + rank))), (groups * made, c // groups, *taps))
    dims = ConvDims(0, 1, tuple(range(2, 2 + rank)))
    reach = [(k - 1) * d for k, d in zip(taps, dilations, strict=True)]
    pads = [(r - a, r - z + more) for r, a, z, more in zip(reach, low, high, output_padding, strict=True)]
    return conv_general(
        b, x, turned, (1,) * rank, pads, strides, dilations, (True,) * rank, dims, dims, dims, feature_groups=groups
    )


# ---- quantised integers ----------------------------------------------------------------------------


def matmul_integer(b: Builder, x: int, y: int, x_zero: int | None = None, y_zero: int | None = None) -> int:
    """(x - x_zero) @ (y - y_zero) of 8-bit integers in i32, modulo 2^32.

    Zero points are scalars, one a row of x, or one a column of y. The product itself is of 8-bit integers; the zero
    points come in as rank-one corrections by the sums of rows and columns.
    """
    out = numpy_matmul(b, x, y, dtype=I32)
    if b.types[x].rank < 2 or b.types[y].rank < 2:
        return _subtracted_first(b, x, y, x_zero, y_zero) if x_zero is not None or y_zero is not None else out
    xz = None if x_zero is None else _rows(b, x_zero)
    yz = None if y_zero is None else convert(b, y_zero, I32)
    if xz is not None:
        sums = b.one("reduce_sum", convert(b, y, I32), axes=(b.types[y].rank - 2,))
        t = b.types[sums].shape
        out = _minus_product(b, out, xz, reshape(b, sums, (*t[:-1], 1, t[-1])))
    if yz is not None:
        sums = b.one("reduce_sum", convert(b, x, I32), axes=(b.types[x].rank - 1,))
        out = _minus_product(b, out, reshape(b, sums, (*b.types[sums].shape, 1)), yz)
    if xz is not None and yz is not None:
        length = b.full(-int(b.types[x].shape[-1]), I32, b.types[xz].shape)
        out = _minus_product(b, out, b.one("mul", xz, length), yz)
    return out


def _rows(b: Builder, zero: int) -> int:
    """Zero points of rows as a column; a scalar, or a tensor laid out already, as it is."""
    z = convert(b, zero, I32)
    return reshape(b, z, (*b.types[z].shape, 1)) if b.types[z].rank == 1 and b.types[z].shape != (1,) else z


def _minus_product(b: Builder, out: int, u: int, v: int) -> int:
    shape = b.types[out].shape
    return b.one("sub", out, b.one("mul", broadcast_to(b, u, shape), broadcast_to(b, v, shape)))


def _subtracted_first(b: Builder, x: int, y: int, x_zero: int | None, y_zero: int | None) -> int:
    """For vectors: the zero points are subtracted in i32 and the product is of i32."""
    sides: list[int] = []
    for v, zero in ((x, x_zero), (y, y_zero)):
        wide = convert(b, v, I32)
        sides.append(
            wide if zero is None else b.one("sub", wide, broadcast_to(b, convert(b, zero, I32), b.types[wide].shape))
        )
    return numpy_matmul(b, sides[0], sides[1])


def conv_integer(
    b: Builder, x: int, w: int, x_zero: int | None, w_zero: int | None, strides: Sequence[int], low: Sequence[int],
    high: Sequence[int], dilations: Sequence[int], groups: int = 1,
) -> int:  # fmt: skip
    """x - x_zero convolved with w - w_zero, of 8-bit integers in i32, modulo 2^32; outside x lies x_zero.

    `x_zero` is a scalar, `w_zero` a scalar or one an output channel. The products are of 8-bit integers; a convolution
    of ones says how much of each window lies inside.
    """

    def product(left: int, right: int) -> int:
        return b.one("conv", left, right, strides=tuple(strides), low=tuple(low), high=tuple(high),
                     dilations=tuple(dilations), groups=groups, dtype=I32)  # fmt: skip

    out = product(x, w)
    shape = b.types[out].shape
    spread = (1,) * (len(shape) - 2)
    xs, ws = b.types[x], b.types[w]
    ones_x = b.full(1, xs.dtype, (1, *xs.shape[1:]))
    ones_w = b.full(1, ws.dtype, ws.shape)
    xz = None if x_zero is None else broadcast_to(b, reshape(b, convert(b, x_zero, I32), ()), shape)
    wz = None
    if w_zero is not None:
        z = convert(b, w_zero, I32)
        wz = broadcast_to(b, reshape(b, z, (1, prod(b.types[z].shape), *spread)), shape)
    if xz is not None:
        out = _minus_product(b, out, xz, product(ones_x, w))
    if wz is not None:
        out = _minus_product(b, out, wz, product(x, ones_w))
    if xz is not None and wz is not None:
        both = b.one("neg", b.one("mul", xz, wz))
        out = _minus_product(b, out, both, product(ones_x, ones_w))
    return out
