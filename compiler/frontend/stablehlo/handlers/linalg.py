"""Linear algebra and batch normalisation, written with other operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....graph import Builder, TensorType, forms
from ....graph.dtypes import I32
from ..call import Call, Handler


def _triangular_solve(call: Call) -> int:
    """op(a) x = b, or x op(a) = b, by substitution: a loop over the rows of x.

    Everything else is brought to the lower triangle on the left: a transposed or reversed a, and b turned.
    """
    a, y = call.arity(2)
    b, t = call.b, call.type(0)
    if t.rank < 2 or t.shape[-1] != t.shape[-2] or call.type(1).shape[:-2] != t.shape[:-2]:
        call.refuse(f"solves square systems with the batch axes of both, got {t} and {call.type(1)}")
    left, lower = call.flag("left_side"), call.flag("lower")
    turned = call.word("transpose_a", default="NO_TRANSPOSE")
    if turned not in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        call.refuse(f"has transpose_a {turned}")
    last = (t.rank - 1, t.rank - 2)
    swap = (*range(t.rank - 2), *last)
    if turned != "NO_TRANSPOSE":
        a, lower = b.one("transpose", a, perm=swap), not lower
    if not left:  # x a = y  <=>  a' x' = y'
        a, lower, y = b.one("transpose", a, perm=swap), not lower, b.one("transpose", y, perm=swap)
    if not lower:
        a, y = b.one("reverse", a, axes=tuple(sorted(last))), b.one("reverse", y, axes=(t.rank - 2,))
    x = _forward(b, a, y, call.flag("unit_diagonal"))
    if not lower:
        x = b.one("reverse", x, axes=(t.rank - 2,))
    return x if left else b.one("transpose", x, perm=swap)


def _forward(b: Builder, a: int, y: int, unit: bool) -> int:
    """x of a x = y for a lower triangular a: its row i is (y's row i less a's row before i times x) / a's diagonal."""
    t, u = b.types[a], b.types[y]
    batch, n, m = t.shape[:-2], int(t.shape[-1]), int(u.shape[-1])
    count = prod(map(int, batch))
    rows = forms.transpose(b, forms.reshape(b, a, (count, n, n)), (1, 0, 2))  # [n, B, n]
    wanted = forms.transpose(b, forms.reshape(b, y, (count, n, m)), (1, 0, 2))  # [n, B, m]
    inner = Builder("row", b.loc)
    i = inner.input("i", TensorType(I32, ()))
    x = inner.input("x", TensorType(u.dtype, (count, n, m)))
    row, right = (
        inner.input("row", TensorType(t.dtype, (count, n))),
        inner.input("right", TensorType(u.dtype, (count, m))),
    )
    place = inner.one("iota", axis=1, dtype=I32, shape=(count, n))
    at = forms.broadcast_to(inner, i, (count, n))
    zero = inner.full(0, t.dtype, (count, n))
    before = inner.one("select", inner.one("lt", place, at), row, zero)
    known = inner.one("matmul", forms.reshape(inner, before, (count, 1, n)), x)
    rest = inner.one("sub", right, forms.reshape(inner, known, (count, m)))
    if not unit:
        own = inner.one("reduce_sum", inner.one("select", inner.one("eq", place, at), row, zero), axes=(1,))
        rest = inner.one("div", rest, inner.one("broadcast", own, shape=(count, m), dims=(0,)))
    whole = inner.one(
        "eq", inner.one("iota", axis=1, dtype=I32, shape=(count, n, m)), forms.broadcast_to(inner, i, (count, n, m))
    )
    spread = inner.one("broadcast", rest, shape=(count, n, m), dims=(0, 2))
    body = inner.finish([inner.one("select", whole, spread, x)])
    start = b.full(0, u.dtype, (count, n, m))
    (made,) = b.add("loop", (start, rows, wanted), {"n": n, "carry": 1, "xs": 2}, regions=(body,))
    return forms.reshape(b, made, u.shape)


