"""The driver: from what a user asks for to a Build, level by level, each level verified.

Levels are pure values; `files` writes them out. While the worker searches for equal forms, the unfused program, which
every build is measured against, is made beside it. Must not know click, nor any one target.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from ..graph import Graph, verify
from ..plan import Origin, Pricer, optimise, plan, unfused_plan, verify_plan
from ..plan.origin import identity
from ..plan.target import Machine, Plan, PlanOptions
from ..rewrite import Search
from ..source import Diagnostic, DiagnosticError
from . import rules as rules_
from .background import Background
from .figures import Bounds, Timed, report
from .levels import Levels, read_levels, read_program
from .model import Source, load_source, source_of
from .options import BuildOptions
from .phases import Phase, Phases, Progress, quiet
from .rules import Rules, search_budget
from .search import Searcher
from .targets import load_machine
from .weights import open_weights, random_seed

T = TypeVar("T")


class Breach(AssertionError):
    """A level broke an invariant: a mistake of ours, whatever the user gave."""


@dataclass(frozen=True, slots=True)
class Build:
    """A model, built as far as was asked; levels after that are None.

    `graph` of `source` is the model as written. `report` is the value of `report.json`; `diagnostics` are notes and
    warnings; `phases` have seconds of the wall, which no file has.
    """

    options: BuildOptions
    machine: Machine
    source: Source
    rules: Rules
    levels: Levels | None = None
    rewritten: Graph | None = None
    origin: Origin | None = None
    plan: Plan | None = None
    chosen: Timed | None = None
    searches: tuple[Search, ...] = ()
    extraction: Mapping[str, Any] = field(default_factory=dict[str, Any])
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    diagnostics: tuple[Diagnostic, ...] = ()
    phases: tuple[Phase, ...] = ()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.source.name

    def noted(self, code: str, message: str) -> Build:
        """This build and one more note."""
        return replace(self, diagnostics=(*self.diagnostics, Diagnostic(code, message, severity="note")))


def build(
    options: BuildOptions, progress: Progress = quiet, searcher: Searcher | None = None, source: Source | None = None
) -> Build:
    """Build what `options` ask for. DiagnosticError with every mistake found in the files they name.

    `searcher` is a worker that several builds share; without one, one is started and ended here. `source` is the model
    where it has been read already.
    """
    with _searching(searcher) as search:
        phases = Phases(progress)
        with phases.phase("read"):
            made = _read(options, source)
        pricer = Pricer(made.machine)
        unfused = Background(lambda: _unfused(made)) if options.reaches("program") else None
        if options.reaches("rewritten"):
            with phases.phase("rewrite"):
                made = _rewrite(made, search, pricer)
        if options.reaches("plan"):
            with phases.phase("plan"):
                made = _plan(made, pricer)
        if unfused is not None:
            with phases.phase("lower and time"):
                made = _program(made, unfused.result())
            with phases.phase("settings"):
                made = _useless_settings(made, search)
            made = _reported(made, unfused.result())
    return replace(made, phases=tuple(phases.done))


@contextmanager
def _searching(searcher: Searcher | None) -> Generator[Searcher]:
    if searcher is not None:
        yield searcher
        return
    with Searcher() as own:
        yield own


# ---- what is read --------------------------------------------------------------------------------


def _read(options: BuildOptions, given: Source | None) -> Build:
    """The files that `options` name. Mistakes of all of them are gathered, not only those of the first."""
    wrong: list[Diagnostic] = []

    def tried(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except DiagnosticError as error:
            wrong.extend(error.diagnostics)
            return None

    machine = tried(lambda: load_machine(options.target, options.overrides))
    tried(lambda: search_budget(options))
    start = options.start
    levels = tried(lambda: read_levels(*start)) if start else None
    source = given
    if source is None and (levels or not options.start):
        source = tried(lambda: _source(options, levels))
    notes: list[Diagnostic] | None = []
    rules: Rules | None = None
    if source is not None:
        found = source
        _verified("graph", verify(source.graph))
        of_target = machine.rule_files if machine is not None else ()
        rules = tried(lambda: rules_.load(options, of_target, found.composites))
        notes = tried(lambda: _check_weights(options, found.graph))
    if wrong or machine is None or source is None or rules is None:
        raise DiagnosticError(wrong)
    return Build(options, machine, source, rules, levels, diagnostics=tuple(notes or ()))


def _source(options: BuildOptions, levels: Levels | None) -> Source:
    return load_source(options) if levels is None or not options.start else source_of(levels, options.start[0])


def _check_weights(options: BuildOptions, graph: Graph) -> list[Diagnostic]:
    if options.weights is None or random_seed(options.weights) is not None:
        return []
    return open_weights(options.weights, graph)[1]


def _verified(level: str, faults: Sequence[str]) -> None:
    if faults:
        raise Breach(f"{level}: {'; '.join(faults[:10])}")


# ---- levels --------------------------------------------------------------------------------------


def _plan_options(options: BuildOptions) -> PlanOptions:
    return PlanOptions(fuse=options.fuse and options.opt > 0)


def _rewrite(b: Build, search: Searcher, pricer: Pricer) -> Build:
    """The rewritten graph: the best form that the search found, by the machine's cost function."""
    if b.levels is not None and b.levels.rewritten is not None:
        return replace(b, rewritten=b.levels.rewritten, origin=b.levels.origin)
    if b.options.opt < 2 or not b.rules.ruleset.rules:
        return replace(b, rewritten=b.source.graph, origin=identity(b.source.graph))
    budget = search_budget(b.options)
    ruleset, composites = b.rules.ruleset, b.source.composites
    best = optimise(
        b.source.graph, lambda graph: search.saturate(graph, ruleset, composites, budget), b.machine,
        _plan_options(b.options), pricer,
    )  # fmt: skip
    _verified("rewritten", verify(best.graph))
    made = replace(
        b, rewritten=best.graph, origin=best.origin, searches=best.searches, extraction=asdict(best.extraction)
    )
    for note in dict.fromkeys(note for s in best.searches for note in s.notes):
        made = made.noted("E0707", note)
    return made


