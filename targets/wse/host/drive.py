"""What `tdslc csl run` does: compile, copy arrays in, launch, copy arrays out.

Must not know click.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic, DiagnosticError
from ..chip import Wafer, load
from ..csl.program import Program, compile_program
from ..mesh.engines import EngineName
from ..mesh.report import MeshReport
from ..mesh.simulation import Simulation
from .cslc import Options, read_options


@dataclass(frozen=True, slots=True)
class Request:
    """A program and what is done with it. `machine` is a name or a file."""

    options: Options
    machine: str
    overrides: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    launches: tuple[str, ...] = ()
    gets: tuple[str, ...] = ()
    engine: EngineName = "auto"
    max_cycles: int = 1_000_000_000

    @staticmethod
    def of(layout: str, flags: dict[str, Any]) -> Request:
        """What the flags of the command line ask for. Raises DiagnosticError (E1050)."""
        argv = [layout, f"--arch={flags['arch']}"]
        for name in ("params", "colors", "import_path"):
            argv += [f"--{name.replace('_', '-')}={value}" for value in flags[name]]
        for name in ("fabric_dims", "fabric_offsets"):
            argv += [f"--{name.replace('_', '-')}={flags[name]}"] if flags[name] else []
        more = {k: flags[k] for k in ("copies", "launches", "gets", "engine", "max_cycles") if k in flags}
        return Request(read_options(argv), flags["machine"] or flags["arch"], tuple(flags["overrides"]), **more)


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a run left: its report, what PEs printed, arrays read back by name, and its trace (empty if it was not
    asked for)."""

    report: MeshReport
    log: tuple[str, ...]
    arrays: dict[str, NDArray[Any]]
    trace: str


def wafer_of(request: Request) -> Wafer:
    """The machine asked for, with its figures overridden. Raises DiagnosticError."""
    return load(request.machine, request.overrides).value


def compiled(request: Request) -> Program:
    """The program, checked. Raises DiagnosticError."""
    o, wafer = request.options, wafer_of(request)
    return compile_program(o.layout, wafer.front_end, o.params, o.fabric, o.offsets, o.import_paths, o.colors)


def drive(request: Request, trace: bool = False) -> Outcome:
    """Compile and run. Raises DiagnosticError."""
    program, wafer = compiled(request), wafer_of(request)
    mesh = Simulation(program, wafer, engine=request.engine, max_cycles=request.max_cycles, trace=trace)
    for text in request.copies:
        _copy_in(mesh, *_pair(text, "--copy"))
    mesh.run("quiet")
    for text in request.launches:
        name, _, args = text.partition(":")
        mesh.launch(name, [_number(a) for a in args.split(",") if a])
        mesh.run("commands")
    mesh.run("quiet")
    arrays = dict(_copy_out(mesh, *_pair(text, "--get")) for text in request.gets)
    return Outcome(mesh.report(), tuple(mesh.log()), arrays, mesh.perfetto() if trace else "")


def _copy_in(mesh: Simulation, name: str, file: str) -> None:
    r = mesh.program.rectangle
    array = _array(file)
    if array.ndim < 2 or array.shape[:2] != (r.height, r.width):
        _refuse(
            f"`{file}` has shape {list(array.shape)}; the rectangle is {r.width} x {r.height} PEs",
            f"give an array of shape [{r.height}, {r.width}, n]: n elements for each PE",
        )
    if array.dtype.itemsize not in (2, 4):
        _refuse(f"`{file}` holds {array.dtype}; elements have 2 or 4 bytes", None)
    words = np.ascontiguousarray(array.reshape(r.height, r.width, -1)).view(f"u{array.dtype.itemsize}")
    mesh.write(name, 0, 0, r.width, r.height, words)


def _copy_out(mesh: Simulation, name: str, file: str) -> tuple[str, NDArray[Any]]:
    path, _, wanted = file.partition(":")
    array = mesh.read_all(name, _dtype(wanted) if wanted else None)
    with _written(Path(path)) as beside, open(beside, "wb") as out:
        np.save(out, array)
    return name, array


def _dtype(text: str) -> np.dtype[Any]:
    """The numbers of `u2`, `float32`, ...; E1052 for what is no type of numbers."""
    try:
        made = np.dtype(text)
    except TypeError:
        made = None
    if made is None or made.kind not in "biuf":
        _refuse(f"`{text}` is no type of numbers", "write NAME=FILE.npy:float32, or leave it out")
    return made


def _array(file: str) -> NDArray[Any]:
    try:
        return np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        _refuse(f"cannot read `{file}`: {error}", "give a .npy file of numbers")


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        _refuse(f"`{flag}` of `{text}`", f"write {flag} NAME=FILE.npy")
    return name, value


def _number(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        _refuse(f"the argument `{text}` is no number", None)


def _refuse(message: str, help: str | None) -> NoReturn:
    raise DiagnosticError(Diagnostic("E1052", message, help=help))


def write_text(path: Path, text: str) -> None:
    """Put `text` into the file `path`, whole or not at all. Raises DiagnosticError (E1052) when that fails."""
    with _written(path) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def _written(path: Path) -> Generator[Path]:
    """A file beside `path` that takes its place when the block ends well."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        _refuse(f"cannot write `{path}`: {error.strerror}", "name a file in a folder that can be written")
