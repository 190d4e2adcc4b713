"""`SdkRuntime`: the host's side of a program, as existing scripts use it, on the mesh simulator.

Copies and launches form one stream of commands; streams of wavelets run beside it. What a script does not wait for is
done when it waits for something later. Must not know how a mesh is simulated.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....compiler.source import Diagnostic, DiagnosticError, did_you_mean, render_all
from ..chip import Wafer, load
from ..csl.program import Program
from ..mesh.simulation import Simulation, Stream
from .arrays import MemcpyDataType, MemcpyOrder, fill, from_region, to_region, words_of
from .artifact import read_artifact
from .ports import Artifacts

TRACES = "traces.json"
# The variable of the environment that says, being 1, that a simulation is not lenient.
STRICT = "TDSLC_CSL_STRICT"


class SdkError(RuntimeError):
    """What a script asked for cannot be done, or the program failed on the mesh; the text tells where."""


@dataclass(slots=True, eq=False)
class Task:
    """Something a script did not wait for."""

    done: bool = False


class SymbolId(int):
    """A number that stands for an exported name."""

    name: str

    @classmethod
    def of(cls, number: int, name: str) -> SymbolId:
        """The `number`th name that a program exports."""
        made = cls(number)
        made.name = name
        return made


class SdkRuntime:
    """A program on a simulated wafer. Raises SdkError for what the program does not allow.

    `program` is the folder that `cslc -o` wrote, or what `SdkLayout.compile` returned. `cmaddr` must be empty: there is
    no machine. Other options of the documented runtime concern how the vendor's simulator works and change nothing.
    """

    def __init__(
        self,
        program: str | Path | Artifacts,
        platform: object = None,
        *,
        cmaddr: str | None = None,
        memcpy_required: bool = True,
        **_: object,
    ) -> None:
        if cmaddr:
            raise SdkError(f"there is no machine at {cmaddr}: programs run on a simulator; leave `cmaddr` empty")
        self._folder = None if isinstance(program, Artifacts) else Path(program)
        self._symbols: tuple[tuple[str, int, int, bytes], ...] = ()
        if isinstance(program, Artifacts):
            self._program: Program = program.program
            self._wafer: Wafer = program.wafer
            self._symbols = program.symbols
        else:
            self._program, self._wafer = _loaded(Path(program))
        self._names = sorted(self._program.exports) or sorted(
            {name for made in self._program.classes for name in made.exports}
        )
        self._simulation: Simulation | None = None
        self._waiting: list[tuple[Task, Callable[[], None], bool]] = []

    # ---- life ----------------------------------------------------------------------------------

    def load(self) -> None:
        """Put the program on the wafer."""
        mesh = _told(lambda: Simulation(self._program, self._wafer, lenient=os.environ.get(STRICT) != "1"))
        for name, x, y, data in self._symbols:
            _told(lambda name=name, x=x, y=y, data=data: mesh.write_whole(name, x, y, data))
        self._simulation = mesh

    def run(self) -> None:
        """Start it: what is active from the start runs."""
        self._mesh()

    def stop(self) -> None:
        """Wait until nothing moves any more, and keep the records of `<debug>` beside the program."""
        self._finish()
        mesh = self._mesh()
        _told(lambda: mesh.run("quiet"))
        if self._folder is not None:
            _write_traces(self._folder / TRACES, mesh)
        for line in mesh.log():
            print(line)

    @property
    def simulation(self) -> Simulation:
        """The mesh itself, for what the documented interface does not tell (cycles, reports)."""
        return self._mesh()

    def _mesh(self) -> Simulation:
        if self._simulation is None:
            raise SdkError("the program is not loaded: call load() first")
        return self._simulation

    # ---- copies --------------------------------------------------------------------------------

    def get_id(self, name: str) -> SymbolId:
        """The number by which copies know the exported `name`."""
        if name not in self._names:
            nearest = did_you_mean(name, self._names)
            raise SdkError(f'the program exports no name "{name}"' + (f"; {nearest}" if nearest else ""))
        return SymbolId.of(self._names.index(name), name)

    def memcpy_h2d(
        self, dest: int, src: NDArray[Any], px: int, py: int, w: int, h: int, elem_per_pe: int, *,
        streaming: bool, order: MemcpyOrder, data_type: MemcpyDataType, nonblock: bool,
    ) -> Task:  # fmt: skip
        """Host to PEs: `elem_per_pe` elements to each of the `w` x `h` PEs from (px, py), into the symbol `dest` or,
        `streaming`, as wavelets of the color `dest`."""
        region = _asked(
            lambda: to_region(words_of(np.asarray(src), "memcpy_h2d"), h, w, elem_per_pe, order, np.dtype(np.uint32))
        )
        return self._to_device(dest, region, (px, py, w, h), streaming, data_type, nonblock)

    def memcpy_h2d_rowbcast(
        self, dest: int, src: NDArray[Any], px: int, py: int, w: int, h: int, elem_per_pe: int, *,
        streaming: bool, order: MemcpyOrder, data_type: MemcpyDataType, nonblock: bool,
    ) -> Task:  # fmt: skip
        """As memcpy_h2d of a tensor of one column, which all columns get."""
        words = words_of(np.asarray(src), "memcpy_h2d_rowbcast")
        column = _asked(lambda: to_region(words, h, 1, elem_per_pe, order, np.dtype(np.uint32)))
        region = np.broadcast_to(column, (h, w, elem_per_pe))
        return self._to_device(dest, region, (px, py, w, h), streaming, data_type, nonblock)

    def memcpy_h2d_colbcast(
        self, dest: int, src: NDArray[Any], px: int, py: int, w: int, h: int, elem_per_pe: int, *,
        streaming: bool, order: MemcpyOrder, data_type: MemcpyDataType, nonblock: bool,
    ) -> Task:  # fmt: skip
        """As memcpy_h2d of a tensor of one row, which all rows get."""
        words = words_of(np.asarray(src), "memcpy_h2d_colbcast")
        row = _asked(lambda: to_region(words, 1, w, elem_per_pe, order, np.dtype(np.uint32)))
        region = np.broadcast_to(row, (h, w, elem_per_pe))
        return self._to_device(dest, region, (px, py, w, h), streaming, data_type, nonblock)

    def _to_device(
        self, dest: int, region: NDArray[np.uint32], place: tuple[int, int, int, int], streaming: bool,
        data_type: MemcpyDataType, nonblock: bool,
    ) -> Task:  # fmt: skip
        mesh, data = self._mesh(), region.astype(data_type.dtype)
        if streaming:
            # Whole words also of 16-bit elements: the host puts their indices into the upper halves.
            # Words wait at the host's side until the mesh takes them: a script that blocks here goes on. They come
            # after the copies that were asked for before.
            self._finish_copies()
            _told(lambda: mesh.send(int(dest), *place, region))
            return Task(True)
        name = self._name(dest)
        return self._command(lambda: mesh.write(name, *place, data), nonblock, is_copy=True)

    def memcpy_d2h(
        self, dest: NDArray[Any], src: int, px: int, py: int, w: int, h: int, elem_per_pe: int, *,
        streaming: bool, order: MemcpyOrder, data_type: MemcpyDataType, nonblock: bool,
    ) -> Task:  # fmt: skip
        """PEs to host: as memcpy_h2d, the other way. `dest` has its elements once the copy is done."""
        mesh, place = self._mesh(), (px, py, w, h)
        if not streaming:
            name = self._name(src)

            def copy() -> None:
                region = mesh.read(name, *place, elem_per_pe, data_type.dtype)
                _asked(lambda: fill(dest, from_region(region, order), "memcpy_d2h"))

            return self._command(copy, nonblock)
        stream = _told(lambda: mesh.receive(int(src), *place, elem_per_pe))

        def take() -> None:
            words = mesh.collect(stream).astype(data_type.dtype)
            _asked(lambda: fill(dest, from_region(words, order), "memcpy_d2h"))

        return self._command(take, nonblock)

    def _name(self, symbol: int) -> str:
        if isinstance(symbol, SymbolId):
            return symbol.name
        if not 0 <= int(symbol) < len(self._names):
            raise SdkError(f"{symbol} stands for no exported name: use what get_id returns")
        return self._names[int(symbol)]

    # ---- launches ------------------------------------------------------------------------------

    def launch(self, name: str, *args: Any, nonblock: bool) -> Task:
        """Call the exported function `name` on every PE that has it."""
        mesh = self._mesh()

        def start() -> None:
            mesh.launch(name, args)
            mesh.run("commands")

        return self._command(start, nonblock)

    def call(self, name: str, args: Sequence[Any], nonblock: bool = False) -> Task:
        """`launch` with the arguments as words of 32 bits."""
        return self.launch(name, *args, nonblock=nonblock)

    # ---- programs that were placed piece by piece ---------------------------------------------------

    def send(self, stream: list[Stream], data: NDArray[Any], nonblock: bool = False) -> Task:
        """Send the words of `data` along an input stream."""
        mesh, words = self._mesh(), words_of(np.asarray(data), "send")
        _told(lambda: mesh.send_along(stream[0], words))
        return Task(True)

    def receive(self, stream: list[Stream], data: NDArray[Any], size: int, nonblock: bool = False) -> Task:
        """Fill `data` with `size` words of an output stream."""
        mesh = self._mesh()
        pending = _told(lambda: mesh.receive_along(stream[0], size))

        def take() -> None:
            words = mesh.collect(pending)
            _asked(lambda: fill(data, words.ravel().astype(np.uint32), "receive"))

        return self._command(take, nonblock)

    def read_symbol(self, x: int, y: int, name: str, dtype: str | np.dtype[Any] = "uint16") -> NDArray[Any]:
        """The variable `name` of the PE at (x, y), once nothing moves any more."""
        self._finish()
        mesh = self._mesh()
        return _told(lambda: mesh.read_whole(name, x, y)).view(np.dtype(dtype))

    # ---- waiting -------------------------------------------------------------------------------

    def _command(self, act: Callable[[], None], nonblock: bool, is_copy: bool = False) -> Task:
        task = Task()
        self._waiting.append((task, act, is_copy))
        if not nonblock:
            self._finish()
        return task

    def _finish(self) -> None:
        """Do all commands that are waiting, in order."""
        while self._waiting:
            self._next()

    def _finish_copies(self) -> None:
        """Do the copies to the mesh that nothing else comes before."""
        while self._waiting and self._waiting[0][2]:
            self._next()

    def _next(self) -> None:
        task, act, _ = self._waiting.pop(0)
        _told(act)
        task.done = True

    def task_wait(self, task: Task) -> None:
        """Wait for what was not waited for."""
        if not task.done:
            self._finish()

    def is_task_done(self, task: Task) -> bool:
        """Whether `task` is done; one that waits is done now."""
        self.task_wait(task)
        return task.done


def _loaded(folder: Path) -> tuple[Program, Wafer]:
    def read() -> tuple[Program, Wafer]:
        artifact = read_artifact(folder)
        return artifact.program(), load(artifact.options.arch).value

    return _told(read)


def _told(act: Callable[[], Any]) -> Any:
    """`act()`, with what is wrong told as scripts expect it."""
    try:
        return act()
    except DiagnosticError as error:
        raise SdkError("\n" + render_all(error.diagnostics)) from None


def _asked(act: Callable[[], Any]) -> Any:
    """`act()`, with a wrong argument told as scripts expect it."""
    try:
        return act()
    except ValueError as error:
        raise SdkError(render_all([Diagnostic("E1052", str(error))])) from None


def _write_traces(path: Path, mesh: Simulation) -> None:
    traces = [
        {"x": x, "y": y, "key": key, "records": records} for (x, y, key), records in sorted(mesh.traces().items())
    ]
    if traces:
        path.write_text(json.dumps({"traces": traces}) + "\n", encoding="utf-8")
