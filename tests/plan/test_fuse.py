"""Fusion on a made-up machine: which ops become one kernel, which do not, and why."""

import pytest
from fake_machine import FakeMachine
from hypothesis import given
from hypothesis import strategies as st
from plan_graphs import F32, I32, encoder, gelu, heads, layer_norm, linear, mlp, row, scalar, softmax, t
from plan_values import assert_sound, leaf_values, same_bits
from tdslc.compiler.graph import Builder, Contraction, Graph, evaluate
from tdslc.compiler.plan import Pricer, evaluate_plan, load_values, plan, plan_seconds, unfused_plan, verify_plan
from tdslc.compiler.plan.fuse import _assemble, _Names, fused
from tdslc.compiler.plan.merge import Known
from tdslc.compiler.plan.target import Alias, Kernel, LoopStep, Plan, PlanOptions
from tdslc.compiler.source import DiagnosticError

MACHINE = FakeMachine()


def planned(graph: Graph, machine: FakeMachine = MACHINE) -> Plan:
    """The plan, which is sound and no dearer than no fusion."""
    made = plan(graph, machine, PlanOptions())
    assert_sound(made, graph)
    assert plan_seconds(made) <= plan_seconds(unfused_plan(graph, machine))
    return made


def kernels(made: Plan) -> list[Kernel]:
    return [s for s in made.steps if isinstance(s, Kernel)]


def ops(made: Plan) -> list[tuple[str, ...]]:
    return [k.ops for k in kernels(made)]


def test_matmul_bias_gelu_is_one_kernel():
    (only,) = kernels(planned(mlp()))
    assert only.ops[:2] == ("matmul", "add") and len(only.ops) == 7
    assert only.name == "matmul_add_mul_and_1_more.0"


@pytest.mark.parametrize("norm", [False, True])
def test_row_reductions_are_one_kernel(norm: bool):
    b = Builder("rows")
    x = b.input("x", t(64, 128))
    y = layer_norm(b, x, b.param("g", t(128)), b.param("b", t(128))) if norm else softmax(b, x)
    made = planned(b.finish([y]))
    assert len(kernels(made)) == 1
    assert made.edges == ()


def test_a_contraction_that_two_kernels_read_is_computed_once():
    """y = x @ w feeds two contractions; computing it in both would save its bytes and double its work."""
    b = Builder("residual")
    x, w, v, u = b.input("x", t(256, 512)), *(b.param(n, t(512, 512)) for n in "wvu")
    y = b.one("matmul", x, w)
    made = planned(b.finish([b.one("add", b.one("matmul", y, v), y), b.one("matmul", y, u)]))
    assert sum(o.count("matmul") for o in ops(made)) == 3
    assert {e.reason for e in made.edges} == {"two_heavy_ops"}


def test_a_cheap_producer_is_computed_in_each_reader():
    b = Builder("relu twice")
    x, w, v = b.input("x", t(256, 512)), b.param("w", t(512, 512)), b.param("v", t(512, 512))
    r = b.one("max", x, scalar(b, 0.0, (256, 512)))
    made = planned(b.finish([b.one("matmul", r, w), b.one("matmul", r, v)]))
    assert ops(made) == [("max", "matmul")] * 2


def test_a_group_that_a_path_leaves_and_reenters_is_not_joined():
    """a -> matmul -> b and a -> b: joining a with b alone would need its own result."""
    b = Builder("convex")
    x, w, v = b.input("x", t(64, 64)), b.param("w", t(64, 64)), b.param("v", t(64, 64))
    a = b.one("exp", b.one("matmul", x, w))
    y = b.one("matmul", a, v)
    made = planned(b.finish([b.one("matmul", b.one("add", a, y), w)]))
    order = {v: i for i, k in enumerate(made.steps) for v in k.outputs}
    for i, k in enumerate(made.steps):
        assert all(order.get(v, -1) < i for v in k.inputs)
    assert {e.reason for e in made.edges} <= {"illegal", "two_heavy_ops"}


def test_kernels_write_several_values_when_that_pays():
    b = Builder("two outputs")
    x = b.input("x", t(256, 512))
    s = b.one("add", x, b.input("y", t(256, 512)))
    made = planned(b.finish([s, layer_norm(b, s, b.param("g", t(512)), b.param("b", t(512)))]))
    (only,) = kernels(made)
    assert len(only.outputs) == 2


