"""The functions that need no import: one Python function each, its parameters the language's.

Most are a row of the op table after broadcasting; docs/language.md lists them. Must not know syntax.
"""

# ruff: noqa: RET503 - Site.fail never returns, which ruff cannot see in another file
from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ..graph import DTYPES, Array, DType, TensorType
from ..graph.dtypes import BOOL, F32, F64, I32
from . import arrays, static
from .arguments import dtype_of, flag, integer, integers, shape_of, tensor_of
from .einsum import einsum
from .frame import Tensor
from .values import Builtin, Site, Value, describe, is_static_number

_MAX_CONSTANT = 10_000

FUNCTIONS: dict[str, Builtin] = {}
CONSTANTS: dict[str, Value] = {"inf": math.inf, "nan": math.nan, "pi": math.pi, **DTYPES}

_SHOWN = {None: "none", True: "true", False: "false"}


def _builtin(run: Callable[..., Any]) -> Callable[..., Any]:
    """Registers `run`; its parameters after `site` are the function's."""
    _register(run.__name__.strip("_"), run)
    return run


def _register(name: str, run: Callable[..., Any]) -> None:
    formals = list(inspect.signature(run).parameters.values())[1:]
    variadic = any(f.kind is f.VAR_POSITIONAL for f in formals)
    plain = [f for f in formals if f.kind is not f.VAR_POSITIONAL]
    shown = [f.name if f.default is f.empty else f"{f.name}={_default(f.default)}" for f in plain]
    shown += [f"*{f.name}" for f in formals if f.kind is f.VAR_POSITIONAL]
    required = tuple(f.name for f in plain if f.default is f.empty)
    signature = f"{name}({', '.join(shown)})"
    FUNCTIONS[name] = Builtin(name, signature, tuple(f.name for f in plain), required, variadic, run, len(plain))


def _default(value: object) -> str:
    if value is None or isinstance(value, bool):
        return _SHOWN[value]
    return f'"{value}"' if isinstance(value, str) else str(value)


# ---- elementwise ---------------------------------------------------------------------------------


def _unary(name: str) -> Callable[..., Value]:
    def run(site: Site, x: Value) -> Value:
        if is_static_number(x) and name != "is_finite":
            return static.function(site, name, x)  # pyright: ignore[reportArgumentType]
        tensor = tensor_of(site, x, name)
        if tensor.dtype.is_int and name in _FLOAT_ONLY:
            site.fail("E0109", f"{name} takes floats, not {tensor.type}", help="convert it: `f32(x)`")
        return site.add(name, tensor)

    return run


_FLOAT_ONLY = (
    "floor",
    "ceil",
    "round",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "tanh",
    "erf",
    "sin",
    "cos",
    "is_finite",
)
for _name in ("abs", "sign", *_FLOAT_ONLY):
    _register(_name, _unary(_name))


def _binary(name: str, op: str) -> Callable[..., Value]:
    def run(site: Site, x: Value, y: Value) -> Value:
        a, b = (arrays.number_or_tensor(site, v, name) for v in (x, y))
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return arrays.elementwise(site, op, (a, b), name)
        site.fail("E0107", f"{name} takes at least one tensor, got {describe(x)} and {describe(y)}")

    return run


for _name, _op in (("div", "div"), ("rem", "rem"), ("xor", "xor"), ("bit_and", "and"), ("bit_or", "or")):
    _register(_name, _binary(_name, _op))


def _extreme(name: str, op: str, of: Callable[..., Any]) -> Callable[..., Value]:
    tensors = _binary(name, op)

    def run(site: Site, x: Value, y: Value) -> Value:
        if is_static_number(x) and is_static_number(y):
            return of(x, y)
        return tensors(site, x, y)

    return run


_register("maximum", _extreme("maximum", "max", max))
_register("minimum", _extreme("minimum", "min", min))


@_builtin
def _bit_not(site: Site, x: Value) -> Value:
    return site.add("not", tensor_of(site, x, "bit_not"))


