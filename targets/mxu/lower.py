"""A plan as a program for one core: places in HBM and VMEM, and the stream of all kernels.

Kernels follow one another in one stream (`rows.py`). A loop of the plan stays a loop of the program; its
per-iteration tensors are addressed by the loop variable. A carried tensor is overwritten in place when
nothing reads the old value after the new one is begun; else it has two places that take turns.
Must not know the e-graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...compiler.graph import Graph, TensorType
from ...compiler.graph.dtypes import I32
from ...compiler.plan.target import Alias, Buffer, Kernel, LoopStep, Plan, Step
from ...compiler.source import Diagnostic, DiagnosticError
from .chip import Chip
from .choose import Choice, choose
from .emit_kernel import Scratch
from .hbm import Life, aligned, first_fit
from .isa import Address, DmaStart, DmaWait, Instruction, KernelBlock, Loop, MxuProgram, Term
from .rows import SEMAPHORES_PER_KERNEL, Ring, kernel_row
from .strided import dense, element_bytes

COPY_SEMAPHORE = 3 * SEMAPHORES_PER_KERNEL  # copies between kernels; no kernel's room reaches it


def lower(plan: Plan, chip: Chip) -> MxuProgram:
    """The program of `plan`. DiagnosticError E0401 / E0402 when a kernel, or the whole, does not fit."""
    state = _Lowering(chip)
    homes = state.leaves(plan.graph)
    outputs = state.reserve_outputs(plan.graph)
    targets, copies = _direct_outputs(plan, outputs)
    stream = state.steps(plan, homes, targets, "")
    homes_after = state.homes_of
    for source, to, t in copies:
        stream.append(state.copy_block(homes_after[source], to, t, "output"))
    state.check_hbm(plan)
    return MxuProgram(plan.graph.name, tuple(stream), tuple(state.buffers))


def _direct_outputs(
    plan: Plan, outputs: Sequence[Address]
) -> tuple[dict[int, Address], list[tuple[int, Address, TensorType]]]:
    """Which values are made right where an output lies, and which outputs are copies."""
    root, turns = alias_roots(plan), _turns(plan)
    made = {v for s in plan.steps if not isinstance(s, Alias) for v in s.outputs}
    targets: dict[int, Address] = {}
    copies: list[tuple[int, Address, TensorType]] = []
    for v, to in zip(plan.graph.outputs, outputs, strict=True):
        r = root.get(v, v)
        if r in made and r not in targets and r not in turns:
            targets[r] = to
        else:
            copies.append((v, to, plan.graph.types[v]))
    return targets, copies


def alias_roots(plan: Plan) -> dict[int, int]:
    """For each value that is another under a new shape, the value it stands for."""
    root: dict[int, int] = {}
    for s in plan.steps:
        if isinstance(s, Alias):
            root[s.output] = root.get(s.source, s.source)
    return root


@dataclass(slots=True)
class _Lowering:
    """One program in the making. `next_hbm` is the first free byte of HBM."""

    chip: Chip
    buffers: list[Buffer] = field(default_factory=list[Buffer])
    next_hbm: int = 0
    kernels: int = 0
    homes_of: dict[int, Address] = field(default_factory=dict[int, Address])

    # ---- HBM ----

    def buffer(self, name: str, kind: str, t: TensorType) -> Address:
        nbytes = t.size * element_bytes(t.dtype)
        at = self.next_hbm
        self.buffers.append(Buffer(name, "hbm", kind, at, nbytes, t, 0, -1))
        self.next_hbm += aligned(nbytes)
        return Address(at)

    def leaves(self, graph: Graph) -> dict[int, Address]:
        """Homes of inputs and params."""
        return {n.out: self.buffer(str(n.attr("name")), n.op, n.type) for n in (*graph.inputs, *graph.params)}

    def reserve_outputs(self, graph: Graph) -> list[Address]:
        names = graph.output_names or tuple(f"output{i}" for i in range(len(graph.outputs)))
        return [self.buffer(n, "output", graph.types[v]) for n, v in zip(names, graph.outputs, strict=True)]

    def check_hbm(self, plan: Plan) -> None:
        limit = self.chip.mem.hbm_bytes
        if self.next_hbm <= limit:
            return
        largest = sorted((b for b in self.buffers if b.memory == "hbm"), key=lambda b: (-b.nbytes, b.name))[:5]
        lines = ", ".join(f"{b.name} {b.nbytes / 2**20:.1f} MiB" for b in largest)
        raise DiagnosticError(
            [
                Diagnostic(
                    "E0402",
                    f"does not fit: {plan.graph.name} needs {self.next_hbm / 2**30:.2f} GiB of HBM, the chip has "
                    f"{limit / 2**30:.2f} GiB (largest: {lines})",
                    help="choose smaller dims, a narrower dtype, or a chip with more memory (--set mem.hbm_gb=...)",
                )
            ]
        )

    # ---- steps ----

    def steps(
        self,
        plan: Plan,
        homes: Mapping[int, Address],
        targets: Mapping[int, Address],
        depth: str,
        ring: Ring | None = None,
    ) -> list[Instruction]:
        """The stream of `plan`'s steps; `targets` are the values whose places are already chosen."""
        where = self.place(plan, homes, targets)
        stream: list[Instruction] = []
        pending: list[Kernel] = []
        for step in plan.steps:
            if isinstance(step, Kernel):
                pending.append(step)
            elif isinstance(step, LoopStep):
                stream += self.row(pending, plan, where, None)
                pending = []
                stream += self.loop(step, plan, where, depth)
        # Only a body without loops of its own is one row that closes on itself.
        whole = all(not isinstance(s, LoopStep) for s in plan.steps)
        stream += self.row(pending, plan, where, ring if whole else None)
        self.homes_of = where
        return stream

    def place(self, plan: Plan, homes: Mapping[int, Address], targets: Mapping[int, Address]) -> dict[int, Address]:
        """A home for every value the steps make: as given, or by lifetime in space of this plan's own."""
        root = alias_roots(plan)
        joined = _carry_in_place(plan, root, targets)
        first, last = _lifetimes(plan, root)
        where = dict(homes)
        lives: dict[int, Life] = {}
        turns = _turns(plan)
        made = [v for s in plan.steps if not isinstance(s, Alias) for v in s.outputs]
        for v in made:
            owner = joined.get(v, v)
            if owner in targets:
                where[v] = targets[owner]
                continue
            t = plan.graph.types[v]
            nbytes = _slot_bytes(t) * 2 if owner in turns else t.size * element_bytes(t.dtype)
            life = lives.get(owner, Life(owner, nbytes, first[v], last[v]))
            lives[owner] = replace(life, first=min(life.first, first[v]), last=max(life.last, last[v]))
        addresses, self.next_hbm = first_fit(lives.values(), self.next_hbm)
        for v in made:
            owner = joined.get(v, v)
            if owner in lives:
                # A carried value has two slots that take turns: it enters in the first and leaves in the last written.
                slot = turns.get(v, 0) % 2 * _slot_bytes(plan.graph.types[v])
                where[v] = Address(addresses[owner] + slot)
        for owner, life in lives.items():
            t = plan.graph.types[owner]
            self.buffers.append(
                Buffer(
                    f"{plan.graph.name}.%{owner}",
                    "hbm",
                    "temp",
                    addresses[owner],
                    life.nbytes,
                    t,
                    life.first,
                    life.last,
                )
            )
        for s in plan.steps:
            if isinstance(s, Alias):
                where[s.output] = where[s.source]
        return where

    def row(
        self, kernels: Sequence[Kernel], plan: Plan, where: Mapping[int, Address], ring: Ring | None
    ) -> list[Instruction]:
        """The stream of kernels that follow one another."""
        chosen = [(k, self.choice(k)) for k in kernels]
        ready = frozenset(n.out for n in (*plan.graph.inputs, *plan.graph.params))
        row = kernel_row(chosen, where, ready, self.chip, ring)
        for scratch in row.scratch:
            self.buffers += [_scratch(s, self.kernels) for s in scratch]
            self.kernels += 1
        return list(row.blocks)

    def choice(self, k: Kernel) -> Choice:
        found = choose(k.body, self.chip)
        if isinstance(found, Choice):
            return found
        raise DiagnosticError(
            [
                Diagnostic(
                    "E0401",
                    f"does not fit: kernel {k.name} ({k.source or 'no source'}): {found.detail}",
                    help="choose smaller dims or a chip with more VMEM (--set mem.vmem_mib=...)",
                )
            ]
        )

    def copy_block(self, source: Address, to: Address, t: TensorType, what: str) -> KernelBlock:
        """A copy from HBM to HBM."""
        box = dense(t.shape, t.dtype)
        sem = COPY_SEMAPHORE
        copy = DmaStart(box.at("hbm", to, t.dtype), box.at("hbm", source, t.dtype), sem)
        body: tuple[Instruction, ...] = (copy, DmaWait(sem)) if t.size else ()
        return KernelBlock(f"copy_{what}", "", body)

    # ---- loops ----

    def loop(self, s: LoopStep, plan: Plan, where: Mapping[int, Address], depth: str) -> list[Instruction]:
        """The loop of `s`; carried tensors lie where its results lie."""
        var = f"i{depth}"
        stream: list[Instruction] = []
        entered, carried, left = _carried(s, plan, where, var)
        for v, to in zip(s.inputs, entered, strict=False):
            if where[v] != to:
                stream.append(self.copy_block(where[v], to, plan.graph.types[v], "carry"))
        index = self.buffer(f"{s.name}.index", "index", TensorType(I32, (s.n,)))
        body = s.body.graph
        inputs = [n.out for n in body.inputs]
        homes = {inputs[0]: index + Address(0, (Term(var, 4),))}
        homes |= dict(zip(inputs[1:], carried, strict=False))
        elements = [
            where[v] + Address(0, (Term(var, _element_bytes(plan.graph.types[v])),))
            for v in s.inputs[s.carry : s.carry + s.xs]
        ]
        homes |= dict(
            zip(inputs[1 + s.carry :], [*elements, *(where[v] for v in s.inputs[s.carry + s.xs :])], strict=True)
        )
        ys = [where[v] + Address(0, (Term(var, _element_bytes(plan.graph.types[v])),)) for v in s.outputs[s.carry :]]
        targets, early, late = self.loop_outputs(s, inputs, left, ys)
        ring = Ring(var, s.n, frozenset(inputs[1 + s.carry :]))
        inner = self.steps(s.body, homes, targets, depth + "_", ring)
        places = self.homes_of
        inner += [self.copy_block(places[v], to, body.types[v], "carry") for v, to in early]
        inner += [self.copy_block(a, to, t, "carry") for a, to, t in late]
        if s.n:
            stream.append(Loop(var, 0, s.n, tuple(inner)))
        return stream

    def loop_outputs(
        self, s: LoopStep, inputs: Sequence[int], carried: Sequence[Address], ys: Sequence[Address]
    ) -> tuple[dict[int, Address], list[tuple[int, Address]], list[tuple[Address, Address, TensorType]]]:
        """Values made in place; copies at the iteration's end: from a value, then from a spare place."""
        body, root = s.body.graph, alias_roots(s.body)
        made = {v for step in s.body.steps if not isinstance(step, Alias) for v in step.outputs}
        turns, inner_turns = in_turns(s), _turns(s.body)
        targets: dict[int, Address] = {}
        early: list[tuple[int, Address]] = []
        late: list[tuple[Address, Address, TensorType]] = []
        for position, (v, to) in enumerate(zip(body.outputs, [*carried, *ys], strict=True)):
            r = root.get(v, v)
            if position < s.carry and r == inputs[1 + position] and not turns[position]:
                continue
            if r in made and r not in targets and r not in inner_turns:
                targets[r] = to
            elif position >= s.carry or turns[position]:
                early.append((v, to))
            else:
                spare = self.buffer(f"{s.name}.spare{position}", "carry", body.types[v])
                early.append((v, spare))
                late.append((spare, to, body.types[v]))
        return targets, early, late


