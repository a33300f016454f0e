"""How rounds vary: draws of unit, round and shared factors, and the margins that follow from them.

Two parts differ in what they do to a device. What stays the same in every round (its unit, the error of a predicted
mode) would make an unlucky device late in all of them: the margin covers it for every device of the fleet. What
differs from round to round (runs, heat, neighbours) makes it late now and then: the margin covers it up to the allowed
share of rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgetrain.prediction import Array
from edgetrain.recommendation.rounds import RoundDevice, RoundRules

MAX_SIGMA = 3.0  # draws of units, modes and runs end here, as on simulated boards
DRAWS = 100_000
FLEET_RISK = 0.05  # expected number of devices of the fleet whose lasting factor exceeds the margin
FEW_RECORDED = 100  # ratios below which a 99 % quantile is mostly the largest one


@dataclass(frozen=True, slots=True)
class RoundDraws:
    """Random factors of simulated rounds, one row per round and one column per device."""

    unit_time: Array  # one per device, the same in every round
    unit_power: Array
    run_time: Array
    run_power: Array
    transfer: Array
    answered: NDArray[np.bool_]


class Margins:
    """Factors on expected times that keep a device on time as often as asked, from draws of its spread."""

    def __init__(self, rules: RoundRules, devices: int, seed: int = 1) -> None:
        self._rules, self._draw = rules, np.random.default_rng(seed)
        self._lasting_level = 1.0 - FLEET_RISK / max(devices, 1)
        self._round_level = 1.0 - allowed_lateness(rules.late, rules.rounds, devices)
        self._unit, self._mode, self._run = (_truncated(self._draw, DRAWS) for _ in range(3))
        self._shared = shared_factors(self._draw, rules, DRAWS)
        self._recorded = self._recorded_logs()
        self._known: dict[tuple[str, float, float], float] = {}

    def lasting(self, unit_sd: float, mode_sd: float) -> float:
        """Return the factor for what stays the same in every round."""
        if unit_sd == 0 and mode_sd == 0:
            return 1.0
        return self._kept(("lasting", unit_sd, mode_sd), unit_sd * self._unit + mode_sd * self._mode)

    def per_round(self, run_sd: float, grouped: bool) -> float:
        """Return the factor for what differs from round to round."""
        return self._kept(("round", run_sd, float(grouped)), self._round_logs(run_sd, grouped))

    def on_time(self, unit_sd: float, mode_sd: float, run_sd: float, grouped: bool, left: float) -> float:
        """Return the share of draws in which a time grows by no more than the factor that is left."""
        logs = unit_sd * self._unit + mode_sd * self._mode + self._round_logs(run_sd, grouped)
        return float((logs <= math.log(left)).mean()) if left > 0 else 0.0

    def _round_logs(self, run_sd: float, grouped: bool) -> Array:
        """Return draws of what differs from round to round; recorded ones where there are any."""
        if self._recorded is not None:
            return self._recorded
        return run_sd * self._run + (np.log(self._shared) if grouped else 0.0)

    def _recorded_logs(self) -> Array | None:
        if self._rules.recorded is None:
            return None
        known = self._rules.recorded.within()
        known = known[np.isfinite(known)]
        return np.log(self._draw.choice(known, DRAWS)) if len(known) else None

    def transfer(self) -> float:
        """Return the factor on the time of transfers."""
        sd = self._rules.transfer_log_sd
        return 1.0 if sd == 0 else self._kept(("transfer", sd, 0.0), sd * self._run)

    def _kept(self, key: tuple[str, float, float], logs: Array) -> float:
        if key not in self._known:
            level = self._lasting_level if key[0] == "lasting" else self._round_level
            self._known[key] = math.exp(float(np.quantile(logs, level)))
        return self._known[key]


def allowed_lateness(share: float, rounds: int, devices: int, risk: float = FLEET_RISK) -> float:
    """Return the chance of being late per round at which no device exceeds the share over the rounds, but for `risk`.

    A device whose chance equals the share exceeds it in half of all series; with many devices some always would.
    """
    most = math.floor(share * rounds + 1e-9)
    low, high = 0.0, share
    for _ in range(40):
        middle = (low + high) / 2
        if _exceeds(middle, rounds, most) * max(devices, 1) <= risk:
            low = middle
        else:
            high = middle
    return low


def _exceeds(chance: float, rounds: int, most: int) -> float:
    """Return the probability of more than `most` late rounds."""
    if chance <= 0:
        return 0.0
    logs = (
        math.lgamma(rounds + 1)
        - math.lgamma(count + 1)
        - math.lgamma(rounds - count + 1)
        + count * math.log(chance)
        + (rounds - count) * math.log1p(-chance)
        for count in range(most + 1, rounds + 1)
    )
    return sum(math.exp(log) for log in logs)


def draw_rounds(devices: tuple[RoundDevice, ...], rules: RoundRules, rounds: int, seed: int) -> RoundDraws:
    """Draw the factors of simulated rounds; devices of one group share slow-downs, recorded rounds stay whole."""
    draw = np.random.default_rng(seed)
    count = len(devices)
    unit_sd = np.array([0.0 if device.time_factor is not None else device.spread.unit_time for device in devices])
    power_sd = np.array([device.spread.unit_power for device in devices])
    run_sd = np.array([device.spread.run_time for device in devices])
    run_power_sd = np.array([device.spread.run_power for device in devices])
    run_time = np.exp(run_sd * _truncated(draw, (rounds, count)))
    groups = {name: place for place, name in enumerate(dict.fromkeys(d.group for d in devices if d.group is not None))}
    if groups:
        shared = shared_factors(draw, rules, (rounds, len(groups)))
        members = [place for place, device in enumerate(devices) if device.group is not None]
        run_time[:, members] *= shared[:, [groups[devices[place].group or ""] for place in members]]
    if rules.recorded is not None:
        run_time = _recorded_rounds(draw, devices, rules, rounds)
    return RoundDraws(
        np.exp(unit_sd * _truncated(draw, count)),
        np.exp(power_sd * _truncated(draw, count)),
        run_time,
        np.exp(run_power_sd * _truncated(draw, (rounds, count))),
        np.exp(rules.transfer_log_sd * _truncated(draw, (rounds, count))),
        draw.random((rounds, count)) < np.array([device.answers for device in devices]),
    )


def _recorded_rounds(
    draw: np.random.Generator, devices: tuple[RoundDevice, ...], rules: RoundRules, rounds: int
) -> Array:
    """Return recorded rounds drawn as a whole: devices that were slow together stay slow together.

    A device without a record takes that of a random one; a missing answer takes the median of its round.
    """
    assert rules.recorded is not None
    within = rules.recorded.within()
    within = within[np.isfinite(within).any(axis=1)][:, np.isfinite(within).any(axis=0)]
    if not within.size:
        return np.ones((rounds, len(devices)))
    within = np.where(np.isfinite(within), within, np.nanmedian(within, axis=1, keepdims=True))
    known = [name for name in rules.recorded.devices if rules.recorded.factor(name) is not None]
    places = {name: place for place, name in enumerate(known)}
    columns = [places.get(device.name, int(draw.integers(len(known)))) for device in devices]
    return np.asarray(within[draw.integers(len(within), size=rounds)][:, columns], float)


def shared_factors(draw: np.random.Generator, rules: RoundRules, shape: int | tuple[int, int]) -> Array:
    """Return the factor of shared slow-downs, 1 where there is none."""
    found = rules.shared
    if found is None:
        return np.ones(shape)
    slower = draw.uniform(found.least, found.most, shape)
    return np.where(draw.random(shape) < found.chance, slower, 1.0)


def _truncated(draw: np.random.Generator, shape: int | tuple[int, int]) -> Array:
    return np.clip(draw.standard_normal(shape), -MAX_SIGMA, MAX_SIGMA)
