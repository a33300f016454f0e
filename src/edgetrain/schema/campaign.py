"""What a campaign will take: its runs and their cost, before it starts or from where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetrain.schema.setting import Scalar


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Seconds and joules of a plan's remaining runs; None where nothing is known yet."""

    time_s: float | None
    energy_j: float | None
    energy_reason: str
    unknown: int  # runs whose time is not known


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One run of a plan, and whether it is done."""

    position: int
    repeat: int
    factors: Mapping[str, Scalar]
    done: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class CampaignPreview:
    """What is left of a plan, and what that will take."""

    campaign: str
    device: str
    runs: tuple[PlannedRow, ...]
    left: int
    cost: PlanCost
