"""How build time and program text grow with depth: MiniLM of 6 and of 48 layers, whole commands in turn.

    python bench/layers.py [RUNS]

Prints the medians, their ratio, and the ratio of the program texts. Compile time should follow unique
structure, not depth.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEPTHS = (6, 48)


def build(layers: int, folder: Path) -> tuple[float, int]:
    """(wall seconds of the whole command, bytes of program text)."""
    words = [sys.executable, "-c", "from tdslc.cli import main; main()", "build", str(ROOT / "examples/minilm.tdsl")]
    words += ["--target", "mxu:v5e", "--dim", f"L={layers}", "--dim", "B=1", "--dim", "S=128", "-o", str(folder)]
    start = time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    return seconds, sum(p.stat().st_size for p in (folder / "program").iterdir())


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seconds: dict[int, list[float]] = {n: [] for n in DEPTHS}
    text: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for n in DEPTHS:
                wall, text[n] = build(n, Path(folder) / f"layers{n}")
                seconds[n].append(wall)
    few, many = (statistics.median(seconds[n]) for n in DEPTHS)
    print(
        f"{DEPTHS[0]} layers {few:.2f} s, {DEPTHS[1]} layers {many:.2f} s (medians of {runs}): ratio {many / few:.2f}"
    )
    print(f"program text {text[DEPTHS[0]]} and {text[DEPTHS[1]]} bytes: ratio {text[DEPTHS[1]] / text[DEPTHS[0]]:.3f}")


if __name__ == "__main__":
    main()
