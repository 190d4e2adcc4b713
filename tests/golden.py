"""Tests as text files: what, input, `---`, expected.

    # pass: fuse_relu
    # option: fast

    ...input...
    ---
    ...expected...

`@golden_cases("graph/fold")` runs a test once for each `.txt` in that folder of tests/; the test calls
`golden.check(case, actual)`. `pytest --bless tests/...` writes `actual` as what is expected: read the diff.
A new case is a file without `---`, blessed. One blank line after the header keeps a comment in the input out of it.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tree import ROOT

TESTS = ROOT / "tests"
_HEADER = re.compile(r"# ([a-z][a-z_-]*): (.*)")
_RULE = "---"


@dataclass(frozen=True, slots=True)
class Case:
    """One golden file, read."""

    path: Path
    header: tuple[tuple[str, str], ...]
    input: str
    expected: str

    def get(self, key: str, default: str | None = None) -> str:
        """The value of the header line `key`; KeyError when there is none and no default."""
        values = self.all(key)
        if not values and default is None:
            raise KeyError(f"{self.path}: no header line `# {key}: ...`")
        return values[0] if values else default or ""

    def all(self, key: str) -> list[str]:
        """The values of every header line `key`, in order."""
        return [value for name, value in self.header if name == key]


def read_case(path: Path) -> Case:
    """The golden file at `path`."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    header: list[tuple[str, str]] = []
    while lines and (match := _HEADER.fullmatch(lines[0].rstrip("\n"))):
        header.append((match[1], match[2].strip()))
        del lines[0]
    if header and lines and not lines[0].strip():
        del lines[0]
    at = next((i for i, line in enumerate(lines) if line.rstrip("\n") == _RULE), len(lines))
    return Case(path, tuple(header), "".join(lines[:at]), "".join(lines[at + 1 :]))


def golden_cases(folder: str) -> Callable[[Any], Any]:
    """Parametrise a test by `case`, every `.txt` of `folder` (relative to tests/); an empty folder is an error."""
    paths = sorted((TESTS / folder).glob("*.txt"))
    if not paths:
        raise ValueError(f"no golden files in tests/{folder}")
    return pytest.mark.parametrize("case", [pytest.param(read_case(path), id=path.stem) for path in paths])


class Golden:
    """Compares, or rewrites when blessing. The `golden` fixture."""

    def __init__(self, bless: bool) -> None:
        self.bless = bless
        self.used = False

    def check(self, case: Case, actual: str) -> None:
        """Fail unless `actual` is what `case` expects; line ends at the end of both do not count."""
        self.used = True
        actual = actual.rstrip("\n") + "\n" if actual.strip("\n") else ""
        if self.bless:
            _rewrite(case, actual)
        else:
            where = case.path.relative_to(ROOT) if case.path.is_relative_to(ROOT) else case.path
            assert actual == case.expected, f"{where} expects another text; if this one is right, pytest --bless"


def _rewrite(case: Case, actual: str) -> None:
    if actual == case.expected:
        return
    before = case.path.read_text(encoding="utf-8")
    kept = re.split(rf"^{_RULE}$\n?", before, maxsplit=1, flags=re.MULTILINE)[0]
    ended = kept if kept.endswith("\n") or not kept else kept + "\n"
    case.path.write_text(f"{ended}{_RULE}\n{actual}", encoding="utf-8")


def used_folders() -> set[Path]:
    """The folders that some test module names in `golden_cases`."""
    found: set[Path] = set()
    for module in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "golden_cases":
                found.add(TESTS / ast.literal_eval(node.args[0]))
    return found


def unused_files() -> list[Path]:
    """Golden files that no test reads; `fixtures` holds data and is left out."""
    folders = used_folders()
    files = sorted(path for path in TESTS.rglob("*.txt") if "fixtures" not in path.relative_to(TESTS).parts)
    return [path for path in files if path.parent not in folders]
