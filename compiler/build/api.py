"""The Python API: `tdslc.build`, `tdslc.run` and `tdslc.export`, typed. What the command line does, for programs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from ..graph import Graph, NDArray
from ..source import Diagnostic
from . import driver
from .command import for_inputs
from .exports import Exported, ExportLevel, export_model
from .files import build_files
from .folder import refuse_foreign, write_folder
from .inputs import Given
from .options import BuildOptions, Numerics
from .runs import RunResult, runnable, runnable_folder
from .runs import run as run_program
from .search import Searcher
from .tensors import read_tensor

PathLike: TypeAlias = "str | os.PathLike[str]"
Inputs: TypeAlias = "Mapping[str, NDArray | str | os.PathLike[str]]"


@dataclass(frozen=True, slots=True)
class Unfused:
    """The model before rules, one kernel per op; None when that does not fit the machine."""

    seconds: float | None
    bytes_read: int | None
    bytes_written: int | None
    kernels: int | None


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a report; `seconds` are simulated, bytes are those of main memory."""

    seconds: float
    cycles: int
    flops: int
    bytes_read: int
    bytes_written: int
    compulsory_bytes: int
    kernels: int
    peak_fast_bytes: int
    peak_main_bytes: int
    bound_seconds: float
    source_bound_seconds: float
    bound_ratio: float | None
    limited_by: str
    guess_share: float
    unfused: Unfused


@dataclass(frozen=True, slots=True)
class Build:
    """A model built for one target. `made` has every level as a value, for those who look inside."""

    made: driver.Build

    @property
    def report(self) -> Mapping[str, Any]:
        """The value of `report.json` (schema tdslc-report/1)."""
        return self.made.report

    @property
    def totals(self) -> Totals:
        """The totals of the report."""
        totals = dict(self.report["totals"])
        unfused = Unfused(**totals.pop("unfused"))
        return Totals(**{f.name: totals[f.name] for f in fields(Totals) if f.name != "unfused"}, unfused=unfused)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Notes and warnings."""
        return self.made.diagnostics

    def run(self, inputs: Inputs, *, weights: PathLike | None = None, check: bool = False) -> RunResult:
        """Run on the simulator; `weights` default to those of the build. See `run`."""
        chosen = os.fspath(weights) if weights is not None else self.made.options.weights
        return run_program(runnable(self.made), _given(inputs), chosen, check)

    def save(self, out: PathLike) -> None:
        """Write the build folder `out`. DiagnosticError (E0701, E0702)."""
        write_folder(os.fspath(out), build_files(self.made))


def build(
    model: PathLike | Graph,
    target: str = "mxu:v5e",
    *,
    weights: PathLike | None = None,
    dims: Mapping[str, int] | None = None,
    dtypes: Mapping[str, str] | None = None,
    rules: Sequence[PathLike] = (),
    numerics: Numerics = "reassoc",
    overrides: Sequence[str] = (),
    entry: str | None = None,
    disabled: Sequence[str] = (),
    unchecked: bool = False,
    opt: int = 2,
    fuse: bool = True,
    budget: Mapping[str, int] | None = None,
    out: PathLike | None = None,
) -> Build:
    """Build `model` (a `.tdsl` path or a Graph) for `target`, and write the folder `out` if one is named.

    `weights` is checked by names, shapes and dtypes; its values are not read. `overrides` are `key=value` texts for
    figures of the chip; `rules` more `.rules` files, `disabled` names of rules to leave out; `budget` knobs of the
    search. DiagnosticError holds every mistake found in the files; nothing else is raised for them.
    """  # fmt: skip
    if out is not None:
        refuse_foreign(os.fspath(out))
    given = model if isinstance(model, Graph) else os.fspath(model)
    options = BuildOptions(
        given, target, entry, dict(dims or {}), dict(dtypes or {}), _path(weights), _paths(rules),
        tuple(disabled), numerics, unchecked, tuple(overrides), dict(budget or {}), opt, fuse,
    )  # fmt: skip
    with Searcher() as searcher:
        made = Build(driver.build(options, searcher=searcher))
    if out is not None:
        made.save(out)
    return made


def run(
    model: PathLike | Graph,
    target: str = "mxu:v5e",
    *,
    inputs: Inputs,
    weights: PathLike | None = None,
    dims: Mapping[str, int] | None = None,
    dtypes: Mapping[str, str] | None = None,
    rules: Sequence[PathLike] = (),
    numerics: Numerics = "reassoc",
    overrides: Sequence[str] = (),
    entry: str | None = None,
    check: bool = False,
) -> RunResult:
    """Build `model` and run it on the simulator; or run a build folder, whose target and options are its own.

    `inputs` are arrays by name, or `FILE.npy`, `FILE.npz:NAME`, `FILE.safetensors:NAME`; dims that `dims` does not fix
    come from their shapes. `outputs` of the result are arrays by name; with `check`, `checks` says if they are what
    the model means. DiagnosticError for mistakes in what was given.
    """  # fmt: skip
    given = _given(inputs)
    if not isinstance(model, Graph) and os.path.isdir(model):
        return run_program(runnable_folder(os.fspath(model)), given, _path(weights), check)
    path = model if isinstance(model, Graph) else os.fspath(model)
    asked = BuildOptions(path, target, entry, dict(dims or {}), dict(dtypes or {}))
    fixed = for_inputs(asked, given).dims
    made = build(
        path, target, weights=weights, dims=fixed, dtypes=dtypes, rules=rules, numerics=numerics, overrides=overrides,
        entry=entry,
    )  # fmt: skip
    return made.run(inputs, check=check)


def export(
    model: PathLike | Graph,
    out: PathLike,
    *,
    weights: PathLike | None = None,
    dims: Mapping[str, int] | None = None,
    dtypes: Mapping[str, str] | None = None,
    entry: str | None = None,
    level: ExportLevel | None = None,
) -> Exported:
    """Write `model` for other compilers to `out`: FILE.onnx, or FILE.mlir for StableHLO.

    `model` is a model file, a Graph or a build folder, of which `level` says which graph, by default the rewritten one.
    With `weights` the values of params are in the file, else they are inputs after the model's own. DiagnosticError
    names every op that the format lacks.
    """
    given = model if isinstance(model, Graph) else os.fspath(model)
    options = BuildOptions(given, entry=entry, dims=dict(dims or {}), dtypes=dict(dtypes or {}), weights=_path(weights))
    return export_model(options, os.fspath(out), level)


def _path(path: PathLike | None) -> str | None:
    return None if path is None else os.fspath(path)


def _paths(paths: Sequence[PathLike]) -> tuple[str, ...]:
    return tuple(os.fspath(path) for path in paths)


def _given(inputs: Inputs) -> dict[str, Given]:
    return {name: _one(x) for name, x in inputs.items()}


def _one(x: NDArray | str | os.PathLike[str]) -> Given:
    return read_tensor(os.fspath(x)) if isinstance(x, (str, os.PathLike)) else np.asarray(x)
