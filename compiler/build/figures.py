"""The figures of a build: what `report.json`, `memory.json` and `schedule.json` hold, as JSON values.

Every figure is defined here, once; reports print them and compute nothing. Seconds and bytes are the simulator's unless
the name says `estimated` or `bound`. Must not know how plans are made, nor any one target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..plan.target import Bound, Buffer, Kernel, KernelTime, LoopStep, Machine, Plan, Program, Timing
from ..rewrite.egraph import Search

REPORT_SCHEMA = "tdslc-report/1"
# Sums of many floats may differ in their last digits.
_SLACK = 1e-9

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timed:
    """A plan, its program and what the simulator says of it."""

    plan: Plan
    program: Program
    timing: Timing

    @property
    def bytes(self) -> int:
        """Bytes of main memory, read and written."""
        return self.timing.bytes_read + self.timing.bytes_written

    @property
    def kernels(self) -> int:
        """Kernels in the program text: one in a loop body counts once."""
        return len(self.timing.kernels)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least time of the chosen graph, and of the model as written."""

    chosen: Bound
    source: Bound

    @property
    def compulsory_bytes(self) -> int:
        """The smaller of the two: no rule may make the yardstick longer."""
        return min(self.chosen.compulsory_bytes, self.source.compulsory_bytes)

    @property
    def seconds(self) -> float:
        return min(self.chosen.seconds, self.source.seconds)


def report(
    model: str,
    machine: Machine,
    chosen: Timed,
    unfused: Timed | None,
    bounds: Bounds,
    searches: Sequence[Search],
    extraction: Mapping[str, object],
    notes: Sequence[str],
) -> Json:
    """`report.json`: schema tdslc-report/1. `unfused` is None when that does not fit the machine."""  # fmt: skip
    return {
        "schema": REPORT_SCHEMA,
        "model": model,
        "target": machine.spec,
        "totals": _totals(machine, chosen, unfused, bounds),
        "kernels": _kernels(machine, chosen),
        "search": _search(searches, extraction),
        "checks": [{"name": n, "ok": ok, "detail": detail} for n, ok, detail in _checks(chosen, unfused, bounds)],
        "edges": _edges(chosen.plan),
        "load": _load(chosen.plan),
        "notes": list(notes),
    }


def memory(program: Program) -> Json:
    """`memory.json`: every buffer, in order of memory and address, and how far each memory is filled."""
    buffers = sorted(program.buffers, key=lambda b: (b.memory, b.address, b.first_step, b.name))
    return {"peak_bytes": _peaks(buffers), "buffers": [_buffer(b) for b in buffers]}


def schedule(timed: Timed) -> Json:
    """`schedule.json`: when each kernel starts and how long it takes, in simulated seconds."""
    rows = [
        {"name": k.name, "start_seconds": k.start, "seconds": k.seconds, "count": k.count, "limited_by": k.limited_by}
        for k in timed.timing.kernels
    ]
    return {"seconds": timed.timing.seconds, "cycles": timed.timing.cycles, "kernels": rows}


def kernels_of(plan: Plan) -> list[tuple[Kernel, int]]:
    """The kernels of `plan` in order, loop bodies entered, each with how often it runs."""
    found: list[tuple[Kernel, int]] = []
    for step in plan.steps:
        if isinstance(step, Kernel):
            found.append((step, 1))
        elif isinstance(step, LoopStep):
            found += [(kernel, count * int(step.n)) for kernel, count in kernels_of(step.body)]
    return found


def _totals(machine: Machine, chosen: Timed, unfused: Timed | None, bounds: Bounds) -> Json:
    t, peaks = chosen.timing, _peaks(chosen.program.buffers)
    main = _main_memories(chosen.program.buffers)
    return {
        "seconds": t.seconds,
        "cycles": t.cycles,
        "flops": bounds.chosen.flops,
        "bytes_read": t.bytes_read,
        "bytes_written": t.bytes_written,
        "compulsory_bytes": bounds.compulsory_bytes,
        "kernels": chosen.kernels,
        "peak_fast_bytes": max((n for memory, n in peaks.items() if memory not in main), default=0),
        "peak_main_bytes": max((n for memory, n in peaks.items() if memory in main), default=0),
        "bound_seconds": bounds.chosen.seconds,
        "source_bound_seconds": bounds.source.seconds,
        "bound_ratio": t.seconds / bounds.seconds if bounds.seconds > 0 else None,
        "limited_by": _limited_by(t.kernels) or bounds.chosen.limited_by,
        "guess_share": machine.guess_share(t),
        "unfused": {
            "seconds": unfused and unfused.timing.seconds,
            "bytes_read": unfused and unfused.timing.bytes_read,
            "bytes_written": unfused and unfused.timing.bytes_written,
            "kernels": unfused and unfused.kernels,
        },
    }


def _limited_by(kernels: Iterable[KernelTime]) -> str:
    """What limits the kernels that take the most time together."""
    seconds: dict[str, float] = {}
    for k in kernels:
        seconds[k.limited_by] = seconds.get(k.limited_by, 0.0) + k.seconds
    return max(seconds, key=lambda unit: (seconds[unit], unit)) if seconds else ""


def _kernels(machine: Machine, chosen: Timed) -> list[Json]:
    planned = {kernel.name: (kernel, count) for kernel, count in kernels_of(chosen.plan)}
    return [
        _kernel(machine, time, *planned[time.name]) if time.name in planned else _copy(time)
        for time in chosen.timing.kernels
    ]


