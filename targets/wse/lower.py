"""From a plan to a program for a rectangle of PEs: how many passes, where everything lies, and the texts.

Everything stays in SRAM between the kernels of a pass. Where the rows of a model do not fit at once, the host sends
them in passes: ops never mix rows, so that each pass is the same program on other rows. Raises DiagnosticError: E0410
for what is not yet on wse, E0401 with a table of sizes for what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...compiler.plan.target import Plan
from ...compiler.source import Diagnostic, DiagnosticError, Note
from .buffers import Blocks, assign
from .chip import Wafer
from .compiled import compiled
from .elementwise import STORED
from .emit import pe_text
from .emit_layout import layout_text
from .placement import NotPlaced, Shares
from .program import LAYOUT, PE, Command, Copy, PeArray, WseProgram
from .sketch import MOST_WORDS, Sketch, functions, scratch_bytes
from .stages import Flow, flow_of

# Variables of the texts beside arrays and their pointers: DSDs, counters, the libraries' own.
_SMALL_BYTES = 128
_SHOWN = 8


def lower(plan: Plan, wafer: Wafer, machine: str, width: int, height: int) -> WseProgram:
    """The program of `plan` on `width` x `height` PEs of `wafer`, called `machine` in texts."""
    try:
        flow = flow_of(plan)
    except NotPlaced as why:
        raise DiagnosticError(refused(why, f"wse:{machine}")) from None
    sketch = _sketch(flow, wafer, machine, width, height)
    texts = {LAYOUT: layout_text(sketch), PE: pe_text(sketch)}
    names = functions(sketch)
    kernels = ("",) * (len(names) - len(flow.launches)) + tuple(launch.name for launch in flow.launches)
    commands = tuple(map(Command, names, kernels))
    copies = tuple(_copies(sketch, len(names) - len(flow.launches)))
    arrays = tuple(_arrays(sketch, texts, wafer))
    return WseProgram(plan.graph.name, wafer.arch, sketch.shares, texts, copies, commands, arrays)


def refused(why: NotPlaced, spec: str) -> Diagnostic:
    """What a user reads of an op that is not yet on wse."""
    at = f" ({why.node.loc})" if why.node.loc else ""
    return Diagnostic("E0410", f"{spec} cannot run {why.node.op}{at}: {why}")


# ---- fitting -------------------------------------------------------------------------------------


def _sketch(flow: Flow, wafer: Wafer, machine: str, width: int, height: int) -> Sketch:
    """The sketch with the fewest passes that fits. DiagnosticError (E0401) when none does."""
    rows = {p.rows for p in flow.placements.values() if p.split_rows}
    most = -(-max(rows, default=1) // height) if len(rows) <= 1 else 1
    made = _with_passes(flow, wafer, machine, Shares(width, height))
    if fits(made, wafer):
        return made
    low, high = 1, most  # the first does not fit
    last = _with_passes(flow, wafer, machine, Shares(width, height, most))
    if not fits(last, wafer):
        raise DiagnosticError(_too_large(last, wafer))
    while high - low > 1:
        middle = (low + high) // 2
        tried = _with_passes(flow, wafer, machine, Shares(width, height, middle))
        low, high, last = (low, middle, tried) if fits(tried, wafer) else (middle, high, last)
    return last


def _with_passes(flow: Flow, wafer: Wafer, machine: str, shares: Shares) -> Sketch:
    return Sketch(flow, shares, assign(flow, shares), wafer.arch, machine)


def fits(s: Sketch, wafer: Wafer) -> bool:
    """Whether arrays fit into a PE, and every transfer into one operation."""
    return used_bytes(s) <= wafer.pe.memory_bytes and s.most_words <= MOST_WORDS


def used_bytes(s: Sketch) -> int:
    """Bytes that a PE's variables take, at most."""
    return s.blocks.nbytes + 4 * len(s.blocks.all) + scratch_bytes(s) + _SMALL_BYTES


def _too_large(s: Sketch, wafer: Wafer) -> Diagnostic:
    rows = max((s.shares.rows(p) for p in s.flow.placements.values() if p.split_rows), default=1)
    said = (
        f"the model does not fit {s.shares.width} x {s.shares.height} PEs of {s.machine}: with {rows} row(s) at a "
        f"time a PE needs {used_bytes(s):,} bytes of {wafer.pe.memory_bytes:,}"
    )
    remarks = tuple(Note(line) for line in _table(s.blocks, scratch_bytes(s)))
    return Diagnostic("E0401", said, notes=remarks, help="take more PEs along x, which share the columns of weights")


def _table(blocks: Blocks, scratch: int) -> Iterator[str]:
    """A line for each of the largest arrays, then what the rest takes."""
    ordered = sorted(blocks.all, key=lambda b: (-b.nbytes, b.name))
    for b in ordered[:_SHOWN]:
        what = f' {b.role} "{b.source}"' if b.source else " values between ops"
        yield f"{b.nbytes:>9,} bytes  {b.name}: {b.elements} x {b.stored},{what}"
    rest = sum(b.nbytes for b in ordered[_SHOWN:])
    if rest:
        yield f"{rest:>9,} bytes  {len(ordered) - _SHOWN} other arrays"
    yield f"{scratch:>9,} bytes  columns under way and other scratch"


# ---- what the host does --------------------------------------------------------------------------


def _copies(s: Sketch, first: int) -> Iterator[Copy]:
    """A copy for each tensor of the model; `first` launches come before the kernels'."""
    needs: dict[int, int] = {}
    makes: dict[int, int] = {}
    for k, launch in enumerate(s.flow.launches, first):
        for stage in launch.stages:
            makes[stage.out] = k
            for v in stage.reads:
                needs.setdefault(v, k)
    once = {b.name for b in s.loaded}
    for b in s.blocks.all:
        if b.role in ("input", "param"):
            v = b.values[0]
            launch = 0 if b.name in once else needs.get(v, first)
            yield Copy(
                b.name, b.role, b.source, s.flow.graph.types[v], b.stored, s.flow.placements[v], launch, b.name in once
            )
    names = s.flow.graph.output_names or tuple(f"out{i}" for i in range(len(s.flow.outputs)))
    for v, value, name in zip(s.flow.outputs, s.flow.graph.outputs, names, strict=True):
        p, t = s.flow.placements[v], s.flow.graph.types[value]
        last = first + len(s.flow.launches) - 1
        yield Copy(s.blocks.of[v].name, "output", name, t, STORED[t.dtype], p, makes.get(v, last), not p.split_rows)


def _arrays(s: Sketch, texts: dict[str, str], wafer: Wafer) -> Iterator[PeArray]:
    """Where the compiled program has its arrays: alike in all PEs, as sizes are."""
    blocks = {b.name: b for b in s.blocks.all}
    last = len(s.flow.stages) - 1
    for entry in compiled(texts[LAYOUT], texts[PE], wafer).classes[0].memory.entries:
        block = blocks.get(entry.symbol.name)
        steps = (max(0, block.first_step), max(0, block.last_step)) if block else (0, last)
        if block and block.role in ("input", "param"):
            steps = (0, steps[1])
        yield PeArray(entry.symbol.name, entry.address, entry.bytes, *steps)
