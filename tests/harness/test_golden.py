from pathlib import Path

import pytest
from golden import Golden, golden_cases, read_case, unused_files

CASE = "# run: one\n# run: two\n# file: x\n\n# a comment: of the input\ninput\n---\nexpected\n---\nmore\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "case.txt"
    path.write_text(text)
    return path


def test_a_case_is_header_input_expected(tmp_path: Path) -> None:
    case = read_case(write(tmp_path, CASE))
    assert (case.all("run"), case.get("file"), case.get("other", "-")) == (["one", "two"], "x", "-")
    assert case.input == "# a comment: of the input\ninput\n"
    assert case.expected == "expected\n---\nmore\n"
    with pytest.raises(KeyError, match="other"):
        case.get("other")


def test_check_fails_on_another_text(tmp_path: Path) -> None:
    case = read_case(write(tmp_path, CASE))
    Golden(bless=False).check(case, "expected\n---\nmore")
    with pytest.raises(AssertionError, match="--bless"):
        Golden(bless=False).check(case, "expected\n---\n")


@pytest.mark.parametrize("before", [CASE, CASE.split("---")[0], CASE.split("---")[0].rstrip("\n")])
def test_bless_rewrites_what_is_expected_and_nothing_else(tmp_path: Path, before: str) -> None:
    path = write(tmp_path, before)
    Golden(bless=True).check(read_case(path), "new\n")
    assert path.read_text() == CASE.split("---")[0] + "---\nnew\n"
    Golden(bless=False).check(read_case(path), "new")


def test_bless_leaves_right_files_alone(tmp_path: Path) -> None:
    path = write(tmp_path, CASE)
    Golden(bless=True).check(read_case(path), "expected\n---\nmore\n\n")
    assert path.read_text() == CASE


def test_a_folder_without_cases_is_an_error() -> None:
    with pytest.raises(ValueError, match="no golden files"):
        golden_cases("no/such/folder")


def test_every_golden_file_is_read_by_a_test() -> None:
    assert unused_files() == []
