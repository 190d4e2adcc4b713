"""The time rules of docs/decisions/0011-task-ir.md on images written by hand, where every cycle can be counted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tdslc.compiler.source import DiagnosticError
from tdslc.targets.wse.csl.routes import ColorConfig, Filter, Position
from tdslc.targets.wse.mesh import fields as f
from tdslc.targets.wse.mesh.ir import (
    FLAG_CONTROL,
    NO_COLOR,
    BlockKind,
    Dsd,
    Function,
    Kind,
    MachineOp,
    Op,
    TaskRow,
    V,
    VectorOp,
    pack,
)  # fmt: skip
from tdslc.targets.wse.mesh.state import Reason, State, Until
from wse_assembly import F32, SPAN, Assembly, floats, launch

WEST, EAST, RAMP = 1, 2, 16
FREE = ("cost.task_start=0", "cost.host_command=0")


def sender(a: Assembly, words: int, flags: int = 0) -> int:
    """A function that sends `words` floats along output queue 2; its first instruction."""
    start = len(a.code)
    a.constant(0, pack(Dsd.FABOUT, words, 2 | NO_COLOR << 8, flags=flags))
    a.constant(1, pack(Dsd.MEM1D, 0, words, 1, Kind.F32))
    moves = {V.OP: int(VectorOp.MOV), V.COUNT: 2, V.OPERAND0: 0, V.OPERAND1: 1, V.DSDS: 3}
    a.vector({**moves, V.DEST_KIND: F32, V.SOURCE_KIND: F32}, 2, cost=5)
    a.op(Op.MACHINE, MachineOp.UNBLOCK_COMMANDS)
    a.op(Op.RETURN)
    return start


def receiver(a: Assembly, words: int) -> int:
    """A function that takes `words` floats from input queue 3."""
    start = len(a.code)
    a.constant(0, pack(Dsd.MEM1D, 0, words, 1, Kind.F32))
    a.constant(1, pack(Dsd.FABIN, words, 3 | NO_COLOR << 8))
    moves = {V.OP: int(VectorOp.MOV), V.COUNT: 2, V.OPERAND0: 0, V.OPERAND1: 1, V.DSDS: 3}
    a.vector({**moves, V.DEST_KIND: F32, V.SOURCE_KIND: F32}, 2, cost=5)
    a.op(Op.MACHINE, MachineOp.UNBLOCK_COMMANDS)
    a.op(Op.RETURN)
    return start


def nothing(a: Assembly) -> int:
    start = len(a.code)
    a.op(Op.MACHINE, MachineOp.UNBLOCK_COMMANDS)
    a.op(Op.RETURN)
    return start


def line(hops: int, words: int, **config: Any) -> Assembly:
    """The first PE of a row sends to the last."""
    a = Assembly()
    a.pe(sender(a, words), 3, [float(k) for k in range(words)], queues=((False, 2, 7, 0),))
    for _ in range(hops - 1):
        a.pe(nothing(a), 1, [])
    a.pe(receiver(a, words), 3, [0.0] * words, queues=((True, 3, 7, 0),))
    a.route(0, 7, ColorConfig(RAMP, EAST))
    for x in range(1, hops):
        a.route(x, 7, ColorConfig(WEST, EAST))
    a.route(hops, 7, ColorConfig(WEST, RAMP, **config))
    return a


@settings(max_examples=25, deadline=None)
@given(hops=st.integers(1, 6), words=st.integers(1, 9), hop=st.integers(1, 3), ramp=st.integers(0, 4))
def test_a_word_takes_two_ramps_and_its_hops(hops: int, words: int, hop: int, ramp: int) -> None:
    """Issued at t, a word is used at t + 1 + ramp + hops * hop + ramp; further ones follow every cycle if the routers
    have room for what is under way."""
    depth = max(2, hop + 1)
    state = line(hops, words).state(f"cost.hop={hop}", f"cost.ramp={ramp}", f"fabric.router_depth_words={depth}", *FREE)
    assert launch(state, Until.COMMANDS) == Reason.MET
    first = 5 + 1 + ramp + hops * hop + ramp
    assert state.now == first + words
    assert floats(state, hops).tolist() == [float(k) for k in range(words)]


def test_ramps_of_any_length_do_not_slow_a_stream() -> None:
    for ramp in range(8):
        state = line(3, 40).state(f"cost.ramp={ramp}", *FREE)
        launch(state, Until.COMMANDS)
        assert state.now == 5 + 1 + 2 * ramp + 3 + 40


def test_one_word_of_room_in_routers_halves_the_rate() -> None:
    """A word's place is free in the cycle after it has left."""
    state = line(3, 40).state("fabric.router_depth_words=1", "cost.ramp=2", *FREE)
    launch(state, Until.COMMANDS)
    assert state.now == 5 + 1 + 4 + 3 + 2 * 39 + 1


