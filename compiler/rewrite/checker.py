"""Whether rules hold: each is tried on small tensors, and a wrong one is shown its counterexample.

`check_rules` gives a Verdict for each rule: `tested` on so many samples, `refuted`, `ill_typed`, or `vacuous` when no
sample matched it, which is a failure too: a rule that cannot apply has not been shown right. The meaning of ops is
`graph.evaluate`, the same that builds are checked against. Must not know egglog.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..graph import OPS, Composites, NDArray
from ..graph.dtypes import from_numpy
from ..source import Diagnostic, Note, did_you_mean, render
from .compare import Difference, difference, disagree
from .forms import Form, compile_forms
from .samples import DIMS, Draw, IllTyped, Reject, Sample
from .syntax import Call, Rule, walk

Kind = Literal["tested", "refuted", "ill_typed", "vacuous", "unknown_op", "skipped"]

SAMPLES = 32  # for each direction and operand count of a rule
ATTEMPTS = 40  # draws for each sample wanted, before giving up
# Further classes that a refuted rule might be right under, least first.
_WEAKER = (
    ("nosz",),
    ("nonan",),
    ("nosz", "nonan"),
    ("reassoc",),
    ("reassoc", "nonan"),
    ("approx",),
    ("approx", "nonan"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one rule. `counts` are samples by dtype; `example` and `suggestion` are texts for people."""

    rule: Rule
    kind: Kind
    samples: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    example: str = ""
    suggestion: str = ""

    @property
    def ok(self) -> bool:
        return self.kind in ("tested", "skipped")

    def diagnostic(self) -> Diagnostic | None:
        """The verdict as a mistake to show, or None when there is none."""
        if self.ok:
            return None
        code, message = _MESSAGES[self.kind]
        notes = tuple(Note(line) for line in self.example.splitlines())
        return Diagnostic(code, message.format(self.rule.name), self.rule.span, notes, self.suggestion or None)


_MESSAGES: dict[str, tuple[str, str]] = {
    "refuted": ("E0309", "rule {} is wrong: its sides differ"),
    "vacuous": ("E0310", "rule {} never applied to any tensor tried, so nothing is known of it"),
    "ill_typed": ("E0311", "rule {} gives another type than it takes"),
    "unknown_op": ("E0304", "rule {} names an op that does not exist"),
}


def check_rules(
    rules: Iterable[Rule],
    composites: Composites,
    *,
    seed: int = 0,
    only: Collection[str] | None = None,
    samples: int = SAMPLES,
) -> list[Verdict]:
    """A verdict for each rule (those named in `only`), in order. The same seed gives the same verdicts."""
    return [check_rule(r, composites, seed=seed, samples=samples) for r in rules if only is None or r.name in only]


def check_rule(rule: Rule, composites: Composites, *, seed: int = 0, samples: int = SAMPLES) -> Verdict:
    """The verdict on one rule; an `impl` is left to its target (`skipped`)."""
    if rule.target:
        return Verdict(rule, "skipped")
    unknown = unknown_ops(rule, composites)
    if unknown:
        return Verdict(
            rule,
            "unknown_op",
            example=f"no op is called {unknown[0]}",
            suggestion=did_you_mean(unknown[0], (*OPS, *composites.rows)) or "",
        )
    return _Trial(rule, composites, seed, samples).verdict()


def unknown_ops(rule: Rule, composites: Composites) -> list[str]:
    """Ops that `rule` names and neither the table nor `composites` has, in order."""
    found = dict.fromkeys(n.op for f in compile_forms(rule, composites) for n in f.nodes if not n.variable)
    for f in compile_forms(rule, composites):
        for e in (*(r.expr for r in f.right), *(e for _, e in f.tensor_lets)):
            found.update(dict.fromkeys(_built_ops(e, dict(rule.op_vars))))
    return [op for op in found if op not in OPS and op not in composites]


def _built_ops(e: object, op_vars: Mapping[str, str]) -> Iterator[str]:
    from .forms import is_tensor_expr

    for x in walk(e):  # pyright: ignore[reportArgumentType]
        if is_tensor_expr(x) and isinstance(x, Call) and x.fn not in op_vars and x.fn != "not":
            yield x.fn


