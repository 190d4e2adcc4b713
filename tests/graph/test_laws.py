"""Laws that every row of the op table keeps, over examples: a new row is tested the day it is added."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Example, examples, type_of
from tdslc.compiler.graph import OPS, Attr, Graph, NDArray, TensorType, evaluate, parse, show, verify
from tdslc.compiler.graph.ops.row import Axes, Entry

every_op = pytest.mark.parametrize("op", sorted(OPS))
few = settings(max_examples=30)


def run(example: Example) -> tuple[NDArray, ...]:
    return evaluate(example.graph(), example.bound())


def same_bits(x: NDArray, y: NDArray) -> bool:
    """Equal in type, shape and every bit, all NaNs taken for one."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return _one_nan(x).tobytes() == _one_nan(y).tobytes()


def _one_nan(x: NDArray) -> NDArray:
    return np.where(x != x, np.array(np.nan, x.dtype), x) if type_of(x).dtype.is_float else np.ascontiguousarray(x)


# ---- types, text, layout -------------------------------------------------------------------------


@every_op
@few
@given(st.data())
def test_row(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
    graph = example.graph()
    assert verify(graph) == []
    check_types(graph, example)
    check_text(graph)
    check_layout(example)


def check_types(graph: Graph, example: Example) -> None:
    """The type rule says what the meaning gives; when floats are widened, they and only they are f64."""
    for wide in (False, True):
        for t, x in zip(graph.output_types, evaluate(graph, example.bound(), wide=wide), strict=True):
            assert x.shape == t.shape
            assert x.dtype == (np.float64 if wide and t.dtype.is_float else t.dtype.numpy)


def check_text(graph: Graph) -> None:
    """The text form parses back."""
    text = show(graph)
    assert parse(text) == graph
    assert show(parse(text)) == text


def check_layout(example: Example) -> None:
    """A value depends on the operands' values and not on how they lie in memory."""
    expected = run(example)
    for lie in (_reversed, _transposed, _apart):
        got = run(Example(example.op, tuple(map(lie, example.operands)), example.attrs, example.regions))
        assert all(map(same_bits, got, expected)), lie


def _reversed(x: NDArray) -> NDArray:
    everywhere = (slice(None, None, -1),) * x.ndim
    return x[everywhere].copy()[everywhere]


def _transposed(x: NDArray) -> NDArray:
    return x.T.copy().T


def _apart(x: NDArray) -> NDArray:
    return np.repeat(x, 3, axis=-1)[..., ::3] if x.ndim else x


# ---- iteration axes ------------------------------------------------------------------------------


@every_op
@few
@given(st.data())
def test_axes(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
    seed = data.draw(st.integers(0, 2**32 - 1))
    node = example.graph().nodes[-1]
    axes = OPS[op].axes(example.types, dict(node.attrs), node.types)
    check_cover(axes, example.types, node.types)
    check_cuts(axes, example, np.random.default_rng(seed))


def check_cover(axes: Axes, operands: Sequence[TensorType], results: Sequence[TensorType]) -> None:
    """Every axis of every tensor runs with one iteration axis of its length, or has size 1."""
    assert len(axes.extents) == len(axes.kinds)
    assert not any(axes.kinds[e.axis] == "reduce" for row in axes.results for e in row if e)
    for tensors, rows in ((operands, axes.operands), (results, axes.results)):
        for t, row in zip(tensors, rows, strict=True):
            for size, entry in zip(t.shape, row, strict=True):
                assert size == 1 if entry is None else size == axes.extents[entry.axis] * entry.scale
            assert len({e.axis for e in row if e}) == sum(e is not None for e in row), "an axis twice in one tensor"


def check_cuts(axes: Axes, example: Example, rng: np.random.Generator) -> None:
    """Cutting parallel axes of the operands, one or all at once, gives exactly that cut of the results."""
    expected = run(example)
    parallel = [i for i, kind in enumerate(axes.kinds) if kind == "parallel"]
    spans = {i: slice(*sorted(map(int, rng.integers(0, axes.extents[i] + 1, 2)))) for i in parallel}
    for chosen in (*([i] for i in parallel), parallel):
        cuts = {i: spans[i] for i in chosen}
        parts = [cut(x, row, cuts) for x, row in zip(expected, axes.results, strict=True)]
        operands = tuple(cut(x, row, cuts) for x, row in zip(example.operands, axes.operands, strict=True))
        attrs = cut_attrs(example, parts)
        got = run_cut(Example(example.op, operands, attrs, example.regions), example, axes, cuts)
        assert all(map(same_bits, got, parts)), cuts


def cut(x: NDArray, row: Sequence[Entry | None], cuts: dict[int, slice]) -> NDArray:
    """The part of a tensor that runs with the steps `cuts` of the iteration axes."""
    where = [slice(None)] * x.ndim
    for i, entry in enumerate(row):
        if entry and entry.axis in cuts:
            steps = cuts[entry.axis]
            where[i] = slice(steps.start * entry.scale, steps.stop * entry.scale)
    return x[tuple(where)]


def cut_attrs(example: Example, parts: Sequence[NDArray]) -> dict[str, Attr]:
    """The attributes of an op whose results are cut, as its row says."""
    node = example.graph().nodes[-1]
    return dict(OPS[example.op].recut(dict(node.attrs), example.types, node.types, tuple(map(type_of, parts))))


def run_cut(part: Example, whole: Example, axes: Axes, cuts: dict[int, slice]) -> tuple[NDArray, ...]:
    """A bound leaf is cut as its only result is."""
    given = part.bound()
    if "leaf" in given:
        given["leaf"] = cut(whole.bound()["leaf"], axes.results[0], cuts)
    return evaluate(part.graph(), given)


COMBINED = {"matmul": "add", "reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min",
            "reduce_and": "and", "reduce_or": "or"}  # fmt: skip


@pytest.mark.parametrize("op", COMBINED)
@few
@given(st.data())
def test_parts_of_a_reduce_axis_combine(op: str, data: st.DataObject) -> None:
    """With operands whose sums and products are exact in any order, cut in two along each reduce axis."""
    drawn = data.draw(examples(op))
    example = Example(op, tuple(map(_exact, drawn.operands)), {k: v for k, v in drawn.attrs.items() if k != "dtype"})
    node = example.graph().nodes[-1]
    axes = OPS[op].axes(example.types, dict(node.attrs), node.types)
    for i in (i for i, kind in enumerate(axes.kinds) if kind == "reduce"):
        at = axes.extents[i] // 3
        halves: list[NDArray] = []
        for steps in (slice(0, at), slice(at, axes.extents[i])):
            operands = tuple(cut(x, row, {i: steps}) for x, row in zip(example.operands, axes.operands, strict=True))
            halves += run(Example(op, operands, example.attrs))
        assert all(map(same_bits, run(Example(COMBINED[op], tuple(halves), {})), run(example)))


def _exact(x: NDArray) -> NDArray:
    """-1, 0 or 1 by the sign of x, in f32 where floats are narrower: their sums are exact in any order."""
    kind = type_of(x).dtype
    if not kind.is_float:
        return x if kind.kind == "bool" else np.sign(x.astype(np.int64)).astype(kind.numpy)
    return np.sign(np.nan_to_num(x.astype(np.float64))).astype(np.float32)


def test_every_op_that_reduces_says_how_parts_combine() -> None:
    reducing = {op for op in OPS if op.startswith("reduce_") and "reduce" in OPS[op].traits} | {"matmul"}
    assert reducing == set(COMBINED)
