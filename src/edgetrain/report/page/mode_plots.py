"""Pictures of power modes: time against power and energy with the frontier, and predictions against measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgetrain.prediction import Array, ModeTable, Predictions, bounds, energy
from edgetrain.recommendation import frontier
from edgetrain.report.page.plot import Plot, PlotAxis, PlotMark, PlotSeries, PlotStyle, PointFact

SHOWN_INTERVALS = 60  # modes whose interval is drawn; all of them are in the table of errors
WIDE_RANGE = 8.0  # of energy, from which its axis is logarithmic
MAX_CLOUD = 6_000  # points drawn; a board has up to about 30,000 modes


@dataclass(frozen=True)
class ModeCloud:
    """Every mode of a board with its time, power and energy per minibatch; measured, or predicted with intervals."""

    modes: ModeTable
    time_s: Array
    power_w: Array
    energy_j: Array
    predicted: Predictions | None = None  # None: everything was measured
    stock: Mapping[str, int] = field(default_factory=dict)  # name: row
    max_power_w: float | None = None
    max_time_s: float | None = None  # per minibatch

    @staticmethod
    def of_predictions(modes: ModeTable, found: Predictions, stock: Mapping[str, int]) -> ModeCloud:
        """Return predicted modes."""
        return ModeCloud(modes, found.time_s, found.power_w, energy(found)[0], found, stock)

    @property
    def frontier_rows(self) -> NDArray[np.intp]:
        """The modes that no other mode beats in both time and power, the fastest first."""
        return frontier(self.time_s, self.power_w)

    @property
    def best_row(self) -> int | None:
        """The fastest mode within the limits; None where there are no limits or no mode keeps them.

        A predicted mode keeps a limit if its whole interval does: the one that is best by its value alone is more
        likely than others to be under-predicted.
        """
        if self.max_power_w is None and self.max_time_s is None:
            return None
        time_s, power_w, found = self.time_s, self.power_w, self.predicted
        if found is not None:
            time_s = bounds(found.time_s, found.time_log_sd, found.dof)[1]
            power_w = bounds(found.power_w, found.power_log_sd, found.dof)[1]
        within = np.ones(len(self.time_s), bool)
        goal = self.time_s
        if self.max_power_w is not None:
            within &= power_w <= self.max_power_w
        if self.max_time_s is not None:
            within &= time_s <= self.max_time_s
            goal = self.energy_j if self.max_power_w is None else goal
        rows = np.flatnonzero(within)
        return int(rows[np.argmin(goal[rows])]) if len(rows) else None


def mode_facts(modes: ModeTable, rows: NDArray[np.intp], energy_j: Array | None = None) -> tuple[PointFact, ...]:
    """Return cores and clocks of some modes, to be shown with their points."""
    found = [PointFact("cores", "", modes.cores[rows]), PointFact("CPU clock", "Hz", modes.cpu_hz[rows])]
    for name, column in (("GPU clock", modes.gpu_hz), ("memory clock", modes.emc_hz)):
        if np.isfinite(column).any():
            found.append(PointFact(name, "Hz", column[rows]))
    if energy_j is not None:
        found.append(PointFact("energy per minibatch", "J", energy_j[rows]))
    return tuple(found)


def _thinned(cloud: ModeCloud) -> NDArray[np.intp]:
    """Return the rows to draw: all, or an even sample with the extremes of time, power and energy."""
    count = len(cloud.time_s)
    if count <= MAX_CLOUD:
        return np.arange(count)
    order = np.argsort(cloud.time_s, kind="stable")
    kept = order[np.linspace(0, count - 1, MAX_CLOUD).astype(np.intp)]
    ends = [f(column) for column in (cloud.time_s, cloud.power_w, cloud.energy_j) for f in (np.argmin, np.argmax)]
    return np.unique(np.concatenate([kept, np.asarray(ends, np.intp)]))


def scatter(
    cloud: ModeCloud, quantity: str, profiled: ModeTable | None, origin: str, profiled_origin: str = "measured"
) -> Plot:
    """Return time against power or energy: all modes, the frontier, stock modes, limits and the chosen mode."""
    power = quantity == "power"
    values = cloud.power_w if power else cloud.energy_j
    unit, words = ("W", "power") if power else ("J", "energy per minibatch")
    rows, front = _thinned(cloud), cloud.frontier_rows
    # A few slow modes take many times the energy of all others, which a linear axis would press together.
    log = not power and float(values.max()) > WIDE_RANGE * float(values.min()) > 0
    series = [
        PlotSeries(
            f"all modes ({origin})",
            cloud.time_s[rows],
            values[rows],
            style=PlotStyle.POINTS,
            colour="cloud",
            facts=mode_facts(cloud.modes, rows, cloud.energy_j if power else None),
        ),
        _frontier_series(cloud, front, values, power),
    ]
    if profiled is not None and profiled.time_s is not None and profiled.power_w is not None:
        y = profiled.power_w if power else profiled.power_w * _mean_time(profiled)
        series.append(
            PlotSeries(
                f"profiled modes ({profiled_origin})",
                profiled.time_s,
                y,
                style=PlotStyle.POINTS,
                colour="2",
                strong=True,
                facts=mode_facts(profiled, np.arange(len(profiled))),
            )
        )
    if cloud.stock:
        stock = np.asarray(list(cloud.stock.values()), np.intp)
        series.append(
            PlotSeries(
                "stock modes",
                cloud.time_s[stock],
                values[stock],
                *_whiskers(cloud, stock, power),
                style=PlotStyle.POINTS,
                colour="1",
                strong=True,
                facts=mode_facts(cloud.modes, stock),
                labels=tuple(cloud.stock),
            )
        )
    best = cloud.best_row
    if best is not None:
        at = np.asarray([best], np.intp)
        series.append(
            PlotSeries(
                "best within the limits",
                cloud.time_s[at],
                values[at],
                *_whiskers(cloud, at, power),
                style=PlotStyle.POINTS,
                colour="6",
                strong=True,
                facts=mode_facts(cloud.modes, at),
                labels=("best",),
            )
        )
    return Plot(
        f"time-{quantity}",
        f"Time against {words}: {len(cloud.time_s):,} modes",
        PlotAxis("time per minibatch (logarithmic)", "s", log=True),
        PlotAxis(f"{words} (logarithmic)" if log else words, unit, log=log),
        tuple(series),
        f"Scatter of time per minibatch against {words} of every power mode, with the frontier and the stock modes",
        _limit_marks(cloud, power),
        _note(cloud, len(rows), power),
        height=420,
    )


def _mean_time(table: ModeTable) -> Array:
    assert table.time_s is not None
    return table.time_s if table.time_mean_s is None else table.time_mean_s


def _frontier_series(cloud: ModeCloud, front: NDArray[np.intp], values: Array, power: bool) -> PlotSeries:
    return PlotSeries(
        "frontier of time and power",
        cloud.time_s[front],
        values[front],
        style=PlotStyle.MARKED if power else PlotStyle.POINTS,
        colour="0",
        strong=not power,
        facts=mode_facts(cloud.modes, front, cloud.energy_j if power else None),
    )


Whiskers = tuple[Array | None, Array | None, Array | None, Array | None]


def _whiskers(cloud: ModeCloud, rows: NDArray[np.intp], power: bool) -> Whiskers:
    """Return the ends of the intervals of some modes: of y, then of x; None where everything was measured."""
    found = cloud.predicted
    if found is None:
        return None, None, None, None
    joules, joules_sd = energy(found)
    y, y_sd = (found.power_w, found.power_log_sd) if power else (joules, joules_sd)
    low, high = bounds(y[rows], y_sd[rows], found.dof)
    left, right = bounds(found.time_s[rows], found.time_log_sd[rows], found.dof)
    return low, high, left, right


def _limit_marks(cloud: ModeCloud, power: bool) -> tuple[PlotMark, ...]:
    found = []
    if power and cloud.max_power_w is not None:
        found.append(PlotMark(cloud.max_power_w, f"limit {cloud.max_power_w:g} W", "limit", "y"))
    if cloud.max_time_s is not None:
        found.append(PlotMark(cloud.max_time_s, f"limit {1e3 * cloud.max_time_s:g} ms", "limit", "x"))
    return tuple(found)


def _note(cloud: ModeCloud, drawn: int, power: bool) -> str:
    words = "mean power while training" if power else "power × mean time"
    if cloud.predicted is not None:
        words += "; predicted, whiskers are 90 % intervals"
    if drawn < len(cloud.time_s):
        words += f"; {drawn:,} of {len(cloud.time_s):,} modes are drawn"
    return words


@dataclass(frozen=True)
class HeldOut:
    """Predictions of modes that were measured but not used for the fit."""

    truth: ModeTable
    found: Predictions
    profiled: int

    def columns(self, quantity: str) -> tuple[Array, Array, Array, Array]:
        """Return truth, prediction and the ends of its interval, of time or power."""
        known = self.truth.time_s if quantity == "time" else self.truth.power_w
        assert known is not None
        if quantity == "time":
            return known, self.found.time_s, *bounds(self.found.time_s, self.found.time_log_sd, self.found.dof)
        return known, self.found.power_w, *bounds(self.found.power_w, self.found.power_log_sd, self.found.dof)

    def error(self, quantity: str) -> float:
        """Return the mean |relative error|."""
        truth, found, _, _ = self.columns(quantity)
        return float(np.mean(np.abs(found / truth - 1)))

    def coverage(self, quantity: str) -> float:
        """Return the share of modes whose truth lies in the interval."""
        truth, _, low, high = self.columns(quantity)
        return float(np.mean((truth >= low) & (truth <= high)))


def accuracy(held: HeldOut, quantity: str) -> Plot:
    """Return predicted against measured time or power; whiskers are the intervals of an even sample of modes."""
    truth, found, low, high = held.columns(quantity)
    unit, words = ("s", "time per minibatch") if quantity == "time" else ("W", "power")
    order = np.argsort(truth, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(SHOWN_INTERVALS, len(order))).astype(np.intp)]
    ends = np.asarray([truth.min(), truth.max()])
    scale = " (logarithmic)" if quantity == "time" else ""
    return Plot(
        f"predicted-{quantity}",
        f"Predicted against measured {words}",
        PlotAxis(f"measured {words}{scale}", unit, log=quantity == "time"),
        PlotAxis(f"predicted {words}{scale}", unit, log=quantity == "time"),
        (
            PlotSeries("equal", ends, ends, style=PlotStyle.MARKED, colour="ink"),
            PlotSeries(
                "predicted mode",
                truth,
                found,
                style=PlotStyle.POINTS,
                colour="cloud",
                facts=mode_facts(held.truth, np.arange(len(truth))),
            ),
            PlotSeries(
                "with its 90 % interval", truth[shown], found[shown], low[shown], high[shown], style=PlotStyle.POINTS
            ),
        ),
        f"Predicted against measured {words} of modes that were not profiled",
        note=(
            f"fitted on {held.profiled} profiled modes; {len(truth):,} others: mean error {held.error(quantity):.1%}, "
            f"{held.coverage(quantity):.0%} of the truths lie within the 90 % interval"
        ),
        height=340,
    )
