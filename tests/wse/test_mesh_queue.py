"""Queued rows that add multiples: done several numbers and rows at a time, they are as if done one by one."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tdslc.targets.wse.mesh.batched_kernels import LANES, fours, lanes_queue
from tdslc.targets.wse.mesh.batched_uniform import ADD_MULTIPLE, ROW

WORDS = 128
PLACES = st.integers(0, 40)


def row(slot: int, count: int, d: int, b: int, factor: int) -> list[int]:
    return [ADD_MULTIPLE, count, d, 1, 0, d, 1, 0, b, 1, 1, slot, factor]


def one_by_one(words: NDArray[np.float32], rows: list[list[int]]) -> None:
    for _, count, d, *_, b, _, _, _, factor in rows:
        z = words[factor]
        for k in range(count):
            words[d + k] += np.float32(words[b + k] * z)


@st.composite
def queues(draw: st.DrawFn) -> list[list[int]]:
    """Rows in runs of one source and length, as a product has them, whose places may overlap."""
    made: list[list[int]] = []
    for _ in range(draw(st.integers(1, 3))):
        count, b = draw(st.sampled_from([1, 7, 8, 9, 16, 19])), draw(PLACES)
        for _ in range(draw(st.integers(1, 6))):
            # Near to others, or far apart.
            d = draw(PLACES | st.integers(2, 4).map(lambda k: 20 * k))
            made.append(row(len(made), count, d, b, draw(PLACES | st.integers(100, 127))))
    return made


@settings(max_examples=300, deadline=None)
@given(queues(), st.integers(1, LANES + 2))
def test_rows_are_as_if_done_one_by_one(rows: list[list[int]], lanes: int) -> None:
    words = np.random.default_rng(len(rows)).standard_normal(lanes * WORDS).astype(np.float32)
    expected = words.copy()
    for lane in range(lanes):
        one_by_one(expected[lane * WORDS : (lane + 1) * WORDS], rows)
    at, slots = np.arange(lanes) * WORDS, np.zeros((len(rows), LANES), np.float32)
    lanes_queue(
        words, at, np.array(rows, np.int32), slots, np.zeros(0, np.int64), np.zeros((0, lanes), np.float32), 0, lanes
    )
    np.testing.assert_array_equal(words.view(np.uint32), expected.view(np.uint32))


def test_a_product_goes_four_rows_at_a_time() -> None:
    rows = np.array([row(k, 16, 16 * k, 80, 100 + k) for k in range(5)], np.int32)
    assert rows.shape[1] == ROW
    assert fours(rows).tolist() == [True, False, False, False, False]
