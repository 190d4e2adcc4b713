"""The batched engine: PEs that share code step together on arrays, and whole streams move at once.

It takes a program over from the reference when nothing moves, works on copies of what time changes, and puts its
results back only when it has proved that nothing contended (docs/decisions/0013-batched-engine.md). Otherwise the state
is as before, and the reason is told. Must not know how host code drives a program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..chip import QUEUES, Wafer
from . import fields as f
from .batched_components import runnable
from .batched_group import ClassState, orders
from .batched_routes import RouteMap
from .batched_run import run_all
from .batched_streams import NotAlone, TooEarly
from .batched_times import NEVER
from .batched_work import Times, Work
from .ir import ClassRow
from .state import Reason, State, Until

Mask = NDArray[np.bool_]
# What `_put_back` sets of PEs that a run left alone, too.
_OF_TASKS = np.array([f.P_LAUNCH, f.P_LAUNCH_LAST, f.P_OWES, f.P_ACTIVE, f.P_BLOCKED])
# Settings of a DSR that gives none.
_PLAIN_DSR = {
    f.S_SAVE: 0, f.S_ASYNC: 0, f.S_ACTIVATE: -1, f.S_UNBLOCK: -1, f.S_UNBLOCK_KIND: 0, f.S_CONTROL: 0, f.S_UT: -1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run came out: whether all commands are done, the cycle of the last one (or of the start), and that of the
    last thing that happened."""

    met: bool
    done: int
    last: int


def run(state: State, until: Until, max_cycles: int) -> Reason | str:
    """Run `state` as reference.run does, or say why not and leave it as it was."""
    may = runnable(state.image, state.program.routes)
    if may.why is not None:
        return may.why
    reason = _busy(state, may.pes)
    if reason:
        return reason
    if not anything(state, may.pes):
        return _nothing(state, until)
    came = _run_idle(state, until, max_cycles, may.pes)
    if isinstance(came, str):
        return came
    state.cells[f.G_NOW], state.cells[f.G_LAST] = came.done if came.met else came.last, came.last
    return Reason.MET if came.met else Reason.QUIET


def run_some(state: State, until: Until, max_cycles: int, chosen: Mask) -> Finished | str:
    """Run the PEs `chosen`, which no word connects with others, to where nothing moves; the state's clock stays. Or say
    why not, and leave the state as it was."""
    return _busy(state, chosen) or _run_idle(state, until, max_cycles, chosen)


def _run_idle(state: State, until: Until, max_cycles: int, chosen: Mask) -> Finished | str:
    """`run_some` of PEs that can be taken over as they are."""
    try:
        return _attempt(state, until, max_cycles, chosen, True)
    except TooEarly:
        pass
    except NotAlone as error:
        return str(error)
    try:
        return _attempt(state, until, max_cycles, chosen, False)
    except NotAlone as error:
        return str(error)


def _attempt(state: State, until: Until, max_cycles: int, chosen: Mask, wide: bool) -> Finished:
    """Run on a copy of memory; the state changes at the end or, with NotAlone, not at all. What is set changes in
    place, as a snapshot of it takes a bit for each byte."""
    kept = np.packbits(state.set)
    try:
        work = _work(state, state.data.copy(), state.set, max_cycles, chosen)
        work.wide = wide
        try:
            run_all(work)
        finally:
            work.queue.finish()
        return _commit(state, work, until, _ends(work, state), chosen)
    except BaseException:
        state.set[:] = np.unpackbits(kept, count=len(state.set))
        raise


def anything(state: State, chosen: Mask) -> bool:
    """Whether a task could start on the PEs `chosen`."""
    table = state.pe_table
    able = (table[:, f.P_LAUNCH] >= 0) | (table[:, f.P_ACTIVE] & ~table[:, f.P_BLOCKED] != 0)
    return bool((able & chosen).any())


def _nothing(state: State, until: Until) -> Reason:
    """Time goes on to what the last run brought about beyond its end."""
    if until == Until.COMMANDS and state.open_commands == 0:
        return Reason.MET
    state.cells[f.G_NOW] = max(state.now, int(state.cells[f.G_LAST]))
    return Reason.QUIET


