"""Runs made under the same conditions, as numbers with their uncertainty.

Three or more runs of a setting show the spread between runs: they are resampled, runs first, then their epochs. With
fewer, a run is taken to scatter as repeated settings of the same data do, or else as assumed here; to that is added
what the scatter between its own epochs leaves of uncertainty in their mean.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgetrain.analysis import LEVEL, MIN_RUNS, RESAMPLES, expansion, resampled_means
from edgetrain.student import quantile
from edgetrain.studies.conditions import Conditions
from edgetrain.studies.observations import ObservedEpoch, ObservedRun
from edgetrain.studies.uncertain import Uncertain

COLD, LATER = "cold", "later"
METRICS: Mapping[str, Callable[[ObservedEpoch], float | None]] = {
    "e2e": lambda epoch: epoch.e2e_s,
    "stall": lambda epoch: epoch.stall_s,
    "compute": lambda epoch: epoch.compute_s,
    "energy": lambda epoch: epoch.energy_j,
    "baseload": lambda epoch: epoch.baseload_j,
    "wait": lambda epoch: epoch.stall_s if epoch.wait_s is None else epoch.wait_s,
}
_E2E, _STALL, _COMPUTE, _ENERGY, _BASELOAD, _WAIT = range(len(METRICS))
MIN_FREEDOM = 4  # repeats less one, summed over settings: with fewer the spread seen is not trusted to be small
NORMAL_FREEDOM = 1e6  # from here on Student's t is the normal distribution
VISIBLE_STALL = 0.01  # of end-to-end time; the relative spread of smaller stalls means nothing

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RunSpread:
    """By how much runs of one setting differ: standard deviations of logarithms.

    Where repeats show it, it is as much wider as Student's t is than the normal distribution. Else it is assumed. In
    the lab, later epochs with 0 workers, which should not depend on the medium, differ by 10 % in their stall; the
    paper's times of one setting in four figures differ by 0.5 to 4 %, its mean powers by 1 to 3 %.
    """

    stall: float = 0.10
    rest: float = 0.02  # of end-to-end time without the stall
    power: float = 0.02


ASSUMED = RunSpread()


@dataclass(frozen=True)
class RepeatedRuns:
    """The runs of one setting."""

    conditions: Conditions
    runs: tuple[ObservedRun, ...]
    spread: RunSpread = ASSUMED

    @property
    def parameters(self) -> int | None:
        """Parameters of the network."""
        return next((run.parameters for run in self.runs if run.parameters is not None), None)

    @property
    def units(self) -> frozenset[str]:
        """The units that made these runs."""
        return frozenset(run.unit for run in self.runs)

    @property
    def whole(self) -> bool:
        """Whether epochs cover the dataset: a later one finds in the page cache what an earlier one has read."""
        return all(run.whole for run in self.runs)

    def epochs(self, phase: str) -> list[list[ObservedEpoch]]:
        """Return the epochs of each run, cold or later ones; runs that have none are left out."""
        found = [list(run.later) if phase == LATER else [run.cold] if run.cold else [] for run in self.runs]
        return [epochs for epochs in found if epochs]

    def get(self, metric: str, phase: str = LATER) -> Uncertain | None:
        """Return a metric per minibatch; None where it was not measured."""
        drawn = self._later if phase == LATER else self._cold
        if drawn is None:
            return None
        value, draws = drawn
        column = list(METRICS).index(metric)
        return Uncertain(float(value[column]), draws[:, column]) if np.isfinite(value[column]) else None

    def compute(self) -> Uncertain | None:
        """Return the compute time per minibatch; that of later epochs, as the first one contains CUDA's start."""
        later = self.get("compute", LATER)
        return self.get("compute", COLD) if later is None else later

    def visible_stall(self, phase: str = LATER) -> Uncertain | None:
        """Return the stall per minibatch; None also where it is too small for its changes to mean anything."""
        stall, epoch = self.get("stall", phase), self.get("e2e", phase)
        if stall is None or (epoch is not None and stall.value < VISIBLE_STALL * epoch.value):
            return None
        return stall

    def mean(self, value: Callable[[ObservedEpoch], float | None], phase: str = LATER) -> float | None:
        """Return the mean over all epochs of something that has no interval of its own."""
        known = [one for epochs in self.epochs(phase) for epoch in epochs if (one := value(epoch)) is not None]
        return sum(known) / len(known) if known else None

    @functools.cached_property
    def _cold(self) -> tuple[Array, Array] | None:
        return _drawn(self, COLD)

    @functools.cached_property
    def _later(self) -> tuple[Array, Array] | None:
        return _drawn(self, LATER)

    def having(self, *metrics: str) -> RepeatedRuns:
        """Return the runs whose later epochs have all of these metrics: what a ratio of two metrics is taken of."""

        def has(run: ObservedRun, metric: str) -> bool:
            return any(METRICS[metric](epoch) is not None for epoch in run.later)

        return self._of(run for run in self.runs if all(has(run, metric) for metric in metrics))

    def of_unit(self, unit: str) -> RepeatedRuns:
        """Return the runs of one unit."""
        return self.on_units({unit})

    def on_units(self, units: AbstractSet[str]) -> RepeatedRuns:
        """Return the runs that these units made."""
        return self if self.units <= units else self._of(run for run in self.runs if run.unit in units)

    def _of(self, runs: Iterable[ObservedRun]) -> RepeatedRuns:
        return RepeatedRuns(self.conditions, tuple(runs), self.spread)


