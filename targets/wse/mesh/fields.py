"""Where things lie in the arrays of a run: the header, and the columns of its tables.

One array of 64-bit integers (`cells`) holds everything but memory, operations in flight and logs, because compiled
functions take few arrays fast and many slowly. The header has a few numbers and the place of each table. Must not know
what the numbers mean for a program; docs/decisions/0011-task-ir.md tells that.
"""

# ---- header --------------------------------------------------------------------------------------
# Time, why the kernel came back, and the fault: code, PE, instruction (or -1), and three numbers.
(G_NOW, G_STATUS, G_FAULT, G_FAULT_PE, G_FAULT_PC, G_FAULT_A, G_FAULT_B, G_FAULT_C) = range(8)
# Limits and conditions.
(G_MAX, G_UNTIL, G_OPEN, G_MISSING, G_UNSENT) = range(8, 13)
# Costs and depths.
(G_HOP, G_RAMP, G_START, G_MAP_ELEMENT, G_HOST_COMMAND, G_DEPTH, G_SLOTS, G_WSE3) = range(13, 21)
# Sizes of records that depend on depths.
(G_BUF, G_QUEUE, G_PES, G_TRACE, G_FREE_OP, G_FREE_OPS, G_LOG, G_TRACED, G_FUNCTIONS, G_LAST) = range(21, 31)
# Whether programs bind queues while they run: words of a color without a queue then wait for one.
G_BINDS = 31
# Places of tables.
(A_CODE, A_VECTORS, A_CONSTANTS, A_LANES, A_SHAPES, A_FUNCTIONS, A_CLASSES, A_TASKS, A_PES, A_PE_WHEEL) = range(32, 42)
(A_ROUTER_WHEEL, A_SLOT, A_ROUTER_OF, A_ROUTERS, A_BUFFERS, A_IN, A_OUT, A_NEAR, A_FILTERS, A_LAUNCHES) = range(42, 52)
(A_SYMBOLS, A_PORTS, A_WORDS_OF) = range(52, 55)
# Sizes of the arrays of logs and traces.
(G_LOG_ROOM, G_TRACE_ROOM) = range(56, 58)
HEADER = 64
COLORS = 32
# Cells of a line of the host's cache: tables and records begin with one.
LINE = 8
WHEEL = 1024
# A time that does not come.
NEVER = 1 << 62

# Why a kernel comes back.
(RUNNING, MET, QUIET, BUDGET, FAULT, GROW) = range(6)

# ---- PEs -----------------------------------------------------------------------------------------
(
    P_STATE, P_TIME, P_OPS, P_MAP, P_ENDING, P_STREAMS, P_ACTIVE, P_BLOCKED,
    P_WAKE, P_WAKE_NEXT, P_WAKE_PREV, P_LAUNCH, P_SCAN, P_TO_HANDLE, P_EMPTY, P_BLOCKED_UT,
    P_MEMORY, P_BYTES, P_CLASS, P_ELEMENTS, P_WAIT_IN, P_WAIT_OUT, P_IN, P_INS,
    P_ROUTER_WAKE, P_ROUTER_NEXT, P_ROUTER_PREV, P_LAST_OUT, P_LAST_PASSED, P_BUSY_OUT, P_HOST_IN, P_HOST_OUT,
    P_HEADS, P_HEADS_E, P_HEADS_S, P_HEADS_N, P_HEADS_RAMP, P_OUT, P_OUTS, P_FLUSH,
    P_LINKS, P_LINKS_E, P_LINKS_S, P_LINKS_N, P_LINKS_RAMP, P_LANE, P_X, P_Y,
    P_PC, P_FP, P_FN, P_REGISTERS, P_REGISTERS_END, P_VECTOR_FREE, P_OWES, P_HIGH,
    P_BUSY, P_WAIT_FIFO, P_TASK, P_TASK_START, P_LAST_ID, P_LAUNCH_LAST, P_CLOCK, P_CLOCK_ON,
    P_RANDOM, P_CARRY, P_TORN, P_DSRS, P_FIFOS, P_UTS, P_FREE_OP, P_SLOTS,
) = range(72)  # fmt: skip
PE_SIZE = 72
# At P_SLOTS, of operations that move words or use FIFOs in the order of their issue: when to look at each, then their
# records.
STREAMS = 16
# What the main thread does.
(FREE, BUSY, IN_OPERATION, IN_MAP) = range(4)

# ---- classes: places of their tables, in the order of the ids -------------------------------------
(K_TASKS, K_HANDLERS, K_EMPTY, K_FIFOS, K_FIFO_COUNT, K_SYMBOLS, K_SYMBOL_COUNT, K_CONTROL, K_FIRST, K_STACK) = range(
    10
)
CLASS_SIZE = 12
# Tasks of a class: data tasks and local tasks by id, then control tasks; -1 where there is none.
TASK_IDS = 64

# ---- functions -----------------------------------------------------------------------------------
(F_ENTRY, F_REGISTERS, F_PARAMS, F_KINDS) = range(4)
FUNCTION_SIZE = 4

# ---- code ----------------------------------------------------------------------------------------
(C_OP, C_KIND, C_D, C_A, C_B, C_C, C_COST, C_SPAN) = range(8)
CODE_SIZE = 8

