"""What is wrong with a CSL program, as it is told: wrong programs with the exact message."""

from pathlib import Path

from golden import Case, Golden, golden_cases
from wse_case import one_pe, told


@golden_cases("wse/errors")
def test_what_is_told(case: Case, golden: Golden, tmp_path: Path) -> None:
    text = case.input if "// FILE: " in case.input else one_pe(case.input)
    golden.check(case, told(text, tmp_path, case.get("arch", "wse3")))
