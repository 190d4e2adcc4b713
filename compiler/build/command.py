"""What the commands do, between the command line's flags and the values they print.

Takes plain values and gives values, texts and JSON; must not know click, colours or exit codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import NDArray, TensorType
from ..graph.dtypes import from_numpy
from ..report.parts import parts_line
from ..report.text import show_checks, side_by_side, summary
from ..source import Diagnostic, DiagnosticError
from . import inputs as inputs_
from .driver import Build, build
from .files import as_report, build_files, default_folder, level_text
from .folder import read_manifest, refuse_foreign, write_folder
from .inputs import Given
from .levels import target_spec
from .model import ONNX_SUFFIX, load_source
from .options import BuildOptions, Level
from .phases import Progress
from .runs import RunResult, run, runnable, runnable_folder, save
from .search import Searcher

if TYPE_CHECKING:
    from .partitioned import PartitionedBuild

# Outputs of at most this many elements are printed whole.
_SHOWN_ELEMENTS = 64
_FEW = 8

ToJson = Callable[[Iterable[Diagnostic]], list[dict[str, object]]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One target's build and the folder it was written to, or why there is none."""

    target: str
    build: Build | PartitionedBuild | None
    folder: str | None
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `run` was asked for besides what to run: texts as given."""

    inputs: Sequence[str]
    weights: str | None
    checked: bool
    expect: Sequence[str]
    save: str | None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """A run, the files it saved, the folder of its build, and everything that is to be said."""

    result: RunResult
    saved: Sequence[str]
    folder: str
    diagnostics: tuple[Diagnostic, ...]


# ---- requests ------------------------------------------------------------------------------------


def options_from(model: str | None, start: str | None, flags: Mapping[str, Any]) -> list[BuildOptions]:
    """The builds that flags ask for, one a target. DiagnosticError (E0703) when `start` is no build."""
    folder, _, level = (start or "").rpartition("@")
    targets, overrides = list(flags["targets"]), tuple(flags["overrides"])
    if start is not None and not targets:
        manifest = read_manifest(folder)
        targets, overrides = [target_spec(folder, manifest)], (*manifest["options"]["set"], *overrides)
    one = BuildOptions(
        model or folder,
        dims=dict(flags["dims"]),
        dtypes=dict(flags["dtypes"]),
        entry=flags["entry"],
        weights=flags["weights"],
        rules=tuple(flags["rules"]),
        disabled=tuple(flags["disabled"]),
        numerics=flags["numerics"],
        unchecked=flags["unchecked"],
        overrides=overrides,
        budget=dict(flags["budget"]),
        opt=flags["opt"],
        fuse=not flags["no_fuse"],
        stop_after=flags.get("stop_after"),
        start=_start(folder, level) if start is not None else None,
        binds=dict(flags.get("binds", ())),
        partition=bool(flags.get("partition")),
    )
    return [replace(one, target=target) for target in targets]


def _start(folder: str, level: str) -> tuple[str, Level]:
    return folder, level  # pyright: ignore[reportReturnType]  # the command line has checked it


def build_targets(requests: Sequence[BuildOptions], out: str | None, progress: Progress, write: bool) -> list[Outcome]:
    """Build each; one that fails does not keep the others from being built."""
    with Searcher() as searcher:
        return [_build_one(options, out, progress, searcher, write) for options in requests]


def _build_one(options: BuildOptions, out: str | None, progress: Progress, searcher: Searcher, write: bool) -> Outcome:
    try:
        if out is not None:
            refuse_foreign(out)
        made = _made(options, progress, searcher)
        folder = _written(made, out) if write else None
    except DiagnosticError as error:
        return Outcome(options.target, None, None, error.diagnostics)
    return Outcome(options.target, made, folder, made.diagnostics)


def _made(options: BuildOptions, progress: Progress, searcher: Searcher) -> Build | PartitionedBuild:
    if not options.partition:
        return build(options, progress, searcher)
    # Only models in parts need what reads them and runs them on the host.
    from .partitioned import build_partitioned

    return build_partitioned(options, progress, searcher)


def _written(made: Build | PartitionedBuild, out: str | None) -> str:
    folder = out or default_folder(made)
    write_folder(folder, _files(made))
    return folder


def _files(made: Build | PartitionedBuild) -> dict[str, str]:
    if isinstance(made, Build):
        return build_files(made)
    from .partitioned_files import partitioned_files

    return partitioned_files(made)


def _level(made: Build | PartitionedBuild, level: str) -> str:
    if isinstance(made, Build):
        return level_text(made, level)
    from .partitioned_files import partitioned_level

    return partitioned_level(made, level)


# ---- run -----------------------------------------------------------------------------------------


def run_folder(folder: str, request: RunRequest, progress: Progress) -> RunOutcome:
    """Run the build in `folder`. DiagnosticError as `runs.run`."""
    given = inputs_.parse_inputs(request.inputs)
    if read_manifest(folder)["options"].get("partition"):
        from .partitioned_run import run_parts, runnable_parts_folder

        parts = runnable_parts_folder(folder, request.weights)
        return _outcome(run_parts(parts, given, request.checked, request.expect, progress), request, folder, ())
    subject = runnable_folder(folder)
    result = run(subject, given, request.weights, request.checked, request.expect, progress)
    return _outcome(result, request, folder, ())


def run_model(options: BuildOptions, request: RunRequest, out: str | None, progress: Progress) -> RunOutcome:
    """Build the model for the shapes of its inputs, and run it. DiagnosticError as `build` and `runs.run`."""
    with Searcher() as searcher:
        return _run_model(options, request, out, progress, searcher)


def run_models(
    requests: Sequence[BuildOptions], request: RunRequest, progress: Progress
) -> list[RunOutcome | DiagnosticError]:
    """Build and run the model for each of several targets; one that fails does not keep the others from running."""
    done: list[RunOutcome | DiagnosticError] = []
    with Searcher() as searcher:
        for options in requests:
            try:
                done.append(_run_model(options, request, None, progress, searcher))
            except DiagnosticError as error:
                done.append(error)
    return done


def _run_model(
    options: BuildOptions, request: RunRequest, out: str | None, progress: Progress, searcher: Searcher
) -> RunOutcome:
    given = inputs_.parse_inputs(request.inputs)
    if out is not None:
        refuse_foreign(out)
    made = _made(for_inputs(options, given), progress, searcher)
    folder = _written(made, out)
    result = _run_made(made, given, request, progress)
    result = replace(result, report={**result.report}, phases=(*made.phases, *result.phases))
    said = [d for d in made.diagnostics if d not in result.diagnostics]
    return _outcome(result, request, folder, said)


def _run_made(
    made: Build | PartitionedBuild, given: Mapping[str, Given], request: RunRequest, progress: Progress
) -> RunResult:
    if isinstance(made, Build):
        return run(runnable(made), given, request.weights, request.checked, request.expect, progress)
    from .partitioned_run import run_parts, runnable_parts

    return run_parts(runnable_parts(made), given, request.checked, request.expect, progress)


def for_inputs(options: BuildOptions, given: Mapping[str, Given]) -> BuildOptions:
    """`options` with the dims that the inputs' shapes fix."""
    if isinstance(options.model, str) and options.model.endswith(ONNX_SUFFIX):
        from ..frontend.onnx import dims_of

        shapes = {name: x.shape for name, x in given.items() if not isinstance(x, inputs_.Drawn)}
        return replace(options, dims={**dims_of(options.model, shapes), **options.dims})
    graph = load_source(options).graph
    return replace(options, dims=inputs_.bind_dims(graph, given, options.dims))


