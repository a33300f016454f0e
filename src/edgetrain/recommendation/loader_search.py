"""Searches for the loader arguments with the least time or energy per minibatch, by measuring few of them.

A coordinate search: more workers while the loop waits for data, fewer where that gains nothing, then the values
between; prefetch, pinned memory and persistent workers where the trials so far show that they can matter. A model
may propose candidates, which are then measured first. The best one and the original are measured again alternately
(`search_closing`), and the change is recommended only where the interval of its gain is above zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from edgetrain.errors import TrialError
from edgetrain.recommendation.gain import all_begin_passes, mean_cost
from edgetrain.recommendation.loader_memory import MemoryEstimate
from edgetrain.recommendation.search_closing import CLOSING_PAIRS, SearchClosing, SearchResult
from edgetrain.recommendation.search_trials import SearchLimits, SearchTrial
from edgetrain.recommendation.trial_doubts import passing_doubts
from edgetrain.schema import LoaderArguments, LoaderMeasurement, MeasureLoader

BETTER = 0.02  # a smaller gain of one trial over another is not followed up
CLOSE = 0.06  # candidates this close to the best are measured again: trials of one setting differ by as much
STALLED = 0.03  # share of the time spent waiting for data below which more fetching gains nothing
STILL_STALLED = 0.10  # above this, more workers are tried even if the last step gained nothing
MAX_WITHOUT_GAIN = 2  # steps in a row
MAX_PREFETCH = 8
MAX_PROPOSED = 3


@dataclass(slots=True)
class LoaderSearch:
    """A search under way."""

    measure: MeasureLoader
    limits: SearchLimits
    report: Callable[[SearchTrial], None] = lambda trial: None
    trials: list[SearchTrial] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reserved: int = 2 * CLOSING_PAIRS  # trials that are kept for the end
    _ram: MemoryEstimate = field(default_factory=MemoryEstimate)
    _ignored: bool = False
    _usual: set[str] = field(default_factory=set)  # kinds of doubts that measuring again does not remove

    def run(self, start: LoaderMeasurement, proposed: Sequence[LoaderArguments] = ()) -> SearchResult:
        """Search from a first measurement of the script as it is."""
        self._note(SearchTrial(start.arguments, "start", start, "measured"))
        self._ram.learn(start)
        self._usual = {doubt.kind for doubt in passing_doubts(start)}
        best = start
        for arguments in list(proposed)[:MAX_PROPOSED]:
            best = self._better(best, self._try(arguments))
        best = self._search_persistent(best)
        if self.limits.change_workers:
            best = self._search_workers(best, start)
        best = self._search_persistent(best)
        best = self._search_rest(best)
        return SearchClosing(self, start).close(self._ranked(best, start))

    # Steps of the search

    def _search_persistent(self, best: LoaderMeasurement) -> LoaderMeasurement:
        """Try to keep the workers between passes, once, where a pass began in any trial.

        Not where the script makes a loader for each pass: its workers end with it.
        """
        now = best.arguments
        tried = any(trial.arguments.persistent for trial in self.trials)
        if not now.workers or tried or not self._workers_can_persist():
            return best
        return self._better(best, self._try(replace(now, persistent=True)))

    def _workers_can_persist(self) -> bool:
        seen = [trial.measured for trial in self.trials if trial.measured is not None]
        return any(one.passes > 0 for one in seen) and not any(one.made_anew for one in seen)

    def _search_workers(self, best: LoaderMeasurement, start: LoaderMeasurement) -> LoaderMeasurement:
        first = start.arguments.workers
        stall = best.stall_share if best.stall_share is not None else 1.0
        if stall >= STALLED or best.arguments.workers == 0:
            best = self._upward(best)
        if best.arguments.workers == first and first > 0:
            best = self._better(best, self._try(self._with_workers(best, 0)))
        for workers in self._between(best.arguments.workers):
            best = self._better(best, self._try(self._with_workers(best, workers)))
        return best

    def _upward(self, best: LoaderMeasurement) -> LoaderMeasurement:
        workers, without_gain = best.arguments.workers, 0
        while workers < self.limits.max_workers and without_gain < MAX_WITHOUT_GAIN:
            workers = min(max(1, 2 * workers), self.limits.max_workers)
            found = self._try(self._with_workers(best, workers))
            if found is None:
                break
            before, best = best, self._better(best, found)
            without_gain = 0 if best is not before else without_gain + 1
            stall = 1.0 if found.stall_share is None else found.stall_share
            if stall < (STILL_STALLED if without_gain else STALLED):
                break
        return best

    def _between(self, workers: int) -> list[int]:
        """Return worker counts next to the best one, between it and others that were measured."""
        tried = {trial.arguments.workers for trial in self.trials}
        below = [other for other in tried if other < workers]
        above = [other for other in tried if other > workers]
        found = []
        if above and min(above) - workers > 1:
            found.append((workers + min(above)) // 2)
        if below and workers - max(below) > 1:
            found.append((workers + max(below)) // 2)
        return found

    def _search_rest(self, best: LoaderMeasurement) -> LoaderMeasurement:
        now = best.arguments
        while now.workers and (best.stall_share or 0.0) >= STALLED and (now.prefetch or 2) < MAX_PREFETCH:
            found = self._better(best, self._try(replace(now, prefetch=2 * (now.prefetch or 2))))
            if found is best:
                break
            best, now = found, found.arguments
        if best.uses_gpu:
            best = self._better(best, self._try(replace(best.arguments, pin_memory=not best.arguments.pin_memory)))
        return best

    def _ranked(self, best: LoaderMeasurement, start: LoaderMeasurement) -> list[LoaderArguments]:
        """Return candidates, best first: those close to the best by their means after another measurement of each.

        The others that are better than the start follow: one of them is the answer where the best one fails.
        """
        if best.arguments == start.arguments:
            return []
        known = {best.arguments: [best]}
        for trial in self.trials:
            found = trial.measured
            if found is not None and trial.state == "measured" and trial.arguments != start.arguments:
                known.setdefault(trial.arguments, [found])
        known = {one: each for one, each in known.items() if not self.exceeds_power(each)}
        minimize, with_passes = self.limits.minimize, all_begin_passes(*known.values())
        order = sorted(known, key=lambda one: mean_cost(known[one], minimize, with_passes))
        close = [one for one in order if self._cost_ratio(known[one], known[best.arguments]) <= 1 + CLOSE]
        repeated = close[: max(0, self._left())]
        if len(repeated) < 2:
            repeated = []
        for arguments in repeated:
            if self._left() <= 0:
                break  # one before was measured twice, because of a doubt
            again = self._try(arguments, "repeat")
            if again is not None:
                known[arguments].append(again)
            elif self.failed_last():
                self.note_failed(arguments)
                del known[arguments]
        alive = [one for one in repeated if one in known and not self.exceeds_power(known[one])]
        with_passes = all_begin_passes(*(known[one] for one in alive))
        alive.sort(key=lambda one: mean_cost(known[one], minimize, with_passes))
        rest = [one for one in (best.arguments, *order) if one in known and one not in repeated]
        useful = [one for one in rest if self.exceeds_power([start]) or self._cost_ratio(known[one], [start]) < 1]
        return list(dict.fromkeys([*alive, *useful]))

    def _cost_ratio(self, ones: Sequence[LoaderMeasurement], others: Sequence[LoaderMeasurement]) -> float:
        with_passes, minimize = all_begin_passes(ones, others), self.limits.minimize
        return mean_cost(ones, minimize, with_passes) / mean_cost(others, minimize, with_passes)

    def _with_workers(self, best: LoaderMeasurement, workers: int) -> LoaderArguments:
        now = best.arguments
        if workers == 0:
            return replace(now, workers=0, prefetch=None, persistent=False)
        persistent = now.persistent if now.workers else self._workers_can_persist()
        return replace(now, workers=workers, prefetch=now.prefetch or 2, persistent=persistent)

    # One trial

    def remaining(self) -> int:
        """Return how many trials may still be made."""
        return self.limits.trials - sum(trial.state != "refused" for trial in self.trials)

    def _left(self) -> int:
        return self.remaining() - self.reserved

    def repeat(self, arguments: LoaderArguments) -> LoaderMeasurement | None:
        """Measure a setting again at the end; None where that gave nothing."""
        self.reserved = max(0, self.reserved - 1)
        return self._try(arguments, "repeat")

    def _try(self, arguments: LoaderArguments, role: str = "candidate") -> LoaderMeasurement | None:
        if role == "candidate":
            known = [trial for trial in self.trials if trial.arguments == arguments]
            if known and known[-1].state != "refused":
                return known[-1].measured
            if self._left() <= 0 or self._ignored:
                return None
            needed = self.ram_needed(arguments)
            limit = self.limits.ram_bytes
            if limit is not None and needed is not None and needed > limit:
                needs, most = f"{needed / 1e6:.0f} MB", f"{limit / 1e6:.0f} MB"
                reason = f"would need about {needs}, above the memory limit (--max-ram) of {most}"
                if not known:  # later trials can show that less is needed
                    self._note(SearchTrial(arguments, role, None, "refused", reason))
                return None
        found = self._measured(arguments, role)
        if found is None:
            return None
        doubts = [doubt for doubt in passing_doubts(found) if doubt.kind not in self._usual]
        if doubts and self._left() > 1:  # this one is not in the list yet
            self._note(SearchTrial(arguments, role, found, "doubtful", f"measured again: {doubts[0].text}"))
            found = self._measured(arguments, role)
            if found is None:
                return None
            self._usual |= {doubt.kind for doubt in doubts} & {doubt.kind for doubt in passing_doubts(found)}
        self._note(SearchTrial(arguments, role, found, "measured"))
        self._ram.learn(found)
        return found

    def _measured(self, arguments: LoaderArguments, role: str) -> LoaderMeasurement | None:
        try:
            return self.measure(arguments)
        except TrialError as error:
            self._note(SearchTrial(arguments, role, None, error.kind, str(error)))
            self._ignored = self._ignored or error.kind == "ignored"
            return None

    def failed_last(self) -> bool:
        """Return whether the last trial failed because of its setting, not because the script was about to write."""
        return self.trials[-1].measured is None and self.trials[-1].state != "writes"

    def note_failed(self, arguments: LoaderArguments) -> None:
        """Say that the last trial is why a setting is not recommended."""
        last = self.trials[-1]
        self.notes.append(
            f"{arguments} is not recommended: it could be trained with once and not again ({last.state}: {last.reason})"
        )

    def _note(self, trial: SearchTrial) -> None:
        self.trials.append(trial)
        self.report(trial)

    def _better(self, best: LoaderMeasurement, found: LoaderMeasurement | None) -> LoaderMeasurement:
        if found is None or self.exceeds_power([found]):
            return best
        if self.exceeds_power([best]) or self._cost_ratio([found], [best]) < 1 - BETTER:
            return found
        return best

    def exceeds_power(self, trials: Sequence[LoaderMeasurement]) -> bool:
        """Return whether the mean power of some trials of one setting is above the limit."""
        limit = self.limits.max_power_w
        known = [trial.power_w for trial in trials if trial.power_w is not None]
        return limit is not None and bool(known) and sum(known) / len(known) > limit

    def ram_needed(self, arguments: LoaderArguments) -> int | None:
        """Return what a trial would need; None: not known."""
        return self._ram.needed(arguments)
