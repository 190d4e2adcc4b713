"""Products: dot, dot_general, convolution."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph import forms
from ..call import Call, Handler
from ..syntax import ConvAxes, Value, Word

_ORDER = ("DEFAULT", "HIGH", "HIGHEST")


def precision(call: Call) -> str:
    """The higher of the two operands' stated precisions; DEFAULT is what the import was asked to take it for."""
    found = call.value("precision_config", "precision")
    words = [v.text for v in found if isinstance(v, Word)] if isinstance(found, tuple) else []
    if any(w not in _ORDER for w in words):
        call.refuse(f"asks for the precision {words}; {', '.join(_ORDER)} are known")
    top = max(words, key=_ORDER.index, default="DEFAULT")
    return call.scope.session.precision if top == "DEFAULT" else top.lower()


def _algorithm(call: Call) -> str | None:
    """The precision that a stated dot algorithm stands for: how many bf16 products make one of f32."""
    found = call.value("algorithm")
    if not isinstance(found, Mapping):
        return None
    left, right = (found.get(f"{side}_precision_type") for side in ("lhs", "rhs"))
    names = {v.text for v in (left, right) if isinstance(v, Word)}
    count = found.get("num_primitive_operations")
    if names <= {"f32", "f64"} or names <= {"f16", "f8E4M3FN", "f8E5M2"}:
        return "highest"
    if names == {"bf16"} and isinstance(count, int):
        return "default" if count == 1 else "high" if count <= 3 else "highest"
    if names != {"tf32"} or not isinstance(count, int):
        said = f"asks for a product in {', '.join(sorted(names)) or 'an unknown type'}"
        call.refuse(said, "ask for bf16 or f32 products", "E1105")
    return "high" if count == 1 else "highest"  # tf32 has 11 bits of a factor, of which two bf16 hold 16


def _dot_general(call: Call) -> int:
    x, y = call.arity(2)
    lb, rb, lc, rc = _dot_dims(call)
    chosen = _algorithm(call) or precision(call)
    _check_axes(call, (lb, lc), 0)
    _check_axes(call, (rb, rc), 1)
    return forms.dot_general(call.b, x, y, lb, rb, lc, rc, call.gives_one.dtype, chosen)


def _check_axes(call: Call, axes: tuple[tuple[int, ...], ...], i: int) -> None:
    named, t = [a for group in axes for a in group], call.type(i)
    if len(set(named)) != len(named) or any(not 0 <= a < t.rank for a in named):
        call.refuse(f"names the axes {named} of {t}")


def _dot_dims(call: Call) -> tuple[tuple[int, ...], ...]:
    """Batching and contracting axes (lhs batch, rhs batch, lhs contract, rhs contract)."""
    if call.has("dot_dimension_numbers"):
        found = call.fields("dot_dimension_numbers")
        names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")
        return tuple(call.as_ints(found.get(f"{n}_dimensions", ()), f"{n}_dimensions") for n in names)
    pairs = [_pair(call, name) for name in ("batching_dims", "contracting_dims")]
    return (*pairs[0], *pairs[1])


