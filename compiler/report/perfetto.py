"""A simulated timeline as Chrome trace events, which Perfetto (ui.perfetto.dev) opens.

Units and DMA queues are tracks, kernels a track of their own; timestamps are simulated microseconds. Format: "Trace
Event Format", complete events (`ph: X`) and metadata (`ph: M`). Must not know how times were computed.
"""

from __future__ import annotations

import json
from typing import Any

from ..plan.target import Timing

_PROCESS = 1
_KERNELS = 0
_US = 1e6


def trace_json(title: str, timing: Timing) -> str:
    """The trace of `timing` under the name `title`, one event a line."""
    units = list(dict.fromkeys(s.unit for s in timing.slices))
    tracks = {unit: i for i, unit in enumerate(sorted(units), _KERNELS + 1)}
    events = [_named("process_name", _KERNELS, title), _named("thread_name", _KERNELS, "kernels")]
    events += [_named("thread_name", track, unit) for unit, track in tracks.items()]
    # Perfetto sorts tracks by this, and by name otherwise: kernels stay on top.
    events += [
        {"ph": "M", "pid": _PROCESS, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}
        for track in (_KERNELS, *tracks.values())
    ]
    # A kernel in a loop is shown in the first iteration: its seconds are those of all of them.
    events += [
        _slice(k.name, _KERNELS, k.start, k.seconds / max(k.count, 1), {"count": k.count, "limited_by": k.limited_by})
        for k in timing.kernels
    ]
    events += [_slice(s.name, tracks[s.unit], s.start, s.seconds, {}) for s in timing.slices]
    lines = ",\n".join(json.dumps(event, allow_nan=False) for event in events)
    return f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'


def _named(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": track, "name": kind, "args": {"name": name}}


def _slice(name: str, track: int, start: float, seconds: float, args: dict[str, object]) -> dict[str, Any]:
    event = {"ph": "X", "pid": _PROCESS, "tid": track, "name": name, "ts": start * _US, "dur": seconds * _US}
    return {**event, "args": args} if args else event
