"""From a campaign on several units to what differs between them, by the commands a person types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetrain.cli import main

PLAN = "name: units\nnetwork: resnet18_cifar_gn\nepochs: 3\nminibatches: 20\nrepeats: 2\ncache: warm\nbaseload_s: 0\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with a campaign on five units of a board."""
    root = tmp_path_factory.mktemp("units")
    (root / "plan.yaml").write_text(PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGETRAIN_SIM_HOME", str(root / "sim"))
        patch.setenv("EDGETRAIN_CAMPAIGN_LOCK", str(root))
        for unit in range(1, 6):
            device = f"sim:xavier-nx?unit={unit}&spread=8"
            words = ["campaign", str(root / "plan.yaml"), "--fresh", "--device", device]
            assert main([*words, "--store", str(root / "store")]) == 0
    return root


def test_units_of_a_campaign_are_compared(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["variability", "units", "--detect", "2%", "--store", str(place / "store"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (setting,) = report["settings"]
    assert setting["board"] == "xavier-nx" and setting["origin"] == "simulated"
    time, energy = setting["measures"]
    assert time["units"] == energy["units"] == 5 and time["runs"] == 10
    assert time["between_units"]["lo"] < 0.08 < time["between_units"]["hi"]
    assert time["between_units"]["value"] > 3 * time["within_unit"]["value"]
    assert time["sample_size"]["difference"] == pytest.approx(0.02)
    assert time["between_software"] is None


def test_a_person_reads_units_intervals_and_sample_sizes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = place / "figures"
    pytest.importorskip("matplotlib")
    assert main(["variability", "units", "--figures", str(folder), "--store", str(place / "store")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "5 units, 10 runs, simulated",
        "one unit over time",
        "detecting 1 % takes",
        "from mean",
        "[lo, hi] contains",
    ):
        assert words in out
    assert {"units.svg", "units.png", "units.csv", "variation-by-source.svg"} <= {one.name for one in folder.iterdir()}


def test_the_page_of_the_campaign_shows_the_same_intervals(place: Path) -> None:
    page = place / "page.html"
    assert main(["report", "units", "-o", str(page), "--store", str(place / "store")]) == 0
    assert "one unit over time" in page.read_text() and "none found" in page.read_text()


def test_runs_of_different_settings_are_not_compared(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(place / "store")]
    words = ["--device", f"sim:xavier-nx@{place / 'sim' / 'xavier-nx-unit1'}?unit=1", "--epochs", "3"]
    run = ["run", "lenet5", *words, "--minibatches", "20", "--baseload-s", "0", *store, "--json"]
    assert main(run) == 0
    name = json.loads(capsys.readouterr().out)["run"]
    assert main(["variability", "units", name, *store, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["settings"]) == 1 and any(name in text for text in report["left_out"])
    assert main(["variability", name, *store]) == 2
    assert "repeats: 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "nowhere"),
        (("units", "--detect", "much"), "cannot read --detect"),
        (("units", "--detect", "0"), "above 0"),
    ],
)
def test_wrong_usage_is_a_clear_message(
    words: tuple[str, ...], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["variability", *words, "--store", str(place / "store")]) in (1, 2)
    assert said in capsys.readouterr().err


def test_a_table_of_measurements_is_studied_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"u{unit},{100 + 3 * unit + run}" for unit in range(6) for run in range(3)]
    (tmp_path / "mine.csv").write_text("unit,time_ms\n" + "\n".join(rows) + "\n")
    assert main(["variability", str(tmp_path / "mine.csv"), "--store", str(tmp_path / "store"), "--json"]) == 0
    (setting,) = json.loads(capsys.readouterr().out)["settings"]
    assert setting["origin"] == "replayed" and setting["measures"][0]["units"] == 6
