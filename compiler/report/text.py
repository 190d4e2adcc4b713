"""A build's report as text: totals, tables by kernel, op and memory, and what was not fused and why.

Reads the JSON values of a build folder (`report.json`, `memory.json`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .parts import show_parts
from .tables import Table, percent, seconds, size, table

Json = Mapping[str, Any]
By = Literal["kernel", "op", "memory"]
_US = 1e-6
_KB = 1e3


def summary(report: Json, width: int = 100) -> str:
    """The totals as a table of two columns, with the same of the unfused model beside those that it has."""
    rows = [[name, value, beside] for name, value, beside in _totals(report)]
    head = f"{report['model']} on {report['target']}"
    return f"{head}\n{table(Table(['', 'this build', 'unfused'], 'lrr', rows), width)}"


def side_by_side(reports: Sequence[Json], width: int = 100) -> str:
    """The totals of several targets, one column each."""
    columns = [_totals(report) for report in reports]
    rows = [[row[0][0], *(cell[1] for cell in row)] for row in zip(*columns, strict=True)]
    header = ["", *(str(report["target"]) for report in reports)]
    return f"{reports[0]['model']}\n{table(Table(header, 'l' + 'r' * len(reports), rows), width)}"


def show_report(report: Json, by: By | None = None, memory: Json | None = None, width: int = 100) -> str:
    """The whole report, or the one table that `by` asks for (`memory` needs the value of `memory.json`)."""
    if by == "memory":
        return _by_memory(memory or {}, width)
    parts = [
        summary(report, width),
        show_parts(report, width) if by is None else "",
        _by_op(report, width) if by == "op" else _by_kernel(report, width),
    ]
    if by is None:
        parts += [_edges(report, width), _search(report, width)]
    return "\n\n".join(part for part in (*parts, show_checks(report, width), _notes(report, width)) if part)


def show_checks(report: Json, width: int = 100) -> str:
    """One line when every self-check holds, else those that do not."""
    checks = report["checks"]
    failed = [check for check in checks if not check["ok"]]
    if not failed:
        return f"self-checks: {len(checks)} hold"
    return "\n".join(_wrap(f"self-check FAILED: {c['name']}: {c['detail']}", width) for c in failed)


def _totals(report: Json) -> list[tuple[str, str, str]]:
    t = report["totals"]
    ratio = "-" if t["bound_ratio"] is None else f"{t['bound_ratio']:.2f}"
    moved = t["bytes_read"] + t["bytes_written"]
    took, read, written, both, kernels = _unfused(t["unfused"])
    return [
        ("time", seconds(t["seconds"]), took),
        ("cycles", str(t["cycles"]), ""),
        ("bound of this program", seconds(t["bound_seconds"]), ""),
        ("bound of the model as written", seconds(t["source_bound_seconds"]), ""),
        ("time / lower bound", ratio, ""),
        ("limited by", str(t["limited_by"]), ""),
        ("main memory read", size(t["bytes_read"]), read),
        ("main memory written", size(t["bytes_written"]), written),
        ("main memory moved", size(moved), both),
        ("compulsory", size(t["compulsory_bytes"]), ""),
        ("operations", f"{t['flops']:.4g}", ""),
        ("kernels", str(t["kernels"]), kernels),
        ("peak fast memory", size(t["peak_fast_bytes"]), ""),
        ("peak main memory", size(t["peak_main_bytes"]), ""),
        ("time resting on guessed figures", percent(t["guess_share"]), ""),
    ]


def _unfused(u: Json) -> tuple[str, str, str, str, str]:
    """Time, bytes read, written and moved, and kernels of the unfused model."""
    if u["seconds"] is None:
        return "does not fit", "", "", "", ""
    read, written = u["bytes_read"], u["bytes_written"]
    return seconds(u["seconds"]), size(read), size(written), size(read + written), str(u["kernels"])


def _by_kernel(report: Json, width: int) -> str:
    """A row for each kernel and, below it, its ops and what its units waited: these lists are long."""
    header = ["kernel", "runs", "time us", "est. us", "bound us", "read kB", "written kB", "limited by"]
    rows = [_kernel_row(k) for k in report["kernels"]]
    head, *lines = table(Table(header, "lrrrrrrl", rows), width).split("\n")
    below = ["\n".join(_wrap("    " + text, width, "      ") for text in _below(k)) for k in report["kernels"]]
    return "\n".join([head, *(text for pair in zip(lines, below, strict=True) for text in pair)])


def _kernel_row(k: Json) -> list[str]:
    figures = [str(k["count"]), *(_us(k[key]) for key in ("seconds", "estimated_seconds", "bound_seconds"))]
    return [k["name"], *figures, _kb(k["bytes_read"]), _kb(k["bytes_written"]), k["limited_by"]]


def _below(k: Json) -> list[str]:
    lines = [" ".join(k["ops"]) + (f" ({k['source']})" if k["source"] else "")]
    stalls = ", ".join(f"{unit} {_us(t)}" for unit, t in sorted(k["stalls"].items(), key=lambda kv: (-kv[1], kv[0])))
    return [*lines, f"stalls us: {stalls}"] if stalls else lines


def _by_op(report: Json, width: int) -> str:
    """Kernels of the same ops together, those that take longest first."""
    groups: dict[str, list[Json]] = {}
    for kernel in report["kernels"]:
        groups.setdefault(" ".join(kernel["ops"]), []).append(kernel)
    ordered = sorted(groups.items(), key=lambda item: (-_sum(item[1], "seconds"), item[0]))
    total = report["totals"]["seconds"] or 1.0
    rows = [
        [
            _us(_sum(ks, "seconds")), percent(_sum(ks, "seconds") / total), _us(_sum(ks, "bound_seconds")),
            _kb(_sum(ks, "bytes_read") + _sum(ks, "bytes_written")), str(len(ks)), ops,
        ]
        for ops, ks in ordered
    ]  # fmt: skip
    return table(Table(["time us", "of total", "bound us", "moved kB", "kernels", "ops"], "rrrrrw", rows), width)


def _by_memory(memory: Json, width: int) -> str:
    peaks = ", ".join(f"{name} {size(n)}" for name, n in memory["peak_bytes"].items())
    header = ["memory", "address", "bytes", "padding", "kind", "steps", "type", "buffer"]
    rows = [
        [
            b["memory"], str(b["address"]), str(b["bytes"]), str(b["padding_bytes"]), b["kind"],
            f"{b['first_step']}-{b['last_step']}", b["type"] or "-", b["name"],
        ]
        for b in memory["buffers"]
    ]  # fmt: skip
    return f"peak: {peaks or 'nothing'}\n\n{table(Table(header, 'lrrrlllw', rows), width)}".rstrip()


def _edges(report: Json, width: int) -> str:
    rows = [
        [f"{e['producer']} -> {e['consumer']}", e["type"], e["reason"], e["detail"] or "-"] for e in report["edges"]
    ]
    text = table(Table(["not fused", "value", "reason", "detail"], "lllw", rows), width)
    return text or ""


def _search(report: Json, width: int) -> str:
    s = report["search"]
    counts = f"{s['iterations']} iterations, {s['e_nodes']} e-nodes, {s['e_classes']} e-classes"
    lines = [_wrap(f"search: {s['stop_reason']}, {counts}", width)]
    fired = [[str(n), name] for name, n in sorted(s["rules_fired"].items(), key=lambda kv: (-kv[1], kv[0])) if n]
    lines += ["rules that added something:", table(Table(["times", "rule"], "rl", fired), width)] if fired else []
    if load := report.get("load"):
        done = f"{load['ops']} ops on parameters alone run once on the host and cost nothing on the chip"
        lines.append(_wrap(f"load program: {done} ({size(load['bytes_made'])} of parameters made)", width))
    return "\n".join(lines)


def _notes(report: Json, width: int) -> str:
    return "\n".join(_wrap(f"note: {note}", width) for note in report["notes"])


def _wrap(text: str, width: int, indent: str = "  ") -> str:
    return "\n".join(textwrap.wrap(text, max(width, 20), subsequent_indent=indent, break_on_hyphens=False))


def _sum(kernels: Sequence[Json], key: str) -> float:
    return sum(k[key] for k in kernels)


def _us(value: float) -> str:
    return f"{value / _US:.3f}"


def _kb(value: float) -> str:
    return f"{value / _KB:.1f}"
