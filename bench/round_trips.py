"""ONNX's own backend tests through every format that models are written in, and back: `python bench/round_trips.py`.

Each case is imported, then written as .tdsl, as StableHLO and as ONNX. The .tdsl text must read back to the same graph;
the others must give what the graph gives, within the suite's tolerances: StableHLO by our importer and evaluator, ONNX
by onnxruntime as well. Needs the packages `onnx` and `onnxruntime` 1.32 or later.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_suite as suite

FORMATS = ("tdsl", "stablehlo", "onnx", "onnxruntime")
# Added to the suite's tolerances: f32 is rounded in another order where a composite is written as what it means.
RTOL, ATOL = 1e-5, 1e-6


@dataclass(frozen=True, slots=True)
class Sample:
    """A case as a graph: values of its inputs by name, of its params, and what it gives."""

    case: suite.Case
    graph: Any
    values: Mapping[str, Any]
    params: Mapping[str, Any]
    expected: Sequence[Any]


def samples(cases: Iterable[suite.Case]) -> Iterator[Sample]:
    """The first data set of each case that tdslc imports."""
    import onnx
    from tdslc.compiler.graph import evaluate
    from tdslc.compiler.source import DiagnosticError

    for case in cases:
        inputs, expected = case.data[0]
        if any(x is None for x in (*inputs, *expected)):
            continue
        model = onnx.load_from_string(case.model)
        own = {t.name for t in model.graph.initializer}
        infos = [i for i in model.graph.input if i.name not in own]
        given = dict(zip((i.name for i in infos), inputs, strict=True))
        try:
            made, bound = suite.import_with_binds(case, given, suite.dims_of(infos, given))
        except DiagnosticError:
            continue
        values = {made.renamed.get(name, name): x for name, x in given.items() if name not in bound}
        yield Sample(case, made.graph, values, made.params, evaluate(made.graph, values, made.params))


def outcome(sample: Sample, way: str) -> str:
    """ "" when the sample comes back from a format, "no kernel" where onnxruntime lacks one, else what differs."""
    from tdslc.compiler.source import DiagnosticError

    try:
        return _WAYS[way](sample)
    except DiagnosticError as error:
        return str(error).split("\n")[0]


def _differs(sample: Sample, outputs: Iterable[Any]) -> str:
    case = sample.case
    for got, want in zip(outputs, sample.expected, strict=True):
        wrong = suite.differs(np.asarray(got), want, max(case.rtol, RTOL), max(case.atol, ATOL))
        if wrong:
            return wrong
    return ""


def _tdsl(s: Sample) -> str:
    from tdslc.compiler.frontend.round_trip import difference, through_text

    return difference(through_text(s.graph), s.graph)


def _stablehlo(s: Sample) -> str:
    from tdslc.compiler.frontend.stablehlo import export_text, import_text
    from tdslc.compiler.graph import evaluate

    graph = import_text(export_text(s.graph)).graph
    both = {**s.values, **s.params}
    names = [str(n.attr("name")) for n in (*s.graph.inputs, *s.graph.params)]
    given = {str(n.attr("name")): both[name] for n, name in zip(graph.inputs, names, strict=True)}
    return _differs(s, evaluate(graph, given))


def _onnx(s: Sample) -> str:
    from tdslc.compiler.frontend.onnx import export_model, import_model
    from tdslc.compiler.graph import evaluate

    made = import_model(export_model(s.graph, s.params))
    given = {made.renamed.get(name, name): x for name, x in s.values.items()}
    return _differs(s, evaluate(made.graph, given, made.params))


def _onnxruntime(s: Sample) -> str:
    import onnx
    import onnxruntime as ort
    from tdslc.compiler.frontend.onnx import export_model

    data = export_model(s.graph, s.params)
    onnx.checker.check_model(data, full_check=True)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        return NO_KERNEL
    if any(word in o.type for o in (*session.get_inputs(), *session.get_outputs()) for word in ("bfloat16", "int4")):
        return NO_KERNEL
    return _differs(s, session.run(None, dict(s.values)))


NO_KERNEL = "no kernel"
_WAYS: dict[str, Callable[[Sample], str]] = {
    "tdsl": _tdsl, "stablehlo": _stablehlo, "onnx": _onnx, "onnxruntime": _onnxruntime,
}  # fmt: skip


def main() -> int:
    """Prints a row a tier; the exit code is 1 when a case of tier A does not come back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", help="a file that keeps the suite's cases, which take half a minute to make")
    cases = suite.node_cases(parser.parse_args().cache)
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        cases += suite.stored_cases(kind)
    counts: Counter[tuple[str, str, str]] = Counter()
    bad: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiers = {case.name: suite.tier(case)[0] for case in cases}
        for sample in samples(c for c in cases if tiers[c.name] in ("A", "B", "C")):
            for way in FORMATS:
                said = outcome(sample, way)
                kind = "same" if not said else said if said == NO_KERNEL else "other"
                counts[tiers[sample.case.name], way, kind] += 1
                bad += [f"{tiers[sample.case.name]} {sample.case.name}: {way}: {said}"] if kind == "other" else []
    print("tier  " + "".join(f"{way:>28}" for way in FORMATS))
    for tier in ("A", "B", "C"):
        cells = [{k: counts[tier, way, k] for k in ("same", "other", NO_KERNEL)} for way in FORMATS]
        print(f"{tier:4}  " + "".join(f"{_shown(cell):>28}" for cell in cells))
    print("\n".join(bad), file=sys.stderr)
    return int(any(line.startswith("A ") for line in bad))


def _shown(cell: Mapping[str, int]) -> str:
    asked = cell["same"] + cell["other"]
    return f"{cell['same']} of {asked}" + (f" ({cell[NO_KERNEL]} not run)" if cell[NO_KERNEL] else "")


if __name__ == "__main__":
    sys.exit(main())
