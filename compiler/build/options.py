"""What a build is asked for. Must not know how it is done, nor the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..graph import Graph

Level = Literal["graph", "rewritten", "plan", "program"]
Numerics = Literal["exact", "reassoc", "fast"]
LEVELS: tuple[Level, ...] = ("graph", "rewritten", "plan", "program")
NUMERICS: tuple[Numerics, ...] = ("exact", "reassoc", "fast")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Everything that a build depends on besides the files it names.

    `model` is the path of a `.tdsl`, `.onnx` or StableHLO file, or a Graph. `start` is (build folder, level): the build
    goes on from that level's text, and the model file is not read. `opt` is 0 (no rules, one kernel per op), 1 (no
    rules), 2, or 3 (a budget four times as large). `budget` overrides single knobs of the search; `weights` is checked
    by name, shape and dtype and its values are not read. `binds` are files of values to which inputs of an ONNX model
    are fixed. With `partition`, nodes of an ONNX model that cannot be compiled run on the host.
    """

    model: str | Graph
    target: str = "mxu:v5e"
    entry: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    weights: str | None = None
    rules: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    numerics: Numerics = "reassoc"
    unchecked: bool = False
    overrides: tuple[str, ...] = ()
    budget: Mapping[str, int] = field(default_factory=dict[str, int])
    opt: int = 2
    fuse: bool = True
    stop_after: Level | None = None
    start: tuple[str, Level] | None = None
    binds: Mapping[str, str] = field(default_factory=dict[str, str])
    partition: bool = False

    def reaches(self, level: Level) -> bool:
        """Whether the build goes as far as `level`."""
        return self.stop_after is None or LEVELS.index(level) <= LEVELS.index(self.stop_after)
