"""How much of StableHLO's own test data tdslc gets right, by the checks the data itself states.

    python bench/stablehlo_conformance.py STABLEHLO [--target mxu:v5e [--core] [--every N]] [--only PATTERN]
                                          [--write docs/conformance.md --revision COMMIT]

STABLEHLO is a checkout of https://github.com/openxla/stablehlo (Apache-2.0), of which nothing is kept here. Cases are
the files of `stablehlo/testdata` and the chunks of `stablehlo/tests/interpret`. A case passes when every one of its
checks holds: `expect_eq` (equal, NaN being equal to NaN), `expect_almost_eq` (within a tolerance, 1e-4 unless stated),
`expect_close` (within units in the last place, 1 unless stated). Nothing counts as passed that did not run.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from tdslc.compiler.build import driver
from tdslc.compiler.build.api import Build
from tdslc.compiler.build.options import BuildOptions
from tdslc.compiler.build.search import Searcher
from tdslc.compiler.frontend.stablehlo import import_module, read_module
from tdslc.compiler.frontend.stablehlo.literals import decode
from tdslc.compiler.frontend.stablehlo.syntax import Argument, Block, Dense, Function, Module, Operation
from tdslc.compiler.frontend.stablehlo.types import NoTensor, tensor_type
from tdslc.compiler.graph import Graph, NDArray, evaluate, show
from tdslc.compiler.graph.dtypes import NARROW_FLOATS
from tdslc.compiler.source import DiagnosticError, SourceFile

SECONDS = 120
NEARER = "ours is nearer the result in f64"
# What no static, real-valued tensor program on one device holds: (reason, what its text has).
OUT_OF_SCOPE = (
    ("complex numbers", re.compile(r"complex<|stablehlo\.(fft|complex|real|imag)\b")),
    ("quantised types", re.compile(r"!quant\.")),
    (
        "several devices",
        re.compile(r"interpreter\.run_parallel|stablehlo\.(all_|collective_|reduce_scatter|send|recv)"),
    ),
    (
        "element types that tdslc lacks",
        re.compile(r"(?<=[<x])(f4E\w+|f6E\w+|f8E3M4|f8E4M3(?!FN>)\w*|f8E5M2\w+|f8E8M0FNU|u?i2)>"),
    ),
    ("dynamic shapes", re.compile(r"tensor<[^<>]*\?")),
    ("side effects", re.compile(r"stablehlo\.(infeed|outfeed|after_all)|interpreter\.|expect_serialized_eq|tuple<")),
)
CORE_TYPES = frozenset(("f32", "i32", "i64", "i1", "ui32"))
NOT_CORE = re.compile(r"scatter|stablehlo\.(while|sort|triangular_solve|rng)|chlo\.")
CHECK = re.compile(r"check\.(expect_\w+)")


@dataclass(frozen=True, slots=True)
class Case:
    """One file or chunk: its text, and the suite and family it counts for."""

    suite: str
    family: str
    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """Where cases are compiled to, and the one worker for all searches: to start one takes longer than most builds."""

    spec: str
    searcher: Searcher


@dataclass(frozen=True, slots=True)
class Check:
    """`got` is to be `want`: a value's name or a literal. `most` is the tolerance or the units in the last place."""

    kind: str
    got: str
    want: str | Dense
    most: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """passed, failed, refused, slow or out of scope, and why."""

    state: str
    why: str = ""


# ---- cases -------------------------------------------------------------------------------------------


def testdata(root: Path) -> Iterator[Case]:
    for path in sorted((root / "stablehlo/testdata").glob("*.mlir")):
        family = re.split(r"_(?:dtypes|shape|bfloat|float|u?int\d|bool|complex|$)", path.stem)[0].removesuffix("_")
        yield Case("testdata", family, path.stem, path.read_text())


