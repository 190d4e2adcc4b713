"""Laws that every row of the op table keeps, over examples: a new row is tested the day it is added."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Example, examples, type_of
from tdslc.compiler.graph import OPS, Attr, NDArray, TensorType, evaluate, parse, show, verify
from tdslc.compiler.graph.ops.control import INDEX
from tdslc.compiler.graph.ops.row import Axes, Entry

every_op = pytest.mark.parametrize("op", sorted(OPS))


def run(example: Example, wide: bool = False) -> tuple[NDArray, ...]:
    return evaluate(example.graph(), example.bound(), wide=wide)


def same_bits(x: NDArray, y: NDArray) -> bool:
    """Equal in type, shape and every bit, all NaNs taken for one."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    x, y = (np.where(a != a, np.array(np.nan, a.dtype) if a.dtype.kind not in "iub" else a, a) for a in (x, y))
    return x.astype(x.dtype).tobytes() == y.astype(y.dtype).tobytes()


@every_op
@given(st.data())
def test_the_type_rule_is_what_the_meaning_gives(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
    graph = example.graph()
    assert verify(graph) == []
    for wide in (False, True):
        for t, x in zip(graph.output_types, evaluate(graph, example.bound(), wide=wide), strict=True):
            assert x.shape == t.shape
            assert x.dtype == (np.float64 if wide and t.dtype.is_float else t.dtype.numpy)


@every_op
@given(st.data())
def test_the_text_form_parses_back(op: str, data: st.DataObject) -> None:
    graph = data.draw(examples(op)).graph()
    text = show(graph)
    assert parse(text) == graph
    assert show(parse(text)) == text


@every_op
@given(st.data())
def test_a_value_depends_on_operands_and_not_on_how_they_lie(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
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


def axes_of(example: Example) -> tuple[Axes, tuple[TensorType, ...]]:
    graph = example.graph()
    node = graph.nodes[-1]
    return OPS[example.op].axes(example.types, dict(node.attrs), node.types), node.types


@every_op
@given(st.data())
def test_axes_cover_operands_and_results(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
    axes, results = axes_of(example)
    assert len(axes.extents) == len(axes.kinds)
    carried = [e.axis for row in axes.results for e in row if e]
    assert not any(axes.kinds[i] == "reduce" for i in carried)
    for tensors, rows in ((example.types, axes.operands), (results, axes.results)):
        for t, row in zip(tensors, rows, strict=True):
            for size, entry in zip(t.shape, row, strict=True):
                assert size == 1 if entry is None else size == axes.extents[entry.axis] * entry.scale
            assert len({e.axis for e in row if e}) == sum(e is not None for e in row), "an axis twice in one tensor"


@every_op
@given(st.data())
def test_cutting_parallel_axes_cuts_the_result(op: str, data: st.DataObject) -> None:
    example = data.draw(examples(op))
    axes, results = axes_of(example)
    expected = run(example)
    parallel = [i for i, kind in enumerate(axes.kinds) if kind == "parallel"]
    spans = {i: sorted(data.draw(st.integers(0, axes.extents[i])) for _ in "ab") for i in parallel}
    for chosen in (*([i] for i in parallel), parallel):
        cuts = {i: slice(*spans[i]) for i in chosen}
        parts = [cut(x, row, cuts) for x, row in zip(expected, axes.results, strict=True)]
        operands = tuple(cut(x, row, cuts) for x, row in zip(example.operands, axes.operands, strict=True))
        attrs = cut_attrs(example, [type_of(x) for x in parts], [t.shape for t in results])
        got = run_cut(Example(op, operands, attrs, example.regions), example, axes, cuts)
        assert all(map(same_bits, got, parts)), (chosen, cuts)


def cut(x: NDArray, row: Sequence[Entry | None], cuts: dict[int, slice]) -> NDArray:
    """The part of a tensor that runs with the steps `cuts` of the iteration axes."""
    where = [slice(None)] * x.ndim
    for i, entry in enumerate(row):
        if entry and entry.axis in cuts:
            steps = cuts[entry.axis]
            where[i] = slice(steps.start * entry.scale, steps.stop * entry.scale)
    return x[tuple(where)]


def cut_attrs(example: Example, parts: Sequence[TensorType], old: Sequence[tuple[int, ...]]) -> dict[str, Attr]:
    """The attributes of an op whose results are cut: shapes in them are cut alike."""
    attrs = dict(example.attrs)
    if "shape" in attrs:
        attrs["shape"] = parts[0].shape
    if example.op == "slice":
        triples = zip(parts[0].shape, old[0], attrs["stops"], strict=True)
        attrs["stops"] = tuple(stop if new == before else new for new, before, stop in triples)
    return attrs


def run_cut(part: Example, whole: Example, axes: Axes, cuts: dict[int, slice]) -> tuple[NDArray, ...]:
    """A bound leaf is cut as its only result is."""
    given = part.bound()
    if "leaf" in given:
        given["leaf"] = cut(whole.bound()["leaf"], axes.results[0], cuts)
    return evaluate(part.graph(), given)


COMBINED = {"matmul": "add", "reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min",
            "reduce_and": "and", "reduce_or": "or"}  # fmt: skip


@pytest.mark.parametrize("op", [name for name in sorted(OPS) if name != "loop"])
@given(st.data())
def test_parts_of_a_reduce_axis_combine(op: str, data: st.DataObject) -> None:
    """A tensor of numbers whose sums and products are exact, cut in two along a reduce axis."""
    example = data.draw(examples(op))
    axes, _ = axes_of(example)
    reduce = [i for i, kind in enumerate(axes.kinds) if kind == "reduce"]
    if not reduce:
        return
    signs = tuple(_exact(x) for x in example.operands)
    example = Example(op, signs, example.attrs)
    (expected,) = run(example)
    for i in reduce:
        at = data.draw(st.integers(0, axes.extents[i]))
        halves: list[NDArray] = []
        for steps in (slice(0, at), slice(at, axes.extents[i])):
            operands = tuple(cut(x, row, {i: steps}) for x, row in zip(signs, axes.operands, strict=True))
            halves += run(Example(op, operands, example.attrs))
        (got,) = run(Example(COMBINED[op], tuple(halves), {}))
        assert same_bits(got, expected)


def _exact(x: NDArray) -> NDArray:
    """-1, 0 or 1 by the sign of x: few enough of them sum exactly at every dtype, in any order."""
    kind = type_of(x).dtype
    return x if kind.kind == "bool" else np.sign(np.nan_to_num(x.astype(np.float64))).astype(np.int64).astype(kind.numpy)


def test_the_index_of_a_loop_is_an_i32() -> None:
    assert str(INDEX) == "i32[]"
