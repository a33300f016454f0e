"""A paper's experiments made on this machine, and whether its findings hold here."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetrain.analysis import CacheCurve, SectionCost, StudyReport, cache_curve, label
from edgetrain.api.campaigns import Campaign, MakeProgress
from edgetrain.api.paper_findings import factory_default
from edgetrain.api.records import StoreLike, open_run, open_store, summarize
from edgetrain.errors import EdgetrainError
from edgetrain.record import FolderStore
from edgetrain.runner import CampaignProgress, Progress, execute
from edgetrain.schema import Experiment, Origin
from edgetrain.studies import (
    CarriedOut,
    ObservedRun,
    PlannedSection,
    StudyPlan,
    make_datasets,
    observe,
    plan_study,
    with_repeats,
)
from edgetrain.studies import reproduce as carry_out_study
from edgetrain.units import spell_count, spell_seconds


def reproduce(
    paper: str,
    quick: bool = False,
    sections: Sequence[str] | None = None,
    store: StoreLike = None,
    fresh: bool = False,
    say: Callable[[str], None] = lambda text: None,
    make_progress: MakeProgress | None = None,
    progress: Progress = lambda stage, done, total: None,
    repeats: int | None = None,
) -> StudyReport:
    """Make a paper's experiments here and judge each finding; after an interruption the same call continues.

    `say` gets a line per run, `make_progress` returns what shows the progress of one run, `progress` shows that of
    making the datasets. `hipc` needs root for the lab; `sigmetrics` runs on simulated boards. `repeats` is how often
    each run is made; None: as often as the study plans it.
    """
    records = open_store(store)
    plan = with_repeats(plan_study(paper, records.data, quick, sections), repeats)
    first = plan.sections[0].name

    def carry_out(section: PlannedSection) -> CarriedOut:
        campaign = _campaign(section, plan, records, fresh, make_progress)
        say(f"{section.name}: {spell_count(len(campaign.planned), 'run')}")
        if section.name == first and plan.origin is Origin.EMULATED and not campaign.progress().done:
            _warm_up(campaign.planned[0].experiment, records)
        result = campaign.run(lambda progress: _say_progress(progress, say))
        for key, reason in result.failed.items():
            say(f"failed: {key}: {reason}")
        observed = tuple(_observe(run, records) for run in result.done.values())
        missing = result.planned - len(result.done)
        return CarriedOut(tuple(result.rows), missing, campaign.progress().took_s, observed)

    make_datasets(plan, lambda done, total: progress("dataset", done, total))
    return carry_out_study(plan, carry_out, factory_default)


def reproduce_preview(
    paper: str,
    quick: bool = False,
    sections: Sequence[str] | None = None,
    store: StoreLike = None,
    repeats: int | None = None,
) -> tuple[SectionCost, ...]:
    """Return how many runs each section has and how long they take; writes nothing."""
    records = open_store(store)
    plan = with_repeats(plan_study(paper, records.data, quick, sections), repeats)
    costs: list[SectionCost] = []
    counted: set[str] = set()
    for section in plan.sections:
        progress = _campaign(section, plan, records).progress()
        new = {
            str(dataset.folder(plan.data)): dataset for dataset in section.datasets if not dataset.is_made(plan.data)
        }
        new_bytes = sum(dataset.size_bytes for folder, dataset in new.items() if folder not in counted)
        counted |= set(new)
        done, left_s = len(progress.done), progress.cost.time_s
        costs.append(SectionCost(section.name, progress.planned, done, left_s, section.speed, new_bytes))
    return tuple(costs)


def cache_curves(report: StudyReport, store: StoreLike = None) -> list[tuple[str, CacheCurve]]:
    """Return cached share and reads over time of the runs where the page cache was limited, each with its setting."""
    chosen = [*report.sections.get("ram", ())]
    chosen += [row for row in report.sections.get("sizes", ()) if row.get("storage") == "hdd"]
    curves = []
    for row in chosen:
        curve = cache_curve(open_run(row.runs[0], store), summarize(row.runs[0], store).epochs)
        if curve is not None:
            curves.append((label(row.factors), curve))
    return curves


def _campaign(
    section: PlannedSection,
    plan: StudyPlan,
    records: FolderStore,
    fresh: bool = False,
    make_progress: MakeProgress | None = None,
) -> Campaign:
    samples = {str(dataset.folder(plan.data)): dataset.count for dataset in section.datasets}
    return Campaign(section.plan, records, None, fresh, make_progress, samples)


def _observe(name: str, records: FolderStore) -> ObservedRun:
    run = records.open(name)
    return observe(run, summarize(run))


def _say_progress(progress: CampaignProgress, say: Callable[[str], None]) -> None:
    if progress.now is not None:
        left = spell_seconds(progress.cost.time_s) if progress.cost.time_s is not None else "not known yet"
        say(f"[{len(progress.done) + 1}/{progress.planned}] {label(progress.now.factors)}; time left {left}")


def _warm_up(experiment: Experiment, records: FolderStore) -> None:
    """Make one run that is not kept: the first after drawing pictures on every core is slower."""
    records.data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="edgetrain-warm-up-") as folder:
        (Path(folder) / "data").symlink_to(records.data.absolute())
        with contextlib.suppress(EdgetrainError):  # an error appears again in the runs that are kept
            execute(experiment, "auto", FolderStore(folder))
