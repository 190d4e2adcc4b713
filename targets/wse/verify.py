"""Every broken invariant of a program; empty when it is well formed.

- the texts are a program, of the architecture and the rectangle that it says
- every array that it lists lies where it says in every PE, and nothing else has memory there
- what the host copies is exported, with the type of its elements and room for a block
- what the host launches is an exported function without parameters
"""

from __future__ import annotations

from ...compiler.source import DiagnosticError
from .chip import Wafer
from .compiled import compiled
from .csl import types as t
from .csl.program import CodeClass, Program
from .program import LAYOUT, PE, WseProgram


def verify(program: WseProgram, wafer: Wafer) -> list[str]:
    """What is wrong with `program`, as sentences."""
    lacking = [name for name in (LAYOUT, PE) if name not in program.texts]
    if lacking:
        return [f"{' and '.join(lacking)} is missing"]
    try:
        made = compiled(program.texts[LAYOUT], program.texts[PE], wafer)
    except DiagnosticError as error:
        return [f"{d.code}: {d.message}" for d in error.diagnostics]
    return [*_place(program, made, wafer), *_arrays(program, made), *_copies(program, made), *_launches(program, made)]


def _place(program: WseProgram, made: Program, wafer: Wafer) -> list[str]:
    faults: list[str] = []
    if program.arch != wafer.arch:
        faults.append(f"it is for {program.arch}, not {wafer.arch}")
    size, wanted = (made.rectangle.width, made.rectangle.height), (program.shares.width, program.shares.height)
    if size != wanted:
        faults.append(f"the layout has {size[0]} x {size[1]} PEs, not {wanted[0]} x {wanted[1]}")
    if program.shares.passes < 1:
        faults.append("it has no pass")
    return faults


def _arrays(program: WseProgram, made: Program) -> list[str]:
    listed = [(a.name, a.address, a.nbytes) for a in program.arrays]
    return [
        f"PE {int(c.x[0])}, {int(c.y[0])} has other variables than the program lists"
        for c in made.classes
        if [(e.symbol.name, e.address, e.bytes) for e in c.memory.entries] != listed
    ]


def _copies(program: WseProgram, made: Program) -> list[str]:
    faults: list[str] = []
    sizes = {a.name: a.nbytes for a in program.arrays}
    for copy in program.copies:
        export = made.exports.get(copy.symbol)
        if export is None or not isinstance(export.type, t.Pointer) or t.show(export.type.to) != copy.stored:
            faults.append(f'"{copy.symbol}" is not exported as [*]{copy.stored}')
            continue
        elements = program.shares.rows(copy.placement) * program.shares.columns(copy.placement)
        if elements * copy.itemsize > sizes.get(copy.symbol, 0):
            faults.append(f"{elements} elements of {copy.name} do not fit into `{copy.symbol}`")
        if not 0 <= copy.launch < len(program.commands):
            faults.append(f"{copy.name} belongs to launch {copy.launch}, of {len(program.commands)}")
    return faults


def _launches(program: WseProgram, made: Program) -> list[str]:
    return [
        f"`{command.function}` is not a function that every PE exports"
        for command in program.commands
        if not all(_exports(c, command.function) for c in made.classes)
    ]


def _exports(made: CodeClass, function: str) -> bool:
    target = made.exports.get(function)
    return target is not None and not getattr(target, "params", (None,))