def _outcome(result: RunResult, request: RunRequest, folder: str, said: Sequence[Diagnostic]) -> RunOutcome:
    saved = save(result.outputs, request.save) if request.save else []
    return RunOutcome(result, saved, folder, (*said, *result.diagnostics))


# ---- documents and texts -------------------------------------------------------------------------


def build_document(done: Sequence[Outcome], emit: Sequence[str], to_json: ToJson) -> dict[str, Any]:
    """What `build --json` prints."""
    reports = [_build_json(o, emit) for o in done if o.build is not None]
    diagnostics = to_json([d for o in done for d in o.diagnostics])
    if len(done) > 1:
        return {"reports": reports, "diagnostics": diagnostics}
    return {**(reports[0] if reports else {}), "diagnostics": diagnostics}


def _build_json(o: Outcome, emit: Sequence[str]) -> dict[str, Any]:
    assert o.build is not None
    document = {"model": o.build.name, "target": o.build.machine.spec, **as_report(o.build), "folder": o.folder}
    return {**document, "emit": {level: _level(o.build, level) for level in emit}} if emit else document


def build_text(done: Sequence[Outcome], emit: Sequence[str], width: int) -> str:
    """What `build` prints for people: emitted levels, or else the totals and where the build lies."""
    built = [o for o in done if o.build is not None]
    if emit:
        return "\n".join(_level(o.build, level).rstrip("\n") for o in built for level in emit if o.build)
    reports = [o.build.report for o in built if o.build and o.build.report]
    parts = [side_by_side(reports, width)] if len(reports) > 1 else [_one_summary(r, width) for r in reports]
    parts.append("\n".join(f"build: {o.folder}" for o in built if o.folder))
    return "\n\n".join(part for part in parts if part)


