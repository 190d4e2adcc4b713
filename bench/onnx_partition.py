"""ONNX's own node cases that cannot be compiled, cut: `python bench/onnx_partition.py [--reference] [--cache FILE]`.

Each case that the importer refuses is put between operators that it takes, and cut as by `--partition`; regions run in
the evaluator, the rest on the host, and every output is compared with the model run whole on the host. Prints how many
were cut, and names each case that differs. `--reference` leaves onnxruntime out. Needs `pip install 'tdslc[onnx]'`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_suite as suite
from onnx import TensorProto, helper
from tdslc.compiler.frontend.onnx import host, import_model
from tdslc.compiler.frontend.onnx.partition import partition_model
from tdslc.compiler.frontend.onnx.parts import HostPart, Partition
from tdslc.compiler.graph import evaluate
from tdslc.compiler.source import DiagnosticError

RTOL, ATOL = 1e-3, 1e-5


def main(args: Sequence[str]) -> int:
    """The command. 1 when an output differs, though nothing draws random numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", action="store_true", help="run the host's part by onnx's evaluator only")
    parser.add_argument("--cache", help="a file that keeps the node cases, which take some 20 s to make")
    given = parser.parse_args(args)
    if given.reference:
        host._onnxruntime = lambda: None  # type: ignore[attr-defined]
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in suite.node_cases(given.cache):
            for inputs, _ in case.data:
                verdict = judge(case, inputs, Path(folder) / "case.onnx")
                counts[verdict.partition(":")[0]] += 1
                if verdict.startswith(("differs", "refused", "host")):
                    print(f"{case.name}: {verdict}")
    print(", ".join(f"{n} {what}" for what, n in counts.most_common()))
    return int(counts["differs"] > 0)


def judge(case: suite.Case, inputs: Sequence[Any], path: Path) -> str:
    """What became of one data set."""
    model = onnx.load_from_string(case.model)
    dims = suite.dims_of(model.graph.input, dict(zip((i.name for i in model.graph.input), inputs, strict=False)))
    try:
        import_model(case.model, dims=dims)
        return "compiled whole"
    except DiagnosticError:
        pass
    if any(x is None or isinstance(x, list) for x in inputs):
        return "not given tensors"
    path.write_bytes(between(model).SerializeToString())
    try:
        cut = partition_model(str(path), dims=dims)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        return "nothing to compile" if first.code == "E1117" else f"refused: {first.message}"
    own = {t.name for t in model.graph.initializer}
    values = dict(zip((i.name for i in model.graph.input if i.name not in own), map(np.asarray, inputs), strict=True))
    try:
        whole = cut.whole()
        want = dict(zip(whole.outputs, whole.run(values), strict=True))
        got = run(cut, values)
    except host.HostError as error:
        return f"host: {error}"
    wrong = [name for name, x in want.items() if not agrees(got[name], x)]
    if wrong:
        return f"random: {', '.join(cut.drawing)}" if cut.drawing else f"differs: {', '.join(wrong)}"
    return "cut and right"


def between(model: Any) -> Any:
    """`model` with Neg twice before each f32 input and Tanh after each f32 output."""
    graph = model.graph
    own = {t.name for t in graph.initializer}
    made = {name for n in graph.node for name in n.output}
    nodes: list[Any] = []
    for info in graph.input:
        if info.name not in own and info.type.tensor_type.elem_type == TensorProto.FLOAT:
            name, info.name = info.name, info.name + "__in"
            nodes.append(helper.make_node("Neg", [info.name], [name + "__neg"]))
            nodes.append(helper.make_node("Neg", [name + "__neg"], [name]))
    nodes += graph.node
    for info in graph.output:
        if info.name in made and info.type.tensor_type.elem_type == TensorProto.FLOAT:
            name, info.name = info.name, info.name + "__out"
            nodes.append(helper.make_node("Tanh", [name], [info.name]))
    del graph.node[:]
    graph.node.extend(nodes)
    if not any(o.domain in ("", "ai.onnx") for o in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", 20))
    return model


def run(cut: Partition, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Every value that crosses or comes out."""
    values = dict(inputs)
    for part in cut.parts:
        if isinstance(part, HostPart):
            made = part.program.run({name: values[name] for name in part.inputs})
            values |= zip(part.outputs, made, strict=True)
            continue
        given = {name: values[value] for name, value in part.inputs.items()}
        got = evaluate(part.imported.graph, given, part.imported.params)
        values |= zip(part.outputs.values(), got, strict=True)
    return values


def agrees(got: Any, want: Any) -> bool:
    """Whether two values are one, but for what sums in another order cost."""
    a, b = np.asarray(got), np.asarray(want)
    if a.shape != b.shape or a.dtype.kind in "OUSbiu":
        return a.shape == b.shape and bool((a == b).all())
    return np.allclose(a.astype(np.float64), b.astype(np.float64), RTOL, ATOL, equal_nan=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
