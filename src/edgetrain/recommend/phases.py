"""Phase-wise modes: what switching at epoch boundaries would bring, the cost of switching included.

A cold first epoch waits on storage, which no clock speeds up: a slower mode then costs no time and saves
energy. Whether that is worth a switch depends on the limits, on what a switch costs, and on how sure the
estimates are. Switching is advised only where the gain lies outside its own interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.errors import UsageError
from edgetrain.predict import student
from edgetrain.predict.base import Array, Predictions
from edgetrain.recommend.frontier import frontier
from edgetrain.recommend.goals import AXES, Limits


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of training in which every mode has one time and power; all phases list the same modes."""

    name: str
    minibatches: float
    time_s: Array  # per minibatch
    power_w: Array


@dataclass(frozen=True, slots=True)
class Switch:
    """What changing the mode costs: at an epoch boundary, clocks settle."""

    time_s: float = 1.0
    energy_j: float = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One mode per phase."""

    rows: tuple[int, ...]
    time_s: float
    energy_j: float
    peak_power_w: float
    switches: int


@dataclass(frozen=True, slots=True)
class Advice:
    """The best single mode, the best plan with switches, and whether the difference is real."""

    single: Plan | None
    switched: Plan | None
    gain_pct: float | None
    gain_lo_pct: float | None
    gain_hi_pct: float | None
    level: float
    advised: bool
    reason: str


def cold_phase(predictions: Predictions, minibatches: float, fetch_s: float, baseload_w: float) -> Phase:
    """Return the cold epoch: each minibatch takes at least `fetch_s` from storage, whatever the clocks.

    While a mode waits it draws its baseload; the energy of the minibatch itself is spent as in a warm epoch. So
    power falls from the warm one towards the baseload as waiting grows. The baseload is taken as the same in
    every mode, which understates what a slow mode saves.
    """
    if not fetch_s > 0 or not baseload_w > 0:
        raise UsageError(
            f"a cold phase needs a fetch time and a baseload above zero, not {fetch_s:g} s and {baseload_w:g} W"
        )
    warm = predictions.time_s if predictions.time_mean_s is None else predictions.time_mean_s
    time_s = np.maximum(warm, fetch_s)
    dynamic = np.maximum(predictions.power_w - baseload_w, 0.0)
    power_w = np.minimum(predictions.power_w, baseload_w + dynamic * warm / time_s)
    return Phase("cold", minibatches, time_s, power_w)


def warm_phase(predictions: Predictions, minibatches: float) -> Phase:
    """Return the warm epochs as predicted."""
    warm = predictions.time_s if predictions.time_mean_s is None else predictions.time_mean_s
    return Phase("warm", minibatches, warm, predictions.power_w)


def advise(
    phases: Sequence[Phase],
    predictions: Predictions,
    minimise: str,
    limits: Limits,
    switch: Switch | None = None,
    level: float = 0.9,
    draws: int = 400,
    seed: int = 0,
) -> Advice:
    """Compare the best single mode with the best mode per phase; time and energy limits are on the whole training."""
    if minimise not in AXES:
        raise UsageError(f"cannot minimise {minimise!r}; choose one of {', '.join(AXES)}")
    if not phases:
        raise UsageError("a training has at least one phase")
    switch = Switch() if switch is None else switch
    allowed = np.ones(len(phases[0].time_s), dtype=bool)
    for phase in phases:
        if limits.max_power_w is not None:
            allowed &= phase.power_w <= limits.max_power_w
    rows = np.flatnonzero(allowed)
    single = _best([_plan(phases, (int(row),) * len(phases), switch) for row in rows], minimise, limits)
    switched = _best(_combined(phases, limits, switch), minimise, limits)
    if single is None or switched is None:
        reason = "no plan keeps the limits" if switched is None else "only switching keeps the limits"
        return Advice(single, switched, None, None, None, level, switched is not None, reason)
    if switched.rows == single.rows or _cost(switched, minimise) >= _cost(single, minimise):
        return Advice(single, single, 0.0, 0.0, 0.0, level, False, "one mode is best in every phase")
    gains = _drawn_gains(phases, predictions, single, switched, minimise, switch, draws, seed)
    low, high = np.quantile(gains, [(1 - level) / 2, (1 + level) / 2])
    gain = 1.0 - _cost(switched, minimise) / _cost(single, minimise)
    advised = bool(low > 0)
    reason = "the gain lies outside its interval" if advised else "the gain lies within what the estimates leave open"
    return Advice(single, switched, 100 * gain, 100 * float(low), 100 * float(high), level, advised, reason)


def _cost(plan: Plan, minimise: str) -> float:
    return {"time": plan.time_s, "energy": plan.energy_j, "power": plan.peak_power_w}[minimise]


def _best(plans: Sequence[Plan], minimise: str, limits: Limits) -> Plan | None:
    keep = [
        plan
        for plan in plans
        if (limits.max_time_s is None or plan.time_s <= limits.max_time_s)
        and (limits.max_energy_j is None or plan.energy_j <= limits.max_energy_j)
        and (limits.max_power_w is None or plan.peak_power_w <= limits.max_power_w)
    ]
    return min(keep, key=lambda plan: (_cost(plan, minimise), plan.switches), default=None)


def _plan(phases: Sequence[Phase], rows: tuple[int, ...], switch: Switch) -> Plan:
    switches = sum(before != after for before, after in itertools.pairwise(rows))
    times = [phase.minibatches * phase.time_s[row] for phase, row in zip(phases, rows, strict=True)]
    powers = [phase.power_w[row] for phase, row in zip(phases, rows, strict=True)]
    energy = sum(t * p for t, p in zip(times, powers, strict=True)) + switches * switch.energy_j
    return Plan(rows, float(sum(times) + switches * switch.time_s), float(energy), float(max(powers)), switches)


def _combined(phases: Sequence[Phase], limits: Limits, switch: Switch) -> list[Plan]:
    """Return every plan worth having: modes on each phase's own frontier, combined, the beaten dropped as we go."""
    plans: list[tuple[int, ...]] = [()]
    for at, phase in enumerate(phases):
        within = np.flatnonzero(
            phase.power_w <= limits.max_power_w
            if limits.max_power_w is not None
            else np.ones(len(phase.time_s), dtype=bool)
        )
        if len(within) == 0:
            return []
        useful = within[_worth_having(phase, within)]
        longer = [(*plan, int(row)) for plan in plans for row in useful]
        done = [_plan(phases[: at + 1], rows, switch) for rows in longer]
        kept = frontier(
            np.array([p.time_s for p in done]),
            np.array([p.energy_j for p in done]),
            np.array([p.peak_power_w for p in done]),
        )
        plans = [longer[i] for i in kept]
    return [_plan(phases, rows, switch) for rows in plans]