@_builtin
def _pow(site: Site, x: Value, y: Value) -> Value:
    a, b = (arrays.number_or_tensor(site, v, "pow") for v in (x, y))
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return arrays.elementwise(site, "pow", (a, b), "pow")
    return (
        arrays.power(site, a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else static.number(site, "**", a, b)
    )


@_builtin
def _where(site: Site, condition: Value, x: Value, y: Value) -> Value:
    test = tensor_of(site, condition, "where")
    a, b = (arrays.number_or_tensor(site, v, "where") for v in (x, y))
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        site.fail("E0107", "where: one of the two values must be a tensor", help="write `f32(1.0)` for a scalar tensor")
    dtype = arrays.common_dtype(site, (a, b), "where")
    shape = arrays.broadcast_shape(site, [t.type for t in (test, a, b) if isinstance(t, Tensor)], "where")
    spread = [
        arrays.broadcast_to(site, v, shape)
        if isinstance(v, Tensor)
        else arrays.constant(site, v, dtype, shape, "where")
        for v in (a, b)
    ]
    return site.add("select", arrays.broadcast_to(site, test, shape), *spread)


@_builtin
def _clamp(site: Site, x: Value, low: Value, high: Value) -> Value:
    tensor = tensor_of(site, x, "clamp")
    return _call(site, "minimum", _call(site, "maximum", tensor, low), high)


def _call(site: Site, name: str, *args: Value) -> Value:
    return FUNCTIONS[name].run(site, *args)


# ---- reductions ----------------------------------------------------------------------------------


def _axes(site: Site, axis: Value, x: Tensor, what: str) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.type.rank))
    given = [arrays.axis_of(site, a, x.type.rank, what) for a in (axis if isinstance(axis, tuple | range) else (axis,))]
    if len(set(given)) != len(given):
        site.fail("E0120", f"{what}: an axis is named twice")
    return tuple(sorted(given))


def _reduced(site: Site, op: str, name: str, x: Value, axis: Value, keep: Value) -> Tensor:
    tensor = tensor_of(site, x, name)
    axes = _axes(site, axis, tensor, name)
    # A sum over no axes is no copy: it starts at +0, which -0 becomes.
    out = site.add(op, tensor, axes=axes) if axes or op == "reduce_sum" else tensor
    kept = [1 if i in axes else n for i, n in enumerate(tensor.shape)]
    return arrays.reshape(site, out, kept) if flag(site, keep, "keep") else out


def _reduction(name: str, op: str) -> Callable[..., Value]:
    def run(site: Site, x: Value, axis: Value = None, keep: Value = False) -> Value:
        if (
            isinstance(x, Tensor)
            and x.dtype == BOOL
            and op in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")
        ):
            site.fail(
                "E0109", f"{name} takes numbers, not {x.type}", help="convert it, as in `i32(x)`, or use `any` or `all`"
            )
        if isinstance(x, Tensor) and x.dtype != BOOL and op in ("reduce_and", "reduce_or"):
            site.fail("E0109", f"{name} takes bools, not {x.type}", help="compare first, as in `x != 0`")
        return _reduced(site, op, name, x, axis, keep)

    return run


for _name, _op in (("sum", "sum"), ("prod", "prod"), ("any", "or"), ("all", "and")):
    _register(_name, _reduction(_name, f"reduce_{_op}"))


def _greatest(name: str, of: Callable[..., Any]) -> Callable[..., Value]:
    tensors = _reduction(name, f"reduce_{name}")

    def run(site: Site, x: Value, axis: Value = None, keep: Value = False) -> Value:
        if is_static_number(x) and is_static_number(axis):
            return of(x, axis)
        if isinstance(axis, Tensor):
            site.fail("E0107", f"{name} reduces one tensor", help=f"of two tensors, elementwise: `{name}imum(x, y)`")
        return tensors(site, x, axis, keep)

    return run


_register("max", _greatest("max", max))
_register("min", _greatest("min", min))


@_builtin
def _mean(site: Site, x: Value, axis: Value = None, keep: Value = False) -> Value:
    tensor = tensor_of(site, x, "mean")
    if not tensor.dtype.is_float:
        site.fail("E0109", f"mean takes floats, not {tensor.type}", help="convert it: `f32(x)`")
    total = _reduced(site, "reduce_sum", "mean", tensor, axis, keep)
    count = prod(int(tensor.shape[a]) for a in _axes(site, axis, tensor, "mean"))
    return site.add("div", total, site.full(count, tensor.dtype, total.shape))


