"""The figures of a model in parts: those of its regions summed, and what crossing to the host and back costs.

The same report as of a model that is whole, with `regions`, `host` and `crossings` beside. Work on the host is listed
and not timed. Must not know how a model was cut, nor any one target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..plan.target import HostLink
from .figures import REPORT_SCHEMA

Json = Mapping[str, Any]
LINK = "host_link"
# Sums of many floats may differ in their last digits.
_SLACK = 1e-9
_SUMMED = ("seconds", "cycles", "flops", "bytes_read", "bytes_written", "compulsory_bytes", "kernels")
_NOT_SIMULATED = "not simulated"


@dataclass(frozen=True, slots=True)
class Crossing:
    """A value that goes from a region to the host or back, once however many read it; parts are called by number."""

    value: str
    type: str
    bytes: int
    direction: Literal["to_host", "to_chip"]
    maker: str
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostWork:
    """What the host runs in one part: by which library, which nodes, and why these are not compiled."""

    part: str
    runner: str
    nodes: Sequence[tuple[str, str, str]]


def partition_report(
    model: str,
    target: str,
    regions: Mapping[str, Json],
    hosted: Sequence[HostWork],
    crossings: Sequence[Crossing],
    link: HostLink,
    notes: Sequence[str],
) -> dict[str, Any]:
    """`report.json` of a model in parts. `regions` are the reports of its regions by the numbers of their parts."""
    rows = [_crossing(c, link) for c in crossings]
    seconds = sum(row["seconds"] for row in rows)
    totals = _totals(list(regions.values()), seconds, link)
    return {
        "schema": REPORT_SCHEMA,
        "model": model,
        "target": target,
        "totals": totals,
        "kernels": [{**k, "name": f"{part}/{k['name']}"} for part, r in regions.items() for k in r["kernels"]],
        "search": _search([r["search"] for r in regions.values()]),
        "checks": [*_checks(regions), _sum_check(totals["seconds"], regions, seconds)],
        "edges": [_edge(part, e) for part, r in regions.items() for e in r["edges"]],
        "load": _load([r["load"] for r in regions.values() if r["load"]]),
        "notes": [*notes, *(f"region {part}: {note}" for part, r in regions.items() for note in r["notes"])],
        "regions": [_region(part, r) for part, r in regions.items()],
        "host": [_host(h) for h in hosted],
        "crossings": rows,
    }


def partition_memory(memories: Mapping[str, Json]) -> dict[str, Any]:
    """`memory.json` of a model in parts: each region has the memories to itself while it runs."""
    peaks: dict[str, int] = {}
    for memory in memories.values():
        for name, n in memory["peak_bytes"].items():
            peaks[name] = max(peaks.get(name, 0), n)
    rows = [{**b, "name": f"{part}/{b['name']}"} for part, m in memories.items() for b in m["buffers"]]
    return {"peak_bytes": dict(sorted(peaks.items())), "buffers": rows}


def _totals(reports: Sequence[Json], crossing_seconds: float, link: HostLink) -> dict[str, Any]:
    """Sums over the regions and the crossings; peaks are the greatest of any region. Cycles are the chip's alone."""
    each = [r["totals"] for r in reports]
    totals: dict[str, Any] = {key: sum(t[key] for t in each) for key in _SUMMED}
    totals["seconds"] += crossing_seconds
    bound = sum(t["bound_seconds"] for t in each) + crossing_seconds
    source = sum(t["source_bound_seconds"] for t in each) + crossing_seconds
    least = min(bound, source)
    guessed = sum(t["guess_share"] * t["seconds"] for t in each) + link.guess_share * crossing_seconds
    return {
        **totals,
        "peak_fast_bytes": max(t["peak_fast_bytes"] for t in each),
        "peak_main_bytes": max(t["peak_main_bytes"] for t in each),
        "bound_seconds": bound,
        "source_bound_seconds": source,
        "bound_ratio": totals["seconds"] / least if least > 0 else None,
        "limited_by": _limited_by((k for r in reports for k in r["kernels"]), crossing_seconds),
        "guess_share": guessed / totals["seconds"] if totals["seconds"] else 0.0,
        "unfused": _unfused([t["unfused"] for t in each], crossing_seconds),
    }


