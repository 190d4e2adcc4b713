"""Vector work of ops that address by value, order, scan or draw: their handlers for the walk in work_vector.py.

Slow, total ways of doing each, as a machine without hardware for them would: rows by scalar addresses, bitonic
networks, logarithmic scans. Must not know time or programs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, log2, prod
from typing import TYPE_CHECKING, TypeAlias

from ...compiler.graph import Node
from ...compiler.graph.ops.movement import ints
from .work_slots import vregs

if TYPE_CHECKING:
    from .work_vector import Body, Value

Handler: TypeAlias = "Callable[[Body, Node, list[Value]], None]"

# Simple ops of one register of random 32-bit words, from the algorithms: Threefry-2x32 has 20 rounds of 5 ops and 6 key
# injections of 3 for two words; Philox-4x32 10 rounds of two 32 x 32 products by halves (20 ops) and 6 others for four.
RNG_OPS = {"threefry": (20 * 5 + 6 * 3) / 2, "philox": 10 * (20 + 6) / 4}


def _dynamic_slice(b: Body, node: Node, args: list[Value]) -> None:
    """A slice at addresses that the scalar core computes, rotated where it may begin within a register."""
    x, starts = args
    level = b.read([x, starts])
    b.scalar += b.chip.issue.scalar_access_cycles * starts.type.size
    b.depth["scalar"] = b.chip.issue.vector_to_scalar_cycles
    b.streams = False
    out = node.types[0].shape
    b.rotate(sum(n != d for n, d in zip(out[-2:], x.type.shape[-2:], strict=True)) * vregs(out, 32, b.chip))
    b.barrier(node, level)


def _dynamic_update_slice(b: Body, node: Node, args: list[Value]) -> None:
    """All of x is copied, the update rotated into its place and stored over it."""
    x, update, starts = args
    level = b.read(args)
    b.scalar += b.chip.issue.scalar_access_cycles * starts.type.size
    b.depth["scalar"] = b.chip.issue.vector_to_scalar_cycles
    b.streams = False
    off = sum(n != d for n, d in zip(update.type.shape[-2:], x.type.shape[-2:], strict=True))
    b.rotate(off * b.count(update))
    b.store += b.count(update, update.type.dtype.bits)
    b.barrier(node, level)


def _rows_or_elements(b: Body, rows: int, row: tuple[int, ...], elements: int, bits: int) -> None:
    """Whole rows by scalar addresses; else element by element."""
    if row and prod(row) > 1:
        b.scalar += rows * b.chip.issue.scalar_access_cycles
        b.load += rows * vregs(row, bits, b.chip)
    else:
        b.scalar += elements * b.chip.vector.scalar_cycles_per_element
    b.depth["scalar"] = b.chip.issue.vector_to_scalar_cycles
    b.streams = False


def _gather(b: Body, node: Node, args: list[Value]) -> None:
    x, starts = args
    level, out = b.read([starts]), node.types[0]
    sizes = ints(node.attr("slice_sizes"))
    whole = bool(sizes) and sizes[-1] == x.type.shape[-1] and sizes[-1] > 1
    rows = out.size // max(1, sizes[-1]) if whole else 0
    _rows_or_elements(b, rows, sizes[-1:] if whole else (), out.size, out.dtype.bits)
    b.barrier(node, level)


def _scatter(b: Body, node: Node, args: list[Value]) -> None:
    """All of x is copied, then each update is combined with what stands in its place."""
    x, _, updates = args
    level, t = b.read(args), updates.type
    window = ints(node.attr("update_window_dims"))
    whole = bool(window) and window[-1] == t.rank - 1 and t.shape[-1] == x.type.shape[-1] and t.shape[-1] > 1
    rows = t.size // max(1, t.shape[-1]) if whole else 0
    _rows_or_elements(b, rows, t.shape[-1:] if whole else (), t.size, t.dtype.bits)
    if whole:
        each = vregs(t.shape[-1:], 32, b.chip)
        b.alu += rows * each
        b.store += rows * each
    b.barrier(node, level)


# ---- order -----------------------------------------------------------------------------------------


def _network(b: Body, values: list[Value], axis: int) -> None:
    """A bitonic network over `axis` of operands and an index, which makes it stable.

    log2(n) (log2(n) + 1) / 2 stages (Batcher 1968), in each of which every register meets its partner: a rotation and
    two selections an operand, and two comparisons.
    """
    n = values[0].type.shape[axis]
    steps = ceil(log2(n)) if n > 1 else 0
    stages = steps * (steps + 1) / 2
    operands = len(values) + 1
    registers = max(b.count(v) for v in values) * ((1 << steps) / max(n, 1))
    b.alu += stages * registers * (2 + 2 * operands)
    b.cross(stages * registers * operands, b.chip.xlu.rotate_latency_cycles, "rotate")
    b.depth["sort"] = int(stages) * b.chip.xlu.rotate_latency_cycles


def _sort(b: Body, node: Node, args: list[Value]) -> None:
    level, axis = b.read(args), node.attr("axis")
    assert isinstance(axis, int)
    _network(b, args, axis)
    b.streams = False
    b.barrier(node, level)


def _top_k(b: Body, node: Node, args: list[Value]) -> None:
    """k rounds of the greatest (a fold and a selection that takes it out), or a whole sort where that is less."""
    (x,), k = args, node.attr("k")
    assert isinstance(k, int)
    level = b.read(args)
    n = x.type.shape[-1]
    steps = ceil(log2(n)) if n > 1 else 0
    if 5 * k <= 6 * steps * (steps + 1) / 2:
        b.alu += 5 * k * b.count(x)
        b.cross(k * vregs((*x.type.shape[:-1], 1), 32, b.chip), k * b.chip.xlu.reduce_latency_cycles, "reduce")
    else:
        _network(b, [x], x.type.rank - 1)
    b.streams = False
    b.barrier(node, level)


def _scan(b: Body, node: Node, args: list[Value]) -> None:
    """By doubling (Hillis and Steele 1986): log2(n) times a rotation, a fold and a selection."""
    (x,), axis = args, node.attr("axis")
    assert isinstance(axis, int)
    level, n = b.read(args), x.type.shape[axis]
    steps = ceil(log2(n)) if n > 1 else 0
    b.alu += steps * b.count(x) * (b.fold_slots(node.op.removeprefix("cum"), x.type.dtype) + 1)
    b.cross(steps * b.count(x), steps * b.chip.xlu.rotate_latency_cycles, "rotate")
    b.streams = False
    b.barrier(node, level)


# ---- windows and bits ------------------------------------------------------------------------------


def _interior_pad(b: Body, node: Node, args: list[Value]) -> None:
    """Rows spread by addresses; along the last two axes each register is rotated into two."""
    level, spread = b.read(args), ints(node.attr("interior"))
    made = b.put(node, level=level)
    b.alu += b.count(made)
    b.rotate(2 * b.count(made) * sum(n > 0 for n in spread[-2:]))
    b.streams = False


def _select_and_scatter(b: Body, node: Node, args: list[Value]) -> None:
    """Tap by tap: a shifted window, a comparison and two selections; then back, an addition where it was chosen."""
    source, level = args[1], b.read(args)
    work = prod(ints(node.attr("window"))) * b.count(source)
    b.alu += work * 6
    b.rotate(2 * work)
    b.streams = False
    b.barrier(node, level)


def _rng_bits(b: Body, node: Node, args: list[Value]) -> None:
    level, out = b.read(args), node.types[1]
    words = max(1, out.dtype.bits // 32)
    b.alu += RNG_OPS[str(node.attr("algorithm"))] * words * vregs(out.shape, 32, b.chip)
    b.barrier(node, level)


ROWS: Mapping[str, Handler] = {
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update_slice, "gather": _gather,
    "scatter": _scatter, "sort": _sort, "top_k": _top_k, "interior_pad": _interior_pad,
    "select_and_scatter": _select_and_scatter, "rng_bits": _rng_bits,
    **{f"cum{kind}": _scan for kind in ("sum", "prod", "max", "min")},
}  # fmt: skip