@_builtin
def _argmax(site: Site, x: Value, axis: Value = -1, keep: Value = False, last: Value = False) -> Value:
    tensor = tensor_of(site, x, "argmax")
    at = arrays.axis_of(site, axis, tensor.type.rank, "argmax")
    out = site.add("argmax", tensor, axis=at, last=flag(site, last, "last"))
    kept = [1 if i == at else n for i, n in enumerate(tensor.shape)]
    return arrays.reshape(site, out, kept) if flag(site, keep, "keep") else out


# ---- products ------------------------------------------------------------------------------------


@_builtin
def _matmul(site: Site, a: Value, b: Value, dtype: Value = None, precision: Value = "highest") -> Value:
    to = None if dtype is None else dtype_of(site, dtype, "matmul")
    return arrays.matmul(site, tensor_of(site, a, "matmul"), tensor_of(site, b, "matmul"), to, str(precision))


@_builtin
def _einsum(site: Site, *operands: Value, spec: Value) -> Value:
    if not isinstance(spec, str) or not operands:
        site.fail("E0106", "einsum takes a specification and tensors", help='write `einsum("bij,bjk->bik", x, y)`')
    return einsum(site, spec, [tensor_of(site, x, "einsum") for x in operands])


def _per_axis(site: Site, value: Value, rank: int, what: str) -> tuple[int, ...]:
    """One integer for each spatial axis; a single one counts for all."""
    given = integers(site, value, what) if isinstance(value, tuple) else (integer(site, value, what),) * rank
    if len(given) != rank:
        site.fail("E0107", f"{what} has {len(given)} entries for {rank} spatial axes")
    return given


