# ruff: noqa: E501 - a line of MLIR is one line
"""StableHLO texts that several tests read: functions written for them, in the forms that JAX and stablehlo-opt print."""

from __future__ import annotations

import numpy as np
from tdslc.compiler.frontend.stablehlo import import_text
from tdslc.compiler.graph import NDArray, evaluate, verify

SMALL = """\
module @small attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>) -> (tensor<2x4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %1 = call @relu(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func private @relu(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}
"""

CONTROL = """\
func.func @main(%xs: tensor<4x3xf32>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<4x3xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %four = stablehlo.constant dense<4> : tensor<i32>
  %init = stablehlo.constant dense<0.0> : tensor<3xf32>
  %ys = stablehlo.constant dense<0.0> : tensor<4x3xf32>
  %0:4 = stablehlo.while(%a = %xs, %i = %zero, %s = %init, %o = %ys) : tensor<4x3xf32>, tensor<i32>, tensor<3xf32>, tensor<4x3xf32>
  cond {
    %t = stablehlo.compare LT, %i, %four, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %row = stablehlo.dynamic_slice %a, %i, %c, sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %r = stablehlo.reshape %row : (tensor<1x3xf32>) -> tensor<3xf32>
    %sum = stablehlo.add %s, %r : tensor<3xf32>
    %u = stablehlo.reshape %sum : (tensor<3xf32>) -> tensor<1x3xf32>
    %put = stablehlo.dynamic_update_slice %o, %u, %i, %c : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %a, %next, %sum, %put : tensor<4x3xf32>, tensor<i32>, tensor<3xf32>, tensor<4x3xf32>
  }
  %1 = stablehlo.while(%k = %n) : tensor<i32>
  cond {
    %t = stablehlo.compare GT, %k, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %d = stablehlo.subtract %k, %four : tensor<i32>
    stablehlo.return %d : tensor<i32>
  }
  %2 = "stablehlo.case"(%1) ({
    stablehlo.return %1 : tensor<i32>
  }, {
    %m = stablehlo.add %1, %n : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }, {
    %m = stablehlo.negate %1 : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %0#2, %0#3, %2 : tensor<3xf32>, tensor<4x3xf32>, tensor<i32>
}
"""

REGIONS = """\
func.func @main(%x: tensor<3x4xf32>, %i: tensor<2x1xi32>, %u: tensor<2x4xf32>) -> (tensor<3x4xf32>, tensor<3xf32>, tensor<3xi32>, tensor<3x2xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x4xf32>, tensor<2x1xi32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %places = stablehlo.iota dim = 1 : tensor<3x4xi32>
  %2:2 = stablehlo.reduce(%0 init: %low), (%places init: %first) across dimensions = [1] : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
   reducer(%a: tensor<f32>, %c: tensor<f32>) (%b: tensor<i32>, %d: tensor<i32>)  {
    %p = stablehlo.compare GT, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %q = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %r = stablehlo.or %p, %q : tensor<i1>
    %e = stablehlo.compare EQ, %a, %c, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %l = stablehlo.compare LT, %b, %d, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %t = stablehlo.and %e, %l : tensor<i1>
    %o = stablehlo.or %r, %t : tensor<i1>
    %v = stablehlo.select %r, %a, %c : tensor<i1>, tensor<f32>
    %w = stablehlo.select %o, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %v, %w : tensor<f32>, tensor<i32>
  }
  %3 = "stablehlo.reduce_window"(%0, %low) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x2xf32>
  return %0, %1, %2#1, %3 : tensor<3x4xf32>, tensor<3xf32>, tensor<3xi32>, tensor<3x2xf32>
}
"""


def body(*lines: str, takes: str = "", gives: str = "") -> str:
    """A module whose @main takes `%a: …` and holds `lines`; the last one names what it returns."""
    return f"func.func @main({takes}) -> ({gives}) {{\n" + "\n".join(lines) + "\n}\n"


def computed(text: str, *values: NDArray) -> tuple[NDArray, ...]:
    """What the function of `text` gives on `values`, in the order of its arguments; the graph is well formed."""
    graph = import_text(text).graph
    assert verify(graph) == []
    names = [str(n.attr("name")) for n in graph.inputs]
    return evaluate(graph, dict(zip(names, map(np.asarray, values), strict=True)))
