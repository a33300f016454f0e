"""What can be measured here and what cannot, for a person in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgetrain.units import spell, spell_bytes, spell_seconds

_AREAS = (
    "training",
    "cpu",
    "memory",
    "memory clock",
    "storage",
    "gpu",
    "temperature",
    "power",
    "control",
    "lab",
    "record",
)
_MARKS = {True: ("yes", "green"), False: ("no", "red"), None: ("–", "bright_black")}


def show_findings(document: Mapping[str, Any]) -> RenderableType:
    """Return `doctor`'s document as text: the device, each finding, then the commands that would mend something."""
    findings = document["findings"]
    parts: list[RenderableType] = [_device(document), Text(""), _table(findings)]
    fixes = [finding for finding in findings if finding["fix"]]
    if fixes:
        parts += [Text(""), Text("what would mend it", style="bold")]
        for finding in fixes:
            parts.append(Text.assemble((f"  {finding['what']}: ", ""), (finding["fix"], "cyan")))
    parts += [Text(""), Text(_cost(document["overhead"]))]
    return Group(*parts)


def _device(document: Mapping[str, Any]) -> Text:
    device, power = document["device"], document["power"]
    facts = [
        device["model"] or device["name"],
        f"{device['cores']} cores" if device["cores"] else None,
        spell_bytes(device["ram_bytes"]) + " RAM" if device["ram_bytes"] else None,
        device["gpu"],
        f"kernel {device['kernel']}" if device["kernel"] else None,
    ]
    text = Text(", ".join(str(fact) for fact in facts if fact), style="bold")
    if power is None:
        text.append("\nenergy: cannot be measured here, no power sensor answers; it will be null", style="")
    else:
        how = "its own counter" if power["counter_column"] else "integral of " + " + ".join(power["columns"])
        new = f", a new value every {spell_seconds(power['refresh_s'])}" if power["refresh_s"] else ""
        text.append(f"\nenergy: of the {power['scope']}, from {how}{new}", style="")
    return text


def _table(findings: list[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in ("area", "what", "works", "found"):
        table.add_column(header, overflow="fold")
    for finding in sorted(findings, key=lambda each: _AREAS.index(each["area"]) if each["area"] in _AREAS else 99):
        mark, style = _MARKS[finding["works"]]
        table.add_row(finding["area"], finding["what"], Text(mark, style=style), Text(finding["detail"]))
    return table


def _cost(overhead: Mapping[str, Any]) -> str:
    share = overhead["cpu_share"] * 100
    count = len(overhead["per_probe"])
    return f"sampling these sensors costs {spell(share, '%', 2)} of one core here (measured, {count} probes)"