def _padding(site: Site, value: Value, rank: int, what: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(low, high) from an integer, one integer an axis, or [low, high] an axis."""
    if isinstance(value, tuple) and any(isinstance(v, tuple) for v in value):
        pairs = [integers(site, v, what) for v in value]
        if len(pairs) != rank or any(len(p) != 2 for p in pairs):
            site.fail("E0107", f"{what} is [low, high] for each of {rank} spatial axes")
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    same = _per_axis(site, value, rank, what)
    return same, same


def _window_attrs(site: Site, rank: int, stride: Value, pad: Value, dilation: Value) -> dict[str, tuple[int, ...]]:
    low, high = _padding(site, pad, rank, "pad")
    return {
        "strides": _per_axis(site, stride, rank, "stride"),
        "low": low,
        "high": high,
        "dilations": _per_axis(site, dilation, rank, "dilation"),
    }


@_builtin
def _conv(
    site: Site,
    x: Value,
    w: Value,
    stride: Value = 1,
    pad: Value = 0,
    dilation: Value = 1,
    groups: Value = 1,
    precision: Value = "highest",
    dtype: Value = None,
    channels_last: Value = False,
) -> Value:
    a, b = tensor_of(site, x, "conv"), tensor_of(site, w, "conv")
    to = None if dtype is None else dtype_of(site, dtype, "conv")
    if to is None:
        arrays.common_dtype(site, (a, b), "conv")
    attrs = _window_attrs(site, max(a.type.rank - 2, 0), stride, pad, dilation)
    last = flag(site, channels_last, "channels_last")
    more = {"groups": integer(site, groups, "groups"), "precision": str(precision), "dtype": to, "channels_last": last}
    return site.add("conv", a, b, **attrs, **more)


def _pool(name: str, op: str) -> Callable[..., Value]:
    def run(site: Site, x: Value, window: Value, stride: Value = None, pad: Value = 0, dilation: Value = 1) -> Value:
        tensor = tensor_of(site, x, name)
        rank = max(tensor.type.rank - 2, 0)
        size = _per_axis(site, window, rank, "window")
        attrs = _window_attrs(site, rank, size if stride is None else stride, pad, dilation)
        return site.add("reduce_window", tensor, op=op, window=size, **attrs)

    return run


_register("max_pool", _pool("max_pool", "max"))
_register("sum_pool", _pool("sum_pool", "sum"))


# ---- shapes --------------------------------------------------------------------------------------


@_builtin
def _reshape(site: Site, x: Value, shape: Value) -> Value:
    tensor = tensor_of(site, x, "reshape")
    sizes = list(integers(site, shape, "reshape: a dim"))
    if sizes.count(-1) == 1:
        rest = prod(int(n) for n in sizes if n != -1)
        if rest == 0 or tensor.type.size % rest:
            site.fail("E0108", f"reshape: {tensor.type} has {tensor.type.size} elements, no multiple of {rest}")
        sizes[sizes.index(-1)] = tensor.type.size // rest
    if any(n < 0 for n in sizes):
        site.fail(
            "E0108", f"reshape: a dim is negative: [{', '.join(str(int(n)) for n in sizes)}]", help="one may be -1"
        )
    if prod(map(int, sizes)) != tensor.type.size:
        shown = f"[{', '.join(str(int(n)) for n in sizes)}]"
        count = prod(map(int, sizes))
        site.fail("E0108", f"reshape: {tensor.type} has {tensor.type.size} elements, {shown} has {count}")
    return arrays.reshape(site, tensor, sizes)


@_builtin
def _transpose(site: Site, x: Value, perm: Value = None) -> Value:
    tensor = tensor_of(site, x, "transpose")
    rank = tensor.type.rank
    if perm is None:
        return arrays.transpose(site, tensor, range(rank)[::-1])
    order = [arrays.axis_of(site, p, rank, "transpose") for p in integers(site, perm, "transpose: an axis")]
    if sorted(order) != list(range(rank)):
        site.fail("E0120", f"transpose: {order} names not each of the {rank} axes of {tensor.type} once")
    return arrays.transpose(site, tensor, order)


@_builtin
def _swapaxes(site: Site, x: Value, a: Value, b: Value) -> Value:
    tensor = tensor_of(site, x, "swapaxes")
    i, j = (arrays.axis_of(site, v, tensor.type.rank, "swapaxes") for v in (a, b))
    order = list(range(tensor.type.rank))
    order[i], order[j] = j, i
    return arrays.transpose(site, tensor, order)


@_builtin
def _squeeze(site: Site, x: Value, axis: Value) -> Value:
    tensor = tensor_of(site, x, "squeeze")
    axes = _axes(site, axis, tensor, "squeeze")
    if any(tensor.shape[a] != 1 for a in axes):
        site.fail("E0108", f"squeeze: only axes of 1 can go, got {tensor.type}")
    return arrays.reshape(site, tensor, [n for i, n in enumerate(tensor.shape) if i not in axes])


@_builtin
def _broadcast_to(site: Site, x: Value, shape: Value) -> Value:
    return arrays.broadcast_to(site, tensor_of(site, x, "broadcast_to"), shape_of(site, shape, "broadcast_to"))


def _tensors(site: Site, xs: Value, what: str) -> list[Tensor]:
    if not isinstance(xs, tuple) or not xs:
        site.fail("E0107", f"{what} takes a list of tensors, as in `{what}([a, b], axis=0)`")
    tensors = [tensor_of(site, x, what) for x in xs]
    arrays.common_dtype(site, tensors, what)
    return tensors


@_builtin
def _concat(site: Site, xs: Value, axis: Value = 0) -> Value:
    tensors = _tensors(site, xs, "concat")
    at = arrays.axis_of(site, axis, tensors[0].type.rank, "concat")
    for t in tensors[1:]:
        if t.type.rank != tensors[0].type.rank or any(
            i != at and a != b for i, (a, b) in enumerate(zip(t.shape, tensors[0].shape, strict=False))
        ):
            site.fail("E0108", f"concat: shapes agree but for axis {at}, got {tensors[0].type} and {t.type}")
    return tensors[0] if len(tensors) == 1 else site.add("concat", *tensors, axis=at)


@_builtin
def _stack(site: Site, xs: Value, axis: Value = 0) -> Value:
    tensors = _tensors(site, xs, "stack")
    at = arrays.axis_of(site, axis, tensors[0].type.rank + 1, "stack")
    for t in tensors[1:]:
        if t.shape != tensors[0].shape:
            site.fail("E0108", f"stack: shapes are equal, got {tensors[0].type} and {t.type}")
    return site.add("concat", *(arrays.reshape(site, t, (*t.shape[:at], 1, *t.shape[at:])) for t in tensors), axis=at)


@_builtin
def _split(site: Site, x: Value, parts: Value, axis: Value = 0) -> Value:
    """`parts` equal pieces, or pieces of the sizes listed."""
    tensor = tensor_of(site, x, "split")
    at = arrays.axis_of(site, axis, tensor.type.rank, "split")
    size = tensor.shape[at]
    if isinstance(parts, tuple):
        sizes = integers(site, parts, "split: a size")
    else:
        count = integer(site, parts, "split: the number of parts")
        if count < 1 or size % count:
            site.fail(
                "E0108",
                f"split: axis {at} of {tensor.type} has {size} elements, which {count} parts do not share evenly",
            )
        sizes = (size // count,) * count
    if any(n < 0 for n in sizes) or sum(map(int, sizes)) != size:
        site.fail(
            "E0108", f"split: the sizes make {sum(map(int, sizes))}, but axis {at} of {tensor.type} has {size} elements"
        )
    starts = [sum(map(int, sizes[:i])) for i in range(len(sizes))]
    before = [arrays.Range(None, None, None)] * at
    return tuple(
        arrays.index(site, tensor, [*before, arrays.Range(a, a + int(n), 1)])
        for a, n in zip(starts, sizes, strict=True)
    )


@_builtin
def _pad(site: Site, x: Value, low: Value, high: Value, value: Value = 0) -> Value:
    tensor = tensor_of(site, x, "pad")
    ends = [_per_axis(site, v, tensor.type.rank, f"pad: {name}") for name, v in (("low", low), ("high", high))]
    fill = arrays.number_or_tensor(site, value, "pad: the value")
    if isinstance(fill, Tensor):
        site.fail("E0111", f"pad: the value is a static number, not {describe(fill)}")
    arrays.check_number(site, fill, tensor.dtype, "pad")
    exact = float(fill) if tensor.dtype.is_float else fill
    return site.add("pad", tensor, low=ends[0], high=ends[1], value=exact)


@_builtin
def _reverse(site: Site, x: Value, axis: Value) -> Value:
    tensor = tensor_of(site, x, "reverse")
    return site.add("reverse", tensor, axes=_axes(site, axis, tensor, "reverse"))


@_builtin
def _take(site: Site, table: Value, index: Value, axis: Value = 0) -> Value:
    rows, at = tensor_of(site, table, "take"), tensor_of(site, index, "take")
    if not at.dtype.is_int:
        site.fail("E0109", f"take: indices are integers, not {at.type}", help="convert them: `i32(x)`")
    return site.add("take", rows, at, axis=arrays.axis_of(site, axis, rows.type.rank, "take"))


# ---- making tensors ------------------------------------------------------------------------------


@_builtin
def _full(site: Site, shape: Value, value: Value, dtype: Value = F32) -> Value:
    number = arrays.number_or_tensor(site, value, "full")
    if isinstance(number, Tensor):
        site.fail("E0111", f"full: the value is static, not {describe(value)}", help="write `broadcast_to(x, shape)`")
    return arrays.constant(site, number, dtype_of(site, dtype, "full"), shape_of(site, shape, "full"), "full")


@_builtin
def _zeros(site: Site, shape: Value, dtype: Value = F32) -> Value:
    to = dtype_of(site, dtype, "zeros")
    return site.full(False if to == BOOL else 0, to, shape_of(site, shape, "zeros"))


@_builtin
def _ones(site: Site, shape: Value, dtype: Value = F32) -> Value:
    to = dtype_of(site, dtype, "ones")
    return site.full(True if to == BOOL else 1, to, shape_of(site, shape, "ones"))


@_builtin
def _arange(site: Site, n: Value, dtype: Value = I32) -> Value:
    to = dtype_of(site, dtype, "arange")
    return site.add("iota", axis=0, dtype=to, shape=shape_of(site, integer(site, n, "arange: the length"), "arange"))


@_builtin
def _iota(site: Site, shape: Value, axis: Value, dtype: Value = I32) -> Value:
    sizes = shape_of(site, shape, "iota")
    at = arrays.axis_of(site, axis, len(sizes), "iota")
    return site.add("iota", axis=at, dtype=dtype_of(site, dtype, "iota"), shape=sizes)


def cast(site: Site, dtype: DType, x: Value) -> Tensor:
    """`f32(x)`: a tensor converted, a number as a tensor of rank 0, a list of numbers as a literal tensor."""
    if isinstance(x, Tensor):
        return arrays.convert(site, x, dtype)
    if isinstance(x, tuple):
        return _literal(site, dtype, x)
    number = arrays.number_or_tensor(site, x, str(dtype))
    return arrays.constant(site, number, dtype, (), str(dtype))  # pyright: ignore[reportArgumentType]


def _literal(site: Site, dtype: DType, items: tuple[Value, ...]) -> Tensor:
    shape, flat = _flattened(site, items)
    if len(flat) > _MAX_CONSTANT:
        site.fail(
            "E0115", f"a literal tensor has {len(flat)} elements, more than {_MAX_CONSTANT}", help="make it a param"
        )
    for value in flat:
        arrays.check_number(site, value, dtype, str(dtype))
    data = np.asarray(flat).astype(dtype.numpy).reshape(shape)
    return site.add("constant", value=Array(TensorType(dtype, shape), data.tobytes()))


def _flattened(site: Site, items: tuple[Value, ...]) -> tuple[tuple[int, ...], list[Any]]:
    if not any(isinstance(v, tuple) for v in items):
        bad = [v for v in items if not isinstance(v, bool) and not is_static_number(v)]
        if bad:
            site.fail("E0107", f"a literal tensor holds numbers, not {describe(bad[0])}", help="`stack` joins tensors")
        return (len(items),), list(items)
    inner = [_flattened(site, v) if isinstance(v, tuple) else ((), [v]) for v in items]
    if any(shape != inner[0][0] for shape, _ in inner):
        site.fail("E0108", "the lists in a literal tensor are not of one length")
    return (len(items), *inner[0][0]), [v for _, flat in inner for v in flat]


# ---- static values -------------------------------------------------------------------------------


@_builtin
def _range(site: Site, start: Value, stop: Value = None, step: Value = 1) -> Value:
    ends = (0, start) if stop is None else (start, stop)
    low, high, by = (integer(site, v, "range: an end") for v in (*ends, step))
    return range(int(low), int(high), int(by)) if by else site.fail("E0118", "range: the step is not 0")


@_builtin
def _len(site: Site, x: Value) -> Value:
    if isinstance(x, tuple | range):
        return len(x)
    help = "write `x.shape[0]`" if isinstance(x, Tensor) else None
    site.fail("E0107", f"len takes a list, not {describe(x)}", help=help)


@_builtin
def _int_(site: Site, x: Value) -> Value:
    if isinstance(x, int | float) and math.isfinite(x):
        return static.in_range(site, int(x))
    help = "a tensor is converted by its dtype, as in `i32(x)`" if isinstance(x, Tensor) else None
    site.fail("E0107", f"int takes a static number, not {describe(x)}", help=help)


@_builtin
def _float(site: Site, x: Value) -> Value:
    if isinstance(x, int | float):
        return float(x)
    help = "a tensor is converted by its dtype, as in `f32(x)`" if isinstance(x, Tensor) else None
    site.fail("E0107", f"float takes a static number, not {describe(x)}", help=help)


@_builtin
def _wide(site: Site, dtype: Value) -> Value:
    """The dtype in which a composite on floats of `dtype` computes: f64 for f64, f32 for narrower ones."""
    given = dtype_of(site, dtype, "wide")
    if not given.is_float:
        site.fail("E0109", f"a float tensor is needed, not one of {given}", help="convert it: `f32(x)`")
    return F64 if given == F64 else F32


@_builtin
def _default_dtype(site: Site) -> Value:
    """The dtype of parameters that no tensor argument gives one: the model's first `dtype`, f32 when it has none."""
    return site.act.session.default_dtype or F32
