"""Rule sets: which rules are on, and where the shipped ones lie.

Must not know egglog.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

from ..source import Diagnostic, DiagnosticError, Note, did_you_mean, read_source
from .parse import parse_rules
from .syntax import Rule, show_rule

Numerics = Literal["exact", "reassoc", "fast"]

# The classes that each level of --numerics turns on; a rule is on when all of its classes are.
LEVELS: dict[str, frozenset[str]] = {
    "exact": frozenset(("exact",)),
    "reassoc": frozenset(("exact", "reassoc")),
    "fast": frozenset(("exact", "reassoc", "nosz", "nonan", "approx")),
}


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in the order they are applied; `off` are those read but not on, `disabled` included."""

    rules: tuple[Rule, ...]
    off: tuple[Rule, ...] = ()
    numerics: str = "reassoc"

    @property
    def digest(self) -> str:
        """SHA-256 of the rules that are on, comments and layout aside."""
        text = "".join(show_rule(_bare(r)) for r in self.rules)
        return hashlib.sha256(text.encode()).hexdigest()


def _bare(rule: Rule) -> Rule:
    return Rule(
        rule.name,
        rule.classes,
        rule.left,
        rule.right,
        rule.both,
        rule.op_vars,
        rule.lets,
        rule.wheres,
        (),
        rule.target,
        rule.costs,
    )


def builtin_rules() -> list[Path]:
    """The shipped `.rules` files, in order of name."""
    with as_file(files("tdslc.rules")) as folder:
        return sorted(Path(folder).glob("*.rules"))


def read_rules(paths: Iterable[Path]) -> list[Rule]:
    """The rules of all files in order. DiagnosticError with all that is wrong, two rules of one name included."""
    rules: list[Rule] = []
    wrong: list[Diagnostic] = []
    for path in paths:
        try:
            rules += parse_rules(read_source(path))
        except DiagnosticError as error:
            wrong += error.diagnostics
    first: dict[str, Rule] = {}
    for rule in rules:
        before = first.setdefault(rule.name, rule)
        if before is not rule and before.span.file != rule.span.file:
            note = Note("it is first given here", before.span)
            wrong.append(Diagnostic("E0302", f"two rules are called {rule.name}", rule.span, (note,)))
    if wrong:
        raise DiagnosticError(wrong)
    return rules


def load_rules(paths: Iterable[Path], numerics: str = "reassoc", disabled: Sequence[str] = ()) -> RuleSet:
    """The rules of `paths` at a level of numerics. DiagnosticError as `read_rules`, and for an unknown `disabled`."""
    rules = read_rules(paths)
    names = [r.name for r in rules]
    unknown = [n for n in disabled if n not in names]
    if unknown:
        raise DiagnosticError(
            [Diagnostic("E0312", f"there is no rule {n} to switch off", help=did_you_mean(n, names)) for n in unknown]
        )
    on = LEVELS[numerics]
    active = tuple(r for r in rules if set(r.classes) <= on and r.name not in disabled)
    return RuleSet(active, tuple(r for r in rules if r not in active), numerics)
