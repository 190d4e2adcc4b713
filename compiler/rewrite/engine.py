"""Saturation: rules applied to a graph until nothing new comes or a budget is used up.

An iteration runs each rule's join in egglog, reads the new matches, and for each computes conditions and right side in
Python (`values`). What comes of it goes back to egglog, which closes equality under congruence. Budgets are counts, so
a result does not depend on the machine; the wall limit is a safety net whose use is said. docs/decisions/0002 has the
why and the measurements. Must not know targets, nor the process it runs in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..graph import Composites, Graph
from .egraph import EClass, ENode, Saturated, Search
from .forms import Form, compile_forms
from .functions import Tensor
from .lower import MAX_ARITY, Lowered, lower, preamble
from .rules import RuleSet
from .store import Draft, Store, TypeClash, encode
from .values import Match, NoMatch, OpHead, bind, build

if TYPE_CHECKING:
    from egglog.bindings import EGraph, Value


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may use. All but `wall_seconds` are counts.

    `matches_per_rule` is for one form of a rule in one iteration; what is over waits for the next. `matches` is for the
    whole search.
    """

    iterations: int = 12
    e_nodes: int = 4_000
    matches_per_rule: int = 400
    matches: int = 12_000
    wall_seconds: float = 30.0


@dataclass
class _Tally:
    """Counts by rule, in order of rules."""

    unions: dict[str, int] = field(default_factory=dict[str, int])
    made: dict[str, int] = field(default_factory=dict[str, int])
    clashes: dict[str, str] = field(default_factory=dict[str, str])
    matches: int = 0

    def add(self, table: dict[str, int], rule: str, count: int) -> None:
        table[rule] = table.get(rule, 0) + count


def saturate(
    graph: Graph,
    rules: RuleSet,
    composites: Composites,
    budget: Budget | None = None,
    *,
    const_inputs: Iterable[str] = (),
) -> Saturated:
    """Every equal form of `graph` that `rules` reach within `budget`.

    Loops are opaque. `const_inputs` are inputs that hold parameters (the weights of a repeated layer's body). Runs
    egglog in this process, on this thread: an endless or huge search is `worker.Worker`'s to stop.
    """
    store = Store(composites, const_inputs)
    values = encode(store, graph)
    search = _Search(store, [f for r in rules.rules for f in compile_forms(r, composites)], budget or Budget())
    return read_back(graph, store, values, search.run())


def as_written(graph: Graph, composites: Composites, search: Search, *, const_inputs: Iterable[str] = ()) -> Saturated:
    """`graph` and its composites' definitions, no rule applied: what is left when a search failed."""
    store = Store(composites, const_inputs)
    values = encode(store, graph)
    return read_back(graph, store, values, search)


