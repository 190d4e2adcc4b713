"""The wafer's mesh simulator: what it computes against closed forms and NumPy, how fast, and in how much memory.

    python bench/mesh.py [SECTION ...] [--small]

Sections: collectives, layout, chain, summa, mesh_gemm, speed, stencil; all of them when none is named. Each prints its
lines; values that are wrong end the run. The engines are compiled (numba) by a first small run, whose time stands
apart. `--small` takes sizes of a test.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mesh_collectives
import numpy as np
from numpy.typing import NDArray
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.csl.program import Program, compile_program
from tdslc.targets.wse.mesh.engines import EngineName
from tdslc.targets.wse.mesh.simulation import Simulation

FOLDER = Path(__file__).parent / "csl"
WAFER = load("wse3").value
Grid = NDArray[np.float32]


def compiled(name: str, params: dict[str, int]) -> tuple[Program, float]:
    """The program of a layout file, and the seconds that checking it took."""
    start = time.perf_counter()
    program = compile_program(str(FOLDER / f"{name}.csl"), WAFER.front_end, params)
    return program, time.perf_counter() - start


def launched(simulation: Simulation) -> float:
    """Seconds of a launch of `go` to its end."""
    start = time.perf_counter()
    simulation.launch("go")
    simulation.run("commands")
    simulation.run("quiet")
    return time.perf_counter() - start


def memory_gb() -> float:
    """The most memory that this process has used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def declared_gb(program: Program) -> float:
    """Bytes of all variables of all PEs."""
    return sum(len(made.x) * made.memory.used_bytes for made in program.classes) / 2**30


def said(name: str, simulation: Simulation, seconds: float, more: str = "") -> None:
    # Of the stretches of time that engines took: the longest, which is the launch.
    run = max(simulation.report().runs, key=lambda run: run.end - run.start)
    allowed = 1 + 2 * declared_gb(simulation.program)
    print(
        f"{name}: {simulation.cycles:,} cycles in {seconds:.2f} s, engine {run.engine} ({run.why}), "
        f"{memory_gb():.2f} GB (allowed {allowed:.2f}){more}"
    )


# ---- collectives -----------------------------------------------------------------------------------


def collectives(small: bool) -> None:
    sizes = (4, 16) if small else (4, 8, 16, 32, 64, 128, 256, 512)
    words = (1, 16) if small else (1, 4, 16, 64, 256, 1024)
    print("| pattern | P | B | closed form | cycles | allowed | wse3 as it is | engine |\n" + "|---" * 8 + "|")
    free, real = mesh_collectives.machine(start_up=False), mesh_collectives.machine(start_up=True)
    wrong = 0
    for case in mesh_collectives.cases(sizes, words):
        cycles, engine = mesh_collectives.run(case, free)
        default, _ = mesh_collectives.run(case, real)
        form = case.form(free.cost.ramp)
        wrong += abs(cycles - form) > case.slack
        cells = (case.pattern, case.P, case.B, f"{form:.0f}", cycles, f"{case.slack:.0f}", default, engine)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    assert not wrong, f"{wrong} runs differ from their form by more than is allowed"


# ---- layout and chain --------------------------------------------------------------------------------


def layout(small: bool) -> None:
    size = 32 if small else 512
    program, seconds = compiled("collectives/chain", {"P": size, "rows": size, "B": 256})
    print(f"layout of {size * size:,} PEs: {seconds:.2f} s, {len(program.classes)} programs")


def chain(small: bool) -> None:
    P, B = (16, 16) if small else (512, 256)
    program, _ = compiled("collectives/chain", {"P": P, "rows": P, "B": B})
    simulation = Simulation(program, WAFER)
    sums = np.zeros((P, B), np.float32)
    # In strips, so that the peak of memory is the simulator's. Whole numbers: their sums are exact in any order.
    strip = 16
    for y in range(0, P, strip):
        rows, columns = np.arange(y, y + strip)[:, None, None], np.arange(P)[None, :, None]
        data = ((13 * rows + 7 * columns + np.arange(B)) % 32).astype(np.float32)
        sums[y : y + strip] = data.sum(1)
        simulation.write("v", 0, y, P, strip, data.view(np.uint32))
    seconds = launched(simulation)
    np.testing.assert_array_equal(simulation.read("v", 0, 0, 1, P, B, np.float32)[:, 0], sums)
    said(f"chain reduce on {P} x {P} PEs, {B} words", simulation, seconds)


# ---- products -----------------------------------------------------------------------------------------


def tiles(matrix: Grid, n: int) -> Grid:
    """[n, n, T * T]: the tile of each PE, column by column."""
    T = len(matrix) // n
    return np.ascontiguousarray(matrix.reshape(n, T, n, T).transpose(0, 2, 3, 1).reshape(n, n, T * T))


def untiled(blocks: Grid, n: int) -> Grid:
    T = int(np.sqrt(blocks.shape[-1]))
    return blocks.reshape(n, n, T, T).transpose(0, 3, 1, 2).reshape(n * T, n * T)


