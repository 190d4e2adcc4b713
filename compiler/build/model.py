"""The model of a build: read from `.tdsl`, StableHLO or ONNX, or a Graph. Must not know targets, rules or plans."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..graph import Composites, Graph, NDArray
from ..source import Diagnostic, DiagnosticError
from .folder import digest
from .levels import Levels
from .options import BuildOptions
from .tensors import read_tensor

ONNX_SUFFIX = ".onnx"
STABLEHLO_SUFFIXES = (".mlir", ".stablehlo")


@dataclass(frozen=True, slots=True)
class Source:
    """A model as written, and what it was read from.

    `files` gives the sha256 of every source text under the path it is shown by; `folder` is what paths in a manifest
    are relative to. `weights` are the values of params that came with the model, by name.
    """

    name: str
    graph: Graph
    composites: Composites
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: str = "."
    weights: Mapping[str, NDArray] = field(default_factory=dict[str, NDArray], compare=False, repr=False)


def load_source(options: BuildOptions) -> Source:
    """The model that `options` name. DiagnosticError with what is wrong in its text, dims or dtypes."""
    # Here, because building a folder's level or a Graph needs no parser.
    from ..language import load_model, stdlib_composites

    if isinstance(options.model, Graph):
        return Source(options.model.name, options.model, stdlib_composites())
    if options.model.endswith(STABLEHLO_SUFFIXES):
        return _stablehlo(options.model, options)
    if options.model.endswith(ONNX_SUFFIX):
        return _onnx(options.model, options)
    if options.binds:
        help = "give it with `--input` when the model is run"
        raise DiagnosticError(
            Diagnostic("E1112", f"{options.model}: inputs of .onnx models only can be bound", help=help)
        )
    model = load_model(options.model, options.dims, options.dtypes, options.entry)
    folder = os.path.dirname(options.model) or "."
    files = {shown_path(file.path, folder): digest(file.text) for file in model.sources}
    dims = {name: spec.value for name, spec in model.dims.items()}
    return Source(model.name, model.graph, model.composites, dims, dict(model.dtypes), files, folder)


def _stablehlo(path: str, options: BuildOptions) -> Source:
    """The model that a StableHLO text is. Its shapes and dtypes are fixed (E0116, E0117)."""
    from ..frontend.stablehlo import import_file
    from ..language import stdlib_composites

    for code, what, given in (("E0116", "dim", options.dims), ("E0117", "dtype", options.dtypes)):
        if given:
            help = f"export it again with another {what}"
            raise DiagnosticError(Diagnostic(code, f"{path}: {what}s of a StableHLO text are fixed", help=help))
    file, imported = import_file(path, entry=options.entry)
    folder = os.path.dirname(path) or "."
    files = {shown_path(file.path, folder): digest(file.text)}
    graph = imported.graph
    return Source(graph.name, graph, stdlib_composites(), files=files, folder=folder, weights=imported.params)


def _onnx(path: str, options: BuildOptions) -> Source:
    """The model that an ONNX file is, with its weights."""
    from ..frontend.onnx import import_model
    from ..language import stdlib_composites

    if options.dtypes:
        said = f"{path}: dtypes of an ONNX model are fixed"
        raise DiagnosticError(Diagnostic("E0117", said, help="export it again with another dtype"))
    binds = {name: read_tensor(where).read() for name, where in options.binds.items()}
    made = import_model(path, binds, options.dims)
    folder = os.path.dirname(path) or "."
    files = {shown_path(path, folder): made.sha256}
    graph = made.graph
    return Source(graph.name, graph, stdlib_composites(), made.dims, files=files, folder=folder, weights=made.params)


def shown_path(path: str, folder: str) -> str:
    """`path` relative to the model's folder; files of the standard library have a name of their own already."""
    return path if path.startswith("<") else Path(os.path.relpath(path, folder)).as_posix()


def source_of(levels: Levels, folder: str) -> Source:
    """The model of a build folder. Its own composites are whole nodes of the graph; rules know those of the stdlib."""
    from ..language import stdlib_composites

    facts = levels.manifest["model"]
    options = levels.manifest["options"]
    return Source(
        facts["name"], levels.graph, stdlib_composites(), options["dims"], options["dtypes"], facts["sources"], folder
    )
