import os
from pathlib import Path

import pytest
from tdslc.compiler.source import MAX_SOURCE_BYTES, Diagnostic, DiagnosticError, read_source


def refused(path: Path | str) -> Diagnostic:
    with pytest.raises(DiagnosticError) as error:
        read_source(path)
    assert len(error.value.diagnostics) == 1
    return error.value.diagnostics[0]


def test_line_ends_and_byte_order_mark_are_taken_away(tmp_path: Path) -> None:
    (tmp_path / "m.tdsl").write_bytes("\ufeffa\r\nb\rc\n".encode())
    file = read_source(tmp_path / "m.tdsl")
    assert file.text == "a\nb\nc\n"
    assert file.path == str(tmp_path / "m.tdsl")


def test_empty_file_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "m.tdsl").touch()
    assert read_source(tmp_path / "m.tdsl").text == ""


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "model.tdsl").touch()
    found = refused(tmp_path / "modle.tdsl")
    assert (found.code, found.help) == ("E0001", f"did you mean `{tmp_path / 'model.tdsl'}`?")
    assert refused(tmp_path / "no" / "such").help is None


def test_a_name_no_file_can_have() -> None:
    assert refused("a\0b").code == "E0001"
    assert refused("a" * 5000).code == "E0001"


def test_folder_pipe_and_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        assert refused(path).code == "E0002"


def test_binary_and_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "m.tdsl"
    path.write_bytes(b"a\0b")
    assert (refused(path).code, refused(path).message[-14:]) == ("E0003", "byte 1 is NUL)")
    path.write_bytes("a\né".encode("latin-1"))
    assert refused(path).code == "E0004"
    assert refused(path).message == f"{path}:2: not UTF-8 text (byte 2 is 0xe9)"


def test_size_limit_is_inclusive(tmp_path: Path) -> None:
    path = tmp_path / "m.tdsl"
    path.write_bytes(b" " * MAX_SOURCE_BYTES)
    assert len(read_source(path).text) == MAX_SOURCE_BYTES
    path.write_bytes(b" " * (MAX_SOURCE_BYTES + 1))
    assert refused(path).code == "E0005"