def interpreted(root: Path) -> Iterator[Case]:
    folder = root / "stablehlo/tests/interpret"
    for path in sorted(folder.rglob("*.mlir")):
        for i, text in enumerate(path.read_text().split("// -----")):
            if "func.func" in text:
                yield Case("interpret", path.stem, f"{path.stem}#{i}", text)


def out_of_scope(case: Case) -> str | None:
    code = re.sub(r"//[^\n]*", "", case.text)
    return next((why for why, pattern in OUT_OF_SCOPE if pattern.search(code)), None)


def is_core(case: Case) -> bool:
    """Whether a file of the test data has mainstream operations and types only."""
    types = {t.rsplit("x", 1)[-1] for t in re.findall(r"tensor<([\w]*)>", case.text)}
    return case.suite == "testdata" and types <= CORE_TYPES and not NOT_CORE.search(case.text)


# ---- checks as outputs ---------------------------------------------------------------------------------


def split(module: Module) -> tuple[Module, list[Check], dict[str, str]]:
    """(the module with what is checked as results of its checked function, the checks, calls of @inputs and @expected).

    Results of those calls become arguments, so that what is computed is computed from inputs and not from literals.
    """
    main = next(
        f for f in module.functions.values() if f.body and any(CHECK.search(_title(o)) for o in f.body.operations)
    )
    assert main.body is not None
    checks, kept, given, arguments = list[Check](), list[Operation](), dict[str, str](), list[Argument]()
    for op in main.body.operations:
        callee = op.attributes.get("callee")
        called = getattr(callee, "name", "") if op.name == "func.call" else ""
        if CHECK.search(_title(op)):
            checks.append(_check(op))
        elif called in ("inputs", "expected") and not op.operands:
            given.update(dict.fromkeys(op.results, called))
            arguments += [Argument(n, t, {}) for n, t in zip(op.results, op.result_types, strict=True)]
        else:
            kept.append(op)
    wanted = dict.fromkeys(
        n for c in checks for n in (c.got, c.want) if isinstance(n, str) and given.get(n) != "expected"
    )
    last = kept[-1]
    kept[-1] = replace(last, name="func.return", operands=tuple(wanted), operand_types=())
    used = {n for o in _all(kept) for n in o.operands}
    body = Block(tuple(a for a in arguments if a.name in used), tuple(kept))
    function = Function("main", body.arguments, (), (), True, body, main.start, main.end)
    others = {n: f for n, f in module.functions.items() if f is not main}
    return replace(module, functions={"main": function, **others}), checks, given


def _all(operations: Sequence[Operation]) -> Iterator[Operation]:
    for op in operations:
        yield op
        for block in op.regions:
            yield from _all(block.operations)


def _title(op: Operation) -> str:
    return f"{op.name} @{op.attributes.get('call_target_name', '')}" if op.name == "stablehlo.custom_call" else op.name


def _check(op: Operation) -> Check:
    found = CHECK.search(_title(op))
    assert found is not None
    kind = found[1].removesuffix("_const")
    most = op.attributes.get("max_ulp_difference" if kind == "expect_close" else "tolerance")
    default = {"expect_close": 1.0, "expect_almost_eq": 1e-4}.get(kind, 0.0)
    want = op.operands[1] if len(op.operands) > 1 else op.attributes["value"]
    assert isinstance(want, str | Dense)
    if isinstance(want, Dense) and not want.type:  # its type ends the operation
        want = replace(want, type=op.operand_types[-1])
    return Check(kind, op.operands[0], want, float(most) if isinstance(most, int | float) else default)


def holds(check: Check, got: NDArray, want: NDArray) -> bool:
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if got.dtype.kind in "iub" or got.dtype.name in ("int4", "uint4"):
        return bool(np.array_equal(got, want))
    x, y = got.astype(np.float64), want.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    if check.kind == "expect_close":
        return bool(np.all(same | (_ulps(got, want) <= check.most)))
    if check.kind == "expect_almost_eq":
        with np.errstate(all="ignore"):
            return bool(np.all(same | (np.abs(x - y) <= check.most)))
    return bool(np.all(same))


