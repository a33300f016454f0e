"""Searches for the loader arguments with the least time or energy per minibatch, by measuring few of them.

A coordinate search: more workers while the loop waits for data, fewer where that gains nothing, then the values
between; prefetch, pinned memory and persistent workers where the first measurement shows that they can matter. A model
may propose candidates, which are then measured first. The best one and the original are measured again alternately, and
the change is recommended only where the interval of its gain is above zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from edgetrain.errors import TrialError
from edgetrain.recommendation.gain import GainInterval, gain_interval
from edgetrain.schema import LoaderArguments, LoaderMeasurement, MeasureLoader, RamUse

BETTER = 0.02  # a smaller gain of one trial over another is not followed up
CLOSE = 0.06  # candidates this close to the best are measured again: trials of one setting differ by as much
STALLED = 0.03  # share of the time spent waiting for data below which more fetching gains nothing
STILL_STALLED = 0.10  # above this, more workers are tried even if the last step gained nothing
MOST_WITHOUT_GAIN = 2  # steps in a row
CLOSING_PAIRS = 2  # of start and best, at the end; one more where the interval still contains zero
MOST_PREFETCH = 8
MOST_PROPOSED = 3
RAM_MARGIN = 1.05  # on the estimate
WORKER_LEAST_BYTES = 32 << 20  # a forked interpreter dirties about this much


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """What the search may use."""

    max_workers: int
    ram_bytes: int | None = None
    trials: int = 11
    minimise: str = "time"  # time | energy
    max_power_w: float | None = None
    change_workers: bool = True  # False: the dataset is a stream, of which each worker would deliver a copy


@dataclass(frozen=True, slots=True)
class SearchTrial:
    """One trial of a search: what was asked, why, and what came of it."""

    arguments: LoaderArguments
    role: str  # start | candidate | repeat
    measured: LoaderMeasurement | None
    state: str  # measured | failed | ignored | memory | refused | too_short
    reason: str | None = None


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


@dataclass(slots=True)
class LoaderSearch:
    """A search under way."""

    measure: MeasureLoader
    limits: SearchLimits
    report: Callable[[SearchTrial], None] = lambda trial: None
    trials: list[SearchTrial] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _seen_ram: dict[int, RamUse] = field(default_factory=dict)  # the most that was seen, by workers
    _worker_bytes: int | None = None  # the largest worker seen
    _batch_bytes: float = 0.0  # the largest minibatch seen on its way from a worker
    _ignored: bool = False

    def run(self, start: LoaderMeasurement, proposed: Sequence[LoaderArguments] = ()) -> SearchResult:
        """Search from a first measurement of the script as it is."""
        self._note(SearchTrial(start.arguments, "start", start, "measured"))
        self._learn(start)
        best = start
        for arguments in list(proposed)[:MOST_PROPOSED]:
            best = self._better(best, self._try(arguments))
        best = self._search_persistent(best, start)
        if self.limits.change_workers:
            best = self._search_workers(best, start)
        best = self._search_rest(best)
        return self._close(start, self._decide(best, start))

    # Steps of the search

    def _search_persistent(self, best: LoaderMeasurement, start: LoaderMeasurement) -> LoaderMeasurement:
        now = best.arguments
        if not now.workers or now.persistent or start.passes == 0:
            return best
        return self._better(best, self._try(replace(now, persistent=True)))

    def _search_workers(self, best: LoaderMeasurement, start: LoaderMeasurement) -> LoaderMeasurement:
        first = start.arguments.workers
        stall = best.stall_share if best.stall_share is not None else 1.0
        if stall >= STALLED or best.arguments.workers == 0:
            best = self._upward(best, start)
        if best.arguments.workers == first and first > 0:
            best = self._better(best, self._try(self._with_workers(best, start, 0)))
        for workers in self._between(best.arguments.workers):
            best = self._better(best, self._try(self._with_workers(best, start, workers)))
        return best

    def _upward(self, best: LoaderMeasurement, start: LoaderMeasurement) -> LoaderMeasurement:
        workers, without_gain = best.arguments.workers, 0
        while workers < self.limits.max_workers and without_gain < MOST_WITHOUT_GAIN:
            workers = min(max(1, 2 * workers), self.limits.max_workers)
            found = self._try(self._with_workers(best, start, workers))
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
        while now.workers and (best.stall_share or 0.0) >= STALLED and (now.prefetch or 2) < MOST_PREFETCH:
            found = self._better(best, self._try(replace(now, prefetch=2 * (now.prefetch or 2))))
            if found is best:
                break
            best, now = found, found.arguments
        if best.uses_gpu:
            best = self._better(best, self._try(replace(best.arguments, pin_memory=not best.arguments.pin_memory)))
        return best

    def _decide(self, best: LoaderMeasurement, start: LoaderMeasurement) -> LoaderMeasurement:
        """Measure the best candidate and those close behind it again, as far as trials are left; the means decide."""
        costs = {best.arguments: [best]}
        for trial in self.trials:
            found = trial.measured
            if found is None or trial.arguments in (start.arguments, best.arguments) or self._over_power(found):
                continue
            if found.cost(self.limits.minimise) <= best.cost(self.limits.minimise) * (1 + CLOSE):
                costs[trial.arguments] = [found]
        rivals = sorted(costs, key=lambda one: costs[one][0].cost(self.limits.minimise))[: self._left()]
        if best.arguments == start.arguments or len(rivals) < 2:
            return best
        for arguments in rivals:
            again = self._try(arguments, "repeat")
            if again is not None:
                costs[arguments].append(again)
        means = {one: sum(each.cost(self.limits.minimise) for each in costs[one]) / len(costs[one]) for one in rivals}
        return costs[min(means, key=lambda one: means[one])][0]

    def _with_workers(self, best: LoaderMeasurement, start: LoaderMeasurement, workers: int) -> LoaderArguments:
        now = best.arguments
        if workers == 0:
            return replace(now, workers=0, prefetch=None, persistent=False)
        persistent = now.persistent if now.workers else start.passes > 0
        return replace(now, workers=workers, prefetch=now.prefetch or 2, persistent=persistent)

    # One trial

    def _left(self) -> int:
        closing = 2 * CLOSING_PAIRS
        return self.limits.trials - closing - sum(trial.state != "refused" for trial in self.trials)

    def _try(self, arguments: LoaderArguments, role: str = "candidate") -> LoaderMeasurement | None:
        if role == "candidate":
            known = [trial for trial in self.trials if trial.arguments == arguments]
            if known:
                return known[-1].measured
            if self._left() <= 0 or self._ignored:
                return None
            needed = self.ram_needed(arguments)
            limit = self.limits.ram_bytes
            if limit is not None and needed is not None and needed > limit:
                reason = f"would need about {needed / 1e6:.0f} MB, above the ceiling of {limit / 1e6:.0f} MB"
                self._note(SearchTrial(arguments, role, None, "refused", reason))
                return None
        try:
            found = self.measure(arguments)
        except TrialError as error:
            self._note(SearchTrial(arguments, role, None, error.kind, str(error)))
            self._ignored = self._ignored or error.kind == "ignored"
            return None
        self._note(SearchTrial(arguments, role, found, "measured"))
        self._learn(found)
        return found

    def _note(self, trial: SearchTrial) -> None:
        self.trials.append(trial)
        self.report(trial)

    def _better(self, best: LoaderMeasurement, found: LoaderMeasurement | None) -> LoaderMeasurement:
        if found is None or self._over_power(found):
            return best
        minimise = self.limits.minimise
        if self._over_power(best) or found.cost(minimise) < best.cost(minimise) * (1 - BETTER):
            return found
        return best

    def _over_power(self, found: LoaderMeasurement) -> bool:
        limit = self.limits.max_power_w
        return limit is not None and found.power_w is not None and found.power_w > limit

    def _note_power(self, start: LoaderMeasurement) -> None:
        if self._over_power(start):
            self.notes.append(
                f"the training as it is draws {start.power_w:.1f} W, more than the {self.limits.max_power_w:g} W "
                "allowed" + ("" if self._keeps_power() else ", and no setting that was tried draws less than that")
            )

    def _keeps_power(self) -> bool:
        return any(trial.measured is not None and not self._over_power(trial.measured) for trial in self.trials)

    # Memory

    def _learn(self, found: LoaderMeasurement) -> None:
        ram, workers = found.ram, found.arguments.workers
        if ram is None:
            return
        known = self._seen_ram.get(workers)
        if known is None or ram.peak_bytes > known.peak_bytes:
            self._seen_ram[workers] = ram
        if ram.worker_bytes is not None and workers:
            self._worker_bytes = max(self._worker_bytes or 0, ram.worker_bytes)
            # Where the loop waits for data, each worker has about one minibatch on its way.
            self._batch_bytes = max(self._batch_bytes, ram.shared_bytes / workers)
        self._batch_bytes = max(self._batch_bytes, ram.minibatch_bytes or 0.0)

    def ram_needed(self, arguments: LoaderArguments) -> int | None:
        """Return what a trial would need, from the trial with the nearest number of workers; None: not known.

        Each worker more adds what the largest worker seen had to itself; as long as none was seen, everything the main
        process holds: the most a fork can copy. All minibatches that can be on their way count, and the loop's own: one
        that waits in a queue is mapped by no process, and readings of processes miss it.
        """
        if not self._seen_ram:
            return None
        workers = arguments.workers
        near = min(self._seen_ram, key=lambda other: (abs(other - workers), other))
        ram = self._seen_ram[near]
        each = self._worker_bytes
        if each is None:
            each = max(ram.main_own_bytes, WORKER_LEAST_BYTES)
        flight = workers * (arguments.prefetch or 2) + 1 if workers else 0
        return int((ram.peak_bytes + (workers - near) * each + flight * self._batch_bytes) * RAM_MARGIN)

    # The end

    def _close(self, start: LoaderMeasurement, best: LoaderMeasurement) -> SearchResult:
        """Measure the original and the best setting alternately, and return whether the gain is certain."""
        minimise = self.limits.minimise
        if best.arguments == start.arguments:
            self._note_power(start)
            return self._result(start, best, GainInterval(0.0, 0.0, 0.0), start.e2e_s, start.e2e_s)
        starts: list[LoaderMeasurement] = []
        bests: list[LoaderMeasurement] = []
        gain = GainInterval(0.0, 0.0, 0.0)
        spent = sum(trial.state != "refused" for trial in self.trials)
        pairs = max(CLOSING_PAIRS, min(CLOSING_PAIRS + 1, (self.limits.trials - spent) // 2))
        for pair in range(pairs):
            if pair >= CLOSING_PAIRS and (gain.lo > 0 or gain.hi < 0):
                break
            for arguments, kept in ((start.arguments, starts), (best.arguments, bests)):
                found = self._try(arguments, "repeat")
                if found is not None:
                    kept.append(found)
            if starts and bests:
                gain = gain_interval(starts, bests, minimise)
        if not starts or not bests:
            self.notes.append("the best candidate could not be measured again, so nothing is recommended")
            return self._result(start, start, GainInterval(0.0, 0.0, 0.0), start.e2e_s, start.e2e_s, best)
        start_s = sum(one.e2e_s for one in starts) / len(starts)
        best_s = sum(one.e2e_s for one in bests) / len(bests)
        if gain.lo > 0 or (self._over_power(start) and not self._over_power(best)):
            self._note_power(start)
            return self._result(start, best, gain, start_s, best_s)
        self.notes.append(
            f"{best.arguments} looked best in the search, but measured again its gain was {gain.value:.1f} % "
            f"({gain.lo:.1f} to {gain.hi:.1f} %), which is not certain: nothing is to be changed"
        )
        return self._result(start, start, GainInterval(0.0, 0.0, 0.0), start_s, start_s, best, gain)

    def _result(
        self,
        start: LoaderMeasurement,
        best: LoaderMeasurement,
        gain: GainInterval,
        start_s: float,
        best_s: float,
        found: LoaderMeasurement | None = None,
        found_gain: GainInterval | None = None,
    ) -> SearchResult:
        return SearchResult(
            start.arguments,
            best.arguments,
            gain,
            (found or best).arguments,
            found_gain or gain,
            start_s,
            best_s,
            tuple(self.trials),
            tuple(self.notes),
        )
