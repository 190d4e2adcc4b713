"""The program of a plan: CSL texts, and what the host does with them. `host.json` and the texts are its text form.

Must not know how the texts came about, nor how they are run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, Literal, cast

from ...compiler.graph import DTYPES, TensorType
from ...compiler.plan.target import Buffer
from .placement import Placement, Shares

SCHEMA = "tdslc-wse/1"
HOST = "host.json"
LAYOUT, PE = "layout.csl", "pe.csl"


@dataclass(frozen=True, slots=True)
class Copy:
    """Elements of a tensor of the model, called `name`, that the host writes to or reads from `symbol`.

    `stored` is the CSL type of an element; the launch with number `launch` is the first to need it, or the one that
    makes it. What is `once` is written before everything, the rest in every pass.
    """

    symbol: str
    role: Literal["input", "param", "output"]
    name: str
    type: TensorType
    stored: str
    placement: Placement
    launch: int
    once: bool

    @property
    def itemsize(self) -> int:
        """Bytes of a stored element."""
        return int(self.stored[1:]) // 8


@dataclass(frozen=True, slots=True)
class Command:
    """A launch: the exported function, and the kernel of the plan that it is ("" for none)."""

    function: str
    kernel: str


@dataclass(frozen=True, slots=True)
class PeArray:
    """An array of every PE, and the stages (numbers of the plan's, from 0) of its first and last use."""

    name: str
    address: int
    nbytes: int
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class WseProgram:
    """A program for `shares.width` x `shares.height` PEs."""

    name: str
    arch: str
    shares: Shares
    texts: Mapping[str, str]
    copies: tuple[Copy, ...]
    commands: tuple[Command, ...]
    arrays: tuple[PeArray, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The host's tensors, one behind the other, and the arrays of a PE."""
        steps = max((a.last_step for a in self.arrays), default=0)
        starts = accumulate((c.type.nbytes for c in self.copies), initial=0)
        host = [
            Buffer(c.name, "off-wafer", c.role, at, c.type.nbytes, c.type, 0, steps)
            for c, at in zip(self.copies, starts, strict=False)
        ]
        own = [Buffer(a.name, "pe", "temp", a.address, a.nbytes, None, a.first_step, a.last_step) for a in self.arrays]
        return (*host, *own)


def show(program: WseProgram) -> dict[str, str]:
    """Files of `program/`: `parse(show(p)) == p`."""
    host = {
        "schema": SCHEMA,
        "model": program.name,
        "arch": program.arch,
        **asdict(program.shares),
        "copies": [_copy_row(c) for c in program.copies],
        "launches": [asdict(c) for c in program.commands],
        "arrays": [asdict(a) for a in program.arrays],
    }
    return {HOST: json.dumps(host, indent=1, ensure_ascii=False) + "\n", **program.texts}


def parse(files: Mapping[str, str]) -> WseProgram:
    """The program of `files`. ValueError, KeyError or TypeError when they are not what `show` writes."""
    host = cast("dict[str, Any]", json.loads(files[HOST]))
    if host["schema"] != SCHEMA:
        raise ValueError(f"{HOST} is {host['schema']}, not {SCHEMA}")
    return WseProgram(
        host["model"],
        host["arch"],
        Shares(host["width"], host["height"], host["passes"]),
        {name: text for name, text in sorted(files.items()) if name.endswith(".csl")},
        tuple(_read_copy(row) for row in host["copies"]),
        tuple(Command(**row) for row in host["launches"]),
        tuple(PeArray(**row) for row in host["arrays"]),
    )


def _copy_row(c: Copy) -> dict[str, Any]:
    shape = [int(d) for d in c.type.shape]
    return {**asdict(c), "type": {"dtype": c.type.dtype.name, "shape": shape}}


def _read_copy(row: Mapping[str, Any]) -> Copy:
    t = row["type"]
    made: dict[str, Any] = {
        **row,
        "type": TensorType(DTYPES[t["dtype"]], tuple(map(int, t["shape"]))),
        "placement": Placement(**row["placement"]),
    }
    return Copy(**made)
