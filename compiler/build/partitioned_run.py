"""Running a build in parts: regions on the simulator, the rest on the host, values carried between them by name.

Every part is checked to have been given what it was built for. Must not know how a model is cut, nor the command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..frontend.onnx.host import HostError
from ..frontend.onnx.parts import HostPart, Partition, Region
from ..graph import Builder, NDArray, TensorType
from ..graph.dtypes import from_numpy
from ..source import Diagnostic, DiagnosticError, did_you_mean
from .compare import near
from .convert import convert
from .cut_figures import region_folder
from .folder import digest, read_json, read_manifest
from .inputs import Drawn, Given, bind_inputs
from .model import ONNX_SUFFIX
from .partitioned import PartitionedBuild, number, numbered_regions, read_partition
from .partitioned_files import PARTITION, partition_json
from .phases import Phases, Progress, quiet
from .runs import Runnable, RunResult, agreement, run, runnable, runnable_folder
from .tensors import Tensor, read_tensor


@dataclass(frozen=True, slots=True)
class PartitionedRunnable:
    """What a run needs of a build in parts; `binds` are values that inputs of the model are fixed to."""

    partition: Partition
    regions: Mapping[str, Runnable]
    report: Mapping[str, Any]
    binds: Mapping[str, NDArray] = field(compare=False, repr=False)


def runnable_parts(b: PartitionedBuild) -> PartitionedRunnable:
    """The build just made."""
    regions = {part: runnable(region) for part, region in b.regions.items()}
    return PartitionedRunnable(b.partition, regions, b.report, _binds(b.options.binds))


def runnable_parts_folder(folder: str, model: str | None) -> PartitionedRunnable:
    """The build in `folder`; `model` is the .onnx file it was made from, with the weights and the host's nodes.

    DiagnosticError (E0703, E0606) when it is not that file, or is cut otherwise here than it was.
    """
    manifest = read_manifest(folder)
    path = _model_file(folder, manifest, model)
    options = manifest["options"]
    near_model = os.path.dirname(path)
    binds = {name: os.path.join(near_model, where) for name, where in options.get("binds", {}).items()}
    partition = read_partition(path, binds, options["dims"])
    if read_json(folder, PARTITION) != partition_json(partition):
        said = f"{folder} was cut otherwise than {path} is here: another version of onnx or onnxruntime is installed"
        raise DiagnosticError(Diagnostic("E0703", said, help="build again"))
    regions = {
        part: replace(runnable_folder(os.path.join(folder, region_folder(part))), weights=region.imported.params)
        for part, region in numbered_regions(partition)
    }
    return PartitionedRunnable(partition, regions, read_json(folder, "report.json"), _binds(binds))


def run_parts(
    subject: PartitionedRunnable,
    inputs: Mapping[str, Given],
    checked: bool = False,
    expect: Sequence[str] = (),
    progress: Progress = quiet,
) -> RunResult:
    """Run every part, regions on the simulator. With `checked`, each region is compared with what it means, and the
    outputs with those of the whole model run on the host.

    DiagnosticError for mistakes in what was given (E06xx), hazards (E09xx) and nodes that fail on the host (E1118).
    """  # fmt: skip
    phases = Phases(progress)
    p = subject.partition
    expected = [_expected(text, p) for text in expect]
    given = _bound(p, inputs)
    values: dict[str, Any] = {p.inputs[name]: x for name, x in given.items()}
    checks: list[Mapping[str, Any]] = []
    said: list[Diagnostic] = []
    for k, part in enumerate(p.parts):
        if isinstance(part, HostPart):
            with phases.phase(f"host {number(k)}"):
                values |= _on_host(p, part, values)
            continue
        done = _in_region(subject.regions[number(k)], part, values, checked, _prefixed(progress, k))
        values |= {part.outputs[name]: x for name, x in done.outputs.items()}
        checks += [{**check, "name": f"region {number(k)}"} for check in done.checks]
        said += [replace(d, message=f"region {number(k)}: {d.message}") for d in done.diagnostics]
        phases.done += [replace(phase, name=f"{number(k)}: {phase.name}") for phase in done.phases]
    outputs = {name: _array(values[value]) for name, value in p.outputs.items()}
    rows = [agreement(name, outputs[name], tensor, text) for name, tensor, text in expected]
    if checked:
        with phases.phase("check"):
            row, wrong = _whole_check(subject, given, outputs, checks)
        rows.append(row)
        said += wrong
    return RunResult(outputs, subject.report, tuple(rows), tuple(said), tuple(phases.done))


# ---- parts ---------------------------------------------------------------------------------------


def _in_region(
    subject: Runnable, region: Region, values: Mapping[str, Any], checked: bool, progress: Progress
) -> RunResult:
    """Run a region on values of the model."""
    types = {str(n.attr("name")): n.type for n in subject.graph.inputs}
    given: dict[str, Given] = {name: _as(types[name], values[value]) for name, value in region.inputs.items()}
    return run(subject, given, checked=checked, progress=progress)


def _as(t: TensorType, value: Any) -> NDArray:
    """A value at the dtype of an input; the host gives scalars now and then."""
    got = convert(np.asarray(value), t.dtype)
    assert not isinstance(got, str), f"a value of {np.asarray(value).dtype} went where {t} was expected"
    return got


def _on_host(p: Partition, part: HostPart, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the host makes of `values`, each of the type that the regions after it were built for."""
    given = {name: values[name] for name in part.inputs}
    try:
        made = dict(zip(part.program.outputs, part.program.run(given), strict=True))
    except HostError as error:
        raise DiagnosticError(_failed(p, part, given, error)) from None
    wrong = [d for name, x in made.items() if (d := _mistyped(p, part, name, x)) is not None]
    if wrong:
        raise DiagnosticError(wrong)
    return made