# ---- routers, one row for each configured color ----------------------------------------------------
(
    R_COLOR, R_RX, R_TX, R_VALID, R_POSITION, R_RING, R_POP, R_TORN, R_FILTER, R_COUNT, R_LIMIT,
    R_SWAP_X, R_SWAP_Y, R_WORDS,
) = range(14)  # fmt: skip
# Places of the buffers of each direction, and of the neighbours' buffers that words go on to; -1 without one.
R_BUFFERS, R_NEXT = 14, 19
ROUTER_SIZE = 24
(B_HEAD, B_COUNT, B_POPPED) = range(3)
B_ITEMS = 3
(NO_POP, ALWAYS_POP, POP_ON_ADVANCE, POP_ON_ADVANCE_NOP) = range(4)
# Filters: kind 0 counter, 1 sparse counter, 2 range.
(X_KIND, X_DATA, X_CONTROL, X_INIT, X_LIMIT1, X_LIMIT2, X_MAX, X_MIN_IDX, X_MAX_IDX, X_FILTER_CONTROL) = range(10)
FILTER_SIZE = 10

# ---- queues: a ring of words, each with its time ------------------------------------------------------
(Q_ID, Q_COLOR, Q_DEPTH, Q_HEAD, Q_COUNT, Q_POPPED, Q_USER, Q_SLOT) = range(8)
Q_ITEMS = 8
# A word in flight: 32 bits of data, then these.
CONTROL_BIT = 1 << 32
POP_SHIFT = 33
COLOR_SHIFT = 40

# ---- host ports: words of one PE and color, in or out ----------------------------------------------
(H_NEXT, H_PE, H_COLOR, H_DIRECTION, H_POSITION, H_COUNT, H_PLACE, H_SPARE) = range(8)
PORT_SIZE = 8

# ---- launches waiting at a PE ------------------------------------------------------------------------
(L_NEXT, L_TIME, L_FUNCTION, L_ARGS) = range(4)

# ---- operations in flight (array `ops`); what each cycle looks at comes first ------------------------
(
    O_NEXT, O_TIME, O_ENDING, O_N, O_K, O_GROUP, O_REASON, O_UT, O_STREAMS, O_SLOT, O_PE, O_OP, O_KIND, O_SOURCE,
    O_COUNT, O_OUTPUT, O_INDEX, O_PC, O_ROW, O_MAIN, O_ACTIVATE, O_UNBLOCK, O_UNBLOCK_KIND, O_ON_CONTROL, O_D,
    O_ISSUED, O_FN, O_FP, O_PARENT, O_ADVANCE, O_RESULT, O_CALLBACK,
) = range(32)  # fmt: skip
O_OPERANDS = 32
# Of each operand: what it is, address / bits / place of the queue, stride in bytes, Kind, flags, extent, row of
# `shapes`, and the DSR it came from + 1.
(D_TYPE, D_AT, D_STRIDE, D_KIND, D_FLAGS, D_EXTENT, D_SHAPE, D_DSR) = range(8)
OPERAND_SIZE = 8
OP_SIZE = 96
(SCALAR, MEMORY, MEMORY4, INPUT, OUTPUT, QUEUE) = range(6)
(NO_REASON, NO_INPUT, NO_ROOM, FIFO_EMPTY, FIFO_FULL) = range(5)

# FIFOs of a PE.
(FF_HEAD, FF_COUNT, FF_PUSHED, FF_POPPED, FF_READER, FF_WRITER) = range(6)
FIFO_SIZE = 6
# FIFOs of a class.
(FC_ADDRESS, FC_KIND, FC_CAPACITY, FC_PUSH, FC_POP) = range(5)
FIFO_ROW = 5
# DSRs of a PE: the DSD, whether it keeps its end, and settings that the operation takes over.
(S_DSD, S_SAVE, S_ASYNC, S_ACTIVATE, S_UNBLOCK, S_UNBLOCK_KIND, S_CONTROL, S_UT) = range(8)
DSR_SIZE = 8
DSRS_OF_A_FILE = 64

# ---- logs (array `logs`): cycle, PE, kind, and four numbers -----------------------------------------
LOG_SIZE = 7
(LOG_TEXT, LOG_NUMBER, LOG_TRACE_TEXT, LOG_TRACE_NUMBER) = range(4)
TRACE_SIZE = 5
(TRACE_TASK, TRACE_OPERATION, TRACE_SENT, TRACE_RECEIVED) = range(4)

# ---- faults ------------------------------------------------------------------------------------------
(
    NO_FAULT, UNSET, OUTSIDE, INDEX, DIVISION, ASSERTION, TWO_USERS, NO_COLOR_OF_QUEUE, NO_TAKER, NO_ROUTE, TWO_WAYS,
    DEPTH, NO_QUEUE, NO_TASK, ENDLESS, MICROTHREAD_USED, TOO_WIDE, NO_FUNCTION, SHIFT, NO_CONTROL_TASK, LEAVES_SYMBOL,
    TOO_MANY,
) = range(22)  # fmt: skip

# ---- routers in memory ---------------------------------------------------------------------------------
# Registers of routers in the memory of a PE of WSE-2 (reference_registers): byte addresses, and how many of each kind.
ROUTES_AT, SWITCHES_AT, ROUTER_REGISTERS = 0xFE40, 0xFE80, 24
