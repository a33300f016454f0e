"""The live view in the terminal, for a board over SSH."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from edgetrain.live.watching import Watcher
from edgetrain.report import LiveCampaign, LiveRun, LiveView, Plot, plain_table, printable, spell_value
from edgetrain.units import spell, spell_seconds

BLOCKS = " ▁▂▃▄▅▆▇█"
NARROWEST, WIDEST = 12, 60  # characters of a line of blocks
BESIDE = 62  # characters that the names and numbers beside it take
MAX_SERIES = 14
SHORT = {
    "minibatches": "minibatch",
    "cpu": "CPU",
    "gpu": "load",
    "memory": "memory",
    "reads": "reads",
    "requests": "requests",
    "cache": "page cache",
    "power": "power",
    "clock": "clock",
    "temperature": "temperature",
    "fan": "fan",
}  # names of pictures that fit a terminal


def show_top(
    watcher: Watcher,
    console: Console,
    interval_s: float = 2.0,
    once: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show what is going on until the process is interrupted; `once`: print it once."""
    if once:
        console.print(live_table(watcher.read(), console.width))
        return
    first = live_table(watcher.read(), console.width)
    with Live(first, console=console, screen=console.is_terminal, auto_refresh=False) as shown:
        while True:
            sleep(interval_s)
            shown.update(live_table(watcher.read(), console.width), refresh=True)


def live_table(view: LiveView, width: int = 120) -> RenderableType:
    """Return what a view holds, for a terminal of this width."""
    parts: list[RenderableType] = []
    if view.problem:
        parts.append(Text(printable(view.problem), style="yellow"))
    parts += _running(view.running) if view.running else [Text("no training is running\n", style="bold")]
    if view.campaign:
        parts.append(_campaign(view.campaign))
    parts += _series(view.plots, min(max(width - BESIDE, NARROWEST), WIDEST))
    table = plain_table("run", "state", "origin", "network", "workers", title="recorded runs, newest first")
    for row in view.runs[:8]:
        cells = (row.state, row.origin, row.network, row.workers)
        table.add_row(row.run, *("–" if cell is None else str(cell) for cell in cells))
    return Group(*parts, Text(""), table)


def _running(run: LiveRun) -> list[RenderableType]:
    epoch = "" if run.epoch is None else f", epoch {run.epoch + 1}" + (f" of {run.epochs}" if run.epochs else "")
    head = f"{run.run}   {run.origin}   {run.state}{epoch}, {run.minibatches} minibatches"
    power = spell(run.power_w, "W") if run.power_w is not None else "not measured"
    stall = "–" if run.stall_share is None else f"{run.stall_share:.0%}"
    clock = "–" if run.gpu_hz is None else f"{run.gpu_hz / 1e6:.0f} MHz"
    facts = (
        f"{run.setting} · {run.device or 'this machine'}\n"
        f"minibatch {spell_seconds(run.median_s)} median · stalled {stall} · {spell(run.samples_per_s)} samples/s · "
        f"power {power} · GPU {clock} · hottest {spell(run.temp_c, '°C')}"
    )
    return [Text(printable(head), style="bold"), Text(printable(facts) + "\n")]


def _campaign(one: LiveCampaign) -> Text:
    planned = f" of {one.planned}" if one.planned else ""
    left = spell_seconds(one.left_s) if one.left_s is not None else "not known before the first run"
    failed = f", {one.failed} failed" if one.failed else ""
    return Text(f"campaign {one.id}: {one.done}{planned} runs done{failed}, time left {left}\n")


def _series(plots: Sequence[Plot], width: int) -> list[RenderableType]:
    table = plain_table("last minutes", "", "newest", "least", "most")
    table.columns[1].justify = "left"
    count = 0
    for plot in plots:
        for series in sorted(plot.series, key=lambda one: not one.strong)[:4]:
            values = series.y[np.isfinite(series.y)]
            if not len(values) or count >= MAX_SERIES:
                continue
            count += 1
            most = series.y if series.high is None else series.high
            least = series.y if series.low is None else series.low
            spelled = (values[-1], np.nanmin(least), np.nanmax(most))
            short = SHORT.get(plot.id, plot.title)
            name = f"{short}: {series.name}" if len(plot.series) > 1 else short
            table.add_row(name, spark(values, width), *(spell_value(float(value), plot.y.unit) for value in spelled))
    return [table] if count else []


def spark(values: np.ndarray[tuple[int], np.dtype[np.float64]], width: int) -> str:
    """Return a line of blocks: each is the mean of its part, the tallest the largest of them."""
    parts = [float(part.mean()) for part in np.array_split(values, min(width, len(values)))]
    top = max(max(parts), 0.0)
    if top <= 0:
        return BLOCKS[1] * len(parts)
    return "".join(BLOCKS[max(1, round(max(0.0, value) / top * (len(BLOCKS) - 1)))] for value in parts)
