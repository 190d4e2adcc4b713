"""`tdslc export`: a model, or a level of a build folder, as an ONNX file or a StableHLO text. Must not know click."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..graph import Graph, NDArray
from ..source import Diagnostic, DiagnosticError
from .levels import read_levels
from .model import ONNX_SUFFIX, STABLEHLO_SUFFIXES, load_source
from .options import BuildOptions
from .weights import bind, open_weights, random_seed, random_weights

ExportLevel = Literal["graph", "rewritten"]
Writer: TypeAlias = "Callable[[Graph, Mapping[str, NDArray]], bytes]"
ToJson: TypeAlias = "Callable[[Iterable[Diagnostic]], list[dict[str, object]]]"


@dataclass(frozen=True, slots=True)
class Exported:
    """The file written: its path and format, the graph it holds, how many elements of params, and what there is to say.

    `embedded` are the params whose values the file holds; the others are inputs after the graph's own.
    """

    path: str
    format: str
    graph: Graph
    embedded: tuple[str, ...]
    elements: int
    diagnostics: tuple[Diagnostic, ...]


def export_model(options: BuildOptions, out: str, level: ExportLevel | None = None) -> Exported:
    """Write the model that `options` name to `out`: ONNX for `.onnx`, StableHLO for `.mlir` and `.stablehlo`.

    Of a build folder, the graph of `level`, by default the rewritten one. With weights, or where they come with the
    model, their values are in the file. DiagnosticError: E1105 names ops that the format lacks, E0702 what cannot be
    written; and what reading the model and its weights gives.
    """
    write = _format(out)
    if isinstance(options.model, str) and os.path.realpath(options.model) == os.path.realpath(out):
        raise DiagnosticError(Diagnostic("E0702", f"{out} is the model itself", help="name another file with `-o`"))
    graph, own = _graph(options, level)
    values, notes = _values(graph, options.weights, own)
    data = write(graph, values)
    _write(out, data)
    embedded = tuple(str(n.attr("name")) for n in graph.params if n.attr("name") in values)
    elements = sum(values[name].size for name in embedded)
    word = "ONNX" if out.endswith(ONNX_SUFFIX) else "StableHLO"
    return Exported(out, word, graph, embedded, elements, tuple(notes))


def _format(out: str) -> Writer:
    """The writer for the suffix of `out`."""
    if out.endswith(ONNX_SUFFIX):
        from ..frontend.onnx import export_model as onnx_bytes

        return onnx_bytes
    if out.endswith(STABLEHLO_SUFFIXES):
        from ..frontend.stablehlo import export_text as text

        def write(graph: Graph, values: Mapping[str, NDArray]) -> bytes:
            return text(graph, values).encode()

        return write
    said = f"{out}: its name does not say which format to write"
    raise DiagnosticError(Diagnostic("E0702", said, help="name it FILE.onnx, or FILE.mlir for StableHLO"))


def _graph(options: BuildOptions, level: ExportLevel | None) -> tuple[Graph, Mapping[str, NDArray]]:
    """The graph, and the values of params that come with the model."""
    if isinstance(options.model, str) and os.path.isdir(options.model):
        levels = read_levels(options.model, level or "rewritten")
        return (levels.graph if level == "graph" else levels.rewritten or levels.graph), {}
    if level == "rewritten":
        said = "a model file has no level rewritten"
        raise DiagnosticError(Diagnostic("E0703", said, help="give a build folder, which `tdslc build` makes"))
    source = load_source(options)
    return source.graph, source.weights


def _values(
    graph: Graph, weights: str | None, own: Mapping[str, NDArray]
) -> tuple[Mapping[str, NDArray], list[Diagnostic]]:
    if weights is None:
        return own, []
    seed = random_seed(weights)
    if seed is not None:
        said = f"weights are random, seed {seed}: the outputs mean nothing"
        return random_weights(graph, seed), [Diagnostic("E0613", said, severity="note")]
    tensors, notes = open_weights(weights, graph)
    return bind(graph, tensors), notes


def _write(out: str, data: bytes) -> None:
    """The whole file or, when that fails, what was there before."""
    path = Path(out)
    beside = path.parent / f".{path.name}.{os.getpid()}.new"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_bytes(data)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        said = f"{out} cannot be written: {(error.strerror or str(error)).lower()}"
        raise DiagnosticError(Diagnostic("E0702", said)) from None


def export_text(done: Exported) -> str:
    """What `export` prints for people."""
    g = done.graph
    loose = [n for n in g.params if n.attr("name") not in done.embedded]
    ins = [f"{n.attr('name')}: {n.type}" for n in g.inputs]
    params = f"params in it: {len(done.embedded)} of {done.elements} elements" if done.embedded else ""
    left = f"params that are inputs: {len(loose)}; `--weights` puts their values into the file" if loose else ""
    lines = [
        f"{g.name}: {len(g.nodes)} nodes as {done.format}",
        f"inputs: {', '.join(ins) or 'none'}",
        f"outputs: {', '.join(_outputs(g))}",
        params,
        left,
        f"written: {done.path}",
    ]
    return "\n".join(line for line in lines if line)


def _outputs(g: Graph) -> list[str]:
    names = g.output_names or ("",) * len(g.outputs)
    return [f"{name}: {t}" if name else str(t) for name, t in zip(names, g.output_types, strict=True)]


def export_document(done: Exported, to_json: ToJson) -> dict[str, Any]:
    """What `export --json` prints."""
    g = done.graph
    return {
        "model": g.name,
        "format": done.format,
        "nodes": len(g.nodes),
        "inputs": {str(n.attr("name")): str(n.type) for n in g.inputs},
        "outputs": _outputs(g),
        "embedded": list(done.embedded),
        "elements": done.elements,
        "params": [str(n.attr("name")) for n in g.params],
        "file": done.path,
        "diagnostics": to_json(done.diagnostics),
    }
