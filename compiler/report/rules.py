"""Rules as text: one line each, with what turns them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .tables import Table, table


def show_rules(rows: Sequence[Mapping[str, Any]], width: int = 100) -> str:
    """A table of rules; the equation is the comment above each, or the rule's own text where it has none."""
    shown = [["on" if r["on"] else "off", r["name"], " ".join(f"@{c}" for c in r["classes"]), _said(r)] for r in rows]
    on = sum(bool(r["on"]) for r in rows)
    head = f"{len(rows)} rules, {on} on"
    return "\n\n".join(
        part for part in (head, table(Table(["", "rule", "class", "says"], "lllw", shown), width)) if part
    )


def _said(row: Mapping[str, Any]) -> str:
    return " ".join((row["doc"] or row["text"]).split())
