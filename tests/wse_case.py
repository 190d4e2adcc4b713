"""CSL programs as tests write them: files in one text, each after a line `// FILE: name`."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from tdslc.compiler.source import DiagnosticError, render_all
from tdslc.targets.wse.chip import load
from tdslc.targets.wse.csl.layout import Layout
from tdslc.targets.wse.csl.program import Program, compile_placed, compile_program, one_file
from tdslc.targets.wse.csl.routes import Routes
from tdslc.targets.wse.csl.world import Rectangle

_FILE = re.compile(r"^// FILE: (\S+)\n", re.MULTILINE)


def write_files(text: str, folder: Path) -> Path:
    """The files of `text` in `folder`; the first is the layout."""
    parts = _FILE.split(text)[1:]
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        (folder / name).write_text(body, encoding="utf-8")
    return folder / parts[0]


def compiled(text: str, folder: Path, arch: str = "wse3", params: Mapping[str, int] | None = None) -> Program:
    return compile_program(str(write_files(text, folder)), load(arch).value.front_end, params)


def placed(text: str, folder: Path, arch: str = "wse3", width: int = 1, height: int = 1) -> Program:
    """The program of PEs that all run `text`, without a layout: every name may be exported."""
    path = folder / "pe.csl"
    path.write_text(text, encoding="utf-8")
    y, x = (axis.ravel() for axis in np.mgrid[:height, :width])
    rectangle = Rectangle(width, height, (width, height), (0, 0))
    layout = Layout(rectangle, (one_file(str(path), {}, x, y),), Routes(width, height, [], [], {}), None)
    return compile_placed(layout, load(arch).value.front_end, str(path))


def told(text: str, folder: Path, arch: str = "wse3", params: Mapping[str, int] | None = None) -> str:
    """What compiling says, with paths relative to the folder."""
    try:
        program = compiled(text, folder, arch, params)
    except DiagnosticError as error:
        said = render_all(error.diagnostics)
    else:
        said = render_all(program.notes)
    return said.replace(f"{folder}/", "")


def one_pe(program: str) -> str:
    """A program of one PE from its text."""
    layout = '// FILE: layout.csl\nlayout {\n  @set_rectangle(1, 1);\n  @set_tile_code(0, 0, "pe.csl");\n}\n'
    return f"{layout}// FILE: pe.csl\n{program}"


def checked(expressions: str, declarations: str = "") -> str:
    """A program whose comptime block asserts each line of `expressions`."""
    asserts = "".join(f"  @comptime_assert({line.strip()});\n" for line in expressions.strip().splitlines())
    return one_pe(f"{declarations}\ncomptime {{\n{asserts}}}\n")
