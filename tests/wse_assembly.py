"""Images written by hand: a row of PEs of a few classes, for tests of the engines' rules without CSL."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from tdslc.compiler.source import SourceFile
from tdslc.targets.wse.chip import Wafer, load
from tdslc.targets.wse.csl.routes import ColorConfig, Routes
from tdslc.targets.wse.mesh import reference
from tdslc.targets.wse.mesh.ir import ClassRow, Function, Image, Kind, Op, SymbolRow, V
from tdslc.targets.wse.mesh.state import Reason, State, Until

SPAN = SourceFile("hand.csl", "by hand").span()


@dataclass
class Assembly:
    """PEs of a row, from the west: `pe` adds some of one class, which run `code` when they are launched."""

    width: int = 0
    code: list[tuple[int, ...]] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    constants: list[int] = field(default_factory=list)
    vectors: list[list[int]] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    classes: list[ClassRow] = field(default_factory=list)
    configs: list[tuple[int, int, ColorConfig]] = field(default_factory=list)

    def op(self, op: Op, kind: int = 0, d: int = -1, a: int = -1, b: int = -1, c: int = -1, cost: int = 0) -> None:
        self.code.append((int(op), int(kind), d, a, b, c))
        self.cost.append(cost)

    def constant(self, d: int, bits: int) -> None:
        self.constants.append(bits)
        self.op(Op.CONST, d=d, a=len(self.constants) - 1)

    def vector(self, columns: dict[V, int], d: int, cost: int) -> None:
        row = [-1] * int(V.SIZE)
        for column, value in {
            V.ASYNC: 0,
            V.ON_CONTROL: 0,
            V.HAS_OUTPUT: 0,
            V.POINTERS: 0,
            V.WIDTH: 1,
            **columns,
        }.items():
            row[column] = value
        self.vectors.append(row)
        self.op(Op.VECTOR, d=d, a=len(self.vectors) - 1, cost=cost)

    def pe(self, start: int, registers: int, floats: list[float], count: int = 1, **fields: Any) -> None:
        """`count` PEs whose function starts at instruction `start` and whose memory begins with `floats`."""
        number = len(self.functions)
        self.functions.append(Function(f"f{number}", start, registers, (), None, False, SPAN))
        data = np.array(floats, np.float32).view(np.uint8)
        symbols = (SymbolRow("v", 0, len(data), data, SPAN),) if len(data) else ()
        x = np.arange(self.width, self.width + count)
        row = ClassRow(
            "hand.csl", self.width, count, x, np.zeros(count, np.int64), len(data), registers, symbols, (), (), (),
            {"go": number}, {}, {}, {}, (), (), None,
        )  # fmt: skip
        self.classes.append(replace(row, **fields))
        self.width += count

    def route(self, x: int, color: int, config: ColorConfig) -> None:
        self.configs.append((x, color, config))

    def state(self, *overrides: str, machine: str = "wse3") -> State:
        wafer: Wafer = load(machine, overrides).value
        image = Image(
            np.array(self.code, np.int32), np.array(self.cost, np.int32), np.zeros(len(self.code), np.int32), (SPAN,),
            np.array(self.constants, np.int64), np.zeros((0, self.width), np.int64),
            np.array(self.vectors, np.int32).reshape(-1, int(V.SIZE)), np.zeros((0, 8), np.int32),
            tuple(self.functions), (), tuple(self.classes),
        )  # fmt: skip
        routes = Routes(self.width, 1, [], [], {})
        for x, color, config in self.configs:
            routes.set(x, 0, color, config, SPAN)
        program: Any = SimpleNamespace(rectangle=SimpleNamespace(width=self.width, height=1), routes=routes)
        return State(image, wafer, program)


def launch(state: State, until: Until = Until.QUIET, max_cycles: int = 100_000) -> Reason:
    """Launch every PE's function at once and run."""
    functions = np.concatenate([np.full(r.count, r.functions["go"]) for r in state.image.classes])
    state.launch(np.arange(state.pes, dtype=np.int32), functions, np.zeros((state.pes, 0), np.int64))
    return reference.run(state, until, max_cycles)


def floats(state: State, pe: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The memory of a PE."""
    k = int(state.class_of[pe])
    row = state.image.classes[k]
    return state.memory(k)[pe - row.first, : row.memory_bytes].copy().view(np.float32)


F32 = int(Kind.F32)
