"""One matrix unit's values: accumulator rows are added to, popped and guarded."""

from __future__ import annotations

import numpy as np
import pytest
from tdslc.targets.mxu.chip import load
from tdslc.targets.mxu.matrix_values import Misuse, UnitValues

TPU7X = load("tpu7x").value.mxu


def unit(tile: np.ndarray) -> UnitValues:
    made = UnitValues(TPU7X)
    made.push(tile)
    return made


def rows(*shape: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_accumulators_hold_floats_and_integers(dtype: type) -> None:
    tile, x, y = rows(16, 8, dtype=dtype), rows(24, 16, dtype=dtype, seed=1), rows(24, 16, dtype=dtype, seed=2)
    u = unit(tile)
    u.multiply(x, True, 40, False)
    u.multiply(y, False, 40, True)
    assert u.left() == "sums"
    got = np.concatenate([u.pop(8, 8, 40), u.pop(16, 8, 48)])
    assert got.dtype == (np.int32 if dtype is np.int8 else np.float32)
    assert np.array_equal(got, (x.astype(np.int64) + y) @ tile.astype(np.int64))
    assert u.left() == ""


def test_what_was_popped_does_not_change_later() -> None:
    u = unit(rows(16, 8))
    u.multiply(rows(8, 16, seed=1), True, 0, False)
    first = u.pop(8, 8, 0)
    kept = first.copy()
    u.multiply(rows(8, 16, seed=2), False, 0, False)
    assert np.array_equal(first, kept)


def test_a_negative_zero_is_put_and_added_as_it_is() -> None:
    u = unit(np.eye(8, dtype=np.float32))
    u.multiply(np.full((8, 8), -0.0, np.float32), True, 0, False)
    assert not np.signbit(u.pop(8, 8, 0)).any()


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda u: u.multiply(rows(8, 16), True, 0, True), "added to accumulator row 0, which holds no sums of that"),
        (lambda u: [u.multiply(rows(8, 16), k == 0, 4, False) for k in range(2)], "overwrites accumulator row 4, whi"),
        (lambda u: u.multiply(rows(8, 16), True, TPU7X.accumulator_rows - 7, False), "there are"),
        (lambda u: u.pop(8, 8, 12), "accumulator row 12 is popped, but holds nothing"),
        (lambda u: [u.multiply(rows(8, 16), True, 0, False), u.pop(16, 8, 0)], "accumulator row 8 is popped"),
        (lambda u: [u.multiply(rows(8, 16), True, 0, False), u.pop(8, 4, 0)], "results 8 wide are popped to rows 4"),
        (lambda u: u.pop(8, 8, TPU7X.accumulator_rows - 4), "is popped, but holds nothing"),
    ],
)
def test_misuse_of_accumulators(use, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        use(unit(rows(16, 8)))


def test_sums_of_two_widths_and_kinds_do_not_mix() -> None:
    u = unit(rows(16, 8))
    u.multiply(rows(8, 16), True, 0, False)
    u.push(rows(16, 4))
    with pytest.raises(Misuse, match="row 0, which holds no sums of that width"):
        u.multiply(rows(8, 16), True, 0, True)
    u.multiply(rows(8, 16), False, 8, False)
    with pytest.raises(Misuse, match="accumulator rows of two widths"):
        u.pop(16, 8, 0)
    u.push(rows(16, 8, dtype=np.int8))
    with pytest.raises(Misuse, match="row 0, which holds no sums of that width"):
        u.multiply(rows(8, 16, dtype=np.int8), True, 0, True)
