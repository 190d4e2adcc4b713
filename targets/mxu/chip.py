"""The chip file of the mxu target: one core's figures, their units in their names.

A program runs on one core, so every figure is what one core sees: of a chip with two cores the file
gives one core's matrix units and one core's share of the bandwidth. `docs/mxu-machine.md` tells how
each figure enters the times. Must not know programs, plans or costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, get_args

from ...compiler.graph import DType
from ...compiler.machine import Bounds, Machine, load_machine
from ...compiler.source import Diagnostic, DiagnosticError

# Classes of vector work with a figure of their own in [vector]; `work.py` says which op is of which class.
OpClass = Literal[
    "simple", "sum", "sign", "round", "convert", "div", "rem", "int_div", "exp", "expm1", "log", "log1p", "sqrt",
    "rsqrt", "tanh", "erf", "sin", "cos", "pow",
]  # fmt: skip
OP_CLASSES: tuple[OpClass, ...] = get_args(OpClass)
MatrixType = Literal["bf16", "i8", "u8", "f8e4m3", "f8e5m2"]


@dataclass(frozen=True, slots=True)
class Mxu:
    """Matrix units: `count` weight-stationary arrays of `size` x `size`."""

    count: int
    size: int
    # Rows of the left operand that enter a cycle, by operand dtype. A dtype without an entry cannot be multiplied.
    rows_per_cycle: dict[MatrixType, float]
    # Cycles to load one size x size tile of weights into a staging register, by operand dtype.
    push_cycles_per_tile: dict[MatrixType, int]
    # From the first row in to its 8-row result ready to be popped; units in the upper half lie farther away.
    latency_cycles: int
    far_latency_cycles: int
    # A unit gives 8 rows of results every so many cycles; they reach registers this much after the pop issues.
    pop_interval_cycles: int
    pop_latency_cycles: int
    # Staging registers a unit has beside the weights in use.
    stages: int
    # Results in flight or waiting, in steps of 8 rows, before rows stop entering.
    result_queue_steps: int
    # Accumulators a unit has (0: none, partial sums are added by the vector units) and the rows each holds.
    accumulators: Annotated[int, Bounds(0)]
    rows_per_accumulator: int

    @property
    def accumulator_rows(self) -> int:
        """Rows of f32 results that one unit's accumulators hold."""
        return self.accumulators * self.rows_per_accumulator

    def latency_of(self, unit: int) -> int:
        """Cycles from row in to result of `unit`."""
        return self.far_latency_cycles if unit >= (self.count + 1) // 2 and self.count > 1 else self.latency_cycles

    def multiplies(self, dtype: DType) -> bool:
        """Whether the units multiply `dtype` as it is."""
        return dtype.name in self.rows_per_cycle and dtype.name in self.push_cycles_per_tile


@dataclass(frozen=True, slots=True)
class Vpu:
    """Vector units on registers of sublanes x lanes 32-bit words: slots are issues a cycle."""

    lanes: int
    sublanes: int
    alu_slots: int
    load_slots: int
    store_slots: int
    latency_cycles: int
    load_latency_cycles: int
    # From a store to the first load that may read it.
    store_latency_cycles: int
    vregs: int
    # Whether bf16 is computed packed, two to a word; otherwise it is unpacked to f32 and rounded back.
    native_bf16: bool


@dataclass(frozen=True, slots=True)
class Eup:
    """The transcendental unit: one register every `interval_cycles`."""

    interval_cycles: float
    latency_cycles: int


@dataclass(frozen=True, slots=True)
class Xlu:
    """Cross-lane units (transpose, lane reduction, rotation): each takes a register every `interval_cycles`."""

    count: int
    interval_cycles: float
    transpose_latency_cycles: int
    reduce_latency_cycles: int
    rotate_latency_cycles: int


@dataclass(frozen=True, slots=True)
class Mem:
    """Memories. `vmem_copy_gbs` binds copies within VMEM only; loads and stores are bound by their slots."""

    vmem_mib: float
    smem_kib: float
    hbm_gb: float
    vmem_copy_gbs: float

    @property
    def vmem_bytes(self) -> int:
        return int(self.vmem_mib * 1024 * 1024)

    @property
    def hbm_bytes(self) -> int:
        return int(self.hbm_gb * 1_000_000_000)


@dataclass(frozen=True, slots=True)
class Dma:
    """Copies between HBM and VMEM. Setup times of copies overlap; the transfer itself is one server."""

    hbm_gbs: float
    read_setup_cycles: float
    write_setup_cycles: float
    # A contiguous run occupies the memory for a multiple of this.
    granule_bytes: int
    # Copies that may be under way at once.
    in_flight: int


@dataclass(frozen=True, slots=True)
class Ici:
    """Links between chips of a torus; one-chip programs do not use them."""

    axes: int
    wrap_at: int
    link_gbs: float
    hop_us: float


@dataclass(frozen=True, slots=True)
class Host:
    """The link to the host, either way: what a copy takes is `latency_us` and its bytes at `link_gbs`."""

    link_gbs: float
    latency_us: float


