"""How the batched engine may be made to do its work."""

from typing import Any

import pytest
from tdslc.targets.wse.mesh import batched_queue, batched_threads


class Late:
    """Work that is done when it is waited for, and not before."""

    def __init__(self, some: Any, lanes: int) -> None:
        self.some, self.lanes = some, lanes

    def result(self) -> None:
        self.some(0, self.lanes)


@pytest.fixture(params=[1, 3, "late"], ids=["one_thread", "three_threads", "late"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads for all work, however little it is; or queued work that ends as late as it can."""
    if request.param == "late":
        monkeypatch.setattr(batched_queue, "begin_lanes", lambda some, lanes, each: [Late(some, lanes)])
        return
    monkeypatch.setattr(batched_threads, "threads", lambda: request.param)
    monkeypatch.setattr(batched_threads, "LEAST_ELEMENTS", 0)
