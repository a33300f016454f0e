"""What a board is."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetrain.device import detect, load_catalogue, open_device
from edgetrain.device.jetson.identity import JETPACKS, expand, read_l4t
from tests import boards

FACTS = {
    "nano-jp4": ("nano", "p3448-0000", "tegra210", "32.7.1", "4"),
    "tx2-jp4": ("tx2", "p3310-1000", "tegra186", "32.6.1", "4"),
    "xavier-agx-jp4": ("xavier-agx", "p2888-0004", "tegra194", "32.5.1", "4"),
    "xavier-nx-jp5": ("xavier-nx", "p3668-0000", "tegra194", "35.3.1", "5"),
    "orin-agx-jp5": ("orin-agx", "p3701-0000", "tegra234", "35.1.0", "5"),
    "orin-agx-jp6": ("orin-agx-64gb", "p3701-0005", "tegra234", "36.4.4", "6"),
    "orin-nano-super-jp6": ("orin-nano-super", "p3767-0005", "tegra234", "36.4.3", "6"),
    "orin-nano-jp7": ("orin-nano-super", "p3767-0005", "tegra234", "39.2.0", "7"),
    "thor-jp7": ("thor", "p3834-0008", "tegra264", "38.4.0", "7"),
}


@pytest.mark.parametrize("name", FACTS)
def test_each_board_says_what_it_is(name: str, tmp_path: Path) -> None:
    spec = detect(boards.build(name, tmp_path)).spec
    assert (spec.name, spec.module, spec.chip, spec.l4t, spec.jetpack) == FACTS[name]
    assert spec.serial and spec.ram_bytes and spec.cores


def test_a_release_that_does_not_exist_yet_is_no_reason_to_fail(tmp_path: Path) -> None:
    device = detect(boards.build("unknown release", tmp_path))
    assert device.spec.l4t == "97.12.3" and device.spec.jetpack is None
    assert device.total_power() is not None and device.probes()


def test_an_unknown_board_is_measured_with_what_linux_offers(tmp_path: Path) -> None:
    device = detect(boards.build("unknown board", tmp_path))
    names = {probe.name for probe in device.probes()}
    assert {"rails", "cpu", "memory", "thermal"} <= names
    assert any(finding.what == "board" and finding.works is None for finding in device.findings())


def test_a_tree_that_is_no_jetson_is_plain_linux(tmp_path: Path) -> None:
    assert open_device(f"jetson:{tmp_path}").spec.kind == "host"


@pytest.mark.parametrize(
    ("text", "l4t"),
    [
        ("# R36 (release), REVISION: 4.4, GCID: 1", "36.4.4"),
        ("# R32 (release), REVISION: 7.1", "32.7.1"),
        ("# R38 (release), REVISION: 2.0", "38.2.0"),
        ("nothing of the kind", None),
        ("", None),
        (None, None),
    ],
)
def test_releases_are_read_whatever_their_minor(text: str | None, l4t: str | None) -> None:
    assert read_l4t(text) == l4t


def test_kernel_lists_expand() -> None:
    assert expand("0-3,6") == (0, 1, 2, 3, 6)
    assert expand("0") == (0,)
    assert expand("garbage,9-x") == ()


@pytest.mark.parametrize(
    ("compatible", "key"),
    [
        ("nvidia,p3768-0000+p3767-0002", "orin-nx"),  # a 16 GB module like p3767-0000
        ("nvidia,p3768-0000+p3767-0000-super", "orin-nx-super"),
        ("nvidia,p3737-0000+p3701-0004", "orin-agx-32gb"),
        ("nvidia,p3737-0000+p3701-0008", "orin-agx-industrial"),
        ("nvidia,p4071-0000+p3834-0000", "thor-t4000"),
        ("nvidia,p2371-2180", "tx1"),
        ("nvidia,p3509-0000+p3636-0001", "tx2-nx"),
        ("nvidia,p2972-0006", "xavier-agx"),
        ("nvidia,p2972-0000", "xavier-agx"),  # device trees of the mainline kernel name the kit alone
        ("nvidia,p3450-0000", "nano"),
        ("nvidia,p2771-0000", "tx2"),
    ],
)
def test_every_module_has_its_name_and_an_entry_in_the_catalogue(compatible: str, key: str, tmp_path: Path) -> None:
    base = tmp_path / "sys/firmware/devicetree/base"
    base.mkdir(parents=True)
    chip = {"p2": "tegra194", "tx": "tegra186", "th": "tegra264"}.get(key[:2], "tegra234")
    (base / "compatible").write_bytes(f"{compatible}\0nvidia,{chip}\0".encode())
    assert detect(tmp_path).spec.name == key
    assert load_catalogue().find(key) is not None


def test_the_first_release_of_jetpack_4_is_known() -> None:
    assert JETPACKS[31] == JETPACKS[32] == "4"


def test_a_module_wins_over_the_kit_that_carries_it(tmp_path: Path) -> None:
    base = tmp_path / "sys/firmware/devicetree/base"
    base.mkdir(parents=True)
    (base / "compatible").write_bytes(b"nvidia,p2972-0000\0nvidia,p2888-0005\0nvidia,tegra194\0")
    assert detect(tmp_path).spec.module == "p2888-0005"
