"""Running a build on its machine's simulator, with checks of what it computes.

Must not know how levels are made, nor the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..graph import Graph, NDArray
from ..graph.threads import one_thread
from ..plan import Origin, load_values
from ..plan.target import Machine, Plan, Program
from ..source import Diagnostic, DiagnosticError, Note, did_you_mean
from .check import Subject, Verdict, Wrong, check, output_names
from .driver import Build
from .folder import read_json
from .inputs import Given, bind_inputs
from .levels import read_levels, read_machine, read_program, read_trace
from .options import Numerics
from .phases import Phase, Phases, Progress, quiet
from .tensors import Tensor, read_tensor
from .weights import bind, no_weights, open_weights, random_seed, random_weights


@dataclass(frozen=True, slots=True)
class Runnable:
    """What a run needs of a build, whether made just now or read from its folder."""

    graph: Graph
    rewritten: Graph
    origin: Origin
    plan: Plan
    program: Program
    machine: Machine
    numerics: Numerics
    report: Mapping[str, Any]
    fired: Mapping[str, Sequence[str]]
    weights: Mapping[str, NDArray] = field(default_factory=dict[str, NDArray], compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came out: `outputs` by name at their declared dtypes, the build's `report`, and `checks` of the values.

    Each check is a mapping of name, ok and detail; there are none unless they were asked for.
    """

    outputs: Mapping[str, NDArray]
    report: Mapping[str, Any]
    checks: tuple[Mapping[str, Any], ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    phases: tuple[Phase, ...] = field(default=(), compare=False)


def runnable(b: Build) -> Runnable:
    """The build just made; it reached its program."""
    assert b.rewritten is not None and b.origin is not None and b.chosen is not None
    fired = fired_at(row for search in b.searches for row in search.trace)
    chosen, numerics = b.chosen, b.options.numerics
    return Runnable(
        b.source.graph, b.rewritten, b.origin, chosen.plan, chosen.program, b.machine, numerics, b.report, fired,
        b.source.weights,
    )  # fmt: skip


def runnable_folder(folder: str) -> Runnable:
    """The build in `folder`. DiagnosticError (E0703, and what loading its machine gives)."""
    levels = read_levels(folder, "program")
    machine = read_machine(folder, levels.manifest)
    program = read_program(folder, levels, machine)
    assert levels.rewritten is not None and levels.origin is not None and levels.plan is not None
    numerics = levels.manifest["options"]["numerics"]
    report = read_json(folder, "report.json")
    fired = fired_at(read_trace(folder))
    return Runnable(
        levels.graph, levels.rewritten, levels.origin, levels.plan, program, machine, numerics, report, fired
    )


def fired_at(trace: Iterable[Mapping[str, object]]) -> dict[str, list[str]]:
    """The rules of a trace by the "file:line:col" at which they fired."""
    found: dict[str, list[str]] = {}
    for row in trace:
        found.setdefault(str(row.get("at", "")), []).append(str(row.get("rule", "")))
    return found


def run(
    subject: Runnable,
    inputs: Mapping[str, Given],
    weights: str | None = None,
    checked: bool = False,
    expect: Sequence[str] = (),
    progress: Progress = quiet,
) -> RunResult:
    """Run on the simulator. `weights` is a .safetensors path or `random:SEED`; `expect` are `OUTPUT=FILE` texts.

    DiagnosticError for mistakes in what was given (E06xx) and hazards (E09xx). Wrong numbers are no exception: they are
    a failed check and a diagnostic (E0801) of the result.
    """  # fmt: skip
    phases = Phases(progress)
    with phases.phase("bind"):
        expected = [_expected(text, subject.graph) for text in expect]
        bound = bind_inputs(subject.graph, inputs)
        params, notes = _params(subject, weights)
        chip_params = _chip_params(subject, params)
    with phases.phase("simulate"), one_thread():
        outputs = dict(subject.machine.run(subject.program, {**chip_params, **bound}))
        outputs = {name: outputs[name] for name in output_names(subject.graph)}
    checks = [agreement(name, outputs[name], tensor, text) for name, tensor, text in expected]
    if checked:
        with phases.phase("check"), one_thread():
            verdict = check(_subject(subject), bound, params, chip_params, outputs)
        checks.append(_check_row(subject, verdict))
        if verdict.wrong is not None:
            notes.append(_wrong_numbers(verdict.wrong))
    return RunResult(outputs, subject.report, tuple(checks), tuple(notes), tuple(phases.done))


def save(outputs: Mapping[str, NDArray], path: str) -> list[str]:
    """Write `outputs` to `path`: one .npy, one .npz of all, or a folder of .npy; the files written.

    Floats narrower than f16, which NumPy's format cannot name, are written as f32 (no value changes). DiagnosticError
    (E0702).
    """
    arrays = {name: _writable(array) for name, array in outputs.items()}
    try:
        if path.endswith(".npz"):
            np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
            return [path]
        if path.endswith(".npy"):
            if len(arrays) != 1:
                said = f"{path} holds one tensor, but there are {len(arrays)} outputs"
                raise DiagnosticError(Diagnostic("E0702", said, help="name an .npz file or a folder"))
            np.save(path, next(iter(arrays.values())))
            return [path]
        Path(path).mkdir(parents=True, exist_ok=True)
        files = [str(Path(path) / f"{name}.npy") for name in arrays]
        for file, array in zip(files, arrays.values(), strict=True):
            np.save(file, array)
    except OSError as error:
        said = f"{path} cannot be written: {(error.strerror or str(error)).lower()}"
        raise DiagnosticError(Diagnostic("E0702", said)) from None
    return files


def _subject(r: Runnable) -> Subject:
    return Subject(r.graph, r.rewritten, r.origin, r.plan, r.machine, r.numerics, r.fired)


def _params(subject: Runnable, weights: str | None) -> tuple[dict[str, NDArray], list[Diagnostic]]:
    """The model's params, from `weights` or as they came with the model."""
    graph = subject.graph
    if not graph.params:
        return {}, []
    if weights is None and subject.weights:
        return dict(subject.weights), []
    if weights is None:
        raise no_weights(graph)
    seed = random_seed(weights)
    if seed is not None:
        said = f"weights are random, seed {seed}: the outputs mean nothing"
        return random_weights(graph, seed), [Diagnostic("E0613", said, severity="note")]
    tensors, notes = open_weights(weights, graph)
    return bind(graph, tensors), notes


def _chip_params(subject: Runnable, params: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The params that the chip reads: the model's, and what the load program makes of them."""
    made = load_values(subject.plan, params, subject.machine.contraction)
    names = [str(n.attr("name")) for n in subject.plan.graph.params]
    return {name: made[name] if name in made else params[name] for name in names}


def _check_row(subject: Runnable, verdict: Verdict) -> dict[str, Any]:
    how = "bit for bit" if subject.numerics == "exact" else "within 4 times the model's own error plus 4 ulp"
    errors = ", ".join(f"{n} error {a.error:.3g} of {a.allowed:.3g} allowed" for n, a in verdict.outputs.items())
    more = f"; {errors}" if errors and subject.numerics != "exact" else ""
    detail = f"{verdict.compared} values compared {how}{more}"
    return {"name": "check", "ok": verdict.wrong is None, "detail": str(verdict.wrong) if verdict.wrong else detail}


def _wrong_numbers(wrong: Wrong) -> Diagnostic:
    fired = ", ".join(wrong.fired)
    remarks = (Note(f"rules that fired at this op: {fired}"),) if fired else ()
    help = (
        "leave a rule out with `--no-rule NAME` to see whether it is to blame" if wrong.maker == "rewriting" else None
    )
    return Diagnostic("E0801", f"wrong numbers: {wrong}", notes=remarks, help=help)


def _writable(array: NDArray) -> NDArray:
    return array if array.dtype.kind in "biufU" else array.astype(np.float32 if _floating(array) else np.int8)


def _floating(array: NDArray) -> bool:
    return "float" in array.dtype.name


# ---- expectations --------------------------------------------------------------------------------


def _expected(text: str, graph: Graph) -> tuple[str, Tensor, str]:
    """(output, tensor, text) of `OUTPUT=FILE`. DiagnosticError (E0611)."""
    name, equals, where = text.partition("=")
    names = output_names(graph)
    if not equals or not where:
        help = "write OUTPUT=FILE.npy, FILE.npz:TENSOR or FILE.safetensors:TENSOR"
        raise DiagnosticError(Diagnostic("E0611", f"`--expect {text}` names no output and file", help=help))
    if name not in names:
        help = did_you_mean(name, names) or f"its outputs are {', '.join(names)}"
        raise DiagnosticError(Diagnostic("E0611", f"the model has no output `{name}`", help=help))
    tensor, t = read_tensor(where), graph.types[graph.outputs[names.index(name)]]
    if tensor.dtype is None or tensor.shape not in (t.shape, t.shape[:-1]):
        said = f"output `{name}` is {t}; {where} is {tensor}, neither values of that shape nor labels of its rows"
        raise DiagnosticError(Diagnostic("E0611", said))
    return name, tensor, where


def agreement(name: str, output: NDArray, tensor: Tensor, where: str) -> dict[str, Any]:
    """How far an output agrees with labels (whole numbers, or where the last axis is greatest) or with values."""
    want = tensor.read()
    if want.shape == output.shape and _floating(output):
        return _values_agree(name, output, want, where)
    got = output if want.shape == output.shape else output.astype(np.float64).argmax(axis=-1)
    equal = int(np.count_nonzero(got == want))
    share = f" ({100 * equal / want.size:.1f} %)" if want.size else ""
    detail = f"{name}: {equal} of {want.size} agree{share} with {where}"
    return {"name": f"expect {name}", "ok": True, "detail": detail, "agree": equal, "of": int(want.size)}


def _values_agree(name: str, output: NDArray, want: NDArray, where: str) -> dict[str, Any]:
    with np.errstate(invalid="ignore"):
        gaps = np.abs(output.astype(np.float64) - want.astype(np.float64))
    equal = int(np.count_nonzero((gaps == 0) | (np.isnan(gaps) & (output == want))))
    worst = float(np.nanmax(gaps)) if gaps.size and not np.isnan(gaps).all() else 0.0
    detail = f"{name}: greatest difference {worst:.3g}, {equal} of {want.size} values equal, with {where}"
    row = {"name": f"expect {name}", "ok": True, "detail": detail, "agree": equal, "of": int(want.size)}
    return {**row, "max_abs_difference": worst if np.isfinite(worst) else None}
