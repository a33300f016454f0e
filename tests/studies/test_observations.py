"""What findings take from a recorded run: its conditions and its epochs at the board's pace."""

from __future__ import annotations

import dataclasses

import pytest

from edgetrain.api import execute, open_run, runs, summarize
from edgetrain.record import LimitsRecord
from edgetrain.schema import LimitsAsked, Origin
from edgetrain.studies import observe
from edgetrain.studies.observations import conditions_of

SETTINGS = {"minibatches": 20, "epochs": 2, "storage": "hdd", "workers": 1, "cache": "cold"}


@pytest.fixture
def board(tmp_path, monkeypatch):
    for name in ("STORE", "SIM_HOME"):
        monkeypatch.setenv(f"EDGETRAIN_{name}", str(tmp_path / name.lower()))

    def train(**settings):
        run = execute("lenet5", device="sim:xavier-agx", **{**SETTINGS, **settings})
        return run, summarize(run)

    return train


def test_conditions_are_what_was_chosen_and_what_was_read_back(board):
    seen = observe(*board(power_mode="MODE_15W", prefetch=4))
    assert (seen.conditions.board, seen.conditions.network, seen.conditions.medium) == ("xavier-agx", "lenet5", "hdd")
    assert (seen.conditions.workers, seen.conditions.batch_size, seen.conditions.cores) == (1, 16, 4)
    assert seen.conditions.gpu_hz == 624_750_000 and seen.conditions.dvfs is False
    assert ("prefetch", "4") in seen.conditions.other  # runs that differ in it are never taken for repeats
    assert seen.origin is Origin.SIMULATED and not seen.paced and seen.parameters == 61_706
    assert "JetPack 4" in str(seen.conditions.software)


def test_with_dvfs_the_mode_is_the_one_asked_for(board):
    seen = observe(*board(power_mode="MAXN", dvfs=True))
    assert seen.conditions.dvfs is True and seen.conditions.gpu_hz == 1_377_000_000


def test_without_a_mode_asked_for_dvfs_is_not_known(board):
    assert observe(*board()).conditions.dvfs is None


def test_the_first_epoch_is_cold_only_where_the_cache_was(board):
    cold, warm = observe(*board()), observe(*board(cache="warm"))
    assert cold.cold is not None and len(cold.later) == 1
    assert warm.cold is None and len(warm.later) == 1


def test_a_measured_page_cache_says_whether_the_first_epoch_was_cold_and_not_what_was_asked_for(board):
    run, summary = board()  # asked for a cold one
    first, *later = summary.epochs

    def measured(share):
        return observe(
            run, dataclasses.replace(summary, epochs=(dataclasses.replace(first, cached_share_before=share), *later))
        )

    assert measured(0.05).cold is not None
    assert measured(0.6).cold is None


def test_a_simulated_board_is_described_by_the_page_cache_and_ram_it_was_given(board):
    run, summary = board(page_cache="1GB")
    assert observe(run, summary).conditions.page_cache_bytes == 1_000_000_000
    run, summary = board(ram="2GiB")
    assert observe(run, summary).ram_bytes == 2 << 30


def with_command(run, *words, **factors):
    experiment = run.manifest.experiment
    workload = dataclasses.replace(experiment.workload, command=words)
    manifest = dataclasses.replace(run.manifest, experiment=dataclasses.replace(experiment, workload=workload))
    return dataclasses.replace(run, manifest=manifest), factors


@pytest.mark.parametrize(
    ("words", "factors", "command"),
    [
        (("python", "train.py"), {}, "python train.py"),
        (("python", "train.py", "--batch", "16"), {"batch_size": 16}, "python train.py --batch {batch_size}"),
        (("python", "train.py", "--batch=16", "-w4"), {"batch_size": 16, "workers": 4},
         "python train.py --batch={batch_size} -w{workers}"),
        (("python", "train.py", "--net", "vgg16", "--lr", "0.16"), {"batch_size": 16},
         "python train.py --net vgg16 --lr 0.16"),
    ],
)  # fmt: skip
def test_the_value_of_a_factor_is_left_open_in_a_scripts_command(board, words, factors, command):
    run, summary = board()
    run, factors = with_command(run, *words, **factors)
    assert conditions_of(run, dataclasses.replace(summary, factors=factors)).command == command


def test_runs_of_different_scripts_are_different_settings(board):
    run, summary = board()
    one, other = (conditions_of(with_command(run, "python", name)[0], summary) for name in ("a.py", "b.py"))
    assert one != other


def test_times_of_an_emulated_run_are_multiplied_by_its_speed(board):
    run, summary = board()
    fast = dataclasses.replace(summary, limits=LimitsRecord(LimitsAsked(speed=5.0)))
    once, five = observe(run, summary).later[0], observe(run, fast).later[0]
    assert five.e2e_s == pytest.approx(5 * once.e2e_s) and five.compute_s == pytest.approx(5 * once.compute_s)
    assert five.energy_j == once.energy_j


def test_the_stall_is_without_the_pipelines_fill_and_the_wait_with_what_was_hidden(board):
    run, summary = board(workers=0)
    epoch, seen = summary.epochs[1], observe(run, summary).later[0]
    assert seen.stall_s == pytest.approx(epoch.fetch_stall_s - epoch.fill_s)
    assert seen.wait_s == pytest.approx(epoch.fetch_stall_s + epoch.hidden_wait_s)


def test_a_recorded_run_gives_the_same_again(board):
    run, summary = board()
    again = open_run(runs()[0].run)
    assert observe(again, summarize(again)) == observe(run, summary)