def _drawn(group: RepeatedRuns, phase: str) -> tuple[Array, Array] | None:
    """Return every metric per minibatch: values, and draws of them; NaN where no run measured one.

    Each metric is that of the runs, and epochs, that have it. Metrics of the same runs are drawn together.
    """
    runs = [_table(epochs) for epochs in group.epochs(phase)]
    if not runs:
        return None
    means = np.stack([_mean_of_known(run) for run in runs])
    centre, counts = _mean_of_known(means), np.isfinite(means).sum(axis=0)
    seed = zlib.crc32(f"{group.conditions}|{group.runs[0].unit}|{phase}".encode())
    draws: Array = np.full((RESAMPLES, len(METRICS)), np.nan)
    if counts.min() < MIN_RUNS:
        errors = _epoch_errors(runs)
        draws = _assumed_draws(centre, group.spread, errors, np.maximum(counts, 1), np.random.default_rng(seed))
    for columns in _measured_together(runs):
        known = [run[np.isfinite(run[:, columns[0]])][:, columns] for run in runs]
        known = [run for run in known if len(run)]
        if len(known) >= MIN_RUNS:
            stretch = expansion(len(known) - 1, len(known))
            resampled = resampled_means(known, np.random.default_rng(seed))
            draws[:, columns] = _stretched(resampled, centre[columns], stretch)
    return centre, draws


def _measured_together(runs: Sequence[Array]) -> list[list[int]]:
    """Return the columns of these tables, those together that are known in the same rows."""
    known = np.isfinite(np.concatenate(runs))
    found: dict[bytes, list[int]] = {}
    for column in range(known.shape[1]):
        found.setdefault(known[:, column].tobytes(), []).append(column)
    return list(found.values())


def _mean_of_known(rows: Array) -> Array:
    """Return the mean of each column over the rows that have it; NaN where none has."""
    known = np.isfinite(rows)
    counts = known.sum(axis=0)
    total = np.where(known, rows, 0.0).sum(axis=0)
    means: Array = np.divide(total, counts, out=np.full(rows.shape[1], np.nan), where=counts > 0)
    return means


def _stretched(means: Array, centre: Array, stretch: float) -> Array:
    """Return means further away from their centre, by ratio: none falls below 0."""
    ratios = np.divide(means, centre, out=np.ones_like(means), where=centre > 0)
    draws: Array = centre * ratios**stretch
    return draws


def _table(epochs: Sequence[ObservedEpoch]) -> Array:
    rows = [[_per_minibatch(value(epoch), epoch) for value in METRICS.values()] for epoch in epochs]
    return np.asarray(rows, float)


def _per_minibatch(total: float | None, epoch: ObservedEpoch) -> float:
    return float("nan") if total is None or not epoch.minibatches else total / epoch.minibatches


def _epoch_errors(runs: Sequence[Array]) -> RunSpread:
    """Return the standard error that the scatter between epochs leaves in their mean, as a share of it."""
    return RunSpread(*(_relative_error([part(run) for run in runs]) for part in (_stalls, _rests, _powers)))


def _stalls(epochs: Array) -> Array:
    return epochs[:, _STALL]


def _rests(epochs: Array) -> Array:
    return epochs[:, _E2E] - np.nan_to_num(epochs[:, _STALL])


def _powers(epochs: Array) -> Array:
    return epochs[:, _ENERGY] / epochs[:, _E2E]


def _relative_error(runs: Sequence[Array]) -> float:
    known = [seen for run in runs if len(seen := run[np.isfinite(run)])]
    freedom = sum(len(run) - 1 for run in known)
    mean = float(np.mean([run.mean() for run in known])) if known else 0.0
    if not freedom or mean <= 0:
        return 0.0
    variance = sum(float(((run - run.mean()) ** 2).sum()) for run in known) / freedom
    return float(np.sqrt(variance * sum(1 / len(run) for run in known))) / len(known) / mean


