"""Self-checking CSL programs: a folder with `layout.csl` and `check.toml`, run step by step as a host would.

check.toml:

    what = "..."                      what the program shows
    machines = ["wse2", "wse3"]       those it runs on; both when not given
    log = ["P0.0: text", ...]         what `<simprint>` wrote, by PE and then in order
    [params]                          of the layout
    [[step]]                          in order; one of
    write = "x"                       value (and count) of `type` to the exported x
    launch = "go"                     with `arguments`
    read = "y"                        count elements of `type`, and what to expect
    send = 7                          a host stream of that color
    receive = 6                       words of a host stream out of that color, and what to expect
    traces = "key"                    what to expect of the records of `<debug>` of the first PE

`at` is a region [x, y, width, height], the whole rectangle when not given. A value is a number, a list, or an
expression over NumPy's names, `i` (the element), `px` and `py` (the PE), and the symbols written so far, as arrays
[height, width, element] (without the first two where the program has one PE). What is read must be equal, or as close
as `tolerance` (relative) and `absolute` say.
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.csl.program import Program, compile_program
from tdslc.targets.wse.mesh.simulation import Simulation

PROGRAMS = Path(__file__).parent / "wse" / "programs"
MAX_CYCLES = 3_000_000
_TYPES = {"f32": "f4", "f16": "f2", "u32": "u4", "i32": "i4", "u16": "u2", "i16": "i2"}


@dataclass(slots=True)
class Host:
    """A running program and what the steps so far have given it."""

    simulation: Simulation
    width: int
    height: int
    written: dict[str, NDArray[Any]] = field(default_factory=dict)
    # Streams that come later than they are asked for: the step and its words.
    awaited: list[tuple[dict[str, Any], Any]] = field(default_factory=list)


def names(machine: str) -> list[str]:
    """The programs for `machine`."""
    found = sorted(path.parent.name for path in PROGRAMS.glob("*/check.toml"))
    return [name for name in found if machine in check_of(name).get("machines", ("wse2", "wse3"))]


def check_of(name: str) -> dict[str, Any]:
    return tomllib.loads((PROGRAMS / name / "check.toml").read_text(encoding="utf-8"))


def compiled_program(name: str, machine: str) -> Program:
    layout = PROGRAMS / name / "layout.csl"
    return compile_program(str(layout), load(machine).value.front_end, check_of(name).get("params"))


def run_checks(name: str, machine: str, engine: Any = "auto", trace: bool = False) -> Simulation:
    """Run the program `name` on `machine`; AssertionError where it does not do what its check says."""
    check, program = check_of(name), compiled_program(name, machine)
    simulation = Simulation(program, load(machine).value, engine=engine, max_cycles=MAX_CYCLES, trace=trace)
    host = Host(simulation, program.rectangle.width, program.rectangle.height)
    for step in check["step"]:
        _STEPS[next(key for key in _STEPS if key in step)](host, step)
    for step, pending in host.awaited:
        _compare(host, step, simulation.collect(pending).view(_dtype(step)))
    simulation.run("quiet")
    if "log" in check:
        assert _by_pe(simulation.log()) == check["log"]
    return simulation


def _write(host: Host, step: dict[str, Any]) -> None:
    data = _value(host, step, step["value"], np.shape(step["value"])[-1:] or (step.get("count"),))
    host.simulation.write(step["write"], *_region(host, step), data.view(f"u{data.itemsize}"))
    host.written[step["write"]] = data[0, 0] if host.width * host.height == 1 else data


def _launch(host: Host, step: dict[str, Any]) -> None:
    host.simulation.launch(step["launch"], step.get("arguments", ()))
    host.simulation.run("commands")


def _read(host: Host, step: dict[str, Any]) -> None:
    _compare(host, step, host.simulation.read(step["read"], *_region(host, step), step["count"], _dtype(step)))


def _send(host: Host, step: dict[str, Any]) -> None:
    data = _value(host, step, step["value"], (step["count"],))
    host.simulation.send(step["send"], *_region(host, step), data.view("u4"))


def _receive(host: Host, step: dict[str, Any]) -> None:
    pending = host.simulation.receive(step["receive"], *_region(host, step), step["count"])
    host.awaited.append((step, pending))


def _traces(host: Host, step: dict[str, Any]) -> None:
    host.simulation.run("quiet")
    assert host.simulation.traces()[0, 0, step["traces"]] == step["expect"]


_STEPS = {
    "write": _write, "launch": _launch, "read": _read, "send": _send, "receive": _receive, "traces": _traces,
}  # fmt: skip


def _dtype(step: dict[str, Any]) -> np.dtype[Any]:
    return np.dtype(_TYPES[step["type"]])


def _region(host: Host, step: dict[str, Any]) -> tuple[int, int, int, int]:
    x, y, w, h = step.get("at", (0, 0, host.width, host.height))
    return x, y, w, h


def _value(host: Host, step: dict[str, Any], value: Any, shape: tuple[Any, ...]) -> NDArray[Any]:
    """`value` for each PE of the step's region: [height, width, count], of the step's type."""
    x, y, w, h = _region(host, step)
    count = shape[0] if shape else 1
    if isinstance(value, str):
        py, px = np.mgrid[y : y + h, x : x + w, 0:1][:2]
        one = host.width * host.height == 1
        own = {"fft": np.fft, "i": np.arange(count), "px": 0 if one else px, "py": 0 if one else py}
        # Without overflow warnings: programs wrap on purpose.
        with np.errstate(all="ignore"):
            value = eval(value, {**vars(np), **own, **host.written})
        if np.size(value) == h * w * count:
            value = np.reshape(value, (h, w, count))
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value), (h, w, count)).astype(_dtype(step)))


def _compare(host: Host, step: dict[str, Any], got: NDArray[Any]) -> None:
    expected = _value(host, step, step["expect"], (step["count"],))
    said = step.get("read", step.get("receive"))
    close = {"rtol": step.get("tolerance", 0.0), "atol": step.get("absolute", 0.0)}
    if any(close.values()):
        np.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), **close, err_msg=str(said))
    else:
        np.testing.assert_array_equal(got.reshape(expected.shape), expected, err_msg=str(said))


def _by_pe(lines: list[str]) -> list[str]:
    """Lines without their cycles, those of a PE together and in their order."""
    texts = [line.partition(" ")[2] for line in lines]
    return sorted(texts, key=lambda text: [int(v) for v in text[1 : text.index(":")].split(".")])
