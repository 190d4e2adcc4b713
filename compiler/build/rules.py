"""The rules of a build: those that are shipped, the target's own, and the user's, which are checked first.

Must not know plans nor any one target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from ..graph import Composites
from ..rewrite import Budget, RuleSet, builtin_rules, load_rules, read_rules
from ..rewrite.checker import check_rules
from ..source import Diagnostic, DiagnosticError, did_you_mean
from .folder import digest
from .options import BuildOptions

# How much further `--opt 3` searches.
_FURTHER = 4


@dataclass(frozen=True, slots=True)
class Rules:
    """A set of rules, and the sha256 of the user's files by the path given."""

    ruleset: RuleSet
    files: Mapping[str, str] = field(default_factory=dict[str, str])


def load(options: BuildOptions, of_target: Sequence[Path], composites: Composites) -> Rules:
    """The rules that `options` turn on. DiagnosticError with what is wrong in them (E03xx), a refuted rule included."""
    if options.opt < 2:
        return Rules(RuleSet((), (), options.numerics))
    users = [Path(path) for path in options.rules]
    ruleset = load_rules([*builtin_rules(), *of_target, *users], options.numerics, options.disabled)
    if users and not options.unchecked:
        refute(users, composites)
    return Rules(ruleset, {str(path): digest(path.read_bytes()) for path in users})


def refute(files: Sequence[Path], composites: Composites) -> None:
    """DiagnosticError when a rule of `files` does not hold, each with its counterexample."""
    verdicts = check_rules(read_rules(files), composites)
    found = [d for verdict in verdicts if (d := verdict.diagnostic()) is not None]
    if any(d.severity == "error" for d in found):
        raise DiagnosticError(found)


def search_budget(options: BuildOptions) -> Budget:
    """The budget of the search. DiagnosticError (E0711) for a knob that there is not, or that is no count."""
    budget = Budget()
    knobs = {f.name: getattr(budget, f.name) for f in fields(budget)}
    for name, value in options.budget.items():
        if name not in knobs:
            help = did_you_mean(name, knobs) or f"the knobs are {', '.join(knobs)}"
            raise DiagnosticError(Diagnostic("E0711", f"`{name}` is no knob of the search", help=help))
        if value <= 0:
            raise DiagnosticError(Diagnostic("E0711", f"`{name}` must be greater than 0, not {value}"))
    if options.opt >= 3:
        knobs = {name: value * _FURTHER for name, value in knobs.items()}
    return replace(budget, **{**knobs, **options.budget})
