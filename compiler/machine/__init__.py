"""Machines are data: TOML files read under a target's schema into frozen values, units in the names.

Every figure has a source tag, every figure can be set from outside, and everything wrong with a file is told at once.
Must not know any target nor anything else of tdslc but `source`.
"""

from .load import load_machine
from .schema import Bounds, keys_of, table_of
from .value import SOURCE_KINDS, USER_SOURCE, FrozenDict, Machine, Scalar

__all__ = [
    "SOURCE_KINDS",
    "USER_SOURCE",
    "Bounds",
    "FrozenDict",
    "Machine",
    "Scalar",
    "keys_of",
    "load_machine",
    "table_of",
]
