"""What differs between two builds: totals, kernels, rules that fired, options. Reads their JSON values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .tables import Table, table

Json = Mapping[str, Any]
# Totals that are compared, in this order; `bytes` is read and written together.
METRICS = (
    "seconds", "cycles", "bytes", "bytes_read", "bytes_written", "flops", "kernels",
    "peak_fast_bytes", "peak_main_bytes", "bound_seconds", "bound_ratio",
)  # fmt: skip
_THRESHOLD = re.compile(r"\s*(\w+)\s*(>|<)\s*([+-]?)(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(%?)\s*")


@dataclass(frozen=True, slots=True)
class Threshold:
    """`seconds>+2%`: fails when B exceeds A by more (`relative`: by a share of A, else by an amount or, without a
    sign, when B itself is beyond `amount`)."""

    metric: str
    above: bool
    amount: float
    relative: bool
    change: bool

    def fails(self, before: float, after: float) -> bool:
        """Whether going from `before` to `after` crosses this threshold."""
        value = after - before if self.change else after
        limit = self.amount * abs(before) if self.relative else self.amount
        return value > limit if self.above else value < limit


@dataclass(frozen=True, slots=True)
class Difference:
    """`totals`, `kernels`, `rules`, `options` as JSON rows; each kernel row has a side that is None when it is new."""

    totals: Sequence[Json]
    kernels: Sequence[Json]
    rules: Sequence[Json]
    options: Sequence[Json]
    failed: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The document of `diff --json`."""
        return {
            "schema": "tdslc-diff/1",
            "totals": list(self.totals),
            "kernels": list(self.kernels),
            "rules": list(self.rules),
            "options": list(self.options),
            "failed": list(self.failed),
        }


def parse_threshold(text: str) -> Threshold:
    """`seconds>+2%`, `bytes>+1000`, `kernels>12`. ValueError says what is wrong."""
    found = _THRESHOLD.fullmatch(text)
    if not found:
        raise ValueError(f"`{text}` is no threshold; write METRIC>+2%, METRIC>+1000 or METRIC>1000")
    metric, relation, sign, number, share = found.groups()
    if metric not in METRICS:
        raise ValueError(f"`{metric}` is no total; one of {', '.join(METRICS)}")
    amount = float(number) / (100 if share else 1) * (-1 if sign == "-" else 1)
    return Threshold(metric, relation == ">", amount, bool(share), bool(sign or share))


def compare(a: Json, b: Json, options_a: Json, options_b: Json, thresholds: Sequence[str] = ()) -> Difference:
    """From build A to build B: two reports, and the options of their manifests. ValueError for a bad threshold."""
    totals = [_delta({"name": m}, _total(a, m), _total(b, m)) for m in METRICS]
    failed = [t for t in thresholds if _fails(parse_threshold(t), a, b)]
    return Difference(totals, _kernels(a, b), _rules(a, b), _options(options_a, options_b), failed)


def show_difference(d: Difference, name_a: str, name_b: str, width: int = 100) -> str:
    """`d` as text: only rows that differ, and a line when none does."""
    changed = [
        [row["name"], _n(row["a"]), _n(row["b"]), _n(row["delta"]), _share(row)] for row in d.totals if row["delta"]
    ]
    kernels = [
        _kernel_row(row) for row in d.kernels if row["seconds"]["delta"] or row["bytes"]["delta"] or not _both(row)
    ]
    rules = [[row["name"], _n(row["a"]), _n(row["b"])] for row in d.rules]
    options = [[row["name"], f"{row['a']} -> {row['b']}"] for row in d.options]
    parts = [
        table(Table(["total", "A", "B", "B - A", "change"], "lrrrr", changed), width),
        table(Table(["kernel", "A us", "B us", "B - A us", "A kB", "B kB", "ops"], "lrrrrrw", kernels), width),
        table(Table(["rule", "fired in A", "in B"], "lrr", rules), width),
        table(Table(["option", "A -> B"], "lw", options), width),
        "\n".join(f"crossed: {text}" for text in d.failed),
    ]
    shown = [part for part in parts if part] or ["no difference"]
    return "\n\n".join([f"A: {name_a}\nB: {name_b}", *shown])


def _total(report: Json, metric: str) -> float | None:
    totals = report["totals"]
    return totals["bytes_read"] + totals["bytes_written"] if metric == "bytes" else totals[metric]


def _fails(threshold: Threshold, a: Json, b: Json) -> bool:
    before, after = _total(a, threshold.metric), _total(b, threshold.metric)
    return before is not None and after is not None and threshold.fails(before, after)


def _delta(row: dict[str, Any], a: float | None, b: float | None) -> dict[str, Any]:
    delta = b - a if a is not None and b is not None else None
    return {**row, "a": a, "b": b, "delta": delta, "ratio": b / a if a and b is not None else None}


def _kernels(a: Json, b: Json) -> list[Json]:
    """Kernels of A in order, each with its partner in B (`_partner`), then those that only B has."""
    left = list(b["kernels"])
    rows: list[Json] = []
    for kernel in a["kernels"]:
        partner = _partner(kernel, left)
        if partner is not None:
            left.remove(partner)
        rows.append(_kernel(kernel, partner))
    return rows + [_kernel(None, kernel) for kernel in left]


def _partner(kernel: Json, others: Sequence[Json]) -> Json | None:
    """The one of `others` with the same ops of the same source line, else with the same name."""
    alike = [k for k in others if (k["source"], k["ops"]) == (kernel["source"], kernel["ops"])]
    named = [k for k in others if k["name"] == kernel["name"]]
    return next(iter([k for k in alike if k in named] or alike or named), None)


def _kernel(a: Json | None, b: Json | None) -> Json:
    some = b if b is not None else a
    assert some is not None
    return {
        "name": some["name"],
        "ops": some["ops"],
        "source": some["source"],
        "seconds": _delta({}, None if a is None else a["seconds"], None if b is None else b["seconds"]),
        "bytes": _delta({}, _bytes(a), _bytes(b)),
    }


def _bytes(kernel: Json | None) -> int | None:
    return None if kernel is None else kernel["bytes_read"] + kernel["bytes_written"]


def _rules(a: Json, b: Json) -> list[Json]:
    fired_a, fired_b = a["search"]["rules_fired"], b["search"]["rules_fired"]
    names = sorted({*fired_a, *fired_b})
    rows = [{"name": n, "a": fired_a.get(n, 0), "b": fired_b.get(n, 0)} for n in names]
    return [row for row in rows if row["a"] != row["b"]]


def _options(a: Json, b: Json) -> list[Json]:
    rows = [{"name": n, "a": a.get(n), "b": b.get(n)} for n in dict.fromkeys((*a, *b))]
    return [row for row in rows if row["a"] != row["b"]]


def _both(row: Json) -> bool:
    return row["seconds"]["a"] is not None and row["seconds"]["b"] is not None


def _kernel_row(row: Json) -> list[str]:
    s, n = row["seconds"], row["bytes"]
    ops = " ".join(row["ops"]) + (f" ({row['source']})" if row["source"] else "")
    return [row["name"], _scaled(s["a"], 1e6), _scaled(s["b"], 1e6), _scaled(s["delta"], 1e6),
            _scaled(n["a"], 1e-3), _scaled(n["b"], 1e-3), ops]  # fmt: skip


def _scaled(value: float | None, scale: float) -> str:
    return "-" if value is None else f"{value * scale:.3f}"


def _n(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _share(row: Json) -> str:
    return "-" if row["ratio"] is None else f"{(row['ratio'] - 1) * 100:+.2f} %"