def _ulps(x: NDArray, y: NDArray) -> NDArray:
    """Representable numbers between finite floats; infinite where one is not finite."""
    whole = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]

    def place(v: NDArray) -> NDArray:
        bits = np.ascontiguousarray(v).reshape(v.shape).view(whole).astype(object)
        sign = 1 << (8 * v.dtype.itemsize - 1)
        return np.where(bits < 0, -(bits + sign), bits)

    finite = np.isfinite(x.astype(np.float64)) & np.isfinite(y.astype(np.float64))
    return np.where(finite, np.abs(place(x) - place(y)), np.inf).astype(np.float64)


# ---- running -------------------------------------------------------------------------------------------


class Slow(Exception):
    pass


def _alarm(*_: object) -> None:
    raise Slow


def run(case: Case, target: Target | None) -> Outcome:
    """The outcome of one case, in the evaluator or compiled for `target`."""
    why = out_of_scope(case)
    if why:
        return Outcome("out of scope", why)
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(SECONDS)
    try:
        return _run(case, target)
    except Slow:
        return Outcome("slow", f"more than {SECONDS} s")
    except DiagnosticError as error:
        return Outcome("refused", error.diagnostics[0].message)
    except Exception as error:  # noqa: BLE001 - a crash of ours is a failure to report, and the suite goes on
        return Outcome("failed", f"{type(error).__name__}: {error}"[:160])
    finally:
        signal.alarm(0)


def _run(case: Case, target: Target | None) -> Outcome:
    module = read_module(SourceFile(f"{case.name}.mlir", case.text))
    if not any(CHECK.search(_title(o)) for f in module.functions.values() if f.body for o in f.body.operations):
        return Outcome("out of scope", "nothing is checked")
    split_module, checks, given = split(module)
    main = split_module.functions["main"]
    values = _given(split_module, module, given)
    graph = import_module(split_module, entry="main").graph
    inputs = {str(n.attr("name")): values[a.name] for n, a in zip(graph.inputs, main.arguments, strict=True)}
    assert main.body is not None
    results = dict(zip(main.body.operations[-1].operands, _outputs(graph, inputs, target), strict=True))
    results.update(values)
    for check in checks:
        want = results[check.want] if isinstance(check.want, str) else _literal(check.want)
        got = results[check.got]
        if not holds(check, got, want):
            place = list(main.body.operations[-1].operands).index(check.got)
            nearer = check.kind != "expect_eq" and _nearer(got, want, graph, inputs, place)
            return Outcome("failed", f"{check.kind}: {_difference(got, want)}{'; ' + NEARER if nearer else ''}")
    return Outcome("passed")


def _nearer(got: NDArray, want: NDArray, graph: Graph, inputs: Mapping[str, NDArray], place: int) -> bool:
    """Whether what we got is no further from the result in f64 than what is expected; not of f64 itself."""
    if got.dtype != want.dtype or got.dtype.itemsize == 8 or got.dtype.kind in "iub" or got.shape != want.shape:
        return False
    exact = evaluate(graph, inputs, wide=True)[place].astype(np.float64)
    known = np.isfinite(exact) & np.isfinite(got.astype(np.float64)) & np.isfinite(want.astype(np.float64))
    mine, theirs = (np.abs(np.where(known, v.astype(np.float64) - exact, 0)) for v in (got, want))
    return bool(np.max(mine, initial=0) <= np.max(theirs, initial=0) and np.sum(mine) <= np.sum(theirs))


def _given(split_module: Module, module: Module, given: Mapping[str, str]) -> dict[str, NDArray]:
    """The values that @inputs and @expected return, by the names they have in the checked function."""
    values: dict[str, NDArray] = {}
    for called in dict.fromkeys(given.values()):
        outputs = evaluate(import_module(module, entry=called).graph, {})
        values.update(zip((n for n, f in given.items() if f == called), outputs, strict=True))
    return values


