"""Golden tests of the command line: the files, the commands, and what they print.

    # run: tdslc check {file}
    # run: tdslc build main.tdsl --target mxu:v5e
    # process: yes

    === main.tdsl
    model f(x: f32[2]) -> f32[2]:
        return x
    === weights.bin python
    data = bytes(range(16))

`=== name` starts a file; after `=== name python` the text is a Python program that sets `data` (str or bytes). Without
any `===` the input is one file, `model.tdsl` or what `# file:` says; no input, no file. Commands run in a folder that
holds the files and nothing else. `{file}` is the first file, `{repo}` the project's folder. Commands run in this
process unless `# process: yes` asks for one of their own.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from golden import Case
from tree import ROOT

_FILE = re.compile(r"^=== (\S+)( python)?\n", re.MULTILINE)
# Nothing of the machine the tests run on may show.
_ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
_PROCESS_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command printed and how it ended."""

    stdout: str
    stderr: str
    code: int


def run_case(case: Case, folder: Path) -> str:
    """Run the commands of `case` in `folder`; what they did, as golden files write it."""
    files = write_files(case, folder)
    run = run_process if case.get("process", "no") == "yes" else run_here
    return "".join(_transcript(line, run(_words(line, files), folder), folder) for line in case.all("run"))


def write_files(case: Case, folder: Path) -> list[str]:
    """Write the files of `case` into `folder`; their names in order."""
    pieces = _FILE.split(case.input)
    if len(pieces) == 1:
        pieces = [case.input, case.get("file", "model.tdsl"), "", case.input] if case.input.strip() else [""]
    elif pieces[0].strip():
        raise ValueError(f"{case.path}: text before the first `=== name`")
    names: list[str] = []
    for name, python, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_made(text) if python else text.encode())
        names.append(name)
    return names


def run_here(words: list[str], folder: Path) -> Outcome:
    """Run `tdslc` with the arguments `words` in this process, in `folder`."""
    from tdslc.cli import main

    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = 0
    with _inside(folder, words), contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            code = _exit_code(main())
        except SystemExit as stop:
            code = _exit_code(stop.code)
    return Outcome(_text(stdout), _text(stderr), code)


def run_process(words: list[str], folder: Path) -> Outcome:
    """Run `tdslc` with the arguments `words` in a process of its own, in `folder`."""
    command = [sys.executable, "-c", "import sys; from tdslc.cli import main; sys.exit(main())", *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **_ENVIRONMENT},
        capture_output=True,
        timeout=_PROCESS_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    return Outcome(done.stdout.decode(), done.stderr.decode(), done.returncode)


def _words(line: str, files: list[str]) -> list[str]:
    program, *words = shlex.split(line)
    if program != "tdslc":
        raise ValueError(f"only tdslc can be run, not {program}")
    places = {"{repo}": str(ROOT), "{file}": files[0] if files else "{file}"}
    for place, value in places.items():
        words = [word.replace(place, value) for word in words]
    return words


def _transcript(line: str, outcome: Outcome, folder: Path) -> str:
    text = f"$ {line}\n"
    for name, printed in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
        if printed:
            text += f"[{name}]\n{printed.rstrip(chr(10))}\n"
    text += f"[exit {outcome.code}]\n"
    return text.replace(str(folder), "{folder}").replace(str(ROOT), "{repo}")


def _made(program: str) -> bytes:
    names: dict[str, object] = {}
    exec(program, names)
    data = names["data"]
    return data.encode() if isinstance(data, str) else bytes(data)  # type: ignore[call-overload]


@contextlib.contextmanager
def _inside(folder: Path, words: list[str]) -> Iterator[None]:
    """The process as a newly started `tdslc` would find it: folder, arguments, environment, no input."""
    before, arguments, environment, stdin = os.getcwd(), sys.argv, dict(os.environ), sys.stdin
    os.chdir(folder)
    sys.argv = ["tdslc", *words]
    os.environ.update(_ENVIRONMENT)
    sys.stdin = io.StringIO()
    try:
        yield
    finally:
        os.chdir(before)
        sys.argv, sys.stdin = arguments, stdin
        os.environ.clear()
        os.environ.update(environment)


def _exit_code(value: object) -> int:
    return value if isinstance(value, int) else 0 if value is None else 1


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
