"""The whole way on the three examples: bytes, bounds and bits that the project promises."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tdslc
from bodies import same_bits
from tdslc.compiler.build.tensors import read_tensor
from tree import ROOT

EXAMPLES = ROOT / "examples"
FIXTURE = ROOT / "tests/fixtures/minilm_sentences.safetensors"
MLP = {"model": EXAMPLES / "mlp_block.tdsl", "target": "mxu:v5e"}
MINILM = {"model": EXAMPLES / "minilm.tdsl", "target": "mxu:v5e"}


def _moved(totals: object) -> int:
    return totals.bytes_read + totals.bytes_written  # type: ignore[attr-defined]


def _program_text(built: tdslc.Build) -> str:
    made = built.made
    assert made.chosen is not None
    return "".join(made.machine.show(made.chosen.program).values())


def test_mlp_block_is_one_kernel_near_its_bound() -> None:
    totals = tdslc.build(**MLP).totals
    assert totals.kernels == 1
    assert _moved(totals) <= 1.05 * totals.compulsory_bytes
    assert totals.compulsory_bytes == 2 * (128 * 1024 + 1024 * 4096 + 4096 + 128 * 4096)
    assert totals.bound_ratio is not None and totals.bound_ratio <= 1.35


def test_minilm_moves_less_than_twice_what_it_must() -> None:
    totals = tdslc.build(**MINILM, dims={"B": 1, "S": 128}).totals
    unfused = totals.unfused
    assert unfused.bytes_read is not None and unfused.bytes_written is not None and unfused.seconds is not None
    assert _moved(totals) <= 2.0 * totals.compulsory_bytes
    assert _moved(totals) <= unfused.bytes_read + unfused.bytes_written
    assert totals.seconds <= unfused.seconds


def test_depth_costs_neither_text_nor_kernels() -> None:
    shallow, deep = (tdslc.build(**MINILM, dims={"S": 32, "L": n}) for n in (6, 48))
    assert deep.totals.kernels == shallow.totals.kernels
    texts = [len(_program_text(b)) for b in (shallow, deep)]
    assert texts[1] <= 1.2 * texts[0]
    assert deep.totals.seconds > 4 * shallow.totals.seconds


@pytest.mark.parametrize("name", ["mlp_block", "digits", "minilm"])
def test_fused_equals_unfused_bit_for_bit(name: str) -> None:
    options: dict[str, object] = {"target": "mxu:v5e", "numerics": "exact", "weights": "random:3"}
    dims = {"minilm": {"B": 2, "S": 16, "L": 2}, "digits": {"B": 7}, "mlp_block": {"M": 16, "K": 256, "N": 384}}[name]
    inputs: dict[str, object] = {
        "minilm": {"ids": np.arange(32, dtype=np.int32).reshape(2, 16), "mask": np.arange(32).reshape(2, 16) % 5 != 4},
        "digits": {"images": np.arange(7 * 64, dtype=np.uint8).reshape(7, 64) % 17},
        "mlp_block": {"x": np.random.default_rng(5).standard_normal((16, 256)).astype(ml_dtypes.bfloat16)},
    }[name]
    model = EXAMPLES / f"{name}.tdsl"
    fused = tdslc.build(model, **options, dims=dims, fuse=True)  # type: ignore[arg-type]
    unfused = tdslc.build(model, **options, dims=dims, fuse=False)  # type: ignore[arg-type]
    assert fused.totals.kernels < unfused.totals.kernels
    first, second = (b.run(inputs, weights="random:3", check=b is fused) for b in (fused, unfused))  # type: ignore[arg-type]
    assert all(c["ok"] for c in first.checks)
    for output, array in first.outputs.items():
        assert same_bits(array, second.outputs[output]), output


def test_digits_are_read_as_numpy_reads_them() -> None:
    weights = EXAMPLES / "digits.safetensors"
    images, labels = (
        np.asarray(read_tensor(f"{EXAMPLES / 'digits_test.safetensors'}:{n}").read()) for n in ("images", "labels")
    )
    result = tdslc.run(EXAMPLES / "digits.tdsl", "mxu:v5e", inputs={"images": images}, weights=weights, check=True)
    w = {
        n: np.asarray(read_tensor(f"{weights}:{n}").read())
        for n in ("hidden.weight", "hidden.bias", "out.weight", "out.bias")
    }
    hidden = np.maximum(images.astype(np.float32) / 16 @ w["hidden.weight"].T + w["hidden.bias"], 0)
    decided = np.argmax(hidden @ w["out.weight"].T + w["out.bias"], axis=1)
    assert (result.outputs["label"] == decided).all()
    assert (result.outputs["label"] == labels).mean() >= 0.96
    assert all(c["ok"] for c in result.checks)


def test_a_rule_set_that_explodes_ends_at_its_budget(tmp_path: Path) -> None:
    rules = tmp_path / "explode.rules"
    rules.write_text(EXPLOSION, encoding="utf-8")
    built = tdslc.build(**MINILM, dims={"S": 32}, dtypes={"T": "f32"}, rules=[rules], unchecked=True)
    assert built.report["search"]["stop_reason"] in ("match_limit", "node_limit", "iteration_limit")
    assert any("budget" in note and "boom_add_assoc" in note for note in built.report["notes"])
    assert built.totals.seconds <= (built.totals.unfused.seconds or 0)


EXPLOSION = """
# a + b = b + a
rule boom_add_comm @exact:
    add(a: float[..S], b) => add(b, a)

# (a + b) + c = a + (b + c)
rule boom_add_assoc @reassoc:
    add(add(a: float[..S], b), c) <=> add(a, add(b, c))

# a * b = b * a
rule boom_mul_comm @exact:
    mul(a: float[..S], b) => mul(b, a)

# (a * b) * c = a * (b * c)
rule boom_mul_assoc @reassoc:
    mul(mul(a: float[..S], b), c) <=> mul(a, mul(b, c))

# a * (b + c) = a * b + a * c
rule boom_distribute @reassoc:
    mul(a: float[..S], add(b, c)) <=> add(mul(a, b), mul(a, c))

# (A + B) C = A C + B C
rule boom_matmul_distribute @reassoc:
    matmul(add(a: float[..B, M, K], b), c: float[K, N]) <=> add(matmul(a, c), matmul(b, c))
"""
