"""Ops of the table as functions of the language, for all that have no operator or function of their own.

Operands come first, attributes by name, with the table's defaults. So an op added to the table is there at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..graph import OPS, Attr, Op
from ..graph.ops import AttrSpec
from . import arrays
from .frame import Tensor
from .signature import static_value
from .values import Builtin, Site, Value, describe

# What the language writes otherwise: leaves, operators, indexing, loops.
_WRITTEN_OTHERWISE = frozenset(
    (
        "input",
        "param",
        "constant",
        "select",
        "convert",
        "neg",
        "not",
        "and",
        "or",
        "add",
        "sub",
        "mul",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "reduce_sum",
        "reduce_prod",
        "reduce_max",
        "reduce_min",
        "reduce_and",
        "reduce_or",
        "loop",
        "while",
        "cond",
    )
)


def table_functions(known: Mapping[str, Builtin]) -> dict[str, Builtin]:
    """A function for each row of the op table that is neither `known` nor written otherwise."""
    return {row.name: _function(row) for row in OPS.values() if row.name not in {*known, *_WRITTEN_OTHERWISE}}


def _function(row: Op) -> Builtin:
    operands = () if row.variadic else row.operands
    shown = [*row.operands, *(f"{a.name}{_default(a)}" for a in row.attrs)]
    required = (*operands, *(a.name for a in row.attrs if a.required))
    names = (*operands, *(a.name for a in row.attrs))
    return Builtin(row.name, f"{row.name}({', '.join(shown)})", names, required, row.variadic, _runner(row))


def _default(attr: AttrSpec) -> str:
    if attr.required:
        return ""
    if isinstance(attr.default, bool) or attr.default is None:
        return f"={str(attr.default).lower()}"
    return f'="{attr.default}"' if isinstance(attr.default, str) else f"={attr.default}"


def _runner(row: Op) -> Callable[..., Value]:
    def run(site: Site, *xs: Value, **given: Value) -> Value:
        values = xs if row.variadic else tuple(given[name] for name in row.operands)
        operands = [_operand(site, row, x) for x in values]
        tensors = [x for x in operands if isinstance(x, Tensor)]
        if "elementwise" in row.traits and tensors and not row.attrs:
            return arrays.elementwise(site, row.name, operands, row.name)
        if len(tensors) != len(operands) or not tensors:
            site.fail("E0107", f"{row.name} takes tensors", help="make a tensor of a number: `f32(x)`")
        attrs = {a.name: _attr(site, a, given[a.name], tensors[0]) for a in row.attrs if a.name in given}
        results = site.add_all(row.name, tensors, attrs)
        return results[0] if len(results) == 1 else results

    return run


def _operand(site: Site, row: Op, value: Value) -> arrays.Operand:
    return arrays.number_or_tensor(site, value, row.name)


_KINDS = {
    "int": "int",
    "ints": "dims",
    "float": "float",
    "number": "float",
    "bool": "bool",
    "str": "str",
    "dtype": "dtype",
}


def _attr(site: Site, spec: AttrSpec, value: Value, first: Tensor) -> Attr:
    """`value` as the attribute `spec`; an axis counts from the end when negative."""
    if spec.kind == "array":
        site.fail("E0107", f"`{spec.name}` is a literal tensor, not {describe(value)}")
    if value is None and not spec.required and spec.default is None:
        return None
    if spec.name == "axis":
        return arrays.axis_of(site, value, first.type.rank, "axis")
    return static_value(site, _KINDS[spec.kind], spec.name, value)  # pyright: ignore[reportReturnType]
