"""Corrects the predictor of a kind of board for one unit, from one or two modes that were profiled on that unit.

Units of a board differ by a factor in time and one in power. A mode that was profiled for the kind too shows the factor
directly, up to the noise of two measurements, which is larger where the loader dominates; any other mode shows it up to
the predictor's error there. Both are weighted against how much units differ at all, so that one doubtful measurement
does not move every prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from edgetrain.errors import PredictError
from edgetrain.prediction.base import Array, ModeTable, Predictions, Predictor, bare, results

# Standard deviations of logarithms. Units: SIGMETRICS 2023 finds medians of five units up to 7.8 % apart in time and
# 8.8 % in energy, which is 2.3 deviations (3.3 %); taken wider for kinds that were never compared. Noise: one unit over
# hours, up to 1.2 %.
UNIT_DEVIATION = 0.05
NOISE = 0.012
DOUBTFUL = 0.25  # a unit that seems to differ by more was probably profiled with another network, batch size or board
SAME_CLOCK = 0.015  # sources print 1300 for 1300.5 MHz


@dataclass(frozen=True, slots=True)
class UnitCorrection:
    """Factors of one unit against its kind, as logarithms with their standard deviations."""

    modes: int  # profiled on the unit
    time_log: float
    time_log_sd: float
    power_log: float
    power_log_sd: float

    def applied(self, found: Predictions) -> Predictions:
        """Return the predictions of the kind as those of this unit."""
        time, power = math.exp(self.time_log), math.exp(self.power_log)
        return replace(
            found,
            time_s=found.time_s * time,
            time_mean_s=None if found.time_mean_s is None else found.time_mean_s * time,
            power_w=found.power_w * power,
            time_log_sd=np.sqrt(found.time_log_sd**2 + self.time_log_sd**2),
            power_log_sd=np.sqrt(found.power_log_sd**2 + self.power_log_sd**2),
        )


def unit_correction(
    kind: Predictor, kind_profiled: ModeTable, unit_profiled: ModeTable, deviation: float = UNIT_DEVIATION
) -> UnitCorrection:
    """Return the factors of a unit; `deviation` is how much units of this kind differ (standard deviation)."""
    if not len(unit_profiled):
        raise PredictError(
            "no mode was profiled on the unit; profile a mode that was also profiled for its kind of board"
        )
    time_s, power_w = results(unit_profiled)
    expected = kind.predict(bare(unit_profiled))
    kind_time_s, kind_power_w = results(kind_profiled)
    expected_s = expected.time_s
    # A loader that hardly keeps up makes minibatches bimodal: their median jumps between two values, the mean does not.
    mean_s = (unit_profiled.time_mean_s, kind_profiled.time_mean_s, expected.time_mean_s)
    if mean_s[0] is not None and mean_s[1] is not None and mean_s[2] is not None:
        time_s, kind_time_s, expected_s = mean_s[0], mean_s[1], mean_s[2]
    rows = [_same_mode(kind_profiled, unit_profiled, row) for row in range(len(unit_profiled))]
    calmest = kind.predict(bare(kind_profiled))
    # The variance of a Student t is larger than the square of its scale.
    tails = expected.dof / (expected.dof - 2)
    noises = []
    for scale, least in (
        (expected.time_log_sd, float(calmest.time_log_sd.min())),
        (expected.power_log_sd, float(calmest.power_log_sd.min())),
    ):
        same = 2 * NOISE**2 * np.maximum(1.0, (scale / least) ** 2)
        noises.append(np.where([row is None for row in rows], tails * scale**2, same))
    time = _weighed(time_s, expected_s, kind_time_s, rows, noises[0], deviation)
    power = _weighed(power_w, expected.power_w, kind_power_w, rows, noises[1], deviation)
    return UnitCorrection(len(unit_profiled), *time, *power)


def _weighed(
    seen: Array, predicted: Array, measured: Array, rows: list[int | None], noise: Array, deviation: float
) -> tuple[float, float]:
    """Return the unit's logarithm and its standard deviation, given what its modes show."""
    against = np.asarray([predicted[place] if row is None else measured[row] for place, row in enumerate(rows)])
    shown = np.log(seen / against)
    if len(rows) > 1:
        # Modes that disagree by more than their noise show that there is more of it than assumed.
        middle = float((shown / noise).sum() / (1 / noise).sum())
        noise = noise * max(1.0, float(((shown - middle) ** 2 / noise).sum()) / (len(rows) - 1))
    weight = 1 / deviation**2 + float((1 / noise).sum())
    return float((shown / noise).sum()) / weight, math.sqrt(1 / weight)


def _same_mode(kind: ModeTable, unit: ModeTable, row: int) -> int | None:
    """Return the row of the kind's table with the same cores, clocks and batch size; None: it was not profiled."""
    same = kind.cores == unit.cores[row]
    for name in ("cpu_hz", "gpu_hz", "emc_hz"):
        mine, theirs = unit.factor(name)[row], kind.factor(name)
        if np.isfinite(mine):
            same &= np.abs(theirs / mine - 1) < SAME_CLOCK
    if kind.batch_size is not None and unit.batch_size is not None:
        same &= kind.batch_size == unit.batch_size[row]
    found = np.flatnonzero(same)
    return int(found[0]) if len(found) else None


def correction_warnings(found: UnitCorrection) -> tuple[str, ...]:
    """Return what makes a correction doubtful."""
    return tuple(
        f"this unit's {what} differs from its kind by {100 * math.expm1(value):+.0f} %: check that the same network "
        "and batch size were profiled on the same kind of board"
        for what, value in (("time", found.time_log), ("power", found.power_log))
        if abs(value) > DOUBTFUL
    )
