# ruff: noqa: E501 - a line of MLIR is one line
"""What operations mean, and what is said of those that have no form here."""

from __future__ import annotations

import numpy as np
import pytest
from stablehlo_texts import CONTROL, REGIONS, SMALL, body, computed
from tdslc.compiler.frontend.stablehlo import import_text
from tdslc.compiler.graph import Graph
from tdslc.compiler.source import DiagnosticError

F = np.float32


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def one(line: str, type: str, takes: str = "", *values: object) -> np.ndarray:
    """The value %0 that `line` makes."""
    (got,) = computed(body(line, f"return %0 : {type}", takes=takes, gives=type), *map(np.asarray, values))
    return got


def test_functions_are_inlined_and_names_kept() -> None:
    found = import_text(SMALL)
    assert found.graph.name == "small" or found.graph.name == "main"
    assert [str(n.attr("name")) for n in found.graph.inputs] == ["x", "w"]
    assert ops(found.graph) == ["input", "input", "matmul", "full", "max"]
    x, w = np.ones((2, 3), F), np.full((3, 4), -1, F)
    (got,) = computed(SMALL, x, w)
    assert got.tolist() == np.zeros((2, 4)).tolist()


def test_inputs_become_params_by_name() -> None:
    graph = import_text(SMALL, params=["w"]).graph
    assert [str(n.attr("name")) for n in graph.params] == ["w"]
    with pytest.raises(DiagnosticError, match="no input is called v"):
        import_text(SMALL, params=["v"])


def test_the_entry_is_chosen_by_name() -> None:
    assert ops(import_text(SMALL, entry="relu").graph) == ["input", "full", "max"]
    with pytest.raises(DiagnosticError, match="no function @nothing") as caught:
        import_text(SMALL, entry="nothing")
    assert "@main, @relu" in (caught.value.diagnostics[0].help or "")


def test_unstated_precision_is_what_the_import_takes_it_for() -> None:
    def precision(**given: str) -> object:
        return next(n.attr("precision") for n in import_text(SMALL, **given).graph.nodes if n.op == "matmul")

    assert (precision(), precision(precision="default")) == ("highest", "default")


def test_scans_are_loops_with_rows_and_stacks() -> None:
    graph = import_text(CONTROL).graph
    loop = next(n for n in graph.nodes if n.op == "loop")
    assert (loop.attr("n"), loop.attr("carry"), loop.attr("xs")) == (4, 1, 1)
    assert "dynamic_slice" not in ops(loop.regions[0]) and "dynamic_update_slice" not in ops(loop.regions[0])
    assert "while" in ops(graph)  # the other one's count is data
    xs = np.arange(12, dtype=F).reshape(4, 3)
    for n, last in ((9, 10), (14, -2), (8, -4), (4, -4), (0, 0), (-3, 3)):
        total, rows, branch = computed(CONTROL, xs, np.int32(n))
        assert total.tolist() == xs.sum(0).tolist() and np.array_equal(rows, np.cumsum(xs, 0))
        assert branch == last, n