def _copy(time: KernelTime) -> Json:
    """A copy that the target made between kernels of the plan: of a loop's carried value, say."""
    return {
        "name": time.name,
        "ops": [],
        "count": time.count,
        "seconds": time.seconds,
        "estimated_seconds": 0.0,
        "bound_seconds": 0.0,
        "bytes_read": time.bytes_read,
        "bytes_written": time.bytes_written,
        "limited_by": time.limited_by,
        "stalls": {u.unit: u.stall_seconds for u in time.units if u.stall_seconds > 0},
        "source": "",
    }


def _kernel(machine: Machine, time: KernelTime, kernel: Kernel, count: int) -> Json:
    return {
        "name": time.name,
        "ops": list(kernel.ops),
        "count": count,
        "seconds": time.seconds,
        "estimated_seconds": kernel.cost.seconds * count,
        "bound_seconds": machine.bound(kernel.body).seconds * count,
        "bytes_read": time.bytes_read,
        "bytes_written": time.bytes_written,
        "limited_by": time.limited_by,
        "stalls": {u.unit: u.stall_seconds for u in time.units if u.stall_seconds > 0},
        "source": kernel.source,
    }


def _search(searches: Sequence[Search], extraction: Mapping[str, object]) -> Json:
    """The searches of a model and of its loop bodies as one: counts are summed, a reason to stop early is told."""
    fired: dict[str, int] = {}
    for search in searches:
        for rule, n in search.fired.items():
            fired[rule] = fired.get(rule, 0) + n
    reasons = [s.stop_reason for s in searches if s.stop_reason != "saturated"]
    return {
        "stop_reason": reasons[0] if reasons else "saturated" if searches else "no_rules",
        "iterations": sum(s.iterations for s in searches),
        "e_nodes": sum(s.e_nodes for s in searches),
        "e_classes": sum(s.e_classes for s in searches),
        "rules_fired": dict(sorted(fired.items())),
        "extraction": dict(extraction),
    }


def _checks(chosen: Timed, unfused: Timed | None, bounds: Bounds) -> list[tuple[str, bool, str]]:
    t, bound, least = chosen.timing, bounds.chosen.seconds, bounds.compulsory_bytes
    kernel_seconds = sum(k.seconds for k in t.kernels)
    kernel_bytes = sum(k.bytes_read + k.bytes_written for k in t.kernels)
    return [
        ("seconds_not_below_bound", t.seconds >= bound * (1 - _SLACK), f"{t.seconds:.9g} s, bound {bound:.9g} s"),
        ("bytes_not_below_compulsory", chosen.bytes >= least, f"{chosen.bytes} bytes, compulsory {least}"),
        *_not_above(chosen, unfused),
        (
            "kernels_fit_in_total",
            kernel_seconds <= t.seconds * (1 + _SLACK) + _SLACK * 1e-3,
            f"kernels take {kernel_seconds:.9g} s of {t.seconds:.9g} s",
        ),
        ("kernel_bytes_sum_to_total", kernel_bytes == chosen.bytes, f"{kernel_bytes} bytes of {chosen.bytes}"),
        *t.checks,
    ]


def _not_above(chosen: Timed, unfused: Timed | None) -> list[tuple[str, bool, str]]:
    if unfused is None:
        return []
    moved = ("bytes_not_above_unfused", chosen.bytes <= unfused.bytes, f"{chosen.bytes} bytes, unfused {unfused.bytes}")
    mine, other = chosen.timing.seconds, unfused.timing.seconds
    return [moved, ("seconds_not_above_unfused", mine <= other, f"{mine:.9g} s, unfused {other:.9g} s")]


def _edges(plan: Plan, within: str = "") -> list[Json]:
    """Every value that goes through main memory between two kernels, and why."""
    own = [
        {
            "value": f"{within}%{edge.value}",
            "type": str(plan.graph.types[edge.value]) if edge.value in plan.graph.types else "",
            "producer": edge.producer,
            "consumer": edge.consumer,
            "reason": edge.reason,
            "detail": edge.detail,
        }
        for edge in plan.edges
    ]
    inner = [e for step in plan.steps if isinstance(step, LoopStep) for e in _edges(step.body, f"{within}{step.name}/")]
    return own + inner


def _load(plan: Plan) -> Json | None:
    """The load program: expressions of params only, run once on the host, whose results the chip reads."""
    if plan.load is None:
        return None
    names = plan.load.output_names
    moved = [n for n in plan.load.nodes if n.op not in ("param", "input", "constant", "full", "iota")]
    return {
        "ops": len(moved),
        "params_read": len(plan.load.params),
        "params_made": len(names),
        "bytes_made": sum(t.nbytes for t in plan.load.output_types),
    }


def _main_memories(buffers: Iterable[Buffer]) -> set[str]:
    """The memories in which inputs, params and outputs lie."""
    return {b.memory for b in buffers if b.kind in ("input", "param", "output")}


def _peaks(buffers: Iterable[Buffer]) -> dict[str, int]:
    """How far each memory is filled: the end of its highest buffer, in bytes."""
    peaks: dict[str, int] = {}
    for b in buffers:
        peaks[b.memory] = max(peaks.get(b.memory, 0), b.address + b.nbytes)
    return dict(sorted(peaks.items()))


def _buffer(b: Buffer) -> Json:
    return {
        "name": b.name,
        "memory": b.memory,
        "kind": b.kind,
        "address": b.address,
        "bytes": b.nbytes,
        "type": str(b.type) if b.type is not None else None,
        "padding_bytes": b.nbytes - b.type.nbytes if b.type is not None else 0,
        "first_step": b.first_step,
        "last_step": b.last_step,
    }
