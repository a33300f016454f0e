"""What is learned about one unit from its rounds: factors on the time or energy predicted for its kind of board.

Observed over predicted has three parts: the unit, which differs from its kind in all modes alike; the prediction's own
error in a mode; and the deviation of a single round. Each is taken as normal in its logarithm, so that the factor of a
mode that was tried is nearly what was observed there, and that of another mode only what the rounds say about the unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetrain.schema import PowerMode

UNIT_SIGMA = 0.05  # SIGMETRICS 2023: units of one kind differ by 1 to 8 % in epoch time
MODE_SIGMA = 0.08  # a mode predicted from about ten profiled ones; more where the planner picks what looks best
ROUND_SIGMA = 0.03  # rounds of one unit in one mode
FURTHEST = math.log(4.0)  # a ratio beyond this is a fault, not a unit: it is limited to that


@dataclass(frozen=True, slots=True)
class TriedMode:
    """The rounds of a unit in one mode; None is the board's own mode."""

    mode: PowerMode | None
    count: int
    log_sum: float  # of observed over predicted

    @property
    def variance(self) -> float:
        """Variance of its mean around the unit."""
        return MODE_SIGMA**2 + ROUND_SIGMA**2 / self.count

    @property
    def mean(self) -> float:
        """Mean logarithm of observed over predicted."""
        return self.log_sum / self.count


@dataclass(frozen=True, slots=True)
class RoundCorrection:
    """Observed over predicted of one unit, so far; `observe` returns it with one more round."""

    tried: tuple[TriedMode, ...] = ()

    @property
    def unit_factor(self) -> float:
        """What to multiply a prediction for this unit by, in a mode that it was not yet seen in."""
        return math.exp(self._unit_log())

    def factors(self, modes: Sequence[PowerMode | None]) -> list[float]:
        """Return what to multiply the prediction for each mode by."""
        unit = self._unit_log()
        known = {each.mode: math.exp(unit + MODE_SIGMA**2 / each.variance * (each.mean - unit)) for each in self.tried}
        other = math.exp(unit)
        return [known.get(_unnamed(mode), other) for mode in modes] if known else [other] * len(modes)

    def factor(self, mode: PowerMode | None) -> float:
        """Return what to multiply the prediction for one mode by."""
        return self.factors([mode])[0]

    def observe(self, mode: PowerMode | None, predicted: float, observed: float) -> RoundCorrection:
        """Return the correction after one more round; `predicted` is that of the kind of board, not corrected."""
        if not (predicted > 0 and observed > 0 and math.isfinite(predicted) and math.isfinite(observed)):
            return self
        ratio = max(-FURTHEST, min(FURTHEST, math.log(observed / predicted)))
        mode = _unnamed(mode)
        before = next((each for each in self.tried if each.mode == mode), TriedMode(mode, 0, 0.0))
        others = tuple(each for each in self.tried if each.mode != mode)
        return RoundCorrection((*others, TriedMode(mode, before.count + 1, before.log_sum + ratio)))

    def _unit_log(self) -> float:
        weights = [1 / each.variance for each in self.tried]
        seen = sum(weight * each.mean for weight, each in zip(weights, self.tried, strict=True))
        return seen / (1 / UNIT_SIGMA**2 + sum(weights))


def _unnamed(mode: PowerMode | None) -> PowerMode | None:
    return mode if mode is None or mode.name is None else replace(mode, name=None)
