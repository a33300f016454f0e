"""What a person reads of sensitivities: one line per quantity, one column per clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edgetrain.report.text import plain_table

FACTORS = {"cores": "cores", "cpu_hz": "CPU clock", "gpu_hz": "GPU clock", "emc_hz": "memory clock"}


def show_sensitivity(document: Mapping[str, Any]) -> RenderableType:
    """Return percent per percent, with intervals, for the terminal."""
    percent = 100 * document["level"]
    table = plain_table("% per % of", *FACTORS.values(), "ruled by")
    cells: dict[str, dict[str, Any]] = {}
    for each in document["elasticities"]:
        cells.setdefault(each["quantity"], {})[each["factor"]] = each
    for quantity, row in cells.items():
        rule = document["rules"].get(quantity)
        table.add_row(quantity, *(_cell(row[factor]) for factor in FACTORS), FACTORS.get(rule, "–") if rule else "–")
    lines: list[RenderableType] = [table, Text("")]
    lines.append(
        Text(f"{document['modes']} modes, {document['origin']}; [lo, hi] holds the value in {percent:g} % of the cases")
    )
    methods = {each["method"] for each in document["elasticities"]}
    if "regression" in methods:
        lines.append(Text("~ from a fit over all clocks: no modes differ in this one alone"))
    reasons = {each["reason"] for each in document["elasticities"] if each["reason"]}
    lines += [Text(f"– {reason}") for reason in sorted(reasons)]
    lines += [Text(f"note: {note}", style="yellow") for note in document["notes"]]
    return Group(*lines)


def _cell(each: Mapping[str, Any]) -> str:
    if each["value"] is None:
        return "–"
    mark = "~" if each["method"] == "regression" else ""
    return f"{mark}{each['value']:+.2f} [{each['lo']:+.2f}, {each['hi']:+.2f}]"
