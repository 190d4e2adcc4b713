"""Parts of a program that no word can pass between, and which of them the batched engine may run.

A part is PEs that routes connect, whatever position their switches take. What is refused of one PE leaves its whole
part to the reference. Must not know states, nor how anything runs.
"""

# Compiled code: numba's integers are not those that type checkers know.
# pyright: reportReturnType=false, reportArgumentType=false

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..csl.routes import ColorConfig, Routes
from .batched_routes import static_refusal
from .ir import BlockKind, ClassRow, Image, MachineOp, Op, V
from .jit import inner_kernel, lean_kernel

# Operations of the machine that a group can do, and those after which words may go another way.
_DOABLE = {
    MachineOp.COORDINATE, MachineOp.UNBLOCK_COMMANDS, MachineOp.TIMESTAMP_WORD, MachineOp.TIMESTAMP_ENABLE,
    MachineOp.TIMESTAMP_RESET,
}  # fmt: skip
_REROUTING = {MachineOp.ROUTES_RESET, MachineOp.SWITCH_SET}
# Direction -> step in y and x. West, east, south, north.
_STEPS = ((0, -1), (0, 1), (1, 0), (-1, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Runnable:
    """`pes` tells which PEs the batched engine may run, `why` why not the others (None: it may run all)."""

    pes: NDArray[np.bool_]
    why: str | None


@lru_cache(maxsize=8)
def runnable(image: Image, routes: Routes) -> Runnable:
    """Which PEs of a program the batched engine may run, whatever happens."""
    place = np.full(image.pes, 0, np.int64)
    width = next((grid.shape[1] for grid in routes.grid.values()), 1 + max(int(r.x.max()) for r in image.classes))
    for row in image.classes:
        place[row.first : row.first + row.count] = row.y * width + row.x
    refused = np.zeros(image.pes, np.bool_)
    reasons: list[str] = []
    for reason, pes in [*_of_classes(image), *_of_colors(routes, place)]:
        if pes.any():
            refused |= pes
            reasons.append(reason)
    if not reasons:
        return Runnable(~refused, None)
    labels = _components(image, routes, place)
    return Runnable(~np.isin(labels, labels[refused]), reasons[0])


def _of_classes(image: Image) -> list[tuple[str, NDArray[np.bool_]]]:
    made: list[tuple[str, NDArray[np.bool_]]] = []
    for row in image.classes:
        reason = _class_refusal(row) or _code_refusal(image, row)
        if reason:
            pes = np.zeros(image.pes, np.bool_)
            pes[row.first : row.first + row.count] = True
            made.append((reason, pes))
    return made


def _class_refusal(row: ClassRow) -> str | None:
    if any(task.kind != "local" for task in row.tasks):
        return "data or control tasks"
    if row.fifos:
        return "FIFOs"
    if row.teardown or row.empty_queue:
        return "handlers of queues or colors"
    if any(kind != BlockKind.TASK for kind, _ in row.blocked):
        return "blocked queues or colors"
    return None


def _code_refusal(image: Image, row: ClassRow) -> str | None:
    """Operations of the machine in what a class can reach."""
    code = image.code[_reached(image, row)]
    for kind in np.unique(code[code[:, 0] == Op.MACHINE, 1]).tolist():
        if MachineOp(kind) not in _DOABLE:
            return f"`{MachineOp(kind).name.lower()}` of the machine"
    return None


def _reached(image: Image, row: ClassRow) -> NDArray[np.int64]:
    """The instructions of all functions that tasks and commands of a class can call."""
    starts = np.array([function.entry for function in image.functions])
    ends = np.array([starts[starts > s].min(initial=len(image.code)) for s in starts])
    waiting = [task.function for task in row.tasks] + list(row.functions.values())
    if (image.code[:, 0] == Op.CALL_AT).any():
        waiting = list(range(len(image.functions)))
    seen: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number in seen or number < 0:
            continue
        seen.add(number)
        part = image.code[starts[number] : ends[number]]
        waiting += part[part[:, 0] == Op.CALL, 3].tolist()
        waiting += image.vectors[part[part[:, 0] == Op.VECTOR, 3], V.CALLBACK].tolist()
    parts = [np.arange(int(starts[k]), int(ends[k]), dtype=np.int64) for k in sorted(seen)]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _of_colors(routes: Routes, place: NDArray[np.int64]) -> list[tuple[str, NDArray[np.bool_]]]:
    made: list[tuple[str, NDArray[np.bool_]]] = []
    for color in sorted(routes.grid):
        given = routes.grid[color].ravel()[place]
        configs: list[int] = np.unique(given).tolist()
        for k in configs:
            reason = static_refusal(routes.configs[k]) if k >= 0 else None
            if reason:
                made.append((f"color {color} has {reason}", given == k))
    return made


# ---- parts ----------------------------------------------------------------------------------------------------


def _components(image: Image, routes: Routes, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each PE, as the number of one of its PEs."""
    machine = image.code[image.code[:, 0] == Op.MACHINE, 1]
    if np.isin(machine, [int(op) for op in _REROUTING]).any():
        return np.zeros(image.pes, np.int64)
    parent = np.arange(image.pes)
    goes = np.array([_goes(config) for config in routes.configs] + [0], np.int64)
    for grid in routes.grid.values():
        height, width = grid.shape
        pe_at = np.full((height + 2, width + 2), -1, np.int64)
        pe_at[place // width + 1, place % width + 1] = np.arange(image.pes)
        sides = np.where(grid >= 0, goes[grid], 0)
        for direction, (dy, dx) in enumerate(_STEPS):
            y, x = np.nonzero(sides >> direction & 1)
            join(parent, pe_at[y + 1, x + 1], pe_at[y + 1 + dy, x + 1 + dx])
    return roots(parent)


def _goes(config: ColorConfig) -> int:
    """The directions of all links that any position of a router uses for a color."""
    sides = config.rx | config.tx
    for position in config.positions:
        sides |= position.rx | position.tx
    return sides & 15


@inner_kernel
def _root(parent: Any, k: int) -> int:
    while parent[k] != k:
        parent[k] = parent[parent[k]]
        k = parent[k]
    return k


@lean_kernel
def join(parent: Any, a: Any, b: Any) -> None:
    """Let a[k] and b[k] be in one part for all k; -1 is nothing."""
    for k in range(len(a)):
        if a[k] >= 0 and b[k] >= 0:
            parent[_root(parent, b[k])] = _root(parent, a[k])


@lean_kernel
def roots(parent: Any) -> Any:
    """`parent` with the part of each in its place."""
    for k in range(len(parent)):
        parent[k] = _root(parent, k)
    return parent
