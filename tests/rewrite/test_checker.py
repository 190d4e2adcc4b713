"""The checker refutes what is wrong, says how, and does not pass what it could not try."""

# Graphs and rules as text: broken lines would be harder to read.
# ruff: noqa: E501

import pytest
from tdslc.compiler.graph import NO_COMPOSITES, Builder, Composite, Composites
from tdslc.compiler.rewrite import parse_rules
from tdslc.compiler.rewrite.checker import Verdict, check_rules, show_verdicts
from tdslc.compiler.source import SourceFile

CONV = "strides=s, low=l, high=h, dilations=d, groups={g}"


def verdict(body: str, classes: str = "@exact", composites: Composites = NO_COMPOSITES) -> Verdict:
    (rule,) = parse_rules(SourceFile("my.rules", f"rule planted {classes}:\n    {body}\n"))
    (found,) = check_rules([rule], composites)
    return found


# Rules that look right: body, classes, what is suggested, and what makes it right.
WRONG = {
    "x*0 forgets NaN": ("mul(x, full(0)) => full(0, dtype=dtype(x), shape=shape(x))", "@exact", "@nosz @nonan"),
    "x*0 under reassoc": ("mul(x: float, full(0)) => full(0, dtype=dtype(x), shape=shape(x))", "@reassoc", "@nonan"),
    "x+0 turns -0": ("add(x: float, full(0)) => x", "@exact", "@nosz"),
    "(x+y)-y": ("sub(add(x, y), y) => x", "@exact", "int|bool"),
    "x-x": ("sub(x, x) => full(0, dtype=dtype(x), shape=shape(x))", "@exact", "@nonan"),
    "x/x at 0": ("div(x: int, x) => full(1, dtype=dtype(x), shape=shape(x))", "@exact", ""),
    "a+(b+c)": ("add(a: float, add(b, c)) => add(add(a, b), c)", "@exact", "@reassoc"),
    "x/3": ("div(x: f32, full(3)) => mul(x, full(0.3333333333333333, dtype=f32, shape=shape(x)))", "@exact", "@approx"),
    "exp(x)exp(y)": ("mul(exp(x), exp(y)) => exp(add(x, y))", "@exact", "@reassoc"),
    "log(x*x)": ("log(mul(x, x)) => mul(log(x), full(2, dtype=dtype(x), shape=shape(x)))", "@reassoc", "@nonan"),
    "not (x<y)": ("not(lt(x: float, y)) => ge(x, y)", "@exact", "@nonan"),
    "select as relu": (
        "select(gt(x: D[..S], full(0)), x, full(0)) => max(x, full(0, dtype=D, shape=S))",
        "@exact",
        "@nonan",
    ),
    "wrong perm": (
        "transpose(transpose(x: any[N, N, N], perm=p), perm=q) => transpose(x, perm=compose(q, p))",
        "@exact",
        "",
    ),
    "sum of broadcast": (
        "y = reduce_sum(broadcast(x, shape=s, dims=d), axes=a) => y = broadcast(x, shape=shape(y), dims=d)\n    where a == (rank(x),), len(s) == rank(x) + 1, d == range(rank(x))",
        "@reassoc",
        "",
    ),
    "a reshape's elements": (
        "reshape(transpose(x: any[M, N], perm=(1, 0)), shape=s) => reshape(x, shape=s)",
        "@exact",
        "",
    ),
    "narrowing": ("convert(convert(x: D1, dtype=D2), dtype=D1) => x", "@exact", ""),
    "conv and concat without groups": (
        f"concat(conv(x, w1, {CONV.format(g='g')}), conv(x, w2, {CONV.format(g='g')}), axis=1) => conv(x, concat(w1, w2, axis=0), {CONV.format(g='g')})",
        "@exact",
        "",
    ),
    "matmul order with an empty dim": (
        "matmul(matmul(a: float[M, K], b: float[K, N]), c: float[N, P]) => matmul(a, matmul(b, c))",
        "@reassoc",
        "@nonan",
    ),
    "matmul does not commute": ("matmul(a: float[N, N], b: float[N, N]) => matmul(b, a)", "@reassoc", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_refuted(name: str) -> None:
    body, classes, suggestion = WRONG[name]
    found = verdict(body, classes)
    assert found.kind in ("refuted", "ill_typed"), show_verdicts([found])
    assert suggestion in found.suggestion
    assert found.kind == "ill_typed" or ("left: " in found.example and "right: " in found.example)


def test_a_counterexample_is_small() -> None:
    found = verdict("sub(add(x: float, y), y) => x")
    sizes = [line.count(",") for line in found.example.splitlines() if " = " in line]
    assert max(sizes) <= 4
    assert show_verdicts([found]).startswith("error[E0309]: rule planted is wrong")


def test_the_same_seed_gives_the_same_verdict() -> None:
    assert [verdict("sub(add(x, y), y) => x") for _ in range(2)].count(verdict("sub(add(x, y), y) => x")) == 2


@pytest.mark.parametrize(
    "body",
    [
        "add(x: f32[M], y: f32[M]) => add(y, x)\n    where M == 7",
        "neg(neg(x)) => x\n    where rank(x) == 9",
        "slice(x, starts=a, stops=b) => x\n    where a[0] > b[0]",
    ],
)
def test_a_rule_that_never_applies_fails(body: str) -> None:
    assert verdict(body).kind == "vacuous"


def test_a_hint_makes_a_rare_rule_apply() -> None:
    assert verdict("add(x: f32[M], y: f32[M]) => add(y, x)\n    where M == 7\n    test M = 7").kind == "tested"


def test_types_must_agree() -> None:
    found = verdict("reduce_sum(x, axes=a) => x")
    assert found.kind == "ill_typed"
    assert "the left side is" in found.example
    assert verdict("convert(convert(x, dtype=D2), dtype=D3) => convert(x, dtype=D2)").kind == "ill_typed"


def test_an_unknown_op_is_named() -> None:
    found = verdict("matmull(x, y) => x")
    assert found.kind == "unknown_op"
    assert "did you mean `matmul`?" in show_verdicts([found])


def test_composites_are_ops_of_rules() -> None:
    def twice(types, attrs):
        b = Builder("twice")
        x = b.input("x", types[0])
        return b.finish([b.one("add", x, x)])

    table = Composites({"twice": Composite("twice", ("x",), (), "x + x", twice)})
    assert verdict("twice(x) => add(x, x)", composites=table).kind == "tested"
    assert verdict("twice(x: float) => mul(x, x)", composites=table).kind == "refuted"


def test_both_directions_are_tried() -> None:
    found = verdict("add(x: int, y) <=> add(y, x)")
    assert found.kind == "tested"
    assert found.samples == 64
    # From left to right it only ever sees operands that were narrow; from right to left the narrow ones are made up.
    assert (
        verdict("convert(convert(x: f32, dtype=bf16), dtype=f32) <=> convert(convert(x, dtype=f16), dtype=f32)").kind
        == "refuted"
    )
