"""Tables, differences and traces, from values alone."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tdslc.compiler.plan.target import KernelTime, Slice, Timing
from tdslc.compiler.report import Table, compare, parse_threshold, show_difference, show_report, table, trace_json
from tdslc.compiler.report.tables import percent, seconds, size


def kernel(name: str = "k0", **changed: object) -> dict[str, Any]:
    return {
        "name": name, "ops": ["matmul", "add"], "count": 1, "seconds": 2e-6, "estimated_seconds": 1.9e-6,
        "bound_seconds": 1e-6, "bytes_read": 1000, "bytes_written": 500, "limited_by": "hbm",
        "stalls": {"mxu": 1e-6, "dma": 2e-6}, "source": "m.tdsl:3", **changed,
    }  # fmt: skip


def report(
    kernels: list[dict[str, Any]] | None = None, fired: dict[str, int] | None = None, **totals: object
) -> dict[str, Any]:
    shown = kernels if kernels is not None else [kernel()]
    return {
        "schema": "tdslc-report/1", "model": "m", "target": "toy:one",
        "totals": {
            "seconds": 2e-6, "cycles": 2000, "flops": 10, "bytes_read": 1000, "bytes_written": 500,
            "compulsory_bytes": 1500, "kernels": len(shown), "peak_fast_bytes": 64, "peak_main_bytes": 1500,
            "bound_seconds": 1e-6, "source_bound_seconds": 1e-6, "bound_ratio": 2.0, "limited_by": "hbm",
            "guess_share": 0.1,
            "unfused": {"seconds": 3e-6, "bytes_read": 2000, "bytes_written": 1500, "kernels": 2}, **totals,
        },
        "kernels": shown,
        "search": {"stop_reason": "saturated", "iterations": 1, "e_nodes": 3, "e_classes": 2,
                   "rules_fired": fired or {}, "extraction": {}},
        "checks": [{"name": "c", "ok": True, "detail": "d"}],
        "edges": [{"value": "%3", "type": "f32[2]", "producer": "k0", "consumer": "k1", "reason": "two_heavy_ops",
                   "detail": "one contraction a kernel"}],
        "load": None, "notes": ["a note"],
    }  # fmt: skip


@given(st.lists(st.lists(st.text("ab c", max_size=30), min_size=3, max_size=3), min_size=1), st.integers(60, 140))
def test_a_wrapped_table_fits_the_terminal(rows: list[list[str]], width: int) -> None:
    text = table(Table(["a", "b", "c"], "lrw", [[r[0][:10], r[1][:10], r[2]] for r in rows]), width)
    assert max(map(len, text.split("\n"))) <= width


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 ns"), (1.5e-9, "1.5 ns"), (13.81e-6, "13.81 us"), (2.5e-3, "2.5 ms"), (3, "3 s")]
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


def test_sizes_and_shares() -> None:
    assert [size(n) for n in (0, 999, 9_707_520, 999_999, 2e9)] == ["0 B", "999 B", "9.71 MB", "1000 kB", "2 GB"]
    assert percent(0.333) == "33.3 %"


def test_the_report_says_what_was_not_fused_and_why() -> None:
    text = show_report(report())
    assert "two_heavy_ops" in text and "one contraction a kernel" in text
    assert "note: a note" in text and "self-checks: 1 hold" in text


def test_failed_checks_are_told() -> None:
    wrong = {**report(), "checks": [{"name": "c", "ok": False, "detail": "1 > 2"}]}
    assert "self-check FAILED: c: 1 > 2" in show_report(wrong)


def test_a_model_whose_unfused_form_does_not_fit() -> None:
    none = {"seconds": None, "bytes_read": None, "bytes_written": None, "kernels": None}
    assert "does not fit" in show_report(report(unfused=none))


def test_difference() -> None:
    a = report([kernel(), kernel("k1", ops=["exp"])], {"r": 1, "s": 2}, seconds=4e-6)
    b = report([kernel(seconds=3e-6), kernel("k2", ops=["tanh"])], {"s": 2, "t": 1}, seconds=5e-6)
    found = compare(a, b, {"opt": 2}, {"opt": 1}, ["seconds>+2%", "seconds>+50%", "kernels>3"])
    assert found.failed == ["seconds>+2%"]
    assert [(k["name"], k["seconds"]["a"], k["seconds"]["b"]) for k in found.kernels] == [
        ("k0", 2e-6, 3e-6), ("k1", 2e-6, None), ("k2", None, 2e-6),
    ]  # fmt: skip
    assert [r["name"] for r in found.rules] == ["r", "t"]
    assert found.options == [{"name": "opt", "a": 2, "b": 1}]
    json.dumps(found.to_json(), allow_nan=False)
    text = show_difference(found, "a", "b")
    assert "+25.00 %" in text and "crossed: seconds>+2%" in text
    assert "no difference" in show_difference(compare(a, a, {}, {}), "a", "a")


@pytest.mark.parametrize(
    ("text", "before", "after", "fails"),
    [
        ("seconds>+2%", 1.0, 1.03, True),
        ("seconds>+2%", 1.0, 1.01, False),
        ("seconds<-10%", 1.0, 0.8, True),
        ("kernels>3", 9, 4, True),
        ("bytes>+1000", 10, 1011, True),
        ("bytes > 1e3", 0, 1000, False),
    ],
)
def test_thresholds(text: str, before: float, after: float, fails: bool) -> None:
    assert parse_threshold(text).fails(before, after) == fails


@pytest.mark.parametrize("text", ["", "seconds", "seconds>", "wat>1", "seconds>>1", "seconds>1%%"])
def test_bad_thresholds(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no"):
        parse_threshold(text)


def test_trace() -> None:
    k = KernelTime("k0", 0.0, 6e-6, 3, 1, 1, (), "hbm")
    timing = Timing(6e-6, 9, (k,), (Slice("mxu", "push", 1e-6, 1e-6), Slice("dma", "in", 0.0, 1e-6)), 1, 1)
    events = json.loads(trace_json("t", timing))["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert tracks == {0: "kernels", 1: "dma", 2: "mxu"}
    slices = [(tracks[e["tid"]], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [("kernels", "k0", 0.0, 2.0), ("mxu", "push", 1.0, 1.0), ("dma", "in", 0.0, 1.0)]
