"""The documents' examples are run: each `$ command` of a console block prints what stands below it.

Commands of one document run in one folder that holds a copy of examples/ and must succeed; `--bless` rewrites the
outputs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tree import ROOT

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
DOCUMENTS = sorted(p for p in (ROOT / "docs").rglob("*.md") if "```console" in p.read_text(encoding="utf-8"))
_SECONDS = 300


def _run(command: str, folder: Path, tools: Path) -> str:
    """What a command prints, on either stream."""
    path = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "LC_ALL": "C.UTF-8", "PATH": path}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def _rerun(block: str, folder: Path, tools: Path) -> str:
    """The block with fresh outputs."""
    lines: list[str] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            printed = _run(line[2:], folder, tools)
            lines += [line, *(text.rstrip() for text in printed.rstrip().splitlines())]
    return "\n".join(lines) + "\n"


def _tools(folder: Path) -> Path:
    """A folder with a `tdslc` that is this project's."""
    folder.mkdir()
    script = folder / "tdslc"
    script.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from tdslc.cli import main; main()" "$@"\n', encoding="utf-8"
    )
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_commands_print_what_the_document_says(document: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("minilm-weights", "*.py"))
    tools = _tools(tmp_path / "tools")
    text = document.read_text(encoding="utf-8")
    fresh = _BLOCK.sub(lambda m: f"```console\n{_rerun(m[1], folder, tools)}```", text)
    if request.config.getoption("--bless"):
        document.write_text(fresh, encoding="utf-8")
        return
    assert text == fresh