ROW = """\
func.func @main(%x: tensor<7x2xf32>) -> (tensor<2xf32>, tensor<4x2xf32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %first = stablehlo.constant dense<{first}> : tensor<i32>
  %step = stablehlo.constant dense<{step}> : tensor<i32>
  %sum = stablehlo.constant dense<0.0> : tensor<2xf32>
  %out = stablehlo.constant dense<-1.0> : tensor<4x2xf32>
  %0:3 = stablehlo.while(%i = %zero, %s = %sum, %o = %out) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  cond {{
    %t = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  }} do {{
    %m = stablehlo.multiply %i, %step : tensor<i32>
    %j = stablehlo.add %m, %first : tensor<i32>
    %neg = stablehlo.compare LT, %j, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %w = stablehlo.add %j, %seven : tensor<i32>
    %at = stablehlo.select %neg, %w, %j : tensor<i1>, tensor<i32>
    %r = stablehlo.dynamic_slice %x, %at, %zero, sizes = [1, 2] : (tensor<7x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    %v = stablehlo.reshape %r : (tensor<1x2xf32>) -> tensor<2xf32>
    %a = stablehlo.add %s, %v : tensor<2xf32>
    %k = {place}
    %p = stablehlo.dynamic_update_slice %o, %r, %k, %zero : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32>
    %n = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %n, %a, %p : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>
  }}
  return %0#1, %0#2 : tensor<2xf32>, tensor<4x2xf32>
}}
"""
FORWARD, BACK = "stablehlo.convert %i : tensor<i32>", "stablehlo.subtract %last, %i : tensor<i32>"


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("first", "step", "turned"),
    [(0, 1, True), (2, 1, True), (3, 1, True), (4, 1, False), (6, -1, True), (3, -1, True), (2, -1, False), (-4, 1, True),
     (-5, 1, True), (-2, 1, False), (0, 2, False), (0, 0, False), (9, 1, False)],
)  # fmt: skip
def test_rows_read_on_a_line_are_stacked_and_others_sliced(first: int, step: int, turned: bool, back: bool) -> None:
    text = ROW.format(first=first, step=step, place=BACK if back else FORWARD)
    text = text.replace("  %sum =", "  %last = stablehlo.constant dense<3> : tensor<i32>\n  %sum =")
    (loop,) = (n for n in import_text(text).graph.nodes if n.op == "loop")
    assert (loop.attr("xs"), loop.attr("carry")) == (int(turned), 1)
    x = np.arange(14, dtype=F).reshape(7, 2)
    rows = [min(max(j + 7 if j < 0 else j, 0), 6) for j in (first + step * i for i in range(4))]
    total, out = computed(text, x)
    assert total.tolist() == x[rows].sum(0).tolist()
    assert out.tolist() == x[rows[::-1] if back else rows].tolist()


def test_regions_of_known_shape_become_rows() -> None:
    graph = import_text(REGIONS).graph
    assert {"scatter", "reduce_sum", "argmax", "reduce_window"} <= set(ops(graph)) and "loop" not in ops(graph)
    x = np.array([[1, 5, 2, 5], [0, 0, 0, 0], [3, 2, 1, np.nan]], F)
    got = computed(REGIONS, x, np.array([[1], [7]], np.int32), np.full((2, 4), 2, F))
    wanted = x + np.array([[0], [2], [0]], F)
    assert np.array_equal(got[0], wanted, equal_nan=True)  # the index 7 is dropped
    assert np.array_equal(got[1], wanted.sum(1), equal_nan=True)
    assert got[2].tolist() == [1, 0, 3]
    assert np.array_equal(got[3], np.fmax.reduce(wanted.reshape(3, 2, 2), 2), equal_nan=True) or np.isnan(got[3][2, 1])


def test_any_region_has_a_meaning() -> None:
    """Bodies that are no one op: reduced by a loop, sorted by ranks, scattered one window after another."""
    text = """\
func.func @main(%x: tensor<5xf32>, %i: tensor<3x1xi32>, %u: tensor<3xf32>) -> (tensor<f32>, tensor<5xf32>, tensor<5xf32>) {
  %z = stablehlo.constant dense<1.0> : tensor<f32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.multiply %a, %half : tensor<f32>
    %s = stablehlo.add %m, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
  %1 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %p = stablehlo.abs %a : tensor<f32>
    %t = stablehlo.compare LT, %p, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %q = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %r = stablehlo.and %t, %q : tensor<i1>
    stablehlo.return %r : tensor<i1>
  }) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.subtract %b, %a : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<5xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<5xf32>
  return %0, %1, %2 : tensor<f32>, tensor<5xf32>, tensor<5xf32>
}
"""
    x = np.array([4, 1, 3, 2, 5], F)
    total, ordered, put = computed(text, x, np.array([[1], [1], [9]], np.int32), np.array([10, 20, 30], F))
    folded = 1.0
    for v in x:
        folded = folded * 0.5 + v
    assert total == folded
    assert ordered.tolist() == [1, 2, 3, 4, 5]
    assert put.tolist() == [4, 20 - (10 - 1), 3, 2, 5]


