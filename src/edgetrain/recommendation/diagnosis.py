"""A diagnosis: what limits a recorded training, and what each remedy would gain, ranked by predicted gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetrain.analysis import COMPUTE, LAUNCH, NOTHING_TO_GAIN, DiagnosisFact, LimitVerdict, Summary
from edgetrain.prediction import ChangeFacts, WhatIfModel
from edgetrain.recommendation.remedies import RemedyIdea, ideas_for, kept_workers
from edgetrain.schema import Doubt, Scalar

WORTH_PCT = 3.0  # a predicted gain below this is not worth a change
COSTLIER_PCT = 1.0  # more workers are preferred to fewer if they gain this much more
NO_EFFECT_PCT = 1.0  # a predicted gain or loss below this is none
MAX_REMEDIES = 12
MOVED = 0.15  # of the recorded time, by which the same setting takes longer or shorter now: beyond, gains are compared
# What the seconds of a tried remedy are of: as many epochs as were recorded, or one minibatch in trials of a command.
PER_RUN, PER_MINIBATCH, PER_COLD_MINIBATCH = "run", "steady minibatch", "steady minibatch of a cold first epoch"


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
    predicted: bool = True  # False: the interval is an assumption, and its middle is shown as value


@dataclass(frozen=True, slots=True)
class VerifiedRemedy:
    """A remedy that was tried; seconds are those of `per`."""

    change: str
    run: str
    predicted_s: float
    predicted_lo: float
    predicted_hi: float
    measured_s: float
    gain_pct: float  # measured, against the diagnosed run, or against trials without the remedy
    per: str = PER_RUN
    gain_lo_pct: float | None = None  # 90 % interval, where several trials were made
    gain_hi_pct: float | None = None
    before_s: float | None = None  # measured in trials without the remedy
    recorded_s: float | None = None  # of the diagnosed run, as the model reproduces it

    @property
    def slowdown(self) -> float:
        """How many times as long the recorded setting took now; 1 where it was not measured or is about the same."""
        if not self.before_s or not self.recorded_s:
            return 1.0
        ratio = self.before_s / self.recorded_s
        return ratio if abs(ratio - 1.0) > MOVED else 1.0

    @property
    def held(self) -> bool:
        """Whether the measured time lies within the predicted interval, relative to the recorded setting's time now."""
        return self.predicted_lo <= self.measured_s / self.slowdown <= self.predicted_hi

    @property
    def predicted_gain_pct(self) -> tuple[float, float, float] | None:
        """The predicted gain and its bounds; None where the recorded setting's time is not known."""
        if not self.recorded_s:
            return None
        gain, most, least = (
            100.0 * (1.0 - each / self.recorded_s) for each in (self.predicted_s, self.predicted_lo, self.predicted_hi)
        )
        return gain, least, most


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What limits a training, the evidence for it, and the remedies."""

    run: str
    verdict: str
    shares: Mapping[str, float]
    evidence: tuple[DiagnosisFact, ...]
    remedies: tuple[Remedy, ...]
    remedies_reason: str | None  # why there are none
    recorded_s: float  # end to end, all epochs that were not cut short
    verified: VerifiedRemedy | None
    doubts: tuple[Doubt, ...]
    verdict_reason: str | None = None  # why the verdict is `unknown`
    notes: tuple[str, ...] = ()  # what the record lacks for remedies, and how wrong the model is of the recorded epochs

    def gain_bounds_pct(self, remedy: Remedy) -> tuple[float, float]:
        """Return the least and the largest gain within a remedy's interval."""
        recorded_s = self.recorded_s or remedy.e2e_s
        return 100.0 * (1.0 - remedy.e2e_hi / recorded_s), 100.0 * (1.0 - remedy.e2e_lo / recorded_s)


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
        recorded_s=sum(epoch.e2e_s for epoch in (summary if model is None else model.summary).epochs),
        verified=None,
        doubts=summary.doubts,
        verdict_reason=verdict.reason,
        notes=() if model is None else model.predictor.notes,
    )


def rank_remedies(verdict: LimitVerdict, model: WhatIfModel, facts: ChangeFacts) -> tuple[Remedy, ...]:
    """Predict every remedy that applies and sort them, the most helpful first; of each kind only the best is kept.

    Ideas of one kind come in the order of their cost: a costlier one must gain noticeably more.
    """
    best: dict[str, Remedy] = {}
    bound = verdict.verdict in (COMPUTE, LAUNCH)
    for idea in ideas_for(model, facts, bound, verdict.stream):
        remedy = _predict(idea, model) if idea.step_times is None else _assume(idea, model, verdict, idea.step_times)
        if idea.kind == "storage" and remedy.gain_pct < -NO_EFFECT_PCT:
            continue  # the present medium is faster
        held = best.get(idea.kind)
        if held is None or remedy.gain_pct > held.gain_pct + COSTLIER_PCT:
            best[idea.kind] = remedy
    plain = best.get("workers")
    kept = None if plain is None else kept_workers(model, int(plain.settings["workers"] or 0))
    if plain is not None and kept is not None:
        remedy = _predict(kept, model)
        if remedy.gain_pct > plain.gain_pct + COSTLIER_PCT:
            best[kept.kind] = remedy
    return tuple(sorted(best.values(), key=lambda each: each.gain_pct, reverse=True)[:MAX_REMEDIES])


def _predict(idea: RemedyIdea, model: WhatIfModel) -> Remedy:
    """Predict an idea; the page cache is as cold or warm at the start as it was in the recorded run."""
    predictor = model.predictor
    found = predictor.predict(idea.setting, predictor.base.began_cold)
    more = max(0, model.epochs - 1)
    first, later = found.first.e2e_s, found.later.e2e_s
    total_s = first.value + more * later.value
    return Remedy(
        change=idea.change,
        e2e_s=total_s,
        e2e_lo=first.lo + more * later.lo,
        e2e_hi=first.hi + more * later.hi,
        gain_pct=100.0 * (1.0 - total_s / model.base.total_s.value),
        cost=idea.cost,
        settings=dict(idea.settings),
        assumed=found.assumed,
    )


def _assume(idea: RemedyIdea, model: WhatIfModel, verdict: LimitVerdict, step_times: tuple[float, float]) -> Remedy:
    """Return what an idea gains if steps take between two parts of their time; the value is the middle."""
    now_s, compute = model.base.total_s.value, verdict.shares.get(COMPUTE, 0.0)
    lo_s, hi_s = (now_s * (1.0 + compute * (part - 1.0)) for part in step_times)
    middle_s = (lo_s + hi_s) / 2
    best, worst = step_times
    return Remedy(
        change=idea.change,
        e2e_s=middle_s,
        e2e_lo=lo_s,
        e2e_hi=hi_s,
        gain_pct=100.0 * (1.0 - middle_s / now_s),
        cost=idea.cost,
        assumed=(f"{idea.change}: not predicted; a step is assumed to take {best:g} to {worst:g} of its time",),
        predicted=False,
    )
