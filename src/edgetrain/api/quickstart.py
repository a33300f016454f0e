"""A small characterisation of this machine: a few short runs of two networks, and a page about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetrain.analysis import Summary
from edgetrain.api.records import StoreLike, open_store, summarize
from edgetrain.api.reports import write_report
from edgetrain.errors import UsageError, WorkloadError
from edgetrain.report import spell_median, spell_workers
from edgetrain.runner import (
    CACHES,
    SUBJECTS,
    WORKERS,
    Progress,
    Subject,
    affordable,
    execute,
    name_campaign,
    pace_s,
    plan_characterisation,
)
from edgetrain.schema import Experiment
from edgetrain.units import spell_seconds

TITLE = "How this machine trains"


@dataclass(frozen=True, slots=True)
class Characterisation:
    """The runs of a characterisation, and the page about them."""

    campaign: str
    report: str
    runs: tuple[Summary, ...]
    failed: tuple[str, ...]
    took_s: float


def characterise(
    output: Path | str = "edgetrain-report.html",
    budget_s: float = 140.0,
    store: StoreLike = None,
    announce: Callable[[str], None] = lambda text: None,
    make_progress: Callable[[str], Progress] = lambda label: lambda stage, done, total: None,
    subjects: Sequence[Subject] = SUBJECTS,
    workers: Sequence[int] = WORKERS,
    caches: Sequence[str] = CACHES,
) -> Characterisation:
    """Run networks (two, unless given) with these loader workers, from these page caches, and write a page."""
    target = Path(output).absolute()
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent} for the report; make it or give another -o")
    began_s = time.monotonic()
    records, campaign = open_store(store), name_campaign()
    summaries: list[Summary] = []
    failures: list[str] = []
    for subject in subjects:
        step_s = pace_s(subject, records, make_progress(f"{subject.network}, finding its pace"))
        minibatches = affordable(subject, step_s, budget_s, len(workers) * len(caches))
        announce(
            f"{subject.network}: about {spell_seconds(step_s)} per minibatch here; {minibatches} minibatches per run"
        )
        for experiment in plan_characterisation(subject, minibatches, campaign, workers, caches):
            label = _label(experiment)
            try:
                run = execute(experiment, "auto", records, make_progress(label)).run
            except WorkloadError as error:
                failures.append(f"{label}: {error}")
                announce(f"edgetrain: {failures[-1]}")
                continue
            summaries.append(summarize(run, records))
            announce(f"{label}: {spell_median(summaries[-1])} per minibatch (median)")
    if not summaries:
        raise WorkloadError(
            "every run of the characterisation failed; edgetrain doctor shows what is missing on this machine"
        )
    try:
        write_report(summaries, target, title=TITLE, store=records)
    except UsageError as error:
        raise WorkloadError(
            f"the runs are recorded, but {error}; write the report elsewhere: "
            f"edgetrain report --campaign {campaign} -o FILE"
        ) from error
    return Characterisation(campaign, str(target), tuple(summaries), tuple(failures), time.monotonic() - began_s)


def _label(experiment: Experiment) -> str:
    loading = experiment.loading
    return f"{experiment.workload.network}, {spell_workers(loading.workers)}, {loading.cache}"
