"""The search for equal forms, as the driver asks for it: one worker process, started early, asked once for each graph.

Must not know egglog, plans or targets.
"""

from __future__ import annotations

from types import TracebackType

from ..graph import Composites, Graph, show
from ..rewrite import Budget, RuleSet, Saturated, Worker


class Searcher:
    """A worker process. A context manager: the process ends with it."""

    def __init__(self) -> None:
        self._worker = Worker()
        self._found: dict[tuple[str, str, Budget, tuple[str, ...]], Saturated] = {}

    def __enter__(self) -> Searcher:
        self._worker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._worker.stop()

    def saturate(
        self, graph: Graph, rules: RuleSet, composites: Composites, budget: Budget, const_inputs: tuple[str, ...] = ()
    ) -> Saturated:
        """The e-graph of `graph` under `rules`; `const_inputs` hold params (the weights of a repeated layer's body).

        The same question is answered from memory: builds for several chips share the answer.
        """
        key = (show(graph), rules.digest, budget, const_inputs)
        if key not in self._found:
            self._found[key] = self._worker.saturate(graph, rules, composites, budget, const_inputs=const_inputs)
        return self._found[key]
