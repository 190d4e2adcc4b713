"""The table of operators: (domain, operator, version it holds since) to the function that emits it.

Modules of a family register their rows with `@handles`; docs/make_onnx.py prints the table. Must not know the importer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ...graph import NDArray

if TYPE_CHECKING:
    from .call import Call, Value

# What a handler gives: values of the builder, known arrays, operands, None for an output that nobody may read.
Result: TypeAlias = "int | NDArray | Value | None"
Handler: TypeAlias = "Callable[[Call], Result | Sequence[Result]]"


@dataclass(frozen=True, slots=True)
class Row:
    """An operator's meaning from opset `since` on, until the next row."""

    op: str
    domain: str
    since: int
    run: Handler


ROWS: dict[tuple[str, str], list[Row]] = {}


def handles(*ops: str, since: int = 1, domain: str = "") -> Callable[[Handler], Handler]:
    """Registers a handler of each of `ops` for opset `since` and later ones."""

    def register(run: Handler) -> Handler:
        for op in ops:
            rows = ROWS.setdefault((domain, op), [])
            assert all(row.since != since for row in rows), f"{op} {since} is there twice"
            rows.append(Row(op, domain, since, run))
            rows.sort(key=lambda row: row.since)
        return run

    return register


def find(domain: str, op: str, version: int) -> Row | None:
    """The row of an operator at opset `version`, or None."""
    rows = [row for row in ROWS.get((domain, op), ()) if row.since <= version]
    return rows[-1] if rows else None
