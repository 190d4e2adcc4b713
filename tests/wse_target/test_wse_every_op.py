"""Every elementwise op that the wafer has, in one program: values as the op's row has them."""

from __future__ import annotations

import numpy as np
import pytest
from tdslc.compiler.build.compare import close, same_bits
from tdslc.compiler.graph import OPS, Builder, DType, Graph, TensorType, evaluate
from tdslc.compiler.graph.dtypes import BOOL, DTYPES, F32, I8, I32, U8
from tdslc.targets.wse.elementwise import recipe
from wse_programs import fused, machine

pytest.importorskip("numba")
ROWS, COLUMNS = 7, 5
U32, I16 = DTYPES["u32"], DTYPES["i16"]
# Computed by <math>, or by a formula with its own error.
FUNCTIONS = ("exp", "log", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf")


def every_op() -> Graph:
    """A graph with an output for each op and dtype that there is a recipe for, and for clamps by numbers."""
    b = Builder("ops")
    inputs = {d: [b.input(f"{d}{i}", TensorType(d, (ROWS, COLUMNS))) for i in "ab"] for d in
              (F32, I32, U32, I16, I8, U8, BOOL)}  # fmt: skip
    outputs: dict[str, int] = {}
    for d, args in inputs.items():
        for name, op in OPS.items():
            if "elementwise" in op.traits and not op.attrs and name != "select" and len(op.operands) <= 2:
                _add(b, outputs, f"{name}_{d}", name, args[: len(op.operands)])
        for to in inputs:
            _add(b, outputs, f"convert_{d}_{to}", "convert", args[:1], dtype=to)
        _add(b, outputs, f"select_{d}", "select", [inputs[BOOL][0], *args])
    for op in ("max", "min"):
        for value in (0.0, -0.0, -1.5, float("inf")):
            number = b.full(value, F32, (ROWS, COLUMNS))
            outputs[f"{op}_{value}".replace(".", "_").replace("-", "m")] = b.one(op, inputs[F32][0], number)
    return b.finish(list(outputs.values()), list(outputs))


def _add(b: Builder, outputs: dict[str, int], name: str, op: str, args: list[int], **attrs: DType) -> None:
    types = tuple(b.types[a] for a in args)
    if isinstance(OPS[op].infer(types, {**attrs}), str):
        return
    (made,) = b.add(op, args, dict(attrs))
    if recipe(b.nodes[-1], types) is not None:
        outputs[name] = made


def values(d: DType, rng: np.random.Generator) -> np.ndarray:
    if d == F32:
        x = (rng.standard_normal((ROWS, COLUMNS)) * 3).astype(np.float32)
        x.flat[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
        rng.shuffle(x.ravel())
        return x
    if d == BOOL:
        return rng.integers(0, 2, (ROWS, COLUMNS)).astype(np.bool_)
    low, high = (0, 200) if d in (U8, U32) else (-100, 100)
    return rng.integers(low, high, (ROWS, COLUMNS)).astype(d.numpy)


def test_every_elementwise_op() -> None:
    graph = every_op()
    rng = np.random.default_rng(3)
    inputs = {str(n.attr("name")): values(n.type.dtype, rng) for n in graph.inputs}
    m = machine("3x2")
    got = m.run(m.lower(fused(graph, m)), inputs)
    wide = evaluate(graph, inputs, {}, wide=True)
    assert len(graph.outputs) > 60
    for name, v, right, exact in zip(graph.output_names, graph.outputs, evaluate(graph, inputs, {}), wide, strict=True):
        dtype = graph.types[v].dtype
        loose = name.removesuffix("_f32") in FUNCTIONS
        found = close(got[name], right, exact, dtype) if loose else same_bits(got[name], right, dtype)
        assert got[name].dtype == right.dtype and not found.fault, (name, str(found.fault))