def _assumed_draws(
    centre: Array, spread: RunSpread, errors: RunSpread, counts: NDArray[np.int64], draw: np.random.Generator
) -> Array:
    """Draw one or two runs: stall, the rest of the time, and power scatter each on their own.

    `counts` is how many runs have each metric, `errors` what their own epochs leave open.
    """
    by_stall, by_rest, by_power, by_baseload = (
        np.exp(np.hypot(deviation / np.sqrt(counts[column]), error) * draw.standard_normal(RESAMPLES))
        for column, deviation, error in (
            (_STALL, spread.stall, errors.stall),
            (_E2E, spread.rest, errors.rest),
            (_ENERGY, spread.power, errors.power),
            (_BASELOAD, spread.power, 0.0),  # it is measured once, before the epochs
        )
    )
    draws = np.empty((RESAMPLES, len(METRICS)))
    draws[:, _STALL] = centre[_STALL] * by_stall
    draws[:, _WAIT] = centre[_WAIT] * by_stall
    stall = draws[:, _STALL] if np.isfinite(centre[_STALL]) else np.zeros(RESAMPLES)
    rest = max(0.0, centre[_E2E] - np.nan_to_num(centre[_STALL]))
    draws[:, _E2E] = stall + rest * by_rest
    draws[:, _COMPUTE] = centre[_COMPUTE] * by_rest
    longer = draws[:, _E2E] / centre[_E2E] if np.isfinite(centre[_E2E]) else np.ones(RESAMPLES)
    draws[:, _ENERGY] = centre[_ENERGY] * longer * by_power
    draws[:, _BASELOAD] = centre[_BASELOAD] * longer * by_baseload
    return draws


@dataclass
class _Pool:
    """Sums up how much repeats of a setting differ."""

    squares: float = 0.0
    freedom: int = 0

    def add(self, phases: Sequence[Sequence[float]]) -> None:
        """Add one setting: a value of each run, in its cold and in its later epochs. A run counts once."""
        logs = [np.log([value for value in values if value > 0 and np.isfinite(value)]) for values in phases]
        known = [values for values in logs if len(values) > 1]
        if known:
            freedom = max(len(values) for values in known) - 1
            self.squares += freedom * float(np.mean([values.var(ddof=1) for values in known]))
            self.freedom += freedom

    def deviation(self, assumed: float) -> float:
        """Return the deviation seen, widened as Student's t is; where few repeats show it, at least the assumed one."""
        if not self.freedom:
            return assumed
        seen = float(np.sqrt(self.squares / self.freedom))
        return seen * widening(self.freedom) if self.freedom >= MIN_FREEDOM else max(seen, assumed)


def widening(freedom: float) -> float:
    """Return how much wider a 95 % interval is where a deviation is known with this freedom only."""
    return quantile((1 + LEVEL) / 2, freedom) / quantile((1 + LEVEL) / 2, NORMAL_FREEDOM)


@dataclass
class _Pools:
    stall: _Pool = field(default_factory=_Pool)
    rest: _Pool = field(default_factory=_Pool)
    power: _Pool = field(default_factory=_Pool)

    def add(self, group: RepeatedRuns) -> None:
        phases = [[_mean_of_known(_table(epochs)) for epochs in group.epochs(phase)] for phase in (COLD, LATER)]
        visible = [[one for one in means if one[_STALL] > VISIBLE_STALL * one[_E2E]] for means in phases]
        self.stall.add([[one[_STALL] for one in means] for means in visible])
        self.rest.add([[one[_E2E] - np.nan_to_num(one[_STALL]) for one in means] for means in phases])
        self.power.add([[one[_ENERGY] / one[_E2E] for one in means] for means in phases])

    def spread(self, assumed: RunSpread) -> RunSpread:
        return RunSpread(
            self.stall.deviation(assumed.stall),
            self.rest.deviation(assumed.rest),
            self.power.deviation(assumed.power),
        )


def group_runs(runs: Iterable[ObservedRun]) -> tuple[RepeatedRuns, ...]:
    """Group runs by their conditions; each group knows how runs of its network scatter in these data."""
    by_conditions: dict[Conditions, list[ObservedRun]] = {}
    for run in _with_scope(list(runs)):
        by_conditions.setdefault(run.conditions, []).append(run)
    groups = [RepeatedRuns(conditions, tuple(made)) for conditions, made in by_conditions.items()]
    everything = _Pools()
    of_network: dict[str, _Pools] = {}
    for group in groups:
        everything.add(group)
        of_network.setdefault(group.conditions.network, _Pools()).add(group)
    overall = everything.spread(ASSUMED)
    return tuple(
        RepeatedRuns(group.conditions, group.runs, of_network[group.conditions.network].spread(overall))
        for group in groups
    )


def _with_scope(runs: Sequence[ObservedRun]) -> list[ObservedRun]:
    """Count runs without energy as runs of their board's only sensor: their times are times of the same setting."""
    scopes: dict[str, set[str]] = {}
    for run in runs:
        if run.conditions.power_scope is not None:
            scopes.setdefault(run.conditions.board, set()).add(run.conditions.power_scope)
    only = {board: next(iter(known)) for board, known in scopes.items() if len(known) == 1}
    return [
        replace(run, conditions=replace(run.conditions, power_scope=only[run.conditions.board]))
        if run.conditions.power_scope is None and run.conditions.board in only
        else run
        for run in runs
    ]
