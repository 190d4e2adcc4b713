"""The search process: whatever becomes of it, the caller has an answer and nothing is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest
from layers import transformer_layer, weights
from tdslc.compiler.graph import NO_COMPOSITES, Builder, Composite, Composites, TensorType, dtype
from tdslc.compiler.rewrite import Budget, RuleSet, Worker, builtin_rules, load_rules, saturate

SHIPPED = load_rules(builtin_rules())
LAYER = transformer_layer(dtype("f32"))


@pytest.fixture
def worker() -> Iterator[Worker]:
    w = Worker()
    yield w
    w.stop()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_answer_is_that_of_this_process(worker: Worker) -> None:
    mine = saturate(LAYER, SHIPPED, NO_COMPOSITES, const_inputs=weights(LAYER))
    assert worker.saturate(LAYER, SHIPPED, NO_COMPOSITES, const_inputs=weights(LAYER)) == mine


def test_one_process_serves_several_and_is_then_replaced() -> None:
    with Worker(requests=2) as w:
        pids = []
        for _ in range(3):
            w.saturate(LAYER, RuleSet(()), NO_COMPOSITES)
            pids.append(w.pid)
        assert pids[0] == pids[1] != pids[2]
        assert gone(pids[0])
    assert gone(pids[2])


def test_a_killed_process_is_replaced(worker: Worker) -> None:
    worker.start()
    assert worker.pid
    os.kill(worker.pid, signal.SIGKILL)
    time.sleep(0.2)
    assert worker.saturate(LAYER, SHIPPED, NO_COMPOSITES).search.stop_reason == "saturated"


def test_out_of_memory_gives_the_graph_as_written() -> None:
    # Enough to start, not to import egglog, whose library alone takes 200 MB of address space.
    with Worker(memory_bytes=200 << 20) as w:
        found = w.saturate(LAYER, SHIPPED, NO_COMPOSITES)
    assert found.search.stop_reason == "crashed"
    assert "compiled as written" in found.search.notes[0]
    assert set(found.values) == set(LAYER.types)
    assert found.roots


def test_no_answer_in_time_gives_the_graph_as_written(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tdslc.compiler.rewrite.worker.GRACE_SECONDS", 0.0)
    worker.start()
    pid = worker.pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    found = worker.saturate(LAYER, SHIPPED, NO_COMPOSITES, Budget(wall_seconds=0.2))
    assert found.search.stop_reason == "wall_limit"
    assert gone(pid)
    # And the next question is answered.
    assert worker.saturate(LAYER, SHIPPED, NO_COMPOSITES).search.stop_reason == "saturated"


def test_composites_that_cannot_travel_stay(worker: Worker) -> None:
    table = Composites({"twice": Composite("twice", ("x",), (), "", lambda types, attrs: "never")})
    b = Builder("g")
    x = b.input("x", TensorType(dtype("f32"), (2,)))
    assert worker.saturate(b.finish([x]), SHIPPED, table).search.stop_reason == "saturated"


_CTRL_C = """
import os, signal, sys, threading
sys.path.insert(0, {tests!r})
from layers import transformer_layer
from tdslc.compiler.graph import NO_COMPOSITES, dtype
from tdslc.compiler.rewrite import Worker, builtin_rules, load_rules
w = Worker()
w.start()
print(w.pid, flush=True)
os.kill(w.pid, signal.SIGSTOP)
threading.Timer(0.3, lambda: os.killpg(os.getpgrp(), signal.SIGINT)).start()
w.saturate(transformer_layer(dtype("f32")), load_rules(builtin_rules()), NO_COMPOSITES)
"""


def test_ctrl_c_ends_both() -> None:
    code = textwrap.dedent(_CTRL_C.format(tests=os.path.dirname(os.path.dirname(__file__))))
    pipe = subprocess.PIPE
    run = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    out, err = run.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert gone(int(out.split()[0]))


def test_nothing_is_left_when_the_caller_just_ends() -> None:
    code = "from tdslc.compiler.rewrite import Worker\nw = Worker()\nw.start()\nprint(w.pid)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    assert gone(int(run.stdout))
