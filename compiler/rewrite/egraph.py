"""A saturated e-graph as plain values: what saturation hands to extraction.

Must not know egglog: this is what is left when the search is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..graph import Attrs, Graph, TensorType


@dataclass(frozen=True, slots=True)
class ENode:
    """One way to compute a class: op, operand classes, attributes, regions.

    `rule` names the rule that made it ("" for the model as written). The pseudo-op `get` (attribute
    `index`) takes one result of a node with several results; that node is in a class of several types.
    """

    op: str
    args: tuple[int, ...]
    attrs: Attrs
    regions: tuple[Graph, ...] = ()
    loc: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class EClass:
    """Equal computations, in a canonical order (as written first)."""

    id: int
    types: tuple[TensorType, ...]
    nodes: tuple[ENode, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """How the search went. `fired` counts unions made by each rule; `notes` are sentences for people."""

    stop_reason: str
    iterations: int
    e_nodes: int
    e_classes: int
    fired: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[str, ...] = ()
    trace: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Saturated:
    """Classes by id, the classes of the graph's outputs, and of each value of the graph as written."""

    name: str
    classes: Mapping[int, EClass]
    roots: tuple[int, ...]
    values: Mapping[int, int]
    output_names: tuple[str, ...]
    search: Search
