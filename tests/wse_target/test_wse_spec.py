"""How a rectangle of PEs is named, and what is said of names that are none."""

from pathlib import Path

import pytest
from tdslc.compiler.build.targets import Spec, load_machine, read_spec
from tdslc.compiler.source import DiagnosticError
from tdslc.targets.wse.chip import MACHINES


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("mxu:v5e", Spec("mxu", "v5e")),
        ("wse:wse3,4x4", Spec("wse", "wse3", "4x4")),
        ("wse:my,own.toml,2x3", Spec("wse", "my,own.toml", "2x3")),
        ("wse:a.toml/b.toml,2x3", Spec("wse", "a.toml/b.toml", "2x3")),
        ("mxu:chips/mine.toml", Spec("mxu", "chips/mine.toml")),
        ("mxu:mine.tomlx", Spec("mxu", "mine.tomlx")),
    ],
)
def test_specs(text: str, spec: Spec) -> None:
    assert read_spec(text) == spec
    assert str(spec) == text


def test_a_rectangle_of_a_shipped_wafer_and_of_ones_own(tmp_path: Path) -> None:
    shipped = load_machine("wse:wse3,4x2")
    assert (shipped.spec, shipped.host_link) == ("wse:wse3,4x2", None)
    own = tmp_path / "mine.toml"
    own.write_text((MACHINES / "wse2.toml").read_text().replace('name = "wse2"', 'name = "mine"'))
    assert load_machine(f"wse:{own},3x1").spec == "wse:mine,3x1"
    assert load_machine("wse:wse3,4x2", ["cost.call=9"]).digest != shipped.digest


@pytest.mark.parametrize(
    ("text", "said", "help"),
    [
        ("wse:wse3", "`wse:wse3` does not say how many PEs", "write wse:wse3,WIDTHxHEIGHT, as in wse:wse3,4x4"),
        ("wse:wse3,4", "`4` is no number of PEs", "write wse:wse3,WIDTHxHEIGHT, as in wse:wse3,4x4"),
        ("wse:wse3,0x4", "wse3 has 762 x 1172 PEs, not 0 x 4", "name a rectangle that lies in it"),
        ("wse:wse3,763x1", "wse3 has 762 x 1172 PEs, not 763 x 1", "name a rectangle that lies in it"),
        ("wse:wse3,", "`wse:wse3,` names no chip", "one of wse:wse2, wse:wse3, or wse:FILE.toml"),
        ("wse:wse4,4x4", "wse has no chip `wse4`", "its chips are wse2, wse3; one of your own is wse:FILE.toml"),
        ("mxu:v5e,4x4", "a chip of mxu is taken as a whole: `4x4` means nothing", "write mxu:v5e"),
    ],
)
def test_what_is_no_rectangle(text: str, said: str, help: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        load_machine(text)
    (told,) = caught.value.diagnostics
    assert (told.code, told.message, told.help) == ("E0704", said, help)


def test_figures_have_their_sources() -> None:
    machine = load_machine("wse:wse3,4x4")
    about = machine.about()
    assert about and all(isinstance(row, dict) and row["source"] for row in about.values())
