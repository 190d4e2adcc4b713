"""The search in a process of its own: it may run away, eat memory or die, and the build goes on.

`Worker` is the caller's end: one persistent child, pickled messages behind
an eight-byte length over pipes. The child is replaced after a crash, a timeout or `REQUESTS` requests. When it fails,
the answer is the graph as written and a note says why. The pickles stay between a parent and the child it started.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any

from ..graph import Composites, Graph
from .egraph import Saturated, Search
from .engine import Budget, as_written, saturate
from .rules import RuleSet

MEMORY_BYTES = 4 << 30  # address space of the child
REQUESTS = 64  # egglog gives little memory back, so a child serves so many and goes
GRACE_SECONDS = 5.0  # past the wall limit, which the child keeps itself between matches
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Request:
    """One search."""

    graph: Graph
    rules: RuleSet
    composites: bytes
    budget: Budget
    const_inputs: tuple[str, ...]


class Worker:
    """A search process. `start` early to overlap its import of egglog with other work; `stop` it at the end.

    Also a context manager. Not for several threads at once.
    """

    def __init__(self, *, memory_bytes: int = MEMORY_BYTES, requests: int = REQUESTS) -> None:
        self.memory_bytes, self.requests = memory_bytes, requests
        self._child: subprocess.Popen[bytes] | None = None
        self._served = 0

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *why: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the child and returns at once; nothing when it runs."""
        if self._child is not None and self._child.poll() is None:
            return
        self.stop()
        # Not `-m`: the package imports this module, and run as __main__ it would be there twice.
        command = [sys.executable, "-c", f"from {__name__} import main; main({self.memory_bytes})"]
        # The child finds the package where we did, wherever the caller stands.
        paths = [p for p in sys.path if p]
        env = {**os.environ, "RAYON_NUM_THREADS": "1", "RUST_BACKTRACE": "0", "PYTHONPATH": os.pathsep.join(paths)}
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._served = 0
        atexit.register(self.stop)

    @property
    def pid(self) -> int | None:
        """The child's process id while there is one."""
        return self._child.pid if self._child else None

    def stop(self) -> None:
        """Ends the child and waits for it."""
        child, self._child = self._child, None
        if child is None:
            return
        atexit.unregister(self.stop)
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe:
                _close(pipe)
        child.wait()

    def saturate(
        self,
        graph: Graph,
        rules: RuleSet,
        composites: Composites,
        budget: Budget | None = None,
        *,
        const_inputs: Iterable[str] = (),
    ) -> Saturated:
        """`engine.saturate` in the child. Never fails: at worst the graph as written, with a note why."""
        limits, const = budget or Budget(), tuple(const_inputs)
        if self._served >= self.requests:
            self.stop()
        self.start()
        self._served += 1
        try:
            answer = self._ask(Request(graph, rules, pickle_composites(composites), limits, const), limits.wall_seconds)
        except _Failed as failed:
            self.stop()
            note = f"{failed}; the model is compiled as written, without rules"
            return as_written(graph, composites, Search(failed.reason, 0, 0, 0, notes=(note,)), const_inputs=const)
        except BaseException:  # Ctrl-C too: a child left in mid-answer would answer the next question with this one's
            self.stop()
            raise
        if isinstance(answer, _Fault):
            raise RuntimeError(f"the search failed:\n{answer.text}")
        assert isinstance(answer, Saturated)
        return answer

    def _ask(self, request: Request, wall_seconds: float) -> object:
        child = self._child
        assert child and child.stdin and child.stdout
        try:
            deadline = time.monotonic() + wall_seconds + GRACE_SECONDS
            _write(child.stdin, _message(request), deadline)
            (size,) = _LENGTH.unpack(_read(child.stdout, _LENGTH.size, deadline))
            return pickle.loads(_read(child.stdout, size, deadline))
        except (EOFError, OSError):
            child.wait()
            raise _Failed("crashed", f"the search process died ({_death(child.returncode)})") from None


@dataclass(frozen=True, slots=True)
class _Fault:
    """A fault of ours in the child, as its traceback."""

    text: str


class _Failed(Exception):
    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def _death(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else str(-code)
    return f"{name}, which is what running out of memory looks like" if name in ("SIGABRT", "SIGKILL") else name


def _close(pipe: IO[bytes]) -> None:
    try:
        pipe.close()
    except OSError:
        return  # what was buffered for a dead child


def pickle_composites(composites: Composites) -> bytes:
    """Those composites that can travel; a definition that cannot be pickled stays, and no rule can make that op."""
    rows: dict[str, Any] = {}
    for name, row in composites.rows.items():
        try:
            pickle.dumps(row)
        except (pickle.PicklingError, AttributeError, TypeError):
            continue
        rows[name] = row
    return pickle.dumps(Composites(rows))


# ---- messages ------------------------------------------------------------------------------------


def _message(value: object) -> bytes:
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def _wait(reads: list[IO[bytes]], writes: list[IO[bytes]], deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0 or not any(select.select(reads, writes, [], left)):
        raise _Failed("wall_limit", "the search process did not end in time and was stopped")


def _write(pipe: IO[bytes], data: bytes, deadline: float) -> None:
    """Writes past the pipe's buffer without trusting the other end to read."""
    os.set_blocking(pipe.fileno(), False)
    rest = memoryview(data)
    while rest:
        _wait([], [pipe], deadline)
        rest = rest[os.write(pipe.fileno(), rest) :]


def _read(pipe: IO[bytes], size: int, deadline: float) -> bytes:
    """`size` bytes; EOFError when the other end is gone."""
    parts: list[bytes] = []
    while size:
        _wait([pipe], [], deadline)
        got = os.read(pipe.fileno(), min(size, 1 << 20))
        if not got:
            raise EOFError
        parts.append(got)
        size -= len(got)
    return b"".join(parts)


# ---- the child -----------------------------------------------------------------------------------


def main(memory_bytes: int) -> None:
    """Answers requests until the pipe closes."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not stand among the answers
    _limit(memory_bytes)
    import egglog.bindings  # noqa: F401  # pyright: ignore[reportUnusedImport]  # 0.3 s, paid while the parent is busy

    while head := requests.read(_LENGTH.size):
        request = pickle.loads(requests.read(_LENGTH.unpack(head)[0]))
        try:
            answers.write(_message(_answer(request)))
            answers.flush()
        except BrokenPipeError:
            return


def _answer(request: Request) -> Saturated | _Fault:
    try:
        composites = pickle.loads(request.composites)
        return saturate(request.graph, request.rules, composites, request.budget, const_inputs=request.const_inputs)
    except MemoryError:
        os.abort()
    except BaseException:  # noqa: BLE001  # egglog's panics are no Exceptions
        return _Fault(traceback.format_exc())


def _limit(memory_bytes: int) -> None:
    """Caps memory, leaves Ctrl-C to the parent, and dies with it where the system can do that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        return  # not every system has limits; the budgets still hold
