"""Which phase of a build is under way and how long each took. Clock readings stay out of build folders."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase that is over, and its seconds on the clock of the wall."""

    name: str
    wall_seconds: float


def quiet(name: str) -> None:
    """The Progress that tells nobody."""


@dataclass(slots=True)
class Phases:
    """Collects phases as they end; `progress` is told each name as it begins."""

    progress: Progress = quiet
    done: list[Phase] = field(default_factory=list[Phase])

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """The time spent inside is phase `name`."""
        self.progress(name)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.done.append(Phase(name, time.perf_counter() - start))
