"""How the times of single minibatches are distributed: histograms, the first epoch apart from the later ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgetrain.analysis import Parts
from edgetrain.report.page.plot import Floats, Plot, PlotAxis, PlotMark, PlotSeries, PlotStyle
from edgetrain.units import S_PER_US, spell_seconds

BINS = 60
MIN_S = 1e-5  # shorter waits are counted apart: on a logarithmic axis nothing is 0
SLOWEST = 10
QUANTITIES = (
    ("end to end", "e2e_s", "e2e"),
    ("fetch stall", "stall_s", "stall"),
    ("copy and compute", "busy_s", "busy"),
)


@dataclass(frozen=True, slots=True)
class SlowMinibatch:
    """One of the slowest minibatches of a run."""

    minibatch: int
    epoch: int
    at_s: float
    e2e_s: float
    stall_s: float
    copy_s: float | None
    compute_s: float
    overhead_s: float


def distributions(parts: Parts, origin: str) -> list[Plot]:
    """Return a histogram of each part of a minibatch's time."""
    if not len(parts):
        return []
    first = parts.epoch == parts.epoch[0]
    several = not first.all()
    found = []
    for title, column, name in QUANTITIES:
        values: Floats = getattr(parts, column)
        some = (
            [(f"epoch {parts.epoch[0]}", values[first], "1"), ("later epochs", values[~first], "0")] if several else []
        )
        plot = _histogram(title, name, values, some or [("all minibatches", values, "0")], origin)
        if plot is not None:
            found.append(plot)
    return found


def _histogram(title: str, name: str, values: Floats, some: list[tuple[str, Floats, str]], origin: str) -> Plot | None:
    shown = values[values >= MIN_S]
    if not len(shown):
        return None
    lo, hi = float(shown.min()), float(shown.max())
    edges = np.geomspace(lo / 1.02, hi * 1.02, BINS + 1)
    middle = np.sqrt(edges[1:] * edges[:-1])
    series = tuple(
        PlotSeries(label, middle, np.histogram(each, edges)[0].astype(float), style=PlotStyle.BARS, colour=colour)
        for label, each, colour in some
        if len(each)
    )
    short = int((values < MIN_S).sum())
    marks = tuple(
        PlotMark(float(np.percentile(values, percent)), f"p{percent}", "quantile")
        for percent in (50, 95, 99)
        if np.percentile(values, percent) >= MIN_S
    )
    quantiles = np.percentile(values, [50, 95, 99])
    spelled = ", ".join(f"p{p} {spell_seconds(float(q))}" for p, q in zip((50, 95, 99), quantiles, strict=True))
    note = f"{len(values):,} minibatches; {spelled}; longest {spell_seconds(float(values.max()))}"
    note += f"; {origin}"
    if short:
        note += f"; {short:,} shorter than {spell_seconds(MIN_S)} are not drawn"
    return Plot(
        f"distribution-{name}",
        f"Distribution: {title} per minibatch",
        PlotAxis(f"{title} per minibatch", "s", log=True),
        PlotAxis("minibatches", "", 0.0, whole=True),
        series,
        f"Histogram of {title} per minibatch. {note}",
        marks,
        note,
        height=200,
    )


def slowest_minibatches(parts: Parts, zero_us: int, most: int = SLOWEST) -> list[SlowMinibatch]:
    """Return the slowest minibatches, the first of each epoch (the pipeline's fill) left out."""
    if not len(parts):
        return []
    e2e_s = np.where(parts.first, -1.0, parts.e2e_s)
    count = min(most, int((e2e_s >= 0).sum()))
    if not count:
        return []
    rows = np.argpartition(-e2e_s, count - 1)[:count]
    rows = rows[np.argsort(-e2e_s[rows], kind="stable")]
    stall_s, copy_s, compute_s, overhead_s = parts.stall_s, parts.copy_s, parts.compute_s, parts.overhead_s
    return [
        SlowMinibatch(
            row,
            int(parts.epoch[row]),
            float(parts.begin_us[row] - zero_us) * S_PER_US,
            float(e2e_s[row]),
            float(stall_s[row]),
            float(copy_s[row]) if parts.copy_seen else None,
            float(compute_s[row]),
            float(overhead_s[row]),
        )
        for row in rows.tolist()
    ]
