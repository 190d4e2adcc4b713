"""Check and run every program of a folder of public CSL programs, by its own scripts.

    python bench/csl_conformance.py FOLDER [--only NAME ...] [--jobs 2] [--write docs/csl-conformance.md]

FOLDER is a clone of Cerebras/sdk-examples. A program is a folder with `commands_wse3.sh` or `commands_wse2.sh`. Its
script runs unmodified, in a copy of the folder, under `tdslc csl exec`: it calls `cslc`, then its run.py, which copies
data in and out and compares results with what it computes itself. A program passes when its script ends well.
Needs `pip install 'tdslc[wse]' scipy`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tdslc.compiler.source import DiagnosticError, read_source
from tdslc.targets.wse.csl.parse import parse
from tdslc.targets.wse.host.cslc import check, read_options

# Seconds after which a program counts as failed.
LIMIT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Call:
    """One call of cslc of a program: what it says when it is checked."""

    name: str
    arch: str
    problem: str


@dataclass(frozen=True, slots=True)
class Result:
    """A program that was run on one machine."""

    name: str
    arch: str
    passed: bool
    detail: str
    seconds: float


def scripts(folder: Path) -> list[tuple[str, str, Path]]:
    """(program, machine, script): on wse3 where the program has a script for it, else on wse2."""
    found: dict[str, tuple[str, str, Path]] = {}
    for arch in ("wse2", "wse3"):
        for script in sorted(folder.rglob(f"commands_{arch}.sh")):
            found[script.parent.name] = (script.parent.name, arch, script)
    return [found[name] for name in sorted(found)]


def calls(script: Path) -> list[list[str]]:
    """The arguments of each call of cslc in a shell script."""
    text = re.sub(r"\\\n", " ", script.read_text())
    return [shlex.split(line)[1:] for line in text.splitlines() if re.match(r"\s*cslc\s", line)]


def checked(folder: Path) -> list[Call]:
    """Every call of cslc in every script, checked."""
    made: list[Call] = []
    for arch in ("wse2", "wse3"):
        for script in sorted(folder.rglob(f"commands_{arch}.sh")):
            for argv in calls(script):
                made.append(Call(script.parent.name, arch, problem_of(script.parent, argv)))
    return made


def problem_of(folder: Path, argv: list[str]) -> str:
    try:
        options = read_options(argv)
        check(replace(options, layout=str(folder / options.layout)))
    except DiagnosticError as error:
        return f"{error.diagnostics[0].code}: {error.diagnostics[0].message}"
    return ""


def run(name: str, arch: str, script: Path) -> Result:
    """Run one script where it stands."""
    start = time.perf_counter()
    program = "import sys; from tdslc.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "csl", "exec", *what_to_run(script)]
    process = subprocess.Popen(
        command, cwd=script.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return Result(name, arch, False, f"took more than {LIMIT_SECONDS} s", time.perf_counter() - start)
    return Result(name, arch, process.returncode == 0, detail_of(said, process.returncode), time.perf_counter() - start)


def what_to_run(script: Path) -> list[str]:
    """The script itself; of one that calls a macro which is not in the repository, the run.py that the macro runs."""
    macro = re.search(r"^%python_sdk_paint\b(.*)$", script.read_text(), re.MULTILINE)
    return ["run.py", *shlex.split(macro[1])] if macro else [script.name]


def detail_of(said: str, code: int) -> str:
    """What is wrong, in one line."""
    if code == 0:
        return ""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error[") or re.match(r"\w*(Error|Exception)\b", line)]
    return (errors or lines or [f"exit code {code}"])[0][:160]


def run_all(folder: Path, only: Sequence[str], jobs: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "programs"
        shutil.copytree(folder, copy)
        wanted = [s for s in scripts(copy) if not only or s[0] in only]
        with ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(lambda s: shown(run(*s)), wanted))


def shown(result: Result) -> Result:
    print(f"{'ok  ' if result.passed else 'FAIL'} {result.name} ({result.arch}) {result.seconds:.1f} s {result.detail}",
          flush=True)  # fmt: skip
    return result


def report(results: list[Result], made: list[Call], parsed: tuple[int, int]) -> str:
    good, fine = sum(r.passed for r in results), sum(not c.problem for c in made)
    lines = [
        "# Public CSL programs",
        "",
        "Written by `bench/csl_conformance.py` from a clone of Cerebras/sdk-examples (tag v2.10.0). Each program's own",
        "script runs unmodified under `tdslc csl exec`; *passed* means that it ended well, its comparisons included.",
        "",
        f"- {parsed[0]} of {parsed[1]} `.csl` files parse",
        f"- {fine} of {len(made)} calls of `cslc` (both machines) are checked without an error",
        f"- {good} of {len(results)} programs pass",
        "",
        "| program | machine | result |",
        "|---|---|---|",
    ]
    lines += [f"| {r.name} | {r.arch} | {'passed' if r.passed else 'failed: ' + r.detail} |" for r in results]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names of programs")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, help="write the report here")
    args = parser.parse_args()
    start = time.perf_counter()
    files = sorted(args.folder.rglob("*.csl"))
    parsed = sum(parse(read_source(path))[0] is not None for path in files)
    made = checked(args.folder)
    results = run_all(args.folder, args.only, args.jobs)
    text = report(results, made, (parsed, len(files)))
    if args.write:
        args.write.write_text(text)
    passed = sum(r.passed for r in results)
    print(f"{passed} of {len(results)} programs pass, in {time.perf_counter() - start:.0f} s")
    return int(passed < len(results))


if __name__ == "__main__":
    sys.exit(main())
