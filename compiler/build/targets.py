"""Targets, found by their entry points, and the machines they load. Must not know any one target."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from ..plan.target import Machine, Target
from ..source import Diagnostic, DiagnosticError, did_you_mean

GROUP = "tdslc.targets"


@lru_cache(maxsize=1)
def target_entries() -> dict[str, EntryPoint]:
    """The installed targets by name, in order; nothing is loaded."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def find_target(name: str) -> Target:
    """The target called `name`. DiagnosticError (E0704)."""
    entries = target_entries()
    if name not in entries:
        known = ", ".join(entries) or "none"
        of = next((f"did you mean `{t}:{name}`?" for t in entries if name in find_target(t).chips()), None)
        help = of or did_you_mean(name, entries) or f"the installed targets are {known}"
        raise DiagnosticError(Diagnostic("E0704", f"no target is called `{name}`", help=help))
    return cast(Target, entries[name].load())


def split_spec(spec: str) -> tuple[str, str]:
    """(target, chip) of `mxu:v5e` or `mxu:mychip.toml`. DiagnosticError (E0704) when the chip is not said."""
    name, _, chip = spec.partition(":")
    if chip:
        return name, chip
    chips = ", ".join(f"{name}:{c}" for c in find_target(name).chips())
    raise DiagnosticError(Diagnostic("E0704", f"`{spec}` names no chip", help=f"one of {chips}, or {name}:FILE.toml"))


def load_machine(spec: str, overrides: Iterable[str] = ()) -> Machine:
    """The machine of `mxu:v5e` or `mxu:mychip.toml`, settings `key=value` laid over. DiagnosticError (E0704, E05xx)."""
    name, chip = split_spec(spec)
    target = find_target(name)
    if not chip.endswith(".toml") and chip not in target.chips():
        help = f"its chips are {', '.join(target.chips())}; one of your own is {name}:FILE.toml"
        raise DiagnosticError(Diagnostic("E0704", f"{name} has no chip `{chip}`", help=help))
    return target.load(chip, tuple(overrides))
