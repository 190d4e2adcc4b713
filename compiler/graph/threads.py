"""One BLAS thread: the order of a long sum must not depend on how many cores there are.

And many small products, which is what tiles are, run several times slower when threads share them.
Must not know what is evaluated.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]


def one_thread() -> AbstractContextManager[object]:
    """While this is open, NumPy's matrix products use one thread."""
    return threadpool_limits(1, user_api="blas")
