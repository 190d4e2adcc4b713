"""Targets, chips and their figures as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .tables import Table, table


def show_targets(targets: Sequence[Mapping[str, Any]]) -> str:
    """One line for each chip, as `--target` takes it, and how to bring one's own."""
    lines = [f"{t['name']}:{chip}" for t in targets for chip in t["chips"]]
    own = [f"{t['name']}:FILE.toml" for t in targets]
    example = lines[0] if lines else "TARGET:CHIP"
    hint = f"a chip of your own: {', '.join(own)}; the figures of one: tdslc targets {example}"
    return "\n".join([*lines, "", hint])


def show_chip(chip: Mapping[str, Any], width: int = 100) -> str:
    """Every figure of a chip, its value, and how it is known."""
    rows = [[key, str(f["value"]), str(f["source"])] for key, f in chip["figures"].items()]
    return f"{chip['target']}\n\n{table(Table(['figure', 'value', 'source'], 'lrw', rows), width)}"