class _Search:
    """One saturation: egglog's half, the store, and the matches that wait."""

    def __init__(self, store: Store, forms: list[Form], budget: Budget) -> None:
        os.environ.setdefault("RUST_BACKTRACE", "0")
        os.environ["RAYON_NUM_THREADS"] = "1"  # more threads make the order of rows differ between runs
        from egglog.bindings import EGraph

        self.store, self.budget, self.tally = store, budget, _Tally()
        self.trace: list[dict[str, object]] = []
        self.started = time.monotonic()
        self.eg: EGraph = EGraph()
        head = preamble(store.op_id)
        self.forms = [lower(f, i, store.op_id) for i, f in enumerate(reachable(forms, store))]
        self.waiting: list[list[tuple[int, ...]]] = [[] for _ in self.forms]
        self.maybe: list[dict[tuple[int, ...], None]] = [{} for _ in self.forms]
        self.learned = 0
        self.seen: list[set[tuple[int, ...]]] = [set() for _ in self.forms]
        self.run_text("\n".join((head, *(f.text for f in self.forms))))

    def run_text(self, text: str) -> None:
        self.eg.run_program(*self.eg.parse_program(text, "tdslc"))

    def run(self) -> Search:
        self.push()
        iterations, reason = 0, self.stopped(0)
        while not reason:
            iterations += 1
            grew = self.iterate(iterations)
            self.push()
            reason = self.stopped(iterations)
            if not grew and not any(self.waiting):
                reason = "saturated"
        return self.report(reason, iterations)

    def stopped(self, iterations: int) -> str:
        """Why the search must end now, or ""."""
        b = self.budget
        if not self.forms:
            return "saturated"
        if len(self.store) >= b.e_nodes:
            return "node_limit"
        if self.tally.matches >= b.matches:
            return "match_limit"
        if iterations >= b.iterations:
            return "iteration_limit"
        return "wall_limit" if time.monotonic() - self.started >= b.wall_seconds else ""

    # ---- egglog ----

    def push(self) -> None:
        """Tells egglog what is new and takes over what it finds equal, until neither has anything to add."""
        fresh, unions = self.store.drain()
        commands = list(_commands(self.store, fresh, unions))
        if commands:
            self.eg.run_program(*commands)
        self.read_classes()
        self.store.refresh()

    def read_classes(self) -> None:
        self.functions: Any = self.eg.freeze().functions
        groups: dict[Value, list[int]] = {}
        for row in self.functions["node"].rows:
            groups.setdefault(row.output, []).append(self.eg.value_to_i64(row.inputs[0]))
        self.class_of = {value: min(handles) for value, handles in groups.items()}
        self.store.merge_congruent(sorted(map(sorted, groups.values())))

    def find_matches(self) -> None:
        """Runs the joins of the rules that have nothing waiting, and queues their new matches in order."""
        ready = [f for f in self.forms if not self.waiting[f.index]]
        self.run_text(f"(run-schedule (seq {' '.join(f'(run {f.ruleset})' for f in ready)}))")
        learned, self.learned = self.learned != self.store.learned, self.store.learned
        functions = self.eg.freeze().functions
        for f in ready:
            width = len(f.classes)
            rows: set[tuple[int, ...]] = set()
            for row in functions[f.relation].rows:
                classes = (self.class_of[v] for v in row.inputs[:width])
                rows.add((*classes, *map(self.eg.value_to_i64, row.inputs[width:])))
            if learned:
                rows |= set(self.maybe[f.index])
                self.maybe[f.index] = {}
            self.waiting[f.index] = sorted(rows)
        self.run_text("(run-schedule (run Clear))")

    # ---- rules ----

    def iterate(self, iteration: int) -> bool:
        """One round over all rules; whether it changed anything."""
        self.find_matches()
        changed = False
        for f in self.forms:
            now = self.waiting[f.index][: self.budget.matches_per_rule]
            self.waiting[f.index] = self.waiting[f.index][len(now) :]
            for row in now:
                if self.stopped(0):
                    return True
                changed |= self.apply(f, row, iteration)
        return changed

    def apply(self, f: Lowered, row: tuple[int, ...], iteration: int) -> bool:
        """Applies one match; whether something new came of it."""
        width = len(f.classes)
        key = (*map(self.store.find, row[:width]), *row[width:])
        if key in self.seen[f.index]:
            return False
        self.tally.matches += 1
        try:
            made, pairs = self.make(f, key)
        except NoMatch as why:
            if why.soft:
                self.maybe[f.index][key] = None
            else:
                self.seen[f.index].add(key)
            return False
        self.seen[f.index].add(key)
        self.tally.add(self.tally.made, f.form.rule, made)
        joined = [left for left, right in pairs if self.join(f.form.rule, left, right)]
        for left in joined:
            self.trace.append(
                {"iteration": iteration, "rule": f.form.rule, "value": left, "at": self.store.entries[left].loc}
            )
        return bool(joined)

    def make(self, f: Lowered, key: tuple[int, ...]) -> tuple[int, list[tuple[int, int]]]:
        """Builds the right side of a match: how many e-nodes it took, and the classes that it makes equal."""
        match = self.match(f, key)
        env = bind(f.form, match, self.store)
        loc = self.store.entries[key[0]].loc
        draft = Draft(self.store, f.form.rule, loc)
        right = dict(build(f.form, env, draft, draft))
        left = {name: match.tensors[name].id for name, _ in f.form.roots}
        for name, tensor in right.items():
            have, got = self.store.entries[left[name]].types, (draft.type(tensor),)
            if have != got:
                self.tally.clashes.setdefault(f.form.rule, f"{', '.join(map(str, have))} and {got[0]}")
                raise NoMatch("sides of two types")
        before = len(self.store)
        handles = draft.commit()
        pairs = [(left[n], t.id if t.id >= 0 else handles[-1 - t.id]) for n, t in right.items()]
        return len(self.store) - before, pairs

    def match(self, f: Lowered, key: tuple[int, ...]) -> Match:
        width, nodes = len(f.classes), f.form.nodes
        tensors = {name: Tensor(h) for name, h in zip(f.classes, key, strict=False)}
        attr_ids = dict(zip(f.attrs, key[width:], strict=False))
        op_ids = dict(zip(f.ops, key[width + len(f.attrs) :], strict=True))
        heads = tuple(
            OpHead(
                self.store.op_names[op_ids[i]] if n.variable else n.op,
                self.store.attrs[attr_ids[i]][0] if i in attr_ids else (),
            )
            for i, n in enumerate(nodes)
        )
        return Match(tensors, heads)

    def join(self, rule: str, a: int, b: int) -> bool:
        try:
            changed = self.store.union(a, b)
        except TypeClash as clash:
            self.tally.clashes.setdefault(rule, str(clash))
            return False
        if changed:
            self.tally.add(self.tally.unions, rule, 1)
        return changed

    # ---- the end ----

    def report(self, reason: str, iterations: int) -> Search:
        notes = [
            f"rule {rule} called tensors of two types equal ({types}); it was not applied there"
            for rule, types in sorted(self.tally.clashes.items())
        ]
        if reason != "saturated":
            notes.insert(0, self.budget_note(reason))
        e_nodes, e_classes = len(self.store), len(self.store.members())
        return Search(
            reason,
            iterations,
            e_nodes,
            e_classes,
            dict(sorted(self.tally.unions.items())),
            tuple(notes),
            tuple(self.trace),
        )

    def budget_note(self, reason: str) -> str:
        grown = sorted(self.tally.made.items(), key=lambda kv: (-kv[1], kv[0]))[:3]
        growers = ", ".join(f"{rule} ({count} e-nodes)" for rule, count in grown if count)
        b = self.budget
        limit = {
            "node_limit": f"{b.e_nodes} e-nodes",
            "match_limit": f"{b.matches} matches",
            "iteration_limit": f"{b.iterations} iterations",
            "wall_limit": f"{b.wall_seconds:g} seconds",
        }[reason]
        return f"the search ended at its budget of {limit}; the rules that grew the graph most: {growers or 'none'}"


