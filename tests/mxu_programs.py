"""Hypothesis strategies for mxu programs: balanced atoms, in loops and conditions, at any addresses."""

from __future__ import annotations

from hypothesis import strategies as st
from tdslc.compiler.graph import Builder, TensorType, dtype
from tdslc.targets.mxu.isa import (
    Address,
    Condition,
    DmaGather,
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

BF16, F32, I32 = dtype("bf16"), dtype("f32"), dtype("i32")


def dense(memory: str, address: Address | int, d, *shape: int) -> View:
    """A row-major box."""
    strides: list[int] = []
    step = d.numpy.itemsize
    for n in reversed(shape):
        strides.insert(0, step)
        step *= n
    at = Address(address) if isinstance(address, int) else address
    return View(memory, at, d, shape, tuple(strides))  # type: ignore[arg-type]


def double_body(rows: int, cols: int):
    """Streams rows: x + x, rounded to bf16."""
    b = Builder("double")
    x = b.input("x", TensorType(F32, (rows, cols)))
    return b.finish([b.one("convert", b.one("add", x, x), dtype=BF16)])


def sum_body(rows: int, cols: int):
    """Does not stream: column sums, spread over the rows again."""
    b = Builder("sums")
    x = b.input("x", TensorType(F32, (rows, cols)))
    s = b.one("broadcast", b.one("reduce_sum", x, axes=(0,)), shape=(rows, cols), dims=(1,))
    return b.finish([b.one("convert", b.one("sub", x, s), dtype=BF16)])


BODIES = {(r, kind.__name__): kind(r, 128) for r in (8, 64) for kind in (double_body, sum_body)}


def terms(loops: tuple[str, ...]) -> st.SearchStrategy[tuple[Term, ...]]:
    one = st.builds(
        Term, st.sampled_from(loops), st.sampled_from([256, 4096, 32768]), st.sampled_from([1, 1, 2, 3]),
        st.sampled_from([0, 0, 2, 3]), st.sampled_from([0, 1]),
    )  # fmt: skip
    return st.lists(one, max_size=2).map(tuple) if loops else st.just(())


def addresses(loops: tuple[str, ...]) -> st.SearchStrategy[Address]:
    return st.builds(Address, st.integers(0, 40).map(lambda n: n * 4096), terms(loops))


@st.composite
def atoms(draw: st.DrawFn, loops: tuple[str, ...]) -> tuple[Instruction, ...]:
    """Instructions that leave nothing behind."""
    at = lambda: draw(addresses(loops))  # noqa: E731
    kind = draw(st.sampled_from(["matrix", "pair", "copy", "store", "vector", "gather"]))
    sem = draw(st.integers(0, 2))
    rows = draw(st.sampled_from([8, 24, 64, 256]))
    if kind in ("matrix", "pair"):
        units = [draw(st.integers(0, 3))] if kind == "matrix" else [0, 2]
        return (
            *(Push(u, dense("vmem", at(), BF16, 128, 128), draw(st.booleans())) for u in units),
            *(Mul(u, dense("vmem", at(), BF16, rows, 128)) for u in units),
            *(Pop(u, dense("vmem", at(), F32, rows, 128), draw(st.booleans())) for u in units),
        )
    if kind == "vector":
        r = draw(st.sampled_from([8, 64]))
        body = BODIES[r, draw(st.sampled_from(["double_body", "sum_body"]))]
        return (Vector(body, (dense("vmem", at(), F32, r, 128),), (dense("vmem", at(), BF16, r, 128),)),)
    if kind == "gather":
        index = dense("vmem", at(), I32, 8)
        return (DmaGather(dense("vmem", at(), F32, 8, 128), dense("hbm", 0, F32, 100, 128), index, sem), DmaWait(sem))
    inner, outer = dense("vmem", at(), BF16, rows, 128), dense("hbm", at(), BF16, rows, 128)
    copy = DmaStart(inner, outer, sem) if kind == "copy" else DmaStart(outer, inner, sem)
    between = draw(atoms(loops)) if draw(st.booleans()) and len(loops) < 3 else ()
    # Semaphores are first in, first out, so nesting under the same one is as good.
    return (copy, *between, DmaWait(sem))


def conditions(loops: tuple[str, ...]) -> st.SearchStrategy[Condition]:
    term = st.builds(
        Term,
        st.sampled_from(loops),
        st.sampled_from([1, 1, 2]),
        st.sampled_from([1, 2]),
        st.sampled_from([0, 0, 2]),
        st.sampled_from([0, 1]),
    )
    return st.builds(Condition, term, st.sampled_from(["eq", "ne", "lt", "ge"]), st.integers(-1, 12))


@st.composite
def streams(draw: st.DrawFn, loops: tuple[str, ...] = ()) -> tuple[Instruction, ...]:
    found: list[Instruction] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["atom", "atom", "loop", "when", "ahead"]))
        if kind == "loop" and len(loops) < 2:
            var = "ijk"[len(loops)]
            stop = draw(st.integers(0, 30 if loops else 60))
            found.append(Loop(var, draw(st.integers(0, 2)), stop, draw(streams((*loops, var)))))
        elif kind == "when" and loops:
            tests = tuple(draw(st.lists(conditions(loops), min_size=1, max_size=2)))
            found.append(When(tests, draw(streams(loops)) if len(loops) < 2 else draw(atoms(loops))))
        elif kind == "ahead" and loops:
            # Copies one iteration ahead: started in one round, waited for in the next.
            source = dense("hbm", 0, BF16, 64, 128)
            copy = DmaStart(dense("vmem", draw(addresses(loops)), BF16, 64, 128), source, 7 + len(loops))
            found += [copy, When((Condition(Term(loops[-1], 1), "ge", 1000),), ()), DmaWait(7 + len(loops))]
        else:
            found += draw(atoms(loops))
    return tuple(found)


@st.composite
def programs(draw: st.DrawFn) -> MxuProgram:
    """Programs that run to the end; their addresses are anywhere, so only time them."""
    parts = draw(st.lists(streams(), min_size=1, max_size=3))
    return MxuProgram("p", tuple(KernelBlock(f"k{n}", f"m.tdsl:{n}", s) for n, s in enumerate(parts)), ())
