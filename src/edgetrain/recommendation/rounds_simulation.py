"""Simulates rounds of a plan: who is late how often, and what rounds cost; other policies meet the same draws."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from edgetrain.prediction import Array
from edgetrain.recommendation.rounds import DeviceRounds, RoundDevice, RoundPlan, RoundRules, RoundSimulation
from edgetrain.recommendation.rounds_costs import RoundPolicy, evaluate_policy, round_energies
from edgetrain.recommendation.rounds_planning import round_policies
from edgetrain.recommendation.rounds_spread import MAX_SIGMA, draw_rounds
from edgetrain.schema import Doubt


def simulate_rounds(
    plan: RoundPlan, devices: Sequence[RoundDevice], rules: RoundRules, rounds: int = 200, seed: int = 0
) -> RoundSimulation:
    """Return what happens in simulated rounds of a plan.

    Units, errors of predicted modes, runs, shared slow-downs, transfers and missing answers are drawn; every policy
    meets the same draws. A round ends at its deadline, whether or not every device has answered.
    """
    draws = draw_rounds(tuple(devices), rules, rounds, seed)
    policies = round_policies(devices, plan.assignments)
    costs = [evaluate_policy(one, plan.deadline_s, draws, _mode_factors(devices, one, seed)) for one in policies]
    finish_s = costs[0].finish_s
    late = np.asarray(finish_s > plan.deadline_s, bool)
    shares = np.asarray(late.mean(axis=0), float)
    ever = np.asarray(np.isfinite(finish_s).any(axis=0), bool)
    worst = int(np.argmax(np.where(ever, shares, -1.0))) if ever.any() else None
    silent = [device.name for place, device in enumerate(devices) if policies[0].trains[place] and not ever[place]]
    doubts = [Doubt("never_answered", f"{name} never answered in {rounds} rounds") for name in silent]
    if rules.shared is None and rules.recorded is None:
        doubts.append(
            Doubt("independent", "no shared slow-downs (heat, neighbours) are modelled: give spread.shared or recorded")
        )
    trained = int(policies[0].trains.sum()) * rounds
    return RoundSimulation(
        rounds,
        seed,
        None if worst is None else float(shares[worst]),
        None if worst is None else devices[worst].name,
        float(late.any(axis=1).mean()),
        int(late.sum(axis=1).max()),
        1.0 - float(np.isfinite(finish_s).sum()) / trained if trained else math.nan,
        round_energies([one.name for one in policies], costs, plan.deadline_s),
        _devices(devices, finish_s, shares),
        tuple(doubts),
    )


def _mode_factors(devices: Sequence[RoundDevice], one: RoundPolicy, seed: int) -> Array:
    """Return the lasting factor of each device's mode: the error of its prediction, shared by all in that mode."""
    found, known = np.ones(len(devices)), dict[tuple[str, int], float]()
    for place, (device, row) in enumerate(zip(devices, one.rows, strict=True)):
        if row is None or device.modes.time_log_sd is None:
            continue
        key = (device.modes.name, row)
        if key not in known:
            draw = np.random.default_rng([seed, row, sum(device.modes.name.encode())])
            error = float(np.clip(draw.standard_normal(), -MAX_SIGMA, MAX_SIGMA))
            known[key] = math.exp(float(device.modes.time_log_sd[row]) * error)
        found[place] = known[key]
    return found


def _devices(devices: Sequence[RoundDevice], finish_s: Array, shares: Array) -> tuple[DeviceRounds, ...]:
    answered = np.isfinite(finish_s).sum(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a device that never finished has no median
        middle, high = np.nanmedian(finish_s, axis=0), np.nanquantile(finish_s, 0.95, axis=0)
    return tuple(
        DeviceRounds(device.name, int(count), float(share), float(mid), float(top))
        if count
        else DeviceRounds(device.name, 0, None, None, None)
        for device, count, share, mid, top in zip(devices, answered, shares, middle, high, strict=True)
    )