def _busy(state: State, chosen: Mask) -> str | None:
    """Why the PEs `chosen` as they are cannot be taken over, or None."""
    table = state.pe_table
    if (((table[:, f.P_OPS] >= 0) | (table[:, f.P_STATE] != f.FREE)) & chosen).any():
        return "operations are under way"
    if (((table[:, f.P_HOST_IN] >= 0) | (table[:, f.P_HOST_OUT] >= 0)) & chosen).any():
        return "streams of the host"
    if ((table[:, f.P_OWES] > (table[:, f.P_LAUNCH] >= 0)) & chosen).any():
        return "a command of the host is still open"
    if ((table[:, f.P_HIGH] != 0) & chosen).any() or state.traces.size:
        return "priorities of tasks, or a trace"
    if (table[:, f.P_HEADS : f.P_HEADS_RAMP + 1].any(axis=1) & chosen).any():
        return "words are under way"
    if state.fill_queues is None and (_waiting_words(state) & chosen).any():
        return "words wait in queues"
    return None


def _waiting_words(state: State) -> Mask:
    """PEs with words in any of their queues."""
    made, table = np.zeros(state.pes, np.bool_), state.pe_table
    size = int(state.cells[f.G_QUEUE])
    for header, count, first, many in (
        (f.A_IN, state.in_count, f.P_IN, f.P_INS), (f.A_OUT, state.out_count, f.P_OUT, f.P_OUTS),
    ):  # fmt: skip
        total = np.concatenate(([0], np.cumsum(state.table(header, count, size)[:, f.Q_COUNT])))
        made |= total[table[:, first] + table[:, many]] > total[table[:, first]]
    return made


# ---- taking over ---------------------------------------------------------------------------------------


def _work(state: State, data: Any, written: Any, max_cycles: int, chosen: Mask) -> Work:
    wafer, image = state.wafer, state.image
    classes = [_class(state, k, row, chosen[row.first : row.first + row.count]) for k, row in enumerate(image.classes)]
    starts = np.array([row.first for row in image.classes], np.int64)
    code = [(*row, cost) for row, cost in zip(image.code.tolist(), image.cost.tolist(), strict=True)]
    routes = RouteMap(state.program.routes, state.pe_at.astype(np.int32))
    return Work(image, code, data, written, classes, starts, routes, _times(wafer), max_cycles, state.now)


def _times(wafer: Wafer) -> Times:
    depths = {QUEUES.index(name): depth for name, depth in wafer.fabric.input_depth_words.items()}
    return Times(wafer.cost.hop, wafer.cost.ramp, wafer.cost.task_start, depths)


def _class(state: State, k: int, row: ClassRow, chosen: Mask) -> ClassState:
    table = state.pe_table[row.first : row.first + row.count]
    count, order = row.count, orders(row)
    tasks = 1 + len(order)
    active = np.full((tasks, count), NEVER, np.int64)
    block_at, unblock_at, latest, before = (np.full((tasks, count), -1, np.int64) for _ in range(4))
    ids = np.array([-1] + [row.tasks[k].id for k in order], np.int64)
    functions = np.full(tasks, -1, np.int64)
    for place, index in enumerate(order, 1):
        task = row.tasks[index]
        functions[place] = task.function
        active[place, (table[:, f.P_ACTIVE] >> task.id & 1 == 1) & chosen] = state.now
        block_at[place, (table[:, f.P_BLOCKED] >> task.id & 1) == 1] = 0
    made = ClassState(
        row, k, table[:, f.P_MEMORY].copy(), ids, functions, active, block_at, unblock_at, latest, before,
        free=table[:, f.P_TIME].copy(), vector_free=table[:, f.P_VECTOR_FREE].copy(),
        idle=np.ones(count, np.bool_), picked=np.full(count, -1, np.int64), picked_free=np.full(count, -1, np.int64),
        picked_order=np.zeros(count, np.int64), picked_before=np.full(count, -1, np.int64),
        last_id=table[:, f.P_LAST_ID].copy(), id_before=table[:, f.P_LAST_ID].copy(), open=np.zeros(count, np.bool_),
        done_at=np.full(count, -1, np.int64), clock=table[:, f.P_CLOCK].copy(), clock_on=table[:, f.P_CLOCK_ON].copy(),
        busy=np.zeros(count, np.int64), elements=np.zeros(count, np.int64),
        wait_in=np.zeros(count, np.int64),
    )  # fmt: skip
    made.queues_name_threads = state.wafer.arch == "wse2"
    made.progress, made.runs = np.zeros(count, np.int64), np.zeros((tasks, count), np.int64)
    made.again = np.full((tasks, count), -1, np.int64)
    _launches(state, made, table, chosen)
    return made


