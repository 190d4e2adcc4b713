"""Weights and inputs: checked by name and shape at build, bound and rounded at run."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tdslc.compiler.build import inputs as inputs_
from tdslc.compiler.build.convert import convert, round_floats
from tdslc.compiler.build.weights import bind, no_weights, open_weights, random_seed, random_weights, wanted
from tdslc.compiler.graph import DTYPES, Builder, Dim, Graph, TensorType
from tdslc.compiler.source import DiagnosticError

F32, BF16, I32, BOOL = (DTYPES[n] for n in ("f32", "bf16", "i32", "bool"))


def model() -> Graph:
    b = Builder("m")
    x = b.input("x", TensorType(BF16, (Dim(2, "B"), 3)))
    w = b.param("head.weight", TensorType(BF16, (3, 4)), loc="m.tdsl:4:5")
    b.param("layer.{i}.bias", TensorType(F32, (2, 4)), stack=2, loc="m.tdsl:7:9")
    assert w
    return b.finish([x], ["y"])


def save(path: Path, **tensors: np.ndarray) -> str:
    save_file({name.replace("__", "."): t for name, t in tensors.items()}, str(path))
    return str(path)


def test_wanted_names_each_tensor_of_a_stack() -> None:
    assert [(w.name, str(w.type), w.source) for w in wanted(model())] == [
        ("head.weight", "bf16[3, 4]", "m.tdsl:4"),
        ("layer.0.bias", "f32[4]", "m.tdsl:7"),
        ("layer.1.bias", "f32[4]", "m.tdsl:7"),
    ]


def test_binds_rounds_and_stacks(tmp_path: Path) -> None:
    w = np.full((3, 4), 1 + 2**-8 + 2**-40)  # rounds up, but down when f32 comes between
    path = save(tmp_path / "w.safetensors", head__weight=w, layer__0__bias=np.zeros(4), layer__1__bias=np.ones(4))
    tensors, notes = open_weights(path, model())
    got = bind(model(), tensors)
    assert notes == []
    assert got["head.weight"].dtype == ml_dtypes.bfloat16
    assert float(got["head.weight"][0, 0]) == 1 + 2**-7
    np.testing.assert_array_equal(got["layer.{i}.bias"], np.stack([np.zeros(4), np.ones(4)]).astype(np.float32))


def test_everything_missing_and_misshapen_is_told(tmp_path: Path) -> None:
    path = save(tmp_path / "w.safetensors", head__weight=np.zeros((4, 3)), layer__0__bais=np.zeros(4))
    with pytest.raises(DiagnosticError) as caught:
        open_weights(path, model())
    missing, misshapen = caught.value.diagnostics
    assert (missing.code, misshapen.code) == ("E0603", "E0604")
    assert [n.message for n in missing.notes] == [
        "`layer.0.bias` f32[4] (m.tdsl:7) is missing; did you mean `layer.0.bais`?",
        "`layer.1.bias` f32[4] (m.tdsl:7) is missing; did you mean `layer.0.bais`?",
        "what the file has besides: `layer.0.bais`",
    ]
    assert [n.message for n in misshapen.notes] == [
        "`head.weight` is bf16[3, 4] (m.tdsl:4), but the file has f64[4, 3] (transposed?)"
    ]


def test_unused_tensors_are_one_note(tmp_path: Path) -> None:
    path = save(tmp_path / "w.safetensors", a=np.zeros(1), b=np.zeros(1))
    tensors, notes = open_weights(path, Builder("none").finish([]))
    assert len(tensors) == 2
    assert [(n.code, n.severity) for n in notes] == [("E0605", "note")]


def test_random_weights_are_the_same_for_the_same_seed() -> None:
    a, b, c = random_weights(model(), 1), random_weights(model(), 1), random_weights(model(), 2)
    np.testing.assert_array_equal(a["head.weight"], b["head.weight"])
    assert not np.array_equal(a["head.weight"], c["head.weight"])
    assert a["layer.{i}.bias"].shape == (2, 4)
    assert (random_seed("random:7"), random_seed("w.safetensors"), random_seed(None)) == (7, None, None)
    with pytest.raises(DiagnosticError, match="E0606"):
        random_seed("random:x")
    assert "3 more" not in str(no_weights(model()))


@given(st.floats(width=64))
def test_floats_round_once(x: float) -> None:
    """Against exact arithmetic: no bf16 is nearer to x than the one chosen."""
    got = round_floats(np.array([x]), BF16)
    bits = got.view(np.uint16).astype(np.int64)[0]
    if not np.isfinite(x) or not np.isfinite(float(got[0])):
        return
    from fractions import Fraction

    exact = Fraction(x)
    for other in (bits - 1, bits + 1):
        near = float(np.array([other & 0xFFFF], np.uint16).view(ml_dtypes.bfloat16)[0])
        if np.isfinite(near):
            here, there = abs(exact - Fraction(float(got[0]))), abs(exact - Fraction(near))
            assert here < there or (here == there and bits % 2 == 0) or near == float(got[0])


def test_integers_convert_when_they_keep_their_value() -> None:
    assert convert(np.array([0, 127]), DTYPES["i8"]).dtype == np.int8
    assert "holds -128 to 127" in str(convert(np.array([128]), DTYPES["i8"]))
    assert convert(np.array([0, 1], np.uint8), BOOL).tolist() == [False, True]
    assert "bool" in str(convert(np.array([2]), BOOL))
    assert isinstance(convert(np.array([1.0]), I32), str)
    assert isinstance(convert(np.array([1]), F32), str)
    assert isinstance(convert(np.array([2**64 - 1], np.uint64), DTYPES["i64"]), str)


def test_inputs_bind_dims(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((5, 3), np.float32))
    given_ = inputs_.parse_inputs([f"x={tmp_path / 'x.npy'}"])
    assert inputs_.bind_dims(model(), given_, {}) == {"B": 5}
    assert inputs_.bind_dims(model(), given_, {"B": 2}) == {"B": 2}
    with pytest.raises(DiagnosticError, match=r"E0609.*shape \[5, 3\]"):
        inputs_.bind_inputs(model(), given_)


def test_inputs_that_are_wrong_are_all_told() -> None:
    with pytest.raises(DiagnosticError) as caught:
        inputs_.bind_inputs(model(), {"y": np.zeros(1)})
    assert [d.code for d in caught.value.diagnostics] == ["E0607", "E0608"]
    for text in ("x", "=a.npy", "x=rand:a"):
        with pytest.raises(DiagnosticError, match="E0607"):
            inputs_.parse_inputs([text])


def test_random_inputs() -> None:
    got = inputs_.bind_inputs(model(), inputs_.parse_inputs(["x=rand:3"]))
    assert got["x"].shape == (2, 3)
    assert got["x"].dtype == ml_dtypes.bfloat16
    drawn = inputs_.random_input("i", TensorType(DTYPES["i4"], (50,)), 0).astype(int)
    assert drawn.min() >= 0 and drawn.max() <= 7
