"""A GEMM by hand for the mxu: blocks of C, panels of A and B double-buffered, weights pushed ahead.

C[M, N] = A[M, K] @ B[K, N] in bf16. A block of `rows` rows of A and a panel of `cols` columns of B lie in
VMEM with all of K; each matrix unit has a strip of the panel's columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from tdslc.compiler.graph import Builder, DType, TensorType, dtype
from tdslc.compiler.plan.target import Buffer
from tdslc.targets.mxu.chip import Chip
from tdslc.targets.mxu.isa import (
    Address,
    Condition,
    DmaStart,
    DmaWait,
    Instruction,
    KernelBlock,
    Loop,
    Mul,
    MxuProgram,
    Pop,
    Push,
    Term,
    Vector,
    View,
    When,
)

BF16, F32 = dtype("bf16"), dtype("f32")
LOAD_A, LOAD_B, STORE = 0, 1, 2


def box(memory: str, address: Address | int, d: DType, shape: tuple[int, ...], row_bytes: int) -> View:
    """Rows of `shape[1]` elements, `row_bytes` apart."""
    at = Address(address) if isinstance(address, int) else address
    return View(memory, at, d, shape, (row_bytes, d.numpy.itemsize))  # type: ignore[arg-type]


def convert_body(rows: int, cols: int):
    b = Builder("round")
    return b.finish([b.one("convert", b.input("acc", TensorType(F32, (rows, cols))), dtype=BF16)])


@dataclass(frozen=True)
class Gemm:
    """The shape, the block and where everything lies. Block number `b` runs over columns first."""

    chip: Chip
    m: int
    n: int
    k: int
    rows: int
    cols: int

    @property
    def blocks(self) -> tuple[int, int]:
        return self.m // self.rows, self.n // self.cols

    def places(self) -> dict[str, tuple[str, int, int]]:
        """(memory, address, bytes) of each buffer."""
        hbm = {"a": self.m * self.k * 2, "b": self.k * self.n * 2, "c": self.m * self.n * 2}
        vmem = {
            "va": 2 * self.rows * self.k * 2, "vb": 2 * self.k * self.cols * 2,
            "acc": 2 * self.rows * self.cols * 4, "out": 2 * self.rows * self.cols * 2,
        }  # fmt: skip
        found: dict[str, tuple[str, int, int]] = {}
        for memory, sizes in (("hbm", hbm), ("vmem", vmem)):
            at = 0
            for name, size in sizes.items():
                found[name] = (memory, at, size)
                at += size
        return found

    def base(self, name: str) -> int:
        return self.places()[name][1]

    def program(self) -> MxuProgram:
        first = [
            *self.load_a(0),
            *self.load_b(0),
            DmaWait(LOAD_A),
            DmaWait(LOAD_B),
            *self.pushes(Address(self.base("vb"))),
        ]
        total = self.blocks[0] * self.blocks[1]
        stream = (*first, Loop("b", 0, total, tuple(self.block())), *([DmaWait(STORE)] * min(2, total)))
        kinds = {"a": "input", "b": "input", "c": "output"}
        types = {"a": (self.m, self.k), "b": (self.k, self.n), "c": (self.m, self.n)}
        buffers = tuple(
            Buffer(
                n, memory, kinds.get(n, "scratch"), at, size, TensorType(BF16, types[n]) if n in types else None, 0, 0
            )
            for n, (memory, at, size) in self.places().items()
        )
        return MxuProgram("gemm", (KernelBlock("gemm", "gemm.tdsl:1", stream),), buffers)

    # ---- copies ----

    def load_a(self, ahead: int) -> list[Instruction]:
        """The rows of block b + ahead."""
        per = self.blocks[1]
        size = self.rows * self.k * 2
        loop = () if not ahead else (Term("b", size, per, 0, ahead),)
        slot = () if not ahead else (Term("b", size, per, 2, ahead),)
        src = box("hbm", Address(self.base("a"), loop), BF16, (self.rows, self.k), self.k * 2)
        dst = box("vmem", Address(self.base("va"), slot), BF16, (self.rows, self.k), self.k * 2)
        return [DmaStart(dst, src, LOAD_A)]

    def load_b(self, ahead: int) -> list[Instruction]:
        size = self.k * self.cols * 2
        loop = () if not ahead else (Term("b", self.cols * 2, 1, self.blocks[1], ahead),)
        slot = () if not ahead else (Term("b", size, 1, 2, ahead),)
        src = box("hbm", Address(self.base("b"), loop), BF16, (self.k, self.cols), self.n * 2)
        dst = box("vmem", Address(self.base("vb"), slot), BF16, (self.k, self.cols), self.cols * 2)
        return [DmaStart(dst, src, LOAD_B)]

    def store(self) -> list[Instruction]:
        per, size = self.blocks[1], self.rows * self.cols
        acc = box(
            "vmem", Address(self.base("acc"), (Term("b", size * 4, 1, 2),)), F32, (self.rows, self.cols), self.cols * 4
        )
        out = box(
            "vmem", Address(self.base("out"), (Term("b", size * 2, 1, 2),)), BF16, (self.rows, self.cols), self.cols * 2
        )
        at = Address(self.base("c"), (Term("b", self.rows * self.n * 2, per), Term("b", self.cols * 2, 1, per)))
        dst = box("hbm", at, BF16, (self.rows, self.cols), self.n * 2)
        free = When((Condition(Term("b", 1), "ge", 2),), (DmaWait(STORE),))
        return [free, Vector(convert_body(self.rows, self.cols), (acc,), (out,)), DmaStart(dst, out, STORE)]

    # ---- matrix units ----

    @property
    def strips(self) -> list[tuple[int, int]]:
        """(unit, column) of each strip of the panel."""
        size, count = self.chip.mxu.size, self.chip.mxu.count
        return [(i % count, i * size) for i in range(self.cols // size)]

    def pushes(self, panel: Address) -> list[Instruction]:
        """One tile a strip, rows from `panel` on."""
        size = self.chip.mxu.size
        return [Push(u, box("vmem", panel + c * 2, BF16, (size, size), self.cols * 2)) for u, c in self.strips]

    def block(self) -> list[Instruction]:
        size = self.chip.mxu.size
        tiles = self.k // size
        more = Condition(Term("b", 1), "lt", self.blocks[0] * self.blocks[1] - 1)
        new_row = Condition(Term("b", 1, 1, self.blocks[1], 1), "eq", 0)
        start = [When((more,), tuple(self.load_b(1))), When((more, new_row), tuple(self.load_a(1)))]
        slot = Term("b", self.k * self.cols * 2, 1, 2)
        inside = Address(self.base("vb"), (slot, Term("k", size * self.cols * 2, 1, 0, 1)))
        next_panel = Address(self.base("vb"), (Term("b", self.k * self.cols * 2, 1, 2, 1),))
        last = Condition(Term("k", 1), "eq", tiles - 1)
        wait = When((last, more), (DmaWait(LOAD_B), When((new_row,), (DmaWait(LOAD_A),))))
        body = [
            *self.products(), When((Condition(Term("k", 1), "lt", tiles - 1),), tuple(self.pushes(inside))), wait,
            When((last, more), tuple(self.pushes(next_panel))), *self.pops(),
        ]  # fmt: skip
        return [*start, Loop("k", 0, tiles, tuple(body)), *self.store()]

    def products(self) -> list[Instruction]:
        size = self.chip.mxu.size
        slot = Term("b", self.rows * self.k * 2, self.blocks[1], 2)
        lhs = box("vmem", Address(self.base("va"), (slot, Term("k", size * 2))), BF16, (self.rows, size), self.k * 2)
        return [Mul(u, lhs) for u, _ in self.strips]

    def pops(self) -> list[Instruction]:
        size = self.chip.mxu.size
        slot = Term("b", self.rows * self.cols * 4, 1, 2)
        found: list[Instruction] = []
        for u, c in self.strips:
            dst = box("vmem", Address(self.base("acc") + c * 4, (slot,)), F32, (self.rows, size), self.cols * 4)
            found.append(When((Condition(Term("k", 1), "eq", 0),), (Pop(u, dst),)))
            found.append(When((Condition(Term("k", 1), "ge", 1),), (Pop(u, dst, add=True),)))
        return found