def _failed(p: Partition, part: HostPart, given: Mapping[str, Any], error: HostError) -> Diagnostic:
    found = part.failing(given)
    where = f"node {found[0]}" if found else f"one of the nodes {', '.join(n.name for n in part.nodes)}"
    said = f"{p.file}: {where} failed on the host ({part.program.runner}): {found[1] if found else error}"
    return Diagnostic("E1118", said, help="look at what the inputs make of its operands")


def _mistyped(p: Partition, part: HostPart, name: str, value: Any) -> Diagnostic | None:
    """Shapes of the host's values are inferred, stated or seen in a trial: a run may still give others."""
    t = p.types.get(name)
    if t is None:
        return None
    array = np.asarray(value)
    if array.shape == t.shape and array.dtype == t.dtype.numpy:
        return None
    maker = next((n.name for n in part.nodes if name in n.makes), part.nodes[-1].name)
    said = f"{p.file}: node {maker} made `{name}` of {array.dtype}{list(array.shape)}; the model was built for {t}"
    help = f"build it for that size: `--dim {name}.AXIS=SIZE`, or leave that out"
    return Diagnostic("E1118", said, help=help)


# ---- what is given -------------------------------------------------------------------------------


def _bound(p: Partition, inputs: Mapping[str, Given]) -> dict[str, Any]:
    """The inputs by name, each of its declared type; strings, which tdslc does not have, as object arrays."""
    strange = {name for name, value in p.inputs.items() if value not in p.types}
    signature = Builder("inputs")
    for name, value in p.inputs.items():
        if name not in strange:
            signature.input(name, p.types[value])
    graph = signature.finish([], [])
    faults: list[Diagnostic] = []
    found: dict[str, Any] = {}
    for name in sorted(strange):
        got = _strings(name, p.shown[p.inputs[name]], inputs.get(name))
        if isinstance(got, Diagnostic):
            faults.append(got)
        else:
            found[name] = got
    try:
        found |= bind_inputs(graph, {name: x for name, x in inputs.items() if name not in strange})
    except DiagnosticError as error:
        faults += error.diagnostics
    if faults:
        raise DiagnosticError(faults)
    return found


def _strings(name: str, shown: str, given: Given | None) -> NDArray | Diagnostic:
    """An input of strings as the host takes it. `shown` is its type."""
    if given is None:
        help = f"give `--input {name}=FILE.npy`, an array of NumPy strings"
        return Diagnostic("E0608", f"no value for input `{name}` {shown}", help=help)
    if isinstance(given, Drawn):
        return Diagnostic("E0607", f"input `{name}` is {shown}: random values are there for numbers only")
    array = given.read() if isinstance(given, Tensor) else given
    if array.dtype.kind not in "UO" or f"STRING{list(array.shape)}" != shown:
        return Diagnostic(
            "E0609", f"input `{name}` is {shown}, but the value given is {array.dtype}{list(array.shape)}"
        )
    return array.astype(object)


def _binds(binds: Mapping[str, str]) -> dict[str, NDArray]:
    return {name: read_tensor(where).read() for name, where in binds.items()}


