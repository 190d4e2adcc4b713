"""The mxu instruction set: one in-order stream of macro instructions over asynchronous units.

An instruction works on views: strided boxes of bytes in HBM or VMEM whose address is quasi-affine in
the enclosing loops' variables. Macro instructions cover up to thousands of rows; the timing model
charges them for every issue slot, port and unit that the (8, 128)-register operations inside would
take. Model: the TPU's matrix unit as documented for Pallas (weights staged, latched, rows streamed,
results popped), see chips/*.toml for figures and sources. Must not know plans or costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...compiler.graph import DType, Graph
from ...compiler.plan.target import Buffer

Memory = Literal["hbm", "vmem"]


@dataclass(frozen=True, slots=True)
class Term:
    """coef * (((i + offset) // div) % mod) for the loop variable i called `loop`; mod 0 means no modulus."""

    loop: str
    coef: int
    div: int = 1
    mod: int = 0
    offset: int = 0

    def at(self, i: int) -> int:
        step = (i + self.offset) // self.div
        return self.coef * (step % self.mod if self.mod else step)


@dataclass(frozen=True, slots=True)
class Address:
    """Bytes: base plus the terms."""

    base: int
    terms: tuple[Term, ...] = ()

    def __add__(self, other: Address | int) -> Address:
        if isinstance(other, int):
            return Address(self.base + other, self.terms)
        return Address(self.base + other.base, self.terms + other.terms)

    def later(self, loop: str, by: int) -> Address:
        """The address that this one will be `by` iterations of `loop` later."""
        terms = (Term(t.loop, t.coef, t.div, t.mod, t.offset + by) if t.loop == loop else t for t in self.terms)
        return Address(self.base, tuple(terms))


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when term `is` (eq, ne, lt, ge) value."""

    term: Term
    relation: Literal["eq", "ne", "lt", "ge"]
    value: int


@dataclass(frozen=True, slots=True)
class View:
    """A strided box: `shape` elements of `dtype`, `strides` in bytes, from `address` in `memory`."""

    memory: Memory
    address: Address
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def later(self, loop: str, by: int) -> View:
        """The view that this one will be `by` iterations of `loop` later."""
        return View(self.memory, self.address.later(loop, by), self.dtype, self.shape, self.strides)


@dataclass(frozen=True, slots=True)
class DmaStart:
    """Starts a copy of `src` to `dst` (same dtype and shape); its end counts up semaphore `sem`."""

    dst: View
    src: View
    sem: int


@dataclass(frozen=True, slots=True)
class DmaGather:
    """Starts a copy of rows of `table` (axis 0) chosen by `index` (i32[rows] in VMEM, clamped) to `dst`."""

    dst: View
    table: View
    index: View
    sem: int


@dataclass(frozen=True, slots=True)
class DmaWait:
    """Waits for one more completed copy on semaphore `sem`, oldest first."""

    sem: int


@dataclass(frozen=True, slots=True)
class Push:
    """Loads `tile` ([k, n], at most size x size) into a staging register of matrix unit `unit`.

    With `transpose` the view is [n, k] and is turned on the way in, at no further cost.
    """

    unit: int
    tile: View
    transpose: bool = False


@dataclass(frozen=True, slots=True)
class Mul:
    """Latches the staged tile (`latch`) and streams `lhs` ([rows, k]) through matrix unit `unit`.

    Results ([rows, n] f32, of integers i32) go to the unit's result queue or, with `acc`, are added to (`add`) or put
    into accumulator rows from `acc` on; only chips with accumulators have those.
    """

    unit: int
    lhs: View
    latch: bool = True
    acc: int | None = None
    add: bool = False


@dataclass(frozen=True, slots=True)
class Pop:
    """Takes `dst`'s rows from unit `unit`'s result queue (or accumulator rows from `acc` on) into VMEM.

    With `add`, they are added to what `dst` (f32 or i32) holds, in its type.
    """

    unit: int
    dst: View
    add: bool = False
    acc: int | None = None


@dataclass(frozen=True, slots=True)
class Vector:
    """Evaluates `body` on the vector units: loads `inputs`, stores `outputs` (views in order, in VMEM).

    With all views in HBM the body is streamed from and to main memory, and nothing else runs until it is done.

    Every op of the table is legal inside; elementwise, reduce and view ops run on vector registers,
    others element by element. The op's own rounding holds between ops.
    """

    body: Graph
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs `body` for `var` = start, …, stop - 1."""

    var: str
    start: int
    stop: int
    body: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class When:
    """Runs `body` if all conditions hold."""

    conditions: tuple[Condition, ...]
    body: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class KernelBlock:
    """The instructions of one kernel: times, bytes and traces are told by kernel."""

    name: str
    source: str
    body: tuple[Instruction, ...]


Instruction = DmaStart | DmaGather | DmaWait | Push | Mul | Pop | Vector | Loop | When | KernelBlock


@dataclass(frozen=True, slots=True)
class MxuProgram:
    """A program for one core: its stream and what lies where in HBM and VMEM.

    A buffer of kind `index` holds 0, 1, 2, … from the start: the values of a loop's variable, for bodies
    that compute with it.
    """

    name: str
    stream: tuple[Instruction, ...]
    buffers: tuple[Buffer, ...]
