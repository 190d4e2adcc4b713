"""Names that a writer of models had better not give to values: the language's words, its dtypes and its functions.

Must not know who writes.
"""

from __future__ import annotations

from functools import cache

from .builtins import CONSTANTS, FUNCTIONS
from .table import table_functions

# The quoted words of grammar/tdsl.lark.
WORDS = frozenset(
    (
        "and", "as", "assert", "dim", "dtype", "elif", "else", "false", "fn", "for", "from", "if", "import", "in",
        "model", "none", "not", "op", "or", "param", "pass", "repeat", "return", "shared", "true", "yield",
    )
)  # fmt: skip


@cache
def reserved_names() -> frozenset[str]:
    """Every name that has a meaning in any file."""
    return frozenset((*WORDS, *CONSTANTS, *FUNCTIONS, *table_functions(FUNCTIONS)))