def in_turns(s: LoopStep) -> tuple[bool, ...]:
    """For each carried tensor, whether its old and new value need two places that take turns.

    One place will do when every step that reads the old value comes before the one that makes the new.
    """
    body, root = s.body.graph, alias_roots(s.body)
    made = {v: i for i, step in enumerate(s.body.steps) if not isinstance(step, Alias) for v in step.outputs}
    reads = _last_reads(s.body, root)
    returned = [root.get(v, v) for v in body.outputs]
    inputs = [n.out for n in body.inputs][1:]
    found: list[bool] = []
    for own, r in zip(inputs[: s.carry], returned, strict=False):
        untouched = r == own and returned.count(own) == 1
        free = own not in returned and reads.get(own, -1) < made.get(r, -1) and returned.count(r) == 1
        found.append(not (untouched or free))
    return tuple(found)


def _turns(plan: Plan) -> dict[int, int]:
    """Loop results whose carried values take turns, with the number of turns."""
    return {
        v: s.n
        for s in plan.steps
        if isinstance(s, LoopStep)
        for v, turn in zip(s.outputs, in_turns(s), strict=False)
        if turn
    }


def _slot_bytes(t: TensorType) -> int:
    return aligned(t.size * element_bytes(t.dtype))


def _carried(
    s: LoopStep, plan: Plan, where: Mapping[int, Address], var: str
) -> tuple[list[Address], list[Address], list[Address]]:
    """Where each carried tensor lies: before the loop, as an iteration finds it, and as it leaves it."""
    entered: list[Address] = []
    found: list[Address] = []
    left: list[Address] = []
    for v, turn in zip(s.outputs[: s.carry], in_turns(s), strict=True):
        size = _slot_bytes(plan.graph.types[v])
        first = where[v] if not turn else Address(where[v].base - s.n % 2 * size, where[v].terms)
        entered.append(first)
        found.append(first + Address(0, (Term(var, size, 1, 2),)) if turn else first)
        left.append(first + Address(0, (Term(var, size, 1, 2, 1),)) if turn else first)
    return entered, found, left