def _launches(state: State, home: ClassState, table: Any, chosen: Mask) -> None:
    """The commands of the host that wait: at most one a PE, of one function."""
    lanes = np.flatnonzero((table[:, f.P_LAUNCH] >= 0) & chosen)
    if not len(lanes):
        return
    places = table[lanes, f.P_LAUNCH]
    if (state.host[places + f.L_NEXT] >= 0).any():
        raise NotAlone("several commands of the host wait at a PE")
    functions = np.unique(state.host[places + f.L_FUNCTION])
    if len(functions) > 1:
        raise NotAlone("commands of different functions in one class")
    home.functions[0] = functions[0]
    home.active[0, lanes] = state.host[places + f.L_TIME]
    home.open[lanes] = True
    for k in range(len(state.image.functions[int(functions[0])].params)):
        column = np.zeros(home.row.count, np.int64)
        column[lanes] = state.host[places + f.L_ARGS + k]
        home.arguments.append(column)


# ---- giving back -----------------------------------------------------------------------------------------


def _ends(work: Work, state: State) -> tuple[int, int]:
    """The cycle in which the last command was done (or now), and that of the last thing that happened."""
    done = max((int(home.done_at.max()) for home in work.classes if len(home.done_at)), default=-1)
    return max(done, state.now), max(work.now, state.now)


def _commit(state: State, work: Work, until: Until, ends: tuple[int, int], chosen: Mask) -> Finished:
    done, last = ends
    still_open = any(home.open.any() for home in work.classes)
    met = until == Until.COMMANDS and not still_open
    if met and last > done + state.wafer.cost.host_command:
        raise NotAlone("work goes on longer after the last command than the host takes for the next one")
    state.data, state.set = work.memory, work.written
    table, others = state.pe_table, np.flatnonzero(~chosen)
    kept = table[np.ix_(others, _OF_TASKS)]
    owed = int(table[chosen, f.P_OWES].sum())
    for home in work.classes:
        _put_back(state, home)
        _keep_dsrs(state, home)
    table[np.ix_(others, _OF_TASKS)] = kept
    state.cells[f.G_OPEN] += sum(int(home.open.sum()) for home in work.classes) - owed
    for link, words in enumerate(work.routes.link_words):
        if words.any():
            state.pe_table[:, f.P_LINKS + link] += words
    _count_colors(state, work)
    return Finished(met, done, last)


def _put_back(state: State, home: ClassState) -> None:
    table = state.pe_table[home.row.first : home.row.first + home.row.count]
    table[:, f.P_LAST_ID] = home.last_id
    table[:, f.P_TIME], table[:, f.P_VECTOR_FREE] = home.free, home.vector_free
    table[:, f.P_BUSY] += home.busy
    table[:, f.P_ELEMENTS] += home.elements
    table[:, f.P_WAIT_IN] += home.wait_in
    table[:, f.P_CLOCK], table[:, f.P_CLOCK_ON] = home.clock, home.clock_on
    table[:, f.P_LAUNCH], table[:, f.P_LAUNCH_LAST] = -1, -1
    table[:, f.P_OWES] = home.open
    for place, index in enumerate(orders(home.row), 1):
        bit = np.int64(1) << home.row.tasks[index].id
        blocked = home.block_at[place] > home.unblock_at[place]
        for column, given in ((f.P_ACTIVE, home.active[place] < NEVER), (f.P_BLOCKED, blocked)):
            table[:, column] = np.where(given, table[:, column] | bit, table[:, column] & ~bit)


def _count_colors(state: State, work: Work) -> None:
    """Words of each color that passed the routers."""
    routers = state.routers
    colors = sorted(state.program.routes.grid)
    of = state.table(f.A_ROUTER_OF, len(colors), state.pes)
    for color, words in work.routes.color_words.items():
        rows = of[colors.index(color)]
        there = rows >= 0
        routers[rows[there], f.R_WORDS] += words[there]


def _keep_dsrs(state: State, home: ClassState) -> None:
    """DSRs that a class loaded, without settings."""
    starts = state.pe_table[home.row.first : home.row.first + home.row.count, f.P_DSRS]
    for number, bits in home.dsrs.items():
        loaded = np.flatnonzero(bits)
        places = starts[loaded] + ((number >> 8 & 0xFF) * f.DSRS_OF_A_FILE + (number & 0xFF)) * f.DSR_SIZE
        state.cells[places + f.S_DSD] = bits[loaded]
        for column, plain in _PLAIN_DSR.items():
            state.cells[places + column] = plain