def _cholesky(call: Call) -> int:
    """The lower factor column by column: column j is (a's less the columns before times their row j) / its own root.

    What lies on the other side of the diagonal is zero here; StableHLO leaves it open.
    """
    (a,) = call.arity(1)
    b, t = call.b, call.type()
    if t.rank < 2 or t.shape[-1] != t.shape[-2] or not t.dtype.is_float:
        call.refuse(f"factors square matrices of floats, got {t}")
    lower, n, count = call.flag("lower"), int(t.shape[-1]), prod(map(int, t.shape[:-2]))
    flat = forms.reshape(b, a, (count, n, n))
    # Only one triangle may be read: the columns of the lower one, the rows of the upper.
    columns = forms.transpose(b, flat, (2, 0, 1) if lower else (1, 0, 2))  # [j, B, n]
    inner = Builder("column", b.loc)
    j = inner.input("j", TensorType(I32, ()))
    done = inner.input("done", TensorType(t.dtype, (count, n, n)))
    column = inner.input("column", TensorType(t.dtype, (count, n)))
    made = _column(inner, j, done, column)
    wide = inner.one("broadcast", made, shape=(count, n, n), dims=(0, 1))
    here = inner.one(
        "eq", inner.one("iota", axis=2, dtype=I32, shape=(count, n, n)), forms.broadcast_to(inner, j, (count, n, n))
    )
    body = inner.finish([inner.one("select", here, wide, done)])
    (out,) = b.add("loop", (b.full(0, t.dtype, (count, n, n)), columns), {"n": n, "carry": 1, "xs": 1}, regions=(body,))
    return forms.reshape(b, out if lower else forms.transpose(b, out, (0, 2, 1)), t.shape)


def _column(b: Builder, j: int, done: int, column: int) -> int:
    """Column j [B, n] of the factor, given those before it."""
    t = b.types[column]
    count, n = map(int, t.shape)
    zero, place = b.full(0, t.dtype, t.shape), b.one("iota", axis=1, dtype=I32, shape=t.shape)
    at = forms.broadcast_to(b, j, t.shape)
    here = b.one("eq", place, at)
    rows = b.one("eq", b.one("iota", axis=1, dtype=I32, shape=(count, n, n)), forms.broadcast_to(b, j, (count, n, n)))
    row = b.one("reduce_sum", b.one("select", rows, done, b.full(0, t.dtype, (count, n, n))), axes=(1,))
    known = forms.reshape(b, b.one("matmul", done, forms.reshape(b, row, (count, n, 1))), (count, n))
    rest = b.one("sub", column, known)
    root = b.one("sqrt", b.one("reduce_sum", b.one("select", here, rest, zero), axes=(1,)))
    scaled = b.one("div", rest, b.one("broadcast", root, shape=t.shape, dims=(0,)))
    return b.one("select", b.one("ge", place, at), scaled, zero)


# ---- batch normalisation -----------------------------------------------------------------------------


def _batch_norm_inference(call: Call) -> int:
    x, scale, offset, mean, variance = call.arity(5)
    return _normalised(call, x, scale, offset, mean, variance)


def _normalised(call: Call, x: int, scale: int, offset: int, mean: int, variance: int) -> int:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, the last four along the feature axis."""
    b, axis = call.b, _feature(call)

    def wide(v: int) -> int:
        return b.one("broadcast", v, shape=b.types[x].shape, dims=(axis,))

    root = b.one(
        "sqrt", b.one("add", variance, b.full(_epsilon(call), b.types[variance].dtype, b.types[variance].shape))
    )
    normal = b.one("div", b.one("sub", x, wide(mean)), wide(root))
    return b.one("add", b.one("mul", normal, wide(scale)), wide(offset))


def _batch_norm_training(call: Call) -> Sequence[int]:
    x, scale, offset = call.arity(3)
    b, axis = call.b, _feature(call)
    others = tuple(i for i in range(call.type().rank) if i != axis)
    mean = forms.reduce(b, x, "mean", others)
    off = b.one("sub", x, b.one("broadcast", mean, shape=call.type().shape, dims=(axis,)))
    variance = forms.reduce(b, b.one("mul", off, off), "mean", others)
    return _normalised(call, x, scale, offset, mean, variance), mean, variance


def _feature(call: Call) -> int:
    axis = call.int("feature_index")
    if not 0 <= axis < call.type().rank:
        call.refuse(f"has no axis {axis} in {call.type()}")
    return axis


def _epsilon(call: Call) -> float:
    found = call.value("epsilon")
    if not isinstance(found, int | float):
        call.refuse("needs the attribute epsilon")
    return float(found)


TABLE: dict[str, Handler] = {
    "stablehlo.triangular_solve": _triangular_solve,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.batch_norm_inference": _batch_norm_inference,
    "stablehlo.batch_norm_training": _batch_norm_training,
}
