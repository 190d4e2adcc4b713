"""Targets, found by their entry points, and the machines they load. Must not know any one target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from ..plan.target import Machine, Target
from ..source import Diagnostic, DiagnosticError, did_you_mean

GROUP = "tdslc.targets"
_FILE = ".toml"


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


@dataclass(frozen=True, slots=True)
class Spec:
    """What `--target` says: a target, one of its chips or a `.toml` file, and how much of it ("" where not said)."""

    target: str
    chip: str
    size: str = ""

    @property
    def is_file(self) -> bool:
        """Whether the chip is a file of the user's."""
        return self.chip.endswith(_FILE)

    def __str__(self) -> str:
        return f"{self.target}:{self.chip}" + (f",{self.size}" if self.size else "")


def read_spec(text: str) -> Spec:
    """The Spec of `mxu:v5e`, `mxu:mychip.toml` or `wse:wse3,4x4`. DiagnosticError (E0704) when the chip is not said."""
    name, _, rest = text.partition(":")
    before, file, size = rest.rpartition(_FILE)
    chip, comma, size = (before + file, size[:1], size[1:]) if file and size[:1] in ("", ",") else rest.partition(",")
    if chip and (size or not comma):
        return Spec(name, chip, size)
    chips = ", ".join(f"{name}:{c}" for c in find_target(name).chips())
    raise DiagnosticError(Diagnostic("E0704", f"`{text}` names no chip", help=f"one of {chips}, or {name}:FILE.toml"))


def load_machine(text: str, overrides: Iterable[str] = ()) -> Machine:
    """The machine of a spec as in `read_spec`, settings `key=value` laid over. DiagnosticError (E0704, E05xx)."""
    spec = read_spec(text)
    target = find_target(spec.target)
    if not spec.is_file and spec.chip not in target.chips():
        help = f"its chips are {', '.join(target.chips())}; one of your own is {spec.target}:FILE.toml"
        raise DiagnosticError(Diagnostic("E0704", f"{spec.target} has no chip `{spec.chip}`", help=help))
    return target.load(spec.chip, tuple(overrides), spec.size)