def test_what_leaves_the_graph_as_a_view():
    b = Builder("views")
    x = b.input("x", t(6, 8))
    y = b.one("exp", x)
    outputs = [
        b.one("reshape", y, shape=(48,)),
        b.one("transpose", y, perm=(1, 0)),
        b.one("reshape", x, shape=(8, 6)),
        scalar(b, 1.0, (3,)),
        x,
        y,
    ]
    made = planned(b.finish(outputs))
    assert [s for s in made.steps if isinstance(s, Alias)] == [Alias(outputs[2], x), Alias(outputs[0], y)]
    assert sorted(o for k in kernels(made) for o in k.ops) == ["exp", "full", "transpose"]


def test_reasons_have_figures():
    b = Builder("capacity")
    small = FakeMachine(fast_bytes=5000)
    x, w = b.input("x", t(64, 512)), b.param("w", t(512, 512))
    y = b.input("y", t(64, 512))
    made = planned(b.finish([b.one("add", b.one("matmul", x, w), y)]), small)
    (edge,) = made.edges
    assert (edge.reason, edge.detail) == ("capacity", "a row takes 6144 B of 5000 B")
    assert (edge.producer, edge.consumer) == ("matmul.0", "add.0")


def test_fusion_that_costs_more_is_not_done():
    """Without launches, adding vector work to a vector-bound kernel that is matrix-bound elsewhere never pays."""
    slow = FakeMachine(launch_seconds=0.0, bytes_a_second=1e20)
    b = Builder("costlier")
    x = b.input("x", t(256, 256))
    y = b.one("exp", b.one("exp", x))
    made = plan(b.finish([y]), slow, PlanOptions())
    assert plan_seconds(made) <= plan_seconds(unfused_plan(b.finish([y]), slow))


def test_fusion_switched_off():
    made = plan(mlp(), MACHINE, PlanOptions(fuse=False))
    assert all(len(k.ops) == 1 for k in kernels(made))
    assert {(e.reason, e.detail) for e in made.edges} == {("illegal", "fusion is switched off")}


def test_a_composite_is_whole_or_its_definition():
    d = Builder("gelu")
    region = d.finish([gelu(d, d.input("x", t(8, 16)))])
    b = Builder("m")
    (y,) = b.add("gelu", [b.input("x", t(8, 16))], {}, regions=(region,))
    graph = b.finish([y])
    assert ops(planned(graph)) == [("gelu",)]
    (only,) = kernels(planned(graph, FakeMachine(refused=("gelu",))))
    assert "erf" in only.ops


def test_an_op_that_the_machine_cannot_run():
    with pytest.raises(DiagnosticError, match=r"E0410.*fake:one cannot run erf") as e:
        plan(mlp(), FakeMachine(refused=("erf",)), PlanOptions())
    assert e.value.diagnostics[0].code == "E0410"


def test_loops_are_planned_inside_and_never_joined():
    made = planned(encoder())
    loop = made.steps[0]
    assert isinstance(loop, LoopStep) and (loop.n, loop.carry) == (3, 1)
    assert isinstance(made.steps[1], Alias)
    assert len(loop.body.steps) < 10
    assert {e.reason for e in loop.body.edges} == {"two_heavy_ops"}


def test_values_between_a_loop_and_kernels():
    b = Builder("around")
    body = Builder("body")
    body.input("i", t(dtype=I32))
    c = body.input("c", t(4, 8))
    region = body.finish([body.one("exp", c), body.one("transpose", c, perm=(1, 0))])
    x = b.input("x", t(8, 4))
    start = b.one("transpose", b.one("neg", x), perm=(1, 0))
    c, ys = b.add("loop", [start], {"n": 2, "carry": 1, "xs": 0}, regions=(region,))
    made = planned(b.finish([b.one("exp", c), ys]))
    assert [(e.reason, e.consumer) for e in made.edges] == [("illegal", "loop.0"), ("illegal", "exp.0")]


