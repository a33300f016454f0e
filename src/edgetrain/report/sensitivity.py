"""Sensitivities for the terminal: one line per quantity, one column per clock."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.recommendation import Elasticity, Sensitivity
from edgetrain.report.text import plain_table

COLUMNS = {"cores": "cores", "cpu_hz": "CPU clock", "gpu_hz": "GPU clock", "emc_hz": "memory clock"}


def show_sensitivity(found: Sensitivity) -> RenderableType:
    """Return percent per percent, with intervals, for the terminal."""
    table = plain_table("% per % of", *COLUMNS.values(), "dominated by")
    cells: dict[str, dict[str, Elasticity]] = {}
    for each in found.elasticities:
        cells.setdefault(each.quantity, {})[each.factor] = each
    for quantity, row in cells.items():
        rule = found.rules.get(quantity)
        table.add_row(quantity, *(_cell(row[factor]) for factor in COLUMNS), COLUMNS.get(rule, "–") if rule else "–")
    percent = 100 * found.level
    lines: list[RenderableType] = [table, Text("")]
    lines.append(
        Text(f"{found.modes} modes, {found.origin}; [lo, hi] contains the true value in {percent:g} % of all cases")
    )
    if any(each.method == "regression" for each in found.elasticities):
        lines.append(Text("~ from a fit over all clocks: no modes differ only in this one"))
    reasons = {each.reason for each in found.elasticities if each.reason}
    lines += [Text(f"– {reason}") for reason in sorted(reasons)]
    lines += [Text(f"note: {note}", style="yellow") for note in found.notes]
    return Group(*lines)


def _cell(each: Elasticity) -> str:
    if each.value is None:
        return "–"
    mark = "~" if each.method == "regression" else ""
    return f"{mark}{each.value:+.2f} [{each.lo:+.2f}, {each.hi:+.2f}]"
