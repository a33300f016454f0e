"""Tries the best remedy of a diagnosis: in another run of the experiment, or in short trials of a user's command."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgetrain.api.measure import execute
from edgetrain.api.records import StoreLike, open_store
from edgetrain.api.records import summarize as sum_up
from edgetrain.api.trial_measure import TrialMeasure
from edgetrain.device import open_device
from edgetrain.errors import UsageError
from edgetrain.prediction import PipelineSetting, WhatIfModel
from edgetrain.recommendation import (
    PER_COLD_MINIBATCH,
    PER_MINIBATCH,
    WORTH_PCT,
    Diagnosis,
    Remedy,
    VerifiedRemedy,
    gain_interval,
)
from edgetrain.record import Run
from edgetrain.runner import RAM_SHARE, Progress, TrialGuard, TrialPlace, TrialRule, check_command, read_allowance
from edgetrain.schema import (
    Experiment,
    Limits,
    LoaderArguments,
    LoaderMeasurement,
    Loading,
    Scalar,
    Workload,
    settings_of,
)

Measuring = Callable[[Mapping[str, Scalar]], Run]  # trains with these settings changed and returns the run

FROM_OUTSIDE = ("workers", "prefetch", "pin_memory", "persistent")  # settings that a script need not be changed for
PAIRS = 2  # trials of the recorded setting, and as many of the remedy


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """How a remedy is tried; the rest is about a user's command, which runs in trials."""

    measure: Measuring | None = None
    trial_args: str = ""
    allow_writes: bool = False
    rule: TrialRule | None = None
    writable: tuple[str, ...] = ()  # folders in which trials may write


def verify(
    run: Run,
    diagnosis: Diagnosis,
    model: WhatIfModel | None,
    options: VerifyOptions,
    store: StoreLike = None,
    progress: Progress | None = None,
) -> VerifiedRemedy:
    """Try the best remedy that is a setting, and return what was measured beside what was predicted."""
    experiment = run.manifest.experiment
    command = None if experiment is None else experiment.workload.command
    if options.trial_args and (command is None or options.measure is not None):
        raise UsageError(f"--trial-args adds arguments to a command in trials, and {run.id} is not verified by trials")
    by_trials = command is not None and options.measure is None
    remedy = best_to_try(diagnosis, FROM_OUTSIDE if by_trials else None)
    if options.measure is not None:
        return _compared(remedy, options.measure(remedy.settings), diagnosis)
    if experiment is None:
        raise UsageError(f"{run.id} does not record how it was run, so it cannot be repeated with other settings")
    assert model is not None  # without one there is no remedy
    device = _device_of(run)
    if by_trials:
        return _tried(experiment, remedy, model, options, device, store, progress)
    changed = changed_experiment(experiment, remedy.settings, model)
    return _compared(remedy, execute(changed, device=device, store=open_store(store), progress=progress), diagnosis)


def best_to_try(diagnosis: Diagnosis, among: Sequence[str] | None = None) -> Remedy:
    """Return the remedy with the largest predicted gain that is a setting of a run, or one of the given settings."""
    for remedy in diagnosis.remedies:
        named = set(remedy.settings)
        if named and remedy.gain_pct >= WORTH_PCT and (among is None or named <= set(among)):
            return remedy
    if diagnosis.remedies_reason:
        raise UsageError(f"there is no remedy to try: {diagnosis.remedies_reason}")
    kind = "that is a setting of a run"
    if among is not None:
        kind = f"that can be set from outside a script ({', '.join(among)})"
    raise UsageError(f"there is no remedy to try: none {kind} is predicted to gain {WORTH_PCT:g} % or more")


# Another run of the same experiment


