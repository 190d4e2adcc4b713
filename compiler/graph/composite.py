"""Composites: ops that are definitions.

A composite's row is a signature; its meaning is a Graph made for the operand types and attributes
at hand, which every node of it carries as its region. Sources of composites (the language, an
importer) register rows in a `Composites` table; nothing else is needed to evaluate or lower one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from .graph import Attr, Graph
from .ops import AttrSpec, Types


@dataclass(frozen=True, slots=True)
class Composite:
    """Signature of a composite: tensor operands in order, static attributes, one-line doc.

    `define(types, attrs)` gives the definition as a Graph whose inputs are the operands in order, or
    the reason as text when they do not fit.
    """

    name: str
    operands: tuple[str, ...]
    attrs: tuple[AttrSpec, ...]
    doc: str
    define: Callable[[Types, Mapping[str, Attr]], Graph | str] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Composites:
    """A table of composites by name."""

    rows: Mapping[str, Composite] = field(default_factory=dict[str, Composite])

    def __contains__(self, name: str) -> bool:
        return name in self.rows

    def get(self, name: str) -> Composite | None:
        return self.rows.get(name)

    def extended(self, more: Iterable[Composite]) -> Composites:
        """This table and `more`; a later row of the same name wins."""
        return Composites({**self.rows, **{c.name: c for c in more}})


NO_COMPOSITES = Composites()
