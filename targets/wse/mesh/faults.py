"""What goes wrong on the mesh, as diagnostics: which PE, which line, and what to do.

Must not know engines: it reads a State.
"""

from __future__ import annotations

import numpy as np

from ....compiler.source import Diagnostic, DiagnosticError, Note, Span
from ..csl.routes import DIRECTIONS
from . import fields as f
from .state import State

# PEs of a report that are told one by one.
MAX_TOLD = 8
_WAITS = {
    f.NO_INPUT: "waits for wavelets", f.NO_ROOM: "waits for room in its output queue",
    f.FIFO_EMPTY: "waits for a FIFO to fill", f.FIFO_FULL: "waits for room in a FIFO", f.NO_REASON: "has not begun",
}  # fmt: skip


def place(state: State, pe: int) -> str:
    """ "PE x, y" """
    return f"PE {int(state.x[pe])}, {int(state.y[pe])}"


def span_of(state: State, pc: int) -> Span | None:
    """Where the instruction stands in the program; None for what belongs to no instruction."""
    return state.image.spans[int(state.image.span_of[pc])] if pc >= 0 else None


def error(state: State) -> DiagnosticError:
    """The fault that a kernel noted."""
    code, pe, pc, a, b, c = (int(v) for v in state.cells[f.G_FAULT : f.G_FAULT_C + 1])
    code_name, message, help = _describe(state, code, pe, a, b, c)
    notes: tuple[Note, ...] = ()
    if code == f.TWO_USERS and c >= 0 and (other := span_of(state, c)) is not None:
        notes = (Note("this operation uses it", other),)
    at = f"{place(state, pe)}, cycle {state.now}: "
    return DiagnosticError(Diagnostic(code_name, at + message, span_of(state, pc), notes, help))


def _describe(state: State, code: int, pe: int, a: int, b: int, c: int) -> tuple[str, str, str]:
    """(code, message, help) of a fault: one case each, in the words of programs, which is why it is long."""
    match code:
        case f.UNSET:
            return (
                "E1062",
                f"{symbol(state, pe, a)} is read and was never written",
                "give it an initial value, or write it first",
            )
        case f.OUTSIDE:
            return (
                "E1063",
                f"address {a} of {b} bytes is outside the PE's {c} bytes of variables",
                "check the pointer, offset or length",
            )
        case f.LEAVES_SYMBOL:
            return (
                "E1063",
                f"a DSD that begins in {symbol(state, pe, a)} reaches to address {b}, outside of it",
                "check its length, stride and offset",
            )
        case f.INDEX:
            return "E1063", f"index {a} is outside an extent of {b}", "check the index"
        case f.DIVISION:
            return "E1068", "an integer is divided by zero", "test the divisor"
        case f.SHIFT:
            return "E1068", f"a shift by {a} of a number of {b} bits", "shift by less than its bits"
        case f.ASSERTION:
            return "E1067", "an assertion of the program does not hold", "see what it says"
        case f.TWO_USERS:
            return (
                "E1064",
                f"{_queue(a, b)} is in use by another operation",
                "start the second when the first has ended: `.activate` of an operation tells that",
            )
        case f.TOO_MANY:
            return "E1064", f"more than {a} operations move words at once", "let some end before others start"
        case f.MICROTHREAD_USED:
            return (
                "E1064",
                f"microthread {a} is in use by another operation",
                "use another queue, or on wse3 give `.ut_id`",
            )
        case f.NO_COLOR_OF_QUEUE:
            return "E1064", f"output queue {a} has no color", "initialize it with one, or give the DSD `.fabric_color`"
        case f.NO_QUEUE:
            what = (
                f"output queue {a} is not initialized",
                f"input queue {a} is not initialized",
                f"FIFO {a} does not exist",
                "a DSR is used that nothing was loaded into",
            )[b]
            return "E1064", what, "call @initialize_queue in a comptime block, or @load_to_dsr before the operation"
        case f.TOO_WIDE:
            return (
                "E1064",
                f"{_queue(a, b)} is shorter than the {c} elements that the operation takes at once",
                "use another queue, or another SIMD mode",
            )
        case f.NO_TAKER:
            return (
                "E1066",
                f"a {'control ' if c else ''}wavelet of color {a} comes, and no input queue is bound to it",
                "initialize an input queue with this color, or do not route it to RAMP",
            )
        case f.NO_CONTROL_TASK:
            return (
                "E1066",
                f"a control wavelet of color {b} names the task {a}, which does not exist",
                "bind a control task to the id",
            )
        case f.NO_ROUTE:
            return "E1066", _no_route(a, b, c), "check the color's routes along its way"
        case f.TWO_WAYS:
            ways = " and ".join(DIRECTIONS[d] for d in sorted((b, c)))
            return (
                "E1061",
                f"wavelets of color {a} come from {ways} at once, which the machine does not define",
                "let one color come from one direction at a time, by a switch or by waiting",
            )
        case f.NO_TASK:
            return "E1070", f"local task {a} is activated, and no task is bound to it", "bind a task to the id"
        case f.DEPTH:
            return "E1070", "calls are nested too deeply", "functions called by pointer may nest 16 deep"
        case f.NO_FUNCTION:
            return "E1070", f"{a} is no function", "check the pointer"
        case _:
            return "E1070", "the program runs without end and without time going on", "check the loop"


