import pytest
from hypothesis import given
from hypothesis import strategies as st
from tdslc.compiler.source import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "candidates", "found"),
    [
        ("sofmax", ["softmax", "max"], "softmax"),
        ("MATMUL", ["matmul", "matmuls"], "matmul"),
        ("norm_layer", ["layer_norm", "rms_norm"], "layer_norm"),
        ("mulmat", ["matmul"], None),
        ("hbm_gb", ["hbm_gbs", "hbm_gib"], "hbm_gbs"),
        ("abc", ["abd", "abe"], "abd"),
        ("teh", ["the"], "the"),
        ("x", ["y"], None),
        ("x", ["X"], "X"),
        ("relu", [], None),
        ("", ["a"], None),
        ("x" * 10_000, ["x" * 10_000], None),
    ],
)
def test_nearest(name: str, candidates: list[str], found: str | None) -> None:
    assert nearest(name, candidates) == found


@given(st.text("abcde_", min_size=4, max_size=12), st.data())
def test_one_slip_is_found(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    slip = name[:at] + data.draw(st.sampled_from(["", "z", name[at] + "z"])) + name[at + 1 :]
    assert nearest(slip, [name, "qqqqqqqqqqqqqqq"]) == name


def test_did_you_mean_is_a_help_line() -> None:
    assert did_you_mean("rleu", ["relu"]) == "did you mean `relu`?"
    assert did_you_mean("conv", ["relu"]) is None
