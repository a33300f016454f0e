"""Whole trainings for `recommend`: epochs, the cold first one, idling, batteries, pay-off, and a mode per phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from edgetrain.cli.decide import BoardModes
from edgetrain.errors import UsageError
from edgetrain.recommend import Candidates, Goal, Work
from edgetrain.recommend.choose import pick
from edgetrain.recommend.documents import advice_document, training_document
from edgetrain.recommend.outlook import look
from edgetrain.recommend.phases import Switch, advise, cold_phase, warm_phase
from edgetrain.recommend.training import (
    Between,
    Cycle,
    Mode,
    PayOff,
    cycle,
    on_battery,
    pay_off,
    profiling_cost,
    whole_training,
)
from edgetrain.schema import Origin

_PUBLISHED = {"idle": "dvfs_on", "wake-on-lan": "wake_on_lan"}


@dataclass(frozen=True)
class TrainingAsk:
    """What was asked about the whole training."""

    epochs: float
    minibatches: float  # an epoch
    cold_epoch_s: float | None
    baseload_w: float | None
    period_s: float | None
    between: str
    between_w: float | None
    battery_wh: float | None


@dataclass(frozen=True)
class PhaseAsk:
    """What was asked about switching."""

    training: TrainingAsk
    switch_s: float


def add_training(ask: TrainingAsk, goal: Goal, candidates: Candidates, row: int, board: BoardModes) -> dict[str, Any]:
    """Return the whole training in the chosen mode as a document."""
    chosen = _mode(ask, candidates, row, goal, ask.cold_epoch_s)
    training = whole_training(chosen, ask.epochs)
    around: Cycle | None = None
    if ask.period_s is not None:
        around = cycle(training, ask.period_s, _between(ask, board))
    battery = None
    if ask.battery_wh is not None:
        spent = training.energy_j if around is None else around.energy_j
        battery = on_battery(ask.battery_wh, spent, ask.period_s)
    return training_document(training, around, battery, _pay_off(ask, goal, candidates, board, chosen))


def _mode(ask: TrainingAsk, candidates: Candidates, row: int, goal: Goal, cold_s: float | None) -> Mode:
    epoch = Goal(goal.minimise, goal.limits, goal.confidence, Work.of(ask.minibatches, 1))
    found = pick(candidates, look(candidates, epoch), row)
    return Mode(found.time_s, found.power_w, cold_s, Origin.MEASURED, ask.baseload_w)


def _between(ask: TrainingAsk, board: BoardModes) -> Between:
    if ask.between not in ("idle", "wake-on-lan", "off"):
        raise UsageError(f"--between is idle, wake-on-lan or off, not {ask.between!r}")
    if ask.between == "off":
        return Between("off", 0.0, Origin.MEASURED)
    if ask.between_w is not None:
        return Between(ask.between, ask.between_w, Origin.MEASURED)
    known = board.idle_w.get(_PUBLISHED[ask.between])
    if known is None:
        raise UsageError(f"what {board.name} draws in {ask.between} is not published; measure it and give --between-w")
    source = "SIGMETRICS 2023, figure 7: at the socket, while the limits here are of the board's own sensor"
    return Between(ask.between, known, Origin.PUBLISHED, source=source)


def _pay_off(ask: TrainingAsk, goal: Goal, candidates: Candidates, board: BoardModes, chosen: Mode) -> PayOff | None:
    """Return when profiling has paid off against the factory default; None where either is not known."""
    if board.default is None or board.default not in board.stock or not candidates.seen:
        return None
    stock = _mode(ask, candidates, board.stock[board.default], goal, None)
    seconds, joules, _ = profiling_cost(list(candidates.seen.values()))
    return pay_off(seconds, joules, stock, chosen)


def add_phases(ask: PhaseAsk, goal: Goal, candidates: Candidates) -> dict[str, Any] | None:
    """Return what a mode of its own for the cold first epoch would bring; None where the cold epoch is not known."""
    training = ask.training
    if training.cold_epoch_s is None or training.baseload_w is None or training.epochs < 2:
        return None
    p = candidates.predictions
    fetch_s = training.cold_epoch_s / training.minibatches
    phases = [
        cold_phase(p, training.minibatches, fetch_s, training.baseload_w),
        warm_phase(p, training.minibatches * (training.epochs - 1)),
    ]
    switch = Switch(ask.switch_s, ask.switch_s * training.baseload_w)
    found = advise(phases, p, goal.minimise, goal.limits, switch)
    return advice_document(found, candidates, [phase.name for phase in phases])
