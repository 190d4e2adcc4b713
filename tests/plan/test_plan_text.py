"""A plan's text: read by people and by `parse_plan`; what `verify_plan` finds."""

from dataclasses import replace

import pytest
from fake_machine import FakeMachine
from plan_graphs import F32, I32, encoder, mlp, t
from tdslc.compiler.graph import Builder, Dim
from tdslc.compiler.plan import PlanTextError, parse_plan, plan, show_plan, verify_plan
from tdslc.compiler.plan.target import Alias, Kernel, LoopStep, Plan, PlanOptions

MACHINE = FakeMachine()


def encoder_plan() -> Plan:
    return plan(encoder(), MACHINE, PlanOptions())


def test_a_line_for_each_kernel_and_each_reason():
    b = Builder("two")
    x, w, v = b.input("x", t(Dim(16, "S"), 32)), b.input("w", t(32, 32)), b.input("v", t(32, 32))
    y = b.one("matmul", b.one("matmul", x, w, loc="a.tdsl:3:5"), v, loc="a.tdsl:4:5")
    lines = show_plan(plan(b.finish([y], ["y"]), MACHINE, PlanOptions())).splitlines()
    heads = [line for line in lines if line.startswith(("  kernel", "  edge"))]
    assert heads == [
        '  kernel "matmul.0" %0, %1 -> %3 2.082 us {',
        '  kernel "matmul.1" %3, %2 -> %4 2.082 us {',
        '  edge %3 "matmul.0" -> "matmul.1" two_heavy_ops "2 contractions, and one matrix unit"',
    ]
    assert '    ops ["matmul"] at "a.tdsl:4"' in lines
    assert "S=16" in "\n".join(lines)


def test_symbols_and_odd_names_survive():
    b = Builder('a "quoted" name\n')
    body = Builder("body")
    body.input("i", t(dtype=I32))
    c = body.input("c", t(4))
    region = body.finish([body.one("exp", c)])
    outs = b.add("loop", [b.input("x %1 -> {", t(4))], {"n": Dim(3, "L"), "carry": 1, "xs": 0}, regions=(region,))
    made = plan(b.finish(outs), MACHINE, PlanOptions())
    text = show_plan(made)
    assert " n=L=3 carry=1 xs=0 {" in text
    assert parse_plan(text) == made and show_plan(parse_plan(text)) == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("plan {", "plam {", "line 1: expected 'plan {', found 'plam {'"),
        ("alias", "alibi", r"expected kernel, loop, alias or edge, found 'alibi %\d+ -> %\d+'"),
        ('"seconds"', '"seconds', "expected figures as JSON, found 'cost "),
        (" = matmul(", " = matmul[", r"line \d+: the graph from line \d+ on: line \d+: expected"),
    ],
)  # fmt: skip
def test_text_that_is_no_plan(old: str, new: str, message: str):
    text = show_plan(encoder_plan())
    assert old in text
    with pytest.raises(PlanTextError, match=message.replace("line \\d+: the graph", "the graph")):
        parse_plan(text.replace(old, new, 1))


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9, 0.999])
def test_text_that_ends_early(cut: float):
    text = show_plan(encoder_plan())
    with pytest.raises(PlanTextError):
        parse_plan(text[: int(len(text) * cut)])


# ---- the verifier --------------------------------------------------------------------------------


def faults(made: Plan) -> str:
    return "\n".join(verify_plan(made))


def two_kernels() -> Plan:
    b = Builder("two")
    x, w = b.input("x", t(16, 16)), b.input("w", t(16, 16))
    return plan(b.finish([b.one("matmul", b.one("matmul", x, w), w)]), MACHINE, PlanOptions())


def test_order_and_cover():
    good = two_kernels()
    first, second = good.steps
    assert "matmul.1 reads %2, which is not made before it" in faults(replace(good, steps=(second, first)))
    assert "leads from matmul.0 back to matmul.1" in faults(replace(good, steps=(second, first)))
    assert faults(replace(good, steps=(first,), edges=())) == "output %3 is never made"
    assert "makes %2 a second time" in faults(replace(good, steps=(first, first, second)))
    assert "two steps are called matmul.0" in faults(replace(good, steps=(first, first, second)))


def test_bodies():
    good = two_kernels()
    first, second = good.steps
    assert isinstance(first, Kernel) and isinstance(second, Kernel)
    other = plan(mlp(), MACHINE, PlanOptions()).steps[0]
    assert isinstance(other, Kernel)
    said = faults(replace(good, steps=(replace(first, body=other.body), second)))
    assert "matmul.0 reads (f32[16, 16], f32[16, 16]), but its body has (f32[128, 256]" in said
    assert "matmul.0 writes nothing" in faults(replace(good, steps=(replace(first, outputs=()), second)))
    assert "%77 are no values" in faults(replace(good, steps=(replace(first, inputs=(0, 77)), second)))


def test_loops_aliases_and_the_load_program():
    good = encoder_plan()
    assert faults(good) == ""
    loop, alias = good.steps
    assert isinstance(loop, LoopStep) and isinstance(alias, Alias)
    assert "has other counts" in faults(replace(good, steps=(replace(loop, n=2), alias)))
    assert "has other operands" in faults(replace(good, steps=(replace(loop, inputs=loop.inputs[::-1]), alias)))
    assert "is not the node's region" in faults(replace(good, steps=(replace(loop, body=two_kernels()), alias)))
    assert "loop %(17,) has no step" in faults(replace(good, steps=(replace(alias, source=0),)))
    wrong = replace(alias, source=good.graph.params[0].out)
    assert "cannot be read as f32[1, 16, 32]" in faults(replace(good, steps=(loop, wrong)))
    assert good.load is not None
    renamed = replace(good.load, output_names=("other", *good.load.output_names[1:]))
    assert "gives other as f32[3, 32, 32], but the graph reads no such param" in faults(replace(good, load=renamed))
    assert F32.name in show_plan(good)
