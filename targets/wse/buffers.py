"""Which array of a PE each value lies in. Values whose lives do not overlap share one.

What the host copies keeps an array of its own. An elementwise stage may write where an operand lay that dies with it.
Must not know CSL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...compiler.graph import DType
from .elementwise import STORED, stored_bytes
from .placement import Shares
from .stages import Flow, Map, Stage

Role = Literal["input", "param", "output", "temp"]


@dataclass(slots=True)
class Block:
    """An array of a PE: `elements` of the CSL type `stored`, which `values` lie in one after the other.

    `source` is the model's name of an input, param or output; steps are the stages of its first and last use.
    """

    name: str
    role: Role
    dtype: DType
    elements: int
    source: str = ""
    values: list[int] = field(default_factory=list[int])
    first_step: int = 0
    last_step: int = 0

    @property
    def stored(self) -> str:
        return STORED[self.dtype]

    @property
    def nbytes(self) -> int:
        return self.elements * stored_bytes(self.dtype)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The arrays of a PE in order, and the one of each value."""

    all: tuple[Block, ...]
    of: Mapping[int, Block]

    @property
    def nbytes(self) -> int:
        """What they take together; each starts at a multiple of four."""
        return sum(-(-b.nbytes // 4) * 4 for b in self.all)


def assign(flow: Flow, shares: Shares) -> Blocks:
    """An array for every value of `flow` that lies in memory."""
    return _Assigner(flow, shares).run()


class _Assigner:
    """One pass over the stages, with what is free at the moment."""

    def __init__(self, flow: Flow, shares: Shares) -> None:
        self.flow, self.shares = flow, shares
        self.all: list[Block] = []
        self.of: dict[int, Block] = {}
        self.free: list[Block] = []
        self.names: set[str] = set()
        self.last = {v: i for i, s in enumerate(flow.stages) for v in (*s.reads, s.out)}

    def run(self) -> Blocks:
        graph = self.flow.graph
        for node in (*graph.inputs, *graph.params):
            if node.out in self.last or node.out in self.flow.outputs:
                role: Role = "input" if node.op == "input" else "param"
                self._own(node.out, role, str(node.attr("name")))
        names = graph.output_names or tuple(f"out{i}" for i in range(len(graph.outputs)))
        for v, name in zip(self.flow.outputs, names, strict=True):
            if v not in self.of:
                self._own(v, "output", name)
        for step, stage in enumerate(self.flow.stages):
            self._step(step, stage)
        return Blocks(tuple(self.all), self.of)

    def _step(self, step: int, stage: Stage) -> None:
        dying = [b for v in dict.fromkeys(stage.reads) if self.last[v] == step and (b := self.of[v]).role == "temp"]
        if stage.out not in self.of:
            alike = [b for b in dying if isinstance(stage, Map) and self._same_place(b.values[-1], stage.out)]
            self._temp(stage.out, alike)
        for v in (*stage.reads, stage.out):
            block = self.of[v]
            block.first_step = step if block.first_step < 0 else block.first_step
            block.last_step = step
        self.free += [b for b in dying if b is not self.of[stage.out]]
        if self.last[stage.out] == step and self.of[stage.out].role == "temp":
            self.free.append(self.of[stage.out])

    def _same_place(self, a: int, b: int) -> bool:
        types, placements = self.flow.graph.types, self.flow.placements
        return STORED[types[a].dtype] == STORED[types[b].dtype] and placements[a] == placements[b]

    def _own(self, v: int, role: Role, source: str) -> None:
        self._made(v, self._name(_identifier(role, source)), role, source)

    def _temp(self, v: int, alike: list[Block]) -> None:
        dtype, size = self.flow.graph.types[v].dtype, self._elements(v)
        fitting = [b for b in self.free if b.stored == STORED[dtype]]
        # The smallest that holds it, else the largest, which grows.
        fitting.sort(key=lambda b: (b.elements < size, b.elements if b.elements >= size else -b.elements))
        chosen = (alike or fitting or [None])[0]
        if chosen is None:
            self._made(v, self._name(f"temp_{len(self.all)}"), "temp", "")
            return
        if chosen in self.free:
            self.free.remove(chosen)
        chosen.elements = max(chosen.elements, size)
        chosen.values.append(v)
        self.of[v] = chosen

    def _made(self, v: int, name: str, role: Role, source: str) -> None:
        block = Block(name, role, self.flow.graph.types[v].dtype, self._elements(v), source, [v], -1, -1)
        self.all.append(block)
        self.of[v] = block

    def _elements(self, v: int) -> int:
        p = self.flow.placements[v]
        return self.shares.rows(p) * self.shares.columns(p)

    def _name(self, wanted: str) -> str:
        name = wanted
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name


# What the arrays of a role are called before their own name, so that no word of CSL and no function is met.
_PREFIX: Mapping[Role, str] = {"input": "in", "param": "param", "output": "out", "temp": "temp"}


def _identifier(role: Role, text: str) -> str:
    """`text` as a name in CSL."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()[:40].strip("_")
    return f"{_PREFIX[role]}_{name or 'value'}"
