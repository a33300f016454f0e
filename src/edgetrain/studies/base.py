"""What every study is made of: sections, each a campaign and the datasets it needs; then a judgement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from edgetrain.analysis import FactorRow, SectionScale, StudyFinding, StudyReport
from edgetrain.errors import UsageError
from edgetrain.runner import Plan
from edgetrain.schema import Origin
from edgetrain.studies.data import CampaignData, FactoryDefault, no_default
from edgetrain.studies.judging import Claim, judge_claims
from edgetrain.studies.observations import ObservedRun
from edgetrain.studies.pictures import LightPictures


@dataclass(frozen=True, slots=True)
class PlannedSection:
    """One campaign of a study. Its times must be multiplied by `speed` to be the board's."""

    name: str
    plan: Plan
    speed: float = 1.0
    datasets: tuple[LightPictures, ...] = ()
    dataset_bytes: int | None = None  # size of the dataset, where it is known before it is made

    @property
    def shrink(self) -> float:
        """Return by how much dataset and page cache were divided."""
        shrink = self.plan.base.get("shrink")
        return float(shrink) if isinstance(shrink, (int, float)) else 1.0


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """A study, ready to be carried out: campaigns, and the statements that their runs are about."""

    paper: str
    title: str
    numbering: str
    data: Path  # where datasets lie
    sections: tuple[PlannedSection, ...]
    claims: tuple[Claim, ...]
    origin: Origin  # of its runs
    published: CampaignData | None = None  # the paper's own numbers, which are judged too

    @property
    def datasets(self) -> tuple[LightPictures, ...]:
        """Return every dataset of every section, each once."""
        return tuple(dict.fromkeys(dataset for section in self.sections for dataset in section.datasets))


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """One section's runs: grouped by setting, and each as findings need it."""

    rows: tuple[FactorRow, ...]
    failed: int
    took_s: float
    runs: tuple[ObservedRun, ...] = ()


class CarryOut(Protocol):
    """Carries out one section's campaign."""

    def __call__(self, section: PlannedSection) -> CarriedOut: ...


def with_repeats(plan: StudyPlan, repeats: int | None) -> StudyPlan:
    """Return the study with each run made this often; None: as planned."""
    if repeats is None:
        return plan
    if repeats < 1:
        raise UsageError(f"each run is made at least once, not {repeats} times")
    sections = (replace(section, plan=replace(section.plan, repeats=repeats)) for section in plan.sections)
    return replace(plan, sections=tuple(sections))


def make_datasets(plan: StudyPlan, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """Make the datasets that are not there yet."""
    for dataset in plan.datasets:
        dataset.make(plan.data, progress)


def reproduce(plan: StudyPlan, carry_out: CarryOut, factory_default: FactoryDefault = no_default) -> StudyReport:
    """Have every section carried out, and judge the findings; the datasets must have been made."""
    done = {section.name: carry_out(section) for section in plan.sections}
    runs = [run for section in done.values() for run in section.runs]
    findings: list[StudyFinding] = []
    if plan.published is not None:
        findings += judge_claims(plan.paper, plan.claims, plan.published, Origin.PUBLISHED)
    findings += judge_claims(plan.paper, plan.claims, CampaignData.of_runs(runs, factory_default), plan.origin)
    return StudyReport(
        paper=plan.paper,
        title=plan.title,
        numbering=plan.numbering,
        origin=plan.origin,
        took_s=sum(section.took_s for section in done.values()),
        findings=tuple(findings),
        sections={section.name: done[section.name].rows for section in plan.sections},
        scales=tuple(SectionScale(section.name, section.speed, section.shrink) for section in plan.sections),
        failed_runs=sum(section.failed for section in done.values()),
    )
