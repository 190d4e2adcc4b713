"""How long builds take, phase by phase, and that they take as long as a model's unique structure is large.

    python bench/build_time.py [MODEL.onnx | MODEL.tdsl | chain:N | blocks:N ...]

Without models: the nine light models of the onnx wheel (when it is installed), MiniLM, 60 unrolled blocks of a
perceptron and a chain of 5,000 elementwise ops. Prints a row a model: seconds of processor time and of the wall in
each phase, how many kernels were asked for a price, and how many different ones that were. The last line is the ratio
of 60 blocks to 15: of processor time, and of kernels priced.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import tdslc.compiler.plan.pricing as pricing
from tdslc.compiler.build.driver import build
from tdslc.compiler.build.options import BuildOptions

ROOT = Path(__file__).parent.parent
LIGHT = ("resnet50", "vgg19", "densenet121", "inception_v1", "inception_v2", "squeezenet", "shufflenet", "zfnet512",
         "bvlc_alexnet")  # fmt: skip
CHAIN = ("tanh(x)", "x * 1.5", "x + 0.25", "-x", "abs(x)")
FEW, MANY = 15, 60


@dataclass
class Measured:
    """One build: processor and wall seconds of its phases, kernels asked for, different ones, and of the worker."""

    cpu: dict[str, float] = field(default_factory=dict[str, float])
    wall: dict[str, float] = field(default_factory=dict[str, float])
    asked: int = 0
    priced: int = 0
    worker_cpu: float = 0.0

    @property
    def total_cpu(self) -> float:
        return sum(self.cpu.values()) + self.worker_cpu


def chain(n: int) -> str:
    """A model of `n` elementwise ops, one after another."""
    lines = [f"    x = {CHAIN[i % len(CHAIN)]}" for i in range(n)]
    return "\n".join(
        ['"""A chain."""', "", "model chain(x: f32[64, 256]) -> f32[64, 256]:", *lines, "    return x", ""]
    )


def blocks(n: int) -> str:
    """A model of `n` blocks of a perceptron, unrolled."""
    return f'''"""Blocks of a perceptron."""
import nn

model blocks(x: f32[128, 256]) -> f32[128, 256]:
    for i in range({n}) as "blocks.{{i}}":
        h = nn.linear(nn.layer_norm(x) as "norm", 1024) as "up"
        x = x + (nn.linear(nn.gelu(h), 256) as "down")
    return x
'''


def path_of(model: str, folder: Path) -> Path:
    """The file of a model; `chain:N` and `blocks:N` are written to `folder`."""
    kind, _, count = model.partition(":")
    texts = {"chain": chain, "blocks": blocks}
    if kind not in texts:
        return Path(model)
    path = folder / f"{kind}{count}.tdsl"
    path.write_text(texts[kind](int(count)), encoding="utf-8")
    return path


def default_models() -> list[str]:
    """What is measured when nothing is named."""
    found = [str(ROOT / "examples/minilm.tdsl"), f"blocks:{MANY}", "chain:5000"]
    spec = importlib.util.find_spec("onnx")
    if spec is not None and spec.origin is not None:
        light = Path(spec.origin).parent / "backend/test/data/light"
        found = [*(str(light / f"light_{name}.onnx") for name in LIGHT), *found]
    return found


def measure(path: Path) -> Measured:
    """Builds the model at `path` for mxu:v5e, whole, in this process and its worker."""
    made, marks = Measured(), list[tuple[str, float]]()
    kernel, body = pricing.Pricer.kernel, pricing.Pricer.body

    def counted_kernel(self: pricing.Pricer, *args: object) -> pricing.Price:
        made.asked += 1
        return kernel(self, *args)  # type: ignore[arg-type]

    def counted_body(self: pricing.Pricer, graph: pricing.Graph) -> pricing.Price:
        before = len(self._bodies)
        price = body(self, graph)
        made.priced += len(self._bodies) - before
        return price

    pricing.Pricer.kernel, pricing.Pricer.body = counted_kernel, counted_body  # type: ignore[method-assign]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = build(BuildOptions(str(path)), lambda name: marks.append((name, time.process_time())))
    finally:
        pricing.Pricer.kernel, pricing.Pricer.body = kernel, body  # type: ignore[method-assign]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ends = [*(at for _, at in marks[1:]), time.process_time()]
    made.cpu = {name: end - at for (name, at), end in zip(marks, ends, strict=True)}
    made.wall = {p.name: p.wall_seconds for p in done.phases}
    made.worker_cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return made


def row(name: str, m: Measured) -> str:
    """A line of the table."""
    phases = ", ".join(f"{p} {m.cpu[p]:.1f}/{m.wall.get(p, 0.0):.1f}" for p in m.cpu)
    return (
        f"{name:22} {m.total_cpu:6.1f} s cpu, {sum(m.wall.values()):6.1f} s wall; {phases}; worker {m.worker_cpu:.1f}; "
        f"{m.asked} kernels asked, {m.priced} priced"
    )


def main() -> None:
    print("phases: seconds of processor time / of the wall")
    with tempfile.TemporaryDirectory() as folder:
        for model in sys.argv[1:] or default_models():
            print(row(Path(model).stem, measure(path_of(model, Path(folder)))), flush=True)
        few, many = (measure(path_of(f"blocks:{n}", Path(folder))) for n in (FEW, MANY))
    print(
        f"{MANY} blocks to {FEW}: {many.total_cpu / few.total_cpu:.2f} times the processor time, "
        f"{many.priced / few.priced:.2f} times the kernels priced"
    )


if __name__ == "__main__":
    main()
