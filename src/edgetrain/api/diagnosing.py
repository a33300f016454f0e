"""What limits a recorded training, and what each remedy would gain."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from edgetrain.analysis import Summary, find_verdict
from edgetrain.api.measure import execute
from edgetrain.api.mode_effects import fastest_mode
from edgetrain.api.records import RunLike, StoreLike, open_store
from edgetrain.api.records import summarize as sum_up
from edgetrain.api.what_if import model_of, open_recorded, storage_media
from edgetrain.device import open_device
from edgetrain.errors import PredictError, UsageError
from edgetrain.prediction import ChangeFacts
from edgetrain.recommendation import Diagnosis, Remedy, VerifiedRemedy, diagnose_run
from edgetrain.record import Run
from edgetrain.runner import Progress
from edgetrain.schema import Experiment, Limits, Loading, Scalar, Workload, settings_of

Measuring = Callable[[Mapping[str, Scalar]], Run]  # trains with these settings changed and returns the run


def diagnose(
    run: RunLike = "last",
    *,
    verify: bool = False,
    measure: Measuring | None = None,
    media: Path | str | None = None,
    store: StoreLike = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Name what limits a run, with evidence and remedies ranked by predicted gain.

    `verify` tries the best remedy that is a setting and adds what was measured: by running the run's own experiment
    again, or by `measure` where the run was a user's command.
    """
    opened = open_recorded(run, store)
    summary = sum_up(opened)
    if not summary.epochs:
        raise PredictError(
            f"{summary.run} holds no training minibatches, so what limits it is not known; edgetrain show "
            f"{summary.run} says why"
        )
    verdict = find_verdict(opened, summary)
    facts = ChangeFacts(storage_media(media), mode=fastest_mode(summary, store=store))
    model, reason = None, None
    try:
        model = model_of(opened, summary, store=store)
    except PredictError as error:
        reason = str(error)
    found = diagnose_run(verdict, summary, model, reason, facts)
    if not verify:
        return found
    return replace(found, verified=_verified(opened, summary, found, measure or _again(opened, store, progress)))


def _verified(run: Run, summary: Summary, diagnosis: Diagnosis, measure: Measuring) -> VerifiedRemedy:
    """Try the best remedy that is a setting."""
    remedy = best_to_try(diagnosis)
    tried = measure(remedy.settings)
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


def best_to_try(diagnosis: Diagnosis) -> Remedy:
    """Return the remedy with the largest predicted gain that is a setting of a run."""
    for remedy in diagnosis.remedies:
        if remedy.settings and remedy.gain_pct > 0:
            return remedy
    if diagnosis.remedies_reason:
        raise UsageError(f"there is no remedy to try: {diagnosis.remedies_reason}")
    raise UsageError("there is no remedy to try: none that is a setting of a run is predicted to help")


def _again(run: Run, store: StoreLike, progress: Progress | None) -> Measuring:
    """Return what runs the experiment of a run again with some settings changed."""
    experiment = run.manifest.experiment
    if experiment is None:
        raise UsageError(f"{run.id} does not record how it was run, so it cannot be repeated with other settings")
    if experiment.workload.command is not None:
        command = shlex.join(experiment.workload.command)
        raise UsageError(
            f"--verify repeats what `edgetrain run` trained, and {run.id} is a run of your command; edgetrain tune -- "
            f"{command} tries loader arguments on it"
        )
    device = _device_of(run)

    def measure(changes: Mapping[str, Scalar]) -> Run:
        changed = experiment
        for name, value in changes.items():
            changed = _changed(changed, name, value)
        return execute(changed, device=device, store=open_store(store), progress=progress)

    return measure


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


def _changed(experiment: Experiment, name: str, value: Scalar) -> Experiment:
    """Return the experiment with one setting changed, wherever it is declared."""
    for part, declared in (("workload", Workload), ("loading", Loading), ("limits", Limits)):
        if any(each.name == name for each in settings_of(declared)):
            section = replace(getattr(experiment, part), **{name: value})
            return replace(experiment, **{part: section})
    return replace(experiment, **{name: value})  # type: ignore[arg-type]