def _unfused(each: Sequence[Json], crossing_seconds: float) -> dict[str, Any]:
    """The same crossings around regions that are not fused; None when one of these does not fit."""
    keys = ("seconds", "bytes_read", "bytes_written", "kernels")
    if any(u["seconds"] is None for u in each):
        return dict.fromkeys(keys)
    totals = {key: sum(u[key] for u in each) for key in keys}
    return {**totals, "seconds": totals["seconds"] + crossing_seconds}


def _limited_by(kernels: Iterable[Json], crossing_seconds: float) -> str:
    seconds = {LINK: crossing_seconds}
    for k in kernels:
        seconds[k["limited_by"]] = seconds.get(k["limited_by"], 0.0) + k["seconds"]
    return max(seconds, key=lambda unit: (seconds[unit], unit))


def _search(each: Sequence[Json]) -> dict[str, Any]:
    """The searches of the regions as one: counts are summed, a reason to stop early is told."""
    fired: dict[str, int] = {}
    for search in each:
        for rule, n in search["rules_fired"].items():
            fired[rule] = fired.get(rule, 0) + n
    reasons = [s["stop_reason"] for s in each]
    early = [reason for reason in reasons if reason not in ("saturated", "no_rules")]
    return {
        "stop_reason": early[0] if early else "saturated" if "saturated" in reasons else reasons[0],
        **{key: sum(s[key] for s in each) for key in ("iterations", "e_nodes", "e_classes")},
        "rules_fired": dict(sorted(fired.items())),
        "extraction": _extraction([s["extraction"] for s in each if s["extraction"]]),
    }


def _extraction(each: Sequence[Json]) -> dict[str, Any]:
    """Costs and bounds of what was extracted, summed; proven where every one is."""
    if not each:
        return {}
    methods = dict.fromkeys(str(e["method"]) for e in each)
    used: dict[str, int] = {}
    for e in each:
        for rule, n in e["rules_used"].items():
            used[rule] = used.get(rule, 0) + n
    return {
        "method": ", ".join(methods),
        "cost": sum(e["cost"] for e in each),
        "bound": sum(e["bound"] for e in each),
        "proven": all(e["proven"] for e in each),
        "rules_used": dict(sorted(used.items())),
        "tried": sum(e["tried"] for e in each),
    }


def _checks(regions: Mapping[str, Json]) -> list[dict[str, Any]]:
    return [{**c, "name": f"{part}/{c['name']}"} for part, r in regions.items() for c in r["checks"]]


def _sum_check(total: float, regions: Mapping[str, Json], crossing_seconds: float) -> dict[str, Any]:
    parts = sum(r["totals"]["seconds"] for r in regions.values()) + crossing_seconds
    detail = f"regions and crossings take {parts:.9g} s of {total:.9g} s"
    return {"name": "parts_sum_to_total", "ok": abs(parts - total) <= _SLACK * total, "detail": detail}


def _edge(part: str, e: Json) -> dict[str, Any]:
    named = {key: f"{part}/{e[key]}" for key in ("value", "producer", "consumer")}
    return {**e, **named}


def _load(each: Sequence[Json]) -> dict[str, int] | None:
    keys = ("ops", "params_read", "params_made", "bytes_made")
    return {key: sum(load[key] for load in each) for key in keys} if each else None


def _region(part: str, r: Json) -> dict[str, Any]:
    t = r["totals"]
    keys = ("seconds", "bound_seconds", "bytes_read", "bytes_written", "kernels", "limited_by")
    return {"part": part, "model": r["model"], "folder": region_folder(part), **{key: t[key] for key in keys}}


def region_folder(part: str) -> str:
    """Where the build of a region lies in the folder of the whole."""
    return f"regions/{part}"


def _host(h: HostWork) -> dict[str, Any]:
    nodes = [{"name": name, "op": op, "why": why} for name, op, why in h.nodes]
    return {"part": h.part, "runner": h.runner, "time": _NOT_SIMULATED, "nodes": nodes}


def _crossing(c: Crossing, link: HostLink) -> dict[str, Any]:
    return {
        "value": c.value,
        "type": c.type,
        "direction": c.direction,
        "from": c.maker,
        "to": list(c.readers),
        "bytes": c.bytes,
        "seconds": link.seconds(c.bytes),
    }
