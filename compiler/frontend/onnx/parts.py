"""A model in parts: regions that are compiled and what the host runs between them. Values only; see `partition`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ...graph import TensorType
from ...graph.cut import Edge
from ...source import Diagnostic
from .host import Program, first_failing
from .importer import Imported


@dataclass(frozen=True, slots=True)
class HostNode:
    """A node that the host runs: its title, its operator, why it is not compiled, and the values it makes."""

    name: str
    op: str
    why: str
    makes: tuple[str, ...]


# Operators that draw random numbers: two runs of one give two results. Dropout is on the host when it is training.
_DRAWING = {
    "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostPart:
    """Nodes between regions. `inputs` and `outputs` are names of values in the model."""

    nodes: tuple[HostNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    program: Program = field(compare=False, repr=False)
    model: Any = field(compare=False, repr=False)

    def failing(self, values: Mapping[str, Any]) -> tuple[str, str] | None:
        """(node, why) of the first node that fails alone on these values of the model, None when none does."""
        return first_failing(self.model, [n.name for n in self.nodes], values)


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that are compiled. `inputs` and `outputs` map names in the graph to names of values in the model."""

    imported: Imported
    nodes: int
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


Part: TypeAlias = "HostPart | Region"


@dataclass(frozen=True, slots=True)
class Partition:
    """A model in parts that run one after the other.

    `inputs` and `outputs` map the names that people use to those in the model; `types` are those of values as far as
    tdslc has them, `shown` all of them for people. `edges` are the values between parts. `notes` are diagnostics.
    """

    file: str
    parts: tuple[Part, ...]
    edges: tuple[Edge, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    types: Mapping[str, TensorType]
    shown: Mapping[str, str]
    dims: Mapping[str, int]
    sha256: str
    notes: tuple[Diagnostic, ...]
    # The whole model as the host runs it; HostError when it cannot.
    whole: Callable[[], Program] = field(compare=False, repr=False)

    @property
    def regions(self) -> list[Region]:
        """The parts that are compiled."""
        return [part for part in self.parts if isinstance(part, Region)]

    @property
    def drawing(self) -> list[str]:
        """The nodes that draw random numbers."""
        return [n.name for part in self.hosted for n in part.nodes if n.op in _DRAWING]

    @property
    def hosted(self) -> list[HostPart]:
        """The parts that the host runs."""
        return [part for part in self.parts if isinstance(part, HostPart)]
