"""The power modes of `tune`: the best one with the loader arguments that were found, confirmed against the original."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edgetrain.api.boards import board_modes
from edgetrain.api.tune_request import TuneOptions
from edgetrain.errors import DeviceError, NeedsRoot, TrialError
from edgetrain.recommendation import (
    GainInterval,
    Goal,
    GoalLimits,
    SearchTrial,
    all_begin_passes,
    gain_interval,
    mean_time_s,
    search,
    spell_mode,
)
from edgetrain.schema import LoaderArguments, LoaderMeasurement, Measure, ModeMeasurement, PowerMode
from edgetrain.units import spell

MODE_TRIALS = 6
CLOSING = 2  # pairs of the original and the best mode


class MeasureInMode(Protocol):
    """Measures loader arguments in the power mode that `mode` names; None: as the device is."""

    mode: PowerMode | None

    def __call__(self, arguments: LoaderArguments) -> LoaderMeasurement: ...


@dataclass(frozen=True, slots=True)
class ChosenMode:
    """A power mode to set, and its gain together with the loader arguments."""

    mode: PowerMode
    gain: GainInterval
    start_s: float  # time per minibatch
    best_s: float


class ModeTuning:
    """The search for a power mode; `notes` say why none is chosen."""

    def __init__(
        self, measure: MeasureInMode, options: TuneOptions, device: str, add: Callable[[SearchTrial], None]
    ) -> None:
        self.notes: list[str] = []
        self._measure, self._options, self._device, self._add = measure, options, device, add

    def run(self, start: LoaderMeasurement, best: LoaderArguments) -> ChosenMode | None:
        """Search power modes with the best loader arguments; None where the mode is to stay as it is."""
        if start.power_w is None:
            self.notes.append("the device has power modes, but no power was measured: they were left as they are")
            return None
        goal = Goal(self._options.minimize, GoalLimits(max_power_w=self._options.max_power_w))
        try:
            chosen = search(board_modes(self._device).modes, goal, self._measure_mode(best), MODE_TRIALS)
            if chosen.choice.best is None:
                self.notes.append("no power mode keeps the limits")
                return None
            return self._confirmed(start, best, chosen.choice.best.mode)
        except NeedsRoot as error:
            self.notes.append(f"power modes were left as they are: {error}")
            return None
        finally:
            self._measure.mode = None

    def _measure_mode(self, arguments: LoaderArguments) -> Measure:
        def measure(mode: PowerMode) -> ModeMeasurement:
            self._measure.mode = mode
            began_s = time.monotonic()
            try:
                found = self._measure(arguments)
            except TrialError as error:
                raise DeviceError(f"could not measure {mode}: {error}") from error
            self._add(SearchTrial(arguments, "mode", found, "measured"))
            if found.power_w is None:
                raise DeviceError(f"the trial {found.run} has no power reading")
            took_s = time.monotonic() - began_s
            return ModeMeasurement(mode, found.e2e_s, found.power_w, found.origin, found.e2e_s, cost_s=took_s)

        return measure

    def _confirmed(self, start: LoaderMeasurement, best: LoaderArguments, mode: PowerMode) -> ChosenMode | None:
        """Measure the original and the best setting alternately, and keep the original if the gain is not certain."""
        starts: list[LoaderMeasurement] = []
        bests: list[LoaderMeasurement] = []
        for _ in range(CLOSING):
            for arguments, held, kept in ((start.arguments, None, starts), (best, mode, bests)):
                self._measure.mode = held
                failed = self._repeat(arguments, kept)
                if failed is not None and held is not None:
                    self._note_left(f"{spell_mode(mode)} could not be measured again ({failed})")
                    return None
        if not starts or not bests:
            self._note_left(f"{spell_mode(mode)} could not be compared with the original again")
            return None
        limit, draws_w = self._options.max_power_w, _mean_w(bests)
        over = limit is not None and any((one.power_w or 0.0) > limit for one in starts)
        if over:
            self.notes.append(
                f"the training as it is draws {spell(start.power_w, 'W')}, more than the {spell(limit, 'W')} allowed"
            )
        if limit is not None and draws_w > limit:
            allowed = f"draws {spell(draws_w, 'W')}, more than the {spell(limit, 'W')} allowed"
            self._note_left(f"measured again, {spell_mode(mode)} {allowed}")
            return None
        gain = gain_interval(starts, bests, self._options.minimize)
        if gain.lo > 0 or over:
            with_passes = all_begin_passes(starts, bests)
            return ChosenMode(mode, gain, mean_time_s(starts, with_passes), mean_time_s(bests, with_passes))
        self._note_left(
            f"{spell_mode(mode)} is the best power mode, but its gain of {gain.value:.1f} % ({gain.lo:.1f} to "
            f"{gain.hi:.1f} %) is not certain"
        )
        return None

    def _repeat(self, arguments: LoaderArguments, kept: list[LoaderMeasurement]) -> str | None:
        """Measure a setting again in the power mode held now; return why there is no measurement."""
        try:
            measured = self._measure(arguments)
        except TrialError as error:
            self._add(SearchTrial(arguments, "repeat", None, error.kind, str(error)))
            return str(error)
        kept.append(measured)
        self._add(SearchTrial(arguments, "repeat", measured, "measured"))
        return None

    def _note_left(self, why: str) -> None:
        self.notes.append(f"{why}: the power mode is left as it is")


def _mean_w(trials: list[LoaderMeasurement]) -> float:
    return sum(one.power_w or 0.0 for one in trials) / len(trials)