def _outputs(graph: Graph, inputs: Mapping[str, NDArray], target: Target | None) -> Sequence[NDArray]:
    if target is None:
        return evaluate(graph, inputs)
    made = Build(driver.build(BuildOptions(graph, target.spec), searcher=target.searcher)).run(inputs).outputs
    return [made[name] for name in graph.output_names]


def _literal(dense: Dense) -> NDArray:
    t = tensor_type(dense.type)
    assert not isinstance(t, NoTensor)
    array = decode(dense.body, t)
    return np.broadcast_to(array, t.shape)


def _difference(got: NDArray, want: NDArray) -> str:
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if got.dtype.kind == "f" or got.dtype in NARROW_FLOATS:
        x, y = got.astype(np.float64), want.astype(np.float64)
        ulps = _ulps(got, want)
        ulps = np.where(np.isnan(x) & np.isnan(y) | (x == y), 0, ulps)
        at = np.unravel_index(int(np.argmax(ulps)), got.shape)
        beyond = f"{int(np.sum(ulps > 1))} of {got.dtype}[{got.size}] beyond 1"
        return f"{np.max(ulps):.0f} ulp ({x[at]!r} instead of {y[at]!r}), {beyond}"
    wrong = np.asarray(got != want)
    at = np.unravel_index(int(np.argmax(wrong)), got.shape)
    return f"{got[at]!r} instead of {want[at]!r}, {int(np.sum(wrong))} of {got.size} differ"


