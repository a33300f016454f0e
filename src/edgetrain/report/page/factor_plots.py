"""Pictures of a campaign by factor, as in the papers: times by setting, by a number that varies, and over the cache."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgetrain.analysis import CacheCurve, EpochSummary, FactorRow, Summary, label
from edgetrain.errors import UsageError
from edgetrain.report.page.bars import Bar, BarPart
from edgetrain.report.page.epochs import TIME_PARTS, seconds_by_part
from edgetrain.report.page.plot import COLOURS, Plot, PlotAxis, PlotMark, PlotSeries, PlotStyle
from edgetrain.schema import Scalar
from edgetrain.units import parse_bytes, spell_seconds

MAX_LINES = 2 * COLOURS  # combinations of the other factors in one picture
MAX_BARS = 80
NOT_FACTORS = ("dataset", "cpu_share")  # follow from other factors
BYTES = ("page_cache", "ram")
NAMES = {
    "workers": "loader workers",
    "batch_size": "batch size",
    "dataset_scale": "dataset size, times the smallest",
    "page_cache": "page cache",
    "prefetch": "batches prefetched per worker",
}


@dataclass(frozen=True, slots=True)
class RangeOf:
    """A median with the smallest and the largest of what it sums up."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Sequence[float]) -> RangeOf:
        """Sum up at least one value."""
        return RangeOf(float(np.median(values)), min(values), max(values))