def _worth_having(phase: Phase, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    time_s, power_w = phase.time_s[rows], phase.power_w[rows]
    return frontier(time_s, time_s * power_w, power_w)


def _drawn_gains(
    phases: Sequence[Phase],
    predictions: Predictions,
    single: Plan,
    switched: Plan,
    minimise: str,
    switch: Switch,
    draws: int,
    seed: int,
) -> Array:
    """Return the gain under draws of the estimates' errors: a mode errs alike in all phases, modes err apart."""
    generator = np.random.default_rng(seed)
    modes = sorted({*single.rows, *switched.rows})
    gains = np.empty(draws)
    z = student.quantile(0.95, predictions.dof) / 1.645  # heavier tails than a normal's
    for draw in range(draws):
        factors = {
            row: np.exp(
                z * generator.standard_normal(2) * [predictions.time_log_sd[row], predictions.power_log_sd[row]]
            )
            for row in modes
        }

        def cost(plan: Plan, factors: dict[int, Array] = factors) -> float:
            times = [
                phase.minibatches * phase.time_s[row] * factors[row][0]
                for phase, row in zip(phases, plan.rows, strict=True)
            ]
            powers = [phase.power_w[row] * factors[row][1] for phase, row in zip(phases, plan.rows, strict=True)]
            if minimise == "time":
                return float(sum(times)) + plan.switches * switch.time_s
            if minimise == "power":
                return float(max(powers))
            return float(sum(t * p for t, p in zip(times, powers, strict=True))) + plan.switches * switch.energy_j

        gains[draw] = 1.0 - cost(switched) / cost(single)
    return gains
