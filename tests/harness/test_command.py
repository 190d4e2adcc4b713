import sys
import types
from pathlib import Path

import command
import pytest
from golden import read_case

CASE = """\
# run: tdslc show {file} sub/b.bin
# run: tdslc fail

=== a.tdsl
first
=== sub/b.bin python
data = bytes([0, 255])
"""


def fake_main() -> int:
    """Prints its arguments, its folder and the sizes of the files it was given."""
    if sys.argv[1] == "fail":
        print(f"error: {Path.cwd()}", file=sys.stderr)
        sys.exit(3)
    for name in sys.argv[2:]:
        print(name, Path(name).read_bytes())
    return 0


@pytest.fixture(autouse=True)
def fake_cli(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("tdslc.cli")
    module.main = fake_main  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tdslc.cli", module)


def test_commands_print_a_transcript(tmp_path: Path) -> None:
    path = tmp_path / "case.txt"
    path.write_text(CASE)
    folder = tmp_path / "run"
    folder.mkdir()
    before = (Path.cwd(), list(sys.argv), sys.stdin)
    assert command.run_case(read_case(path), folder) == (
        "$ tdslc show {file} sub/b.bin\n[stdout]\na.tdsl b'first\\n'\nsub/b.bin b'\\x00\\xff'\n[exit 0]\n"
        "$ tdslc fail\n[stderr]\nerror: {folder}\n[exit 3]\n"
    )
    assert (Path.cwd(), sys.argv, sys.stdin) == before


@pytest.mark.parametrize(
    ("text", "names"), [("", []), ("x = 1\n", ["model.tdsl"]), ("# file: r.rules\n\nx\n", ["r.rules"])]
)
def test_a_case_may_have_one_file_or_none(tmp_path: Path, text: str, names: list[str]) -> None:
    path = tmp_path / "case.txt"
    path.write_text("# run: tdslc x\n" + text)
    assert command.write_files(read_case(path), tmp_path) == names
    assert all((tmp_path / name).exists() for name in names)


def test_only_tdslc_runs(tmp_path: Path) -> None:
    path = tmp_path / "case.txt"
    path.write_text("# run: rm -r x\n")
    with pytest.raises(ValueError, match="only tdslc"):
        command.run_case(read_case(path), tmp_path)
