"""A 4096 x 4096 x 4096 bf16 product, compiled: share of the chip's peak, and the wall time of the simulator's timing.

    python bench/gemm.py [CHIP ...]

The peak is count * size^2 * 2 * rows * clock; simulated figures, all copies, adds, pops and stores included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import tdslc
from tdslc.compiler.build.targets import load_machine

SIZE = 4096
MODEL = f"""
model gemm(a: bf16[{SIZE}, {SIZE}], b: bf16[{SIZE}, {SIZE}]) -> bf16[{SIZE}, {SIZE}]:
    return a @ b
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "gemm.tdsl"
        model.write_text(MODEL, encoding="utf-8")
        for chip in sys.argv[1:] or ["v5e", "v4", "v6e", "tpu7x"]:
            built = tdslc.build(model, f"mxu:{chip}")
            made = built.made
            assert made.chosen is not None
            start = time.perf_counter()
            timing = made.machine.time(made.chosen.program)
            wall = time.perf_counter() - start
            peak = load_machine(f"mxu:{chip}").chip.peak_flops()
            reached = 2 * SIZE**3 / timing.seconds
            print(
                f"{chip}: {timing.seconds * 1e6:.1f} us, {reached / 1e12:.1f} of {peak / 1e12:.1f} TFLOP/s "
                f"({reached / peak:.1%}), timed in {wall:.2f} s"
            )


if __name__ == "__main__":
    main()
