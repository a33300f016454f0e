"""A diagnosis: what limits a recorded training, and what each remedy would gain, ranked by predicted gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgetrain.analysis import COMPUTE, LAUNCH, NOTHING_TO_GAIN, DiagnosisFact, LimitVerdict, Summary
from edgetrain.prediction import ChangeFacts, WhatIfModel, WhatIfRow
from edgetrain.recommendation.remedies import RemedyIdea, ideas_for
from edgetrain.schema import Doubt, Scalar

WORTH_PCT = 3.0  # a predicted gain below this is not worth a change
COSTLIER_PCT = 1.0  # more workers are preferred to fewer if they gain this much more
MOST_REMEDIES = 12


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change and what it is predicted to gain, for as many epochs as were recorded."""

    change: str
    e2e_s: float
    e2e_lo: float
    e2e_hi: float
    gain_pct: float  # negative: slower
    cost: str  # what it costs or risks
    settings: Mapping[str, Scalar] = field(default_factory=dict)  # empty: not a setting that a run can be given
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifiedRemedy:
    """A remedy that was tried."""

    change: str
    run: str
    predicted_s: float
    predicted_lo: float
    predicted_hi: float
    measured_s: float
    gain_pct: float  # measured, against the diagnosed run

    @property
    def held(self) -> bool:
        """Whether the measured time lies within the predicted interval."""
        return self.predicted_lo <= self.measured_s <= self.predicted_hi


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What limits a training, the evidence for it, and the remedies."""

    run: str
    verdict: str
    shares: Mapping[str, float]
    evidence: tuple[DiagnosisFact, ...]
    remedies: tuple[Remedy, ...]
    remedies_reason: str | None  # why there are none
    recorded_s: float  # end to end, all epochs
    verified: VerifiedRemedy | None
    doubts: tuple[Doubt, ...]


def diagnose_run(
    verdict: LimitVerdict, summary: Summary, model: WhatIfModel | None, why_no_model: str | None, facts: ChangeFacts
) -> Diagnosis:
    """Add remedies to a verdict; without a model (a run too short, ...) the reason is given instead."""
    remedies = () if model is None else rank_remedies(verdict, model, facts)
    named = verdict.verdict
    if named == COMPUTE and model is not None and not any(each.gain_pct >= WORTH_PCT for each in remedies):
        named = NOTHING_TO_GAIN
    return Diagnosis(
        run=summary.run,
        verdict=named,
        shares={cause: share for cause, share in verdict.shares.items() if share > 0},
        evidence=verdict.evidence,
        remedies=remedies,
        remedies_reason=why_no_model,
        recorded_s=sum(epoch.e2e_s for epoch in summary.epochs),
        verified=None,
        doubts=summary.doubts,
    )


def rank_remedies(verdict: LimitVerdict, model: WhatIfModel, facts: ChangeFacts) -> tuple[Remedy, ...]:
    """Predict every remedy that applies and sort them, the most helpful first; of each kind only the best is kept.

    Ideas of one kind come in the order of their cost: a costlier one must gain noticeably more.
    """
    best: dict[str, tuple[RemedyIdea, WhatIfRow]] = {}
    bound = verdict.verdict in (COMPUTE, LAUNCH)
    for idea in ideas_for(model, facts, bound):
        row = model.row_for(idea.setting, idea.settings, replace(facts, mode=idea.mode))
        held = best.get(idea.kind)
        if held is None or row.gain_pct > held[1].gain_pct + COSTLIER_PCT:
            best[idea.kind] = (idea, row)
    ranked = sorted(best.values(), key=lambda pair: pair[1].gain_pct, reverse=True)
    notes = model.predictor.base.notes
    return tuple(_remedy(idea, row, notes) for idea, row in ranked[:MOST_REMEDIES])


def _remedy(idea: RemedyIdea, row: WhatIfRow, notes: Sequence[str]) -> Remedy:
    total = row.total_s
    return Remedy(
        change=idea.change,
        e2e_s=total.value,
        e2e_lo=total.lo,
        e2e_hi=total.hi,
        gain_pct=row.gain_pct,
        cost=idea.cost,
        settings=dict(idea.settings),
        assumed=(*row.assumed, *notes),
    )
