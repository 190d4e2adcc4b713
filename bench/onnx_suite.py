"""The cases of onnx.backend.test: loading them, sorting them into tiers, running one in the evaluator or on a machine.

Needs the packages `onnx` and tdslc; `conformance.py` is the command. Nothing here decides what a case should give:
inputs, expected outputs and tolerances are the suite's own.
"""

from __future__ import annotations

import glob
import os
import pickle
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Operators of models that train, of classical machine learning, and those that few networks use.
OTHER_DOMAINS = ("ai.onnx.ml", "ai.onnx.preview.training", "ai.onnx.preview", "ai.onnx.training")
CONTROL = ("If", "Loop", "Scan")
SEQUENCES = re.compile(r"Sequence(?!.*Reverse)|Optional|ConcatFromSequence")
STRINGS = ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer")
RANDOM = ("Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial")
DATA_SHAPES = ("NonZero", "Unique", "Compress", "NonMaxSuppression")
NICHE = (
    "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "GridSample", "RoiAlign", "DFT", "STFT", "HannWindow",
    "HammingWindow", "BlackmanWindow", "MelWeightMatrix", "ImageDecoder", "DeformConv", "LinearAttention",
    "CausalConvWithState", "Col2Im", "MaxUnpool", "AffineGrid", "Det", "BitCast", "ReverseSequence", "SwiGLU",
    "FlexAttention",
)  # fmt: skip
SEQUENCE, DYNAMIC = "sequences and optionals", "dims that are not declared"
CORE_TYPES = {"FLOAT", "INT32", "INT64", "BOOL"}
NARROW = re.compile(r"FLOAT8|FLOAT4|U?INT4$|U?INT2$")


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a model, data sets of (inputs, expected outputs), tolerances."""

    name: str
    kind: str
    model: bytes
    data: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    rtol: float
    atol: float
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: passed, failed, refused or skipped, with the reason; names of inputs that were bound."""

    name: str
    status: str
    reason: str = ""
    bound: tuple[str, ...] = ()
    seconds: float = 0.0


# ---- loading -------------------------------------------------------------------------------------


def node_cases(cache: str | None = None) -> list[Case]:
    """All cases of kind `node`. They are computed by the suite in some 15 to 30 s, so `cache` keeps them."""
    if cache and os.path.exists(cache):
        with open(cache, "rb") as file:
            return pickle.load(file)  # our own file, written below
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            Case(c.name, "node", c.model.SerializeToString(), tuple((_arrays(i), _arrays(o)) for i, o in c.data_sets),
                 c.rtol, c.atol)
            for c in collect_testcases(None)
        ]  # fmt: skip
    if cache:
        with open(cache, "wb") as file:
            pickle.dump(found, file)
    return found


