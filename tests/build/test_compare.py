"""When two tensors agree."""

import ml_dtypes
import numpy as np
import pytest
from tdslc.compiler.build.compare import close, same_bits, ulps_apart
from tdslc.compiler.graph import DTYPES

F32, BF16, I32 = (DTYPES[n] for n in ("f32", "bf16", "i32"))


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_bits() -> None:
    nan = np.array([0x7FC00001, 0x7FC00000], np.uint32).view(np.float32)
    assert same_bits(nan[:1], nan[1:], F32).fault is None
    assert same_bits(f32(1, 2), f32(1, 2), F32).fault is None
    fault = same_bits(f32(0.0, 1), f32(-0.0, 1), F32).fault
    assert fault is not None and fault.index == (0,)
    assert same_bits(np.array(1, np.int32), np.array(1, np.int32), I32).fault is None


def test_close_allows_what_the_written_model_errs() -> None:
    wide = np.array([1.0, 2.0])
    written = f32(1.0, 2.0 + 1e-3)
    assert close(f32(1.0 + 3e-3, 2), written, wide, F32).fault is None
    fault = close(f32(1.0 + 5e-3, 2), written, wide, F32).fault
    assert fault is not None and fault.index == (0,)


def test_close_allows_four_ulp_of_the_largest() -> None:
    wide, written = np.array([1.0, 1000.0]), f32(1.0, 1000.0)
    ulp = float(np.spacing(np.float32(1000)))
    assert close(f32(1 + 4 * ulp, 1000), written, wide, F32).fault is None
    assert close(f32(1 + 5 * ulp, 1000), written, wide, F32).fault is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.0])
def test_special_values_stand_where_they_stood(bad: float) -> None:
    for good in (np.nan, np.inf, -np.inf, 1.0):
        wide, written = np.array([good]), f32(good)
        same = good == bad or (np.isnan(good) and np.isnan(bad))
        assert (close(f32(bad), written, wide, F32).fault is None) == same


def test_integers_have_no_slack() -> None:
    wide = written = np.array([5, 6], np.int32)
    assert close(np.array([5, 7], np.int32), written, wide, I32).fault is not None
    assert close(written, written, wide, I32).fault is None


def test_ulps() -> None:
    one = np.array([1], ml_dtypes.bfloat16)
    assert ulps_apart(np.array([1 + 2**-6], ml_dtypes.bfloat16), one, BF16).tolist() == [2.0]
    assert ulps_apart(f32(np.inf), f32(1), F32).tolist() == [np.inf]


def test_empty_tensors_agree() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert close(empty, empty, empty.astype(np.float64), F32).fault is None
    assert same_bits(empty, empty, F32).fault is None
