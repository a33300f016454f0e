"""Which papers' experiments can be made here, and which statements are judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgetrain.errors import UsageError
from edgetrain.studies.base import StudyPlan
from edgetrain.studies.hipc import plans as hipc
from edgetrain.studies.hipc.claims import FINDINGS
from edgetrain.studies.judging import Claim
from edgetrain.studies.sigmetrics import plans as sigmetrics
from edgetrain.studies.sigmetrics.claims import TAKE_AWAYS

CLAIMS: dict[str, tuple[Claim, ...]] = {"hipc": FINDINGS, "sigmetrics": TAKE_AWAYS}
STUDIES = tuple(CLAIMS)


def sections_of(paper: str) -> tuple[str, ...]:
    """Return every section of a study; those that are not judged come last."""
    check_paper(paper)
    return hipc.SECTIONS + hipc.NOT_JUDGED if paper == "hipc" else sigmetrics.SECTIONS


def plan_study(paper: str, data: Path, quick: bool = False, sections: Sequence[str] | None = None) -> StudyPlan:
    """Return the campaigns of a study, with datasets below `data`; nothing is written."""
    check_paper(paper)
    chosen = tuple(sections or (hipc.SECTIONS if paper == "hipc" else sigmetrics.SECTIONS))
    unknown = set(chosen) - set(sections_of(paper))
    if unknown:
        raise UsageError(f"{paper} has no section '{min(unknown)}'; known: {', '.join(sections_of(paper))}")
    make = hipc.plan if paper == "hipc" else sigmetrics.plan
    return make(data, quick, chosen)


def check_paper(paper: str) -> None:
    """Refuse a paper that is not known."""
    if paper not in STUDIES:
        raise UsageError(f"no study is called {paper!r}; known: {', '.join(STUDIES)}")
