"""Extraction on e-graphs made by hand: the cheapest form by the cost of its plan, never worse than the model."""

from fake_machine import FakeMachine
from hand_egraphs import saturated, trivial_saturated
from plan_graphs import I32, encoder, mlp, scalar, softmax, t
from plan_values import assert_sound, leaf_values, same_bits
from tdslc.compiler.graph import Builder, Graph, evaluate, verify
from tdslc.compiler.plan import Optimised, optimise, plan, plan_seconds, unfused_plan
from tdslc.compiler.plan.extract import as_written, build, greedy, price, reached
from tdslc.compiler.plan.pricing import Pricer
from tdslc.compiler.plan.rewriting import extract
from tdslc.compiler.plan.target import PlanOptions
from tdslc.compiler.rewrite.egraph import EClass, ENode, Saturated, Search

MACHINE = FakeMachine()
OPTIONS = PlanOptions()


def found(sat: Saturated, machine: FakeMachine = MACHINE) -> tuple[Graph, dict[str, int]]:
    result = extract(sat, machine, OPTIONS)
    assert verify(result.graph) == []
    return result.graph, dict(result.report.rules_used)


def ops(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes if n.op not in ("input", "param")]


def test_nothing_to_choose_gives_the_graph():
    for graph in (mlp(), encoder()):
        result = extract(trivial_saturated(graph), MACHINE, OPTIONS)
        assert sorted(ops(result.graph)) == sorted(ops(graph))
        assert result.report.rules_used == {} and result.report.tried == 2
        assert [n.attr("name") for n in result.graph.params] == [n.attr("name") for n in graph.params]


def products(rows: int) -> Saturated:
    """(a b) c, which is a (b c)."""
    b = Builder("products")
    a, w, v = b.input("a", t(rows, 64)), b.input("b", t(64, 64)), b.input("c", t(64, 8))
    y = b.one("matmul", b.one("matmul", a, w), v)
    other = Builder("other")
    a, w, v = other.input("a", t(rows, 64)), other.input("b", t(64, 64)), other.input("c", t(64, 8))
    z = other.one("matmul", a, other.one("matmul", w, v))
    return saturated(b.finish([y]), [(y, other.finish([z]), "matmul_assoc")])


def test_the_cheaper_order_of_products():
    assert found(products(4096))[1] == {"matmul_assoc": 2}
    assert found(products(8))[1] == {}


def test_what_depends_on_params_is_free():
    """x * 2 * w with a weight w: the product of literal and weight is made at load."""
    b = Builder("scaled")
    x, w = b.input("x", t(64, 64)), b.param("w", t(64, 64))
    y = b.one("matmul", b.one("mul", x, scalar(b, 2.0, (64, 64))), w)
    other = Builder("other")
    x, w = other.input("x", t(64, 64)), other.param("w", t(64, 64))
    z = other.one("matmul", x, other.one("mul", w, scalar(other, 2.0, (64, 64))))
    sat = saturated(b.finish([y]), [(y, other.finish([z]), "scale_weight")])
    graph, rules = found(sat, FakeMachine(launch_seconds=0.0))
    assert rules == {"scale_weight": 2}
    assert [k.ops for k in plan(graph, MACHINE, OPTIONS).steps] == [("matmul",)]


def merged(count: int) -> tuple[Graph, Saturated]:
    """`count` products of one x, each of which is a slice of the product with all weights beside each other."""

    def leaves(b: Builder) -> tuple[int, list[int]]:
        return b.input("x", t(16, 64)), [b.param(f"w{k}", t(64, 64)) for k in range(count)]

    b = Builder("parallel")
    x, ws = leaves(b)
    ys = [b.one("matmul", x, w) for w in ws]
    graph = b.finish(ys)
    equal = []
    for k, y in enumerate(ys):
        o = Builder("other")
        x, ws = leaves(o)
        whole = o.one("matmul", x, o.one("concat", *ws, axis=1))
        part = o.one("slice", whole, starts=(0, 64 * k), stops=(16, 64 * (k + 1)), steps=(1, 1))
        equal.append((y, o.finish([part]), "merge_matmul"))
    return graph, saturated(graph, equal)


def test_classes_move_together_to_what_they_can_share():
    """No product alone is cheaper as a slice of the merged one; all three together are."""
    graph, sat = merged(3)
    choice = greedy(price(sat, Pricer(MACHINE)))
    assert ops(build(sat, choice)[0]).count("matmul") == 3
    result, rules = found(sat)
    assert ops(result).count("matmul") == 1 and rules == {"merge_matmul": 5}
    assert plan_seconds(plan(result, MACHINE, OPTIONS)) < plan_seconds(plan(graph, MACHINE, OPTIONS))
    assert_sound(plan(result, MACHINE, OPTIONS), graph)


def test_no_budget_leaves_the_greedy_choice():
    _, sat = merged(2)
    assert ops(extract(sat, MACHINE, PlanOptions(refinements=0)).graph).count("matmul") == 2


def test_patience_ends_a_search_that_finds_nothing():
    _, sat = merged(3)
    impatient = extract(sat, MACHINE, PlanOptions(patience=1)).report
    assert impatient.tried < extract(sat, MACHINE, PlanOptions(patience=64)).report.tried


def composite() -> Saturated:
    """A softmax whose definition stands beside it."""

    def definition(name: str) -> Graph:
        d = Builder(name)
        return d.finish([softmax(d, d.input("x", t(64, 128)))])

    b = Builder("m")
    (y,) = b.add("softmax", [b.input("x", t(64, 128))], {}, regions=(definition("softmax"),), loc="m.tdsl:2:9")
    return saturated(b.finish([y]), [(y, definition("other"), "def softmax")])


