"""The papers' experiments and findings, as data and checks. Only `api` imports this package.

plan = plan_study("hipc", store.data, quick=True)      campaigns; nothing is written
make_datasets(plan)
report = reproduce(plan, carry_out)                    has each campaign carried out, and judges the findings
judge_runs([observe(run, summary), ...])               judges the findings by anybody's runs
"""

from edgetrain.studies.base import CarriedOut, PlannedSection, StudyPlan, make_datasets, reproduce, with_repeats
from edgetrain.studies.campaign_findings import judge_runs
from edgetrain.studies.catalog import STUDIES, plan_study, sections_of
from edgetrain.studies.observations import ObservedRun, observe

__all__ = [
    "STUDIES",
    "CarriedOut",
    "ObservedRun",
    "PlannedSection",
    "StudyPlan",
    "judge_runs",
    "make_datasets",
    "observe",
    "plan_study",
    "reproduce",
    "sections_of",
    "with_repeats",
]