VALUES = [
    ("%0 = stablehlo.clamp %l, %x, %h : (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>",
     "tensor<3xf32>", "%l: tensor<f32>, %x: tensor<3xf32>, %h: tensor<f32>", (F(0), F([-1, 0.5, 3]), F(1)), [0, 0.5, 1]),
    ("%0 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<2xi32>", "tensor<2xi32>",
     "%p: tensor<i1>, %x: tensor<2xi32>, %y: tensor<2xi32>", (np.bool_(False), np.int32([1, 2]), np.int32([3, 4])), [3, 4]),
    ("%0 = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>", "tensor<3xi1>",
     "%x: tensor<3xf32>, %y: tensor<3xf32>", (F([-0.0, 1, np.nan]), F([0, np.nan, np.nan])), [True, True, False]),
    ("%0 = stablehlo.add %x, %x : tensor<2xi1>", "tensor<2xi1>", "%x: tensor<2xi1>", (np.array([True, False]),), [True, False]),
    ("%0 = stablehlo.bitcast_convert %x : (tensor<8xi1>) -> tensor<i8>", "tensor<i8>", "%x: tensor<8xi1>",
     (np.array([1, 0, 0, 0, 0, 0, 0, 1], bool),), -127),
    ("%0 = stablehlo.bitcast_convert %x : (tensor<ui8>) -> tensor<8xi1>", "tensor<8xi1>", "%x: tensor<ui8>",
     (np.uint8(5),), [True, False, True, False, False, False, False, False]),
    ("%0 = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>", "tensor<3x2xi32>",
     "%x: tensor<2x3xi32>", (np.int32([[1, 2, 3], [4, 5, 6]]),), [[1, 4], [2, 5], [3, 6]]),
    ("%0 = stablehlo.broadcast %x, sizes = [2] : (tensor<2xi32>) -> tensor<2x2xi32>", "tensor<2x2xi32>",
     "%x: tensor<2xi32>", (np.int32([1, 2]),), [[1, 2], [1, 2]]),
    ("%0 = chlo.broadcast_subtract %x, %y : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>", "tensor<2x3xf32>",
     "%x: tensor<2x1xf32>, %y: tensor<3xf32>", (F([[1], [2]]), F([0, 1, 2])), [[1, 0, -1], [2, 1, 0]]),
    ("%0 = chlo.square %x : tensor<2xf32> -> tensor<2xf32>", "tensor<2xf32>", "%x: tensor<2xf32>", (F([3, -2]),), [9, 4]),
    ('%0 = "chlo.mulhi"(%x, %x) : (tensor<2xui64>, tensor<2xui64>) -> tensor<2xui64>', "tensor<2xui64>", "%x: tensor<2xui64>",
     (np.uint64([2**63, 3]),), [2**62, 0]),
    ("%0 = stablehlo.dot %x, %y : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32>", "tensor<2xf32>",
     "%x: tensor<2xf32>, %y: tensor<2x2xf32>", (F([1, 2]), F([[1, 0], [0, 1]])), [1, 2]),
    ("%0 = stablehlo.cholesky %x, lower = true : tensor<2x2xf32>", "tensor<2x2xf32>", "%x: tensor<2x2xf32>",
     (F([[4, 99], [2, 10]]),), [[2, 0], [1, 3]]),
    ("%0 = stablehlo.cholesky %x : tensor<2x2xf32>", "tensor<2x2xf32>", "%x: tensor<2x2xf32>",
     (F([[4, 2], [99, 10]]),), [[2, 1], [0, 3]]),
    ('%0 = "stablehlo.triangular_solve"(%a, %y) <{left_side = false, lower = false, unit_diagonal = false, '
     "transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>", "tensor<1x2xf32>",
     "%a: tensor<2x2xf32>, %y: tensor<1x2xf32>", (F([[2, 1], [0, 4]]), F([[8, 8]])), [[3, 2]]),
    ('%0 = "stablehlo.batch_norm_inference"(%x, %s, %s, %s, %s) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : '
     "(tensor<1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2xf32>", "tensor<1x2xf32>",
     "%x: tensor<1x2xf32>, %s: tensor<2xf32>", (F([[3, 8]]), F([1, 4])), [[3, 12]]),
    ("%0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x5xf32>) -> tensor<i32>", "tensor<i32>", "%x: tensor<2x5xf32>",
     (np.zeros((2, 5), F),), 5),
    ("%0 = stablehlo.partition_id : tensor<ui32>", "tensor<ui32>", "", (), 0),
]  # fmt: skip