def stored_cases(kind: str) -> list[Case]:
    """Cases of a kind that lies in files: simple, pytorch-converted, pytorch-operator."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    found: list[Case] = []
    for c in load_model_tests(kind=kind):
        assert c.model_dir is not None
        with open(os.path.join(c.model_dir, "model.onnx"), "rb") as file:
            model = file.read()
        graph = onnx.load_from_string(model).graph
        own = {t.name for t in graph.initializer}
        given = [i for i in graph.input if i.name not in own]
        sets = [_stored(folder, given, graph.output) for folder in sorted(glob.glob(f"{c.model_dir}/test_data_set_*"))]
        found.append(Case(c.name, kind, model, tuple(sets), c.rtol, c.atol, c.model_dir))
    return found


def _stored(folder: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    import onnx

    def read(kind: str, infos: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for i, info in enumerate(infos):
            if not info.type.HasField("tensor_type"):
                found.append(None)
                continue
            t = onnx.TensorProto()
            with open(f"{folder}/{kind}_{i}.pb", "rb") as file:
                t.ParseFromString(file.read())
            found.append(_array(t))
        return tuple(found)

    return read("input", inputs), read("output", outputs)


def _arrays(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(map(_array, values))


def _array(value: Any) -> Any:
    """A NumPy array; None for a sequence or an optional, which tdslc does not have."""
    import onnx

    if isinstance(value, onnx.TensorProto):
        try:
            return onnx.numpy_helper.to_array(value)
        except (TypeError, ValueError):
            return None
    if value is None or isinstance(value, (list, onnx.SequenceProto, onnx.OptionalProto)):
        return None
    return np.asarray(value)


# ---- tiers ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class Facts:
    """What a model uses, its subgraphs looked into."""

    ops: set[tuple[str, str]] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    dynamic: bool = False
    training: bool = False


def facts_of(model: Any) -> Facts:
    """The facts of a ModelProto."""
    import onnx

    found = Facts()
    stack = [model.graph]
    while stack:
        graph = stack.pop()
        for info in (*graph.input, *graph.output, *graph.value_info):
            _type(info.type, found)
        found.types |= {onnx.TensorProto.DataType.Name(t.data_type) for t in graph.initializer}
        for node in graph.node:
            found.ops.add((node.domain, node.op_type))
            attrs = {a.name: a for a in node.attribute}
            found.training |= (
                node.op_type == "BatchNormalization" and "training_mode" in attrs and bool(attrs["training_mode"].i)
            )
            stack += [a.g for a in node.attribute if a.HasField("g")]
    for info in (*model.graph.input, *model.graph.output):
        if info.type.HasField("tensor_type"):
            found.dynamic |= any(not d.HasField("dim_value") for d in info.type.tensor_type.shape.dim)
    return found


def _type(t: Any, found: Facts) -> None:
    import onnx

    kind = t.WhichOneof("value") or "none"
    found.kinds.add(kind)
    if kind == "tensor_type":
        found.types.add(onnx.TensorProto.DataType.Name(t.tensor_type.elem_type))


def tier(case: Case) -> tuple[str, str]:
    """(tier, reason): A, B or C; "out" with the reason; "training"."""
    import onnx

    found = facts_of(onnx.load_from_string(case.model))
    ops = {op for _, op in found.ops}
    if any(domain in OTHER_DOMAINS for domain, _ in found.ops):
        return "out", "operators of other domains (classical machine learning, training, preview)"
    if "STRING" in found.types or ops & set(STRINGS):
        return "out", "strings"
    if found.kinds - {"tensor_type", "none"} or any(SEQUENCES.search(op) for op in ops - {"ReverseSequence"}):
        return "out", SEQUENCE
    if ops & set(CONTROL):
        return "out", "control flow"
    if ops & set(RANDOM):
        return "out", "random numbers"
    if any(NARROW.search(t) for t in found.types) or any(t.startswith("COMPLEX") for t in found.types):
        return "out", "floats of 8 and 4 bits, integers of 4 and 2 bits, complex numbers"
    if ops & set(DATA_SHAPES):
        return "out", "shapes that depend on data"
    if found.dynamic:
        return "out", DYNAMIC
    if found.training or _trains(case, ops):
        return "training", "training mode of dropout and batch normalisation"
    if ops & set(NICHE):
        return "C", ""
    return ("A" if found.types <= CORE_TYPES else "B"), ""


def _trains(case: Case, ops: set[str]) -> bool:
    return "Dropout" in ops and "training" in case.name


# ---- running -------------------------------------------------------------------------------------


class Machine:
    """A target's chip on which graphs are planned, lowered and run, as a build without a search does it."""

    def __init__(self, spec: str) -> None:
        from tdslc.compiler.build.targets import load_machine

        self.machine = load_machine(spec, ())
        self.seconds = 0.0

    def run(self, graph: Any, inputs: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[Any, ...]:
        """The outputs of `graph`, simulated; `seconds` is then what it took by simulation."""
        from tdslc.compiler.plan import load_values, plan
        from tdslc.compiler.plan.target import PlanOptions

        made = plan(graph, self.machine, PlanOptions())
        program = self.machine.lower(made)
        faults = self.machine.verify(program)
        if faults:
            raise AssertionError(f"the program is malformed: {faults[0]}")
        self.seconds = self.machine.time(program).seconds
        loaded = {**params, **load_values(made, params, self.machine.contraction)}
        names = [str(n.attr("name")) for n in made.graph.params]
        outputs = self.machine.run(program, {**{name: loaded[name] for name in names}, **inputs})
        return tuple(outputs[name] for name in graph.output_names)


def run_case(case: Case, machine: Machine | None = None) -> Outcome:
    """Import the case's model, run it on its data sets, compare. What tdslc refuses is no pass."""
    from tdslc.compiler.source import DiagnosticError

    started = time.perf_counter()
    bound: tuple[str, ...] = ()
    try:
        for inputs, expected in case.data:
            if any(x is None for x in (*inputs, *expected)):
                return Outcome(case.name, "skipped", "its data is of a type without an array")
            bound, wrong = _one_set(case, inputs, expected, machine)
            if wrong:
                return Outcome(case.name, "failed", wrong, bound, time.perf_counter() - started)
    except DiagnosticError as error:
        return Outcome(case.name, "refused", str(error).split("\n")[0], bound, time.perf_counter() - started)
    except Exception as error:  # noqa: BLE001  # a crash is a failure of the case, and the suite goes on
        where = _where(error)
        return Outcome(
            case.name,
            "failed",
            f"{type(error).__name__}: {error} at {where}"[:400],
            bound,
            time.perf_counter() - started,
        )
    return Outcome(case.name, "passed", "", bound, time.perf_counter() - started)


def _where(error: BaseException) -> str:
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return "" if tb is None else f"{os.path.basename(tb.tb_frame.f_code.co_filename)}:{tb.tb_lineno}"


def _one_set(
    case: Case, inputs: Sequence[Any], expected: Sequence[Any], machine: Machine | None
) -> tuple[tuple[str, ...], str]:
    import onnx
    from tdslc.compiler.graph import evaluate, verify
    from tdslc.compiler.graph.threads import one_thread

    model = onnx.load_from_string(case.model)
    own = {t.name for t in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in own]
    given = dict(zip((i.name for i in infos), inputs, strict=True))
    dims = dims_of(infos, given)
    imported, bound = import_with_binds(case, given, dims)
    faults = verify(imported.graph)
    if faults:
        return bound, f"the graph is malformed: {faults[0]}"
    values = {imported.renamed.get(name, name): x for name, x in given.items() if name not in bound}
    with one_thread():
        if machine is None:
            outputs = evaluate(imported.graph, values, imported.params)
        else:
            outputs = machine.run(imported.graph, values, imported.params)
    for info, got, want in zip(model.graph.output, outputs, expected, strict=True):
        wrong = differs(got, want, case.rtol, case.atol)
        if wrong:
            return bound, f"{info.name}: {wrong}"
    return bound, ""


def dims_of(infos: Iterable[Any], given: Mapping[str, Any]) -> dict[str, int]:
    """Symbolic dims as the inputs at hand have them."""
    found: dict[str, int] = {}
    for info in infos:
        for axis, d in enumerate(info.type.tensor_type.shape.dim):
            if not d.HasField("dim_value") or d.dim_value < 0:
                symbol = d.dim_param if d.dim_param != "?" else ""
                found[symbol or f"{info.name}.{axis}"] = given[info.name].shape[axis]
    return found


def import_with_binds(case: Case, given: Mapping[str, Any], dims: Mapping[str, int]) -> tuple[Any, tuple[str, ...]]:
    """The model imported with as few inputs bound to values as it takes: those that the importer asks for."""
    from tdslc.compiler.frontend.onnx import import_model
    from tdslc.compiler.source import DiagnosticError

    bound: dict[str, Any] = {}
    while True:
        try:
            free = {d: n for d, n in dims.items() if not _only_bound(d, bound)}
            return import_model(case.model, binds=bound, dims=free, folder=case.folder), tuple(bound)
        except DiagnosticError as error:
            asked = _asked(error, given, bound)
            if not asked:
                raise
            bound[asked] = given[asked]


def _only_bound(dim: str, bound: Mapping[str, Any]) -> bool:
    return dim.rpartition(".")[0] in bound


def _asked(error: Any, given: Mapping[str, Any], bound: Mapping[str, Any]) -> str | None:
    """The input whose value the importer asks for; one computed from inputs asks for the smallest integer one."""
    asked = [d for d in error.diagnostics if d.code == "E1107"]
    for d in asked:
        match = re.search(r"`--bind (\S+)=FILE", d.help or "")
        if match and match[1] in given and match[1] not in bound:
            return match[1]
    left = sorted((x.size, name) for name, x in given.items() if name not in bound and x.dtype.kind in "iub")
    return left[0][1] if asked and left else None


def differs(got: Any, want: Any, rtol: float, atol: float) -> str:
    """How `got` differs from `want` by the suite's own rule: dtype, shape, then values within tolerances. "": not."""
    want = np.asarray(want)
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if want.dtype.kind not in "iub":
        got, want = got.astype(np.float64), want.astype(np.float64)
    close = np.isclose(got, want, rtol, atol, equal_nan=True)
    if close.all():
        return ""
    with np.errstate(all="ignore"):
        gap = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return f"{np.count_nonzero(~close)} of {want.size} elements differ, by {np.nanmax(gap):.3g}"


def outcomes(cases: Iterable[Case], machine: Machine | None) -> Iterator[tuple[Case, Outcome]]:
    """Each case with what became of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            yield case, run_case(case, machine)
