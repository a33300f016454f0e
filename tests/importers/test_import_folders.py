"""An edge-train-bench folder becomes a run; damage is named, and units are right or absent."""

from __future__ import annotations

import random

import numpy as np
import pytest

from edgetrain.analysis import break_down, summarize
from edgetrain.errors import BadTable, UsageError
from edgetrain.importers import import_path
from edgetrain.record import FolderStore, LoadingFacts, SteadyWindow
from edgetrain.schema import Origin
from tests.torture.folders import MUTATIONS, write_folder
from tests.torture.importers import torture_folders


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "logs" / "mobnet" / "pm_4_883200_510000000_2133000000"


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


def bring_in(folder, store, **options):
    (found,) = import_path(folder, store, **options)
    return found, store.open(found.id)


def test_a_folder_becomes_a_replayed_run_with_its_facts(folder, store):
    write_folder(folder, random.Random(1))
    _, run = bring_in(folder, store)
    manifest = run.manifest
    assert manifest.origin is Origin.REPLAYED and manifest.state == "finished"
    assert manifest.workload.network == "mobilenet_v3" and manifest.workload.parameters == 4131561
    assert manifest.loading == LoadingFacts(workers=4, prefetch=2)
    assert manifest.device.name == "orin-nano"
    assert manifest.power_mode.start.cpu_hz == 883_200_000
    assert manifest.imported.source == str(folder)


def test_each_minibatch_lasts_as_long_as_the_log_says_and_its_parts_add_up(folder, store):
    write_folder(folder, random.Random(2))
    _, run = bring_in(folder, store, window="1:")
    parts = break_down(run.minibatches())
    whole = [float(line.split(",")[4]) for line in (folder / "mn_nw4_pf2_epoch_stats.csv").read_text().splitlines()[1:]]
    assert parts.e2e_s * 1e3 == pytest.approx(whole, abs=0.01)
    np.testing.assert_allclose(parts.stall_s + parts.copy_s + parts.compute_s + parts.overhead_s, parts.e2e_s)
    computed = [float(row.split(",")[3]) for row in (folder / "mn_nw4_pf2_compute.csv").read_text().splitlines()[1:]]
    assert parts.compute_s * 1e3 == pytest.approx(computed, abs=0.01)


def test_the_logs_own_writing_time_is_nobodys(folder, store):
    write_folder(folder, random.Random(3), minibatches=30)
    _, run = bring_in(folder, store, window="5:")
    summary = summarize(run)
    # 3 ms per minibatch go into writing the log; they are in the instants, not in the minibatch.
    gaps_ms = np.diff(run.minibatches()["done_us"])[5:] / 1e3
    assert summary.minibatch.mean_ms == pytest.approx(np.mean(gaps_ms) - 3.0, abs=0.1)


def test_the_window_is_recorded_and_without_one_our_rule_decides(folder, store):
    write_folder(folder, random.Random(4))
    _, run = bring_in(folder, store, window="5:9")
    assert run.manifest.steady == SteadyWindow(5, 8, "asked: --window 5:9")
    assert summarize(run).steady.last == 8
    _, run = bring_in(folder, store)
    assert run.manifest.steady is None and run.manifest.imported.window is None
    assert summarize(run).steady.first >= 1  # the first minibatch took four seconds


@pytest.mark.parametrize("window", ["5", "x:", "9:3", "-1:", ""])
def test_a_window_that_says_nothing_is_refused_before_anything_is_written(folder, store, window):
    write_folder(folder, random.Random(5))
    with pytest.raises(UsageError, match="window"):
        bring_in(folder, store, window=window)
    assert not store.runs_folder.exists()


def test_a_window_beyond_the_run_is_refused(folder, store):
    write_folder(folder, random.Random(5))
    with pytest.raises(UsageError, match="holds 12"):
        bring_in(folder, store, window="40:")


def test_rows_of_the_previous_mode_are_kept_and_reported(folder, store):
    write_folder(folder, random.Random(6), stale=3)
    found, run = bring_in(folder, store)
    named = [problem for problem in found.problems if "previous power mode" in problem]
    assert {problem.split(":")[0].rpartition("pf2_")[2] for problem in named} == {
        "tegrastats.csv",
        "cpufreq_stats.csv",
        "emc_stats.csv",
    }
    assert all("first 3 rows" in problem for problem in named)
    assert run.samples("cpu_clock")["cpu0_hz"][0] == 268_000_000.0


def test_both_iostat_orders_give_the_values_of_their_names(folder, store):
    write_folder(folder, random.Random(7))
    _, run = bring_in(folder, store)
    iostat = run.samples("iostat")
    # The values are 0, 1, 2, … in the order of the names: rkB/s is third in the old order, second in the new one.
    assert set(iostat["read_bytes_per_s"].tolist()) == {2 * 1024.0, 1 * 1024.0}
    assert set(iostat["writes_per_s"].tolist()) == {1.0, 6.0}


def test_human_units_of_free_are_bytes(folder, store):
    write_folder(folder, random.Random(8))
    _, run = bring_in(folder, store)
    assert run.samples("memory")["available_bytes"][0] == pytest.approx(4.9 * 2**30, rel=1e-6)
    assert run.samples("swap")["swap_used_bytes"][0] == pytest.approx(4 * 2**20)


def test_a_size_without_a_unit_is_not_believed(folder, store):
    files = write_folder(folder, random.Random(8))
    files["mem_stats"].write_text(files["mem_stats"].read_text().replace("4.9Gi", "4900"))
    found, run = bring_in(folder, store)
    assert "available_bytes" not in run.samples("memory") and "free_bytes" in run.samples("memory")
    assert any("available is not a size" in problem for problem in found.problems)