def _element_bytes(stacked: TensorType) -> int:
    """Bytes from one element of axis 0 to the next."""
    return dense(stacked.shape, stacked.dtype).strides[0]


def _scratch(s: Scratch, kernel: int) -> Buffer:
    return Buffer(s.name, "vmem", "scratch", s.address, s.total_bytes, s.type, kernel, kernel)


def _reads(step: Step) -> Iterable[int]:
    return (step.source,) if isinstance(step, Alias) else step.inputs


def _last_reads(plan: Plan, root: Mapping[int, int]) -> dict[int, int]:
    """The last step that reads each value (by its root)."""
    found: dict[int, int] = {}
    for i, step in enumerate(plan.steps):
        if not isinstance(step, Alias):
            found.update({root.get(v, v): i for v in _reads(step)})
    return found


def _lifetimes(plan: Plan, root: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, step in enumerate(plan.steps):
        for v in () if isinstance(step, Alias) else step.outputs:
            first[v] = last[v] = i
    last |= {v: max(last.get(v, i), i) for v, i in _last_reads(plan, root).items()}
    # A value returned is read by whoever comes after the last step.
    last.update({root.get(v, v): len(plan.steps) for v in plan.graph.outputs})
    return first, last


def _carry_in_place(plan: Plan, root: Mapping[int, int], targets: Mapping[int, Address]) -> dict[int, int]:
    """For a loop's initial value that only the loop reads: the loop result whose place it may share."""
    made = {v for s in plan.steps if not isinstance(s, Alias) for v in s.outputs}
    uses: dict[int, int] = {}
    for step in plan.steps:
        for v in () if isinstance(step, Alias) else step.inputs:
            uses[root.get(v, v)] = uses.get(root.get(v, v), 0) + 1
    kept = {root.get(v, v) for v in plan.graph.outputs}
    joined: dict[int, int] = {}
    for step in plan.steps:
        if isinstance(step, LoopStep):
            for v, out in zip(step.inputs[: step.carry], step.outputs, strict=False):
                r = root.get(v, v)
                if r in made and uses[r] == 1 and r not in kept and r not in targets:
                    joined[r] = out
    # Loops in a row hand their place on: follow to the last.
    for r in joined:
        while joined[r] in joined:
            joined[r] = joined[joined[r]]
    return joined
