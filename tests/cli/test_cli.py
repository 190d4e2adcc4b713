"""Exit codes, the one JSON document, interrupts, crashes, and the same bytes whatever the surroundings."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import Outcome, run_here
from toy_target import toy
from tree import ROOT

__all__ = ["toy"]

MODEL = """\
model m(x: f32[2, 4]) -> f32[2, 4]:
    param w: f32[4, 4]
    return tanh(x @ w)
"""
MAIN = "import sys; from tdslc.cli import main; sys.exit(main())"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.tdsl").write_text(MODEL)
    return tmp_path


def tdslc(folder: Path, line: str) -> Outcome:
    return run_here(line.split(), folder)


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("line", "code", "codes"),
    [
        ("build m.tdsl --target toy:one", 0, []),
        ("build no.tdsl --target toy:one", 1, ["E0001"]),
        ("build m.tdsl --target toy:small --dim X=3", 1, ["E0116"]),
        ("build m.tdsl", 2, ["E0708"]),
        ("wat", 2, ["E0708"]),
        ("run m.tdsl --target toy:one --input x=rand:0", 1, ["E0606"]),
        ("run m.tdsl --target toy:one --input x=rand:0 --weights random:0 --check", 0, ["E0613"]),
        ("run m.tdsl --target toy:broken --input x=rand:0 --weights random:0 --check", 4, ["E0613", "E0801"]),
        ("report nowhere", 1, ["E0703"]),
        ("diff nowhere m.tdsl", 1, ["E0703"]),
        ("targets", 0, []),
        ("targets wat", 1, ["E0704"]),
        ("rules check m.tdsl", 1, None),
        ("rules list", 0, []),
        ("check m.tdsl", 0, []),
    ],
)
def test_json_is_one_document_in_every_case(folder: Path, line: str, code: int, codes: list[str] | None) -> None:
    outcome = tdslc(folder, f"{line} --json")
    document = json.loads(outcome.stdout)
    assert (outcome.code, outcome.stderr) == (code, "")
    if codes is not None:
        assert [d["code"] for d in document.get("diagnostics", [])] == codes


@pytest.mark.usefixtures("toy")
def test_build_json_has_the_report_and_phases(folder: Path) -> None:
    document = json.loads(tdslc(folder, "build m.tdsl --target toy:one --json").stdout)
    assert document["schema"] == "tdslc-report/1"
    assert [p["name"] for p in document["phases"]] == ["read", "rewrite", "plan", "lower and time", "settings"]
    report = json.loads((folder / "build/m-toy-one/report.json").read_text())
    assert report.items() <= document.items()
    assert "wall_seconds" not in json.dumps(report)


@pytest.mark.usefixtures("toy")
def test_no_fit_is_exit_3(folder: Path) -> None:
    (folder / "big.tdsl").write_text("model big(x: f32[64, 64]) -> f32[64, 64]:\n    return -x\n")
    outcome = tdslc(folder, "build big.tdsl --target toy:small")
    assert outcome.code == 3
    assert "E0401" in outcome.stderr


@pytest.mark.usefixtures("toy")
def test_a_crash_is_a_bundle_and_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tdslc.compiler.build import driver

    monkeypatch.setattr(driver, "_read", lambda *_: 1 / 0)
    outcome = tdslc(folder, "build m.tdsl --target toy:one")
    assert outcome.code == 70
    assert "Traceback" not in outcome.stderr
    (bundle,) = folder.glob("tdslc-crash-*")
    assert bundle.name in outcome.stderr
    assert sorted(p.name for p in bundle.iterdir()) == ["command.json", "m.tdsl", "traceback.txt"]
    assert "ZeroDivisionError" in (bundle / "traceback.txt").read_text()


@pytest.mark.usefixtures("toy")
def test_an_interrupt_is_exit_130(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tdslc.compiler.build import driver

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "_read", interrupted)
    outcome = tdslc(folder, "build m.tdsl --target toy:one --json")
    assert outcome.code == 130
    assert json.loads(outcome.stdout)["diagnostics"][0]["code"] == "E0710"
    assert os.listdir(folder) == ["m.tdsl"]


def test_ctrl_c_leaves_nothing(folder: Path) -> None:
    """The signal comes while the search runs or before; a build that is done already proves nothing and is no fault."""
    command = [sys.executable, "-c", MAIN, "build", str(ROOT / "examples/minilm.tdsl"), "--target", "mxu:v5e"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr.decode()
    assert b"Traceback" not in stderr
    assert b"interrupted" in stderr
    assert stdout == b""
    assert os.listdir(folder) == ["m.tdsl"]


def test_two_builds_are_byte_identical(tmp_path: Path) -> None:
    """Different hash seeds, different folders, the model named by different paths, one build next to another's."""
    found: list[dict[str, bytes]] = []
    for seed, below in (("1", "a"), ("2", "b/deeper")):
        folder = tmp_path / below
        folder.mkdir(parents=True)
        (folder / "m.tdsl").write_text(MODEL)
        (folder / "r.rules").write_text("# -(-x) = x\nrule my_neg_neg @exact:\n    neg(neg(x: f32[..S])) => x\n")
        cwd, model = (folder, "m.tdsl") if seed == "1" else (tmp_path, f"{below}/m.tdsl")
        rules = model.replace("m.tdsl", "r.rules")
        command = [
            sys.executable,
            "-c",
            MAIN,
            "build",
            model,
            "--target",
            "mxu:v5e",
            "--rules",
            rules,
            "-o",
            f"out{seed}",
        ]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, timeout=120)
        out = cwd / f"out{seed}"
        found.append({str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()})
    assert sorted(found[0]) == sorted(found[1])
    assert [name for name in found[0] if found[0][name] != found[1][name]] == []
    assert not [name for name, data in found[0].items() if str(tmp_path).encode() in data]


def test_an_unwritable_folder_is_told_before_anything_is_built(folder: Path) -> None:
    (folder / "file").write_text("")
    outcome = tdslc(folder, "build m.tdsl --target mxu:v5e -o file/out")
    assert outcome.code == 1
    assert "E0702" in outcome.stderr or "E0701" in outcome.stderr


def test_help_is_quick_and_imports_nothing_heavy(folder: Path) -> None:
    program = (
        "import sys, time; t = time.perf_counter(); from tdslc.cli import app; import tdslc\n"
        "try: app.main(['--help'], standalone_mode=False)\n"
        "finally: print([m for m in ('numpy', 'lark', 'egglog', 'ml_dtypes') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=folder)
    assert done.stdout.decode().strip().endswith("[]")


def test_version(folder: Path) -> None:
    assert tdslc(folder, "--version").stdout == "tdslc 0.1.0\n"