def test_loads_are_shares_and_cores_that_are_off_are_missing(folder, store):
    write_folder(folder, random.Random(8))
    _, run = bring_in(folder, store)
    cpu = run.samples("cpu")
    assert cpu["cpu0_share"].min() > 0 and cpu["cpu0_share"].max() <= 1
    assert np.isnan(cpu["cpu5_share"]).all()


def test_a_sample_that_is_there_twice_is_taken_once_and_reported(folder, store):
    files = write_folder(folder, random.Random(8))
    lines = files["tegrastats"].read_text().splitlines()
    files["tegrastats"].write_text("\n".join([lines[0], lines[1], *lines[1:]]) + "\n")
    found, run = bring_in(folder, store)
    assert len(run.samples("rails")["at_us"]) == len(lines) - 1
    assert any("twice" in problem for problem in found.problems)


def test_a_number_with_a_hole_in_it_is_no_shorter_number(folder, store):
    files = write_folder(folder, random.Random(8))
    data = files["compute"].read_bytes().splitlines()
    cells = data[4].split(b",")
    cells[3] = b"2\x0000.5"
    data[4] = b",".join(cells)
    files["compute"].write_bytes(b"\n".join(data) + b"\n")
    found, run = bring_in(folder, store)
    assert run.minibatches()["copying_us"][3] == -1  # when it computed is not known
    assert any("cannot be read" in problem and "line 5" in problem for problem in found.problems)


def test_the_cached_share_reaches_the_epochs(folder, store):
    write_folder(folder, random.Random(9))
    _, run = bring_in(folder, store)
    assert summarize(run).epochs[0].cached_share_before == pytest.approx(0.25)


def test_a_clock_that_runs_behind_is_moved_onto_the_others(folder, store):
    files = write_folder(folder, random.Random(10))
    lines = files["epoch_stats"].read_text().splitlines()
    late = [",".join([*row.split(",")[:-1], f"{float(row.split(',')[-1]) - 1.7}"]) for row in lines[1:]]
    files["epoch_stats"].write_text("\n".join([lines[0], *late]))
    files["compute"].write_text(files["compute"].read_text())
    found, run = bring_in(folder, store)
    assert any("runs 1.7" in problem and "behind" in problem for problem in found.problems)
    assert (run.minibatches()["ready_us"] <= run.minibatches()["done_us"]).all()


def test_energy_per_minibatch_is_taken_only_when_power_times_time_agrees(folder, store):
    write_folder(folder, random.Random(11))
    energies = folder / "mn_nw4_pf2_energy.csv"
    energies.write_text("\n".join(["12.9"] + ["0.71"] * 11))  # mWh: 11 W for 232 ms
    _, run = bring_in(folder, store)
    assert run.samples("logged_energy")["minibatch_j"][3] == pytest.approx(0.71 * 3.6)
    energies.write_text("\n".join(["12900"] + ["710"] * 11))
    found, run = bring_in(folder, store)
    assert "logged_energy" not in run.probes
    assert any("unit is not known" in problem for problem in found.problems)


def test_one_garbled_instant_costs_one_minibatch(folder, store):
    files = write_folder(folder, random.Random(12))
    for kind in ("fetch", "compute", "epoch_stats"):
        lines = files[kind].read_text().splitlines()
        lines[5] = ",".join([*lines[5].split(",")[:-1], "90000.5"])
        files[kind].write_text("\n".join(lines) + "\n")
    found, _ = bring_in(folder, store)
    assert found.minibatches == 11
    assert any("ends before an earlier one" in problem for problem in found.problems)


def test_minibatch_files_that_disagree_are_reported(folder, store):
    files = write_folder(folder, random.Random(13))
    files["fetch"].write_text("\n".join(files["fetch"].read_text().splitlines()[:-4]) + "\n")
    found, run = bring_in(folder, store)
    assert any("disagree" in problem for problem in found.problems)
    assert found.minibatches == 12
    assert (run.minibatches()["ready_us"][-4:] == -1).all()  # not known, not guessed


def test_a_tree_of_folders_becomes_one_run_each(tmp_path, store):
    for network in ("mobnet", "resnet"):
        write_folder(tmp_path / "raw" / network / "pm_4_883200_510000000_2133000000", random.Random(14))
    found = list(import_path(tmp_path / "raw", store))
    assert [store.open(each.id).manifest.workload.network for each in found] == ["mobilenet_v3", "resnet18"]


def test_one_short_run_does_not_end_the_import_of_a_tree(tmp_path, store):
    name = "pm_4_883200_510000000_2133000000"
    write_folder(tmp_path / "raw" / "mobnet" / name, random.Random(14), minibatches=4)
    write_folder(tmp_path / "raw" / "resnet" / name, random.Random(14), minibatches=12)
    short, long = import_path(tmp_path / "raw", store, window="5:")
    assert any("steady state is detected" in problem for problem in short.problems)
    assert store.open(short.id).manifest.imported.window is None
    assert store.open(long.id).manifest.imported.window.first == 5


def test_a_folder_without_logs_is_refused_with_what_would_do(tmp_path, store):
    with pytest.raises(BadTable, match="epoch_stats"):
        list(import_path(tmp_path, store))


@pytest.mark.parametrize("mutation", sorted(set(MUTATIONS), key=lambda each: each.__name__))
def test_a_folder_damaged_in_this_way_still_imports(mutation, folder, store):
    dice = random.Random(mutation.__name__)
    files = write_folder(folder, dice)
    mutation(folder, files, dice)
    try:
        _, run = bring_in(folder, store)
    except BadTable:
        assert mutation.__name__ == "missing"
    else:
        assert summarize(run).origin is Origin.REPLAYED


def test_damaged_folders_never_crash_and_never_say_a_wrong_unit():
    assert torture_folders(60, seed=21) == 60
