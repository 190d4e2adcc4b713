"""`tdslc import`: a model of another format as `.tdsl` text and a safetensors file. Must not know click."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..graph import Graph, NDArray
from ..graph.dtypes import from_numpy
from ..source import Diagnostic, DiagnosticError
from .tensors import SAFETENSORS_NAMES, read_tensor


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What was imported, the files written, and what there is to say."""

    graph: Graph
    elements: int
    files: tuple[str, ...]
    notes: tuple[str, ...]
    renamed: Mapping[str, str]


def import_onnx(
    path: str, dims: Mapping[str, int], binds: Mapping[str, str], out: str | None, ignore_stated: bool = False
) -> ImportOutcome:
    """Write the ONNX model at `path` into the folder `out`. DiagnosticError (E11xx, E0702)."""
    from ..frontend.onnx import import_model

    values = {name: read_tensor(where).read() for name, where in binds.items()}
    made = import_model(path, values, dims, ignore_stated=ignore_stated)
    return _written(path, made.graph, made.params, made.notes, made.renamed, out)


def import_stablehlo(path: str, entry: str | None, out: str | None) -> ImportOutcome:
    """Write the StableHLO text at `path` into the folder `out`. DiagnosticError (E00xx, E11xx, E0702)."""
    from ..frontend.stablehlo import import_file

    _, made = import_file(path, entry=entry)
    return _written(path, made.graph, made.params, made.notes, {}, out)


def _written(
    path: str, graph: Graph, params: Mapping[str, NDArray], notes: tuple[str, ...], renamed: Mapping[str, str],
    out: str | None,
) -> ImportOutcome:  # fmt: skip
    """Writes the model that was read from `path`: its text, and its weights where it has any."""
    from ..frontend.tdsl_writer import write_tdsl

    name = graph.name
    files = {f"{name}.tdsl": write_tdsl(graph, f"Imported from {os.path.basename(path)}.").encode()}
    if params:
        files[f"{name}.safetensors"] = safetensors(unstacked(graph, params))
    written = _write(out or name, files)
    return ImportOutcome(graph, sum(a.size for a in params.values()), written, notes, renamed)


def _write(folder: str, files: Mapping[str, bytes]) -> tuple[str, ...]:
    paths = [Path(folder) / name for name in files]
    there = [str(p) for p in paths if p.exists()]
    if there:
        help = "name another folder with `-o`, or remove them yourself"
        raise DiagnosticError(Diagnostic("E0702", f"{', '.join(there)}: there already, and not replaced", help=help))
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for p, data in zip(paths, files.values(), strict=True):
            p.write_bytes(data)
    except OSError as error:
        said = f"{folder} cannot be written: {(error.strerror or str(error)).lower()}"
        raise DiagnosticError(Diagnostic("E0702", said)) from None
    return tuple(map(str, paths))


def unstacked(graph: Graph, params: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The tensors of a weights file: a stacked param is one for each iteration."""
    found: dict[str, NDArray] = {}
    for n in graph.params:
        name = str(n.attr("name"))
        if not n.attr("stack"):
            found[name] = params[name]
            continue
        found |= {name.replace("{i}", str(i)): row for i, row in enumerate(params[name])}
    return found


def safetensors(arrays: Mapping[str, NDArray]) -> bytes:
    """`arrays` in the safetensors format. Elements of 4 bits, which it has no name for, take a byte each."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name, array in sorted(arrays.items()):
        d = from_numpy(array.dtype)
        assert d is not None
        stored = array.astype(np.int8 if d.kind == "int" else np.uint8) if d.bits == 4 else array
        word = SAFETENSORS_NAMES["i8" if d.name == "i4" else "u8" if d.name == "u4" else d.name]
        data = np.ascontiguousarray(stored).tobytes()
        header[name] = {"dtype": word, "shape": [int(n) for n in array.shape], "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def import_text(done: ImportOutcome) -> str:
    """What `import` prints for people."""
    g = done.graph
    ins = ", ".join(f"{n.attr('name')}: {n.type}" for n in g.inputs) or "none"
    outs = ", ".join(f"{name}: {t}" for name, t in zip(g.output_names, g.output_types, strict=True))
    lines = [
        f"{g.name}: {len(g.nodes)} nodes, {len(g.params)} params of {done.elements} elements",
        f"inputs: {ins}",
        f"outputs: {outs}",
        *(f"renamed: `{old}` is `{new}`" for old, new in done.renamed.items()),
        *(f"note: {note}" for note in done.notes),
        *(f"written: {path}" for path in done.files),
    ]
    return "\n".join(lines)


def import_document(done: ImportOutcome) -> dict[str, Any]:
    """What `import --json` prints."""
    g = done.graph
    return {
        "model": g.name,
        "nodes": len(g.nodes),
        "params": len(g.params),
        "elements": done.elements,
        "inputs": {str(n.attr("name")): str(n.type) for n in g.inputs},
        "outputs": {name: str(t) for name, t in zip(g.output_names, g.output_types, strict=True)},
        "renamed": dict(done.renamed),
        "notes": list(done.notes),
        "files": list(done.files),
        "diagnostics": [],
    }