def test_the_same_run_has_the_same_cycles_and_the_same_cells() -> None:
    runs: list[State] = []
    for _ in range(2):
        state = line(4, 30).state()
        launch(state)
        runs.append(state)
    assert runs[0].now == runs[1].now
    assert (runs[0].cells == runs[1].cells).all()


def test_a_run_can_be_taken_back() -> None:
    state = line(2, 5).state()
    kept = state.snapshot()
    launch(state)
    cells, now = state.cells.copy(), state.now
    state.restore(kept)
    assert state.now == 0
    launch(state)
    assert state.now == now
    assert (state.cells == cells).all()


def test_words_for_a_filter_that_passes_none_are_counted_and_dropped() -> None:
    """A counter filter passes the first two of every three words."""
    given = Filter("counter", (("count_data", 1), ("max_counter", 1), ("limit1", 2)))
    a = line(1, 6, filter=given)
    state = a.state(*FREE)
    launch(state)
    assert floats(state, 1).tolist() == [0, 1, 3, 4, 0, 0]
    assert int(state.pe_table[1, f.P_STATE]) == f.IN_OPERATION


def test_what_nobody_takes_waits_in_queues_of_the_documented_depth() -> None:
    """wse3: 8 words in the output queue, 2 and a ramp in its router's buffer, 2 in the neighbour's, 4 and a ramp in."""
    a = Assembly()
    a.pe(sender(a, 40), 3, [0.0] * 40, queues=((False, 2, 7, 0),))
    a.pe(nothing(a), 1, [], queues=((True, 3, 7, 0),))
    a.route(0, 7, ColorConfig(RAMP, EAST))
    a.route(1, 7, ColorConfig(WEST, RAMP))
    state = a.state(*FREE)
    assert launch(state) == Reason.QUIET
    o = int(state.pe_table[0, f.P_OPS])
    assert int(state.ops[o + f.O_K]) == 8 + (2 + 2) + 2 + (4 + 2)
    assert state.open_commands == 1


def test_switches_keep_what_a_position_does_not_say() -> None:
    """Position 1 sends on to the PE only, position 2 receives from the ramp and still sends to the PE."""
    a = line(1, 1, positions=(Position(0, RAMP, True), Position(RAMP, 0, True), Position()))
    state = a.state()
    router = state.routers[1]
    assert [(int(router[f.R_RX]) >> 8 * k & 31, int(router[f.R_TX]) >> 8 * k & 31) for k in range(3)] == [
        (WEST, RAMP), (0, RAMP), (RAMP, 0)
    ]  # fmt: skip