def factor_value(name: str, value: Scalar) -> float | None:
    """Return a factor's value as a number; None where it is a word."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if name in BYTES:
        try:
            return float(parse_bytes(value))
        except UsageError:
            return None
    return None


def setting_bars(rows: Sequence[FactorRow], summaries: Mapping[str, Summary]) -> list[Bar]:
    """Return two bars per setting, first epoch and later ones: means over epochs and repeats, with the range."""
    bars = []
    for row in rows:
        known = [summaries[run] for run in row.runs if run in summaries]
        first = [run.epochs[0] for run in known if run.epochs]
        later = [epoch for run in known for epoch in run.epochs[1:]]
        for kind, epochs, times in (
            ("first epoch", first, row.first_epoch),
            ("later epochs", later, row.later_epochs),
        ):
            name = f"{label(row.factors)}: {kind}"
            if epochs:
                bars.append(_setting_bar(name, epochs))
            elif times is not None and not known:  # nothing was trained here: published or simulated times
                stall_s, compute_s = times.stall_s or 0.0, times.compute_s or 0.0
                rest_s = max(0.0, times.e2e_s - stall_s - compute_s)
                values = {"stall": stall_s, "compute": compute_s, "overhead": rest_s}
                parts = [BarPart(part, words, values.get(part, 0.0)) for part, words in TIME_PARTS]
                bars.append(Bar(name, parts, spell_seconds(times.e2e_s)))
    return bars[:MAX_BARS]


def _setting_bar(name: str, epochs: Sequence[EpochSummary]) -> Bar:
    parts = [seconds_by_part(epoch) for epoch in epochs]
    took = [epoch.e2e_s for epoch in epochs]
    total_s = sum(took)
    means = [BarPart(part, words, sum(one[part] for one in parts) / len(parts)) for part, words in TIME_PARTS]
    stalls = [epoch.fetch_stall_s for epoch in epochs if epoch.fetch_stall_s is not None]
    share = f", {sum(stalls) / total_s:.0%} stalled" if len(stalls) == len(took) and total_s > 0 else ""
    several = len(took) > 1
    end = spell_seconds(sum(took) / len(took)) + share
    return Bar(name, means, end, min(took) if several else None, max(took) if several else None)


def varied(rows: Sequence[FactorRow]) -> list[str]:
    """Return the factors that have at least two values in these rows, in their order."""
    names = dict.fromkeys(name for row in rows for name in row.factors if name not in NOT_FACTORS)
    return [name for name in names if len({str(row.get(name)) for row in rows}) > 1]


def factor_plots(rows: Sequence[FactorRow], summaries: Mapping[str, Summary], prefix: str = "") -> list[Plot]:
    """Return pictures of end-to-end time and stall by every factor that is a number with at least two values."""
    found = []
    names = varied(rows)
    for name in names:
        values = {factor_value(name, row.get(name)) for row in rows}
        if None in values or len(values) < 2:
            continue
        others = [other for other in names if other != name]
        for quantity, title in (("e2e_s", "End-to-end time"), ("fetch_stall_s", "Fetch stall")):
            plot = _factor_plot(rows, summaries, name, others, quantity, title, prefix)
            if plot is not None:
                found.append(plot)
    return found


def _factor_plot(
    rows: Sequence[FactorRow],
    summaries: Mapping[str, Summary],
    name: str,
    others: Sequence[str],
    quantity: str,
    title: str,
    prefix: str,
) -> Plot | None:
    lines: dict[str, list[tuple[float, RangeOf]]] = {}
    for row in rows:
        at = factor_value(name, row.get(name))
        epochs = [epoch for run in row.runs if run in summaries for epoch in _warm(summaries[run])]
        values = [value for epoch in epochs if (value := _quantity(epoch, quantity)) is not None]
        if at is None or not values:
            continue
        line = ", ".join(f"{other} {row.get(other)}" for other in others) or "all runs"
        lines.setdefault(line, []).append((at, RangeOf.of(values)))
    if not lines or max(map(len, lines.values())) < 2:
        return None
    series = tuple(
        _line(text, sorted(points, key=lambda point: point[0]), place)
        for place, (text, points) in enumerate(list(lines.items())[:MAX_LINES])
    )
    left_out = f"; {len(lines) - MAX_LINES} more settings are in the table only" if len(lines) > MAX_LINES else ""
    words = NAMES.get(name, name.replace("_", " "))
    return Plot(
        prefix + re.sub(r"[^a-z0-9]+", "-", f"{quantity}-by-{name}".lower()),
        f"{title} per epoch by {words}",
        PlotAxis(
            words, "B" if name in BYTES else "", whole=all(at == round(at) for line in lines.values() for at, _ in line)
        ),
        PlotAxis("seconds per epoch", "s", 0.0),
        series,
        f"{title} per epoch against {words}, one line per setting of the other factors",
        note=f"median over later epochs and repeats; whiskers: shortest and longest epoch{left_out}",
        height=260,
    )


def _warm(summary: Summary) -> Sequence[EpochSummary]:
    return summary.epochs[1:] or summary.epochs


def _quantity(epoch: EpochSummary, name: str) -> float | None:
    return epoch.e2e_s if name == "e2e_s" else epoch.fetch_stall_s


def _line(name: str, points: Sequence[tuple[float, RangeOf]], place: int) -> PlotSeries:
    return PlotSeries(
        name,
        np.asarray([at for at, _ in points]),
        np.asarray([value.median for _, value in points]),
        np.asarray([value.low for _, value in points]),
        np.asarray([value.high for _, value in points]),
        style=PlotStyle.MARKED,
        colour=str(place % COLOURS),
        dashed=place >= COLOURS,
    )


def cache_plots(curves: Sequence[tuple[str, CacheCurve]], prefix: str = "") -> list[Plot]:
    """Return the cached share of the dataset, and the reads from its medium, over the time of each run."""
    found = []
    for place, (name, curve) in enumerate(curves):
        end_s = curve.boundaries_s[-1]
        axis = PlotAxis("time since the first minibatch was asked for", "s", 0.0, max(end_s, 1e-9))
        marks = tuple(PlotMark(at, f"epoch {number}") for number, at in enumerate(curve.boundaries_s[:-1]))
        group = f"{prefix}cache-{place}"
        if len(curve.cached_share):
            share = PlotSeries("cached share", curve.share_at_s, curve.cached_share, colour="0", strong=True)
            found.append(
                Plot(
                    f"{group}-share",
                    f"Dataset in the page cache: {name}",
                    axis,
                    PlotAxis("share of the dataset", "1", 0.0, 1.0),
                    (share,),
                    f"Share of the dataset in the page cache over time, {name}",
                    marks,
                    group=group,
                    height=150,
                )
            )
        if len(curve.read_bytes_per_s):
            reads = PlotSeries("read", curve.reads_at_s, curve.read_bytes_per_s, colour="1", style=PlotStyle.BARS)
            found.append(
                Plot(
                    f"{group}-reads",
                    f"Reads from the storage medium: {name}",
                    axis,
                    PlotAxis("bytes per second", "B/s", 0.0),
                    (reads,),
                    f"Bytes read from the storage medium over time, {name}",
                    marks,
                    group=group,
                    height=150,
                )
            )
    return found
