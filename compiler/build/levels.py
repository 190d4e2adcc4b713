"""A build folder read back: what `run` needs of it, and where `--from` goes on.

What the folder holds may have been edited: each level is parsed and verified, and mistakes are diagnostics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..graph import Graph, GraphTextError, parse, verify
from ..plan import Origin, PlanTextError, parse_plan, verify_plan
from ..plan import origin as origin_
from ..plan.target import Machine, Plan, Program
from ..source import Diagnostic, DiagnosticError
from .folder import CHIP, IR, ORIGIN, PROGRAM, TRACE, read_file, read_json, read_manifest
from .options import LEVELS, Level
from .targets import Spec, load_machine

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels of a folder up to the one asked for; the later ones are None."""

    manifest: Mapping[str, Any]
    graph: Graph
    rewritten: Graph | None = None
    origin: Origin | None = None
    plan: Plan | None = None
    program_files: Mapping[str, str] | None = None


def read_levels(folder: str, upto: Level) -> Levels:
    """The levels of the build folder. DiagnosticError (E0703) when one is missing or is not what it should be."""
    manifest = read_manifest(folder)
    reached = manifest.get("levels", [])
    if manifest["options"].get("partition"):
        said = f"{folder} is a build in parts, which has no levels of its own"
        raise DiagnosticError(Diagnostic("E0703", said, help=f"name one of its regions: {folder}/regions/NN"))
    if upto not in reached:
        said = f"{folder} has no level {upto}: it was built as far as {reached[-1] if reached else 'nothing'}"
        raise DiagnosticError(Diagnostic("E0703", said, help="build again without `--stop-after`"))
    wanted = LEVELS[: LEVELS.index(upto) + 1]
    graph = _level(folder, IR["graph"], parse, verify)
    rewritten = _level(folder, IR["rewritten"], parse, verify) if "rewritten" in wanted else None
    origin = _origin(folder, graph, rewritten) if rewritten is not None else None
    plan = _level(folder, IR["plan"], parse_plan, verify_plan) if "plan" in wanted else None
    program = _program_files(folder, manifest) if "program" in wanted else None
    return Levels(manifest, graph, rewritten, origin, plan, program)


def target_spec(folder: str, manifest: Mapping[str, Any]) -> str:
    """What `--target` was, as it can be loaded from here."""
    target = manifest["target"]
    chip = str(Path(folder) / CHIP) if target["chip"] == CHIP else target["chip"]
    return str(Spec(target["name"], chip, target.get("size", "")))


def read_machine(folder: str, manifest: Mapping[str, Any]) -> Machine:
    """The machine the folder was built for. DiagnosticError (E0703) when its chip has changed since."""
    machine = load_machine(target_spec(folder, manifest), manifest["options"]["set"])
    if machine.digest != manifest["target"]["digest"]:
        said = f"{folder} was built for another description of {manifest['target']['spec']}"
        raise DiagnosticError(Diagnostic("E0703", said, help="build again"))
    return machine


def read_program(folder: str, levels: Levels, machine: Machine) -> Program:
    """The program of the folder, verified. DiagnosticError (E0703)."""
    assert levels.program_files is not None
    files = levels.program_files
    return _checked(folder, PROGRAM, lambda: machine.parse(files), machine.verify)


def read_trace(folder: str) -> list[Mapping[str, object]]:
    """The rows of `rules/trace.jsonl`. DiagnosticError (E0703)."""
    text = read_file(folder, TRACE)
    return _checked(folder, TRACE, lambda: [json.loads(line) for line in text.splitlines()], lambda _: [])


def _program_files(folder: str, manifest: Mapping[str, Any]) -> dict[str, str]:
    names = [name for name in manifest.get("files", {}) if name.startswith(PROGRAM) and ".." not in name.split("/")]
    return {name.removeprefix(PROGRAM): read_file(folder, name) for name in names}


def _origin(folder: str, graph: Graph, rewritten: Graph) -> Origin:
    """The folder's Origin, as far as the values it speaks of are still there: the levels may have been edited."""
    found = _checked(folder, ORIGIN, lambda: origin_.from_json(read_json(folder, ORIGIN)), lambda _: [])
    return _existing(found, graph, rewritten)


def _existing(found: Origin, graph: Graph, rewritten: Graph) -> Origin:
    old, new = graph.types, rewritten.types
    values = {a: b for a, b in found.values.items() if a in old and b in new and old[a] == new[b]}
    loops = {v: o for v, o in found.loops.items() if v in new and rewritten.producers[v].op == "loop"}
    partners = {values[n.outs[0]]: n for n in graph.nodes if n.op == "loop" and n.outs and n.outs[0] in values}
    inner = {
        v: _existing(o, partners[v].regions[0], rewritten.producers[v].regions[0])
        for v, o in loops.items()
        if v in partners
    }
    return Origin(values, found.rules, inner)


def _level(folder: str, name: str, read: Callable[[str], T], check: Callable[[T], list[str]]) -> T:
    text = read_file(folder, name)
    return _checked(folder, name, lambda: read(text), check)


def _checked(folder: str, name: str, read: Callable[[], T], check: Callable[[T], list[str]]) -> T:
    """What `read` gives, if it can be read and `check` finds nothing wrong."""
    try:
        value = read()
        faults = check(value)
    except (GraphTextError, PlanTextError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        faults = [str(error) or type(error).__name__]
        value = None
    if faults or value is None:
        said = f"{folder}/{name} is not what a build writes: {'; '.join(faults[:5])}"
        raise DiagnosticError(Diagnostic("E0703", said, help="build again, or mend the text"))
    return value
