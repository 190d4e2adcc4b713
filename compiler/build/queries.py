"""What can be asked without a build: targets and chips, rules, and whether rules hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..language import stdlib_composites
from ..rewrite import Rule, builtin_rules, load_rules, read_rules, show_rule
from ..rewrite.checker import Verdict, check_rules, show_verdicts
from ..source import Diagnostic
from .options import Numerics
from .targets import find_target, load_machine, target_entries


@dataclass(frozen=True, slots=True)
class Checked:
    """Verdicts as JSON rows, as text, and a diagnostic for each rule that does not hold."""

    rows: list[dict[str, Any]]
    text: str
    diagnostics: tuple[Diagnostic, ...]


def list_targets(name: str | None = None) -> list[dict[str, Any]]:
    """Name and chips of every target, or of the one called `name`. DiagnosticError (E0704)."""
    names = [name] if name is not None else list(target_entries())
    return [{"name": n, "chips": list(find_target(n).chips())} for n in names]


def about_chip(spec: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Spec, digest and figures (value, source) of a chip. DiagnosticError (E0704, E05xx)."""
    machine = load_machine(spec, overrides)
    return {"target": machine.spec, "digest": machine.digest, "figures": dict(machine.about())}


def list_rules(files: Sequence[str], target: str | None, numerics: Numerics) -> list[dict[str, Any]]:
    """Rules of `files`, or the shipped ones and `target`'s own, in order. DiagnosticError (E03xx)."""
    paths = [Path(f) for f in files] or list(builtin_rules())
    if target is not None:
        paths += load_machine(target).rule_files
    ruleset = load_rules(paths, numerics)
    on = set(ruleset.rules)
    return [_rule_row(rule, rule in on) for rule in read_rules(paths)]


def check_rule_files(files: Sequence[str]) -> Checked:
    """Whether the rules of `files` hold. DiagnosticError (E03xx) when they cannot be read."""
    verdicts = check_rules(read_rules([Path(f) for f in files]), stdlib_composites())
    found = tuple(d for v in verdicts if (d := v.diagnostic()) is not None)
    held = [v for v in verdicts if v.diagnostic() is None]
    return Checked([_verdict_row(v) for v in verdicts], show_verdicts(held), found)


def _verdict_row(v: Verdict) -> dict[str, Any]:
    return {
        "rule": v.rule.name,
        "verdict": v.kind,
        "ok": v.ok,
        "samples": v.samples,
        "by_dtype": dict(v.counts),
        "example": v.example or None,
        "suggestion": v.suggestion or None,
    }


def _rule_row(rule: Rule, on: bool) -> dict[str, Any]:
    return {
        "name": rule.name,
        "classes": list(rule.classes),
        "on": on,
        "target": rule.target or None,
        "doc": rule.doc,
        "text": show_rule(rule),
        "file": rule.span.file.path,
        "line": rule.span.line,
    }
