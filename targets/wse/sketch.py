"""What texts are written from, and the pieces of CSL that all of them use. Must not know single ops."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .buffers import Block, Blocks
from .placement import ARG_OPS, Placement, Shares
from .stages import Flow, Map, Scan, Stage

# Colors: two between neighbours, by turns; all columns along a row of PEs; parameters down a column of PEs.
CHAIN, ROW, DOWN = (0, 1), 2, 3
WEST_IN, ROW_IN, DOWN_IN, ROW_OUT, DOWN_OUT = 2, 3, 4, 2, 3
COLUMN_ARRIVED, FORWARD, SEND_OWN = 10, 11, 12
LOAD = "load_params"
# The longest operation over the fabric, in words: extents are u16.
MOST_WORDS = 65_535


@dataclass(frozen=True, slots=True)
class Sketch:
    """All that the texts are written from. `arch` is "wse2" or "wse3", `machine` its name for people."""

    flow: Flow
    shares: Shares
    blocks: Blocks
    arch: str
    machine: str

    @property
    def scans(self) -> tuple[tuple[int, Scan], ...]:
        """The scans with their numbers among the stages, from 1."""
        return tuple((i, s) for i, s in enumerate(self.flow.stages, 1) if isinstance(s, Scan))

    @property
    def loaded(self) -> tuple[Block, ...]:
        """Arrays that are the same in all rows of PEs: the host writes the first row's, which sends them down."""
        given = (b for b in self.blocks.all if b.role in ("input", "param"))
        return tuple(b for b in given if not self.flow.placements[b.values[0]].split_rows)

    @property
    def sends_down(self) -> bool:
        """Whether there is something to send down, and rows to send it to."""
        return self.shares.height > 1 and bool(self.loaded)

    @property
    def exported(self) -> tuple[Block, ...]:
        """Arrays that the host copies."""
        return tuple(b for b in self.blocks.all if b.role != "temp")

    @property
    def most_rows(self) -> int:
        """Elements of the longest column that a scan sends."""
        return max((self.shares.rows(self.flow.placements[s.source]) for _, s in self.scans), default=0)

    @property
    def odd_rows(self) -> int:
        """Elements of the longest column that is worked on in steps; 0 where none is."""
        outs = (s.out for s in self.flow.stages if isinstance(s, Map) and in_steps(self.flow, s))
        return max((self.shares.rows(self.flow.placements[v]) for v in outs), default=0)

    @property
    def most_words(self) -> int:
        """Words of the longest operation over the fabric: all columns of a matrix."""
        sources = [self.flow.placements[s.source] for _, s in self.scans]
        return max((self.shares.rows(p) * p.columns for p in sources), default=0)


def scratch_bytes(s: Sketch) -> int:
    """Bytes of the arrays that stages need beside values: two columns of scans, `scratch_columns`, and `odd`."""
    return 4 * (s.most_rows * (2 + len(scratch_columns(s))) + s.odd_rows)


def in_steps(flow: Flow, stage: Map) -> bool:
    """Whether a stage is done by the steps of its recipe: where a PE has columns to do them on."""
    return bool(stage.recipe.steps) and flow.placements[stage.out].split_rows


def scratch_columns(s: Sketch) -> dict[str, str]:
    """Arrays of one number for each row that scans need, with what they hold."""
    ops = {scan.node.op for _, scan in s.scans}
    made: dict[str, str] = {}
    if not ops.isdisjoint(ARG_OPS):
        made["best"] = "the greatest or least of each row so far"
    if "reduce_sum" in ops:
        made |= {
            "plain": "of each row the sum, added up as it is",
            "carry": "what rounding has lost of the sum",
            "step": "the next element less that",
            "next": "the next sum",
        }
    return made


# ---- pieces of CSL -------------------------------------------------------------------------------


def functions(s: Sketch) -> tuple[str, ...]:
    """What the host launches, in order."""
    kernels = tuple(f"kernel_{k}" for k in range(1, len(s.flow.launches) + 1))
    return (LOAD, *kernels) if s.sends_down else kernels


def stage_name(number: int, stage: Stage) -> str:
    """The name of a stage's function."""
    return f"{stage.node.op}_{number}"


def function(name: str, lines: Iterable[str], formals: str = "", kind: str = "fn") -> str:
    """A function (or `kind` task) without result."""
    return "\n".join([f"{kind} {name}({formals}) void {{", *(f"  {line}" for line in lines), "}"]) + "\n"


def element_function(name: str, formals: str, result: str, formula: str) -> str:
    """The function of elements that `@map` calls."""
    return f"fn {name}_element({formals}) {result} {{\n  return {formula};\n}}\n"


def mem(name: str, extent: str, more: str = "") -> str:
    """A DSD over `extent` elements of an array."""
    return f"@get_dsd(mem1d_dsd, .{{ .base_address = &{name}, .extent = {extent}{more} }})"


def fabin(queue: str, extent: str) -> str:
    """A DSD over what arrives."""
    return f"@get_dsd(fabin_dsd, .{{ .extent = {extent}, .input_queue = {queue} }})"


def fabout(s: Sketch, color: str, queue: str, extent: str) -> str:
    """A DSD over what is sent."""
    by_color = f".fabric_color = {color}, " if s.arch == "wse2" else ""
    return f"@get_dsd(fabout_dsd, .{{ {by_color}.extent = {extent}, .output_queue = {queue} }})"


def extents(p: Placement) -> tuple[str, str]:
    """Rows and columns of a PE's block."""
    rows = f"rows_{p.rows}" if p.split_rows else str(p.rows)
    return rows, f"columns_{p.columns}" if p.split_columns else str(p.columns)


def block_extent(p: Placement) -> str:
    """Elements of a PE's block."""
    rows, columns = extents(p)
    return columns if rows == "1" else rows if columns == "1" else f"{rows} * {columns}"


def literal(value: float | int | bool, stored: str) -> str:
    """A number of the type `stored`."""
    if stored != "f32":
        return str(int(value))
    x = float(value)
    if math.isnan(x):
        return "math.NaN_f32"
    if math.isinf(x):
        return "math.POSITIVE_INF_f32" if x > 0 else "math.NEGATIVE_INF_f32"
    return repr(x)
