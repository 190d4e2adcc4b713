"""The shape of a machine file, read from a target's frozen dataclasses.

A field is `int`, `float`, `str`, `bool`, a `Literal` of strings, a `dict[str, int | float]` (free keys, or a `Literal`
of keys), another dataclass (a table), or one of these `| None = None` where the file may leave it out. Numbers are
greater than zero unless `Annotated[int, Bounds(0)]` says otherwise. Numbers have no defaults: a figure that no file
gives would have no source. Mistakes in a schema are ours, hence TypeError.
"""

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

_SCALARS: tuple[type, ...] = (int, float, str, bool)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and greatest number allowed, both inclusive; for use in `Annotated`."""

    low: float
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Leaf:
    """A figure, or a dict of figures of one kind when `entries` is not None."""

    kind: type
    # None: greater than zero.
    bounds: Bounds | None = None
    # Strings allowed; empty: any.
    choices: tuple[str, ...] = ()
    # Keys allowed in a dict; empty: any; None: not a dict.
    entries: tuple[str, ...] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A dataclass: its fields by name, in order."""

    type: type
    fields: tuple[tuple[str, "Leaf | Table"], ...]
    optional: bool = False


@lru_cache(maxsize=64)
def table_of(schema: type) -> Table:
    """The table that `schema`, a frozen dataclass, describes. Raises TypeError for a type that no file could hold."""
    return _table(schema, False)


def keys_of(table: Table, prefix: str = "") -> tuple[str, ...]:
    """The dotted key of every leaf of `table`, in order; a dict counts as one key."""
    found: list[str] = []
    for name, node in table.fields:
        key = prefix + name
        found += keys_of(node, key + ".") if isinstance(node, Table) else [key]
    return tuple(found)


def _table(schema: type, optional: bool) -> Table:
    if not is_dataclass(schema):
        raise TypeError(f"{schema!r} is not a dataclass")
    hints = get_type_hints(schema, include_extras=True)
    return Table(schema, tuple((f.name, _field(schema, f, hints[f.name])) for f in fields(schema)), optional)


def _field(owner: type, field: Field[Any], hint: object) -> Leaf | Table:
    hint, optional = _without_none(hint)
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    if has_default != optional or (optional and field.default is not None):
        raise TypeError(f"{owner.__name__}.{field.name}: `| None` needs `= None`, and there is no other default")
    if isinstance(hint, type) and is_dataclass(hint):
        return _table(cast(type, hint), optional)
    leaf = _leaf(cast(object, hint))
    if leaf is None:
        raise TypeError(f"{owner.__name__}.{field.name}: {hint} is not a type of a machine figure")
    return Leaf(leaf.kind, leaf.bounds, leaf.choices, leaf.entries, optional)


def _without_none(hint: object) -> tuple[object, bool]:
    if get_origin(hint) not in (Union, types.UnionType) or type(None) not in get_args(hint):
        return hint, False
    rest = tuple(arg for arg in get_args(hint) if arg is not type(None))
    return cast(object, Union[rest]), True  # noqa: UP007  # built at run time


def _leaf(hint: object) -> Leaf | None:
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and hint in _SCALARS:
        return Leaf(hint)
    if origin in (Union, types.UnionType) and set(args) == {int, float}:
        return Leaf(float)
    if origin is Literal and all(isinstance(arg, str) for arg in args):
        return Leaf(str, choices=cast(tuple[str, ...], args))
    if origin is Annotated:
        inner, bounds = _leaf(args[0]), next((arg for arg in args[1:] if isinstance(arg, Bounds)), None)
        return inner and Leaf(inner.kind, bounds or inner.bounds, inner.choices, inner.entries)
    if origin in (dict, Mapping) and len(args) == 2:
        names, inner = _leaf(args[0]), _leaf(args[1])
        if names and names.kind is str and inner and inner.entries is None:
            return Leaf(inner.kind, inner.bounds, inner.choices, names.choices)
    return None