def changed_experiment(experiment: Experiment, changes: Mapping[str, Scalar], model: WhatIfModel) -> Experiment:
    """Return the experiment with settings changed, so that its run can be compared with the recorded one.

    It starts with the page cache as cold or warm as the recorded run did: that one has left the dataset in it. It takes
    as many epochs as were recorded whole, and with another batch size as many samples. It belongs to no campaign of the
    user's. A preset was applied to the recorded experiment already, so its dataset is not made smaller once more.
    """
    loading = experiment.loading
    if loading.cache == "keep":
        loading = replace(loading, cache="cold" if model.predictor.base.began_cold else "warm")
    changed = replace(
        _outside_campaigns(experiment), loading=loading, epochs=len(model.predictor.base.epochs), shrink=1.0
    )
    if "batch_size" in changes and experiment.minibatches is not None:
        taken = experiment.minibatches * model.predictor.setting.batch_size
        changed = replace(changed, minibatches=max(1, -(-taken // int(changes["batch_size"] or 1))))
    for name, value in changes.items():
        changed = _changed(changed, name, value)
    return changed


def _outside_campaigns(experiment: Experiment) -> Experiment:
    """Return the experiment as a verification keeps it: beside the user's own campaigns, not as one of their rows."""
    campaign = time.strftime("verify-%Y%m%d-%H%M%S")
    return replace(experiment, campaign=campaign, factors={}, repeat=0, position=None)


def _changed(experiment: Experiment, name: str, value: Scalar) -> Experiment:
    """Return the experiment with one setting changed, wherever it is declared."""
    for part, declared in (("workload", Workload), ("loading", Loading), ("limits", Limits)):
        if any(each.name == name for each in settings_of(declared)):
            section = replace(getattr(experiment, part), **{name: value})
            return replace(experiment, **{part: section})
    raise ValueError(f"{name} is not a setting of a workload, its loading or its limits")


def _compared(remedy: Remedy, tried: Run, diagnosis: Diagnosis) -> VerifiedRemedy:
    measured_s = sum(epoch.e2e_s for epoch in sum_up(tried).epochs)
    return VerifiedRemedy(
        change=remedy.change,
        run=tried.id,
        predicted_s=remedy.e2e_s,
        predicted_lo=remedy.e2e_lo,
        predicted_hi=remedy.e2e_hi,
        measured_s=measured_s,
        gain_pct=100.0 * (1.0 - measured_s / diagnosis.recorded_s) if diagnosis.recorded_s else 0.0,
    )


def _device_of(run: Run) -> str:
    """Return the device that a run was recorded on, as commands take it; UsageError where this is another machine."""
    recorded = run.manifest.device
    if recorded.kind == "simulated":
        return f"sim:{recorded.name}"
    here = open_device("auto").spec
    same_unit = recorded.serial is None or here.serial is None or recorded.serial == here.serial
    if recorded.name not in (None, here.name) or not same_unit:
        unit = "" if recorded.serial is None else f", serial {recorded.serial}"
        raise UsageError(
            f"{run.id} was recorded on another machine ({recorded.name}{unit}), and this is {here.name}: what is "
            "measured here cannot be compared with it; use --verify there"
        )
    return "auto"


# Trials of a user's command


def _tried(
    experiment: Experiment,
    remedy: Remedy,
    model: WhatIfModel,
    options: VerifyOptions,
    device: str,
    store: StoreLike,
    progress: Progress | None,
) -> VerifiedRemedy:
    """Compare trials of the script as it is with trials under the remedy, per steady minibatch."""
    experiment = _in_trials(experiment, options.trial_args)
    setting = _with_arguments(model.predictor.setting, remedy)
    place = TrialPlace(
        store=open_store(store),
        device=device,
        rule=options.rule or TrialRule(),
        most_bytes=int(RAM_SHARE * read_allowance().memory_bytes),
        progress=progress or (lambda stage, done, total: None),
        unified=open_device(device).spec.kind == "jetson",
        allow_writes=options.allow_writes,
        writable=options.writable,
    )
    guard = TrialGuard()
    try:
        measure = TrialMeasure(experiment, replace(place, guard=guard))
        before, after = _alternate(measure, _arguments(model.predictor.setting), _arguments(setting))
    finally:
        guard.close()
    cold = experiment.loading.cache == "cold" and model.predictor.base.began_cold
    row, minibatches = model.row_for(setting, remedy.settings), setting.minibatches
    predicted, recorded = ((each.first if cold else each.later).e2e_s for each in (row, model.base))
    gain = gain_interval(before, after)
    return VerifiedRemedy(
        change=remedy.change,
        run=after[-1].run,
        predicted_s=predicted.value / minibatches,
        predicted_lo=predicted.lo / minibatches,
        predicted_hi=predicted.hi / minibatches,
        measured_s=_mean_s(after),
        gain_pct=gain.value,
        per=PER_COLD_MINIBATCH if cold else PER_MINIBATCH,
        gain_lo_pct=gain.lo,
        gain_hi_pct=gain.hi,
        before_s=_mean_s(before),
        recorded_s=recorded.value / model.predictor.setting.minibatches,
    )


def _in_trials(experiment: Experiment, trial_args: str) -> Experiment:
    """Return the experiment as its trials run it."""
    try:
        command = (*(experiment.workload.command or ()), *shlex.split(trial_args))
    except ValueError as error:
        raise UsageError(f"cannot read --trial-args {trial_args!r} as arguments: {error}") from None
    check_command(command)
    workload = replace(experiment.workload, command=command)
    return replace(_outside_campaigns(experiment), workload=workload)


def _alternate(
    measure: TrialMeasure, recorded: LoaderArguments, remedy: LoaderArguments
) -> tuple[list[LoaderMeasurement], list[LoaderMeasurement]]:
    """Measure the script as it is and under the remedy, in turns; the first trial only shows its loader.

    That one also brings the dataset into the page cache, where later ones find it.
    """
    start = measure.first().arguments
    if start != recorded:
        raise UsageError(
            f"the run was recorded with {recorded}, and the script now uses {start}: record it again with edgetrain "
            "profile, then diagnose that run"
        )
    before, after = [], []
    for _ in range(PAIRS):
        before.append(measure(start))
        after.append(measure(remedy))
    return before, after


def _with_arguments(setting: PipelineSetting, remedy: Remedy) -> PipelineSetting:
    changes = remedy.settings
    return replace(
        setting,
        workers=int(changes.get("workers", setting.workers) or 0),
        prefetch=int(changes.get("prefetch", setting.prefetch) or setting.prefetch),
        pin_memory=bool(changes.get("pin_memory", setting.pin_memory)),
        persistent=bool(changes.get("persistent", setting.persistent)),
    )


def _arguments(setting: PipelineSetting) -> LoaderArguments:
    workers = setting.workers
    return LoaderArguments(
        workers, setting.prefetch if workers else None, setting.pin_memory, setting.persistent and workers > 0
    )


def _mean_s(trials: Sequence[LoaderMeasurement]) -> float:
    return sum(each.e2e_s for each in trials) / len(trials)
