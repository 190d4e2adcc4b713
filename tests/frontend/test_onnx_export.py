"""An exported Graph is a valid ONNX model that means the same, to onnxruntime and to our own importer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import strategies
from bodies import BODIES, random_inputs
from edge_cases import edge_cases
from graph_examples import chain, sample
from hypothesis import HealthCheck, given, settings

onnx = pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")
pytest.importorskip("onnxruntime", reason="runs the models that are exported")

from onnx_judge import onnxruntime_of  # noqa: E402
from tdslc.compiler.frontend.onnx import export_model, import_model  # noqa: E402
from tdslc.compiler.graph import OPS, Builder, Graph, InferError, NDArray, TensorType, dtype, evaluate, verify  # noqa: E402
from tdslc.compiler.source import DiagnosticError  # noqa: E402

F32, F64, I32, BOOL = (dtype(name) for name in ("f32", "f64", "i32", "bool"))
# Rows that ONNX has nothing for, and dtypes of rows that it has nothing for.
NEVER = {"digamma", "erf_inv", "lgamma"}
NOT_OF = {"erfc": "f64", "reduce_precision": "f8e4m3"}
# Where ONNX leaves NaN open, and onnxruntime takes it otherwise than ONNX's reference and these rows.
NAN_IS_OPEN = {"argmax", "argmin", "cummax", "cummin", "max", "min", "reduce_max", "reduce_min", "reduce_window",
               "scatter", "select_and_scatter", "sign", "sort", "top_k"}  # fmt: skip
# Sums that onnxruntime takes in f32 and the rows in f64: what overflows on the way differs.
SUMS = {"cumsum", "matmul", "reduce_sum", "reduce_window", "conv"}
GREAT = 1e30
# By bytes of a float: a quarter of f8's step, two places of 16 bits, what two roundings cost above.
RTOL = {1: 0.25, 2: 1e-2}


def same(got: NDArray, want: NDArray, atol: float = 1e-6) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
        return
    wide = [x.astype(np.float64) for x in (got, want)]
    np.testing.assert_allclose(*wide, RTOL.get(want.dtype.itemsize, 2e-5), atol)


def read_back(data: bytes, values: Mapping[str, NDArray]) -> tuple[NDArray, ...]:
    made = import_model(data)
    assert verify(made.graph) == []
    return evaluate(made.graph, {made.renamed.get(name, name): x for name, x in values.items()}, made.params)


def check(graph: Graph, values: Mapping[str, NDArray], params=None, judge: bool = True, atol: float = 1e-6) -> bool:
    """Whether onnxruntime was asked and agreed; our importer always is. With `judge` off onnxruntime is not."""
    data = export_model(graph, params)
    onnx.checker.check_model(data, full_check=True)
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, values, params)
        for got, want in zip(read_back(data, values), wanted, strict=True):
            same(got, want, atol)
        judged = onnxruntime_of(data, values) if judge else None
        for got, want in zip(judged or (), wanted, strict=judged is not None):
            same(got, want, atol)
    return judged is not None


def open_to(op: str, operands) -> bool:
    """Whether ONNX leaves open what `op` makes of these operands."""
    wide = [x.astype(np.float64) for x in operands if x.dtype.kind not in "iub"]
    nan, great = any(np.isnan(x).any() for x in wide), any((np.abs(x) > GREAT).any() for x in wide)
    return (op in NAN_IS_OPEN and nan) or (op in SUMS and great)


def exports(op: str, graph: Graph) -> bool:
    """Whether ONNX has a counterpart; it lacks one for the rows and dtypes above only."""
    types = {t.dtype.name for t in graph.types.values()}
    if op not in NEVER and NOT_OF.get(op) not in types:
        return True
    try:
        export_model(graph)
    except DiagnosticError as error:
        return "E1105" not in {d.code for d in error.diagnostics}
    return True


@pytest.mark.parametrize("op", sorted(set(OPS) - {"input", "param"}))
def test_every_row(op):
    judged = 0

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(strategies.examples(op))
    def run(example):
        nonlocal judged
        graph = example.graph()
        if exports(op, graph):
            judged += check(graph, example.bound(), judge=not open_to(op, example.operands))

    run()
    assert judged or op in NEVER


@pytest.mark.parametrize("op", sorted(set(OPS) - {"input", "param"}))
def test_every_row_at_its_edges(op):
    for operands, attrs in edge_cases(op):
        b = Builder("edge")
        args = [b.input(f"a{i}", strategies.type_of(x)) for i, x in enumerate(operands)]
        try:
            graph = b.finish(b.add(op, args, attrs))
        except InferError:
            continue
        if exports(op, graph):
            check(graph, {f"a{i}": x for i, x in enumerate(operands)}, judge=not open_to(op, operands))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(strategies.programs())
def test_programs(program):
    graph, values = program
    assert check(graph, values)


@pytest.mark.parametrize("name", sorted(BODIES))
def test_kernel_bodies(name):
    graph = BODIES[name]()
    narrow = any(t.dtype.bits < 32 and t.dtype.is_float for t in graph.types.values())
    # onnxruntime has no kernels of bf16.
    assert check(graph, random_inputs(graph), atol=1e-3 if narrow else 1e-5) or narrow


# ---- control, params, names ----------------------------------------------------------------------


def test_loops_composites_and_params():
    graph = sample()
    values = random_inputs(graph)
    (stacked,) = graph.params
    name = str(stacked.attr("name"))
    assert check(graph, {"x": values["x"]}, {name: values[name]})
    # Without values a param is an input after the graph's own.
    model = onnx.load_from_string(export_model(graph))
    assert [i.name for i in model.graph.input] == ["x", name]
    (got, *_) = onnxruntime_of(export_model(graph), values)
    same(got, evaluate(graph, values, values)[0])


def test_a_loop_of_no_trips():
    b, body = Builder("m"), Builder("body")
    x = b.input("x", TensorType(F32, (2,)))
    body.input("i", TensorType(I32, ()))
    c = body.input("c", TensorType(F32, (2,)))
    region = body.finish([body.one("neg", c), c])
    outs = b.add("loop", (x,), {"n": 0, "carry": 1, "xs": 0}, regions=(region,))
    assert check(b.finish(outs, ["last", "all"]), {"x": np.ones(2, np.float32)})


def control() -> Graph:
    """Halves x while its sum is above a limit, then negates it or not."""
    b, test, step, then, other = (Builder(n) for n in ("m", "test", "step", "then", "other"))
    x, limit = b.input("x", TensorType(F32, (3,))), b.input("limit", TensorType(F32, ()))
    v, most = test.input("v", TensorType(F32, (3,))), test.input("most", TensorType(F32, ()))
    again = test.finish([test.one("gt", test.one("reduce_sum", v, axes=(0,)), most)])
    u, _ = step.input("v", TensorType(F32, (3,))), step.input("most", TensorType(F32, ()))
    half = step.finish([step.one("mul", u, step.full(0.5, F32, (3,)))])
    (y,) = b.add("while", (x, limit), {"carry": 1, "trips": 0}, regions=(again, half))
    a, o = then.input("y", TensorType(F32, (3,))), other.input("y", TensorType(F32, (3,)))
    pick = b.one("lt", limit, b.full(0.0, F32))
    outs = b.add("cond", (pick, y), regions=(then.finish([then.one("neg", a)]), other.finish([o])))
    return b.finish(outs, ["y"])


@pytest.mark.parametrize("limit", [-100.0, 1.5, 100.0])
def test_while_and_cond(limit):
    values = {"x": np.array([4, 8, -1], np.float32), "limit": np.array(limit, np.float32)}
    if limit < 0:
        values["x"] = -np.abs(values["x"]) * 100
    assert check(control(), values)


def test_a_long_chain():
    assert check(chain(3000), {"x": np.zeros(2, np.float32)})


def test_names_that_would_stand_for_two_values():
    b = Builder("m")
    x = b.input("x", TensorType(F32, (2,)))
    other = b.input("neg.1", TensorType(F32, (2,)))
    model = onnx.load_from_string(export_model(b.finish([b.one("neg", x), other], ["x", "y"])))
    onnx.checker.check_model(model, full_check=True)
    assert [i.name for i in model.graph.input] == ["x", "neg.1"]
    assert [o.name for o in model.graph.output] == ["x_", "y"]


def test_outputs_without_names():
    b = Builder("m")
    x = b.input("x", TensorType(F32, (2,)))
    model = onnx.load_from_string(export_model(b.finish([x, b.one("neg", x)])))
    assert [o.name for o in model.graph.output] == ["y0", "y1"]


# ---- what onnxruntime and others take otherwise --------------------------------------------------


def of_one(op: str, *types: TensorType, **attrs) -> Graph:
    b = Builder("m")
    return b.finish(b.add(op, [b.input(f"a{i}", t) for i, t in enumerate(types)], attrs))


def test_a_divisor_that_is_known_needs_no_guard():
    b = Builder("m")
    t = TensorType(I32, (3,))
    known = b.finish([b.one("div", b.input("a0", t), b.full(7, I32, (3,)))])
    ops = [n.op_type for n in onnx.load_from_string(export_model(known)).graph.node]
    assert ops == ["Div", "Identity"]
    guarded = of_one("div", t, t)
    values = {"a0": np.array([7, -(2**31), 5], np.int32), "a1": np.array([0, -1, 2], np.int32)}
    assert check(guarded, values)


def test_broadcasts_are_left_to_onnx_where_it_makes_the_same():
    b = Builder("m")
    x, bias = b.input("x", TensorType(F32, (2, 3))), b.input("bias", TensorType(F32, (3,)))
    wide = b.one("broadcast", bias, shape=(2, 3), dims=(1,))
    y = b.one("add", b.one("mul", x, b.full(0.5, F32, (2, 3))), wide)
    rows = b.one("broadcast", b.one("reduce_max", x, axes=(1,)), shape=(2, 3), dims=(0,))
    graph = b.finish([b.one("sub", y, rows), b.one("add", wide, wide)], ["y", "z"])
    made = onnx.load_from_string(export_model(graph)).graph
    ops = ["Mul", "Add", "ReduceMax", "Reshape", "Sub", "Expand", "Add", "Identity", "Identity"]
    assert sorted(n.op_type for n in made.node) == sorted(ops)
    rng = np.random.default_rng(0)
    assert check(graph, {"x": rng.standard_normal((2, 3), np.float32), "bias": rng.standard_normal(3, np.float32)})


def test_what_nothing_reads_is_not_written():
    b = Builder("m")
    x = b.input("x", TensorType(F32, (2,)))
    b.one("exp", b.one("add", x, b.full(2.0, F32, (2,))))
    made = onnx.load_from_string(export_model(b.finish([b.one("neg", x)], ["y"]))).graph
    assert ([n.op_type for n in made.node], len(made.initializer)) == (["Neg", "Identity"], 0)


def test_sums_and_products_of_integers_wrap():
    x = np.full((2, 3), 2**30, np.int32)
    assert check(of_one("reduce_sum", TensorType(I32, (2, 3)), axes=(0, 1)), {"a0": x})
    assert check(of_one("reduce_prod", TensorType(I32, (2, 3)), axes=(1,)), {"a0": x + 1})


def test_digits_near_zero_are_kept():
    x = np.array([1e-10, -1e-7, 0.0, 30.0, -40.0, np.inf], np.float32)
    for op in ("expm1", "log1p", "erfc"):
        graph = of_one(op, TensorType(F32, (6,)))
        (got,) = onnxruntime_of(export_model(graph), {"a0": np.abs(x) if op == "log1p" else x})
        (want,) = evaluate(graph, {"a0": np.abs(x) if op == "log1p" else x})
        np.testing.assert_allclose(got, want, 1e-6)


def test_what_onnx_lacks_is_named():
    b = Builder("m")
    x = b.input("x", TensorType(F32, (3,)))
    y = b.one("digamma", x, loc="a.tdsl:1:1")
    z = b.one("erfc", b.one("convert", x, dtype=F64), loc="a.tdsl:2:5")
    with pytest.raises(DiagnosticError) as caught:
        export_model(b.finish([y, z], ["y", "z"]))
    (found,) = caught.value.diagnostics
    assert found.code == "E1105"
    assert "digamma, erfc of f64" in found.message
    assert [n.message for n in found.notes] == ["digamma at a.tdsl:1:1", "erfc of f64 at a.tdsl:2:5"]


def test_weights_that_no_file_holds_are_refused(monkeypatch):
    from tdslc.compiler.frontend.onnx import export

    monkeypatch.setattr(export, "_MOST_BYTES", 7)
    b = Builder("m")
    w = b.param("w", TensorType(F32, (2,)))
    with pytest.raises(DiagnosticError, match="E1120"):
        export_model(b.finish([w], ["y"]), {"w": np.ones(2, np.float32)})
