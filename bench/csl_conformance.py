"""Check every program of a folder of public CSL programs, as its own scripts would compile it.

    python bench/csl_conformance.py FOLDER [--write docs/csl-conformance.md]

FOLDER is a clone of Cerebras/sdk-examples. A program is a folder with `commands_wse2.sh` or `commands_wse3.sh`; each
call of `cslc` in them is checked. Folders without one (their run.py places code by itself) are parsed only.
"""

import argparse
import re
import shlex
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tdslc.compiler.source import DiagnosticError, read_source
from tdslc.targets.wse.csl.parse import parse
from tdslc.targets.wse.host.cslc import check, read_options


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    arch: str
    pes: int
    programs: int
    seconds: float
    problem: str


def calls(script: Path) -> list[list[str]]:
    """The arguments of each call of cslc in a shell script."""
    text = re.sub(r"\\\n", " ", script.read_text())
    return [shlex.split(line)[1:] for line in text.splitlines() if re.match(r"\s*cslc\s", line)]


def checked(name: str, arch: str, folder: Path, argv: list[str]) -> Result:
    start = time.perf_counter()
    try:
        options = read_options(argv)
        program = check(replace(options, layout=str(folder / options.layout)))
    except DiagnosticError as error:
        first = error.diagnostics[0]
        return Result(name, arch, 0, 0, time.perf_counter() - start, f"{first.code}: {first.message}")
    r = program.rectangle
    return Result(name, arch, r.width * r.height, len(program.classes), time.perf_counter() - start, "")


def run(folder: Path) -> list[Result]:
    results: list[Result] = []
    for arch in ("wse2", "wse3"):
        for script in sorted(folder.rglob(f"commands_{arch}.sh")):
            results += [checked(script.parent.name, arch, script.parent, argv) for argv in calls(script)]
    return results


def report(results: list[Result], parsed: tuple[int, int], seconds: bool) -> str:
    good = sum(not r.problem for r in results)
    lines = [
        "# Public CSL programs",
        "",
        "Written by `bench/csl_conformance.py` from a clone of Cerebras/sdk-examples. *Checked*: layout and comptime",
        "code evaluated, everything that is reached type-checked. Programs are not yet run.",
        "",
        f"- {parsed[0]} of {parsed[1]} `.csl` files parse",
        f"- {good} of {len(results)} calls of `cslc` are checked without an error",
        "",
        "| program | machine | PEs | code classes | result |",
        "|---|---|---|---|---|",
    ]
    for r in results:
        took = f" ({r.seconds:.2f} s)" if seconds else ""
        lines.append(f"| {r.name} | {r.arch} | {r.pes or ''} | {r.programs or ''} | {r.problem or 'checked'}{took} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, help="write the report here")
    args = parser.parse_args()
    files = sorted(args.folder.rglob("*.csl"))
    parsed = sum(parse(read_source(path))[0] is not None for path in files)
    results = run(args.folder)
    if args.write:
        args.write.write_text(report(results, (parsed, len(files)), seconds=False))
    print(report(results, (parsed, len(files)), seconds=True))
    return int(any(r.problem for r in results))


if __name__ == "__main__":
    sys.exit(main())
