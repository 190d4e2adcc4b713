"""The model of a build: read from `.tdsl` or StableHLO, or given as a Graph. Must not know targets, rules or plans."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..graph import Composites, Graph
from ..source import Diagnostic, DiagnosticError
from .folder import digest
from .levels import Levels
from .options import BuildOptions

STABLEHLO_SUFFIXES = (".mlir", ".stablehlo")


@dataclass(frozen=True, slots=True)
class Source:
    """A model as written, and what it was read from.

    `files` gives the sha256 of every source text under the path it is shown by; `folder` is what paths in a manifest
    are relative to.
    """

    name: str
    graph: Graph
    composites: Composites
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: str = "."


def load_source(options: BuildOptions) -> Source:
    """The model that `options` name. DiagnosticError with what is wrong in its text, dims or dtypes."""
    # Here, because building a folder's level or a Graph needs no parser.
    from ..language import load_model, stdlib_composites

    if isinstance(options.model, Graph):
        return Source(options.model.name, options.model, stdlib_composites())
    if options.model.endswith(STABLEHLO_SUFFIXES):
        return _stablehlo(options.model, options)
    model = load_model(options.model, options.dims, options.dtypes, options.entry)
    folder = os.path.dirname(options.model) or "."
    files = {_shown(file.path, folder): digest(file.text) for file in model.sources}
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
    files = {_shown(file.path, folder): digest(file.text)}
    return Source(imported.graph.name, imported.graph, stdlib_composites(), files=files, folder=folder)


def _shown(path: str, folder: str) -> str:
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