def _queue(number: int, kind: int) -> str:
    return {f.INPUT: f"input queue {number}", f.OUTPUT: f"output queue {number}"}.get(kind, f"FIFO {number}")


def _no_route(color: int, direction: int, what: int) -> str:
    match what:
        case 1:
            return f"color {color} from {DIRECTIONS[direction]} has no way out of this router"
        case 2:
            return f"a wavelet of color {color} leaves the rectangle to the {DIRECTIONS[direction]}"
        case 3:
            return f"color {color} is reconfigured, and this router has no configuration of it"
        case _:
            return f"a wavelet of color {color} comes from {DIRECTIONS[direction]}, which this router never takes"


def symbol(state: State, pe: int, address: int) -> str:
    """The variable at an address, as messages name it."""
    for row in state.image.classes[int(state.class_of[pe])].symbols:
        if row.address <= address < row.address + row.bytes:
            offset = address - row.address
            return f"`{row.name}`" + (f" (byte {offset})" if offset else "")
    return f"memory at address {address}"


# ---- nothing moves ---------------------------------------------------------------------------------


def waiting(state: State) -> list[tuple[int, str, Span | None]]:
    """(PE, what it waits for, where) of everything that has begun and cannot go on, in the order of PEs."""
    table = state.pe_table
    found: list[tuple[int, str, Span | None]] = []
    for pe in np.flatnonzero((table[:, f.P_OPS] >= 0) | (table[:, f.P_STATE] == f.IN_MAP)).tolist():
        operations = [int(table[pe, f.P_MAP])] if table[pe, f.P_STATE] == f.IN_MAP else []
        o = int(table[pe, f.P_OPS])
        while o >= 0:
            operations.append(o)
            o = int(state.ops[o + f.O_NEXT])
        for o in operations:
            found.append((pe, _operation(state, o), span_of(state, int(state.ops[o + f.O_PC]))))
    return found


def _operation(state: State, o: int) -> str:
    row = state.ops[o : o + f.OP_SIZE]
    reason = int(row[f.O_REASON])
    what = _WAITS[reason]
    wanted = {f.NO_INPUT: f.INPUT, f.NO_ROOM: f.OUTPUT}.get(reason, f.QUEUE)
    for k in range(int(row[f.O_COUNT])):
        operand = row[f.O_OPERANDS + k * f.OPERAND_SIZE :]
        if operand[f.D_TYPE] == wanted and wanted != f.QUEUE:
            queue = state.cells[int(operand[f.D_AT]) :]
            color = int(queue[f.Q_COLOR]) if wanted == f.INPUT else int(operand[f.D_STRIDE])
            what = f"{what} of color {color} ({_queue(int(queue[f.Q_ID]), wanted)})"
            break
    if row[f.O_N] > 1 << 40:
        return f"{what}, {int(row[f.O_K])} elements done"
    return f"{what}, {int(row[f.O_K])} of {int(row[f.O_N])} elements done"