def _pair(call: Call, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`[0] x [1]`."""
    found = call.value(name)
    if found is None:
        return (), ()
    if not isinstance(found, tuple) or len(found) != 2:
        call.refuse(f"has {name} that are not [..] x [..]")
    return call.as_ints(found[0], name), call.as_ints(found[1], name)


def _ragged_dot(call: Call) -> int:
    """chlo.ragged_dot along an axis of lhs that stays: its rows, group after group, times the rhs of their group.

    One product over (group, contracted axes), lhs being 0 outside the group's rows.
    """
    x, y, sizes = call.arity(3)
    b, found, own = call.b, call.fields("ragged_dot_dimension_numbers"), call.type()
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting", "lhs_ragged", "rhs_group")
    lb, rb, lc, rc, ragged, group = (call.as_ints(found.get(f"{n}_dimensions", ()), n) for n in names)
    if len(ragged) != 1 or len(group) != 1 or ragged[0] in (*lb, *lc):
        call.refuse(
            "is ragged along an axis that is contracted or a batch's", "make the ragged axis one of rows", "E1105"
        )
    _check_axes(call, (lb, lc, ragged), 0)
    _check_axes(call, (rb, rc, group), 1)
    (axis,), count = ragged, call.type(1).shape[group[0]]
    batch = tuple(own.shape[a] for a in lb)
    if call.type(2).shape not in ((count,), (*batch, count)):
        call.refuse(f"has {count} groups and {call.type(2)} for their sizes")
    last = call.type(2).rank - 1
    first = b.one("cumsum", sizes, axis=last, exclusive=True)
    shape = (count, *own.shape)
    # Sizes are [groups] or [batches, groups]: group and batch axes at their places among those of the spread lhs.
    dims = (*((a + 1 for a in lb) if last else ()), 0)
    order = sorted(range(len(dims)), key=lambda i: dims[i])

    def spread(v: int) -> int:
        return b.one("broadcast", forms.transpose(b, v, order), shape=shape, dims=tuple(sorted(dims)))

    place = b.one("iota", axis=axis + 1, dtype=call.type(2).dtype, shape=shape)
    start, length = spread(first), spread(sizes)
    inside = b.one("and", b.one("ge", place, start), b.one("lt", place, b.one("add", start, length)))
    wide = b.one("broadcast", x, shape=shape, dims=tuple(range(1, own.rank + 1)))
    kept = b.one("select", inside, wide, forms.scalar(b, 0, wide))
    lhs_batch, lhs_contract = (tuple(a + 1 for a in axes) for axes in (lb, lc))
    to = call.gives_one.dtype
    return forms.dot_general(b, kept, y, lhs_batch, rb, (0, *lhs_contract), (*group, *rc), to, precision(call))


def _dot(call: Call) -> int:
    """The last axis of x with the first of y."""
    x, y = call.arity(2)
    a, c = call.types
    if not 1 <= a.rank <= 2 or not 1 <= c.rank <= 2:
        call.refuse(f"multiplies vectors and matrices, got {a} and {c}")
    return forms.dot_general(call.b, x, y, (), (), (a.rank - 1,), (0,), call.gives_one.dtype, precision(call))


# ---- convolutions ------------------------------------------------------------------------------------


def _convolution(call: Call) -> int:
    call.arity(2)
    return _convolved(call, _pads(call))


def _dynamic_conv(call: Call) -> int:
    """The pads are an operand: a literal [spatial axes, 2]."""
    call.arity(3)
    found = forms.known(call.b, call.args[2])
    if found is None or found.ndim != 2 or found.shape[1] != 2:
        call.refuse("has pads that are not a literal", "export the model with static shapes", "E1109")
    return _convolved(call, [(int(a), int(z)) for a, z in found])


def _convolved(call: Call, pads: list[tuple[int, int]] | None) -> int:
    axes = call.value("dimension_numbers", "dim_numbers")
    if not isinstance(axes, ConvAxes):
        call.refuse("needs dimension numbers")
    found = call.value("window")
    window: Mapping[str, Value] = found if isinstance(found, Mapping) else {}
    x_dims, w_dims, out_dims = (_dims(call, names, ends) for names, ends in
                                ((axes.operand, "bf"), (axes.kernel, "oi"), (axes.result, "bf")))  # fmt: skip
    n = len(x_dims.spatial)
    if (
        len(w_dims.spatial) != n
        or len(out_dims.spatial) != n
        or call.type(0).rank != n + 2
        or call.type(1).rank != n + 2
    ):
        call.refuse(f"has dimension numbers that do not fit {call.type(0)} and {call.type(1)}")

    def ints(name: str, short: str, default: int) -> tuple[int, ...]:
        given = call.value(name) if call.has(name) else window.get(short)
        value = (default,) * n if given is None else call.as_ints(given, name)
        if len(value) != n:
            call.refuse(f"has {len(value)} {name} for {n} spatial axes")
        return value

    strides, lhs = ints("window_strides", "stride", 1), ints("lhs_dilation", "lhs_dilate", 1)
    rhs, reversal = ints("rhs_dilation", "rhs_dilate", 1), ints("window_reversal", "reverse", 0)
    if min((*strides, *lhs, *rhs), default=1) < 1:
        call.refuse("has a stride or dilation below 1")
    if pads is None:
        pads = _pair_rows(call, window["pad"]) if "pad" in window else [(0, 0)] * n
    if len(pads) != n:
        call.refuse(f"has {len(pads)} pads for {n} spatial axes")
    (x, w), reverse = call.args[:2], tuple(map(bool, reversal))
    return forms.conv_general(
        call.b, x, w, strides, pads, lhs, rhs, reverse, x_dims, w_dims, out_dims,
        call.int("feature_group_count", default=1), call.int("batch_group_count", default=1), call.gives_one.dtype,
        precision(call),
    )  # fmt: skip


def _pads(call: Call) -> list[tuple[int, int]] | None:
    """The attribute `padding` of the generic form."""
    return _pair_rows(call, call.value("padding")) if call.has("padding") else None


def _pair_rows(call: Call, found: Value | None) -> list[tuple[int, int]]:
    return pairs(call, found, "padding")


def pairs(call: Call, found: Value | None, name: str) -> list[tuple[int, int]]:
    """`[[1, 2], [0, 0]]` or `dense<...> : tensor<Nx2xi64>`."""
    if isinstance(found, tuple) and all(isinstance(row, tuple) for row in found):
        rows = [call.as_ints(row, name) for row in found]
        flat = [v for row in rows for v in row]
        if any(len(row) != 2 for row in rows):
            call.refuse(f"has {name} that are not pairs")
    else:
        flat = list(call.as_ints(found, name))
    if len(flat) % 2:
        call.refuse(f"has {name} that are not pairs")
    return list(zip(flat[::2], flat[1::2], strict=True))


def _dims(call: Call, names: tuple[str, ...], ends: str) -> forms.ConvDims:
    """Which axis is which: `ends` are the letters of batch and feature, of kernels of output and input feature."""
    n = len(names) - 2
    wanted = [*ends, *map(str, range(n))]
    if sorted(names) != sorted(wanted):
        call.refuse(f"has axes {list(names)}; {', '.join(wanted)} in some order are expected")
    place = {name: i for i, name in enumerate(names)}
    return forms.ConvDims(place[ends[0]], place[ends[1]], tuple(place[str(i)] for i in range(n)))


TABLE: dict[str, Handler] = {
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
    "chlo.ragged_dot": _ragged_dot,
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_conv": _dynamic_conv,
}
