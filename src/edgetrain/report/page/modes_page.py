"""The page of a board's power modes: time, power and energy of each, the frontier, stock modes, prediction errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgetrain.prediction import ModeTable, bounds
from edgetrain.recommendation import spell_mode
from edgetrain.report.page.mode_plots import HeldOut, ModeCloud, accuracy, scatter
from edgetrain.report.page.provenance import Facts
from edgetrain.report.page.shell import render
from edgetrain.schema import Origin
from edgetrain.units import spell, spell_seconds

MAX_ROWS = 40  # of the frontier, in the table


@dataclass(frozen=True)
class ModesContent:
    """What a page of power modes shows."""

    name: str
    board: str
    origin: Origin
    cloud: ModeCloud
    profiled: ModeTable | None = None  # what predictions were made from
    profiled_origin: Origin = Origin.MEASURED
    held_out: HeldOut | None = None
    facts: Facts | None = None
    warnings: Sequence[str] = ()


MODE_HEADS = ("mode", "time per minibatch", "power", "energy per minibatch")


def modes_page(content: ModesContent, title: str | None = None) -> str:
    """Return the page of power modes."""
    cloud = content.cloud
    origins = str(content.origin), str(content.profiled_origin)
    clouds = [scatter(cloud, quantity, content.profiled, *origins) for quantity in ("power", "energy")]
    checks = [accuracy(content.held_out, quantity) for quantity in ("time", "power")] if content.held_out else []
    front = cloud.frontier_rows
    step = max(1, -(-len(front) // MAX_ROWS))
    return render(
        "modes.html.j2",
        title or f"Power modes: {content.name}",
        [*clouds, *checks],
        content=content,
        verdict=_verdict(content),
        tiles=_tiles(content),
        clouds=clouds,
        checks=checks,
        heads=MODE_HEADS,
        front_rows=[mode_row(cloud, int(row)) for row in front[::step]],
        front_count=len(front),
        stock_rows=[mode_row(cloud, row, name) for name, row in cloud.stock.items()],
        facts=content.facts or [],
    )


def mode_row(cloud: ModeCloud, row: int, name: str = "") -> list[str]:
    """Return one mode with its time, power and energy, each with its interval where it is predicted."""
    mode = spell_mode(cloud.modes.mode(row))
    found = cloud.predicted
    time, power = spell_seconds(float(cloud.time_s[row])), spell(float(cloud.power_w[row]), "W")
    if found is not None:
        lo, hi = bounds(found.time_s[[row]], found.time_log_sd[[row]], found.dof)
        time += f" ({spell_seconds(float(lo[0]))} to {spell_seconds(float(hi[0]))})"
        lo, hi = bounds(found.power_w[[row]], found.power_log_sd[[row]], found.dof)
        power += f" ({spell(float(lo[0]))} to {spell(float(hi[0]))} W)"
    return [f"{name}: {mode}" if name else mode, time, power, spell(float(cloud.energy_j[row]), "J")]


def _verdict(content: ModesContent) -> str:
    cloud = content.cloud
    best = cloud.best_row
    if cloud.max_power_w is not None or cloud.max_time_s is not None:
        limits = [f"{cloud.max_power_w:g} W" if cloud.max_power_w is not None else ""]
        limits += [f"{spell_seconds(cloud.max_time_s)} per minibatch" if cloud.max_time_s is not None else ""]
        within = " and ".join(limit for limit in limits if limit)
        whole = " with its whole interval" if cloud.predicted is not None else ""
        if best is None:
            return f"No mode keeps the limit of {within}{whole}."
        mode, time, power, _ = mode_row(cloud, best)
        goal = "fastest mode" if cloud.max_power_w is not None else "mode of least energy"
        kept = f"; it keeps the limit{whole}" if whole else ""
        return f"Within {within} the {goal} is {mode}: {time} per minibatch at {power}, {content.origin}{kept}."
    least = int(np.argmin(cloud.energy_j))
    fastest = int(np.argmin(cloud.time_s))
    saved = 1 - cloud.energy_j[least] / cloud.energy_j[fastest]
    slower = cloud.time_s[least] / cloud.time_s[fastest] - 1
    return (
        f"The mode of least energy ({spell_mode(cloud.modes.mode(least))}) takes {saved:.0%} less energy per minibatch "
        f"than the fastest one and {slower:.0%} more time."
    )


def _tiles(content: ModesContent) -> list[tuple[str, str]]:
    cloud = content.cloud
    found = [
        (f"{len(cloud.time_s):,}", f"modes, {content.origin}"),
        (str(len(cloud.frontier_rows)), "of them on the frontier of time and power"),
        (spell_seconds(float(cloud.time_s.min())), "per minibatch in the fastest mode"),
        (spell(float(cloud.energy_j.min()), "J"), "per minibatch in the mode of least energy"),
        (f"{spell(float(cloud.power_w.min()))}–{spell(float(cloud.power_w.max()), 'W')}", "power of the modes"),
    ]
    if content.profiled is not None:
        found.append((str(len(content.profiled)), "modes were profiled"))
    if content.held_out is not None:
        found.append((f"{content.held_out.error('time'):.1%}", "mean error of the predicted time"))
        found.append((f"{content.held_out.error('power'):.1%}", "mean error of the predicted power"))
    return found
