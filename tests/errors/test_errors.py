"""The gallery of what users do wrong: each input, the exact message, the exit code. tests/command.py tells the form."""

from pathlib import Path

from command import run_case
from golden import Case, Golden, golden_cases


@golden_cases("errors")
def test_error(case: Case, golden: Golden, tmp_path: Path) -> None:
    transcript = run_case(case, tmp_path)
    assert "Traceback" not in transcript
    golden.check(case, transcript)
