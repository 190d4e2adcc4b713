"""How the arrays of a run are laid out and filled: the tables of `fields.py` for one image, machine and program.

What is allocated follows what the program uses: queues that it names, routers of colors that it configures. Must not
know how either engine works.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..csl.routes import DIRECTIONS, POP_MODES, ColorConfig, Filter
from . import fields as f
from .ir import NO_COLOR, BlockKind, ClassRow, Dsd, MachineOp, Op, V, VectorOp
from .registers import chain_registers

if TYPE_CHECKING:
    from .state import State

Cells = NDArray[np.int64]
# (id, color, depth) of each.
Queues: TypeAlias = list[tuple[int, int, int]]
FILTER_KINDS = ("counter", "sparse_counter", "range")
FILTER_COLUMNS = {
    "count_data": f.X_DATA, "count_control": f.X_CONTROL, "init_counter": f.X_INIT, "limit1": f.X_LIMIT1,
    "limit2": f.X_LIMIT2, "max_counter": f.X_MAX, "min_idx": f.X_MIN_IDX, "max_idx": f.X_MAX_IDX,
    "filter_control": f.X_FILTER_CONTROL,
}  # fmt: skip
# Calls by function pointers may nest this much deeper than the calls that the code shows.
POINTER_CALLS = 16
# Where `@random16` starts.
RANDOM_SEED = 0xDEADBEEF
# Operations in flight that a run begins with room for.
_FIRST_OPERATIONS = 4096


class Builder:
    """Lays out and fills `cells` of a state, with room for a trace of `traced` records (0: no trace)."""

    def __init__(self, state: State) -> None:
        self.state, self.image, self.wafer = state, state.image, state.wafer
        self.cost, self.fabric = state.wafer.cost, state.wafer.fabric
        self.wse3 = state.wafer.arch == "wse3"
        self.size = f.HEADER
        self.at: dict[int, int] = {}

    def _place(self, header: int, cells: int) -> int:
        """Reserve a table; its place goes into the header."""
        self.at[header] = self.size = _lines(self.size)
        self.size += cells
        return self.at[header]

    def build(self, traced: int) -> None:
        state, image = self.state, self.image
        depths = (*self.fabric.input_depth_words.values(), *self.fabric.output_depth_words.values())
        self.slots = max(depths) + self.cost.ramp
        self.queue_size = _lines(f.Q_ITEMS + 2 * self.slots)
        self.buffer_size = _lines(f.B_ITEMS + 2 * (self.fabric.router_depth_words + self.cost.ramp))
        self.queues = [self._queues_of(row) for row in image.classes]
        state.in_count = sum(len(i) * r.count for (i, _), r in zip(self.queues, image.classes, strict=True))
        state.out_count = sum(len(o) * r.count for (_, o), r in zip(self.queues, image.classes, strict=True))
        self._routers()
        self._lay_out()
        cells = state.cells = aligned(self.size)
        for header, place in self.at.items():
            cells[header] = place
        self._header(traced > 0)
        self._tables()
        self._fill_near()
        self._fill_routers()
        self._fill_pes()
        state.fill_queues = partial(_fill_queues, state, self.queues, self.queue_size, int(self.first_buffer[-1]))
        self._operations(traced)

    # ---- what is needed -----------------------------------------------------------------------------

    def _queues_of(self, row: ClassRow) -> tuple[Queues, Queues]:
        """(id, color, depth) of a class's input and output queues."""
        ins = {id: color for is_input, id, color, _ in row.queues if is_input}
        outs = {id: color for is_input, id, color, _ in row.queues if not is_input}
        if not self.wse3:
            # The machine takes the color from the DSD, and a color's task needs no queue that a program has named.
            for id in self._named_outputs():
                outs.setdefault(id, -1)
            for is_input, id, color in row.named_queues:
                if not is_input:
                    outs.setdefault(id, -1)
                elif color >= 0 and color not in ins.values():
                    ins.setdefault(id, color)
            spare = len(self.fabric.input_depth_words)
            for color in self._colors_of_tasks(row):
                if color not in ins.values():
                    ins[spare] = color
                    spare += 1
        return (
            [(id, color, self._depth(self.fabric.input_depth_words, id)) for id, color in sorted(ins.items())],
            [(id, color, self._depth(self.fabric.output_depth_words, id)) for id, color in sorted(outs.items())],
        )

    def _colors_of_tasks(self, row: ClassRow) -> list[int]:
        """Colors whose wavelets start tasks of a class: of data tasks, and, where it has a control task, all that its
        routers bring to a PE."""
        colors = {task.id for task in row.tasks if task.kind == "data"}
        if any(task.kind == "control" for task in row.tasks):
            routes = self.state.program.routes
            to_pe = np.array([_brings_to_pe(config) for config in routes.configs] + [False])
            colors |= {color for color, grid in routes.grid.items() if to_pe[grid[row.y, row.x]].any()}
        return sorted(colors)

    def _depth(self, depths: dict[Any, int], id: int) -> int:
        return depths.get(f"q{id}") or min(depths.values())

    def _named_outputs(self) -> tuple[int, ...]:
        """Output queues that any DSD of the image names."""
        outputs = self._named(Dsd.FABOUT)
        found = np.unique((outputs >> 16) & 0xFF).tolist()
        return tuple(q for q in found if f"q{q}" in self.fabric.output_depth_words)

    def _named(self, kind: Dsd) -> Cells:
        """Constants of the image that may be packed DSDs of a kind."""
        bits = np.concatenate([self.image.constants.ravel(), self.image.lanes.ravel()])
        return bits[(bits >> 48) & 15 == kind]

    def _uses_dsrs(self) -> bool:
        """Whether a program loads or names a DSR; one that is named only is found not to be loaded when it is used."""
        loads = bool((self.image.vectors[:, V.OP] == VectorOp.LOAD_DSR).any())
        return loads or any(row.dsrs for row in self.image.classes) or len(self._named(Dsd.DSR)) > 0

    def _routers(self) -> None:
        """One row for each color that a PE's router is configured for: where its buffers begin, and of what config."""
        state, routes = self.state, self.state.program.routes
        self.colors = sorted(routes.grid)
        self.router_of = np.full((max(len(self.colors), 1), state.pes), -1, np.int64)
        masks = self._direction_masks()
        rows: list[Cells] = []
        configs: list[Cells] = []
        count = 0
        for slot, color in enumerate(self.colors):
            grid = routes.grid[color]
            given = grid[state.y, state.x]
            pes = np.flatnonzero(given >= 0)
            self.router_of[slot, pes] = count + np.arange(len(pes))
            count += len(pes)
            rows.append(pes)
            configs.append(given[pes].astype(np.int64))
        self.router_pe = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        self.router_config = np.concatenate(configs) if configs else np.zeros(0, np.int64)
        self.router_color = (
            np.repeat(np.array(self.colors, np.int64), [len(r) for r in rows]) if rows else self.router_pe
        )
        self.directions = masks[self.router_config]
        buffers = np.array([bin(m).count("1") for m in range(32)])[self.directions]
        self.first_buffer = np.concatenate([[0], np.cumsum(buffers)])
        state.router_count = count

    def _knows_registers(self) -> bool:
        """Whether a program of WSE-2 has a number that may be the address of a router's register (a word or a byte)."""
        numbers = self.image.constants
        words, bytes = numbers - f.ROUTES_AT // 2, numbers - f.ROUTES_AT
        end = f.SWITCHES_AT - f.ROUTES_AT + 2 * f.ROUTER_REGISTERS
        return not self.wse3 and bool((((words >= 0) & (words < end // 2)) | ((bytes >= 0) & (bytes < end))).any())

    def _uses(self, op: MachineOp) -> bool:
        """Whether any program has this operation of the machine."""
        code = self.image.code
        return bool(((code[:, 0] == Op.MACHINE) & (code[:, 1] == op)).any())

    def _direction_masks(self) -> Cells:
        """Of each configuration: the directions that it may ever receive from; all, where programs change routes."""
        changing = self._uses(MachineOp.ROUTES_RESET) or self._uses(MachineOp.SWITCH_SET) or self._knows_registers()
        masks: list[int] = []
        for config in self.state.program.routes.configs:
            mask = config.rx
            for position in config.positions:
                mask |= position.rx
            masks.append(31 if changing else mask)
        return np.array(masks or [0], np.int64)

    def _call_depth(self) -> int:
        """Frames of the deepest chain of calls, by what the code shows."""
        starts = sorted((fn.entry, k) for k, fn in enumerate(self.image.functions))
        code, entries = self.image.code, np.array([s for s, _ in starts])
        owner = {k: place for place, (_, k) in enumerate(starts)}
        callees: list[set[int]] = [set() for _ in starts]
        for pc in np.flatnonzero(np.isin(code[:, 0], (int(Op.CALL), int(Op.VECTOR)))).tolist():
            caller = int(np.searchsorted(entries, pc, "right")) - 1
            row = int(code[pc, 3])
            target = row if code[pc, 0] == Op.CALL else int(self.image.vectors[row, V.CALLBACK])
            if target >= 0 and target in owner and caller >= 0:
                callees[caller].add(owner[target])
        depth = chain_registers([sorted(c) for c in callees], [1] * len(starts))
        pointers = POINTER_CALLS if (code[:, 0] == Op.CALL_AT).any() else 0
        return max(depth, default=1) + pointers

    # ---- where it lies --------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        image, pes = self.image, self.state.pes
        self._place(f.A_CODE, len(image.code) * f.CODE_SIZE)
        self._place(f.A_VECTORS, image.vectors.size)
        self._place(f.A_CONSTANTS, image.constants.size)
        self._place(f.A_LANES, image.lanes.size)
        self._place(f.A_SHAPES, image.shapes.size)
        self._place(f.A_FUNCTIONS, len(image.functions) * f.FUNCTION_SIZE)
        self._place(f.A_CLASSES, len(image.classes) * f.CLASS_SIZE)
        self._place(f.A_TASKS, len(image.classes) * (3 * f.TASK_IDS + f.COLORS + 16))
        self._place(f.A_SYMBOLS, 2 * sum(len(row.symbols) for row in image.classes))
        self._place(f.A_FILTERS, max(len(self.state.program.routes.configs), 1) * f.FILTER_SIZE)
        self.fifo_rows = self.size
        self.size += sum(len(row.fifos) for row in image.classes) * f.FIFO_ROW
        self._place(f.A_PE_WHEEL, f.WHEEL)
        self._place(f.A_ROUTER_WHEEL, f.WHEEL)
        self._place(f.A_SLOT, f.COLORS + 1)
        self._place(f.A_PES, pes * f.PE_SIZE)
        self._place(f.A_NEAR, pes * 4)
        self._place(f.A_ROUTER_OF, self.router_of.size)
        self._place(f.A_ROUTERS, self.state.router_count * f.ROUTER_SIZE)
        self._place(f.A_BUFFERS, int(self.first_buffer[-1]) * self.buffer_size)
        self.slots_of = self.size = _lines(self.size)
        self.size += pes * 2 * f.STREAMS
        self._place(f.A_IN, self.state.in_count * self.queue_size)
        self._place(f.A_OUT, self.state.out_count * self.queue_size)
        depth = self._call_depth()
        self.registers = self.size
        self.register_counts = [row.registers + (depth + 2) * 2 for row in image.classes]
        self.size += sum(n * row.count for n, row in zip(self.register_counts, image.classes, strict=True))
        self.dsr_cells = 3 * f.DSRS_OF_A_FILE * f.DSR_SIZE if self._uses_dsrs() else 0
        self.dsrs = self.size
        self.size += self.dsr_cells * pes
        self.fifos = self.size
        self.size += sum(len(row.fifos) * row.count for row in image.classes) * f.FIFO_SIZE

    def _header(self, trace: bool) -> None:
        cells, cost = self.state.cells, self.cost
        for at, value in {
            f.G_HOP: cost.hop, f.G_RAMP: cost.ramp, f.G_START: cost.task_start, f.G_MAP_ELEMENT: cost.map_element,
            f.G_HOST_COMMAND: cost.host_command, f.G_DEPTH: self.fabric.router_depth_words, f.G_SLOTS: self.slots,
            f.G_WSE3: int(self.wse3), f.G_BUF: self.buffer_size, f.G_QUEUE: self.queue_size,
            f.G_PES: self.state.pes,
            f.G_FUNCTIONS: len(self.image.functions),
            f.G_BINDS: int(self._uses(MachineOp.QUEUE_BIND)), f.G_TRACE: int(trace), f.G_MAX: 1 << 60,
        }.items():  # fmt: skip
            cells[at] = value

    # ---- what stands there ------------------------------------------------------------------------------

    def _put(self, header: int, values: Any) -> None:
        flat = np.asarray(values, np.int64).ravel()
        start = self.at[header]
        self.state.cells[start : start + len(flat)] = flat

    def _tables(self) -> None:
        image, cells = self.image, self.state.cells
        code = np.zeros((len(image.code), f.CODE_SIZE), np.int64)
        code[:, :6], code[:, f.C_COST], code[:, f.C_SPAN] = image.code, image.cost, image.span_of
        self._put(f.A_CODE, code)
        self._put(f.A_VECTORS, image.vectors)
        self._put(f.A_CONSTANTS, image.constants)
        self._put(f.A_LANES, image.lanes)
        self._put(f.A_SHAPES, image.shapes)
        self._put(f.A_FUNCTIONS, [
            (fn.entry, fn.registers, len(fn.params), sum(int(k) << (4 * i) for i, k in enumerate(fn.params[:15])))
            for fn in image.functions
        ])  # fmt: skip
        self._put(f.A_PE_WHEEL, np.full(f.WHEEL, -1))
        self._put(f.A_ROUTER_WHEEL, np.full(f.WHEEL, -1))
        self._put(f.A_SLOT, [self.colors.index(c) if c in self.colors else -1 for c in range(f.COLORS + 1)])
        self._put(f.A_ROUTER_OF, self.router_of)
        classes = self.state.table(f.A_CLASSES, len(image.classes), f.CLASS_SIZE)
        per_class = 3 * f.TASK_IDS + f.COLORS + 16
        tasks = self.state.table(f.A_TASKS, len(image.classes), per_class)
        tasks[:] = -1
        symbols = 0
        for k, row in enumerate(image.classes):
            for task in row.tasks:
                tasks[k, {"data": 0, "local": f.TASK_IDS, "control": 2 * f.TASK_IDS}[task.kind] + task.id] = (
                    task.function
                )
            for color, fn in row.teardown.items():
                tasks[k, 3 * f.TASK_IDS + color] = fn
            for queue, fn in row.empty_queue.items():
                tasks[k, 3 * f.TASK_IDS + f.COLORS + queue] = fn
            first = k * per_class
            classes[k, f.K_TASKS], classes[k, f.K_CONTROL] = first, first + 2 * f.TASK_IDS
            classes[k, f.K_HANDLERS] = self.at[f.A_TASKS] + first + 3 * f.TASK_IDS
            classes[k, f.K_EMPTY] = classes[k, f.K_HANDLERS] + f.COLORS
            classes[k, f.K_FIFOS], classes[k, f.K_FIFO_COUNT] = self.fifo_rows, len(row.fifos)
            for fifo in row.fifos:
                values = (fifo.address, int(fifo.element), fifo.count, fifo.activate_push, fifo.activate_pop)
                cells[self.fifo_rows : self.fifo_rows + f.FIFO_ROW] = values
                self.fifo_rows += f.FIFO_ROW
            ends = sorted((s.address, s.address + s.bytes) for s in row.symbols)
            start = self.at[f.A_SYMBOLS] + symbols
            cells[start : start + 2 * len(ends)] = np.array(ends, np.int64).ravel()
            classes[k, f.K_SYMBOLS], classes[k, f.K_SYMBOL_COUNT], classes[k, f.K_FIRST] = symbols, len(ends), row.first
            symbols += 2 * len(ends)

    def _fill_routers(self) -> None:
        """Switches, filters and state of every configured router, from its configuration."""
        configs = self.state.program.routes.configs
        rows = np.zeros((max(len(configs), 1), f.ROUTER_SIZE), np.int64)
        filters = self.state.table(f.A_FILTERS, max(len(configs), 1), f.FILTER_SIZE)
        for k, config in enumerate(configs):
            sides = [(config.rx, config.tx), *((p.rx, p.tx) if p.valid else (0, 0) for p in config.positions)]
            rows[k, f.R_RX] = sum(rx << (8 * i) for i, (rx, _) in enumerate(sides))
            rows[k, f.R_TX] = sum(tx << (8 * i) for i, (_, tx) in enumerate(sides))
            rows[k, f.R_VALID] = 1 | sum(p.valid << (i + 1) for i, p in enumerate(config.positions))
            rows[k, f.R_POSITION], rows[k, f.R_RING] = config.current, config.ring
            rows[k, f.R_POP], rows[k, f.R_TORN] = POP_MODES.index(config.pop), config.teardown
            rows[k, f.R_SWAP_X], rows[k, f.R_SWAP_Y], rows[k, f.R_FILTER] = config.swap_x, config.swap_y, -1
            if config.filter is not None:
                rows[k, f.R_FILTER], filters[k] = k, _filter_row(config.filter)
                rows[k, f.R_COUNT] = filters[k, f.X_INIT]
        routers = self.state.routers
        routers[:] = rows[self.router_config]
        routers[:, f.R_COLOR] = self.router_color
        place = self.at[f.A_BUFFERS] + self.first_buffer[:-1] * self.buffer_size
        for direction in range(5):
            taken = (self.directions >> direction & 1) == 1
            routers[:, f.R_BUFFERS + direction] = np.where(taken, place, -1)
            place = place + taken * self.buffer_size
        self._connect_routers(routers)

    def _fill_near(self) -> None:
        """Neighbours of each PE; -1 beyond the rectangle."""
        state = self.state
        near = state.table(f.A_NEAR, state.pes, 4)
        edged = np.pad(state.pe_at, 1, constant_values=-1)
        for direction, (dx, dy) in enumerate(((-1, 0), (1, 0), (0, 1), (0, -1))):
            near[:, direction] = edged[state.y + 1 + dy, state.x + 1 + dx]

    def _connect_routers(self, routers: Cells) -> None:
        """The buffer of the neighbour in each direction, of the color under which words get there."""
        state = self.state
        slots = np.full(f.COLORS, len(self.router_of), np.int64)
        slots[self.colors] = np.arange(len(self.colors))
        rows_of = np.vstack([self.router_of, np.full((1, state.pes), -1, np.int64)])
        near = state.table(f.A_NEAR, state.pes, 4)
        for direction in range(4):
            swap = routers[:, f.R_SWAP_X if direction < 2 else f.R_SWAP_Y] != 0
            onward = np.where(swap, self.router_color ^ 1, self.router_color)
            neighbour = near[self.router_pe, direction]
            rows = rows_of[slots[onward], neighbour]
            there = (neighbour >= 0) & (rows >= 0)
            routers[:, f.R_NEXT + direction] = np.where(there, routers[rows, f.R_BUFFERS + (direction ^ 1)], -1)

    def _fill_pes(self) -> None:
        state, table = self.state, self.state.pe_table
        table[:, f.P_CLASS], table[:, f.P_LANE] = state.class_of, np.arange(state.pes)
        table[:, f.P_X], table[:, f.P_Y] = state.x, state.y
        for column in (
            f.P_OPS, f.P_MAP, f.P_WAKE, f.P_WAKE_NEXT, f.P_WAKE_PREV, f.P_ROUTER_WAKE, f.P_ROUTER_NEXT, f.P_ROUTER_PREV,
            f.P_LAST_OUT, f.P_LAST_PASSED, f.P_LAUNCH, f.P_LAUNCH_LAST, f.P_HOST_IN, f.P_HOST_OUT, f.P_FREE_OP,
        ):  # fmt: skip
            table[:, column] = -1
        table[:, f.P_RANDOM], table[:, f.P_ENDING] = RANDOM_SEED, f.NEVER
        table[:, f.P_LAST_ID] = f.TASK_IDS - 1
        registers, ins, outs, fifos = self.registers, 0, 0, self.fifos
        for k, row in enumerate(self.image.classes):
            part, lanes = table[row.first : row.first + row.count], np.arange(row.count)
            part[:, f.P_MEMORY] = state.bases[k] + lanes * state.strides[k]
            part[:, f.P_BYTES] = row.memory_bytes
            part[:, f.P_SCAN] = any(task.kind != "local" for task in row.tasks)
            size = self.register_counts[k]
            part[:, f.P_REGISTERS] = registers + lanes * size
            part[:, f.P_REGISTERS_END] = part[:, f.P_REGISTERS] + size
            registers += size * row.count
            n_in, n_out = len(self.queues[k][0]), len(self.queues[k][1])
            part[:, f.P_INS], part[:, f.P_OUTS] = n_in, n_out
            part[:, f.P_IN], part[:, f.P_OUT] = ins + lanes * n_in, outs + lanes * n_out
            ins, outs = ins + n_in * row.count, outs + n_out * row.count
            part[:, f.P_FIFOS] = fifos + lanes * len(row.fifos) * f.FIFO_SIZE
            rings = state.cells[fifos : fifos + row.count * len(row.fifos) * f.FIFO_SIZE].reshape(-1, f.FIFO_SIZE)
            rings[:, f.FF_PUSHED] = rings[:, f.FF_POPPED] = -1
            fifos += row.count * len(row.fifos) * f.FIFO_SIZE
            part[:, f.P_ACTIVE] = _bits(row.active)
            part[:, f.P_BLOCKED] = _bits(id for kind, id in row.blocked if kind != BlockKind.MICROTHREAD)
            part[:, f.P_BLOCKED_UT] = _bits(id for kind, id in row.blocked if kind == BlockKind.MICROTHREAD)
        table[:, f.P_SLOTS] = self.slots_of + np.arange(state.pes) * 2 * f.STREAMS
        table[:, f.P_DSRS] = self.dsrs + np.arange(state.pes) * self.dsr_cells
        self._load_dsrs()
        torn = state.routers[state.routers[:, f.R_TORN] != 0]
        pes = self.router_pe[state.routers[:, f.R_TORN] != 0]
        np.bitwise_or.at(table[:, f.P_TORN], pes, np.int64(1) << torn[:, f.R_COLOR])

    def _load_dsrs(self) -> None:
        """What comptime blocks load into DSRs."""
        for row in self.image.classes:
            for load in row.dsrs:
                file, number = load.dsr >> 8 & 0xFF, load.dsr & 0xFF
                starts = self.state.pe_table[row.first : row.first + row.count, f.P_DSRS]
                places = starts + (file * f.DSRS_OF_A_FILE + number) * f.DSR_SIZE
                self.state.cells[places + f.S_DSD] = load.dsd
                for column, value in (
                    (f.S_SAVE, load.save_address), (f.S_ASYNC, load.is_async), (f.S_ACTIVATE, load.activate),
                    (f.S_UNBLOCK, load.unblock), (f.S_UNBLOCK_KIND, load.unblock_kind),
                    (f.S_CONTROL, load.on_control), (f.S_UT, load.microthread),
                ):  # fmt: skip
                    self.state.cells[places + column] = value

    def _operations(self, traced: int) -> None:
        state = self.state
        state.ops = np.zeros(0, np.int64)
        state.logs = np.zeros(64 * f.LOG_SIZE, np.int64)
        state.traces = np.zeros(traced * f.TRACE_SIZE, np.int64)
        # More are made when they are needed, twice as many each time.
        grow_operations(state, min(256 + 2 * state.pes, _FIRST_OPERATIONS))


def _fill_queues(state: State, queues: list[tuple[Queues, Queues]], queue_size: int, buffers: int) -> None:
    """What stands in queues and the buffers of routers at first. `queues` are (id, color, depth) of each class's inputs
    and outputs."""
    state.table(f.A_BUFFERS, buffers, int(state.cells[f.G_BUF]))[:, f.B_POPPED] = -1
    for side, header, count in ((0, f.A_IN, state.in_count), (1, f.A_OUT, state.out_count)):
        table, start = state.table(header, count, queue_size), 0
        for both, row in zip(queues, state.image.classes, strict=True):
            part = table[start : start + len(both[side]) * row.count].reshape(row.count, len(both[side]), queue_size)
            for k, (id, color, depth) in enumerate(both[side]):
                part[:, k, f.Q_ID], part[:, k, f.Q_COLOR] = id, -1 if color == NO_COLOR else color
                part[:, k, f.Q_DEPTH], part[:, k, f.Q_POPPED] = depth, -1
            start += len(both[side]) * row.count


def _lines(cells: int) -> int:
    """The number of cells, up to whole lines of the cache."""
    return -(-cells // f.LINE) * f.LINE


def aligned(count: int) -> Cells:
    """`count` zeros that begin with a line of the cache."""
    made = np.zeros(count + f.LINE, np.int64)
    first = -(made.ctypes.data // made.itemsize) % f.LINE
    return made[first : first + count]


def grow_operations(state: State, count: int) -> None:
    """Room for `count` operations in flight; the first record is for those that are over at once."""
    before = len(state.ops) // f.OP_SIZE
    grown = aligned(count * f.OP_SIZE)
    grown[: len(state.ops)] = state.ops
    first = max(before, 1)
    rows = grown.reshape(-1, f.OP_SIZE)
    rows[first:, f.O_NEXT] = (np.arange(first, count) + 1) * f.OP_SIZE
    rows[-1, f.O_NEXT] = state.cells[f.G_FREE_OP] if before else -1
    state.cells[f.G_FREE_OP] = first * f.OP_SIZE
    state.cells[f.G_FREE_OPS] += count - first
    state.ops = grown


def _brings_to_pe(config: ColorConfig) -> bool:
    """Whether any position of a color's configuration sends to the PE."""
    return any(sides.tx >> DIRECTIONS.index("RAMP") & 1 for sides in (config, *config.positions))


def _filter_row(given: Filter) -> list[int]:
    row = [0] * f.FILTER_SIZE
    row[f.X_KIND] = FILTER_KINDS.index(given.kind)
    for name, value in given.fields:
        row[FILTER_COLUMNS[name]] = value
    return row


def _bits(ids: Any) -> int:
    """A mask of ids, as a signed number of 64 bits."""
    mask = 0
    for id in ids:
        mask |= 1 << int(id)
    return mask - (1 << 64) if mask >> 63 else mask