def test_names_are_different_in_bodies_too():
    made = planned(encoder())
    names = [k.name for k in kernels(made.steps[0].body)]
    assert len(set(names)) == len(names)


# ---- random graphs -------------------------------------------------------------------------------


OPS = ["add", "mul", "max", "abs", "neg", "matmul", "transpose", "reshape", "sum", "half"]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """DAGs of elementwise ops, reductions, views and matmuls on [4, 4] tensors, with shared values."""
    b = Builder("random")
    values = [b.input("x", t(4, 4)), b.param("w", t(4, 4)), b.param("v", t(4, 4))]
    for _ in range(draw(st.integers(1, 14))):
        x, y = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        match draw(st.sampled_from(OPS)):
            case "add" | "mul" | "max" | "matmul" as op:
                values.append(b.one(op, x, y))
            case "abs" | "neg" as op:
                values.append(b.one(op, x))
            case "transpose":
                values.append(b.one("transpose", x, perm=(1, 0)))
            case "reshape":
                values.append(b.one("reshape", b.one("reshape", x, shape=(2, 8)), shape=(4, 4)))
            case "sum":
                values.append(row(b, b.one("reduce_sum", x, axes=(0,)), (4, 4)))
            case _:
                values.append(b.one("mul", x, scalar(b, 0.5, (4, 4))))
    count = draw(st.integers(1, 3))
    return b.finish([values[-1], *(draw(st.sampled_from(values)) for _ in range(count - 1))])


@given(graphs(), st.sampled_from([FakeMachine(), FakeMachine(fast_bytes=40), FakeMachine(launch_seconds=0.0)]))
def test_any_graph(graph: Graph, machine: FakeMachine):
    made = plan(graph, machine, PlanOptions())
    assert_sound(made, graph)
    base = unfused_plan(graph, machine)
    assert_sound(base, graph)
    assert plan_seconds(made) <= plan_seconds(base) * (1 + 1e-9)
    assert plan(graph, machine, PlanOptions()) == made


@given(graphs(), st.data())
def test_any_beginning(graph: Graph, data: st.DataObject):
    """Whatever sets of ops the search begins with, what it ends with is a plan."""
    live = planned(graph).graph
    values = [n.out for n in live.nodes if n.op not in ("input", "param")]
    sets = st.frozensets(st.sampled_from(values)) if values else st.just(frozenset[int]())
    start = [Known(*drawn, frozenset(), 0) for drawn in data.draw(st.lists(st.tuples(sets, sets), max_size=4))]
    chosen = fused(live, Pricer(MACHINE), PlanOptions(), start)
    made = _assemble(chosen, _Names(), PlanOptions())
    assert verify_plan(made) == []
    inputs, params = leaf_values(graph)
    params |= load_values(plan(graph, MACHINE, PlanOptions()), params, Contraction())
    got, right = evaluate_plan(made, inputs, params), evaluate(live, inputs, params)
    assert all(same_bits(a, b) for a, b in zip(got, right, strict=True))


def test_long_chains_end_in_kernels_of_bounded_length():
    b = Builder("chain")
    x = y = b.input("x", t(8, 8))
    for _ in range(600):
        y = b.one("add", y, x)
    made = plan(b.finish([y]), MACHINE, PlanOptions())
    assert all(len(k.ops) <= 128 for k in kernels(made))
    assert {e.detail for e in made.edges if e.reason == "capacity"} == {e.detail for e in made.edges}


def test_heads_and_linear_are_what_they_say():
    b = Builder("heads")
    x = b.input("x", t(4, 6))
    y = linear(b, x, b.param("w", t(8, 6)), b.param("b", t(8)))
    assert b.types[heads(b, y, 2)] == t(2, 4, 4, dtype=F32)


def test_repro_offers_do_not_change_groups_of_an_earlier_search():
    """Positions that a group alone writes were a set that copies took their own from: groups lost what they owned."""
    graph, pricer = encoder(), Pricer(MACHINE)
    first = fused(graph, pricer, PlanOptions()).fusion
    again = fused(graph, pricer, PlanOptions(), first.known()).fusion
    assert [g.owned for g in again.groups.values()] == [g.owned for g in first.groups.values()]
    assert all(isinstance(g.owned, frozenset) for g in again.groups.values())