def _one_summary(report: Mapping[str, Any], width: int) -> str:
    return "\n\n".join(
        part for part in (summary(report, width), parts_line(report), show_checks(report, width)) if part
    )


def run_document(done: RunOutcome, to_json: ToJson) -> dict[str, Any]:
    """What `run --json` prints: the report, what came out, and what was checked."""
    return {
        **done.result.report,
        "phases": [{"name": p.name, "wall_seconds": p.wall_seconds} for p in done.result.phases],
        "folder": done.folder,
        "outputs": {name: _output_json(array) for name, array in done.result.outputs.items()},
        "values": [dict(check) for check in done.result.checks],
        "saved": list(done.saved),
        "diagnostics": to_json(done.diagnostics),
    }


def runs_document(done: Sequence[RunOutcome | DiagnosticError], to_json: ToJson) -> dict[str, Any]:
    """What `run --json` prints for several targets."""
    reports = [run_document(o, to_json) for o in done if isinstance(o, RunOutcome)]
    return {
        "reports": [{k: v for k, v in r.items() if k != "diagnostics"} for r in reports],
        "diagnostics": to_json(d for o in done for d in o.diagnostics),
    }


def run_text(done: RunOutcome, width: int) -> str:
    """What `run` prints for people."""
    parts = [_values_text(done), _one_summary(done.result.report, width), f"build: {done.folder}"]
    return "\n\n".join(part for part in parts if part)


def runs_text(done: Sequence[RunOutcome | DiagnosticError], width: int) -> str:
    """What `run` prints for people of several targets: what came out of each, then one table of all."""
    ran = [o for o in done if isinstance(o, RunOutcome)]
    if len(ran) < 2:
        return "".join(run_text(o, width) for o in ran)
    reports = [o.result.report for o in ran]
    values = [f"{report['target']}\n{_values_text(o)}" for o, report in zip(ran, reports, strict=True)]
    checks = [f"{report['target']}: {show_checks(report, width)}" for report in reports]
    builds = "\n".join(f"build: {o.folder}" for o in ran)
    return "\n\n".join([*values, side_by_side(reports, width), "\n".join(checks), builds])


def _values_text(done: RunOutcome) -> str:
    """Outputs, what they were compared with, and where they were saved."""
    outputs = "\n".join(_output_text(name, array) for name, array in done.result.outputs.items())
    checks = "\n".join(c["detail"] if c["name"] != "check" else _check_text(c) for c in done.result.checks)
    saved = "\n".join(f"saved: {path}" for path in done.saved)
    return "\n\n".join(part for part in (outputs, checks, saved) if part)


def _check_text(check: Mapping[str, Any]) -> str:
    """The verdict; what is wrong is told as an error, with the op and the rule, and not twice."""
    return f"check: as the model says: {check['detail']}" if check["ok"] else "check: WRONG numbers"


def _type(array: NDArray) -> str:
    """The type of an output; the host may give strings, which tdslc has no dtype for."""
    dtype = from_numpy(array.dtype)
    shape = ", ".join(map(str, array.shape))
    return str(TensorType(dtype, array.shape)) if dtype is not None else f"string[{shape}]"


def _output_text(name: str, array: NDArray) -> str:
    few = ", ".join(_number(x) for x in array.ravel()[:_FEW].tolist())
    more = ", ..." if array.size > _FEW else ""
    return f"{name}: {_type(array)} = {few}{more}" if array.size else f"{name}: {_type(array)}, empty"


def _number(x: Any) -> str:
    if isinstance(x, str):
        return repr(x)
    return f"{float(x):.6g}" if not isinstance(x, (bool, int)) else str(x)


def _output_json(array: NDArray) -> dict[str, Any]:
    """Type, range and, when there are few, the elements; what JSON has no number for is a string."""
    dtype = from_numpy(array.dtype)
    shape = [int(n) for n in array.shape]
    if dtype is None:
        return {"dtype": "string", "shape": shape, **({"data": array.ravel().tolist()} if _is_few(array) else {})}
    document: dict[str, Any] = {"dtype": str(dtype), "shape": shape}
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if finite.size:
        document |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    if _is_few(array):
        values = wide if dtype.is_float else array.astype(np.int64)
        document["data"] = [x if np.isfinite(x) else str(x) for x in values.ravel().tolist()]
    return document


def _is_few(array: NDArray) -> bool:
    return array.size <= _SHOWN_ELEMENTS
