# ruff: noqa: E501 - a line of MLIR is one line
"""The reader: both forms of an operation are one, literals are exact, and no text hurts it."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stablehlo_texts import CONTROL, REGIONS, SMALL, body, computed
from tdslc.compiler.frontend.stablehlo import import_text, read_module, scope
from tdslc.compiler.frontend.stablehlo.literals import Unreadable, decode
from tdslc.compiler.graph import DTYPES, TensorType, show
from tdslc.compiler.source import Diagnostic, DiagnosticError, SourceFile

PAIRS = {
    "slice": (
        "%0 = stablehlo.slice %a [1:3, 0:4:2] : (tensor<3x4xf32>) -> tensor<2x2xf32>",
        '%0 = "stablehlo.slice"(%a) <{start_indices = array<i64: 1, 0>, limit_indices = array<i64: 3, 4>, '
        "strides = array<i64: 1, 2>}> : (tensor<3x4xf32>) -> tensor<2x2xf32>",
    ),
    "pad": (
        "%z = stablehlo.constant dense<1.5> : tensor<f32>\n"
        "%0 = stablehlo.pad %a, %z, low = [1, -1], high = [0, 2], interior = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4x8xf32>",
        '%z = "stablehlo.constant"() {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>\n'
        '%0 = "stablehlo.pad"(%a, %z) {edge_padding_low = dense<[1, -1]> : tensor<2xi64>, edge_padding_high = array<i64: 0, 2>, '
        "interior_padding = array<i64: 0, 1>} : (tensor<3x4xf32>, tensor<f32>) -> tensor<4x8xf32>",
    ),
    "transpose": (
        "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>",
        '%0 = "stablehlo.transpose"(%a) <{permutation = array<i64: 1, 0>}> : (tensor<3x4xf32>) -> tensor<4x3xf32>',
    ),
    "compare": (
        "%0 = stablehlo.compare  GE, %a, %a,  FLOAT : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>",
        '%0 = "stablehlo.compare"(%a, %a) <{comparison_direction = #stablehlo<comparison_direction GE>, '
        "compare_type = #stablehlo<comparison_type FLOAT>}> : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>",
    ),
    "dot_general": (
        "%0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1], precision = [HIGH, HIGH] : "
        "(tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>",
        '%0 = "stablehlo.dot_general"(%a, %a) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], '
        "rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>]}> : "
        "(tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>",
    ),
    "convolution": (
        "%x = stablehlo.reshape %a : (tensor<3x4xf32>) -> tensor<1x3x4x1xf32>\n"
        "%k = stablehlo.constant dense<2.0> : tensor<2x2x1x1xf32>\n"
        "%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 2], "
        "pad = [[1, 0], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, true]} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<1x3x4x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x3x2x1xf32>",
        "%x = stablehlo.reshape %a : (tensor<3x4xf32>) -> tensor<1x3x4x1xf32>\n"
        "%k = stablehlo.constant dense<2.0> : tensor<2x2x1x1xf32>\n"
        '%0 = "stablehlo.convolution"(%x, %k) <{dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, '
        "window_strides = array<i64: 1, 2>, padding = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>, "
        "window_reversal = array<i1: false, true>, batch_group_count = 1 : i64, feature_group_count = 1 : i64}> : "
        "(tensor<1x3x4x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x3x2x1xf32>",
    ),
    "reduce": (
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>",
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        '%0 = "stablehlo.reduce"(%a, %z) <{dimensions = array<i64: 0>}> ({\n^bb0(%p: tensor<f32>, %q: tensor<f32>):\n'
        "%s = stablehlo.add %p, %q : tensor<f32>\nstablehlo.return %s : tensor<f32>\n}) : "
        "(tensor<3x4xf32>, tensor<f32>) -> tensor<4xf32>",
    ),
    "reduce_precision": (
        "%0 = stablehlo.reduce_precision %a, format = e5m10 : tensor<3x4xf32>",
        '%0 = "stablehlo.reduce_precision"(%a) {exponent_bits = 5 : i32, mantissa_bits = 10 : i32} : (tensor<3x4xf32>) -> tensor<3x4xf32>',
    ),
    "top_k": (
        "%0, %1 = chlo.top_k(%a, k = 2) : tensor<3x4xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)",
        '%0, %1 = "chlo.top_k"(%a) <{k = 2 : i64}> : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pretty_and_generic_form_are_one(name: str) -> None:
    def graph(line: str) -> str:
        gives = re.findall(r"tensor<[^>]*>", line)[-1]
        last = f"return %{'1' if name == 'top_k' else '0'} : {gives}"
        text = body(line, last, takes="%a: tensor<3x4xf32>", gives=gives)
        return re.sub(r' @"[^"]*"', "", show(import_text(text).graph))

    pretty, generic = PAIRS[name]
    assert graph(pretty) == graph(generic)


def test_a_module_in_generic_form_is_read_too() -> None:
    text = """
    #loc = loc("here")
    "builtin.module"() <{sym_name = "m"}> ({
      "func.func"() <{function_type = (tensor<2xf32>) -> tensor<2xf32>, sym_name = "main", arg_attrs = [{a.b = "c"}]}> ({
      ^bb0(%arg0: tensor<2xf32> loc(#loc)):
        %0 = "stablehlo.negate"(%arg0) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc)
        "func.return"(%0) : (tensor<2xf32>) -> () loc(#loc)
      }) : () -> () loc(#loc)
    }) : () -> () loc(#loc)
    """
    (got,) = computed(text, np.array([1, -2], np.float32))
    assert got.tolist() == [-1, 2]


def test_what_stands_beside_the_functions_is_passed_over_and_said() -> None:
    text = SMALL.replace("  func.func private", '  sdy.mesh @mesh = <["x"=2]>\n  func.func private')
    found = import_text(text)
    assert found.notes == ("sdy.mesh among the functions is passed over",)


LITERALS = [
    ("1.5", "f32", (2, 2), [[1.5, 1.5], [1.5, 1.5]]),
    ("[[1, 2], [3, -4]]", "i8", (2, 2), [[1, 2], [3, -4]]),
    ('"0x0000803F000000C0"', "f32", (2,), [1.0, -2.0]),
    ('"0x0000803F"', "f32", (3,), [1.0, 1.0, 1.0]),
    ("[0x7F800000, 1.0e-3]", "f32", (2,), [np.inf, np.float32(1e-3)]),
    ("[true, false]", "bool", (2,), [True, False]),
    ('"0x0001"', "bool", (2,), [False, True]),
    ("", "f32", (0, 3), np.zeros((0, 3)).tolist()),
    ("[[], []]", "f32", (2, 0), [[], []]),
    ("[255, -1]", "u8", (2,), [255, 255]),
    ("[18446744073709551615]", "u64", (1,), [2**64 - 1]),
    ("[0x3F80, 2.0]", "bf16", (2,), [1.0, 2.0]),
    ("[-8, 7]", "i4", (2,), [-8, 7]),
]


@pytest.mark.parametrize(("text", "dtype", "shape", "wanted"), LITERALS)
def test_literals(text: str, dtype: str, shape: tuple[int, ...], wanted: object) -> None:
    t = TensorType(DTYPES[dtype], shape)
    got = np.broadcast_to(decode(text, t), shape)
    assert got.dtype == t.dtype.numpy and np.array_equal(got, np.array(wanted).astype(t.dtype.numpy).reshape(shape))


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [("[1, 2]", "f32", (3,)), ("[[1], [2]]", "f32", (2,)), ('"0x00"', "f32", (2,)), ("[300]", "i8", (1,)), ("one", "f32", ()),
     ("[1.5]", "i32", (1,)), ('"0x0"', "i8", (1,)), ("[2]", "bool", (1,)), ("[0x1FFFFFFFF]", "f32", (1,))],
)  # fmt: skip
def test_literals_that_are_none_of_their_type(text: str, dtype: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(Unreadable):
        decode(text, TensorType(DTYPES[dtype], shape))


def test_a_literal_of_megabytes_is_one_token() -> None:
    values = np.arange(1 << 18, dtype=np.float32)
    text = body(
        f'%0 = stablehlo.constant dense<"0x{values.tobytes().hex()}"> : tensor<262144xf32>', "return %0 : tensor<262144xf32>",
        gives="tensor<262144xf32>",
    )  # fmt: skip
    assert len(text) > 2_000_000
    (got,) = computed(text)
    assert np.array_equal(got, values)


# ---- bad texts -----------------------------------------------------------------------------------------

BAD = {
    "": "no function @main",
    "module {": "expected `}`",
    "func.func @main(": "expected a type, got the end of the text",
    "\x01": "has no meaning in MLIR",
    '"abc': "a string that is never closed",
    "func.func @main() { %0 = }": "expected an operation, got `}`",
    "func.func @f() { return }\nfunc.func @f() { return }": "a second function @f",
    "func.func @main() { ^bb0: return ^bb1: return }": "regions of several blocks",
    'func.func @main() { "a.b"() }': "expected `:` before the types",
    "func.func @main() { %0:2 = stablehlo.constant dense<1> : tensor<i32> }": "has 2 results but 1 types",
    "module { module { } }": "modules in modules",
    "func.func @main() { return } 7": "expected a function, got `7`",
}


@pytest.mark.parametrize("text", BAD)
def test_malformed_texts_say_where_and_what(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        import_text(text, "bad.mlir")
    (found,) = caught.value.diagnostics
    assert BAD[text] in found.message and found.span is not None


DEEP = {
    "regions": 'func.func @main() { "a.b"() ({' * 1 + ' "a.b"() ({' * 5000,
    "lists": "func.func @main() attributes {a = " + "[" * 5000,
    "types": "func.func @main(%a: " + "(" * 5000,
    "dictionaries": "module attributes " + "{a = " * 5000,
    "angles": "module attributes {a = #x" + "<" * 5000,
    "tensors": "func.func @main(%a: " + "tensor<" * 5000,
    "results": "func.func @main() { " + "%a, " * 5000,
    "quotes": 'func.func @main() { "' + "\\" * 50000,
    "digits": "func.func @main() attributes {a = " + "9" * 50000 + "}",
    "dims": "func.func @main(%a: tensor<" + "9x" * 50000 + "f32>) -> tensor<f32> { return %a : tensor<f32> }",
    "count": "func.func @main() { %0:9999999999 = stablehlo.add }",
    "spaces": "module {" + " " * 100_000 + "//" * 100_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_nothing_is_too_deep_or_too_long(name: str) -> None:
    with pytest.raises(DiagnosticError):
        import_text(DEEP[name])


def test_calls_that_double_end_in_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 40 lines that asks for 2^40 operations."""
    monkeypatch.setattr(scope, "MAX_OPERATIONS", 20_000)  # the true limit takes seconds to reach
    t = "tensor<f32>"
    functions = [f"func.func private @f0(%a: {t}) -> {t} {{ %0 = stablehlo.negate %a : {t}\n return %0 : {t} }}"]
    for i in range(1, 41):
        calls = f"%0 = call @f{i - 1}(%a) : ({t}) -> {t}\n %1 = call @f{i - 1}(%0) : ({t}) -> {t}"
        functions.append(f"func.func private @f{i}(%a: {t}) -> {t} {{ {calls}\n return %1 : {t} }}")
    text = (
        "\n".join(functions)
        + f"\nfunc.func @main(%a: {t}) -> {t} {{ %0 = call @f40(%a) : ({t}) -> {t}\n return %0 : {t} }}"
    )
    with pytest.raises(DiagnosticError, match="more than 20000 operations"):
        import_text(text)


def test_a_long_chain_needs_no_stack() -> None:
    lines = [f"%{i + 1} = stablehlo.negate %{i} : tensor<f32>" for i in range(6000)]
    text = body("%0 = stablehlo.abs %a : tensor<f32>", *lines, "return %6000 : tensor<f32>", takes="%a: tensor<f32>",
                gives="tensor<f32>")  # fmt: skip
    (got,) = computed(text, np.float32(-3))
    assert got == 3


@settings(max_examples=400)
@given(st.integers(0, 1 << 32))
def test_mutilated_texts_give_diagnostics_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    tokens = re.findall(r"\s+|[\w.%@#$^!\"]+|.", rng.choice((SMALL, CONTROL, REGIONS)))
    for _ in range(rng.choice((1, 1, 2, 6))):
        i, kind = rng.randrange(len(tokens)), rng.randrange(5)
        if kind == 0:
            del tokens[i : i + rng.choice((1, 3, 30))]
        elif kind == 1:
            tokens.insert(i, rng.choice(tokens))
        elif kind == 2:
            tokens[i] = rng.choice(
                (*tokens, "0", "-1", "99999999999999999999", "}", "{", "(", "tensor<", "dense<", '"', "i1", "?")
            )
        elif kind == 3:
            tokens[i:] = []
        else:
            tokens[i] = re.sub(r"\d+", str(rng.choice((0, 1, 7, 1 << 31, 1 << 64))), tokens[i])
        if not tokens:
            return
    assert all(d.message and "\n" not in d.message for d in _said("".join(tokens)))


def _said(text: str) -> tuple[Diagnostic, ...]:
    try:
        import_text(text)
    except DiagnosticError as error:
        return error.diagnostics
    return ()


def test_reading_keeps_places() -> None:
    module = read_module(SourceFile("small.mlir", SMALL))
    op = module.functions["main"].body.operations[0]  # type: ignore[union-attr]
    assert SMALL[op.start :].startswith("%0 = stablehlo.dot_general")
    graph = import_text(SMALL, "models/small.mlir").graph
    assert [n.loc for n in graph.nodes if n.op == "matmul"] == ["small.mlir:3:5"]