@pytest.mark.parametrize(("line", "type", "takes", "values", "wanted"), VALUES)
def test_values(line: str, type: str, takes: str, values: tuple[object, ...], wanted: object) -> None:
    assert one(line, type, takes, *values).tolist() == wanted


def test_batch_norm_training_gives_the_moments() -> None:
    text = body(
        '%0:3 = "stablehlo.batch_norm_training"(%x, %s, %s) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : '
        "(tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>)",
        "return %0#0, %0#1, %0#2 : tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>",
        takes="%x: tensor<4x1xf32>, %s: tensor<1xf32>", gives="tensor<4x1xf32>, tensor<1xf32>, tensor<1xf32>",
    )  # fmt: skip
    got = computed(text, F([[0], [0], [4], [4]]), F([1]))
    assert [g.reshape(-1).tolist() for g in got] == [[0, 0, 2, 2], [2], [4]]


def test_scan_with_carries_in_reverse() -> None:
    text = body(
        "%z = stablehlo.constant dense<0.0> : tensor<2xf32>",
        "%0:2 = chlo.scan(%x) inits(%z) dimension=1 {",
        "^bb0(%e: tensor<2xf32>, %c: tensor<2xf32>):",
        "  %s = stablehlo.add %e, %c : tensor<2xf32>",
        "  stablehlo.return %s, %s : tensor<2xf32>, tensor<2xf32>",
        "} : (tensor<2x3xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>)",
        "return %0#0, %0#1 : tensor<2x3xf32>, tensor<2xf32>",
        takes="%x: tensor<2x3xf32>", gives="tensor<2x3xf32>, tensor<2xf32>",
    )  # fmt: skip
    rows, last = computed(text, F([[1, 2, 3], [4, 5, 6]]))
    assert rows.tolist() == [[1, 3, 6], [4, 9, 15]] and last.tolist() == [6, 15]


def test_ragged_products_take_each_group_of_rows_by_its_own_matrix() -> None:
    text = body(
        '%0 = "chlo.ragged_dot"(%x, %w, %n) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], '
        "rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : "
        "(tensor<5x3xf32>, tensor<2x3x4xf32>, tensor<2xi32>) -> tensor<5x4xf32>",
        "return %0 : tensor<5x4xf32>",
        takes="%x: tensor<5x3xf32>, %w: tensor<2x3x4xf32>, %n: tensor<2xi32>", gives="tensor<5x4xf32>",
    )  # fmt: skip
    x, w = np.arange(15, dtype=F).reshape(5, 3), np.arange(24, dtype=F).reshape(2, 3, 4)
    (got,) = computed(text, x, w, np.int32([2, 2]))
    assert got.tolist() == np.concatenate([x[:2] @ w[0], x[2:4] @ w[1], np.zeros((1, 4), F)]).tolist()


def test_a_composite_is_its_decomposition() -> None:
    text = """\
func.func private @impl(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.negate %a : tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.composite "my.op" %x {composite_attributes = {n = 1 : i64}, decomposition = @impl} : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{replicated}"} : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
"""
    assert computed(text, F(2))[0] == -2
    assert import_text(text).notes == ("shardings are passed over: the model is imported for one device",)


# ---- what is refused -----------------------------------------------------------------------------------


def test_everything_unsupported_is_said_at_once_with_its_place() -> None:
    text = body(
        "%0 = stablehlo.custom_call @lapack_sgetrf(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>",
        "%1 = chlo.zeta %0, %0 : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>",
        '%2 = "stablehlo.all_reduce"(%1) ({',
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):",
        "  stablehlo.return %a : tensor<f32>",
        "}) {replica_groups = dense<0> : tensor<1x1xi64>} : (tensor<2x2xf32>) -> tensor<2x2xf32>",
        "%3 = stablehlo.custom_call @lapack_sgetrf(%2) : (tensor<2x2xf32>) -> tensor<2x2xf32>",
        "%4 = stablehlo.add %3, %x : tensor<2x2xf32>",
        "return %4 : tensor<2x2xf32>",
        takes="%x: tensor<2x2xf32>", gives="tensor<2x2xf32>",
    )  # fmt: skip
    with pytest.raises(DiagnosticError) as caught:
        import_text(text, "m.mlir")
    found = [(d.span.line if d.span else 0, d.code, d.message, len(d.notes)) for d in caught.value.diagnostics]
    assert found == [
        (2, "E1105", "stablehlo.custom_call @lapack_sgetrf is code of another runtime", 1),
        (3, "E1105", "chlo.zeta is not supported", 0),
        (4, "E1105", "stablehlo.all_reduce speaks to other devices", 0),
    ]
    assert all(d.help for d in caught.value.diagnostics)


