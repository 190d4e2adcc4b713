"""Names in bodies that may never be executed: a fn nobody calls, a branch not taken.

Elaboration tells of undefined names where it comes; this looks everywhere else, taking a name that is assigned
anywhere in a body for defined. Must not know values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from ..graph import DTYPES
from . import syntax as s
from .signature import STATIC_KINDS


def names_read(decl: s.FnDecl) -> Iterator[tuple[str, s.At]]:
    """Names that `decl` reads and does not itself make, with where, in the order of the text."""
    made = {f.name for f in decl.formals} | set(s.assigned(decl.body)) | set(_fresh(decl))
    found = [(n, at) for n, at in _read((decl.body, decl.results or ())) if n not in made]
    return iter(sorted(found, key=lambda pair: pair[1]))


def _fresh(decl: s.FnDecl) -> Iterator[str]:
    """Dims and dtypes that a fn's arguments bind. Those of a model are the file's."""
    if decl.kind != "model":
        for formal in decl.formals:
            yield formal.type.name
            yield from (name for name, _ in _read(formal.type.dims or ()))


def _read(*pieces: object) -> Iterator[tuple[str, s.At]]:
    """Every name read in `pieces` of syntax; walked with a list, so that depth costs nothing."""
    left = list(pieces)
    while left:
        piece = left.pop()
        match piece:
            case tuple():
                left += piece
            case s.Name():
                yield piece.id, piece.at
            case s.Spread() if piece.name:
                yield piece.name, (piece.at[0] + 2, piece.at[1])
            case s.TypeOf():
                if piece.name not in DTYPES and (piece.dims is not None or piece.name not in STATIC_KINDS):
                    yield piece.name, (piece.at[0], piece.at[0] + len(piece.name))
                left += piece.dims or ()
            case s.Assign():
                left.append(piece.value)
            case s.Repeat():
                left += [piece.over, piece.body]
            case _ if is_dataclass(piece):
                left += [getattr(piece, f.name) for f in fields(piece)]
            case _:
                pass