def unlike_jaxlib(cases: Sequence[Case]) -> list[str]:
    """Names of cases whose graph differs when jaxlib has read the text and printed its generic form. Needs JAX."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    def imported(case: Case, text: str) -> str:
        try:
            shown = show(import_module(split(read_module(SourceFile("case.mlir", text)))[0], entry="main").graph)
        except DiagnosticError as error:
            return str(error)
        return re.sub(r' @"[^"]*"|name="[^"]*"', "", shown)

    unlike: list[str] = []
    with mlir.make_ir_context():
        for case in cases:
            generic = ir.Module.parse(case.text).operation.get_asm(print_generic_op_form=True)
            if imported(case, case.text) != imported(case, str(generic)):
                unlike.append(case.name)
    return unlike


# ---- the report ----------------------------------------------------------------------------------------

BEGIN, END = "<!-- stablehlo: written by bench/stablehlo_conformance.py -->", "<!-- stablehlo: end -->"


def report(rows: Sequence[tuple[Case, Outcome]], title: str, revision: str) -> str:
    """The figures as Markdown, every case that did not pass by name."""
    lines = [
        f"### {title}",
        "",
        "| set | cases | passed | failed | refused | slow |",
        "|---|---|---|---|---|---|",
    ]
    sets = {
        "testdata, static and not complex": [r for r in rows if r[0].suite == "testdata"],
        "of these, core operations and types": [r for r in rows if is_core(r[0])],
        "tests/interpret, in scope": [r for r in rows if r[0].suite == "interpret"],
    }
    for name, chosen in sets.items():
        ran = [o for _, o in chosen if o.state != "out of scope"]
        if not ran:
            continue
        count = Counter(o.state for o in ran)
        share = f" ({100 * count['passed'] / len(ran):.1f} %)"
        numbers = " | ".join(str(count[k]) for k in ("failed", "refused", "slow"))
        lines.append(f"| {name} | {len(ran)} | {count['passed']}{share} | {numbers} |")
    outside = Counter((c.suite, o.why) for c, o in rows if o.state == "out of scope")
    if outside:
        listed = ", ".join(f"{n} of {suite} ({why})" for (suite, why), n in sorted(outside.items()))
        lines += ["", f"Out of scope: {listed}."]
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case, outcome in rows:
        if outcome.state not in ("passed", "out of scope"):
            groups[outcome.state, _reason(outcome)].append(case.name)
    if groups:
        lines += ["", "| not passed | why | cases |", "|---|---|---|"]
        lines += [
            f"| {state} | {why} | {', '.join(f'`{n}`' for n in names)} |"
            for (state, why), names in sorted(groups.items())
        ]
    return "\n".join([*lines, "", f"StableHLO revision {revision}."])


def _reason(outcome: Outcome) -> str:
    """The reason without the numbers that differ from case to case."""
    kind, _, rest = outcome.why.partition(": ")
    if outcome.state == "failed" and kind.startswith("expect"):
        of_f64 = "; of f64" if "float64[" in rest else ""
        return f"{kind}: other values{f', {NEARER}' if NEARER in rest else of_f64}"
    return re.sub(r"`?tensor<[^>]*>>?`?", "a tensor", outcome.why).replace("|", "\\|")[:140]


def write(path: Path, sections: Mapping[str, str]) -> None:
    """Puts the sections between this script's markers in `path`, which is made when absent."""
    body = "\n\n".join(sections.values())
    section = f"{BEGIN}\n## StableHLO\n\nMade by `bench/stablehlo_conformance.py`.\n\n{body}\n{END}"
    text = path.read_text() if path.exists() else "# Conformance\n"
    found = re.search(f"{re.escape(BEGIN)}.*{re.escape(END)}", text, re.DOTALL)
    path.write_text(text.replace(found[0], section) if found else f"{text.rstrip()}\n\n{section}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", help="compile and run there as well")
    parser.add_argument("--core", action="store_true", help="with --target: only the core set")
    parser.add_argument(
        "--every", type=int, default=1, help="with --target: of the cases that are not core only each N-th"
    )
    parser.add_argument("--only", default="", help="names that match this pattern")
    parser.add_argument("--suite", default="", help="testdata or interpret")
    parser.add_argument("--no-reference", action="store_true", help="not in the evaluator")
    parser.add_argument("--revision", default="unknown", help="the commit of the checkout")
    parser.add_argument("--write", type=Path, help="the file whose section is rewritten")
    parser.add_argument("--jaxlib", action="store_true", help="compare with jaxlib's reader instead; needs JAX")
    options = parser.parse_args()
    cases = [
        c for c in (*testdata(options.folder), *interpreted(options.folder))
        if re.search(options.only, c.name) and options.suite in c.suite
    ]  # fmt: skip
    if options.jaxlib:
        inside = [c for c in cases if c.suite == "testdata" and not out_of_scope(c)]
        unlike = unlike_jaxlib(inside)
        print(f"{len(inside) - len(unlike)} of {len(inside)} texts read as jaxlib reads them", *unlike, sep="\n")
        return
    sections: dict[str, str] = {}
    if not options.no_reference:
        sections["reference"] = report(_all_of(cases, None), "In the reference evaluator", options.revision)
    if options.target:
        inside = [c for c in cases if not out_of_scope(c)]
        core = [c for c in inside if is_core(c)]
        others = [] if options.core else [c for c in inside if not is_core(c)][:: options.every]
        which = "the core set" + ("" if options.core else f" and each {options.every}th of the other cases")
        title = f"Compiled with all rules and run on `{options.target}`: {which}"
        sections[options.target] = report(_all_of([*core, *others], options.target), title, options.revision)
    print("\n\n".join(sections.values()))
    if options.write:
        write(options.write, sections)


def _all_of(cases: Sequence[Case], spec: str | None) -> list[tuple[Case, Outcome]]:
    rows: list[tuple[Case, Outcome]] = []
    start = time.perf_counter()
    with Searcher() if spec else nullcontext() as searcher:
        target = Target(spec, searcher) if spec and searcher else None
        for case in cases:
            outcome = run(case, target)
            rows.append((case, outcome))
            if outcome.state not in ("passed", "out of scope"):
                print(f"{case.suite} {case.name}: {outcome.state}: {outcome.why}", file=sys.stderr)
    print(f"{len(rows)} cases in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return rows


if __name__ == "__main__":
    main()
