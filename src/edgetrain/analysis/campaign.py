"""What a campaign has found: times by factor, conclusions, spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetrain.analysis.factors import FactorRow, conclusions, tabulate
from edgetrain.analysis.spread import Spread, spreads
from edgetrain.analysis.summary import Summary
from edgetrain.record import frame_of

if TYPE_CHECKING:
    import pandas


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

    def to_pandas(self) -> pandas.DataFrame:
        """Return one row per setting as a pandas data frame: its factors by name, then what it took; needs pandas."""
        frame = frame_of(self.rows)
        return frame.rename(columns={f"factors.{name}": name for row in self.rows for name in row.factors})


def campaign_result(
    campaign: str, planned: int, done: Mapping[str, str], failed: Mapping[str, str], summaries: Iterable[Summary]
) -> CampaignResult:
    """Sum a campaign up from the summaries of its runs."""
    known = list(summaries)
    rows = tabulate(known)
    spread = tuple(spreads(known))
    return CampaignResult(campaign, planned, dict(done), dict(failed), tuple(rows), tuple(conclusions(rows)), spread)