def _idle(state: State) -> list[tuple[int, str, Span | None]]:
    """What keeps PEs from ending their command that have no operation in flight."""
    table = state.pe_table
    found: list[tuple[int, str, Span | None]] = []
    for pe in np.flatnonzero((table[:, f.P_OWES] > 0) & (table[:, f.P_OPS] < 0) & (table[:, f.P_MAP] < 0)).tolist():
        held = int(table[pe, f.P_ACTIVE]) & int(table[pe, f.P_BLOCKED])
        tasks = ", ".join(str(k) for k in range(f.TASK_IDS) if held >> k & 1)
        said = (
            f"has active tasks that are blocked: {tasks}"
            if tasks
            else "has nothing to do and has not called unblock_cmd_stream"
        )
        found.append((pe, said, None))
    return found


def _stuck(state: State) -> list[str]:
    """Wavelets that stand in routers, by color."""
    heads = state.pe_table[:, f.P_HEADS : f.P_HEADS + 5]
    said: list[str] = []
    for pe in np.flatnonzero(heads.any(axis=1))[:MAX_TOLD].tolist():
        for direction in range(5):
            colors = [str(c) for c in range(f.COLORS) if int(heads[pe, direction]) >> c & 1]
            if colors:
                said.append(f"{place(state, pe)}: wavelets of color {', '.join(colors)} from {DIRECTIONS[direction]}")
    return said


def deadlock(state: State) -> DiagnosticError:
    """Nothing can move, and the host still waits: who waits for what."""
    found = waiting(state) + _idle(state)
    lines = [f"{place(state, pe)} {said}" for pe, said, _ in found[:MAX_TOLD]]
    if len(found) > MAX_TOLD:
        lines.append(f"and {len(found) - MAX_TOLD} more")
    stuck = _stuck(state)
    if stuck:
        lines.append("in routers: " + "; ".join(stuck[:MAX_TOLD]))
    if state.missing_words:
        lines.append(f"the host waits for {state.missing_words} words")
    if state.unsent_words:
        lines.append(f"{state.unsent_words} words of the host found no room")
    many = f"{len(found)} wait{'s' if len(found) == 1 else ''}" if found else "no PE has anything to do"
    message = f"deadlock in cycle {state.now}: nothing can move; {many}:\n  " + "\n  ".join(lines or ["nothing"])
    notes = tuple(Note(f"{place(state, pe)} waits here", span) for pe, _, span in found[1:MAX_TOLD] if span is not None)
    first = next((span for _, _, span in found if span is not None), None)
    return DiagnosticError(
        Diagnostic(
            "E1060",
            message,
            first,
            notes[:3],
            "check that every word that is sent is received, and the other way round",
        )
    )


def budget(state: State, max_cycles: int) -> DiagnosticError:
    """The cycle budget is used up: what the PEs do."""
    table = state.pe_table
    running = table[:, f.P_STATE] == f.BUSY
    lines: list[str] = []
    first: Span | None = None
    for pe in np.flatnonzero(running)[:MAX_TOLD].tolist():
        span = span_of(state, int(table[pe, f.P_PC]))
        first = first or span
        name = state.image.functions[int(table[pe, f.P_TASK])].name
        lines.append(f"{place(state, pe)} runs `{name}`" + (f", line {span.line}" if span is not None else ""))
    if int(running.sum()) > MAX_TOLD:
        lines.append(f"and {int(running.sum()) - MAX_TOLD} more that run")
    found = waiting(state)
    lines += [f"{place(state, pe)} {said}" for pe, said, _ in found[:MAX_TOLD]]
    if len(found) > MAX_TOLD:
        lines.append(f"and {len(found) - MAX_TOLD} more that wait")
    first = first or next((span for _, _, span in found if span is not None), None)
    message = f"the program has not ended after {max_cycles} cycles:\n  " + "\n  ".join(lines or ["no PE is busy"])
    return DiagnosticError(Diagnostic("E1069", message, first, (), "look for a loop without end, or allow more cycles"))
