"""How rows that move elements or work on each are written in StableHLO or CHLO, which JAX and XLA read as well.

Must not know how names are made: a writer does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...graph import Array, DType, NDArray, Node, TensorType
from ...graph.dtypes import BOOL, F64
from .handlers.elementwise import BINARY, DIRECTIONS, UNARY
from .types import type_text

if TYPE_CHECKING:
    from .export import Writer

Write: TypeAlias = "Callable[[Writer, Node, list[str], list[TensorType]], Sequence[str]]"
_CHLO = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "lgamma",
    "sinh",
)
# ---- literals ----------------------------------------------------------------------------------------


def number(value: float | int | bool, d: DType) -> str:
    """`value` as an element of `d`; floats that are not finite by their bits."""
    if d == BOOL:
        return "true" if value else "false"
    if d.is_int:
        return str(int(value))
    wide = float(value)
    if not math.isfinite(wide):
        bits = (
            np.array(wide)
            .astype(d.numpy)
            .reshape(1)
            .view({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[d.bits])
        )
        return f"0x{int(bits[0]):0{d.bits // 4}X}"
    text = repr(wide)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


def _dense(x: NDArray, d: DType) -> str:
    """The elements of an array: a list, or of many their bytes. `x` is of `d`'s NumPy dtype."""
    flat = np.ascontiguousarray(x).reshape(-1)
    if flat.size > 16 and d.bits >= 8 and d != BOOL:
        return f'"0x{flat.tobytes().hex().upper()}"'
    if d.is_float:  # NaNs by their own bits
        raw = flat.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[flat.dtype.itemsize])
        items = [
            number(float(v), d) if np.isfinite(float(v)) else f"0x{int(r):0{d.bits // 4}X}"
            for v, r in zip(flat, raw, strict=True)
        ]
    else:
        items = [number(v, d) for v in flat.tolist()]
    return _nested(items, x.shape)


def _nested(items: Sequence[str], shape: Sequence[int]) -> str:
    if not shape:
        return items[0]
    if 0 in shape:
        return ""
    if len(shape) == 1:
        return f"[{', '.join(items)}]"
    step = len(items) // shape[0]
    return f"[{', '.join(_nested(items[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))}]"


def splat(w: Writer, value: float | int | bool, t: TensorType) -> str:
    return w.op(f"stablehlo.constant dense<{number(value, t.dtype)}>", type_text(t))


