"""Laws of the whole tree: what is shipped, what every module has, what no file may hold."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tdslc.compiler.source import CODES
from tree import ROOMS, ROOT, project_files, shipped_files

SHIPPED_MODULES = [path for path in shipped_files() if path.suffix == ".py"]
CODE = re.compile(r"\bE\d{4}\b")
# Spelt apart, so that this file is not a find of its own.
MACHINE_PATHS = re.compile("|".join(("/" + "home/", "/" + "root/", "/" + "Users/", "/" + "work/", "/" + "tmp/")))
BINARY_SUFFIXES = {".npy", ".npz", ".safetensors", ".png"}


def read(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of the tree at `source`, built without a network, in `folder`."""
    program = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-W", "ignore", "-c", program, str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_rooms_and_nothing_else(tmp_path: Path) -> None:
    # A copy, because setuptools writes beside what it builds.
    copy = tmp_path / "copy"
    for path in project_files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_bytes((ROOT / path).read_bytes())
    wheel = build_wheel(copy, tmp_path)
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {f"tdslc/{path.as_posix()}" for path in shipped_files()}


def test_every_shipped_folder_is_a_package() -> None:
    folders = {path.parent for path in shipped_files() if path.parts[0] in ROOMS}
    assert [folder for folder in sorted(folders) if not (ROOT / folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("path", SHIPPED_MODULES, ids=str)
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(read(path)))


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    texts = [path for path in project_files() if path.suffix not in BINARY_SUFFIXES]
    found = [
        f"{path}:{n}"
        for path in texts
        for n, line in enumerate(read(path).split("\n"), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert found == []


def test_each_code_has_a_row_and_each_row_a_use() -> None:
    index = Path("compiler/source/codes.py")
    used = {code for path in SHIPPED_MODULES if path != index for code in CODE.findall(read(path))}
    assert sorted(used - CODES.keys()) == [], "codes without a row in compiler/source/codes.py"
    assert sorted(CODES.keys() - used) == [], "rows of compiler/source/codes.py without a use"


def test_codes_stand_in_order_once_each() -> None:
    written = re.findall(r'^    "(E\d{4})":', read(Path("compiler/source/codes.py")), re.MULTILINE)
    assert written == sorted(set(written))


def test_rows_are_sentences() -> None:
    assert [code for code, row in CODES.items() if not (row.meaning.endswith(".") and row.fix.endswith("."))] == []
