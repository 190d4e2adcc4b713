"""The files of a build: every level as text, and the figures as JSON. The same build gives the same bytes anywhere.

Paths in them are relative to the model file's folder; nothing in them is a date, a clock reading or an absolute path.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..graph import Dim, Graph, show
from ..plan import show_plan
from ..plan.target import Machine
from ..report.perfetto import trace_json
from . import figures
from .driver import Build
from .folder import CHIP, IR, ORIGIN, PROGRAM, TRACE, to_json, with_manifest
from .phases import Phase
from .targets import read_spec

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def build_files(b: Build) -> dict[str, str]:
    """Every file of the build folder by its path in it, manifest included."""
    files = level_texts(b)
    if b.rewritten is not None and b.origin is not None:
        files[TRACE] = "".join(
            json.dumps(row, ensure_ascii=False) + "\n" for search in b.searches for row in search.trace
        )
        files[ORIGIN] = to_json(b.origin.to_json())
    if b.chosen is not None:
        files |= {
            "memory.json": to_json(figures.memory(b.chosen.program)),
            "schedule.json": to_json(figures.schedule(b.chosen)),
            "trace.perfetto.json": trace_json(f"{b.name} on {b.machine.spec}", b.chosen.timing),
            "report.json": to_json(b.report),
        }
    files |= chip_file(b.options.target)
    return with_manifest(files, facts(b))


def chip_file(target: str) -> dict[str, str]:
    """The chip's description, when it is a file of the user's."""
    spec = read_spec(target)
    return {CHIP: Path(spec.chip).read_text(encoding="utf-8")} if spec.is_file else {}


def level_texts(b: Build) -> dict[str, str]:
    """The levels that the build reached, by file."""
    files = {IR["graph"]: show(b.source.graph)}
    if b.rewritten is not None:
        files[IR["rewritten"]] = show(b.rewritten)
    if b.plan is not None:
        files[IR["plan"]] = show_plan(b.plan)
    if b.chosen is not None:
        files |= {PROGRAM + name: text for name, text in sorted(b.machine.show(b.chosen.program).items())}
    return files


def level_text(b: Build, level: str) -> str:
    """The text of one level; a program of several files as one text, the files' names between."""
    texts = level_texts(b)
    if level in IR:
        return texts.get(IR[level], "")
    program = {name: text for name, text in texts.items() if name.startswith(PROGRAM)}
    if len(program) == 1:
        return next(iter(program.values()))
    return "".join(f"// {name}\n{text}" for name, text in program.items())


class Made(Protocol):
    """What a build is to those who name its folder and show its report: one that is whole, or one in parts."""

    @property
    def name(self) -> str: ...

    @property
    def machine(self) -> Machine: ...

    @property
    def report(self) -> Mapping[str, Any]: ...

    @property
    def phases(self) -> Sequence[Phase]: ...


def default_folder(b: Made) -> str:
    """`build/<model>-<target>-<chip>`, below the working folder."""
    return os.path.join("build", _UNSAFE.sub("-", f"{b.name}-{b.machine.spec}"))


def facts(b: Build) -> dict[str, object]:
    """What a manifest says besides the files: the model, the target, the rules and the options."""
    spec = read_spec(b.options.target)
    return {
        "model": {"name": b.name, "sources": dict(sorted(b.source.files.items()))},
        "target": {
            "name": spec.target,
            "chip": CHIP if spec.is_file else spec.chip,
            **({"size": spec.size} if spec.size else {}),
            "spec": b.machine.spec,
            "digest": b.machine.digest,
        },
        "rules": {
            "digest": b.rules.ruleset.digest,
            "files": {_relative(b, path): sha for path, sha in b.rules.files.items()},
        },
        "options": _options(b),
        "guards": _guards(b.source.graph),
        "levels": [level for level in ("graph", "rewritten", "plan", "program") if b.options.reaches(level)],
    }


def _options(b: Build) -> dict[str, object]:
    o = b.options
    return {
        "target": b.machine.spec,
        "set": list(o.overrides),
        "dims": dict(sorted(b.source.dims.items())),
        "dtypes": dict(sorted(b.source.dtypes.items())),
        "entry": o.entry,
        "rules": [_relative(b, path) for path in o.rules],
        "no_rule": list(o.disabled),
        "numerics": o.numerics,
        "unchecked": o.unchecked,
        "opt": o.opt,
        "budget": dict(sorted(o.budget.items())),
        "fuse": o.fuse,
        "stop_after": o.stop_after,
        **({"binds": {name: _relative(b, path) for name, path in sorted(o.binds.items())}} if o.binds else {}),
    }


def _relative(b: Build, path: str) -> str:
    return Path(os.path.relpath(path, b.source.folder)).as_posix()


def _guards(graph: Graph) -> list[str]:
    """What must hold of the dims for this build to be the right one: each has the value it was built for."""
    dims = {d.expr: int(d) for n in graph.nodes for t in n.types for d in t.shape if isinstance(d, Dim)}
    return [f"{name} == {value}" for name, value in sorted(dims.items()) if name.isidentifier()]


def as_report(b: Made) -> dict[str, Any]:
    """`report.json` with the phases' seconds of the wall, which only `--json` prints."""
    phases = [{"name": p.name, "wall_seconds": p.wall_seconds} for p in b.phases]
    return {**b.report, "phases": phases}
