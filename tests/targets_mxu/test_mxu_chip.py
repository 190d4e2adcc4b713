"""Chip files: all load, say what Google says, and tell what they lack."""

import pytest
from tdslc.compiler.source import DiagnosticError
from tdslc.targets.mxu.chip import CHIPS, UNIT_FIGURES, chip_names, load

# Peak bf16 TFLOP/s and HBM GB/s of one core, from the public tables (a chip has two cores but for v5e and v6e).
PUBLIC = {"v4": (275 / 2, 973), "v5e": (197, 819), "v6e": (918, 1638), "tpu7x": (2307 / 2, 3690)}


def test_the_shipped_chips() -> None:
    assert chip_names() == ("tpu7x", "v4", "v5e", "v6e")


@pytest.mark.parametrize("name", chip_names())
def test_figures_agree_with_public_ones(name: str) -> None:
    machine = load(name)
    tflops, gbs = PUBLIC[name]
    assert machine.name == name
    assert machine.value.peak_flops() / 1e12 == pytest.approx(tflops, rel=0.005)
    assert machine.value.dma.hbm_gbs == gbs
    assert set(machine.sources) == set(machine.figures)


@pytest.mark.parametrize("name", chip_names())
def test_figures_of_units_exist(name: str) -> None:
    machine = load(name)
    for keys in UNIT_FIGURES.values():
        assert set(keys) <= set(machine.figures)


def test_a_set_changes_the_chip_and_its_digest() -> None:
    changed = load("v5e", ["mem.vmem_mib=64"])
    assert changed.value.mem.vmem_bytes == 64 * 2**20
    assert changed.digest != load("v5e").digest


def test_tables_must_be_whole(tmp_path) -> None:
    text = (CHIPS / "v5e.toml").read_text()
    lacking = tmp_path / "c.toml"
    lacking.write_text(text.replace("erf = 30\n", "").replace("bf16 = 64, ", "").replace("size = 128", "size = 100"))
    with pytest.raises(DiagnosticError) as caught:
        load(str(lacking))
    messages = [d.message for d in caught.value.diagnostics]
    assert messages == [
        "`vector.alu` lacks erf",
        "`mxu.push_cycles_per_tile` lacks bf16",
        "`mxu.size` must be a multiple of 128, not 100",
    ]
