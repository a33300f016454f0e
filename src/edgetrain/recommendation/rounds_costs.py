"""What a round costs under a policy: finish times and energy of every device, expected or with drawn factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.prediction import Array
from edgetrain.recommendation.rounds import RoundDevice, RoundEnergy
from edgetrain.recommendation.rounds_spread import RoundDraws


@dataclass(frozen=True, slots=True, eq=False)
class RoundPolicy:
    """The mode, epochs and idle power of each device in a round, one entry per device; the plan is one policy.

    NaN: not known; a device that sits out has no row.
    """

    name: str
    trains: NDArray[np.bool_]
    train_s: Array  # expected
    power_w: Array  # while training
    idle_w: Array  # while waiting and transferring
    available_s: Array
    download_s: Array
    upload_s: Array
    rows: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RoundCosts:
    """Finish and energy: one row per round, one column per device. NaN: did not finish, or not known."""

    finish_s: Array
    energy_j: Array


def make_policy(
    name: str,
    devices: Sequence[RoundDevice],
    rows: Sequence[int | None],
    epochs: Sequence[int],
    idle_w: Sequence[float | None],
) -> RoundPolicy:
    """Return the policy with these modes (rows; None: the device sits out), epochs and idle powers."""
    train, power = [], []
    for device, row, local in zip(devices, rows, epochs, strict=True):
        modes = device.modes
        if row is None:
            train.append(0.0)
            power.append(math.nan)
        else:
            train.append(device.minibatches(local) * float(modes.time_s[row]) * (device.time_factor or 1.0))
            power.append(math.nan if modes.power_w is None else float(modes.power_w[row]))
    return RoundPolicy(
        name,
        np.array([row is not None for row in rows], dtype=bool),
        np.array(train, float),
        np.array(power, float),
        np.array([math.nan if each is None else each for each in idle_w], float),
        np.array([device.available_s for device in devices], float),
        np.array([device.download_s for device in devices], float),
        np.array([device.upload_s for device in devices], float),
        tuple(rows),
    )


def evaluate_policy(
    one: RoundPolicy, deadline_s: float, draws: RoundDraws | None = None, mode_time: Array | None = None
) -> RoundCosts:
    """Return finish times and the energy from the start of the round to its deadline.

    A device that is late trains on until the deadline; one that does not answer waits all along. `mode_time` are the
    lasting factors of each device's mode.
    """
    unit, power, transfer = np.ones(1), np.ones(1), np.ones((1, 1))
    runs, answered = np.ones((1, 1)), np.ones((1, 1), dtype=bool)
    if draws is not None:
        unit, runs, transfer, answered = draws.unit_time, draws.run_time, draws.transfer, draws.answered
        power = draws.unit_power * draws.run_power
    train_s = one.train_s * unit * runs * (1.0 if mode_time is None else mode_time)
    begin_s = one.available_s + one.download_s * transfer
    finish_s = begin_s + train_s + one.upload_s * transfer
    active = answered & one.trains
    busy_s = np.where(active, np.clip(np.minimum(train_s, deadline_s - begin_s), 0.0, None), 0.0)
    # NaN times zero is NaN: a device that does not train needs no power while training.
    busy_j = np.where(busy_s > 0, busy_s * one.power_w, 0.0) * power
    energy_j = busy_j + (deadline_s - busy_s) * one.idle_w * (1.0 if draws is None else draws.unit_power)
    shape = np.broadcast_shapes(finish_s.shape, energy_j.shape)
    return RoundCosts(
        np.broadcast_to(np.where(active, finish_s, np.nan), shape), np.broadcast_to(energy_j, shape).astype(float)
    )


def round_energies(names: Sequence[str], costs: Sequence[RoundCosts], deadline_s: float) -> tuple[RoundEnergy, ...]:
    """Return the energy of several policies, mean over rounds; the first is the plan that others are compared with."""
    plan_j = costs[0].energy_j.mean(axis=0)
    found = []
    for name, each in zip(names, costs, strict=True):
        joules = each.energy_j.mean(axis=0)
        known, both = np.isfinite(joules), np.isfinite(joules) & np.isfinite(plan_j)
        late = int((np.nanmedian(_finite(each.finish_s), axis=0) > deadline_s).sum())
        other = float(joules[both].sum())
        # A policy that misses the deadline did less work: its energy is not comparable.
        saves = None if not other > 0 or late or name == names[0] else 1.0 - float(plan_j[both].sum()) / other
        total = float(joules[known].sum())
        found.append(RoundEnergy(name, total if known.all() else None, total, int(known.sum()), late, saves))
    return tuple(found)


def _finite(finish_s: Array) -> Array:
    """Return finish times in which a device that never finished is at 0, so that medians exist."""
    return np.where(np.isfinite(finish_s).any(axis=0), finish_s, 0.0)
