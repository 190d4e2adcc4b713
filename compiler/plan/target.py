"""What the compiler asks of a target, and the values that pass between them.

A target is found by its entry point (`tdslc.targets`) and is a `Target`: it loads a chip description
into a `Machine`, and everything else is asked of the machine. The plan room, the driver and the
reports know machines only through this protocol. Must not know any one target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from ..graph import Contraction, Graph, NDArray, TensorType

Reason = Literal["capacity", "two_heavy_ops", "multi_use", "illegal", "costlier"]
Space = Literal["main", "fast"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How a tensor lies over places: for each tensor axis the mesh axes it is split over.

    `partial` are mesh axes over which the value is an unreduced sum; a mesh axis named in neither
    holds copies. The empty Distribution is a tensor in one place.
    """

    split: tuple[tuple[str, ...], ...] = ()
    partial: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostQuery:
    """A kernel to be priced: `body`'s inputs are what it reads, its outputs what it writes.

    The other fields have one entry for each input, then each output; empty means the default
    (row-major, main memory, one place).
    """

    body: Graph
    layouts: tuple[str, ...] = ()
    spaces: tuple[Space, ...] = ()
    distribution: tuple[Distribution, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCost:
    """An estimate: seconds, the busy seconds of each unit, bytes of main memory, fast memory needed."""

    seconds: float
    units: Mapping[str, float]
    bytes_read: int
    bytes_written: int
    fast_bytes: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a body cannot be one kernel."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time of a graph: `seconds` is the greatest of `units`' least busy seconds."""

    seconds: float
    limited_by: str
    units: Mapping[str, float]
    flops: int
    compulsory_bytes: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A unit of values: `body` computes `outputs` from `inputs` (values of the plan's graph, in order).

    `ops` are the body's op names without views, for people; `source` is the "file:line" of its last op.
    """

    name: str
    body: Graph
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    cost: KernelCost
    ops: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class LoopStep:
    """A `loop` node of the plan's graph, its body planned on its own.

    `inputs` and `outputs` are the node's operands and results, in order; `body.graph`'s inputs and
    outputs are those of the node's region.
    """

    name: str
    n: int
    carry: int
    xs: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    body: Plan


@dataclass(frozen=True, slots=True)
class Alias:
    """`output` is `source` under another shape: no work, no bytes (a reshape between kernels)."""

    output: int
    source: int


Step = Kernel | LoopStep | Alias


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that goes through main memory, and why producer and consumer are not one kernel."""

    value: int
    producer: str
    consumer: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What runs, in order: `steps` cover every node of `graph` that is not a leaf.

    An output of `graph` (so of a loop's body, whose carry may pass through or change places) is made by a step, or is
    an input or a param of `graph` as it stands; several outputs may be one value.
    `constant`, `full` and `iota` leaves that a kernel reads lie inside its body. `load` is the load
    program: a Graph over params only, run on the host when weights bind; its outputs, by
    output name, are what `graph` reads as params of the same names (a stacked one along axis 0).
    """

    graph: Graph
    steps: tuple[Step, ...]
    load: Graph | None = None
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitTime:
    """Busy and stalled seconds of one unit over a span."""

    unit: str
    busy_seconds: float
    stall_seconds: float


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel as timed: `start` and `seconds` in simulated time; loops give one entry a kernel,
    its seconds summed over all iterations and `count` the number of them."""

    name: str
    start: float
    seconds: float
    count: int
    bytes_read: int
    bytes_written: int
    units: tuple[UnitTime, ...]
    limited_by: str


@dataclass(frozen=True, slots=True)
class Slice:
    """A bar of the trace: what `unit` did from `start` for `seconds` (the first iterations of long loops)."""

    unit: str
    name: str
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Timing:
    """A timed program. `checks` are self-checks: (name, holds, detail). `notes` say what was assumed."""

    seconds: float
    cycles: int
    kernels: tuple[KernelTime, ...]
    slices: tuple[Slice, ...]
    bytes_read: int
    bytes_written: int
    checks: tuple[tuple[str, bool, str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """A place in a memory: kind is input, param, output, temp, carry or scratch; steps are first and last use."""

    name: str
    memory: str
    kind: str
    address: int
    nbytes: int
    type: TensorType | None
    first_step: int
    last_step: int


class Program(Protocol):
    """A target's compiled program."""

    @property
    def name(self) -> str: ...

    @property
    def buffers(self) -> tuple[Buffer, ...]: ...


@dataclass(frozen=True, slots=True)
class HostLink:
    """The way between the host's memory and main memory. `guess_share` is the share of its figures that are guesses."""

    bytes_per_second: float
    latency_seconds: float
    guess_share: float

    def seconds(self, nbytes: int) -> float:
        """How long one copy of `nbytes` takes, either way."""
        return self.latency_seconds + nbytes / self.bytes_per_second


class Machine(Protocol):
    """A loaded chip. Everything is a pure function of the chip description and the arguments."""

    @property
    def spec(self) -> str:
        """`mxu:v5e`."""
        ...

    @property
    def digest(self) -> str:
        """sha256 of the description with its overrides."""
        ...

    @property
    def contraction(self) -> Contraction:
        """How this chip multiplies matrices: the definition that `--check` evaluates with."""
        ...

    @property
    def rule_files(self) -> Sequence[Path]:
        """The target's own `.rules`."""
        ...

    @property
    def host_link(self) -> HostLink | None:
        """How values get to the host and back; None when the description of the chip does not say."""
        ...

    def estimate(self, query: CostQuery) -> KernelCost | Refusal:
        """What a kernel would cost, or why it cannot be one. Microseconds matter: it is asked thousands of times."""
        ...

    def bound(self, graph: Graph) -> Bound:
        """The least time of `graph` on this chip: per unit, the least work over the peak."""
        ...

    def lower(self, plan: Plan) -> Program:
        """The program of `plan`. DiagnosticError (E04xx) when it does not fit."""
        ...

    def show(self, program: Program) -> Mapping[str, str]:
        """Files of `program/` by name: text that `parse` reads back."""
        ...

    def parse(self, files: Mapping[str, str]) -> Program:
        """The program of `files`."""
        ...

    def verify(self, program: Program) -> list[str]:
        """Every broken invariant of `program`."""
        ...

    def time(self, program: Program) -> Timing:
        """Simulated time; needs no values."""
        ...

    def run(self, program: Program, buffers: Mapping[str, NDArray]) -> Mapping[str, NDArray]:
        """Simulated values: inputs and params by name in, outputs by name out. DiagnosticError (E09xx) for hazards."""
        ...

    def guess_share(self, timing: Timing) -> float:
        """Share of the total seconds that rests on figures whose source tag is `guess`."""
        ...

    def binds(self, key: str, timing: Timing) -> str | None:
        """A sentence on what binds instead, when the figure `key` (as in `--set`) did not matter."""
        ...

    def about(self) -> Mapping[str, object]:
        """The chip's figures with units and sources, for `tdslc targets`."""
        ...


class Target(Protocol):
    """The object behind a `tdslc.targets` entry point."""

    @property
    def name(self) -> str: ...

    def chips(self) -> Sequence[str]:
        """Names of the chips that come with the target."""
        ...

    def load(self, chip: str, overrides: Iterable[str] = (), size: str = "") -> Machine:
        """A shipped chip by name, or one from a `.toml` path. DiagnosticError (E05xx).

        `size` is what stands behind the chip in `TARGET:CHIP,SIZE`: how much of it, as the target reads it. "" where
        nothing is said; DiagnosticError (E0704) when the target wants something else.
        """
        ...


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Knobs of planning; budgets are counts, never seconds.

    `refinements` are the changes to a graph that extraction plans at most; it stops when `patience` of them in a row
    were no better.
    """

    fuse: bool = True
    refinements: int = 64
    patience: int = 8
    notes: tuple[str, ...] = field(default=())