def _model_file(folder: str, manifest: Mapping[str, Any], model: str | None) -> str:
    """The path of the file that the build was made from. DiagnosticError (E0606) when `model` is not it."""
    name, sha = next(iter(manifest["model"]["sources"].items()))
    help = f"give it as `--weights PATH/{name}`"
    if model is None or not model.endswith(ONNX_SUFFIX):
        said = f"{folder} was built with --partition: its weights and what the host runs are in {name}"
        raise DiagnosticError(Diagnostic("E0606", said, help=help))
    try:
        same = digest(Path(model).read_bytes()) == sha
    except OSError as error:
        said = f"{model}: cannot be read: {(error.strerror or str(error)).lower()}"
        raise DiagnosticError(Diagnostic("E0001", said, help=help)) from None
    if not same:
        said = f"{model} is not the file that {folder} was built from: its bytes are others"
        raise DiagnosticError(Diagnostic("E0606", said, help="build again, or give the file as it was"))
    return model


def _expected(text: str, p: Partition) -> tuple[str, Tensor, str]:
    """(output, tensor, text) of `OUTPUT=FILE`. DiagnosticError (E0611)."""
    name, equals, where = text.partition("=")
    if not equals or not where:
        help = "write OUTPUT=FILE.npy, FILE.npz:TENSOR or FILE.safetensors:TENSOR"
        raise DiagnosticError(Diagnostic("E0611", f"`--expect {text}` names no output and file", help=help))
    if name not in p.outputs:
        help = did_you_mean(name, p.outputs) or f"its outputs are {', '.join(p.outputs)}"
        raise DiagnosticError(Diagnostic("E0611", f"the model has no output `{name}`", help=help))
    tensor = read_tensor(where)
    if tensor.dtype is None:
        raise DiagnosticError(Diagnostic("E0611", f"{where} is {tensor}, which are no numbers to compare with"))
    return name, tensor, where


# ---- what comes out ------------------------------------------------------------------------------


def _array(value: Any) -> NDArray:
    """A value of the host as an array; strings as NumPy's own, which can be saved without a pickle."""
    array = np.asarray(value)
    return array.astype(str) if array.dtype.kind in "OUS" else array


def _whole_check(
    subject: PartitionedRunnable, given: Mapping[str, Any], outputs: Mapping[str, NDArray],
    regions: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], list[Diagnostic]]:  # fmt: skip
    """The verdict on the outputs, and what is to be said besides what the regions' own checks say."""
    p = subject.partition
    right = all(check["ok"] for check in regions)
    compared = f"{len(regions)} region{'s' * (len(regions) != 1)} compared with the model as written"
    if p.drawing:
        why = f"the outputs are not compared, since {', '.join(p.drawing)} on the host draws random numbers"
        return {"name": "check", "ok": right, "detail": f"{compared}; {why}"}, []
    try:
        program = p.whole()
        fed = {p.inputs[name]: x for name, x in given.items()} | dict(subject.binds)
        want = dict(zip(program.outputs, program.run(fed), strict=True))
    except HostError as error:
        said = f"{p.file}: `--check` compares with the whole model run on the host, which cannot: {error}"
        help = "without `--check` the model runs; `--expect OUT=FILE` compares with values of your own"
        return {"name": "check", "ok": False, "detail": said}, [Diagnostic("E1116", said, help=help)]
    found = {name: _compared(got, _array(want[p.outputs[name]])) for name, got in outputs.items()}
    faults = [f"output `{name}` {fault}" for name, (_, fault) in found.items() if fault]
    errors = ", ".join(f"{name} {error}" for name, (error, _) in found.items())
    detail = f"{compared}, the outputs with those of the whole model by {program.runner}: {errors}"
    help = "where all regions are right, the import is the suspect, or a decision that rounding turns"
    row = {"name": "check", "ok": right and not faults, "detail": detail}
    return row, [Diagnostic("E0801", f"wrong numbers: {fault}", help=help) for fault in faults]


def _compared(got: NDArray, want: NDArray) -> tuple[str, str]:
    """(error, what is wrong or "") of an output."""
    if got.shape != want.shape or (got.dtype != want.dtype and "U" not in (got.dtype.kind, want.dtype.kind)):
        said = f"is {got.dtype}{list(got.shape)} where {want.dtype}{list(want.shape)} is right"
        return said, said
    d = from_numpy(got.dtype)
    if d is None:
        return ("equal", "") if (got == want).all() else ("differs", "differs: its strings are others")
    found = near(got, want, d)
    return f"error {found.error:.3g} of {found.allowed:.3g} allowed", str(found.fault) if found.fault else ""


def _prefixed(progress: Progress, k: int) -> Progress:
    return lambda phase: progress(f"region {number(k)}: {phase}")
