"""A comparison of two settings, for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.analysis import Comparison
from edgetrain.report.text import plain_table
from edgetrain.units import spell, spell_seconds

LABELS = {
    "e2e": "end to end",
    "fetch_stall": "fetch stall without fill",
    "compute": "copy and compute",
    "energy": "energy",
    "steady": "end to end, steady state only",
    "steady_power": "power, steady state only",
}


def show_comparison(found: Comparison) -> RenderableType:
    """Return the comparison, epochs after the first and the first one apart."""
    parts: list[RenderableType] = [Text(f"A: {', '.join(found.a)}\nB: {', '.join(found.b)}\n")]
    for title, differences in (("epochs after the first", found.warm), ("the first epoch", found.cold)):
        if not differences:
            continue
        table = plain_table("per minibatch", "A", "B", title=title if found.cold else None)
        table.add_column("B against A", justify="left")
        for row in differences:
            table.add_row(LABELS[row.metric], spell_metric(row.a, row.unit), spell_metric(row.b, row.unit), row.words)
        parts += [table, Text("")]
    return Group(*parts)


def spell_metric(value: float, unit: str) -> str:
    """Spell a value whose unit begins with its symbol: `s per minibatch, end to end`."""
    symbol = unit.partition(" ")[0].rstrip(",")
    return spell_seconds(value) if symbol == "s" else spell(value, symbol)
