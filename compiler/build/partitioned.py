"""`--partition`: the regions of an ONNX model built one by one, with the host's work and the crossings between them.

A region is an ordinary build; the whole has one report. Must not know how a model is cut, nor any one target.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..frontend.onnx.parts import HostPart, Partition, Region
from ..plan.target import HostLink, Machine
from ..source import Diagnostic, DiagnosticError
from .cut_figures import Crossing, HostWork, partition_report
from .driver import Build, build, useless
from .model import ONNX_SUFFIX, Source, shown_path
from .options import BuildOptions
from .phases import Phase, Phases, Progress, quiet
from .search import Searcher
from .targets import load_machine
from .tensors import read_tensor


@dataclass(frozen=True, slots=True)
class PartitionedBuild:
    """A model in parts, its regions built; `regions` are their builds by the number of the part, as `00`."""

    options: BuildOptions
    machine: Machine
    name: str
    partition: Partition
    regions: Mapping[str, Build]
    report: Mapping[str, Any]
    diagnostics: tuple[Diagnostic, ...] = ()
    phases: tuple[Phase, ...] = field(default=(), compare=False)


def build_partitioned(
    options: BuildOptions, progress: Progress = quiet, searcher: Searcher | None = None
) -> Build | PartitionedBuild:
    """Build the ONNX model that `options` name in parts, or whole when nothing of it needs the host.

    DiagnosticError as `build` and `partition_model`; E1121 for options that do not go with parts; E0503 when the chip
    has no link to the host.
    """
    path = _model_path(options)
    phases = Phases(progress)
    with phases.phase("partition"):
        machine = load_machine(options.target, options.overrides)
        partition = read_partition(path, options.binds, options.dims)
    if not partition.hosted:
        whole = build(replace(options, partition=False), progress, searcher)
        return whole.noted("E1119", f"{partition.file}: no node needs the host; the model is built whole")
    link = _link(machine, options.target)
    own = replace(options, partition=False, dims={})
    regions: dict[str, Build] = {}
    for part, region in numbered_regions(partition):
        told = _prefixed(progress, part)
        regions[part] = build(own, told, searcher, _source(path, partition, region))
    name = os.path.splitext(partition.file)[0]
    notes = [d.message for d in partition.notes]
    of_link = _of_link(options, link)
    reports = {part: {**b.report, "notes": _without(b.report["notes"], of_link)} for part, b in regions.items()}
    made = partition_report(name, machine.spec, reports, _work(partition), crossings(partition), link, notes)
    every = tuple(_phase(part, p) for part, b in regions.items() for p in b.phases)
    said = (*partition.notes, *_said(list(regions.values()), of_link))
    return PartitionedBuild(options, machine, name, partition, regions, made, said, (*phases.done, *every))


def read_partition(path: str, binds: Mapping[str, str], dims: Mapping[str, int]) -> Partition:
    """The model at `path` in parts; `binds` are files of values. DiagnosticError."""
    from ..frontend.onnx.partition import partition_model

    return partition_model(path, {name: read_tensor(where).read() for name, where in binds.items()}, dims)


def numbered_regions(partition: Partition) -> list[tuple[str, Region]]:
    """The regions, each with the number of its part."""
    return [(number(k), part) for k, part in enumerate(partition.parts) if isinstance(part, Region)]


def number(k: int) -> str:
    """What part `k` is called."""
    return f"{k:02}"


def crossings(partition: Partition) -> list[Crossing]:
    """The values that go from a region to the host or back, in the order in which they are made.

    A value that stays where it is made crosses nothing, however many parts lie between; inputs and outputs of the
    model lie where they are read and made, as in every build.
    """
    on_chip = [isinstance(part, Region) for part in partition.parts]
    found: list[Crossing] = []
    for edge in partition.edges:
        readers = tuple(number(k) for k in edge.readers if on_chip[k] != on_chip[edge.maker])
        if readers:
            assert edge.type is not None, "a region takes and gives tensors"
            way = "to_host" if on_chip[edge.maker] else "to_chip"
            maker = number(edge.maker)
            found.append(Crossing(edge.value, str(edge.type), edge.type.nbytes, way, maker, readers))
    return found


# ---- what goes together --------------------------------------------------------------------------


def _model_path(options: BuildOptions) -> str:
    if not isinstance(options.model, str) or not options.model.endswith(ONNX_SUFFIX) or options.start is not None:
        raise _refused("--partition cuts models in .onnx files, and this is none", "build it without `--partition`")
    for given, flag in (
        (options.stop_after, "--stop-after"),
        (options.weights, "--weights"),
        (options.dtypes, "--dtype"),
    ):
        if given:
            why = (
                "an ONNX model brings its own weights"
                if flag == "--weights"
                else "regions are built as they are, whole"
            )
            raise _refused(f"{flag} does not go with `--partition`: {why}", f"leave `{flag}` out")
    return options.model


def _refused(said: str, help: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic("E1121", said, help=help))


def _link(machine: Machine, target: str) -> HostLink:
    link = machine.host_link
    if link is None:
        said = f"{target} does not say how values get to the host and back, and part of the model runs there"
        help = "give its chip file a table for the link to the host; `tdslc targets` shows that of a shipped chip"
        raise DiagnosticError(Diagnostic("E0503", said, help=help))
    return link


def _source(path: str, partition: Partition, region: Region) -> Source:
    from ..language import stdlib_composites

    folder = os.path.dirname(path) or "."
    files = {shown_path(path, folder): partition.sha256}
    made = region.imported
    return Source(made.graph.name, made.graph, stdlib_composites(), partition.dims, {}, files, folder, made.params)


def _work(partition: Partition) -> list[HostWork]:
    return [
        HostWork(number(k), part.program.runner, [(n.name, n.op, n.why) for n in part.nodes])
        for k, part in enumerate(partition.parts)
        if isinstance(part, HostPart)
    ]


# ---- what is said --------------------------------------------------------------------------------


def _prefixed(progress: Progress, part: str) -> Progress:
    return lambda phase: progress(f"region {part}: {phase}")


def _phase(part: str, p: Phase) -> Phase:
    return Phase(f"{part}: {p.name}", p.wall_seconds)


def _of_link(options: BuildOptions, link: HostLink) -> list[str]:
    """What a region says of settings of the link to the host: they change nothing in it, but they do in the whole."""

    def changes_link(text: str) -> bool:
        try:
            return load_machine(options.target, [o for o in options.overrides if o != text]).host_link != link
        except DiagnosticError:
            return True

    return [useless(text) for text in options.overrides if changes_link(text)]


def _without(notes: Sequence[str], starts: Sequence[str]) -> list[str]:
    return [note for note in notes if not note.startswith(tuple(starts))]


def _said(builds: Sequence[Build], of_link: Sequence[str]) -> list[Diagnostic]:
    """What the builds of the regions remark, once; that a setting changes nothing, if it changes nothing anywhere."""
    found = [d for d in dict.fromkeys(d for b in builds for d in b.diagnostics) if _without([d.message], of_link)]
    return [d for d in found if d.code != "E0705" or all(d in b.diagnostics for b in builds)]
