"""The published raw logs import, and agree with the tables made from them."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from edgetrain.analysis import summarize
from edgetrain.importers import import_path
from edgetrain.record import FolderStore

SHARED = Path(os.environ.get("EDGETRAIN_SHARED") or Path(__file__).parents[3] / "shared") / "data" / "jetson"
FOLDERS = sorted(SHARED.glob("raw_*/*/pm_*"))

pytestmark = pytest.mark.skipif(not FOLDERS, reason="the published logs are not here")


def row_of(folder: Path) -> dict[str, str]:
    board, network = folder.parts[-3].removeprefix("raw_"), folder.parts[-2]
    cores, cpu_khz, gpu_hz, emc_hz = folder.name.removeprefix("pm_").split("_")
    with (SHARED / f"{board}_{network}_train.csv").open() as file:
        for row in csv.DictReader(file):
            if (row["cores"], row["cpu_khz"], row["gpu_hz"], row["emc_hz"]) == (cores, cpu_khz, gpu_hz, emc_hz):
                return row
    raise AssertionError(f"no row for {folder}")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parts[-3]}-{folder.parts[-2]}-{folder.name}")
def test_time_and_power_agree_with_the_table_within_one_percent(folder, tmp_path):
    store = FolderStore(tmp_path)
    (found,) = import_path(folder, store, window="5:")
    summary = summarize(store.open(found.id))
    row = row_of(folder)
    assert summary.minibatch.median_ms == pytest.approx(float(row["time_ms"]), rel=0.01)
    assert summary.minibatch.mean_ms == pytest.approx(float(row["time_mean_ms"]), rel=0.01)
    assert summary.power_w.median == pytest.approx(float(row["power_mw"]) / 1000, rel=0.01)
    assert summary.imported.window.first == 5


def test_the_damaged_files_are_imported_and_their_damage_is_named(tmp_path):
    store = FolderStore(tmp_path)
    damaged = {
        "raw_orin_nano/mobnet/pm_6_268800_510000000_2133000000": "mn_nw4_pf2_cpufreq_stats.csv: holds 3533 NUL bytes",
        "raw_orin_nano/resnet/pm_6_1510400_510000000_665600000": "train_log_file_pm_14: holds 2323 NUL bytes",
        "raw_orin_agx/mobnet/pm_2_1344000_114750000_3199000000": "mn_nw4_pf2_epoch_stats.csv: its log_time runs 4.7",
    }
    for folder, damage in damaged.items():
        (found,) = import_path(SHARED / folder, store)
        assert any(problem.startswith(damage) for problem in found.problems), found.problems


@pytest.mark.parametrize("table", sorted(SHARED.glob("orin_*.csv")), ids=lambda table: table.stem)
def test_every_published_table_becomes_one_campaign_with_every_row(table, tmp_path):
    store = FolderStore(tmp_path)
    (found,) = import_path(table, store)
    with table.open() as file:
        rows = sum(1 for _ in file) - 1
    assert (found.kind, found.samples, found.problems) == ("campaign", rows, ())