def ring_places(n: int) -> NDArray[np.int64]:
    """The place in the folded ring of each PE of a line."""
    at = np.arange(n)
    return np.where(at % 2 == 0, at // 2, n - 1 - at // 2)


def product(name: str, n: int, T: int, engine: EngineName) -> tuple[Simulation, float]:
    """A product of two matrices of n T rows, checked against NumPy, and the seconds of its run."""
    program, _ = compiled(f"gemm/{name}", {"N": n, "T": T})
    rng = np.random.default_rng(7)
    A, B = (rng.standard_normal((n * T, n * T), dtype=np.float32) for _ in range(2))
    a, b = tiles(A, n), tiles(B, n)
    places = ring_places(n)
    if name == "mesh_gemm":
        # The PE at places (p, q) of its rings computes the tile p, q of C and begins with tiles p, p + q and p + q, q.
        p, q = places[:, None], places[None, :]
        middle = (p + q) % n
        a, b = a[p, middle], b[middle, q]
    simulation = Simulation(program, WAFER, engine=engine)
    for symbol, data in (("A", a), ("B", b)):
        simulation.write(symbol, 0, 0, n, n, np.ascontiguousarray(data).view(np.uint32))
    seconds = launched(simulation)
    got = simulation.read("C", 0, 0, n, n, T * T, np.float32)
    if name == "mesh_gemm":
        by_place = np.empty_like(got)
        by_place[places[:, None], places[None, :]] = got
        got = by_place
    np.testing.assert_allclose(untiled(got, n), A @ B, rtol=1e-3, atol=1e-3 * np.sqrt(n * T))
    return simulation, seconds


def summa(small: bool) -> None:
    n, T = (4, 4) if small else (128, 16)
    said(f"SUMMA on {n} x {n} PEs, tile {T}^3", *product("summa", n, T, "auto"))


def mesh_gemm(small: bool) -> None:
    n, T = (4, 4) if small else (128, 16)
    said(f"MeshGEMM on {n} x {n} PEs, tile {T}^3", *product("mesh_gemm", n, T, "auto"))


def speed(small: bool) -> None:
    """The engines take turns; the least time of each counts, as others may use the machine."""
    n, T, turns = (4, 4, 1) if small else (32, 16, 3)
    fast, slow = [], []
    for _ in range(turns):
        for _ in range(3):
            batched, seconds = product("summa", n, T, "auto")
            fast.append(seconds)
        reference, seconds = product("summa", n, T, "reference")
        slow.append(seconds)
        assert batched.cycles == reference.cycles, "the engines differ"
    said(f"SUMMA on {n} x {n} PEs, batched", batched, min(fast))
    more = f", {min(slow) / min(fast):.1f} x the time of the batched engine"
    said(f"SUMMA on {n} x {n} PEs, reference", reference, min(slow), more)


# ---- stencil --------------------------------------------------------------------------------------------


def swept(v: Grid, sweeps: int) -> Grid:
    """What stencil.csl computes, in its order of sums."""
    for _ in range(sweeps):
        w = np.pad(v, ((1, 1), (1, 1), (0, 0)))
        total = w[1:-1, :-2] + w[1:-1, 2:] + w[:-2, 1:-1] + w[2:, 1:-1]
        v = np.float32(0.5) * v + total * np.float32(0.125)
    return v


def stencil(small: bool) -> None:
    n, Z, sweeps = (4, 8, 2) if small else (64, 64, 10)
    program, _ = compiled("stencil/stencil", {"N": n, "Z": Z, "sweeps": sweeps})
    v = np.random.default_rng(7).standard_normal((n, n, Z), dtype=np.float32)
    simulation = Simulation(program, WAFER, engine="reference")
    simulation.write("v", 0, 0, n, n, v.view(np.uint32))
    seconds = launched(simulation)
    np.testing.assert_allclose(simulation.read("v", 0, 0, n, n, Z, np.float32), swept(v, sweeps), rtol=1e-4, atol=1e-5)
    rate = int(simulation.report().elements.sum()) / seconds / 1e6
    said(f"stencil on {n} x {n} PEs, {sweeps} sweeps", simulation, seconds, f", {rate:.1f} M element operations/s")


SECTIONS: dict[str, Callable[[bool], None]] = {
    "collectives": collectives, "layout": layout, "chain": chain, "summa": summa, "mesh_gemm": mesh_gemm,
    "speed": speed, "stencil": stencil,
}  # fmt: skip


def compile_engines() -> None:
    """Small runs of both engines, so that what follows is not their compilation."""
    start = time.perf_counter()
    engines: Sequence[Any] = ("reference", "auto")
    for engine in engines:
        product("summa", 4, 16, engine)
    print(f"engines compiled, or read from numba's cache, in {time.perf_counter() - start:.1f} s", flush=True)


def _section(name: str, small: bool) -> None:
    compile_engines()
    SECTIONS[name](small)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("section", nargs="*", choices=[*SECTIONS, []], help="all when none is named")
    parser.add_argument("--small", action="store_true", help="sizes of a test")
    args = parser.parse_args()
    failed = 0
    for name in args.section or SECTIONS:
        # A process for each, so that the peak of memory is the section's own.
        child = multiprocessing.get_context("spawn").Process(target=_section, args=(name, args.small))
        child.start()
        child.join()
        failed += child.exitcode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
