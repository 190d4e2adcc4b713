"""Models that once crashed a run, or whose figures were nonsense: each runs, checked, and every self-check holds."""

import re
from pathlib import Path

import numpy as np
import pytest
import tdslc

IDENTITY = "model m(x: f32[5, 3]) -> (f32[5, 3], f32[5, 3], f32[3, 5]):\n    return x, x, x.T\n"
PARAM_OUT = "model m(x: f32[5]) -> (f32[7], f32[5]):\n    param w: f32[7]\n    return w, x + 1\n"
SAME_TWICE = "model m(x: f32[8, 8]) -> (f32[8, 8], f32[8, 8]):\n    y = x @ x\n    return y, y\n"
TO_A_NUMBER = "model m(x: f32[7, 5]) -> (f32[], f32[], bool[]):\n    return sum(x), max(x), any(x > 0)\n"
NO_ROWS = "model m(x: f32[3, 0]) -> (f32[3], f32[]):\n    return sum(x, axis=-1), prod(x)\n"
LOOP = """\
model m(x: f32[8, 8], g: f32[{n}, 8]) -> (f32[8, 8], f32[{n}, 8]):
    ys = repeat i in range({n}) as "l.{{i}}":
        param w: f32[8, 8]
        x = tanh(x @ w) * g[i]
        yield sum(x, axis=0)
    return x, ys
"""
SWAP = """\
model m(x: f32[4, 4], g: f32[4, 4]) -> (f32[4, 4], f32[4, 4]):
    repeat i in range(5):
        x, g = g, x
    return x, g
"""
NESTED = """\
model m(x: f32[4, 4]) -> f32[4, 4]:
    repeat i in range(2):
        repeat j in range(3):
            x = x * 0.5 + f32(i * 3 + j)
    return x
"""
# Scales folded when weights bind: the program reads fewer bytes than the params have.
NORM = """\
import cnn
model m(x: f32[2, 3, 9, 9]) -> f32[2, 8, 9, 9]:
    return cnn.conv_block(x, 8) as "c"
"""
FOLD_IN_LOOP = """\
model m(x: f32[8, 64]) -> f32[8, 64]:
    repeat i in range(4) as "l.{i}":
        param a: f32[64, 64]
        param b: f32[64, 64]
        x = tanh(x @ (a * b))
    return x
"""
# The last column lies in no window.
PASSED_OVER = "model m(x: f32[2, 5, 33], w: f32[7, 5, 4]) -> f32[2, 7, 15]:\n    return conv(x, w, stride=2)\n"
MODELS = {
    "identity": IDENTITY,
    "param_out": PARAM_OUT,
    "same_twice": SAME_TWICE,
    "to_a_number": TO_A_NUMBER,
    "no_rows": NO_ROWS,
    "no_trip": LOOP.format(n=0),
    "one_trip": LOOP.format(n=1),
    "trips": LOOP.format(n=5),
    "swap": SWAP,
    "nested": NESTED,
    "norm": NORM,
    "passed_over": PASSED_OVER,
    "fold_in_loop": FOLD_IN_LOOP,
}


def arrays(text: str) -> dict[str, np.ndarray]:
    """A float array for every input of the model."""
    head = text[text.index("model m(") : text.index("->")]
    draw = np.random.default_rng(3)
    return {
        name: draw.standard_normal([int(d) for d in dims.split(",")]).astype(np.float32)
        for name, dims in re.findall(r"(\w+): f32\[([^\]]*)\]", head)
    }


@pytest.mark.parametrize("name", MODELS)
def test_repro_runs_as_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.tdsl").write_text(MODELS[name])
    opt = 2 if name in ("norm", "fold_in_loop") else 1
    built = tdslc.build(tmp_path / "m.tdsl", "mxu:v5e", weights="random:1", opt=opt)
    result = built.run(arrays(MODELS[name]), check=True)
    assert [check["detail"] for check in result.checks if not check["ok"]] == []
    assert [check for check in built.report["checks"] if not check["ok"]] == []
    for kernel in built.report["kernels"]:
        assert kernel["seconds"] >= kernel["bound_seconds"] * (1 - 1e-9)


def test_repro_a_slow_matrix_unit(tmp_path: Path) -> None:
    """Less than a row a cycle is slow, not a division by zero."""
    (tmp_path / "m.tdsl").write_text(SAME_TWICE)
    slow, usual = (
        tdslc.build(tmp_path / "m.tdsl", "mxu:v5e", overrides=overrides, opt=1)
        for overrides in (["mxu.rows_per_cycle.bf16=0.001"], [])
    )
    assert slow.totals.seconds > usual.totals.seconds
