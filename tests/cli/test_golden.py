"""What commands print, on a toy target (tests/command.py tells the form of the files)."""

from pathlib import Path

import pytest
from command import run_case
from golden import Case, Golden, golden_cases
from toy_target import toy

__all__ = ["toy"]


@pytest.mark.usefixtures("toy")
@golden_cases("cli/golden")
def test_golden(case: Case, golden: Golden, tmp_path: Path) -> None:
    golden.check(case, run_case(case, tmp_path))