def _plan(b: Build, pricer: Pricer) -> Build:
    assert b.rewritten is not None
    if b.levels is not None and b.levels.plan is not None:
        return replace(b, plan=b.levels.plan)
    made = plan(b.rewritten, b.machine, _plan_options(b.options), pricer)
    _verified("plan", verify_plan(made))
    return replace(b, plan=made)


def timed(machine: Machine, planned: Plan) -> Timed:
    """The program of `planned` on `machine`, verified and timed. DiagnosticError (E04xx) when it does not fit."""
    program = machine.lower(planned)
    _verified("program", machine.verify(program))
    return Timed(planned, program, machine.time(program))


def _unfused(b: Build) -> Timed | None:
    """The model before rules, one kernel per op; None when that does not fit."""
    try:
        return timed(b.machine, unfused_plan(b.source.graph, b.machine))
    except DiagnosticError:
        return None


def _program(b: Build, unfused: Timed | None) -> Build:
    """The program: the plan's, or, should the simulator find that worse than no fusion, one that is not."""
    assert b.plan is not None
    if b.levels is not None and b.options.start and b.levels.program_files is not None:
        program = read_program(b.options.start[0], b.levels, b.machine)
        return replace(b, chosen=Timed(b.plan, program, b.machine.time(program)))
    chosen = timed(b.machine, b.plan)
    if unfused is None or not _worse(chosen, unfused):
        return replace(b, chosen=chosen)
    written = replace(b, rewritten=b.source.graph, origin=identity(b.source.graph))
    again = timed(b.machine, plan(b.source.graph, b.machine, _plan_options(b.options)))
    kept, what = (
        (again, "the plan of the model as written") if not _worse(again, unfused) else (unfused, "one kernel per op")
    )
    said = f"the optimised program was worse by simulation ({_cost(chosen)}, unfused {_cost(unfused)}); {what} is used"
    return replace(written, plan=kept.plan, chosen=kept).noted("E0706", said)


def _worse(a: Timed, b: Timed) -> bool:
    return a.timing.seconds > b.timing.seconds or a.bytes > b.bytes


def _cost(t: Timed) -> str:
    return f"{t.timing.seconds:.6g} s, {t.bytes} bytes"


def _reported(b: Build, unfused: Timed | None) -> Build:
    assert b.chosen is not None and b.rewritten is not None
    bounds = Bounds(b.machine.bound(b.rewritten), b.machine.bound(b.source.graph))
    notes = [d.message for d in b.diagnostics if d.code in ("E0705", "E0706", "E0707")] + list(b.chosen.timing.notes)
    made = report(b.name, b.machine, b.chosen, unfused, bounds, b.searches, b.extraction, notes)
    return replace(b, report=made)


# ---- settings that change nothing ----------------------------------------------------------------


def _useless_settings(b: Build, search: Searcher) -> Build:
    """A note for each `--set` without which time and bytes are the same: what binds instead."""
    assert b.chosen is not None
    made = b
    for setting in b.options.overrides:
        others = tuple(s for s in b.options.overrides if s != setting)
        if _same_without(b, others, search):
            key = setting.partition("=")[0].strip()
            binds = b.machine.binds(key, b.chosen.timing)
            made = made.noted("E0705", useless(setting) + (f": {binds}" if binds else ""))
    return made


def useless(setting: str) -> str:
    """How the note on a `--set` that changes nothing begins."""
    return f"`--set {setting}` changes nothing"


def _same_without(b: Build, others: Sequence[str], search: Searcher) -> bool:
    """Whether the same model, rewritten and planned anew with the settings `others`, takes the same time and bytes.

    It does not when there is no such machine: a table that the file leaves out is set whole or not at all.
    """
    assert b.chosen is not None
    try:
        machine = load_machine(b.options.target, others)
        pricer = Pricer(machine)
        other = _plan(_rewrite(replace(b, machine=machine, diagnostics=()), search, pricer), pricer)
        assert other.plan is not None
        chosen = timed(machine, other.plan)
    except DiagnosticError:
        return False
    return (chosen.timing.seconds, chosen.bytes) == (b.chosen.timing.seconds, b.chosen.bytes)