def test_a_composite_stays_whole_when_its_parts_are_no_cheaper():
    graph, rules = found(composite())
    assert ops(graph) == ["softmax"] and rules == {}


def test_a_composite_that_the_machine_refuses_is_its_definition():
    result = extract(composite(), FakeMachine(refused=("softmax",)), OPTIONS)
    seconds = plan_seconds(plan(result.graph, FakeMachine(refused=("softmax",)), OPTIONS))
    assert result.report.cost == round(seconds, 13)


def test_nodes_of_rules_stand_where_the_model_does():
    b = Builder("m")
    x = b.input("x", t(8, 8))
    y = b.one("mul", x, scalar(b, 1.0, (8, 8)), loc="m.tdsl:2:5")
    z = b.one("neg", y, loc="m.tdsl:3:5")
    other = Builder("other")
    other.input("x", t(8, 8))
    same = other.one("neg", 0)
    result = extract(saturated(b.finish([z]), [(z, other.finish([same]), "mul_one")]), MACHINE, OPTIONS)
    assert [(n.op, n.loc) for n in result.graph.nodes] == [("input", ""), ("neg", "m.tdsl:3:5")]
    assert result.origin.values == {0: 0, z: 1} and result.origin.rules == {1: "mul_one"}


def test_cycles_are_never_chosen():
    """neg(neg(x)) = x and t = neg(u), u = neg(t): each class has a node that needs itself."""
    f = t(4)
    leaf = ENode("input", (), (("dtype", f.dtype), ("name", "x"), ("shape", f.shape)))
    classes = {
        0: EClass(0, (f,), (ENode("neg", (1,), (), rule="neg_neg"), leaf)),
        1: EClass(1, (f,), (ENode("neg", (2,), (), rule="neg_neg"), ENode("neg", (0,), ()))),
        2: EClass(2, (f,), (ENode("neg", (1,), (), rule="neg_neg"), ENode("abs", (0,), ()))),
    }
    sat = Saturated("cyclic", classes, (1, 2), {0: 0, 1: 1, 2: 2}, (), Search("saturated", 0, 0, 0))
    for choice in (greedy(price(sat, Pricer(MACHINE))), as_written(sat)):
        assert reached(sat, choice) == [0, 1, 2]
    assert reached(sat, {0: 0, 1: 1, 2: 1}) is None


def test_a_bound_that_is_met_is_a_proof():
    b = Builder("copy")
    y = b.one("neg", b.param("x", t(1024, 1024)))
    machine = FakeMachine(launch_seconds=0.0, bytes_a_second=1e3)
    result = extract(trivial_saturated(b.finish([y])), machine, OPTIONS)
    assert (result.report.cost, result.report.bound) == (0.0, 0.0)  # the load program gives it
    b = Builder("heavy")
    y = b.one("matmul", b.input("x", t(512, 512)), b.input("y", t(512, 512)))
    result = extract(trivial_saturated(b.finish([y])), FakeMachine(launch_seconds=0.0), OPTIONS)
    assert result.report.proven and result.report.bound == 2 * 512**3 / 2e12


# ---- whole graphs --------------------------------------------------------------------------------


def optimised(graph: Graph, machine: FakeMachine = MACHINE) -> Optimised:
    done = optimise(graph, trivial_saturated, machine, OPTIONS)
    assert verify(done.graph) == []
    inputs, params = leaf_values(graph)
    right, got = evaluate(graph, inputs, params), evaluate(done.graph, inputs, params)
    assert all(same_bits(a, b) for a, b in zip(right, got, strict=True))
    return done


def test_bodies_are_optimised_as_graphs_whose_weights_are_params():
    seen: list[Graph] = []

    def saturate(graph: Graph) -> Saturated:
        seen.append(graph)
        return trivial_saturated(graph)

    graph = encoder()
    done = optimise(graph, saturate, MACHINE, OPTIONS)
    assert [g.name for g in seen] == ["layer", "encoder"]
    assert [n.attr("name") for n in seen[0].inputs] == ["i", "x"] and len(seen[0].params) == 16
    assert len(done.searches) == 2
    assert done.graph == graph and optimised(graph).origin.loops


def test_a_body_is_improved_by_a_rule_of_its_own():
    """x + x = 2 x, in a body, on a machine to which adding is dear."""

    def saturate(graph: Graph) -> Saturated:
        if graph.name != "body":
            return trivial_saturated(graph)
        add = next(n for n in graph.nodes if n.op == "matmul")
        o = Builder("other")
        o.input("c", t(64, 64))
        return saturated(graph, [(add.out, o.finish([o.one("neg", 0)]), "cheaper")])

    body = Builder("body")
    body.input("i", t(dtype=I32))
    c = body.input("c", t(64, 64))
    region = body.finish([body.one("exp", body.one("matmul", c, c))])
    b = Builder("m")
    outs = b.add("loop", [b.input("x", t(64, 64))], {"n": 2, "carry": 1, "xs": 0}, regions=(region,))
    graph = b.finish(outs)
    done = optimise(graph, saturate, MACHINE, OPTIONS)
    (loop,) = (n for n in done.graph.nodes if n.op == "loop")
    assert ops(loop.regions[0]) == ["neg", "exp"]
    assert done.extraction.rules_used == {"cheaper": 1}
    assert done.origin.loops[loop.outs[0]].rules == {2: "cheaper"}
    assert verify(done.graph) == []


def test_never_dearer_than_no_fusion():
    for graph in (mlp(), encoder(), merged(3)[0]):
        done = optimised(graph)
        assert done.extraction.cost <= round(plan_seconds(unfused_plan(graph, MACHINE)), 13)


def test_the_same_twice():
    _, sat = merged(3)
    assert extract(sat, MACHINE, OPTIONS) == extract(sat, FakeMachine(), OPTIONS)
