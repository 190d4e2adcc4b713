"""What a run of the batched engine knows and changes. Must not know how it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .batched_group import ClassState, Group
from .batched_queue import Queue
from .batched_routes import RouteMap
from .batched_streams import Inbox, Ints, NotAlone, Proof
from .batched_stretch import Tables, tables_of
from .batched_vector import Form, Memories, Operation, forms_of
from .ir import Image


@dataclass(frozen=True, slots=True)
class Times:
    """Costs and depths that times are made of."""

    hop: int
    ramp: int
    task_start: int
    depths: dict[int, int]


@dataclass(slots=True, eq=False)
class Work:
    """All that a run knows: code, memories, classes, inboxes, operations that wait, and the proof."""

    image: Image
    code: list[tuple[int, ...]]
    memory: NDArray[np.uint8]
    written: NDArray[np.uint8]
    classes: list[ClassState]
    starts: Ints
    routes: RouteMap
    times: Times
    max_cycles: int
    now: int
    words: NDArray[np.float32] = field(init=False)
    queue: Queue = field(init=False)
    forms: list[Form | None] = field(init=False)
    tables: Tables = field(init=False)
    all: Memories = field(init=False)
    proof: Proof = field(default_factory=Proof)
    inboxes: dict[tuple[int, int], Inbox] = field(default_factory=dict[tuple[int, int], Inbox])
    waiting: dict[tuple[int, int], list[Operation]] = field(default_factory=dict[tuple[int, int], list[Operation]])
    arrived: list[tuple[int, int, Ints]] = field(default_factory=list[tuple[int, int, Ints]])
    # Parts of tasks that run: those that a branch made, and those that go on after an operation.
    groups: list[Group] = field(default_factory=list[Group])
    resumed: list[Group] = field(default_factory=list[Group])
    # Whether the PEs that are furthest behind go first, so that many do the same at once, or the earliest.
    wide: bool = True

    def __post_init__(self) -> None:
        self.words = self.memory.view(np.float32)
        self.queue = Queue(self.words)
        self.tables = tables_of(self.image)
        self.forms = forms_of(self.image)
        self.all = Memories(self.memory, self.written, self.memory.view(np.uint32))


def past(w: Work, times: Ints) -> None:
    """Time went on to `times`; NotAlone beyond the budget, which is the reference's to report."""
    w.now = max(w.now, int(times.max())) if len(times) else w.now
    if w.now > w.max_cycles:
        raise NotAlone("the budget of cycles is used up")
