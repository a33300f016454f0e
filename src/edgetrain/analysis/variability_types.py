"""What a study of variability finds: the document of `edgetrain variability`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetrain.analysis.sample_size import SampleSize
from edgetrain.analysis.software_effects import SoftwareDifference
from edgetrain.schema import Doubt, Estimate, Origin, Scalar


@dataclass(frozen=True, slots=True)
class UnitVariation:
    """One unit: where it lies among the others, and how it varies over time."""

    unit: str
    runs: int
    epochs: int
    mean: float
    deviation: float  # from the mean of the units, as a share
    deviation_lo: float | None  # None: runs were not repeated
    deviation_hi: float | None
    within: float | None  # coefficient of variation of its epochs; None: there is only one
    span_h: float  # hours from its first epoch to its last
    drift_per_h: Estimate | None  # None: observed too briefly
    outlier: bool


@dataclass(frozen=True, slots=True)
class MeasureVariability:
    """Time or energy of one setting. Estimates are coefficients of variation, as shares, with their interval."""

    measure: str  # time | energy
    per: str  # unit of the mean
    mean: float  # of the units
    units: int
    runs: int
    epochs: int
    between_epochs: Estimate | None  # of one run
    between_runs: Estimate | None  # of one unit, beyond what their epochs imply
    within_unit: Estimate | None  # single epochs of one unit over time: runs and epochs together
    between_units: Estimate | None
    between_units_without_outliers: Estimate | None  # None: there is no outlier
    range_of_units: float | None  # (largest - smallest) / smallest of the units' means, as the papers give it
    between_software: Estimate | None
    drift_per_h: Estimate | None  # mean of the units, as a share per hour
    outliers: tuple[str, ...]
    software: tuple[SoftwareDifference, ...]
    sample_size: SampleSize
    by_unit: tuple[UnitVariation, ...]
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True, slots=True)
class SettingVariability:
    """Runs of one setting on units of one kind of board."""

    board: str
    setting: Mapping[str, Scalar]
    origin: Origin
    run_ids: tuple[str, ...]
    measures: tuple[MeasureVariability, ...]
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True, slots=True)
class VariabilityReport:
    """What differs between runs that should be alike, setting by setting."""

    source: str  # the campaign or the runs
    level: float  # of the intervals
    settings: tuple[SettingVariability, ...]
    left_out: tuple[str, ...]  # `run: reason`
