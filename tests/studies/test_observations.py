"""What findings take from a recorded run: its conditions and its epochs at the board's pace."""

from __future__ import annotations

import dataclasses

import pytest

from edgetrain.analysis import StallCauses, Verdict
from edgetrain.api import execute, open_run, runs, summarize
from edgetrain.record import ImportFacts, LimitsRecord, LoaderFacts, LoadingFacts
from edgetrain.schema import LimitsAsked, Origin
from edgetrain.studies import observe
from edgetrain.studies.conditions import conditions_of
from edgetrain.studies.data import CampaignData, _spell
from edgetrain.studies.judging import judge_claims
from edgetrain.studies.sigmetrics.claims import TAKE_AWAYS

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
    assert ("prefetch", "4") in seen.conditions.loading  # runs that differ in it are never taken for repeats
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


def judged(letter, observed):
    claims = [claim for claim in TAKE_AWAYS if claim.letter == letter]
    return judge_claims("sigmetrics", claims, CampaignData.of_runs(observed), Origin.MEASURED)[0]


def test_a_fleet_that_runs_every_unit_answers_whether_units_differ(board):
    run, summary = board(epochs=3)
    fleet = [
        observe(
            run,
            dataclasses.replace(
                summary, device=dataclasses.replace(summary.device, serial=unit), factors={"unit": f"xavier-agx-{unit}"}
            ),
        )
        for unit in "123"
    ]
    assert len({one.conditions for one in fleet}) == 1 and [one.unit for one in fleet] == ["1", "2", "3"]
    assert judged("13", fleet).verdict is Verdict.HOLDS
    assert judged("14", fleet).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("known", "board_name"),
    [
        ({"model": "ACME Tower", "gpu": "RTX 1"}, "ACME Tower, RTX 1"),
        ({"model": "ACME Tower", "gpu": None, "extra": {"processor": "Xeon"}}, "ACME Tower, Xeon"),
        ({"model": "AMD EPYC", "gpu": None, "extra": {"processor": "AMD EPYC"}}, "AMD EPYC"),
        ({"model": None, "gpu": None, "extra": {}, "host": "lab-7"}, "lab-7"),
    ],
)
def test_a_machine_that_is_no_board_is_known_by_its_model_and_gpu(board, known, board_name):
    run, summary = board()
    machine = dataclasses.replace(summary.device, name="host", **known)
    assert observe(run, dataclasses.replace(summary, device=machine)).conditions.board == board_name


def test_epochs_that_were_stopped_early_are_a_setting_and_show_no_share_of_the_dataset(board):
    run, summary = board(storage="ssd", workers=0)
    seen = observe(run, summary)
    assert seen.conditions.minibatches == 20 and not seen.whole
    assert seen.later[0].read_share is None and seen.later[0].cached_share is None
    run, summary = board(minibatches=None, dataset_scale=0.01, workers=0)
    seen = observe(run, summary)
    assert seen.conditions.minibatches is None and seen.whole
    assert seen.cold.read_share is not None and seen.later[0].cached_share is not None


def test_a_last_epoch_that_was_cut_short_leaves_the_earlier_ones_whole(board):
    run, summary = board(minibatches=None, dataset_scale=0.01, workers=0)
    first, last = summary.epochs
    seen = observe(run, dataclasses.replace(summary, epochs=(first, dataclasses.replace(last, minibatches=5))))
    assert seen.whole and seen.later[0].read_share is None and seen.later[0].cached_share is not None


def test_imported_logs_with_different_prefetch_depths_are_different_settings(board):
    run, summary = board()
    unasked = dataclasses.replace(run, manifest=dataclasses.replace(run.manifest, experiment=None))
    depths = [
        observe(unasked, dataclasses.replace(summary, loading=LoadingFacts(workers=1, prefetch=depth)))
        for depth in (2, 8)
    ]
    assert len({one.conditions for one in depths}) == 2


def test_how_a_scripts_workers_load_ahead_is_taken_from_its_loader(board):
    run, summary = board()
    unasked = dataclasses.replace(run, manifest=dataclasses.replace(run.manifest, experiment=None))
    loader = LoaderFacts(0, workers=2, prefetch_factor=4, persistent_workers=True, pin_memory=True)
    seen = conditions_of(unasked, dataclasses.replace(summary, loading=None, loaders=(loader,)))
    assert seen.loading == (("prefetch", "4"), ("persistent", "True")) and ("pin_memory", "True") in seen.other


def test_runs_without_workers_are_compared_with_every_depth_of_prefetching(board):
    none, deep = (observe(*board(workers=count, prefetch=4)) for count in (0, 1))
    assert none.conditions.loading == () != deep.conditions.loading
    (family,) = CampaignData.of_runs([none, deep]).families("workers")
    assert set(family.members) == {0, 1}


def test_an_imported_log_without_a_medium_has_no_cold_epoch_and_says_so(board):
    run, summary = board()
    nowhere = dataclasses.replace(summary, workload=dataclasses.replace(summary.workload, medium=None), factors={})
    seen = observe(run, dataclasses.replace(nowhere, imported=ImportFacts("log")))
    assert seen.cold is None and seen.conditions.medium is None
    reason = judged("8", [seen]).reason
    assert reason.startswith("no run has a first epoch with a cold page cache") and "imported log" in reason


def test_a_loop_whose_loader_was_not_watched_has_no_compute_time(board):
    run, summary = board()
    epochs = tuple(dataclasses.replace(epoch, fetch_stall_s=None, fill_s=None) for epoch in summary.epochs)
    seen = observe(run, dataclasses.replace(summary, epochs=epochs)).later[0]
    assert seen.stall_s is None and seen.compute_s is None and seen.e2e_s is not None


def test_reading_is_compared_with_the_whole_stall_the_fill_included(board):
    run, summary = board(workers=0)
    causes = StallCauses(blocked_s=0.4, preprocess_s=0.6, contention_s=0.0, handover_s=0.0)
    epochs = tuple(
        dataclasses.replace(epoch, fetch_stall_s=1.0, fill_s=0.5, stall_by=causes) for epoch in summary.epochs
    )
    assert observe(run, dataclasses.replace(summary, epochs=epochs)).cold.blocked_share == pytest.approx(0.4)


def test_energy_of_a_gpu_alone_does_not_count_as_the_devices(board):
    run, summary = board(baseload_s=20.0)
    whole = observe(run, summary)
    assert whole.conditions.power_scope == "module" and whole.later[0].energy_j and whole.later[0].baseload_j
    gpu = observe(run, dataclasses.replace(summary, power_scope="gpu"))
    assert gpu.conditions.power_scope is None and gpu.later[0].energy_j is None and gpu.later[0].baseload_j is None
    assert "their sensor measures the gpu only" in judged("19", [gpu]).reason


def test_runs_without_a_power_sensor_are_repeats_of_those_with_one(board):
    run, summary = board()
    without = dataclasses.replace(summary, power_scope=None)
    assert len(CampaignData.of_runs([observe(run, summary), observe(run, without)]).groups) == 1


def test_a_chosen_number_is_named_with_few_digits_and_a_word_as_it_is():
    named = _spell("other", (("cpu_share", "0.5502632472826089"), ("compute_ms", "78.0"), ("dtype", "bfloat16")))
    assert named == "cpu_share 0.55, compute_ms 78.0, dtype bfloat16"
