"""Kernels in a row: who uses which part of VMEM, and whose first copies are asked for how early.

A kernel is a unit of values, not of time: the first copies of what no kernel of the row makes are asked
for while the kernel before still works. So neighbours use different parts of VMEM, two by turns. In a
loop the first kernel follows the last: with an even number of kernels the turns fit; with an odd
number the last kernel gets room of its own; a single kernel doubles its buffers and alternates by
iteration. Must not know HBM's layout or the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...compiler.plan.target import Kernel
from .chip import Chip
from .choose import Choice, matrix_units, vmem_half, vmem_of
from .emit_kernel import KernelCode, Room, Scratch, kernel_code
from .isa import Address, Condition, DmaStart, Instruction, KernelBlock, Term, When
from .numerics import feeds
from .slabs import Slab
from .streamed import streamed_instruction
from .tiles import Form, form

SEMAPHORES_PER_KERNEL = 4096  # more than a kernel can have inputs and outputs


@dataclass(frozen=True, slots=True)
class Ring:
    """The loop around a row: its variable, its iterations, and the values that are known an iteration ahead."""

    var: str
    n: int
    ready: frozenset[int]


@dataclass(frozen=True, slots=True)
class Row:
    """The blocks of a row of kernels and their buffers, kernel by kernel."""

    blocks: tuple[KernelBlock, ...]
    scratch: tuple[tuple[Scratch, ...], ...]


@dataclass(frozen=True, slots=True)
class _Member:
    """A kernel of a row: its code, and its first copies by whether they may be asked for early."""

    kernel: Kernel
    code: KernelCode
    early: tuple[DmaStart, ...]
    own: tuple[DmaStart, ...]


def kernel_row(
    kernels: Sequence[tuple[Kernel, Choice]],
    where: Mapping[int, Address],
    ready: frozenset[int],
    chip: Chip,
    ring: Ring | None,
) -> Row:
    """The stream of `kernels`, one after another; `ready` are the values that none of them makes."""
    rooms, closed = _rooms(kernels, chip, ring)
    members: list[_Member] = []
    for i, ((k, choice), room) in enumerate(zip(kernels, rooms, strict=True)):
        if i:
            known = ready if not (choice.solo or kernels[i - 1][1].solo) else frozenset[int]()
        else:
            known = ring.ready if ring and closed else frozenset[int]()
        members.append(_member(k, choice, where, known, chip, room))
    blocks: list[KernelBlock] = []
    for i, m in enumerate(members):
        ahead: tuple[Instruction, ...] = members[i + 1].early if i + 1 < len(members) else ()
        own: tuple[Instruction, ...] = m.own
        if ring and closed and i == 0 and m.early:
            own = (When((Condition(Term(ring.var, 1), "eq", 0),), m.early), *own)
        if ring and closed and i + 1 == len(members) and members[0].early:
            ahead = (_next_iteration(members[0].early, ring),)
        before, after = (ahead, ()) if m.code.single else ((), ahead)
        blocks.append(KernelBlock(m.kernel.name, m.kernel.source, (*own, *before, *m.code.run, *after, *m.code.drain)))
    return Row(tuple(blocks), tuple(m.code.scratch for m in members))


def _next_iteration(early: Sequence[DmaStart], ring: Ring) -> When:
    copies = tuple(DmaStart(c.dst.later(ring.var, 1), c.src.later(ring.var, 1), c.sem) for c in early)
    return When((Condition(Term(ring.var, 1), "lt", ring.n - 1),), copies)


def _member(
    k: Kernel, choice: Choice, where: Mapping[int, Address], known: frozenset[int], chip: Chip, room: Room
) -> _Member:
    if choice.streamed:
        code = KernelCode((), (), (streamed_instruction(k, where),), (), True, (), room.base)
        return _Member(k, code, (), ())
    if not choice.slabs:
        f = form(k.body, feeds(chip))
        code = _code(k, f, choice, where, chip, room, k.name)
        return _split(k, f, code, known)
    forms = [_slab_form(s, chip) for s, _ in choice.slabs]
    codes = [
        _code(k, f, c, where, chip, room, f"{k.name}.slab{i}")
        for i, (f, (_, c)) in enumerate(zip(forms, choice.slabs, strict=True))
    ]
    return _split(k, forms[0], _one_after_another(codes), known)


def _slab_form(slab: Slab, chip: Chip) -> Form:
    f = form(slab.body, feeds(chip))
    return replace(f, boxes=dict(zip(f.body.outputs, slab.boxes, strict=True)))


def _code(
    k: Kernel, f: Form, choice: Choice, where: Mapping[int, Address], chip: Chip, room: Room, name: str
) -> KernelCode:
    homes = {v: where[k.inputs[o.index]] for v, o in f.origins.items()}
    homes |= {v: where[outer] for v, outer in zip(f.body.outputs, k.outputs, strict=True)}
    return kernel_code(f, choice.regions, homes, matrix_units(chip), room, name)


def _one_after_another(codes: Sequence[KernelCode]) -> KernelCode:
    """Codes in the same room, each begun when the one before has sent its last output."""
    first, run, drain = codes[0], [*codes[0].run], codes[0].drain
    for code in codes[1:]:
        run += [*drain, *code.ask, *code.run]
        drain = code.drain
    scratch = tuple(s for code in codes for s in code.scratch)
    return KernelCode(first.asked, first.ask, tuple(run), drain, False, scratch, max(c.end for c in codes))


def _split(k: Kernel, f: Form, code: KernelCode, known: frozenset[int]) -> _Member:
    split = [(k.inputs[f.origins[v].index] in known, i) for v, i in zip(code.asked, code.ask, strict=True)]
    return _Member(k, code, tuple(i for e, i in split if e), tuple(i for e, i in split if not e))


def _rooms(kernels: Sequence[tuple[Kernel, Choice]], chip: Chip, ring: Ring | None) -> tuple[list[Room], bool]:
    """A room for each kernel, and whether the ring is closed: the last kernel keeps out of the first one's."""
    half, total = vmem_half(chip), chip.mem.vmem_bytes
    rooms = [Room(0 if c.solo else i % 2 * half, i % 2 * SEMAPHORES_PER_KERNEL) for i, (_, c) in enumerate(kernels)]
    if ring is None or not kernels or kernels[0][1].solo or kernels[-1][1].solo:
        return rooms, False
    if len(kernels) % 2 == 0:
        return rooms, True
    sizes = [vmem_of(k.body, c, chip) for k, c in kernels]
    if len(kernels) == 1:
        return ([Room(0, 0, ring.var)], True) if 2 * sizes[0] <= total else (rooms, False)
    # Behind its two neighbours' buffers, in whichever half has the space.
    for base, neighbour, limit in ((0, sizes[0], half), (half, sizes[-2], total)):
        if base + neighbour + sizes[-1] <= limit:
            rooms[-1] = Room(base + neighbour, 2 * SEMAPHORES_PER_KERNEL)
            return rooms, True
    return rooms, False
