"""Answers of `edgetrain whatif`: a recorded training and the same training under other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import expm1

from edgetrain.analysis import Summary
from edgetrain.prediction.pipeline.changes import ChangeFacts, change_assumptions, changed_setting
from edgetrain.prediction.pipeline.predictor import (
    EpochPoint,
    EpochPrediction,
    PipelinePrediction,
    PipelinePredictor,
    no_pause,
)
from edgetrain.prediction.pipeline.setting import PipelineSetting
from edgetrain.schema import Doubt, Estimate, Scalar

ALL_EPOCHS, LATER_EPOCHS = "all epochs", "later epochs"  # what a gain is of
ALIKE = 0.25  # of the dataset: two runs that begin with this much less or more of it in the page cache are compared
LATER_GAIN = (
    "gain: of later epochs, because this one would begin with another part of its dataset in the page cache than the "
    "recorded run did; cache=cold or cache=warm asks for a start"
)


@dataclass(frozen=True, slots=True)
class RecordedEpoch:
    """One epoch as it was recorded, beside the predictions."""

    epoch: int
    e2e_s: float
    stall_s: float | None
    compute_s: float
    energy_j: float | None


@dataclass(frozen=True, slots=True)
class WhatIfRow:
    """The training under one setting. Without changes: the recorded setting, as the model reproduces it."""

    changes: Mapping[str, Scalar]
    first: EpochPrediction
    later: EpochPrediction
    total_s: Estimate  # of as many epochs as were recorded
    gain_pct: float  # against the recorded setting; negative: slower
    assumed: tuple[str, ...]  # and why the gain is not of the total, where it is not
    gain_of: str = ALL_EPOCHS  # the total, or LATER_EPOCHS where the first ones start differently


@dataclass(frozen=True, slots=True)
class WhatIfValues:
    """The training under one setting, without intervals: the values of a `WhatIfRow`."""

    later: EpochPoint
    total_s: float
    gain_pct: float
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """What one recorded training would take under other settings."""

    run: str
    recorded: tuple[RecordedEpoch, ...]
    base: WhatIfRow
    settings: tuple[WhatIfRow, ...]
    model_error_pct: float  # of the recorded later epochs; every prediction is corrected by it; positive: too long
    notes: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    repeats: int = 0  # other runs of the recorded setting that are known
    between_runs_pct: float | None = None  # their spread (standard deviation), part of the intervals; None: too few
    swept: str | None = field(default=None)  # the setting that varies from row to row


class WhatIfModel:
    """One recorded run, ready to be asked about other settings."""

    def __init__(self, predictor: PipelinePredictor, summary: Summary) -> None:
        self.predictor, self.summary = predictor, replace(summary, epochs=predictor.base.epochs)  # the whole ones
        self.epochs = len(self.summary.epochs)
        self.base = self._row({}, predictor.predict(predictor.setting, predictor.base.began_cold), None)

    def row(
        self,
        changes: Mapping[str, Scalar],
        facts: ChangeFacts | None = None,
        pause: Callable[[], None] = no_pause,
    ) -> WhatIfRow:
        """Predict one set of changes; `pause` is called before each simulation."""
        setting = changed_setting(self.predictor.base, self.summary, changes, facts)
        return self.row_for(setting, changes, facts, pause)

    def row_for(
        self,
        setting: PipelineSetting,
        changes: Mapping[str, Scalar],
        facts: ChangeFacts | None = None,
        pause: Callable[[], None] = no_pause,
    ) -> WhatIfRow:
        """Predict a setting that was made otherwise than by changes of declared settings."""
        predicted = self.predictor.predict(setting, self._cold(setting), _power(facts), pause=pause)
        notes = (*self._assumed_of(changes, facts), *self._gain_note(setting))
        return self._row(changes, replace(predicted, assumed=(*notes, *predicted.assumed)), self.base)

    def values(self, changes: Mapping[str, Scalar], facts: ChangeFacts | None = None) -> WhatIfValues:
        """Predict one set of changes without intervals."""
        setting = changed_setting(self.predictor.base, self.summary, changes, facts)
        found = self.predictor.predict_point(setting, self._cold(setting), _power(facts))
        total_s = found.first.e2e_s + max(0, self.epochs - 1) * found.later.e2e_s
        gain_pct = self._gain_pct(setting, total_s, found.later.e2e_s)
        assumed = (*self._assumed_of(changes, facts), *self._gain_note(setting), *found.assumed)
        return WhatIfValues(found.later, total_s, gain_pct, assumed)

    def _assumed_of(self, changes: Mapping[str, Scalar], facts: ChangeFacts | None) -> tuple[str, ...]:
        return change_assumptions(self.predictor.base, changes, facts or ChangeFacts())

    def _cold(self, setting: PipelineSetting) -> bool:
        return self.predictor.base.began_cold or setting.medium != self.predictor.setting.medium

    def _starts_alike(self, setting: PipelineSetting) -> bool:
        """Return whether the first epoch finds as much in the page cache as the recorded one did, or was asked to."""
        if setting.cache is not None:
            return True
        predictor = self.predictor
        now = predictor.first_reads(setting, self._cold(setting)).unread
        recorded = predictor.first_reads(predictor.setting, predictor.base.began_cold).unread
        shared = setting.dataset is not None and setting.dataset.share_pages
        # Of a packed file, most samples find their page read by another: any unread share is that of an empty cache.
        return bool(now) == bool(recorded) if shared else abs(now - recorded) <= ALIKE

    def _gain_note(self, setting: PipelineSetting) -> tuple[str, ...]:
        return () if self._starts_alike(setting) else (LATER_GAIN,)

    def _gain_pct(self, setting: PipelineSetting, total_s: float, later_s: float) -> float:
        """Return the gain against the recorded setting; of later epochs where the first ones start differently."""
        if self._starts_alike(setting):
            return 100.0 * (1.0 - total_s / self.base.total_s.value)
        return 100.0 * (1.0 - later_s / self.base.later.e2e_s.value)

    def answer(self, rows: Sequence[WhatIfRow], swept: str | None = None) -> WhatIfAnswer:
        """Return the answer with these rows."""
        recorded = tuple(
            RecordedEpoch(one.epoch, one.e2e_s, one.fetch_stall_s, one.compute_s, one.energy_j)
            for one in self.summary.epochs
        )
        return WhatIfAnswer(
            run=self.summary.run,
            recorded=recorded,
            base=self.base,
            settings=tuple(rows),
            model_error_pct=100.0 * expm1(self.predictor.pipeline.later_error),
            notes=self.predictor.notes,
            doubts=self.summary.doubts,
            repeats=self.predictor.repeats,
            between_runs_pct=100.0 * self.predictor.between_runs or None,
            swept=swept,
        )

    def _row(self, changes: Mapping[str, Scalar], predicted: PipelinePrediction, base: WhatIfRow | None) -> WhatIfRow:
        total = total_of(predicted.first.e2e_s, predicted.later.e2e_s, self.epochs)
        if base is None:
            return WhatIfRow(dict(changes), predicted.first, predicted.later, total, 0.0, predicted.assumed)
        gain = self._gain_pct(predicted.setting, total.value, predicted.later.e2e_s.value)
        gain_of = ALL_EPOCHS if self._starts_alike(predicted.setting) else LATER_EPOCHS
        return WhatIfRow(dict(changes), predicted.first, predicted.later, total, gain, predicted.assumed, gain_of)


def _power(facts: ChangeFacts | None) -> float | None:
    """Return the power drawn under changes, relative to the recorded run's; None: another board's is not known."""
    if facts is None:
        return 1.0
    if facts.board is not None:
        return None
    return facts.mode.power if facts.mode is not None else 1.0


def total_of(first: Estimate, later: Estimate, epochs: int) -> Estimate:
    """Return the time of a training: one first epoch, the others like the later one."""
    more = max(0, epochs - 1)
    return Estimate(
        first.value + more * later.value,
        first.lo + more * later.lo,
        first.hi + more * later.hi,
        first.unit,
        first.origin,
        first.level,
    )
