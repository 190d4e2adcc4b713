"""Runs suites of tests that others wrote, and says what passed: `python bench/conformance.py --help`.

    python bench/conformance.py --write     # ONNX's backend tests, evaluator and mxu:v5e, into docs/conformance.md

A case counts as passed when it was imported, run and compared, within the suite's own tolerances, and in no other case.
Needs `pip install 'tdslc[onnx]'`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx_suite as suite

DOCS = Path(__file__).parent.parent / "docs" / "conformance.md"
TIERS = {
    "A": "node, tier A: f32, i32, i64, bool; operators that networks use",
    "B": "node, tier B: other integers, f16, bf16, f64",
    "C": "node, tier C: operators that few networks use",
    "expanded": "node, the same cases with operators written out as functions (`_expanded`)",
    "pytorch-converted": "pytorch-converted",
    "pytorch-operator": "pytorch-operator",
    "simple": "simple, in scope",
    "outside": "node and simple, outside the scope, run all the same",
}


@dataclass(slots=True)
class Section:
    """The outcomes of one tier, in the evaluator and on a target."""

    title: str
    evaluated: list[suite.Outcome] = field(default_factory=list)
    compiled: list[suite.Outcome] = field(default_factory=list)


def main(args: Sequence[str]) -> int:
    """The command. 1 when a tier misses what is asked of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="mxu:v5e", help="where graphs are compiled to; 'none' to evaluate only")
    parser.add_argument("--cache", help="a file that keeps the node cases, which take some 20 s to make")
    parser.add_argument("--match", default="", help="only cases whose name holds this")
    parser.add_argument("--tiers", default=",".join(TIERS), help="tiers to run, separated by commas")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/conformance.md")
    parser.add_argument("--verbose", action="store_true", help="print each case that does not pass")
    given = parser.parse_args(args)
    wanted = given.tiers.split(",")
    started = time.perf_counter()
    machine = None if given.target == "none" else suite.Machine(given.target)
    sections, outside = run(wanted, given.cache, given.match, machine, given.verbose)
    seconds = time.perf_counter() - started
    text = report(sections, outside, given.target)
    print(text)
    print(f"{seconds:.0f} s", file=sys.stderr)
    if given.write:
        write_section("onnx", text)
    return 0


def run(
    wanted: Sequence[str], cache: str | None, match: str, machine: suite.Machine | None, verbose: bool
) -> tuple[dict[str, Section], dict[str, str]]:
    """Sections by tier, and the reason why a case is outside the scope by its name."""
    cases = [*suite.node_cases(cache)]
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        cases += suite.stored_cases(kind)
    sections = {name: Section(title) for name, title in TIERS.items() if name in wanted}
    outside: dict[str, str] = {}
    for case in cases:
        name, reason = place(case)
        if reason:
            outside[case.name] = reason
        if name not in sections or match not in case.name:
            continue
        section = sections[name]
        section.evaluated += _run(case, None, verbose)
        if machine is not None:
            section.compiled += _run(case, machine, verbose)
    return sections, outside


def place(case: suite.Case) -> tuple[str, str]:
    """(tier, why it is outside the scope or "")."""
    name, reason = suite.tier(case)
    if case.kind == "simple" and reason in (suite.SEQUENCE, suite.DYNAMIC):
        return "simple", ""  # what they take and give are tensors
    if name in ("out", "training"):
        return "outside", reason
    if "_expanded" in case.name:
        return "expanded", ""
    return (case.kind if case.kind != "node" else name), ""


def _run(case: suite.Case, machine: suite.Machine | None, verbose: bool) -> list[suite.Outcome]:
    found = [outcome for _, outcome in suite.outcomes([case], machine)]
    if verbose:
        for o in found:
            if o.status != "passed":
                print(f"{'compiled ' if machine else ''}{o.status}: {o.name}: {o.reason}", file=sys.stderr)
    return found


def report(sections: dict[str, Section], outside: dict[str, str], target: str) -> str:
    """The tables as Markdown."""
    import onnx

    lines = [
        f"## ONNX backend tests (onnx {onnx.__version__})", "",
        "Run by `python bench/conformance.py --write`; tolerances are the suite's own. *Bound* are cases of which an",
        "input (a shape, axes, pads, k …) had to be known at import and was bound to its value, as `--bind` does.", "",
        f"| cases | in all | bound | evaluator | {target} |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for s in sections.values():
        if s.evaluated:
            bound = sum(bool(o.bound) for o in s.evaluated)
            lines.append(f"| {s.title} | {len(s.evaluated)} | {bound} | {share(s.evaluated)} | {share(s.compiled)} |")
    lines += [
        "",
        "Outside the scope, by reason:",
        "",
        "| reason | cases | passed all the same (evaluator) |",
        "|---|---|---|",
    ]
    ran = {o.name: o for o in sections["outside"].evaluated} if "outside" in sections else {}
    for reason, count in sorted(Counter(outside.values()).items()):
        passed = sum(
            1 for name, why in outside.items() if why == reason and name in ran and ran[name].status == "passed"
        )
        lines.append(f"| {reason} | {count} | {passed} |")
    lines += ["", "### Cases that did not pass", ""]
    for s in sections.values():
        bad = [*_bad(s.evaluated, "evaluator"), *_bad(s.compiled, target)]
        if bad:
            lines += [f"{s.title}:", "", *bad, ""]
    return "\n".join(lines).rstrip() + "\n"


def share(outcomes: Sequence[suite.Outcome]) -> str:
    """`790 passed, 4 failed (99.5 %)`."""
    if not outcomes:
        return "not run"
    counts = Counter(o.status for o in outcomes)
    parts = [f"{counts[status]} {status}" for status in ("passed", "failed", "refused", "skipped") if counts[status]]
    return f"{', '.join(parts)} ({100 * counts['passed'] / len(outcomes):.1f} %)"


def _bad(outcomes: Iterable[suite.Outcome], where: str) -> list[str]:
    """One line a reason, with the names of its cases."""
    names: dict[tuple[str, str], list[str]] = {}
    for o in outcomes:
        if o.status != "passed":
            names.setdefault((o.status, _reason(o.reason)), []).append(o.name.removeprefix("test_"))
    return [f"- {where}, {status}: {reason}: {', '.join(cases)}" for (status, reason), cases in sorted(names.items())]


def _reason(text: str) -> str:
    """A reason without the node's name, so that cases of one reason stand together."""
    text = text.partition("]: ")[2] or text
    return text.replace("<bytes>: ", "").replace("|", "/")


def write_section(name: str, text: str) -> None:
    """Put `text` between the marks of its section of docs/conformance.md; a new section goes to the end."""
    begin, end = f"<!-- {name}: begin, written by bench/ -->", f"<!-- {name}: end -->"
    old = DOCS.read_text(encoding="utf-8") if DOCS.exists() else "# Conformance\n"
    if begin not in old:
        old = f"{old.rstrip()}\n\n{begin}\n{end}\n"
    before, _, rest = old.partition(begin)
    DOCS.write_text(f"{before}{begin}\n{text}{end}{rest.partition(end)[2]}", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