@dataclass(frozen=True, slots=True)
class Issue:
    """The scalar core: cycles of one round of a loop, of one SMEM access, of one element moved to it."""

    loop_cycles: int
    scalar_access_cycles: int
    vector_to_scalar_cycles: int


@dataclass(frozen=True, slots=True)
class Vector:
    """Slots that one register of results takes, by class of op: ALU issues and transcendental results."""

    alu: dict[OpClass, Annotated[float, Bounds(0)]]
    eup: dict[OpClass, Annotated[float, Bounds(0)]]
    # Scalar cycles for one element that vector units cannot do: f64 arithmetic, a gather along lanes.
    scalar_cycles_per_element: float


@dataclass(frozen=True, slots=True)
class Chip:
    """One core of a chip."""

    clock_ghz: float
    mxu: Mxu
    vpu: Vpu
    eup: Eup
    xlu: Xlu
    mem: Mem
    dma: Dma
    ici: Ici
    issue: Issue
    vector: Vector
    # Only models of which the host runs a part need it.
    host: Host | None = None

    @property
    def hz(self) -> float:
        return self.clock_ghz * 1e9

    @property
    def vreg_bytes(self) -> int:
        """Bytes of a vector register."""
        return self.vpu.lanes * self.vpu.sublanes * 4

    @property
    def hbm_bytes_per_cycle(self) -> float:
        return self.dma.hbm_gbs / self.clock_ghz

    def peak_flops(self, dtype: str = "bf16") -> float:
        """FLOP/s of all matrix units: count * size^2 * 2 * rows * clock."""
        return self.mxu.count * self.mxu.size**2 * 2 * self.mxu.rows_per_cycle.get(dtype, 0.0) * self.hz  # type: ignore[call-overload]


# The figures that a unit's busy time rests on beside clock_ghz, for the share of a total that is guessed.
UNIT_FIGURES: dict[str, tuple[str, ...]] = {
    "hbm": ("dma.hbm_gbs", "dma.granule_bytes"),
    "dma": ("dma.read_setup_cycles", "dma.write_setup_cycles", "dma.in_flight"),
    "mxu": ("mxu.count", "mxu.size", "mxu.rows_per_cycle.bf16"),
    "push": ("mxu.push_cycles_per_tile.bf16", "mxu.stages"),
    "pop": ("mxu.pop_interval_cycles", "mxu.latency_cycles", "mxu.pop_latency_cycles"),
    "vld": ("vpu.load_slots",),
    "vst": ("vpu.store_slots",),
    "valu": ("vpu.alu_slots", *(f"vector.alu.{c}" for c in OP_CLASSES)),
    "eup": ("eup.interval_cycles", *(f"vector.eup.{c}" for c in OP_CLASSES)),
    "xlu": ("xlu.count", "xlu.interval_cycles"),
    "scalar": ("vector.scalar_cycles_per_element", "issue.scalar_access_cycles"),
    "issue": ("issue.loop_cycles",),
}

CHIPS = Path(__file__).parent / "chips"


def chip_names() -> tuple[str, ...]:
    """Names of the chips that come with the target."""
    return tuple(sorted(p.stem for p in CHIPS.glob("*.toml")))


def load(chip: str, overrides: Iterable[str] = ()) -> Machine[Chip]:
    """A shipped chip by name, or the one a `.toml` path describes. Raises DiagnosticError (E05xx)."""
    return _load(chip, tuple(overrides))


@lru_cache(maxsize=32)
def _load_shipped(chip: str, overrides: tuple[str, ...]) -> Machine[Chip]:
    return _checked(load_machine(Chip, CHIPS / f"{chip}.toml", overrides))


def _load(chip: str, overrides: tuple[str, ...]) -> Machine[Chip]:
    if chip in chip_names():
        return _load_shipped(chip, overrides)
    return _checked(load_machine(Chip, chip, overrides))


def _checked(machine: Machine[Chip]) -> Machine[Chip]:
    """`machine` when its tables have the entries the target cannot do without."""
    problems: list[Diagnostic] = []
    chip = machine.value
    for table, entries in (("vector.alu", chip.vector.alu), ("vector.eup", chip.vector.eup)):
        lacking = [c for c in OP_CLASSES if c not in entries]
        if lacking:
            problems.append(
                Diagnostic("E0503", f"`{table}` lacks {', '.join(lacking)}", help="one figure for each class")
            )
    for table, rates in (
        ("mxu.rows_per_cycle", chip.mxu.rows_per_cycle),
        ("mxu.push_cycles_per_tile", chip.mxu.push_cycles_per_tile),
    ):
        if "bf16" not in rates:
            problems.append(
                Diagnostic("E0503", f"`{table}` lacks bf16", help="every other float is multiplied through it")
            )
    for key, value, step in (("mxu.size", chip.mxu.size, chip.vpu.lanes), ("vpu.lanes", chip.vpu.lanes, 8)):
        if value % step:
            problems.append(
                Diagnostic("E0505", f"`{key}` must be a multiple of {step}, not {value}", machine.span(key))
            )
    if problems:
        raise DiagnosticError(problems)
    return machine
