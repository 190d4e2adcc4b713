"""Names of other formats as names of the model language: `/layers.0/attn/MatMul_1:0` as `layers.0.attn.MatMul_1_0`.

Must not know where the names come from.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from ..language import reserved_names

_STRANGE = re.compile(r"[^A-Za-z0-9_]+")
_SPLIT = re.compile(r"[./]+")


@cache
def _taken() -> frozenset[str]:
    return reserved_names()


def identifier(name: str, used: Collection[str] = ()) -> str:
    """`name` as a name of the language that is neither a word of it, nor a built-in function, nor in `used`."""
    plain = _STRANGE.sub("_", name).strip("_") or "x"
    plain = f"x{plain}" if plain[0].isdigit() else plain
    while plain in _taken():
        plain += "_"
    return _fresh(plain, used)


def dotted(name: str, used: Collection[str] = ()) -> str:
    """`name` as the full name of a parameter: scopes and an identifier, joined by dots."""
    parts = [_STRANGE.sub("_", part).strip("_") for part in _SPLIT.split(name)]
    scopes = [part for part in parts[:-1] if part]
    last = identifier(parts[-1] or "x")
    return _fresh(".".join((*scopes, last)), used)


def _fresh(name: str, used: Collection[str]) -> str:
    if name not in used:
        return name
    n = 2
    while f"{name}_{n}" in used:
        n += 1
    return f"{name}_{n}"