REFUSED = {
    "%0 = stablehlo.complex %x, %x : tensor<2xcomplex<f32>>": ("tensor<2xcomplex<f32>>", "E1105", "complex numbers"),
    "%0 = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>":
        ("tensor<2x!quant.uniform<i8:f32, 0.5>>", "E1105", "quantised types"),
    "%0 = stablehlo.add %x, %y : tensor<2xf32>": ("tensor<2xf32>", "E1106", "%y, which nothing before it makes"),
    "%0 = stablehlo.reshape %x : (tensor<2xf32>) -> tensor<3xf32>": ("tensor<3xf32>", "E1106", "cannot reshape"),
    "%0 = stablehlo.negate %x : (tensor<2xf32>) -> tensor<2xi32>": ("tensor<2xi32>", "E1106", "f32[2] where the text states i32[2]"),
    "%0 = stablehlo.convert %x : (tensor<2xf32>) -> tensor<2xtf32>": ("tensor<2xtf32>", "E1105", "element type `tf32`"),
    "%0 = stablehlo.negate %x : (tensor<2xf32>) -> tensor<?xf32>": ("tensor<?xf32>", "E1109", "not fixed"),
    "%0 = stablehlo.constant dense<1> : tensor<9999999999x9999999999xi8>": ("tensor<9999999999x9999999999xi8>", "E1108", "64 bits"),
    "%0 = stablehlo.constant dense_resource<big> : tensor<2xf32>": ("tensor<2xf32>", "E1105", "no dense literal"),
    "%0 = call @gone(%x) : (tensor<2xf32>) -> tensor<2xf32>": ("tensor<2xf32>", "E1104", "@gone, which the text does not hold"),
    "%0 = call @main(%x) : (tensor<2xf32>) -> tensor<2xf32>": ("tensor<2xf32>", "E1104", "calls itself"),
    "%0 = stablehlo.rng %x, %x, %x, distribution = UNIFORM : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>":
        ("tensor<2xf32>", "E1105", "no stated algorithm"),
    "%0 = foo.bar %x : tensor<2xf32>": ("tensor<2xf32>", "E1105", "foo.bar is not supported"),
    "%0 = stablehlo.slice %x [0:1] : (tensor<2xf32>) -> tensor<2xf32>": ("tensor<2xf32>", "E1106", "f32[1] where the text states"),
    "%0 = stablehlo.slice %x [0:3] : (tensor<2xf32>) -> tensor<3xf32>": ("tensor<3xf32>", "E1106", "does not lie in axis 0"),
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_refused(line: str) -> None:
    gives, code, said = REFUSED[line]
    with pytest.raises(DiagnosticError) as caught:
        import_text(body(line, f"return %0 : {gives}", takes="%x: tensor<2xf32>", gives=gives))
    first = caught.value.diagnostics[0]
    assert (first.code, said in first.message) == (code, True), first.message


def test_arguments_are_checked_before_anything_reads_them() -> None:
    text = body(
        "return %x : tensor<?xf32>", takes="%x: tensor<?xf32>, %y: tensor<4xcomplex<f32>>", gives="tensor<?xf32>"
    )
    with pytest.raises(DiagnosticError) as caught:
        import_text(text)
    assert [d.code for d in caught.value.diagnostics] == ["E1109", "E1105"]


def test_a_function_that_returns_nothing_is_no_model() -> None:
    with pytest.raises(DiagnosticError, match="returns nothing"):
        import_text("func.func @main() { return }")
