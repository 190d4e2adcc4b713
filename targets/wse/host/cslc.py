"""The command line of `cslc`, so that existing scripts check their programs with tdslc unchanged.

Options that concern only how the real compiler works are read and change nothing. Exit codes: 0, 1 for what is wrong
with the program, 2 for the command line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from ....compiler.source import Diagnostic, DiagnosticError, did_you_mean, has_errors, render_all
from ..chip import load
from ..csl.program import ParamValue, Program, compile_program

# Options with a value: the documented ones that mean something here, and those that are only read.
_MEANT = ("--arch", "--params", "--colors", "--fabric-dims", "--fabric-offsets", "-o", "--name", "--import-path")
_READ = (
    "--channels", "--width-west-buf", "--width-east-buf",
    "--max-inlined-iterations", "--max-parallelism", "--fp16-format",
)  # fmt: skip
_FLAGS = ("--memcpy", "--verbose")
_NUMBER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)")
_FLOAT = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Options:
    """A command line, read. `fabric` and `offsets` are (width, height) in PEs."""

    layout: str
    arch: str
    params: dict[str, ParamValue] = field(default_factory=dict[str, ParamValue])
    colors: dict[str, int] = field(default_factory=dict[str, int])
    fabric: tuple[int, int] | None = None
    offsets: tuple[int, int] = (0, 0)
    output: str | None = None
    import_paths: tuple[str, ...] = ()


def read_options(argv: Sequence[str]) -> Options:
    """`argv` without the name of the program. Raises DiagnosticError (E1050)."""
    layouts, given = _split(list(argv))
    if len(layouts) != 1:
        _refuse(f"{len(layouts)} files are named", "name the one with the layout")
    archs = given.get("--arch", [])
    if not archs or archs[-1] not in ("wse2", "wse3"):
        _refuse(
            "the machine is not named" if not archs else f"there is no machine {archs[-1]}",
            "write --arch=wse2 or --arch=wse3",
        )
    colors = {k: v for k, v in _pairs(given, "--colors").items() if isinstance(v, int)}
    fabric = given.get("--fabric-dims")
    return Options(
        layout=layouts[0],
        arch=archs[-1],
        params=_pairs(given, "--params"),
        colors=colors,
        fabric=_size(fabric[-1], "--fabric-dims") if fabric else None,
        offsets=_size(given.get("--fabric-offsets", ["0,0"])[-1], "--fabric-offsets"),
        output=(given.get("-o") or given.get("--name") or [None])[-1],
        import_paths=tuple(given.get("--import-path", [])),
    )


def _refuse(message: str, help: str | None) -> NoReturn:
    raise DiagnosticError(Diagnostic("E1050", message, help=help))


def _split(words: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Files, and the values of each option in order."""
    layouts: list[str] = []
    given: dict[str, list[str]] = {}
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            layouts.append(word)
        elif name in _FLAGS:
            given.setdefault(name, [])
        elif name in _MEANT or name in _READ:
            if not equals and not words:
                _refuse(f"`{name}` needs a value", None)
            given.setdefault(name, []).append(value if equals else words.pop(0))
        else:
            _refuse(f"there is no option `{name}`", did_you_mean(name, (*_MEANT, *_READ, *_FLAGS)))
    return layouts, given


def _pairs(given: dict[str, list[str]], option: str) -> dict[str, ParamValue]:
    """`a:1,b:2`, of every use of `option`."""
    found: dict[str, ParamValue] = {}
    for part in ",".join(given.get(option, [])).split(","):
        name, colon, text = part.partition(":")
        if part and not (colon and name and text):
            _refuse(f"`{option}` of `{part}` has no value", f"write {option}=name:value")
        if part:
            found[name] = _value(text)
    return found


def _value(text: str) -> ParamValue:
    if _NUMBER.fullmatch(text):
        return int(text, 16 if "x" in text else 10)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text == "true" if text in ("true", "false") else text


def _size(text: str, option: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(p.isdigit() for p in parts):
        _refuse(f"`{option}` is two numbers, not `{text}`", f"write {option}=8,3")
    return int(parts[0]), int(parts[1])


def check(options: Options) -> Program:
    """The program, checked. Raises DiagnosticError."""
    arch = load(options.arch).value.front_end
    return compile_program(
        options.layout, arch, options.params, options.fabric, options.offsets, options.import_paths, options.colors
    )


def main(argv: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Check a program as `cslc` would be asked to, tell what there is to tell, and write `<output>/out.json` with its
    params, which scripts read. Returns the exit code."""
    try:
        options = read_options(argv)
    except DiagnosticError as error:
        say(render_all(error.diagnostics))
        return 2
    try:
        program = check(options)
    except DiagnosticError as error:
        say(render_all(error.diagnostics))
        return 1
    if program.notes:
        say(render_all(program.notes))
    say(summary(program))
    if options.output is not None:
        from .artifact import write_artifact

        write_artifact(Path(options.output), tuple(argv), options)
    return int(has_errors(program.notes))


def summary(program: Program) -> str:
    """One line for the whole and one for each class of PEs."""
    r = program.rectangle
    lines = [f"{r.width} x {r.height} PEs on {program.arch.name}, {len(program.classes)} programs"]
    for made in program.classes:
        used = f"{made.memory.used_bytes:,} of {program.arch.memory_bytes:,} bytes of variables"
        tasks = ", ".join(f"{task.instance.name} ({task.kind} {task.id})" for task in made.tasks) or "no tasks"
        lines.append(f"  {len(made.x):>7,} PEs  {Path(made.path).name}: {tasks}; {used}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
