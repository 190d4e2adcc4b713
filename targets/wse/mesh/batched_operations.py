"""Operations that groups issue: over memory at once, over streams when their words are known; and what follows them.

Must not know instructions, nor who runs when.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from . import batched_group as bg
from .batched_group import Claim, ClassState, Group, later, pick, row, simplest, spread
from .batched_routes import FROM_PE, LINKS
from .batched_streams import Inbox, Ints, NotAlone, Taken, popped
from .batched_tasks import activate, block
from .batched_times import NEVER, any_later, any_under_way, waiting_places
from .batched_vector import (
    Operand,
    Operation,
    cycles_of,
    into_memory,
    issue,
    move_words,
    over_memory,
    values_of,
)  # fmt: skip
from .batched_work import Work, past
from .ir import V


def vector(w: Work, g: Group, op: int, kind: int, d: int, a: int, b: int, c: int, cost: int) -> bool:
    """VECTOR: an operation issued, or a DSR loaded."""
    form = w.forms[a]
    if form is None:
        _load_dsr(w, g, a, cost)
        return True
    g.settle()
    o = issue(g, form, a, cost)
    g.home.elements[g.lanes] += o.count
    g.put(d, 1)
    return _stream(w, g, o) if o.arguments.streams else _in_memory(w, g, o, cost)


def _load_dsr(w: Work, g: Group, number: int, cost: int) -> None:
    v = w.image.vectors[number]
    settings = (V.ASYNC, V.SAVE_ADDRESS, V.ON_CONTROL)
    if any(v[k] > 0 for k in settings) or v[V.ACTIVATE] >= 0 or v[V.UNBLOCK] >= 0:
        raise NotAlone("DSRs with settings")
    target = g.get(int(v[V.OPERAND0]))
    if isinstance(target, np.ndarray):
        raise NotAlone("DSRs of different numbers")
    kept = g.home.dsrs.setdefault(target & 0xFFFF, np.zeros(g.home.row.count, np.int64))
    kept[g.lanes] = g.get(int(v[V.OPERAND1]))
    g.offset += cost


def _in_memory(w: Work, g: Group, o: Operation, cost: int) -> bool:
    over_memory(g, o, w.memory, w.written, w.words)
    home, free = g.home, pick(g.home.vector_free, g.lanes)
    end = later(g.clock + cost, free) + cycles_of(o)
    home.vector_free[g.lanes] = end
    if not o.form.is_async:
        g.clock = simplest(end) if isinstance(end, np.ndarray) else end
        return True
    ends = spread(end, g.size)
    _use_thread(home, o, row(g.clock), ends)
    _claim(g.home, o, g.lanes, ends)
    g.clock = g.clock + cost
    _follow(w, o, g.lanes, ends, np.arange(g.size))
    return True


def _claim(home: ClassState, o: Operation, lanes: Ints, ends: Any) -> list[Claim]:
    """The memory of an operation under way is in use until `ends`."""
    made: list[Claim] = []
    for low, high, writes in o.arguments.spans if o.count else []:
        end = np.full(home.row.count, -1, np.int64)
        end[lanes] = ends
        made.append(Claim(low, high, writes, end))
    home.claims += made
    return made


def _stream(w: Work, g: Group, o: Operation) -> bool:
    home = g.home
    for operand in o.operands:
        if operand.what in ("in", "out"):
            _use_queue(home, o, operand, row(g.clock))
    _use_thread(home, o, row(g.clock), NEVER)
    if o.arguments.feeds_back:
        raise NotAlone("an operation over words that reads what it writes")
    for low, high, writes in o.arguments.spans:
        bg.guard_range(g, low, high, writes)
    o.claims = _claim(home, o, g.lanes, NEVER)
    o.waiting, o.left = np.ones(g.size, bool), g.size
    o.position = np.full(home.row.count, -1, np.int32)
    o.position[g.lanes] = np.arange(g.size, dtype=np.int32)
    if o.form.is_async:
        g.clock = simplest(o.ready)
    else:
        o.group = g
    for operand in o.arguments.inputs:
        w.waiting.setdefault((home.index, operand.color), []).append(o)
    _attempt(w, o, np.arange(g.size))
    return o.form.is_async


def _use_queue(home: ClassState, o: Operation, operand: Operand, clock: Ints) -> None:
    """NotAlone when a queue is still in use, or a color leaves by two queues."""
    key = (operand.what == "in", operand.queue)
    if key not in home.queue_until:
        home.queue_until[key] = np.full(home.row.count, -1, np.int64)
    until = home.queue_until[key]
    if any_later(until, o.lanes, clock):
        raise NotAlone("a queue is used by two operations")
    until[o.lanes] = NEVER


def _use_thread(home: ClassState, o: Operation, clock: Ints, ends: Any) -> None:
    """NotAlone when the microthread of an operation is still in use; it is now, until `ends`."""
    if o.thread < 0:
        return
    until = home.thread_until.setdefault(o.thread, np.full(home.row.count, -1, np.int64))
    if any_later(until, o.lanes, clock):
        raise NotAlone("a microthread is used by two operations")
    until[o.lanes] = ends


def wake(w: Work, index: int, color: int, lanes: Ints) -> None:
    """Words of `color` came to `lanes` of a class: go on with operations that waited for them."""
    operations = w.waiting.get((index, color), [])
    for o in operations:
        places = np.empty(len(lanes), np.int64)
        count = waiting_places(o.position, o.waiting, lanes, np.zeros(len(o.lanes), np.bool_), places)
        if count:
            _attempt(w, o, places[:count])
    w.waiting[index, color] = [o for o in operations if o.left]


def _attempt(w: Work, o: Operation, places: Ints) -> None:
    """Do the operation for those of the PEs at `places` for which all words have come."""
    if o.count and o.arguments.inputs:
        if not all(inbox(w, o.home, operand).segments for operand in o.arguments.inputs):
            return
        enough = np.ones(len(places), bool)
        for operand in o.arguments.inputs:
            enough &= inbox(w, o.home, operand).held(o.lanes[places]) >= o.count
        places = places[enough]
    if not len(places):
        return
    for chosen in _by_segment(w, o, places):
        _do_stream(w, o, chosen)


def inbox(w: Work, home: ClassState, operand: Operand) -> Inbox:
    """What a color brings to a class."""
    return _inbox(w, home, operand.color)


def _inbox(w: Work, home: ClassState, color: int) -> Inbox:
    key = (home.index, color)
    if key not in w.inboxes:
        queue = next((q[1] for q in home.row.queues if q[0] and q[2] == color), None)
        if queue is None:
            raise NotAlone(f"words of color {color} reach a PE that has no queue for it")
        depth = w.times.depths[queue]
        w.inboxes[key] = Inbox(home.row.count, depth + w.times.ramp, depth)
    return w.inboxes[key]


def _by_segment(w: Work, o: Operation, places: Ints) -> Iterable[Ints]:
    """Parts of `places` whose words come from the same streams."""
    if not o.count or all(len(inbox(w, o.home, operand).segments) == 1 for operand in o.arguments.inputs):
        return [places]
    labels = np.zeros(len(places), np.int64)
    for operand in o.arguments.inputs:
        found = inbox(w, o.home, operand).first_segment(o.lanes[places])
        labels = labels * (int(found.max()) + 2) + found
    return [places[labels == label] for label in np.unique(labels)]


def _do_stream(w: Work, o: Operation, chosen: Ints) -> None:
    home, lanes, n = o.home, o.lanes[chosen], o.count
    ready = o.ready[chosen]
    o.waiting[chosen] = False
    o.left -= len(chosen)
    if not n:
        _end_stream(w, o, chosen, ready)
        return
    words, first, times = _taken(w, o, lanes, ready)
    last = times[:, -1] if times is not None else first + n - 1
    home.wait_in[lanes] += last - ready - (n - 1)
    for low, high, writes in o.arguments.spans:
        w.queue.wait(home.index, low, high, writes)
        if writes:
            home.changes(low, high)
    if o.arguments.moves_words:
        move_words(o, chosen, words[0], w.all)
    elif o.arguments.output is None:
        into_memory(o, chosen, values_of(o, chosen, words, w.all), w.all)
    else:
        _send(w, home, lanes, o.arguments.output, values_of(o, chosen, words, w.all), first, times)
    _end_stream(w, o, chosen, last + 1)


def _taken(w: Work, o: Operation, lanes: Ints, ready: Ints) -> tuple[list[Taken], Ints, Ints | None]:
    """What an operation on `lanes` takes from its inputs, and when it does its elements."""
    inputs, n = o.arguments.inputs, o.count
    if len(inputs) == 1:
        alone = inbox(w, o.home, inputs[0]).take_at_once(lanes, ready, n)
        if alone is not None:
            return [alone[0]], alone[1], None
    words: list[Taken] = []
    first, times = ready, None
    looks: list[tuple[Inbox, int, Ints, Ints | None]] = []
    for operand in inputs:
        box = inbox(w, o.home, operand)
        index = int(box.first_segment(lanes[:1])[0])
        values, arrived, arrivals = box.look(lanes, index, n)
        words.append(values)
        looks.append((box, index, arrived, arrivals))
        first, times = _joined(first, times, arrived, arrivals, n)
    last = times[:, -1] if times is not None else first + n - 1
    for box, index, arrived, arrivals in looks:
        late = first - arrived
        if times is not None or arrivals is not None:
            steps = np.arange(n)
            done = times if times is not None else first[:, None] + steps
            came = arrivals if arrivals is not None else arrived[:, None] + steps
            late = (done - came).max(axis=1)
        box.take(lanes, index, n, late, last, arrived)
    return words, first, times


def _joined(first: Ints, times: Ints | None, arrived: Ints, arrivals: Ints | None, n: int) -> tuple[Ints, Ints | None]:
    """Times of an operation that may go at `first` (or `times`) and needs words that come at `arrived` (`arrivals`)."""
    if times is None:
        return popped(arrived, arrivals, first)
    steps = np.arange(n)
    came = arrivals if arrivals is not None else arrived[:, None] + steps
    made = np.maximum.accumulate(np.maximum(times, came) - steps, axis=1) + steps
    return made[:, 0], made


def _end_stream(w: Work, o: Operation, chosen: Ints, ends: Ints) -> None:
    lanes = o.lanes[chosen]
    for operand in o.operands:
        if operand.what in ("in", "out"):
            o.home.queue_until[operand.what == "in", operand.queue][lanes] = ends
    if o.thread >= 0:
        o.home.thread_until[o.thread][lanes] = ends
    for claim in o.claims:
        claim.end[lanes] = ends
    if not o.left:
        _drop_claims(o.home)
    if o.group is None:
        _follow(w, o, lanes, ends, chosen)
        return
    part = o.group.part(chosen)
    part.clock = simplest(ends)
    w.resumed.append(part)


def _drop_claims(home: ClassState) -> None:
    """Forget memory whose operations ended before all their PEs' main threads came to where they are."""
    home.claims[:] = [c for c in home.claims if any_under_way(c.end, home.idle, home.free, home.picked)]


