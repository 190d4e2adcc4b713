"""What each operation means: a table from its name to the function that emits it, in a module of its family."""

from ..call import Handler
from . import chlo, contractions, control, elementwise, indexing, linalg, movement, reductions

HANDLERS: dict[str, Handler] = {
    **elementwise.TABLE,
    **movement.TABLE,
    **contractions.TABLE,
    **indexing.TABLE,
    **reductions.TABLE,
    **control.TABLE,
    **linalg.TABLE,
    **chlo.TABLE,
}

__all__ = ["HANDLERS"]
