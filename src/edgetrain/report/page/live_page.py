"""The live page: what runs now, its last minutes, the campaign, the recorded runs, and what-if."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edgetrain.analysis import TraceKind, find_loops, slowest, traces
from edgetrain.record import Run, RunRow
from edgetrain.report.page.packed import plots_json
from edgetrain.report.page.plot import Plot, PlotAxis
from edgetrain.report.page.shell import render, render_part
from edgetrain.report.page.timeline import minibatch_panel, panel
from edgetrain.units import S_PER_US

GROUP = "live"
BINS = 120  # points of one series: a few kilobytes per second and reader
SHOWN = (
    TraceKind.CPU,
    TraceKind.GPU,
    TraceKind.READS,
    TraceKind.POWER,
    TraceKind.CLOCK,
    TraceKind.TEMPERATURE,
    TraceKind.CACHE,
)


@dataclass(frozen=True, slots=True)
class LiveRun:
    """The run that is being recorded: its last minutes."""

    run: str
    state: str  # running | ended unexpectedly
    network: str | None
    device: str | None
    origin: str
    setting: str
    epoch: int | None
    epochs: int | None  # planned
    minibatches: int  # recorded so far
    median_s: float | None  # of the window
    stall_share: float | None
    samples_per_s: float | None
    power_w: float | None
    temp_c: float | None
    gpu_hz: float | None
    running_s: float | None


@dataclass(frozen=True, slots=True)
class LiveCampaign:
    """A campaign in progress."""

    id: str
    planned: int | None
    done: int
    failed: int
    left_s: float | None
    now: str | None  # the run being made, by its key


@dataclass(frozen=True)
class LiveView:
    """What a live page shows at one instant."""

    running: LiveRun | None
    campaign: LiveCampaign | None
    runs: tuple[RunRow, ...]
    plots: tuple[Plot, ...] = ()
    problem: str | None = None  # why something cannot be shown
    campaigns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What the page offers besides looking."""

    control: bool = False
    whatif: bool = False
    sliders: tuple[LiveSlider, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveSlider:
    """One setting that what-if can change."""

    name: str
    label: str
    values: tuple[str, ...] = field(default=())  # words; empty: a number between least and most
    least: int = 0
    most: int = 8


SLIDERS = (
    LiveSlider("workers", "loader workers", (), 0, 16),
    LiveSlider("batch_size", "batch size", ("8", "16", "32", "64", "128")),
    LiveSlider("storage", "storage", ("hdd", "sd", "emmc", "ssd", "nvme")),
    LiveSlider("ram", "RAM", ("2GiB", "4GiB", "8GiB", "16GiB", "32GiB", "64GiB")),
    LiveSlider("power_mode", "power mode", ("MAXN", "MODE_50W", "MODE_30W", "MODE_15W")),
)


def live_plots(run: Run, begin_us: int, end_us: int) -> list[Plot]:
    """Return the pictures of one window of a run; `run` holds at least what was recorded in it."""
    axis = PlotAxis("seconds before now", "s", (begin_us - end_us) * S_PER_US, 0.0)
    found = []
    parts = slowest(find_loops(run)).parts
    if len(parts):
        found.append(minibatch_panel(parts, axis, end_us, BINS, (), str(run.manifest.origin)))
    known = traces(run)
    for kind in SHOWN:
        some = [trace for trace in known if trace.kind is kind]
        if some:
            found.append(panel(run, kind, some, axis, end_us, BINS, ()))
    return [_grouped(plot) for plot in found]


def _grouped(plot: Plot) -> Plot:
    return replace(plot, group=GROUP, height=min(plot.height, 170))


def live_page(view: LiveView, options: LiveOptions | None = None) -> str:
    """Return the live page as it is now; its script follows what happens next."""
    offered = options or LiveOptions()
    return render(
        "live.html.j2",
        "Training now",
        view.plots,
        ("live.js",),
        live=True,
        view=view,
        options=offered,
        figures=view.plots,
    )


def live_event(view: LiveView) -> str:
    """Return what an open page needs to follow: the parts that changed as HTML, and the pictures."""
    parts = {name: render_part(f"live_{name}.html.j2", view=view) for name in ("now", "campaign", "runs")}
    shown = f'"parts":{json.dumps(parts)},"plots":{plots_json(list(view.plots))}'
    return "{" + shown + "}"


def live_document(view: LiveView) -> LiveDocument:
    """Return the same for programs, without pictures."""
    return LiveDocument(view.running, view.campaign, view.runs, view.problem)


@dataclass(frozen=True, slots=True)
class LiveDocument:
    """What is running and what is recorded, as JSON."""

    running: LiveRun | None
    campaign: LiveCampaign | None
    runs: Sequence[RunRow]
    problem: str | None
