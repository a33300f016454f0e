"""Trying a remedy: the same start as the recorded run, or short trials of a user's own command."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from edgetrain.analysis import find_verdict, summarize
from edgetrain.api import diagnose, open_run, profile
from edgetrain.api.trial_measure import ScriptWrites
from edgetrain.api.verifying import FROM_OUTSIDE, _arguments, _with_arguments, best_to_try, changed_experiment
from edgetrain.documents import to_document
from edgetrain.errors import UsageError
from edgetrain.lab import as_board
from edgetrain.prediction import ChangeFacts, PipelinePredictor, WhatIfModel, changed_setting
from edgetrain.recommendation import PER_MINIBATCH, Diagnosis, Remedy, diagnose_run
from edgetrain.runner import TrialRule
from edgetrain.schema import SCHEMA, Experiment, LoaderArguments, Loading, Workload
from tests.prediction.pipeline.recorded import Training
from tests.schemas import check_document

SCRIPT = Path(__file__).parents[1] / "scripts" / "tunable.py"
QUICK = TrialRule(warm_up=4, minibatches=12, seconds=0.3, limit_s=100)


def model_of(training: Training) -> WhatIfModel:
    run = training.run()
    summary = summarize(run)
    return WhatIfModel(PipelinePredictor(run, summary), summary)


COLD = Training(workers=0, fetch_s=0.005, cold_read_s=0.14, epochs=2)
WARM = Training(workers=0, epochs=2)


def asked(cache: str, minibatches: int | None = None) -> Experiment:
    return Experiment(Workload("lenet5"), Loading(workers=0, cache=cache), minibatches=minibatches)


@pytest.mark.parametrize(
    ("training", "cache", "again"),
    [(COLD, "keep", "cold"), (WARM, "keep", "warm"), (COLD, "cold", "cold"), (WARM, "warm", "warm")],
)
def test_a_repeat_starts_with_the_page_cache_as_the_recorded_run_did(training, cache, again):
    changed = changed_experiment(asked(cache), {"workers": 2}, model_of(training))
    assert changed.loading.cache == again
    assert changed.loading.workers == 2


def test_a_repeat_with_another_batch_size_takes_as_many_samples():
    model = model_of(WARM)  # minibatches of 16
    changed = changed_experiment(asked("keep", minibatches=41), {"batch_size": 32}, model)
    assert changed.workload.batch_size == 32
    assert changed.minibatches == 21
    assert changed_experiment(asked("keep"), {"batch_size": 32}, model).minibatches is None
    assert changed_experiment(asked("keep", minibatches=41), {"workers": 2}, model).minibatches == 41


def test_a_repeat_takes_as_many_epochs_as_were_recorded_whole():
    cut = model_of(replace(WARM, epochs=3, last_minibatches=10))
    asked_for_many = replace(asked("keep"), epochs=50)
    assert changed_experiment(asked_for_many, {"workers": 2}, cut).epochs == 2


def test_a_repeat_is_no_row_of_the_users_campaign():
    mine = replace(asked("keep"), campaign="mine", factors={"workers": 0}, repeat=2, position=7)
    changed = changed_experiment(mine, {"workers": 2}, model_of(WARM))
    assert changed.campaign is not None and changed.campaign.startswith("verify-")
    assert (changed.factors, changed.repeat, changed.position) == ({}, 0, None)


def test_a_repeat_does_not_make_the_dataset_of_a_preset_smaller_once_more():
    shrunk = as_board(replace(asked("keep"), preset="xavier-agx", shrink=10.0), image_s=lambda width, height: None)
    assert shrunk.workload.dataset_scale == pytest.approx(0.1)
    changed = changed_experiment(shrunk, {"workers": 2}, model_of(WARM))
    again = as_board(changed, image_s=lambda width, height: None)
    assert again.workload == shrunk.workload
    assert again.limits == shrunk.limits


SCRIPTED = Experiment(Workload("train.py", command=("python", "train.py")))


def test_a_trial_sets_the_loader_arguments_that_were_predicted():
    run = Training(workers=0, persistent=False, fetch_s=0.01, minibatches=20, cores=8).run(experiment=SCRIPTED)
    model = WhatIfModel(PipelinePredictor(run, summarize(run)), summarize(run))
    for settings in ({"workers": 2}, {"workers": 2, "persistent": True}):
        remedy = Remedy("more workers", 1.0, 0.9, 1.1, 20.0, "none", settings)
        tried = _arguments(_with_arguments(model.predictor.setting, remedy))
        assert tried == LoaderArguments(2, 2, False, "persistent" in settings)
        assert changed_setting(model.predictor.base, model.summary, settings).persistent is tried.persistent


def diagnosed(*remedies: Remedy) -> Diagnosis:
    run = WARM.run()
    summary = summarize(run)
    found = diagnose_run(find_verdict(run, summary), summary, None, None, ChangeFacts())
    return replace(found, remedies=remedies)


def gaining(change: str, gain_pct: float, **settings: int) -> Remedy:
    return Remedy(change, 1.0, 0.9, 1.1, gain_pct, "none", settings)


def test_only_a_remedy_that_is_worth_it_is_tried():
    little = diagnosed(gaining("num_workers=2", 2.9, workers=2))
    with pytest.raises(UsageError, match="none that is a setting of a run is predicted to gain 3 % or more"):
        best_to_try(little)
    assert best_to_try(diagnosed(gaining("num_workers=2", 3.0, workers=2))).change == "num_workers=2"


def test_of_a_command_only_loader_arguments_are_tried():
    both = diagnosed(gaining("batch_size=32", 20.0, batch_size=32), gaining("num_workers=2", 9.0, workers=2))
    assert best_to_try(both).change == "batch_size=32"
    assert best_to_try(both, FROM_OUTSIDE).change == "num_workers=2"
    with pytest.raises(UsageError, match="set from outside a script"):
        best_to_try(diagnosed(gaining("batch_size=32", 20.0, batch_size=32)), FROM_OUTSIDE)


def test_arguments_of_trials_need_trials():
    with pytest.raises(UsageError, match="give that too"):
        diagnose(WARM.run(), trial_args="--no-save")


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("store")


def profiled(store: Path, *words: str) -> str:
    script = [sys.executable, str(SCRIPT), "--fetch-ms", "12", "--step-ms", "6", "--samples", "160", "--epochs", "2"]
    done = profile([*script, *words], device="host", store=store)
    assert done.status == 0
    return done.run.id


def test_the_best_loader_argument_of_a_script_is_tried_from_outside_it(store: Path) -> None:
    run = profiled(store)
    found = diagnose(run, verify=True, trial_args="--epochs 50", rule=QUICK, store=store)
    tried = found.verified
    assert tried is not None and tried.change.startswith("num_workers=")
    assert tried.per == PER_MINIBATCH
    assert tried.before_s == pytest.approx(0.018, rel=0.4)
    assert tried.recorded_s == pytest.approx(0.018, rel=0.4)
    assert tried.measured_s < tried.before_s
    assert tried.gain_pct == pytest.approx(100 * (1 - tried.measured_s / tried.before_s))
    assert tried.gain_lo_pct <= tried.gain_pct <= tried.gain_hi_pct
    assert 0.004 < tried.predicted_s < 0.018
    trial = open_run(tried.run, store)
    loader, change = trial.main.facts.loaders[-1], tried.change.partition(", ")
    assert loader.workers == int(change[0].partition("=")[2])
    assert loader.persistent_workers is (change[2] == "persistent_workers=True")
    assert trial.manifest.command[-2:] == ("--epochs", "50")
    check_document(["diagnose"], {"schema": SCHEMA, **to_document(found)})


def test_a_script_that_writes_is_not_tried_again_without_leave(store: Path, tmp_path: Path) -> None:
    run = profiled(store, "--save", str(tmp_path / "saved.pt"))
    with pytest.raises(ScriptWrites, match=r"saved\.pt.*--allow-writes"):
        diagnose(run, verify=True, rule=QUICK, store=store)


def test_a_script_that_was_changed_since_is_not_compared(store: Path) -> None:
    run = profiled(store)
    with pytest.raises(UsageError, match="recorded with 0 workers, and the script now uses 3 workers"):
        diagnose(run, verify=True, trial_args="--workers 3", rule=QUICK, store=store)
