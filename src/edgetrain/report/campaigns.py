"""A campaign for the terminal: its runs as a table by factor, what is left of it, how much epochs vary."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgetrain.analysis import CampaignResult, FactorRow, Spread, label, settings
from edgetrain.report.text import plain_table
from edgetrain.schema import CampaignPreview
from edgetrain.units import spell, spell_bytes, spell_seconds


def factor_cells(rows: Sequence[FactorRow]) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells of stall, compute and end-to-end time by factor."""
    names, settings_told = settings(rows)
    heads = [*names, "runs", "cold end to end", "stall", "of which fill", "later end to end", "stall", "compute"]
    table = []
    for row, setting in zip(rows, settings_told, strict=True):
        first, later = row.first_epoch, row.later_epochs
        cells = [*setting, str(len(row.runs))]
        cells += [spell_seconds(getattr(first, name, None)) for name in ("e2e_s", "stall_s", "fill_s")]
        cells += [spell_seconds(getattr(later, name, None)) for name in ("e2e_s", "stall_s")]
        cells += [spell_seconds(row.median_epoch.compute_s), spell_bytes(later.read_bytes if later else None)]
        table.append(cells)
    return [*heads, "read again"], table


def rows_markdown(rows: Sequence[FactorRow]) -> list[str]:
    """Return the table as Markdown lines."""
    heads, table = factor_cells(rows)
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(cells)} |" for cells in table)]


def factor_table(rows: Sequence[FactorRow]) -> Table:
    """Return stall, compute and end-to-end time by factor."""
    heads, cells = factor_cells(rows)
    table = plain_table(*(head.replace(" end to end", "\nend to end").replace("it fill", "it\nfill") for head in heads))
    for row in cells:
        table.add_row(*row)
    return table


def show_campaign(result: CampaignResult, repeats: int) -> RenderableType:
    """Return what a campaign found: times by factor, conclusions, and the spread where runs were repeated."""
    parts: list[RenderableType] = [factor_table(result.rows), *(Text(line) for line in result.conclusions)]
    if repeats > 1:
        parts.append(variability_table(result.variability))
    return Group(*parts)


def variability_table(spreads: Sequence[Spread]) -> Table:
    """Return how much epochs of one setting differ."""
    table = plain_table("setting", "units", "runs", "epochs", "mean epoch", "varies within", "between units")
    for one in spreads:
        shares = ["–" if share is None else f"{share:.1%}" for share in (one.within, one.between)]
        counts = [str(one.units), str(one.runs), str(one.epochs)]
        table.add_row(label(one.setting), *counts, spell_seconds(one.mean), *shares)
    return table


def show_campaign_preview(preview: CampaignPreview) -> RenderableType:
    """Return the runs of a plan and what is left of it."""
    table = plain_table("run", "repeat", "setting", "state")
    for one in preview.runs:
        state = "done" if one.done else ("failed" if one.failed else "to do")
        table.add_row(str(one.position + 1), str(one.repeat + 1), label(one.factors), state)
    cost = preview.cost
    time_left = spell_seconds(cost.time_s) if cost.time_s is not None else "not known before the first run"
    energy = spell(cost.energy_j, "J") if cost.energy_j is not None else "–"
    where = f" on {preview.device}" if preview.device != "auto" else ""
    count = "1 run" if preview.left == 1 else f"{preview.left} runs"
    return Group(table, Text(f"{count} to do{where}; time: {time_left}; energy: {energy} ({cost.energy_reason})"))
