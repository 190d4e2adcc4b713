"""Where a PE's variables lie, and whether they fit.

Addresses are given in the order of declaration, file by file as they come into use, each rounded up to what the type
(or `align`) asks for. Code is not counted: how large the real compiler's code is, is not public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....compiler.source import Diagnostic, DiagnosticError, Note
from . import types as t
from .values import Symbol
from .world import Arch

_SHOWN = 8


@dataclass(frozen=True, slots=True, eq=False)
class MemoryEntry:
    """A symbol at `address` (bytes), `bytes` long."""

    symbol: Symbol
    address: int
    bytes: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryMap:
    """All symbols of a class; `used_bytes` includes gaps."""

    entries: tuple[MemoryEntry, ...]
    used_bytes: int

    def table(self) -> str:
        """One line per symbol, largest first, ties by address."""
        ordered = sorted(self.entries, key=lambda e: (-e.bytes, e.address))
        width = max((len(e.symbol.name) for e in ordered), default=0)
        return "\n".join(f"{e.bytes:>7,} bytes  {e.symbol.name:<{width}}  {t.show(e.symbol.type)}" for e in ordered)


def memory_map(symbols: Sequence[Symbol], arch: Arch) -> MemoryMap:
    """Addresses of `symbols`. E1041 with the largest ones when they exceed the memory of `arch`."""
    at, entries = 0, list[MemoryEntry]()
    files = list(dict.fromkeys(symbol.span.file.path for symbol in symbols))
    for symbol in sorted(symbols, key=lambda s: (files.index(s.span.file.path), s.span.start)):
        size = t.size_bytes(symbol.type)
        at = t.rounded(at, max(symbol.align, t.align_bytes(symbol.type)))
        entries.append(MemoryEntry(symbol, at, size))
        at += size
    made = MemoryMap(tuple(entries), at)
    if at > arch.memory_bytes:
        _refuse(made, arch)
    return made


def _refuse(made: MemoryMap, arch: Arch) -> None:
    largest = sorted(made.entries, key=lambda e: (-e.bytes, e.address))
    message = f"the variables of this PE take {made.used_bytes:,} bytes; it has {arch.memory_bytes:,}"
    notes = [Note(f"`{e.symbol.name}` takes {e.bytes:,} bytes", e.symbol.span) for e in largest[:_SHOWN]]
    if len(largest) > _SHOWN:
        rest = sum(e.bytes for e in largest[_SHOWN:])
        notes.append(Note(f"{len(largest) - _SHOWN} others take {rest:,} bytes"))
    raise DiagnosticError(
        Diagnostic("E1041", message, largest[0].symbol.span, tuple(notes), "spread the data over more PEs")
    )
