"""The build folder: all of it or nothing, and never somebody else's."""

import os
from pathlib import Path

import pytest
from tdslc.compiler.build import folder
from tdslc.compiler.source import DiagnosticError


def files(text: str) -> dict[str, str]:
    return folder.with_manifest({"ir/00-graph.txt": text, "report.json": "{}\n"}, {"name": "m"})


def test_written_and_read_back(tmp_path: Path) -> None:
    out = str(tmp_path / "deep" / "build")
    folder.write_folder(out, files("a"))
    assert folder.read_manifest(out)["files"]["ir/00-graph.txt"] == folder.digest("a")
    assert folder.read_file(out, "ir/00-graph.txt") == "a"
    assert folder.read_json(out, "report.json") == {}
    assert os.listdir(tmp_path / "deep") == ["build"]


def test_replaces_a_build_and_keeps_what_others_put_there(tmp_path: Path) -> None:
    out = tmp_path / "b"
    folder.write_folder(str(out), files("a"))
    (out / "ir" / "mine.txt").write_text("mine")
    folder.write_folder(str(out), folder.with_manifest({"new.txt": "b"}, {}))
    assert (out / "ir" / "mine.txt").read_text() == "mine"
    assert not (out / "ir" / "00-graph.txt").exists()
    assert (out / "new.txt").read_text() == "b"
    assert os.listdir(tmp_path) == ["b"]


@pytest.mark.parametrize("there", ["folder", "file", "manifest of another"])
def test_never_replaces_what_is_not_ours(tmp_path: Path, there: str) -> None:
    out = tmp_path / "b"
    if there == "file":
        out.write_text("precious")
    else:
        out.mkdir()
        (out / ("manifest.json" if there != "folder" else "precious.txt")).write_text('{"schema": "npm"}')
    with pytest.raises(DiagnosticError, match="E0701"):
        folder.write_folder(str(out), files("a"))
    assert os.listdir(tmp_path) == ["b"]


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    folder.write_folder(str(tmp_path / "b"), files("a"))
    assert folder.read_file(str(tmp_path / "b"), "ir/00-graph.txt") == "a"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiagnosticError, match="E0702"):
        folder.write_folder(str(tmp_path / "file" / "b"), files("a"))


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_half_done_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException) -> None:
    out = tmp_path / "b"
    folder.write_folder(str(out), files("before"))
    real, calls = Path.write_text, []

    def failing(self: Path, *args: object, **kwargs: object) -> int:
        calls.append(self)
        if len(calls) == 2:
            raise fault
        return real(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", failing)
    with pytest.raises(DiagnosticError if isinstance(fault, OSError) else KeyboardInterrupt):
        folder.write_folder(str(out), files("after"))
    monkeypatch.undo()
    assert folder.read_file(str(out), "ir/00-graph.txt") == "before"
    assert os.listdir(tmp_path) == ["b"]


def test_a_broken_build_is_told(tmp_path: Path) -> None:
    out = tmp_path / "b"
    with pytest.raises(DiagnosticError, match="E0703"):
        folder.read_manifest(str(out))
    folder.write_folder(str(out), files("a"))
    (out / "report.json").write_text("[")
    with pytest.raises(DiagnosticError, match="E0703"):
        folder.read_json(str(out), "report.json")
    (out / "manifest.json").write_text("{}")
    with pytest.raises(DiagnosticError, match="E0703"):
        folder.read_manifest(str(out))
