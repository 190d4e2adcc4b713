"""The folder of a build in parts: an ordinary build in `regions/NN` for each region, and what joins them.

`partition.json` says how the model was cut. The host's nodes and all weights stay in the model's own file. Must not
know how anything was computed.
"""

from __future__ import annotations

from typing import Any, cast

from ..frontend.onnx.parts import HostPart, Partition, Region
from . import figures
from .cut_figures import partition_memory, region_folder
from .files import build_files, chip_file, facts, level_text
from .folder import to_json, with_manifest
from .partitioned import PartitionedBuild, number

PARTITION = "partition.json"


def partitioned_files(b: PartitionedBuild) -> dict[str, str]:
    """Every file of the folder by its path in it, manifest included."""
    files: dict[str, str] = {}
    memories: dict[str, Any] = {}
    for part, region in b.regions.items():
        files |= {f"{region_folder(part)}/{name}": text for name, text in build_files(region).items()}
        assert region.chosen is not None
        memories[part] = figures.memory(region.chosen.program)
    files |= {
        PARTITION: to_json(partition_json(b.partition)),
        "memory.json": to_json(partition_memory(memories)),
        "report.json": to_json(b.report),
        **chip_file(b.options.target),
    }
    return with_manifest(files, _facts(b))


def partition_json(p: Partition) -> dict[str, Any]:
    """How a model was cut: parts in order, and the names and types of what they take and give."""
    return {
        "inputs": {name: {"value": value, "type": p.shown[value]} for name, value in p.inputs.items()},
        "outputs": {name: {"value": value, "type": p.shown.get(value, "")} for name, value in p.outputs.items()},
        "parts": [_part(number(k), part) for k, part in enumerate(p.parts)],
        "edges": [
            {
                "value": e.value,
                "type": p.shown.get(e.value, ""),
                "from": number(e.maker),
                "to": [number(k) for k in e.readers],
            }
            for e in p.edges
        ],
    }


def partitioned_level(b: PartitionedBuild, level: str) -> str:
    """The text of a level of every region, each under the number of its part."""
    return "".join(f"// region {part}\n{level_text(region, level)}" for part, region in b.regions.items())


def _part(name: str, part: Region | HostPart) -> dict[str, Any]:
    if isinstance(part, Region):
        kept = {"inputs": dict(part.inputs), "outputs": dict(part.outputs)}
        return {"part": name, "kind": "region", "folder": region_folder(name), "nodes": part.nodes, **kept}
    nodes = [n.name for n in part.nodes]
    return {"part": name, "kind": "host", "nodes": nodes, "inputs": list(part.inputs), "outputs": list(part.outputs)}


def _facts(b: PartitionedBuild) -> dict[str, object]:
    """As of an ordinary build; it has no levels of its own, and its guards are those of every region."""
    first = next(iter(b.regions.values()))
    each = [facts(region) for region in b.regions.values()]
    guards = sorted({guard for one in each for guard in cast("list[str]", one["guards"])})
    model = {"name": b.name, "sources": dict(sorted(first.source.files.items()))}
    target = {**cast("dict[str, object]", each[0]["target"]), "digest": b.machine.digest}
    options = {
        **cast("dict[str, object]", each[0]["options"]),
        "set": list(b.options.overrides),
        "dims": dict(sorted({**b.partition.dims, **b.options.dims}.items())),
        "partition": True,
    }
    return {**each[0], "model": model, "target": target, "options": options, "guards": guards, "levels": []}