def _follow(w: Work, o: Operation, lanes: Ints, ends: Ints, chosen: Ints) -> None:
    """What an asynchronous operation brings about at its end."""
    past(w, ends)
    task = pick(o.activate, chosen)
    if not isinstance(task, int) or task >= 0:
        activate(o.home, lanes, ends, task)
    task = pick(o.unblock, chosen)
    if not isinstance(task, int) or task >= 0:
        block(o.home, lanes, ends, task, False)


def _send(
    w: Work, home: ClassState, lanes: Ints, output: Operand, values: Any, first: Ints, times: Ints | None
) -> None:
    """Words done at `first` (or `times`) go their way."""
    t = w.times
    n = values.shape[1]
    pes = home.row.first + lanes
    span = times[:, -1] - first if times is not None else np.full(len(lanes), n - 1)
    left = first + 1
    place = w.routes.place_of(pes)
    w.proof.use(place * LINKS + FROM_PE, left, left + span)
    paths = w.routes.paths(output.color, pes)
    on_link = left[paths.link_row] + t.ramp + paths.link_hops * t.hop
    w.proof.use(paths.link, on_link, on_link + span[paths.link_row])
    w.routes.count_words(output.color, paths, n)
    delay = 1 + 2 * t.ramp + paths.hops * t.hop
    kept = np.ascontiguousarray(values)
    for index, sel in _by_class(w, paths.pe):
        to = w.classes[index]
        rows, there = paths.row[sel], paths.pe[sel] - to.row.first
        arrival = first[rows] + delay[sel]
        arrivals = None if times is None else times[rows] + delay[sel][:, None]
        _inbox(w, to, output.color).put(there, kept, rows, arrival, arrivals)
        w.arrived.append((index, output.color, there))


def _by_class(w: Work, pes: Ints) -> Iterable[tuple[int, Any]]:
    """(class, places) of the PEs."""
    if len(w.classes) == 1:
        return [(0, slice(None))] if len(pes) else []
    classes = np.searchsorted(w.starts, pes, side="right") - 1
    return [(int(k), np.flatnonzero(classes == k)) for k in np.unique(classes)]