@pytest.mark.parametrize("words", [1, 4])
def test_a_control_wavelet_moves_the_switch_behind_it(words: int) -> None:
    """The first control wavelet still goes where the data went; a second word waits for a way."""
    a = Assembly()
    start = sender(a, words, FLAG_CONTROL)
    a.pe(start, 3, [0.0] * words, queues=((False, 2, 7, 0),))
    a.pe(nothing(a), 1, [])
    a.route(0, 7, ColorConfig(RAMP, EAST))
    # SWITCH_ADV in the first place, no task (31); the PE is passed by.
    word = np.array([31 << 16 | 1 << 22 | 1 << 24] * words, np.uint32)
    a.route(1, 7, ColorConfig(WEST, RAMP, (Position(RAMP, 0, True), Position(), Position())))
    state = a.state(*FREE)
    state.memory(0)[0, : 4 * words] = word.view(np.uint8)
    launch(state)
    assert int(state.routers[1, f.R_POSITION]) == 1
    assert int(state.routers[1, f.R_WORDS]) == 1


def two_tasks(high: int | None = None) -> Assembly:
    """A PE whose local tasks 9, 12 and 15 each activate themselves once more and note their order in memory."""
    a = Assembly()
    registers = 6
    starts: list[int] = []
    for task in (9, 12, 15):
        starts.append(len(a.code))
        a.constant(0, 0)
        a.op(Op.LOAD, Kind.U32, 1, 0, c=0)
        a.constant(2, 4)
        a.op(Op.MUL, Kind.U32, 3, 1, 2)
        a.constant(4, task)
        a.op(Op.STORE, Kind.U32, 4, 3, c=4)
        a.constant(2, 1)
        a.op(Op.ADD, Kind.U32, 1, 1, 2)
        a.op(Op.STORE, Kind.U32, 1, 0, c=0)
        a.constant(2, 6)
        a.op(Op.LT, Kind.U32, 5, 1, 2)
        a.op(Op.JUMP_IF_NOT, a=5, b=len(a.code) + 2)
        a.op(Op.ACTIVATE, a=4)
        a.op(Op.RETURN)
    tasks = tuple(TaskRow("local", id, k) for k, id in enumerate((9, 12, 15)))
    start = len(a.code)
    for id in (15, 9, 12):
        a.constant(0, id)
        a.op(Op.ACTIVATE, a=0)
    if high is not None:
        a.constant(0, high)
        a.constant(1, 1)
        a.op(Op.MACHINE, MachineOp.TASK_PRIORITY, a=0, b=1)
    a.op(Op.RETURN)
    for s in starts:
        a.functions.append(Function("task", s, registers, (), None, True, SPAN))
    a.pe(start, registers, [0.0] * 16, tasks=tasks)
    return a


def order(state: State) -> list[int]:
    words = floats(state, 0).view(np.uint32)
    return words[1 : 1 + int(words[0])].tolist()


def test_tasks_take_turns_on_a_wheel_of_ids() -> None:
    state = two_tasks().state()
    launch(state)
    assert order(state) == [9, 12, 15, 9, 12, 15, 9, 12]


def test_tasks_of_high_priority_come_first() -> None:
    state = two_tasks(high=12).state()
    launch(state)
    assert order(state)[:5] == [12, 12, 12, 12, 12]


def test_blocking_a_task_keeps_its_activation() -> None:
    a = two_tasks()
    row = a.classes[0]
    a.classes[0] = replace(row, blocked=((BlockKind.TASK, 12),))
    state = a.state()
    launch(state)
    assert 12 not in order(state)
    assert int(state.pe_table[0, f.P_ACTIVE]) >> 12 & 1


def test_a_budget_ends_a_run_at_its_cycle() -> None:
    a = Assembly()
    a.op(Op.JUMP, a=0, cost=3)
    a.pe(0, 1, [])
    state = a.state(*FREE)
    assert launch(state, Until.COMMANDS, 1000) == Reason.BUDGET
    assert state.now <= 1000


def test_a_loop_without_cost_is_found() -> None:
    a = Assembly()
    a.op(Op.JUMP, a=0)
    a.pe(0, 1, [])
    with pytest.raises(DiagnosticError) as error:
        launch(a.state(*FREE))
    assert error.value.diagnostics[0].code == "E1070"