class _Trial:
    """One rule being tried."""

    def __init__(self, rule: Rule, composites: Composites, seed: int, samples: int) -> None:
        self.rule, self.composites, self.seed, self.samples = rule, composites, seed, samples
        self.forms = compile_forms(rule, composites)
        self.classes = frozenset(rule.classes)
        self.found: list[tuple[int, Sample]] = []

    def verdict(self) -> Verdict:
        try:
            for i in range(len(self.forms)):
                self.found += [(i, s) for s in self.draw(i)]
        except IllTyped as clash:
            return self.result("ill_typed", example=str(clash), suggestion="add a condition on the dims or dtypes")
        met = {self.forms[i].back for i, _ in self.found}
        if met != {f.back for f in self.forms}:
            way = " from right to left" if self.found else ""
            return self.result(
                "vacuous",
                example=f"{self.samples * ATTEMPTS} draws were tried{way}",
                suggestion="loosen the conditions, or add `test name = value` hints",
            )
        wrong = self.first_wrong(self.found, self.classes)
        if wrong is None:
            return self.result("tested")
        return self.refuted(*wrong)

    def result(self, kind: Kind, example: str = "", suggestion: str = "") -> Verdict:
        counts = Counter("+".join(s.dtypes) for _, s in self.found)
        return Verdict(self.rule, kind, len(self.found), dict(sorted(counts.items())), example, suggestion)

    def key(self, *parts: object) -> str:
        return ":".join(map(str, (self.seed, self.rule.name, *parts)))

    # ---- samples ----

    def draw(self, form: int, dims: tuple[int, ...] = DIMS, most: int = 2, count: int = 0) -> list[Sample]:
        wanted = count or self.samples
        rng = random.Random(self.key(form, dims, most))
        got: list[Sample] = []
        for _ in range(wanted * ATTEMPTS):
            if len(got) >= wanted:
                break
            try:
                got.append(Draw(self.forms[form], self.composites, rng, dims, most, self.rule.tests).sample())
            except Reject:
                continue
        return got

    def first_wrong(
        self, samples: Iterable[tuple[int, Sample]], classes: frozenset[str]
    ) -> tuple[int, Sample, Difference] | None:
        for n, (form, sample) in enumerate(samples):
            found = difference(sample, classes, self.key("data", form, n))
            if found:
                return form, sample, found
        return None

    # ---- a wrong rule ----

    def refuted(self, form: int, sample: Sample, found: Difference) -> Verdict:
        small = self.smaller(form) or (form, sample, found)
        sample, found = small[1], shrink(small[1], small[2], self.classes)
        return self.result("refuted", show_difference(self.forms[form], sample, found), self.suggest())

    def smaller(self, form: int) -> tuple[int, Sample, Difference] | None:
        """The same failure on fewer elements: dims first."""
        for dims, most in (((1,), 0), ((0, 1), 0), ((1, 2), 0), ((0, 1, 2), 1)):
            drawn = sorted(self.draw(form, dims, most, 24), key=lambda s: s.elements)
            wrong = self.first_wrong(((form, s) for s in drawn), self.classes)
            if wrong:
                return wrong
        return None

    def suggest(self) -> str:
        """What would make the rule right on everything tried: dtypes it holds for, or the least further classes."""
        ways: list[str] = []
        kinds: tuple[tuple[str, Callable[[str], bool]], ...] = (
            ("int|bool", lambda d: d[0] in "iu" or d == "bool"),
            ("float", lambda d: d[0] == "f" or d == "bf16"),
        )
        for word, fits in kinds:
            some = [(i, s) for i, s in self.found if all(map(fits, s.dtypes))]
            if some and len(some) < len(self.found) and not self.first_wrong(some, self.classes):
                ways.append(f"restrict it to {word}")
        for more in _WEAKER:
            if not set(more) <= self.classes and not self.first_wrong(self.found, self.classes | set(more)):
                ways.append(f"mark it {' '.join('@' + c for c in more)}")
                break
        return "it holds on everything tried if you " + " or ".join(ways) if ways else ""


# ---- counterexamples -----------------------------------------------------------------------------


def shrink(sample: Sample, found: Difference, classes: frozenset[str]) -> Difference:
    """`found` with as many elements as possible replaced by 0, 1, 2 or -1."""
    best = found
    for name in sorted(found.data):
        for at in np.ndindex(*found.data[name].shape):
            for value in (0, 1, 2, -1):
                if best.data[name][at] == value:
                    break
                data = dict(best.data)
                changed = data[name].copy()
                changed[at] = value
                data[name] = changed
                again = disagree(sample, classes, found.tier, data)
                if again:
                    best = again
                    break
    return best


def show_difference(form: Form, sample: Sample, found: Difference) -> str:
    """A counterexample as text: leaves with their types and values, then both results."""
    types = sample.graph.types
    lines: list[str] = []
    for name, v in sample.names.items():
        leaf = sample.graph.producers[v]
        value = f"full({leaf.attr('value')})" if leaf.op == "full" else _show(found.data[str(leaf.attr("name"))])
        lines.append(f"{name}: {types[v]} = {value}")
    used = [n for n in sample.graph.nodes if n.op in OPS and n.attrs and n.op not in ("input", "param", "full")]
    attrs = [f"{n.op}({', '.join(f'{k}={v}' for k, v in n.attrs)})" for n in used]
    if attrs:
        lines.append("with " + "; ".join(dict.fromkeys(attrs)))
    where = " (whole numbers, floats as f64)" if found.tier == "exact" else ""
    way = " (right to left)" if form.back else ""
    return "\n".join([*lines, f"left{way}: {_show(found.left)}", f"right{way}: {_show(found.right)}{where}"])


def _show(x: NDArray) -> str:
    d = from_numpy(x.dtype)
    wide = x.astype(np.float64) if d and d.is_float else x
    return str(wide.tolist())


def show_verdicts(verdicts: Iterable[Verdict]) -> str:
    """One line for each rule that holds, a diagnostic for each that does not."""
    parts: list[str] = []
    for v in verdicts:
        found = v.diagnostic()
        parts.append(render(found) if found else _line(v))
    return "\n".join(parts)


def _line(v: Verdict) -> str:
    if v.kind == "skipped":
        return f"{v.rule.name}: not checked, it is for {v.rule.target}"
    counts = ", ".join(f"{n} {d}" for d, n in v.counts.items()) or "no operands"
    return f"{v.rule.name}: holds on {v.samples} samples ({counts})"
