"""A machine of our own for the tests of `compiler/machine`: each kind of field once."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tdslc.compiler.machine import Bounds


@dataclass(frozen=True, slots=True)
class Memory:
    """Two sizes."""

    fast_kib: float
    main_gb: float


@dataclass(frozen=True, slots=True)
class Engine:
    """A unit with one of everything."""

    count: int
    spare_count: Annotated[int, Bounds(0, 8)]
    rows_per_cycle: dict[Literal["bf16", "i8"], float]
    share: Literal["fair", "fifo"]
    exact: bool
    slots: dict[str, int]
    skew_cycles: Annotated[float, Bounds(-4)] | None = None


@dataclass(frozen=True, slots=True)
class Chip:
    """The machine."""

    clock_ghz: float
    vendor: str
    memory: Memory
    engine: Engine


TEXT = """\
name = "toy"
clock_ghz = 1.5  # a comment
vendor = "nobody"

[memory]
fast_kib = 48
main_gb = 16.0

[engine]
count = 4
spare_count = 0
rows_per_cycle = { bf16 = 1, "i8" = 2 }
share = "fair"
exact = true
slots = { load = 2 }

[source]
clock_ghz = "doc: a book"
vendor = "doc: a book"
"memory.fast_kib" = "measured: by us"
memory.main_gb = "guess: half of the next one"
"engine.count" = "derived: peak / clock"
engine.spare_count = "doc: a book"
"engine.rows_per_cycle" = "doc: a book"
"engine.rows_per_cycle.i8" = "guess: twice bf16"
"engine.share" = "guess: the simplest"
"engine.exact" = "guess: why not"
"engine.slots" = "doc: a book"
"""
