"""The batched engine at work: which groups of PEs go on, and where those that parted meet again.

Must not know how state is kept between runs, nor what instructions do.
"""

from __future__ import annotations

from .batched_code import HANDLERS
from .batched_group import ClassState, Group, row, simplest
from .batched_operations import wake
from .batched_streams import NotAlone
from .batched_stretch import bounds_of, enter
from .batched_tasks import Start, changed, first_start
from .batched_times import NEVER
from .batched_work import Work
from .ir import Op

# Instructions of one group without an end.
_MOST_STEPS = 1 << 26
_FRAME_OPS = {int(Op.CALL), int(Op.CALL_AT), int(Op.RETURN)}


def run_all(w: Work) -> None:
    """Run until nothing can go on. NotAlone when that cannot be shown to be exact."""
    while True:
        if w.groups:
            run_group(w, _next_part(w.groups))
        elif w.arrived:
            wake(w, *w.arrived.pop())
        elif not _go_on(w):
            break
    w.queue.finish()
    w.proof.check()
    if any(o.left for ops in w.waiting.values() for o in ops):
        raise NotAlone("operations wait for words that never come")
    if any(box.segments for box in w.inboxes.values()):
        raise NotAlone("words are left in queues")


def _next_part(groups: list[Group]) -> Group:
    """The part that is furthest behind: parts of one task meet again where their ways do."""
    k = min(range(len(groups)), key=lambda k: (-len(groups[k].frames), groups[k].pc))
    return groups.pop(k)


def _go_on(w: Work) -> bool:
    """Start a task on PEs of a class, or go on with what waited for an operation; False when there is neither. First
    comes who has started the fewest tasks (`wide`), or what is earliest; of equals the start of a task."""
    waits = min(
        ((g.progress if w.wide else int(row(g.clock).min()), 1, k) for k, g in enumerate(w.resumed)), default=None
    )
    homes = [(found, home) for home in w.classes if (found := first_start(home, w.wide)) is not None]
    start = min(
        (((found.order, 0, home.index), found, home) for found, home in homes), key=lambda x: x[0], default=None
    )
    if start is not None and (waits is None or start[0] < waits):
        _begin(w, start[2], start[1])
    elif waits is not None:
        first = w.resumed[waits[2]]
        same = [g for g in w.resumed if g.meets(first)]
        w.resumed = [g for g in w.resumed if not g.meets(first)]
        w.groups.append(joined(same))
    else:
        return False
    return True


def _begin(w: Work, home: ClassState, found: Start) -> None:
    lanes, start, order = found.lanes, found.times, found.row
    changed(home)
    progress = int(home.progress[lanes].min()) + 1
    home.progress[lanes] += 1
    home.runs[order, lanes] += 1
    home.forget_unwritten()
    if (home.again[order, lanes] > start).any():
        raise NotAlone("a task is activated again after it began, which was known before")
    home.again[order, lanes] = -1
    home.active[order, lanes] = NEVER
    home.idle[lanes] = False
    home.picked_before[lanes], home.picked[lanes] = home.picked[lanes], start
    home.picked_free[lanes], home.picked_order[lanes] = home.free[lanes], order
    home.id_before[lanes] = home.last_id[lanes]
    if order:
        home.last_id[lanes] = home.ids[order]
    function = int(home.functions[order])
    clock = simplest(start + w.times.task_start)
    whole = len(lanes) == home.row.count
    if function < 0:
        raise NotAlone("a task without a function")
    entry = w.image.functions[function].entry
    g = Group(home, lanes, whole, {}, entry, clock, w.queue, function=function, progress=progress)
    if order == 0:
        g.registers.update((k, simplest(column[lanes])) for k, column in enumerate(home.arguments))
    w.groups.append(g)


def run_group(w: Work, g: Group) -> None:
    """Run a group until it ends, waits, parts, or passes a part that it may meet."""
    meeting, doors = _meeting(w, g), w.tables.doors
    for _ in range(_MOST_STEPS):
        if g.pc >= meeting:
            g.flush()
            made = g if g.pc > meeting else joined([g, *_taken(w, g)])
            w.groups.append(made)
            return
        if doors[g.pc] and enter(w.tables, w.queue, w.written, g, bounds_of(w.groups, g, meeting, w.max_cycles)):
            meeting = _meeting(w, g)
            continue
        op, kind, d, a, b, c, cost = w.code[g.pc]
        g.pc += 1
        if not HANDLERS[op](w, g, op, kind, d, a, b, c, cost):
            g.flush()
            return
        if op in _FRAME_OPS:
            meeting = _meeting(w, g)
    raise NotAlone("a task without an end")


def _meeting(w: Work, g: Group) -> int:
    """The first place ahead at which a part of the same call waits, or one that is never reached."""
    return min((p.pc for p in w.groups if p.home is g.home and p.frames == g.frames), default=NEVER)


def _taken(w: Work, g: Group) -> list[Group]:
    """The parts that `g` meets, no longer waiting."""
    met = [p for p in w.groups if p.meets(g)]
    w.groups = [p for p in w.groups if not p.meets(g)]
    return met


def joined(groups: list[Group]) -> Group:
    """Groups that meet as one."""
    made = groups[0]
    for other in groups[1:]:
        made = made.join(other)
    return made
