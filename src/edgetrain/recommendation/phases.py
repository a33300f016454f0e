"""One mode per phase: what switching the mode at epoch boundaries would gain, the cost of switching included.

A cold first epoch waits for storage, which no clock speeds up, so a slower mode costs no time there and saves energy.
Whether that is worth a switch depends on the limits, on the cost of a switch, and on the uncertainty of the estimates.
Switching is advised only where the interval of the gain lies above zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.prediction import Array, ModeTable, Predictions, student_quantile
from edgetrain.recommendation.goals import AXES, GoalLimits
from edgetrain.recommendation.pareto import frontier
from edgetrain.schema import PowerMode


@dataclass(frozen=True, slots=True)
class TrainingPhase:
    """A part of a training in which every mode has one time and power; all phases list the same modes."""

    name: str
    minibatches: float
    time_s: Array  # per minibatch
    power_w: Array


@dataclass(frozen=True, slots=True)
class SwitchCost:
    """What changing the mode at an epoch boundary takes, until clocks have settled."""

    time_s: float = 1.0
    energy_j: float = 10.0


@dataclass(frozen=True, slots=True)
class PhaseModes:
    """One mode per phase, and the whole training with them."""

    modes: Mapping[str, PowerMode]  # by phase
    time_s: float
    energy_j: float
    power_w: float  # the largest of the phases
    switches: int


@dataclass(frozen=True, slots=True)
class PhaseAdvice:
    """The best single mode, the best mode per phase, and whether the difference is larger than its uncertainty."""

    single: PhaseModes | None
    switched: PhaseModes | None
    gain_pct: float | None
    gain_lo_pct: float | None
    gain_hi_pct: float | None
    level: float
    advised: bool
    reason: str


def cold_phase(predictions: Predictions, minibatches: float, fetch_s: float, baseload_w: float) -> TrainingPhase:
    """Return the cold epoch: each minibatch takes at least `fetch_s` from storage, whatever the clocks.

    While a mode waits it draws its baseload; the energy of the minibatch itself is spent as in a warm epoch. So power
    falls from the warm one towards the baseload as waiting grows. The baseload is taken to be the same in every mode,
    which underestimates what a slow mode saves.
    """
    if not fetch_s > 0 or not baseload_w > 0:
        raise UsageError(
            f"a cold phase needs a fetch time and a baseload above zero, not {fetch_s:g} s and {baseload_w:g} W"
        )
    warm = predictions.time_s if predictions.time_mean_s is None else predictions.time_mean_s
    time_s = np.maximum(warm, fetch_s)
    dynamic = np.maximum(predictions.power_w - baseload_w, 0.0)
    power_w = np.minimum(predictions.power_w, baseload_w + dynamic * warm / time_s)
    return TrainingPhase("cold", minibatches, time_s, power_w)


def warm_phase(predictions: Predictions, minibatches: float) -> TrainingPhase:
    """Return the warm epochs as predicted."""
    warm = predictions.time_s if predictions.time_mean_s is None else predictions.time_mean_s
    return TrainingPhase("warm", minibatches, warm, predictions.power_w)


@dataclass(frozen=True, slots=True)
class _Plan:
    rows: tuple[int, ...]  # one per phase
    time_s: float
    energy_j: float
    power_w: float
    switches: int

    def cost(self, axis: str) -> float:
        return {"time": self.time_s, "energy": self.energy_j, "power": self.power_w}[axis]


def advise_phases(
    phases: Sequence[TrainingPhase],
    predictions: Predictions,
    modes: ModeTable,
    minimize: str,
    limits: GoalLimits,
    switch: SwitchCost | None = None,
    level: float = 0.9,
    draws: int = 400,
    seed: int = 0,
) -> PhaseAdvice:
    """Compare the best single mode with the best mode per phase; time and energy limits are on the whole training."""
    if minimize not in AXES:
        raise UsageError(f"cannot minimize {minimize!r}; choose one of {', '.join(AXES)}")
    if not phases:
        raise UsageError("a training has at least one phase")
    switch = SwitchCost() if switch is None else switch
    allowed = np.ones(len(phases[0].time_s), dtype=bool)
    for phase in phases:
        if limits.max_power_w is not None:
            allowed &= phase.power_w <= limits.max_power_w
    rows = np.flatnonzero(allowed)
    single = _best([_plan(phases, (int(row),) * len(phases), switch) for row in rows], minimize, limits)
    switched = _best(_combined(phases, limits, switch), minimize, limits)

    def shown(plan: _Plan | None) -> PhaseModes | None:
        if plan is None:
            return None
        by_phase = {phase.name: modes.mode(row) for phase, row in zip(phases, plan.rows, strict=True)}
        return PhaseModes(by_phase, plan.time_s, plan.energy_j, plan.power_w, plan.switches)

    if single is None or switched is None:
        reason = "no plan keeps the limits" if switched is None else "only switching keeps the limits"
        return PhaseAdvice(shown(single), shown(switched), None, None, None, level, switched is not None, reason)
    if switched.rows == single.rows or switched.cost(minimize) >= single.cost(minimize):
        best = shown(single)
        return PhaseAdvice(best, best, 0.0, 0.0, 0.0, level, False, "one mode is best in every phase")
    gains = _drawn_gains(phases, predictions, single, switched, minimize, switch, draws, seed)
    low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2])
    gain = 1.0 - switched.cost(minimize) / single.cost(minimize)
    advised = bool(low > 0)
    reason = (
        "the gain is larger than its uncertainty" if advised else "the gain is within the uncertainty of the estimates"
    )
    return PhaseAdvice(
        shown(single), shown(switched), 100 * gain, 100 * float(low), 100 * float(high), level, advised, reason
    )


def _best(plans: Sequence[_Plan], minimize: str, limits: GoalLimits) -> _Plan | None:
    keep = [
        plan
        for plan in plans
        if (limits.max_time_s is None or plan.time_s <= limits.max_time_s)
        and (limits.max_energy_j is None or plan.energy_j <= limits.max_energy_j)
        and (limits.max_power_w is None or plan.power_w <= limits.max_power_w)
    ]
    return min(keep, key=lambda plan: (plan.cost(minimize), plan.switches), default=None)


def _plan(phases: Sequence[TrainingPhase], rows: tuple[int, ...], switch: SwitchCost) -> _Plan:
    switches = sum(before != after for before, after in itertools.pairwise(rows))
    times = [phase.minibatches * phase.time_s[row] for phase, row in zip(phases, rows, strict=True)]
    powers = [phase.power_w[row] for phase, row in zip(phases, rows, strict=True)]
    energy = sum(t * p for t, p in zip(times, powers, strict=True)) + switches * switch.energy_j
    return _Plan(rows, float(sum(times) + switches * switch.time_s), float(energy), float(max(powers)), switches)


def _combined(phases: Sequence[TrainingPhase], limits: GoalLimits, switch: SwitchCost) -> list[_Plan]:
    """Return the plans on the frontier: modes on each phase's own frontier, combined, dominated ones removed."""
    plans: list[tuple[int, ...]] = [()]
    for at, phase in enumerate(phases):
        within = np.flatnonzero(
            phase.power_w <= limits.max_power_w
            if limits.max_power_w is not None
            else np.ones(len(phase.time_s), dtype=bool)
        )
        if len(within) == 0:
            return []
        useful = within[_phase_frontier(phase, within)]
        longer = [(*plan, int(row)) for plan in plans for row in useful]
        done = [_plan(phases[: at + 1], rows, switch) for rows in longer]
        kept = frontier(
            np.array([p.time_s for p in done]),
            np.array([p.energy_j for p in done]),
            np.array([p.power_w for p in done]),
        )
        plans = [longer[i] for i in kept]
    return [_plan(phases, rows, switch) for rows in plans]


