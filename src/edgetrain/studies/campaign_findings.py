"""Judges the papers' statements by somebody's recorded runs, those of each origin on their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgetrain.analysis import StudyFinding
from edgetrain.schema import Origin
from edgetrain.studies.catalog import CLAIMS, STUDIES, check_paper
from edgetrain.studies.data import CampaignData, FactoryDefault, no_default
from edgetrain.studies.judging import judge_claims
from edgetrain.studies.observations import ObservedRun


def judge_runs(
    runs: Iterable[ObservedRun],
    papers: Sequence[str] = STUDIES,
    factory_default: FactoryDefault = no_default,
) -> list[StudyFinding]:
    """Judge every statement of these papers; a measured and an emulated run are never compared with each other."""
    for paper in papers:
        check_paper(paper)
    by_origin: dict[Origin | None, list[ObservedRun]] = {}
    for run in runs:
        by_origin.setdefault(run.origin, []).append(run)
    return [
        finding
        for origin, of_origin in (by_origin or {None: []}).items()
        for paper in papers
        for finding in judge_claims(paper, CLAIMS[paper], CampaignData.of_runs(of_origin, factory_default), origin)
    ]
