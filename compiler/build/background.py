"""One call made in a thread of its own while something else is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """`call` under way. `result` waits for it, and raises what it raised.

    The thread is a daemon: an interrupted command does not wait for it.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value.append(self._call())
        except BaseException as error:  # noqa: BLE001  # raised again where the result is asked for
            self._error = error

    def result(self) -> T:
        """What the call gave."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._value[0]
