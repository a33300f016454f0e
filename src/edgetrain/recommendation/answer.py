"""The answer of `recommend`: the choice, what it was made from, and everything that was asked in addition."""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.recommendation.choice import Choice, Nearest, Pick, Relaxed
from edgetrain.recommendation.confirmation import Confirmation
from edgetrain.recommendation.goals import Goal
from edgetrain.recommendation.pareto import FrontierPoint, StockLoss
from edgetrain.recommendation.phases import PhaseAdvice
from edgetrain.recommendation.training import WholeTraining


@dataclass(frozen=True, slots=True)
class ChosenFrom:
    """What a choice was made from."""

    profiled: int | None  # modes that were profiled
    predictor: str | None  # a saved predictor instead
    prior: str | None
    board: str
    modes: int
    left_out: str | None = None  # profiled runs that could not be used, in words


@dataclass(frozen=True, slots=True)
class AppliedMode:
    """The chosen mode as it was set on a device, or would be."""

    device: str
    dry_run: bool
    writes: tuple[str, ...]
    undo: str = "edgetrain modes restore"  # the command that puts the device back


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The best mode within limits. Parts that were not asked for are None."""

    from_: ChosenFrom
    goal: Goal
    best: Pick | None  # None: no mode keeps the limits
    runner_up: Pick | None
    relaxed: tuple[Relaxed, ...]
    nearest: Nearest | None
    considered: int
    feasible: int
    notes: tuple[str, ...]
    confirmed: bool | None = None  # the chosen mode was itself measured within the limits
    trail: tuple[Confirmation, ...] | None = None
    training: WholeTraining | None = None
    phases: PhaseAdvice | None = None
    frontier: tuple[FrontierPoint, ...] | None = None
    stock: tuple[StockLoss, ...] | None = None
    applied: AppliedMode | None = None

    @staticmethod
    def of(source: ChosenFrom, choice: Choice, notes: tuple[str, ...] = ()) -> Recommendation:
        """Return a choice with what it was made from; `notes` come after its own."""
        if choice.best is not None and choice.best.extrapolated:
            notes = ("the chosen mode lies outside the clocks that were profiled: confirm it (--confirm)", *notes)
        if source.left_out:
            notes = (*notes, source.left_out)
        return Recommendation(
            source,
            choice.goal,
            choice.best,
            choice.runner_up,
            choice.relaxed,
            choice.nearest,
            choice.considered,
            choice.feasible,
            (*choice.notes, *notes),
        )
