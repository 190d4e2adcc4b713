"""The trace of a run as JSON for ui.perfetto.dev: PEs as groups of tracks, tasks and operations as slices, streams as
flows.

An arrow goes from each operation that sends to those operations and data tasks that take its words: words of a color
come to a PE in the order in which they left, so counting them tells whose is whose. Must not know how engines work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import fields as f
from .ir import ClassRow, Image
from .state import State

Ints = NDArray[np.int64]
# Arrows that a trace has at most, so that its file can be opened.
MOST_FLOWS = 200_000
# The track of tasks; operations have those behind it, as many as are under way at once.
_TASKS = 0


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A task, or an operation with the words it sent or took: from cycle `start` to `end` on a track of a PE."""

    pe: int
    track: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Words of a color that one slice sent and another took."""

    color: int
    source: Slice
    target: Slice


def perfetto(state: State) -> str:
    """The trace of a state that kept one. A cycle is shown as a nanosecond."""
    records = state.trace_records()
    tracks = _tracks(records)
    flows, unknown = _flows(state, records, tracks)
    kept = list(islice(flows, MOST_FLOWS + 1))
    notes = {"trace": "cut off"} if state.trace_is_full else {}
    if len(kept) > MOST_FLOWS:
        notes["flows"] = f"only the first {MOST_FLOWS:,} are drawn"
    if unknown:
        notes["colors without flows"] = "routes may change: " + ", ".join(map(str, unknown))
    events = [*_names_of_tracks(state, records, tracks), *_slices(state.image, records, tracks)]
    for number, flow in enumerate(kept[:MOST_FLOWS]):
        events += _arrow(number, flow)
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events, "otherData": notes}) + "\n"


def _tracks(records: Ints) -> list[int]:
    """The track of each record: operations of a PE that overlap lie on different ones. Records of sent and taken words
    have that of their operation, which is the record before them."""
    made = [_TASKS] * len(records)
    free: dict[int, list[int]] = {}
    rows: list[list[int]] = records.tolist()
    operations = [k for k, row in enumerate(rows) if row[0] == f.TRACE_OPERATION]
    for k in sorted(operations, key=lambda k: (rows[k][2], k)):
        _, pe, start, end, _ = rows[k]
        ends = free.setdefault(pe, [])
        lane = next((n for n, last in enumerate(ends) if last <= start), len(ends))
        ends[lane : lane + 1] = [end]
        made[k] = _TASKS + 1 + lane
    for k, row in enumerate(rows):
        if row[0] in (f.TRACE_SENT, f.TRACE_RECEIVED):
            made[k] = made[k - 1]
    return made


def _names_of_tracks(state: State, records: Ints, tracks: list[int]) -> Iterator[dict[str, Any]]:
    for pe, track in sorted(set(zip(records[:, 1].tolist(), tracks, strict=True))):
        if track == _TASKS:
            name = f"PE {int(state.x[pe])}, {int(state.y[pe])}"
            yield {"ph": "M", "pid": pe, "name": "process_name", "args": {"name": name}}
        name = "tasks" if track == _TASKS else f"operations {track}"
        yield {"ph": "M", "pid": pe, "tid": track, "name": "thread_name", "args": {"name": name}}


def _slices(image: Image, records: Ints, tracks: list[int]) -> Iterator[dict[str, Any]]:
    operations = records[records[:, 0] == f.TRACE_OPERATION, 4]
    pcs: list[int] = np.unique(operations).tolist()
    places = {pc: _place(image, pc) for pc in pcs}
    rows: list[list[int]] = records.tolist()
    for (kind, pe, start, end, what), track in zip(rows, tracks, strict=True):
        if kind not in (f.TRACE_TASK, f.TRACE_OPERATION):
            continue
        task = kind == f.TRACE_TASK
        name = image.functions[what].name if task else places[what]
        yield {
            "ph": "X", "pid": pe, "tid": track, "cat": "task" if task else "operation", "name": name,
            "ts": start / 1000, "dur": (end - start) / 1000,
        }  # fmt: skip


def _place(image: Image, pc: int) -> str:
    """The first line of an instruction's source, and where it stands."""
    span = image.spans[int(image.span_of[pc])]
    return f"{span.file.text[span.start : span.end].splitlines()[0]} ({Path(span.file.path).name}:{span.line})"


def _arrow(number: int, flow: Flow) -> tuple[dict[str, Any], dict[str, Any]]:
    shared = {"cat": "stream", "name": f"color {flow.color}", "id": number}
    source, target = flow.source, flow.target
    return (
        shared | {"ph": "s", "pid": source.pe, "tid": source.track, "ts": source.start / 1000},
        shared | {"ph": "f", "bp": "e", "pid": target.pe, "tid": target.track,
                  "ts": max(source.start, target.start) / 1000},
    )  # fmt: skip


