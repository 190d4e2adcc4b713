"""Planning takes as long as a model's unique structure is large: by what is priced, which no clock changes."""

from dataclasses import dataclass, field

from fake_machine import FakeMachine
from hand_egraphs import saturated
from plan_graphs import encoder, t
from tdslc.compiler.graph import Builder, Graph
from tdslc.compiler.plan import Pricer
from tdslc.compiler.plan.fuse import planned
from tdslc.compiler.plan.merge import Fusion
from tdslc.compiler.plan.rewriting import extract
from tdslc.compiler.plan.target import CostQuery, KernelCost, PlanOptions, Refusal

OPTIONS = PlanOptions()
CHAIN = ("exp", "neg", "tanh", "abs")


@dataclass(frozen=True)
class CountingMachine(FakeMachine):
    """A machine that notes what it is asked."""

    asked: list[Graph] = field(default_factory=list[Graph], compare=False)

    def estimate(self, query: CostQuery) -> KernelCost | Refusal:
        self.asked.append(query.body)
        return super().estimate(query)


def chain(length: int, last: str = "abs") -> Graph:
    b = Builder("chain")
    x = b.input("x", t(64, 64))
    for i in range(length):
        x = b.one(CHAIN[i % len(CHAIN)], x)
    return b.finish([b.one(last, x)])


def priced(graph: Graph) -> int:
    machine = CountingMachine()
    planned(graph, Pricer(machine), OPTIONS)
    assert len(set(machine.asked)) == len(machine.asked), "a kernel was priced twice"
    return len(machine.asked)


def test_a_deep_net_is_priced_as_a_shallow_one():
    shallow, deep = priced(encoder(layers=4)), priced(encoder(layers=16))
    assert deep <= 1.25 * shallow


def test_a_graph_like_the_last_one_is_priced_where_it_differs():
    machine = CountingMachine()
    pricer = Pricer(machine)
    before = planned(chain(100), pricer, OPTIONS)
    asked = len(machine.asked)
    after = planned(chain(100, last="neg"), pricer, OPTIONS, before.kernels)
    assert len(machine.asked) - asked <= 4
    assert after.worth == planned(chain(100, last="neg"), Pricer(machine), OPTIONS).worth


def test_a_graph_like_the_last_one_is_searched_where_it_differs(monkeypatch):
    pricer = Pricer(FakeMachine())
    before = planned(encoder(layers=6), pricer, OPTIONS)
    moves: list[object] = []
    evaluate = Fusion.evaluate
    monkeypatch.setattr(Fusion, "evaluate", lambda self, recipe: (moves.append(recipe), evaluate(self, recipe))[1])
    assert planned(encoder(layers=6), pricer, OPTIONS, before.kernels).worth == before.worth
    assert moves == []


def test_repro_an_op_that_comes_into_a_kernel_does_not_undo_all_others(monkeypatch):
    """A rewriting that puts an op between two of one kernel: it begins in that kernel, not in one that waits for it."""
    b = Builder("m")
    x = b.input("x", t(64, 64))
    values = [x := b.one(CHAIN[i % len(CHAIN)], x) for i in range(60)]
    graph = b.finish([x])
    other = Builder("other")
    y = other.input("x", t(64, 64))
    for i in range(30):
        y = other.one(CHAIN[i % len(CHAIN)], y)
    y = other.one("exp", other.one("neg", other.one("neg", y)))
    sat = saturated(graph, [(values[30], other.finish([y]), "neg_neg")])
    moves: list[object] = []
    evaluate = Fusion.evaluate
    monkeypatch.setattr(Fusion, "evaluate", lambda self, recipe: (moves.append(recipe), evaluate(self, recipe))[1])
    planned(graph, Pricer(FakeMachine()), OPTIONS)
    alone = len(moves)
    report = extract(sat, FakeMachine(), OPTIONS).report
    assert report.tried >= 3
    assert len(moves) - alone <= 3 * alone
