"""Arrays as plain pointers, as the reference engine's kernels pass them on.

numba passes an array as seven words and looks at the sign of every index; a pointer is one word, and its indices are
taken as they are. Nothing in the kernels counts from the end of an array. Must not know what the arrays hold.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .jit import need_numba

numba = need_numba()
_arrays: Any = import_module("numba.np.arrayobj")
_extending: Any = import_module("numba.extending")


@_extending.intrinsic
def pointer_to(_typing: Any, array: Any) -> Any:
    """Where the items of an array lie. The array must live on, which the caller of the outermost kernel sees to."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _arrays.make_array(signature.args[0])(context, builder, values[0]).data

    return numba.types.CPointer(array.dtype)(array), generate
