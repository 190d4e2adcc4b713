"""The files of the project, as tests see them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The rooms that are shipped, and the kinds of files in them that are.
ROOMS = ("compiler", "grammar", "rules", "stdlib", "targets")
SHIPPED_SUFFIXES = (".py", ".lark", ".rules", ".tdsl", ".csl", ".toml")
# Where git cannot tell: what tools leave behind, at the top only (compiler/build is a room).
_LEFT_BEHIND_AT_TOP = {"build", "dist"}
_HIDDEN_AND_OURS = {".ci", ".gitignore"}


def project_files() -> list[Path]:
    """Every file of the project, relative to its root, in order: what git knows or would add, else what lies there."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        found = {Path(name) for name in listed if name}
    except (OSError, subprocess.CalledProcessError):
        found = {path for path in (p.relative_to(ROOT) for p in ROOT.rglob("*")) if _is_ours(path.parts)}
    return sorted(path for path in found if (ROOT / path).is_file())


def shipped_files() -> list[Path]:
    """The files that the wheel must hold under `tdslc/`."""
    return [path for path in project_files() if _is_shipped(path)]


def _is_ours(parts: tuple[str, ...]) -> bool:
    return parts[0] not in _LEFT_BEHIND_AT_TOP and not any(map(_is_left_behind, parts))


def _is_left_behind(part: str) -> bool:
    hidden = part.startswith(".") and part not in _HIDDEN_AND_OURS
    return hidden or part == "__pycache__" or part.endswith(".egg-info")


def _is_shipped(path: Path) -> bool:
    if len(path.parts) == 1:
        return path.name in {"__init__.py", "cli.py", "py.typed"}
    return path.parts[0] in ROOMS and (path.suffix in SHIPPED_SUFFIXES or path.name == "README.md")
