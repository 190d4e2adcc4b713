"""A model in parts as text: its regions, what the host runs between them, and what crosses.

Reads `regions`, `host` and `crossings` of a `report.json`; a report of a model that is whole has none of them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from .tables import Table, seconds, size, table

Json = Mapping[str, Any]
_US = 1e-6
# Nodes of one operator, for one reason, are named up to here.
_MOST_NAMED = 6


def parts_line(report: Json) -> str:
    """One line on the parts; "" for a model that is whole."""
    if "crossings" not in report:
        return ""
    rows = report["crossings"]
    nodes = sum(len(h["nodes"]) for h in report["host"])
    took, moved = sum(c["seconds"] for c in rows), sum(c["bytes"] for c in rows)
    on_host = f"{_count(nodes, 'node')} on the host (not simulated)"
    crossed = f"{_count(len(rows), 'crossing')} of {size(moved)}, {seconds(took)} of the time"
    crossed = crossed if rows else "nothing crosses"
    return f"{_count(len(report['regions']), 'region')}, {on_host}, {crossed}"


def show_parts(report: Json, width: int = 100) -> str:
    """Tables of parts and crossings; "" for a model that is whole."""
    if "crossings" not in report:
        return ""
    header = ["part", "runs on", "time us", "bound us", "read kB", "written kB", "kernels", "what"]
    rows = sorted([_region(r) for r in report["regions"]] + [_host(h) for h in report["host"]])
    parts = table(Table(header, "llrrrrrw", rows), width)
    crossed = [
        [c["direction"].replace("_", " "), f"{c['from']} -> {', '.join(c['to'])}", f"{c['seconds'] / _US:.3f}",
         f"{c['bytes'] / 1e3:.1f}", c["type"], c["value"]]
        for c in report["crossings"]
    ]  # fmt: skip
    edges = table(Table(["crossing", "parts", "time us", "kB", "type", "value"], "llrrlw", crossed), width)
    why = "\n".join(_wrap(line, width) for h in report["host"] for line in _reasons(h))
    return "\n\n".join(part for part in (parts, edges, why) if part)


def _region(r: Json) -> list[str]:
    times = [f"{r[key] / _US:.3f}" for key in ("seconds", "bound_seconds")]
    moved = [f"{r[key] / 1e3:.1f}" for key in ("bytes_read", "bytes_written")]
    return [r["part"], "chip", *times, *moved, str(r["kernels"]), r["folder"]]


def _host(h: Json) -> list[str]:
    ops = " ".join(dict.fromkeys(node["op"] for node in h["nodes"]))
    return [h["part"], "host", "-", "-", "-", "-", "-", f"{ops} (by {h['runner']}, {h['time']})"]


def _reasons(h: Json) -> list[str]:
    """Why nodes run on the host, those of one reason together."""
    groups: dict[str, list[str]] = {}
    for node in h["nodes"]:
        groups.setdefault(node["why"], []).append(node["name"])
    return [f"host {h['part']}: {_named(names)}: {why}" for why, names in groups.items()]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _wrap(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, max(width, 20), subsequent_indent="  ", break_on_hyphens=False))
