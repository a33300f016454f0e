"""The figures of a table of power modes: time against power and energy, with the frontier and the stock modes."""

from __future__ import annotations

from edgetrain.report.figures.figure import FigureKind, FigureRow, PaperFigure
from edgetrain.report.page import ModeCloud


def mode_figures(cloud: ModeCloud, origin: str) -> list[PaperFigure]:
    """Return the scatters of every mode."""
    found = []
    front = cloud.frontier_rows.tolist()
    for name, values, unit in (("power", cloud.power_w, "W"), ("energy", cloud.energy_j, "J")):
        rows = [
            FigureRow("all modes", float(x), float(y))
            for x, y in zip(cloud.time_s.tolist(), values.tolist(), strict=True)
        ]
        rows += [FigureRow("frontier", float(cloud.time_s[row]), float(values[row])) for row in front]
        rows += [FigureRow(stock, float(cloud.time_s[at]), float(values[at])) for stock, at in cloud.stock.items()]
        found.append(
            PaperFigure(
                f"time-{name}",
                FigureKind.SCATTER,
                f"Time and {name} of {len(cloud.time_s):,} power modes",
                "seconds per minibatch",
                "W" if unit == "W" else "J per minibatch",
                ("series", "seconds_per_minibatch", "watts" if unit == "W" else "joules_per_minibatch"),
                rows,
                log_x=True,
                note=f"values are {origin}; the frontier is that of time and power",
            )
        )
    return found
