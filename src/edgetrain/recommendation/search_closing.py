"""The end of a search for loader arguments: original and best are measured alternately, and the gain must be certain.

A candidate that fails when it is measured again, or then exceeds the power limit, gives way to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edgetrain.recommendation.gain import GainInterval, all_begin_passes, gain_interval, mean_time_s
from edgetrain.recommendation.search_trials import SearchLimits, SearchTrial
from edgetrain.schema import LoaderArguments, LoaderMeasurement

CLOSING_PAIRS = 2  # of start and best; one more where the interval still contains zero
NO_GAIN = GainInterval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best arguments, the gain over the start, and every trial."""

    start: LoaderArguments
    best: LoaderArguments
    gain: GainInterval
    found: LoaderArguments  # the fastest candidate, whether or not its gain is certain
    found_gain: GainInterval
    start_s: float  # time per minibatch
    best_s: float
    trials: tuple[SearchTrial, ...]
    notes: tuple[str, ...]

    @property
    def changes(self) -> bool:
        """Whether anything is to be changed."""
        return self.best != self.start


class Repeating(Protocol):
    """A search, as its end needs it."""

    limits: SearchLimits
    trials: list[SearchTrial]
    notes: list[str]
    reserved: int  # trials that no other measurement may take

    def remaining(self) -> int: ...

    def repeat(self, arguments: LoaderArguments) -> LoaderMeasurement | None: ...

    def failed_last(self) -> bool: ...

    def note_failed(self, arguments: LoaderArguments) -> None: ...

    def exceeds_power(self, trials: Sequence[LoaderMeasurement]) -> bool: ...


class SearchClosing:
    """The last trials of a search, and its answer."""

    def __init__(self, search: Repeating, start: LoaderMeasurement) -> None:
        self._search, self._start = search, start
        self._starts: list[LoaderMeasurement] = []  # the original, measured again

    def close(self, candidates: Sequence[LoaderArguments]) -> SearchResult:
        """Return the first candidate that can be repeated within the limits, if its gain is certain."""
        search = self._search
        for place, arguments in enumerate(candidates):
            if place and search.remaining() < CLOSING_PAIRS:
                search.notes.append(
                    f"{arguments} comes next, and no trials are left to measure it again: give a larger --trials"
                )
                break
            bests = self._repeats(arguments, first=place == 0)
            if not bests:
                continue
            if search.exceeds_power(bests):
                search.notes.append(f"{arguments} is not recommended: measured again, it {self._draws(bests)}")
                continue
            return self._judged(arguments, bests)
        self._note_power()
        return self._unchanged(candidates[0] if candidates else self._start.arguments)

    def _repeats(self, arguments: LoaderArguments, first: bool) -> list[LoaderMeasurement]:
        """Measure original and candidate in turns; nothing where the candidate fails."""
        search = self._search
        bests: list[LoaderMeasurement] = []
        search.reserved = (2 if first else 1) * CLOSING_PAIRS
        for pair in range(CLOSING_PAIRS + 1):
            if pair >= CLOSING_PAIRS:
                if self._is_decided(bests) or search.remaining() < 2:
                    break
                search.reserved = 2
            needed = max(1, CLOSING_PAIRS - pair)
            if len(self._starts) <= pair and (first or search.remaining() > needed):
                found = search.repeat(self._start.arguments)
                self._starts += [] if found is None else [found]
            found = search.repeat(arguments)
            if found is not None:
                bests.append(found)
            elif search.failed_last():
                search.note_failed(arguments)
                return []
        if not bests:
            search.notes.append(f"{arguments} could not be measured again, so it is not recommended")
        return bests

    def _is_decided(self, bests: Sequence[LoaderMeasurement]) -> bool:
        if not self._starts or not bests:
            return False
        gain = gain_interval(self._starts, bests, self._search.limits.minimize)
        return gain.lo > 0 or gain.hi < 0

    def _judged(self, arguments: LoaderArguments, bests: Sequence[LoaderMeasurement]) -> SearchResult:
        """Return a candidate that was repeated as the answer, if its gain is certain or the original is not allowed."""
        search = self._search
        # The original was not chosen for its time, so that its first measurement may count where there are few.
        starts = self._starts if len(self._starts) >= CLOSING_PAIRS else [self._start, *self._starts]
        gain = gain_interval(starts, bests, search.limits.minimize)
        if gain.lo > 0 or search.exceeds_power([self._start, *self._starts]):
            self._note_power()
            with_passes = all_begin_passes(starts, bests)
            start_s, best_s = (mean_time_s(each, with_passes) for each in (starts, bests))
            return self._result(arguments, gain, start_s, best_s, arguments, gain)
        search.notes.append(
            f"{arguments} looked best in the search, but measured again its gain was {gain.value:.1f} % "
            f"({gain.lo:.1f} to {gain.hi:.1f} %), which is not certain: nothing is to be changed"
        )
        return self._unchanged(arguments, gain)

    def _note_power(self) -> None:
        search, start = self._search, self._start
        if not search.exceeds_power([start]):
            return
        keeps = any(trial.measured and not search.exceeds_power([trial.measured]) for trial in search.trials)
        search.notes.append(
            f"the training as it is {self._draws([start])}"
            + ("" if keeps else ", and no setting that was tried draws less than that")
        )

    def _draws(self, trials: Sequence[LoaderMeasurement]) -> str:
        known = [trial.power_w for trial in trials if trial.power_w is not None]
        return f"draws {sum(known) / len(known):.1f} W, more than the {self._search.limits.max_power_w:g} W allowed"

    def _unchanged(self, found: LoaderArguments, gain: GainInterval = NO_GAIN) -> SearchResult:
        starts = self._starts or [self._start]
        start_s = mean_time_s(starts, with_passes=True)
        return self._result(self._start.arguments, NO_GAIN, start_s, start_s, found, gain)

    def _result(
        self,
        best: LoaderArguments,
        gain: GainInterval,
        start_s: float,
        best_s: float,
        found: LoaderArguments,
        found_gain: GainInterval,
    ) -> SearchResult:
        return SearchResult(
            self._start.arguments,
            best,
            gain,
            found,
            found_gain,
            start_s,
            best_s,
            tuple(self._search.trials),
            tuple(self._search.notes),
        )
