"""Answers about whole trainings in the chosen mode: epochs, idle time, batteries, payback, and one mode per phase."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from edgetrain.errors import UsageError
from edgetrain.recommendation.assessment import Candidates, assess
from edgetrain.recommendation.board_modes import BoardModes
from edgetrain.recommendation.choice import pick
from edgetrain.recommendation.goals import Goal, Work
from edgetrain.recommendation.phases import PhaseAdvice, SwitchCost, advise_phases, cold_phase, warm_phase
from edgetrain.recommendation.training import (
    EpochCost,
    IdleState,
    Payback,
    WholeTraining,
    battery_life,
    cost_of_measuring,
    job_cycle,
    payback,
    training_cost,
)
from edgetrain.schema import Origin

_PUBLISHED_STATE = {"idle": "dvfs_on", "wake-on-lan": "wake_on_lan"}  # our state: the catalogue's name for it
_PUBLISHED_SOURCE = "SIGMETRICS 2023, figure 7: at the socket, while the limits here are of the board's own sensor"


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """What is asked about the whole training. None: not asked, or not known."""

    epochs: float
    minibatches: float  # per epoch
    cold_epoch_s: float | None = None
    baseload_w: float | None = None
    period_s: float | None = None  # one job per period
    between: str = "idle"  # idle | wake-on-lan | off
    between_w: float | None = None
    battery_wh: float | None = None
    switch_s: float = 7.0  # duration of a change of modes

    def __post_init__(self) -> None:
        for option, value, least in (
            ("--baseload-w", self.baseload_w, "above zero"),
            ("--between-w", self.between_w, "zero or more"),
            ("--switch-s", self.switch_s, "zero or more"),
        ):
            if value is not None and not (
                math.isfinite(value) and (value > 0 or (value == 0 and least != "above zero"))
            ):
                raise UsageError(f"{option} must be {least}, not {value:g}")


def answer_training(
    question: TrainingQuestion, goal: Goal, candidates: Candidates, row: int, board: BoardModes
) -> WholeTraining:
    """Return the whole training in the chosen mode."""
    chosen = _epoch_cost(question, candidates, row, goal, question.cold_epoch_s)
    cost = training_cost(chosen, question.epochs)
    cycle = None
    if question.period_s is not None:
        cycle = job_cycle(cost, question.period_s, _idle_state(question, board))
    battery = None
    if question.battery_wh is not None:
        spent = cost.energy_j if cycle is None else cycle.energy_j
        battery = battery_life(question.battery_wh, spent, question.period_s)
    return WholeTraining.of(cost, cycle, battery, _payback(question, goal, candidates, board, chosen))


def _epoch_cost(
    question: TrainingQuestion, candidates: Candidates, row: int, goal: Goal, cold_s: float | None
) -> EpochCost:
    epoch = replace(goal, work=Work.of(question.minibatches, 1))
    found = pick(candidates, assess(candidates, epoch), row)
    return EpochCost(found.time_s, found.power_w, cold_s, Origin.MEASURED, question.baseload_w)


def _idle_state(question: TrainingQuestion, board: BoardModes) -> IdleState:
    if question.between not in ("idle", "wake-on-lan", "off"):
        raise UsageError(f"--between is idle, wake-on-lan or off, not {question.between!r}")
    if question.between == "off":
        return IdleState("off", 0.0, Origin.MEASURED)
    if question.between_w is not None:
        return IdleState(question.between, question.between_w, Origin.MEASURED)
    known = board.idle_w.get(_PUBLISHED_STATE[question.between])
    if known is None:
        raise UsageError(
            f"the power of {board.name} in state {question.between} is not published; measure it and give --between-w"
        )
    return IdleState(question.between, known, Origin.PUBLISHED, _PUBLISHED_SOURCE)


def _payback(
    question: TrainingQuestion, goal: Goal, candidates: Candidates, board: BoardModes, chosen: EpochCost
) -> Payback | None:
    """Return when profiling has paid off against the factory default; None where that mode is not known."""
    if board.default is None or board.default not in board.stock or not candidates.seen:
        return None
    stock = _epoch_cost(question, candidates, board.stock[board.default], goal, None)
    seconds, joules = cost_of_measuring(list(candidates.seen.values()))
    return payback(seconds, joules, stock, chosen)


def answer_phases(question: TrainingQuestion, goal: Goal, candidates: Candidates) -> PhaseAdvice | None:
    """Return what a separate mode for the cold first epoch would gain; None where the cold epoch is not known."""
    if question.cold_epoch_s is None or question.baseload_w is None or question.epochs < 2:
        return None
    p = candidates.predictions
    phases = [
        cold_phase(p, question.minibatches, question.cold_epoch_s / question.minibatches, question.baseload_w),
        warm_phase(p, question.minibatches * (question.epochs - 1)),
    ]
    switch = SwitchCost(question.switch_s, question.switch_s * question.baseload_w)
    return advise_phases(phases, p, candidates.modes, goal.minimize, goal.limits, switch)