def _phase_frontier(phase: TrainingPhase, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    time_s, power_w = phase.time_s[rows], phase.power_w[rows]
    return frontier(time_s, time_s * power_w, power_w)


def _drawn_gains(
    phases: Sequence[TrainingPhase],
    predictions: Predictions,
    single: _Plan,
    switched: _Plan,
    minimize: str,
    switch: SwitchCost,
    draws: int,
    seed: int,
) -> Array:
    """Return the gain under draws of the errors: the same for a mode in all phases, independent between modes."""
    generator = np.random.default_rng(seed)
    modes = sorted({*single.rows, *switched.rows})
    gains = np.empty(draws)
    z = student_quantile(0.95, predictions.dof) / 1.645  # heavier tails than a normal's
    for draw in range(draws):
        factors = {
            row: np.exp(
                z * generator.standard_normal(2) * [predictions.time_log_sd[row], predictions.power_log_sd[row]]
            )
            for row in modes
        }

        def cost(plan: _Plan, factors: dict[int, Array] = factors) -> float:
            times = [
                phase.minibatches * phase.time_s[row] * factors[row][0]
                for phase, row in zip(phases, plan.rows, strict=True)
            ]
            powers = [phase.power_w[row] * factors[row][1] for phase, row in zip(phases, plan.rows, strict=True)]
            if minimize == "time":
                return float(sum(times)) + plan.switches * switch.time_s
            if minimize == "power":
                return float(max(powers))
            return float(sum(t * p for t, p in zip(times, powers, strict=True))) + plan.switches * switch.energy_j

        gains[draw] = 1.0 - cost(switched) / cost(single)
    return gains
