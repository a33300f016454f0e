"""What a campaign has found: times by factor, conclusions, spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgetrain.analysis.factors import FactorRow, conclusions, tabulate
from edgetrain.analysis.spread import Spread, spreads
from edgetrain.analysis.summary import Summary


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """What a campaign has found so far."""

    campaign: str
    planned: int
    done: Mapping[str, str]  # planned run: id of its record
    failed: Mapping[str, str]  # planned run: reason
    rows: tuple[FactorRow, ...]
    conclusions: tuple[str, ...]
    variability: tuple[Spread, ...]

    @property
    def complete(self) -> bool:
        """Whether every planned run has its record."""
        return len(self.done) == self.planned


def campaign_result(
    campaign: str, planned: int, done: Mapping[str, str], failed: Mapping[str, str], summaries: Iterable[Summary]
) -> CampaignResult:
    """Sum a campaign up from the summaries of its runs."""
    known = list(summaries)
    rows = tabulate(known)
    spread = tuple(spreads(known))
    return CampaignResult(campaign, planned, dict(done), dict(failed), tuple(rows), tuple(conclusions(rows)), spread)
