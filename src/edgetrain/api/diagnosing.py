"""What limits a recorded training, and what each remedy would gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgetrain.analysis import find_verdict
from edgetrain.api.mode_effects import fastest_mode
from edgetrain.api.records import RunLike, StoreLike
from edgetrain.api.records import summarize as sum_up
from edgetrain.api.verifying import Measuring, VerifyOptions
from edgetrain.api.verifying import verify as try_best
from edgetrain.api.what_if import emulated_media, model_of, open_recorded, storage_media
from edgetrain.errors import PredictError, UsageError
from edgetrain.prediction import ChangeFacts
from edgetrain.recommendation import Diagnosis, diagnose_run
from edgetrain.runner import Progress, TrialRule, writable_folders


def diagnose(
    run: RunLike = "last",
    *,
    verify: bool = False,
    measure: Measuring | None = None,
    trial_args: str = "",
    allow_writes: bool = False,
    allow_writes_in: Sequence[Path | str] = (),
    rule: TrialRule | None = None,
    media: Path | str | None = None,
    store: StoreLike = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Name what limits a run, with evidence and remedies ranked by predicted gain.

    `verify` tries the best remedy that is a setting and adds what was measured: by running the run's own experiment
    again; of a user's command by short trials, with `trial_args` added to it, which `rule` ends and which may write in
    the folders `allow_writes_in`; or by `measure`.
    """
    options = VerifyOptions(measure, trial_args, allow_writes, rule, writable_folders(allow_writes_in))
    if not verify and (trial_args or allow_writes or allow_writes_in):
        raise UsageError(
            "--trial-args, --allow-writes and --allow-writes-in are about the trials of --verify; give that too"
        )
    opened = open_recorded(run, store)
    summary = sum_up(opened)
    if not summary.epochs:
        raise PredictError(
            f"{summary.run} holds no training minibatches, so what limits it is not known; edgetrain show "
            f"{summary.run} says why"
        )
    verdict = find_verdict(opened, summary)
    facts = ChangeFacts(emulated_media(summary, storage_media(media)), mode=fastest_mode(summary, store=store))
    model, reason = None, None
    try:
        model = model_of(opened, summary, store=store)
    except PredictError as error:
        reason = str(error)
    found = diagnose_run(verdict, summary, model, reason, facts)
    if not verify:
        return found
    return replace(found, verified=try_best(opened, found, model, options, store, progress))