# ---- who takes whose words -----------------------------------------------------------------------------------


def _flows(state: State, records: Ints, tracks: list[int]) -> tuple[Iterator[Flow], list[int]]:
    """All flows; and the colors whose words cannot be followed, as their routes may change."""
    sent, taken = _moved(records, tracks, f.TRACE_SENT), _moved(records, tracks, f.TRACE_RECEIVED)
    for color, more in _data_tasks(state.image, records).items():
        taken.setdefault(color, []).extend(more)
    unknown: list[int] = []
    parts: list[Iterator[Flow]] = []
    for color in sorted(sent):
        arrivals = _arrivals(state, color, sent[color])
        if arrivals is None:
            unknown.append(color)
        else:
            parts.append(_matched(color, arrivals, taken.get(color, [])))
    return (flow for part in parts for flow in part), unknown


Words = tuple[int, Slice]


def _moved(records: Ints, tracks: list[int], kind: int) -> dict[int, list[Words]]:
    """(words, slice) of each color that operations sent or took."""
    made: dict[int, list[Words]] = {}
    rows: list[list[int]] = records.tolist()
    for k, (which, pe, start, end, what) in enumerate(rows):
        if which != kind:
            continue
        made.setdefault(what & 0xFF, []).append((what >> 8, Slice(pe, tracks[k], start, end)))
    return made


def _data_tasks(image: Image, records: Ints) -> dict[int, list[Words]]:
    """Tasks that words of a color started, one word each."""
    firsts = np.array([row.first for row in image.classes])
    colors = [_colors_of(row) for row in image.classes]
    made: dict[int, list[Words]] = {}
    rows: list[list[int]] = records[records[:, 0] == f.TRACE_TASK].tolist()
    for _, pe, start, end, function in rows:
        color = colors[int(np.searchsorted(firsts, pe, "right")) - 1].get(function)
        if color is not None:
            made.setdefault(color, []).append((1, Slice(pe, _TASKS, start, end)))
    return made


def _colors_of(row: ClassRow) -> dict[int, int]:
    """The color whose words start a data task, by the number of its function."""
    queues = {id: color for is_input, id, color, _ in row.queues if is_input}
    return {task.function: queues.get(task.id, task.id) for task in row.tasks if task.kind == "data"}


def _arrivals(state: State, color: int, sent: list[Words]) -> list[tuple[int, int, int, Slice]] | None:
    """(PE, cycle at which the first word could be there, words, slice that sent them), or None."""
    from .batched_routes import RouteMap, static_refusal
    from .batched_streams import NotAlone

    routes = state.program.routes
    if color not in routes.grid:
        # Words for the host.
        return []
    configs: list[int] = np.unique(routes.grid[color]).tolist()
    if any(static_refusal(routes.configs[k]) for k in configs if k >= 0):
        return None
    pes = np.unique([part.pe for _, part in sent])
    try:
        paths = RouteMap(routes, state.pe_at.astype(np.int32)).paths(color, pes)
    except NotAlone:
        return None
    ends: dict[int, list[tuple[int, int]]] = {}
    for row, pe, hops in zip(paths.row.tolist(), paths.pe.tolist(), paths.hops.tolist(), strict=True):
        ends.setdefault(int(pes[row]), []).append((pe, hops))
    return [(pe, part.start + hops, words, part) for words, part in sent for pe, hops in ends.get(part.pe, [])]


def _matched(color: int, arrivals: list[tuple[int, int, int, Slice]], taken: list[Words]) -> Iterator[Flow]:
    """Flows of a color: at each PE the words that came and those that were taken are counted side by side."""
    takers: dict[int, list[Words]] = {}
    for words, part in sorted(taken, key=lambda x: (x[1].start, x[1].end)):
        takers.setdefault(part.pe, []).append((words, part))
    for pe, group in groupby(sorted(arrivals, key=lambda x: x[:2]), key=lambda x: x[0]):
        yield from _paired(color, [(words, part) for _, _, words, part in group], takers.get(pe, []))


def _paired(color: int, came: list[Words], went: list[Words]) -> Iterator[Flow]:
    places = [0, 0]
    left = [words for words, _ in came[:1] + went[:1]]
    while places[0] < len(came) and places[1] < len(went):
        if all(left):
            yield Flow(color, came[places[0]][1], went[places[1]][1])
        step = min(left)
        for side, parts in enumerate((came, went)):
            left[side] -= step
            if left[side] == 0:
                places[side] += 1
                left[side] = parts[places[side]][0] if places[side] < len(parts) else 0
