"""The batched engine: PEs that share code step together on arrays, and whole streams move at once.

It takes a program over from the reference when nothing moves, works on copies of what time changes, and puts its
results back only when it has proved that nothing contended (docs/decisions/0013-batched-engine.md). Otherwise the state
is as before, and the reason is told. Must not know how host code drives a program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..chip import QUEUES, Wafer
from ..csl.routes import Routes
from . import fields as f
from .batched_group import ClassState, orders
from .batched_routes import RouteMap, static_refusal
from .batched_run import run_all
from .batched_streams import NotAlone, TooEarly
from .batched_times import NEVER
from .batched_work import Times, Work
from .ir import BlockKind, ClassRow, Image, MachineOp, Op
from .state import Reason, State, Until

# Operations of the machine that a group can do.
_DOABLE = {
    MachineOp.COORDINATE, MachineOp.UNBLOCK_COMMANDS, MachineOp.TIMESTAMP_WORD, MachineOp.TIMESTAMP_ENABLE,
    MachineOp.TIMESTAMP_RESET,
}  # fmt: skip
# Settings of a DSR that gives none.
_PLAIN_DSR = {
    f.S_SAVE: 0, f.S_ASYNC: 0, f.S_ACTIVATE: -1, f.S_UNBLOCK: -1, f.S_UNBLOCK_KIND: 0, f.S_CONTROL: 0, f.S_UT: -1,
}  # fmt: skip


@lru_cache(maxsize=8)
def program_refusal(image: Image, routes: Routes) -> str | None:
    """Why a program is left to the reference whatever happens, or None."""
    for color in sorted(routes.grid):
        for k in [int(x) for x in np.unique(routes.grid[color])]:
            reason = static_refusal(routes.configs[k]) if k >= 0 else None
            if reason:
                return f"color {color} has {reason}"
    for row in image.classes:
        if any(task.kind != "local" for task in row.tasks):
            return "data or control tasks"
        if row.fifos:
            return "FIFOs"
        if row.teardown or row.empty_queue:
            return "handlers of queues or colors"
        if any(kind != BlockKind.TASK for kind, _ in row.blocked):
            return "blocked queues or colors"
    machine = image.code[image.code[:, 0] == Op.MACHINE, 1]
    for kind in np.unique(machine).tolist():
        if MachineOp(kind) not in _DOABLE:
            return f"`{MachineOp(kind).name.lower()}` of the machine"
    return None


def run(state: State, until: Until, max_cycles: int) -> Reason | str:
    """Run `state` as reference.run does, or say why not and leave it as it was."""
    reason = program_refusal(state.image, state.program.routes) or _busy(state)
    if reason:
        return reason
    if not _anything(state):
        return _nothing(state, until)
    try:
        return _attempt(state, until, max_cycles, True)
    except TooEarly:
        pass
    except NotAlone as error:
        return str(error)
    try:
        return _attempt(state, until, max_cycles, False)
    except NotAlone as error:
        return str(error)


def _attempt(state: State, until: Until, max_cycles: int, wide: bool) -> Reason:
    """Run on a copy of memory; the state changes at the end or, with NotAlone, not at all. What is set changes in
    place, as a snapshot of it takes a bit for each byte."""
    kept = np.packbits(state.set)
    try:
        work = _work(state, state.data.copy(), state.set, max_cycles)
        work.wide = wide
        try:
            run_all(work)
        finally:
            work.queue.finish()
        return _commit(state, work, until, _ends(work, state))
    except BaseException:
        state.set[:] = np.unpackbits(kept, count=len(state.set))
        raise


def _anything(state: State) -> bool:
    """Whether a task could start."""
    table = state.pe_table
    return bool((table[:, f.P_LAUNCH] >= 0).any() or (table[:, f.P_ACTIVE] & ~table[:, f.P_BLOCKED]).any())


def _nothing(state: State, until: Until) -> Reason:
    """Time goes on to what the last run brought about beyond its end."""
    if until == Until.COMMANDS and state.open_commands == 0:
        return Reason.MET
    state.cells[f.G_NOW] = max(state.now, int(state.cells[f.G_LAST]))
    return Reason.QUIET


def _busy(state: State) -> str | None:
    """Why the state as it is cannot be taken over, or None."""
    table = state.pe_table
    if (table[:, f.P_OPS] >= 0).any() or (table[:, f.P_STATE] != f.FREE).any():
        return "operations are under way"
    if (table[:, [f.P_HOST_IN, f.P_HOST_OUT]] >= 0).any():
        return "streams of the host"
    if (table[:, f.P_HIGH] != 0).any() or state.traces.size:
        return "priorities of tasks, or a trace"
    if state.fill_queues is not None:
        return None
    for header, count in ((f.A_IN, state.in_count), (f.A_OUT, state.out_count)):
        if count and state.table(header, count, int(state.cells[f.G_QUEUE]))[:, f.Q_COUNT].any():
            return "words wait in queues"
    return None


# ---- taking over ---------------------------------------------------------------------------------------


def _work(state: State, data: Any, written: Any, max_cycles: int) -> Work:
    wafer, image = state.wafer, state.image
    classes = [_class(state, k, row) for k, row in enumerate(image.classes)]
    starts = np.array([row.first for row in image.classes], np.int64)
    code = [(*row, cost) for row, cost in zip(image.code.tolist(), image.cost.tolist(), strict=True)]
    routes = RouteMap(state.program.routes, state.pe_at.astype(np.int32))
    return Work(image, code, data, written, classes, starts, routes, _times(wafer), max_cycles, state.now)


def _times(wafer: Wafer) -> Times:
    depths = {QUEUES.index(name): depth for name, depth in wafer.fabric.input_depth_words.items()}
    return Times(wafer.cost.hop, wafer.cost.ramp, wafer.cost.task_start, depths)


def _class(state: State, k: int, row: ClassRow) -> ClassState:
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
        active[place, (table[:, f.P_ACTIVE] >> task.id & 1) == 1] = state.now
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
    made.progress, made.runs = np.zeros(count, np.int64), np.zeros((tasks, count), np.int64)
    _launches(state, made, table)
    return made


def _launches(state: State, home: ClassState, table: Any) -> None:
    """The commands of the host that wait: at most one a PE, of one function."""
    lanes = np.flatnonzero(table[:, f.P_LAUNCH] >= 0)
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


def _commit(state: State, work: Work, until: Until, ends: tuple[int, int]) -> Reason:
    done, last = ends
    still_open = any(home.open.any() for home in work.classes)
    met = until == Until.COMMANDS and not still_open
    if met and last > done + state.wafer.cost.host_command:
        raise NotAlone("work goes on longer after the last command than the host takes for the next one")
    state.data, state.set = work.memory, work.written
    for home in work.classes:
        _put_back(state, home)
        _keep_dsrs(state, home)
    state.cells[f.G_NOW], state.cells[f.G_LAST] = done if met else last, last
    state.cells[f.G_OPEN] = sum(int(home.open.sum()) for home in work.classes)
    for link, words in enumerate(work.routes.link_words):
        if words.any():
            state.pe_table[:, f.P_LINKS + link] += words
    _count_colors(state, work)
    return Reason.MET if met else Reason.QUIET


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
