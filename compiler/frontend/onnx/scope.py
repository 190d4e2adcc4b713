"""What names stand for while a graph is imported, and what all scopes of one import share.

Must not know operators, nor how nodes are read.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ...graph import Graph, TensorType
from ...source import Diagnostic, Note

if TYPE_CHECKING:
    from .call import Call, Value

# Bodies of functions and subgraphs within each other; deeper ones would come near Python's own limit.
MAX_DEPTH = 24
_MOST_LISTED = 20


class Poisoned(Exception):
    """Something inside a node could not be imported, which has been told."""


class Bodies(Protocol):
    """What handlers of nodes with subgraphs ask the importer for."""

    def inline(self, call: Call, graph: Any, given: Mapping[str, Value]) -> list[Value]:
        """The outputs of `graph`, its nodes emitted where `call` stands. Raises Poisoned."""
        ...

    def region(self, call: Call, graph: Any, takes: Sequence[tuple[str, TensorType]]) -> tuple[Graph, list[Value]]:
        """`graph` as a Graph of its own, and the outer values that its further inputs are bound to.

        Its inputs are `takes`, each bound to the name beside it ("": to none). Raises Poisoned.
        """
        ...


@dataclass(slots=True)
class Session:
    """One import: the file, where its data lies, what went wrong so far.

    `makers` says which node makes a value, `active` which functions are being opened.
    """

    file: str
    folder: str | None
    functions: Mapping[tuple[str, str], Any]
    inputs: frozenset[str] = frozenset()
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    notes: list[str] = field(default_factory=list[str])
    unsupported: dict[tuple[str, str, int], list[str]] = field(default_factory=dict[tuple[str, str, int], list[str]])
    makers: dict[str, str] = field(default_factory=dict[str, str])
    active: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    depth: int = 0

    def tell(self, diagnostic: Diagnostic) -> None:
        """Another mistake."""
        self.diagnostics.append(diagnostic)

    def missing(self, domain: str, op: str, version: int, where: str) -> None:
        """An operator without a handler, at the node `where`."""
        places = self.unsupported.setdefault((domain, op, version), [])
        if where not in places:
            places.append(where)

    @contextmanager
    def deeper(self) -> Generator[bool]:
        """Whether one level more is allowed; that level while this is open."""
        self.depth += 1
        try:
            yield self.depth <= MAX_DEPTH
        finally:
            self.depth -= 1

    def faults(self) -> list[Diagnostic]:
        """Every mistake, one for each operator that is not supported among them."""
        return [
            *self.diagnostics,
            *(_unsupported(self.file, key, nodes) for key, nodes in sorted(self.unsupported.items())),
        ]


def _unsupported(file: str, key: tuple[str, str, int], nodes: list[str]) -> Diagnostic:
    domain, op, version = key
    of = f"domain {domain}" if domain else "ONNX"
    many = f"{len(nodes)} nodes use it" if len(nodes) > 1 else "one node uses it"
    said = f"{file}: the operator {op} of {of}, opset {version}, is not supported; {many}"
    notes = [Note(f"node {name}") for name in nodes[:_MOST_LISTED]]
    notes += [Note(f"and {len(nodes) - _MOST_LISTED} more")] if len(nodes) > _MOST_LISTED else []
    help = "`tdslc build --partition` runs such nodes on the host; docs/onnx.md lists the operators that are compiled"
    return Diagnostic("E1105", said, notes=tuple(notes), help=help)


@dataclass(slots=True)
class Scope:
    """Names of one graph or function body. None stands for a value that could not be made, told already."""

    session: Session
    opsets: Mapping[str, int]
    bodies: Bodies
    parent: Scope | None = None
    values: dict[str, Value | None] = field(default_factory=dict[str, "Value | None"])
    where: str = ""

    @property
    def folder(self) -> str | None:
        """The folder that external data lies in."""
        return self.session.folder

    @property
    def runtime_inputs(self) -> frozenset[str]:
        """The names of the model's inputs that have no value at import."""
        return self.session.inputs

    def knows(self, name: str) -> bool:
        """Whether `name` is defined here or outside."""
        return name in self.values or (self.parent is not None and self.parent.knows(name))

    def find(self, name: str) -> Value | None:
        """What `name` stands for; KeyError when it stands for nothing."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        raise KeyError(name)