def _constant(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    value = n.attr("value")
    assert isinstance(value, Array)
    x = np.frombuffer(value.data, value.type.dtype.numpy).reshape(tuple(map(int, value.type.shape)))
    return (literal(w, x, n.type),)


def literal(w: Writer, x: NDArray, t: TensorType) -> str:
    """A constant of these elements, which are of `t`'s NumPy dtype."""
    return w.op(f"stablehlo.constant dense<{_dense(x, t.dtype)}>", type_text(t))


def _full(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    value = n.attr("value")
    assert isinstance(value, int | float)
    return (splat(w, value, n.type),)


def _iota(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    return (w.op(f"stablehlo.iota dim = {n.attr('axis')}", type_text(n.type)),)


# ---- elementwise -------------------------------------------------------------------------------------


def _same(name: str) -> Write:
    """An operation whose operands and result are of one type, or that has a function type where they are not."""

    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        if all(t == n.type for t in takes):
            return (w.op(f"{name} {', '.join(args)}", type_text(n.type)),)
        return (w.call(name, args, takes, n.type),)

    return write


def _of_unsigned(name: str) -> Write:
    """abs and sign, which StableHLO has of no unsigned integers: those are x, and 0 or 1."""
    plain = _same(f"stablehlo.{name}")

    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        if n.type.dtype.kind != "uint":
            return plain(w, n, args, takes)
        return (args[0] if name == "abs" else binary(w, "minimum", args[0], splat(w, 1, n.type), n.type),)

    return write


def _chlo(name: str) -> Write:
    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        return (w.op(f"chlo.{name} {', '.join(args)}", f"{type_text(n.type)} -> {type_text(n.type)}"),)

    return write


def compare_kind(d: DType) -> str:
    return "FLOAT" if d.is_float else "SIGNED" if d.kind == "int" else "UNSIGNED"


def compare(w: Writer, direction: str, x: str, y: str, t: TensorType, kind: str | None = None) -> str:
    """A comparison of two values of one type."""
    text = f"stablehlo.compare {direction}, {x}, {y}, {kind or compare_kind(t.dtype)}"
    return w.op(text, f"({type_text(t)}, {type_text(t)}) -> {type_text(t.with_dtype(BOOL))}")


def _compare(direction: str) -> Write:
    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        x, y = args
        return (compare(w, direction, x, y, takes[0]),)

    return write


def binary(w: Writer, name: str, x: str, y: str, t: TensorType) -> str:
    return w.op(f"stablehlo.{name} {x}, {y}", type_text(t))


def select(w: Writer, test: str, x: str, y: str, t: TensorType) -> str:
    return w.op(f"stablehlo.select {test}, {x}, {y}", f"{type_text(t.with_dtype(BOOL))}, {type_text(t)}")


def convert(w: Writer, x: str, source: TensorType, to: DType) -> str:
    return x if source.dtype == to else w.call("stablehlo.convert", [x], [source], source.with_dtype(to))


def _select(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    test, x, y = args
    return (select(w, test, x, y, n.type),)


def _convert(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    return (w.call("stablehlo.convert", args, takes, n.type),)


def _reduce_precision(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    form = f"e{n.attr('exponent_bits')}m{n.attr('mantissa_bits')}"
    return (w.op(f"stablehlo.reduce_precision {args[0]}, format = {form}", type_text(n.type)),)


def _power_of_two(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    wide = n.type.with_dtype(F64)
    made = binary(w, "power", splat(w, 2.0, wide), convert(w, args[0], n.type, F64), wide)
    return (convert(w, made, wide, n.type.dtype),)


def _log2(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    """ln x / ln 2 in f64: exact powers of two of f32 come out whole."""
    wide = n.type.with_dtype(F64)
    log = w.op(f"stablehlo.log {convert(w, args[0], n.type, F64)}", type_text(wide))
    return (convert(w, binary(w, "divide", log, splat(w, math.log(2.0), wide), wide), wide, n.type.dtype),)


# ---- movement ----------------------------------------------------------------------------------------


def ints(value: object) -> list[int]:
    assert isinstance(value, tuple)
    return [int(v) for v in value]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


def _with(name: str, *attributes: tuple[str, str]) -> Write:
    """An operation whose attributes are lists or numbers: (StableHLO's name, ours)."""

    def write(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
        more = [f"{to} = {ints(v) if isinstance(v := n.attr(own), tuple) else v}" for to, own in attributes]
        return (w.call(f"stablehlo.{name}", args, takes, n.type, ", " + ", ".join(more) if more else ""),)

    return write


def _reverse(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    return (w.op(f"stablehlo.reverse {args[0]}, dims = {ints(n.attr('axes'))}", type_text(n.type)),)


def sliced(
    w: Writer, x: str, t: TensorType, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]
) -> tuple[str, TensorType]:
    rows = ", ".join(f"{a}:{z}" if s == 1 else f"{a}:{z}:{s}" for a, z, s in zip(starts, stops, steps, strict=True))
    to = t.with_shape(max(0, -(-(z - a) // s)) for a, z, s in zip(starts, stops, steps, strict=True))
    return w.call("stablehlo.slice", [x], [t], to, f" [{rows}]"), to


def _slice(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    return (sliced(w, args[0], takes[0], *(ints(n.attr(k)) for k in ("starts", "stops", "steps")))[0],)


def reshape(w: Writer, x: str, t: TensorType, shape: Sequence[int]) -> str:
    return x if tuple(t.shape) == tuple(shape) else w.call("stablehlo.reshape", [x], [t], t.with_shape(shape))


def _padded(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    attrs, zeros = dict(n.attrs), (0,) * n.type.rank
    value = attrs["value"]
    assert isinstance(value, int | float)
    fill = splat(w, value, n.type.with_shape(()))
    low, high, interior = (ints(attrs.get(k, zeros)) for k in ("low", "high", "interior"))
    more = f", low = {low}, high = {high}, interior = {interior}"
    return (w.call("stablehlo.pad", [args[0], fill], [takes[0], n.type.with_shape(())], n.type, more),)


# ---- indices -----------------------------------------------------------------------------------------


def _starts(w: Writer, x: str, t: TensorType) -> tuple[list[str], list[TensorType]]:
    """A vector of indices as scalars."""
    scalar = t.with_shape(())
    parts = [sliced(w, x, t, (i,), (i + 1,), (1,)) for i in range(int(t.shape[0]))]
    return [reshape(w, name, own, ()) for name, own in parts], [scalar] * len(parts)


def _dynamic_slice(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    names, types = _starts(w, args[1], takes[1])
    more = f", sizes = {ints(n.attr('sizes'))}"
    return (w.call("stablehlo.dynamic_slice", [args[0], *names], [takes[0], *types], n.type, more),)


def _dynamic_update_slice(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    names, types = _starts(w, args[2], takes[2])
    return (w.call("stablehlo.dynamic_update_slice", [*args[:2], *names], [*takes[:2], *types], n.type),)


def _numbers(kind: str, rows: dict[str, object], vector_dim: object) -> str:
    parts = [f"{k} = {ints(v)}" for k, v in rows.items() if v] + [f"index_vector_dim = {vector_dim}"]
    return f"#stablehlo.{kind}<{', '.join(parts)}>"


def _gather(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    names = (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
    )
    dims = _numbers("gather", {k: n.attr(k) for k in names}, n.attr("index_vector_dim"))
    return (_gathered(w, args, takes, n.type, dims, ints(n.attr("slice_sizes"))),)


def _gathered(
    w: Writer, args: Sequence[str], takes: Sequence[TensorType], to: TensorType, dims: str, sizes: Sequence[int]
) -> str:
    attributes = f"<{{dimension_numbers = {dims}, indices_are_sorted = false, slice_sizes = {array(sizes)}}}>"
    return w.call('"stablehlo.gather"', ["(" + ", ".join(args) + ")"], takes, to, f" {attributes}")


def array(values: Sequence[int], kind: str = "i64") -> str:
    return f"array<{kind}{': ' if values else ''}{', '.join(map(str, values))}>"


def _take(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    axis, (table, index) = n.attr("axis"), takes
    assert isinstance(axis, int)
    offset = (*range(axis), *range(axis + index.rank, n.type.rank))
    rows: dict[str, object] = {"offset_dims": offset, "collapsed_slice_dims": (axis,), "start_index_map": (axis,)}
    if not table.shape[axis]:  # no row can be taken of none, so there is no index either
        return (splat(w, False if n.type.dtype == BOOL else 0, n.type),)
    sizes = [1 if i == axis else int(d) for i, d in enumerate(table.shape)]
    return (_gathered(w, args, takes, n.type, _numbers("gather", rows, index.rank), sizes),)


def _scatter(w: Writer, n: Node, args: list[str], takes: list[TensorType]) -> Sequence[str]:
    names = ("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
             "scatter_dims_to_operand_dims")  # fmt: skip
    dims = _numbers("scatter", {k: n.attr(k) for k in names}, n.attr("index_vector_dim"))
    kind = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum", "and": "and", "or": "or"}.get(
        str(n.attr("op"))
    )
    element = n.type.with_shape(())

    def body(x: str, y: str) -> str:
        return binary(w, kind, x, y, element) if kind else y

    attributes = f"<{{scatter_dimension_numbers = {dims}, indices_are_sorted = false, unique_indices = false}}>"
    return (with_region(w, '"stablehlo.scatter"', args, takes, n.type, attributes, [(element, body)]),)


def with_region(
    w: Writer, name: str, args: Sequence[str], takes: Sequence[TensorType], to: TensorType, attributes: str,
    bodies: Sequence[tuple[TensorType, Callable[[str, str], str]]],
) -> str:  # fmt: skip
    """A generic operation of one result with regions on two elements each; the first of two regions gives a bool."""
    made = w.fresh()
    w.line(f"{made} = {name}({', '.join(args)}) {attributes} ({{")
    for i, (element, body) in enumerate(bodies):
        if i:
            w.line("}, {")
        names, label = w.region([element, element])
        w.line(label)
        w.depth += 1
        result = body(*names)
        gives = element if len(bodies) == 1 or i else element.with_dtype(BOOL)
        w.line(f"stablehlo.return {result} : {type_text(gives)}")
        w.depth -= 1
    w.line(f"}}) : ({', '.join(map(type_text, takes))}) -> {type_text(to)}")
    return made


WRITERS: dict[str, Write] = {
    **{op: _same(f"stablehlo.{name}") for name, op in {**UNARY, **BINARY}.items()},
    **{op: _chlo(op) for op in _CHLO},
    **{name: _of_unsigned(name) for name in ("abs", "sign")},
    **{op: _compare(word) for word, op in DIRECTIONS.items()},
    "constant": _constant, "full": _full, "iota": _iota, "select": _select, "convert": _convert,
    "reduce_precision": _reduce_precision, "exp2": _power_of_two, "log2": _log2,
    "bitcast_convert": _with("bitcast_convert"), "broadcast": _with("broadcast_in_dim", ("dims", "dims")),
    "reshape": _with("reshape"), "transpose": _with("transpose", ("dims", "perm")),
    "concat": _with("concatenate", ("dim", "axis")), "reverse": _reverse, "slice": _slice, "pad": _padded,
    "interior_pad": _padded, "take": _take, "gather": _gather, "scatter": _scatter, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}  # fmt: skip
