"""The files of the project are found where git is not there to ask."""

import shutil
from pathlib import Path

import pytest
import tree


def test_a_tree_without_git_lists_the_same_shipped_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = tree.shipped_files()
    for path in tree.project_files():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree.ROOT / path, tmp_path / path)
    for left_behind in ("build/lib/compiler/x.py", "compiler/__pycache__/x.py", "tdslc.egg-info/x.py"):
        (tmp_path / left_behind).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / left_behind).write_text("")
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    assert tree.shipped_files() == expected