def _commands(store: Store, fresh: range, unions: list[tuple[int, int]]) -> Iterator[Any]:
    """AST commands, which need no parsing, for new e-nodes and unions."""
    from egglog.bindings import ActionCommand, Call, EgglogSpan, Int, Lit, Set, SrcFile, Union

    at = EgglogSpan(SrcFile("tdslc", ""), 0, 0)

    def number(n: int) -> Any:
        return Lit(at, Int(n))

    def node(handle: int) -> Any:
        return Call(at, "node", [number(handle)])

    for h in fresh:
        e = store.entries[h]
        if len(e.args) > MAX_ARITY:
            # No rule matches an op of so many operands; all that egglog must know is that it is a class of its own.
            call = Call(at, "Op0", [number(-1), number(h)])
        else:
            call = Call(at, f"Op{len(e.args)}", [number(e.op_id), number(e.attr_id), *map(node, e.args)])
        yield ActionCommand(Set(at, "node", [number(h)], call))
    for a, b in unions:
        yield ActionCommand(Union(at, node(a), node(b)))


def reachable(forms: list[Form], store: Store) -> list[Form]:
    """Forms whose ops all occur in the graph or can be made by another such form."""
    present = set(store.ops)
    left, kept = list(forms), set[int]()
    grown = True
    while grown:
        grown = False
        for i, form in enumerate(left):
            if i not in kept and form.ops <= present:
                kept.add(i)
                present |= _made_ops(form)
                grown = True
    return [f for i, f in enumerate(left) if i in kept]


def _made_ops(form: Form) -> set[str]:
    from .syntax import Call, walk

    sides = [r.expr for r in form.right] + [e for _, e in form.tensor_lets]
    return {e.fn for side in sides for e in walk(side) if isinstance(e, Call)}


def read_back(graph: Graph, store: Store, values: dict[int, int], search: Search) -> Saturated:
    """The classes that the graph's values and outputs need, by their lowest handle.

    E-nodes that say the same are given once; one that reads its own class computes nothing and is left out.
    """
    members = store.members()
    wanted = dict.fromkeys(store.find(h) for h in values.values())
    classes: dict[int, EClass] = {}
    queue = list(wanted)
    while queue:
        top = queue.pop()
        if top in classes:
            continue
        classes[top] = _read_class(store, top, members[top])
        queue += [a for n in classes[top].nodes for a in n.args if a not in classes]
    ordered = dict(sorted(classes.items()))
    roots = tuple(store.find(values[v]) for v in graph.outputs)
    found = {v: store.find(h) for v, h in values.items()}
    return Saturated(graph.name, ordered, roots, found, graph.output_names, search)


def _read_class(store: Store, top: int, handles: list[int]) -> EClass:
    nodes: dict[tuple[int, int, tuple[int, ...]], ENode] = {}
    for h in handles:
        e = store.entries[h]
        args = tuple(map(store.find, e.args))
        if top in args:
            continue
        attrs, regions = store.attrs[e.attr_id]
        nodes.setdefault((e.op_id, e.attr_id, args), ENode(e.op, args, attrs, regions, e.loc, e.rule))
    return EClass(top, store.entries[top].types, tuple(nodes.values()))
